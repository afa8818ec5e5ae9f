"""Traps of langchain-core's wrapper where several workers share a conversation: what is better here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda

from memory_redis import (
    ConflictError,
    HistoryCleared,
    MaxMessages,
    RedisMemory,
    SlidingExpiry,
    TurnReport,
    ai,
    human,
)
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import (
    SESSION,
    ask,
    both_calls,
    both_streams,
    chunks_of,
    every_way,
    in_thread,
    said,
    session,
    stored,
    talk,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@pytest.fixture
def real(valkey: Server, namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(valkey.url, namespace=namespace) as one:
        yield one


def meanwhile(action: Callable[[], Any], answer: Any = "fine") -> RunnableLambda[Any, Any]:
    """A model that answers, and something happens while it works, the first time."""
    todo = [action]

    def run(_: Any) -> Any:
        while todo:
            todo.pop()()
        return answer

    return RunnableLambda(run)


@pytest.mark.parametrize("way", ["batch", "abatch", "map", "gather", "threads"])
async def test_runs_of_one_session_lose_no_question(real: RedisMemory, way: str) -> None:
    """T2: several at once over one conversation: every question and every answer, as whole turns."""

    def answer(messages: list[BaseMessage]) -> str:
        return f"answer to {messages[-1].text}"

    async def aanswer(messages: list[BaseMessage]) -> str:
        await asyncio.sleep(0)
        return answer(messages)

    chain = RunnableWithMessageHistory(RunnableLambda(answer, aanswer), real)
    questions = [f"question {number}" for number in range(8)]
    if way == "batch":
        given = chain.batch(questions, SESSION)
    elif way == "abatch":
        given = await chain.abatch(questions, SESSION)
    elif way == "map":
        given = chain.map().invoke(questions, SESSION)
    elif way == "gather":
        given = await asyncio.gather(*(chain.ainvoke(question, SESSION) for question in questions))
    else:
        given = await asyncio.gather(*(in_thread(chain.invoke, one, SESSION) for one in questions))
    assert given == [f"answer to {question}" for question in questions]
    kept = [text for _, text in said(stored(real))]
    assert sorted(kept[::2]) == questions
    assert [f"answer to {question}" for question in kept[::2]] == kept[1::2]
    await real.twin.aclose()


@every_way
async def test_a_conversation_that_was_cleared_stays_cleared(memory: RedisMemory, way: str) -> None:
    """T3: by another worker, while the model works: neither the past nor the turn comes back."""
    history = memory.history("ann", "c1")
    history.append(human("old"), ai("yes"))
    chain = RunnableWithMessageHistory(meanwhile(history.clear), memory)
    with pytest.raises(HistoryCleared) as caught:
        await chunks_of(way, chain, "Hi")
    assert caught.value.output == "fine"
    assert stored(memory) == []
    await ask(way, chain, "Again")
    assert said(stored(memory)) == talk("Again", "fine")


@every_way
@pytest.mark.parametrize("save_input", ["after", "before"])
async def test_a_conversation_that_ended_meanwhile_begins_with_the_turn(
    real: RedisMemory, way: str, save_input: Any
) -> None:
    """T3, R84: of what was there only its own question is written again; the report says expired."""
    history = real.history("ann", "c1")
    history.append(human("old"), ai("yes"))
    report = TurnReport()

    def end() -> None:
        with redis.Redis.from_url(real._opening._url) as plain:  # type: ignore[union-attr]
            plain.delete(*plain.scan_iter(f"{real._settings.namespace}:*"))

    chain = RunnableWithMessageHistory(meanwhile(end), real, save_input=save_input)
    await ask(way, chain, "Hi", session(turn_report=report))
    assert said(stored(real)) == talk("Hi", "fine")
    assert report.conflict is not None
    assert report.conflict.expired
    await real.twin.aclose()


@every_way
async def test_a_conversation_that_was_trimmed_meanwhile_gets_the_turn_alone(
    namespace: str, way: str
) -> None:
    """T3: what retention took away while the model worked does not come back."""
    with RedisMemory.from_url(f"fake://{namespace}", retention=MaxMessages(4)) as memory:
        history = memory.history("ann", "c1")
        history.append(human("old"), ai("yes"), human("older"), ai("no"))
        chain = RunnableWithMessageHistory(meanwhile(lambda: history.append(human("x"), ai("y"))), memory)
        await ask(way, chain, "Hi")
        assert said(stored(memory)) == talk("x", "y", "Hi", "fine")


async def test_turns_of_two_workers_do_not_interleave(valkey: Server, namespace: str) -> None:
    """T8, A06: each turn stands whole, each worker's in order, and no key is ever without its expiry."""
    keys: Any = {"namespace": namespace, "expiry": SlidingExpiry(seconds=100)}
    start = threading.Barrier(3)
    seen: list[int] = []

    def work(name: str) -> None:
        with RedisMemory.from_url(valkey.url, **keys) as memory:
            chain = RunnableWithMessageHistory(lambda messages: f"to {messages[-1].text}", memory)
            start.wait()
            for number in range(25):
                chain.invoke([HumanMessage(content=f"{name}{number}"), HumanMessage(content="and")], SESSION)

    def watch(plain: redis.Redis) -> None:
        seen.extend(plain.pttl(key) for key in plain.scan_iter(f"{namespace}:*"))

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    with valkey.client() as plain:
        start.wait()
        while any(worker.is_alive() for worker in workers):
            watch(plain)
        watch(plain)
    with RedisMemory.from_url(valkey.url, **keys) as memory:
        kept = [text for _, text in said(stored(memory))]
    assert len(kept) == 150
    assert kept[1::3] == ["and"] * 50
    assert kept[2::3] == ["to and"] * 50
    for name in "ab":
        assert [text for text in kept if text[0] == name and text[1:].isdigit()] == [
            f"{name}{number}" for number in range(25)
        ]
    assert seen
    assert all(0 < left <= 330_000 for left in seen)


@both_calls
async def test_two_answers_on_one_past_are_noticed(memory: RedisMemory, way: str) -> None:
    """T9: under "append" both turns are kept whole, and the later one's report tells what it had not seen."""
    history = memory.history("ann", "c1")
    report = TurnReport()
    chain = RunnableWithMessageHistory(meanwhile(lambda: history.append(human("x"), ai("y"))), memory)
    assert await ask(way, chain, "Hi", session(turn_report=report)) == "fine"
    assert said(stored(memory)) == talk("x", "y", "Hi", "fine")
    assert said(report.missed) == talk("x", "y")
    assert (report.tries, report.saved) == (1, True)


@every_way
async def test_a_conflict_can_be_raised(memory: RedisMemory, way: str) -> None:
    """T9: under "raise" nothing is stored; the error has the answer and what was missed."""
    history = memory.history("ann", "c1")
    chain = RunnableWithMessageHistory(
        meanwhile(lambda: history.append(human("x"), ai("y"))), memory, on_conflict="raise"
    )
    with pytest.raises(ConflictError) as caught:
        await chunks_of(way, chain, "Hi")
    assert caught.value.output == "fine"
    assert said(caught.value.missed) == talk("x", "y")
    assert said(stored(memory)) == talk("x", "y")


@both_calls
async def test_a_conflict_can_be_answered_again(memory: RedisMemory, way: str) -> None:
    """T9: under "retry" the model runs again on what there is now; stored is the second answer alone."""
    history = memory.history("ann", "c1")
    asked: list[list[tuple[str, str]]] = []

    def answer(messages: list[BaseMessage]) -> str:
        asked.append(said(messages))
        if len(asked) == 1:
            history.append(human("x"), ai("y"))
        return f"answer {len(asked)}"

    report = TurnReport()
    chain = RunnableWithMessageHistory(answer, memory, on_conflict="retry")
    assert await ask(way, chain, "Hi", session(turn_report=report)) == "answer 2"
    assert asked == [talk("Hi"), talk("x", "y", "Hi")]
    assert said(stored(memory)) == talk("x", "y", "Hi", "answer 2")
    assert (report.tries, report.saved, report.conflict) == (2, True, None)


@both_streams
async def test_what_was_streamed_is_not_answered_again(memory: RedisMemory, way: str) -> None:
    """T9: once a chunk has gone out, "retry" raises: nobody should read two answers in one."""
    history = memory.history("ann", "c1")
    runs = meanwhile(lambda: history.append(human("x"), ai("y")))
    chain = RunnableWithMessageHistory(runs, memory, on_conflict="retry")
    with pytest.raises(ConflictError) as caught:
        await chunks_of(way, chain, "Hi")
    assert caught.value.output == "fine"
    assert said(stored(memory)) == talk("x", "y")
