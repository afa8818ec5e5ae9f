"""A wrapped model over a memory strategy: what it sees, what is stored, and who makes the summary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from memory_redis import (
    InvalidId,
    InvalidSetting,
    LastMessages,
    SummaryNotMade,
    TurnAlreadyStored,
    TurnReport,
    human,
    with_history,
)
from memory_redis.telemetry import Event
from tests.scenarios.chats import Chats, Script, lines, one_server, streaming
from tests.scenarios.remembering import (
    BUFFER,
    IN_FRONT,
    SUMMARY,
    SUMMARY_BUFFER,
    TOKENS,
    WINDOW,
    Model,
    over,
)
from tests.scenarios.stored import call, reads, real_servers
from tests.support.ids import shown

pytestmark = pytest.mark.anyio


def strategy(chats: Chats, name: str, *arguments: Any, **options: Any) -> Any:
    """A strategy of the face that this kind of model uses."""
    made = over(chats.memory(**options), name, *arguments)
    return getattr(made, "_target", made)


def numbered(count: int) -> Script:
    """A model that answers `a1`, `a2`, …."""
    return Script(*(f"a{number}" for number in range(1, count + 1)))


async def test_over_the_buffer_the_model_sees_one_three_and_five_messages(chats: Chats) -> None:
    """R82, R85, R87, R89: text in, text out, all of the past, and what is new."""
    model = numbered(3)
    ask = chats.wrap(model, strategy(chats, BUFFER))
    for number in (1, 2, 3):
        assert await ask(f"q{number}") == f"a{number}"
    assert list(map(len, model.given)) == [1, 3, 5]
    assert chats.said() == ["human: q1", "ai: a1", "human: q2", "ai: a2", "human: q3", "ai: a3"]


@one_server
@pytest.mark.parametrize("n", [0, 1, 2, 3])
async def test_over_a_window_of_n_the_model_sees_n_and_what_is_new(chats: Chats, n: int) -> None:
    """R87, R90, T20: and all turns are stored whole."""
    model = numbered(4)
    ask = chats.wrap(model, strategy(chats, WINDOW, n))
    for number in range(1, 5):
        await ask(f"q{number}")
    assert list(map(len, model.given)) == [1 + min(n, 2 * number) for number in range(4)]
    assert len(chats.said()) == 8


async def test_over_a_token_buffer_the_model_sees_what_fits(chats: Chats) -> None:
    """R87, R91: each of these messages costs a token."""
    model = numbered(3)
    ask = chats.wrap(model, strategy(chats, TOKENS, 3))
    for number in (1, 2, 3):
        await ask(f"q{number}")
    assert model.seen[2] == ["ai: a1", "human: q2", "ai: a2", "human: q3"]


async def test_over_a_summary_the_model_sees_it_before_the_rest(chats: Chats) -> None:
    """R87, R92: it is made after the turn that crosses the limit, and shown from the next one on."""
    model, summariser = numbered(5), Model()
    ask = chats.wrap(model, strategy(chats, SUMMARY, summariser, 2))
    for number in range(1, 6):
        await ask(f"q{number}")
    assert summariser.told == [
        ["human: q1", "ai: a1", "human: q2", "ai: a2"],
        [f"system: {IN_FRONT}s1", "human: q3", "ai: a3", "human: q4", "ai: a4"],
    ]
    assert model.seen[3] == [f"system: {IN_FRONT}s1", "human: q3", "ai: a3", "human: q4"]
    assert model.seen[4] == [*model.seen[3], "ai: a4", "human: q5"]
    assert chats.said() == ["human: q5", "ai: a5"]


async def test_over_a_summary_buffer_as_well(chats: Chats) -> None:
    """R87, R93: half of four tokens stay."""
    model, summariser = numbered(4), Model()
    ask = chats.wrap(model, strategy(chats, SUMMARY_BUFFER, summariser, 4))
    for number in range(1, 5):
        await ask(f"q{number}")
    assert summariser.told == [["human: q1", "ai: a1", "human: q2", "ai: a2"]]
    assert model.seen[3] == [f"system: {IN_FRONT}s1", "human: q3", "ai: a3", "human: q4"]


@one_server
async def test_a_window_of_the_wrapper_or_of_a_call_is_on_top(chats: Chats) -> None:
    """R87: it limits the messages; a summary stands before them all the same."""
    model = numbered(3)
    chats.append(*(human(str(number)) for number in range(5)))
    ask = chats.wrap(model, strategy(chats, WINDOW, 3), window=LastMessages(2))
    await ask("q")
    await ask("q", window=LastMessages(1))
    await ask("q", window=LastMessages(9))
    assert list(map(len, model.given)) == [3, 2, 4]
    summed = chats.wrap(numbered(2), strategy(chats, SUMMARY, Model(), 1), window=LastMessages(1))
    await summed("q", session="s1")
    await summed("q", session="s1")
    again = numbered(1)
    await chats.wrap(again, strategy(chats, SUMMARY, Model(), 9))("q", session="s1", window=LastMessages(0))
    assert again.seen == [[f"system: {IN_FRONT}s1", "human: q"]]


async def test_a_cleared_conversation_begins_anew(chats: Chats) -> None:
    """R88: without its messages and without its summary."""
    model = numbered(4)
    store = strategy(chats, SUMMARY, Model(), 1)
    ask = chats.wrap(model, store)
    for number in (1, 2, 3):
        await ask(f"q{number}")
    cleared = store.clear(("ann", "c1"))
    assert (await cleared if chats.asynchronous else cleared) > 0
    await ask("q4")
    assert model.seen[2][0].startswith("system: ")
    assert model.seen[3] == ["human: q4"]


@one_server
async def test_a_failing_model_stores_nothing_unless_asked_to(chats: Chats) -> None:
    """R84: by default the turn at its end; with save_input="before" the question stays."""
    for save_input, left in (("after", []), ("before", ["human: Hi"])):
        ask = chats.wrap(Script(ZeroDivisionError()), strategy(chats, WINDOW, 3), save_input=save_input)
        with pytest.raises(ZeroDivisionError):
            await ask("Hi", conversation_id=save_input, user_id="ann")
        assert chats.said("ann", save_input) == left


@one_server
async def test_a_question_that_is_stored_first_is_not_shown_twice(chats: Chats) -> None:
    """R84, R87: also where storing it makes a summary due."""
    model, summariser = numbered(3), Model()
    ask = chats.wrap(model, strategy(chats, SUMMARY, summariser, 1), save_input="before")
    for number in (1, 2, 3):
        await ask(f"q{number}")
    assert model.seen[0] == ["human: q1"]
    assert model.seen[1] == ["human: q1", "ai: a1", "human: q2"]
    assert summariser.told[0] == ["human: q1", "ai: a1"]
    assert model.seen[2] == [f"system: {IN_FRONT}s1", "human: q2", "ai: a2", "human: q3"]


@streaming
async def test_streams_stream_over_a_strategy(chats: Chats) -> None:
    """R86: chunk by chunk, stored as one message, and summarised after it."""
    summariser = Model()
    stream = chats.start(lambda given: "Hello", memory=strategy(chats, SUMMARY, summariser, 0))
    assert await stream.next() == "He"
    assert chats.said() == []
    assert summariser.asked == []
    assert await stream.rest() == ["llo"]
    assert summariser.told == [["human: Hi", "ai: Hello"]]
    assert chats.load().summary == "s1"


async def test_a_summary_that_fails_does_not_cost_the_answer(chats: Chats) -> None:
    """R98: the turn is stored, the report says why there is no summary, the next turn tries again."""
    events: list[Event] = []
    failure = ZeroDivisionError("my secret")
    summariser = Model(failure)
    store = strategy(chats, SUMMARY, summariser, 1, hooks=(events.append,))
    ask = chats.wrap(numbered(4), store)
    report = TurnReport()
    await ask("q1", report=report)
    assert (report.saved, report.summary_error) == (True, None)
    assert await ask("q2", report=report) == "a2"
    assert report.saved
    assert isinstance(report.summary_error, SummaryNotMade)
    assert report.summary_error.__cause__ is failure
    assert report.summary_error.version == report.version
    assert "secret" not in str(report.summary_error)
    assert chats.said() == ["human: q1", "ai: a1", "human: q2", "ai: a2"]
    [told] = [event for event in events if event.kind == "summary"]
    assert (told.detail, told.version) == ("ZeroDivisionError", 4)
    await ask("q3", report=report)
    assert (report.saved, report.summary_error) == (True, None)
    assert len(summariser.told[1]) == 5
    assert chats.said() == ["ai: a3"]
    assert chats.load().summary == "s2"


class Stopped(BaseException):
    """As a program is stopped: by a signal, or because a task is cancelled."""


@one_server
async def test_a_turn_that_is_stopped_at_its_summary_is_reported_as_stored(chats: Chats) -> None:
    """R84, R98: the summary is not made, and the caller is not told by an answer, but the turn stands."""
    report = TurnReport()
    with pytest.raises(Stopped):
        await chats.wrap(numbered(1), strategy(chats, SUMMARY, Model(Stopped()), 0))("q", report=report)
    assert (report.saved, report.error) == (True, None)
    assert report.version == chats.load().version
    assert chats.said() == ["human: q", "ai: a1"]


@one_server
@streaming
async def test_a_part_that_is_stopped_at_its_summary_is_reported_as_stored(chats: Chats) -> None:
    """R98, E16: as a whole turn is."""
    report, store = TurnReport(), strategy(chats, SUMMARY, Model(Stopped()), 0)
    stream = chats.start(lambda given: ["one ", "two"], "q", store, partial="keep", report=report)
    await stream.next()
    with pytest.raises(Stopped):
        await stream.close()
    assert (report.saved, report.version) == (True, chats.load().version)
    assert chats.said() == ["human: q", "ai: one "]


@one_server
async def test_a_second_try_within_a_turn_takes_the_error_back(chats: Chats) -> None:
    """R84, R98: the question's summary fails, the answer's is made."""
    report = TurnReport()
    chats.append(human("1"), human("2"))
    store = strategy(chats, SUMMARY, Model(ZeroDivisionError()), 1)
    await chats.wrap(numbered(1), store, save_input="before")("q", report=report)
    assert (report.saved, report.summary_error) == (True, None)
    assert chats.load().summary == "s2"


@one_server
async def test_without_a_default_session_a_call_names_its_own(chats: Chats) -> None:
    """R83, R13: a shared session is for those who ask for one."""
    ask = chats.wrap(Script(), strategy(chats, WINDOW, 3))
    with pytest.raises(InvalidId):
        await ask("Hi", session=None)


@one_server
async def test_a_default_session_is_shared_by_all_that_name_none(chats: Chats) -> None:
    """R83: and by nobody who names one."""
    model = numbered(4)
    ask = chats.wrap(model, strategy(chats, BUFFER), default_session="default")
    await ask("q1", session=None)
    await ask("q2", session=None)
    await ask("q3", session="mine")
    await ask("q4", user_id="ann", conversation_id="default")
    assert list(map(len, model.given)) == [1, 3, 1, 1]
    said = lines(chats.direct.session("default").load().messages)
    assert said == ["human: q1", "ai: a1", "human: q2", "ai: a2"]


@one_server
@pytest.mark.parametrize(
    "half",
    [{"user_id": "ann"}, {"conversation_id": "c1"}, {"user_id": "ann", "conversation_id": ""}],
    ids=shown,
)
async def test_half_of_a_name_is_not_the_default_session(chats: Chats, half: dict[str, str]) -> None:
    """R83, R23: who forgot one of two ids is told so."""
    ask = chats.wrap(Script(), strategy(chats, BUFFER), default_session="default")
    with pytest.raises(InvalidId):
        await ask("Hi", **half)
    with pytest.raises(InvalidId):
        await ask("Hi", session="")


@one_server
async def test_a_strategy_of_the_other_face_is_used_through_its_twin(chats: Chats) -> None:
    """R87: a memory that was made from a URL has both faces."""
    model = numbered(3)
    store = strategy(chats, WINDOW, 1).twin
    ask = chats.wrap(model, store)
    for number in (1, 2, 3):
        await ask(f"q{number}")
    assert list(map(len, model.given)) == [1, 2, 2]
    target = store._memory
    await target.aclose() if not chats.asynchronous else target.close()


async def test_tool_exchanges_are_not_torn_by_a_summary(chats: Chats) -> None:
    """R92, F13: an open call waits with all that stands behind it, until its result is there."""
    summariser = Model()
    memory = strategy(chats, SUMMARY, summariser, 1)
    model = Script(call("a"), "done")
    ask = chats.wrap(model, memory)
    chats.append(human("0"), human("1"))
    await ask("q")
    assert summariser.told == [["human: 0", "human: 1", "human: q"]]
    await ask([{"role": "tool", "content": "4", "tool_call_id": "a"}])
    assert [message.type for message in model.given[1]] == ["system", "ai", "tool"]
    assert summariser.told[1][1:] == ["ai: [calls look {}]", "tool: 4"]
    assert chats.said() == ["ai: done"]


async def test_a_request_that_is_sent_again_finds_its_answer_or_hears_that_it_is_gone(chats: Chats) -> None:
    """Decision 5, R92: the model is not run again, and no second summary is made."""
    model, summariser = numbered(3), Model()
    ask = chats.wrap(model, strategy(chats, SUMMARY, summariser, 1))
    for _ in range(2):
        assert await ask("q1", idempotency_key="k1") == "a1"
    await ask("q2", idempotency_key="k2")
    assert len(summariser.asked) == 1
    for key in ("k1", "k2"):
        with pytest.raises(TurnAlreadyStored):
            await ask("q", idempotency_key=key)
    assert (len(model.given), len(summariser.asked)) == (2, 1)


@pytest.mark.parametrize("policy", ["append", "raise", "retry"])
async def test_a_summary_made_meanwhile_is_no_conflict(chats: Chats, policy: Any) -> None:
    """R97: under every policy; the model is run once."""
    chats.append(*(human(str(number)) for number in range(4)))
    report = TurnReport()

    def answer(given: Any) -> str:
        history = chats.direct.history("ann", "c1")
        history.compact("in short", expected=history.load().version, keep=1)
        return f"seen {len(given)}"

    assert (
        await chats.wrap(answer, strategy(chats, BUFFER), on_conflict=policy)("q", report=report) == "seen 5"
    )
    assert (report.tries, report.conflict, report.saved) == (1, None, True)
    assert chats.said() == ["human: 3", "human: q", "ai: seen 5"]


@one_server
@pytest.mark.parametrize("memory", [None, "fake://", object(), Model()], ids=shown)
async def test_what_is_no_strategy_is_refused(chats: Chats, memory: Any) -> None:
    """R87: with a clear error."""
    with pytest.raises(InvalidSetting, match="memory strategy"):
        with_history(chats.model(Script()), memory)


@real_servers
async def test_a_strategy_costs_no_trip_and_a_summary_one(chats: Chats, raw: redis.Redis) -> None:
    """R53, R92: load and append; then one question whether a summary is due."""

    async def trips(work: Awaitable[Any]) -> int:
        before = reads(raw)
        await work
        return reads(raw) - before - 1  # less our own look

    for name, arguments, most in (
        (BUFFER, (), 2),
        (WINDOW, (2,), 2),
        (TOKENS, (2,), 2),
        (SUMMARY, (Model(), 99), 3),
        (SUMMARY_BUFFER, (Model(), 999), 3),
    ):
        ask: Callable[..., Any] = chats.wrap(numbered(3), strategy(chats, name, *arguments))
        for _ in range(2):
            await ask("q", session=name)  # connected, and the server has each script by now
        assert await trips(ask("q", session=name)) == most, name
