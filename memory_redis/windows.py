"""Which messages a load returns: frozen values. They never change what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from memory_redis.errors import InvalidSetting, UnansweredCall
from memory_redis.layouts import links_of
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
Unanswered = Literal["drop", "keep", "raise"]


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


def check_unanswered(value: Unanswered) -> Unanswered:
    """The value, if it says what becomes of tool calls that nobody answered.

    Raises:
        InvalidSetting: it does not.
    """
    if value not in get_args(Unanswered):
        raise InvalidSetting('unanswered must be "drop", "keep" or "raise"')
    return value


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


def without_unanswered(
    messages: Sequence[StoredMessage], new: Sequence[StoredMessage], unanswered: Unanswered
) -> list[StoredMessage]:
    """The messages without tool calls that neither they nor the new ones answer.

    A call and those results of it that there are go together.

    Args:
        unanswered: `"drop"` does that, `"keep"` nothing, `"raise"` raises where there is one.

    Raises:
        UnansweredCall: there is one.
    """
    if unanswered == "keep":
        return list(messages)
    caller: dict[bytes, int] = {}
    waiting: dict[int, set[bytes]] = {}
    answers: dict[int, list[int]] = {}
    for at, message in enumerate((*messages, *new)):
        if message.type in ("human", "system"):
            continue
        links = _each(links_of(message.type, message.data))
        if not links:
            continue
        if message.type == "ai":
            caller.update(dict.fromkeys(links, at))
            waiting[at] = set(links)
        for link in links if message.type != "ai" else ():
            called = caller.pop(link, None)
            if called is not None:
                waiting[called].discard(link)
                answers.setdefault(called, []).append(at)
    left = {at for at, links in waiting.items() if links and at < len(messages)}
    if left and unanswered == "raise":
        raise UnansweredCall(f"{len(left)} stored messages call tools that nobody answered")
    gone = left.union(*(answers.get(at, ()) for at in left))
    return [message for at, message in enumerate(messages) if at not in gone]


def _each(links: bytes) -> list[bytes]:
    return [links[at : at + 4] for at in range(0, len(links), 4)]
