"""A turn: load on entry, commit on exit, nothing on an error."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    InvalidMessage,
    InvalidSetting,
    LastMessages,
    SlidingExpiry,
    ai,
    human,
)
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, keys_in, positions, texts

pytestmark = pytest.mark.anyio


async def test_a_turn_stores_what_was_added_when_its_block_ends(coded: MakeMemory) -> None:
    """R52, R56: input and answer together, in order, as one append."""
    history = coded().history("ann", "c1")
    await history.append(human("1"), ai("2"))
    async with history.turn() as turn:
        assert texts(turn.messages) == ["1", "2"]
        turn.add(human("3"))
        turn.add(ai("4"), ai("5"))
        assert await history.count() == 2
    assert texts(await history.load()) == ["1", "2", "3", "4", "5"]
    assert turn.version == (await history.load()).version
    assert (turn.conflict, turn.missed, turn.stored) == (None, [], None)


async def test_turns_see_the_messages_of_the_turns_before(memory: MakeMemory) -> None:
    """R85: the model sees 1, 3 and 5 messages."""
    history = memory().history("ann", "c1")
    for number in range(3):
        async with history.turn() as turn:
            question = human(f"question {number}")
            assert len([*turn.messages, question]) == 2 * number + 1
            turn.add(question, ai(f"answer {number}"))
    assert await history.count() == 6


async def test_an_error_in_the_block_stores_nothing(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """R54, R55, P3: it passes on unchanged."""
    history = memory().history("ann", "c1")
    error = RuntimeError("the model failed")

    async def failing_turn() -> None:
        async with history.turn() as turn:
            turn.add(human("1"))
            raise error

    with pytest.raises(RuntimeError) as caught:
        await failing_turn()
    assert caught.value is error
    assert keys_in(raw, namespace) == []


async def test_a_turn_without_messages_stores_nothing(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """Decision 9: nothing added is no append, and no conflict either."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        pass
    assert keys_in(raw, namespace) == []
    await history.append(human("1"))
    async with history.turn(on_conflict="raise") as turn:
        await history.append(human("2"))
    assert (turn.version.number, turn.conflict) == (1, None)
    assert texts(await history.load()) == ["1", "2"]


async def test_the_window_of_a_turn_hides_and_does_not_remove(memory: MakeMemory) -> None:
    """R87, T20: the window applies to what is read; saving does not depend on it."""
    one = memory(window=LastMessages(2))
    history = one.history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(5)))
    async with history.turn() as turn:
        assert texts(turn.messages) == ["3", "4"]
        assert positions(turn.messages) == [3, 4]
        turn.add(human("5"))
    async with history.turn(window=LastMessages(1)) as turn:
        assert texts(turn.messages) == ["5"]
        turn.add(human("6"))
    assert turn.conflict is None
    assert await history.count() == 7


async def test_the_messages_of_a_turn_are_a_list_of_its_own(memory: MakeMemory) -> None:
    """R80, T21: what a caller does with the list is not stored."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    async with history.turn() as turn:
        turn.messages.append(human("only for the model"))
        turn.messages.clear()
        assert texts(turn.messages) == ["1"]
        turn.add(human("2"))
    assert texts(await history.load()) == ["1", "2"]


async def test_a_turn_that_was_not_entered_has_no_messages(memory: MakeMemory) -> None:
    """A turn is used with `with`; making one does no I/O and says so when it is misused."""
    turn = memory().history("ann", "c1").turn()
    with pytest.raises(InvalidSetting):
        _ = turn.messages
    with pytest.raises(InvalidSetting):
        _ = turn.version


@pytest.mark.parametrize("policy", ["retry", "", None, True])
async def test_an_unknown_policy_is_refused_before_the_turn_begins(memory: MakeMemory, policy: Any) -> None:
    """Decision 26: append or raise."""
    with pytest.raises(InvalidSetting):
        memory().history("ann", "c1").turn(on_conflict=policy)


async def test_a_turn_entered_again_does_not_store_its_first_messages_again(memory: MakeMemory) -> None:
    """P2: using the object twice is refused, or is a new turn."""
    history = memory().history("ann", "c1")
    turn = history.turn()
    async with turn:
        turn.add(human("1"))
    try:
        async with turn:
            turn.add(human("2"))
    except InvalidSetting:
        assert texts(await history.load()) == ["1"]
    else:
        assert texts(await history.load()) == ["1", "2"]


async def test_a_message_that_cannot_be_stored_stores_no_part_of_the_turn(coded: MakeMemory) -> None:
    """P3, decision 17: refused with its place among the messages of the turn."""
    history = coded().history("ann", "c1")
    bad = ai("2", response_metadata={"big": 2**70})
    turn = history.turn()
    await turn.__aenter__()
    with pytest.raises(InvalidMessage) as caught:
        turn.add(human("1"), bad) or await turn.__aexit__(None, None, None)
    assert (caught.value.position, caught.value.field) == (1, "data.response_metadata.big")
    assert await history.exists() is False


async def test_a_turn_renews_an_expiry_that_is_renewed_by_reads(memory: MakeMemory, keys: Names) -> None:
    """R53: a turn is one read and one write, and both set the end."""
    history = memory(expiry=SlidingExpiry(50, on_read=True)).history("ann", "c1")
    await memory(expiry=SlidingExpiry(20)).history("ann", "c1").append(human("1"))
    assert await history.expire_in() <= 20
    async with history.turn():
        assert await history.expire_in() > 40


async def test_a_raised_conflict_passes_through_the_block(memory: MakeMemory) -> None:
    """Decision 26: a turn can be begun anew with what the error says."""
    history = memory().history("ann", "c1")

    async def answer(meanwhile: str = "") -> None:
        async with history.turn(on_conflict="raise") as turn:
            if meanwhile:
                await history.append(human(meanwhile))
            turn.add(human("1"), ai(f"answer to {len(turn.messages)}"))

    with pytest.raises(ConflictError) as caught:
        await answer(meanwhile="of another worker")
    assert texts(caught.value.unsaved) == ["1", "answer to 0"]
    await answer()
    assert texts(await history.load()) == ["of another worker", "1", "answer to 1"]
