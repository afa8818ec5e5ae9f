"""What a process does that forks with open connections; run by the tests of forks.

    python -m tests.faults.forked NAME URL NAMESPACE

Ends with 0 if every process saw its own data only.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import redis
import redis.asyncio

from memory_redis import AsyncRedisMemory, RedisMemory, human
from memory_redis.errors import WrongEventLoop

CHILDREN = 4


def in_children(work: Callable[[str], None], count: int = CHILDREN, prefix: str = "") -> list[int]:
    """Fork, and do the work in each child under a name of its own; the pids."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(120)
                work(f"{prefix}child {number}")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        pids.append(pid)
    return pids


def joined(pids: list[int]) -> None:
    """Wait for the children.

    Raises:
        SystemExit: one failed.
    """
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
    if failed:
        raise SystemExit(f"{len(failed)} children failed")


def sync_work(memory: RedisMemory, name: str, rounds: int = 50) -> None:
    """Append to an own conversation and read it back."""
    history = memory.history("ann", name)
    for number in range(rounds):
        assert history.append(human(f"{name} {number}")).number == number + 1
        texts = [message.text for message in history.load().messages]
        assert texts == [f"{name} {n}" for n in range(number + 1)], texts


async def async_work(memory: AsyncRedisMemory, name: str, rounds: int = 50) -> None:
    """The same, while other tasks read."""
    history = memory.history("ann", name)
    for number in range(rounds):
        version, count = await asyncio.gather(
            history.append(human(f"{name} {number}")), memory.history("ann", f"no {name}").count()
        )
        assert (version.number, count) == (number + 1, 0)
        texts = [message.text for message in (await history.load()).messages]
        assert texts == [f"{name} {n}" for n in range(number + 1)], texts


def threads(work: Callable[[str], None], name: str, count: int) -> None:
    """The work in several threads that begin at once, each under a name of its own."""
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        work(f"{name} thread {number}")

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(run, number) for number in range(count)]:
            future.result()


def sync(url: str, namespace: str) -> None:
    """A sync memory in use before the fork; parent and children, 8 threads each, use it after."""
    memory = RedisMemory.from_url(url, namespace=namespace)
    threads(lambda name: sync_work(memory, name), "before", 8)
    sys.setswitchinterval(1e-6)  # in the children too: whoever comes first must not meet half a reset
    pids = in_children(lambda name: threads(lambda own: sync_work(memory, own, 10), name, 8))
    threads(lambda name: sync_work(memory, name, 10), "parent", 8)
    joined(pids)


def slow_motion(frame: FrameType, event: str, argument: object) -> Any:
    """A trace function: other threads get their turn after every line of the engine."""
    if "_engine" not in frame.f_code.co_filename:
        return None
    if event == "line" and random.random() < 0.3:
        time.sleep(random.uniform(0, 0.002))
    return slow_motion


def commands_of(client: redis.Redis, own_id: int) -> dict[str, str]:
    """How many commands came over each of the other connections."""
    return {row["id"]: row["tot-cmds"] for row in client.client_list() if row["id"] != str(own_id)}


def first_calls(url: str, namespace: str) -> None:
    """The first calls of a child come from 8 threads at once, which take turns after every line."""
    memory = RedisMemory.from_url(url, namespace=namespace, max_connections=8)
    threads(lambda name: sync_work(memory, name, 5), "before", 8)

    def work(name: str) -> None:
        threading.settrace(slow_motion)
        threads(lambda own: sync_work(memory, own, 1), name, 8)

    with redis.Redis.from_url(url, single_connection_client=True) as client:
        before = commands_of(client, client.client_id())
        assert before
        for turn in range(5):
            random.seed(turn)
            joined(in_children(work, prefix=f"{turn} "))
        after = commands_of(client, client.client_id())
    assert before.items() <= after.items(), "a child used a connection of its parent"
    sync_work(memory, "after", 5)


def sync_client(url: str, namespace: str) -> None:
    """The same for a client of redis-py that was passed in."""
    memory = RedisMemory(redis.Redis.from_url(url), namespace=namespace)
    sync_work(memory, "before")
    pids = in_children(lambda name: threads(lambda own: sync_work(memory, own, 10), name, 4))
    sync_work(memory, "parent")
    joined(pids)


def fork_during_calls(url: str, namespace: str) -> None:
    """Threads of the parent are in the middle of calls when it forks."""
    memory = RedisMemory.from_url(url, namespace=namespace, max_connections=3)
    stop, at_it = threading.Event(), threading.Barrier(7)

    def busy(name: str) -> None:
        at_it.wait(120)
        number = 0
        while not stop.is_set():
            number += 1
            assert memory.history("ann", name).append(human("x")).number == number

    workers = threading.Thread(target=threads, args=(busy, "parent", 6))
    workers.start()
    at_it.wait(120)
    pids = in_children(lambda name: sync_work(memory, name, 20))
    joined(pids)
    stop.set()
    workers.join()


def asyncio_loop(url: str, namespace: str) -> None:
    """An asyncio memory in use by a loop of the parent, before the fork, during it and after."""
    memory = AsyncRedisMemory.from_url(url, namespace=namespace)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(async_work(memory, "before"), loop).result(120)
    during = asyncio.run_coroutine_threadsafe(async_work(memory, "during", 100), loop)
    pids = in_children(lambda name: asyncio.run(async_work(memory, name)))
    during.result(120)
    joined(pids)
    asyncio.run_coroutine_threadsafe(memory.aclose(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def inherited_loop(url: str, namespace: str) -> None:
    """A child goes on with the event loop of its parent, which waits for the child meanwhile."""
    memory = AsyncRedisMemory.from_url(url, namespace=namespace)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(async_work(memory, "before", 5))

    def go_on(name: str) -> None:
        loop.run_until_complete(async_work(memory, name, 5))

    with redis.Redis.from_url(url, single_connection_client=True) as client:
        before = commands_of(client, client.client_id())
        assert before
        for turn in range(3):
            joined(in_children(go_on, 1, prefix=f"{turn} "))
        after = commands_of(client, client.client_id())
    assert before.items() <= after.items(), "a child used a connection of its parent"
    loop.run_until_complete(async_work(memory, "after", 5))
    loop.run_until_complete(memory.aclose())
    loop.close()


def asyncio_client(url: str, namespace: str) -> None:
    """An asyncio client that was passed in and used by the parent is refused in a child."""
    client = redis.asyncio.Redis.from_url(url)
    memory = AsyncRedisMemory(client, namespace=namespace)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(async_work(memory, "before", 5))

    async def refused(name: str) -> None:
        try:
            await memory.history("ann", name).append(human("1"))
        except WrongEventLoop as error:
            outcome = error.outcome
        else:
            outcome = "stored"
        assert outcome == "not_stored"

    joined(in_children(lambda name: asyncio.run(refused(name))))
    joined(in_children(lambda name: loop.run_until_complete(refused(name))))
    loop.run_until_complete(async_work(memory, "after", 5))
    loop.run_until_complete(client.aclose())
    loop.close()


def children_that_close(url: str, namespace: str) -> None:
    """A child that closes the memory, or just ends, does not close the parent's connections."""
    sync_memory = RedisMemory.from_url(url, namespace=namespace)
    async_memory = AsyncRedisMemory.from_url(url, namespace=namespace)
    sync_work(sync_memory, "before", 3)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(async_work(async_memory, "before async", 3))

    def close(name: str) -> None:
        sync_memory.close()
        asyncio.run(async_memory.aclose())

    with redis.Redis.from_url(url) as client:
        before = {row["id"] for row in client.client_list()}
        joined(in_children(close))
        assert before <= {row["id"] for row in client.client_list()}
    sync_work(sync_memory, "after", 3)
    loop.run_until_complete(async_work(async_memory, "after async", 3))
    loop.run_until_complete(async_memory.aclose())
    loop.close()


CASES = {
    "sync": sync,
    "first_calls": first_calls,
    "sync_client": sync_client,
    "fork_during_calls": fork_during_calls,
    "asyncio_loop": asyncio_loop,
    "inherited_loop": inherited_loop,
    "asyncio_client": asyncio_client,
    "children_that_close": children_that_close,
}

if __name__ == "__main__":
    name, url, namespace = sys.argv[1:]
    CASES[name](url, namespace)
