"""The index behind a user's list: always there before a conversation, and not gone before it."""

from __future__ import annotations

import pytest
import redis

from memory_redis import FixedExpiry, NoExpiry, SlidingExpiry, human
from memory_redis.expiry import Expiry
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, keys_in, real_servers, texts

pytestmark = pytest.mark.anyio


def assert_index_lasts(raw: redis.Redis, keys: Names) -> None:
    """The index does not end before the conversation, and at most as long again and two minutes later."""
    index, conversation = raw.pttl(keys.index), raw.pttl(keys.messages)
    if conversation == -1:
        assert index == -1
    else:
        assert index >= conversation - 50 or index == -1
        assert index <= 2 * conversation + 180_000


@pytest.mark.parametrize("expiry", [SlidingExpiry(5), FixedExpiry(500), NoExpiry()], ids=repr)
async def test_the_index_ends_with_its_longest_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names, expiry: Expiry
) -> None:
    """Decision 12: after it, whichever conversation came last."""
    await memory(expiry=expiry).history("ann", "c1").append(human("1"))
    await memory(expiry=SlidingExpiry(1)).history("ann", "c2").append(human("1"))
    assert_index_lasts(raw, keys)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SlidingExpiry(5), NoExpiry()),
        (SlidingExpiry(5), SlidingExpiry(days=7)),
        (FixedExpiry(5), FixedExpiry(days=7)),
        (SlidingExpiry(5), SlidingExpiry(days=7, on_read=True)),
    ],
    ids=repr,
)
async def test_a_conversation_whose_end_moves_far_away_takes_the_index_along(
    memory: MakeMemory, raw: redis.Redis, keys: Names, before: Expiry, after: Expiry
) -> None:
    """Decision 12, S8: else it would be in no list when the index ends, and forget would not reach it."""
    await memory(expiry=before).history("ann", "c1").append(human("1"))
    if after.terms.on_read:
        await memory(expiry=after).history("ann", "c1").load()
    else:
        await memory(expiry=after).history("ann", "c1").append(human("2"))
    assert_index_lasts(raw, keys)


async def test_an_index_that_was_not_told_once_still_outlives_the_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 12, S8: a worker dies between its append and the index; the talk ends within the minute."""
    history = memory(expiry=SlidingExpiry(hours=1)).history("ann", "c1")
    await history.append(human("1"))
    for key in (keys.messages, keys.meta, keys.index):  # fifty minutes later
        raw.pexpire(key, raw.pttl(key) - 50 * 60_000)
    age(raw, keys, 50 * 60)
    raw.rename(keys.index, f"{keys.index}-away")
    raw.set(keys.index, "the index cannot be told")
    await history.append(human("2"))
    raw.rename(f"{keys.index}-away", keys.index)
    await history.append(human("3"))
    assert raw.pttl(keys.index) > raw.pttl(keys.messages) > 59 * 60_000


def age(raw: redis.Redis, keys: Names, seconds: int) -> int:
    """Make the last write of the index look `seconds` older; returns the score it now has."""
    then = int(raw.hget(keys.meta, "i")) - seconds * 1000
    raw.hset(keys.meta, "i", then)
    raw.zadd(keys.index, {"c1": then})
    return then


async def test_activity_brings_a_conversation_to_the_top_within_a_minute(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 12: the index is written again when its last write is over 60 seconds old, not before."""
    one = memory()
    for name in ("c1", "c2"):
        await one.history("ann", name).append(human("1"))
    for seconds, first in ((50, "c2"), (61, "c1")):
        score = age(raw, keys, seconds)
        await one.history("ann", "c1").append(human("2"))
        listed = [info.conversation_id async for info in one.conversations("ann")]
        assert listed[0] == first
        assert (raw.zscore(keys.index, "c1") > score) is (first == "c1")
    score = raw.zscore(keys.index, "c1")
    assert score > raw.zscore(keys.index, "c2")
    await one.history("ann", "c1").append(human("3"))
    assert raw.zscore(keys.index, "c1") == score  # told once in a minute, not at every append


async def test_a_read_that_renews_the_end_renews_the_index_too(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 12: a conversation that is only read stays listed as long as it lives."""
    one = memory(expiry=SlidingExpiry(600, on_read=True))
    await one.history("ann", "c1").append(human("1"))
    score = age(raw, keys, 61)
    raw.pexpire(keys.index, 10_000)
    await one.history("ann", "c1").load()
    renewed = raw.zscore(keys.index, "c1")
    assert renewed > score
    assert_index_lasts(raw, keys)
    await one.history("ann", "c1").load()
    assert raw.zscore(keys.index, "c1") == renewed


async def test_an_append_is_stored_although_its_index_cannot_be_refreshed(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P9, P3: whatever the refresh meets, the answer to a stored append is its version."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    age(raw, keys, 61)
    raw.rename(keys.index, f"{keys.index}:aside")
    raw.set(keys.index, "not ours")
    assert (await history.append(human("2"))).number == 2
    assert texts(await history.load()) == ["1", "2"]


async def test_a_load_succeeds_although_its_index_cannot_be_refreshed(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10: the messages are there, so they are given."""
    history = memory(expiry=SlidingExpiry(600, on_read=True)).history("ann", "c1")
    await history.append(human("1"))
    age(raw, keys, 61)
    raw.rename(keys.index, f"{keys.index}:aside")
    raw.set(keys.index, "not ours")
    assert texts(await history.load()) == ["1"]


async def test_sessions_are_in_no_index(memory: MakeMemory, raw: redis.Redis, namespace: str) -> None:
    """Decision 12: a session has two keys and no third."""
    await memory().session("s1").append(human("1"))
    assert keys_in(raw, namespace) == [f"{namespace}:{{:s1}}:messages", f"{namespace}:{{:s1}}:meta"]


@real_servers
async def test_no_walk_over_all_keys_is_made(memory: MakeMemory, raw: redis.Redis) -> None:
    """H20, S8: listing and forgetting ask neither KEYS nor SCAN of the server."""

    def walks() -> list[int]:
        stats = raw.info("commandstats")
        return [stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("keys", "scan", "randomkey")]

    one = memory()
    before = walks()
    for number in range(5):
        await one.history("ann", f"c{number}").append(human("1"))
    assert len([info async for info in one.conversations("ann")]) == 5
    await one.history("ann", "c0").clear()
    await one.forget("ann")
    assert walks() == before
