"""Ranges of a conversation's records, and the state that belongs to them.

A read is plain commands in one pipeline, which costs less than a transaction or a script, and works
on a cluster. The birth tag, then the range, then the meta: tag and positions, which stand on the
records, tell whether a write came between. Where it did, or where records carry no position, the
careful read follows: meta, length, range and meta again, until both looks at the meta agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import Call, Flow, Plan
from memory_redis._engine.records import position_of
from memory_redis.errors import HistoryTooLarge
from memory_redis.limits import Limits
from memory_redis.versions import Version, known_version
from memory_redis.wording import counted

META: Final = ("b", "v", "t", "l", "n", "e", "s", "p")
"""The fields of meta that a read looks at."""

PAGE: Final = 10_000
"""Records that one round trip of a load of everything asks for at most."""

FIRST: Final = 1_000
"""Records that it asks for before it knows how many bytes there are."""


class State(NamedTuple):
    """A conversation's meta as a read found it."""

    birth: bytes
    version: int
    trimmed: int
    last: bytes
    size: int
    edited: int
    healed: bool
    summary: bytes | None
    own_terms: bytes

    @property
    def token(self) -> Version:
        """The state as a version to append against."""
        return known_version(self.version, self.last, self.birth, trimmed=self.trimmed)


class Found(NamedTuple):
    """What a read brought: the records and the position of the first of them."""

    state: State
    records: list[bytes]
    position: int
    steady: bool
    extra: list[Any]


def _number(value: bytes | None) -> int:
    return int(value) if value else 0


def state_of(meta: Sequence[bytes | None], length: int) -> State:
    """The state that meta and length amount to: the rule of `heal` in prelude.lua."""
    version, trimmed, edited = _number(meta[1]), _number(meta[2]), _number(meta[5])
    healed = version - trimmed != length
    if healed:
        if length < version - trimmed:
            version += 1
            edited = version
        version = max(version, trimmed + length)
        trimmed = version - length
    size, own = _number(meta[4]), meta[7] or b""
    return State(meta[0] or b"", version, trimmed, meta[3] or b"", size, edited, healed, meta[6], own)


def _extent(start: int, stop: int, length: int) -> tuple[int, int]:
    """The first index and the number of items that LRANGE gives of a list of that length."""
    first = max(length + start, 0) if start < 0 else min(start, length)
    last = length + stop if stop < 0 else min(stop, length - 1)
    return first, max(last - first + 1, 0)


class Ranges:
    """The flows that read records of one conversation by their place in the list.

    Attributes:
        front: calls for the birth tag, and then the first record.
    """

    __slots__ = ("_birth", "_keys", "_limit", "_meta", "front")

    def __init__(self, keys: ConversationKeys, limits: Limits) -> None:
        self._keys, self._limit = keys, limits.load_bytes
        self._birth = Call("HGET", ("b",), keys=(keys.meta,))
        self._meta = Call("HMGET", META, keys=(keys.meta,))
        self.front = self._birth, Call("LRANGE", ("0", "0"), keys=(keys.messages,))

    def _quick(self, start: int, stop: int, extra: tuple[Call, ...]) -> Plan[Found]:
        """Records from list index `start` to `stop`, both included, as LRANGE counts."""
        keys = self._keys
        skip = len(extra)

        def decode(replies: list[Any]) -> Found:
            birth, records, meta = replies[skip:]
            tag, version, trimmed, last, size, edited, summary, own_terms = meta
            version, trimmed = int(version or 0), int(trimmed or 0)
            first, count = _extent(start, stop, version - trimmed)
            position = trimmed + first
            steady = birth == tag and len(records) == count
            if records:
                ends = position_of(records[0]), position_of(records[-1])
                steady = steady and ends == (position, position + count - 1)
            else:
                steady = steady and version == trimmed
            numbers = int(size or 0), int(edited or 0)
            rest = summary, own_terms or b""
            state = State(tag or b"", version, trimmed, last or b"", *numbers, False, *rest)
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
            state = state_of(meta, length)
            first, count = _extent(start, stop, length)
            steady = list(meta[:4]) == list(after)
            return Found(
                state, records, state.trimmed + first, steady and len(records) == count, replies[:skip]
            )

        calls = (
            *extra,
            self._meta,
            Call("LLEN", keys=(keys.messages,)),
            Call("LRANGE", (str(start), str(stop)), keys=(keys.messages,)),
            Call("HMGET", ("b", "v", "t", "l"), keys=(keys.meta,)),
        )
        return Plan(calls, decode, keys.label)

    def read(self, start: int, stop: int, extra: tuple[Call, ...] = ()) -> Flow[Found]:
        """Records from list index `start` to `stop`, as LRANGE counts, and the replies to other calls."""
        # An empty range has no record that could show its position.
        read = self._careful if start > stop >= 0 else self._quick
        found: Found = yield read(start, stop, extra)
        replies = found.extra
        while not found.steady:
            found = yield self._careful(start, stop)
        return found._replace(extra=replies) if replies else found

    def bound(self, records: Sequence[bytes]) -> None:
        """See that records are not more than a load may bring.

        Raises:
            HistoryTooLarge: they are.
        """
        if sum(map(len, records)) > self._limit:
            raise self.too_large()

    def fitting(self, records: list[bytes], *, oldest: bool = False) -> list[bytes]:
        """So many records, from the last one back, as a load may bring, and the one before them.

        With `oldest` from the first one on, and the one behind them.
        """
        room = self._limit
        for count, record in enumerate(records if oldest else reversed(records), 1):
            room -= len(record)
            if room < 0:
                return records[:count] if oldest else records[-count:]
        return records

    def too_large(self) -> HistoryTooLarge:
        """The error of a load that would bring too much."""
        return HistoryTooLarge(
            self._keys.label, f"more than {counted(self._limit, 'byte')}: read it with iterate()"
        )

    def everything(self, extra: tuple[Call, ...], wanted: int | None, *, strict: bool = True) -> Flow[Found]:
        """All records, or so many of the newest: a first page, and what else stood there at that moment.

        Args:
            strict: more than a load may bring is an error; else the newest are given, as `fitting` does.
        """
        first = (0, FIRST - 1) if wanted is None else (-wanted, PAGE - wanted - 1)
        replies: list[Any] | None = None
        while True:
            found = yield from self.read(*first, extra if replies is None else ())
            replies = found.extra if replies is None else replies
            state = found.state
            if wanted is None and state.size > self._limit and not state.healed:
                raise self.too_large()
            records = found.records
            position, trimmed, slack = found.position + len(records), state.trimmed, 0
            records = self._held(records, strict)
            while position < state.version:
                index = max(position - trimmed - slack, 0)
                more = yield from self.read(index, index + PAGE + slack - 1)
                now = more.state
                if now.birth != state.birth or now.edited != state.edited:
                    break
                if more.position > position:  # what is still missing was trimmed, or the page began too late
                    if index == 0:
                        break
                    trimmed, slack = now.trimmed, slack * 2 or 64
                    continue
                early = position - more.position
                added = more.records[early : early + state.version - position]
                position, trimmed = position + len(added), now.trimmed
                records = self._held(records + added, strict)
            else:
                return Found(state, records, position - len(records), True, replies)

    def _held(self, records: list[bytes], strict: bool) -> list[bytes]:
        if strict:
            self.bound(records)
            return records
        return self.fitting(records)
