"""What was stored in a conversation since the last look: by position, nothing twice, nothing lost."""

from contextlib import suppress
from typing import Final, NamedTuple

from memory_redis import (
    ConflictError,
    History,
    HistoryTooLarge,
    LastMessages,
    Snapshot,
    StoredMessage,
    Version,
)
from memory_redis.wording import counted

__all__ = ["Follower", "News"]

_NOTHING: Final = LastMessages(0)
_SLACK: Final = 64
"""Messages before the new ones that are read too: some may come meanwhile, and a window leaves out results
whose calls it does not hold."""


class News(NamedTuple):
    """What a look has found.

    Attributes:
        messages: the new ones, oldest first.

        version: of the conversation, with these.

        notes: sentences about what cannot be shown.
    """

    messages: list[StoredMessage]
    version: Version
    notes: list[str]


class Follower:
    """Follows one conversation, by looks."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen = Version()

    def begin(self, count: int) -> Snapshot:
        """The newest messages; what comes after them is news."""
        snapshot = self._history.load(LastMessages(count))
        self._seen = snapshot.version
        return snapshot

    def news(self) -> News:
        """What was stored since the last look, or since `begin`."""
        seen = self._seen
        while True:
            snapshot = self._history.load(_NOTHING)
            now = snapshot.version
            known = seen.number if now.birth == seen.birth else 0
            start = max(known, snapshot.trimmed)
            messages = self._between(start, now) if now.number > start else []
            if messages is not None:
                break
        self._seen = now
        notes = []
        if seen.birth not in (b"", now.birth):
            notes.append("the conversation that was shown so far has ended")
        elif start > known:
            notes.append(f"what stood before #{start} is no longer stored")
        missing = now.number - start - len(messages)
        if missing > 0:
            why = "it is damaged, or was" if missing == 1 else "they are damaged, or were"
            notes.append(f"{counted(missing, 'message')} cannot be shown: {why} removed meanwhile")
        return News(messages, now, notes)

    def _between(self, start: int, end: Version) -> list[StoredMessage] | None:
        """The messages from a position up to a version; None if its life is over, and another look is due."""
        wanted = range(start, end.number)
        with suppress(HistoryTooLarge):
            near = self._history.load(LastMessages(len(wanted) + _SLACK))
            found = [message for message in near.messages if message.seq in wanted]
            damaged = sum(error.position in wanted for error in near.skipped)
            if near.version.birth == end.birth and len(found) + damaged == len(wanted):
                return found
        # By pages nothing is left out.
        try:
            found = [message for message in self._history.iterate(10_000) if message.seq in wanted]
        except ConflictError:
            return None
        return found if self._history.load(_NOTHING).version.birth == end.birth else None
