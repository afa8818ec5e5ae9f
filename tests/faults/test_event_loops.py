"""Memories in several event loops, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest
import redis.asyncio

from memory_redis import AsyncRedisMemory, RedisMemory, ai, human
from memory_redis.errors import WrongEventLoop
from tests.faults.conftest import Connect, Texts
from tests.faults.test_server_down import LONG, within
from tests.faults.ways import OWN, Way
from tests.faults.worker import ROOT
from tests.support.servers import Server


def test_ten_event_loops_in_turn_use_one_memory(valkey: Server, namespace: str, texts: Texts) -> None:
    """D10: every asyncio.run works, the first call of each included, and nothing is stored twice."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace)
    history = memory.history("ann", "c")

    async def turn(number: int) -> int:
        await history.append(human(str(number)))
        return await history.count()

    assert [asyncio.run(turn(number)) for number in range(10)] == list(range(1, 11))
    assert texts("ann", "c") == [str(number) for number in range(10)]


def test_two_threads_with_an_event_loop_each_use_one_memory_at_once(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """D09, D04, D12: each gets its own data, and no error of a foreign loop."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace)
    errors: list[BaseException] = []

    async def work(name: str) -> None:
        history = memory.history("ann", name)
        for number in range(100):
            await asyncio.gather(history.append(human(f"{name} {number}")), history.count())
            snapshot = await history.load()
            assert all(message.text.startswith(f"{name} ") for message in snapshot.messages)
            assert len(snapshot.messages) == number + 1

    def run(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {name: len(texts("ann", name)) for name in ("a", "b", "c")} == {"a": 100, "b": 100, "c": 100}


def test_a_client_that_was_passed_in_is_refused_in_another_event_loop(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """Decision 31: a clear error, before anything is sent, and its own loop is not disturbed."""
    client = redis.asyncio.Redis(host=valkey.host, port=valkey.port)
    memory = AsyncRedisMemory(client, namespace=namespace)
    history = memory.history("ann", "c")

    async def elsewhere() -> None:
        with pytest.raises(WrongEventLoop) as caught:
            await history.append(human("2"))
        assert caught.value.outcome == "not_stored"
        with pytest.raises(WrongEventLoop):
            await history.load()
        with pytest.raises(WrongEventLoop):
            await memory.ping()

    async def home() -> None:
        await history.append(human("1"))
        await asyncio.to_thread(asyncio.run, elsewhere())
        await history.append(human("3"))
        await client.aclose()

    asyncio.run(home())
    asyncio.run(elsewhere())
    assert texts("ann", "c") == ["1", "3"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "way", [Way("async", "single connection"), Way("sync", "single connection")], ids=str
)
async def test_one_connection_is_shared_by_a_hundred_callers(
    connect: Connect, valkey: Server, texts: Texts
) -> None:
    """D17: gather of 100 appends over single_connection_client is served in some order, each once."""
    history = connect(valkey.port, timeout=5).history("ann", "c")
    await history.append(human("start"))
    versions = await asyncio.gather(*(history.append(human(str(n)), ai(f"to {n}")) for n in range(100)))
    assert sorted(version.number for version in versions) == list(range(3, 203, 2))
    stored = texts("ann", "c")
    for number, version in enumerate(versions):
        assert stored[version.number - 2 : version.number] == [str(number), f"to {number}"]


@pytest.mark.anyio
@pytest.mark.parametrize("way", OWN, ids=str)
async def test_closing_and_showing_a_memory_does_not_wait_for_a_frozen_server(connect: Connect) -> None:
    """D21, D05: close is bounded, repr does no I/O, with connections open and a server that stands still."""
    with Server() as server:
        memory = connect(server.port, timeout=LONG)
        history = memory.history("ann", "c")
        await asyncio.gather(*(history.append(human(str(number))) for number in range(5)))
        server.pause()
        async with within(0):
            assert "ann" not in f"{memory!r} {history!r} {history!s}"
            await memory.aclose()
        server.resume()


@pytest.mark.anyio
async def test_a_memory_that_is_closed_while_others_wait_for_it_fails_none_of_them_for_good(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """P2, P9: calls under way when a memory is closed are made again over new connections, once."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace)
    history = memory.history("ann", "c")
    await history.append(human("start"))
    appends = [asyncio.ensure_future(history.append(human(str(number)))) for number in range(50)]
    await asyncio.sleep(0)
    await memory.aclose()
    await asyncio.gather(*appends)
    await memory.aclose()
    gc.collect()  # a connection that was left open says so now, and fails this test
    assert sorted(texts("ann", "c")[1:], key=int) == [str(number) for number in range(50)]


CLEAN = """
import asyncio, sys
from memory_redis import AsyncRedisMemory, RedisMemory, human

url, namespace = sys.argv[1:3]

def run(main):
    async def patiently():
        asyncio.get_running_loop().slow_callback_duration = 60  # a slow machine is no fault of ours
        await main

    asyncio.run(patiently())

with RedisMemory.from_url(url, namespace=namespace) as memory:
    memory.history("ann", "c").append(human("1"))
thrown_away = RedisMemory.from_url(url, namespace=namespace)
thrown_away.history("ann", "c").append(human("2"))
del thrown_away
open_at_the_end = RedisMemory.from_url(url, namespace=namespace)
open_at_the_end.history("ann", "c").append(human("3"))

async def closed():
    async with AsyncRedisMemory.from_url(url, namespace=namespace) as memory:
        await asyncio.gather(*(memory.history("ann", "c").append(human("4")) for _ in range(5)))

async def left_open(memory):
    await asyncio.gather(*(memory.history("ann", "c").append(human("5")) for _ in range(5)))

async def thrown(url):
    await AsyncRedisMemory.from_url(url, namespace=namespace).history("ann", "c").append(human("6"))

run(closed())
kept = AsyncRedisMemory.from_url(url, namespace=namespace)
for _ in range(3):
    run(left_open(kept))
run(thrown(url))

async def cancelled():
    memory = AsyncRedisMemory.from_url(url, namespace=namespace)
    tasks = [asyncio.ensure_future(memory.history("ann", "c").append(human("7"))) for _ in range(5)]
    await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()

run(cancelled())
for one in (RedisMemory, AsyncRedisMemory):
    one.from_url("redis://127.0.0.1:9/0", deadline=0.05)  # never used
try:
    RedisMemory.from_url("redis://127.0.0.1:9/0", deadline=0.05).ping()
except Exception as error:
    print(type(error).__name__)
"""


def test_no_resource_warning_is_left_by_memories_closed_or_not(
    valkey: Server, namespace: str, direct: RedisMemory
) -> None:
    """Decision 32, D11, J08: with -X dev and every warning an error, nothing is said."""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", CLEAN, valkey.url, namespace],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "ServerUnavailable\n", "")
    assert direct.history("ann", "c").count() >= 3 + 5 + 15 + 1
