"""Durations as users give them (seconds, a `timedelta`, keywords that add up), and how values show them."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any

from memory_redis.errors import InvalidSetting

SHORTEST, LONGEST = timedelta(milliseconds=1), timedelta(days=36_525)


def duration(seconds: float | timedelta | None, **parts: float | None) -> timedelta:
    """The one duration that was given.

    Raises:
        InvalidSetting: none, two of them, or one that is not from 1 ms to 100 years.
    """
    keywords = {unit: amount for unit, amount in parts.items() if amount is not None}
    if (seconds is None) == (not keywords):
        raise InvalidSetting("give one duration: seconds, a timedelta, or keywords such as days=7")
    numbers = [*keywords.values()] if seconds is None else [seconds]
    if any(isinstance(n, bool) or not isinstance(n, (int, float, timedelta)) for n in numbers):
        raise InvalidSetting("a duration is a number of seconds or a timedelta")
    try:
        if isinstance(seconds, timedelta):
            found = seconds
        else:
            found = timedelta(**keywords) if seconds is None else timedelta(seconds=seconds)
    except (OverflowError, ValueError, TypeError):
        raise InvalidSetting("a duration is from 1 ms to 100 years") from None
    if not SHORTEST <= found <= LONGEST:
        raise InvalidSetting("a duration is from 1 ms to 100 years")
    return found


def milliseconds(found: timedelta) -> int:
    """A duration in whole milliseconds."""
    return found // SHORTEST


def as_made(self: Any) -> str:
    """A frozen value as the call that makes it: what has no default by its place, the rest by name."""
    told: list[str] = []
    for one in fields(self):
        given = getattr(self, one.name)
        if one.repr and one.default is MISSING:
            told.insert(0, repr(given))
        elif one.repr and given != one.default:
            told.append(f"{one.name}={given!r}")
    return f"{type(self).__name__}({', '.join(told)})"
