"""Where a turn of a LangChain wrapper is kept: our histories, or anyone's `BaseChatMessageHistory`.

A store opens turns for `memory_redis.runs`, and says how its kind of message and LangChain's become
each other. Ours hold `StoredMessage`; other histories hold LangChain's own messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Self

import anyio.to_thread
from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk, FunctionMessage, ToolMessage

from memory_redis.errors import AsyncOnly, HistoryNotSaved, InvalidSetting
from memory_redis.history import AsyncHistory, History
from memory_redis.langchain.history import RedisChatMessageHistory
from memory_redis.langchain.messages import from_langchain, handed_over, to_langchain
from memory_redis.langchain.tracing import unseen
from memory_redis.messages import StoredMessage
from memory_redis.rules import Rules
from memory_redis.summarised import AsyncSummarisedTurn, SummarisedTurn
from memory_redis.toolcalls import Unanswered, without_unanswered
from memory_redis.wrapper import marked_partial

_logger = logging.getLogger("memory_redis")


class Faces(NamedTuple):
    """A history for sync calls, for awaited ones, or both."""

    history: History | None
    ahistory: AsyncHistory | None


class OwnStore:
    """A history of this library: for awaited calls that have none for asyncio, in worker threads."""

    def __init__(self, faces: Faces | RedisChatMessageHistory, label: str) -> None:
        self._faces, self.label = faces, label

    def check(self, rules: Rules, idempotency_key: str | None) -> None:
        """Every rule can be kept."""

    def open(self, **options: Any) -> Any:
        """A turn for sync code.

        Raises:
            AsyncOnly: the history is an asyncio one.
        """
        history = self._faces.history
        if history is None:
            raise AsyncOnly("an asyncio history serves awaited calls only: use ainvoke, astream, abatch")
        turn = history.turn(**options)
        return QuietTurn(turn) if isinstance(turn, SummarisedTurn) else turn

    def aopen(self, **options: Any) -> Any:
        """A turn for asyncio."""
        history = self._faces.ahistory
        if history is None:
            return ThreadTurn(self.open(**options))
        turn = history.turn(**options)
        return AsyncQuietTurn(turn) if isinstance(turn, AsyncSummarisedTurn) else turn

    def kept(self, messages: Sequence[BaseMessage]) -> list[StoredMessage]:
        """LangChain's messages as they are stored."""
        return list(map(from_langchain, messages))

    def shown(self, messages: Sequence[StoredMessage]) -> list[BaseMessage]:
        """Messages that were loaded for this as LangChain's."""
        return list(map(handed_over, messages))

    def past(
        self, turn: Any, own: range, new: Sequence[StoredMessage], unanswered: Unanswered
    ) -> list[StoredMessage]:
        """What a turn has loaded, without the messages at these positions and calls without an answer."""
        return without_unanswered([one for one in turn.messages if one.seq not in own], new, unanswered)

    mark = staticmethod(marked_partial)


class _TurnInside:
    """A turn that another one is made around."""

    def __init__(self, turn: Any) -> None:
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)


class QuietTurn(_TurnInside):
    """A turn of a history that keeps a summary: the call around it is not shown how that is made."""

    def __enter__(self) -> Self:
        self._turn.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._turn.__exit__(*error)

    def commit(self, *, idempotency_key: str | None = None) -> Any:
        """Store what was added."""
        with unseen():
            return self._turn.commit(idempotency_key=idempotency_key)


class AsyncQuietTurn(_TurnInside):
    """As `QuietTurn`, for asyncio."""

    async def __aenter__(self) -> Self:
        await self._turn.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._turn.__aexit__(*error)

    async def commit(self, *, idempotency_key: str | None = None) -> Any:
        """Store what was added."""
        with unseen():
            return await self._turn.commit(idempotency_key=idempotency_key)


class ThreadTurn(_TurnInside):
    """A sync turn with the manners of an asyncio one: it waits in worker threads."""

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self._turn.__enter__)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await anyio.to_thread.run_sync(self._turn.__exit__, *error)

    async def commit(self, *, idempotency_key: str | None = None) -> Any:
        """Store what was added; if the caller is cancelled, all the same."""
        return await finished(
            anyio.to_thread.run_sync(lambda: self._turn.commit(idempotency_key=idempotency_key))
        )


class OtherStore:
    """Anyone's chat message history. It knows no versions: what others append meanwhile is not noticed."""

    def __init__(self, history: Any) -> None:
        self._history = history
        self.label = f"{type(history).__name__} {id(history)}"  # of one made anew it says nothing

    def check(self, rules: Rules, idempotency_key: str | None) -> None:
        """That nothing is asked for that needs versions.

        Raises:
            InvalidSetting: something is.
        """
        if rules.on_conflict != "append" or idempotency_key is not None:
            raise InvalidSetting(
                "on_conflict other than 'append', and idempotency keys, need a history of memory_redis"
            )

    def open(self, **_options: Any) -> Any:
        """A turn for sync code.

        Raises:
            AsyncOnly: the history has no method that is not awaited.
        """
        if not (hasattr(self._history, "add_messages") or hasattr(self._history, "add_message")):
            raise AsyncOnly("an asyncio history serves awaited calls only: use ainvoke, astream, abatch")
        return OtherTurn(self._history)

    def aopen(self, **_options: Any) -> Any:
        """A turn for asyncio."""
        return AsyncOtherTurn(self._history)

    def kept(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Messages to hand to the history: whole ones, which neither caller nor model can still change."""
        return [
            to_langchain(from_langchain(message))
            if isinstance(message, BaseMessageChunk)
            else message.model_copy(deep=True)
            for message in messages
        ]

    def shown(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The history's messages, as they are."""
        return list(messages)

    def past(
        self, turn: Any, _own: range, new: Sequence[BaseMessage], unanswered: Unanswered
    ) -> list[BaseMessage]:
        """What a turn has loaded, without calls that have no answer."""
        loaded: list[BaseMessage] = turn.messages
        if unanswered == "keep":
            return loaded
        plain = list(map(_ties, loaded))
        left = without_unanswered(plain, list(map(_ties, new)), unanswered)
        places = {id(message): at for at, message in enumerate(plain)}
        return [loaded[places[id(message)]] for message in left]

    @staticmethod
    def mark(message: BaseMessage) -> BaseMessage:
        """An answer, marked as part of one."""
        return to_langchain(marked_partial(from_langchain(message)))


def _ties(message: BaseMessage) -> StoredMessage:
    """What calls and results are paired by, of a message that may hold what we could not store."""
    kinds = {AIMessage: "ai", ToolMessage: "tool", FunctionMessage: "function"}
    kind = next((kind for made_of, kind in kinds.items() if isinstance(message, made_of)), "human")
    names = ("tool_calls", "invalid_tool_calls", "additional_kwargs", "tool_call_id", "name")
    data = {name: getattr(message, name) for name in names if hasattr(message, name)}
    return StoredMessage.model_construct(type=kind, data=data)


class _OtherTurn:
    """What both faces share of a turn over a history without versions: one read and one write."""

    stored = version = conflict = summary_error = None

    def __init__(self, history: Any) -> None:
        self._history = history
        self._added: list[BaseMessage] = []
        self.messages: list[BaseMessage] = []

    @property
    def added(self) -> list[BaseMessage]:
        """What was added and is not yet stored."""
        return list(self._added)

    def add(self, *messages: BaseMessage) -> None:
        """Put messages aside for the next commit."""
        self._added.extend(messages)

    def _write(self, messages: list[BaseMessage]) -> None:
        if hasattr(self._history, "add_messages"):
            self._history.add_messages(messages)
        else:
            for message in messages:
                self._history.add_message(message)


class OtherTurn(_OtherTurn):
    """A turn over a history without versions."""

    def __enter__(self) -> Self:
        self.messages = list(self._history.messages)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept open."""

    def commit(self, *, idempotency_key: str | None = None) -> None:  # noqa: ARG002
        """Store what was added, in one call of the history where it has one for that.

        Raises:
            HistoryNotSaved: the history raised.
        """
        try:
            if self._added:
                with unseen():
                    self._write(self._added)
        except Exception as error:
            raise HistoryNotSaved(error) from error
        self._added = []


class AsyncOtherTurn(_OtherTurn):
    """A turn over a history without versions, for asyncio. A save that is cancelled is still finished."""

    async def __aenter__(self) -> Self:
        if hasattr(self._history, "aget_messages"):
            self.messages = list(await self._history.aget_messages())
        else:
            self.messages = list(await anyio.to_thread.run_sync(lambda: self._history.messages))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is kept open."""

    async def commit(self, *, idempotency_key: str | None = None) -> None:  # noqa: ARG002
        """As `OtherTurn.commit`.

        Raises:
            HistoryNotSaved: the history raised.
        """
        if not self._added:
            return
        try:
            with unseen():
                await finished(self._awrite(self._added))
        except Exception as error:
            raise HistoryNotSaved(error) from error
        self._added = []

    async def _awrite(self, messages: list[BaseMessage]) -> None:
        if hasattr(self._history, "aadd_messages"):
            await self._history.aadd_messages(messages)
        else:
            await anyio.to_thread.run_sync(self._write, messages)


_left_behind: set[asyncio.Task[Any]] = set()
"""Saves that may have to end by themselves: a loop holds its tasks weakly."""


async def finished(saving: Coroutine[Any, Any, Any]) -> Any:
    """What a save gives; it goes on if the one who waits for it is cancelled."""
    task = asyncio.get_running_loop().create_task(saving)
    _left_behind.add(task)
    task.add_done_callback(_seen)
    return await asyncio.shield(task)


def _seen(task: asyncio.Task[Any]) -> None:
    """asyncio would log the text of an error that nobody waits for, and it may hold content."""
    _left_behind.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.debug("a save ended with %s", type(error).__name__)
