"""Few connections and many callers."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from memory_redis import AsyncRedisMemory, MemoryRedisError, PoolExhausted, RedisMemory, human
from tests.faults.conftest import Connect
from tests.faults.ways import OWN
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def counted() -> Iterator[Server]:
    """A server whose connections are all ours to count."""
    with Server() as server:
        yield server


def clients(server: Server) -> int:
    """How many connections there are besides the one that asks."""
    return len(server.ask("CLIENT", "LIST").splitlines()) - 1


def run_threads(count: int, target: object) -> None:
    threads = [threading.Thread(target=target, args=(number,)) for number in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_five_connections_serve_two_hundred_threads(counted: Server, namespace: str) -> None:
    """F17, G23: all are served, nobody waits for long, and there are never more than five."""
    outcomes: list[int | MemoryRedisError] = []
    most = 0
    with RedisMemory.from_url(counted.url, namespace=namespace, max_connections=5, deadline=60) as memory:

        def call(number: int) -> None:
            try:
                outcomes.append(memory.history("ann", f"c{number % 10}").append(human(str(number))).number)
            except MemoryRedisError as error:
                outcomes.append(error)

        running = threading.Thread(target=run_threads, args=(200, call))
        running.start()
        while running.is_alive():
            most = max(most, clients(counted))
        stored = sum(memory.history("ann", f"c{number}").count() for number in range(10))
    assert [outcome for outcome in outcomes if not isinstance(outcome, int)] == []
    assert stored == len(outcomes) == 200
    assert 1 <= most <= 5
    wait_until(lambda: clients(counted) == 0, "all connections are closed")


async def test_five_connections_serve_two_hundred_tasks(counted: Server, namespace: str) -> None:
    """F17, G23: the same in one event loop."""
    async with AsyncRedisMemory.from_url(
        counted.url, namespace=namespace, max_connections=5, deadline=60
    ) as memory:
        versions = await asyncio.gather(
            *(memory.history("ann", f"c{number % 10}").append(human(str(number))) for number in range(200))
        )
        assert len(versions) == 200
        assert 1 <= await asyncio.to_thread(clients, counted) <= 5
        counts = [await memory.history("ann", f"c{number}").count() for number in range(10)]
        assert sum(counts) == 200
    wait_until(lambda: clients(counted) == 0, "all connections are closed")


async def test_who_finds_no_connection_before_the_deadline_is_told_that_nothing_was_sent(
    connect: Connect, proxy: FaultProxy
) -> None:
    """F17, P9: PoolExhausted is "not stored"; those that had the connections are unknown, not more."""
    memory = connect(proxy.port, timeout=5, deadline=1.5, max_connections=3)
    history = memory.history("ann", "c")
    await history.append(human("0"))
    proxy.half_open("down")
    results = await asyncio.gather(
        *(history.append(human(str(number))) for number in range(1, 31)), return_exceptions=True
    )
    proxy.heal()
    assert all(isinstance(result, MemoryRedisError) for result in results)
    exhausted = [result for result in results if isinstance(result, PoolExhausted)]
    assert {error.outcome for error in exhausted} == {"not_stored"}
    assert exhausted, "three connections cannot serve thirty calls at once"
    await history.append(human("after"))
    possible = {str(n) for n, result in enumerate(results, 1) if not isinstance(result, PoolExhausted)}
    texts = [message.text for message in (await history.load()).messages]
    assert set(texts) <= possible | {"0", "after"}
    assert len(texts) == len(set(texts))


def test_a_connection_that_comes_free_wakes_a_waiting_thread_at_once(counted: Server, namespace: str) -> None:
    """F17: no wake-up is lost, however threads interleave: no call waits for the patience to end."""
    before = sys.getswitchinterval()
    slowest = [0.0] * 16
    url = f"{counted.url}?socket_timeout=60"
    with RedisMemory.from_url(url, namespace=namespace, max_connections=1, deadline=60) as memory:

        def call(number: int) -> None:
            history = memory.history("ann", f"c{number}")
            for _ in range(150):
                began = time.monotonic()
                history.count()
                slowest[number] = max(slowest[number], time.monotonic() - began)
                time.sleep(0.0005)  # so that the pool is empty now and then

        sys.setswitchinterval(1e-6)
        try:
            run_threads(16, call)
        finally:
            sys.setswitchinterval(before)
    assert max(slowest) < 20


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_a_thousand_histories_share_the_pool_and_leave_nothing_behind(
    connect: Connect, counted: Server
) -> None:
    """G23, G24: connections are bounded by the pool, and gone when the memory is closed."""
    memory = connect(counted.port, timeout=5, max_connections=4)
    for number in range(1000):
        history = memory.history("ann", f"c{number}")
        if number % 50 == 0:
            await history.append(human("1"))
    assert 1 <= clients(counted) <= 4
    await memory.aclose()
    wait_until(lambda: clients(counted) == 0, "all connections are closed")
    assert await memory.history("ann", "c0").count() == 1  # a closed memory opens again when it is used


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_a_memory_that_is_closed_in_the_middle_of_calls_leaves_no_connection(
    connect: Connect, counted: Server
) -> None:
    """G24, P9: calls under way end well, and what they had or open is closed in the end."""
    memory = connect(counted.port, timeout=5, max_connections=10)
    history = memory.history("ann", "c")
    await history.append(human("start"))
    appends = [asyncio.ensure_future(history.append(human(str(number)))) for number in range(60)]
    for _ in range(5):
        await asyncio.sleep(0.002)  # some of them are under way
        await memory.aclose()
    await asyncio.gather(*appends)
    await memory.aclose()
    gc.collect()
    wait_until(lambda: clients(counted) == 0, "all connections are closed")
    assert await history.count() == 61


def test_memories_that_are_thrown_away_leave_no_connections(counted: Server, namespace: str) -> None:
    """G24: nobody closed them; the count returns to where it was."""
    for _ in range(20):
        RedisMemory.from_url(counted.url, namespace=namespace).history("ann", "c").append(human("1"))
    gc.collect()
    wait_until(lambda: clients(counted) == 0, "all connections are closed")


def test_asyncio_memories_that_are_thrown_away_leave_no_connections(counted: Server, namespace: str) -> None:
    """G24, D11: each event loop closes what it opened when it ends."""

    async def use() -> None:
        await (
            AsyncRedisMemory.from_url(counted.url, namespace=namespace).history("ann", "c").append(human("1"))
        )

    for _ in range(10):
        asyncio.run(use())
    gc.collect()
    wait_until(lambda: clients(counted) == 0, "all connections are closed")
