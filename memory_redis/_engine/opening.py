"""From what a memory is given, a URL or a client, to its driver. No I/O."""

from __future__ import annotations

from functools import partial

from memory_redis._engine.channels import AsyncClient, AsyncClientChannel, ClientChannel, SyncClient
from memory_redis._engine.connections import ConnectionChannel
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.endpoints import endpoint, patience_of, scheme_of
from memory_redis._engine.fakes import fake_async_client, fake_client, fake_server
from memory_redis._engine.loops import LoopChannel, own_client
from memory_redis.errors import InvalidSetting


def _check_limit(max_connections: int) -> int:
    if type(max_connections) is not int or not 1 <= max_connections <= 100_000:
        raise InvalidSetting("max_connections must be an integer from 1 to 100,000")
    return max_connections


def _patience(url: str, deadline: float) -> float:
    return min(patience_of(url), deadline)


def open_driver(source: str | SyncClient, deadline: float, max_connections: int = 1) -> Driver:
    """The driver of a sync memory.

    Raises:
        InvalidSetting: the URL is wrong, or the client is none of redis-py's sync ones.
    """
    if not isinstance(source, str):
        return Driver(ClientChannel(source), deadline)
    limit = _check_limit(max_connections)
    if scheme_of(source) == "fake":
        return Driver(ClientChannel(fake_client(fake_server(source))), deadline)
    return Driver(ConnectionChannel(endpoint(source), limit, _patience(source, deadline)), deadline)


def open_async_driver(source: str | AsyncClient, deadline: float, max_connections: int = 1) -> AsyncDriver:
    """The driver of an asyncio memory.

    Raises:
        InvalidSetting: the URL is wrong, or the client is none of redis-py's asyncio ones.
    """
    if not isinstance(source, str):
        return AsyncDriver(AsyncClientChannel(source), deadline)
    limit, patience = _check_limit(max_connections), _patience(source, deadline)
    if scheme_of(source) == "fake":
        server = fake_server(source)
        make = partial(fake_async_client, server)
        channel = LoopChannel(make, lambda: None, limit=limit, patience=patience, noting=False)
    else:
        target = endpoint(source)
        channel = LoopChannel(partial(own_client, target), target.close, limit=limit, patience=patience)
    return AsyncDriver(channel, deadline)
