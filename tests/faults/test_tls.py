"""`rediss://`: the certificate is checked, and its name too; and what is no Redis server is told as that."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from memory_redis import (
    AsyncRedisMemory,
    InvalidSetting,
    RedisMemory,
    ServerUnavailable,
    UnknownOutcome,
    human,
)
from memory_redis.testing import AsyncView
from tests.faults.test_server_down import CALLS
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import HOST, Binary, Server, binaries

pytestmark = pytest.mark.anyio


class TlsFront:
    """Speaks TLS in front of a server that does not. Runs in a thread of its own."""

    def __init__(self, server: Server, certificate: trustme.LeafCert) -> None:
        self._server, self._context = server, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        front = await asyncio.start_server(self._relay, HOST, 0)
        self.port = front.sockets[0].getsockname()[1]
        self._ready.set()
        async with front:
            await self._end.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The handshake is ours, so that the loop does not end with one that nobody closes.
        try:
            await writer.start_tls(self._context)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            await asyncio.sleep(0)
            return
        inward, outward = await asyncio.open_connection(*self._server.address)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(pump(reader, outward), pump(inward, writer))
        finally:
            for end in (outward, writer):  # a loop that ends first would leave them open
                end.transport.abort()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    def __enter__(self) -> TlsFront:
        self._thread.start()
        self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    """A certificate authority, and the file of its certificate."""
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return ca, path


@pytest.fixture
def front(valkey: Server, authority: tuple[trustme.CA, Path]) -> Iterator[TlsFront]:
    with TlsFront(valkey, authority[0].issue_cert("localhost")) as front:
        yield front


class Stranger:
    """Answers whatever comes with the same bytes, and counts who has come. Runs in a thread of its own."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self.visits = answer, 0
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            with visitor, contextlib.suppress(OSError):
                visitor.settimeout(10)
                while visitor.recv(65536) and self._answer:
                    visitor.sendall(self._answer)

    def __enter__(self) -> Stranger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def memory_of(face: str, url: str, namespace: str, deadline: float = 30) -> Any:
    if face == "sync":
        return AsyncView(RedisMemory.from_url(url, namespace=namespace, deadline=deadline))
    return AsyncRedisMemory.from_url(url, namespace=namespace, deadline=deadline)


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_trusted_server_is_spoken_to(
    face: str, front: TlsFront, authority: tuple[trustme.CA, Path], namespace: str
) -> None:
    """With the authority named in the URL an append and a load go over TLS."""
    url = f"rediss://localhost:{front.port}/0?ssl_ca_certs={authority[1]}"
    async with memory_of(face, url, namespace) as memory:
        history = memory.history("ann", "c1")
        await history.append(human("Hi"))
        assert [message.text for message in (await history.load()).messages] == ["Hi"]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("case", ["unknown authority", "another name"])
async def test_a_server_that_is_not_trusted_is_told_nothing(
    face: str, case: str, front: TlsFront, authority: tuple[trustme.CA, Path], namespace: str
) -> None:
    """An unknown authority, or a certificate for another name, ends the call at once and says why."""
    host, query = (
        ("localhost", "") if case == "unknown authority" else (HOST, f"?ssl_ca_certs={authority[1]}")
    )
    began = asyncio.get_running_loop().time()
    async with memory_of(face, f"rediss://{host}:{front.port}/0{query}", namespace) as memory:
        with pytest.raises(ServerUnavailable, match="certificate") as caught:
            await memory.history("ann", "c1").append(human("Hi"))
    assert caught.value.outcome == "not_stored"
    assert asyncio.get_running_loop().time() - began < 15, "it was not tried again until the deadline"


HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\n\r\nHUNTER2"
STRANGERS: list[tuple[str, bytes, str]] = [
    ("redis", HTTP, "what answers there is no Redis server"),
    ("redis", b"SSH-2.0-HUNTER2\r\n", "what answers there is no Redis server"),
    ("redis", b"+OK HUNTER2 POP3 ready\r\n", "what answers there is no Redis server"),
    ("redis", b"\x15\x03\x03\x00\x02\x02\x46", "the server speaks TLS: its URL begins with rediss://"),
    ("rediss", HTTP, "no TLS handshake: does the server speak TLS?"),
]
"""A scheme, what answers there (the last but one is a TLS alert), and what is said of it."""


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("scheme", "answer", "said"), STRANGERS, ids=str)
async def test_what_is_no_redis_server_is_told_as_that_at_once(
    face: str, call: str, scheme: str, answer: bytes, said: str, namespace: str
) -> None:
    """P9, P12: one visit shows it; nothing is stored, and neither the answer nor the password is shown."""
    with Stranger(answer) as stranger:
        url = f"{scheme}://:HUNTER2@localhost:{stranger.port}/0?ssl_cert_reqs=none"
        url = url if scheme == "rediss" else url.partition("?")[0]
        async with memory_of(face, url, namespace, deadline=30) as memory:
            with pytest.raises(ServerUnavailable) as caught:
                await CALLS[call](memory)
            assert str(caught.value) == said
            assert stranger.visits == 1
            assert caught.value.outcome == "not_stored"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_web_server_behind_tls_is_no_redis_server(
    face: str, authority: tuple[trustme.CA, Path], namespace: str
) -> None:
    """P9: the handshake is made, and what answers then is told."""
    with Stranger(HTTP) as stranger:
        place: Any = stranger
        place.address = (HOST, stranger.port)
        with TlsFront(place, authority[0].issue_cert("localhost")) as front:
            url = f"rediss://localhost:{front.port}/0?ssl_ca_certs={authority[1]}"
            async with memory_of(face, url, namespace) as memory:
                with pytest.raises(ServerUnavailable, match="what answers there is no Redis server"):
                    await memory.ping()


@pytest.fixture(scope="module", params=binaries(), ids=lambda binary: binary.version)
def plain_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that speaks no TLS."""
    binary: Binary = request.param
    with Server(binary) as server:
        yield server


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(
    ("call", "query"),
    [("append", ""), ("ping", "&socket_timeout=0.4"), ("append", "&socket_connect_timeout=0.4")],
)
async def test_a_server_that_does_not_speak_tls_is_told_as_that(
    face: str, call: str, query: str, plain_server: Server, namespace: str
) -> None:
    """P9: it waits for the rest of a command; at the deadline the error says what is missing."""
    url = f"rediss://:HUNTER2@localhost:{plain_server.port}/0?ssl_cert_reqs=none{query}"
    async with memory_of(face, url, namespace, deadline=1) as memory:
        with pytest.raises(ServerUnavailable) as caught:
            await CALLS[call](memory)
    assert str(caught.value) == "no TLS handshake: does the server speak TLS?"
    assert caught.value.outcome == "not_stored"


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_server_that_hangs_up_on_a_handshake_is_asked_whether_it_speaks_tls(
    face: str, namespace: str
) -> None:
    """P9: also where it ends the connection without a word."""
    with Stranger(b"") as stranger:
        url = f"rediss://localhost:{stranger.port}/0"
        async with memory_of(face, url, namespace, deadline=1) as memory:
            with pytest.raises(ServerUnavailable, match="no TLS handshake"):
                await memory.ping()


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("call", ["append", "ping"])
async def test_a_server_that_speaks_tls_only_is_told_from_one_that_is_away(
    face: str, call: str, front: TlsFront, namespace: str
) -> None:
    """P9: a `redis://` URL to it is met by a connection that ends without an answer."""
    async with memory_of(face, f"redis://localhost:{front.port}/0", namespace, deadline=1) as memory:
        with pytest.raises(ServerUnavailable) as caught:
            await CALLS[call](memory)
    assert str(caught.value) == (
        "the server could not be reached in time: it closed the connection without an answer:"
        " does it speak TLS only (rediss://)?"
    )
    assert caught.value.outcome == "not_stored"


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_an_append_that_was_sent_stays_open_when_no_redis_server_is_there_any_more(
    face: str, valkey: Server, namespace: str
) -> None:
    """P9, P2: "not stored" would be a lie; what answers later says nothing of what was sent before."""
    with FaultProxy(valkey.address) as proxy:
        url = f"redis://{HOST}:{proxy.port}/0"
        async with memory_of(face, url, namespace) as memory:
            history = memory.history("ann", "c1")
            await history.append(human("1"))
            proxy.rewrite_reply(b"", ("EVALSHA", "EVAL")).extra["data"] = HTTP
            proxy.rewrite_reply(b"", ("HELLO",)).extra["data"] = HTTP
            with pytest.raises(UnknownOutcome):
                await history.append(human("2"))
            assert [message.text for message in (await history.load()).messages] == ["1", "2"]


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_certificate_of_ones_own_is_read_when_the_memory_is_made(
    face: str, authority: tuple[trustme.CA, Path], namespace: str, tmp_path: Path, front: TlsFront
) -> None:
    """S6: with its key, and the authorities in a file or a folder."""
    mine, [certificate, key] = authority[0].issue_cert("me"), [tmp_path / "me.pem", tmp_path / "me.key"]
    mine.cert_chain_pems[0].write_to_path(str(certificate))
    mine.private_key_pem.write_to_path(str(key))
    query = f"ssl_ca_certs={authority[1]}&ssl_ca_path={tmp_path}&ssl_certfile={certificate}&ssl_keyfile={key}"
    async with memory_of(face, f"rediss://localhost:{front.port}/0?{query}", namespace) as memory:
        await memory.ping()
    for wrong in (f"ssl_certfile={certificate}", f"ssl_certfile={authority[1]}&ssl_keyfile={key}"):
        with pytest.raises(InvalidSetting, match="ssl_certfile and ssl_keyfile in the URL"):
            memory_of(face, f"rediss://localhost/0?{wrong}", namespace)
