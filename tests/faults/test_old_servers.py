"""Servers that are too old, played by a few lines that answer what Redis 6.0 and 5.0 would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from memory_redis import MemoryRedisError, human
from memory_redis.errors import UnsupportedServer
from tests.faults.conftest import Connect
from tests.faults.ways import OWN, WAYS
from tests.support.fault_proxy import RequestParser

pytestmark = pytest.mark.anyio


class OldServer:
    """Answers the greeting, PING and INFO as a server of that version, and notes all commands."""

    def __init__(self, version: str) -> None:
        self.version, self.commands = version, list[str]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        parser = RequestParser()
        try:
            while data := connection.recv(65536):
                for _, words in parser.feed(data):
                    name = words[0].decode().upper()
                    self.commands.append(name)
                    connection.sendall(self._answer(name, words))
        except OSError:
            return

    def _answer(self, name: str, words: list[bytes]) -> bytes:
        if name == "HELLO" and self.version >= "6":
            pairs = {b"server": b"redis", b"version": self.version.encode()}
            start = b"%3\r\n" if words[1] == b"3" else b"*6\r\n"
            body = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for pair in pairs.items() for word in pair)
            return start + body + b"$5\r\nproto\r\n:%s\r\n" % words[1]
        if name == "PING":
            return b"+PONG\r\n"
        if name in ("CLIENT", "SELECT"):
            return b"+OK\r\n"
        if name == "INFO":
            text = f"# Server\r\nredis_version:{self.version}\r\nredis_mode:standalone\r\n".encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if name == "EVALSHA":
            return b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
        return b"-ERR unknown command `%s`, with args beginning with: \r\n" % words[0]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
        self._thread.join(5)


@pytest.fixture(params=["6.0.16", "5.0.14"])
def old(request: pytest.FixtureRequest) -> Iterator[OldServer]:
    server = OldServer(request.param)
    yield server
    server.close()


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_connections_of_our_own_refuse_an_old_server_in_one_sentence(
    connect: Connect, old: OldServer
) -> None:
    """Decision 32: before any script is sent, on both faces, by every call."""
    memory = connect(old.port, timeout=10, deadline=20)
    history = memory.history("ann", "c")
    for call in (memory.ping, lambda: history.append(human("1")), history.load, history.count):
        with pytest.raises(UnsupportedServer) as caught:
            await call()
        text = str(caught.value)
        assert "6.2" in text
        assert "\n" not in text
    assert not {"EVAL", "EVALSHA", "HMGET", "LRANGE"} & set(old.commands)


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.kind not in ("own", "single connection")], ids=str
)
async def test_ping_refuses_an_old_server_whatever_client_was_passed_in(
    connect: Connect, old: OldServer
) -> None:
    """Decision 32: by INFO or a greeting that it does not know; other calls end in a typed error too."""
    memory = connect(old.port, timeout=10, deadline=20)
    with pytest.raises(UnsupportedServer):
        await memory.ping()
    with pytest.raises(MemoryRedisError) as caught:
        await memory.history("ann", "c").append(human("1"))
    assert caught.value.outcome == "not_stored"
