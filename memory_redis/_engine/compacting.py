"""Putting a summary in the place of old messages, and making sure that one worker makes it."""

from __future__ import annotations

import secrets
from enum import IntEnum
from typing import Any, Final

from memory_redis._engine.codec import Encoder
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import Call, Flow, Plan, Word, only
from memory_redis._engine.scripts import CLAIM, COMPACT
from memory_redis._engine.settings import HOLD_MS, Settings
from memory_redis._engine.writing import CONFLICTS, Met, token_bytes, unanswered
from memory_redis.counting import BYTES_4, code_of
from memory_redis.errors import (
    ConflictError,
    InvalidMessage,
    InvalidSetting,
    UnknownOutcome,
)
from memory_redis.messages import system
from memory_redis.summaries import Threshold
from memory_redis.telemetry import Event
from memory_redis.versions import ID_BYTES, Version

_STORED_OR_NOT: Final = "the summary may or may not be stored; the next load shows which"

_ANY_NUMBER: Final = 2**53
"""More messages than there can be: what is then due is so by its bytes alone."""


class Claim(IntEnum):
    """What the claim script says."""

    BELOW = 0
    HELD = 1
    ANOTHERS = 2
    UNTOLD = 3
    LARGE = 4


class Compaction(IntEnum):
    """What the compact script says."""

    DONE = 1
    REPEATED = 2
    CONFLICT = -1
    UNKNOWN = -2
    CLAIM_LOST = -3


class Compactor:
    """The flows that summarise one conversation."""

    __slots__ = ("_keys", "_settings")

    def __init__(self, keys: ConversationKeys, settings: Settings) -> None:
        self._keys, self._settings = keys, settings

    def compact(self, summary: str, expected: Version, keep: int, claim: bytes = b"") -> Flow[int | None]:
        """How many messages went; None if the claim has passed to another worker.

        Raises:
            InvalidSetting, InvalidMessage, ConflictError: see `History.compact`.
        """
        keys = self._keys
        if not isinstance(expected, Version):
            raise InvalidSetting("expected is a Version, that of the load that the summary was made of")
        if type(keep) is not int or not 0 <= keep <= 10**9:
            raise InvalidSetting("keep takes an integer from 0 to 10**9")
        if not isinstance(summary, str) or not summary:
            raise InvalidMessage("a summary is a non-empty text")
        if expected.number - keep <= max(expected.trimmed, 0):
            raise InvalidSetting("keep leaves no message of that version to be summarised")
        settings = self._settings
        encoder = Encoder(settings.codec, settings.limits, BYTES_4)  # nobody counts a summary
        [record] = encoder.records([system(summary)], keys.owner)
        words = (
            secrets.token_bytes(ID_BYTES),
            b"0",
            str(HOLD_MS),
            token_bytes(expected),
            str(keep),
            str(expected.trimmed),
            claim,
            record,
        )
        call = Call(COMPACT, words, keys=(keys.messages, keys.meta), timed=True)
        try:
            reply = yield Plan((call,), _reply, keys.label, writes=True)
        except UnknownOutcome:
            raise unanswered(_STORED_OR_NOT) from None
        status, removed, healed, number, birth, last, conflict = reply
        emit = self._settings.emit
        if status == Compaction.UNKNOWN:
            raise unanswered(_STORED_OR_NOT)
        if status == Compaction.CONFLICT:
            met = Met(conflict)
            error = CONFLICTS.get(met, ConflictError)(
                keys.label,
                version=Version(number, last, birth),
                expired=met == Met.ANOTHER_LIFE,
                edited=met == Met.EDITED,
            )
            emit(Event("conflict", keys.label, version=number, detail=type(error).__name__))
            raise error
        if status == Compaction.CLAIM_LOST:
            return None
        if healed:
            emit(Event("heal", keys.label, version=number))
        emit(Event("compact", keys.label, removed, number))
        return int(removed)

    def claim(self, claim: bytes, hold_ms: int, threshold: Threshold) -> Flow[Claim]:
        """Whether the claim is held; `UNTOLD` if the messages have to be looked at for that.

        `LARGE` is held too: by then the records have half of the bytes that one load may bring, or more.
        """
        if threshold.counter is not None and not code_of(threshold.counter):
            status = yield from self._asked(claim, hold_ms, (_ANY_NUMBER, 0, 0))
            return Claim.UNTOLD if status == Claim.BELOW else status
        limits = (threshold.messages, threshold.tokens, code_of(threshold.counter))
        return (yield from self._asked(claim, hold_ms, limits))

    def give_up(self, claim: bytes) -> Flow[Claim]:
        """Let others make the summary."""
        return (yield from self._asked(claim, 0, (0, 0, 0)))

    def _asked(self, claim: bytes, hold_ms: int, limits: tuple[int, int, int]) -> Flow[Claim]:
        keys = self._keys
        words: list[Word] = [
            claim,
            str(hold_ms),
            *map(str, limits),
            str(self._settings.limits.load_bytes // 2),
        ]
        reply = yield Plan((Call(CLAIM, words, keys=(keys.messages, keys.meta)),), only, keys.label)
        return Claim(reply[0])


def _reply(replies: list[Any]) -> list[Any]:
    reply: list[Any] = replies[0]
    status, removed, healed, number, birth, last, conflict = reply
    Version(number, last, birth)
    if not type(status) is type(removed) is type(healed) is type(conflict) is int:
        raise TypeError("not the reply of a compaction")
    return reply
