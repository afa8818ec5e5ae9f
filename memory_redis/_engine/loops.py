"""Connections of our own for asyncio: one pool for each running event loop and process."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory_redis._engine.channels import exchanged
from memory_redis._engine.endpoints import Endpoint, connection_options
from memory_redis._engine.failures import TRANSPORT, NotSent
from memory_redis._engine.plans import Wire

_abandoned: list[object] = []
"""Pools of a parent process: neither used nor closed here, for the sockets are still the parent's."""


class _Progress:
    """Whether an exchange has begun to send."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


_progress: ContextVar[_Progress] = ContextVar("memory_redis_progress")


class _Noting:
    """Mixed into a connection class: notes when something else than the handshake is sent."""

    _open = False

    async def connect(self, *args: Any, **options: Any) -> None:
        self._open = False
        await super().connect(*args, **options)  # type: ignore[misc]
        self._open = True

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        progress = _progress.get(None)
        if self._open and progress is not None:
            progress.sent = True
        await super().send_packed_command(*args, **options)  # type: ignore[misc]


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

        patience: seconds that one exchange may take, if the call has that long.
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[], None], patience: float) -> None:
        self._make, self._close, self._patience = make, close, patience
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._homes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[_Home]]
        self._homes = weakref.WeakKeyDictionary()

    async def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:
        """Send calls together, give back their replies."""
        client = (await self._home()).client
        progress = _Progress()
        _progress.set(progress)
        try:
            async with asyncio.timeout(min(seconds, self._patience)):
                return await exchanged(client, wires, 0)
        except AuthenticationError:
            raise
        except TRANSPORT as error:
            if not progress.sent and hasattr(client.connection_pool, "notes_sending"):
                raise NotSent from error
            if isinstance(error, TimeoutError):
                raise RedisTimeoutError("no reply in time") from None
            raise

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


class _Pool(BlockingConnectionPool):
    """A pool whose connections note what they send."""

    notes_sending = True


def own_client(endpoint: Endpoint, limit: int, patience: float) -> Redis:
    """An asyncio client of our own: no repeats by redis-py, a bounded pool that waits.

    It has no socket timeout, since `LoopChannel` bounds each exchange at less cost. A pool that is
    used up gives up before that bound is reached, so that it is known that nothing was sent.
    """
    options = connection_options(endpoint.url(), parse_url)
    kind: type = options.pop("connection_class", Connection)
    noting = type(kind.__name__, (_Noting, kind), {})
    options.update(socket_timeout=None, retry=Retry(NoBackoff(), 0))
    pool = _Pool(max_connections=limit, timeout=patience * 0.8, connection_class=noting, **options)
    return Redis.from_pool(pool)
