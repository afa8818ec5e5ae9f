"""Models that count, ways to call a chain, and histories of other people, for the LangChain tests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import reduce
from operator import add
from typing import Any

import anyio.to_thread
import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableGenerator
from pydantic import Field

from memory_redis import RedisMemory, StoredMessage
from tests.support.fault_proxy import FaultProxy

SESSION: Any = {"configurable": {"user_id": "ann", "conversation_id": "c1"}}
WAYS = ("invoke", "ainvoke", "stream", "astream")
AWAITED = ("ainvoke", "astream")
STREAMS = ("stream", "astream")

every_way = pytest.mark.parametrize("way", WAYS)
both_calls = pytest.mark.parametrize("way", ["invoke", "ainvoke"])
both_streams = pytest.mark.parametrize("way", STREAMS)


async def chunks_of(way: str, chain: Any, value: Any, config: Any = SESSION, **options: Any) -> list[Any]:
    """What a chain hands out, piece by piece; the one output of a call."""
    if way == "invoke":
        return [chain.invoke(value, config, **options)]
    if way == "ainvoke":
        return [await chain.ainvoke(value, config, **options)]
    if way == "stream":
        return list(chain.stream(value, config, **options))
    if way == "transform":
        return list(chain.transform(iter([value]), config, **options))
    if way == "batch":
        return list(chain.batch([value], config, **options))
    if way == "abatch":
        return list(await chain.abatch([value], config, **options))
    return [chunk async for chunk in chain.astream(value, config, **options)]


async def ask(way: str, chain: Any, value: Any, config: Any = SESSION, **options: Any) -> Any:
    """The output of a chain, its chunks added together."""
    return reduce(add, await chunks_of(way, chain, value, config, **options))


def session(**more: Any) -> Any:
    """A config that names ann's first conversation, and says more."""
    return {"configurable": {**SESSION["configurable"], **more}}


def stored(memory: RedisMemory, user_id: str = "ann", conversation_id: str = "c1") -> list[StoredMessage]:
    """All that stands in a conversation."""
    return memory.history(user_id, conversation_id).load().messages


def said(messages: Sequence[Any]) -> list[tuple[str, str]]:
    """Who said what, of LangChain's messages or stored ones."""
    return [(message.type, str(message.text)) for message in messages]


def talk(*texts: str) -> list[tuple[str, str]]:
    """What `said` gives where user and model took turns."""
    return [("human" if at % 2 == 0 else "ai", text) for at, text in enumerate(texts)]


class Model(BaseChatModel):
    """A chat model that answers in words, streams them, and remembers what it was asked.

    `answers` are given in turn, the last one for ever. An exception among them is raised; as second
    of a pair, in the middle of a stream. It needs no thread when it is awaited.
    """

    answers: list[Any]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    given: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def calls(self) -> int:
        """How often it ran."""
        return len(self.asked)

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _next(self, messages: list[BaseMessage], options: dict[str, Any]) -> Any:
        self.asked.append([message.model_copy(deep=True) for message in messages])
        self.given.append(options)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def _whole(self, answer: Any) -> ChatResult:
        if isinstance(answer, tuple):
            [*_, answer] = answer
        if isinstance(answer, BaseException):
            raise answer
        message = AIMessage(content=answer) if isinstance(answer, str) else answer
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _parts(self, answer: Any) -> Iterator[ChatGenerationChunk]:
        texts = answer if isinstance(answer, tuple) else (answer,)
        for text in texts:
            if isinstance(text, BaseException):
                raise text
            if isinstance(text, BaseMessage):
                fields = {name: value for name, value in text.model_dump().items() if name != "type"}
                yield ChatGenerationChunk(message=AIMessageChunk(**fields))
                continue
            words = text.split(" ")
            for at, word in enumerate(words):
                yield ChatGenerationChunk(message=AIMessageChunk(content=f" {word}" if at else word))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._whole(self._next(messages, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._whole(self._next(messages, kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from self._parts(self._next(messages, kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for part in self._parts(self._next(messages, kwargs)):
            yield part

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), **kwargs)


def model(*answers: Any) -> Model:
    """A counting model with answers and lists of its own."""
    return Model(answers=list(answers) or ["fine thank you"])


class Runs:
    """A plain function as a runnable: gives what it was told to, and remembers what it was given."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers) or ["fine"], []

    @property
    def calls(self) -> int:
        """How often it ran."""
        return len(self.asked)

    def __call__(self, value: Any) -> Any:
        self.asked.append(value)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def pieces(*chunks: Any) -> RunnableGenerator[Any, Any]:
    """A runnable that streams these."""

    def give(_: Iterator[Any]) -> Iterator[Any]:
        yield from chunks

    async def agive(_: AsyncIterator[Any]) -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk

    return RunnableGenerator(give, agive)


class OthersHistory:
    """Somebody else's history: no base class of LangChain's, sync only; it counts what is done to it."""

    def __init__(self, *messages: BaseMessage) -> None:
        self.kept: list[BaseMessage] = list(messages)
        self.reads = 0
        self.writes: list[list[BaseMessage]] = []

    @property
    def messages(self) -> Any:
        self.reads += 1
        return list(self.kept)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.writes.append(list(messages))
        self.kept.extend(messages)

    def clear(self) -> None:
        self.kept.clear()


class AsyncOnlyHistory:
    """Somebody else's history that can be awaited only."""

    def __init__(self) -> None:
        self.kept: list[BaseMessage] = []
        self.reads, self.writes = 0, 0

    @property
    def messages(self) -> Any:
        raise NotImplementedError("use aget_messages")

    async def aget_messages(self) -> list[BaseMessage]:
        self.reads += 1
        return list(self.kept)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.writes += 1
        self.kept.extend(messages)

    async def aclear(self) -> None:
        self.kept.clear()


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Let the loop go on until the condition holds; an error if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.002)


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run blocking code beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def awaited(made: Awaitable[Any]) -> Any:
    """The result of a coroutine, in an event loop of its own."""

    async def run() -> Any:
        return await made

    return asyncio.run(run())


@asynccontextmanager
async def without_threads(seconds: float = 30.0) -> AsyncIterator[None]:
    """Every worker thread of this loop is taken, so whoever wants one waits, up to a TimeoutError."""
    loop, place = asyncio.get_running_loop(), object()
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1
    await limiter.acquire_on_behalf_of(place)
    executor, free = ThreadPoolExecutor(1), threading.Event()
    loop.set_default_executor(executor)
    executor.submit(free.wait)
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        free.set()
        limiter.release_on_behalf_of(place)


class Watched:
    """A server behind a proxy that notes each command of this library's as it arrives.

    `freeze()` holds back every answer until `thaw()`, so that a test can act while one is under way.
    """

    OURS = frozenset((b"HGET", b"HMGET", b"LLEN", b"LRANGE", b"EVALSHA", b"EVAL", b"EXISTS", b"UNLINK"))

    def __init__(self, address: tuple[str, int]) -> None:
        self.proxy = FaultProxy(address)
        self.seen: list[list[bytes]] = []

    def __enter__(self) -> Watched:
        self.proxy.start()
        self.proxy.drop_request(match=self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.stop()

    def _look(self, args: list[bytes]) -> bool:
        if args[0].upper() in self.OURS:
            self.seen.append(args)
        return False

    @property
    def url(self) -> str:
        """Of the server, by way of the proxy."""
        return f"redis://127.0.0.1:{self.proxy.port}/0"

    def names(self) -> list[str]:
        """The names of the commands since the last time, in order."""
        seen, self.seen[:] = list(self.seen), []
        return [args[0].decode().upper() for args in seen]

    def freeze(self) -> None:
        """From now on requests arrive and nothing is answered."""
        self.proxy.half_open("down")

    def thaw(self) -> None:
        """Answers go on."""
        self.proxy.hole = None
