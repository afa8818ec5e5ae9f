"""What stays stored: caps that cut no tool exchange in half."""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis

from memory_redis import InvalidSetting, LastMessages, MaxMessages, StoredMessage, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, keys_in, orphans, positions, real_servers, result, texts

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("cap", [1, 2, 5, 10, 1000])
async def test_at_most_the_cap_stays_and_versions_go_on(coded: MakeMemory, cap: int) -> None:
    """R90, F01: the newest stay, in order, at their absolute positions; none means everything."""
    history = coded(retention=MaxMessages(cap)).history("ann", "c1")
    for number in range(12):
        version = await history.append(human(str(number)))
        assert version.number == number + 1
        assert await history.count() == min(number + 1, cap)
    snapshot = await history.load()
    kept = list(range(12))[-cap:]
    assert (texts(snapshot), positions(snapshot)) == ([str(number) for number in kept], kept)
    assert snapshot.trimmed == 12 - len(kept)
    await coded().history("ann", "c1").append(human("12"))
    assert await history.count() == len(kept) + 1


@pytest.mark.parametrize("retention", [0, 50, "50", object()])
async def test_a_retention_that_is_none_is_refused(memory: MakeMemory, retention: Any) -> None:
    """F01: limits, alone or joined, or None."""
    with pytest.raises(InvalidSetting):
        memory(retention=retention)


async def test_an_append_larger_than_the_cap_is_stored_then_trimmed(coded: MakeMemory) -> None:
    """Decision 11: the version counts all of it."""
    history = coded(retention=MaxMessages(3)).history("ann", "c1")
    version = await history.append(*(human(str(number)) for number in range(10)))
    snapshot = await history.load()
    assert (version.number, texts(snapshot), snapshot.trimmed) == (10, ["7", "8", "9"], 7)


async def test_a_smaller_cap_trims_at_the_next_append(memory: MakeMemory) -> None:
    """F01, decision 23: a cap is a setting of the writer; reads change nothing."""
    await memory().history("ann", "c1").append(*(human(str(number)) for number in range(10)))
    history = memory(retention=MaxMessages(4)).history("ann", "c1")
    assert len((await history.load()).messages) == 10
    await history.append(human("10"))
    assert texts(await history.load()) == ["7", "8", "9", "10"]


@pytest.mark.parametrize("cap", range(1, 9))
async def test_the_cap_never_separates_parallel_calls_from_their_results(coded: MakeMemory, cap: int) -> None:
    """F16, decision 23: read after each append of an agent's turns, one message at a time and together."""
    history = coded(retention=MaxMessages(cap)).history("ann", "c1")
    turn = [human("q"), call("a", "b"), result("a"), result("b"), ai("r")]
    for number in range(3):
        for message in turn:
            await history.append(message)
            loaded = (await history.load()).messages
            assert orphans(loaded) == []
            assert len(loaded) <= cap
        await history.append(*turn)
        loaded = (await history.load()).messages
        assert len(loaded) == await history.count()
        assert orphans(loaded) == []
        assert loaded == ([*turn, *turn] * (number + 1))[-len(loaded) :]
    assert len(loaded) == {2: 1, 3: 1, 7: 6, 8: 6}.get(cap, cap)


async def test_the_message_of_another_worker_inside_an_exchange_is_no_place_to_cut(coded: MakeMemory) -> None:
    """F16: the cut moves on behind the result, wherever others wrote meanwhile."""
    history = coded(retention=MaxMessages(3)).history("ann", "c1")
    await history.append(human("q"), call("a"))
    await history.append(human("of another worker"))
    await history.append(result("a"))
    assert orphans((await history.load()).messages) == []
    await history.append(ai("r"))
    assert orphans((await history.load()).messages) == []
    assert texts(await history.load()) == ["r"]


async def test_exchanges_that_interleave_are_not_torn_apart(coded: MakeMemory) -> None:
    """F16: the calls of two workers, then their results; what is stored holds no result without its call."""
    history = coded(retention=MaxMessages(4)).history("ann", "c1")
    for message in (human("q"), call("a"), call("b"), result("a"), result("b"), ai("done")):
        await history.append(message)
        assert orphans([stored async for stored in history.iterate()]) == []
        assert orphans((await history.load()).messages) == []
    assert texts(await history.load()) == ["done"]


async def test_a_result_far_behind_its_call_is_not_left_alone(coded: MakeMemory) -> None:
    """F16: 60 messages of others between a call and its result."""
    history = coded(retention=MaxMessages(50)).history("ann", "c1")
    await history.append(call("a"))
    await history.append(*(human(str(number)) for number in range(60)))
    await history.append(result("a"), human("last"))
    loaded = (await history.load()).messages
    assert orphans(loaded) == []
    assert loaded[-1] == human("last")
    assert len([message async for message in history.iterate()]) <= 50


@pytest.mark.parametrize("seed", range(2))
async def test_no_schedule_of_agents_leaves_an_orphan(coded: MakeMemory, seed: int) -> None:
    """F16, F14, the promise of windows: three agents write at random; every read is a valid sequence."""
    chance = random.Random(seed)
    cap = chance.randint(1, 12)
    history = coded(retention=MaxMessages(cap)).history("ann", "c1")
    waiting: list[str] = []
    for number in range(60):
        message: StoredMessage
        if waiting and chance.random() < 0.5:
            message = result(waiting.pop(chance.randrange(len(waiting))))
        elif len(waiting) < 3 and chance.random() < 0.6:
            ids = [f"{number}.{part}" for part in range(chance.randint(1, 2))]
            waiting += ids
            message = call(*ids)
        else:
            message = human(str(number))
        await history.append(message)
        loaded = (await history.load()).messages
        assert orphans(loaded) == []
        assert len(loaded) <= cap
        assert orphans((await history.load(LastMessages(chance.randint(1, 8)))).messages) == []


async def test_a_conversation_that_was_trimmed_to_nothing_goes_on(memory: MakeMemory) -> None:
    """Decision 23: with a cap below an exchange nothing may stay; the next message does."""
    history = memory(retention=MaxMessages(1)).history("ann", "c1")
    version = await history.append(call("a"), result("a"))
    assert (await history.load()).messages == []
    assert (await history.load()).version == version
    assert (await history.append(human("1"), expected=version)).number == 3
    assert positions(await history.load()) == [2]


@real_servers
async def test_a_capped_conversation_keeps_its_size(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """I07, F24: after the cap and a full ring, memory stays flat and three keys stay three keys."""
    history = memory(retention=MaxMessages(50)).history("ann", "c1")
    sizes: list[int] = []
    for _ in range(4):
        for number in range(300):
            await history.append(human("x" * 200), call(f"{number:03}"))
        sizes.append(sum(raw.memory_usage(key, samples=0) for key in keys_in(raw, namespace)))
    assert keys_in(raw, namespace) == sorted([keys.messages, keys.meta, keys.index])
    assert max(sizes) <= min(sizes) * 1.1
    assert await history.count() == 50
    assert (await history.load()).version.number == 2400
