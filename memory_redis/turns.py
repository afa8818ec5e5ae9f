"""A turn: load a conversation, work with it, commit what came of it as one unit."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.plans import Flow
from memory_redis._engine.writing import Commit, OnConflict, key_to_id
from memory_redis.errors import ConflictError, InvalidMessage, InvalidSetting
from memory_redis.messages import StoredMessage
from memory_redis.snapshots import Snapshot
from memory_redis.versions import Version
from memory_redis.windows import Window


class _TurnBase:
    """What both faces share: everything but the waiting."""

    def __init__(
        self,
        conversation: Conversation,
        on_conflict: OnConflict,
        window: Window | None,
        idempotency_key: str | None,
    ) -> None:
        if on_conflict not in ("append", "raise"):
            raise InvalidSetting('on_conflict must be "append" or "raise"')
        self._conversation = conversation
        self._on_conflict: OnConflict = on_conflict
        self._window, self._key = conversation.window(window), idempotency_key
        self._key_id = None if idempotency_key is None else key_to_id(idempotency_key)
        self._added: list[StoredMessage] = []
        self._snapshot: Snapshot | None = None
        self._stored: list[StoredMessage] | None = None
        self._commit: Commit | None = None
        self._ended = False

    @property
    def messages(self) -> list[StoredMessage]:
        """What the window showed on entry; a list of its own."""
        return list(self.snapshot.messages)

    @property
    def snapshot(self) -> Snapshot:
        """The load on entry.

        Raises:
            InvalidSetting: the turn was not entered.
        """
        if self._snapshot is None:
            raise InvalidSetting("a turn is used with `with` or `async with`")
        return self._snapshot

    @property
    def stored(self) -> list[StoredMessage] | None:
        """The messages of an earlier turn under the same idempotency key; None if there is none."""
        return self._stored

    @property
    def version(self) -> Version:
        """The version of the commit; before it, that of the load."""
        return self.snapshot.version if self._commit is None else self._commit.version

    @property
    def conflict(self) -> ConflictError | None:
        """After the commit: what it met, if others had appended meanwhile."""
        return None if self._commit is None else self._commit.conflict

    @property
    def missed(self) -> list[StoredMessage]:
        """After the commit: what others had appended meanwhile, the newest 100 at most."""
        return [] if self.conflict is None else self.conflict.missed

    @property
    def added(self) -> list[StoredMessage]:
        """What was added so far: after a commit that failed, what is still to be stored."""
        return list(self._added)

    def add(self, *messages: StoredMessage) -> None:
        """Put messages aside, to be stored on exit in this order.

        Raises:
            InvalidMessage: one is no message.
            InvalidSetting: the turn has ended, and stores nothing any more.
        """
        if self._ended:
            raise InvalidSetting("the turn has ended: ask the history for another")
        for at, message in enumerate(messages):
            if not isinstance(message, StoredMessage):
                kind = type(message).__name__
                raise InvalidMessage(f"a {kind} is no message: use human(), ai(), …", position=at)
        self._added.extend(messages)

    def _check_unused(self) -> None:
        if self._snapshot is not None:
            raise InvalidSetting("a turn is used once: ask the history for another")

    def _load(self) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        conversation = self._conversation
        return conversation.reader.load(self._window, conversation.settings.on_corrupt, self._key_id)

    def _committing(self) -> Flow[Commit] | None:
        if not self._added:
            return None
        return self._conversation.writer.append(
            self._added,
            expected=self.snapshot.version,
            on_conflict=self._on_conflict,
            idempotency_key=self._key,
        )


class Turn(_TurnBase):
    """What `History.turn()` gives; use it with `with`.

    Leaving the block commits what was added, in one append. It raises `ConflictError` under
    `on_conflict="raise"`, `HistoryCleared` under both policies, and what `History.append` raises;
    the messages are in `added` then. A block that raises stores nothing.
    """

    def __init__(
        self,
        conversation: Conversation,
        driver: Driver,
        on_conflict: OnConflict,
        window: Window | None,
        idempotency_key: str | None,
    ) -> None:
        super().__init__(conversation, on_conflict, window, idempotency_key)
        self._driver = driver

    def __enter__(self) -> Self:
        self._check_unused()
        self._snapshot, self._stored = self._driver.drive(self._load())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        flow = None if kind is not None else self._committing()
        if flow is not None:
            self._commit = self._driver.drive(flow)


class AsyncTurn(_TurnBase):
    """What `AsyncHistory.turn()` gives; use it with `async with`. As `Turn`."""

    def __init__(
        self,
        conversation: Conversation,
        driver: AsyncDriver,
        on_conflict: OnConflict,
        window: Window | None,
        idempotency_key: str | None,
    ) -> None:
        super().__init__(conversation, on_conflict, window, idempotency_key)
        self._driver = driver

    async def __aenter__(self) -> Self:
        self._check_unused()
        self._snapshot, self._stored = await self._driver.drive(self._load())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        flow = None if kind is not None else self._committing()
        if flow is not None:
            self._commit = await self._driver.drive(flow)
