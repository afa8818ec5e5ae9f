"""What stays stored: frozen values that become arguments of the append script.

An append removes the oldest messages beyond the limits. No tool exchange that is stored is cut in
half: the cut moves on past the results of every call that goes (looking 1,000 messages ahead), so
less may stay. A result that is appended after its call has gone is stored, and left out by windows.
An append of more than the limits allow is stored whole, then trimmed. Records that another library
wrote are not looked into. `MaxMessages(1000) & MaxAge(days=30)` are both limits at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from memory_redis.durations import as_made, duration, milliseconds
from memory_redis.errors import InvalidSetting


class Caps(NamedTuple):
    """A retention as the append script reads it; 0 is no limit."""

    messages: int = 0
    age_ms: int = 0
    size: int = 0


class Retention:
    """What stays stored. Not used itself: see `MaxMessages`, `MaxAge`, `MaxBytes`."""

    __slots__ = ()

    @property
    def caps(self) -> Caps:
        """As the append script reads it."""
        return Caps()

    def __and__(self, other: Retention) -> Retention:
        if not isinstance(other, Retention):
            return NotImplemented
        return AllOf((*_parts(self), *_parts(other)))


@dataclass(frozen=True, slots=True)
class MaxMessages(Retention):
    """At most `count` messages stay stored.

    Args:
        count: from 1 to 10**9.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= 10**9:
            raise InvalidSetting("MaxMessages takes an integer from 1 to 10**9")

    @property
    def caps(self) -> Caps:
        """As the append script reads it."""
        return Caps(messages=self.count)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class MaxAge(Retention):
    """Messages older than the duration go, by the server's clock.

    They go with the next append; until then loads do not show them, and `count` still counts them.
    A record that another library wrote has no time, and goes with the older ones around it.

    Args:
        seconds: the duration, in seconds or as a `timedelta`.

        weeks, days, hours, minutes: the duration by parts, instead of the above.

    Raises:
        InvalidSetting: no duration, two of them, or one that is not from 1 ms to 100 years.
    """

    duration: timedelta

    def __init__(
        self,
        seconds: float | timedelta | None = None,
        *,
        weeks: float | None = None,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
    ) -> None:
        found = duration(seconds, weeks=weeks, days=days, hours=hours, minutes=minutes)
        object.__setattr__(self, "duration", found)

    __repr__ = as_made

    @property
    def caps(self) -> Caps:
        """As the append script reads it."""
        return Caps(age_ms=milliseconds(self.duration))


@dataclass(frozen=True, slots=True)
class MaxBytes(Retention):
    """The records of the messages take at most `size` bytes.

    The newest message stays, however large it is, unless it is the result of a call that goes. What the
    server needs for keeping records, and a summary, come on top.

    Args:
        size: from 1 to 10**12.

    Raises:
        InvalidSetting: anything else.
    """

    size: int

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 1 <= self.size <= 10**12:
            raise InvalidSetting("MaxBytes takes an integer from 1 to 10**12")

    @property
    def caps(self) -> Caps:
        """As the append script reads it."""
        return Caps(size=self.size)


@dataclass(frozen=True, slots=True, repr=False)
class AllOf(Retention):
    """Several limits at once: what `&` makes of them."""

    parts: tuple[Retention, ...]

    @property
    def caps(self) -> Caps:
        """The smallest of each."""
        each = zip(*(part.caps for part in self.parts), strict=True)
        return Caps(*(min(filter(None, limits), default=0) for limits in each))

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))


def _parts(retention: Retention) -> tuple[Retention, ...]:
    return retention.parts if isinstance(retention, AllOf) else (retention,)


def caps_of(retention: Retention | None) -> Caps:
    """A retention as the append script reads it.

    Raises:
        InvalidSetting: it is none.
    """
    if retention is None:
        return Caps()
    if not all(isinstance(part, MaxMessages | MaxAge | MaxBytes) for part in _parts(retention)):
        raise InvalidSetting("a retention is MaxMessages(n), MaxAge(…), MaxBytes(n), several with &, or None")
    return retention.caps
