"""What does it cost to append a turn of two messages, exactly once, with version, cap and expiry?

The measure ("raw") is the least that stores them at all: one redis-py pipeline without MULTI, `RPUSH` of two
ready blobs (the bytes that the contenders store) and `EXPIRE`. Each operation goes to another one of many
conversations, as in a busy chatbot: nobody appends to the same conversation every 60 us, and one who does
fills its ring of recent append ids (`memory.py` measures that).
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Sequence
from typing import Any

from corpus import messages, texts, turns
from harness import Bench, run, settle
from races import AsyncCall, Call, Contender

from memory_redis import (
    AsyncHistory,
    AsyncRedisMemory,
    History,
    Limits,
    MaxMessages,
    RedisMemory,
    SlidingExpiry,
    StoredMessage,
    Version,
    ai,
    human,
)

EXPIRY_SECONDS = 7 * 24 * 3600
APPENDS_A_CONVERSATION = 6
STORED = 100
CAP = 1000
FEW, MANY = 10, 100_000
SIZED_CONVERSATIONS = 4
SIZED_OPERATIONS = 8
"""Few, so that the ring of recent append ids stays short: its cost, alike in both, hides a difference."""
TURNS = 256

Turn = tuple[StoredMessage, StoredMessage]
Blobs = tuple[bytes, bytes]


def settings(cap: int = CAP) -> dict[str, Any]:
    """The settings of every memory here: a cap and an expiry that slides on each write."""
    return {"retention": MaxMessages(cap), "expiry": SlidingExpiry(seconds=EXPIRY_SECONDS)}


def measure(bench: Bench) -> None:
    """All races of this question."""
    ready = turns(TURNS)
    blobs = encoded(bench, ready)
    if bench.wants(title := "append a turn, sync"):
        measure_sync(bench, title, ready, blobs)
    if bench.wants(title := "append a turn of bare texts, sync"):
        measure_texts(bench, title)
    if bench.wants(title := "append a turn, asyncio"):
        measure_async(bench, title, ready, blobs)
    if bench.wants(title := f"append a turn at {FEW} and at {MANY:,} stored messages, sync"):
        measure_sizes(bench, title, ready, blobs)


def measure_sync(bench: Bench, title: str, ready: Sequence[Turn], blobs: Sequence[Blobs]) -> None:
    """Own connections and a client passed in; messages ready and made in the call; expected; at the cap."""
    own = bench.closing(RedisMemory.from_url(bench.url, namespace="own", **settings()))
    passed = RedisMemory(bench.client(), namespace="passed", **settings())
    capped = bench.closing(RedisMemory.from_url(bench.url, namespace="capped", **settings(STORED)))
    contenders = [
        Contender("raw", raw_append(bench, "raw", blobs)),
        Contender("append", append(histories(bench, own, "plain"), ready)),
        Contender("append, messages made in the call", append_made(histories(bench, own, "made"), ready)),
        Contender("append, expected=", append_expected(histories(bench, own, "expected"), ready)),
        Contender("append, at the cap (trims 2)", append(histories(bench, capped, "capped"), ready)),
        Contender("append, client passed in", append(histories(bench, passed, "passed"), ready)),
    ]
    settle()
    found = bench.race(title, contenders)
    bench.goal(f"{title}: append / raw", found.ratio("append").median, 1.40)
    bench.goal(f"{title}: append / raw, in the end", found.ratio("append").median, 1.30, checked=False)


def measure_texts(bench: Bench, title: str) -> None:
    """Messages of nothing but their content: what is left is the cost of the way, not of the message."""
    both = texts(2 * TURNS)
    ready = list(zip(both[::2], both[1::2], strict=True))
    own = bench.closing(RedisMemory.from_url(bench.url, namespace="texts", **settings()))
    contenders = [
        Contender("raw", raw_append(bench, "rawtexts", encoded(bench, ready, "textblobs"))),
        Contender("append", append(histories(bench, own, "plain"), ready)),
    ]
    settle()
    found = bench.race(title, contenders)
    bench.goal(f"{title}: append / raw", found.ratio("append").median, 1.40)


def measure_async(bench: Bench, title: str, ready: Sequence[Turn], blobs: Sequence[Blobs]) -> None:
    """The same in asyncio, one task at a time; raw is `redis.asyncio`."""
    own = AsyncRedisMemory.from_url(bench.url, namespace="aown", **settings())
    passed = AsyncRedisMemory(bench.async_client(), namespace="apassed", **settings())
    bench.aclosing(own.aclose)
    contenders = [
        Contender("raw", raw_append_async(bench, "araw", blobs)),
        Contender("append", append_async(async_histories(bench, own, "plain"), ready)),
        Contender(
            "append, expected=", append_expected_async(bench, async_histories(bench, own, "expected"), ready)
        ),
        Contender("append, client passed in", append_async(async_histories(bench, passed, "passed"), ready)),
    ]
    settle()
    found = bench.async_race(title, contenders)
    bench.goal(f"{title}: append / raw", found.ratio("append").median, 1.05, checked=False)


def measure_sizes(bench: Bench, title: str, ready: Sequence[Turn], blobs: Sequence[Blobs]) -> None:
    """A short history against a long one, both at their cap, so that neither changes its size."""
    filling = messages(STORED)
    contenders = []
    for stored in (FEW, MANY):
        limits = Limits(append_messages=MANY, append_bytes=256 * 1024 * 1024)
        memory = bench.closing(
            RedisMemory.from_url(bench.url, namespace=f"size{stored}", limits=limits, **settings(stored))
        )
        made = [memory.history("ann", f"c{i}") for i in range(SIZED_CONVERSATIONS)]
        for history in made:
            history.append(*(filling * (MANY // STORED))[-stored:])
        contenders.append(Contender(f"append at {stored:,}", append(made, ready)))
        contenders.append(Contender(f"raw at {stored:,}", raw_append(bench, f"raw{stored}", blobs, stored)))
    settle()
    found = bench.race(title, contenders, SIZED_OPERATIONS)
    ratio = found.ratio(f"append at {MANY:,}", to=f"append at {FEW:,}").median
    bench.goal(f"{title}: {MANY:,} / {FEW}", ratio, 1.20)


def encoded(bench: Bench, ready: Sequence[Turn], namespace: str = "blobs") -> list[Blobs]:
    """The records of these turns, read back from a list in which they were stored."""
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace=namespace))
    history = memory.history("ann", "c0")
    for turn in ready:
        history.append(*turn)
    [key] = bench.lists(namespace)
    records: list[Any] = bench.admin.lrange(key, 0, -1)
    return list(zip(records[::2], records[1::2], strict=True))


def spread(bench: Bench) -> int:
    """Conversations an operation goes round in: each sees about six appends."""
    return max(20, bench.plan.rounds * bench.plan.operations // APPENDS_A_CONVERSATION)


def histories(bench: Bench, memory: RedisMemory, user: str) -> list[History]:
    """Conversations of one user with 100 messages each."""
    made = [memory.history(user, f"c{i}") for i in range(spread(bench))]
    filling = messages(STORED)
    for history in made:
        history.append(*filling)
    return made


def async_histories(bench: Bench, memory: AsyncRedisMemory, user: str) -> list[AsyncHistory]:
    """The same for asyncio."""
    made = [memory.history(user, f"c{i}") for i in range(spread(bench))]
    filling = messages(STORED)

    async def fill() -> None:
        for history in made:
            await history.append(*filling)

    bench.run(fill())
    return made


def raw_append(bench: Bench, name: str, blobs: Sequence[Blobs], stored: int = STORED) -> Call:
    """RPUSH of two blobs and EXPIRE in one pipeline without MULTI."""
    client = bench.client()
    keys = _raw_keys(bench, name, blobs, stored)

    def call(number: int) -> object:
        first, second = blobs[number % TURNS]
        key = keys[number % len(keys)]
        pipe = client.pipeline(transaction=False)
        pipe.rpush(key, first, second)
        pipe.expire(key, EXPIRY_SECONDS)
        return pipe.execute()

    return call


def raw_append_async(bench: Bench, name: str, blobs: Sequence[Blobs]) -> AsyncCall:
    """The same over `redis.asyncio`."""
    client = bench.async_client()
    keys = _raw_keys(bench, name, blobs, STORED)

    async def call(number: int) -> object:
        first, second = blobs[number % TURNS]
        key = keys[number % len(keys)]
        pipe = client.pipeline(transaction=False)
        pipe.rpush(key, first, second)
        pipe.expire(key, EXPIRY_SECONDS)
        return await pipe.execute()

    return call


def append(to: Sequence[History], ready: Sequence[Turn]) -> Call:
    """`history.append(a, b)` of messages that exist already."""

    def call(number: int) -> object:
        return to[number % len(to)].append(*ready[number % TURNS])

    return call


def append_made(to: Sequence[History], ready: Sequence[Turn]) -> Call:
    """The same with both messages built in the call, as a chatbot does."""
    parts = [(a.data, b.data) for a, b in ready]

    def call(number: int) -> object:
        asked, answered = parts[number % TURNS]
        return to[number % len(to)].append(human(**asked), ai(**answered))

    return call


def append_expected(to: Sequence[History], ready: Sequence[Turn]) -> Call:
    """`history.append(a, b, expected=...)` with the version that the last append returned."""
    versions: list[Version] = [history.load().version for history in to]

    def call(number: int) -> object:
        at = number % len(to)
        versions[at] = to[at].append(*ready[number % TURNS], expected=versions[at])
        return versions[at]

    return call


def append_async(to: Sequence[AsyncHistory], ready: Sequence[Turn]) -> AsyncCall:
    """`await history.append(a, b)`."""

    def call(number: int) -> Awaitable[object]:
        return to[number % len(to)].append(*ready[number % TURNS])

    return call


def append_expected_async(bench: Bench, to: Sequence[AsyncHistory], ready: Sequence[Turn]) -> AsyncCall:
    """`await history.append(a, b, expected=...)`."""

    async def load() -> list[Version]:
        return [(await history.load()).version for history in to]

    versions = bench.run(load())

    async def call(number: int) -> object:
        at = number % len(to)
        versions[at] = await to[at].append(*ready[number % TURNS], expected=versions[at])
        return versions[at]

    return call


def _raw_keys(bench: Bench, name: str, blobs: Sequence[Blobs], stored: int) -> list[str]:
    records = [record for turn in blobs for record in turn]
    count = spread(bench) if stored == STORED else SIZED_CONVERSATIONS
    keys = [f"{name}:{i}" for i in range(count)]
    for key in keys:
        for start in range(0, stored, len(records)):
            bench.admin.rpush(key, *records[: stored - start])
    return keys


if __name__ == "__main__":
    sys.exit(run("append", __doc__ or "", measure))
