"""Faults of order and of writes that people reported of other wrappers, as scenarios of this one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from langchain_core.messages import AIMessage, HumanMessage

from memory_redis import (
    HistoryNotSaved,
    RedisMemory,
    WrongType,
    human,
)
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.kit import (
    SESSION,
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
    stored,
    talk,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@both_calls
async def test_reads_are_oldest_first_however_it_was_written(memory: RedisMemory, way: str) -> None:
    """A01: turns, bulk adds and single adds of one conversation come back in the order of their writing."""
    chain = RunnableWithMessageHistory(Runs(), memory)
    history = RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id="c1")
    history.add_user_message("1")
    history.add_messages([AIMessage(content="2"), HumanMessage(content="3")])
    await ask(way, chain, "4")
    history.add_ai_message("6")
    expected = ["1", "2", "3", "4", "fine", "6"]
    assert [text for _, text in said(history.messages)] == expected
    assert [text for _, text in said(await history.aget_messages())] == expected
    assert [text for _, text in said(stored(memory))] == expected


def test_batches_of_two_workers_do_not_overlap(valkey: Server, namespace: str) -> None:
    """A06: released at one instant, 50 times: 20 messages a round, each ten side by side and in order."""
    rounds = 50
    ready = threading.Barrier(2)

    def work(name: str) -> None:
        history = RedisChatMessageHistory("s", url=valkey.url, key_prefix=namespace)
        for number in range(rounds):
            ready.wait()
            history.add_messages([HumanMessage(content=f"{name} {number} {at}") for at in range(10)])

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    texts = [text for _, text in said(RedisChatMessageHistory("s", valkey.url, namespace).messages)]
    assert len(texts) == rounds * 20
    tens = [texts[at : at + 10] for at in range(0, len(texts), 10)]
    assert all(ten == [f"{ten[0][:-2]} {at}" for at in range(10)] for ten in tens)
    assert len({ten[0] for ten in tens}) == rounds * 2


async def test_the_next_turn_sees_the_last_one_from_any_worker(valkey: Server, namespace: str) -> None:
    """A19: turn 2 is sent to another worker the moment turn 1 returns, over a slow line: none is missing."""
    with Watched(valkey.address) as watched, contextlib.ExitStack() as stack:
        watched.proxy.delay(0.003)
        workers = [
            RunnableWithMessageHistory(
                lambda messages: str(len(messages)),
                stack.enter_context(RedisMemory.from_url(url, namespace=namespace)),
            )
            for url in (watched.url, valkey.url)
        ]
        answers = []
        for number in range(30):
            worker = workers[number % 2]
            if number % 3 == 0:
                answers.append("".join([chunk async for chunk in worker.astream("Hi", SESSION)]))
            else:
                answers.append(worker.invoke("Hi", SESSION))
        assert answers == [str(2 * number + 1) for number in range(30)]
        for worker in workers:
            await worker.get_session_history.twin.aclose()


@every_way
async def test_a_key_of_another_type_is_an_error_every_time(valkey: Server, namespace: str, way: str) -> None:
    """A20, T1: the list is a plain string: an error before the model runs, nothing stored, no doubles."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory, valkey.client() as plain:
        plain.set(f"{namespace}:{{ann:c1}}:messages", "in the way")
        runs = Runs()
        chain = RunnableWithMessageHistory(runs, memory)
        for _ in range(4):
            with pytest.raises(WrongType):
                await chunks_of(way, chain, "Hi")
        assert runs.calls == 0
        assert plain.get(f"{namespace}:{{ann:c1}}:messages") == b"in the way"
        plain.delete(f"{namespace}:{{ann:c1}}:messages")
        await ask(way, chain, "Hi")
        assert said(stored(memory)) == talk("Hi", "fine")
        if way.startswith("a"):
            await memory.twin.aclose()


@every_way
async def test_a_key_that_changes_its_type_meanwhile_loses_no_answer(
    valkey: Server, namespace: str, way: str
) -> None:
    """A20, T1: the save is refused as a whole, and the error has the answer."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory, valkey.client() as plain:
        memory.history("ann", "c1").append(human("before"))
        key = f"{namespace}:{{ann:c1}}:messages"

        def answer(_: Any) -> str:
            with redis.Redis.from_url(valkey.url) as other:
                other.set(key, "in the way")
            return "an expensive answer"

        with pytest.raises(HistoryNotSaved) as caught:
            await chunks_of(way, RunnableWithMessageHistory(answer, memory), "Hi")
        assert isinstance(caught.value.error, WrongType)
        assert caught.value.output == "an expensive answer"
        assert caught.value.outcome == "not_stored"
        assert plain.get(key) == b"in the way"
        if way.startswith("a"):
            await memory.twin.aclose()


@both_streams
async def test_a_conversation_can_be_streamed_on_and_on(memory: RedisMemory, way: str) -> None:
    """C04, T4: what a stream stores can be read by the next one, and by the history class."""
    inner = model("one two", "three four", "five six")
    chain = RunnableWithMessageHistory(inner, memory)
    for question in ("a", "b", "c"):
        await ask(way, chain, question)
    assert said(inner.asked[2]) == talk("a", "one two", "b", "three four", "c")
    assert {type(message) for message in inner.asked[2]} == {HumanMessage, AIMessage}
    history = RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id="c1")
    assert {type(message) for message in history.messages} == {HumanMessage, AIMessage}
    assert await in_thread(lambda: len(history)) == 6
