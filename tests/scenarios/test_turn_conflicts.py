"""What a turn does when the conversation is no longer the one that it loaded."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import redis

from memory_redis import ConflictError, HistoryCleared, MaxMessages, SlidingExpiry, Version, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, positions, take_turn, texts

pytestmark = pytest.mark.anyio


async def test_policy_append_stores_after_the_others_and_reports_it(coded: MakeMemory) -> None:
    """Decisions 4 and 26: the conflict and what was missed are on the turn, exact and in order."""
    history = coded().history("ann", "c1")
    await history.append(human("0"))
    async with history.turn(on_conflict="append") as turn:
        await history.append(human("1"), ai("2"))
        await history.append(human("3"))
        turn.add(human("mine"), ai("answer"))
    assert texts(await history.load()) == ["0", "1", "2", "3", "mine", "answer"]
    assert isinstance(turn.conflict, ConflictError)
    assert (turn.conflict.missed_count, turn.conflict.expired, turn.conflict.edited) == (3, False, False)
    assert texts(turn.missed) == ["1", "2", "3"]
    assert positions(turn.missed) == [1, 2, 3]
    assert turn.conflict.unsaved == []
    assert turn.version.number == 6
    assert turn.conflict.version == turn.version == (await history.load()).version


async def test_policy_raise_stores_nothing_and_gives_the_turn_back(coded: MakeMemory) -> None:
    """Decision 4, P3: the error carries the messages of the turn and those that were missed."""
    history = coded().history("ann", "c1")
    await history.append(human("0"))
    with pytest.raises(ConflictError) as caught:
        await take_turn(
            history,
            human("mine"),
            ai("answer"),
            on_conflict="raise",
            meanwhile=lambda: history.append(human("1")),
        )
    assert texts(caught.value.unsaved) == ["mine", "answer"]
    assert texts(caught.value.missed) == ["1"]
    assert caught.value.version == (await history.load()).version
    assert texts(await history.load()) == ["0", "1"]


async def test_two_overlapping_turns_are_both_stored_whole(memory: MakeMemory) -> None:
    """Decision 26, P4: in the order of their commits, and only the later one is told."""
    history = memory().history("ann", "c1")
    async with history.turn() as first, memory().history("ann", "c1").turn() as second:
        first.add(human("q1"), ai("a1"))
        second.add(human("q2"), ai("a2"))
    assert texts(await history.load()) == ["q2", "a2", "q1", "a1"]
    assert second.conflict is None
    assert texts(first.missed) == ["q2", "a2"]


async def test_of_two_overlapping_turns_that_insist_one_is_stored(memory: MakeMemory) -> None:
    """P8: under policy raise nothing stands between what a turn saw and what it stored."""
    history = memory().history("ann", "c1")

    async def inner() -> None:
        async with memory().history("ann", "c1").turn(on_conflict="raise") as turn:
            turn.add(human("q2"), ai("a2"))

    with pytest.raises(ConflictError) as caught:
        await take_turn(history, human("q1"), ai("a1"), on_conflict="raise", meanwhile=inner)
    assert texts(caught.value.missed) == ["q2", "a2"]
    assert texts(await history.load()) == ["q2", "a2"]


async def test_stored_and_raised_turns_add_up_to_those_begun(memory: MakeMemory) -> None:
    """Decision 26, P3, P9: of 30 turns of 6 workers each is stored whole, or raised and not stored."""
    stored: list[str] = []
    raised: list[str] = []

    async def work(worker: int) -> None:
        history = memory().history("ann", "c1")
        for number in range(5):
            name = f"{worker}.{number}"
            try:
                async with history.turn(on_conflict="raise") as turn:
                    await anyio.sleep(0)
                    turn.add(human(name), ai(name))
            except ConflictError as error:
                raised.extend(texts(error.unsaved))
            else:
                stored.extend([name, name])

    async with anyio.create_task_group() as tasks:
        for worker in range(6):
            tasks.start_soon(work, worker)
    messages = texts(await memory().history("ann", "c1").load())
    assert len(stored) + len(raised) == 60
    assert sorted(messages) == sorted(stored)
    assert messages[::2] == messages[1::2]


@pytest.mark.parametrize("policy", ["append", "raise"])
@pytest.mark.parametrize("refilled", [False, True])
async def test_a_clear_refuses_the_turn_under_every_policy(
    memory: MakeMemory, policy: Any, refilled: bool
) -> None:
    """Decision 2: HistoryCleared carries the answer, and nothing is brought back."""
    history = memory().history("ann", "c1")
    await history.append(human("0"))

    async def cleared() -> None:
        await history.clear()
        if refilled:
            await history.append(human("new"))

    with pytest.raises(HistoryCleared) as caught:
        await take_turn(history, human("mine"), ai("answer"), on_conflict=policy, meanwhile=cleared)
    assert texts(caught.value.unsaved) == ["mine", "answer"]
    assert caught.value.outcome == "not_stored"
    assert texts(await history.load()) == (["new"] if refilled else [])


@pytest.mark.parametrize("policy", ["append", "raise"])
async def test_forgetting_the_user_refuses_the_turn_too(memory: MakeMemory, policy: Any) -> None:
    """Decision 2, S8: what was erased stays erased."""
    one = memory()
    history = one.history("ann", "c1")
    await history.append(human("0"))
    with pytest.raises(HistoryCleared):
        await take_turn(history, human("mine"), on_conflict=policy, meanwhile=lambda: one.forget("ann"))
    assert await history.exists() is False
    assert [info async for info in one.conversations("ann")] == []


@pytest.mark.parametrize("refilled", [False, True])
async def test_a_conversation_that_ended_meanwhile_begins_anew_with_the_turn(
    memory: MakeMemory, raw: redis.Redis, keys: Names, refilled: bool
) -> None:
    """Decision 3: policy append stores the turn in the new life and says expired."""
    history = memory(expiry=SlidingExpiry(0.05)).history("ann", "c1")
    lasting = memory().history("ann", "c1")
    await history.append(human("0"))
    async with lasting.turn() as turn:
        await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
        if refilled:
            await lasting.append(human("new"))
        turn.add(human("mine"), ai("answer"))
    assert turn.conflict.expired
    assert texts(turn.missed) == (["new"] if refilled else [])
    assert turn.version.number == 2 + refilled
    assert texts(await lasting.load()) == [*texts(turn.missed), "mine", "answer"]


async def test_a_conversation_that_ended_meanwhile_refuses_a_turn_that_insists(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 3, P7: under policy raise the token of the former life is refused."""
    history = memory(expiry=SlidingExpiry(0.05)).history("ann", "c1")
    await history.append(human("0"))

    async def ended() -> None:
        await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")

    with pytest.raises(ConflictError) as caught:
        await take_turn(history, human("mine"), on_conflict="raise", meanwhile=ended)
    assert caught.value.expired
    assert caught.value.version == Version()
    assert texts(caught.value.unsaved) == ["mine"]
    assert await history.exists() is False


async def test_messages_that_were_missed_and_trimmed_are_counted(memory: MakeMemory) -> None:
    """Decision 4: missed_count is exact though only those still stored travel."""
    history = memory(retention=MaxMessages(3)).history("ann", "c1")
    await history.append(human("0"))
    async with history.turn() as turn:
        for number in range(1, 7):
            await history.append(human(str(number)))
        turn.add(human("mine"))
    assert turn.conflict.missed_count == 6
    assert texts(turn.missed) == ["4", "5", "6"]
    assert positions(turn.missed) == [4, 5, 6]
    assert texts(await history.load()) == ["5", "6", "mine"]


async def test_an_edit_by_hand_is_reported_as_one(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Decision 6: a turn loaded before messages vanished is told edited."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), human("1"))
    async with history.turn() as turn:
        raw.rpop(keys.messages)
        turn.add(human("mine"))
    assert turn.conflict.edited
    assert texts(await history.load()) == ["0", "mine"]
