"""Reading a history page by page while others change it."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from memory_redis import ConflictError, InvalidSetting, MaxMessages, SlidingExpiry, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, positions, texts

pytestmark = pytest.mark.anyio


async def filled(history: Any, count: int) -> Any:
    """The history, with `count` messages more."""
    await history.append(*(human(str(number)) for number in range(count)))
    return history


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 500])
async def test_pages_give_every_message_once_in_order(coded: MakeMemory, size: int) -> None:
    """I04: whatever the size of the pages is to the number of messages."""
    history = await filled(coded().history("ann", "c1"), 7)
    messages = [message async for message in history.iterate(page_size=size)]
    assert texts(messages) == [str(number) for number in range(7)]
    assert positions(messages) == list(range(7))
    assert all(message.stored_at is not None for message in messages)


@pytest.mark.parametrize("size", [0, -1, 10_001, None, True, 2.0])
async def test_a_page_size_that_cannot_be_meant_is_refused(memory: MakeMemory, size: Any) -> None:
    """Decision 7: before anything is sent."""
    with pytest.raises(InvalidSetting):
        memory().history("ann", "c1").iterate(page_size=size)


async def test_messages_that_come_meanwhile_are_read_too(memory: MakeMemory) -> None:
    """P6: an append during the iteration neither shifts nor repeats anything."""
    history = await filled(memory().history("ann", "c1"), 6)
    seen: list[str] = []
    async for message in history.iterate(page_size=2):
        seen.append(message.text)
        if len(seen) <= 5:
            await history.append(human(f"new {len(seen)}"))
    assert seen == [*(str(number) for number in range(6)), *(f"new {number}" for number in range(1, 6))]


async def test_messages_that_are_trimmed_meanwhile_are_left_out(memory: MakeMemory) -> None:
    """P6: a trim shifts the list, not the positions; nothing is read twice."""
    one = memory(retention=MaxMessages(8))
    history = await filled(one.history("ann", "c1"), 8)
    seen: list[Any] = []
    async for message in history.iterate(page_size=3):
        seen.append(message)
        if len(seen) == 3:
            await history.append(*(human(f"new {number}") for number in range(6)))
    assert positions(seen) == [0, 1, 2, 6, 7, *range(8, 14)]
    assert texts(seen)[-6:] == [f"new {number}" for number in range(6)]


async def test_a_small_trim_behind_the_reader_goes_unnoticed(memory: MakeMemory) -> None:
    """P6: what was read already may go."""
    history = await filled(memory(retention=MaxMessages(10)).history("ann", "c1"), 10)
    seen: list[Any] = []
    async for message in history.iterate(page_size=5):
        seen.append(message)
        if len(seen) == 5:
            await history.append(human("new 1"), human("new 2"))
    assert positions(seen) == list(range(12))


@pytest.mark.parametrize("refilled", [False, True])
async def test_a_clear_meanwhile_is_an_error_not_a_mixture(memory: MakeMemory, refilled: bool) -> None:
    """P6, P7: pages of two different contents are never joined."""
    history = await filled(memory().history("ann", "c1"), 6)
    seen: list[str] = []

    async def read() -> None:
        async for message in history.iterate(page_size=2):
            seen.append(message.text)
            if len(seen) == 2:
                await history.clear()
                if refilled:
                    await filled(history, 9)

    with pytest.raises(ConflictError) as caught:
        await read()
    assert seen == ["0", "1"]
    assert caught.value.edited or caught.value.expired


async def test_an_end_meanwhile_is_an_error_not_a_short_history(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P7: a history that expired half-way is told apart from one that was read to its end."""
    history = await filled(memory(expiry=SlidingExpiry(0.1)).history("ann", "c1"), 6)
    reader = aiter(history.iterate(page_size=2))
    assert [(await anext(reader)).text for _ in range(2)] == ["0", "1"]
    await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
    with pytest.raises(ConflictError) as caught:
        await anext(reader)
    assert caught.value.expired


async def test_an_iteration_sends_nothing_before_it_is_begun(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """I04: making one does no I/O, and it reads what is there when it begins."""
    history = memory().history("ann", "c1")
    pages = history.iterate()
    await history.append(human("1"))
    assert [message.text async for message in pages] == ["1"]
