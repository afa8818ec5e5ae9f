"""Every way to run a chain once, and what it left behind, for the tests of a Runnable's methods."""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import ConfigurableFieldSpec, Runnable

from memory_redis import RedisMemory
from memory_redis.history import History
from memory_redis.langchain import to_langchain

Said = list[tuple[str, str]]

SYNC = ("invoke", "stream", "transform", "batch", "batch_as_completed")
AWAITED = ("ainvoke", "astream", "atransform", "abatch", "abatch_as_completed", "astream_events")
WAYS = (*SYNC, *AWAITED)
BATCHES = ("batch", "batch_as_completed", "abatch", "abatch_as_completed")

HI: Said = [("human", "Hi"), ("ai", "fine")]
USER = ConfigurableFieldSpec(id="user_id", annotation=str, is_shared=True)
CONVERSATION = ConfigurableFieldSpec(id="conversation_id", annotation=str, is_shared=True)

every_way = pytest.mark.parametrize("way", WAYS)
two_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


def to(session_id: str = "s1", **more: Any) -> Any:
    """A config that names a session, and says more."""
    return {"configurable": {"session_id": session_id, **more}}


async def once(way: str, chain: Runnable[Any, Any], value: Any, config: Any = None, **options: Any) -> Any:
    """The output of one run, made in this way; the chunks of a stream added together."""
    if way in ("invoke", "ainvoke"):
        answer = getattr(chain, way)(value, config, **options)
        return await answer if way == "ainvoke" else answer
    if way in ("batch", "abatch"):
        answers = getattr(chain, way)([value], config, **options)
        [answer] = await answers if way == "abatch" else answers
        return answer
    if way == "batch_as_completed":
        [(_, answer)] = chain.batch_as_completed([value], config, **options)
        return answer
    if way == "abatch_as_completed":
        [(_, answer)] = [item async for item in chain.abatch_as_completed([value], config, **options)]
        return answer
    if way == "astream_events":
        events = [event async for event in chain.astream_events(value, config, version="v2", **options)]
        return events[-1]["data"]["output"]
    return together(await chunks(way, chain, value, config, **options))


async def chunks(way: str, chain: Any, value: Any, config: Any = None, **options: Any) -> list[Any]:
    """What a stream of a chain hands out, piece by piece."""
    if way == "stream":
        return list(chain.stream(value, config, **options))
    if way == "transform":
        return list(chain.transform(iter([value]), config, **options))
    if way == "astream":
        return [chunk async for chunk in chain.astream(value, config, **options)]
    return [chunk async for chunk in chain.atransform(one_by_one([value]), config, **options)]


async def many(way: str, chain: Any, values: list[Any], config: Any = None, **options: Any) -> list[Any]:
    """The outputs of a batch, in the order of its inputs."""
    found: Any
    if way in ("batch", "abatch"):
        found = getattr(chain, way)(values, config, **options)
        return await found if way == "abatch" else found
    if way == "batch_as_completed":
        found = list(chain.batch_as_completed(values, config, **options))
    else:
        found = [item async for item in chain.abatch_as_completed(values, config, **options)]
    assert sorted(at for at, _ in found) == list(range(len(values)))
    return [dict(found)[at] for at in range(len(values))]


def together(pieces: list[Any]) -> Any:
    """The chunks of a stream, added."""
    return functools.reduce(operator.add, pieces)


async def one_by_one(items: Iterable[Any]) -> AsyncIterator[Any]:
    """Items as they come from something asynchronous."""
    for item in items:
        yield item


def text(answer: Any) -> str:
    """The text of an answer, whether it is a message or is one."""
    return str(answer.text) if isinstance(answer, BaseMessage) else str(answer)


def said(memory: RedisMemory, session_id: str = "s1") -> Said:
    """Who said what in a session, as it is stored."""
    return [(message.type, message.text) for message in memory.session(session_id).load().messages]


def stored(memory: RedisMemory, session_id: str = "s1") -> list[BaseMessage]:
    """The messages of a session."""
    return [to_langchain(message) for message in memory.session(session_id).load().messages]


def turns(said: Said) -> list[tuple[str, str]]:
    """Question and answer of each turn; an error if a turn is not whole."""
    assert [kind for kind, _ in said] == ["human", "ai"] * (len(said) // 2)
    texts = [one for _, one in said]
    return list(zip(texts[::2], texts[1::2], strict=True))


def model(*answers: str) -> FakeListChatModel:
    """A chat model that gives these answers in turn, again and again, and streams letters."""
    return FakeListChatModel(responses=list(answers) or ["fine"])


class Counts:
    """A function as a runnable, which counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, _: Any) -> str:
        self.runs += 1
        return "fine"


class Factory:
    """Gives sessions of a memory and notes how it was called."""

    def __init__(self, memory: RedisMemory) -> None:
        self.memory = memory
        self.asked: list[str] = []

    def __call__(self, session_id: str) -> History:
        self.asked.append(session_id)
        return self.memory.session(session_id)
