"""The sync and the asyncio face have the same methods, and say the same."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Iterator

import pytest

import memory_redis
from memory_redis import AsyncHistory, AsyncRedisMemory, AsyncTurn, History, RedisMemory, Turn
from memory_redis.stores import AsyncStrategy, Strategy
from memory_redis.summarised import (
    AsyncSummarisedHistory,
    AsyncSummarisedTurn,
    SummarisedHistory,
    SummarisedTurn,
)

STRATEGIES = [
    (getattr(memory_redis, name), getattr(memory_redis, f"Async{name}"))
    for name in memory_redis.__all__
    if name.startswith("Conversation") and name.endswith("Memory")
]
PAIRS = [
    (RedisMemory, AsyncRedisMemory),
    (History, AsyncHistory),
    (Turn, AsyncTurn),
    (Strategy, AsyncStrategy),
    (SummarisedHistory, AsyncSummarisedHistory),
    (SummarisedTurn, AsyncSummarisedTurn),
    *STRATEGIES,
]
TWINS = {
    "AsyncHistory": "History",
    "AsyncTurn": "Turn",
    "AsyncRedisMemory": "RedisMemory",
    "AsyncStrategy": "Strategy",
}


def methods(face: type) -> dict[str, object]:
    return {
        ("close" if name == "aclose" else name): value
        for name, value in inspect.getmembers(face)
        if not name.startswith("_") and callable(value)
    }


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_faces_have_the_same_methods(sync: type, asynchronous: type) -> None:
    """A method of one face is a method of the other; only `close` has a second name."""
    assert methods(sync).keys() == methods(asynchronous).keys()


def comparable(text: str) -> str:
    for name, twin in TWINS.items():
        text = text.replace(name, twin)
    return text.replace("AsyncIterator", "Iterator").replace("AsyncClient", "SyncClient")


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_faces_take_and_give_the_same(sync: type, asynchronous: type) -> None:
    """Parameters, defaults and result types agree; what waits is a coroutine, an iterator stays one."""
    for name, one in methods(sync).items():
        other = methods(asynchronous)[name]
        assert callable(one)
        assert callable(other)
        assert str(inspect.signature(one)) == comparable(str(inspect.signature(other))), name
        gives = typing.get_type_hints(one).get("return")
        if typing.get_origin(gives) is Iterator:
            assert typing.get_origin(typing.get_type_hints(other)["return"]) is AsyncIterator
        waits = inspect.iscoroutinefunction(other)
        assert waits != (
            name in {"history", "session", "turn", "from_url", "add"} or typing.get_origin(gives) is Iterator
        )


def test_every_strategy_is_there_for_both_faces() -> None:
    """R89 to R93: all five, made with the same arguments."""
    assert len(STRATEGIES) == 5
    for sync, asynchronous in STRATEGIES:
        made, made_too = (str(inspect.signature(one)) for one in (sync, asynchronous))
        assert made == comparable(made_too)


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_faces_have_the_same_properties(sync: type, asynchronous: type) -> None:
    """What can be read off one can be read off the other."""

    def properties(face: type) -> set[str]:
        return {name for name, value in inspect.getmembers(face) if isinstance(value, property)}

    assert properties(sync) == properties(asynchronous)
