"""Latency, silence and half-open connections: no duplicate, and each call ends by its deadline."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest

from memory_redis import MemoryRedisError, RedisMemory, ServerUnavailable, UnknownOutcome, ai, human
from tests.faults.conftest import Connect, Texts
from tests.faults.test_server_down import CALLS, LONG, within
from tests.faults.ways import HOST, OWN, WITHOUT_REPEATS, Way
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

FAST_CLIENTS = [way for way in WITHOUT_REPEATS if way.kind == "from_url"]


@pytest.mark.parametrize("direction", ["up", "down", "both"])
async def test_a_blackholed_connection_costs_no_more_than_the_deadline(
    connect: Connect, proxy: FaultProxy, texts: Texts, direction: str
) -> None:
    """G14, F3: the link is dead and nobody says so; the outcome is unknown, then settled."""
    history = connect(proxy.port, timeout=LONG, deadline=1).history("ann", "c")
    await history.append(human("1"))
    proxy.half_open(direction)
    async with within(1):
        with pytest.raises(UnknownOutcome) as caught:
            await history.append(human("2"))
    proxy.heal()
    version = await history.append(human("2"), append_id=caught.value.append_id)
    assert version.number == 2
    await history.append(human("3"))
    assert texts("ann", "c") == ["1", "2", "3"]


@pytest.mark.parametrize("call", CALLS)
async def test_a_silent_server_holds_no_call_past_its_deadline(
    connect: Connect, proxy: FaultProxy, call: str
) -> None:
    """G14, decision 29: also where the connection is new and its greeting is not answered."""
    memory = connect(proxy.port, timeout=LONG, deadline=1)
    proxy.half_open("down")
    async with within(1):
        with pytest.raises(MemoryRedisError) as caught:
            await CALLS[call](memory)
    assert isinstance(caught.value, (ServerUnavailable, UnknownOutcome))
    proxy.heal()
    if call != "append":
        await CALLS[call](memory)


class Trickle(threading.Thread):
    """A way to a server on which replies come a few bytes at a time, never pausing for long."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self.upstream, self.slow = upstream, threading.Event()
        self.listening = socket.create_server((HOST, 0))
        self.port: int = self.listening.getsockname()[1]

    def run(self) -> None:
        with self.listening, suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                server = socket.create_connection(self.upstream)
                for way in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self.move, args=way, daemon=True).start()

    def move(self, source: socket.socket, target: socket.socket, slowly: bool) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(100 if slowly else 65_536):
                target.sendall(data)
                if slowly and self.slow.is_set():
                    time.sleep(0.01)


async def test_a_reply_that_trickles_in_holds_no_call_past_its_deadline(
    connect: Connect, valkey: Server
) -> None:
    """Decision 29: a piece of it comes every 10 ms, and all of it would take a minute."""
    link = Trickle(valkey.address)
    link.start()
    history = connect(link.port, timeout=LONG, deadline=2).history("ann", "c")
    await history.append(human("x" * 600_000))
    link.slow.set()
    async with within(2):
        with pytest.raises(ServerUnavailable):
            await history.load()
    link.slow.clear()
    assert await history.count() == 1
    link.listening.shutdown(socket.SHUT_RDWR)
    link.join()


async def test_a_frozen_server_is_left_at_the_deadline_and_used_again_when_it_thaws(
    connect: Connect, namespace: str
) -> None:
    """F3, P2: what it does with the late request is found out, and not done twice."""
    with Server() as server:
        history = connect(server.port, timeout=LONG, deadline=1).history("ann", "c")
        await history.append(human("1"))
        server.pause()
        async with within(1):
            with pytest.raises(UnknownOutcome) as caught:
                await history.append(human("2"))
        server.resume()
        assert (await history.append(human("2"), append_id=caught.value.append_id)).number == 2
        with RedisMemory.from_url(server.url, namespace=namespace) as direct:
            messages = direct.history("ann", "c").load().messages
        assert [message.text for message in messages] == ["1", "2"]


async def test_a_call_of_several_round_trips_has_one_deadline(connect: Connect, proxy: FaultProxy) -> None:
    """Decision 29: the three steps of a first append share the time; the outcome stays honest."""
    memory = connect(proxy.port, timeout=LONG, deadline=1)
    await memory.history("warm", "up").append(human("0"))
    proxy.delay(0.21)  # nearly half a second a round trip
    history = memory.history("ann", "c")
    async with within(1):
        with pytest.raises((UnknownOutcome, ServerUnavailable)) as caught:
            await history.append(human("1"))
    proxy.heal()
    stored = await history.count()
    assert caught.value.outcome == "unknown" or stored == 0
    append_id = getattr(caught.value, "append_id", None)
    assert (await history.append(human("1"), append_id=append_id)).number == 1


@pytest.mark.parametrize("way", [*OWN, *FAST_CLIENTS, Way("async", "Redis()")], ids=str)
async def test_latency_alone_costs_time_and_nothing_else(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """F3: 20 ms with 10 ms of jitter, and requests of several tasks that overlap."""
    proxy.delay(0.02, 0.01)
    memory = connect(proxy.port, timeout=5)
    history = memory.history("ann", "c")
    for number in range(3):
        await history.append(human(f"{number}"))
    versions = await asyncio.gather(*(history.append(human("x"), ai("y")) for _ in range(20)))
    assert sorted(version.number for version in versions) == list(range(5, 45, 2))
    assert not any(version.repeated for version in versions)
    assert texts("ann", "c") == ["0", "1", "2", *["x", "y"] * 20]


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_half_open_time_ends_without_a_duplicate(
    connect: Connect, proxy: FaultProxy, texts: Texts, direction: str
) -> None:
    """F3, P2: half-open for several timeouts, then healed: what was held back arrives late, once."""
    history = connect(proxy.port, timeout=0.3, deadline=30).history("ann", "c")
    await history.append(human("0"))
    proxy.half_open(direction)
    appending = asyncio.ensure_future(history.append(human("1"), ai("2")))
    await asyncio.sleep(0.7)  # the time of the partition
    proxy.heal()
    version = await appending
    assert version.number == 3
    for number in range(3, 6):
        await history.append(human(str(number)))
    assert texts("ann", "c") == ["0", "1", "2", "3", "4", "5"]


async def test_a_network_that_cuts_and_refuses_for_50_ms_is_no_error(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """F2: every connection reset, new ones refused; soon after the healing all is well."""
    history = connect(proxy.port, timeout=LONG).history("ann", "c")
    await history.append(human("0"))
    for number in range(1, 6):
        proxy.cut()
        appending = asyncio.ensure_future(history.append(human(str(number))))
        await asyncio.sleep(0.05)  # the time of the cut
        proxy.heal()
        async with within(0):
            await appending
    assert texts("ann", "c") == [str(number) for number in range(6)]
