"""How much one append may hold: all of it is stored, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import ConflictError, InvalidMessage, LastMessages, Limits, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import call, positions, result, texts

pytestmark = pytest.mark.anyio


async def test_a_thousand_messages_are_one_append(coded: MakeMemory) -> None:
    """P4, S4, decision 16: the limit itself is allowed."""
    history = coded().history("ann", "c1")
    version = await history.append(*(human(str(number)) for number in range(1000)))
    snapshot = await history.load()
    assert version.number == 1000
    assert texts(snapshot) == [str(number) for number in range(1000)]
    assert positions(snapshot) == list(range(1000))


async def test_twenty_thousand_messages_are_one_append_where_that_is_allowed(memory: MakeMemory) -> None:
    """Case 3.3, P4: the script takes batches of any size, and the version counts each message."""
    limits = Limits(append_messages=20_000)
    history = memory(limits=limits).history("ann", "c1")
    seen = await history.append(human("first"))
    version = await history.append(*(human(str(number)) for number in range(20_000)))
    assert version.number == 20_001
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert caught.value.missed_count == 20_000
    messages = (await history.load()).messages
    assert texts(messages) == ["first", *(str(number) for number in range(20_000))]
    assert positions(messages) == list(range(20_001))


async def test_one_message_too_many_stores_none(memory: MakeMemory) -> None:
    """S4, P3: an append above the limit is refused before it is sent."""
    history = memory(limits=Limits(append_messages=3)).history("ann", "c1")
    with pytest.raises(InvalidMessage) as caught:
        await history.append(*(human("x") for _ in range(4)))
    assert caught.value.outcome == "not_stored"
    assert await history.exists() is False
    await history.append(*(human("x") for _ in range(3)))


async def test_bytes_above_a_limit_store_nothing(coded: MakeMemory) -> None:
    """S4, decision 16: of one message, with its position, and of all together."""
    history = coded(limits=Limits(record_bytes=2000, append_bytes=5000)).history("ann", "c1")
    with pytest.raises(InvalidMessage) as caught:
        await history.append(human("small"), human("x" * 2000))
    assert caught.value.position == 1
    with pytest.raises(InvalidMessage):
        await history.append(*(human("x" * 1500) for _ in range(4)))
    assert await history.exists() is False
    await history.append(*(human("x" * 1500) for _ in range(3)))


async def test_one_bad_message_among_good_ones_stores_none(coded: MakeMemory) -> None:
    """P3, P4, C07: the error names the message and the field, and none of the others is stored."""
    history = coded().history("ann", "c1")
    bad = human("2", additional_kwargs={"when": {1, 2}})
    with pytest.raises(InvalidMessage) as caught:
        await history.append(human("1"), bad, human("3"))
    assert (caught.value.position, caught.value.field) == (1, "data.additional_kwargs.when")
    with pytest.raises(InvalidMessage):
        await history.append(human("1"), "text")
    assert await history.exists() is False


IDS = [f"c{number}" for number in range(255)]


async def test_two_hundred_and_fifty_five_tool_calls_stand_in_one_message(coded: MakeMemory) -> None:
    """Promise 3: the most that a message may call are shown with every one of their results."""
    history = coded().history("ann", "c1")
    await history.append(human("q"), call(*IDS), *map(result, IDS), ai("done"))
    assert len((await history.load(LastMessages(1000))).messages) == 258


async def test_more_tool_calls_than_a_record_can_be_tied_by_are_refused(coded: MakeMemory) -> None:
    """Promise 3, S4: by an append and by a turn, before anything is sent; an exchange would be torn apart."""
    history = coded().history("ann", "c1")
    older = {"tool_calls": [{"id": "c255", "function": {"name": "look", "arguments": "{}"}}]}
    for message in (call(*IDS, "c255"), call(*IDS).model_copy(update={"data": mixed(older)})):
        with pytest.raises(InvalidMessage, match="at most 255 tool calls") as caught:
            await history.append(human("q"), message)
        assert (caught.value.position, caught.value.outcome) == (1, "not_stored")
        async with history.turn() as turn:
            with pytest.raises(InvalidMessage, match="at most 255 tool calls"):
                turn.add(human("q"), message)
    assert await history.exists() is False


def mixed(older: dict[str, Any]) -> dict[str, Any]:
    """The data of a message that calls in both forms: LangChain's, and OpenAI's."""
    return {**call(*IDS).data, "additional_kwargs": older}
