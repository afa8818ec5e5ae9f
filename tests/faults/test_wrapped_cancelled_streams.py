"""Wrapped streams that are cancelled, and calls that are cancelled before a retry."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from memory_redis import AsyncRedisMemory, RedisMemory, exchanges, human, with_history
from memory_redis.telemetry import Event
from tests.faults.cancelling import ANN, said, settled, words
from tests.faults.conftest import Texts
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("partial", ["drop", "keep"])
async def test_a_stream_that_is_cancelled_between_or_within_chunks_keeps_what_was_delivered_or_nothing(
    memory: AsyncRedisMemory, texts: Texts, partial: Any
) -> None:
    """R57, E16, T6: by its rule, wherever it was; the model is closed."""
    closed: list[str] = []

    async def model(given: Any) -> AsyncIterator[str]:
        try:
            for number in range(10):
                yield f"{number} "
                await asyncio.sleep(0)
        finally:
            closed.append(given[-1].text)

    async def read(name: str, seen: list[str], chunks: int) -> None:
        async for chunk in with_history(model, memory, partial=partial)(
            "Hi", user_id="ann", conversation_id=name
        ):
            seen.append(chunk)
            if len(seen) == chunks:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()

    for chunks in range(1, 6):
        seen: list[str] = []
        name = f"{chunks} chunks"
        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(read(name, seen, chunks))
        gc.collect()
        await eventually(lambda chunks=chunks: len(closed) == chunks, "the model is closed")
        if partial == "keep":
            await eventually(lambda name=name: texts("ann", name), "what was read is stored")
        assert texts("ann", name) == (["Hi", "".join(seen)] if partial == "keep" else [])
    assert closed == ["Hi"] * 5


async def test_keeping_a_part_is_not_stopped_by_another_cancellation(
    memory: AsyncRedisMemory, proxy: FaultProxy, texts: Texts, events: list[Event]
) -> None:
    """R58, E16: it goes on in the background, and is told."""
    await memory.history("ann", "c").append(human("begin"))
    before = proxy.sent["EVALSHA"]
    first = asyncio.Event()

    async def model(given: Any) -> AsyncIterator[str]:
        yield "one "
        first.set()
        await asyncio.get_running_loop().create_future()

    call = asyncio.ensure_future(said(with_history(model, memory, partial="keep")("Hi", **ANN)))
    await first.wait()
    proxy.half_open("down")
    call.cancel()
    await eventually(lambda: proxy.sent["EVALSHA"] > before, "the part is on its way")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    proxy.heal()
    await eventually(lambda: settled(events) == ["stored"], "the part is stored")
    assert texts("ann", "c") == ["begin", "Hi", "one "]


async def test_a_stream_that_is_closed_by_another_task_than_reads_it_keeps_to_its_rule(
    memory: AsyncRedisMemory, texts: Texts
) -> None:
    """E16, E18: as web frameworks do when the client has gone."""
    stream: Any = with_history(words, memory, partial="keep")("Hi", **ANN)
    assert await anext(stream) == "to"
    await asyncio.ensure_future(stream.aclose())
    assert texts("ann", "c") == ["Hi", "to"]


async def test_a_call_that_is_cancelled_in_the_pause_before_a_retry_stores_nothing(
    memory: AsyncRedisMemory, direct: RedisMemory, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R57, T9: the pause is an await like any other."""
    pauses: list[float] = []

    def longest(low: float, high: float) -> float:
        pauses.append(high)
        return 3600

    async def interrupted(given: Any) -> str:
        direct.history("ann", "c").append(human("other"))
        return "answer"

    monkeypatch.setattr(exchanges, "_jitter", SimpleNamespace(uniform=longest))
    chat = with_history(interrupted, memory, on_conflict="retry", max_tries=5)
    call = asyncio.ensure_future(chat("Hi", **ANN))
    await eventually(lambda: pauses, "the pause has begun")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(pauses) == 1
    assert texts("ann", "c") == ["other"]
