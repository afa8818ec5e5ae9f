"""Connections that the server closes while nobody uses them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from memory_redis import RedisMemory, human
from tests.faults.conftest import Connect, Texts
from tests.faults.test_server_down import LONG, within
from tests.faults.ways import OWN, WAYS, Way
from tests.scenarios.stored import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def impatient() -> Iterator[Server]:
    """A server that closes what is idle for a second."""
    with Server(None, "--timeout", "1") as server:
        yield server


def clients(server: Server) -> int:
    """How many connections there are besides the one that asks."""
    return len(server.ask("CLIENT", "LIST").splitlines()) - 1


async def test_a_connection_closed_while_idle_is_replaced_without_an_error(
    impatient: Server, namespace: str
) -> None:
    """G13: CONFIG SET timeout 1; the next append works, stores one copy and is not even a repeat."""
    async with AsyncExitStack() as stack:
        histories = [
            way.open(stack, impatient.port, 5, namespace=namespace).history("ann", str(way)) for way in OWN
        ]
        for history in histories:
            await history.append(human("1"))
        wait_until(lambda: clients(impatient) == 0, "the server closed the idle connections")
        for history in histories:
            version = await history.append(human("2"))
            assert (version.number, version.repeated) == (2, False)
            assert [message.text for message in (await history.load()).messages] == ["1", "2"]


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_connections_killed_by_an_operator_are_replaced_without_an_error(
    connect: Connect, proxy: FaultProxy, texts: Texts
) -> None:
    """G13, P11: whatever client; three calls in a row after the kill are all well."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("1"))
    proxy.cut(refuse=False)
    for number in range(2, 5):
        assert (await history.append(human(str(number)))).number == number
    assert texts("ann", "c") == ["1", "2", "3", "4"]


@pytest.mark.parametrize("call", ["append", "load"])
def test_a_pool_full_of_dead_connections_does_not_use_up_the_deadline(
    proxy: FaultProxy, namespace: str, texts: Texts, call: str
) -> None:
    """G13: 40 threads had a connection each, all of them died; one call afterwards takes no time."""
    url = f"redis://127.0.0.1:{proxy.port}/0?socket_timeout=30"
    with RedisMemory.from_url(url, namespace=namespace, deadline=30) as memory:
        history = memory.history("ann", "c")
        history.append(human("0"))
        proxy.half_open("down")  # nobody has done with a connection before all have one
        threads = [threading.Thread(target=history.count) for _ in range(40)]
        for thread in threads:
            thread.start()
        wait_until(lambda: proxy.accepted >= 40, "40 connections")
        proxy.heal()
        for thread in threads:
            thread.join()
        proxy.cut(refuse=False)
        began = time.monotonic()
        if call == "append":
            history.append(human("1"))
            assert texts("ann", "c") == ["0", "1"]
        else:
            assert [message.text for message in history.load().messages] == ["0"]
        assert time.monotonic() - began < 5


async def test_an_asyncio_pool_full_of_dead_connections_does_not_use_up_the_deadline(
    proxy: FaultProxy, namespace: str, texts: Texts
) -> None:
    """G13: the same for 40 tasks."""
    async with AsyncExitStack() as stack:
        memory = Way("async", "own").open(stack, proxy.port, LONG, deadline=30, namespace=namespace)
        history = memory.history("ann", "c")
        await history.append(human("0"))
        proxy.half_open("down")
        counts = [asyncio.ensure_future(history.count()) for _ in range(40)]
        await eventually(lambda: proxy.accepted >= 40, "40 connections")
        proxy.heal()
        await asyncio.gather(*counts)
        proxy.cut(refuse=False)
        async with within(0):
            await history.append(human("1"))
    assert texts("ann", "c") == ["0", "1"]
