"""A turn that is committed in steps."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
import redis

from memory_redis import (
    AsyncRedisMemory,
    ConflictError,
    HistoryCleared,
    InvalidMessage,
    InvalidSetting,
    Limits,
    ai,
    human,
)
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, texts

pytestmark = pytest.mark.anyio


async def test_a_commit_stores_what_was_added_and_the_turn_goes_on(coded: MakeMemory) -> None:
    """R84: each step is one append; leaving the block stores the rest."""
    history = coded().history("ann", "c1")
    async with history.turn(on_conflict="raise") as turn:
        turn.add(human("1"), human("2"))
        first = await turn.commit()
        assert texts(await history.load()) == ["1", "2"]
        assert (turn.added, turn.version, first.number) == ([], first, 2)
        turn.add(ai("3"))
    assert texts(await history.load()) == ["1", "2", "3"]
    assert (turn.version.number, turn.conflict) == (3, None)


async def test_a_commit_of_nothing_stores_nothing(memory: MakeMemory) -> None:
    """Decision 9: it gives the version of the load, or of the last commit."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        assert await turn.commit() == (await history.load()).version
        turn.add(human("1"))
        version = await turn.commit()
        assert await turn.commit() == version
    assert await history.count() == 1


async def test_an_error_after_a_commit_stores_nothing_more(memory: MakeMemory) -> None:
    """R54, R84: what was committed stays."""
    history = memory().history("ann", "c1")

    async def failing() -> None:
        async with history.turn() as turn:
            turn.add(human("1"))
            await turn.commit()
            turn.add(ai("2"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await failing()
    assert texts(await history.load()) == ["1"]


async def test_what_others_append_between_two_commits_is_a_conflict_of_the_second(memory: MakeMemory) -> None:
    """T9, decision 26: a turn expects its own last commit."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        turn.add(human("1"))
        await turn.commit()
        await history.append(human("other"))
        turn.add(ai("2"))
    assert texts(turn.missed) == ["other"]
    assert texts(await history.load()) == ["1", "other", "2"]


async def test_a_conflict_of_an_earlier_commit_is_still_known_after_a_later_one(memory: MakeMemory) -> None:
    """T9: by policy append, what the model had not seen is not forgotten."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        await history.append(human("other"))
        turn.add(human("1"))
        await turn.commit()
        turn.add(ai("2"))
    assert texts(turn.missed) == ["other"]


async def test_a_commit_that_fails_ends_the_turn(memory: MakeMemory) -> None:
    """T9, R84: what it was to store is in added; nothing is stored by leaving the block."""
    history = memory().history("ann", "c1")
    async with history.turn(on_conflict="raise") as turn:
        await history.append(human("other"))
        turn.add(human("1"))
        with pytest.raises(ConflictError) as caught:
            await turn.commit()
        for use in (turn.commit, lambda: turn.add(human("2"))):
            with pytest.raises(InvalidSetting, match="ended"):
                await use()
        assert texts(turn.added) == texts(caught.value.unsaved) == ["1"]
    assert texts(await history.load()) == ["other"]


async def test_a_turn_that_was_left_takes_nothing_more(memory: MakeMemory) -> None:
    """R84: neither messages nor commits, after success and after an error."""
    history = memory().history("ann", "c1")
    for error in (None, RuntimeError()):
        turn = history.turn()
        await turn.__aenter__()
        await turn.__aexit__(error and type(error), error, None)
        with pytest.raises(InvalidSetting, match="ended"):
            turn.add(human("1"))
        with pytest.raises(InvalidSetting, match="ended"):
            await turn.commit()
        with pytest.raises(InvalidSetting, match="once"):
            await turn.__aenter__()
    assert await history.exists() is False


async def test_a_turn_that_was_not_entered_takes_nothing(memory: MakeMemory) -> None:
    """R84: it has loaded nothing to commit against."""
    history = memory().history("ann", "c1")
    turn = history.turn()
    with pytest.raises(InvalidSetting, match="`with`"):
        turn.add(human("1"))
    assert not await history.exists()


async def test_one_bad_message_adds_none(memory: MakeMemory) -> None:
    """Decision 17: the turn goes on with what was added before."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        turn.add(human("1"))
        bad: list[Any] = [ai("3", response_metadata={"big": 2**70}), "a text", None, {"role": "user"}]
        for message in bad:
            with pytest.raises(InvalidMessage):
                turn.add(human("2"), message)
    assert texts(await history.load()) == ["1"]


async def test_the_list_of_what_was_added_is_a_copy(memory: MakeMemory) -> None:
    """T21: changing it changes nothing."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        turn.add(human("1"))
        turn.added.clear()
    assert texts(await history.load()) == ["1"]


async def test_a_message_is_stored_as_it_was_when_it_was_added(coded: MakeMemory) -> None:
    """T21: what its owner does to it afterwards is not stored."""
    history = coded().history("ann", "c1")
    message = human("1", additional_kwargs={"a": [1]})
    async with history.turn() as turn:
        turn.add(message)
        message.data["content"] = "changed"
        message.data["additional_kwargs"]["a"].append(2)
    assert (await history.load()).messages == [human("1", additional_kwargs={"a": [1]})]


async def test_a_clear_between_two_commits_keeps_the_conversation_cleared(memory: MakeMemory) -> None:
    """T3, decision 2: the first commit of the turn is not brought back either."""
    history = memory().history("ann", "c1")

    async def take() -> None:
        async with history.turn() as turn:
            turn.add(human("1"))
            await turn.commit()
            await history.clear()
            turn.add(ai("2"))

    with pytest.raises(HistoryCleared) as caught:
        await take()
    assert texts(caught.value.unsaved) == ["2"]
    assert await history.exists() is False


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("refilled", [False, True])
async def test_a_conversation_that_ended_between_two_commits_begins_anew_with_both(
    coded: MakeMemory, raw: redis.Redis, keys: Names, refilled: bool, key: str | None
) -> None:
    """Decisions 3 and 5, R84: policy append stores the whole turn, step by step, and no step of it alone."""
    history = coded().history("ann", "c1")
    await history.append(human("0"))
    async with history.turn(idempotency_key=key) as turn:
        for text in ("1", "2"):
            turn.add(human(text))
            await turn.commit()
        raw.delete(keys.messages, keys.meta)
        if refilled:
            await history.append(human("new"))
        turn.add(ai("3"))
    new = ["new"] if refilled else []
    assert texts(await history.load()) == [*new, "1", "2", "3"]
    assert turn.conflict.expired
    assert texts(turn.missed) == new
    assert (turn.version, turn.added) == ((await history.load()).version, [])
    if key is not None:
        async with history.turn(idempotency_key=key) as again:
            assert texts(again.stored) == ["1"]
            for text in ("1", "2", "3"):
                again.add(human(text))
                assert (await again.commit()).repeated


async def test_a_conversation_that_ended_between_two_commits_refuses_a_turn_that_insists(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 3, P7: policy raise stores no step in another life."""
    history = memory().history("ann", "c1")
    async with history.turn(on_conflict="raise") as turn:
        turn.add(human("1"))
        await turn.commit()
        raw.delete(keys.messages, keys.meta)
        turn.add(ai("2"))
        with pytest.raises(ConflictError) as caught:
            await turn.commit()
    assert caught.value.expired
    assert (texts(caught.value.unsaved), texts(turn.added)) == (["2"], ["2"])
    assert not await history.exists()


async def test_a_turn_that_would_be_too_much_for_one_append_says_so_when_it_is_added_to(
    memory: MakeMemory,
) -> None:
    """S4: what does not fit was not added, and what was is stored all the same."""
    history = memory(limits=Limits(append_messages=2)).history("ann", "c1")
    async with history.turn() as turn:
        turn.add(human("1"))
        with pytest.raises(InvalidMessage, match="at most 2 messages"):
            turn.add(ai("2"), ai("3"))
        assert texts(turn.added) == ["1"]
        turn.add(ai("2"))
    assert texts(await history.load()) == ["1", "2"]


# -- keys ----------------------------------------------------------------------------------------


async def test_each_commit_may_have_a_key_of_its_own(memory: MakeMemory) -> None:
    """Decision 5, R84: a repeat of the turn stores neither step again."""
    history = memory().history("ann", "c1")
    for expected in (False, True):
        async with history.turn(idempotency_key="k") as turn:
            assert (turn.stored is not None) == expected
            turn.add(human("1"))
            assert (await turn.commit(idempotency_key="k, first step")).repeated == expected
            turn.add(ai("2"))
        assert turn.version.repeated == expected
    assert texts(await history.load()) == ["1", "2"]


async def test_each_commit_under_the_key_of_the_turn_is_stored_once(memory: MakeMemory) -> None:
    """Decision 5, P2: no step is taken for a repeat of another one, and a repeat of the turn stores none."""
    history = memory().history("ann", "c1")
    for repeated in (False, True):
        async with history.turn(idempotency_key="k") as turn:
            for message in (human("1"), ai("2"), ai("3")):
                turn.add(message)
                assert (await turn.commit()).repeated == repeated
        assert turn.added == []
        assert texts(await history.load()) == ["1", "2", "3"]
    async with history.turn(idempotency_key="k") as turn:
        assert turn.stored is not None
        assert texts(turn.stored) == ["1"]


@pytest.mark.parametrize("policy", ["append", "raise"])
async def test_a_repeated_step_is_no_conflict_with_what_was_loaded_after_it(
    memory: MakeMemory, policy: Any
) -> None:
    """Decision 5, T9: the turn has seen what came since, and says so to its next commit."""
    history = memory().history("ann", "c1")
    await history.append(human("1"), idempotency_key="first step")
    await history.append(human("other"))
    async with history.turn(on_conflict=policy) as turn:
        assert texts(turn.messages) == ["1", "other"]
        turn.add(human("1"))
        assert (await turn.commit(idempotency_key="first step")).repeated
        turn.add(ai("2"))
    assert (turn.conflict, turn.version.number) == (None, 3)
    assert texts(await history.load()) == ["1", "other", "2"]


async def test_a_repeated_step_hides_no_conflict(memory: MakeMemory) -> None:
    """Decision 5, T9: what came after it, and after the load, is refused by policy raise."""
    history = memory().history("ann", "c1")
    await history.append(human("1"), idempotency_key="first step")

    async def take() -> None:
        async with history.turn(on_conflict="raise") as turn:
            turn.add(human("1"))
            await turn.commit(idempotency_key="first step")
            await history.append(human("other"))
            turn.add(ai("2"))

    with pytest.raises(ConflictError) as caught:
        await take()
    assert texts(caught.value.missed) == ["other"]
    assert texts(await history.load()) == ["1", "other"]


async def test_steps_of_many_turns_at_once_lose_and_tear_apart_nothing(memory: MakeMemory) -> None:
    """A06, T2, T8: 6 workers of 5 turns in two steps; each step stands together, in order."""

    async def work(worker: int) -> None:
        history = memory().history("ann", "c1")
        for number in range(5):
            name = f"{worker}.{number}"
            async with history.turn() as turn:
                turn.add(human(f"{name} a"), human(f"{name} b"))
                await turn.commit()
                turn.add(ai(f"{name} c"), ai(f"{name} d"))

    async with anyio.create_task_group() as tasks:
        for worker in range(6):
            tasks.start_soon(work, worker)
    stored = texts(await memory().history("ann", "c1").load())
    assert len(stored) == len(set(stored)) == 6 * 5 * 4
    for first, second in zip(stored[::2], stored[1::2], strict=True):
        assert first[:-1] == second[:-1]
        assert first[-1] + second[-1] in ("ab", "cd")
    for worker in range(6):
        mine = [text for text in stored if text.startswith(f"{worker}.")]
        assert mine == [f"{worker}.{number} {step}" for number in range(5) for step in "abcd"]


@pytest.mark.parametrize("server", ["fakeredis"], indirect=True)
async def test_what_is_added_during_a_commit_waits_for_the_next_one(url: str, namespace: str) -> None:
    """R84: a question may be stored while the model runs, and the answer is not lost to its commit."""
    async with AsyncRedisMemory.from_url(url, namespace=namespace) as memory:
        history = memory.history("ann", "c1")
        async with history.turn() as turn:
            turn.add(human("question"))
            saving = asyncio.create_task(turn.commit())
            await asyncio.sleep(0)
            turn.add(ai("answer"))
            with pytest.raises(InvalidSetting, match="under way"):
                await turn.commit()
            await saving
            assert [message.text for message in turn.added] == ["answer"]
        assert [message.text for message in (await history.load()).messages] == ["question", "answer"]
