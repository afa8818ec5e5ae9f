"""What keeps messages by session, and what all memory strategies share; see `memory_redis.strategies`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar, cast

from memory_redis._engine.conversation import Conversation
from memory_redis.errors import InvalidId, InvalidSetting
from memory_redis.expiry import Expiry
from memory_redis.history import AsyncHistory, History
from memory_redis.memory import AsyncRedisMemory, RedisMemory
from memory_redis.messages import StoredMessage
from memory_redis.summaries import KeepMessages, KeepTokens
from memory_redis.summarised import AsyncSummarisedHistory, SummarisedHistory
from memory_redis.upkeep import AsyncUpkeep, Model, Summariser, Upkeep, check_model
from memory_redis.versions import Version
from memory_redis.views import View, view_of
from memory_redis.windows import Window
from memory_redis.wording import counted

Session = str | tuple[str, str]
"""A session id, for `memory.session`; or user id and conversation id, for `memory.history`."""


class MemoryStore(Protocol):
    """What keeps messages by session: Synaptic's trait of that name."""

    def append(self, session: Session, *messages: StoredMessage) -> Version:
        """Store messages at the end of a session."""
        ...

    def load(self, session: Session) -> list[StoredMessage]:
        """The messages of a session, oldest first; none for one that nobody knows."""
        ...

    def clear(self, session: Session) -> int:
        """Remove the messages of a session, and its summary; how many there were."""
        ...


class AsyncMemoryStore(Protocol):
    """A `MemoryStore` for asyncio."""

    async def append(self, session: Session, *messages: StoredMessage) -> Version:
        """As `MemoryStore.append`."""
        ...

    async def load(self, session: Session) -> list[StoredMessage]:
        """As `MemoryStore.load`."""
        ...

    async def clear(self, session: Session) -> int:
        """As `MemoryStore.clear`."""
        ...


M = TypeVar("M", RedisMemory, AsyncRedisMemory)


class _Strategy(Generic[M]):
    """What both faces share."""

    _memory: M
    _view: View

    _face: type[Any]
    _other: type[Any]
    _twin: Any = None

    def __init_subclass__(cls, other: type[Any] | None = None) -> None:
        """`other` is the same strategy for the other face."""
        if other is not None:
            cls._other, other._other = other, cls

    def __init__(self, store: Any) -> None:
        if isinstance(store, self._face):
            self._memory, self._view = store, View()
        elif isinstance(store, _Strategy) and isinstance(store._memory, self._face):
            self._memory, self._view = store._memory, store._view
        else:
            raise InvalidSetting(
                f"{type(self).__name__} takes a memory, {self._face.__name__}, or a strategy over one:"
                f" this is {type(store).__name__}"
            )

    def _show(self, window: Window) -> None:
        self._view = self._view.windowed(window)

    def _summarise(self, plan: KeepMessages | KeepTokens, model: Model, seconds: float) -> None:
        if self._view.summariser is not None:
            raise InvalidSetting(
                "a conversation has one summary: two summarising strategies cannot be nested"
            )
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not 1 <= seconds <= 3600:
            raise InvalidSetting("model_seconds must be from 1 to 3,600")
        check_model(model, isinstance(self._memory, AsyncRedisMemory))
        most = self._memory._settings.caps.messages
        if most and most <= plan.threshold.messages:
            raise InvalidSetting(
                f"the memory's retention keeps {counted(most, 'message')},"
                " so that no summary would ever be due"
            )
        self._view = replace(self._view, summariser=Summariser(plan, model, seconds))

    @property
    def has_twin(self) -> bool:
        """Whether there is a `twin`: the memory was made from a URL."""
        return self._memory.has_twin

    def _twin_of(self, memory: Any) -> Any:
        """The same strategy of the other face, made once."""
        if self._twin is None:
            if self._view.summariser is not None:
                check_model(self._view.summariser.model, isinstance(memory, AsyncRedisMemory))
            twin = object.__new__(self._other)
            twin._memory, twin._view, twin._twin = memory, self._view, self
            return self.__dict__.setdefault("_twin", twin)  # threads get the same
        return self._twin

    def _of(
        self, user_id: str | None, conversation_id: str, expiry: Expiry | None
    ) -> tuple[Conversation, Conversation]:
        """A conversation as it is stored and as it is shown."""
        memory = self._memory
        if user_id is None:
            stored = memory._session(conversation_id, expiry)
        else:
            stored = memory._conversation(user_id, conversation_id, expiry)
        return stored, view_of(stored, self._view)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self._view}) over {self._memory!r}>"


def _ids(session: Session) -> tuple[str | None, str]:
    if isinstance(session, str):
        return None, session
    if isinstance(session, Sequence) and len(session) == 2 and session[0] is not None:
        return session[0], session[1]
    raise InvalidId("a session is a text, or a pair of user id and conversation id")


class Strategy(_Strategy[RedisMemory]):
    """A memory strategy. Not used itself: see `ConversationBufferMemory` and the others."""

    _face = RedisMemory

    @property
    def twin(self) -> AsyncStrategy:
        """The same strategy over the memory's twin.

        Raises:
            InvalidSetting: the memory was not made from a URL, or asyncio cannot ask the model.
        """
        return cast(AsyncStrategy, self._twin_of(self._memory.twin))

    def history(self, user_id: str, conversation_id: str, *, expiry: Expiry | None = None) -> History:
        """A conversation of a user, as this strategy shows it. As `RedisMemory.history`.

        Raises:
            InvalidId: an id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        if user_id is None:
            raise InvalidId("user_id must be a text; a conversation without a user is session(id)")
        return self._history(user_id, conversation_id, expiry)

    def session(self, session_id: str, *, expiry: Expiry | None = None) -> History:
        """A conversation without a user, as this strategy shows it. As `RedisMemory.session`.

        Raises:
            InvalidId: the id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        return self._history(None, session_id, expiry)

    def _history(self, user_id: str | None, conversation_id: str, expiry: Expiry | None = None) -> History:
        stored, viewed = self._of(user_id, conversation_id, expiry)
        driver, summariser = self._memory._driver, self._view.summariser
        if summariser is None:
            return History(viewed, driver)
        return SummarisedHistory(viewed, driver, Upkeep(stored, driver, summariser))

    def append(self, session: Session, *messages: StoredMessage) -> Version:
        """Store messages at the end of a session. As `History.append`.

        Raises:
            InvalidId: the session is none.
            SummaryNotMade: the messages are stored, and the summary that was due could not be made.
        """
        return self._history(*_ids(session)).append(*messages)

    def load(self, session: Session) -> list[StoredMessage]:
        """The messages that this strategy shows of a session, oldest first.

        Raises:
            InvalidId: the session is none.
        """
        return self._history(*_ids(session)).load().messages

    def clear(self, session: Session) -> int:
        """Remove the messages of a session, and its summary; how many there were. As `History.clear`.

        Raises:
            InvalidId: the session is none.
        """
        return self._history(*_ids(session)).clear()


class AsyncStrategy(_Strategy[AsyncRedisMemory], other=Strategy):
    """A memory strategy for asyncio. Not used itself: see `AsyncConversationBufferMemory` and the others."""

    _face = AsyncRedisMemory

    @property
    def twin(self) -> Strategy:
        """The same strategy over the memory's twin.

        Raises:
            InvalidSetting: the memory was not made from a URL, or the model is a coroutine function.
        """
        return cast(Strategy, self._twin_of(self._memory.twin))

    def history(self, user_id: str, conversation_id: str, *, expiry: Expiry | None = None) -> AsyncHistory:
        """A conversation of a user, as this strategy shows it. As `RedisMemory.history`.

        Raises:
            InvalidId: an id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        if user_id is None:
            raise InvalidId("user_id must be a text; a conversation without a user is session(id)")
        return self._history(user_id, conversation_id, expiry)

    def session(self, session_id: str, *, expiry: Expiry | None = None) -> AsyncHistory:
        """A conversation without a user, as this strategy shows it. As `RedisMemory.session`.

        Raises:
            InvalidId: the id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        return self._history(None, session_id, expiry)

    def _history(
        self, user_id: str | None, conversation_id: str, expiry: Expiry | None = None
    ) -> AsyncHistory:
        stored, viewed = self._of(user_id, conversation_id, expiry)
        driver, summariser = self._memory._driver, self._view.summariser
        if summariser is None:
            return AsyncHistory(viewed, driver)
        return AsyncSummarisedHistory(viewed, driver, AsyncUpkeep(stored, driver, summariser))

    async def append(self, session: Session, *messages: StoredMessage) -> Version:
        """Store messages at the end of a session. As `History.append`.

        Raises:
            InvalidId: the session is none.
            SummaryNotMade: the messages are stored, and the summary that was due could not be made.
        """
        return await self._history(*_ids(session)).append(*messages)

    async def load(self, session: Session) -> list[StoredMessage]:
        """The messages that this strategy shows of a session, oldest first.

        Raises:
            InvalidId: the session is none.
        """
        return (await self._history(*_ids(session)).load()).messages

    async def clear(self, session: Session) -> int:
        """Remove the messages of a session, and its summary; how many there were. As `History.clear`.

        Raises:
            InvalidId: the session is none.
        """
        return await self._history(*_ids(session)).clear()


AnyMemory = RedisMemory | AsyncRedisMemory | Strategy | AsyncStrategy
"""What a wrapper keeps conversations in."""
