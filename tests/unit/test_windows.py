"""Windows: what they take, what they amount to, and tool results that are never parted from their calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    AllMessages,
    InvalidSetting,
    LastMessages,
    LastTurns,
    Since,
    StoredMessage,
    TokenBudget,
    TokenCounter,
    Window,
    ai,
    function,
    human,
    system,
    tool,
    toolcalls,
)
from memory_redis.windows import Bounds, check_window
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
@pytest.mark.parametrize("window", [LastMessages, LastTurns, TokenBudget])
def test_a_count_that_means_nothing_is_refused(window: Callable[[Any], Window], count: Any) -> None:
    """F01, F02: negatives, fractions, truth values, texts, huge ones; a ValueError."""
    with pytest.raises(InvalidSetting) as caught:
        window(count)
    assert isinstance(caught.value, ValueError)


def of_each_kind(**common: Any) -> list[Window]:
    """A window of each kind with these keywords."""
    return [
        AllMessages(**common),
        LastMessages(3, **common),
        LastTurns(3, **common),
        TokenBudget(3, **common),
        Since(3, **common),
    ]


KINDS = [type(window).__name__ for window in of_each_kind()]


def made(kind: str, **common: Any) -> Window:
    """A window of one kind with these keywords."""
    return of_each_kind(**common)[KINDS.index(kind)]


@pytest.mark.parametrize(
    "common",
    [
        *({"max_bytes": value} for value in (-1, 2.5, True, "3", [3], 10**12 + 1, float("inf"))),
        *({"keep_system": value} for value in (0, 1, None, "yes", [])),
        *({"start_on": value} for value in ("", "user", "HUMAN", "tool", 5, True, ["human"])),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_common_keyword_that_means_nothing_is_refused(kind: str, common: dict[str, Any]) -> None:
    """F01: by every kind of window, when it is made."""
    with pytest.raises(InvalidSetting):
        made(kind, **common)


@pytest.mark.parametrize("kind", KINDS)
def test_a_common_keyword_means_the_same_in_every_window(kind: str) -> None:
    """Decision 21: also at the ends of what may be asked for."""
    for size in (0, 1, 10**12):
        assert made(kind, max_bytes=size).bounds.text_bytes == size
    for name in ("human", "ai", "system", "chat"):
        assert made(kind, start_on=name).bounds.start_on == name
    assert made(kind, keep_system=True).bounds.keep_system
    nothing = made(kind).bounds
    assert (nothing.text_bytes, nothing.start_on, nothing.keep_system) == (None, None, False)


async def later(message: StoredMessage) -> int:
    return 1


@pytest.mark.parametrize(
    "counter", [None, 5, "approximate", "len", int, TokenCounter, [APPROXIMATE], later], ids=shown
)
def test_what_counts_nothing_is_no_counter(counter: Any) -> None:
    """F01: a class, a name, a coroutine function; when the window is made, not when it is used."""
    with pytest.raises(InvalidSetting):
        TokenBudget(5, counter=counter)


def test_what_can_be_called_is_a_counter() -> None:
    """R118: a function, a method, an object with `__call__`, and a counter with a name."""

    class Counts:
        def __call__(self, message: StoredMessage) -> int:
            return 1

        def method(self, message: StoredMessage) -> int:
            return 2

    for counter in (len, lambda message: 3, Counts(), Counts().method, BYTES_4):
        assert TokenBudget(5, counter=counter).bounds.counter is counter
    assert TokenBudget(5).bounds.counter is APPROXIMATE


@pytest.mark.parametrize("oldest", [0, 1, None, "yes"])
def test_oldest_is_true_or_false(oldest: Any) -> None:
    """F01: nothing that only counts as true."""
    with pytest.raises(InvalidSetting):
        TokenBudget(5, oldest=oldest)


@pytest.mark.parametrize(
    "duration",
    [0, -1, 0.0001, True, "3", None, float("nan"), float("inf"), timedelta(0), timedelta(days=365 * 101)],
    ids=repr,
)
def test_a_duration_that_means_nothing_is_refused(duration: Any) -> None:
    """F01: none, nothing, negative, too short or too long to be told in ms, and what is no number."""
    with pytest.raises(InvalidSetting):
        Since(duration)


def test_a_duration_can_be_said_in_one_way_at_a_time() -> None:
    """F01: in seconds, by parts, or as a timedelta."""
    same = [Since(5400), Since(hours=1, minutes=30), Since(timedelta(minutes=90)), Since(hours=1.5)]
    assert set(same) == {same[0]}
    assert same[0].bounds.age_ms == 5_400_000
    with pytest.raises(InvalidSetting):
        Since(5, minutes=1)
    with pytest.raises(InvalidSetting):
        Since(days=-1)


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


def test_combined_windows_are_within_the_limits_of_each() -> None:
    """Decision 21: the smaller of two limits; a keyword of one holds for all."""
    first = LastMessages(5, keep_system=True) & TokenBudget(100, start_on="human", max_bytes=50)
    both = first & LastTurns(2) & Since(60) & TokenBudget(80, max_bytes=70) & LastMessages(9)
    assert both.bounds == Bounds(
        messages=5,
        turns=2,
        tokens=80,
        counter=APPROXIMATE,
        age_ms=60_000,
        text_bytes=50,
        keep_system=True,
        start_on="human",
    )
    assert (both.keep_system, both.start_on, both.max_bytes) == (True, "human", 50)
    assert check_window(both) is both


def test_a_combination_is_a_value_that_says_what_it_is_made_of() -> None:
    """Equal to the same one, hashable, flat, and written as it is in code."""
    both = LastTurns(10) & TokenBudget(4000, keep_system=True) & Since(minutes=1)
    assert repr(both) == (
        "LastTurns(10) & TokenBudget(4000, keep_system=True) & Since(datetime.timedelta(seconds=60))"
    )
    assert both == LastTurns(10) & (TokenBudget(4000, keep_system=True) & Since(60))
    assert hash(both) == hash(LastTurns(10) & TokenBudget(4000, keep_system=True) & Since(60))
    assert both != LastTurns(10) & TokenBudget(4000) & Since(60)


def test_everything_combined_with_a_window_is_that_window() -> None:
    """What limits nothing changes nothing, in either order; a number of messages stays a plain range."""
    for window in of_each_kind():
        assert (AllMessages() & window).bounds == (window & AllMessages()).bounds == window.bounds
    assert (AllMessages() & LastMessages(3)).bounds.plain
    assert not (LastTurns(3) & LastMessages(3)).bounds.plain


def test_what_cannot_hold_at_once_is_refused() -> None:
    """F01: two counters of one budget, two types to start on; when they are combined."""
    with pytest.raises(InvalidSetting, match="counter"):
        TokenBudget(5) & TokenBudget(5, BYTES_4)
    with pytest.raises(InvalidSetting, match="start_on"):
        LastTurns(5, start_on="human") & LastMessages(5, start_on="ai")
    with pytest.raises(TypeError):
        LastMessages(5) & 5  # type: ignore[operator]


def test_counters_of_one_name_are_one_counter() -> None:
    """R118: a counter that was made twice, as in two modules, can be combined with itself."""
    again = TokenCounter("words", lambda message: 2)
    both = TokenBudget(5, TokenCounter("words", lambda message: 1)) & TokenBudget(3, again)
    assert both.bounds.tokens == 3
    assert TokenBudget(5, again) == TokenBudget(5, TokenCounter("words", len))
    assert TokenBudget(5, again) != TokenBudget(5, TokenCounter("tokens", len))


def test_a_window_of_the_oldest_stands_alone() -> None:
    """R100: it has another end, so that no other limit of an end goes with it."""
    first = TokenBudget(5, oldest=True)
    for window in (LastMessages(3), LastTurns(3), TokenBudget(5), Since(5), AllMessages(keep_system=True)):
        for left, right in ((first, window), (window, first)):
            with pytest.raises(InvalidSetting):
                left & right
    assert (first & AllMessages()).bounds == first.bounds
    with pytest.raises(InvalidSetting):
        TokenBudget(5, oldest=True, start_on="human")
