"""Batches: outputs in their places, and a whole turn for each item, in one session or in many."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from memory_redis import RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.support import BATCHES, many, said, to, turns

pytestmark = pytest.mark.anyio

every_batch = pytest.mark.parametrize("way", BATCHES)


def _answer(messages: list[BaseMessage]) -> str:
    if messages[-1].content == "bad":
        raise RuntimeError("never mind")
    return f"re {messages[-1].content}"


async def _answer_later(messages: list[BaseMessage]) -> str:
    return _answer(messages)


def _chain(memory: RedisMemory) -> Any:
    return RunnableWithMessageHistory(RunnableLambda(_answer, _answer_later), memory)


@every_batch
async def test_each_session_gets_its_turn(kept: RedisMemory, way: str) -> None:
    """M:batch, M:abatch, M:batch_as_completed, M:abatch_as_completed: outputs in order, one turn each."""
    names = [f"s{number}" for number in range(8)]
    outputs = await many(way, _chain(kept), [f"q{name}" for name in names], [to(name) for name in names])
    assert outputs == [f"re q{name}" for name in names]
    for name in names:
        assert said(kept, name) == [("human", f"q{name}"), ("ai", f"re q{name}")]


@every_batch
async def test_one_session_gets_all_turns(kept: RedisMemory, way: str) -> None:
    """M:batch, M:abatch, M:batch_as_completed, M:abatch_as_completed, T2: whole, in whatever order."""
    values = [f"q{number}" for number in range(16)]
    assert await many(way, _chain(kept), values, to()) == [f"re {value}" for value in values]
    assert sorted(turns(said(kept))) == sorted((value, f"re {value}") for value in values)


@every_batch
async def test_no_items_are_no_runs(kept: RedisMemory, way: str) -> None:
    """M:batch, M:abatch, M:batch_as_completed, M:abatch_as_completed: not even a session is needed."""
    assert await many(way, _chain(kept), []) == []


@every_batch
async def test_a_config_for_each_item_or_one_for_all(kept: RedisMemory, way: str) -> None:
    """M:batch, M:abatch, M:batch_as_completed, M:abatch_as_completed: another number is a ValueError."""
    for return_exceptions in (False, True):
        with pytest.raises(ValueError, match="length"):
            await many(
                way,
                _chain(kept),
                ["a", "b", "c"],
                [to("a"), to("b")],
                return_exceptions=return_exceptions,
            )
    assert said(kept, "a") == said(kept, "b") == []


@every_batch
@pytest.mark.parametrize("return_exceptions", [True, False])
async def test_an_item_that_fails_stores_nothing(
    kept: RedisMemory, way: str, return_exceptions: bool
) -> None:
    """M:return_exceptions: its exception stands in its place, and the others are stored; or it is raised."""
    values, configs = ["a", "bad", "c"], [to("a"), to("bad"), to("c")]
    if return_exceptions:
        one, bad, three = await many(way, _chain(kept), values, configs, return_exceptions=True)
        assert (one, three) == ("re a", "re c")
        assert isinstance(bad, RuntimeError)
        assert said(kept, "a") == [("human", "a"), ("ai", "re a")]
        assert said(kept, "c") == [("human", "c"), ("ai", "re c")]
    else:
        with pytest.raises(RuntimeError, match="never mind"):
            await many(way, _chain(kept), values, configs)
    assert said(kept, "bad") == []


@every_batch
async def test_a_failure_among_turns_of_one_session_tears_none(kept: RedisMemory, way: str) -> None:
    """M:return_exceptions: in one session too, each item is a whole turn or no turn."""
    values = ["a", "bad", "c", "bad", "e"]
    outputs = await many(way, _chain(kept), values, to(), return_exceptions=True)
    assert [isinstance(output, RuntimeError) for output in outputs] == [False, True, False, True, False]
    assert sorted(turns(said(kept))) == [("a", "re a"), ("c", "re c"), ("e", "re e")]


class Gauge:
    """Models at work at the same time; none ends before another one has come."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pairs, self.pairs_later = threading.Barrier(2, timeout=20), asyncio.Barrier(2)
        self.running = self.most = 0

    def _begin(self) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def _end(self) -> str:
        with self.lock:
            self.running -= 1
        return "fine"

    def answer(self, _: Any) -> str:
        self._begin()
        self.pairs.wait()
        return self._end()

    async def answer_later(self, _: Any) -> str:
        self._begin()
        async with asyncio.timeout(20):
            await self.pairs_later.wait()
        return self._end()


@every_batch
async def test_no_more_run_at_once_than_is_allowed(kept: RedisMemory, way: str) -> None:
    """M:batch, M:abatch, M:batch_as_completed, M:abatch_as_completed: max_concurrency is kept, and used."""
    gauge = Gauge()
    chain = RunnableWithMessageHistory(RunnableLambda(gauge.answer, gauge.answer_later), kept)
    outputs = await many(way, chain, list("abcdef"), {**to(), "max_concurrency": 2})
    assert outputs == ["fine"] * 6
    assert gauge.most == 2
    assert sorted(turns(said(kept))) == [(name, "fine") for name in "abcdef"]


def test_what_is_done_first_comes_first(kept: RedisMemory) -> None:
    """M:batch_as_completed: the first item waits until the second one has been given out, and stored."""
    given = threading.Event()

    def answer(messages: list[BaseMessage]) -> str:
        if messages[-1].content == "slow":
            assert given.wait(20)
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer), kept)
    order = []
    for at, output in chain.batch_as_completed(["slow", "quick"], [to("slow"), to("quick")]):
        order.append((at, output))
        assert said(kept, ["slow", "quick"][at])
        given.set()
    assert order == [(1, "fine"), (0, "fine")]


async def test_what_is_done_first_comes_first_when_awaited(kept: RedisMemory) -> None:
    """M:abatch_as_completed: the same."""
    given = asyncio.Event()

    async def answer(messages: list[BaseMessage]) -> str:
        if messages[-1].content == "slow":
            async with asyncio.timeout(20):
                await given.wait()
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer), kept)
    order = []
    async for at, output in chain.abatch_as_completed(["slow", "quick"], [to("slow"), to("quick")]):
        order.append((at, output))
        assert said(kept, ["slow", "quick"][at])
        given.set()
    assert order == [(1, "fine"), (0, "fine")]
