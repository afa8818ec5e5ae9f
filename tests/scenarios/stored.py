"""What scenarios look at from outside: names of keys, what stands in them, and waiting."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import redis

from memory_redis import Snapshot, StoredMessage, ai, tool
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server, binaries, wait_until

real_servers = pytest.mark.parametrize("server", [binary.version for binary in binaries()], indirect=True)
"""For what fakeredis cannot do (see memory_redis.testing): the test runs on real servers only."""


@dataclass(frozen=True)
class Names:
    """The keys of a conversation with plain ids, as the documentation gives them."""

    messages: str
    meta: str
    index: str
    user: str = "ann"

    @classmethod
    def of(cls, namespace: str, user: str = "ann", conversation: str = "c1") -> Names:
        """The keys of one conversation."""
        base = f"{namespace}:{{{user}:{conversation}}}"
        return cls(f"{base}:messages", f"{base}:meta", f"{namespace}:{{{user}}}:conversations", user)


def keys_in(raw: redis.Redis, namespace: str) -> list[str]:
    """Every key of a namespace, or that begins like this one, sorted."""
    return sorted(key.decode() for key in raw.scan_iter(match=f"{namespace}*", count=1000))


def listed_in(raw: redis.Redis, keys: Names) -> set[str]:
    """The conversations that a user's index names; one that names none is gone, or ends by itself soon."""
    members = {member.decode() for member in raw.zrange(keys.index, 0, -1)} - {""}
    assert members or raw.pttl(keys.index) == -2 or 0 < raw.pttl(keys.index) <= 200_000
    return members


def reads(raw: redis.Redis) -> int:
    """How often the server has read a request; each look is one.

    It also reads the end of a connection, as of a test before, which leaves one client less.
    """
    told = raw.info()
    return int(told["total_reads_processed"]) + int(told["connected_clients"])


def texts(messages: Snapshot | Iterable[StoredMessage]) -> list[str]:
    """The texts of messages, in order."""
    return [m.text for m in (messages.messages if isinstance(messages, Snapshot) else messages)]


def positions(messages: Snapshot | Iterable[StoredMessage]) -> list[int | None]:
    """The positions of messages, in order."""
    return [m.seq for m in (messages.messages if isinstance(messages, Snapshot) else messages)]


def call(*ids: str, text: str = "") -> StoredMessage:
    """An answer that calls a tool once for each id."""
    return ai(text, tool_calls=[{"name": "look", "args": {}, "id": i, "type": "tool_call"} for i in ids])


def result(of: str) -> StoredMessage:
    """What the tool gave for a call."""
    return tool(f"result of {of}", tool_call_id=of)


def orphans(messages: Iterable[StoredMessage]) -> list[str]:
    """The calls whose results stand among messages while they themselves do not stand before them."""
    called: set[object] = set()
    lost: list[str] = []
    for message in messages:
        called.update(one["id"] for one in message.tool_calls)
        if message.type == "tool" and message.data["tool_call_id"] not in called:
            lost.append(message.data["tool_call_id"])
    return lost


async def take_turn(
    history: Any, *messages: StoredMessage, meanwhile: Callable[[], Awaitable[Any]], **options: Any
) -> Any:
    """A turn that adds `messages`, during which something else happens; the turn, once it is committed."""
    async with history.turn(**options) as turn:
        await meanwhile()
        turn.add(*messages)
    return turn


@contextmanager
def proxied(server: Server) -> Iterator[tuple[FaultProxy, str]]:
    """A fault proxy in front of a server, and its URL; whoever uses it has closed before it stops."""
    with FaultProxy(server.address) as proxy:
        yield proxy, f"redis://127.0.0.1:{proxy.port}/0"
        wait_until(lambda: not proxy.links, "the proxy's connections are closed")


class Backup:
    """Both keys of a conversation as they were, to be put back as a restored server would."""

    def __init__(self, raw: redis.Redis, keys: Names) -> None:
        self._raw, self._keys = raw, keys
        self._records, self._meta = raw.lrange(keys.messages, 0, -1), raw.hgetall(keys.meta)

    def restore(self) -> None:
        """The conversation is again what it was."""
        self._raw.delete(self._keys.messages, self._keys.meta)
        if self._records:
            self._raw.rpush(self._keys.messages, *self._records)
        if self._meta:
            self._raw.hset(self._keys.meta, mapping=self._meta)


async def eventually(condition: Callable[[], Awaitable[Any] | Any], what: str, seconds: float = 30.0) -> None:
    """Ask until `condition` answers something true."""
    with anyio.move_on_after(seconds):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await anyio.sleep(0.005)  # the pause between two questions
    raise AssertionError(f"not within {seconds:g} s: {what}")
