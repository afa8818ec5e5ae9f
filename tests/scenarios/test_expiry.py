"""When a conversation ends: every key of it, at one instant, on every path that writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis

from memory_redis import FixedExpiry, InvalidSetting, NoExpiry, SlidingExpiry, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, keys_in, texts

pytestmark = pytest.mark.anyio


def end_of(raw: redis.Redis, keys: Names) -> int:
    """The one instant at which both keys end, in ms since 1970; -1 for never."""
    ends = {raw.pexpiretime(key) for key in (keys.messages, keys.meta)}
    assert len(ends) == 1, f"the keys end at different instants: {ends}"
    return ends.pop()


def now_of(raw: redis.Redis) -> int:
    """The server's clock in ms since 1970."""
    seconds, micros = raw.time()
    return seconds * 1000 + micros // 1000


@pytest.mark.parametrize(
    ("expiry", "seconds"),
    [
        (SlidingExpiry(90), 90),
        (SlidingExpiry(0.75), 0.75),
        (SlidingExpiry(timedelta(hours=2)), 7200),
        (SlidingExpiry(weeks=1, days=1, hours=1, minutes=1), 694_860),
        (SlidingExpiry(90, on_read=True), 90),
        (SlidingExpiry(days=36_525), 36_525 * 86_400),
        (FixedExpiry(90), 90),
        (FixedExpiry(days=7, hours=12), 648_000),
        (FixedExpiry(timedelta(minutes=3)), 180),
    ],
    ids=repr,
)
async def test_every_way_to_say_a_duration_shows_on_the_keys(
    coded: MakeMemory, raw: redis.Redis, keys: Names, expiry: Any, seconds: float
) -> None:
    """B09, B11, decision 7: after the very first append, on list and meta alike."""
    history = coded(expiry=expiry).history("ann", "c1")
    before = now_of(raw)
    await history.append(human("1"))
    assert before + seconds * 1000 <= end_of(raw, keys) <= now_of(raw) + seconds * 1000
    assert seconds - 5 < await history.expire_in() <= seconds


async def test_without_an_expiry_nothing_ends(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """B17: the default is stated and takes no key away."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    assert end_of(raw, keys) == -1
    assert raw.ttl(keys.index) == -1
    assert await history.expire_in() is None


async def test_every_append_moves_a_sliding_end(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """B12: appends refresh the expiry; loads, counts and pages do not."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    first = end_of(raw, keys)
    await eventually(lambda: now_of(raw) > first - 60_000 + 5, "the clock moved on")
    await history.load()
    await history.count()
    await history.exists()
    assert [message async for message in history.iterate()]
    assert end_of(raw, keys) == first
    await history.append(human("2"))
    assert end_of(raw, keys) > first


async def test_a_load_moves_a_sliding_end_that_was_asked_to(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """The promise of reads: only with on_read does a load change anything, and then all keys."""
    history = memory(expiry=SlidingExpiry(60, on_read=True)).history("ann", "c1")
    await history.append(human("1"))
    first = end_of(raw, keys)
    await eventually(lambda: now_of(raw) > first - 60_000 + 5, "the clock moved on")
    assert texts(await history.load()) == ["1"]
    assert end_of(raw, keys) > first


async def test_renewing_by_reads_creates_nothing(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """H19: neither for an unknown conversation nor for one that was cleared."""
    one = memory(expiry=SlidingExpiry(60, on_read=True))
    await one.history("ann", "c1").load()
    assert keys_in(raw, namespace) == []
    await one.history("ann", "c1").append(human("1"))
    await one.history("ann", "c1").clear()
    await one.history("ann", "c1").load()
    keys = Names.of(namespace)
    assert raw.exists(keys.messages) == 0
    assert raw.ttl(keys.meta) > 90


async def test_a_fixed_end_stays_where_the_first_append_set_it(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B12: whatever happens meanwhile, a clear and a new beginning excepted."""
    history = memory(expiry=FixedExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    first = end_of(raw, keys)
    await eventually(lambda: now_of(raw) > first - 60_000 + 5, "the clock moved on")
    await history.append(human("2"), ai("3"))
    async with history.turn() as turn:
        turn.add(human("4"))
    assert end_of(raw, keys) == first


async def test_a_new_life_after_a_clear_has_an_end_of_its_own(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B03, decision 2: clear-then-append leaves no key without the configured expiry, and no old one."""
    for number, expiry in enumerate((FixedExpiry(600), SlidingExpiry(600), NoExpiry())):
        history = memory(expiry=expiry).history("ann", f"c{number}")
        names = Names(
            *(name.replace(":c1}", f":c{number}}}") for name in (keys.messages, keys.meta)), keys.index
        )
        await history.append(human("1"))
        first = end_of(raw, names)
        await history.clear()
        await eventually(lambda first=first: now_of(raw) > first - 600_000 + 5, "the clock moved on")
        await history.append(human("2"))
        second = end_of(raw, names)
        assert second > first or first == second == -1


@pytest.mark.parametrize("expiry", [SlidingExpiry(0.1), FixedExpiry(0.1)], ids=repr)
async def test_nothing_of_a_conversation_outlives_it(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str, expiry: Any
) -> None:
    """B12, H17: no key of it is left, it is in no listing, and the index ends soon as well."""
    one = memory(expiry=expiry)
    history = one.history("ann", "c1")
    await history.append(human("1"), idempotency_key="k")
    async with history.turn(idempotency_key="k2") as turn:
        turn.add(human("2"))
    await one.session("s1").append(human("3"))
    await eventually(lambda: keys_in(raw, namespace) in ([], [keys.index]), "its keys are gone")
    assert await history.exists() is False
    assert await history.expire_in() is None
    assert (await history.load()).version.number == 0
    assert [info async for info in one.conversations("ann")] == []
    assert raw.pttl(keys.index) == -2 or 0 < raw.pttl(keys.index) <= 120_100


async def test_a_conversation_that_ended_begins_anew(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B10, T3: expired messages never come back, and positions begin at 0."""
    history = memory(expiry=SlidingExpiry(0.05)).history("ann", "c1")
    await history.append(human("old"))
    await eventually(lambda: not raw.exists(keys.messages), "the conversation ended")
    await memory().history("ann", "c1").append(human("new"))
    snapshot = await history.load()
    assert (texts(snapshot), snapshot.messages[0].seq, snapshot.trimmed) == (["new"], 0, 0)


@pytest.mark.parametrize("kind", [SlidingExpiry, FixedExpiry])
@pytest.mark.parametrize(
    "seconds", [0, -5, 0.0001, 1e18, float("nan"), float("inf"), True, "60", None, timedelta(days=40_000)]
)
async def test_a_duration_that_cannot_be_meant_is_refused(kind: Any, seconds: Any) -> None:
    """Decision 7: from 1 ms to 100 years, checked before anything is sent."""
    with pytest.raises(InvalidSetting):
        kind(seconds)


@pytest.mark.parametrize("kind", [SlidingExpiry, FixedExpiry])
async def test_a_duration_is_said_once(kind: Any) -> None:
    """B09: neither none at all nor seconds beside keywords."""
    for make in (lambda: kind(), lambda: kind(60, days=1), lambda: kind(days=0), lambda: kind(days=-1)):
        with pytest.raises(InvalidSetting):
            make()
