"""Connections of our own for asyncio: one pool for each running event loop and process."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import Any, ClassVar, cast

import anyio.to_thread
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory_redis._engine.channels import exchanged
from memory_redis._engine.endpoints import Endpoint, connection_options
from memory_redis._engine.failures import NO_HANDSHAKE, TRANSPORT, NotSent, not_opened
from memory_redis._engine.forks import renew_in_children
from memory_redis._engine.plans import Wire
from memory_redis._engine.servers import check_info
from memory_redis.errors import PoolExhausted

_abandoned: list[object] = []
"""Pools of a parent process: neither used nor closed here, for the sockets are still the parent's."""


class _Progress:
    """How far an exchange has come: whether it has a connection to use, and has begun to send.

    `shaking` is whether it waits for a TLS handshake, `failed` why a connection could not be opened.
    """

    __slots__ = ("failed", "placed", "sent", "shaking")

    def __init__(self) -> None:
        self.placed = self.sent = self.shaking = False
        self.failed: NotSent | None = None


_progress: ContextVar[_Progress] = ContextVar("memory_redis_progress")


class _NotingHandshake(ssl.SSLObject):
    """Notes whether an exchange waits for the handshake: a cancelled one does not say so."""

    def do_handshake(self) -> None:
        progress = _progress.get(None)
        if progress is not None:
            progress.shaking = True
        super().do_handshake()  # raises SSLWantReadError until there is an answer
        if progress is not None:
            progress.shaking = False


class _Noting:
    """Mixed into a connection class: notes when something else than the handshake is sent.

    `opened` are the connections that its client has opened and that still exist.
    """

    opened: ClassVar[weakref.WeakSet[Any]]
    _ready = False

    async def connect(self, *args: Any, **options: Any) -> None:
        self._ready = False
        self.opened.add(self)
        try:
            await super().connect(*args, **options)  # type: ignore[misc]
        except (*TRANSPORT, InvalidResponse, AttributeError) as error:
            progress = _progress.get(None)
            if progress is not None:
                tls, unix = isinstance(self, SSLConnection), isinstance(self, UnixDomainSocketConnection)
                progress.failed = not_opened(error, tls=tls, tcp=not unix, shaking=progress.shaking)
            if isinstance(error, AttributeError):  # redis-py got no map for HELLO, and left it open
                await self.disconnect(nowait=True)  # type: ignore[attr-defined]
                raise InvalidResponse("a greeting of another shape") from None
            raise
        self._ready = True

    def _connection_arguments(self) -> Any:
        arguments = super()._connection_arguments()  # type: ignore[misc]
        if "ssl" in arguments:
            arguments["ssl"].sslobject_class = _NotingHandshake
        return arguments

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        progress = _progress.get(None)
        if self._ready and progress is not None:
            progress.sent = True
        await super().send_packed_command(*args, **options)  # type: ignore[misc]


@dataclass(slots=True)
class _Home:
    """A loop's client, how many may use it at once, and the generator that closes it with the loop."""

    client: Any
    places: asyncio.Semaphore
    guard: AsyncGeneratorType[None, None]
    closed: bool = False


class LoopChannel:
    """A client for each running loop, made at the first call there and closed with the loop.

    Args:
        make: gives a client; blocking, so it runs in a worker thread.

        close: releases what `make` took, such as an embedded server.

        limit: how many exchanges there may be at once in a loop; the others wait.

        patience: seconds that one exchange may take, if the call has that long.

        noting: whether the client's connections are those of `own_client`.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        close: Callable[[], None],
        *,
        limit: int,
        patience: float,
        noting: bool = True,
    ) -> None:
        self._make, self._close, self._limit, self._patience = make, close, limit, patience
        self._noting = noting
        self._start()
        renew_in_children(self)

    def after_fork(self) -> None:
        """Forget the parent's pools: they are its own."""
        _abandoned.append(self._homes)
        self._start()

    def _start(self) -> None:
        self._homes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Home]
        self._homes = weakref.WeakKeyDictionary()
        self._opening: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._opening = weakref.WeakKeyDictionary()

    async def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:
        """Send calls together, give back their replies."""
        progress = _Progress()
        _progress.set(progress)
        home = None
        try:
            async with asyncio.timeout(min(seconds, self._patience)):
                home = await self._home()
                async with home.places:
                    progress.placed = True
                    try:
                        return await exchanged(home.client, wires, 0)
                    finally:
                        # closed while this call was under way: nobody else will close what it used
                        if home.closed or home.guard.ag_frame is None:
                            await _disconnect(home.client)
        except AuthenticationError:
            raise
        except (*TRANSPORT, InvalidResponse) as error:
            if home is not None and not progress.placed:
                raise NotSent from PoolExhausted("no connection was free in time")
            if not progress.sent and self._noting:
                unanswered = NotSent(NO_HANDSHAKE) if progress.shaking else NotSent()
                raise progress.failed or unanswered from error
            if home is not None and self._noting:
                # It had perhaps been idle, and others that were may have ended with it.
                await home.client.connection_pool.disconnect(inuse_connections=False)
            if isinstance(error, TimeoutError):
                raise RedisTimeoutError("no reply in time") from None
            raise

    async def _home(self) -> _Home:
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is None:
            async with self._opening.setdefault(loop, asyncio.Lock()):
                home = self._homes.get(loop)
                if home is None:
                    home = self._homes[loop] = await self._open()
        return home

    async def _open(self) -> _Home:
        client = await anyio.to_thread.run_sync(self._make)
        guard = cast(AsyncGeneratorType[None, None], _until_the_loop_ends(client, self._noting))
        await anext(guard)
        try:
            if self._noting:
                with suppress(ResponseError):  # a user who may not ask for it
                    check_info(await client.execute_command("INFO", "server"))
        except BaseException:
            await guard.aclose()
            raise
        return _Home(client, asyncio.Semaphore(self._limit), guard)

    async def aclose(self) -> None:
        """Close this loop's connections, and release what the clients stand on."""
        home = self._homes.pop(asyncio.get_running_loop(), None)
        if home is not None:
            home.closed = True
            await home.guard.aclose()
        await anyio.to_thread.run_sync(self._close)

    def release(self) -> None:
        """Let go of the connections of all loops, and release what the clients stand on.

        A call that is under way goes on with what it uses, and closes that; else a loop closes what
        nobody holds any more.
        """
        homes = list(self._homes.values())
        self._start()
        for home in homes:
            home.closed = True
        self._close()


async def _until_the_loop_ends(client: Any, noting: bool) -> AsyncGenerator[None, None]:
    # A loop closes the asynchronous generators that it has seen before it ends (asyncio.run does
    # so); without this each run would leave open sockets behind. It may give a generator one last
    # turn and no more, so nothing here may wait.
    try:
        yield
    finally:
        if noting:
            await _disconnect(client)
        else:
            await client.aclose()


async def _disconnect(client: Any) -> None:
    """Close every connection that a client of `own_client` has opened."""
    opened: list[Any] = list(getattr(client.connection_pool.connection_class, "opened", ()))
    for connection in opened:
        await connection.disconnect(nowait=True)


def own_client(endpoint: Endpoint) -> Redis:
    """An asyncio client of our own: no repeats by redis-py, and connections that note what they send.

    It has neither a socket timeout nor a bound, since `LoopChannel` sets both at less cost.
    """
    options = connection_options(endpoint.url(), parse_url)
    kind: Any = options.pop("connection_class", Connection)
    noting: Any = type(kind.__name__, (_Noting, kind), {"opened": weakref.WeakSet()})
    options.update(socket_timeout=None, retry=Retry(NoBackoff(), 0))
    return Redis.from_pool(ConnectionPool(connection_class=noting, **options))
