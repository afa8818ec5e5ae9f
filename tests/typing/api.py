"""Read by type checkers, never run: the public API as a user types it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

from memory_redis import (
    AllMessages,
    AppendId,
    AsyncRedisMemory,
    ConflictError,
    ConversationInfo,
    FixedExpiry,
    Forgotten,
    LastMessages,
    Limits,
    MaxMessages,
    RedisMemory,
    SlidingExpiry,
    Snapshot,
    StoredMessage,
    Version,
    ai,
    human,
    tool,
)
from memory_redis.telemetry import Event


def hook(event: Event) -> None:
    assert_type(event.kind in {"append"}, bool)


def sync() -> None:
    memory = RedisMemory.from_url(
        "redis://localhost",
        namespace="bot",
        window=LastMessages(20),
        expiry=SlidingExpiry(days=7, on_read=True),
        retention=MaxMessages(1000),
        codec="json",
        on_corrupt="skip",
        hooks=[hook],
        limits=Limits(record_bytes=1024),
        idempotency_hold=timedelta(hours=2),
        deadline=5,
        max_connections=10,
    )
    with memory:
        history = memory.history("ann", "c1")
        version = history.append(human("Hi", name="ann"), ai("Hello"), idempotency_key="r1")
        assert_type(version, Version)
        assert_type(history.load(AllMessages()), Snapshot)
        assert_type(history.load().messages, list[StoredMessage])
        assert_type(history.settle(AppendId.new()), Version | None)
        assert_type(history.count(), int)
        assert_type(history.clear(), int)
        assert_type(history.expire_in(), float | None)
        for message in history.iterate(page_size=10):
            assert_type(message.stored_at, datetime | None)
        for info in memory.conversations("ann"):
            assert_type(info, ConversationInfo)
        assert_type(memory.forget("ann"), Forgotten)
        with history.turn(on_conflict="raise", window=LastMessages(5)) as turn:
            turn.add(tool("3", tool_call_id="a"))
            assert_type(turn.conflict, ConflictError | None)


async def asynchronous() -> None:
    async with AsyncRedisMemory.from_url(
        "redis://localhost", expiry=lambda user_id: FixedExpiry(60)
    ) as memory:
        history = memory.session("s1")
        assert_type(await history.append(human("Hi")), Version)
        assert_type(await history.load(), Snapshot)
        async for message in history.iterate():
            assert_type(message, StoredMessage)
        async for info in memory.conversations("ann"):
            assert_type(info, ConversationInfo)
        async with history.turn() as turn:
            turn.add(ai("Hello"))
            assert_type(turn.missed, list[StoredMessage])
