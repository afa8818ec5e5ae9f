"""How often the server has to be asked, counted on the server."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from memory_redis import ConflictError, LastMessages, MaxMessages, SlidingExpiry, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, positions, reads, real_servers

pytestmark = [pytest.mark.anyio, real_servers]

Trips = Callable[[Awaitable[Any]], Awaitable[int]]


@pytest.fixture
def trips(raw: redis.Redis) -> Trips:
    """How often the server read a request from any client while something was awaited."""

    async def count(work: Awaitable[Any]) -> int:
        before = reads(raw)
        with contextlib.suppress(ConflictError):
            await work
        return reads(raw) - before - 1  # less our own look

    return count


async def test_loads_and_appends_are_one_trip_each(coded: MakeMemory, trips: Trips) -> None:
    """R73, I03, E14, the promise of one round trip: in steady state, whatever the options."""
    one = coded(expiry=SlidingExpiry(60), retention=MaxMessages(500))
    history = one.history("ann", "c1")
    seen = await history.append(human("1"))
    assert await trips(history.append(human("2"), ai("3"))) == 1
    assert await trips(history.append(*(human("x") for _ in range(100)))) == 1
    assert await trips(history.append(human("4"), idempotency_key="k")) == 1
    assert await trips(history.append(human("4"), idempotency_key="k")) == 1
    assert await trips(history.append(human("5"), expected=seen)) == 1
    assert await trips(history.load()) == 1
    assert await trips(history.load(LastMessages(3))) == 1
    assert await trips(one.history("ann", "c2").load()) == 1
    assert await trips(history.count()) == 1
    assert await trips(history.exists()) == 1
    assert await trips(history.expire_in()) == 1


async def test_an_empty_window_is_one_trip(coded: MakeMemory, trips: Trips) -> None:
    """F02: asking for no message but the version is a load like any other."""
    history = coded().history("ann", "c1")
    await history.append(human("1"), human("2"))
    assert await trips(history.load(LastMessages(0))) == 1


async def test_records_that_are_left_out_cost_few_trips(
    memory: MakeMemory, raw: redis.Redis, keys: Names, trips: Trips
) -> None:
    """F10, decision 22: each looks at twice as many as the one before."""
    history = memory(on_corrupt="skip").history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(901)))
    with raw.pipeline() as pipeline:
        for at in range(1, 901):
            pipeline.lset(keys.messages, at, b"rubbish")
        pipeline.execute()
    assert positions(await history.load(LastMessages(1))) == [0]
    # 1, 64, 128, 256, 512 and 1,024 records; twice, for damaged ones do not tell where they stand
    assert await trips(history.load(LastMessages(1))) == 12


async def test_a_turn_is_two_trips(memory: MakeMemory, trips: Trips) -> None:
    """R53: one to load, also under an idempotency key, and one to commit, also after a conflict."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))

    async def turn(key: str | None, meanwhile: bool) -> None:
        async with history.turn(idempotency_key=key) as turn:
            if meanwhile:
                await history.append(human("2"))
            turn.add(human("3"), ai("4"))

    await turn("first", False)  # the server has each script by now
    assert await trips(turn(None, False)) == 2
    assert await trips(turn("k", False)) == 2
    assert await trips(turn(None, True)) == 3


async def test_the_first_append_of_a_conversation_is_three_trips(memory: MakeMemory, trips: Trips) -> None:
    """Decision 12: ask, enter in the index, store; a session has no index and needs one."""
    one = memory()
    await one.ping()
    await one.history("bob", "c1").append(human("1"))
    assert await trips(one.history("ann", "c1").append(human("1"))) == 3
    assert await trips(one.history("ann", "c1").append(human("2"))) == 1
    assert await trips(one.session("s1").append(human("1"))) == 1


async def test_renewing_by_reads_costs_no_trip(memory: MakeMemory, trips: Trips) -> None:
    """R53: the end is set in the trip of the load."""
    history = memory(expiry=SlidingExpiry(60, on_read=True)).history("ann", "c1")
    await history.append(human("1"))
    await history.load()  # the server has the script by now
    assert await trips(history.load()) == 1


async def test_pages_are_one_trip_each(memory: MakeMemory, trips: Trips) -> None:
    """I04: 10 messages in pages of 4 are 3 trips, and 11 conversations in pages of 5 are 3 times 2."""
    one = memory()
    history = one.history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(10)))

    async def read() -> None:
        assert len([message async for message in history.iterate(page_size=4)]) == 10

    await read()  # the server has each script by now
    assert await trips(read()) == 3
    for number in range(2, 12):
        await one.history("ann", f"c{number}").append(human("1"))

    async def list_all() -> None:
        assert len([info async for info in one.conversations("ann", page_size=5)]) == 11

    await list_all()
    assert await trips(list_all()) == 6


async def test_making_memories_and_histories_asks_nothing(memory: MakeMemory, trips: Trips) -> None:
    """R21, G23: constructing does no I/O."""

    async def make() -> None:
        for number in range(20):
            one = memory()
            one.history("ann", f"c{number}").turn()
            one.session("s1").iterate()
            one.conversations("ann")

    assert await trips(make()) == 0
