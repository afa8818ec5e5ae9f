"""Wrapped calls that are cancelled at any await: whole turns or none, and nobody else notices."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memory_redis import (
    AsyncConversationSummaryMemory,
    AsyncRedisMemory,
    RedisMemory,
    TurnReport,
    human,
    with_history,
)
from memory_redis.telemetry import Event
from tests.faults.cancelling import ANN, answer, held_at_save, said, settled, words
from tests.faults.conftest import Texts
from tests.faults.test_cancellation import cancelled_after
from tests.faults.ways import HOST
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


CALLS: dict[str, Callable[[Any], Callable[..., Awaitable[str]]]] = {
    "coroutine": lambda memory: with_history(answer, memory),
    "stream": lambda memory: lambda *args, **names: said(with_history(words, memory)(*args, **names)),
    "question first": lambda memory: with_history(answer, memory, save_input="before"),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_cancelled_turns_are_whole_or_absent_and_each_is_accounted_for(
    memory: AsyncRedisMemory,
    proxy: FaultProxy,
    direct: RedisMemory,
    texts: Texts,
    events: list[Event],
    kind: str,
) -> None:
    """D12, D15, R57, R58: of 200 turns, what is stored was given to the caller or told to hooks."""
    chat = CALLS[kind](memory)
    other = memory.history("ben", "other")
    await other.append(human("other"))
    await memory.history("ann", "c").append(human("begin"))
    events.clear()
    proxy.delay(0.001, 0.001)
    chance = random.Random(kind)
    given: list[str] = []

    async def storm(worker: int) -> None:
        for number in range(40):
            name = f"{worker}.{number}"
            if await cancelled_after(chat(name, **ANN), chance.uniform(0, 0.012)) is not None:
                given.append(name)
            assert [message.text for message in (await other.load()).messages] == ["other"]

    await asyncio.gather(*(storm(worker) for worker in range(5)))
    proxy.heal()

    def accounted_for() -> list[str]:
        stored = texts("ann", "c")
        answers = [text for text in stored if text.startswith("to ")]
        told = sum(event.messages for event in events if event.kind == "append")
        known = len(given) + settled(events).count("stored")
        whole = len(answers) == known or kind == "question first"
        return stored if whole and told == len(stored) - 1 else []

    await eventually(accounted_for, "every save has ended")
    stored = texts("ann", "c")[1:]
    answers = [text for text in stored if text.startswith("to ")]
    assert len(stored) == len(set(stored))
    assert {f"to {name}" for name in given} <= set(answers)
    assert all(stored.index(text.removeprefix("to ")) < stored.index(text) for text in answers)
    if kind != "question first":
        assert [f"to {text}" for text in stored[::2]] == stored[1::2]
    assert set(settled(events)) <= {"stored"}
    await asyncio.wait_for(asyncio.gather(*(other.count() for _ in range(20))), 10)
    await eventually(lambda: len(proxy.links) <= 5, "what was cancelled is closed")


@pytest.mark.parametrize("rules", [{}, {"save_input": "before"}], ids=["after", "before"])
async def test_a_call_that_is_cancelled_while_the_model_runs_stores_no_answer(
    memory: AsyncRedisMemory, texts: Texts, events: list[Event], rules: Any
) -> None:
    """R57, E16: the model is cancelled; a question that was stored before stays."""
    running = asyncio.Event()
    cancelled: list[bool] = []

    async def model(given: Any) -> str:
        running.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    call = asyncio.ensure_future(with_history(model, memory, **rules)("Hi", **ANN))
    await running.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cancelled == [True]
    assert texts("ann", "c") == (["Hi"] if rules else [])
    assert settled(events) == []


async def test_a_cancelled_commit_of_a_turn_loses_nothing_that_was_added_meanwhile(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts, events: list[Event]
) -> None:
    """R58, E16: what the commit took is stored in the background; what came after it was not sent."""
    history, before = memory.history("ann", "c"), proxy.sent["EVALSHA"]
    async with history.turn() as turn:
        turn.add(human("1"))
        proxy.half_open("down")
        commit = asyncio.ensure_future(turn.commit())
        await eventually(lambda: proxy.sent["EVALSHA"] > before, "the commit is on its way")
        turn.add(human("2"))
        commit.cancel()
        await asyncio.wait([commit])
    assert commit.cancelled()
    assert [message.text for message in turn.added] == ["1", "2"]
    proxy.heal()
    await eventually(lambda: settled(events) == ["stored"], "the commit has ended")
    assert [message.text for message in turn.added] == ["2"]
    assert texts("ann", "c") == ["1"]


async def test_a_cancellation_hits_only_the_call_that_it_is_meant_for(
    memory: AsyncRedisMemory, texts: Texts
) -> None:
    """D14: other calls of its task group, over the same conversation, and unrelated waits go on."""
    running, go = asyncio.Barrier(7), asyncio.Event()

    async def model(given: Any) -> str:
        await running.wait()
        await go.wait()
        return f"to {given[-1].text}"

    chat = with_history(model, memory)
    async with asyncio.TaskGroup() as group:
        doomed = group.create_task(chat("doomed", **ANN))
        others = [group.create_task(chat(str(number), **ANN)) for number in range(5)]
        unrelated = group.create_task(go.wait())
        await running.wait()
        doomed.cancel()
        await asyncio.wait([doomed])
        go.set()
    assert doomed.cancelled()
    assert unrelated.result() is True
    assert [task.result() for task in others] == [f"to {number}" for number in range(5)]
    stored = texts("ann", "c")
    assert sorted(stored[::2]) == [str(number) for number in range(5)]
    assert [f"to {text}" for text in stored[::2]] == stored[1::2]


async def test_a_call_that_is_cancelled_while_it_loads_runs_no_model(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts
) -> None:
    """R57, D12: nothing was asked of the model, nothing is stored."""
    proxy.half_open("down")
    call = asyncio.ensure_future(with_history(never, memory)("Hi", **ANN))
    before = proxy.sent.total()
    await eventually(lambda: proxy.sent.total() > before, "the load is on its way")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    proxy.heal()
    assert texts("ann", "c") == []


async def never(given: Any) -> str:
    raise AssertionError("the model was run")


async def test_a_save_that_is_cancelled_goes_on_and_is_told(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts, events: list[Event]
) -> None:
    """R58: the caller is let go at once; the hooks hear that it is stored, and at which version."""
    await memory.history("ann", "c").append(human("begin"))
    report = TurnReport()
    call = await held_at_save(memory, proxy, report=report)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (report.saved, settled(events)) == (False, [])
    proxy.heal()
    await eventually(lambda: settled(events), "the save has ended")
    [event] = [event for event in events if event.kind == "settled"]
    assert (event.detail, event.messages, event.version) == ("stored", 2, 3)
    assert texts("ann", "c") == ["begin", "Hi", "to Hi"]


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_that_is_cancelled_while_its_summary_is_made_reports_its_turn_as_stored(
    memory: AsyncRedisMemory, texts: Texts, kind: str
) -> None:
    """R57, R98: the turn stands, and the report says so; the claim on the summary is given up."""
    asked = asyncio.Event()

    async def summarise(given: Any) -> str:
        if "ai:" not in given[0].text:
            return "the question"
        asked.set()
        return str(await asyncio.get_running_loop().create_future())

    report, store = TurnReport(), AsyncConversationSummaryMemory(memory, summarise, 0)
    call = asyncio.ensure_future(CALLS[kind](store)("Hi", report=report, **ANN))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert report.saved
    assert report.version == (await memory.history("ann", "c").load()).version
    assert texts("ann", "c")[-1] == "to Hi"


async def test_a_save_is_not_stopped_by_a_second_cancellation(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts, events: list[Event]
) -> None:
    """R58: nor by a task group or a timeout that cancels whatever waits."""
    await memory.history("ann", "c").append(human("begin"))
    call = await held_at_save(memory, proxy)
    for _ in range(3):
        call.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    proxy.heal()
    await eventually(lambda: settled(events) == ["stored"], "the save has ended")
    assert texts("ann", "c") == ["begin", "Hi", "to Hi"]


async def test_a_timeout_of_the_caller_is_a_cancellation_like_any_other(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts, events: list[Event]
) -> None:
    """D12, R58: its TimeoutError comes out, and the save is settled."""
    await memory.history("ann", "c").append(human("begin"))
    call = await held_at_save(memory, proxy)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call
    proxy.heal()
    await eventually(lambda: settled(events) == ["stored"], "the save has ended")
    assert texts("ann", "c") == ["begin", "Hi", "to Hi"]


async def test_a_cancelled_save_that_meets_a_conflict_is_told_as_not_stored(
    memory: AsyncRedisMemory, proxy: FaultProxy, direct: RedisMemory, texts: Texts, events: list[Event]
) -> None:
    """R58, T9: nobody is left to raise it to, and no task complains that nobody asked for it."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

    async def interrupted(given: Any) -> str:
        direct.history("ann", "c").append(human("other"))
        return "answer"

    await memory.history("ann", "c").append(human("begin"))
    call = await held_at_save(memory, proxy, interrupted, on_conflict="raise")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    proxy.heal()
    await eventually(lambda: settled(events) == ["not_stored"], "the save has ended")
    del call
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    assert texts("ann", "c") == ["begin", "other"]


async def test_a_cancelled_save_whose_replies_are_lost_is_told_as_unknown(
    proxy: FaultProxy, namespace: str, events: list[Event]
) -> None:
    """R58, P9: the outcome is honest."""
    url = f"redis://{HOST}:{proxy.port}/0"
    options: dict[str, Any] = {"namespace": namespace, "hooks": (events.append,), "deadline": 1}
    async with AsyncRedisMemory.from_url(url, **options) as memory:
        await memory.history("ann", "c").append(human("begin"))
        call = await held_at_save(memory, proxy)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: settled(events), "the save has ended")
        assert settled(events) == ["unknown"]
        proxy.heal()


async def test_a_hook_that_raises_does_not_disturb_a_cancelled_save(
    proxy: FaultProxy, namespace: str, texts: Texts, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 27, R58: it is logged."""
    told: list[str] = []

    def hook(event: Event) -> None:
        told.append(event.kind)
        raise RuntimeError

    url = f"redis://{HOST}:{proxy.port}/0"
    async with AsyncRedisMemory.from_url(url, namespace=namespace, hooks=(hook,)) as memory:
        await memory.history("ann", "c").append(human("begin"))
        call = await held_at_save(memory, proxy)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        proxy.heal()
        await eventually(lambda: "settled" in told, "the save has ended")
    assert "hook failed on settled" in caplog.text
    assert texts("ann", "c") == ["begin", "Hi", "to Hi"]


def test_a_loop_that_ends_right_after_a_cancellation_leaves_no_half_turn(
    valkey: Server, namespace: str, texts: Texts, events: list[Event]
) -> None:
    """R58, D10: the save is cancelled with the loop, told as unknown or stored, and whole or absent."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace, hooks=(events.append,))
    chat = with_history(answer, memory)

    async def main(ticks: int) -> None:
        call = asyncio.ensure_future(chat(str(ticks), **ANN))
        await memory.history("ann", "warm").count()
        for _ in range(ticks):
            await asyncio.sleep(0)
        call.cancel()

    for ticks in range(30):
        asyncio.run(main(ticks))
    gc.collect()  # a connection or a task that was left open says so now, and fails this test
    stored = texts("ann", "c")
    assert [f"to {text}" for text in stored[::2]] == stored[1::2]
    assert len(stored) == len(set(stored))
    assert set(settled(events)) <= {"stored", "unknown"}
