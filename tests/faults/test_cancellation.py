"""Calls that are cancelled at any point: nobody else notices, nothing is stored twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis.asyncio

from memory_redis import AppendId, AsyncRedisMemory, RedisMemory, UnknownOutcome, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import HOST, Way
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

KINDS = ["own", "Redis()", "BlockingConnectionPool", "single connection"]
ASYNC = [Way("async", kind) for kind in KINDS]


async def cancelled_after(call: Awaitable[Any], seconds: float) -> Any:
    """The result of a call that has that long; None if it was cancelled."""
    task = asyncio.ensure_future(call)
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize("way", ASYNC, ids=str)
async def test_three_hundred_cancelled_calls_cross_no_replies_and_leak_no_connection(
    connect: Connect, proxy: FaultProxy, valkey: Server, texts: Texts, way: Way
) -> None:
    """D12, D15, D16, F16, S9: another conversation's calls never see them; each is stored once at most."""
    options = {"max_connections": 5} if way.kind == "own" else {}
    memory = connect(proxy.port, timeout=5, **options)
    mine, other = memory.history("ann", "mine"), memory.history("ben", "other")
    await other.append(human("other"))
    await mine.append(human("start"))
    proxy.delay(0.001, 0.001)
    chance = random.Random(300)
    done: list[str] = []

    async def storm(worker: int) -> None:
        for number in range(60):
            text = f"{worker} {number}"
            call = mine.append(human(text)) if number % 3 else mine.load()
            result = await cancelled_after(call, chance.uniform(0, 0.007))
            if number % 3 and result is not None:
                done.append(text)
            snapshot = await other.load()
            assert [message.text for message in snapshot.messages] == ["other"]
            assert await other.count() == 1

    await asyncio.gather(*(storm(worker) for worker in range(5)))
    proxy.heal()
    await asyncio.wait_for(asyncio.gather(*(other.count() for _ in range(20))), 10)
    stored = texts("ann", "mine")
    assert len(stored) == len(set(stored))
    assert set(done) <= set(stored)
    if way.kind == "own":
        await eventually(lambda: len(proxy.links) <= 5, "what was cancelled is closed")


async def test_a_cancelled_append_is_settled_by_an_id_that_was_made_before(
    proxy: FaultProxy, namespace: str, direct: RedisMemory, texts: Texts
) -> None:
    """P9, decision 10: settle() says for each of 100 what is true then and stays true."""
    async with AsyncExitStack() as stack:
        memory = Way("async", "own").open(stack, proxy.port, 5, namespace=namespace)
        history = memory.history("ann", "c")
        await history.append(human("start"))
        proxy.delay(0.002, 0.002)
        chance = random.Random(100)
        ids = [AppendId.new() for _ in range(100)]
        for number, append_id in enumerate(ids):
            await cancelled_after(
                history.append(human(str(number)), append_id=append_id), chance.uniform(0, 0.008)
            )
        settled = [await history.settle(append_id) for append_id in ids]
        proxy.heal()
        await history.append(human("end"))
    stored = texts("ann", "c")
    assert [version is not None for version in settled] == [str(number) in stored for number in range(100)]
    assert 0 < len(stored) < 102
    for number, version in enumerate(settled):
        if version is not None:
            assert stored[version.number - 1] == str(number)


@pytest.mark.parametrize("way", ASYNC, ids=str)
async def test_a_cancellation_hits_only_the_call_that_it_is_meant_for(
    connect: Connect, proxy: FaultProxy, texts: Texts, way: Way
) -> None:
    """D14: one append of a task group is cancelled; others, and unrelated waits, go on."""
    memory = connect(proxy.port, timeout=5)
    history = memory.history("ann", "c")
    await history.append(human("start"))
    sent, accepted = proxy.sent["EVALSHA"], proxy.accepted
    more = 0 if way.kind == "single connection" else 5
    proxy.half_open("down")
    async with asyncio.TaskGroup() as group:
        doomed = group.create_task(history.append(human("cancelled")))
        others = [group.create_task(history.append(human(str(number)))) for number in range(5)]
        unrelated = group.create_task(asyncio.sleep(0.1, "slept"))
        await eventually(
            lambda: proxy.sent["EVALSHA"] > sent and proxy.accepted >= accepted + more,
            "they wait for their answers",
        )
        # redis-py sends by wait_for, which on Python 3.11 loses a cancellation that comes as it ends
        for _ in range(10):
            await asyncio.sleep(0)
        doomed.cancel()
        proxy.heal()
    assert doomed.cancelled()
    assert unrelated.result() == "slept"
    assert len({task.result() for task in others}) == 5
    assert {"start", "0", "1", "2", "3", "4"} <= set(texts("ann", "c"))
    assert texts("ann", "c").count("cancelled") <= 1


async def test_the_first_call_may_be_cancelled_without_harm_to_the_second(
    valkey: Server, namespace: str
) -> None:
    """D14, D15: whoever opens the connections of a loop may leave; those who wait for them stay."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace, max_connections=2)
    first = asyncio.ensure_future(memory.history("ann", "a").append(human("1")))
    second = asyncio.ensure_future(memory.history("ann", "b").append(human("2")))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).number == 1
    assert first.cancelled() or first.cancelling()
    for _ in range(20):
        call = asyncio.ensure_future(memory.history("ann", "b").count())
        await asyncio.sleep(0)
        call.cancel()
    assert await asyncio.wait_for(memory.history("ann", "b").count(), 10) == 1
    await memory.aclose()


async def test_a_turn_that_is_cancelled_stores_nothing(
    connect: Connect, valkey: Server, texts: Texts
) -> None:
    """P4, E16: the block is left by the cancellation, so there is no commit."""
    history = connect(valkey.port, timeout=5).history("ann", "c")

    added = asyncio.Event()

    async def turn() -> None:
        async with history.turn() as turn:
            turn.add(human("1"))
            added.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(turn())
    await added.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert texts("ann", "c") == []


async def test_a_cancelled_first_append_leaves_a_conversation_that_others_can_use(
    proxy: FaultProxy, namespace: str, direct: RedisMemory, texts: Texts
) -> None:
    """B03, decision 12: cancelled between its steps; the conversation is whole, listed and in order."""
    async with redis.asyncio.Redis(host=HOST, port=proxy.port) as client:
        memory = AsyncRedisMemory(client, namespace=namespace)
        await memory.history("warm", "up").append(human("0"))
        proxy.delay(0.004)
        for number in range(25):
            history = memory.history("ann", f"c{number}")
            await cancelled_after(history.append(human("cancelled")), number / 1000)
        proxy.heal()
        for number in range(25):
            await memory.history("ann", f"c{number}").append(human("after"))
    for number in range(25):
        assert texts("ann", f"c{number}") in (["after"], ["cancelled", "after"])
    assert len(list(direct.conversations("ann"))) == 25


async def test_a_deadline_of_the_caller_is_a_cancellation_like_any_other(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """D12: asyncio.timeout around a call passes its TimeoutError on, and the memory goes on."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("1"))
    append_id = AppendId.new()
    proxy.half_open("down")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await history.append(human("2"), append_id=append_id)
    proxy.heal()
    try:
        await history.append(human("2"), append_id=append_id)
    except UnknownOutcome:
        pytest.fail("256 other appends were not made")
    assert texts("ann", "c") == ["1", "2"]
