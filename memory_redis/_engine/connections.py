"""Connections of our own, below redis-py's client and pool, for sync code.

A connection is taken, used for one exchange and put back; the one used last is taken first. What a
client does around an exchange costs as much as the exchange: redis-py's `Connection` connects,
speaks TLS and authenticates, hiredis packs and parses, the rest is here.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import hiredis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, InvalidResponse, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from memory_redis._engine.endpoints import Endpoint, connection_options
from memory_redis._engine.failures import TRANSPORT, NotSent, is_passing, not_opened
from memory_redis._engine.forks import renew_in_children
from memory_redis._engine.plans import Wire
from memory_redis._engine.servers import check_handshake
from memory_redis.errors import PoolExhausted

_INCOMPLETE: Final = object()
_CHUNK: Final = 65_536
_LOOK_AGAIN: Final = 0.05


class _Line:
    """A connection: its socket, and the parser of what comes over it.

    `used` says that it has served an exchange before; `life` is the channel's when it was made.
    """

    __slots__ = ("__weakref__", "_connection", "_reader", "_seconds", "_socket", "life", "used")

    def __init__(self, life: object) -> None:
        self.life = life
        self._connection: Connection | None = None
        self._socket: Any = None
        self._reader = hiredis.Reader(
            replyError=ResponseError, protocolError=InvalidResponse, notEnoughData=_INCOMPLETE
        )
        self._seconds = 0.0
        self.used = False

    def open(self, options: dict[str, Any]) -> None:
        """Connect.

        Raises:
            NotSent: there is nobody, or nobody who answers as a server does.
            AuthenticationError: the server wants another user or password.
            UnsupportedServer: it is too old.
        """
        connection: Connection = options.pop("connection_class", Connection)(**options)
        self._connection = connection
        tls, unix = isinstance(connection, SSLConnection), isinstance(connection, UnixDomainSocketConnection)
        try:
            connection.connect()
            greeting = getattr(connection, "handshake_metadata", None)
            if not isinstance(greeting, Mapping | None):
                raise InvalidResponse("a greeting of another shape")
        except AuthenticationError:
            raise
        except (*TRANSPORT, InvalidResponse, AttributeError) as error:  # redis-py got no map for HELLO
            raise not_opened(error, tls=tls, tcp=not unix) from error
        check_handshake(greeting)
        # redis-py has no public name for the socket, in any release since its first.
        self._socket = connection._sock

    def exchange(self, wires: Sequence[Wire], wait: float, until: float) -> list[Any]:
        """Send calls together, give back their replies.

        Each wait ends after so many seconds, and all of it at an instant of the monotonic clock.
        """
        if wait != self._seconds:
            self._wait(wait)
        reader, receive = self._reader, self._socket.recv
        pack: Any = hiredis.pack_command
        self._socket.sendall(b"".join([pack(wire) for wire in wires]))
        replies: list[Any] = []
        data: bytes | None = None
        while len(replies) < len(wires):
            reply = reader.gets()
            if reply is _INCOMPLETE:
                if data is not None:  # each piece may come in time, and all of them too late
                    left = until - time.monotonic()
                    if left <= 0:
                        raise TimeoutError("no whole reply in time")
                    self._wait(min(wait, left))
                data = receive(_CHUNK)
                if not data:
                    raise RedisConnectionError("the server closed the connection")
                reader.feed(data)
            elif not isinstance(reply, hiredis.PushNotification):
                replies.append(reply)
        self.used = True
        return replies

    def _wait(self, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._seconds = seconds

    def close(self) -> None:
        """Close it; what was under way is lost."""
        if self._connection is not None:
            self._connection.disconnect()


class ConnectionChannel:
    """A bounded stack of connections; safe for threads, and after a fork.

    Args:
        endpoint: where they go.

        limit: how many there may be. Whoever finds all in use waits for one.

        patience: seconds that one exchange may take, if the call has that long.
    """

    def __init__(self, endpoint: Endpoint, limit: int, patience: float) -> None:
        self._endpoint, self._limit, self._patience = endpoint, limit, patience
        # The first connection would import this codec, under a lock: as at the end of messages.py.
        "localhost".encode("idna")
        self._changed, self._waiting = threading.Condition(), 0
        self._start()
        renew_in_children(self)

    def after_fork(self) -> None:
        """Forget the parent's connections: they are its own."""
        self._changed, self._waiting = threading.Condition(), 0
        self._start()

    def _start(self) -> None:
        self._free: list[_Line] = []
        # Every line that exists. An interrupt may come between any two steps below; a line that is
        # lost by it is forgotten here by itself, and its place is free again.
        self._lines: weakref.WeakSet[_Line] = weakref.WeakSet()
        self._life = object()
        self._options: dict[str, Any] | None = None

    def exchange(self, wires: Sequence[Wire], seconds: float) -> list[Any]:
        """Send calls together, give back their replies."""
        until, wait = time.monotonic() + seconds, min(seconds, self._patience)
        line = self._take(wait)
        try:
            replies = line.exchange(wires, wait, until)
        except BaseException:
            self._discard(line)
            if line.used:  # it had been idle, and others that were may have ended with it
                self._discard_free()
            raise
        for reply in replies:
            if isinstance(reply, ResponseError) and is_passing(reply):
                self._discard(line)  # another server may be the right one by now
                return replies
        self._give(line)
        return replies

    def _take(self, seconds: float) -> _Line:
        line = self._pop()
        if line is not None:
            return line
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                # Others take without the lock: only a pop tells whether one is free.
                line = self._pop()
                if line is not None:
                    return line
                if len(self._lines) < self._limit:
                    break
                left = until - time.monotonic()
                if left <= 0:
                    raise NotSent from PoolExhausted("no connection was free in time")
                self._waiting += 1
                try:
                    self._changed.wait(min(left, _LOOK_AGAIN))
                finally:
                    self._waiting -= 1
            line = _Line(self._life)
            self._lines.add(line)
        try:
            self._connect(line, max(until - time.monotonic(), 0.01))
        except BaseException:
            self._discard(line)
            raise
        return line

    def _connect(self, line: _Line, seconds: float) -> None:
        if self._options is None:
            self._options = connection_options(self._endpoint.url())
        sooner = self._options.get("socket_connect_timeout") or seconds
        timeouts = {"socket_timeout": seconds, "socket_connect_timeout": min(sooner, seconds)}
        try:
            line.open(self._options | timeouts | {"retry": Retry(NoBackoff(), 0)})
        except NotSent:
            self._options = None  # an embedded server may have to be started again
            raise

    def _pop(self) -> _Line | None:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _give(self, line: _Line) -> None:
        if line.life is not self._life:  # the channel was closed while it was in use
            line.close()
            return
        self._free.append(line)
        if self._waiting:
            with self._changed:
                self._changed.notify()

    def _discard(self, line: _Line) -> None:
        line.close()
        with self._changed:
            self._lines.discard(line)
            self._changed.notify()

    def _discard_free(self) -> None:
        while (line := self._pop()) is not None:
            self._discard(line)

    def close(self) -> None:
        """Close the connections that are not in use, and release the endpoint."""
        self._discard_free()
        self._start()
        self._endpoint.close()
