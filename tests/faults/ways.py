"""Ways to a server: a memory's own connections, and the clients that redis-py makes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio

from memory_redis import AsyncRedisMemory, RedisMemory
from memory_redis.testing import AsyncView

HOST = "127.0.0.1"
SCRIPTS = ("EVALSHA", "EVAL")
"""What a proxy aims at: the commands that every write consists of."""

SILENCE = 0.5
"""A socket timeout for where nothing but silence says that a reply is lost."""

Client = Callable[[Any, int, float], Any]
"""From redis-py's module (sync or asyncio), a port and a socket timeout to a client."""

CLIENTS: dict[str, Client] = {
    # 10 repeats of its own
    "Redis()": lambda lib, port, timeout: lib.Redis(host=HOST, port=port, socket_timeout=timeout),
    # none
    "from_url": lambda lib, port, timeout: lib.Redis.from_url(
        f"redis://{HOST}:{port}/0?socket_timeout={timeout}"
    ),
    "ConnectionPool": lambda lib, port, timeout: lib.Redis.from_pool(
        lib.ConnectionPool(host=HOST, port=port, socket_timeout=timeout)
    ),
    "BlockingConnectionPool": lambda lib, port, timeout: lib.Redis.from_pool(
        lib.BlockingConnectionPool(host=HOST, port=port, socket_timeout=timeout)
    ),
    "decode_responses": lambda lib, port, timeout: lib.Redis(
        host=HOST, port=port, socket_timeout=timeout, decode_responses=True
    ),
    "RESP2": lambda lib, port, timeout: lib.Redis(host=HOST, port=port, socket_timeout=timeout, protocol=2),
    "RESP3": lambda lib, port, timeout: lib.Redis(host=HOST, port=port, socket_timeout=timeout, protocol=3),
    "RESP2, decoding": lambda lib, port, timeout: lib.Redis(
        host=HOST, port=port, socket_timeout=timeout, protocol=2, decode_responses=True
    ),
    "single connection": lambda lib, port, timeout: lib.Redis(
        host=HOST, port=port, socket_timeout=timeout, single_connection_client=True
    ),
}


@dataclass(frozen=True)
class Way:
    """A face, and how it gets to the server: "own" connections, or one of `CLIENTS`."""

    face: str
    kind: str

    def __str__(self) -> str:
        return f"{self.face} {self.kind}"

    @property
    def repeats(self) -> bool:
        """Whether the client sends again by itself."""
        return self.kind not in ("own", "from_url", "ConnectionPool", "BlockingConnectionPool")

    def open(self, stack: AsyncExitStack, port: int, timeout: float = 5, **options: Any) -> Any:
        """A memory over this way, awaited on either face; the stack closes all that was opened."""
        if self.kind == "own":
            url = f"redis://{HOST}:{port}/0?socket_timeout={timeout}"
            memory: Any
            if self.face == "sync":
                memory = AsyncView(RedisMemory.from_url(url, **options))
            else:
                memory = AsyncRedisMemory.from_url(url, **options)
        else:
            library: Any = redis if self.face == "sync" else redis.asyncio
            client = CLIENTS[self.kind](library, port, timeout)
            if self.face == "sync":
                stack.callback(client.close)
                memory = AsyncView(RedisMemory(client, **options))
            else:
                stack.push_async_callback(client.aclose)
                memory = AsyncRedisMemory(client, **options)
        stack.push_async_callback(memory.aclose)
        return memory


WAYS = [Way(face, kind) for face in ("sync", "async") for kind in ("own", *CLIENTS)]
OWN = [way for way in WAYS if way.kind == "own"]
WITHOUT_REPEATS = [way for way in WAYS if not way.repeats]
