"""Wrapped models whose server fails while they run: the answer is never lost, and stored once at most."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory_redis import (
    AppendId,
    HistoryNotSaved,
    MemoryRedisError,
    ServerError,
    ServerUnavailable,
    StorageFull,
    TurnReport,
    UnknownOutcome,
    ai,
    human,
)
from memory_redis.telemetry import Event
from tests.faults.test_server_down import LONG, within
from tests.faults.ways import HOST, SCRIPTS
from tests.scenarios.chats import KINDS, Chats, Script, streaming
from tests.support.fault_proxy import FaultProxy, Rule
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

ALL = 10**6


@pytest.fixture(params=KINDS)
async def chats(request: pytest.FixtureRequest, valkey: Server, namespace: str) -> AsyncIterator[Chats]:
    """Wrapped models of each kind; their memories go through a proxy if they are given its URL."""
    chats = Chats(request.param, valkey.url, namespace)
    yield chats
    await chats.close()


@pytest.fixture
async def far(chats: Chats, proxy: FaultProxy) -> Any:
    """A memory behind the proxy; it is connected, and has stored a turn."""
    chats.url = f"redis://{HOST}:{proxy.port}/0"
    memory = chats.memory()
    await chats.wrap(Script("0"), memory)("0")
    return memory


@pytest.fixture
async def hasty(chats: Chats, proxy: FaultProxy) -> Any:
    """The same, for what is given up: with little patience."""
    chats.url = f"redis://{HOST}:{proxy.port}/0"
    memory = chats.memory(deadline=1)
    await chats.wrap(Script("0"), memory)("0")
    return memory


def during(answer: Any, happens: Callable[[], object]) -> Callable[[Any], Any]:
    """An answer during which something happens."""

    def give(given: Any) -> Any:
        happens()
        return answer

    return give


async def test_a_server_that_dies_while_the_model_runs_does_not_take_the_answer_along(chats: Chats) -> None:
    """T1: HistoryNotSaved carries the answer, its cause and what became of the turn."""
    with Server() as server:
        chats.url = server.url
        memory = chats.memory(deadline=1)
        await chats.wrap(Script("0"), memory)("0")
        report = TurnReport()
        with pytest.raises(HistoryNotSaved) as caught:
            await chats.wrap(during("answer", server.kill), memory)("Hi", report=report)
    error = caught.value
    assert error.output == "answer"
    assert isinstance(error.error, ServerError | UnknownOutcome)
    assert error.__cause__ is error.error
    assert error.outcome == error.error.outcome
    assert (error.append_id is not None) == (error.outcome == "unknown")
    assert (report.saved, report.error, report.version) == (False, error, None)


async def test_a_server_that_is_down_is_noticed_before_the_model_runs(chats: Chats) -> None:
    """T1, T17: the error is the server's, and no answer was paid for."""
    with Server() as server:
        chats.url = server.url
        memory = chats.memory(deadline=1)
        await chats.wrap(Script("0"), memory)("0")
        server.kill()
        with pytest.raises(ServerUnavailable):
            await chats.wrap(Script(), memory)("Hi")


async def test_a_server_that_is_full_keeps_no_half_turn(chats: Chats) -> None:
    """T1, T8: the answer comes with StorageFull, nothing is stored, and the next turn is whole again."""
    with Server() as server:
        chats.url = server.url
        memory = chats.memory()
        await chats.wrap(Script("0"), memory)("0")
        fill = during("answer", lambda: server.ask("CONFIG", "SET", "maxmemory", 1))
        with pytest.raises(HistoryNotSaved) as caught:
            await chats.wrap(fill, memory)("Hi")
        assert isinstance(caught.value.error, StorageFull)
        assert (caught.value.outcome, caught.value.append_id) == ("not_stored", None)
        server.ask("CONFIG", "SET", "maxmemory", 0)
        model = Script("again")
        await chats.wrap(model, memory)("Hi again")
        assert model.seen == [["human: 0", "ai: 0", "human: Hi again"]]


@pytest.mark.parametrize("rules", [{}, {"on_conflict": "raise"}, {"save_input": "before"}], ids=repr)
async def test_replies_that_get_lost_store_nothing_twice(
    chats: Chats, far: Any, proxy: FaultProxy, rules: Any
) -> None:
    """T1, P2: each write is asked for again and recognised; nobody notices."""
    ask = chats.wrap(Script(*map(str, range(1, 6))), far, **rules)
    writes = 2 if "save_input" in rules else 1
    for number in range(1, 6):
        rule = proxy.drop_reply(SCRIPTS, after=number % writes)
        report = TurnReport()
        assert await ask(str(number), report=report) == str(number)
        assert (report.saved, report.repeated, report.tries, rule.hits) == (True, False, 1, 1)
        proxy.heal()
    assert chats.said() == [f"{who}: {number}" for number in range(6) for who in ("human", "ai")]


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
@pytest.mark.parametrize("save_input", ["after", "before"])
async def test_a_lost_reply_does_not_change_what_the_caller_gets(
    chats: Chats, far: Any, proxy: FaultProxy, save_input: Any
) -> None:
    """R51, decision 5: under a key as well, the turn that is found is recognised as this very one."""
    answer, report = {"output": "answer", "sources": ["a"]}, TurnReport()
    ask = chats.wrap(during(answer, lambda: proxy.drop_reply(SCRIPTS)), far, save_input=save_input)
    assert await ask("Hi", idempotency_key="k", report=report) is answer
    assert (report.saved, report.repeated) == (True, False)
    assert chats.said()[2:] == ["human: Hi", "ai: answer"]


FAULTS: dict[str, Callable[[FaultProxy], Rule]] = {
    "replies lost": lambda proxy: proxy.drop_reply(SCRIPTS, times=ALL),
    "requests lost": lambda proxy: proxy.drop_request(SCRIPTS, times=ALL),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_save_without_any_answer_is_unknown_and_can_be_settled(
    chats: Chats, hasty: Any, proxy: FaultProxy, fault: str
) -> None:
    """T1, P9, decision 10: the error has the answer and the id; a repeat by the id stores at most once."""
    with pytest.raises(HistoryNotSaved) as caught:
        await chats.wrap(during("answer", lambda: FAULTS[fault](proxy)), hasty)("Hi")
    proxy.heal(drop=True)
    assert (caught.value.output, caught.value.outcome) == ("answer", "unknown")
    append_id = caught.value.append_id
    assert isinstance(append_id, AppendId)
    assert isinstance(caught.value.error, UnknownOutcome)
    history = chats.direct.history("ann", "c1")
    assert (history.settle(append_id) is not None) == (fault == "replies lost")
    history.append(human("Hi"), ai("answer"), append_id=append_id)
    assert chats.said() == ["human: 0", "ai: 0", "human: Hi", "ai: answer"]


async def test_an_unknown_save_can_be_logged_and_the_answer_given(
    chats: Chats, hasty: Any, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """T1, P9: the report has what is needed to settle it, the log has no content."""
    report = TurnReport()
    ask = chats.wrap(during("secret", lambda: FAULTS["replies lost"](proxy)), hasty, on_save_error="log")
    assert await ask("Hi", report=report) == "secret"
    proxy.heal(drop=True)
    assert report.error is not None
    assert report.error.append_id is not None
    assert chats.direct.history("ann", "c1").settle(report.error.append_id) == chats.load().version
    assert "a turn was not saved" in caplog.text
    assert "secret" not in caplog.text


async def test_an_unknown_save_is_not_tried_again_by_running_the_model(
    chats: Chats, hasty: Any, proxy: FaultProxy
) -> None:
    """T1, P9: only a conflict is; anything else might be stored already."""
    model = Script(during("answer", lambda: FAULTS["replies lost"](proxy)))
    with pytest.raises(HistoryNotSaved):
        await chats.wrap(model, hasty, on_conflict="retry", max_tries=5)("Hi")
    assert len(model.given) == 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_unknown_save_under_a_key_is_settled_by_sending_the_request_again(
    chats: Chats, hasty: Any, proxy: FaultProxy, fault: str
) -> None:
    """Decision 5, P9: the stored answer comes back, or the model runs again; one turn is stored."""
    model = Script(during("first", lambda: FAULTS[fault](proxy)), "second")
    ask = chats.wrap(model, hasty)
    with pytest.raises(HistoryNotSaved) as caught:
        await ask("Hi", idempotency_key="k")
    assert caught.value.output == "first"
    proxy.heal(drop=True)
    stored = "first" if fault == "replies lost" else "second"
    assert await ask("Hi", idempotency_key="k") == stored
    assert chats.said()[2:] == ["human: Hi", f"ai: {stored}"]


async def test_a_question_that_may_not_be_stored_stops_the_turn_before_the_model(
    chats: Chats, proxy: FaultProxy
) -> None:
    """R84, P9: the error settles it; under a key the request can be sent again, and stores it once."""
    faults = [FAULTS["replies lost"]]

    def hook(event: Event) -> None:
        if event.kind == "load" and faults:
            faults.pop()(proxy)

    chats.url = f"redis://{HOST}:{proxy.port}/0"
    ask = chats.wrap(Script("answer"), chats.memory(deadline=1, hooks=(hook,)), save_input="before")
    chats.append(human("0"))
    with pytest.raises(UnknownOutcome) as caught:
        await ask("Hi", idempotency_key="k")
    assert (caught.value.output, caught.value.append_id is None) == (None, False)
    proxy.heal(drop=True)
    assert await ask("Hi", idempotency_key="k") == "answer"
    assert chats.said() == ["human: 0", "human: Hi", "ai: answer"]


@pytest.mark.parametrize("chats", ["function", "coroutine"], indirect=True)
async def test_an_answer_survives_that_the_counting_one_cannot_be_read(
    chats: Chats, proxy: FaultProxy
) -> None:
    """Decision 5, T1: a twin request was faster, and the server fails before its answer is looked up."""

    def hook(event: Event) -> None:
        if event.kind == "repeat":
            proxy.cut()

    chats.url = f"redis://{HOST}:{proxy.port}/0"
    memory = chats.memory(deadline=1, hooks=(hook,))
    overtake = during(
        "second",
        lambda: chats.direct.history("ann", "c1").append(human("Hi"), ai("first"), idempotency_key="k"),
    )
    with pytest.raises(MemoryRedisError) as caught:
        await chats.wrap(overtake, memory)("Hi", idempotency_key="k")
    assert caught.value.output == "second"
    assert chats.said() == ["human: Hi", "ai: first"]


@streaming
async def test_closing_a_stream_does_not_hang_on_a_server_that_stands_still(
    chats: Chats, caplog: pytest.LogCaptureFixture
) -> None:
    """D21, E16: what should be kept of it is given up at the memory's deadline, and the close succeeds."""
    with Server() as server:
        chats.url = f"{server.url}?socket_timeout={LONG}"
        memory, report = chats.memory(deadline=1), TurnReport()
        stream = chats.start(lambda given: ["one ", "two"], "Hi", memory, partial="keep", report=report)
        await stream.next()
        server.pause()
        async with within(1):
            await stream.close()
        server.resume()
        assert isinstance(report.error, HistoryNotSaved)
        assert report.error.outcome == "unknown"
        assert "part of an answer was not saved" in caplog.text


@streaming
async def test_a_stream_whose_save_fails_says_so_after_its_last_chunk(
    chats: Chats, hasty: Any, proxy: FaultProxy
) -> None:
    """T1, R56: not as an end like any other."""
    stream = chats.start(lambda given: ["one ", "two"], "Hi", hasty)
    assert [await stream.next(), await stream.next()] == ["one ", "two"]
    proxy.cut()
    with pytest.raises(HistoryNotSaved) as caught:
        await stream.next()
    proxy.heal(drop=True)
    assert caught.value.output == "one two"
    assert chats.said() == ["human: 0", "ai: 0"]
