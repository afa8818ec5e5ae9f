"""Changing a conversation: append, clear, settle. One atomic script each."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from memory_redis._engine.codec import Decoder
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import UNKNOWN_AGE, Call, Flow, Plan, Word, only
from memory_redis._engine.reading import refreshed, touch
from memory_redis._engine.scripts import APPEND, CLEAR, INDEX_DROP, SETTLE
from memory_redis._engine.settings import HOLD_MS, Settings
from memory_redis.errors import (
    AppendSettled,
    ConflictError,
    HistoryCleared,
    HistoryRolledBack,
    InvalidSetting,
    MemoryRedisError,
    UnknownOutcome,
)
from memory_redis.expiry import Expiry
from memory_redis.messages import StoredMessage
from memory_redis.telemetry import Event
from memory_redis.versions import BIRTH_BYTES, ID_BYTES, AppendId, Version

Policy = Literal["any", "raise", "append"]

STORED, REPEATED, INDEX_FIRST, CONFLICT, UNKNOWN, CLEARED, SETTLED = 1, 2, 0, -1, -2, -3, -4
EDITED, ANOTHER_LIFE, CLEARED_SINCE, ROLLED_BACK = 2, 3, 4, 5


def _wanted(expected: Version, policy: Policy) -> bytes:
    """An expected version as the append script reads it."""
    last, birth = expected.last.rjust(ID_BYTES, b"\0"), expected.birth.rjust(BIRTH_BYTES, b"\0")
    return policy[:1].encode() + expected.number.to_bytes(6) + last + birth


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
    return AppendId(hashlib.blake2b(text, digest_size=ID_BYTES).digest(), time.monotonic())


class Writer:
    """The flows that change one conversation."""

    __slots__ = ("_decoder", "_expiry", "_keys", "_settings")

    def __init__(self, keys: ConversationKeys, settings: Settings, expiry: Expiry) -> None:
        self._keys, self._settings, self._expiry = keys, settings, expiry
        self._decoder = Decoder(keys.label, keys.owner, settings.limits)

    def append(
        self,
        messages: Sequence[StoredMessage],
        *,
        expected: Version | None = None,
        policy: Policy = "any",
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
    ) -> Flow[Commit]:
        """Store messages; all of them or none, once, however often the plan is sent."""
        settings, keys, expiry = self._settings, self._keys, self._expiry
        if not isinstance(expected, Version | None) or not isinstance(append_id, AppendId | None):
            raise InvalidSetting(
                "expected is a Version and append_id an AppendId; parse() makes one of a text"
            )
        records = settings.encoder.records(messages, keys.owner)
        ring, hold, sent = b"r", HOLD_MS, append_id
        birth = None
        if idempotency_key is not None:
            if append_id is not None:
                raise InvalidSetting("give an idempotency key or an append id, not both")
            ring, hold = b"k", settings.idempotency_hold // timedelta(milliseconds=1)
            append_id = key_to_id(idempotency_key)
        elif append_id is None:
            append_id = AppendId.new()
            birth = append_id.value[:BIRTH_BYTES]  # as random, and saves a call to the system
        words: list[Word] = [
            append_id.value,
            b"0",
            ring,
            str(hold),
            b"" if policy == "any" else _wanted(expected or Version(), policy),
            birth or secrets.token_bytes(BIRTH_BYTES),
            "" if keys.index is None else "?",
            expiry.policy,
            str(expiry.milliseconds),
            str(settings.retention.count) if settings.retention else b"0",
            b"0" if sent is None else b"1",
            *records,
        ]
        while True:
            reply = yield Plan(
                (Call(APPEND, words, keys=(keys.messages, keys.meta), timed=True),),
                only,
                keys.label,
                writes=True,
                append_id=append_id,
                again=sent is not None,
            )
            if reply[0] != INDEX_FIRST or keys.index is None:
                break
            yield touch(keys.index, keys, reply[3])
            words[6] = reply[11]
        commit, refresh, ends = self._appended(reply, messages, append_id)
        if refresh:
            yield from refreshed(keys, ends)
        return commit

    def _appended(
        self, reply: list[Any], messages: Sequence[StoredMessage], append_id: AppendId
    ) -> tuple[Commit, int, int]:
        """What the reply of an append means; whether the index is due, and the conversation's end."""
        emit, label = self._settings.emit, self._keys.label
        status, number, birth, ends = reply[:4]
        healed, refresh, conflict = (reply[6], reply[7], reply[8]) if len(reply) > 4 else (0, 0, 0)
        if status == UNKNOWN:
            raise UnknownOutcome(label, append_id)
        if status == SETTLED:
            raise AppendSettled(label, append_id)
        met = self._conflict(reply, messages, append_id) if conflict else None
        if met is not None:
            emit(Event("conflict", label, met.missed_count, number, detail=type(met).__name__))
            if status in (CONFLICT, CLEARED):
                raise met
        if emit:
            if healed:
                emit(Event("heal", label, version=number))
            emit(Event("repeat" if status == REPEATED else "append", label, len(messages), number))
            if ends:
                emit(Event("expiry", label, version=number, expire_at=ends))
        version = Version(number, append_id.value, birth, repeated=status == REPEATED)
        return Commit(version, met), refresh, ends

    def _conflict(
        self, reply: list[Any], messages: Sequence[StoredMessage], append_id: AppendId
    ) -> ConflictError:
        status, number, birth, _, _, before, _, _, conflict, missed, last, *records = reply
        stored = status not in (CONFLICT, CLEARED)
        found, _ = self._decoder.messages(records, before - len(records), whole=True)
        kind = {CLEARED_SINCE: HistoryCleared, ROLLED_BACK: HistoryRolledBack}.get(conflict, ConflictError)
        return kind(
            self._keys.label,
            version=Version(number, append_id.value if stored else last, birth),
            missed=found,
            missed_count=missed,
            expired=conflict == ANOTHER_LIFE,
            edited=conflict == EDITED,
            stored=stored,
            unsaved=() if stored else messages,
        )

    def settle(self, append_id: AppendId) -> Flow[Version | None]:
        """The version that an append got, None if it was not stored."""
        keys = self._keys
        if not isinstance(append_id, AppendId):
            raise InvalidSetting("settle takes an AppendId; AppendId.parse() makes one of a text")
        call = Call(
            SETTLE,
            (append_id.value, str(UNKNOWN_AGE), str(UNKNOWN_AGE), str(HOLD_MS)),
            keys=(keys.messages, keys.meta),
            timed=True,
        )
        reply = yield Plan((call,), only, keys.label, append_id=append_id, again=True)
        status, number, birth, _ = reply
        if status == UNKNOWN:
            raise UnknownOutcome(keys.label, append_id)
        return Version(number, append_id.value, birth, repeated=True) if status == STORED else None

    def clear(self) -> Flow[int]:
        """Remove all messages, and the conversation from its user's index; how many there were."""
        keys = self._keys
        score: float | None = None
        if keys.index is not None:
            reply = yield Plan(
                (Call("ZSCORE", (keys.conversation_id,), keys=(keys.index,)),), only, keys.label
            )
            score = None if reply is None else float(reply)
        call = self.clear_call()
        reply = yield Plan((call,), only, keys.label, writes=True)
        removed = self.cleared(reply)
        if score is not None and keys.index is not None:
            words = (keys.conversation_id, f"{score:.0f}")
            with suppress(MemoryRedisError):  # it is cleared; a listing removes what is left of it
                yield Plan((Call(INDEX_DROP, words, keys=(keys.index,)),), only, keys.label)
        return removed

    def clear_call(self) -> Call:
        """The script that clears this conversation."""
        words = (secrets.token_bytes(ID_BYTES), b"0", secrets.token_bytes(BIRTH_BYTES), str(HOLD_MS))
        return Call(CLEAR, words, keys=(self._keys.messages, self._keys.meta), timed=True)

    def cleared(self, reply: list[Any]) -> int:
        """How many messages a reply of that script says were removed."""
        status, removed, healed = reply[:3]
        if status == UNKNOWN:
            raise UnknownOutcome(self._keys.label)
        if healed:
            self._settings.emit(Event("heal", self._keys.label, version=reply[3]))
        return int(removed)
