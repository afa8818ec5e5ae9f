"""`RedisChatMessageHistory`: a conversation with the methods of LangChain's chat message histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import anyio.to_thread
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, get_buffer_string

from memory_redis.errors import AsyncOnly, InvalidMessage, InvalidSetting
from memory_redis.expiry import NoExpiry, SlidingExpiry
from memory_redis.history import AsyncHistory, History
from memory_redis.langchain.messages import from_langchain, handed_over
from memory_redis.memory import RedisMemory
from memory_redis.stores import AnyMemory, Strategy

_memories: dict[tuple[str, str, int], RedisMemory] = {}
_KEPT: Final = 32


class RedisChatMessageHistory:
    """A conversation with the methods of LangChain's chat message histories.

    A replacement for the class of that name in LangChain's community package: the same arguments
    and methods, with appends that are stored whole and once. It does not read what that class has
    stored. Making one does no I/O; all that are made with the same URL, prefix and ttl share their
    connections. The asynchronous methods are native, without worker threads.

    `len()`, `str()` and `messages` ask the server; `bool()` and `repr()` do not.

    Args:
        session_id: the conversation, for applications that have one id only.

        url: of the server, as for `RedisMemory.from_url`.

        key_prefix: begins every key: the namespace of `RedisMemory`.

        ttl: seconds after the last append at which the conversation ends; None or 0 for never.

        user_id, conversation_id: the conversation, instead of `session_id`.

        memory: a memory, or a memory strategy, to use instead of one for url, key_prefix and ttl.

    Raises:
        InvalidSetting: one of these cannot be meant, or it is not clear which conversation is.
        InvalidId: an id is not a non-empty text.
    """

    def __init__(
        self,
        session_id: str | None = None,
        url: str = "redis://localhost:6379/0",
        key_prefix: str = "memory",
        ttl: int | None = None,
        *,
        user_id: str | None = None,
        conversation_id: str | None = None,
        memory: AnyMemory | None = None,
    ) -> None:
        if memory is None:
            memory = _memory(url, key_prefix, ttl)
        elif (url, key_prefix, ttl) != ("redis://localhost:6379/0", "memory", None):
            raise InvalidSetting("give a memory, or url, key_prefix and ttl, not both")
        self._memory = memory
        self._ids = session_id, user_id, conversation_id
        self._history: History | None = None
        self._ahistory: AsyncHistory | None = None
        if isinstance(memory, RedisMemory | Strategy):
            self._history = _conversation(memory, *self._ids)
        else:
            self._ahistory = _conversation(memory, *self._ids)

    @property
    def history(self) -> History | None:
        """The conversation, for sync code; None over an asyncio client that was passed in."""
        if self._history is None and self._memory.has_twin:
            self._history = _conversation(self._memory.twin, *self._ids)
        return self._history

    @property
    def ahistory(self) -> AsyncHistory | None:
        """The conversation, for asyncio; None over a sync client that was passed in."""
        if self._ahistory is None and self._memory.has_twin:
            self._ahistory = _conversation(self._memory.twin, *self._ids)
        return self._ahistory

    @property
    def label(self) -> str:
        """The short hash that stands for the conversation in errors and events; no id."""
        either: Any = self._history or self._ahistory
        found: str = either.label
        return found

    def _sync(self) -> History:
        history = self.history
        if history is None:
            raise AsyncOnly("a memory over an asyncio client serves awaited calls only")
        return history

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages that the memory's window shows, oldest first; a list of its own.

        Records that cannot be decoded are left out and reported to the memory's hooks.
        """
        return list(map(handed_over, self._sync().load(on_corrupt="skip").messages))

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        raise NotImplementedError("messages are added by add_messages and removed by clear")

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        history = self.ahistory
        if history is None:
            return await anyio.to_thread.run_sync(lambda: self.messages)
        return list(map(handed_over, (await history.load(on_corrupt="skip")).messages))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages at the end: all or none, side by side, once. None at all is no call.

        Raises:
            InvalidMessage: one cannot be stored; none was.
            UnknownOutcome: they may or may not be stored.
            SummaryNotMade: they are stored; a summary that was due could not be made.
        """
        if messages:
            self._sync().append(*_stored(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As `add_messages`."""
        if not messages:
            return
        history = self.ahistory
        if history is None:
            await anyio.to_thread.run_sync(self.add_messages, messages)
        else:
            await history.append(*_stored(messages))

    def add_message(self, message: BaseMessage) -> None:
        """Store one message; several at once cost no more, see `add_messages`."""
        self.add_messages([message])

    def add_user_message(self, message: HumanMessage | str) -> None:
        """Store what the user said."""
        self.add_messages([HumanMessage(content=message) if isinstance(message, str) else message])

    def add_ai_message(self, message: AIMessage | str) -> None:
        """Store what the model said."""
        self.add_messages([AIMessage(content=message) if isinstance(message, str) else message])

    def clear(self) -> None:
        """Remove all messages."""
        self._sync().clear()

    async def aclear(self) -> None:
        """As `clear`."""
        history = self.ahistory
        if history is None:
            await anyio.to_thread.run_sync(self.clear)
        else:
            await history.clear()

    def __len__(self) -> int:
        return self._sync().count()

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return "\n".join(map(_line, self.messages))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label}>"


def _line(message: BaseMessage) -> str:
    if isinstance(message, RemoveMessage):  # of which LangChain makes no text
        return f"Remove: {message.id}"
    return get_buffer_string([message])


def _stored(messages: Sequence[BaseMessage]) -> list[Any]:
    for at, message in enumerate(messages):
        if not isinstance(message, BaseMessage):
            raise InvalidMessage(
                f"a value of type {type(message).__name__} is no LangChain message", position=at
            )
    return list(map(from_langchain, messages))


def _conversation(memory: Any, session_id: Any, user_id: Any, conversation_id: Any) -> Any:
    """The history that the ids mean, in a memory's face."""
    if session_id is not None:
        if user_id is not None or conversation_id is not None:
            raise InvalidSetting("give session_id, or user_id and conversation_id, not both")
        return memory.session(session_id)
    if user_id is None or conversation_id is None:
        raise InvalidSetting("give session_id, or user_id and conversation_id")
    return memory.history(user_id, conversation_id)


def _memory(url: str, key_prefix: str, ttl: int | None) -> RedisMemory:
    """One memory for all histories with these settings; 32 are kept, with their connections."""
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int) or ttl < 0):
        raise InvalidSetting("ttl must be a number of whole seconds, 0 or None for no end")
    settings = (url, key_prefix, ttl or 0)
    memory = _memories.get(settings)
    if memory is None:
        expiry = SlidingExpiry(seconds=ttl) if ttl else NoExpiry()
        made = RedisMemory.from_url(url, namespace=key_prefix, expiry=expiry)
        memory = _memories.setdefault(settings, made)  # no lock, which a fork could leave closed
        if len(_memories) > _KEPT:
            _memories.pop(next(iter(_memories)), None)
    return memory


def _is_one_of_langchains() -> None:
    """Let isinstance() agree, for as long as langchain-core has the class."""
    try:
        from langchain_core.chat_history import BaseChatMessageHistory
    except ImportError:
        return
    BaseChatMessageHistory.register(RedisChatMessageHistory)


_is_one_of_langchains()
