"""Another client that comes exactly between two requests."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.support.fault_proxy import FaultProxy

LOOKED_AT = frozenset(
    (b"HGET", b"HMGET", b"LLEN", b"LRANGE", b"EVALSHA", b"EVAL", b"ZSCORE", b"PTTL", b"UNLINK")
)


class Ambush:
    """Does something on the server right before the `nth` request of the next read reaches it."""

    def __init__(self, proxy: FaultProxy, url: str) -> None:
        self.proxy, self.url = proxy, url
        self.sprung = False

    def lay(self, nth: int, action: Callable[[], object]) -> None:
        """The action is done once; what was sent before is executed before it."""
        seen = 0
        self.sprung = False

        def look(args: list[bytes]) -> bool:
            nonlocal seen
            if args[0].upper() in LOOKED_AT:
                seen += 1
                if seen == nth and not self.sprung:
                    self.sprung = True
                    self._let_the_server_finish()
                    action()
            return False

        self.proxy.heal()
        self.proxy.drop_request(match=look)

    def _let_the_server_finish(self) -> None:
        """An answer over another connection comes after what the server was sent before."""
        with socket.create_connection(self.proxy.upstream, timeout=30) as beside:
            beside.sendall(b"PING\r\n")
            assert beside.recv(64)

    def before_each(self, name: bytes, action: Callable[[], object], times: int) -> list[bytes]:
        """The action is done before each request of a name, `times` times; the list grows with these."""
        asked: list[bytes] = []

        def look(args: list[bytes]) -> bool:
            if args[0].upper() == name:
                asked.append(name)
                if len(asked) <= times:
                    action()
            return False

        self.proxy.heal()
        self.proxy.drop_request(match=look)
        return asked
