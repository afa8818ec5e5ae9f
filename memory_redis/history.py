"""`History` and `AsyncHistory`: one conversation. Same methods, the latter awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NoReturn

from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.reading import Place
from memory_redis.lifetimes import AsyncLifetime, Lifetime
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, TurnPolicy
from memory_redis.snapshots import Snapshot
from memory_redis.turns import AsyncTurn, Turn
from memory_redis.versions import AppendId, Version
from memory_redis.windows import Window


class _HistoryBase:
    """What both faces share. Constructing one does no I/O."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    @property
    def label(self) -> str:
        """The short hash that stands for the conversation in errors and events; no id."""
        return self._conversation.keys.label

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a history has connections: give its ids to the other process, not the history")


class History(_HistoryBase, Lifetime):
    """One conversation: what `RedisMemory.history()` and `.session()` give.

    Every method may raise `ServerError` and its kinds; those that store may raise `UnknownOutcome`
    instead, when the answer was lost. A history may be used by many threads.
    """

    def __init__(self, conversation: Conversation, driver: Driver) -> None:
        super().__init__(conversation)
        self._driver = driver

    def append(
        self,
        *messages: StoredMessage,
        expected: Version | None = None,
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
    ) -> Version:
        """Store messages at the end: all of them or none, side by side, in order, once.

        One round trip; the first append of a conversation takes two more to enter it in the user's
        index. A lost reply is asked for again, up to the memory's deadline, and stores nothing
        twice.

        Args:
            expected: store only if the conversation is still at this version.

            idempotency_key: a name for this append, such as a request's id. A second append under
                the same key within the memory's `idempotency_hold` stores nothing and gives the
                version of the first, with `repeated` set, whatever its messages are. The newest
                256 keys of a conversation are held.

            append_id: the id of an earlier append of the same messages, whose outcome is open.

        Returns:
            The version that the conversation has with these messages.

        Raises:
            InvalidMessage: no message, too many, or one that cannot be stored. Nothing was sent.
            InvalidSetting: `expected`, the key or the id cannot be meant. Nothing was sent.
            ConflictError: the version is not the expected one; nothing was stored.
            HistoryCleared: as `ConflictError`, or the conversation was cleared while a repeat was
                on its way.
            AppendSettled: `settle` has said that the append with this id is not stored; so it stays.
            UnknownOutcome: it may or may not be stored.
        """
        flow = self._conversation.writer.append(
            messages,
            expected=expected,
            idempotency_key=idempotency_key,
            append_id=append_id,
        )
        return self._driver.drive(flow).version

    def load(self, window: Window | None = None, *, on_corrupt: OnCorrupt | None = None) -> Snapshot:
        """The messages that a window shows, and the version they belong to; one round trip.

        A conversation of over 1,000 messages that is loaded whole takes one more for each further
        10,000 that have begun.

        Args:
            window: instead of the memory's.

            on_corrupt: `"raise"` or `"skip"`, instead of the memory's.

        Raises:
            CorruptRecord, UnsupportedFormat: a record of the window cannot be decoded.
            HistoryTooLarge: the whole conversation was asked for and is larger than the limit.
        """
        conversation = self._conversation
        flow = conversation.reader.load(conversation.window(window), conversation.on_corrupt(on_corrupt))
        return self._driver.drive(flow)[0]

    def iterate(
        self, page_size: int = 500, *, on_corrupt: OnCorrupt | None = None
    ) -> Iterator[StoredMessage]:
        """Every stored message, oldest first, read by pages; those that come meanwhile too.

        Args:
            page_size: messages that one round trip reads, 1 to 10,000.

            on_corrupt: `"raise"` or `"skip"`, instead of the memory's.

        Raises:
            CorruptRecord, UnsupportedFormat: a record of the next page cannot be decoded.
            ConflictError: the conversation was cleared, edited or ended meanwhile.
        """
        conversation = self._conversation
        size, corrupt = conversation.page_size(page_size), conversation.on_corrupt(on_corrupt)
        return self._pages(size, corrupt)

    def _pages(self, size: int, corrupt: OnCorrupt) -> Iterator[StoredMessage]:
        place: Place | None = None
        while True:
            messages, place = self._driver.drive(self._conversation.reader.page(place, size, corrupt))
            yield from messages
            if place is None:
                return

    def turn(
        self,
        *,
        on_conflict: TurnPolicy = "append",
        window: Window | None = None,
        idempotency_key: str | None = None,
        on_corrupt: OnCorrupt | None = None,
    ) -> Turn:
        """A turn: load on entry, commit what was added on exit, nothing if the block raises.

        Args:
            on_conflict: what the commit does if others have appended meanwhile. `"append"` stores
                the turn after theirs and reports the conflict as `turn.conflict`; `"raise"` stores
                nothing and raises it.

            window: instead of the memory's.

            idempotency_key: a name for the turn; if it is stored already, `turn.stored` has the
                messages of its first commit on entry.

            on_corrupt: `"raise"` or `"skip"`, instead of the memory's.

        Raises:
            InvalidSetting: one of these cannot be meant.
        """
        return self._opened(on_conflict, window, idempotency_key, on_corrupt)

    def _opened(
        self, on_conflict: TurnPolicy, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> Turn:
        return Turn(self._conversation, self._driver, on_conflict, window, key, on_corrupt)

    def settle(self, append_id: AppendId) -> Version | None:
        """What became of an append whose outcome is open: its version, None if it is not stored.

        Raises:
            InvalidSetting: it is no `AppendId`.
            UnknownOutcome: so much was appended since that nobody can tell any more.
        """
        return self._driver.drive(self._conversation.writer.settle(append_id))

    def count(self) -> int:
        """How many messages are stored now."""
        return self._driver.run(self._conversation.count())

    def exists(self) -> bool:
        """Whether anything is stored."""
        return self._driver.run(self._conversation.exists())

    def compact(self, summary: str, *, expected: Version, keep: int = 0) -> int:
        """Put a summary in the place of the messages that it tells of, as one atomic step.

        All messages that stood at the expected version go, also those that a window did not show, but for
        the newest `keep` of them, wherever that cuts; those that were appended since stay. The version
        stays too, so that turns that are on their way can still commit. `load` gives the summary as
        `Snapshot.summary`; it ends and is cleared with the conversation. A summary that was there before
        is replaced, so the new one has to tell of it.

        Args:
            summary: a non-empty text.

            expected: the version of the load that the summary was made of; of a load, for that of an
                append does not tell whether somebody has made a summary since.

            keep: how many messages of that version stay, fewer than there were.

        Returns:
            How many messages went.

        Raises:
            ConflictError: those messages were summarised, trimmed, edited or cleared meanwhile, or the
                conversation has ended; nothing was changed.
            InvalidMessage: the summary is empty, or larger than a record may be.
            InvalidSetting: `expected` or `keep` cannot be meant.
        """
        removed = self._driver.drive(self._conversation.compactor.compact(summary, expected, keep))
        return removed or 0

    def clear(self) -> int:
        """Remove all messages, also from the user's list; how many there were.

        For 100 seconds a mark without content stays, so that a turn that was loaded before, or a
        repeat of an older append, brings nothing back.
        """
        return self._driver.drive(self._conversation.writer.clear())


class AsyncHistory(_HistoryBase, AsyncLifetime):
    """One conversation, for asyncio: what `AsyncRedisMemory.history()` and `.session()` give.

    Every method may raise `ServerError` and its kinds; those that store may raise `UnknownOutcome`
    instead, when the answer was lost. A history may be used from many tasks and event loops.
    """

    def __init__(self, conversation: Conversation, driver: AsyncDriver) -> None:
        super().__init__(conversation)
        self._driver = driver

    async def append(
        self,
        *messages: StoredMessage,
        expected: Version | None = None,
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
    ) -> Version:
        """Store messages at the end: all of them or none, side by side, in order, once.

        As `History.append`. A call that is cancelled may or may not have stored its messages.

        Raises:
            InvalidMessage: no message, too many, or one that cannot be stored. Nothing was sent.
            InvalidSetting: `expected`, the key or the id cannot be meant. Nothing was sent.
            ConflictError: the version is not the expected one; nothing was stored.
            HistoryCleared: as `ConflictError`, or the conversation was cleared while a repeat was
                on its way.
            AppendSettled: `settle` has said that the append with this id is not stored; so it stays.
            UnknownOutcome: it may or may not be stored.
        """
        flow = self._conversation.writer.append(
            messages,
            expected=expected,
            idempotency_key=idempotency_key,
            append_id=append_id,
        )
        return (await self._driver.drive(flow)).version

    async def load(self, window: Window | None = None, *, on_corrupt: OnCorrupt | None = None) -> Snapshot:
        """The messages that a window shows, and the version they belong to; as `History.load`.

        Raises:
            CorruptRecord, UnsupportedFormat: a record of the window cannot be decoded.
            HistoryTooLarge: the whole conversation was asked for and is larger than the limit.
        """
        conversation = self._conversation
        flow = conversation.reader.load(conversation.window(window), conversation.on_corrupt(on_corrupt))
        return (await self._driver.drive(flow))[0]

    def iterate(
        self, page_size: int = 500, *, on_corrupt: OnCorrupt | None = None
    ) -> AsyncIterator[StoredMessage]:
        """Every stored message, oldest first, read by pages; as `History.iterate`.

        Raises:
            CorruptRecord, UnsupportedFormat: a record of the next page cannot be decoded.
            ConflictError: the conversation was cleared, edited or ended meanwhile.
        """
        conversation = self._conversation
        size, corrupt = conversation.page_size(page_size), conversation.on_corrupt(on_corrupt)
        return self._pages(size, corrupt)

    async def _pages(self, size: int, corrupt: OnCorrupt) -> AsyncIterator[StoredMessage]:
        place: Place | None = None
        while True:
            messages, place = await self._driver.drive(self._conversation.reader.page(place, size, corrupt))
            for message in messages:
                yield message
            if place is None:
                return

    def turn(
        self,
        *,
        on_conflict: TurnPolicy = "append",
        window: Window | None = None,
        idempotency_key: str | None = None,
        on_corrupt: OnCorrupt | None = None,
    ) -> AsyncTurn:
        """A turn: load on entry, commit what was added on exit, nothing if the block raises.

        As `History.turn`.

        Raises:
            InvalidSetting: one of these cannot be meant.
        """
        return self._opened(on_conflict, window, idempotency_key, on_corrupt)

    def _opened(
        self, on_conflict: TurnPolicy, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> AsyncTurn:
        return AsyncTurn(self._conversation, self._driver, on_conflict, window, key, on_corrupt)

    async def settle(self, append_id: AppendId) -> Version | None:
        """What became of an append whose outcome is open: its version, None if it is not stored.

        Raises:
            InvalidSetting: it is no `AppendId`.
            UnknownOutcome: so much was appended since that nobody can tell any more.
        """
        return await self._driver.drive(self._conversation.writer.settle(append_id))

    async def count(self) -> int:
        """How many messages are stored now."""
        return await self._driver.run(self._conversation.count())

    async def exists(self) -> bool:
        """Whether anything is stored."""
        return await self._driver.run(self._conversation.exists())

    async def compact(self, summary: str, *, expected: Version, keep: int = 0) -> int:
        """Put a summary in the place of the messages that it tells of. As `History.compact`.

        Raises:
            ConflictError: those messages were summarised, trimmed, edited or cleared meanwhile, or the
                conversation has ended; nothing was changed.
            InvalidMessage: the summary is empty, or larger than a record may be.
            InvalidSetting: `expected` or `keep` cannot be meant.
        """
        removed = await self._driver.drive(self._conversation.compactor.compact(summary, expected, keep))
        return removed or 0

    async def clear(self) -> int:
        """Remove all messages, also from the user's list; how many there were.

        As `History.clear`.
        """
        return await self._driver.drive(self._conversation.writer.clear())
