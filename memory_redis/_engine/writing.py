"""Changing a conversation: append, clear, settle. One atomic script each."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from memory_redis._engine import index
from memory_redis._engine.codec import Decoder
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import UNKNOWN_AGE, Call, Flow, Plan, Word
from memory_redis._engine.scripts import APPEND, CLEAR, SETTLE
from memory_redis._engine.settings import HOLD_MS, Settings
from memory_redis.errors import (
    AppendSettled,
    ConflictError,
    HistoryCleared,
    HistoryRolledBack,
    InvalidSetting,
    MemoryRedisError,
    ServerUnavailable,
    UnknownOutcome,
)
from memory_redis.expiry import Terms
from memory_redis.messages import StoredMessage
from memory_redis.options import TurnPolicy
from memory_redis.retention import Caps
from memory_redis.telemetry import Event
from memory_redis.versions import BIRTH_BYTES, ID_BYTES, AppendId, Version, known_version


class Status(IntEnum):
    """What the append script says became of an append."""

    STORED = 1
    REPEATED = 2
    INDEX_FIRST = 0
    CONFLICT = -1
    UNKNOWN = -2
    CLEARED = -3
    SETTLED = -4


class Met(IntEnum):
    """What the append script found in place of the expected version."""

    NOTHING = 0
    MOVED_ON = 1
    EDITED = 2
    ANOTHER_LIFE = 3
    CLEARED = 4
    ROLLED_BACK = 5


OnOther = TurnPolicy | Literal["same life"]
"""What an append does at another version than the expected one; `"same life"`: in another life, raise."""

CONFLICTS: Final = {Met.CLEARED: HistoryCleared, Met.ROLLED_BACK: HistoryRolledBack}
_BIRTHS: Final = (0, BIRTH_BYTES)
_INDEX_WORD: Final = 6
_HOLD: Final = str(HOLD_MS)
_CLEARED_OR_NOT: Final = "it may or may not be cleared; calling again is safe"
_UNKNOWN_AGE: Final = str(UNKNOWN_AGE)
_ON_OTHER: Final[dict[OnOther, bytes]] = {"append": b"a", "raise": b"r", "same life": b"s"}


class Reply(NamedTuple):
    """The reply of the append script, in the order of its header; a plain success has four parts."""

    status: int
    version: int
    birth: bytes
    ends: int
    trimmed: int = 0
    before: int = 0
    healed: int = 0
    refresh: int = 0
    conflict: int = 0
    missed: int = 0
    last: bytes = b""
    rest: Sequence[bytes] = ()

    @classmethod
    def of(cls, replies: list[Any]) -> Reply:
        """The reply with names.

        Raises:
            ValueError, TypeError: it is none of this script.
        """
        parts = replies[0]
        status, version, birth, ends = parts[:4]
        numbers = type(status) is type(version) is type(ends) is int
        if not numbers or type(birth) is not bytes or len(birth) not in _BIRTHS:
            raise TypeError("not the reply of an append")
        return cls(*parts) if len(parts) <= 11 else cls._make([*parts[:11], parts[11:]])


class Commit(NamedTuple):
    """A stored append: its version, and the conflict that it met under policy `append`."""

    version: Version
    conflict: ConflictError | None = None


def key_to_id(idempotency_key: str) -> AppendId:
    """The append id that a caller's idempotency key stands for.

    Raises:
        InvalidSetting: the key is not a non-empty text.
    """
    if not isinstance(idempotency_key, str) or not idempotency_key:
        raise InvalidSetting("an idempotency key is a non-empty text")
    text = idempotency_key.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(text, digest_size=ID_BYTES).digest()
    return AppendId(digest, time.monotonic(), keyed=True)


def token_bytes(version: Version) -> bytes:
    """A version as the scripts read it."""
    last, birth = version.last.rjust(ID_BYTES, b"\0"), version.birth.rjust(BIRTH_BYTES, b"\0")
    return version.number.to_bytes(6) + last + birth


def _wanted(expected: Version, on_conflict: OnOther) -> bytes:
    """An expected version as the append script reads it."""
    return _ON_OTHER[on_conflict] + token_bytes(expected)


@lru_cache(maxsize=256)  # a history is made for many an append
def _rules(terms: Terms, caps: Caps) -> tuple[str, ...]:
    """An expiry and a retention as the append script reads them."""
    return (*map(str, terms[:3]), *map(str, caps))


class Writer:
    """The flows that change one conversation."""

    __slots__ = ("_decoder", "_keys", "_rules", "_settings")

    def __init__(self, keys: ConversationKeys, settings: Settings, terms: Terms) -> None:
        self._keys, self._settings = keys, settings
        self._rules: tuple[Word, ...] = (b"" if keys.index is None else b"?", *_rules(terms, settings.caps))
        self._decoder = Decoder(keys.label, keys.owner, settings.limits)

    def append(
        self,
        messages: Sequence[StoredMessage],
        *,
        expected: Version | None = None,
        on_conflict: OnOther = "raise",
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
        records: list[bytes] | None = None,
    ) -> Flow[Commit]:
        """Store messages; all of them or none, once, however often the plan is sent.

        `records` are the messages as they were encoded before.
        """
        if not isinstance(expected, Version | None):
            raise InvalidSetting(
                "expected is a Version, as snapshot.version is; Version.parse() reads a text"
            )
        if not isinstance(append_id, AppendId | None):
            raise InvalidSetting("append_id is an AppendId; AppendId.parse() reads a text")
        again = append_id is not None
        if idempotency_key is not None:
            if again:
                raise InvalidSetting("give an idempotency key or an append id, not both")
            append_id = key_to_id(idempotency_key)
        elif append_id is None:
            append_id = AppendId.new()
        keys = self._keys
        encoder = self._settings.encoder
        records = encoder.records(messages, keys.owner) if records is None else encoder.together(records)
        want = b"" if expected is None else _wanted(expected, on_conflict)
        words = self._words(append_id, again, want)
        words += records
        while True:
            call = Call(APPEND, words, keys=(keys.messages, keys.meta), timed=True)
            reply: Reply = yield Plan(
                (call,), Reply.of, keys.label, writes=True, append_id=append_id, again=again
            )
            if reply.status != Status.INDEX_FIRST:
                break
            yield from index.touch(keys, reply.ends)
            words[_INDEX_WORD] = reply.rest[0]
        commit = self._appended(reply, messages, append_id)
        if reply.refresh:
            yield from index.refresh(keys, reply.ends)
        return commit

    def _words(self, append_id: AppendId, again: bool, want: bytes) -> list[Word]:
        """The arguments of the append script, without the records."""
        value, ring, hold, birth = append_id.value, b"r", _HOLD, append_id.value[:BIRTH_BYTES]
        if append_id.keyed:
            ring, hold = b"k", str(self._settings.key_hold_ms)
        if again or append_id.keyed:  # else the id is fresh, and as random as a tag has to be
            birth = secrets.token_bytes(BIRTH_BYTES)
        return [value, b"0", ring, hold, want, birth, *self._rules, b"1" if again else b"0"]

    def _appended(self, reply: Reply, messages: Sequence[StoredMessage], append_id: AppendId) -> Commit:
        """What the reply of an append means."""
        emit, label, status, number = self._settings.emit, self._keys.label, reply.status, reply.version
        met, repeated = None, False
        if status != Status.STORED:
            if status == Status.UNKNOWN:
                raise UnknownOutcome(label, append_id)
            if status == Status.SETTLED:
                raise AppendSettled(label, append_id)
            repeated = status == Status.REPEATED
        if reply.conflict:
            met = self._conflict(reply, messages, append_id)
            emit(Event("conflict", label, met.missed_count, number, detail=type(met).__name__))
            if status < 0:
                raise met
        if reply.healed:
            emit(Event("heal", label, version=number))
        if repeated:
            emit(Event("repeat", label, len(messages), number))
        if emit.wants_details():
            if not repeated:
                emit(Event("append", label, len(messages), number))
            if reply.ends:
                emit(Event("expiry", label, version=number, expire_at=reply.ends))
        return Commit(known_version(number, append_id.value, reply.birth, repeated), met)

    def _conflict(
        self, reply: Reply, messages: Sequence[StoredMessage], append_id: AppendId
    ) -> ConflictError:
        stored = reply.status > 0
        found, *_ = self._decoder.messages(reply.rest, reply.before - len(reply.rest), whole=True)
        kind = CONFLICTS.get(Met(reply.conflict), ConflictError)
        return kind(
            self._keys.label,
            version=Version(reply.version, append_id.value if stored else reply.last, reply.birth),
            missed=found,
            missed_count=reply.missed,
            expired=reply.conflict == Met.ANOTHER_LIFE,
            edited=reply.conflict == Met.EDITED,
            stored=stored,
            unsaved=() if stored else messages,
        )

    def settle(self, append_id: AppendId) -> Flow[Version | None]:
        """The version that an append got, None if it was not stored."""
        keys = self._keys
        if not isinstance(append_id, AppendId):
            raise InvalidSetting("settle takes an AppendId; AppendId.parse() makes one of a text")
        words = (append_id.value, _UNKNOWN_AGE, _UNKNOWN_AGE, _HOLD)
        call = Call(SETTLE, words, keys=(keys.messages, keys.meta), timed=True)

        def decode(replies: list[Any]) -> tuple[Status, Version]:
            status, number, birth, _ = replies[0]
            return Status(status), Version(number, append_id.value, birth, repeated=True)

        status, version = yield Plan((call,), decode, keys.label, append_id=append_id, again=True)
        if status == Status.UNKNOWN:
            raise UnknownOutcome(keys.label, append_id)
        return version if status == Status.STORED else None

    def clear(self) -> Flow[int]:
        """Remove all messages, and the conversation from its user's index; how many there were."""
        keys = self._keys
        score = yield from index.score(keys)
        try:
            reply = yield Plan((self.clear_call(),), _clear_reply, keys.label, writes=True)
            removed = self.cleared(reply)
        except UnknownOutcome:
            raise unanswered(_CLEARED_OR_NOT) from None
        if score is not None and keys.index is not None:
            with suppress(MemoryRedisError):  # it is cleared; a listing removes what is left of it
                yield from index.drop(keys.index, [(keys.conversation_id, score)])
        return removed

    def clear_call(self) -> Call:
        """The script that clears this conversation."""
        words = (secrets.token_bytes(ID_BYTES), b"0", secrets.token_bytes(BIRTH_BYTES), _HOLD)
        return Call(CLEAR, words, keys=(self._keys.messages, self._keys.meta), timed=True)

    def cleared(self, reply: list[Any]) -> int:
        """How many messages a reply of that script says were removed."""
        status, removed, healed = reply[:3]
        if status == Status.UNKNOWN:
            raise unanswered(_CLEARED_OR_NOT)
        if healed:
            self._settings.emit(Event("heal", self._keys.label, version=reply[3]))
        return int(removed)


def _clear_reply(replies: list[Any]) -> list[Any]:
    reply: list[Any] = replies[0]
    Version(reply[1] + reply[2] + reply[3], reply[5], reply[4])
    return reply


def unanswered(what: str) -> ServerUnavailable:
    """The error of a call whose reply was lost, and which no append id can settle."""
    error = ServerUnavailable(f"no answer: {what}")
    error.outcome = "unknown"
    return error
