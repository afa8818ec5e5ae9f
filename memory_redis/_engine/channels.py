"""What the drivers ask of a way to the server, and the ways over a client of redis-py's."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import Sequence
from typing import Any, Final, Protocol

import redis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory_redis._engine.failures import NotSent
from memory_redis._engine.plans import Wire
from memory_redis._engine.settings import HOLD_MS
from memory_redis.errors import InvalidSetting, WrongEventLoop

SyncClient = redis.Redis | redis.RedisCluster
AsyncClient = redis.asyncio.Redis | redis.asyncio.RedisCluster

_CONNECTING: Final = re.compile(r"Error .*connecting to|Timeout connecting to|No master found")
_logger = logging.getLogger("memory_redis")


class Channel(Protocol):
    """A way to a server."""

    def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:
        """Send calls together, give back their replies, undecoded; an error reply as an exception.

        It ends after so many seconds, unless it goes over a client that was passed in.

        Raises:
            NotSent: nothing left.
            redis.RedisError, OSError: there are no replies; the calls may have been executed.
        """
        ...

    def close(self) -> None:
        """Close what was opened."""


class AsyncChannel(Protocol):
    """A way to a server for asyncio; as `Channel`."""

    async def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:
        """As `Channel.exchange`."""
        ...

    async def aclose(self) -> None:
        """Close what was opened."""

    def release(self) -> None:
        """Let go of what was opened: it closes when nobody uses it any more, at the latest with its loop."""


def _inner_retries(client: SyncClient | AsyncClient) -> int:
    """How often a client sends again by itself; it is warned of where that may outlast the hold."""
    pool = getattr(client, "connection_pool", None)
    options: dict[str, Any] = getattr(pool, "connection_kwargs", None) or getattr(
        client, "connection_kwargs", {}
    )
    retry = options.get("retry") or getattr(client, "retry", None)
    retries = int(getattr(retry, "_retries", 0)) if retry is not None else 0
    timeout, longest = options.get("socket_timeout"), getattr(getattr(retry, "_backoff", None), "_cap", 0)
    if retries and (timeout is None or (retries + 1) * timeout + retries * longest >= HOLD_MS / 1000):
        _logger.warning(
            "the client that was passed in may repeat a request for longer than the %d s for which"
            " repeats are recognised: give it a socket_timeout and fewer retries",
            HOLD_MS // 1000,
        )
    return retries


def _goes_alone(wires: Sequence[Wire]) -> bool:
    # A client that caches would answer a lone read from its cache, and old; in a pipeline it does not.
    return len(wires) == 1 and wires[0][0] in ("EVALSHA", "EVAL", "PING", "INFO")


def _options(wire: Wire) -> dict[str, Any]:
    # A cluster client has its own way with what concerns the server, and knows no such option there.
    return {} if wire[0] in ("PING", "INFO") else {"NEVER_DECODE": True}


def _surely_not_sent(error: Exception, retries: int) -> bool:
    return retries == 0 and _CONNECTING.match(str(error)) is not None


class ClientChannel:
    """A redis-py client: single, Sentinel's or Cluster. It is never closed or reconfigured."""

    def __init__(self, client: SyncClient) -> None:
        if not isinstance(client, (redis.Redis, redis.RedisCluster)) or hasattr(client, "execute"):
            raise InvalidSetting(
                "RedisMemory takes a client of redis-py, not an asyncio one; RedisMemory.from_url takes a URL"
            )
        self._client, self._retries = client, _inner_retries(client)

    def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:  # noqa: ARG002
        """Send calls together, give back their replies."""
        client: Any = self._client
        try:
            if _goes_alone(wires):
                return [client.execute_command(*wires[0], **_options(wires[0]))]
            with client.pipeline(transaction=False) as pipeline:
                for wire in wires:
                    pipeline.execute_command(*wire, NEVER_DECODE=True)
                replies: list[Any] = pipeline.execute(raise_on_error=False)
                return replies
        except (RedisConnectionError, RedisTimeoutError) as error:
            if _surely_not_sent(error, self._retries):
                raise NotSent from error
            raise

    def close(self) -> None:
        """Nothing: whoever made the client closes it."""


class AsyncClientChannel:
    """A redis-py asyncio client. It belongs to the loop and process that use it first.

    Two loops on one asyncio client read each other's replies, and so do two processes: both are
    refused.
    """

    def __init__(self, client: AsyncClient) -> None:
        single = isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster))
        if not single or hasattr(client, "execute"):
            raise InvalidSetting(
                "AsyncRedisMemory takes an asyncio client of redis-py; AsyncRedisMemory.from_url takes a URL"
            )
        self._client, self._retries = client, _inner_retries(client)
        self._home: tuple[int, weakref.ref[asyncio.AbstractEventLoop]] | None = None

    async def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:  # noqa: ARG002
        """Send calls together, give back their replies."""
        loop = asyncio.get_running_loop()
        if self._home is None:
            self._home = (os.getpid(), weakref.ref(loop))
        elif self._home[0] != os.getpid() or self._home[1]() is not loop:
            raise WrongEventLoop(
                "the asyncio client that was passed in belongs to another event loop or process:"
                " make the memory from a URL, or one client for each"
            )
        return await exchanged(self._client, wires, self._retries)

    async def aclose(self) -> None:
        """Nothing: whoever made the client closes it."""

    def release(self) -> None:
        """Nothing, as `aclose`."""


async def exchanged(client: Any, wires: Sequence[Wire], retries: int) -> list[Any]:
    """Send calls together over an asyncio client, give back their replies."""
    try:
        if _goes_alone(wires):
            return [await client.execute_command(*wires[0], **_options(wires[0]))]
        async with client.pipeline(transaction=False) as pipeline:
            for wire in wires:
                pipeline.execute_command(*wire, NEVER_DECODE=True)
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
            return replies
    except (RedisConnectionError, RedisTimeoutError) as error:
        if _surely_not_sent(error, retries):
            raise NotSent from error
        raise
