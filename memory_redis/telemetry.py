"""Events that hooks see. The default hook is the standard library's logging.

A hook is any callable that takes an `Event`. It runs in the caller's thread or task, right after
the thing happened. A hook that raises is logged and never fails a call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Kind = Literal[
    "append", "load", "conflict", "repeat", "heal", "corrupt", "expiry", "settled", "compact", "summary"
]


class Event(NamedTuple):
    """Something that happened to a conversation.

    Attributes:
        kind: `append` (messages were stored), `load`, `conflict` (an append met another version),
            `repeat` (an append was recognised as stored before), `heal` (half of a conversation
            was gone or edited by hand), `corrupt` (a record was left out), `expiry` (an end was
            set), `settled` (a commit that was cancelled has ended; `detail` says how: `stored`,
            `not_stored` or `unknown`), `compact` (a summary took the place of messages),
            `summary` (one that was due could not be made; `detail` is the class of the error).

        conversation: short hash of the conversation's keys; no id.

        messages: how many are concerned: stored, loaded, missed, left out or
            summarised.

        version: number of the version afterwards.

        expire_at: for `expiry`, the conversation's end in ms since 1970.

        detail: a word more, such as the class of a conflict; never content.
    """

    kind: Kind
    conversation: str
    messages: int = 0
    version: int = 0
    expire_at: int = 0
    detail: str = ""


Hook = Callable[[Event], None]

_logger = logging.getLogger("memory_redis")
_LEVELS = {
    "conflict": logging.INFO,
    "repeat": logging.INFO,
    "settled": logging.INFO,
    "heal": logging.WARNING,
    "corrupt": logging.WARNING,
    "summary": logging.WARNING,
    "compact": logging.INFO,
}
_SAID = {"summary": "summary not made"}
"""Where the kind alone does not say in a line of the log what happened."""


def log_event(event: Event) -> None:
    """The default hook: heals, corrupt records and summaries that could not be made are warnings,
    conflicts and repeats are infos.
    """
    level = _LEVELS.get(event.kind, logging.DEBUG)
    if event.detail == "HistoryRolledBack":
        level = logging.WARNING
    if _logger.isEnabledFor(level):
        _logger.log(
            level,
            "%s conversation=%s messages=%d version=%d %s",
            _SAID.get(event.kind, event.kind),
            event.conversation,
            event.messages,
            event.version,
            event.detail,
        )


_DEFAULT = (log_event,)


class Emitter:
    """Tells every hook of an event."""

    __slots__ = ("_hooks", "_only_logs")

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = tuple(hooks)
        self._only_logs = self._hooks == _DEFAULT

    def wants_details(self) -> bool:
        """Whether events of everyday (`append`, `load`, `expiry`) would reach anybody."""
        return _logger.isEnabledFor(logging.DEBUG) if self._only_logs else bool(self._hooks)

    def __call__(self, event: Event) -> None:
        """Tell the hooks; what they raise is logged without its text, which may hold content."""
        for hook in self._hooks:
            try:
                hook(event)
            except Exception as error:
                _logger.error("hook failed on %s: %s", event.kind, type(error).__name__)
