"""How a memory is set up, as a frozen value that every conversation of it shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any

from memory_redis._engine.codec import Encoder
from memory_redis._engine.keys import check_namespace
from memory_redis.counting import APPROXIMATE, TokenCounter
from memory_redis.errors import InvalidSetting
from memory_redis.expiry import Expiry, ExpiryFor, NoExpiry, Terms, check_expiry
from memory_redis.limits import Limits
from memory_redis.options import Codec, MemoryOptions, OnCorrupt, check_on_corrupt
from memory_redis.retention import Caps, Retention, caps_of
from memory_redis.telemetry import Emitter, Hook, log_event
from memory_redis.windows import AllMessages, Window, check_window

HOLD_MS = 100_000
"""How long an append id is held for its repeats, and a cleared conversation's meta is kept."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The keywords of a memory (`MemoryOptions`), checked."""

    namespace: str = "memory"
    window: Window = AllMessages()
    expiry: ExpiryFor = NoExpiry()
    retention: Retention | None = None
    counter: TokenCounter | None = None
    codec: Codec = "msgpack"
    on_corrupt: OnCorrupt = "raise"
    hooks: Sequence[Hook] | None = None
    limits: Limits = Limits()
    idempotency_hold: timedelta = timedelta(hours=1)
    deadline: float = 15.0
    encoder: Encoder = field(init=False, repr=False, compare=False)
    emit: Emitter = field(init=False, repr=False, compare=False)
    caps: Caps = field(init=False, repr=False, compare=False)
    terms: Terms | None = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, options: MemoryOptions) -> Settings:
        """The settings that keywords amount to.

        Raises:
            TypeError: there is no such keyword.
            InvalidSetting: a value cannot be meant.
        """
        for name in options:
            if name not in MemoryOptions.__annotations__:
                known = ", ".join(MemoryOptions.__annotations__)
                raise TypeError(f"a memory has no keyword {name!r}; it has {known}")
        return cls(**options)

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_window(self.window)
        check_on_corrupt(self.on_corrupt)
        if isinstance(self.expiry, type) or not callable(self.expiry):
            check_expiry(self.expiry)  # type: ignore[arg-type]
        if iscoroutinefunction(self.expiry):
            raise InvalidSetting(
                "an expiry function is called, not awaited: it cannot be a coroutine function"
            )
        if not isinstance(self.counter, TokenCounter | None):
            raise InvalidSetting("counter must be a TokenCounter, a function with a name for it, or None")
        if not isinstance(self.limits, Limits):
            raise InvalidSetting("limits must be a Limits")
        number = isinstance(self.deadline, (int, float)) and not isinstance(self.deadline, bool)
        if not number or not 0.01 <= self.deadline <= 60:
            raise InvalidSetting("deadline must be from 0.01 to 60 seconds")
        hold = self.idempotency_hold
        if not isinstance(hold, timedelta) or not timedelta(seconds=1) <= hold <= timedelta(days=366):
            raise InvalidSetting("idempotency_hold must be a timedelta from 1 second to 366 days")
        if self.hooks is not None:
            many = isinstance(self.hooks, Sequence) and not isinstance(self.hooks, str | bytes)
            if not many or not all(map(callable, self.hooks)):
                raise InvalidSetting("hooks must be a sequence of functions, or None")
            if any(map(iscoroutinefunction, self.hooks)):
                raise InvalidSetting("a hook is called, not awaited: it cannot be a coroutine function")
        object.__setattr__(self, "caps", caps_of(self.retention))
        object.__setattr__(self, "terms", self.expiry.terms if isinstance(self.expiry, Expiry) else None)
        object.__setattr__(self, "encoder", Encoder(self.codec, self.limits, self._stored_counter()))
        object.__setattr__(self, "emit", Emitter((log_event,) if self.hooks is None else self.hooks))

    def _stored_counter(self) -> TokenCounter:
        """The counter whose counts are stored."""
        if self.counter is not None:
            return self.counter
        shown = self.window.bounds.counter
        return shown if isinstance(shown, TokenCounter) else APPROXIMATE

    @property
    def key_hold_ms(self) -> int:
        """How long an idempotency key is remembered."""
        return self.idempotency_hold // timedelta(milliseconds=1)

    def terms_of(self, user_id: str | None) -> Terms:
        """When a user's conversations end; a session is asked for with the empty text.

        Raises:
            InvalidSetting: the expiry function gave something else.
        """
        if self.terms is not None:
            return self.terms
        expiry: Any = self.expiry
        return check_expiry(expiry("" if user_id is None else user_id)).terms
