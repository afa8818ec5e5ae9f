"""`rediss://`: the certificate is checked, and its name too."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from memory_redis import AsyncRedisMemory, RedisMemory, ServerUnavailable, human
from memory_redis.testing import AsyncView
from tests.support.servers import HOST, Server

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


def memory_of(face: str, url: str, namespace: str) -> AsyncView | AsyncRedisMemory:
    if face == "sync":
        return AsyncView(RedisMemory.from_url(url, namespace=namespace, deadline=30))
    return AsyncRedisMemory.from_url(url, namespace=namespace, deadline=30)


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
