"""Wrapped models over damaged conversations, and answers that cannot be stored."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    HistoryCleared,
    HistoryNotSaved,
    InvalidAnswer,
    InvalidMessage,
    Limits,
    TurnReport,
    UnansweredCall,
    Version,
    ai,
    human,
    tool,
)
from memory_redis.telemetry import Event
from tests.scenarios.chats import Chats, Script, lines, meanwhile, one_server
from tests.scenarios.stored import Names, call, result

pytestmark = [pytest.mark.anyio, one_server]

# -- calls that nobody answered ------------------------------------------------------------------

OPEN = [human("q"), call("a", "b"), result("a"), human("r")]


@pytest.mark.parametrize(
    ("rules", "seen"),
    [({}, ["human: q", "human: r"]), ({"unanswered": "keep"}, lines(OPEN))],
    ids=["drop", "keep"],
)
async def test_a_stored_call_without_all_its_results_is_left_out(
    chats: Chats, rules: Any, seen: list[str]
) -> None:
    """E09, E17, decision 24: from what the model sees, with such results as there are; not from the store."""
    chats.append(*OPEN)
    model = Script("ok")
    await chats.wrap(model, **rules)("Hi")
    assert model.seen == [[*seen, "human: Hi"]]
    assert chats.said()[:4] == lines(OPEN)


@pytest.mark.parametrize("rules", [{}, {"save_input": "before"}], ids=["after", "before"])
async def test_a_call_without_result_can_stop_the_turn(chats: Chats, rules: Any) -> None:
    """E09, E17, decision 24: before the model runs and before anything is stored."""
    chats.append(*OPEN)
    with pytest.raises(UnansweredCall) as caught:
        await chats.wrap(Script(), unanswered="raise", **rules)("Hi")
    assert caught.value.outcome == "not_stored"
    assert chats.said() == lines(OPEN)


async def test_a_call_that_the_input_answers_is_no_open_one(chats: Chats) -> None:
    """E09, decision 24: under no setting."""
    chats.append(human("q"), call("a"))
    model = Script("ok")
    await chats.wrap(model, unanswered="raise")([tool("late", tool_call_id="a")])
    assert model.seen == [["human: q", "ai: ", "tool: late"]]


# -- what is on disk is damaged ------------------------------------------------------------------


async def test_a_damaged_record_stops_no_chat(chats: Chats, raw: redis.Redis, keys: Names) -> None:
    """Decision 19: it is left out and told to the hooks, unless the wrapper was told to raise."""
    chats.append(human("1"), human("2"), human("3"))
    raw.lset(keys.messages, 1, b"damaged")
    events: list[Event] = []
    memory = chats.memory(hooks=(events.append,))
    model = Script("ok")
    await chats.wrap(model, memory)("Hi")
    assert model.seen == [["human: 1", "human: 3", "human: Hi"]]
    assert [event.messages for event in events if event.kind == "corrupt"] == [1]
    with pytest.raises(Exception, match="record 1"):
        await chats.wrap(Script(), memory, on_corrupt="raise")("Hi")


# -- the answer cannot be stored -----------------------------------------------------------------

SMALL = Limits(record_bytes=200)
LARGE = "x" * 1000


async def test_an_answer_too_large_to_store_is_raised_and_not_lost(chats: Chats) -> None:
    """T1, decision 17: the error carries it and says what is too large; nothing is stored."""
    report = TurnReport()
    with pytest.raises(InvalidAnswer) as caught:
        await chats.wrap(Script(LARGE), chats.memory(limits=SMALL))("Hi", report=report)
    assert caught.value.output == LARGE
    assert isinstance(caught.value.error, InvalidMessage)
    assert caught.value.__cause__ is caught.value.error
    assert (report.saved, report.error) == (False, caught.value)
    assert chats.said() == []


async def test_an_input_too_large_to_store_is_refused_before_the_model_runs(chats: Chats) -> None:
    """R37, T17, decision 16: with its place."""
    with pytest.raises(InvalidMessage) as caught:
        await chats.wrap(Script(), chats.memory(limits=SMALL))(["Hi", LARGE])
    assert caught.value.position == 1
    assert chats.said() == []


async def test_an_answer_that_fits_only_without_its_question_is_not_stored(chats: Chats) -> None:
    """T1, T8: a turn is stored whole or not at all, also where only the sum is too large."""
    memory = chats.memory(limits=Limits(append_messages=3))
    with pytest.raises(HistoryNotSaved) as caught:
        await chats.wrap(Script([ai("c"), ai("d")]), memory)(["a", "b"])
    assert caught.value.output == [ai("c"), ai("d")]
    assert chats.said() == []


async def test_a_failed_save_can_be_logged(chats: Chats, caplog: pytest.LogCaptureFixture) -> None:
    """T1: the answer is given, the report has the error; nothing is stored, and no content is logged."""
    report = TurnReport()
    memory = chats.memory(limits=SMALL)
    assert await chats.wrap(Script(LARGE), memory, on_save_error="log")("my secret", report=report) == LARGE
    assert isinstance(report.error, InvalidAnswer)
    assert report.error.output == LARGE
    assert not report.saved
    assert "a turn was not saved" in caplog.text
    assert "secret" not in caplog.text
    assert "xxx" not in caplog.text
    assert chats.said() == []


async def test_the_names_in_an_answer_that_cannot_be_stored_are_not_logged(
    chats: Chats, caplog: pytest.LogCaptureFixture
) -> None:
    """S6, P12: the names of a tool call's arguments are the model's words; the error has the whole path."""
    answer = ai("", tool_calls=[{"name": "pay", "args": {"my secret": [1, {2}]}, "id": "1"}])
    report = TurnReport()
    await chats.wrap(Script([answer]), on_save_error="log")("Hi", report=report)
    assert "message 0: data.tool_calls.0.args.….1: a value of type set cannot be stored" in caplog.text
    assert "secret" not in caplog.text
    assert isinstance(report.error, InvalidAnswer)
    assert isinstance(report.error.error, InvalidMessage)
    assert report.error.error.field == "data.tool_calls.0.args.my secret.1"


async def test_a_failed_save_can_be_told_to_a_function(chats: Chats) -> None:
    """T1: it gets the error with the answer, which is given back all the same, and nothing is stored."""
    told: list[HistoryNotSaved] = []
    ask = chats.wrap(Script(5), on_save_error=told.append)
    assert await ask("Hi") == 5
    [error] = told
    assert (error.output, error.outcome) == (5, "not_stored")
    assert chats.said() == []


async def test_a_clear_meanwhile_is_a_failed_save_where_those_are_logged(chats: Chats) -> None:
    """T1, T3: the answer is given back, and the conversation stays cleared."""
    chats.append(human("0"))

    def clear(given: Any) -> str:
        chats.direct.history("ann", "c1").clear()
        return "answer"

    told: list[HistoryNotSaved] = []
    assert await chats.wrap(clear, on_save_error=told.append)("Hi") == "answer"
    assert isinstance(told[0].error, HistoryCleared)
    assert chats.said() == []


@pytest.mark.parametrize("policy", ["raise", "retry"])
async def test_conflicts_are_raised_where_failed_saves_are_logged(chats: Chats, policy: Any) -> None:
    """T9: who asks for conflicts gets them."""
    ask = chats.wrap(meanwhile(chats, "1"), on_conflict=policy, max_tries=1, on_save_error="log")
    with pytest.raises(ConflictError):
        await ask("Hi")
    assert chats.said() == ["human: 1"]


async def test_a_hook_that_raises_fails_no_turn(chats: Chats, caplog: pytest.LogCaptureFixture) -> None:
    """Decision 27: it is logged, without what it raised."""

    def hook(event: Event) -> None:
        raise RuntimeError("secret of a hook")

    memory = chats.memory(hooks=(hook,))
    assert await chats.wrap(meanwhile(chats, "1"), memory)("Hi") == "answer to 1"
    assert chats.said() == ["human: 1", "human: Hi", "ai: answer to 1"]
    assert "hook failed on" in caplog.text
    assert "secret" not in caplog.text


async def test_a_report_of_a_turn_that_was_refused_says_nothing_is_stored(chats: Chats) -> None:
    """T9: it was not, and it is not said to be."""
    report = TurnReport()
    with pytest.raises(ConflictError):
        await chats.wrap(meanwhile(chats, "1"), on_conflict="raise")("Hi", report=report)
    assert (report.saved, report.repeated, report.version) == (False, False, None)
    assert report.version != Version()
