"""Clients that are passed in stay as they are; one that repeats for too long is warned of."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from memory_redis import AsyncRedisMemory, RedisMemory, human
from tests.support.ids import shown
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


def test_a_client_is_neither_closed_nor_changed(valkey: Server, namespace: str) -> None:
    """P11: its settings are the user's, and so is its end."""
    with redis.Redis(valkey.host, valkey.port, decode_responses=True) as client:
        before = dict(client.connection_pool.connection_kwargs)
        with RedisMemory(client, namespace=namespace) as memory:
            memory.history("ann", "c").append(human("1"))
        assert client.connection_pool.connection_kwargs == before
        assert client.set(namespace, "text") is True
        assert client.get(namespace) == "text"
        client.delete(namespace)


async def test_an_asyncio_client_is_neither_closed_nor_changed(valkey: Server, namespace: str) -> None:
    """P11: the same for asyncio."""
    client: Any = redis.asyncio.Redis(host=valkey.host, port=valkey.port, decode_responses=True)
    async with client:
        before = dict(client.connection_pool.connection_kwargs)
        async with AsyncRedisMemory(client, namespace=namespace) as memory:
            await memory.history("ann", "c").append(human("1"))
        assert client.connection_pool.connection_kwargs == before
        connections = await client.client_list()
        await client.set(namespace, "text")
        assert await client.get(namespace) == "text"
        await client.delete(namespace)
        assert {row["id"] for row in connections} <= {row["id"] for row in await client.client_list()}


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, False),
        ({"socket_timeout": 60, "retry": Retry(NoBackoff(), 0)}, False),
        ({"socket_timeout": 10}, True),
        ({"socket_timeout": None}, True),
        ({"socket_timeout": 30, "retry": Retry(NoBackoff(), 3)}, True),
    ],
    ids=shown,
)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_client_that_may_repeat_for_longer_than_repeats_are_known_is_warned_of_once(
    valkey: Server, caplog: pytest.LogCaptureFixture, face: str, settings: dict[str, Any], warned: bool
) -> None:
    """Decision 29: (repeats + 1) x socket timeout + back-off against the 100 s; one warning, no I/O."""
    memory: Any
    with caplog.at_level(logging.WARNING):
        if face == "sync":
            memory = RedisMemory(redis.Redis(valkey.host, valkey.port, **settings))
        else:
            memory = AsyncRedisMemory(redis.asyncio.Redis(host=valkey.host, port=valkey.port, **settings))
        for number in range(3):
            memory.history("ann", str(number))
    assert len(caplog.records) == int(warned)
