"""Which messages a load returns."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import AllMessages, InvalidSetting, LastMessages, MaxMessages, ai, function, human, system
from tests.conftest import MakeMemory
from tests.scenarios.stored import call, orphans, positions, result, texts

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10**9])
async def test_the_last_n_messages_are_n_messages(coded: MakeMemory, count: int) -> None:
    """F02, R90: none, the newest, all but one, all, and more than there are."""
    history = coded().history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(5)))
    snapshot = await history.load(LastMessages(count))
    expected = list(range(5))[max(5 - count, 0) :]
    assert texts(snapshot) == [str(number) for number in expected]
    assert positions(snapshot) == expected
    assert snapshot.version.number == 5
    assert snapshot.version == (await history.load()).version
    assert await history.count() == 5


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
async def test_a_window_set_on_the_memory_applies_to_every_load(memory: MakeMemory, count: int) -> None:
    """F03: exactly min(count, stored) messages; a window of the call wins."""
    history = memory(window=LastMessages(count)).history("ann", "c1")
    assert (await history.load()).messages == []
    for number in range(4):
        await history.append(human(str(number)))
    assert texts(await history.load()) == ["0", "1", "2", "3"][-count:]
    assert texts(await history.load(AllMessages())) == ["0", "1", "2", "3"]
    assert texts(await history.load(window=LastMessages(1))) == ["3"]


@pytest.mark.parametrize("count", [-1, -5, None, True, "3", 1.0, 10**9 + 1])
async def test_a_number_that_cannot_be_meant_is_refused(memory: MakeMemory, count: Any) -> None:
    """F01, decision 7: negative, huge, and what is no integer, for windows and for retention."""
    for make in (LastMessages, MaxMessages):
        with pytest.raises(InvalidSetting):
            make(count)
    with pytest.raises(InvalidSetting):
        memory(window=count if count is not None else 3)
    with pytest.raises(InvalidSetting):
        await memory().history("ann", "c1").load(window=count if count is not None else 3)


@pytest.mark.parametrize("count", range(9))
async def test_no_window_begins_with_a_result_without_its_call(coded: MakeMemory, count: int) -> None:
    """F13, R119, decision 21: human, call of two, both results, answers; for every size."""
    messages = [human("q"), call("a", "b"), result("a"), result("b"), ai("r"), human("q2"), ai("r2")]
    history = coded().history("ann", "c1")
    await history.append(*messages)
    loaded = (await history.load(LastMessages(count))).messages
    assert len(loaded) <= count
    assert orphans(loaded) == []
    assert loaded == messages[len(messages) - len(loaded) :]
    # a cut inside the exchange moves on to its end, and no further
    assert len(loaded) == {4: 3, 5: 3, 8: 7}.get(count, count)
    assert (await history.load()).messages == messages


async def test_results_of_a_cut_call_go_wherever_they_stand(coded: MakeMemory) -> None:
    """F14: other workers' messages between a call and its results stay, the results do not."""
    history = coded().history("ann", "c1")
    await history.append(call("a", "b"))
    await history.append(human("of another worker"), result("a"))
    await history.append(call("c"), result("b"), result("c"), ai("done"))
    assert texts(await history.load(LastMessages(6))) == ["of another worker", "", "result of c", "done"]
    assert texts(await history.load(LastMessages(4))) == ["", "result of c", "done"]
    assert len((await history.load(LastMessages(7))).messages) == 7


async def test_calls_inside_calls_are_kept_or_dropped_as_wholes(coded: MakeMemory) -> None:
    """F14: a sub-agent's exchange inside the parent's, at every size."""
    messages = [
        human("q"),
        call("p"),
        call("s1"),
        result("s1"),
        call("s2"),
        result("s2"),
        result("p"),
        ai("r"),
    ]
    history = coded().history("ann", "c1")
    await history.append(*messages)
    for count in range(10):
        loaded = (await history.load(LastMessages(count))).messages
        assert orphans(loaded) == []
        assert loaded == [message for message in messages if message in loaded]
        assert not loaded or loaded[0].type != "tool"
    assert texts(await history.load(LastMessages(4))) == ["", "result of s2", "r"]


async def test_a_function_result_does_not_begin_a_window(coded: MakeMemory) -> None:
    """F13: the older form of a tool exchange is kept together too."""
    history = coded().history("ann", "c1")
    asking = ai("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})
    await history.append(human("q"), asking, function("4", name="f"), ai("r"))
    assert texts(await history.load(LastMessages(2))) == ["r"]
    assert texts(await history.load(LastMessages(3))) == ["", "4", "r"]


async def test_a_window_splits_no_message(coded: MakeMemory) -> None:
    """E24: the blocks of one message come together, at every cut."""
    blocks = [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "a"},
    ]
    history = coded().history("ann", "c1")
    await history.append(human("1"), ai(blocks), human("2"))
    for count in (2, 3):
        assert (await history.load(LastMessages(count))).messages[-2].content == blocks


@pytest.mark.parametrize("window", [AllMessages(), LastMessages(0), LastMessages(1), LastMessages(10**9)])
async def test_every_window_takes_an_empty_history_and_a_lone_message(
    memory: MakeMemory, window: Any
) -> None:
    """F18: no exception, and nothing invented."""
    history = memory(window=window).history("ann", "c1")
    assert (await history.load()).messages == []
    await history.append(system("be kind"))
    assert texts(await history.load()) == ([] if window == LastMessages(0) else ["be kind"])


async def test_a_window_of_a_trimmed_history_ends_with_the_newest(memory: MakeMemory) -> None:
    """A04, A01: positions go on counting from the first message ever appended."""
    history = memory(retention=MaxMessages(4)).history("ann", "c1")
    for number in range(10):
        await history.append(human(str(number)))
    for count in range(7):
        snapshot = await history.load(LastMessages(count))
        assert positions(snapshot) == list(range(6, 10))[max(4 - count, 0) :]
        assert snapshot.trimmed == 6
