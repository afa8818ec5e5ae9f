"""Faults at each step of a first append, and at the refresh of the user's index."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from memory_redis import MemoryRedisError, RedisMemory, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import OWN, SCRIPTS, Way
from tests.support.fault_proxy import FaultProxy, Rule

pytestmark = pytest.mark.anyio

WAYS = pytest.mark.parametrize("way", [*OWN, Way("sync", "Redis()"), Way("async", "from_url")], ids=str)

ALL = 10**6
STEPS = {"ask": 0, "index": 1, "store": 2}
"""The scripts of a first append, in the order in which they are sent."""

FAULTS: dict[str, Callable[..., Rule]] = {
    "reply lost": lambda proxy, **aim: proxy.drop_reply(SCRIPTS, **aim),
    "request lost": lambda proxy, **aim: proxy.drop_request(SCRIPTS, **aim),
    "reply cut": lambda proxy, **aim: proxy.truncate_reply(2, SCRIPTS, **aim),
}


def listed(memory: RedisMemory, user_id: str) -> dict[str, int]:
    return {info.conversation_id: info.messages for info in memory.conversations(user_id)}


@WAYS
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_first_append_survives_a_fault_at_each_of_its_steps(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts, step: str, fault: str
) -> None:
    """P2, decision 12: it is stored once, and entered in its user's index once."""
    memory = connect(proxy.port)
    await memory.history("warm", "up").append(human("0"))
    rule = FAULTS[fault](proxy, after=STEPS[step])
    version = await memory.history("ann", "c").append(human("1"), human("2"))
    assert (version.number, rule.hits) == (2, 1)
    assert texts("ann", "c") == ["1", "2"]
    assert listed(direct, "ann") == {"c": 2}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_first_append_that_fails_at_one_of_its_steps_says_what_became_of_it(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts, step: str, fault: str
) -> None:
    """P9: the outcome is unknown, with an id that settles it, or not stored; then nothing is stored."""
    memory = connect(proxy.port, deadline=1)
    await memory.history("warm", "up").append(human("0"))
    FAULTS[fault](proxy, after=STEPS[step], times=ALL)
    history = memory.history("ann", "c")
    with pytest.raises(MemoryRedisError) as caught:
        await history.append(human("1"))
    stored = step == "store" and fault != "request lost"
    assert caught.value.outcome in (("unknown",) if stored else ("unknown", "not_stored"))
    assert texts("ann", "c") == (["1"] if stored else [])

    proxy.heal(drop=True)
    append_id = getattr(caught.value, "append_id", None)
    assert (append_id is None) == (caught.value.outcome == "not_stored")
    version = await history.append(human("1"), append_id=append_id)
    assert (version.number, version.repeated) == (1, stored)
    assert texts("ann", "c") == ["1"]
    assert listed(direct, "ann") == {"c": 1}


def let_the_index_grow_old(plain: redis.Redis, namespace: str) -> None:
    """As if the conversation's entry had been written over a minute ago."""
    written = int(time.time() * 1000) - 61_000
    plain.hset(f"{namespace}:{{ann:c}}:meta", "i", written)


async def test_a_lost_refresh_of_the_index_does_not_fail_an_append_that_is_stored(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str, texts: Texts
) -> None:
    """P9, decision 12: the messages are stored, so the append succeeds whatever becomes of the index."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    let_the_index_grow_old(plain, namespace)
    proxy.drop_reply(SCRIPTS, after=1, times=ALL)
    version = await history.append(human("1"))
    assert (version.number, version.repeated) == (2, False)
    proxy.heal()
    assert (await history.append(human("2"))).number == 3
    assert texts("ann", "c") == ["0", "1", "2"]


@WAYS
async def test_an_index_that_another_program_destroyed_does_not_fail_an_append_that_is_stored(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str, texts: Texts
) -> None:
    """P9, P10, A20: a refresh that the server refuses comes after the messages are stored."""
    history = connect(proxy.port).history("ann", "c")
    await history.append(human("0"))
    let_the_index_grow_old(plain, namespace)
    index = f"{namespace}:{{ann}}:conversations"
    plain.set(index, "not an index")
    assert (await history.append(human("1"))).number == 2
    assert texts("ann", "c") == ["0", "1"]
    assert plain.get(index) == b"not an index"


@WAYS
async def test_a_first_append_to_a_destroyed_index_stores_nothing(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str, texts: Texts
) -> None:
    """P3, A20: the index comes before the first message; what it refuses is not stored, however often."""
    plain.set(f"{namespace}:{{ann}}:conversations", "not an index")
    history: Any = connect(proxy.port).history("ann", "c")
    for _ in range(3):
        with pytest.raises(MemoryRedisError) as caught:
            await history.append(human("1"))
        assert caught.value.outcome == "not_stored"
    assert texts("ann", "c") == []
    plain.delete(f"{namespace}:{{ann}}:conversations")
    await history.append(human("1"))
    assert texts("ann", "c") == ["1"]
