"""The server is down, loading, or comes back in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis

from memory_redis import MemoryRedisError, ServerUnavailable, UnknownOutcome, ai, human
from tests.faults.conftest import Connect
from tests.faults.ways import OWN, WITHOUT_REPEATS, Way
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def within(seconds: float, at_least: float = 0.0) -> AsyncIterator[None]:
    """That what is done ends after so many seconds, or 3 more on a slow machine.

    What is wrong lasts clearly longer: a socket timeout of `LONG`, or a memory's default deadline.
    """
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert at_least <= took <= seconds + 3, f"{took:.2f} s"


LONG = 30
"""A socket timeout that no call here lives to see."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    with Server(None, "--appendonly", "yes") as server:
        yield server


CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "append": lambda memory: memory.history("ann", "c").append(human("1")),
    "load": lambda memory: memory.history("ann", "c").load(),
    "count": lambda memory: memory.history("ann", "c").count(),
    "clear": lambda memory: memory.history("ann", "c").clear(),
    "forget": lambda memory: memory.forget("ann"),
    "ping": lambda memory: memory.ping(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_without_a_server_every_call_ends_at_its_deadline_with_nothing_stored(
    connect: Connect, nobody: int, call: str
) -> None:
    """P9, decision 29: refused connections are no unknown outcome, and cost no longer than asked for."""
    memory = connect(nobody, timeout=LONG, deadline=0.2)
    async with within(0.2):
        with pytest.raises(ServerUnavailable) as caught:
            await CALLS[call](memory)
    if call == "append":
        assert caught.value.outcome == "not_stored"
    assert "ann" not in str(caught.value)


async def test_without_a_server_a_deadline_of_four_seconds_is_used_and_kept(
    connect: Connect, nobody: int
) -> None:
    """Decision 29: neither half of it nor double; no send begins without time for its answer."""
    memory = connect(nobody, timeout=LONG, deadline=4)
    async with within(4, at_least=3.4):
        with pytest.raises(ServerUnavailable):
            await memory.history("ann", "c").append(human("1"))


@pytest.mark.parametrize("way", WITHOUT_REPEATS, ids=str)
async def test_refused_connections_are_not_unknown_for_clients_without_repeats(
    connect: Connect, nobody: int
) -> None:
    """P9: what a client could not connect for was not sent."""
    memory = connect(nobody, timeout=1, deadline=0.1)
    with pytest.raises(ServerUnavailable) as caught:
        await memory.history("ann", "c").append(human("1"))
    assert caught.value.outcome == "not_stored"


async def test_a_server_that_dies_between_two_calls_leaves_a_known_outcome(
    connect: Connect, server: Server
) -> None:
    """P9: the pooled connection may have taken the request, so unknown is honest; never stored."""
    memory = connect(server.port, timeout=5, deadline=1)
    history = memory.history("ann", "c")
    await history.append(human("1"))
    server.kill()
    with pytest.raises(MemoryRedisError) as caught:
        await history.append(human("2"))
    assert caught.value.outcome in ("unknown", "not_stored")
    with pytest.raises(ServerUnavailable) as later:
        await history.append(human("3"))
    assert later.value.outcome == "not_stored"


async def test_a_server_that_is_back_before_the_deadline_is_no_error(
    connect: Connect, server: Server
) -> None:
    """Decision 29, G30: away for 60 % of the time that a call has, the call succeeds."""
    memory = connect(server.port, timeout=LONG, deadline=6)
    server.kill()
    back = threading.Timer(3.6, server.start)
    back.start()
    try:
        async with within(6, at_least=3.5):
            assert (await memory.history("ann", "c").append(human("1"))).number == 1
    finally:
        back.join()


async def test_a_server_that_is_busy_with_a_script_is_waited_for(connect: Connect, server: Server) -> None:
    """P9: BUSY is "not stored" at the deadline; when the script is killed in time, the append is stored."""
    hasty = connect(server.port, timeout=5, deadline=1).history("ann", "c")
    patient = connect(server.port, timeout=5, deadline=60).history("ann", "c")
    for history in (hasty, patient):
        await history.append(human("1"))
    server.ask("CONFIG", "SET", "lua-time-limit", 10)
    endless = threading.Thread(target=run_endless_script, args=(server,))
    endless.start()
    try:
        while not await asyncio.to_thread(is_busy, server):
            await asyncio.sleep(0.01)
        with pytest.raises((ServerUnavailable, UnknownOutcome)) as caught:
            await hasty.append(human("refused"))
        assert caught.value.outcome == ("unknown" if caught.type is UnknownOutcome else "not_stored")
        appending = asyncio.ensure_future(patient.append(human("2")))
        await asyncio.sleep(0.1)  # the time that the script still has
    finally:
        server.ask("SCRIPT", "KILL")
        endless.join()
    assert (await appending).number == 3


def run_endless_script(server: Server) -> None:
    with server.client(socket_timeout=60) as client, pytest.raises(redis.ResponseError):
        client.eval("while true do end", 0)


def is_busy(server: Server) -> bool:
    try:
        server.ask("GET", "x")
    except redis.ResponseError:
        return True
    return False


@pytest.mark.parametrize("way", [*OWN, Way("sync", "Redis()"), Way("async", "from_url")], ids=str)
async def test_writes_that_the_server_holds_back_are_stored_once(connect: Connect, server: Server) -> None:
    """P2, F7: CLIENT PAUSE as before a failover, for longer than the client waits for an answer."""
    history = connect(server.port, timeout=0.3).history("ann", "c")
    await history.append(human("1"))
    server.ask("CLIENT", "PAUSE", 700, "WRITE")
    version = await history.append(human("2"), ai("3"))
    assert version.number == 3
    assert [message.text for message in (await history.load()).messages] == ["1", "2", "3"]


@pytest.fixture(scope="module")
def slow_loader() -> Iterator[Server]:
    """A server whose data take three seconds to load, during which it answers LOADING."""
    with Server() as server:
        with server.client() as client:
            client.config_set("key-load-delay", 0)
            with client.pipeline(transaction=False) as pipeline:
                for number in range(3000):
                    pipeline.set(f"key-{number}", "x" * 1024)
                pipeline.execute()
            client.save()
        server.options += ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]
        yield server


def says_loading(server: Server) -> bool:
    try:
        return bool(server.info().get("loading") == "1")
    except (redis.RedisError, OSError):
        return False


@asynccontextmanager
async def loading(server: Server) -> AsyncIterator[None]:
    """The server is restarted, and loads its data."""
    server.kill()
    starting = threading.Thread(target=server.start)
    starting.start()
    try:
        while not await asyncio.to_thread(says_loading, server):
            await asyncio.sleep(0.01)
        yield
    finally:
        await asyncio.to_thread(starting.join)


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_a_server_that_loads_its_data_is_waited_for_until_the_deadline(
    connect: Connect, slow_loader: Server
) -> None:
    """G30: LOADING ends as a typed error with nothing stored, or is waited out if there is time."""
    hasty = connect(slow_loader.port, timeout=LONG, deadline=0.3)
    patient = connect(slow_loader.port, timeout=5, deadline=60)
    async with loading(slow_loader):
        async with within(0.3, at_least=0.2):
            with pytest.raises((ServerUnavailable, UnknownOutcome)) as caught:
                await hasty.history("ann", "c").append(human("1"))
        # a server that is busy may not have answered the last request
        assert caught.value.outcome == ("unknown" if caught.type is UnknownOutcome else "not_stored")
        await patient.history("ann", "c").append(human("2"))
    snapshot = await patient.history("ann", "c").load()
    assert [message.text for message in snapshot.messages] == ["2"]
