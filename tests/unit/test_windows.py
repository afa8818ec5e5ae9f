"""Windows: bounds, and tool results that are never parted from their calls."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    AllMessages,
    InvalidSetting,
    LastMessages,
    StoredMessage,
    ai,
    function,
    human,
    system,
    tool,
    toolcalls,
)
from memory_redis.windows import check_window
from tests.support.ids import shown
from tests.unit.strategies import examples


def call(*ids: str) -> StoredMessage:
    return ai("", tool_calls=[{"name": "f", "args": {}, "id": name} for name in ids])


def result(name: str) -> StoredMessage:
    return tool(f"result of {name}", tool_call_id=name)


def without_orphans(window: list[StoredMessage]) -> list[StoredMessage]:
    return toolcalls.without_orphans(window, toolcalls.ties_of(window))


def texts(messages: list[StoredMessage]) -> list[str]:
    return [f"{message.type}:{message.text}" for message in messages]


CONVERSATION = [human("1"), call("a", "b"), result("a"), result("b"), ai("2"), human("3"), ai("4")]


@pytest.mark.parametrize("count", range(len(CONVERSATION) + 1))
def test_no_window_begins_with_a_result_whose_call_was_cut(count: int) -> None:
    """F13, F14, R119: for every size; a group of parallel calls is shown whole or not at all."""
    window = CONVERSATION[len(CONVERSATION) - count :]
    kept = without_orphans(window)
    assert not kept or kept[0].type != "tool"
    whole = count >= 6
    assert [message for message in kept if message.type == "tool"] == (
        [result("a"), result("b")] if whole else []
    )
    assert [message for message in kept if message.type != "tool"] == [m for m in window if m.type != "tool"]


def test_nothing_is_cut_from_what_is_whole() -> None:
    """F18: empty, without tools, or with every call in sight."""
    assert without_orphans([]) == []
    assert without_orphans([system("s")]) == [system("s")]
    assert without_orphans(CONVERSATION) == CONVERSATION


def test_a_lone_result_is_left_out() -> None:
    """F18: also when it is all there is."""
    assert without_orphans([result("a")]) == []
    assert without_orphans([result("a"), result("b"), human("x")]) == [human("x")]


def test_results_between_other_messages_are_paired_by_id() -> None:
    """F14: parallel calls and interleaved writers; the call of one is no call of the other."""
    window = [result("a"), call("b"), human("x"), result("a"), result("b"), ai("y")]
    assert without_orphans(window) == [call("b"), human("x"), result("b"), ai("y")]


def test_an_id_that_is_used_again_pairs_with_the_call_before_it() -> None:
    """F13: some models count their calls anew in each answer."""
    window = [result("a"), human("x"), call("a"), result("a")]
    assert without_orphans(window) == [human("x"), call("a"), result("a")]


def test_a_call_in_the_raw_form_of_the_provider_counts() -> None:
    """F14: histories of 2023 and 2024 have their calls in additional_kwargs only."""
    raw = ai(
        "", additional_kwargs={"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}]}
    )
    assert without_orphans([raw, result("a")]) == [raw, result("a")]


def test_a_call_that_could_not_be_parsed_counts() -> None:
    """F13: its result is the error that the model has to see."""
    broken = ai("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "a", "error": "no JSON"}])
    assert without_orphans([broken, result("a")]) == [broken, result("a")]


def test_function_results_are_paired_by_name() -> None:
    """F13: the older form of tools; its result is never shown without its call."""
    asked = ai("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})
    answer = function("3", name="f")
    assert without_orphans([asked, answer, ai("x")]) == [asked, answer, ai("x")]
    assert without_orphans([answer, ai("x")]) == [ai("x")]
    assert without_orphans([human("x"), answer]) == [human("x")]
    assert without_orphans([asked, function("3", name="g")]) == [asked]


ODD: list[Any] = [["a"], {"a": 1}, None, 5, 1.5, True, b"a", ""]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_calls_break_no_window(odd: Any) -> None:
    """P10, S1: whatever a record holds for a call's id, name or kwargs, the window is shown."""
    messages = [
        ai("", tool_calls=[{"id": odd}], invalid_tool_calls=[{"id": odd}]),
        ai("", additional_kwargs={"tool_calls": odd, "function_call": odd}),
        ai("", additional_kwargs={"tool_calls": [odd, {"id": odd}], "function_call": {"name": odd}}),
        human("x"),
    ]
    assert without_orphans(messages) == messages


ids = st.sampled_from("abc")
steps = st.one_of(
    st.just(human("h")),
    st.just(ai("answer")),
    st.just(system("s")),
    st.lists(ids, min_size=1, max_size=3, unique=True).map(lambda names: call(*names)),
    ids.map(result),
)


@given(stored=st.lists(steps, max_size=14), count=st.integers(0, 14))
@examples(400)
def test_a_window_of_anything_keeps_all_but_results_without_call(
    stored: list[StoredMessage], count: int
) -> None:
    """R119, F13, F14: for any conversation and any size."""
    window = stored[max(len(stored) - count, 0) :]
    kept = without_orphans(window)
    assert [m for m in kept if m.type != "tool"] == [m for m in window if m.type != "tool"]
    seen: set[str] = set()
    expected = []
    for message in window:
        seen |= {one["id"] for one in message.tool_calls}
        if message.type != "tool" or message.data.get("tool_call_id") in seen:
            expected.append(message)
    assert texts(kept) == texts(expected)
    assert len(kept) <= count


def test_the_messages_given_are_left_alone() -> None:
    """F14: stored data, and the caller's list, are unchanged."""
    window = [result("a"), human("x")]
    kept = without_orphans(window)
    assert len(window) == 2
    kept.append(ai("y"))
    assert len(window) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 10**6, 10**9])
def test_a_count_means_what_it_says(count: int) -> None:
    """F02, F03, decision 21: from none to a milliard."""
    assert LastMessages(count).count == count
    assert check_window(LastMessages(count)) == LastMessages(count)


BAD: list[Any] = [
    -1,
    -5,
    10**9 + 1,
    10**30,
    0.0,
    1.0,
    2.5,
    True,
    False,
    "3",
    "",
    None,
    [3],
    float("nan"),
    float("inf"),
    b"3",
]


@pytest.mark.parametrize("count", BAD, ids=repr)
def test_a_count_that_means_nothing_is_refused(count: Any) -> None:
    """F01, F02: negatives, fractions, truth values, texts, huge ones; a ValueError."""
    with pytest.raises(InvalidSetting) as caught:
        LastMessages(count)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "window", [None, 5, "all", AllMessages, LastMessages, [AllMessages()], object()], ids=shown
)
def test_what_is_no_window_is_refused(window: Any) -> None:
    """A class, a number or None is not taken for one."""
    with pytest.raises(InvalidSetting):
        check_window(window)


def test_windows_are_values() -> None:
    """Equal, hashable and frozen."""
    assert AllMessages() == AllMessages()
    assert {LastMessages(3), LastMessages(3), AllMessages()} == {LastMessages(3), AllMessages()}
    with pytest.raises(dataclasses.FrozenInstanceError):
        LastMessages(3).count = 4  # type: ignore[misc]
    assert repr(LastMessages(3)) == "LastMessages(3)"
