"""Wrapped models whose question is stored before they run: `save_input="before"`."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import (
    ConflictError,
    HistoryCleared,
    InvalidAnswer,
    TurnReport,
    human,
)
from memory_redis.telemetry import Event
from tests.scenarios.chats import Chats, Script, lines, meanwhile, one_server

pytestmark = [pytest.mark.anyio, one_server, pytest.mark.usefixtures("short_pauses")]


async def test_the_question_can_be_stored_before_the_model_runs(chats: Chats) -> None:
    """R84: others see it meanwhile; the model sees it once, as what is new, and the answer comes after it."""
    chats.append(human("0"))

    def look(given: Any) -> str:
        assert chats.said() == ["human: 0", "human: Hi"]
        return "ok"

    model = Script(look)
    report = TurnReport()
    await chats.wrap(model, save_input="before")("Hi", report=report)
    assert model.seen == [["human: 0", "human: Hi"]]
    assert chats.said() == ["human: 0", "human: Hi", "ai: ok"]
    assert (report.conflict, report.version) == (None, chats.load().version)


async def test_a_question_that_was_stored_before_stays_when_the_model_fails(chats: Chats) -> None:
    """R84, T7: and the next turn sees it as past."""
    model = Script(RuntimeError("overloaded"), "ok")
    ask = chats.wrap(model, save_input="before")
    with pytest.raises(RuntimeError, match="overloaded"):
        await ask("Hi")
    assert chats.said() == ["human: Hi"]
    await ask("Still there?")
    assert model.seen[1] == ["human: Hi", "human: Still there?"]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_a_question_is_stored_first_under_every_policy(chats: Chats, policy: Any) -> None:
    """R84, T9: without others there is no conflict with oneself."""
    report = TurnReport()
    await chats.wrap(Script("ok"), save_input="before", on_conflict=policy)("Hi", report=report)
    assert (report.tries, report.saved, report.conflict) == (1, True, None)


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_a_retry_does_not_store_its_question_again(chats: Chats) -> None:
    """R84, R59, T9: nor show it twice; what others stored stands between it and its answer."""
    model = Script(meanwhile(chats, "1"), meanwhile(chats, "2"), "ok")
    ask = chats.wrap(model, save_input="before", on_conflict="retry", max_tries=3)
    assert await ask(["Hi", "there"]) == "ok"
    assert model.seen == [
        ["human: Hi", "human: there"],
        ["human: 1", "human: Hi", "human: there"],
        ["human: 1", "human: 2", "human: Hi", "human: there"],
    ]
    assert chats.said() == ["human: Hi", "human: there", "human: 1", "human: 2", "ai: ok"]


def after_a_load(chats: Chats) -> Any:
    """A memory, right after whose first load another worker stores something."""
    left = [human("1")]

    def hook(event: Event) -> None:
        if event.kind == "load" and left:
            chats.append(left.pop())

    return chats.memory(hooks=(hook,))


async def test_a_conflict_of_the_question_itself_is_tried_again(chats: Chats) -> None:
    """R84, T9: others came between load and question; the model runs once, on what there is then."""
    model, report = Script("ok"), TurnReport()
    ask = chats.wrap(model, after_a_load(chats), save_input="before", on_conflict="retry")
    assert await ask("Hi", report=report) == "ok"
    assert model.seen == [["human: 1", "human: Hi"]]
    assert chats.said() == ["human: 1", "human: Hi", "ai: ok"]
    assert (report.tries, report.saved) == (2, True)


async def test_a_conflict_of_the_question_itself_is_raised_before_the_model_runs(chats: Chats) -> None:
    """R84, T9: by policy raise, and by retry once there are no tries left."""
    for policy in ("raise", "retry"):
        ask = chats.wrap(Script(), after_a_load(chats), save_input="before", on_conflict=policy, max_tries=1)
        with pytest.raises(ConflictError) as caught:
            await ask("Hi")
        assert (caught.value.output, lines(caught.value.unsaved)) == (None, ["human: Hi"])
    assert chats.said() == ["human: 1", "human: 1"]


async def test_a_conflict_of_the_question_itself_is_reported(chats: Chats) -> None:
    """R84, T9: by policy append, as one of the turn."""
    model, report = Script("ok"), TurnReport()
    await chats.wrap(model, after_a_load(chats), save_input="before")("Hi", report=report)
    assert model.seen == [["human: Hi"]]
    assert chats.said() == ["human: 1", "human: Hi", "ai: ok"]
    assert lines(report.missed) == ["human: 1"]


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_a_question_is_not_stored_in_a_conversation_that_was_cleared(chats: Chats, policy: Any) -> None:
    """T3, decision 2, R84: between load and question; the model is not run."""

    left = [chats.direct.history("ann", "c1").clear]

    def hook(event: Event) -> None:
        if event.kind == "load" and left:
            left.pop()()

    chats.append(human("0"))
    rules = {"save_input": "before", "on_conflict": policy, "max_tries": 5}
    with pytest.raises(HistoryCleared) as caught:
        await chats.wrap(Script(), chats.memory(hooks=(hook,)), **rules)("Hi")
    assert (caught.value.output, lines(caught.value.unsaved)) == (None, ["human: Hi"])
    assert chats.said() == []


async def test_nothing_new_needs_no_storing_first(chats: Chats) -> None:
    """R31, R84: there is only the answer to store."""
    await chats.wrap(Script("ok"), save_input="before")([])
    assert chats.said() == ["ai: ok"]


async def test_an_answer_that_cannot_be_stored_leaves_the_question_that_was(chats: Chats) -> None:
    """R50, R84: InvalidAnswer, and what had been stored before stays."""
    with pytest.raises(InvalidAnswer):
        await chats.wrap(Script(5), save_input="before")("Hi")
    assert chats.said() == ["human: Hi"]
