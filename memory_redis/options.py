"""The keywords that `RedisMemory` and `AsyncRedisMemory` share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypedDict, get_args

from memory_redis.counting import TokenCounter
from memory_redis.errors import InvalidSetting
from memory_redis.expiry import ExpiryFor
from memory_redis.limits import Limits
from memory_redis.retention import Retention
from memory_redis.telemetry import Hook
from memory_redis.windows import Window

Codec = Literal["msgpack", "json"]
OnCorrupt = Literal["raise", "skip"]
TurnPolicy = Literal["append", "raise"]
"""What the commit of a turn does if others have appended meanwhile."""


def check_on_corrupt(value: str) -> OnCorrupt:
    """The value, if it says what to do with a corrupt record.

    Raises:
        InvalidSetting: it does not.
    """
    if value not in get_args(OnCorrupt):
        raise InvalidSetting('on_corrupt must be "raise" or "skip"')
    return "skip" if value == "skip" else "raise"


class MemoryOptions(TypedDict, total=False):
    """How a memory keeps conversations. Every keyword may be left out.

    Attributes:
        namespace: begins every key; memories with different ones share nothing. Default
            `"memory"`.

        window: which messages a load returns, unless the call says otherwise. Default
            `AllMessages()`.

        expiry: when conversations end; or a function, not async, from a user id to that (a session
            is asked for with the empty text). Default `NoExpiry()`.

        retention: what stays stored; None, the default, for everything.

        counter: the token counter whose counts are stored with the messages, so that a `TokenBudget`
            of it takes one round trip. Default: that of the window, else `counting.APPROXIMATE`. The
            codec `"json"` stores no counts.

        codec: how messages are written, `"msgpack"` (default) or `"json"` (LangChain's layout).
            Both are always read.

        on_corrupt: what a load does with a record that cannot be decoded: `"raise"` (default), or
            `"skip"` to leave it out, list it in `Snapshot.skipped` and tell the hooks.

        hooks: functions, not async, that are called with a `telemetry.Event` for what happens; None,
            the default, logs with the standard library, an empty sequence does nothing.

        limits: bounds of records, appends and loads. Default `Limits()`.

        idempotency_hold: how long an idempotency key is remembered, 1 second to 366 days. Default
            one hour.

        deadline: seconds that one call may take, repeats included, 0.01 to 60. Default 15. It
            binds the connections that a memory makes from a URL; a client that is passed in waits
            as it is set up, and at least one exchange is made in any case. A server that is silent
            for the URL's `socket_timeout`, 5 seconds by default, is asked again before that; in
            asyncio, one that has not sent the whole reply by then. What stores is not sent
            again in its last 250 ms (its last quarter, if that is less) as long as it is surely not
            stored: an answer that came too late would leave the outcome open.
    """

    namespace: str
    window: Window
    expiry: ExpiryFor
    retention: Retention | None
    counter: TokenCounter | None
    codec: Codec
    on_corrupt: OnCorrupt
    hooks: Sequence[Hook] | None
    limits: Limits
    idempotency_hold: timedelta
    deadline: float
