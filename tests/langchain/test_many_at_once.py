"""One LangChain wrapper and one conversation: many threads, tasks, processes and event loops at once."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda

from memory_redis import ConflictError, Event, LastMessages, RedisMemory, exchanges
from memory_redis.langchain import RunnableWithMessageHistory
from tests.faults.chatting import SHARED, WORKERS, Told, check
from tests.support.servers import Server, wait_until

SESSION: Any = {"configurable": dict(SHARED)}
POLICIES = ["append", "raise", "retry"]


def said(given: list[Any]) -> str:
    """Says what it answers, and after which other question."""
    before = given[-2].text.split(" after ")[0] if len(given) > 1 else "nothing"
    return f"{given[-1].text} after {before}"


def in_parts(inputs: Any) -> Any:
    for given in inputs:
        text = said(given)
        yield text[:3]
        yield text[3:]


async def in_parts_later(inputs: Any) -> Any:
    async for given in inputs:
        text = said(given)
        yield text[:3]
        await asyncio.sleep(0)
        yield text[3:]


async def answer_later(given: list[Any]) -> AIMessage:
    await asyncio.sleep(0)
    return AIMessage(said(given))


def wrapper(memory: RedisMemory, policy: Any, parts: bool) -> RunnableWithMessageHistory:
    inner: Any = RunnableLambda(lambda given: AIMessage(said(given)), answer_later)
    if parts:
        inner = RunnableGenerator(in_parts, in_parts_later)
    return RunnableWithMessageHistory(inner, memory, on_conflict=policy, max_tries=3, window=LastMessages(2))


def caller(way: str, chain: RunnableWithMessageHistory) -> Callable[..., Any]:
    """A call of the wrapper that gives a text, or an awaitable of one."""

    def text(output: Any) -> str:
        return output if isinstance(output, str) else str(output.text)

    def call(name: str, **_: Any) -> str:
        try:
            if way == "invoke":
                return text(chain.invoke(name, SESSION))
            return "".join(chain.stream(name, SESSION))
        except ConflictError as error:
            error.output = text(error.output)
            raise

    async def later(name: str, **_: Any) -> str:
        try:
            if way == "ainvoke":
                return text(await chain.ainvoke(name, SESSION))
            return "".join([part async for part in chain.astream(name, SESSION)])
        except ConflictError as error:
            error.output = text(error.output)
            raise

    return call if way in ("invoke", "stream") else later


def stored(direct: RedisMemory) -> list[Any]:
    return direct.history("ann", "shared").load().messages


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses before a model is run again are as many as ever, but short."""
    monkeypatch.setattr(exchanges, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def memory(valkey: Server, namespace: str) -> Any:
    with RedisMemory.from_url(valkey.url, namespace=namespace, max_connections=5) as memory:
        yield memory


SYNC = [*(("invoke", policy) for policy in POLICIES), ("stream", "append"), ("stream", "raise")]
AWAITED = [*(("ainvoke", policy) for policy in POLICIES), ("astream", "append"), ("astream", "raise")]


@pytest.mark.parametrize(("way", "policy"), SYNC)
def test_eight_threads_of_fifty_turns(memory: RedisMemory, way: str, policy: str) -> None:
    """T2, T8, T9: each question before its own answer, none lost, none doubled, none stale."""
    chat = caller(way, wrapper(memory, policy, parts=way == "stream"))
    told = [Told(str(number)) for number in range(WORKERS)]
    barrier = threading.Barrier(WORKERS)

    def work(one: Told) -> None:
        barrier.wait()
        one.work(chat)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, told))
    check(policy, stored(memory), told)


@pytest.mark.parametrize(("way", "policy"), AWAITED)
def test_eight_tasks_of_fifty_turns(memory: RedisMemory, way: str, policy: str) -> None:
    """T2, T8, T9, T10: the same in one event loop, over the twin of a sync memory."""
    chat = caller(way, wrapper(memory, policy, parts=way == "astream"))
    told = [Told(str(number)) for number in range(WORKERS)]

    async def main() -> None:
        await asyncio.gather(*(one.work_later(chat) for one in told))

    asyncio.run(main())
    check(policy, stored(memory), told)


def in_a_process(url: str, namespace: str, way: str, policy: str, worker: str) -> Told:
    exchanges._FIRST_PAUSE = 0.001
    told = Told(worker)
    with RedisMemory.from_url(url, namespace=namespace) as memory:
        chat = caller(way, wrapper(memory, policy, parts="stream" in way))
        if way in ("invoke", "stream"):
            told.work(chat)
        else:
            asyncio.run(told.work_later(chat))
    return told


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


PROCESSES = [("invoke", "append"), ("stream", "raise"), ("ainvoke", "retry"), ("astream", "append")]


@pytest.mark.parametrize(("way", "policy"), PROCESSES)
def test_eight_processes_of_fifty_turns(
    valkey: Server, namespace: str, memory: RedisMemory, pool: ProcessPoolExecutor, way: str, policy: str
) -> None:
    """T2, T8, T9: the same from processes that share nothing but the server."""
    work = [
        pool.submit(in_a_process, valkey.url, namespace, way, policy, str(number))
        for number in range(WORKERS)
    ]
    told = [future.result() for future in work]
    check(policy, stored(memory), told)


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_a_batch_of_fifty_inputs_is_fifty_whole_turns(memory: RedisMemory, way: str) -> None:
    """T2, M:batch, M:abatch: one session for all; outputs in the order of the inputs."""
    chain = wrapper(memory, "append", parts=False)
    names = [f"{number}." for number in range(50)]
    if way == "batch":
        outputs = chain.batch(names, SESSION)
    else:
        outputs = asyncio.run(chain.abatch(names, SESSION))
    assert [output.text.split(" after ")[0] for output in outputs] == names
    messages = stored(memory)
    assert len(messages) == 100
    assert sorted(message.text for message in messages[::2]) == sorted(names)
    for question, answer in zip(messages[::2], messages[1::2], strict=True):
        assert answer.text.split(" after ")[0] == question.text


def test_one_wrapper_in_sync_code_and_several_loops_at_once(
    valkey: Server, namespace: str, memory: RedisMemory
) -> None:
    """T10, D09, D10: threads of sync code, others of many `asyncio.run`; no connection stays."""
    with valkey.client() as client:
        opened = {row["id"] for row in client.client_list()}
    chain = wrapper(memory, "append", parts=False)
    told = [Told(str(number)) for number in range(WORKERS)]

    def work(number: int) -> None:
        if number % 2:
            told[number].work(caller("invoke", chain))
        else:
            call = caller("ainvoke", chain)
            told[number].work(lambda name, **ids: asyncio.run(call(name, **ids)))

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))
    check("append", stored(memory), told)
    memory.close()
    with valkey.client() as client:
        own = client.client_id()
        wait_until(lambda: _others(client, own, opened) == 0, "connections are closed")


def _others(client: Any, own: int, before: set[str]) -> int:
    return len({row["id"] for row in client.client_list()} - before - {str(own)})


def test_a_wrapped_call_that_is_cancelled_anywhere_stores_a_whole_turn_or_none(
    valkey: Server, namespace: str
) -> None:
    """T8, R57, R58, D12, D15: cancelled after 0, 1, 2 … steps of the loop, until a call gets through."""
    events: list[Event] = []

    async def main(chain: RunnableWithMessageHistory) -> int:
        await chain.ainvoke("first", SESSION)
        for steps in range(1000):
            call = asyncio.ensure_future(chain.ainvoke(f"{steps}.", SESSION))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            try:
                output = await call
            except asyncio.CancelledError:
                continue
            assert output.text.startswith(f"{steps}. after ")
            break
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > 1:  # saves that go on although nobody waits
                await asyncio.sleep(0)
        return steps

    with RedisMemory.from_url(valkey.url, namespace=namespace, hooks=[events.append]) as memory:
        cancelled = asyncio.run(main(RunnableWithMessageHistory(RunnableLambda(answer_later), memory)))
        messages = stored(memory)
    assert cancelled > 10
    for question, answer in zip(messages[::2], messages[1::2], strict=True):
        assert answer.text.split(" after ")[0] == question.text
    assert len(messages) == 2 * sum(event.kind == "append" for event in events)
    late = [event.detail for event in events if event.kind == "settled"]
    assert set(late) <= {"stored"}


def test_nothing_here_warns_when_it_is_collected(memory: RedisMemory) -> None:
    """T24, D11: no ResourceWarning and no coroutine that nobody awaited, with a model that streams."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GenericFakeChatModel(messages=iter([AIMessage("one two three")] * 3))
        chain = RunnableWithMessageHistory(model, memory)
        stream = chain.stream("Hi", SESSION)
        next(stream)
        del stream

        async def abandon() -> None:
            parts = chain.astream("Hi", SESSION)
            await anext(parts)
            await parts.aclose()  # type: ignore[attr-defined]

        asyncio.run(abandon())
        gc.collect()
        assert stored(memory) == []
        chain.invoke("Hi", SESSION)
    assert [message.text for message in stored(memory)] == ["Hi", "one two three"]
