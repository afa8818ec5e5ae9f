"""Replies and requests that get lost, on every way to the server: each append is stored once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory_redis import ai, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import SCRIPTS, SILENCE, WAYS, Way
from tests.support.fault_proxy import FaultProxy, Rule

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS, ids=str)]

Fault = Callable[[FaultProxy], Rule]

LOST_REPLIES: dict[str, Fault] = {
    "reply lost, closed": lambda proxy: proxy.drop_reply(SCRIPTS, how="close"),
    "reply lost, reset": lambda proxy: proxy.drop_reply(SCRIPTS, how="reset"),
    "reply lost, silence": lambda proxy: proxy.drop_reply(SCRIPTS, how="hang"),
    "reply cut after a byte": lambda proxy: proxy.truncate_reply(1, SCRIPTS),
    "reply cut in the middle": lambda proxy: proxy.truncate_reply(25, SCRIPTS),
}
LOST_REQUESTS: dict[str, Fault] = {
    "request lost, closed": lambda proxy: proxy.drop_request(SCRIPTS, how="close"),
    "request lost, reset": lambda proxy: proxy.drop_request(SCRIPTS, how="reset"),
    "request lost, silence": lambda proxy: proxy.drop_request(SCRIPTS, how="hang"),
}


def timeout_for(fault: str) -> float:
    """A short socket timeout only where nothing else ends the wait."""
    return SILENCE if "silence" in fault else 5


@pytest.mark.parametrize("fault", LOST_REPLIES)
async def test_an_append_whose_reply_is_lost_is_stored_once_and_recognised(
    connect: Connect, proxy: FaultProxy, texts: Texts, fault: str
) -> None:
    """P2, P11, F1: the repeat gets the first answer, and the next append stands after it."""
    history = connect(proxy.port, timeout_for(fault)).history("ann", "c")
    await history.append(human("0"))
    rule = LOST_REPLIES[fault](proxy)
    version = await history.append(human("1"), ai("2"))
    assert (version.number, version.repeated, rule.hits) == (3, True, 1)
    after = await history.append(human("3"))
    assert (after.number, after.repeated) == (4, False)
    assert texts("ann", "c") == ["0", "1", "2", "3"]


@pytest.mark.parametrize("fault", LOST_REQUESTS)
async def test_an_append_whose_request_is_lost_is_stored_once(
    connect: Connect, proxy: FaultProxy, texts: Texts, fault: str
) -> None:
    """P2, P11, F1: the request is sent again, and was not stored before."""
    history = connect(proxy.port, timeout_for(fault)).history("ann", "c")
    await history.append(human("0"))
    rule = LOST_REQUESTS[fault](proxy)
    version = await history.append(human("1"), ai("2"))
    assert (version.number, version.repeated, rule.hits) == (3, False, 1)
    assert (await history.append(human("3"))).number == 4
    assert texts("ann", "c") == ["0", "1", "2", "3"]


async def test_a_lost_reply_makes_no_false_conflict(
    connect: Connect, proxy: FaultProxy, texts: Texts, way: Way
) -> None:
    """P8, decision 1: an append against a version does not meet itself when it is sent again."""
    history = connect(proxy.port).history("ann", "c")
    seen = await history.append(human("0"))
    proxy.drop_reply(SCRIPTS)
    version = await history.append(human("1"), expected=seen)
    assert version.repeated
    proxy.drop_reply(SCRIPTS)
    async with history.turn(on_conflict="raise") as turn:
        turn.add(human("2"), ai("3"))
    assert (turn.conflict, turn.version.number) == (None, 4)
    assert texts("ann", "c") == ["0", "1", "2", "3"]


async def test_several_replies_lost_in_a_row_still_make_one_copy(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """P2, F1: four replies of one append are lost, whoever repeats it."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("0"))
    rule = proxy.drop_reply(SCRIPTS, times=4)
    version = await history.append(human("1"))
    assert (version.number, version.repeated, rule.hits) == (2, True, 4)
    assert texts("ann", "c") == ["0", "1"]


async def test_a_load_whose_reply_is_lost_is_made_again(connect: Connect, proxy: FaultProxy) -> None:
    """P6, P11: a read that loses its reply half-way gives all messages, none of them torn."""
    history = connect(proxy.port).history("ann", "c")
    await history.append(*(human(str(number)) for number in range(50)))
    for fault in (
        lambda: proxy.drop_reply("LRANGE"),
        lambda: proxy.truncate_reply(40, "LRANGE"),
        lambda: proxy.drop_request("HMGET", how="reset"),
    ):
        rule = fault()
        snapshot = await history.load()
        assert rule.hits == 1
        assert [message.text for message in snapshot.messages] == [str(number) for number in range(50)]
        assert snapshot.version.number == 50
