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


def async_client_driver(client: AsyncClient, deadline: float) -> AsyncDriver:
    """The driver of an asyncio memory over a client that was passed in.

    Raises:
        InvalidSetting: it is none of redis-py's asyncio ones.
    """
    return AsyncDriver(AsyncClientChannel(client), deadline)


class Opening:
    """What a memory that was made from a URL needs to make its driver, of either face.

    Raises:
        InvalidSetting: the URL or the number cannot be meant.
    """

    def __init__(self, url: str, max_connections: int, deadline: float) -> None:
        self._url, self._limit, self._deadline = url, _check_limit(max_connections), deadline
        self._patience = _patience(url, deadline)
        self._fake = fake_server(url) if scheme_of(url) == "fake" else None
        if self._fake is None:
            endpoint(url)

    def driver(self) -> Driver:
        """The driver of a sync memory with connections of its own."""
        if self._fake is not None:
            return Driver(ClientChannel(fake_client(self._fake)), self._deadline)
        channel = ConnectionChannel(endpoint(self._url), self._limit, self._patience)
        return Driver(channel, self._deadline)

    def async_driver(self) -> AsyncDriver:
        """The driver of an asyncio memory with connections of its own."""
        limit, patience = self._limit, self._patience
        if self._fake is not None:
            make = partial(fake_async_client, self._fake)
            channel = LoopChannel(make, lambda: None, limit=limit, patience=patience, noting=False)
        else:
            target = endpoint(self._url)
            channel = LoopChannel(partial(own_client, target), target.close, limit=limit, patience=patience)
        return AsyncDriver(channel, self._deadline)
