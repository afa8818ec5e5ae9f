"""Which messages a load returns: frozen values. They never change what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memory_redis.errors import InvalidSetting
from memory_redis.messages import StoredMessage


@dataclass(frozen=True, slots=True)
class AllMessages:
    """Every message that is stored, oldest first."""


@dataclass(frozen=True, slots=True)
class LastMessages:
    """The newest `count` messages, oldest first.

    `count` is an upper bound. A window never begins with a tool result whose call it does not
    hold: such results are left out, so that fewer messages may come back.

    Args:
        count: from 0 (no message) to 10**9.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 0 <= self.count <= 10**9:
            raise InvalidSetting("LastMessages takes an integer from 0 to 10**9")


Window = AllMessages | LastMessages


def check_window(window: Window) -> Window:
    """The window, if it is one.

    Raises:
        InvalidSetting: it is not.
    """
    if not isinstance(window, (AllMessages, LastMessages)):
        raise InvalidSetting("a window is AllMessages() or LastMessages(n)")
    return window


Tie = tuple[int, bytes]
"""A message that calls a tool or answers a call: its place in a list, and its `layouts.links_of`."""


def without_orphans(messages: list[StoredMessage], tied: Iterable[Tie]) -> list[StoredMessage]:
    """The messages without tool results whose call stands before the first of them.

    Results are paired with calls by `tool_call_id`, function results by the function's name.
    """
    called: set[bytes] = set()
    orphans: set[int] = set()
    for place, links in tied:
        if messages[place].type == "ai":
            called.update(_each(links))
        elif not called.issuperset(_each(links)):
            orphans.add(place)
    return [message for at, message in enumerate(messages) if at not in orphans] if orphans else messages


def _each(links: bytes) -> list[bytes]:
    return [links[at : at + 4] for at in range(0, len(links), 4)]
