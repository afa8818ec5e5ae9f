"""Proxies that do harm, and memories that go through them or past them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis

from memory_redis import AsyncRedisMemory, RedisMemory, human
from memory_redis.telemetry import Event
from tests.faults.ways import HOST, OWN, Way
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

Connect = Callable[..., Any]
"""Makes a memory over the way under test: `connect(port, timeout=5, **options)`."""

Texts = Callable[[str, str], list[str]]
"""The texts of a conversation, oldest first, read past every fault."""


@pytest.fixture
def proxy(valkey: Server) -> Iterator[FaultProxy]:
    """A proxy before the shared server, of this test alone."""
    with FaultProxy(valkey.address) as proxy:
        yield proxy


@pytest.fixture(params=OWN, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """The way to the server; a test that asks for others parametrizes it."""
    way: Way = request.param
    return way


@pytest.fixture
async def connect(way: Way, namespace: str) -> AsyncIterator[Connect]:
    """Makes memories over the way under test; they are closed at the end."""
    async with AsyncExitStack() as stack:

        def connect(port: int, timeout: float = 5, **options: Any) -> Any:
            options.setdefault("namespace", namespace)
            return way.open(stack, port, timeout, **options)

        yield connect


@pytest.fixture
def direct(valkey: Server, namespace: str) -> Iterator[RedisMemory]:
    """A memory that goes past the proxy."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        yield memory


@pytest.fixture
def plain(valkey: Server) -> Iterator[redis.Redis]:
    """A plain client of the shared server."""
    with redis.Redis.from_url(valkey.url) as client:
        yield client


@pytest.fixture
def texts(direct: RedisMemory) -> Texts:
    def read(user_id: str, conversation_id: str) -> list[str]:
        return [message.text for message in direct.history(user_id, conversation_id).load().messages]

    return read


@pytest.fixture
def events() -> list[Event]:
    """What the hooks of `memory` were told."""
    return []


@pytest.fixture
async def memory(proxy: FaultProxy, namespace: str, events: list[Event]) -> AsyncIterator[AsyncRedisMemory]:
    """A memory behind the proxy, of few connections; its hooks fill `events`."""
    url = f"redis://{HOST}:{proxy.port}/0"
    options: dict[str, Any] = {"namespace": namespace, "hooks": (events.append,), "deadline": 30}
    async with AsyncRedisMemory.from_url(url, max_connections=5, **options) as memory:
        await memory.history("ann", "warm").append(human("up"))
        yield memory
