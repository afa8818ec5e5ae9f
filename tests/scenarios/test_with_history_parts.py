"""Requests that are sent again after a part of their answer was kept: `partial="keep"` under a key."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    HistoryCleared,
    InvalidMessage,
    TurnReport,
    ai,
    human,
    with_history,
)
from tests.scenarios.chats import Chats, Script, one_server, streaming
from tests.scenarios.stored import Names

pytestmark = [pytest.mark.anyio, one_server]

PART = ai("on", response_metadata={"partial": True})
KEEP: dict[str, Any] = {"idempotency_key": "k", "partial": "keep"}


def words(given: Any) -> Iterator[str]:
    """A stream that is abandoned, or fails, within it."""
    yield from ("on", "e", "two")


@streaming
@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
@pytest.mark.parametrize("fails", [False, True], ids=["abandoned", "failed"])
async def test_a_request_sent_again_after_a_part_of_its_answer_finds_its_question(
    chats: Chats, policy: Any, fails: bool
) -> None:
    """E16, decisions 5 and 27: it is stored once, shown without the part, and answered once, and whole."""
    chats.append(human("0"))
    stream = chats.start(words, on_conflict=policy, **KEEP)
    await stream.next()
    if fails:
        with pytest.raises(RuntimeError):
            await stream.throw(RuntimeError())
    else:
        await stream.close()
    chats.append(human("1"))
    model, reports = Script("one"), [TurnReport(), TurnReport()]
    ask = chats.wrap(model, on_conflict=policy, partial="keep")
    assert [await ask("Hi", idempotency_key="k", report=report) for report in reports] == ["one", "one"]
    assert model.seen == [["human: 0", "human: 1", "human: Hi"]]
    assert chats.said() == ["human: 0", "human: Hi", "ai: on", "human: 1", "ai: one"]
    assert [(one.tries, one.saved, one.repeated, one.conflict) for one in reports] == [
        (1, True, False, None),
        (0, True, True, None),
    ]
    assert reports[1].version == chats.load().version


@streaming
async def test_a_second_part_under_a_key_is_not_stored_beside_the_first(chats: Chats) -> None:
    """E16, decision 27: however often it is broken off, there are one question and one part."""
    for _ in range(3):
        stream = chats.start(words, **KEEP)
        assert await stream.next() == "on"
        await stream.close()
    assert chats.load().messages == [human("Hi"), PART]
    assert await chats.start(words, **KEEP).rest() == ["on", "e", "two"]
    assert chats.said() == ["human: Hi", "ai: on", "ai: onetwo"]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_an_answer_stands_behind_a_part_that_another_call_kept_meanwhile(
    chats: Chats, policy: Any
) -> None:
    """Decisions 5 and 27, T9: the request was sent again before its first stream was closed; one question."""

    def overtaken(given: Any) -> str:
        chats.direct.history("ann", "c1").append(human("Hi"), PART, idempotency_key="k")
        return "one"

    report = TurnReport()
    ask = chats.wrap(Script(overtaken), on_conflict=policy)
    assert await ask("Hi", idempotency_key="k", report=report) == "one"
    assert (report.tries, report.saved, report.repeated, report.conflict) == (1, True, False, None)
    assert report.version == chats.load().version
    assert await ask("Hi", idempotency_key="k") == "one"
    assert chats.said() == ["human: Hi", "ai: on", "ai: one"]


async def test_a_part_that_another_call_kept_meanwhile_hides_no_conflict(chats: Chats) -> None:
    """Decision 5, T9: what a third worker stored besides is one; the answer is in the error."""

    def overtaken(given: Any) -> str:
        chats.append(human("other"))
        chats.direct.history("ann", "c1").append(human("Hi"), PART, idempotency_key="k")
        return "one"

    with pytest.raises(ConflictError) as caught:
        await chats.wrap(overtaken, on_conflict="raise")("Hi", idempotency_key="k")
    assert caught.value.output == "one"
    assert chats.said() == ["human: other", "human: Hi", "ai: on"]


@streaming
async def test_no_part_is_kept_behind_the_whole_answer(chats: Chats) -> None:
    """E16, decision 5: the request was sent again, and answered, before its first stream was closed."""
    memory = chats.memory()
    stream = chats.start(words, "Hi", memory, **KEEP)
    await stream.next()
    assert await chats.wrap(Script("one"), memory)("Hi", idempotency_key="k") == "one"
    await stream.close()
    assert chats.said() == ["human: Hi", "ai: one"]


async def test_calls_that_overlap_behind_a_part_store_one_answer(chats: Chats) -> None:
    """Decision 5, T9: as without one."""
    history = chats.direct.history("ann", "c1")
    history.append(human("Hi"), PART, idempotency_key="k")

    def overtaken(given: Any) -> str:
        names = {"user_id": "ann", "conversation_id": "c1", "idempotency_key": "k"}
        contextvars.Context().run(with_history(Script("first"), chats.direct), "Hi", **names)
        return "second"

    report = TurnReport()
    answer = await chats.wrap(overtaken)("Hi", idempotency_key="k", report=report)
    assert answer == ("second" if chats.streams else "first")
    assert (report.saved, report.repeated) == (True, True)
    assert chats.said() == ["human: Hi", "ai: on", "ai: first"]


@pytest.mark.parametrize("other", ["Else", ["Something", "else"], ["q", "Hi"]], ids=repr)
async def test_another_question_under_the_key_of_a_part_is_refused(chats: Chats, other: Any) -> None:
    """Decision 5: the answer to it would stand under the first question; the first may be sent again."""
    chats.direct.history("ann", "c1").append(human("Hi"), PART, idempotency_key="k")
    ask = chats.wrap(Script("one"))
    with pytest.raises(InvalidMessage, match="another input"):
        await ask(other, idempotency_key="k")
    assert await ask("Hi", idempotency_key="k") == "one"
    assert await ask(other, idempotency_key="k") == "one"
    assert chats.said() == ["human: Hi", "ai: on", "ai: one"]


async def test_a_part_that_ended_with_its_conversation_stands_before_the_whole_answer(
    chats: Chats, raw: redis.Redis, keys: Names
) -> None:
    """Decisions 3 and 5: the turn begins the next life as it was, and its key finds the answer there."""

    def end(given: Any) -> str:
        raw.delete(keys.messages, keys.meta)
        return "one"

    chats.direct.history("ann", "c1").append(human("Hi"), PART, idempotency_key="k")
    ask = chats.wrap(Script(end))
    for _ in range(2):
        assert await ask("Hi", idempotency_key="k") == "one"
    assert chats.said() == ["human: Hi", "ai: on", "ai: one"]


async def test_a_part_that_was_cleared_while_the_model_ran_is_not_brought_back(chats: Chats) -> None:
    """T3, decision 2: nor is the whole answer stored."""

    def clear(given: Any) -> str:
        history.clear()
        return "one"

    history = chats.direct.history("ann", "c1")
    history.append(human("Hi"), PART, idempotency_key="k")
    with pytest.raises(HistoryCleared) as caught:
        await chats.wrap(clear)("Hi", idempotency_key="k")
    assert caught.value.output == "one"
    assert chats.said() == []
