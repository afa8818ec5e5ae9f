"""Reading a conversation: windows, pages, and the version that belongs to them.

A read is plain commands in one pipeline, which costs less than a transaction or a script, and works
on a cluster. The birth tag, then the range, then the meta: tag and positions, which stand on the
records, tell whether a write came between. Where it did, or where records carry no position, the
careful read follows: meta, length, range and meta again, until both looks at the meta agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from memory_redis._engine import index
from memory_redis._engine.codec import Decoder
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import UNKNOWN_AGE, Call, Flow, Plan
from memory_redis._engine.records import position_of
from memory_redis._engine.scripts import RENEW, SETTLE
from memory_redis._engine.settings import Settings
from memory_redis.errors import (
    ConflictError,
    HistoryTooLarge,
    RecordError,
    TurnAlreadyStored,
)
from memory_redis.expiry import Expiry
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt
from memory_redis.snapshots import Snapshot
from memory_redis.telemetry import Event
from memory_redis.versions import AppendId, Version, known_version
from memory_redis.windows import LastMessages, Window, without_orphans

PAGE: Final = 10_000
"""Records that one round trip of a load of everything asks for at most."""


class State(NamedTuple):
    """A conversation's meta as a read found it."""

    birth: bytes
    version: int
    trimmed: int
    last: bytes
    size: int
    edited: int
    healed: bool

    @property
    def token(self) -> Version:
        """The state as a version to append against."""
        return known_version(self.version, self.last, self.birth)


class Found(NamedTuple):
    """What a read brought: the records and the position of the first of them."""

    state: State
    records: list[bytes]
    position: int
    steady: bool
    extra: list[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next page begins, and which life of the conversation the pages belong to."""

    position: int
    trimmed: int
    birth: bytes
    edited: int


def _number(value: bytes | None) -> int:
    return int(value) if value else 0


def _state(meta: Sequence[bytes | None], length: int) -> State:
    """The state that meta and length amount to: the rule of `heal` in prelude.lua."""
    version, trimmed, edited = _number(meta[1]), _number(meta[2]), _number(meta[5])
    healed = version - trimmed != length
    if healed:
        if length < version - trimmed:
            version += 1
            edited = version
        version = max(version, trimmed + length)
        trimmed = version - length
    return State(meta[0] or b"", version, trimmed, meta[3] or b"", _number(meta[4]), edited, healed)


def _extent(start: int, stop: int, length: int) -> tuple[int, int]:
    """The first index and the number of items that LRANGE gives of a list of that length."""
    first = max(length + start, 0) if start < 0 else min(start, length)
    last = length + stop if stop < 0 else min(stop, length - 1)
    return first, max(last - first + 1, 0)


class Reader:
    """The flows that read one conversation."""

    __slots__ = ("_birth", "_decoder", "_expiry", "_keys", "_meta", "_settings")

    def __init__(self, keys: ConversationKeys, settings: Settings, expiry: Expiry) -> None:
        self._keys, self._settings, self._expiry = keys, settings, expiry
        self._decoder = Decoder(keys.label, keys.owner, settings.limits)
        self._birth = Call("HGET", ("b",), keys=(keys.meta,))
        self._meta = Call("HMGET", ("b", "v", "t", "l", "n", "e"), keys=(keys.meta,))

    def _quick(self, start: int, stop: int, extra: tuple[Call, ...]) -> Plan[Found]:
        """Records from list index `start` to `stop`, both included, as LRANGE counts."""
        keys = self._keys
        skip = len(extra)

        def decode(replies: list[Any]) -> Found:
            birth, records, meta = replies[skip:]
            version, trimmed = _number(meta[1]), _number(meta[2])
            first, count = _extent(start, stop, version - trimmed)
            position = trimmed + first
            steady = birth == meta[0] and len(records) == count
            if records:
                ends = position_of(records[0]), position_of(records[-1])
                steady = steady and ends == (position, position + count - 1)
            else:
                steady = steady and version == trimmed
            state = State(
                meta[0] or b"", version, trimmed, meta[3] or b"", _number(meta[4]), _number(meta[5]), False
            )
            return Found(state, records, position, steady, replies[:skip])

        calls = (
            *extra,
            self._birth,
            Call("LRANGE", (str(start), str(stop)), keys=(keys.messages,)),
            self._meta,
        )
        return Plan(calls, decode, keys.label)

    def _careful(self, start: int, stop: int, extra: tuple[Call, ...] = ()) -> Plan[Found]:
        """As `_quick`, whatever stands there."""
        keys = self._keys
        skip = len(extra)

        def decode(replies: list[Any]) -> Found:
            meta, length, records, after = replies[skip:]
            state = _state(meta, length)
            first, count = _extent(start, stop, length)
            steady = meta[0] == after[0] and meta[1] == after[1] and meta[3] == after[2]
            return Found(
                state, records, state.trimmed + first, steady and len(records) == count, replies[:skip]
            )

        calls = (
            *extra,
            self._meta,
            Call("LLEN", keys=(keys.messages,)),
            Call("LRANGE", (str(start), str(stop)), keys=(keys.messages,)),
            Call("HMGET", ("b", "v", "l"), keys=(keys.meta,)),
        )
        return Plan(calls, decode, keys.label)

    def _read(self, start: int, stop: int, extra: tuple[Call, ...] = ()) -> Flow[Found]:
        # An empty range has no record that could show its position.
        read = self._careful if start > stop >= 0 else self._quick
        found: Found = yield read(start, stop, extra)
        replies = found.extra
        while not found.steady:
            found = yield self._careful(start, stop)
        return found._replace(extra=replies) if replies else found

    def load(
        self, window: Window, on_corrupt: OnCorrupt, key_id: AppendId | None = None
    ) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        """A snapshot; and the messages stored under an idempotency key, None if there are none."""
        keys, settings = self._keys, self._settings
        extra: list[Call] = []
        if self._expiry.renewed_by_reads:
            words = (self._expiry.policy, str(self._expiry.milliseconds))
            extra.append(Call(RENEW, words, keys=(keys.messages, keys.meta)))
        if key_id is not None:
            asked = (key_id.value, str(UNKNOWN_AGE), str(settings.key_hold_ms), b"0")
            extra.append(Call(SETTLE, asked, keys=(keys.messages, keys.meta)))
        wanted = window.count if isinstance(window, LastMessages) else None
        found, messages, failed = yield from self._window(wanted, on_corrupt, tuple(extra))
        state = found.state
        if self._expiry.renewed_by_reads and found.extra[0][1]:
            yield from index.refresh(keys, found.extra[0][2])
        emit = settings.emit
        if state.healed:
            emit(Event("heal", keys.label, version=state.version, detail="seen by a load"))
        if emit.wants_details():
            emit(Event("load", keys.label, len(messages), state.version))
        if failed:
            emit(Event("corrupt", keys.label, len(failed), state.version))
        snapshot = Snapshot(messages, state.token, state.trimmed, failed)
        if key_id is None or found.extra[-1][0] != 1:
            return snapshot, None
        return snapshot, (yield from self._stored(found.extra[-1], key_id, state))

    def _window(
        self, wanted: int | None, on_corrupt: OnCorrupt, extra: tuple[Call, ...]
    ) -> Flow[tuple[Found, list[StoredMessage], tuple[RecordError, ...]]]:
        if wanted is None or wanted > PAGE:
            found = yield from self._everything(extra, wanted)
        else:
            # index 1 to 0 is an empty range
            found = yield from self._read(*((-wanted, -1) if wanted else (1, 0)), extra)
        start = 0
        while True:
            records, position = found.records[start:], found.position + start
            self._bound(records)
            messages, failed, tied = self._decoder.messages(records, position, whole=on_corrupt == "skip")
            if failed and on_corrupt == "raise":
                raise failed[0]
            missing = 0 if wanted is None else wanted - len(messages)
            if not (failed and missing > 0 and position > found.state.trimmed):
                break
            # Records that were left out do not count: read further back for as many more.
            if start:
                start = max(start - missing, 0)
            else:
                found = yield from self._read(-(len(found.records) + missing), -1, extra)
        state = found.state
        if tied and (position > state.trimmed or state.trimmed > state.edited):
            messages = without_orphans(messages, tied)  # older ones are out of the window, or trimmed
        return found, messages, failed

    def _bound(self, records: Sequence[bytes]) -> None:
        limit = self._settings.limits.load_bytes
        if sum(map(len, records)) > limit:
            raise HistoryTooLarge(self._keys.label, f"more than {limit} bytes: read it with iterate()")

    def _everything(self, extra: tuple[Call, ...], wanted: int | None) -> Flow[Found]:
        """All records, or so many of the newest: a first page, and what else stood there at that moment."""
        limit = self._settings.limits.load_bytes
        first = (0, PAGE - 1) if wanted is None else (-wanted, PAGE - wanted - 1)
        while True:
            found = yield from self._read(*first, extra)
            state = found.state
            if wanted is None and state.size > limit and not state.healed:
                raise HistoryTooLarge(self._keys.label, f"more than {limit} bytes: read it with iterate()")
            records = found.records
            self._bound(records)
            position, trimmed, slack = found.position + len(records), state.trimmed, 0
            while position < state.version:
                index = max(position - trimmed - slack, 0)
                more = yield from self._read(index, index + PAGE + slack - 1)
                now = more.state
                if now.birth != state.birth or now.edited != state.edited:
                    break
                if more.position > position:  # what is still missing was trimmed, or the page began too late
                    if index == 0:
                        break
                    trimmed, slack = now.trimmed, slack * 2 or 64
                    continue
                early = position - more.position
                records = records + more.records[early : early + state.version - position]
                position, trimmed = found.position + len(records), now.trimmed
                self._bound(records)
            else:
                return Found(state, records, found.position, True, found.extra)

    def _stored(self, reply: list[Any], key_id: AppendId, state: State) -> Flow[list[StoredMessage]]:
        """The messages of the append that a settled idempotency key stands for."""
        _, version, birth, count = reply
        start = version - count - state.trimmed
        found: Found | None = None
        if start >= 0:
            found = yield from self._read(start, start + count - 1)
        if found is None or found.position != version - count or len(found.records) != count:
            raise TurnAlreadyStored(self._keys.label, Version(version, key_id.value, birth, repeated=True))
        messages, failed, _ = self._decoder.messages(found.records, found.position, whole=True)
        if failed:  # half a turn does not stand for it
            raise failed[0]
        return messages

    def page(
        self, place: Place | None, size: int, on_corrupt: OnCorrupt
    ) -> Flow[tuple[list[StoredMessage], Place | None]]:
        """A page from a place on (None: the oldest message), and the place of the next, if any."""
        keys = self._keys
        start, trimmed, slack = (place.position, place.trimmed, 0) if place else (0, 0, 0)
        while True:
            index = max(start - trimmed - slack, 0)
            found = yield from self._read(index, index + size + slack - 1)
            state = found.state
            if place is None or found.position <= start or index == 0:
                break
            # The history was trimmed meanwhile, and the page began too late. Begin the next one
            # the earlier, for writers may trim faster than pages are read.
            trimmed, slack = state.trimmed, slack * 2 or 64
        if place is not None and (state.birth != place.birth or state.edited != place.edited):
            gone = state.birth != place.birth
            error = ConflictError(keys.label, version=state.token, expired=gone, edited=not gone)
            error.outcome = None  # nothing was to be stored
            raise error
        early = max(start - found.position, 0)
        records, position = found.records[early : early + size], found.position + early
        messages, failed, _ = self._decoder.messages(records, position, whole=on_corrupt == "skip")
        if failed:
            if on_corrupt == "raise":
                raise failed[0]
            self._settings.emit(Event("corrupt", keys.label, len(failed), state.version))
        after = position + len(records)
        if after >= state.version:
            return messages, None
        return messages, Place(after, state.trimmed, state.birth, state.edited)
