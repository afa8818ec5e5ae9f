"""Tool calls that nobody answered, left out of what a model sees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import InvalidSetting, StoredMessage, UnansweredCall, ai, function, human, system, tool
from memory_redis.toolcalls import check_unanswered, without_unanswered
from tests.unit.strategies import examples


def call(*ids: str) -> StoredMessage:
    return ai("", tool_calls=[{"name": "f", "args": {}, "id": name} for name in ids])


def result(name: str) -> StoredMessage:
    return tool(f"result of {name}", tool_call_id=name)


def dropped(past: list[StoredMessage], new: tuple[StoredMessage, ...] = ()) -> list[StoredMessage]:
    return without_unanswered(past, new, "drop")


WHOLE = [human("1"), call("a", "b"), result("a"), result("b"), ai("2"), human("3")]


def test_what_is_answered_stays() -> None:
    """Decision 24: also across other messages, and with nothing at all."""
    assert dropped(WHOLE) == WHOLE
    assert dropped([]) == []
    apart = [call("a"), human("x"), system("y"), result("a")]
    assert dropped(apart) == apart


CUT: list[tuple[str, list[StoredMessage], list[StoredMessage]]] = [
    ("a call at the end", [human("1"), call("a")], [human("1")]),
    ("a call in the middle", [call("a"), human("1"), ai("2")], [human("1"), ai("2")]),
    ("one result of two", [call("a", "b"), result("b"), ai("2")], [ai("2")]),
    ("the same id again", [call("a"), call("a"), result("a")], [call("a"), result("a")]),
    ("a result before its call", [result("a"), call("a")], [result("a")]),
    ("two calls, one answered", [call("a"), result("a"), call("b")], [call("a"), result("a")]),
    ("a call that was also text", [ai("Let me look", tool_calls=[{"id": "a", "name": "f", "args": {}}])], []),
]


@pytest.mark.parametrize(("past", "left"), [row[1:] for row in CUT], ids=[row[0] for row in CUT])
def test_a_call_without_all_its_results_goes_with_those_that_there_are(
    past: list[StoredMessage], left: list[StoredMessage]
) -> None:
    """E09, E17, decision 24: a provider would refuse it."""
    assert dropped(past) == left


def test_what_is_new_answers_calls_of_the_past() -> None:
    """E09: and is itself never looked at for open calls."""
    assert dropped([call("a")], (result("a"),)) == [call("a")]
    assert dropped([human("1")], (call("b"),)) == [human("1")]
    assert dropped([call("a", "b"), result("a")], (result("b"),)) == [call("a", "b"), result("a")]


def test_calls_in_other_forms_count() -> None:
    """E09: invalid ones, those of the provider, and functions by name."""
    broken = ai("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "a"}])
    raw = ai("", additional_kwargs={"tool_calls": [{"id": "a", "function": {"name": "f"}}]})
    old = ai("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})
    for one, answer in ((broken, result("a")), (raw, result("a")), (old, function("4", name="f"))):
        assert dropped([one, human("x")]) == [human("x")]
        assert dropped([one, answer]) == [one, answer]


def test_a_call_without_an_id_is_left_alone() -> None:
    """E09: nothing could ever answer it by one."""
    odd = ai("", tool_calls=[{"name": "f", "args": {}, "id": None}])
    assert dropped([odd]) == [odd]


def test_everything_can_be_kept() -> None:
    """Decision 24: in a list of its own."""
    past = [call("a")]
    kept = without_unanswered(past, [], "keep")
    assert kept == past
    kept.clear()
    assert past


def test_an_open_call_can_be_an_error() -> None:
    """Decision 24: with their number, and only where there is one."""
    with pytest.raises(UnansweredCall, match=r"^2 "):
        without_unanswered([call("a"), call("b", "c"), result("b")], [], "raise")
    assert without_unanswered(WHOLE, [], "raise") == WHOLE
    assert without_unanswered([call("a")], [result("a")], "raise") == [call("a")]


BAD: list[Any] = ["", "DROP", None, True, ["drop"]]


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_any_other_word_is_refused(value: Any) -> None:
    """Decision 24: drop, keep or raise."""
    with pytest.raises(InvalidSetting):
        check_unanswered(value)


ids = st.sampled_from("abc")
steps = st.one_of(
    st.just(human("h")),
    st.just(ai("answer")),
    st.lists(ids, min_size=1, max_size=3, unique=True).map(lambda names: call(*names)),
    ids.map(result),
)


@given(past=st.lists(steps, max_size=14), new=st.lists(steps, max_size=3))
@examples(400)
def test_nothing_is_open_afterwards_and_nothing_else_is_lost(
    past: list[StoredMessage], new: list[StoredMessage]
) -> None:
    """E09, E17: for any conversation; what is kept is in order, and cutting again changes nothing."""
    kept = dropped(past, tuple(new))
    assert dropped(kept, tuple(new)) == kept
    assert without_unanswered(kept, new, "raise") == kept
    rest = iter(past)
    assert all(any(message is one for one in rest) for message in kept)
    for message in past:
        if message.type in ("human", "system") or (message.type == "ai" and not message.tool_calls):
            assert any(message is one for one in kept)
