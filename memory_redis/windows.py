"""Which messages a load returns: frozen values. They never change what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory_redis.errors import InvalidSetting
from memory_redis.layouts import call_ids, called_functions
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


_RESULTS = ("tool", "function")


def without_orphans(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages without tool results whose call stands before the first of them.

    Results are paired with calls by `tool_call_id`, function results by the function's name.
    """
    if not any(message.type in _RESULTS for message in messages):
        return list(messages)
    called: set[str] = set()
    functions: set[str] = set()
    kept: list[StoredMessage] = []
    for message in messages:
        if message.type == "ai" and message.has_calls:
            called.update(call_ids(message.data))
            functions.update(called_functions(message.data))
        elif message.type == "tool" and message.data.get("tool_call_id") not in called:
            continue
        elif message.type == "function" and message.name not in functions:
            continue
        kept.append(message)
    return kept
