"""Histories of more messages or bytes than one reply should carry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from memory_redis import HistoryTooLarge, LastMessages, Limits, MaxMessages, RedisMemory, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, positions, reads, real_servers, texts

pytestmark = pytest.mark.anyio

LONG = 10_000
"""Messages that one round trip of a load carries at most."""
FIRST = 1_000
"""Messages that its first carries at most."""


def fill(raw: redis.Redis, keys: Names, count: int) -> None:
    """Make the one stored message into `count` of them, quickly."""
    record = raw.lindex(keys.messages, 0)
    with raw.pipeline(transaction=True) as pipeline:
        for at in range(1, count, 1000):
            pipeline.rpush(keys.messages, *[record] * min(1000, count - at))
        pipeline.hset(keys.meta, mapping={"v": count, "n": count * len(record)})
        pipeline.execute()


async def append(history: Any, text: str, count: int) -> None:
    """So many messages of one text, as many at once as may be."""
    for at in range(0, count, 1000):
        await history.append(*[human(text)] * min(1000, count - at))


@pytest.mark.parametrize("count", [FIRST - 1, FIRST, LONG, LONG + 1, LONG + FIRST - 1, 2 * LONG + 345])
async def test_all_messages_of_a_long_history_come_in_order(
    memory: MakeMemory, raw: redis.Redis, keys: Names, count: int
) -> None:
    """I04: at and around the size of a page, of the first one, and over several."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    fill(raw, keys, count)
    await history.append(human("last"))
    snapshot = await history.load()
    assert positions(snapshot) == list(range(count + 1))
    assert (snapshot.messages[-1].text, snapshot.version.number) == ("last", count + 1)
    tail = await history.load(LastMessages(LONG + 100))
    assert positions(tail) == list(range(count + 1))[-(LONG + 100) :]


async def test_a_window_of_several_pages_reads_on_past_corrupt_records(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """F10: under skip the last n are the last n valid ones, at any n."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    fill(raw, keys, LONG + 60)
    for at in range(LONG + 10, LONG + 60):
        raw.lset(keys.messages, at, b"rubbish")
    snapshot = await history.load(LastMessages(LONG + 5), on_corrupt="skip")
    assert positions(snapshot) == list(range(5, LONG + 10))
    assert len(snapshot.skipped) == 50


@contextmanager
def writing(url: str, namespace: str, **options: object) -> Iterator[None]:
    """Appends to ("ann", "c1") in another thread, one after the other, until the block ends."""
    over = threading.Event()

    def write() -> None:
        with RedisMemory.from_url(url, namespace=namespace, **options) as memory:  # type: ignore[arg-type]
            history, number = memory.history("ann", "c1"), 0
            while not over.is_set():
                history.append(human(f"new {number}"), human(f"new {number}"))
                number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@real_servers
@pytest.mark.parametrize("retention", [None, MaxMessages(LONG + 500)], ids=["growing", "trimmed"])
async def test_a_load_of_several_pages_shows_one_moment(
    memory: MakeMemory,
    raw: redis.Redis,
    keys: Names,
    url: str,
    namespace: str,
    retention: MaxMessages | None,
) -> None:
    """P6, P7: while others append and trim, each load is gapless, whole, and ends at its version."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    fill(raw, keys, LONG + 500)
    last = 0
    with writing(url, namespace, retention=retention):
        for _ in range(6):
            snapshot = await history.load()
            version = snapshot.version.number
            assert positions(snapshot) == list(range(snapshot.trimmed, version))
            assert len(texts(snapshot)) % 2 == 0, "half of an append was seen"
            assert version >= last
            last = version
    assert last > LONG + 500


async def test_a_history_of_too_many_bytes_is_refused_whole_and_read_in_pages(memory: MakeMemory) -> None:
    """Decision 16, S4: HistoryTooLarge points to paging; windows and pages still work."""
    history = memory(limits=Limits(load_bytes=5000)).history("ann", "c1")
    for number in range(10):
        await history.append(human(f"{number}" + "x" * 600))
    with pytest.raises(HistoryTooLarge, match="iterate"):
        await history.load()
    assert len((await history.load(LastMessages(3))).messages) == 3
    pages = [message.text[0] async for message in history.iterate(page_size=2)]
    assert pages == [str(number) for number in range(10)]
    await history.append(human("y"))
    assert await history.count() == 11


@real_servers
@pytest.mark.parametrize("count", [FIRST, FIRST + 1, LONG + FIRST, LONG + FIRST + 1])
async def test_a_long_history_takes_one_trip_more_for_each_page(
    memory: MakeMemory, raw: redis.Redis, count: int
) -> None:
    """R73, I04: one for the first 1,000 messages, and one for each further 10,000."""
    history = memory().history("ann", "c1")
    await append(history, "1", count)
    before = reads(raw)
    assert len((await history.load()).messages) == count
    pages = -(-(count - FIRST) // LONG)
    assert reads(raw) - before - 1 == 1 + pages  # less our own look


@real_servers
async def test_a_history_of_too_many_bytes_does_not_travel_before_it_is_refused(
    memory: MakeMemory, raw: redis.Redis
) -> None:
    """Decision 16: what the server says of its size with the first messages decides; not the others."""
    history = memory(limits=Limits(load_bytes=4_000_000)).history("ann", "c1")
    await append(history, "x" * 1000, 9000)
    before = sent(raw)
    with pytest.raises(HistoryTooLarge):
        await history.load()
    assert sent(raw) - before < 1_500_000


def sent(raw: redis.Redis) -> int:
    """The bytes that the server has sent to all."""
    return int(raw.info("stats")["total_net_output_bytes"])


async def test_the_last_messages_are_bound_by_the_same_limit(memory: MakeMemory) -> None:
    """Decision 16, S4: bytes are looked at before they are decoded, whatever the window."""
    history = memory(limits=Limits(load_bytes=5000)).history("ann", "c1")
    await history.append(*(human("x" * 600) for _ in range(10)))
    with pytest.raises(HistoryTooLarge):
        await history.load(LastMessages(10))


async def test_a_trimmed_history_is_measured_by_what_is_left(memory: MakeMemory) -> None:
    """Decision 23: what was trimmed no longer counts."""
    history = memory(limits=Limits(load_bytes=5000), retention=MaxMessages(5)).history("ann", "c1")
    for _ in range(40):
        await history.append(human("x" * 600))
    assert len((await history.load()).messages) == 5


async def test_a_history_whose_list_was_lost_is_measured_by_what_is_there(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, decision 16: a repair repairs the count of bytes too."""
    history = memory(limits=Limits(load_bytes=5000)).history("ann", "c1")
    for _ in range(7):
        await history.append(human("x" * 600))
    raw.delete(keys.messages)
    await history.append(human("y" * 600))
    await history.append(human("z" * 600))
    assert len((await history.load()).messages) == 2


async def test_a_long_history_whose_meta_was_lost_is_measured_all_the_same(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """S4: the limit holds over all pages, not only over the first."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    size = len(raw.lindex(keys.messages, 0))
    fill(raw, keys, LONG + 1000)
    raw.delete(keys.meta)
    with pytest.raises(HistoryTooLarge):
        await memory(limits=Limits(load_bytes=size * (LONG + 500))).history("ann", "c1").load()
    assert len((await history.load()).messages) == LONG + 1000
