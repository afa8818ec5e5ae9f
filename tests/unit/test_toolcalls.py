"""Where a list of messages can be cut without parting a call from its results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import StoredMessage, ai, function, human, system, tool
from memory_redis.toolcalls import last_safe_cut, safe_cut, ties_of, without_orphans, without_unanswered
from tests.unit.strategies import examples


def call(*ids: str) -> StoredMessage:
    return ai("", tool_calls=[{"name": "f", "args": {}, "id": name} for name in ids])


def result(name: str) -> StoredMessage:
    return tool(f"result of {name}", tool_call_id=name)


H, A = human("h"), ai("a")
OLD = ai("", additional_kwargs={"function_call": {"name": "f"}})
WHOLE = [H, call("a", "b"), result("a"), result("b"), A, H, A]

CUTS: list[tuple[str, list[StoredMessage], list[int]]] = [
    ("nothing", [], [0]),
    ("no tools", [H, A, H], [0, 1, 2, 3]),
    ("parallel calls", WHOLE, [0, 1, 4, 4, 4, 5, 6, 7]),
    ("others between", [call("a"), H, result("a"), A], [0, 3, 3, 3, 4]),
    ("interleaved", [call("a"), call("b"), result("a"), result("b"), A], [0, 4, 4, 4, 4, 5]),
    ("nested", [call("p"), call("s"), result("s"), result("p"), A], [0, 4, 4, 4, 4, 5]),
    ("one after the other", [call("a"), result("a"), call("a"), result("a")], [0, 2, 2, 4, 4]),
    ("answered twice", [call("a"), result("a"), result("a"), A], [0, 3, 3, 3, 4]),
    ("open at the end", [H, call("a")], [0, 1, 1]),
    ("half answered at the end", [H, call("a", "b"), result("b")], [0, 1, 1, 1]),
    ("open, others after it", [H, call("a"), A, call("b"), result("b")], [0, 1, 1, 1, 1, 1]),
    ("open inside an exchange", [H, call("p"), call("s"), result("p")], [0, 1, 1, 1, 1]),
    ("given up", [H, call("a"), H, A], [0, 1, 2, 3, 4]),
    ("given up half answered", [call("a", "b"), result("b"), H, A], [0, 2, 2, 3, 4]),
    ("a result without a call", [result("a"), H], [0, 1, 2]),
    ("functions", [OLD, function("3", name="f")], [0, 2, 2]),
]


@pytest.mark.parametrize(("messages", "places"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
def test_a_cut_moves_on_behind_results_or_back_before_what_may_be_answered(
    messages: list[StoredMessage], places: list[int]
) -> None:
    """Decision 23, E24: from each place of each list; a call that nobody answers after the next question is
    given up."""
    assert [safe_cut(messages, cut) for cut in range(len(messages) + 1)] == places


ids = st.sampled_from("abc")
steps = st.one_of(
    st.just(H),
    st.just(A),
    st.just(system("s")),
    st.lists(ids, min_size=1, max_size=3, unique=True).map(lambda names: call(*names)),
    ids.map(result),
    ids.map(result),
)
conversations = st.lists(steps, max_size=14)


def exchanges(messages: list[StoredMessage]) -> list[tuple[int, set[str], dict[int, str]]]:
    """Each call with its ids, and the places of its results with the id of each."""
    found: list[tuple[int, set[str], dict[int, str]]] = []
    for at, message in enumerate(messages):
        if message.tool_calls:
            found.append((at, {one["id"] for one in message.tool_calls}, {}))
        elif message.type == "tool":
            name = message.data["tool_call_id"]
            askers = [one for one in found if name in one[1]]
            if askers:
                askers[-1][2][at] = name
    return found


@given(messages=conversations, cut=st.integers(0, 14))
@examples(500)
def test_no_cut_parts_what_belongs_together(messages: list[StoredMessage], cut: int) -> None:
    """Decision 23, R119: the nearest place from `cut` on, or the last one before a call that is open."""
    cut = min(cut, len(messages))
    found = exchanges(messages)
    last_human = max((at for at, message in enumerate(messages) if message.type == "human"), default=-1)
    open_calls = [at for at, names, answers in found if at > last_human and names - set(answers.values())]

    def whole(place: int) -> bool:
        return not any(at < place <= max(answers, default=at) for at, _, answers in found)

    edge = min(open_calls, default=len(messages))
    onwards = next(place for place in range(cut, len(messages) + 1) if whole(place))
    expected = onwards if onwards <= edge else max(place for place in range(edge + 1) if whole(place))
    assert safe_cut(messages, cut) == expected
    assert safe_cut(messages, expected) == expected


@given(messages=conversations, cut=st.integers(0, 14))
@examples(500)
def test_the_last_cut_up_to_a_place_is_the_last_that_stays_where_it_is(
    messages: list[StoredMessage], cut: int
) -> None:
    """Decision 23: found at once, as if each place had been tried."""
    cut = min(cut, len(messages))
    assert last_safe_cut(messages, cut) == next(
        at for at in range(cut, -1, -1) if safe_cut(messages, at) == at
    )


@given(messages=conversations)
@examples(300)
def test_results_go_with_their_call(messages: list[StoredMessage]) -> None:
    """E09, decision 24, R119: when a call that nobody answered in full is dropped, no result of it is left
    alone, one that was given twice neither."""
    kept = without_unanswered(without_orphans(messages, ties_of(messages)), [], "drop")
    assert without_orphans(kept, ties_of(kept)) == kept


def test_a_result_that_was_given_twice_goes_with_its_call() -> None:
    """E09: both, although the other call was never answered."""
    assert without_unanswered([call("a", "b"), result("a"), result("a"), H], [], "drop") == [H]
