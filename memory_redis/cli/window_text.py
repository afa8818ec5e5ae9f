"""Windows and durations as text: `last:20`, `tokens:4000+since:2h+keep-system`."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import Any, Final, get_args

from memory_redis import AllMessages, InvalidSetting, LastMessages, LastTurns, Since, TokenBudget, Window
from memory_redis.cli.problems import USAGE, CommandError
from memory_redis.durations import duration
from memory_redis.windows import StartOn

__all__ = ["WINDOW_HELP", "duration_of", "window_of"]

WINDOW_HELP: Final = (
    "all, last:20 (messages), turns:5, tokens:4000 or since:2h (s, m, h, d, w); several joined by + are "
    "one window within each of these limits. + also joins keep-system (a system message at the very "
    "beginning stays in front), start-on:human (or ai, system, chat) and max-bytes:10000."
)

_MOST, _MOST_BYTES = 10**9, 10**12
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def window_of(text: str) -> Window:
    """The window that a text names.

    Raises:
        CommandError: it names none.
    """
    limits: dict[str, Window] = {}
    options: dict[str, Any] = {}
    for part in (part.strip() for part in text.split("+")):
        name, colon, value = part.partition(":")
        try:
            if name in _LIMITS and (name == "all") is not bool(colon):
                found, made = limits, _LIMITS[name](value)
            elif name in _OPTIONS and (name == "keep-system") is not bool(colon):
                found, made = options, _OPTIONS[name](value)
            else:
                raise InvalidSetting(
                    "not one of all, last:N, turns:N, tokens:N, since:2h, keep-system, start-on:human and "
                    "max-bytes:N, which + joins"
                )
            if name in found:
                raise InvalidSetting("given twice")
        except InvalidSetting as error:
            raise CommandError(f"--window {part!r}: {error}", USAGE) from None
        found[name] = made
    if "all" in limits and len(limits) > 1:
        raise CommandError("--window: all is no limit, and goes with no limit", USAGE)
    shared = {name.replace("-", "_"): value for name, value in options.items()}
    return reduce(and_, limits.values(), AllMessages(**shared))


def duration_of(text: str, option: str) -> timedelta:
    """The duration that the text of an option names.

    Raises:
        CommandError: it names none.
    """
    try:
        return _duration(text)
    except InvalidSetting as error:
        raise CommandError(f"{option} {text!r}: {error}", USAGE) from None


def _duration(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,12})([smhdw])", text)
    if found is None:
        raise InvalidSetting("a duration is a whole number with s, m, h, d or w, such as 2h")
    return duration(int(found[1]) * _SECONDS[found[2]])


def _number(text: str, most: int = _MOST) -> int:
    if not re.fullmatch(r"[0-9]{1,13}", text) or int(text) > most:
        raise InvalidSetting(f"a whole number from 0 to {most:,} is wanted")
    return int(text)


def _type(text: str) -> str:
    if text not in get_args(StartOn):
        raise InvalidSetting(f"a window starts on one of {', '.join(get_args(StartOn))}")
    return text


_LIMITS: Final[dict[str, Callable[[str], Window]]] = {
    "all": lambda _: AllMessages(),
    "last": lambda value: LastMessages(_number(value)),
    "turns": lambda value: LastTurns(_number(value)),
    "tokens": lambda value: TokenBudget(_number(value)),
    "since": lambda value: Since(_duration(value)),
}
_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "keep-system": lambda _: True,
    "start-on": _type,
    "max-bytes": lambda value: _number(value, _MOST_BYTES),
}
