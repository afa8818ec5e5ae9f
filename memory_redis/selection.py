"""What a window shows of messages that are at hand: the rule that window.lua follows, in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_redis.counting import TokenCounter, checked_count, text_bytes
from memory_redis.errors import InvalidMessage
from memory_redis.messages import StoredMessage
from memory_redis.toolcalls import ties_of, without_orphans, without_unanswered
from memory_redis.windows import Bounds, Window, check_window


class Chosen(NamedTuple):
    """Messages that a window shows.

    Attributes:
        first, after: where, among the messages that were looked at, those begin and end that the limits
            allow, a system message in front left aside.

        closed: whether more messages at that end would change nothing.
    """

    messages: list[StoredMessage]
    first: int
    after: int
    closed: bool


class _Room:
    """What is left of the limits."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._messages, self._tokens, self._bytes = bounds.messages, bounds.tokens, bounds.text_bytes

    @property
    def full(self) -> bool:
        """Whether no message has room, whatever it is."""
        return self._messages == 0

    def take(self, message: StoredMessage) -> bool:
        """Whether there is room for a message, which is then used up."""
        bounds = self._bounds
        if self.full:
            return False
        tokens = size = 0
        if self._tokens is not None:
            tokens = tokens_of(bounds, message)
            if tokens > self._tokens:
                return False
        if self._bytes is not None:
            size = text_bytes(message)
            if size > self._bytes:
                return False
        if self._messages is not None:
            self._messages -= 1
        if self._tokens is not None:
            self._tokens -= tokens
        if self._bytes is not None:
            self._bytes -= size
        return True


def tokens_of(bounds: Bounds, message: StoredMessage) -> int:
    """What a message costs by the counter of a window.

    Raises:
        InvalidSetting: the counter gave something else than an integer that can be stored.
    """
    counter = bounds.counter
    if isinstance(counter, TokenCounter):
        return counter(message)
    return 0 if counter is None else checked_count(counter(message))


def _newest(
    messages: Sequence[StoredMessage], bounds: Bounds, now_ms: int, whole: bool, head: StoredMessage | None
) -> Chosen:
    """What a window shows of the end of a conversation."""
    room = _Room(bounds)
    pinned = messages[0] if whole and messages else head
    if pinned is not None and not (_kept(pinned, bounds, now_ms) and room.take(pinned)):
        pinned = None
    stop = 1 if pinned is not None and whole else 0
    at, closed, turns = len(messages), whole, 0
    while at > stop and turns != bounds.turns and not room.full:
        message = messages[at - 1]
        if _older(message, bounds.age_ms, now_ms) or not room.take(message):
            closed = True
            break
        if message.type == "human" and at > 1:  # whether a turn begins with the first one, nothing hangs on
            turns += messages[at - 2].type != "human"
        at -= 1
    window = list(messages[at:])
    if bounds.start_on is not None:
        starts = (place for place, message in enumerate(window) if message.type == bounds.start_on)
        window = window[next(starts, 0) :]
    window = without_orphans(window, ties_of(window))
    if pinned is not None:
        window = [pinned, *window]
    first = 0 if at == stop else at
    return Chosen(window, first, len(messages), closed or turns == bounds.turns or room.full)


def _older(message: StoredMessage, age_ms: int | None, now_ms: int) -> bool:
    return age_ms is not None and message.stored_ms is not None and message.stored_ms < now_ms - age_ms


def _kept(front: StoredMessage, bounds: Bounds, now_ms: int) -> bool:
    """Whether the first message of a conversation is to be shown in front."""
    return bounds.keep_system and front.type == "system" and not _older(front, bounds.kept_ms, now_ms)


def _oldest(messages: Sequence[StoredMessage], bounds: Bounds, now_ms: int, whole: bool) -> Chosen:
    """What a window shows of the beginning of a conversation."""
    room = _Room(bounds)
    old = (at for at, message in enumerate(messages, 1) if _older(message, bounds.age_ms, now_ms))
    start = max(old, default=0)
    if not start and messages and _kept(messages[0], bounds, now_ms) and not _Room(bounds).take(messages[0]):
        start = 1
    at = start
    while at < len(messages) and room.take(messages[at]):
        at += 1
    window, cut = list(messages[start:at]), at < len(messages)
    if cut:
        window = without_unanswered(window, [], "drop")
    return Chosen(without_orphans(window, ties_of(window)), start, at, cut or whole)


def chosen(
    messages: Sequence[StoredMessage],
    bounds: Bounds,
    now_ms: int,
    *,
    whole: bool = True,
    head: StoredMessage | None = None,
) -> Chosen:
    """What a window shows of a conversation.

    Args:
        messages: its messages at that end which the window is taken from, oldest first; with `whole` all.

        now_ms: the server's time.

        head: its first message, where that is not among the others.
    """
    if bounds.oldest:
        return _oldest(messages, bounds, now_ms, whole)
    return _newest(messages, bounds, now_ms, whole, head)


def trim_messages(messages: Iterable[StoredMessage], window: Window) -> list[StoredMessage]:
    """What a window shows of a list of messages that is the whole conversation.

    A window by age goes back from the newest of them.

    Args:
        messages: oldest first; the list is not changed.

        window: as for `History.load`.

    Raises:
        InvalidSetting: it is no window, or its counter gave no count.
        InvalidMessage: one of them is no message of this library.
    """
    bounds = check_window(window).bounds
    messages = list(messages)
    if not all(isinstance(one, StoredMessage) for one in messages):
        raise InvalidMessage(
            "trim_messages takes messages of memory_redis: human(), ai(), from_langchain(), …"
        )
    if bounds == Bounds():
        return messages
    times = [one.stored_ms for one in messages if one.stored_ms is not None]
    return chosen(messages, bounds, max(times, default=0)).messages
