"""Reading a conversation: windows, pages, and what an idempotency key stands for.

A window of a number of messages is a range of the list. Any other is found by the headers of the
records, in one script. Where that cannot be, because records have no header, were counted by another
counter or are damaged, the tail is read in ranges of growing length, and the same rule applied here; so
it is where damaged ones are left out of a number of messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from memory_redis._engine.codec import Decoder
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import UNKNOWN_AGE, Call, Flow, Plan
from memory_redis._engine.ranges import META, PAGE, Found, Ranges, State, state_of
from memory_redis._engine.records import position_of
from memory_redis._engine.renewing import Renewer
from memory_redis._engine.scripts import SETTLE, WINDOW
from memory_redis._engine.settings import Settings
from memory_redis.counting import code_of
from memory_redis.errors import ConflictError, RecordError, TurnAlreadyStored
from memory_redis.expiry import Terms
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt
from memory_redis.selection import chosen
from memory_redis.snapshots import Snapshot
from memory_redis.telemetry import Event
from memory_redis.toolcalls import without_orphans
from memory_redis.versions import AppendId, Version
from memory_redis.windows import Bounds, Window

_FOUND, _TOO_MANY, _TOO_LARGE = 1, 2, -1
_NOTHING: Final = Bounds(messages=0)
"""A window that is asked for where only the server's time, and the state, are wanted."""
_FIRST_TAIL: Final = 64
"""Records that are read at first where headers do not tell, or damaged ones are left out; twice as many each
time they do not suffice."""


class Loaded(NamedTuple):
    """Messages of a window, what could not be decoded, and the replies to other calls."""

    state: State
    messages: list[StoredMessage]
    failed: tuple[RecordError, ...]
    extra: list[Any]


class Picked(NamedTuple):
    """What window.lua found."""

    status: int
    now_ms: int
    state: State
    position: int
    pinned: list[bytes]
    before: list[bytes]
    records: list[bytes]
    extra: list[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next page begins, and which life of the conversation the pages belong to."""

    position: int
    trimmed: int
    birth: bytes
    edited: int


class Reader:
    """The flows that read one conversation."""

    __slots__ = ("_age_ms", "_decoder", "_keys", "_ranges", "_settings", "_terms")

    def __init__(self, keys: ConversationKeys, settings: Settings, terms: Terms) -> None:
        self._keys, self._settings, self._terms = keys, settings, terms
        self._ranges = Ranges(keys, settings.limits)
        self._decoder = Decoder(keys.label, keys.owner, settings.limits)
        self._age_ms = settings.caps.age_ms or None

    def load(
        self, window: Window, on_corrupt: OnCorrupt, key_id: AppendId | None = None
    ) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        """A snapshot; and the messages stored under an idempotency key, None if there are none."""
        keys, settings = self._keys, self._settings
        extra: list[Call] = []
        if self._terms.on_read:
            extra.append(self._renewer().call("read"))
        if key_id is not None:
            asked = (key_id.value, str(UNKNOWN_AGE), str(settings.key_hold_ms), b"0")
            extra.append(Call(SETTLE, asked, keys=(keys.messages, keys.meta)))
        bounds = self._bounds(window)
        load = self._counted if bounds.plain else self._limited
        state, messages, failed, replies = yield from load(bounds, on_corrupt, tuple(extra))
        if self._terms.on_read:
            yield from self._renewer().told(replies[0])
        elif state.own_terms.endswith(b" 1"):
            yield from self._renewer().renew("own")
        summary, damaged = self._summary(state, on_corrupt)
        failed = (*damaged, *failed)
        emit = settings.emit
        if state.healed:
            emit(Event("heal", keys.label, version=state.version, detail="seen by a load"))
        if emit.wants_details():
            emit(Event("load", keys.label, len(messages), state.version))
        if failed:
            emit(Event("corrupt", keys.label, len(failed), state.version))
        snapshot = Snapshot(messages, state.token, state.trimmed, failed, summary)
        if key_id is None or replies[-1][0] != 1:
            return snapshot, None
        return snapshot, (yield from self._stored(replies[-1], key_id, state))

    def _renewer(self) -> Renewer:
        return Renewer(self._keys, self._terms, self._settings.emit)

    def _bounds(self, window: Window) -> Bounds:
        """The limits of a window; what retention will remove is not shown."""
        bounds, age = window.bounds, self._age_ms
        if age is None:
            return bounds
        return replace(bounds, age_ms=min(age, bounds.age_ms or age), kept_ms=age)

    def _summary(self, state: State, on_corrupt: OnCorrupt) -> tuple[str | None, tuple[RecordError, ...]]:
        """What stands in the place of messages that were summarised."""
        if state.summary is None:
            return None, ()
        messages, failed, _ = self._decoder.messages([state.summary], state.trimmed - 1, whole=True)
        if failed and on_corrupt == "raise":
            raise failed[0]
        return (messages[0].text if messages else None), failed

    def _counted(self, bounds: Bounds, on_corrupt: OnCorrupt, extra: tuple[Call, ...]) -> Flow[Loaded]:
        """A window that only a number of messages limits."""
        wanted, ranges = bounds.messages, self._ranges
        if wanted is None or wanted > PAGE:
            found = yield from ranges.everything(extra, wanted)
        else:
            # index 1 to 0 is an empty range
            found = yield from ranges.read(*((-wanted, -1) if wanted else (1, 0)), extra)
        state, records = found.state, found.records
        ranges.bound(records)
        messages, failed, tied = self._decoder.messages(records, found.position, whole=on_corrupt == "skip")
        if failed and on_corrupt == "raise":
            raise failed[0]
        if failed and wanted is not None and found.position > state.trimmed:
            # Records that are left out do not count: as many messages may stand further back.
            loaded = yield from self._tail(bounds, on_corrupt, 0, max(2 * wanted, _FIRST_TAIL))
            return loaded._replace(extra=found.extra)
        if tied and (wanted is not None or state.trimmed > state.edited):
            messages = without_orphans(messages, tied)
        return Loaded(state, messages, failed, found.extra)

    def _limited(self, bounds: Bounds, on_corrupt: OnCorrupt, extra: tuple[Call, ...]) -> Flow[Loaded]:
        """A window with limits that the headers of the records tell."""
        picked: Picked = yield self._pick(bounds, extra)
        if picked.status == _TOO_LARGE:
            raise self._ranges.too_large()
        loaded = self._shown(picked, bounds, on_corrupt) if picked.status == _FOUND else None
        if loaded is None:
            size = 2 * PAGE if picked.status == _TOO_MANY else _FIRST_TAIL
            loaded = yield from self._tail(bounds, on_corrupt, picked.now_ms, size)
        return loaded._replace(extra=picked.extra)

    def _pick(self, bounds: Bounds, extra: tuple[Call, ...]) -> Plan[Picked]:
        skip, told = len(extra), 3 + len(META)
        untold = bounds.oldest or (bounds.tokens is not None and not code_of(bounds.counter))
        call = self._window_call(_NOTHING if untold else bounds)

        def decode(replies: list[Any]) -> Picked:
            reply = replies[skip]
            status, now, length = reply[:3]
            state = state_of([field or None for field in reply[3:told]], length)
            if untold or status != _FOUND:
                return Picked(0 if untold else status, now, state, 0, [], [], [], replies[:skip])
            index, pinned, before = reply[told : told + 3]
            records = reply[told + 3 :]
            return Picked(
                status,
                now,
                state,
                state.trimmed + index,
                records[:pinned],
                records[pinned : pinned + before],
                records[pinned + before :],
                replies[:skip],
            )

        return Plan((*extra, call), decode, self._keys.label)

    def _window_call(self, bounds: Bounds) -> Call:
        limits = (
            bounds.messages,
            bounds.turns,
            bounds.tokens,
            code_of(bounds.counter),
            bounds.text_bytes,
            bounds.age_ms,
        )
        words = ["-1" if limit is None else str(limit) for limit in (*limits, bounds.kept_ms)]
        if not bounds.keep_system:
            words[-1] = ""
        words.append(str(self._settings.limits.load_bytes))
        return Call(WINDOW, (*words, *META), keys=(self._keys.messages, self._keys.meta))

    def _shown(self, picked: Picked, bounds: Bounds, on_corrupt: OnCorrupt) -> Loaded | None:
        """The window that the script found; None if damage makes that doubtful."""
        state, decode, skip = picked.state, self._decoder.messages, on_corrupt == "skip"
        pinned, broken, _ = decode(picked.pinned, state.trimmed, whole=skip)
        messages, failed, tied = decode(picked.records, picked.position, whole=skip)
        if (broken or failed) and not skip:
            raise (*broken, *failed)[0]
        if broken or failed or decode(picked.before, picked.position - 1, whole=True)[1]:
            return None
        if bounds.start_on is not None:
            start = next((at for at, one in enumerate(messages) if one.type == bounds.start_on), 0)
            messages, tied = messages[start:], [(at - start, links) for at, links in tied if at >= start]
        if tied:
            messages = without_orphans(messages, tied)
        return Loaded(state, [*pinned, *messages], (), [])

    def _tail(self, bounds: Bounds, on_corrupt: OnCorrupt, now_ms: int, size: int) -> Flow[Loaded]:
        """A window by the messages themselves, of which so many are read at first."""
        ranges = self._ranges
        extra = ranges.front if bounds.keep_system else ()
        while True:
            if bounds.oldest:
                found = yield from ranges.read(0, size - 1)
            elif size > PAGE:
                found = yield from ranges.everything(extra, size, strict=False)
            else:
                found = yield from ranges.read(-size, -1, extra)
            loaded = self._by_messages(found, size, bounds, on_corrupt, now_ms)
            if loaded is not None:
                return loaded
            size *= 2

    def _by_messages(
        self, found: Found, size: int, bounds: Bounds, on_corrupt: OnCorrupt, now_ms: int
    ) -> Loaded | None:
        """The window, if the records suffice that were read: `size` of them, where there are as many."""
        state, decode, ranges, oldest = found.state, self._decoder.messages, self._ranges, bounds.oldest
        strict, length = on_corrupt == "raise", state.version - state.trimmed
        records = ranges.fitting(found.records, oldest=oldest)
        position = found.position + (0 if oldest else len(found.records) - len(records))
        whole, no_more = len(records) == length, len(records) < min(size, length)
        messages, failed, _ = decode(records, position, whole=True)
        front, moved = records[:1], False
        if bounds.keep_system and not (whole or oldest):
            birth, front = found.extra  # of the same moment if they still belong to what was read after them
            moved = birth != state.birth or not front or position_of(front[0]) not in (None, state.trimmed)
        head, broken, _ = decode([] if moved else front, state.trimmed, whole=True)
        if broken and strict and bounds.keep_system:
            raise broken[0]
        bounds = replace(bounds, keep_system=bounds.keep_system and bool(head))
        cut = bool(failed) and strict
        if cut:  # what can be read as far as the first one that cannot
            edge = failed[0 if oldest else -1].position
            messages = [one for one in messages if (_place(one) < edge) is oldest]
        pick = chosen(messages, bounds, now_ms, whole=whole and not cut, head=head[0] if head else None)
        if cut and not pick.closed:
            raise failed[0 if oldest else -1]
        if moved or not pick.closed:
            if no_more:
                raise ranges.too_large()
            return None
        places = [_place(one) for one in messages[pick.first : pick.after]]
        if places:
            ranges.bound(records[places[0] - position : places[-1] + 1 - position])
        # Those that were left out are told as far as the window reaches; behind all messages if it is empty.
        start = places[0] if places else _place(messages[-1]) if messages else -1
        full = pick.after - pick.first == bounds.messages
        if pick.first == 0 and (oldest or (whole and not full)):
            start = -1
        end = _place(messages[pick.after]) if pick.after < len(messages) else state.version
        skipped = () if cut else tuple(one for one in failed if start < one.position < end)
        return Loaded(state, pick.messages, skipped, [])

    def _stored(self, reply: list[Any], key_id: AppendId, state: State) -> Flow[list[StoredMessage]]:
        """The messages of the append that a settled idempotency key stands for."""
        _, version, birth, count = reply
        start = version - count - state.trimmed
        found: Found | None = None
        if start >= 0:
            found = yield from self._ranges.read(start, start + count - 1)
        if found is None or found.position != version - count or len(found.records) != count:
            raise TurnAlreadyStored(self._keys.label, Version(version, key_id.value, birth, repeated=True))
        messages, failed, _ = self._decoder.messages(found.records, found.position, whole=True)
        if failed:  # half a turn does not stand for it
            raise failed[0]
        return messages

    def beginning(self, enough: int) -> Flow[Snapshot]:
        """The oldest messages, of so many bytes or more, as far as one load may bring them.

        Damaged ones are left out.
        """
        limits, ranges = self._settings.limits, self._ranges
        size = max(limits.load_bytes // limits.record_bytes, 1)  # fits, whatever the messages
        while True:
            found = yield from ranges.read(0, size - 1)
            records = ranges.fitting(found.records, oldest=True)
            if len(records) < size or sum(map(len, records)) >= enough:
                break
            size *= 2
        state = found.state
        summary, damaged = self._summary(state, "skip")
        messages, failed, _ = self._decoder.messages(records, found.position, whole=True)
        return Snapshot(messages, state.token, state.trimmed, (*damaged, *failed), summary)

    def page(
        self, place: Place | None, size: int, on_corrupt: OnCorrupt
    ) -> Flow[tuple[list[StoredMessage], Place | None]]:
        """A page from a place on (None: the oldest message), and the place of the next, if any."""
        keys = self._keys
        start, trimmed, slack = (place.position, place.trimmed, 0) if place else (0, 0, 0)
        clock = (self._window_call(_NOTHING),) if self._age_ms else ()
        while True:
            index = max(start - trimmed - slack, 0)
            found = yield from self._ranges.read(index, index + size + slack - 1, clock)
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
        if found.extra:
            _, now_ms, *_ = found.extra[0]
            oldest = now_ms - (self._age_ms or 0)
            messages = [one for one in messages if one.stored_ms is None or one.stored_ms >= oldest]
        after = position + len(records)
        if after >= state.version:
            return messages, None
        return messages, Place(after, state.trimmed, state.birth, state.edited)


def _place(message: StoredMessage) -> int:
    return -1 if message.seq is None else message.seq
