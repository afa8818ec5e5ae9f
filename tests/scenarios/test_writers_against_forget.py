"""Decision 12: writers, clears, listings and forgets against each other."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import redis

from memory_redis import AsyncRedisMemory, HistoryCleared, RedisMemory, human
from tests.scenarios.stored import keys_in, proxied, real_servers
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

SECONDS, MOST_SECONDS = 5.0, 60.0
ENOUGH = 20
CONVERSATIONS = [f"c{number}" for number in range(150)]
"""So many that one which was lost from the index is seldom cleared or begun again."""


class Crowd:
    """Threads that work until time is over and all crowds together have done each kind of work often enough.

    The first error of any of them is raised at the end.
    """

    def __init__(self, url: str, namespace: str, turns: dict[str, int]) -> None:
        self.url, self.namespace, self.turns = url, namespace, turns
        self._began = time.monotonic()
        self._errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[RedisMemory], None]) -> None:
        """Do `work` again and again, each time with a memory of its own."""

        def run() -> None:
            try:
                with RedisMemory.from_url(self.url, namespace=self.namespace) as memory:
                    while not self.over() and not self._errors:
                        work(memory)
            except BaseException as error:
                self._errors.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def over(self) -> bool:
        """Whether it is time to end."""
        seconds = time.monotonic() - self._began
        return seconds > MOST_SECONDS or (seconds > SECONDS and min(self.turns.values()) > ENOUGH)

    def join(self) -> None:
        """Wait for all of them."""
        for thread in self._threads:
            thread.join()
        for error in self._errors:
            raise error

    def write(self, memory: RedisMemory) -> None:
        """One append to any conversation; now and then a turn or a clear."""
        history, chance = memory.history("ann", random.choice(CONVERSATIONS)), random.random()
        if chance < 0.03:
            history.clear()
            self.turns["cleared"] += 1
        elif chance < 0.3:
            with contextlib.suppress(HistoryCleared), history.turn() as turn:
                turn.add(human("1"), human("2"))
        else:
            history.append(human("1"))
            self.turns["stored"] += 1

    def forget(self, memory: RedisMemory) -> None:
        """One forget."""
        memory.forget("ann")
        self.turns["forgotten"] += 1
        time.sleep(0.003)  # so that conversations also live for a while

    def list(self, memory: RedisMemory) -> None:
        """One listing; every entry of it has messages."""
        assert all(info.messages > 0 for info in memory.conversations("ann", page_size=2))
        self.turns["listed"] += 1


async def write_in_tasks(crowd: Crowd) -> None:
    """Writers on the other face, in this thread's loop."""

    async def write(memory: AsyncRedisMemory) -> None:
        while not crowd.over():
            await memory.history("ann", random.choice(CONVERSATIONS)).append(human("1"))
            crowd.turns["stored"] += 1

    async with (
        AsyncRedisMemory.from_url(crowd.url, namespace=crowd.namespace) as memory,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(2):
            tasks.start_soon(write, memory)


@real_servers
async def test_no_list_is_ever_outside_the_index(server: Server, raw: redis.Redis, namespace: str) -> None:
    """Decision 12, S8: after seconds of writers against forget, clear and listing a SCAN finds none."""
    with proxied(server) as (proxy, slow):
        proxy.delay(0.001, jitter=0.001)  # widens the gaps between the trips of one append
        done = dict.fromkeys(("stored", "cleared", "forgotten", "listed"), 0)
        crowd = Crowd(slow, namespace, done)
        quick = Crowd(server.url, namespace, done)
        for work in (crowd.write, crowd.write, crowd.forget, crowd.list):
            crowd.start(work)
        for work in (quick.write, quick.forget):
            quick.start(work)
        await write_in_tasks(crowd)
        await anyio.to_thread.run_sync(crowd.join)
        await anyio.to_thread.run_sync(quick.join)
    index = raw.zrange(f"{namespace}:{{ann}}:conversations", 0, -1)
    lists = [key for key in keys_in(raw, namespace) if key.endswith(":messages")]
    outside = [key for key in lists if key.split(":")[2].rstrip("}").encode() not in index]
    assert outside == []
    assert min(done.values()) > ENOUGH, done
    with RedisMemory.from_url(server.url, namespace=namespace) as memory:
        listed = {info.conversation_id: info.messages for info in memory.conversations("ann")}
        assert len(listed) == len(lists)
        forgotten = memory.forget("ann")
        assert (forgotten.conversations, forgotten.messages) == (len(listed), sum(listed.values()))
    assert [key for key in keys_in(raw, namespace) if key.endswith(":messages")] == []


@real_servers
@pytest.mark.parametrize("first", ["append", "forget"])
async def test_an_append_and_a_forget_at_one_moment_agree(
    server: Server, raw: redis.Redis, namespace: str, first: str
) -> None:
    """Decision 12, S8: an append that entered the index and is held up there is listed, or not stored."""
    with proxied(server) as (proxy, address):
        slow = RedisMemory.from_url(address, namespace=namespace)
        quick = RedisMemory.from_url(server.url, namespace=namespace)
        with slow, quick:
            for number in range(25):
                history: Any = slow.history("ann", f"{first}{number}")
                proxy.delay(0.002, jitter=0.002)
                thread = threading.Thread(target=history.append, args=(human("1"),))
                thread.start()
                time.sleep(random.uniform(0, 0.02))  # anywhere in its trips
                if first == "forget":
                    quick.forget("ann")
                else:
                    quick.history("ann", f"{first}{number}").clear()
                thread.join()
                listed = [info.conversation_id for info in quick.conversations("ann")]
                assert (f"{first}{number}" in listed) is (history.count() == 1)
