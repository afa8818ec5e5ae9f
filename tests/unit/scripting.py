"""The Lua scripts, called one by one on fakeredis with the arguments that their headers document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import fakeredis

from memory_redis._engine import scripts
from memory_redis._engine.scripts import APPEND, CLAIM, CLEAR, COMPACT, RENEW, SETTLE, Script

SOURCES = {
    path.name.removesuffix(".lua"): path.read_text()
    for path in files(scripts.__name__).iterdir()
    if path.name.endswith(".lua")
}
SHARED = ("prelude", "records", "trimming", "headers")
"""What is put before a script: no operations themselves."""

ENTRY = 28
HOLD = 100_000
NAMES = (
    *("status", "version", "birth", "ends", "trimmed", "before", "healed", "refresh", "conflict", "missed"),
    "last",
)
COMPACTED = ("status", "removed", "healed", "version", "birth", "last", "conflict")


def append_id(number: int) -> bytes:
    """An append id of 12 bytes."""
    return b"id" + number.to_bytes(10)


def aged(record: bytes, ms: int) -> bytes:
    """A stamped record as if it had been stored so much earlier."""
    if record[:1] != b"{":
        return record[:1] + (int.from_bytes(record[1:7]) - ms).to_bytes(6) + record[7:]
    head, rest = record.split(b",", 1)
    return b'{"stored_at":%d,' % (int(head.removeprefix(b'{"stored_at":')) - ms) + rest


def ring_entry(identity: bytes, version: int, ms: int, count: int) -> bytes:
    """An entry of a ring, as the prelude documents it."""
    return identity + version.to_bytes(6) + ms.to_bytes(6) + count.to_bytes(4)


def ring_entries(ring: bytes) -> list[tuple[bytes, int, int, int]]:
    """Append id, version, time and number of messages of each entry of a ring."""
    assert len(ring) % ENTRY == 0
    parts = [ring[at : at + ENTRY] for at in range(0, len(ring), ENTRY)]
    return [
        (e[:12], int.from_bytes(e[12:18]), int.from_bytes(e[18:24]), int.from_bytes(e[24:])) for e in parts
    ]


def wanted(policy: str, number: int, last: bytes = bytes(12), birth: bytes = bytes(8)) -> bytes:
    """The version that an append expects; else refuse ("r"), append all the same ("a"), in one life ("s")."""
    return policy.encode() + number.to_bytes(6) + last + birth


@dataclass
class Conversation:
    """One conversation on a fake server of its own, by its scripts."""

    client: Any = field(default_factory=lambda: fakeredis.FakeRedis(server=fakeredis.FakeServer()))
    messages: str = "n:{u:c}:messages"
    meta: str = "n:{u:c}:meta"

    def call(self, script: Script, keys: Sequence[str], *words: Any) -> list[Any]:
        """A script's reply: a flat list of integers and bytes, which every protocol carries alike."""
        reply = self.client.eval(script.source, len(keys), *keys, *words)
        assert isinstance(reply, list)
        assert all(type(item) in (int, bytes) for item in reply), reply
        return reply

    def append(
        self,
        identity: bytes,
        *records: bytes,
        age: int = 0,
        ring: str = "r",
        hold: int = HOLD,
        want: bytes = b"",
        birth: bytes = b"birthtag",
        index: bytes | str = "",
        policy: str = "none",
        ms: int = 0,
        most: int = 0,
        keep: int = 0,
        old: int = 0,
        size: int = 0,
        again: int = 0,
    ) -> list[Any]:
        """The append script; its raw reply."""
        words = (identity, age, ring, hold, want, birth, index, policy, ms, most, keep, old, size, again)
        return self.call(APPEND, (self.messages, self.meta), *words, *records)

    def full(self, identity: bytes, *records: bytes, **options: Any) -> dict[str, Any]:
        """The append script; its reply by name, records or tag as `rest`."""
        reply = self.append(identity, *records, **options)
        return {**dict(zip(NAMES, reply, strict=False)), "rest": reply[len(NAMES) :]}

    def clear(self, identity: bytes, age: int = 0, hold: int = HOLD) -> list[Any]:
        """The clear script."""
        return self.call(CLEAR, (self.messages, self.meta), identity, age, b"birthtag", hold)

    def settle(self, identity: bytes, age: int = 0, key_hold: int = HOLD, hold: int = 0) -> list[Any]:
        """The settle script; without `hold` it leaves no mark."""
        return self.call(SETTLE, (self.messages, self.meta), identity, age, key_hold, hold)

    def renew(self, policy: str, ms: int, most: int = 0, why: str = "r", told: int = 0) -> list[Any]:
        """The renew script; `why` in words, or the own terms that are to be set."""
        own = why if " " in why else ""
        word = {"r": "read", "t": "touch", "d": "drop", "o": "own"}.get(why, "set")
        return self.call(RENEW, (self.messages, self.meta), policy, ms, most, word, told, own)

    def compact(
        self,
        identity: bytes,
        summary: bytes,
        seen: bytes,
        keep: int = 0,
        age: int = 0,
        claim: bytes = b"",
        trimmed: int = -1,
    ) -> dict[str, Any]:
        """The compact script; its reply by name. `seen` is as for `wanted`, without a policy."""
        words = (identity, age, HOLD, seen, keep, trimmed, claim, summary)
        reply = self.call(COMPACT, (self.messages, self.meta), *words)
        return dict(zip(COMPACTED, reply, strict=True))

    def claim(
        self,
        identity: bytes,
        most: int = -1,
        tokens: int = 0,
        counter: int = 0,
        ms: int = HOLD,
        size: int = 10**9,
    ) -> int:
        """The claim script; without `ms` a claim is given up."""
        [status] = self.call(CLAIM, (self.messages, self.meta), identity, ms, most, tokens, counter, size)
        return int(status)

    def state(self) -> tuple[list[bytes], dict[bytes, bytes]]:
        """All that is stored."""
        return self.records(), self.client.hgetall(self.meta)

    def records(self) -> list[bytes]:
        """What the list holds."""
        found: list[bytes] = self.client.lrange(self.messages, 0, -1)
        return found

    def field(self, name: str) -> bytes:
        """A field of the meta; empty where there is none."""
        value: bytes = self.client.hget(self.meta, name) or b""
        return value

    def now(self) -> int:
        """The server's time in ms."""
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000


_calculator = fakeredis.FakeRedis(server=fakeredis.FakeServer())


def calculated(lua: str, *words: Any, client: Any = None) -> list[Any]:
    """What a piece of Lua answers that stands behind the shared parts, as a script does."""
    source = "\n".join([*(SOURCES[name] for name in SHARED), lua])
    reply: list[Any] = (client or _calculator).eval(source, 0, *words)
    return reply
