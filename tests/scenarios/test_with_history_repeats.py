"""Requests that are sent twice: one idempotency key, one stored turn, one answer."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from typing import Any

import pytest

from memory_redis import (
    ConflictError,
    InvalidAnswer,
    InvalidMessage,
    LastMessages,
    MaxMessages,
    RedisMemory,
    TurnAlreadyStored,
    TurnReport,
    ai,
    human,
    tool,
    with_history,
)
from tests.scenarios.chats import Chats, Script, lines, one_server, streaming
from tests.scenarios.stored import call, result

pytestmark = [pytest.mark.anyio, one_server]

called = pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)


async def test_a_request_sent_twice_runs_the_model_once(chats: Chats) -> None:
    """Decision 5: the second call gives the stored answer, in any worker, whatever came between."""
    first, second = TurnReport(), TurnReport()
    assert await chats.wrap(Script("Hello"))("Hi", idempotency_key="k", report=first) == "Hello"
    chats.append(human("of another"))
    ask = chats.wrap(Script(), window=LastMessages(1))
    assert await ask("Hi", idempotency_key="k", report=second) == "Hello"
    assert chats.said() == ["human: Hi", "ai: Hello", "human: of another"]
    assert (first.tries, first.repeated) == (1, False)
    assert (second.tries, second.repeated, second.saved) == (0, True, True)
    assert second.version == chats.load().version


async def test_the_first_input_under_a_key_counts(chats: Chats) -> None:
    """Decision 5: another input gets the answer to the first, and is not stored."""
    ask = chats.wrap(Script("Hello"))
    await ask(["Hi", "there"], idempotency_key="k")
    for other in ("Something else", ["a", "b", "c"], [], tool("x", tool_call_id="x")):
        assert await ask(other, idempotency_key="k") == "Hello"
    assert len(chats.said()) == 3


async def test_results_of_tools_that_are_sent_twice_are_no_part_of_the_answer(chats: Chats) -> None:
    """Decision 5, R35: also where the second ones differ from the first."""
    chats.append(human("q"), call("a"))
    ask = chats.wrap(Script("It is late"))
    await ask(tool("late", tool_call_id="a"), idempotency_key="k")
    assert await ask(tool("very late", tool_call_id="a"), idempotency_key="k") == "It is late"


async def test_a_key_belongs_to_one_conversation(chats: Chats) -> None:
    """Decision 5: other conversations may use it."""
    ask = chats.wrap(Script("a", "b", "c"))
    answers = [await ask("Hi", user_id="ann", conversation_id=c, idempotency_key="k") for c in ("1", "2")]
    answers.append(await ask("Hi", session="1", idempotency_key="k"))
    assert answers == ["a", "b", "c"]


async def test_a_turn_that_failed_has_not_used_its_key(chats: Chats) -> None:
    """R54, decision 5: neither a model that raised, nor an answer that could not be stored."""
    model = Script(RuntimeError("overloaded"), 5, "Hello")
    ask = chats.wrap(model)
    for error in (RuntimeError, InvalidAnswer):
        with pytest.raises(error):
            await ask("Hi", idempotency_key="k")
    assert await ask("Hi", idempotency_key="k") == "Hello"
    assert model.seen == [["human: Hi"]] * 3


@called
async def test_a_key_and_a_retry_store_one_turn(chats: Chats) -> None:
    """R59, decision 5: a try that met a conflict has not used the key."""

    def interrupted(given: Any) -> str:
        chats.append(human("1"))
        return "too early"

    ask = chats.wrap(Script(interrupted, "Hello"), on_conflict="retry")
    assert [await ask("Hi", idempotency_key="k") for _ in range(2)] == ["Hello"] * 2
    assert chats.said() == ["human: 1", "human: Hi", "ai: Hello"]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_calls_that_overlap_under_a_key_store_one_answer(chats: Chats, policy: Any) -> None:
    """Decision 5, T9: both may run the model; both give the stored answer, where it was not yet streamed."""

    def overtaken(given: Any) -> str:
        chats.direct.history("ann", "c1").append(human("Hi"), ai("first"), idempotency_key="k")
        return "second"

    report = TurnReport()
    answer = await chats.wrap(overtaken, on_conflict=policy)("Hi", idempotency_key="k", report=report)
    assert answer == ("second" if chats.streams else "first")
    assert (report.repeated, report.saved, report.tries) == (True, True, 1)
    assert chats.said() == ["human: Hi", "ai: first"]


async def test_a_turn_whose_messages_are_gone_is_not_answered_again(chats: Chats) -> None:
    """Decision 5, T3: trimmed or cleared, the model is not run and nothing is brought back."""
    memory = chats.memory(retention=MaxMessages(3))
    ask = chats.wrap(Script("Hello", "Hello"), memory)
    for conversation, clear in (("c1", False), ("c2", True)):
        names = {"user_id": "ann", "conversation_id": conversation}
        await ask("Hi", **names, idempotency_key="k")
        history = chats.direct.history("ann", conversation)
        if clear:
            history.clear()
        else:
            RedisMemory.from_url(chats.url, namespace=chats.namespace, retention=MaxMessages(3)).history(
                "ann", conversation
            ).append(*map(human, "abc"))
        before = chats.said("ann", conversation)
        with pytest.raises(TurnAlreadyStored) as caught:
            await ask("Hi", **names, idempotency_key="k")
        assert caught.value.outcome == "stored"
        assert chats.said("ann", conversation) == before


# -- the form of the stored answer ---------------------------------------------------------------

FORMS: list[tuple[str, Any, Any]] = [
    ("a text", "Hello", "Hello"),
    ("an empty text", "", ""),
    ("a message with more than text", ai("Hello", id="m1"), ai("Hello", id="m1")),
    ("a message of another kind", human("I am you"), human("I am you")),
    ("messages", [call("a"), result("a"), ai("Done")], [call("a"), result("a"), ai("Done")]),
    ("nothing", [], []),
]


@pytest.mark.parametrize(("output", "again"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
async def test_the_stored_answer_comes_in_the_form_of_the_first(
    chats: Chats, output: Any, again: Any
) -> None:
    """Decision 5, R51: text as text, messages as messages, a list as a list; a stream's chunks alike."""
    ask = chats.wrap(Script(output))
    assert await ask("Hi", idempotency_key="k") == output
    assert await ask("Hi", idempotency_key="k") == again


async def test_the_stored_answer_comes_under_the_key_of_answers(chats: Chats) -> None:
    """Decision 5, R46: what was not stored is not there."""
    ask = chats.wrap(Script({"answer": "Hello", "sources": ["a"]}), output_messages_key="answer")
    await ask("Hi", idempotency_key="k")
    assert await ask("Hi", idempotency_key="k") == {"answer": "Hello"}


@streaming
async def test_a_stored_answer_of_several_messages_is_streamed_by_messages(chats: Chats) -> None:
    """Decision 5, R45: as they were the first time."""

    def model(given: Any) -> Iterator[Any]:
        yield from (call("a"), result("a"), ai("Done", id="m1"))

    for _ in range(2):
        stream = chats.start(model, idempotency_key="k")
        assert await stream.rest() == [call("a"), result("a"), ai("Done", id="m1")]


# -- with the question stored first --------------------------------------------------------------


async def test_a_request_sent_twice_stores_its_question_once(chats: Chats) -> None:
    """R84, decision 5: the stored answer comes back without the model."""
    ask = chats.wrap(Script("Hello"), save_input="before")
    assert [await ask("Hi", idempotency_key="k") for _ in range(3)] == ["Hello"] * 3
    assert chats.said() == ["human: Hi", "ai: Hello"]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_a_request_sent_again_after_a_failure_finds_its_question(chats: Chats, policy: Any) -> None:
    """R84, T7, decision 5: it is not stored again, and is shown once, behind what others said meanwhile."""
    model = Script(RuntimeError("overloaded"), "Hello")
    ask = chats.wrap(model, save_input="before", on_conflict=policy)
    chats.append(human("0"))
    with pytest.raises(RuntimeError):
        await ask(["Hi", "there"], idempotency_key="k")
    chats.append(human("1"), ai("2"))
    report = TurnReport()
    assert await ask(["Hi", "there"], idempotency_key="k", report=report) == "Hello"
    assert model.seen[1] == ["human: 0", "human: 1", "ai: 2", "human: Hi", "human: there"]
    assert chats.said() == ["human: 0", "human: Hi", "human: there", "human: 1", "ai: 2", "ai: Hello"]
    assert (report.tries, report.saved, report.repeated, report.conflict) == (1, True, False, None)


async def test_a_question_with_lone_surrogates_is_found_again(chats: Chats) -> None:
    """Decision 17, R84: it is stored with U+FFFD for each, and is the same question."""
    model = Script(RuntimeError("overloaded"), "Hello")
    ask = chats.wrap(model, save_input="before")
    with pytest.raises(RuntimeError):
        await ask("Hi \ud800", idempotency_key="k")
    assert await ask("Hi \ud800", idempotency_key="k") == "Hello"
    assert len(chats.said()) == 2


@pytest.mark.parametrize("other", ["Else", ["Something", "else"], ["q", "a", "Else"]], ids=repr)
async def test_another_question_under_the_key_of_an_unanswered_one_is_refused(
    chats: Chats, other: Any
) -> None:
    """R84, decision 5: the answer to it would stand under the first question; the first may be sent again."""
    model = Script(RuntimeError("overloaded"), "Hello")
    ask = chats.wrap(model, save_input="before")
    chats.append(human("q"), ai("a"))
    with pytest.raises(RuntimeError):
        await ask("Hi", idempotency_key="k")
    with pytest.raises(InvalidMessage, match="another input"):
        await ask(other, idempotency_key="k")
    assert chats.said() == ["human: q", "ai: a", "human: Hi"]
    assert await ask("Hi", idempotency_key="k") == "Hello"
    assert model.seen[1] == ["human: q", "ai: a", "human: Hi"]


async def test_calls_that_overlap_store_their_question_once(chats: Chats) -> None:
    """R84, decision 5, T9: one question, one answer, and both models saw the question once."""
    model = Script("first")
    other = with_history(model, chats.direct, save_input="before")

    def overtaken(given: Any) -> str:
        names = {"user_id": "ann", "conversation_id": "c1"}
        contextvars.Context().run(other, "Hi", **names, idempotency_key="k")  # as another worker does
        assert lines(given) == ["human: 0", "human: Hi"]
        return "second"

    chats.append(human("0"))
    answer = await chats.wrap(overtaken, save_input="before")("Hi", idempotency_key="k")
    assert answer == ("second" if chats.streams else "first")
    assert model.seen == [["human: 0", "human: Hi"]]
    assert chats.said() == ["human: 0", "human: Hi", "ai: first"]


async def test_a_question_that_another_call_stored_hides_no_conflict(chats: Chats) -> None:
    """R84, T9: what came between load and question is a conflict, though the question was there already."""
    left = [human("between")]

    def hook(event: Any) -> None:
        if event.kind == "load" and left:
            chats.append(left.pop())
            chats.direct.history("ann", "c1").append(human("Hi"), idempotency_key="k\0input")

    model = Script("stale")
    ask = chats.wrap(model, chats.memory(hooks=(hook,)), save_input="before", on_conflict="raise")
    with pytest.raises(ConflictError) as caught:
        await ask("Hi", idempotency_key="k")
    assert "human: between" in lines(caught.value.missed)
    assert chats.said() == ["human: between", "human: Hi"]
