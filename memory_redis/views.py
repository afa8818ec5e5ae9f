"""What a memory strategy shows of a conversation: windows, and a summary in front."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace

from memory_redis._engine.conversation import Conversation, ReadsConversation
from memory_redis._engine.plans import Flow
from memory_redis._engine.reading import Place
from memory_redis.errors import HistoryTooLarge, InvalidSetting
from memory_redis.limits import Limits
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt
from memory_redis.selection import trim_messages
from memory_redis.snapshots import Snapshot
from memory_redis.summaries import shown
from memory_redis.upkeep import Summariser
from memory_redis.versions import AppendId
from memory_redis.windows import AllMessages, Combined, LastMessages, Since, Window

_WHOLE = AllMessages()


@dataclass(frozen=True, slots=True)
class View:
    """What a strategy shows of a conversation.

    Attributes:
        read: the window that the stored messages are read with.

        below: windows on what that gives, one after another.

        summariser: puts a summary in front of them; None for no summary.

        above: windows on what that gives.
    """

    read: Window = _WHOLE
    below: tuple[Window, ...] = ()
    summariser: Summariser | None = None
    above: tuple[Window, ...] = ()

    def __str__(self) -> str:
        made = () if self.summariser is None else (self.summariser.plan,)
        seen = () if self.read == _WHOLE else (self.read,)
        return ", ".join(map(repr, (*seen, *self.below, *made, *self.above)))

    def windowed(self, window: Window) -> View:
        """With one more window on top."""
        if self.summariser is not None:
            return replace(self, above=(*self.above, window))
        read, below = _together(self.read, self.below, window)
        return replace(self, read=read, below=below)


def _together(read: Window, below: tuple[Window, ...], window: Window) -> tuple[Window, tuple[Window, ...]]:
    """A window on top of others: one with the first of them if both can be limits at once."""
    if not below:
        with suppress(InvalidSetting):  # two counters, say
            return (window if read == _WHOLE else read & window), ()
    parts = window.windows if isinstance(window, Combined) else (window,)
    for part in parts:
        if isinstance(part, Since):  # only the server knows what time it is
            read &= part
    return read, (*below, window)


class ViewReader:
    """Reads a conversation as a view shows it; in all else as its reader."""

    def __init__(self, reader: ReadsConversation, view: View, limits: Limits) -> None:
        self._reader, self._view = reader, view
        self._sure = LastMessages(max(limits.load_bytes // limits.record_bytes, 1))
        """What one load may bring, however large the messages are."""

    def page(
        self, place: Place | None, size: int, on_corrupt: OnCorrupt
    ) -> Flow[tuple[list[StoredMessage], Place | None]]:
        """As `Reader.page`: what is stored."""
        return self._reader.page(place, size, on_corrupt)

    def load(
        self, window: Window, on_corrupt: OnCorrupt, key_id: AppendId | None = None
    ) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        """As `Reader.load`; the window of a call limits the messages, and a summary comes on top."""
        view = self._view
        read, below = _together(view.read, view.below, window)
        try:
            snapshot, stored = yield from self._reader.load(read, on_corrupt, key_id)
        except HistoryTooLarge:
            if view.summariser is None or read.bounds.oldest:
                raise
            # Until a summary tells of the others, which a load that fails would prevent for ever.
            snapshot, stored = yield from self._reader.load(read & self._sure, on_corrupt, key_id)
        messages = snapshot.messages
        for one in below:
            messages = trim_messages(messages, one)
        if view.summariser is not None and snapshot.summary is not None:
            messages = [shown(snapshot.summary), *messages]
        for one in view.above:
            messages = trim_messages(messages, one)
        return replace(snapshot, messages=messages), stored


def view_of(conversation: Conversation, view: View) -> Conversation:
    """The same conversation, read as a view shows it."""
    viewed = copy(conversation)
    viewed.read_by(ViewReader(conversation.reader, view, conversation.settings.limits))
    viewed.default_window = _WHOLE
    return viewed
