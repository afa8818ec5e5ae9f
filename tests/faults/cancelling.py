"""What the tests of cancelled calls share: models, and a call that is held at its save."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from memory_redis import AsyncRedisMemory, with_history
from memory_redis.telemetry import Event
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy

ANN = {"user_id": "ann", "conversation_id": "c"}


def settled(events: list[Event]) -> list[str]:
    """How the saves ended that nobody waited for."""
    return [event.detail for event in events if event.kind == "settled"]


async def answer(given: Any) -> str:
    return f"to {given[-1].text}"


async def words(given: Any) -> AsyncIterator[str]:
    for word in ("to", " ", given[-1].text):
        yield word
        await asyncio.sleep(0)


async def said(stream: Any) -> str:
    return "".join([chunk async for chunk in stream])


async def held_at_save(
    memory: AsyncRedisMemory, proxy: FaultProxy, model: Any = answer, **rules: Any
) -> asyncio.Future[Any]:
    """A call whose save is on its way, with the reply held back."""
    before = proxy.sent["EVALSHA"]

    async def holding(given: Any) -> Any:
        output = await model(given)
        proxy.half_open("down")
        return output

    names = ANN | {"report": rules.pop("report", None)}
    call = asyncio.ensure_future(with_history(holding, memory, **rules)("Hi", **names))
    await eventually(lambda: proxy.sent["EVALSHA"] > before, "the save is on its way")
    return call
