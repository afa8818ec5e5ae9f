"""What a wrapper does when others append, or the conversation ends, while the model runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    HistoryCleared,
    TurnReport,
    ai,
    exchanges,
    human,
)
from tests.scenarios.chats import Chats, Script, lines, meanwhile, one_server, streaming
from tests.scenarios.stored import Names
from tests.support.servers import wait_until

pytestmark = [pytest.mark.anyio, one_server, pytest.mark.usefixtures("short_pauses")]


async def test_policy_append_stores_the_turn_after_the_others_and_reports_it(chats: Chats) -> None:
    """T2, T9, decision 26: nobody's message is lost, and the caller can see what the answer had not seen."""
    chats.append(human("0"))
    report = TurnReport()
    ask = chats.wrap(meanwhile(chats, "1", "2"))
    assert await ask("Hi", report=report) == "answer to 2"
    assert chats.said() == ["human: 0", "human: 1", "human: 2", "human: Hi", "ai: answer to 2"]
    assert isinstance(report.conflict, ConflictError)
    assert (report.tries, report.saved, report.error) == (1, True, None)
    assert (report.conflict.outcome, report.conflict.missed_count) == ("stored", 2)
    assert lines(report.missed) == ["human: 1", "human: 2"]
    assert report.version == chats.load().version


async def test_policy_raise_stores_nothing_and_gives_the_answer_with_the_error(chats: Chats) -> None:
    """T9, decision 26: also what was missed, and the messages of the turn."""
    chats.append(human("0"))
    report = TurnReport()
    ask = chats.wrap(meanwhile(chats, "1"), on_conflict="raise")
    with pytest.raises(ConflictError) as caught:
        await ask("Hi", report=report)
    assert caught.value.output == "answer to 2"
    assert caught.value.outcome == "not_stored"
    assert lines(caught.value.missed) == ["human: 1"]
    assert lines(caught.value.unsaved) == ["human: Hi", "ai: answer to 2"]
    assert (report.tries, report.saved, report.version) == (1, False, None)
    assert chats.said() == ["human: 0", "human: 1"]


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_policy_retry_runs_the_model_again_on_what_there_is_now(chats: Chats) -> None:
    """T9, R59, decision 26: the answer that is stored has seen everything, and is stored once."""
    report = TurnReport()
    model = Script(meanwhile(chats, "1"), meanwhile(chats, "2"), "at last")
    ask = chats.wrap(model, on_conflict="retry", max_tries=3)
    assert await ask("Hi", report=report) == "at last"
    assert model.seen == [
        ["human: Hi"],
        ["human: 1", "human: Hi"],
        ["human: 1", "human: 2", "human: Hi"],
    ]
    assert chats.said() == ["human: 1", "human: 2", "human: Hi", "ai: at last"]
    assert (report.tries, report.saved, report.conflict) == (3, True, None)


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
@pytest.mark.parametrize("tries", [1, 2, 5])
async def test_policy_retry_stops_after_max_tries(chats: Chats, tries: int) -> None:
    """Decision 26: the error carries the last answer, and nothing of the turn is stored."""
    report = TurnReport()
    model = Script(*(meanwhile(chats, str(number)) for number in range(tries)))
    ask = chats.wrap(model, on_conflict="retry", max_tries=tries)
    with pytest.raises(ConflictError) as caught:
        await ask("Hi", report=report)
    assert caught.value.output == f"answer to {tries}"
    assert report.tries == len(model.given) == tries
    assert chats.said() == [f"human: {number}" for number in range(tries)]


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_the_pauses_between_two_tries_grow_and_differ(
    chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 26: from nothing up to a bound that doubles, so that workers do not meet again."""
    bounds: list[tuple[float, float]] = []

    def least(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    monkeypatch.setattr(exchanges, "_jitter", SimpleNamespace(uniform=least))
    monkeypatch.setattr(exchanges, "_LONGEST_PAUSE", 0.02)
    model = Script(*(meanwhile(chats, str(number)) for number in range(7)))
    with pytest.raises(ConflictError):
        await chats.wrap(model, on_conflict="retry", max_tries=7)("Hi")
    assert bounds == [(0, longest) for longest in (0.002, 0.004, 0.008, 0.016, 0.02, 0.02)]


@streaming
async def test_a_stream_is_not_run_again_once_something_was_passed_on(chats: Chats) -> None:
    """Decision 26: its reader has half of another answer by then; the error carries the whole one."""
    model = Script(meanwhile(chats, "1"))
    with pytest.raises(ConflictError) as caught:
        await chats.wrap(model, on_conflict="retry", max_tries=5)("Hi")
    assert caught.value.output == "answer to 1"
    assert len(model.given) == 1
    assert chats.said() == ["human: 1"]


@streaming
async def test_a_stream_that_gave_nothing_is_run_again(chats: Chats) -> None:
    """Decision 26: its reader has seen none of it."""

    def nothing(given: Any) -> list[Any]:
        chats.append(human("1"))
        return []

    model = Script(nothing, "ok")
    assert await chats.wrap(model, on_conflict="retry")("Hi") == "ok"
    assert model.seen[1] == ["human: 1", "human: Hi"]
    assert chats.said() == ["human: 1", "human: Hi", "ai: ok"]


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_a_model_that_changes_its_input_is_given_the_true_one_again(chats: Chats) -> None:
    """T21: neither the next try, nor what is stored, nor the caller's message knows of it."""
    question = human("Hi", additional_kwargs={"a": [1]})

    def spoil(given: list[Any]) -> str:
        given[-1].data["content"] = "spoiled"
        given[-1].data["additional_kwargs"]["a"].append(2)
        given.clear()
        chats.append(human("1"))
        return "ok"

    model = Script(spoil, lambda given: given[-1])
    answer = await chats.wrap(model, on_conflict="retry")(question)
    assert answer == question == human("Hi", additional_kwargs={"a": [1]})
    assert chats.load().messages[1:] == [question, question]


async def test_a_caller_that_changes_its_message_meanwhile_changes_nothing(chats: Chats) -> None:
    """T21: what was asked is what is stored, also by a second try."""
    question = human("Hi", additional_kwargs={"a": [1]})
    asked = [question]

    def change(given: Any) -> Any:
        question.data["content"] = "changed"
        question.data["additional_kwargs"]["a"].append(2)
        asked.append(human("more"))
        chats.append(human("other"))
        return []

    await chats.wrap(Script(change, "ok"), on_conflict="retry")(asked)
    assert chats.load().messages[1:] == [human("Hi", additional_kwargs={"a": [1]}), ai("ok")]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_a_conversation_that_was_cleared_meanwhile_stays_cleared(chats: Chats, policy: Any) -> None:
    """T3, decision 2: HistoryCleared under every policy, with the answer; the model is not run again."""
    chats.append(human("0"))

    def clear(given: Any) -> str:
        chats.direct.history("ann", "c1").clear()
        chats.append(human("new"))
        return "answer"

    model, report = Script(clear), TurnReport()
    with pytest.raises(HistoryCleared) as caught:
        await chats.wrap(model, on_conflict=policy, max_tries=5)("Hi", report=report)
    assert report.conflict is caught.value
    assert (report.error is None) == (policy != "append")
    assert caught.value.output == "answer"
    assert lines(caught.value.unsaved) == ["human: Hi", "ai: answer"]
    assert chats.said() == ["human: new"]


async def test_a_conversation_that_ended_meanwhile_begins_anew_with_the_turn(
    chats: Chats, raw: redis.Redis, keys: Names
) -> None:
    """T3, decision 3: of the old messages none is written back; the report says expired."""
    await chats.wrap(Script("a"))("q")

    def wait(given: Any) -> str:
        for key in (keys.messages, keys.meta):
            raw.pexpire(key, 1)
        wait_until(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
        return "answer"

    report = TurnReport()
    await chats.wrap(wait)("Hi", report=report)
    assert chats.said() == ["human: Hi", "ai: answer"]
    assert report.conflict is not None
    assert report.conflict.expired


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_question_that_ended_while_the_model_ran_is_stored_with_its_answer(
    chats: Chats, raw: redis.Redis, keys: Names, key: str | None
) -> None:
    """Decisions 3 and 5, R84: no answer stands alone; under its key the request finds its turn as ever."""

    def end(given: Any) -> str:
        raw.delete(keys.messages, keys.meta)
        return "answer"

    chats.append(human("0"))
    report = TurnReport()
    ask = chats.wrap(Script(end), save_input="before")
    assert await ask("Hi", idempotency_key=key, report=report) == "answer"
    assert chats.said() == ["human: Hi", "ai: answer"]
    assert report.conflict is not None
    assert report.conflict.expired
    assert (report.saved, report.version) == (True, chats.load().version)
    if key is not None:
        assert await ask("Hi", idempotency_key=key) == "answer"
        assert chats.said() == ["human: Hi", "ai: answer"]


@streaming
async def test_a_part_is_kept_behind_a_question_that_ended_with_its_conversation(
    chats: Chats, raw: redis.Redis, keys: Names
) -> None:
    """Decisions 3 and 27, E16: as a whole answer is."""
    stream = chats.start(lambda given: ["one ", "two"], save_input="before", partial="keep")
    await stream.next()
    raw.delete(keys.messages, keys.meta)
    await stream.close()
    assert chats.said() == ["human: Hi", "ai: one "]


async def test_a_question_that_was_cleared_while_the_model_ran_is_not_brought_back(chats: Chats) -> None:
    """T3, decision 2, R84: nor is its answer stored."""

    def clear(given: Any) -> str:
        chats.direct.history("ann", "c1").clear()
        return "answer"

    with pytest.raises(HistoryCleared) as caught:
        await chats.wrap(clear, save_input="before")("Hi")
    assert caught.value.output == "answer"
    assert chats.said() == []


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_a_question_that_ended_with_its_conversation_is_stored_again(
    chats: Chats, raw: redis.Redis, keys: Names
) -> None:
    """T3, decision 3, R84: a retry in the next life leaves no answer without its question."""

    def end(given: Any) -> str:
        raw.delete(keys.messages, keys.meta)
        chats.append(human("new"))
        return "too late"

    model = Script(end, "ok")
    await chats.wrap(model, on_conflict="retry", save_input="before")("Hi")
    assert model.seen[1] == ["human: new", "human: Hi"]
    assert chats.said() == ["human: new", "human: Hi", "ai: ok"]


async def test_appends_by_the_model_itself_are_seen_as_those_of_others(chats: Chats) -> None:
    """T9: a model that stores notes in its own conversation is told so, and loses nothing."""
    report = TurnReport()
    await chats.wrap(meanwhile(chats, "a note"))("Hi", report=report)
    assert lines(report.missed) == ["human: a note"]
    assert chats.said() == ["human: a note", "human: Hi", "ai: answer to 1"]
