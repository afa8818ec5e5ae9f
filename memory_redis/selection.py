"""What a window shows of messages that are at hand: the rule that window.lua follows, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memory_redis.counting import TokenCounter, checked_count
from memory_redis.messages import StoredMessage
from memory_redis.toolcalls import ties_of, without_orphans, without_unanswered
from memory_redis.windows import Bounds, Window


class Chosen(NamedTuple):
    """Messages that a window shows.

    Attributes:
        first: how many of the messages stand before the window, a system message in front left aside.

        closed: whether more messages at that end would change nothing.
    """

    messages: list[StoredMessage]
    first: int
    closed: bool


class _Room:
    """What is left of the limits."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._messages, self._tokens, self._bytes = bounds.messages, bounds.tokens, bounds.text_bytes

    def take(self, message: StoredMessage) -> bool:
        """Whether there is room for a message, which is then used up."""
        bounds = self._bounds
        if self._messages is not None and self._messages < 1:
            return False
        tokens = size = 0
        if self._tokens is not None:
            tokens = tokens_of(bounds, message)
            if tokens > self._tokens:
                return False
        if self._bytes is not None:
            size = len(message.text.encode("utf-8", "surrogatepass"))
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


def newest(
    messages: Sequence[StoredMessage],
    bounds: Bounds,
    now_ms: int,
    *,
    whole: bool = True,
    head: StoredMessage | None = None,
) -> Chosen:
    """What a window shows of the end of a conversation.

    Args:
        messages: its newest messages, oldest first; with `whole` all of them.

        now_ms: the server's time.

        head: its first message, where that is not among the others.
    """
    room = _Room(bounds)
    front = messages[0] if whole and messages else head
    pinned = front if bounds.keep_system and front is not None and front.type == "system" else None
    if pinned is not None and not room.take(pinned):
        pinned = None
    stop = 1 if pinned is not None and whole else 0
    at, closed, turns = len(messages), whole, 0
    while at > stop:
        if turns == bounds.turns:
            closed = True
            break
        message = messages[at - 1]
        old = (
            bounds.age_ms is not None
            and message.stored_ms is not None
            and message.stored_ms < now_ms - bounds.age_ms
        )
        if old or not room.take(message):
            closed = True
            break
        if bounds.turns is not None and message.type == "human":
            if at == 1 and not whole:
                break  # what stands before it decides whether a turn begins here
            turns += at == 1 or messages[at - 2].type != "human"
        at -= 1
    return Chosen(finished(list(messages[at:]), bounds, pinned), at, closed)


def finished(
    window: list[StoredMessage], bounds: Bounds, pinned: StoredMessage | None = None
) -> list[StoredMessage]:
    """Messages that the limits allow, as the model may see them: from the right one on, no result alone."""
    if bounds.start_on is not None:
        starts = (at for at, message in enumerate(window) if message.type == bounds.start_on)
        window = window[next(starts, 0) :]
    window = without_orphans(window, ties_of(window))
    return window if pinned is None else [pinned, *window]


def oldest(messages: Sequence[StoredMessage], bounds: Bounds, now_ms: int, *, whole: bool = True) -> Chosen:
    """What a window shows of the beginning of a conversation; see `newest`.

    Of the last message whose place is known only with those behind it, nothing is said: `closed` is false.
    """
    room, at = _Room(bounds), 0
    if bounds.age_ms is not None:
        ages = (one.stored_ms for one in messages)
        at = sum(1 for ms in ages if ms is not None and ms < now_ms - bounds.age_ms)
    start = at
    while at < len(messages) and room.take(messages[at]):
        at += 1
    cut = at < len(messages)
    window = list(messages[start:at])
    return Chosen(without_unanswered(window, [], "drop") if cut else window, 0, cut or whole)


def chosen(messages: Sequence[StoredMessage], bounds: Bounds, now_ms: int, *, whole: bool = True) -> Chosen:
    """What a window shows of messages, from the end that it is taken from."""
    return (oldest if bounds.oldest else newest)(messages, bounds, now_ms, whole=whole)


def trim_messages(messages: Sequence[StoredMessage], window: Window) -> list[StoredMessage]:
    """What a window shows of a list of messages that is the whole conversation.

    A window by age goes back from the newest of them.

    Args:
        messages: oldest first; the list is not changed.

        window: as for `History.load`.
    """
    times = [one.stored_ms for one in messages if one.stored_ms is not None]
    return chosen(messages, window.bounds, max(times, default=0)).messages
