"""Read by type checkers, never run: the public API as a user types it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any, assert_type

from memory_redis import (
    APPROXIMATE,
    AllMessages,
    AppendId,
    AsyncConversationSummaryMemory,
    AsyncConversationTokenBufferMemory,
    AsyncMemoryStore,
    AsyncRedisMemory,
    ConflictError,
    ConversationBufferMemory,
    ConversationInfo,
    ConversationSummaryBufferMemory,
    ConversationWindowMemory,
    FixedExpiry,
    Forgotten,
    LastMessages,
    LastTurns,
    Limits,
    MaxAge,
    MaxBytes,
    MaxMessages,
    MemoryStore,
    RedisMemory,
    Since,
    SlidingExpiry,
    Snapshot,
    StoredMessage,
    SummaryNotMade,
    TokenBudget,
    TokenCounter,
    TurnReport,
    Version,
    ai,
    from_openai,
    human,
    to_openai,
    tool,
    trim_messages,
    with_history,
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


def model(messages: list[StoredMessage]) -> str:
    return str(to_openai(messages))


async def model_later(messages: list[StoredMessage]) -> StoredMessage:
    return messages[-1]


def words(messages: list[StoredMessage]) -> Iterator[str]:
    yield "ok"


async def words_later(messages: list[StoredMessage]) -> AsyncIterator[str]:
    yield "ok"


async def remembering() -> None:
    memory = RedisMemory.from_url("redis://localhost")
    assert_type(memory.twin, AsyncRedisMemory)
    assert_type(memory.twin.twin, RedisMemory)
    report = TurnReport()
    chat = with_history(model, memory, on_conflict="retry", save_input="before", on_save_error=print)
    assert_type(chat("Hi", user_id="ann", conversation_id="c1", report=report), str)
    assert_type(await with_history(model_later, memory)("Hi", session="s1"), StoredMessage)
    for word in with_history(words, memory, partial="keep", window=LastMessages(5))("Hi", session="s1"):
        assert_type(word, str)
    async for word in with_history(words_later, memory.twin, unanswered="raise")("Hi", session="s1"):
        assert_type(word, str)
    assert_type(report.missed, list[StoredMessage])
    assert_type(report.version, Version | None)
    assert_type(from_openai({"role": "user", "content": "Hi"}), StoredMessage)
    assert_type(to_openai([human("Hi")]), list[dict[str, Any]])
    with memory.history("ann", "c1").turn() as turn:
        assert_type(turn.commit(idempotency_key="k"), Version)


def windows() -> None:
    words = TokenCounter("words", lambda message: len(message.text.split()))
    window = LastTurns(5, keep_system=True) & TokenBudget(4000, words) & Since(days=1, start_on="human")
    memory = RedisMemory.from_url(
        "redis://localhost",
        window=window,
        counter=words,
        retention=MaxMessages(100) & MaxAge(days=30) & MaxBytes(10**6),
        expiry=SlidingExpiry(hours=1, max_age=timedelta(days=1)),
    )
    history = memory.history("ann", "c1", expiry=FixedExpiry(days=1))
    assert_type(history.load(TokenBudget(100, lambda message: 1, oldest=True)).summary, str | None)
    assert_type(trim_messages([human("Hi")], AllMessages(max_bytes=100)), list[StoredMessage])
    assert_type(APPROXIMATE(human("Hi")), int)
    assert_type(history.expire(SlidingExpiry(60)), bool)
    assert_type(history.expire(None), bool)
    assert_type(history.expire_at(datetime.now()), bool)
    assert_type(history.pin(), bool)
    assert_type(history.touch(), bool)
    assert_type(history.compact("They talked.", expected=history.load().version, keep=2), int)


def strategies() -> None:
    memory = RedisMemory.from_url("redis://localhost")
    store: MemoryStore = ConversationBufferMemory(memory)
    assert_type(store.append("s1", human("Hi")), Version)
    assert_type(store.load(("ann", "c1")), list[StoredMessage])
    assert_type(store.clear("s1"), int)
    nested = ConversationWindowMemory(ConversationSummaryBufferMemory(memory, model, 1000), 5)
    report = TurnReport()
    chat = with_history(model, nested, default_session="default")
    assert_type(chat("Hi", report=report), str)
    assert_type(report.summary_error, SummaryNotMade | None)


async def strategies_later() -> None:
    memory = AsyncRedisMemory.from_url("redis://localhost")
    store: AsyncMemoryStore = AsyncConversationSummaryMemory(memory, model_later, 10, model_seconds=30)
    assert_type(await store.append("s1", human("Hi")), Version)
    assert_type(await store.load("s1"), list[StoredMessage])
    buffer = AsyncConversationTokenBufferMemory(memory, 100)
    assert_type(await with_history(model_later, buffer)("Hi", session="s1"), StoredMessage)
