"""Which messages a load returns: frozen values. They never change what is stored.

A window shows the newest messages that all its limits allow, oldest first. A tool result whose call
is not shown is left out, so that less may come back than the limits allow.
`LastTurns(10) & TokenBudget(4000)` is a window within both limits.

Three keywords are common to all of them:

- `keep_system`: the first stored message is shown in front if it is a system message. It counts
  within the number of messages, tokens and bytes, and is left out if they have no room for it.
- `start_on`: what stands before the first message of this type, `"human"` say, is left out; if there
  is none of it in the window, nothing is.
- `max_bytes`: at most so many bytes of text, UTF-8; an integer from 0 to 10**12.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, get_args

from memory_redis.counting import APPROXIMATE, Counter, check_counter
from memory_redis.durations import as_made, duration, milliseconds
from memory_redis.errors import InvalidSetting

StartOn = Literal["human", "ai", "system", "chat"]

_MOST, _MOST_BYTES = 10**9, 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a window amounts to. None is no limit.

    Attributes:
        messages, turns, tokens, text_bytes: how many there may be.

        counter: what counts the tokens.

        age_ms: how old a message may be.

        kept_ms: how old the system message may be that `keep_system` shows.

        oldest: the window is taken from the front, not from the end.

        plain: nothing but a number of messages counts, so that no header need be read.
    """

    messages: int | None = None
    turns: int | None = None
    tokens: int | None = None
    counter: Counter | None = None
    age_ms: int | None = None
    kept_ms: int | None = None
    text_bytes: int | None = None
    keep_system: bool = False
    start_on: StartOn | None = None
    oldest: bool = False
    plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits = (getattr(self, one.name) for one in fields(Bounds) if one.init and one.name != "messages")
        object.__setattr__(self, "plain", all(limit is None or limit is False for limit in limits))

    def __and__(self, other: Bounds) -> Bounds:
        nothing = Bounds()
        if nothing in (self, other):
            return other if self == nothing else self
        if self.oldest or other.oldest:
            raise InvalidSetting("a window of the oldest messages cannot be combined with another")
        both: dict[str, Any] = {}
        for name in (one.name for one in fields(Bounds) if one.init):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None or theirs is None:
                both[name] = theirs if mine is None else mine
            elif isinstance(mine, bool):
                both[name] = mine or theirs
            elif isinstance(mine, int):
                both[name] = min(mine, theirs)
            elif mine == theirs:
                both[name] = mine
            else:
                raise InvalidSetting(f"two windows that are combined must have the same {name}")
        return Bounds(**both)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Window:
    """What all windows share. Not used itself."""

    keep_system: bool = False
    start_on: StartOn | None = None
    max_bytes: int | None = None
    bounds: Bounds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keep_system, bool):
            raise InvalidSetting("keep_system is True or False")
        if self.start_on is not None and self.start_on not in get_args(StartOn):
            raise InvalidSetting(f"start_on must be None or one of {', '.join(map(repr, get_args(StartOn)))}")
        if self.max_bytes is not None:
            _check(self.max_bytes, _MOST_BYTES, "max_bytes")
        object.__setattr__(self, "bounds", self._bounds())

    def _bounds(self, **limits: Any) -> Bounds:
        return Bounds(
            keep_system=self.keep_system, start_on=self.start_on, text_bytes=self.max_bytes, **limits
        )

    __repr__ = as_made

    def __and__(self, other: Window) -> Window:
        if not isinstance(other, Window):
            return NotImplemented
        return Combined(*_parts(self), *_parts(other))


@dataclass(frozen=True, slots=True, repr=False)
class AllMessages(Window):
    """Every message that is stored, oldest first.

    Without keywords it shows all as it stands, also a tool result that came without a call; only a
    result whose call was trimmed is left out.

    Args:
        keep_system, start_on, max_bytes: see the module.
    """


@dataclass(frozen=True, slots=True, repr=False)
class LastMessages(Window):
    """The newest `count` messages, oldest first.

    Args:
        count: from 0 (no message) to 10**9.

        keep_system, start_on, max_bytes: see the module.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def _bounds(self, **limits: Any) -> Bounds:
        _check(self.count, _MOST, "LastMessages")
        return Window._bounds(self, messages=self.count, **limits)


@dataclass(frozen=True, slots=True, repr=False)
class LastTurns(Window):
    """The newest `count` turns, oldest first.

    A turn begins with a human message that follows none or one that is not human; several human
    messages in a row belong to one turn. Messages before the first turn are shown when there are
    fewer turns than asked for.

    Args:
        count: from 0 (no message) to 10**9.

        keep_system, start_on, max_bytes: see the module.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def _bounds(self, **limits: Any) -> Bounds:
        _check(self.count, _MOST, "LastTurns")
        return Window._bounds(self, turns=self.count, **limits)


@dataclass(frozen=True, slots=True, repr=False)
class TokenBudget(Window):
    """The newest messages that cost no more than so many tokens together, oldest first.

    Args:
        max_tokens: from 0 to 10**9.

        counter: what counts them: a `TokenCounter`, or a function from a `StoredMessage` to an
            integer. By default LangChain's `count_tokens_approximately` rule. A counter that the
            memory stores the counts of costs one round trip; any other reads the messages.

        oldest: take the oldest messages instead of the newest: from the front until the budget is
            used up; what it cuts off leaves no call without its results. It cannot be combined with
            other windows or with `start_on`, and may take more than one round trip.

        keep_system, start_on, max_bytes: see the module.

    Raises:
        InvalidSetting: anything else.
    """

    max_tokens: int
    counter: Counter = APPROXIMATE
    oldest: bool = field(default=False, kw_only=True)

    def _bounds(self, **limits: Any) -> Bounds:
        _check(self.max_tokens, _MOST, "max_tokens")
        check_counter(self.counter)
        if not isinstance(self.oldest, bool) or (self.oldest and self.start_on is not None):
            raise InvalidSetting("oldest is True or False, and True does not go with start_on")
        return Window._bounds(
            self, tokens=self.max_tokens, counter=self.counter, oldest=self.oldest, **limits
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Since(Window):
    """The messages that were stored within the last so much time, by the server's clock, oldest first.

    A record that another library wrote has no time, and goes with the messages around it.

    Args:
        seconds: the duration, in seconds or as a `timedelta`.

        weeks, days, hours, minutes: the duration by parts, instead of the above.

        keep_system, start_on, max_bytes: see the module.

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
        keep_system: bool = False,
        start_on: StartOn | None = None,
        max_bytes: int | None = None,
    ) -> None:
        found = duration(seconds, weeks=weeks, days=days, hours=hours, minutes=minutes)
        object.__setattr__(self, "duration", found)
        common = {"keep_system": keep_system, "start_on": start_on, "max_bytes": max_bytes}
        for name, value in common.items():
            object.__setattr__(self, name, value)
        Window.__post_init__(self)

    def _bounds(self, **limits: Any) -> Bounds:
        return Window._bounds(self, age_ms=milliseconds(self.duration), **limits)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Combined(Window):
    """Several windows at once: what `&` makes of them."""

    windows: tuple[Window, ...]

    def __init__(self, *windows: Window) -> None:
        bounds = windows[0].bounds
        for window in windows[1:]:
            bounds &= window.bounds
        object.__setattr__(self, "windows", windows)
        object.__setattr__(self, "keep_system", bounds.keep_system)
        object.__setattr__(self, "start_on", bounds.start_on)
        object.__setattr__(self, "max_bytes", bounds.text_bytes)
        object.__setattr__(self, "bounds", bounds)

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.windows))


def _parts(window: Window) -> tuple[Window, ...]:
    return window.windows if isinstance(window, Combined) else (window,)


def _check(value: Any, most: int, name: str) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise InvalidSetting(f"{name} takes an integer from 0 to 10**{len(str(most)) - 1}")


def check_window(window: Any) -> Window:
    """The window, if it is one.

    Raises:
        InvalidSetting: it is not.
    """
    if not isinstance(window, Window) or type(window) is Window:
        raise InvalidSetting(
            "a window is AllMessages(), LastMessages(n), LastTurns(n), TokenBudget(n) or Since(…)"
        )
    return window
