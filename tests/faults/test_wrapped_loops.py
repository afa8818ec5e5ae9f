"""Wrapped models in several event loops and threads, and what they leave behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from memory_redis import AsyncRedisMemory, RedisMemory, human, with_history
from tests.faults.chatting import MODELS, wrapped
from tests.faults.conftest import Texts
from tests.faults.test_wrapped_concurrency import in_threads
from tests.faults.worker import ROOT
from tests.support.servers import Server

AWAITED = ["coroutine", "asynchronous generator"]


def turn(name: str, number: int) -> list[str]:
    """A question, and the answer of the models of `chatting`."""
    before = f"{name} {number - 1}" if number else "nothing"
    return [f"{name} {number}", f"{name} {number} after {before}"]


def dialogue(name: str, count: int) -> list[str]:
    """What a conversation holds after so many turns with these models."""
    return [text for number in range(count) for text in turn(name, number)]


@pytest.mark.parametrize("kind", AWAITED)
@pytest.mark.parametrize("face", [RedisMemory, AsyncRedisMemory])
def test_one_wrapped_model_is_used_from_ten_event_loops_in_turn(
    valkey: Server, namespace: str, texts: Texts, kind: str, face: Any
) -> None:
    """D10: also where its memory is the twin of a sync one; every call works, the first included."""
    chat = wrapped(kind, "append", face.from_url(valkey.url, namespace=namespace))
    for number in range(10):
        asyncio.run(chat(f"q {number}", user_id="ann", conversation_id="q"))
    assert texts("ann", "q") == dialogue("q", 10)


@pytest.mark.parametrize("kind", AWAITED)
def test_one_wrapped_model_is_used_by_three_event_loops_at_once(
    valkey: Server, namespace: str, texts: Texts, kind: str
) -> None:
    """D04, D09, D12: a thread each; nobody gets what another asked for."""
    chat = wrapped(kind, "raise", AsyncRedisMemory.from_url(valkey.url, namespace=namespace))

    async def work(name: str) -> None:
        for number in range(30):
            question, names = f"{name} {number}", {"user_id": "ann", "conversation_id": name}
            other = chat(question, user_id="ann", conversation_id=f"{name}, too")
            answers = await asyncio.gather(chat(question, **names), other)
            assert answers == [turn(name, number)[1]] * 2

    in_threads(lambda number: asyncio.run(work(f"loop {number}")), 3)
    for name in ("loop 0", "loop 1", "loop 2"):
        assert texts("ann", name) == texts("ann", f"{name}, too") == dialogue(name, 30)


def test_one_wrapped_function_is_used_by_more_threads_than_it_has_connections(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """D15: 8 threads, 2 connections, a conversation each, and each sees its own past only."""
    with RedisMemory.from_url(valkey.url, namespace=namespace, max_connections=2) as memory:
        chat = wrapped("function", "raise", memory)

        def work(thread: int) -> None:
            for number in range(20):
                question = f"{thread} {number}"
                given = chat(question, user_id="ann", conversation_id=str(thread))
                assert given == turn(str(thread), number)[1]

        in_threads(work)
    for thread in range(8):
        assert texts("ann", str(thread)) == dialogue(str(thread), 20)


@pytest.mark.parametrize("kind", ["function", "generator"])
def test_a_sync_model_may_be_called_inside_a_running_loop(
    valkey: Server, namespace: str, texts: Texts, kind: str
) -> None:
    """D04, T10: over an asyncio memory, by its twin; it blocks as the model itself does, and works."""
    memory = AsyncRedisMemory.from_url(valkey.url, namespace=namespace)
    chat = wrapped(kind, "append", memory)
    names = {"user_id": "ann", "conversation_id": "q"}

    async def main() -> None:
        chat("q 0", **names)
        await asyncio.to_thread(chat, "q 1", **names)
        await memory.history("ann", "other").append(human("1"))
        await memory.aclose()

    asyncio.run(main())
    memory.twin.close()
    assert texts("ann", "q") == dialogue("q", 2)


def test_a_stream_that_another_thread_throws_away_is_settled(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """T6, E16: a sync stream that is closed where it was not read keeps to its rule."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        stream = with_history(MODELS["generator"], memory, partial="keep")(
            "q", user_id="ann", conversation_id="q"
        )
        first = next(stream)
        thread = threading.Thread(target=stream.close)
        thread.start()
        thread.join()
    assert texts("ann", "q") == ["q", first]


def test_a_call_that_its_loop_never_finished_can_be_closed_from_outside(
    valkey: Server, namespace: str, texts: Texts
) -> None:
    """R57, D10: as the collector does, in another context than it ran in; without a complaint."""

    async def main() -> None:
        at_work = asyncio.Event()

        async def model(given: Any) -> str:
            at_work.set()
            await asyncio.get_running_loop().create_future()
            return "never"

        async with AsyncRedisMemory.from_url(valkey.url, namespace=namespace) as memory:
            chat = with_history(model, memory)
            call = asyncio.ensure_future(chat("Hi", user_id="ann", conversation_id="c"))
            await at_work.wait()
            coroutine: Any = call.get_coro()
            coroutine.close()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    asyncio.run(main())
    assert texts("ann", "c") == []


CLEAN = """
import asyncio, gc, sys
from memory_redis import AsyncRedisMemory, RedisMemory, with_history

url, namespace = sys.argv[1:3]
names = {"user_id": "ann", "conversation_id": "c"}

def run(main):
    async def patiently():
        asyncio.get_running_loop().slow_callback_duration = 60  # a slow machine is no fault of ours
        return await main

    return asyncio.run(patiently())

def function(given):
    return "ok"

async def coroutine(given):
    return "ok"

def words(given):
    yield "one "
    yield "two"

async def words_later(given):
    yield "one "
    yield "two"

for face in (RedisMemory, AsyncRedisMemory):
    memory = face.from_url(url, namespace=namespace)
    with_history(function, memory)("1", **names)
    later, stream = with_history(coroutine, memory), with_history(words_later, memory)
    for _ in range(3):
        run(later("2", **names))

    async def abandoned():
        chunks = stream("3", **names)
        await anext(chunks)
        return chunks

    kept = run(abandoned())  # the loop closes it
    del kept

    async def cancelled():
        tasks = [asyncio.ensure_future(later("4", **names)) for _ in range(5)]
        await asyncio.sleep(0.002)
        for task in tasks:
            task.cancel()

    run(cancelled())
    chunks = with_history(words, memory, partial="keep")("5", **names)
    next(chunks)
    del chunks
    never_read = stream("6", **names)
    never_awaited = with_history(words, memory)("7", **names)
    del never_read, never_awaited, memory, later, stream
    gc.collect()
print("done")
"""


def test_wrapped_models_leave_no_resource_warning(
    valkey: Server, namespace: str, direct: RedisMemory
) -> None:
    """Decision 32, D11: with -X dev and every warning an error, for memories that nobody closed."""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", CLEAN, valkey.url, namespace],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")
    stored = [message.text for message in direct.history("ann", "c").load().messages]
    assert stored.count("5") == stored.count("one ") == 2
    assert stored.count("2") == 6
    assert not {"3", "6", "7"} & set(stored)


OPEN = """
import asyncio, sys
from memory_redis import AsyncRedisMemory, with_history

async def model(given):
    yield "one "
    yield "two"

memory = AsyncRedisMemory.from_url(sys.argv[1], namespace=sys.argv[2])
chat = with_history(model, memory, partial="keep")
streams = []

async def leave():
    asyncio.get_running_loop().slow_callback_duration = 60  # a slow machine is no fault of ours
    streams.append(chat("q", user_id="ann", conversation_id="c"))
    print(await anext(streams[0]))

asyncio.run(leave())
"""


def test_a_stream_that_is_open_when_its_loop_ends_keeps_its_part_and_leaves_no_connection(
    valkey: Server, namespace: str, direct: RedisMemory
) -> None:
    """E16, D11, decision 32: the loop closes its pool before the stream, which still stores its part."""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", OPEN, valkey.url, namespace],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "one \n", "")
    stored = direct.history("ann", "c").load().messages
    assert [message.text for message in stored] == ["q", "one "]
    assert stored[1].data["response_metadata"] == {"partial": True}
