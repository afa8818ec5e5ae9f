"""Making a memory strategy: what is refused at once, and what it costs, which is nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import redis

import memory_redis
from memory_redis import (
    AsyncConversationBufferMemory,
    AsyncConversationSummaryMemory,
    AsyncConversationWindowMemory,
    AsyncMemoryStore,
    AsyncRedisMemory,
    ConversationBufferMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    ConversationWindowMemory,
    InvalidSetting,
    MaxAge,
    MaxMessages,
    MemoryStore,
    RedisMemory,
    StoredMessage,
    with_history,
)
from memory_redis.stores import AsyncStrategy, Strategy
from tests.support.ids import shown

NOWHERE = "redis://:hunter2@127.0.0.1:9/0"  # nobody listens there
MEMORY, LATER = RedisMemory.from_url(NOWHERE), AsyncRedisMemory.from_url(NOWHERE)


def model(messages: Any) -> str:
    return "in short"


async def coroutine(messages: Any) -> str:
    return "in short"


class Awaited:
    """Is called, and then awaited."""

    async def __call__(self, messages: Any) -> str:
        return "in short"


class Runnable:
    """Looks as LangChain's models do."""

    def invoke(self, value: Any) -> str:
        return "in short"

    async def ainvoke(self, value: Any) -> str:
        return "in short"


Make = Callable[[Any], Any]
SIZED: dict[str, Make] = {
    "window": lambda size: ConversationWindowMemory(MEMORY, size),
    "tokens": lambda size: ConversationTokenBufferMemory(MEMORY, size),
    "summary": lambda size: ConversationSummaryMemory(MEMORY, model, size),
    "summary of tokens": lambda size: ConversationSummaryBufferMemory(MEMORY, model, size),
}


@pytest.mark.parametrize("size", [-1, 2.5, True, None, 10**9 + 1, 2**64, "2", float("inf"), [2]], ids=shown)
@pytest.mark.parametrize("strategy", SIZED)
def test_a_size_that_cannot_be_meant_is_refused(strategy: str, size: Any) -> None:
    """R95: when the strategy is made, before anything is stored; a ValueError."""
    with pytest.raises(InvalidSetting) as caught:
        SIZED[strategy](size)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("size", [0, 1, 10**9])
@pytest.mark.parametrize("strategy", SIZED)
def test_a_size_may_be_zero_and_very_large(strategy: str, size: int) -> None:
    """R95: both mean what they say."""
    SIZED[strategy](size)


@pytest.mark.parametrize("face", ["", "Async"])
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ConversationWindowMemory", "n"),
        ("ConversationTokenBufferMemory", "max_tokens"),
        ("ConversationSummaryMemory", "buffer_size"),
        ("ConversationSummaryBufferMemory", "max_token_limit"),
    ],
)
def test_sizes_have_no_defaults(face: str, name: str, size: str) -> None:
    """R95: who makes a strategy says how large; stores and models have none either."""
    found = inspect.signature(getattr(memory_redis, face + name)).parameters
    assert found[size].default is found["store"].default is inspect.Parameter.empty
    assert found["model"].default is inspect.Parameter.empty if "Summary" in name else "model" not in found
    with pytest.raises(TypeError):
        getattr(memory_redis, face + name)(LATER if face else MEMORY, *([model] if "Summary" in name else []))


@pytest.mark.parametrize(
    "store",
    [None, "redis://localhost", NOWHERE, object(), MEMORY.session("s1"), RedisMemory, LATER],
    ids=shown,
)
def test_a_strategy_is_made_over_a_memory_of_its_face(store: Any) -> None:
    """R89: or over a strategy; the error says over what it was to be made."""
    for make in (
        ConversationBufferMemory,
        lambda one: ConversationWindowMemory(one, 2),
        lambda one: ConversationSummaryMemory(one, model, 2),
    ):
        with pytest.raises(InvalidSetting, match="a memory, RedisMemory, or a strategy over one") as caught:
            make(store)
        assert "hunter2" not in str(caught.value)


def test_the_faces_of_strategies_do_not_mix() -> None:
    """R89: a sync one is not made over an asyncio one, nor the other way round."""
    with pytest.raises(InvalidSetting):
        ConversationBufferMemory(AsyncConversationBufferMemory(LATER))  # type: ignore[arg-type]
    for store in (MEMORY, ConversationWindowMemory(MEMORY, 2)):
        with pytest.raises(InvalidSetting, match="a memory, AsyncRedisMemory, or a strategy over one"):
            AsyncConversationWindowMemory(store, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, "gpt", 5, Runnable, str, [model], {"content": "x"}], ids=shown)
def test_a_model_is_something_that_can_be_asked(wrong: Any) -> None:
    """R92, R93: a function, or what looks like LangChain's models."""
    for make in (ConversationSummaryMemory, ConversationSummaryBufferMemory):
        with pytest.raises(InvalidSetting, match="model"):
            make(MEMORY, wrong, 2)


@pytest.mark.parametrize("awaited", [coroutine, functools.partial(coroutine), Awaited()], ids=shown)
def test_what_has_to_be_awaited_summarises_for_asyncio_only(awaited: Any) -> None:
    """R92: a coroutine function, and an object that is called as one."""
    with pytest.raises(InvalidSetting, match="Async"):
        ConversationSummaryMemory(MEMORY, awaited, 2)
    strategy = AsyncConversationSummaryMemory(LATER, awaited, 2)
    with pytest.raises(InvalidSetting, match="Async"):
        _ = strategy.twin


@pytest.mark.parametrize("either", [model, functools.partial(model), Runnable(), len], ids=shown)
def test_other_models_summarise_for_both_faces(either: Any) -> None:
    """R92: and so for the twin of a strategy."""
    sync = ConversationSummaryMemory(MEMORY, either, 2)
    assert isinstance(sync.twin, AsyncStrategy)
    assert isinstance(AsyncConversationSummaryMemory(LATER, either, 2).twin, Strategy)


@pytest.mark.parametrize(
    "seconds", [0, 0.5, -1, 3601, True, None, "60", float("nan"), float("inf")], ids=shown
)
def test_the_seconds_of_a_model_are_within_bounds(seconds: Any) -> None:
    """R96: from a second to an hour."""
    for make in (ConversationSummaryMemory, ConversationSummaryBufferMemory):
        with pytest.raises(InvalidSetting, match="model_seconds"):
            make(MEMORY, model, 2, model_seconds=seconds)
        make(MEMORY, model, 2, model_seconds=1)
        make(MEMORY, model, 2, model_seconds=3600.0)


@pytest.mark.parametrize("counter", [None, 5, "bytes", int, StoredMessage], ids=shown)
def test_a_counter_is_a_function(counter: Any) -> None:
    """R91, R93: of a message, and no class."""
    with pytest.raises(InvalidSetting, match="counter"):
        ConversationTokenBufferMemory(MEMORY, 2, counter=counter)
    with pytest.raises(InvalidSetting, match="counter"):
        ConversationSummaryBufferMemory(MEMORY, model, 2, counter=counter)


def test_a_twin_is_the_same_strategy_over_the_memorys_twin() -> None:
    """R87: it is made of a memory that was made from a URL."""
    strategy = ConversationWindowMemory(MEMORY, 2)
    assert strategy.has_twin
    assert strategy.twin._memory is MEMORY.twin
    assert strategy.twin is strategy.twin
    assert strategy.twin.twin is strategy
    assert type(strategy.twin).__name__ == f"Async{type(strategy).__name__}"
    client = ConversationWindowMemory(RedisMemory(redis.Redis(port=9)), 2)
    assert not client.has_twin
    with pytest.raises(InvalidSetting, match="twin"):
        _ = client.twin


def test_making_a_strategy_sends_nothing_and_shows_no_secret() -> None:
    """R21: neither do its histories; what it says of itself has no password."""
    strategy = ConversationSummaryMemory(ConversationWindowMemory(MEMORY, 2), model, 2)
    history = strategy.history("ann", "my secret")
    for one in (strategy, history, history.turn(), strategy.session("my secret")):
        assert "secret" not in repr(one)
        assert "hunter2" not in repr(one)
    shows = "LastMessages(2), KeepMessages(buffer_size=2)"
    assert repr(strategy).startswith(f"<ConversationSummaryMemory({shows}) over <RedisMemory")
    assert repr(ConversationBufferMemory(MEMORY)).startswith("<ConversationBufferMemory() over ")


def test_every_strategy_is_a_store() -> None:
    """R81: for a type checker too."""
    stores: list[MemoryStore] = [ConversationBufferMemory(MEMORY), ConversationWindowMemory(MEMORY, 2)]
    later: list[AsyncMemoryStore] = [AsyncConversationBufferMemory(LATER)]
    for store in (*stores, *later):
        assert all(callable(getattr(store, name)) for name in ("append", "load", "clear"))


@pytest.mark.parametrize("session", ["", 5, True, b"default", ["default"]], ids=shown)
def test_a_default_session_is_a_text(session: Any) -> None:
    """R83, R23: refused when the wrapper is made."""
    with pytest.raises(InvalidSetting, match="default_session"):
        with_history(model, MEMORY, default_session=session)


def parts(messages: Any) -> Any:
    yield "in short"


async def parts_later(messages: Any) -> Any:
    yield "in short"


@pytest.mark.parametrize("generator", [parts, parts_later], ids=shown)
def test_a_generator_does_not_summarise(generator: Any) -> None:
    """R98: at once, and not at each append."""
    with pytest.raises(InvalidSetting, match="generator"):
        ConversationSummaryMemory(MEMORY, generator, 2)
    with pytest.raises(InvalidSetting, match="generator"):
        AsyncConversationSummaryMemory(LATER, generator, 2)


@pytest.mark.parametrize("most", [1, 3, 4, 5])
def test_a_retention_that_leaves_nothing_to_summarise_is_refused(most: int) -> None:
    """R92: above twice the buffer there have to be messages."""
    memory = RedisMemory.from_url(NOWHERE, retention=MaxMessages(most) & MaxAge(days=1))
    if most > 4:
        ConversationSummaryMemory(memory, model, 2)
    else:
        with pytest.raises(InvalidSetting, match="retention"):
            ConversationSummaryMemory(memory, model, 2)
