"""Traps of langchain-core's wrapper that concern what is stored: each with what is better here."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

from memory_redis import (
    HistoryNotSaved,
    LastMessages,
    RedisMemory,
    TurnReport,
    UnknownOutcome,
    human,
)
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import (
    SESSION,
    WAYS,
    Runs,
    Watched,
    ask,
    both_streams,
    chunks_of,
    every_way,
    model,
    pieces,
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


@pytest.fixture
def watched(valkey: Server) -> Iterator[Watched]:
    with Watched(valkey.address) as one:
        yield one


def meanwhile(action: Callable[[], Any], answer: Any = "fine") -> RunnableLambda[Any, Any]:
    """A model that answers, and something happens while it works, the first time."""
    todo = [action]

    def run(_: Any) -> Any:
        while todo:
            todo.pop()()
        return answer

    return RunnableLambda(run)


@every_way
async def test_a_save_that_fails_is_an_error_with_the_answer(
    watched: Watched, valkey: Server, namespace: str, way: str
) -> None:
    """T1: the server goes away while the model works: HistoryNotSaved has the whole answer.

    It also says that nobody can tell whether the turn is stored, and has what settles that.
    """
    with RedisMemory.from_url(watched.url, namespace=namespace, deadline=1) as memory:
        chain = RunnableWithMessageHistory(meanwhile(watched.proxy.cut, "an expensive answer"), memory)
        with pytest.raises(HistoryNotSaved) as caught:
            await chunks_of(way, chain, "Hi")
        assert caught.value.output == "an expensive answer"
        assert isinstance(caught.value.error, UnknownOutcome)
        assert caught.value.outcome == "unknown"
        assert "expensive" not in str(caught.value)
        if way.startswith("a"):
            await memory.twin.aclose()
    assert caught.value.append_id is not None
    with RedisMemory.from_url(valkey.url, namespace=namespace) as beside:
        assert beside.history("ann", "c1").settle(caught.value.append_id) is None
        assert stored(beside) == []


@every_way
@pytest.mark.parametrize("how", ["log", "callback"])
async def test_who_prefers_the_answer_gets_it(
    watched: Watched, namespace: str, way: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """T1: with on_save_error the answer comes as usual, and the loss is logged or told, once."""
    told: list[HistoryNotSaved] = []
    report = TurnReport()
    with RedisMemory.from_url(watched.url, namespace=namespace, deadline=1) as memory:
        chain = RunnableWithMessageHistory(
            meanwhile(watched.proxy.cut),
            memory,
            on_save_error="log" if how == "log" else told.append,
        )
        assert await ask(way, chain, "Hi", session(turn_report=report)) == "fine"
        if way.startswith("a"):
            await memory.twin.aclose()
    assert len(told) == (how == "callback")
    assert sum("was not saved" in record.message for record in caplog.records) == (how == "log")
    assert isinstance(report.error, HistoryNotSaved)
    assert not report.saved


@both_streams
async def test_a_streamed_answer_is_stored_as_a_message(memory: RedisMemory, way: str) -> None:
    """T4, R109: type `ai`, without what only chunks have; the same as invoke stores."""
    call = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}
    answer = AIMessage(content="let me see", tool_calls=[call])
    await ask(way, RunnableWithMessageHistory(model(answer), memory), "Hi")
    await ask("invoke", RunnableWithMessageHistory(model(answer), memory), "Hi")
    streamed, whole = stored(memory)[1::2]
    assert streamed.type == whole.type == "ai"
    assert {**streamed.data, "id": None} == {**whole.data, "id": None}
    assert not {"tool_call_chunks", "chunk_position", "type"} & streamed.data.keys()


@both_streams
@pytest.mark.parametrize("inner", ["model", "chain", "function"])
@pytest.mark.parametrize("partial", ["drop", "keep"])
async def test_a_stream_that_is_left_early_has_one_rule(
    memory: RedisMemory, way: str, inner: str, partial: Any
) -> None:
    """T6: whatever is wrapped, nothing is stored, or all that was delivered, marked as part of an answer."""
    kinds: dict[str, Any] = {
        "model": model("one two three four"),
        "chain": model("one two three four") | StrOutputParser(),
        "function": pieces("one", " two", " three", " four"),
    }
    chain = RunnableWithMessageHistory(kinds[inner], memory, partial=partial)
    if way == "stream":
        chunks: Any = chain.stream("Hi", SESSION)
        seen = [next(chunks), next(chunks)]
        chunks.close()
    else:
        achunks: Any = chain.astream("Hi", SESSION)
        seen = [await anext(achunks), await anext(achunks)]
        await achunks.aclose()
    assert [getattr(one, "text", one) for one in seen] == ["one", " two"]
    if partial == "drop":
        assert stored(memory) == []
        return
    assert said(stored(memory)) == talk("Hi", "one two")
    assert stored(memory)[1].data["response_metadata"]["partial"] is True
    assert "response_metadata" not in stored(memory)[0].data


@both_streams
@pytest.mark.parametrize("again", WAYS)
async def test_a_question_whose_stream_was_left_early_is_stored_once_when_it_is_sent_again(
    memory: RedisMemory, way: str, again: str
) -> None:
    """T6, decisions 5 and 27: under one key, however it is sent again; the whole answer is the last."""
    chain = RunnableWithMessageHistory(model("one two three"), memory, partial="keep")
    config = session(idempotency_key="k")
    if way == "stream":
        chunks: Any = chain.stream("Hi", config)
        next(chunks)
        chunks.close()
    else:
        achunks: Any = chain.astream("Hi", config)
        await anext(achunks)
        await achunks.aclose()
    inner = model("one two three")
    chain = RunnableWithMessageHistory(inner, memory, partial="keep")
    for _ in range(2):
        assert (await ask(again, chain, "Hi", config)).text == "one two three"
    assert [said(given) for given in inner.asked] == [talk("Hi")]
    assert said(stored(memory)) == [*talk("Hi", "one"), ("ai", "one two three")]


@every_way
async def test_the_question_of_a_failed_run_stays_if_asked_to(memory: RedisMemory, way: str) -> None:
    """T7, R84: save_input="before" stores it before the model runs, and shows it to the model once."""
    error = RuntimeError("no tokens left")
    inner = model(error, "fine thank you")
    chain = RunnableWithMessageHistory(inner, memory, save_input="before")
    with pytest.raises(RuntimeError):
        await ask(way, chain, "Hi")
    assert said(stored(memory)) == [("human", "Hi")]
    await ask(way, chain, "Still there?")
    assert said(inner.asked[0]) == [("human", "Hi")]
    assert said(inner.asked[1]) == [("human", "Hi"), ("human", "Still there?")]
    assert said(stored(memory)) == [("human", "Hi"), *talk("Still there?", "fine thank you")]


@every_way
async def test_a_window_does_not_touch_what_is_saved(memory: RedisMemory, way: str) -> None:
    """T20, R87, R85: the model sees the last N and the new one, all is stored; also where N is 0."""
    for window, sights in ((2, [1, 3, 3, 3]), (3, [1, 3, 4, 4]), (0, [1, 1, 1, 1])):
        history = memory.history("ann", "c1")
        history.clear()
        inner = model("fine thank you")
        chain = RunnableWithMessageHistory(inner, memory, window=LastMessages(window))
        for number in range(4):
            await ask(way, chain, f"question {number}")
        assert [len(asked) for asked in inner.asked] == sights
        assert [asked[-1].text for asked in inner.asked] == [f"question {number}" for number in range(4)]
        assert len(stored(memory)) == 8
    await ask(way, chain, "all?", session(window=LastMessages(100)))
    assert len(inner.asked[-1]) == 9


@every_way
async def test_only_the_window_is_read_and_once(watched: Watched, namespace: str, way: str) -> None:
    """T25, R53: of a long conversation one range goes over the wire, as long as the window."""
    with RedisMemory.from_url(watched.url, namespace=namespace, window=LastMessages(4)) as memory:
        memory.history("ann", "c1").append(*(human(str(number)) for number in range(100)))
        inner = model("fine thank you")
        chain = RunnableWithMessageHistory(inner, memory)
        await ask(way, chain, "warm")
        watched.names()
        await ask(way, chain, "Hi")
        ranges = [args for args in watched.seen if args[0].upper() == b"LRANGE"]
        assert len(ranges) == 1
        assert len(inner.asked[-1]) == 5
        first, last = (int(number) for number in ranges[0][2:4])
        assert last == -1
        assert -8 <= first <= -4
        if way.startswith("a"):
            await memory.twin.aclose()


@every_way
async def test_a_turn_with_tools_can_be_stored_whole(memory: RedisMemory, way: str) -> None:
    """T22, E08: an agent that gives its messages as a list has its calls and results stored, in order."""
    call = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}
    whole = [
        AIMessage(content="let me add", tool_calls=[call]),
        ToolMessage(content="2", tool_call_id="k1"),
        AIMessage(content="It is 2"),
    ]
    runs = Runs({"output": "It is 2", "steps": whole})
    chain = RunnableWithMessageHistory(runs, memory, output_messages_key="steps")
    assert (await ask(way, chain, "1 + 1?"))["output"] == "It is 2"
    await ask(way, chain, "Sure?")
    turn = [("ai", "let me add"), ("tool", "2"), ("ai", "It is 2")]
    assert said(runs.asked[1]) == [("human", "1 + 1?"), *turn, ("human", "Sure?")]
    assert runs.asked[1][1].tool_calls == [call]
    assert said(stored(memory)) == [("human", "1 + 1?"), *turn, ("human", "Sure?"), *turn]


async def test_a_stream_under_way_ends_with_its_consumer(memory: RedisMemory) -> None:
    """T6, R57: an async stream whose reader is cancelled stores nothing, and the model's stream is closed."""
    closed = threading.Event()
    started = asyncio.Event()

    async def speak(_: Any) -> Any:
        try:
            yield "one"
            started.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    chain = RunnableWithMessageHistory(RunnableLambda(speak), memory)

    async def read() -> None:
        async with contextlib.aclosing(chain.astream("Hi", SESSION)) as chunks:
            async for _ in chunks:
                pass

    reading = asyncio.create_task(read())
    await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert closed.is_set()
    assert stored(memory) == []
