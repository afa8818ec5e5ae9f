"""A turn: load a conversation, work with it, commit what came of it as one unit."""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.plans import Flow
from memory_redis._engine.writing import Commit, OnOther, key_to_id
from memory_redis.errors import ConflictError, InvalidSetting, MemoryRedisError, SummaryNotMade
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, TurnPolicy
from memory_redis.snapshots import Snapshot
from memory_redis.telemetry import Event
from memory_redis.versions import Version
from memory_redis.windows import Window


class _Batch(NamedTuple):
    """Messages for one commit, their records, and its idempotency key."""

    messages: list[StoredMessage]
    records: list[bytes]
    key: str | None = None


class _TurnBase:
    """What both faces share: everything but the waiting.

    Attributes:
        summary_error: after a commit: why a summary that was due could not be made; of histories that
            keep one.
    """

    summary_error: SummaryNotMade | None = None

    def __init__(
        self,
        conversation: Conversation,
        on_conflict: TurnPolicy,
        window: Window | None,
        idempotency_key: str | None,
        on_corrupt: OnCorrupt | None,
    ) -> None:
        if on_conflict not in ("append", "raise"):
            raise InvalidSetting('on_conflict must be "append" or "raise"')
        self._conversation = conversation
        self._on_conflict: TurnPolicy = on_conflict
        self._window, self._key = conversation.window(window), idempotency_key
        self._on_corrupt: OnCorrupt = conversation.on_corrupt(on_corrupt)
        self._key_id = None if idempotency_key is None else key_to_id(idempotency_key)
        self._batch = _Batch([], [])
        self._saving, self._steps = False, 0
        self._done: list[_Batch] = []
        self._snapshot: Snapshot | None = None
        self._stored: list[StoredMessage] | None = None
        self._version: Version | None = None
        self._expected: Version | None = None
        self._conflict: ConflictError | None = None
        self._ended = False

    def __repr__(self) -> str:
        if self._snapshot is None:
            state = "not entered"
        else:
            state = f"{'ended' if self._ended else 'open'}, {len(self._batch.messages)} added"
        return f"<{type(self).__name__} {self._conversation.keys.label} {state}>"

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
        """The version of the last commit; before one, that of the load."""
        return self.snapshot.version if self._version is None else self._version

    @property
    def conflict(self) -> ConflictError | None:
        """After a commit: what it met, if others had appended meanwhile."""
        return self._conflict

    @property
    def missed(self) -> list[StoredMessage]:
        """After a commit: what others had appended meanwhile, the newest 100 at most."""
        return [] if self._conflict is None else self._conflict.missed

    @property
    def added(self) -> list[StoredMessage]:
        """What was added and is not yet stored."""
        return list(self._batch.messages)

    def add(self, *messages: StoredMessage) -> None:
        """Put messages aside, to be stored by the next commit in this order, as they are now.

        Raises:
            InvalidMessage: one is no message, or cannot be stored, or one append cannot hold them beside
                those that were added before; none of them was added.
            InvalidSetting: the turn was not entered, or has ended, and stores nothing.
        """
        _ = self.snapshot
        self._check_running()
        if messages:
            records = self._conversation.records(messages, after=self._batch.records)
            self._batch = _Batch([*self._batch.messages, *messages], records)

    def _check_unused(self) -> None:
        if self._snapshot is not None:
            raise InvalidSetting("a turn is used once: ask the history for another")

    def _check_running(self) -> None:
        if self._ended:
            raise InvalidSetting("the turn has ended: ask the history for another")

    def _load(self) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        return self._conversation.reader.load(self._window, self._on_corrupt, self._key_id)

    def _committing(self, batch: _Batch) -> Flow[Commit]:
        expected = self.snapshot.version if self._expected is None else self._expected
        if self._done:
            return self._with_earlier_steps(batch, expected)
        return self._appending(batch, expected, self._on_conflict)

    def _appending(self, batch: _Batch, expected: Version, on_conflict: OnOther) -> Flow[Commit]:
        return self._conversation.writer.append(
            batch.messages,
            expected=expected,
            on_conflict=on_conflict,
            idempotency_key=batch.key,
            records=batch.records,
        )

    def _with_earlier_steps(self, batch: _Batch, expected: Version) -> Flow[Commit]:
        """A further step; with the earlier ones before it, if they are gone with their life."""
        try:
            return (yield from self._appending(batch, expected, "same life"))
        except ConflictError as error:
            if not error.expired:
                raise
        conflict: ConflictError | None = None
        for step in (*self._done, batch):
            commit = yield from self._appending(step, expected, "append")
            conflict, expected = conflict or commit.conflict, commit.version
        return Commit(expected, conflict)

    def _next_key(self) -> str | None:
        """The turn's key for its first commit without one of its own; made from that for each further one."""
        if self._key is None:
            return None
        self._steps += 1
        return self._key if self._steps == 1 else f"{self._key}\0{self._steps}"

    def _take(self, idempotency_key: str | None) -> _Batch:
        """What was added, for a commit; what is added while that is under way waits for the next one.

        Raises:
            InvalidSetting: a commit is under way.
        """
        if self._saving:
            raise InvalidSetting("a commit of this turn is under way")
        self._saving = True
        messages, records, _ = self._batch
        self._batch = _Batch([], [])
        return _Batch(messages, records, self._next_key() if idempotency_key is None else idempotency_key)

    def _failed(self, batch: _Batch) -> None:
        """The commit of a batch failed: it stands in `added` again, and the turn has ended."""
        self._batch = _Batch(batch.messages + self._batch.messages, batch.records + self._batch.records)
        self._saving, self._ended = False, True

    def _committed(self, commit: Commit, batch: _Batch) -> None:
        self._version, self._saving = commit.version, False
        if self._on_conflict == "append":
            self._done.append(batch)
        self._conflict = commit.conflict or self._conflict
        if self._is_news(commit):
            self._expected = commit.version

    def _is_news(self, commit: Commit) -> bool:
        """Whether a commit is what the next one has to follow; a repeat may be older than the load."""
        if not commit.version.repeated:
            return True
        unseen = commit.conflict is not None and self._on_conflict == "raise"
        return not unseen and commit.version.number > self.snapshot.version.number


class Turn(_TurnBase):
    """What `History.turn()` gives; use it with `with`.

    Leaving the block commits what was added, in one append. It raises `ConflictError` under
    `on_conflict="raise"`, `HistoryCleared` under both policies, and what `History.append` raises;
    the messages are in `added` then. A block that raises stores nothing more.

    Under `on_conflict="append"` a turn whose conversation has ended meanwhile begins the next life, with
    the steps of it that had been committed before.
    """

    def __init__(
        self,
        conversation: Conversation,
        driver: Driver,
        on_conflict: TurnPolicy,
        window: Window | None,
        idempotency_key: str | None,
        on_corrupt: OnCorrupt | None,
    ) -> None:
        super().__init__(conversation, on_conflict, window, idempotency_key, on_corrupt)
        self._driver = driver

    def commit(self, *, idempotency_key: str | None = None) -> Version:
        """Store now what was added since the last commit, in one append; the turn goes on.

        Args:
            idempotency_key: instead of the turn's, which stands for its first commit; a further one has a
                key made from it and its number, so that a turn is repeated by the same steps.

        Returns:
            The version with these messages; that of the last commit or load where none was added.

        Raises:
            InvalidSetting: the turn has ended, as it also does with a commit that fails; or a commit of it is
                under way.
            ConflictError: under `on_conflict="raise"`; as `HistoryCleared` under both policies.
            UnknownOutcome: it may or may not be stored.
        """
        self._check_running()
        if self._batch.messages:
            batch = self._take(idempotency_key)
            try:
                self._committed(self._driver.drive(self._committing(batch)), batch)
            except BaseException:
                self._failed(batch)
                raise
        return self.version

    def __enter__(self) -> Self:
        self._check_unused()
        self._snapshot, self._stored = self._driver.drive(self._load())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._ended:
                self.commit()
        finally:
            self._ended = True


class AsyncTurn(_TurnBase):
    """What `AsyncHistory.turn()` gives; use it with `async with`. As `Turn`.

    A commit that is cancelled goes on in the background; hooks hear how it ended, as an `Event` of
    kind `settled`.
    """

    def __init__(
        self,
        conversation: Conversation,
        driver: AsyncDriver,
        on_conflict: TurnPolicy,
        window: Window | None,
        idempotency_key: str | None,
        on_corrupt: OnCorrupt | None,
    ) -> None:
        super().__init__(conversation, on_conflict, window, idempotency_key, on_corrupt)
        self._driver = driver

    async def commit(self, *, idempotency_key: str | None = None) -> Version:
        """Store now what was added since the last commit, in one append; the turn goes on.

        As `Turn.commit`.

        Args:
            idempotency_key: instead of the turn's.

        Raises:
            InvalidSetting: the turn has ended, as it also does with a commit that fails; or a commit of it is
                under way.
            ConflictError: under `on_conflict="raise"`; as `HistoryCleared` under both policies.
            UnknownOutcome: it may or may not be stored.
        """
        self._check_running()
        if self._batch.messages:
            batch = self._take(idempotency_key)
            saving = asyncio.get_running_loop().create_task(self._driver.drive(self._committing(batch)))
            try:
                self._committed(await asyncio.shield(saving), batch)
            except BaseException as error:
                self._failed(batch)
                if isinstance(error, asyncio.CancelledError) and not saving.cancelled():
                    _left_behind.add(saving)
                    saving.add_done_callback(partial(self._settled, batch))
                raise
        return self.version

    def _settled(self, batch: _Batch, saving: asyncio.Task[Commit]) -> None:
        """Tell how a commit ended that nobody waits for any more."""
        _left_behind.discard(saving)
        failed = None if saving.cancelled() else saving.exception()
        outcome, version = "unknown", 0
        if isinstance(failed, MemoryRedisError):
            outcome = failed.outcome or outcome
        elif failed is None and not saving.cancelled():
            self._committed(saving.result(), batch)
            done, waits = len(batch.messages), self._batch
            self._batch = _Batch(waits.messages[done:], waits.records[done:])
            outcome, version = "stored", saving.result().version.number
        self._conversation.settings.emit(
            Event("settled", self._conversation.keys.label, len(batch.messages), version, detail=outcome)
        )

    async def __aenter__(self) -> Self:
        self._check_unused()
        self._snapshot, self._stored = await self._driver.drive(self._load())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._ended:
                await self.commit()
        finally:
            self._ended = True


_left_behind: set[asyncio.Task[Commit]] = set()
"""Commits under way that nobody waits for: a loop holds its tasks weakly."""
