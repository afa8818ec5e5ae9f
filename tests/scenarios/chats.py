"""Models that remember, of each kind that `with_history` takes, called alike.

A scenario takes `chats` and says what a model answers: `chat = chats.wrap(lambda given: "Hello")`, then
`await chat("Hi")`. It runs as a function, a coroutine function, a generator function and an asynchronous
generator function, on the sync and on the asyncio face.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any

import pytest

from memory_redis import (
    AsyncRedisMemory,
    ConversationInfo,
    RedisMemory,
    Snapshot,
    StoredMessage,
    human,
    with_history,
)
from tests.support.servers import bundled_valkey

one_server = pytest.mark.parametrize("server", [bundled_valkey().version], indirect=True)
"""For what does not depend on the server: the test runs on the bundled Valkey only."""

KINDS = ("function", "coroutine", "generator", "asynchronous generator")
streaming = pytest.mark.parametrize("chats", KINDS[2:], indirect=True)
"""For streams: the test runs on the two kinds of generator only."""

Answer = Callable[..., Any]
"""From what a model is given to what it gives."""

Ask = Callable[..., Awaitable[Any]]
"""A call of a wrapped model; what it gives, a stream's chunks put together."""


class Chats:
    """Makes memories and wrapped models of one kind over one server, and looks past them."""

    def __init__(self, kind: str, url: str, namespace: str) -> None:
        self.kind, self.url, self.namespace = kind, url, namespace
        self.streams = "generator" in kind
        self.asynchronous = kind in ("coroutine", "asynchronous generator")
        self._made: list[Any] = []
        self.direct = RedisMemory.from_url(url, namespace=namespace)

    def memory(self, **options: Any) -> Any:
        """A memory of the face that this kind of model uses."""
        face: Any = AsyncRedisMemory if self.asynchronous else RedisMemory
        memory = face.from_url(self.url, **{"namespace": self.namespace, **options})
        self._made.append(memory)
        return memory

    def model(self, answer: Answer) -> Any:
        """A model of this kind."""

        def function(given: Any, **options: Any) -> Any:
            return answer(given, **options)

        async def coroutine(given: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            return answer(given, **options)

        def generator(given: Any, **options: Any) -> Any:
            yield from pieces(answer(given, **options))

        async def asynchronous_generator(given: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            source = iter(pieces(answer(given, **options)))
            try:
                for piece in source:
                    yield piece
                    await asyncio.sleep(0)
            finally:
                if isinstance(source, Generator):
                    source.close()

        models = (function, coroutine, generator, asynchronous_generator)
        return models[KINDS.index(self.kind)]

    def wrap(self, answer: Answer, memory: Any = None, **rules: Any) -> Ask:
        """A model of this kind that remembers; a call that names no session means ("ann", "c1")."""
        return self.asked(with_history(self.model(answer), memory or self.memory(), **rules))

    def asked(self, chat: Any) -> Ask:
        """Calls of a wrapped model of this kind."""

        async def ask(value: Any, /, **options: Any) -> Any:
            if not {"user_id", "conversation_id", "session"} & options.keys():
                options |= {"user_id": "ann", "conversation_id": "c1"}
            given = chat(value, **options)
            if self.kind == "coroutine":
                given = await given
            elif self.kind == "generator":
                given = whole(list(given))
            elif self.streams:
                given = whole([chunk async for chunk in given])
            return given

        return ask

    def start(self, answer: Answer, value: Any = "Hi", memory: Any = None, **rules: Any) -> Stream:
        """A stream of a model that remembers, to be read chunk by chunk; `answer` may be a generator."""
        options = {name: rules.pop(name) for name in _OF_A_CALL & rules.keys()}
        options = {"user_id": "ann", "conversation_id": "c1", **options}
        chat = with_history(self.model(answer), memory or self.memory(), **rules)
        return Stream(chat(value, **options))

    def load(self, user_id: str = "ann", conversation_id: str = "c1") -> Snapshot:
        """A conversation, read past the wrapper."""
        return self.direct.history(user_id, conversation_id).load()

    def said(self, user_id: str = "ann", conversation_id: str = "c1") -> list[str]:
        """Who said what in a conversation: `human: Hi`."""
        return lines(self.load(user_id, conversation_id).messages)

    def append(self, *messages: StoredMessage) -> None:
        """What another worker stores meanwhile, in ("ann", "c1")."""
        self.direct.history("ann", "c1").append(*messages)

    def conversations(self, user_id: str = "ann") -> list[ConversationInfo]:
        """The conversations of a user."""
        return list(self.direct.conversations(user_id))

    async def close(self) -> None:
        for memory in self._made:
            if self.asynchronous:
                await memory.aclose()
            else:
                memory.close()
        self.direct.close()


_OF_A_CALL = {"user_id", "conversation_id", "session", "report", "window", "idempotency_key"}
END = object()


class Stream:
    """A generator of either face, read and closed by awaiting."""

    def __init__(self, chunks: Any) -> None:
        self.chunks = chunks
        self.asynchronous = not isinstance(chunks, Generator)

    async def next(self) -> Any:
        """The next chunk, or END."""
        return await anext(self.chunks, END) if self.asynchronous else next(self.chunks, END)

    async def rest(self) -> list[Any]:
        """All chunks that are left."""
        if self.asynchronous:
            return [chunk async for chunk in self.chunks]
        return list(self.chunks)

    async def close(self) -> None:
        if self.asynchronous:
            await self.chunks.aclose()
        else:
            self.chunks.close()

    async def throw(self, error: BaseException) -> Any:
        """Let the stream fail where its reader is."""
        return await self.chunks.athrow(error) if self.asynchronous else self.chunks.throw(error)


def pieces(output: Any) -> Any:
    """The chunks in which a model streams an output: a text in two, a list or generator by its items."""
    if isinstance(output, Generator):
        return output
    if isinstance(output, str):
        return [output[:2], output[2:]] if len(output) > 2 else [output]
    return output if isinstance(output, list) else [output]


def whole(chunks: list[Any]) -> Any:
    """What the chunks of a stream amount to, for a caller who joins texts."""
    if chunks and all(isinstance(chunk, str) for chunk in chunks):
        return "".join(chunks)
    return chunks[0] if len(chunks) == 1 else chunks


def lines(messages: Iterable[StoredMessage]) -> list[str]:
    """Who said what."""
    return [f"{message.type}: {message.text}" for message in messages]


class Script:
    """Gives one answer after the other, and keeps what it was given; an exception in it is raised.

    Something callable in it is called with what the model was given, and what that gives is given.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.given: list[Any] = []
        self.options: list[dict[str, Any]] = []

    def __call__(self, given: Any, **options: Any) -> Any:
        self.given.append(given)
        self.options.append(options)
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(given)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def seen(self) -> list[list[str]]:
        """Who had said what, each time that the model was asked."""
        return [lines(given) for given in self.given]


def meanwhile(chats: Chats, *texts: str, answer: str = "answer") -> Callable[[Any], str]:
    """An answer during which another worker stores something."""

    def give(given: Any) -> str:
        chats.append(*map(human, texts))
        return f"{answer} to {len(given)}"

    return give
