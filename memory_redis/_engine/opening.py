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


def client_driver(client: SyncClient, deadline: float) -> Driver:
    """The driver of a sync memory over a client that was passed in.

    Raises:
        InvalidSetting: it is none of redis-py's sync ones.
    """
    return Driver(ClientChannel(client), deadline)


def url_driver(url: str, max_connections: int, deadline: float) -> Driver:
    """The driver of a sync memory with connections of its own.

    Raises:
        InvalidSetting: the URL or the number cannot be meant.
    """
    limit = _check_limit(max_connections)
    if scheme_of(url) == "fake":
        return Driver(ClientChannel(fake_client(fake_server(url))), deadline)
    return Driver(ConnectionChannel(endpoint(url), limit, _patience(url, deadline)), deadline)


def async_client_driver(client: AsyncClient, deadline: float) -> AsyncDriver:
    """The driver of an asyncio memory over a client that was passed in.

    Raises:
        InvalidSetting: it is none of redis-py's asyncio ones.
    """
    return AsyncDriver(AsyncClientChannel(client), deadline)


def async_url_driver(url: str, max_connections: int, deadline: float) -> AsyncDriver:
    """The driver of an asyncio memory with connections of its own.

    Raises:
        InvalidSetting: the URL or the number cannot be meant.
    """
    limit, patience = _check_limit(max_connections), _patience(url, deadline)
    if scheme_of(url) == "fake":
        make = partial(fake_async_client, fake_server(url))
        return AsyncDriver(
            LoopChannel(make, lambda: None, limit=limit, patience=patience, noting=False), deadline
        )
    target = endpoint(url)
    make = partial(own_client, target)
    return AsyncDriver(LoopChannel(make, target.close, limit=limit, patience=patience), deadline)
