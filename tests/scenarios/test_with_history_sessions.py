"""Which conversation a call of a wrapped model means, and what its report says."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import InvalidId, InvalidSetting, TurnReport, human
from tests.scenarios.chats import Chats, Script, lines, one_server
from tests.support.ids import shown

pytestmark = pytest.mark.anyio


async def test_users_and_conversations_do_not_mix(chats: Chats) -> None:
    """R24: one wrapper serves all of them, each with its own past."""
    model = Script(*"abcdef")
    ask = chats.wrap(model)
    named = [("ann", "c1"), ("ann", "c2"), ("ben", "c1"), ("a:b", "c"), ("a", "b:c"), ("{ann}", "c1")]
    for user, conversation in named:
        await ask("Hi", user_id=user, conversation_id=conversation)
    assert model.seen == [["human: Hi"]] * len(named)
    assert [chats.said(*one)[1] for one in named] == [f"ai: {letter}" for letter in "abcdef"]


async def test_a_session_is_a_conversation_without_a_user(chats: Chats) -> None:
    """R15: it is asked for by its own name."""
    model = Script("a", "b")
    ask = chats.wrap(model)
    await ask("Hi", session="ann")
    await ask("Hi", user_id="ann", conversation_id="ann")
    assert model.seen == [["human: Hi"]] * 2
    assert lines(chats.direct.session("ann").load().messages) == ["human: Hi", "ai: a"]


NAMELESS: list[tuple[dict[str, Any], str]] = [
    ({"user_id": "ann"}, "conversation_id"),
    ({"conversation_id": "c1"}, "user_id"),
    ({"user_id": "ann", "conversation_id": ""}, "conversation_id"),
    ({"user_id": "", "conversation_id": "c1"}, "user_id"),
    ({"user_id": None, "conversation_id": None}, "user_id and conversation_id"),
    ({"user_id": 0, "conversation_id": "c1"}, "user_id"),
    ({"user_id": "ann", "conversation_id": 7}, "conversation"),
    ({"user_id": b"ann", "conversation_id": "c1"}, "user"),
    ({"user_id": ["ann"], "conversation_id": "c1"}, "user"),
    ({"session": ""}, "session"),
    ({"session": 7}, "session"),
]


@one_server
async def test_a_call_that_does_not_name_its_conversation_is_refused(chats: Chats) -> None:
    """E12, R13, R23, T19: the error names what is missing, the model is not run, nothing is shared."""
    ask = chats.wrap(Script())
    for names, missing in NAMELESS:
        with pytest.raises(InvalidId, match=missing) as caught:
            await ask("Hi", **names)
        assert isinstance(caught.value, TypeError), names


async def test_no_name_at_all_is_no_shared_conversation(chats: Chats) -> None:
    """R83, T19: there is no default one."""
    ask = chats.wrap(Script())
    with pytest.raises(InvalidId, match="user_id and conversation_id"):
        await ask("Hi", session=None)


async def test_two_names_are_one_too_many(chats: Chats) -> None:
    """E12: a session and a user at once cannot be meant."""
    with pytest.raises(InvalidSetting):
        await chats.wrap(Script())("Hi", session="s1", user_id="ann")


@one_server
@pytest.mark.parametrize("report", [{}, object(), True, TurnReport], ids=shown)
async def test_a_report_is_a_turn_report(chats: Chats, report: Any) -> None:
    """T17: anything else is refused before the model runs."""
    with pytest.raises(InvalidSetting):
        await chats.wrap(Script())("Hi", report=report)


@pytest.mark.parametrize(
    "options", [{"window": 5}, {"idempotency_key": ""}, {"idempotency_key": 7}], ids=repr
)
async def test_a_keyword_that_cannot_be_meant_is_refused(chats: Chats, options: dict[str, Any]) -> None:
    """T17: before the model runs."""
    with pytest.raises(InvalidSetting):
        await chats.wrap(Script())("Hi", **options)
    assert chats.said() == []


async def test_the_report_of_a_turn_that_went_well(chats: Chats) -> None:
    """R56: one try, saved, the version of the conversation with it, and nothing else to say."""
    report = TurnReport()
    await chats.wrap(Script("Hello"))("Hi", report=report)
    assert (report.tries, report.saved, report.repeated, report.error) == (1, True, False, None)
    assert (report.conflict, report.missed) == (None, [])
    assert report.version == chats.load().version


async def test_a_report_shows_no_content(chats: Chats) -> None:
    """Promise 7: neither of the turn nor of what was missed."""
    report = TurnReport()

    def answer(given: Any) -> str:
        chats.append(human("secret of another"))
        return "secret answer"

    await chats.wrap(answer)("secret question", report=report)
    assert report.missed == [human("secret of another")]
    assert "secret" not in repr(report)
    assert "ann" not in repr(report)
