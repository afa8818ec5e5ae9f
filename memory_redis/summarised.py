"""Histories and turns that keep a summary: what they append, they then see summarised if that is due."""

from __future__ import annotations

from typing import Any

from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis.errors import SummaryNotMade
from memory_redis.history import AsyncHistory, History
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, TurnPolicy
from memory_redis.turns import AsyncTurn, Turn
from memory_redis.upkeep import AsyncUpkeep, Upkeep
from memory_redis.versions import AppendId, Version
from memory_redis.windows import Window


class SummarisedTurn(Turn):
    """A turn of a history that keeps a summary, which is made after a commit.

    A summary that cannot be made does not fail the commit: `summary_error` has why, and the hooks
    hear of it.
    """

    def __init__(self, upkeep: Upkeep, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._upkeep = upkeep

    def commit(self, *, idempotency_key: str | None = None) -> Version:
        """As `Turn.commit`; then a summary is made if one is due."""
        stores = bool(self.added)
        version = super().commit(idempotency_key=idempotency_key)
        if stores:
            self.summary_error = None
            try:
                self._upkeep.run(version)
            except SummaryNotMade as error:
                self.summary_error = error
        return version


class AsyncSummarisedTurn(AsyncTurn):
    """A turn of a history that keeps a summary. As `SummarisedTurn`."""

    def __init__(self, upkeep: AsyncUpkeep, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._upkeep = upkeep

    async def commit(self, *, idempotency_key: str | None = None) -> Version:
        """As `SummarisedTurn.commit`."""
        stores = bool(self.added)
        version = await super().commit(idempotency_key=idempotency_key)
        if stores:
            self.summary_error = None
            try:
                await self._upkeep.run(version)
            except SummaryNotMade as error:
                self.summary_error = error
        return version


class SummarisedHistory(History):
    """A history that keeps a summary; `append` makes it when it is due."""

    def __init__(self, conversation: Conversation, driver: Driver, upkeep: Upkeep) -> None:
        super().__init__(conversation, driver)
        self._upkeep = upkeep

    def append(
        self,
        *messages: StoredMessage,
        expected: Version | None = None,
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
    ) -> Version:
        """As `History.append`; then a summary is made if one is due.

        Raises:
            SummaryNotMade: it could not be made; the messages are stored.
        """
        version = super().append(
            *messages, expected=expected, idempotency_key=idempotency_key, append_id=append_id
        )
        self._upkeep.run(version)
        return version

    def _opened(
        self, on_conflict: TurnPolicy, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> Turn:
        return SummarisedTurn(
            self._upkeep, self._conversation, self._driver, on_conflict, window, key, on_corrupt
        )


class AsyncSummarisedHistory(AsyncHistory):
    """A history that keeps a summary, for asyncio. As `SummarisedHistory`."""

    def __init__(self, conversation: Conversation, driver: AsyncDriver, upkeep: AsyncUpkeep) -> None:
        super().__init__(conversation, driver)
        self._upkeep = upkeep

    async def append(
        self,
        *messages: StoredMessage,
        expected: Version | None = None,
        idempotency_key: str | None = None,
        append_id: AppendId | None = None,
    ) -> Version:
        """As `SummarisedHistory.append`.

        Raises:
            SummaryNotMade: it could not be made; the messages are stored.
        """
        version = await super().append(
            *messages, expected=expected, idempotency_key=idempotency_key, append_id=append_id
        )
        await self._upkeep.run(version)
        return version

    def _opened(
        self, on_conflict: TurnPolicy, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> AsyncTurn:
        return AsyncSummarisedTurn(
            self._upkeep, self._conversation, self._driver, on_conflict, window, key, on_corrupt
        )
