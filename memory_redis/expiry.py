"""When a conversation ends: frozen values that become arguments of the scripts.

All keys of a conversation end at one instant, which the server computes from its own clock. A
duration is given as seconds, as a `timedelta`, or by keywords that add up: `SlidingExpiry(90)`,
`SlidingExpiry(timedelta(hours=2))`, `SlidingExpiry(days=7, hours=12)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memory_redis.durations import as_made, duration, milliseconds
from memory_redis.errors import InvalidSetting

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Terms(NamedTuple):
    """An expiry as the scripts read it.

    Attributes:
        policy: `"none"`, `"keep"` (as it is), `"idle"` (from the last append), `"fixed"` (from the first
            message), `"at"` (an instant) or `"in"` (an instant, so long from now).

        ms: the duration; for `"at"`, ms since 1970.

        most_ms: how long after its first message the conversation ends at the latest; 0 for no limit.

        on_read: whether a load renews the end.
    """

    policy: str = "none"
    ms: int = 0
    most_ms: int = 0
    on_read: bool = False

    def text(self) -> str:
        """As one text, which the meta of a conversation holds."""
        return f"{self.policy} {self.ms} {self.most_ms} {self.on_read:d}"


class Expiry:
    """When a conversation ends. Not used itself: see `NoExpiry`, `SlidingExpiry`, `FixedExpiry`."""

    __slots__ = ()

    @property
    def terms(self) -> Terms:
        """As the scripts read it."""
        return Terms()


@dataclass(frozen=True, slots=True)
class NoExpiry(Expiry):
    """A conversation does not end by itself; an append takes an end away that it had."""


@dataclass(frozen=True, slots=True)
class KeptExpiry(Expiry):
    """An append leaves the end of a conversation where it is; one that begins has none.

    For programs that append to conversations of others, whose expiry they do not know.
    """

    @property
    def terms(self) -> Terms:
        """As the scripts read it."""
        return Terms("keep")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SlidingExpiry(Expiry):
    """A conversation ends when nothing was appended to it for the duration.

    Args:
        seconds: the duration, in seconds or as a `timedelta`.

        weeks, days, hours, minutes: the duration by parts, instead of the above.

        on_read: a load renews it too. A load then writes, so it cannot be sent to a replica.

        max_age: however busy it is, the conversation ends so long after its first message, in seconds
            or as a `timedelta`. None for no such limit.

    Raises:
        InvalidSetting: no duration, two of them, or one that is not from 1 ms to 100 years.
    """

    duration: timedelta
    on_read: bool = field(default=False)
    max_age: timedelta | None = field(default=None)

    def __init__(
        self,
        seconds: float | timedelta | None = None,
        *,
        weeks: float | None = None,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        on_read: bool = False,
        max_age: float | timedelta | None = None,
    ) -> None:
        found = duration(seconds, weeks=weeks, days=days, hours=hours, minutes=minutes)
        object.__setattr__(self, "duration", found)
        if not isinstance(on_read, bool):
            raise InvalidSetting("on_read is True or False")
        object.__setattr__(self, "on_read", on_read)
        object.__setattr__(self, "max_age", None if max_age is None else duration(max_age))

    __repr__ = as_made

    @property
    def terms(self) -> Terms:
        """As the scripts read it."""
        most = 0 if self.max_age is None else milliseconds(self.max_age)
        return Terms("idle", milliseconds(self.duration), most, self.on_read)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class FixedExpiry(Expiry):
    """A conversation ends the duration after its first message, whatever happens meanwhile.

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
    def terms(self) -> Terms:
        """As the scripts read it."""
        return Terms("fixed", milliseconds(self.duration))


def at_instant(when: datetime | timedelta) -> Terms:
    """The terms of a conversation that ends at an instant, or so long from now.

    Raises:
        InvalidSetting: it is no datetime with a time zone, or not of the years 1970 to 9999; or no
            duration from 1 ms to 100 years.
    """
    if isinstance(when, timedelta):
        return Terms("in", milliseconds(duration(when)))
    if not isinstance(when, datetime) or when.utcoffset() is None:
        raise InvalidSetting("an instant is a datetime with a time zone, or a timedelta from now")
    if not _EARLIEST < when <= _LATEST:
        raise InvalidSetting("an instant is of the years 1970 to 9999")
    return Terms("at", milliseconds(when - _EARLIEST))


def check_expiry(value: Expiry) -> Expiry:
    """The value, if it says when a conversation ends.

    Raises:
        InvalidSetting: it does not.
    """
    if not isinstance(value, NoExpiry | KeptExpiry | SlidingExpiry | FixedExpiry):
        raise InvalidSetting("an expiry is NoExpiry(), KeptExpiry(), SlidingExpiry(…) or FixedExpiry(…)")
    return value


ExpiryFor = Expiry | Callable[[str], Expiry]
