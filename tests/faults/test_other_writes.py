"""Faults while a conversation is cleared, a user forgotten, a turn committed, a key repeated."""

from __future__ import annotations

import asyncio

import pytest

from memory_redis import HistoryCleared, RedisMemory, ServerUnavailable, UnknownOutcome, ai, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import OWN, SCRIPTS, SILENCE, WITHOUT_REPEATS, Way
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy

pytestmark = pytest.mark.anyio

WAYS = pytest.mark.parametrize(
    "way", [*OWN, Way("sync", "Redis()"), Way("async", "decode_responses")], ids=str
)

ALL = 10**6
LONG = 60
"""A socket timeout that does not end a wait before the test does."""


@WAYS
@pytest.mark.parametrize("how", ["close", "reset", "hang"])
async def test_a_clear_whose_reply_is_lost_clears_once_and_counts_once(
    connect: Connect, proxy: FaultProxy, texts: Texts, direct: RedisMemory, how: str
) -> None:
    """Decisions 2 and 6: the repeat is recognised, the number is the one of the first send."""
    history = connect(proxy.port, SILENCE if how == "hang" else 5).history("ann", "c")
    await history.append(human("1"), ai("2"))
    rule = proxy.drop_reply(SCRIPTS, how=how)
    assert (await history.clear(), rule.hits) == (2, 1)
    assert not await history.exists()
    assert list(direct.conversations("ann")) == []
    assert (await history.append(human("3"))).number > 2
    assert texts("ann", "c") == ["3"]


@WAYS
async def test_a_repeated_clear_does_not_take_what_was_appended_meanwhile(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 6: messages that come between a clear and its repeat stay."""
    history = connect(proxy.port, LONG, deadline=LONG).history("ann", "c")
    await history.append(human("1"), ai("2"))
    proxy.drop_reply(SCRIPTS, how="hang")
    clearing = asyncio.ensure_future(history.clear())
    await eventually(lambda: not direct.history("ann", "c").exists(), "it is cleared")
    direct.history("ann", "c").append(human("3"))
    proxy.cut(refuse=False)
    assert await clearing == 2
    assert texts("ann", "c") == ["3"]


async def test_a_clear_without_any_answer_is_unknown_and_can_be_made_again(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """P9: nobody knows whether it cleared; a second call leaves nothing."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("1"))
    proxy.drop_reply(SCRIPTS, times=ALL)
    with pytest.raises((UnknownOutcome, ServerUnavailable), match="may or may not") as caught:
        await history.clear()
    assert caught.value.outcome != "not_stored"
    proxy.heal()
    await history.clear()
    assert texts("ann", "c") == []


@pytest.mark.parametrize("way", WITHOUT_REPEATS, ids=str)
async def test_an_append_that_was_lost_before_a_clear_does_not_come_after_it(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 2: a repeat from before the clear stores nothing and says so, with the messages."""
    history = connect(proxy.port, LONG, deadline=LONG).history("ann", "c")
    await history.append(human("1"))
    rule = proxy.drop_request(SCRIPTS, how="hang")
    appending = asyncio.ensure_future(history.append(human("2")))
    await eventually(lambda: rule.hits, "the append is lost")
    await asyncio.sleep(0.1)  # the clear comes after the first send by more than clocks may differ
    assert direct.history("ann", "c").clear() == 1
    proxy.cut(refuse=False)
    with pytest.raises(HistoryCleared) as caught:
        await appending
    assert caught.value.outcome == "not_stored"
    assert [message.text for message in caught.value.unsaved] == ["2"]
    assert texts("ann", "c") == []


@WAYS
async def test_an_append_that_was_stored_before_a_clear_is_not_stored_again(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """Decision 2, P2: its reply was lost, then the conversation was cleared: the repeat stores nothing."""
    history = connect(proxy.port, LONG, deadline=LONG).history("ann", "c")
    await history.append(human("1"))
    proxy.drop_reply(SCRIPTS, how="hang")
    appending = asyncio.ensure_future(history.append(human("2")))
    await eventually(lambda: direct.history("ann", "c").count() == 2, "it is stored")
    assert direct.history("ann", "c").clear() == 2
    proxy.cut(refuse=False)
    version = await appending
    assert (version.number, version.repeated) == (2, True)
    assert texts("ann", "c") == []


@WAYS
@pytest.mark.parametrize("at", range(6))
async def test_a_user_is_forgotten_with_exact_counts_whatever_reply_is_lost(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, at: int
) -> None:
    """S8, P2: a fault at any script of forget() leaves nothing behind and counts nothing twice."""
    memory = connect(proxy.port)
    for number in range(3):
        await memory.history("ann", f"c{number}").append(human("1"), ai("2"))
    await memory.history("ben", "c").append(human("1"))
    await memory.forget("nobody")
    rule = proxy.drop_reply(SCRIPTS, after=at)
    forgotten = await memory.forget("ann")
    assert (forgotten.conversations, forgotten.messages) == (3, 6)
    assert rule.hits == 1
    assert list(direct.conversations("ann")) == []
    again = await memory.forget("ann")
    assert (again.conversations, again.messages) == (0, 0)
    assert await memory.history("ben", "c").count() == 1


@WAYS
async def test_a_keyed_append_is_stored_once_by_four_workers_whose_replies_are_lost(
    connect: Connect, proxy: FaultProxy, texts: Texts, namespace: str
) -> None:
    """Decision 5, F19: all get the same version, one of them not as a repeat of another's."""
    memory = connect(proxy.port)
    await memory.history("ann", "c").append(human("start"))
    rounds = 25
    for number in range(rounds):
        proxy.drop_reply(SCRIPTS, after=number % 4)
        history = memory.history("ann", "c")
        versions = await asyncio.gather(
            *(
                history.append(human(f"{number}a"), ai(f"{number}b"), idempotency_key=f"request-{number}")
                for _ in range(4)
            )
        )
        assert len(set(versions)) == 1
        assert versions[0].number == 3 + 2 * number
    assert texts("ann", "c") == [
        "start",
        *(f"{number}{part}" for number in range(rounds) for part in "ab"),
    ]


@WAYS
async def test_a_keyed_turn_whose_reply_is_lost_is_found_by_its_repeat(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """Decision 5: the second request gets the stored answer, and stores nothing."""
    history = connect(proxy.port).history("ann", "c")
    async with history.turn(idempotency_key="request") as turn:
        assert turn.stored is None
        turn.add(human("1"), ai("2"))
        proxy.drop_reply(SCRIPTS)
    proxy.drop_reply(SCRIPTS)
    async with history.turn(idempotency_key="request") as repeat:
        assert [message.text for message in repeat.stored or []] == ["1", "2"]
        repeat.add(human("1"), ai("another answer"))
    assert repeat.version == turn.version
    assert repeat.version.repeated
    assert texts("ann", "c") == ["1", "2"]


@WAYS
async def test_turns_under_lost_replies_report_true_conflicts_only(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory, texts: Texts
) -> None:
    """P8, decision 4: a repeat recomputes what was missed; without another writer nothing was."""
    history = connect(proxy.port).history("ann", "c")
    await history.append(human("0"))
    for lost in (False, True):
        async with history.turn() as turn:
            direct.history("ann", "c").append(ai("between"))
            turn.add(human("mine"))
            if lost:
                proxy.drop_reply(SCRIPTS)
        assert turn.conflict is not None
        assert [message.text for message in turn.missed] == ["between"]
        assert turn.conflict.missed_count == 1
        assert turn.version.repeated == lost
    async with history.turn() as turn:
        turn.add(human("mine"))
        proxy.drop_reply(SCRIPTS)
    assert (turn.conflict, turn.missed) == (None, [])
    assert texts("ann", "c") == ["0", "between", "mine", "between", "mine", "mine"]
