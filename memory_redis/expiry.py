"""When a conversation ends: frozen values that become arguments of the scripts.

All keys of a conversation end at one instant, which the server computes from its own clock. A
duration is given as seconds, as a `timedelta`, or by keywords that add up: `SlidingExpiry(90)`,
`SlidingExpiry(timedelta(hours=2))`, `SlidingExpiry(days=7, hours=12)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from memory_redis.errors import InvalidSetting

SHORTEST, LONGEST = timedelta(milliseconds=1), timedelta(days=36_525)


def _duration(seconds: float | timedelta | None, **parts: float | None) -> timedelta:
    keywords = {unit: amount for unit, amount in parts.items() if amount is not None}
    if (seconds is None) == (not keywords):
        raise InvalidSetting("give one duration: seconds, a timedelta, or keywords such as days=7")
    numbers = [*keywords.values()] if seconds is None else [seconds]
    if any(isinstance(n, bool) or not isinstance(n, (int, float, timedelta)) for n in numbers):
        raise InvalidSetting("a duration is a number of seconds or a timedelta")
    try:
        if isinstance(seconds, timedelta):
            duration = seconds
        else:
            duration = timedelta(**keywords) if seconds is None else timedelta(seconds=seconds)
    except (OverflowError, ValueError, TypeError):
        raise InvalidSetting("a duration is from 1 ms to 100 years") from None
    if not SHORTEST <= duration <= LONGEST:
        raise InvalidSetting("a duration is from 1 ms to 100 years")
    return duration


class Expiry:
    """When a conversation ends. Not used itself: see `NoExpiry`, `SlidingExpiry`, `FixedExpiry`."""

    __slots__ = ()

    policy: ClassVar[str]

    @property
    def milliseconds(self) -> int:
        """The duration, whole milliseconds; 0 for none."""
        return 0

    @property
    def renewed_by_reads(self) -> bool:
        """Whether a load renews the end too."""
        return False


@dataclass(frozen=True, slots=True)
class NoExpiry(Expiry):
    """A conversation does not end by itself; an append takes an end away that it had."""

    policy: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True, init=False)
class SlidingExpiry(Expiry):
    """A conversation ends when nothing was appended to it for the duration.

    Args:
        seconds: the duration, in seconds or as a `timedelta`.

        weeks, days, hours, minutes: the duration by parts, instead of or beside none of the above.

        on_read: a load renews it too. A load then writes, so it cannot be sent to a replica.

    Raises:
        InvalidSetting: no duration, two of them, or one that is not from 1 ms to 100 years.
    """

    policy: ClassVar[str] = "idle"
    duration: timedelta
    on_read: bool = field(default=False)

    def __init__(
        self,
        seconds: float | timedelta | None = None,
        *,
        weeks: float | None = None,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        on_read: bool = False,
    ) -> None:
        duration = _duration(seconds, weeks=weeks, days=days, hours=hours, minutes=minutes)
        object.__setattr__(self, "duration", duration)
        if not isinstance(on_read, bool):
            raise InvalidSetting("on_read is True or False")
        object.__setattr__(self, "on_read", on_read)

    @property
    def milliseconds(self) -> int:
        """The duration, whole milliseconds."""
        return self.duration // SHORTEST

    @property
    def renewed_by_reads(self) -> bool:
        """As `on_read`."""
        return self.on_read


@dataclass(frozen=True, slots=True, init=False)
class FixedExpiry(Expiry):
    """A conversation ends the duration after its first message, whatever happens meanwhile.

    Args:
        seconds: the duration, in seconds or as a `timedelta`.

        weeks, days, hours, minutes: the duration by parts, instead of the above.

    Raises:
        InvalidSetting: no duration, two of them, or one that is not from 1 ms to 100 years.
    """

    policy: ClassVar[str] = "fixed"
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
        duration = _duration(seconds, weeks=weeks, days=days, hours=hours, minutes=minutes)
        object.__setattr__(self, "duration", duration)

    @property
    def milliseconds(self) -> int:
        """The duration, whole milliseconds."""
        return self.duration // SHORTEST


def is_expiry(value: object) -> bool:
    """Whether the value says when a conversation ends."""
    return isinstance(value, NoExpiry | SlidingExpiry | FixedExpiry)


ExpiryFor = Expiry | Callable[[str], Expiry]
