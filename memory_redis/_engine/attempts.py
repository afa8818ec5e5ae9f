"""One plan, sent until it is answered or its time is over: the decisions, without I/O.

Every repeat carries the time since the first send, so that the scripts can tell a repeat that they
do not know from one that they have forgotten.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import RedisClusterException, RedisError, ResponseError

from memory_redis._engine.failures import (
    TRANSPORT,
    NotSent,
    is_beyond_waiting,
    is_missing_script,
    is_passing,
    is_timeout,
    never_sent,
    translated,
)
from memory_redis._engine.plans import UNKNOWN_AGE, Plan, Wire
from memory_redis.errors import AccessDenied, InvalidSetting, MemoryRedisError, ServerRefused, UnknownOutcome

RAISED: Final = (*TRANSPORT, RedisError, RedisClusterException, NotSent)
"""What a channel may raise, and an attempt decides about."""

_FIRST_PAUSE, _LONGEST_PAUSE, _LAST_MOMENT, _ANSWER = 0.005, 0.5, 0.01, 0.25
_jitter = random.SystemRandom()  # nobody else's: children of a fork would draw the same numbers


class Attempts:
    """The sending of one plan.

    Args:
        plan: what is sent.

        until: when its time is over, by the monotonic clock.
    """

    __slots__ = ("_began", "_by_source", "_first", "_maybe_sent", "_plan", "_repeats", "_told", "_until")

    def __init__(self, plan: Plan[Any], until: float) -> None:
        self._plan, self._until = plan, until
        self._began: float = time.monotonic()
        self._first: float | None = None
        if plan.again and plan.append_id is not None:
            self._first = -1.0 if plan.append_id.made is None else plan.append_id.made
        self._by_source = False
        self._maybe_sent = plan.writes and plan.again
        self._repeats = 0
        self._told: NotSent | None = None

    def seconds(self) -> float:
        """How long the next send may take: what is left; a last moment where nothing is."""
        return max(self._until - time.monotonic(), _LAST_MOMENT)

    def wires(self) -> list[Wire]:
        """The words to send now."""
        age = 0
        if self._first is not None:
            age = UNKNOWN_AGE if self._first < 0 else int((time.monotonic() - self._first) * 1000) + 1
        return [call.wire(age, self._by_source) for call in self._plan.calls]

    def failed(self, error: BaseException) -> float:
        """The seconds to wait before the next send, after an error took the place of the replies.

        Raises:
            MemoryRedisError: there is no next send.
        """
        if is_missing_script(error) and not self._by_source:
            self._by_source = True
            return 0.0
        if not never_sent(error) and not isinstance(error, ResponseError):
            self._maybe_sent = True
            if self._first is None:
                self._first = self._began
        final = (isinstance(error, ResponseError) and not is_passing(error)) or is_beyond_waiting(error)
        if isinstance(error, NotSent) and error.reason:
            self._told = error
        # The last send may have too little time to find out again why there is no answer.
        verdict = translated(self._told if self._told is not None and is_timeout(error) else error)
        left = self._until - time.monotonic() - self._spare()
        if final or isinstance(verdict, AccessDenied) or left <= 0:
            raise self._verdict(verdict) from None
        self._repeats += 1
        if self._repeats == 1 and not never_sent(error):
            return 0.0
        longest: float = min(_FIRST_PAUSE * 2.0 ** min(self._repeats, 10), _LONGEST_PAUSE)
        return min(longest * _jitter.uniform(0.5, 1.0), left)

    def _spare(self) -> float:
        """Seconds before the end in which no send begins.

        As long as nothing was stored for sure, a last send whose answer comes too late would only
        make an unknown outcome of that.
        """
        if self._maybe_sent or not self._plan.writes:
            return 0.0
        return min(_ANSWER, (self._until - self._began) / 4)

    def checked(self, replies: Sequence[Any]) -> list[Any]:
        """The replies, if none of them is an error.

        Raises:
            ResponseError: one is.
        """
        partial, checked = self._plan.partial, list(replies)
        for at, reply in enumerate(checked):
            if isinstance(reply, Exception):
                if not partial or is_passing(reply) or is_missing_script(reply):
                    raise reply
                checked[at] = translated(reply)
        return checked

    def decoded(self, replies: list[Any]) -> Any:
        """The plan's result from its replies.

        Raises:
            UnknownOutcome, ServerRefused: they are not of the shape that the plan's replies have.
        """
        try:
            return self._plan.decode(replies)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, MemoryRedisError) and not isinstance(error, InvalidSetting):
                raise
            self._maybe_sent = True
            raise self._verdict(ServerRefused("the server gave an answer of another shape")) from None

    def _verdict(self, error: MemoryRedisError) -> MemoryRedisError:
        if self._plan.writes and self._maybe_sent:
            return UnknownOutcome(self._plan.conversation, self._plan.append_id)
        return error
