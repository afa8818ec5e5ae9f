"""Connections of our own, below redis-py's client and pool, for sync code.

A connection is taken, used for one exchange and put back; the one used last is taken first. What a
client does around an exchange costs as much as the exchange: redis-py's `Connection` connects,
speaks TLS and authenticates, hiredis packs and parses, the rest is here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import hiredis
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from memory_redis._engine.endpoints import Endpoint, connection_options
from memory_redis._engine.failures import TRANSPORT, NotSent, is_passing
from memory_redis._engine.plans import Wire
from memory_redis._engine.servers import check_handshake
from memory_redis.errors import PoolExhausted

SOCKET_TIMEOUT: Final = 5.0


def own_options(url: str) -> dict[str, Any]:
    """Options for a connection of our own: no repeats by redis-py, a timeout on every wait."""
    options = connection_options(url)
    options.setdefault("socket_timeout", SOCKET_TIMEOUT)
    options.setdefault("socket_connect_timeout", options["socket_timeout"])
    options["retry"] = Retry(NoBackoff(), 0)
    return options


class _Line:
    """An open connection: its socket, and the parser of what comes over it."""

    __slots__ = ("_connection", "_reader", "_socket")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # redis-py has no public name for the socket, in any release since its first.
        self._socket: Any = connection._sock
        self._reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_INCOMPLETE)

    def exchange(self, wires: Sequence[Wire]) -> list[Any]:
        """Send calls together, give back their replies."""
        reader, receive = self._reader, self._socket.recv
        self._socket.sendall(b"".join([hiredis.pack_command(wire) for wire in wires]))
        replies: list[Any] = []
        while len(replies) < len(wires):
            reply = reader.gets()
            if reply is _INCOMPLETE:
                data = receive(_CHUNK)
                if not data:
                    raise RedisConnectionError("the server closed the connection")
                reader.feed(data)
            elif not isinstance(reply, hiredis.PushNotification):
                replies.append(reply)
        return replies

    def close(self) -> None:
        """Close it; what was under way is lost."""
        self._connection.disconnect()


_INCOMPLETE: Final = object()
_CHUNK: Final = 65_536


class ConnectionChannel:
    """A bounded stack of connections; safe for threads, and after a fork.

    Args:
        endpoint: where they go.

        limit: how many there may be. Whoever finds all in use waits for one up to `patience`.
    """

    def __init__(self, endpoint: Endpoint, limit: int, patience: float) -> None:
        self._endpoint, self._limit, self.patience = endpoint, limit, patience
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._free: list[_Line] = []
        self._open = 0
        self._waiting = 0
        self._changed = threading.Condition()
        self._options: dict[str, Any] | None = None

    def exchange(self, wires: Sequence[Wire]) -> list[Any]:
        """Send calls together, give back their replies."""
        if self._pid != os.getpid():
            self._start()  # the parent's connections are its own; here they are only forgotten
        connection = self._take()
        try:
            replies = connection.exchange(wires)
        except BaseException:
            self._discard(connection)
            raise
        if any(isinstance(reply, ResponseError) and is_passing(reply) for reply in replies):
            self._discard(connection)  # another server may be the right one by now
        else:
            self._give(connection)
        return replies

    def _take(self) -> _Line:
        try:
            return self._free.pop()
        except IndexError:
            pass
        with self._changed:
            until = time.monotonic() + self.patience
            while not self._free and self._open >= self._limit:
                self._waiting += 1
                try:
                    if not self._changed.wait(until - time.monotonic()) and not self._free:
                        raise NotSent from PoolExhausted("no connection was free in time")
                finally:
                    self._waiting -= 1
            if self._free:
                return self._free.pop()
            self._open += 1
        try:
            return self._connect()
        except BaseException:
            self._lost()
            raise

    def _connect(self) -> _Line:
        if self._options is None:
            self._options = own_options(self._endpoint.url())
        options = dict(self._options)
        connection: Connection = options.pop("connection_class", Connection)(**options)
        try:
            connection.connect()
        except AuthenticationError:
            raise
        except TRANSPORT as error:
            self._options = None  # an embedded server may have to be started again
            raise NotSent from error
        check_handshake(getattr(connection, "handshake_metadata", None))
        return _Line(connection)

    def _give(self, connection: _Line) -> None:
        self._free.append(connection)
        if self._waiting:
            with self._changed:
                self._changed.notify()

    def _discard(self, connection: _Line) -> None:
        connection.close()
        self._lost()

    def _lost(self) -> None:
        with self._changed:
            self._open -= 1
            self._changed.notify()

    def close(self) -> None:
        """Close the connections that are not in use, and release the endpoint."""
        if self._pid == os.getpid():
            while self._free:
                self._discard(self._free.pop())
        self._start()
        self._endpoint.close()
