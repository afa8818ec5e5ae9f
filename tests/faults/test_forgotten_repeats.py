"""A repeat that comes after more appends than are remembered: never guessed."""

from __future__ import annotations

import asyncio
import pickle
import time
from typing import Any

import pytest

from memory_redis import AppendId, RedisMemory, UnknownOutcome, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import SCRIPTS
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy

pytestmark = pytest.mark.anyio

ALL = 10**6


def others(direct: RedisMemory, count: int) -> None:
    """That many appends by somebody else."""
    history = direct.history("ann", "c")
    for number in range(count):
        history.append(human(f"other {number}"))


async def lost(connect: Connect, proxy: FaultProxy, *, stored: bool) -> tuple[Any, AppendId]:
    """A history, and the id of an append of "lost" to it that got no answer."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    (proxy.drop_reply if stored else proxy.drop_request)(SCRIPTS, times=ALL)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("lost"))
    proxy.heal(drop=True)
    assert caught.value.append_id is not None
    return history, caught.value.append_id


@pytest.mark.parametrize("from_text", [False, True], ids=["own id", "id from text"])
@pytest.mark.parametrize("stored", [True, False], ids=["reply lost", "request lost"])
async def test_a_repeat_after_300_other_appends_is_unknown_and_makes_no_copy(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts, stored: bool, from_text: bool
) -> None:
    """Decision 1, P2: what the ring has dropped is not guessed, by a repeat nor by settle()."""
    history, append_id = await lost(connect, proxy, stored=stored)
    others(direct, 300)
    if from_text:
        append_id = AppendId.parse(str(append_id))
    for _ in range(2):
        with pytest.raises(UnknownOutcome) as caught:
            await history.append(human("lost"), append_id=append_id)
        assert caught.value.append_id == append_id
        with pytest.raises(UnknownOutcome) as caught:
            await history.settle(append_id)
        assert caught.value.append_id == append_id
    assert texts("ann", "c").count("lost") == int(stored)
    assert len(texts("ann", "c")) == 301 + int(stored)


@pytest.mark.parametrize("from_text", [False, True], ids=["own id", "id from text"])
async def test_a_repeat_after_250_other_appends_is_recognised(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts, from_text: bool
) -> None:
    """P2: within 256 other appends the answer is the first one."""
    history, append_id = await lost(connect, proxy, stored=True)
    others(direct, 250)
    if from_text:
        append_id = AppendId.parse(str(append_id))
    version = await history.append(human("lost"), append_id=append_id)
    assert (version.number, version.repeated) == (2, True)
    assert await history.settle(append_id) == version
    assert texts("ann", "c").count("lost") == 1


async def test_a_call_whose_own_repeat_comes_too_late_ends_as_unknown(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 1: 300 appends come between the send and the repeat of one call; it stays one copy."""
    history = connect(proxy.port, timeout=60, deadline=60).history("ann", "c")
    await history.append(human("0"))
    rule = proxy.drop_reply(SCRIPTS, how="hang")
    appending = asyncio.ensure_future(history.append(human("lost")))
    await eventually(lambda: direct.history("ann", "c").count() == 2, "it is stored")
    others(direct, 300)
    proxy.cut(refuse=False)
    with pytest.raises(UnknownOutcome) as caught:
        await appending
    assert rule.hits == 1
    assert caught.value.append_id is not None
    assert texts("ann", "c").count("lost") == 1


async def test_an_id_made_after_the_ring_dropped_others_is_proved_not_stored(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 1: nothing that was dropped is as young as this append, so it may be stored now."""
    others(direct, 300)
    time.sleep(0.2)  # older than this append by more than the margin for the way
    history, append_id = await lost(connect, proxy, stored=False)
    with pytest.raises(UnknownOutcome):  # whoever has the text alone cannot prove it
        await history.settle(AppendId.parse(str(append_id)))
    assert await history.settle(append_id) is None
    version = await history.append(human("lost"), append_id=append_id)
    assert (version.number, version.repeated) == (302, False)
    assert texts("ann", "c").count("lost") == 1


def test_an_append_id_that_travels_does_not_claim_an_age() -> None:
    """Decision 1: the clock it was made by may not be the one of the process that it comes to."""
    append_id = AppendId.new()
    assert append_id.made is not None
    assert pickle.loads(pickle.dumps(append_id)) == append_id
    assert pickle.loads(pickle.dumps(append_id)).made is None
    assert AppendId.parse(str(append_id)).made is None


async def test_keys_of_other_requests_do_not_push_a_plain_append_out(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 5: idempotency keys live apart, so 300 of them leave the ids of plain appends alone."""
    history, append_id = await lost(connect, proxy, stored=True)
    for number in range(300):
        direct.history("ann", "c").append(human("other"), idempotency_key=f"request-{number}")
    version = await history.append(human("lost"), append_id=append_id)
    assert (version.number, version.repeated) == (2, True)
    with pytest.raises(UnknownOutcome):  # this one may have been among the keys that were dropped
        await history.settle(AppendId.parse("00" * 12))
    assert texts("ann", "c").count("lost") == 1
