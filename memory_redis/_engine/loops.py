"""Connections of our own for asyncio: one pool for each running event loop and process."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory_redis._engine.channels import exchanged
from memory_redis._engine.connections import SOCKET_TIMEOUT
from memory_redis._engine.endpoints import Endpoint, connection_options
from memory_redis._engine.plans import Wire

_abandoned: list[object] = []
"""Pools of a parent process: neither used nor closed here, for the sockets are still the parent's."""


@dataclass(slots=True)
class _Home:
    """A loop's client, and the generator that closes it when the loop ends."""

    client: Any
    guard: AsyncGenerator[None, None]


class LoopChannel:
    """A client for each running loop, made at the first call there and closed with the loop.

    Args:
        make: gives a client; blocking, so it runs in a worker thread.

        close: releases what `make` took, such as an embedded server.
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[], None], patience: float) -> None:
        self._make, self._close, self.patience = make, close, patience
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._homes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[_Home]]
        self._homes = weakref.WeakKeyDictionary()

    async def exchange(self, wires: Sequence[Wire]) -> list[Any]:
        """Send calls together, give back their replies."""
        client = (await self._home()).client
        try:
            async with asyncio.timeout(self.patience):
                return await exchanged(client, wires, 0)
        except TimeoutError:
            raise RedisTimeoutError("no reply in time") from None

    async def _home(self) -> _Home:
        if self._pid != os.getpid():
            _abandoned.append(self._homes)
            self._start()
        loop = asyncio.get_running_loop()
        future = self._homes.get(loop)
        if future is None or future.cancelled() or (future.done() and future.exception() is not None):
            future = asyncio.ensure_future(self._open())
            self._homes[loop] = future
        return await asyncio.shield(future)

    async def _open(self) -> _Home:
        client = await anyio.to_thread.run_sync(self._make)
        guard = _until_the_loop_ends(client)
        await anext(guard)
        return _Home(client, guard)

    async def aclose(self) -> None:
        """Close this loop's connections, and release what the clients stand on."""
        future = self._homes.pop(asyncio.get_running_loop(), None)
        if future is not None and self._pid == os.getpid():
            await (await future).guard.aclose()
        await anyio.to_thread.run_sync(self._close)


async def _until_the_loop_ends(client: Any) -> AsyncGenerator[None, None]:
    # A loop closes the asynchronous generators that it has seen before it ends (asyncio.run does
    # so); without this each run would leave open sockets behind.
    try:
        yield
    finally:
        await client.aclose()


def own_client(endpoint: Endpoint, limit: int, patience: float) -> Redis:
    """An asyncio client of our own: no repeats by redis-py, a bounded pool that waits.

    It has no socket timeout, since `LoopChannel` bounds each exchange at less cost. A pool that is
    used up gives up before that bound is reached, so that it is known that nothing was sent.
    """
    options = connection_options(endpoint.url(), parse_url)
    options.setdefault("connection_class", Connection)
    options.update(socket_timeout=None, retry=Retry(NoBackoff(), 0))
    pool = BlockingConnectionPool(max_connections=limit, timeout=patience * 0.8, **options)
    return Redis.from_pool(pool)


def patience_of(url: str) -> float:
    """Seconds that one exchange may take: the URL's socket_timeout, or the default."""
    if url.startswith(("redis", "unix")):
        return float(connection_options(url).get("socket_timeout") or SOCKET_TIMEOUT)
    return SOCKET_TIMEOUT
