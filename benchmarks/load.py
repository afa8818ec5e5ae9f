"""What does it cost to load a window, or all, of a conversation as message objects?

The measure ("raw") is one redis-py `LRANGE` over the same list, bytes only: the very key that the contenders
read. Every operation reads another one of a few conversations.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Sequence
from typing import Any

from corpus import messages, texts
from harness import Bench, run, settle
from races import AsyncCall, Call, Contender

from memory_redis import (
    AllMessages,
    AsyncHistory,
    AsyncRedisMemory,
    History,
    LastMessages,
    RedisMemory,
    StoredMessage,
)

CONVERSATIONS = 8
STORED = 1000
LAST = 20
FEW, SOME, MANY = 10, 100, 100_000
MOST_A_CALL = 1000
OPERATIONS_OF_ALL = 5


def measure(bench: Bench) -> None:
    """All races of this question."""
    writer = bench.closing(RedisMemory.from_url(bench.url, namespace="load"))
    for conversation in range(CONVERSATIONS):
        writer.history("ann", f"c{conversation}").append(*messages(STORED, seed=conversation))
    keys = bench.lists("load")
    prove(bench, writer, keys)
    if bench.wants(title := f"load the last {LAST} of {STORED:,}, sync"):
        found = bench.race(title, windowed(bench, keys))
        bench.goal(f"{title}: load / raw", found.ratio("load").median, 1.60)
        bench.goal(f"{title}: load / raw, in the end", found.ratio("load").median, 1.30, checked=False)
    if bench.wants(title := f"load the last {LAST} of {STORED:,} bare texts, sync"):
        found = bench.race(title, bare(bench))
        bench.goal(f"{title}: load / raw", found.ratio("load").median, 1.60)
    if bench.wants(title := f"load all {STORED:,}, sync"):
        found = bench.race(title, whole(bench, keys), OPERATIONS_OF_ALL)
        bench.goal(f"{title}: load / raw", found.ratio("load").median, 8.0)
        bench.goal(f"{title}: load / raw, in the end", found.ratio("load").median, 3.0, checked=False)
    if bench.wants(title := f"load the last {LAST} of {STORED:,}, asyncio"):
        found = bench.async_race(title, windowed_async(bench, keys))
        bench.goal(f"{title}: load / raw", found.ratio("load").median, 1.15, checked=False)
    if bench.wants(title := f"load all {STORED:,}, asyncio"):
        found = bench.async_race(title, whole_async(bench, keys), OPERATIONS_OF_ALL)
        bench.goal(f"{title}: load / raw", found.ratio("load").median, 3.0, checked=False)
    if bench.wants(title := f"load at {FEW}, {SOME} and {MANY:,} stored messages, sync"):
        measure_sizes(bench, title)


def windowed(bench: Bench, keys: Sequence[str]) -> list[Contender]:
    """The last 20: own connections, a client passed in, the JSON codec."""
    own = bench.closing(RedisMemory.from_url(bench.url, namespace="load"))
    passed = RedisMemory(bench.client(), namespace="load")
    text = bench.closing(RedisMemory.from_url(bench.url, namespace="text", codec="json"))
    fill_text(text)
    window = LastMessages(LAST)
    settle()
    return [
        Contender("raw", raw_load(bench, keys, LAST)),
        Contender("load", load(histories(own), window)),
        Contender("load, client passed in", load(histories(passed), window)),
        Contender("load, JSON records", load(histories(text), window)),
    ]


def bare(bench: Bench) -> list[Contender]:
    """The last 20 of messages that are nothing but a text, and their own raw LRANGE."""
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace="bare"))
    for conversation in range(CONVERSATIONS):
        memory.history("ann", f"c{conversation}").append(*texts(STORED, seed=conversation))
    settle()
    return [
        Contender("raw", raw_load(bench, bench.lists("bare"), LAST)),
        Contender("load", load(histories(memory), LastMessages(LAST))),
    ]


def whole(bench: Bench, keys: Sequence[str]) -> list[Contender]:
    """All messages, the same and every content read as well."""
    own = bench.closing(RedisMemory.from_url(bench.url, namespace="load"))
    passed = RedisMemory(bench.client(), namespace="load")
    text = bench.closing(RedisMemory.from_url(bench.url, namespace="text", codec="json"))
    fill_text(text)
    settle()
    return [
        Contender("raw", raw_load(bench, keys, 0)),
        Contender("load", load(histories(own), AllMessages())),
        Contender("load, then read each content", load_and_read(histories(own))),
        Contender("load, client passed in", load(histories(passed), AllMessages())),
        Contender("load, JSON records", load(histories(text), AllMessages())),
        Contender("iterate, pages of 500", iterate(histories(own))),
    ]


def windowed_async(bench: Bench, keys: Sequence[str]) -> list[Contender]:
    """The last 20 in asyncio, one task at a time."""
    own, passed = async_memories(bench)
    window = LastMessages(LAST)
    settle()
    return [
        Contender("raw", raw_load_async(bench, keys, LAST)),
        Contender("load", load_async(async_histories(own), window)),
        Contender("load, client passed in", load_async(async_histories(passed), window)),
    ]


def whole_async(bench: Bench, keys: Sequence[str]) -> list[Contender]:
    """All messages in asyncio."""
    own, passed = async_memories(bench)
    settle()
    return [
        Contender("raw", raw_load_async(bench, keys, 0)),
        Contender("load", load_async(async_histories(own), AllMessages())),
        Contender("load, client passed in", load_async(async_histories(passed), AllMessages())),
    ]


def measure_sizes(bench: Bench, title: str) -> None:
    """A short history against a long one: 20 messages of each, or the 10 that the shortest has."""
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace="size"))
    filling = messages(MOST_A_CALL)
    made = {}
    for stored in (FEW, SOME, MANY):
        made[stored] = history = memory.history("ann", f"c{stored}")
        for start in range(0, stored, MOST_A_CALL):
            # The newest messages are the same in all three: only what lies before them differs.
            history.append(*filling[-min(stored - start, MOST_A_CALL) :])
    settle()
    contenders = [
        Contender(f"load {last} at {stored:,}", load([made[stored]], LastMessages(last)))
        for last, stored in ((LAST, SOME), (LAST, MANY), (FEW, FEW), (FEW, MANY))
    ]
    found = bench.race(title, contenders)
    for last, stored in ((LAST, SOME), (FEW, FEW)):
        ratio = found.ratio(f"load {last} at {MANY:,}", to=f"load {last} at {stored:,}").median
        bench.goal(f"load({last}) at {MANY:,} stored / at {stored}", ratio, 1.20)


def prove(bench: Bench, memory: RedisMemory, keys: Sequence[str]) -> None:
    """Both ways read the same messages, and as many as the titles say, or nothing is measured."""
    expected = messages(STORED, seed=0)
    for last, window in ((LAST, LastMessages(LAST)), (STORED, AllMessages())):
        loaded: list[StoredMessage] = memory.history("ann", "c0").load(window).messages
        if [m.data for m in loaded] != [m.data for m in expected[-last:]]:
            raise RuntimeError(f"load({window}) did not return the last {last} messages")
        if {len(bench.admin.lrange(key, -last, -1)) for key in keys} != {last}:
            raise RuntimeError(f"LRANGE did not return {last} records")


def fill_text(memory: RedisMemory) -> None:
    """The same conversations as JSON records, once."""
    if memory.history("ann", "c0").exists():
        return
    for conversation in range(CONVERSATIONS):
        memory.history("ann", f"c{conversation}").append(*messages(STORED, seed=conversation))


def histories(memory: RedisMemory) -> list[History]:
    """The conversations that were filled."""
    return [memory.history("ann", f"c{i}") for i in range(CONVERSATIONS)]


def async_histories(memory: AsyncRedisMemory) -> list[AsyncHistory]:
    """The same for asyncio."""
    return [memory.history("ann", f"c{i}") for i in range(CONVERSATIONS)]


def async_memories(bench: Bench) -> tuple[AsyncRedisMemory, AsyncRedisMemory]:
    """One with connections of its own, one with a client passed in."""
    own = AsyncRedisMemory.from_url(bench.url, namespace="load")
    bench.aclosing(own.aclose)
    return own, AsyncRedisMemory(bench.async_client(), namespace="load")


def raw_load(bench: Bench, keys: Sequence[str], last: int) -> Call:
    """One LRANGE of the newest `last` records (0: of all), bytes."""
    client = bench.client()

    def call(number: int) -> object:
        return client.lrange(keys[number % len(keys)], -last, -1)

    return call


def raw_load_async(bench: Bench, keys: Sequence[str], last: int) -> AsyncCall:
    """The same over `redis.asyncio`."""
    client: Any = bench.async_client()

    def call(number: int) -> Awaitable[object]:
        awaited: Awaitable[object] = client.lrange(keys[number % len(keys)], -last, -1)
        return awaited

    return call


def load(of: Sequence[History], window: AllMessages | LastMessages) -> Call:
    """`history.load(window)`."""

    def call(number: int) -> object:
        return of[number % len(of)].load(window)

    return call


def load_and_read(of: Sequence[History]) -> Call:
    """The same with every content read: shows whether a load leaves decoding for later."""

    def call(number: int) -> object:
        return sum(len(message.content) for message in of[number % len(of)].load(AllMessages()).messages)

    return call


def iterate(of: Sequence[History]) -> Call:
    """`history.iterate()` to its end: pages of 500, one round trip each."""

    def call(number: int) -> object:
        return sum(1 for _ in of[number % len(of)].iterate(page_size=500))

    return call


def load_async(of: Sequence[AsyncHistory], window: AllMessages | LastMessages) -> AsyncCall:
    """`await history.load(window)`."""

    def call(number: int) -> Awaitable[object]:
        return of[number % len(of)].load(window)

    return call


if __name__ == "__main__":
    sys.exit(run("load", __doc__ or "", measure))
