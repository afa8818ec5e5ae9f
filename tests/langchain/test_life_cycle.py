"""One run from begin to end: what is read, when it is stored, and what is not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from pydantic import SecretStr

from memory_redis import RedisMemory, ai, human, system
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import (
    AWAITED,
    SESSION,
    OthersHistory,
    Runs,
    Watched,
    ask,
    both_calls,
    both_streams,
    chunks_of,
    every_way,
    in_thread,
    model,
    said,
    session,
    stored,
    talk,
    until,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@pytest.fixture
def watched(valkey: Server) -> Iterator[Watched]:
    with Watched(valkey.address) as one:
        yield one


@every_way
@pytest.mark.parametrize("shape", ["list", "dictionary"])
async def test_a_run_is_one_read_and_one_write(
    watched: Watched, namespace: str, way: str, shape: str
) -> None:
    """R53, T25, E14: one load and one script, in list mode too, where LangChain's reads twice."""
    with RedisMemory.from_url(watched.url, namespace=namespace) as memory:
        keys: Any = {"input_messages_key": "question", "history_messages_key": "history"}
        chain = RunnableWithMessageHistory(Runs(), memory, **(keys if shape == "dictionary" else {}))
        value: Any = {"question": "Hi"} if shape == "dictionary" else "Hi"
        await ask(way, chain, value)
        watched.names()
        await ask(way, chain, value)
        names = watched.names()
        assert names.count("EVALSHA") == 1
        assert names.count("LRANGE") == 1
        assert names[-1] == "EVALSHA"
        assert len(stored(memory)) == 4
        if way in AWAITED:
            await memory.twin.aclose()


@every_way
async def test_a_run_that_fails_stores_nothing(memory: RedisMemory, way: str) -> None:
    """R54, T7: the error is the model's own, unchanged; the next run sees no half a turn."""
    error = RuntimeError("no tokens left")
    chain = RunnableWithMessageHistory(model(error, "fine"), memory)
    with pytest.raises(RuntimeError) as caught:
        await ask(way, chain, "Hi")
    assert caught.value is error
    assert stored(memory) == []
    await ask(way, chain, "Again")
    assert said(stored(memory)) == talk("Again", "fine")


@both_streams
async def test_a_stream_that_fails_in_the_middle_stores_nothing(memory: RedisMemory, way: str) -> None:
    """R55, T7: what was handed out before the error does not count."""
    error = RuntimeError("cut off")
    chain = RunnableWithMessageHistory(model(("one two", error)), memory)
    given: list[Any] = []

    async def consume() -> None:
        if way == "stream":
            given.extend(chain.stream("Hi", SESSION))  # extend takes over what came before the error
        else:
            async for chunk in chain.astream("Hi", SESSION):
                given.append(chunk)

    with pytest.raises(RuntimeError) as caught:
        await consume()
    assert caught.value is error
    assert "".join(str(chunk.text) for chunk in given) == "one two"
    assert stored(memory) == []


@both_calls
async def test_the_turn_is_stored_before_the_call_returns(memory: RedisMemory, way: str) -> None:
    """R56: nothing while the model runs, both messages when the run ends, for whoever listens to it."""
    seen: list[int] = []

    def answer(_: Any) -> str:
        seen.append(len(stored(memory)))
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer), memory)
    listening = chain.with_listeners(on_end=lambda _: seen.append(len(stored(memory))))
    await ask(way, listening, "Hi")
    assert seen == [0, 2]
    assert len(stored(memory)) == 2


async def test_a_stream_stores_after_the_last_chunk_and_before_its_end(memory: RedisMemory) -> None:
    """R56: all chunks are delivered first; a stream that has ended is stored, and its listener sees it."""
    seen: list[int] = []
    chain = RunnableWithMessageHistory(Runs("one"), memory)
    listening: Any = chain.with_listeners(on_end=lambda _: seen.append(len(stored(memory))))
    chunks = listening.stream("Hi", SESSION)
    assert next(chunks) == "one"
    assert stored(memory) == []
    assert list(chunks) == []
    assert len(stored(memory)) == 2
    achunks = listening.astream("Ho", SESSION)
    assert await anext(achunks) == "one"
    assert len(stored(memory)) == 2
    assert [chunk async for chunk in achunks] == []
    assert len(stored(memory)) == 4
    assert seen == [2, 4]


@pytest.mark.parametrize("way", AWAITED)
async def test_a_run_that_is_cancelled_in_the_model_stores_nothing(memory: RedisMemory, way: str) -> None:
    """R57: whoever cancels while the model works gets CancelledError, and no turn."""
    started = asyncio.Event()

    async def answer(_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    chain = RunnableWithMessageHistory(RunnableLambda(lambda _: "", answer), memory)
    running = asyncio.create_task(chunks_of(way, chain, "Hi"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stored(memory) == []
    await ask(way, RunnableWithMessageHistory(Runs(), memory), "Hi")
    assert said(stored(memory)) == talk("Hi", "fine")


@pytest.mark.parametrize("way", AWAITED)
async def test_a_run_that_is_cancelled_while_saving_is_saved(
    watched: Watched, valkey: Server, namespace: str, way: str
) -> None:
    """R58: the caller is told CancelledError at once, and the save goes on to its end; once."""
    with (
        RedisMemory.from_url(watched.url, namespace=namespace) as memory,
        RedisMemory.from_url(valkey.url, namespace=namespace) as beside,
    ):
        beside.history("ann", "c1").append(human("before"))

        def answer(_: Any) -> str:
            watched.freeze()
            watched.names()
            return "fine"

        chain = RunnableWithMessageHistory(RunnableLambda(answer), memory)
        running = asyncio.create_task(chunks_of(way, chain, "Hi"))
        await until(lambda: any(args[0] == b"EVALSHA" for args in watched.seen))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        watched.thaw()
        await until(lambda: len(stored(beside)) == 3)
        await memory.twin.aclose()
        assert said(stored(beside)) == [("human", "before"), *talk("Hi", "fine")]


async def test_a_cancelled_save_of_others_is_finished_too() -> None:
    """R58: a history that is awaited saves whole turns, also when nobody waits for it any more."""
    saving, go_on = asyncio.Event(), asyncio.Event()

    class Slow(OthersHistory):
        async def aget_messages(self) -> list[Any]:
            return list(self.kept)

        async def aadd_messages(self, messages: Any) -> None:
            saving.set()
            await go_on.wait()
            self.kept.extend(messages)

    history = Slow()
    chain = RunnableWithMessageHistory(Runs(), lambda session_id: history)
    running = asyncio.create_task(chain.ainvoke("Hi", session(session_id="s")))
    await saving.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert history.kept == []
    go_on.set()
    await until(lambda: history.kept)
    assert said(history.kept) == talk("Hi", "fine")


@both_calls
@pytest.mark.parametrize("where", ["inside", "outside"])
async def test_a_retry_stores_one_turn(memory: RedisMemory, way: str, where: str) -> None:
    """R59: inside the wrapper or around it, for the attempt that worked; no attempt sees another one's."""
    inner = model(OSError("busy"), OSError("busy"), "fine")
    once: Any = {"retry_if_exception_type": (OSError,), "wait_exponential_jitter": False}
    if where == "inside":
        chain: Any = RunnableWithMessageHistory(inner.with_retry(**once), memory)
    else:
        chain = RunnableWithMessageHistory(inner, memory).with_retry(**once)
    assert (await ask(way, chain, "Hi")).text == "fine"
    assert [said(asked) for asked in inner.asked] == [talk("Hi")] * 3
    assert said(stored(memory)) == talk("Hi", "fine")


@every_way
@pytest.mark.parametrize("where", ["inside", "outside"])
async def test_a_fallback_stores_one_turn(memory: RedisMemory, way: str, where: str) -> None:
    """R59: stored is the answer of the one that worked, streamed or not."""
    bad, good = model(OSError("down")), model("fine thank you")
    if where == "inside":
        chain: Any = RunnableWithMessageHistory(bad.with_fallbacks([good]), memory)
    else:
        other = RunnableWithMessageHistory(good, memory)
        chain = RunnableWithMessageHistory(bad, memory).with_fallbacks([other])
    assert str((await ask(way, chain, "Hi")).text) == "fine thank you"
    assert (bad.calls, good.calls) == (1, 1)
    assert said(stored(memory)) == talk("Hi", "fine thank you")


@every_way
@pytest.mark.parametrize("keys", [True, False])
async def test_the_chains_own_prompt_is_not_stored(memory: RedisMemory, way: str, keys: bool) -> None:
    """R60: neither its system message nor its examples."""
    placeholder = "history" if keys else "question"
    parts: list[Any] = [("system", "Be kind"), ("human", "ping"), ("ai", "pong")]
    parts.append(MessagesPlaceholder(placeholder))
    if keys:
        parts.append(("human", "{question}"))
    inner = model("fine thank you")
    chain = RunnableWithMessageHistory(
        ChatPromptTemplate.from_messages(parts) | inner,
        memory,
        input_messages_key="question",
        history_messages_key="history" if keys else None,
    )
    for _ in range(2):
        await ask(way, chain, {"question": "Hi"})
    own = [("system", "Be kind"), ("human", "ping"), ("ai", "pong")]
    assert said(inner.asked[1]) == [*own, *talk("Hi", "fine thank you", "Hi")]
    assert said(stored(memory)) == talk("Hi", "fine thank you") * 2


@every_way
async def test_a_stored_system_message_stays_where_it_is(memory: RedisMemory, way: str) -> None:
    """R61: it is handed to the runnable in its place, at the front or in the middle, and kept."""
    memory.history("ann", "c1").append(system("summary"), human("a"), ai("b"), system("be brief"))
    runs = Runs()
    chain = RunnableWithMessageHistory(runs, memory)
    await ask(way, chain, "Hi")
    past = [("system", "summary"), *talk("a", "b"), ("system", "be brief")]
    assert said(runs.asked[0]) == [*past, ("human", "Hi")]
    assert isinstance(runs.asked[0][0], SystemMessage)
    assert said(stored(memory)) == [*past, *talk("Hi", "fine")]


async def test_what_a_wrapper_says_of_itself_is_honest_and_without_secrets(namespace: str) -> None:
    """R62: JSON says that it is not serialisable; neither it nor a repr has URL, password or ids."""
    url = "redis://:hunter2@127.0.0.1:1/0"
    with RedisMemory.from_url(url, namespace=namespace) as memory:
        chain = RunnableWithMessageHistory(
            RunnableLambda(lambda _: "fine"), memory, config={"configurable": {"key": SecretStr("hunter2")}}
        )
        assert not chain.is_lc_serializable()
        shown: Any = chain.to_json()
        assert shown["type"] == "not_implemented"
        for text in (json.dumps(shown), dumps(chain), repr(chain), str(chain)):
            assert "hunter2" not in text
            assert "127.0.0.1" not in text


async def test_runs_side_by_side_are_whole_turns(memory: RedisMemory) -> None:
    """R52, T2: streams of one conversation that overlap end up one after the other, none torn apart."""
    chain = RunnableWithMessageHistory(model("one two three"), memory)

    async def one(number: int) -> None:
        async with contextlib.aclosing(chain.astream(f"question {number}", SESSION)) as chunks:
            async for _ in chunks:
                await asyncio.sleep(0)

    await asyncio.gather(*map(one, range(5)))
    kept = said(stored(memory))
    assert sorted(kept[::2]) == [("human", f"question {number}") for number in range(5)]
    assert kept[1::2] == [("ai", "one two three")] * 5


async def test_a_call_from_a_thread_is_like_any_other(memory: RedisMemory) -> None:
    """R56: what a worker thread asks is stored when it gets its answer, beside awaited calls."""
    chain = RunnableWithMessageHistory(model("fine"), memory)
    await asyncio.gather(in_thread(chain.invoke, "a", SESSION), chain.ainvoke("b", SESSION))
    assert sorted(said(stored(memory))) == sorted(talk("a", "fine", "b", "fine"))
    assert isinstance(chain.invoke([HumanMessage(content="c")], SESSION), AIMessage)
