"""Faults that people reported of other wrappers, as scenarios of this one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import ConfigurableFieldSpec

from memory_redis import (
    AllMessages,
    InvalidId,
    InvalidSetting,
    LastMessages,
    RedisMemory,
    TurnReport,
    UnansweredCall,
    ai,
    human,
    tool,
)
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.kit import (
    SESSION,
    Runs,
    Watched,
    ask,
    both_calls,
    both_streams,
    every_way,
    model,
    said,
    session,
    stored,
    talk,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@every_way
async def test_a_run_stores_what_is_new_and_nothing_again(memory: RedisMemory, way: str) -> None:
    """E02, E03: the conversation grows by one turn a run, whatever the model was shown."""
    runs = Runs()
    chain = RunnableWithMessageHistory(runs, memory)
    for number in range(4):
        await ask(way, chain, f"question {number}")
        assert len(stored(memory)) == 2 * number + 2
        assert len(runs.asked[number]) == 2 * number + 1
    assert [text for _, text in said(stored(memory))][::2] == [f"question {number}" for number in range(4)]


@every_way
async def test_what_is_handed_in_counts_as_new(memory: RedisMemory, way: str) -> None:
    """E02, E19: a whole list from elsewhere is stored behind what there is, in order; nothing replaces it."""
    memory.history("ann", "c1").append(human("before"), ai("yes"))
    runs = Runs()
    preloaded = [SystemMessage(content="imported"), HumanMessage(content="a"), AIMessage(content="b")]
    await ask(way, RunnableWithMessageHistory(runs, memory), [*preloaded, HumanMessage(content="Hi")])
    new = [("system", "imported"), *talk("a", "b", "Hi")]
    assert said(runs.asked[0]) == [*talk("before", "yes"), *new]
    assert said(stored(memory)) == [*talk("before", "yes"), *new, ("ai", "fine")]


@every_way
async def test_a_request_that_is_sent_twice_is_stored_once(memory: RedisMemory, way: str) -> None:
    """E03, A20: under one idempotency key the second run gives the stored answer and runs no model."""
    inner = model("fine thank you", "something else")
    chain = RunnableWithMessageHistory(inner, memory)
    report = TurnReport()
    first = await ask(way, chain, "Hi", session(idempotency_key="r1"))
    again = await ask(way, chain, "Hi", session(idempotency_key="r1", turn_report=report))
    assert str(again.text) == str(first.text) == "fine thank you"
    assert inner.calls == 1
    assert report.repeated
    assert said(stored(memory)) == talk("Hi", "fine thank you")


@every_way
async def test_what_is_said_before_a_call_is_kept(memory: RedisMemory, way: str) -> None:
    """E08, E09: text beside a tool call, then the result in the next run, then the answer, in order."""
    inner = model(AIMessage(content="let me check", tool_calls=[CALL]), "It is 2")
    chain = RunnableWithMessageHistory(inner, memory, unanswered="raise")
    answer = await ask(way, chain, "1 + 1?")
    assert answer.tool_calls == [CALL]
    with pytest.raises(UnansweredCall):
        await ask(way, chain, "Hello?")
    assert inner.calls == 1
    await ask(way, chain, [ToolMessage(content="2", tool_call_id="k1")])
    assert said(inner.asked[1]) == [*talk("1 + 1?", "let me check"), ("tool", "2")]
    assert inner.asked[1][1].tool_calls == [CALL]
    assert said(stored(memory)) == [*talk("1 + 1?", "let me check"), ("tool", "2"), ("ai", "It is 2")]


OTHER_PROCESS = """
import sys
from memory_redis import RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
with RedisMemory.from_url(sys.argv[1], namespace=sys.argv[2]) as memory:
    seen = []
    chain = RunnableWithMessageHistory(lambda messages: seen.extend(messages) or "fine", memory)
    chain.invoke("Hi", {"configurable": {"user_id": "ann", "conversation_id": "c1"}})
for message in seen:
    print(type(message).__name__, message.content, getattr(message, "tool_calls", ""),
          getattr(message, "tool_call_id", ""), getattr(message, "artifact", ""))
"""


async def test_another_process_sees_every_kind_of_message(valkey: Server, namespace: str) -> None:
    """E10, E11: after a restart calls and results are what they were, not flattened to texts."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        whole = [
            AIMessage(content="", tool_calls=[CALL]),
            ToolMessage(content="2", tool_call_id="k1", artifact={"raw": [1]}),
            AIMessage(content="It is 2"),
        ]
        chain = RunnableWithMessageHistory(Runs(whole), memory)
        chain.invoke("1 + 1?", SESSION)
    run = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", OTHER_PROCESS, valkey.url, namespace],
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert [" ".join(line.split()) for line in run.stdout.splitlines()] == [
        "HumanMessage 1 + 1?",
        f"AIMessage {[CALL]}",
        "ToolMessage 2 k1 {'raw': [1]}",
        "AIMessage It is 2 []",
        "HumanMessage Hi",
    ]


@every_way
async def test_a_key_that_is_missing_is_named(memory: RedisMemory, way: str) -> None:
    """E12, R13, R17, R23: of two keys one missing, empty or a number: the error names it, no model runs."""
    runs = Runs()
    specs = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "conversation_id")]

    def factory(user_id: str, conversation_id: str) -> Any:
        return memory.history(user_id, conversation_id)

    chain = RunnableWithMessageHistory(runs, factory, history_factory_config=specs)
    with pytest.raises(InvalidSetting, match=r"missing keys \['user_id'\]"):
        await ask(way, chain, "Hi", {"configurable": {"conversation_id": "c1"}})
    for value in ("", None, 7):
        with pytest.raises(InvalidId, match="user_id"):
            await ask(way, chain, "Hi", session(user_id=value))
    assert runs.calls == 0
    await ask(way, chain, "Hi")
    assert said(stored(memory)) == talk("Hi", "fine")


@every_way
async def test_a_factory_without_arguments_needs_no_config(memory: RedisMemory, way: str) -> None:
    """E13, R18: no config at all, in every kind of call."""
    history = memory.session("the only one")
    chain = RunnableWithMessageHistory(Runs(), lambda: history)
    await ask(way, chain, "Hi", None)
    await ask(way, chain, "Ho", {})
    assert said(history.load().messages) == talk("Hi", "fine", "Ho", "fine")


@every_way
async def test_a_turn_of_many_messages_is_one_round_trip(valkey: Server, namespace: str, way: str) -> None:
    """E14, R73: 100 new messages and an answer are saved by one script, as one unit."""
    with (
        Watched(valkey.address) as watched,
        RedisMemory.from_url(watched.url, namespace=namespace) as memory,
    ):
        chain = RunnableWithMessageHistory(Runs(), memory)
        await ask(way, chain, "warm")
        watched.names()
        await ask(way, chain, [HumanMessage(content=str(number)) for number in range(100)])
        assert watched.names().count("EVALSHA") == 1
        assert len(stored(memory)) == 103
        if way.startswith("a"):
            await memory.twin.aclose()


@both_streams
async def test_a_stopped_stream_leaves_a_valid_conversation(memory: RedisMemory, way: str) -> None:
    """E16, T6: neither question nor part of an answer is kept; the next turn begins on the same past."""
    inner = model("fine thank you", "one two three four", "here I am")
    chain = RunnableWithMessageHistory(inner, memory)
    await ask(way, chain, "Hi")
    if way == "stream":
        chunks: Any = chain.stream("Tell me more", SESSION)
        next(chunks), next(chunks)
        chunks.close()
    else:
        achunks: Any = chain.astream("Tell me more", SESSION)
        await anext(achunks), await anext(achunks)
        await achunks.aclose()
    await ask(way, chain, "Are you there?")
    assert said(inner.asked[2]) == talk("Hi", "fine thank you", "Are you there?")
    assert said(stored(memory)) == talk("Hi", "fine thank you", "Are you there?", "here I am")


@every_way
async def test_an_abort_between_call_and_result_does_no_harm(memory: RedisMemory, way: str) -> None:
    """E17: the call that nobody answered stays in the store, and no model sees it; nor an orphan result."""
    inner = model(AIMessage(content="", tool_calls=[CALL]), "fine thank you")
    chain = RunnableWithMessageHistory(inner, memory)
    await ask(way, chain, "1 + 1?")
    await ask(way, chain, "Never mind")
    assert said(inner.asked[1]) == [("human", "1 + 1?"), ("human", "Never mind")]
    assert said(stored(memory)) == talk("1 + 1?", "", "Never mind", "fine thank you")
    kept = RunnableWithMessageHistory(inner, memory, unanswered="keep")
    await ask(way, kept, "All of it")
    assert inner.asked[2][1].tool_calls == [CALL]


async def test_a_stream_ends_in_the_conversation_that_it_began_in(memory: RedisMemory) -> None:
    """E18: one wrapper, streams of two conversations in turn, sync and async: no answer goes astray."""
    chain = RunnableWithMessageHistory(model("x y z"), memory)
    first, second = (chain.stream(f"to {name}", session(conversation_id=name)) for name in "AB")
    third, fourth = (chain.astream(f"for {name}", session(conversation_id=name)) for name in "AB")
    assert [str(chunk.text) for chunk in (next(first), next(second))] == ["x", "x"]
    assert [str(chunk.text) for chunk in (await anext(third), await anext(fourth))] == ["x", "x"]
    chain.invoke("between", session(conversation_id="C"))
    for chunks in (first, second):
        assert "".join(str(chunk.text) for chunk in chunks) == " y z"
    for achunks in (third, fourth):
        assert "".join([str(chunk.text) async for chunk in achunks]) == " y z"
    for name in "AB":
        kept = said(stored(memory, conversation_id=name))
        assert kept == talk(f"to {name}", "x y z", f"for {name}", "x y z")
    assert said(stored(memory, conversation_id="C")) == talk("between", "x y z")


@every_way
async def test_a_summary_and_the_tail_come_back_in_order(memory: RedisMemory, way: str) -> None:
    """E20, R61: who replaces old messages by one system message gets it first, then the rest."""
    history = RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id="c1")
    history.add_messages([HumanMessage(content=str(number)) for number in range(24)])
    tail = history.messages[20:]
    history.clear()
    history.add_messages([SystemMessage(content="They counted to 19"), *tail])
    runs = Runs()
    await ask(way, RunnableWithMessageHistory(runs, memory), "Hi")
    past = [("system", "They counted to 19"), *(("human", str(number)) for number in range(20, 24))]
    assert said(runs.asked[0]) == [*past, ("human", "Hi")]
    assert said(stored(memory)) == [*past, *talk("Hi", "fine")]


@both_calls
async def test_a_window_cuts_between_messages_that_belong_together(memory: RedisMemory, way: str) -> None:
    """E24: at every length, blocks of one message stay one, and no result stands without its call."""
    blocks: list[Any] = [
        {"type": "reasoning", "reasoning": "they want a sum"},
        {"type": "text", "text": "let me add"},
        {"type": "tool_use", "id": "k1", "name": "add", "input": {"x": 1}},
    ]
    memory.history("ann", "c1").append(
        human("1 + 1?"),
        ai(blocks, tool_calls=[CALL]),
        tool("2", tool_call_id="k1"),
        ai("It is 2"),
        human("Sure?"),
        ai("Yes"),
    )
    whole = [AllMessages(), *(LastMessages(length) for length in range(8))]
    for window in whole:
        runs = Runs([])
        await ask(way, RunnableWithMessageHistory(runs, memory), [], session(window=window))
        seen: list[BaseMessage] = runs.asked[0]
        called = {call["id"] for one in seen for call in getattr(one, "tool_calls", ())}
        answered = {one.tool_call_id for one in seen if isinstance(one, ToolMessage)}
        assert called == answered
        assert all(one.content == blocks for one in seen if isinstance(one.content, list))
        if isinstance(window, LastMessages):
            assert len(seen) <= window.count
            assert len(seen) == min(window.count, 6) - (window.count == 4)
