"""When no answer comes at all: the outcome is unknown, and its append id settles it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from memory_redis import AppendId, RedisMemory, UnknownOutcome, Version, ai, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import SCRIPTS, WITHOUT_REPEATS, Way
from tests.support.fault_proxy import FaultProxy, Rule
from tests.support.servers import wait_until

pytestmark = pytest.mark.anyio

ALL = 10**6
SOME = [way for way in WITHOUT_REPEATS if way.kind != "BlockingConnectionPool"]
FAULTS: dict[str, Callable[[FaultProxy], Rule]] = {
    "replies lost": lambda proxy: proxy.drop_reply(SCRIPTS, times=ALL),
    "replies cut": lambda proxy: proxy.truncate_reply(3, SCRIPTS, times=ALL),
    "requests lost": lambda proxy: proxy.drop_request(SCRIPTS, times=ALL, how="reset"),
    "nothing but silence": lambda proxy: proxy.drop_reply(SCRIPTS, times=ALL, how="hang"),
}


@pytest.mark.parametrize("way", SOME, ids=str)
@pytest.mark.parametrize("fault", FAULTS)
async def test_an_append_without_any_answer_is_unknown_until_it_is_settled(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts, fault: str
) -> None:
    """P9, decision 10: settle() tells what became of it, a repeat with its id stores it at most once."""
    timeout = 0.3 if "silence" in fault else 5
    history = connect(proxy.port, timeout, deadline=1).history("ann", "c")
    await history.append(human("0"))
    rule = FAULTS[fault](proxy)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"), ai("2"))
    assert rule.hits >= 1
    assert caught.value.outcome == "unknown"
    append_id = caught.value.append_id
    assert append_id is not None

    stored = "request" not in fault
    settled = direct.history("ann", "c").settle(append_id)
    assert settled == (Version(3, append_id.value, settled.birth) if stored and settled else None)
    assert (settled is not None) == stored

    proxy.heal(drop=True)
    version = await history.append(human("1"), ai("2"), append_id=append_id)
    assert (version.number, version.repeated) == (3, stored)
    again = await history.append(human("1"), ai("2"), append_id=AppendId.parse(str(append_id)))
    assert (again, again.repeated) == (version, True)
    assert await history.settle(append_id) == version
    assert texts("ann", "c") == ["0", "1", "2"]


async def test_a_client_with_ten_repeats_of_its_own_that_all_fail_ends_as_unknown(
    proxy: FaultProxy, namespace: str, texts: Texts
) -> None:
    """P9, P11: 11 sends by the client are one append, on both faces."""

    async def lose(face: str) -> None:
        async with AsyncExitStack() as stack:
            memory = Way(face, "Redis()").open(stack, proxy.port, 5, deadline=0.05, namespace=namespace)
            history = memory.history("ann", face)
            await history.append(human("0"))
            ready.add(face)
            while len(ready) < 2:
                await asyncio.sleep(0.01)
            proxy.drop_reply(SCRIPTS, times=ALL)
            with pytest.raises(UnknownOutcome) as caught:
                await history.append(human("1"))
            failed.add(face)
            while len(failed) < 2:
                await asyncio.sleep(0.01)
            proxy.heal()
            assert (await history.append(human("1"), append_id=caught.value.append_id)).repeated

    ready: set[str] = set()
    failed: set[str] = set()
    await asyncio.gather(lose("sync"), lose("async"))
    assert proxy.sent["EVALSHA"] >= 22
    assert texts("ann", "sync") == texts("ann", "async") == ["0", "1"]


async def test_an_unknown_append_under_an_idempotency_key_is_settled_by_its_id(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """P9, decisions 5 and 10: the id of the error and the caller's key mean the same append."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    proxy.drop_reply(SCRIPTS, times=ALL)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"), idempotency_key="request-1")
    proxy.heal(drop=True)
    append_id = caught.value.append_id
    settled = await history.settle(append_id)
    assert (settled.number, settled.repeated) == (2, True)
    by_key = await history.append(human("1"), idempotency_key="request-1")
    assert (by_key, by_key.repeated) == (settled, True)
    by_id = await history.append(human("1"), append_id=append_id)
    assert (by_id, by_id.repeated) == (settled, True)
    by_text = await history.append(human("1"), append_id=AppendId.parse(str(append_id)))
    assert (by_text, by_text.repeated) == (settled, True)
    assert texts("ann", "c") == ["0", "1"]


async def test_an_unsent_append_under_an_idempotency_key_is_stored_once_by_id_and_key(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """P2, P9, decision 5: whichever of id and key comes first, the other one finds its append."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    proxy.drop_request(SCRIPTS, times=ALL)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"), idempotency_key="request-1")
    proxy.heal(drop=True)
    assert await history.settle(caught.value.append_id) is None
    version = await history.append(human("1"), append_id=caught.value.append_id)
    by_key = await history.append(human("1"), idempotency_key="request-1")
    assert (by_key, by_key.repeated) == (version, True)
    assert texts("ann", "c") == ["0", "1"]


async def test_a_key_whose_append_was_settled_as_not_stored_can_be_used_again(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """Decision 5: the request is made again under its key, as an append or as a turn, and stored once."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    proxy.drop_request(SCRIPTS, times=ALL)
    settled = []
    for key in ("request-1", "request-2"):
        with pytest.raises(UnknownOutcome) as caught:
            await history.append(human(key), idempotency_key=key)
        settled.append(caught.value.append_id)
    proxy.heal(drop=True)
    assert [await history.settle(append_id) for append_id in settled] == [None, None]
    version = await history.append(human("request-1"), idempotency_key="request-1")
    assert (version.number, version.repeated) == (2, False)
    async with history.turn(idempotency_key="request-2") as turn:
        assert turn.stored is None
        turn.add(human("request-2"))
    assert turn.version.number == 3
    assert (await history.append(human("request-2"), idempotency_key="request-2")).repeated
    assert texts("ann", "c") == ["0", "request-1", "request-2"]


async def test_a_turn_that_ends_without_an_answer_can_be_settled(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """P9: the commit of a turn is an append, and its error has the id and the outcome."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))

    async def turn() -> None:
        async with history.turn() as turn:
            turn.add(human("1"), ai("2"))
            proxy.drop_reply(SCRIPTS, times=ALL)

    with pytest.raises(UnknownOutcome) as caught:
        await turn()
    proxy.heal(drop=True)
    assert caught.value.append_id is not None
    settled = await history.settle(caught.value.append_id)
    assert settled == direct.history("ann", "c").load().version
    assert texts("ann", "c") == ["0", "1", "2"]


async def test_what_settle_calls_not_stored_does_not_come_later(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """P9: a request that a healed network delivers late cannot make a settled answer wrong."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    before = proxy.sent["EVALSHA"]
    proxy.half_open("up")
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("late"))
    append_id = caught.value.append_id
    assert append_id is not None
    assert direct.history("ann", "c").settle(append_id) is None
    proxy.heal()
    wait_until(lambda: proxy.sent["EVALSHA"] > before, "the late request reaches the server")
    await history.append(human("1"))
    assert texts("ann", "c") == ["0", "1"]
    assert direct.history("ann", "c").settle(append_id) is None


async def test_a_late_request_after_its_repeat_stores_nothing(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """P2: what was repeated by its id elsewhere is recognised when the first send arrives at last."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    before = proxy.sent["EVALSHA"]
    proxy.half_open("up")
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"))
    direct.history("ann", "c").append(human("1"), append_id=caught.value.append_id)
    proxy.heal()
    wait_until(lambda: proxy.sent["EVALSHA"] > before, "the late request reaches the server")
    await history.append(human("2"))
    assert texts("ann", "c") == ["0", "1", "2"]
