"""The checker of append logs and the fault proxy pass their own tests, and leave nothing behind."""

import gc
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from . import elle_append, fault_proxy
from .fault_proxy import FaultProxy
from .servers import wait_until

INCR = b"*1\r\n$4\r\nINCR\r\n"


def test_the_checker_finds_every_planted_anomaly_and_raises_no_false_alarm() -> None:
    """1,169 histories, clean ones and ones with a fault planted, are judged rightly."""
    elle_append.self_test()


def test_the_fault_proxy_aims_its_faults_and_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of fault hits the request it was aimed at; no thread, task or socket stays."""
    before = set(threading.enumerate())
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        fault_proxy.self_test()
        gc.collect()  # an open socket or a forgotten task would be reported now
    assert not caplog.records

    def are_gone() -> bool:
        return all(one in before or one.name == "MainThread" for one in threading.enumerate())

    wait_until(are_gone, "the threads have ended")


@pytest.fixture
def counter() -> Iterator[Any]:
    """A server that counts the INCRs that reach it."""
    server = fault_proxy._ToyServer()
    server.start()
    yield server
    server.close()


def sends(proxy: FaultProxy, stack: ExitStack) -> socket.socket:
    """A client that has sent an INCR."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=30))
    client.sendall(INCR)
    return client


@pytest.mark.parametrize("drop", [True, False], ids=["dropped", "kept"])
def test_what_clients_had_sent_before_a_healing_is_dropped_where_that_is_asked_for(
    counter: Any, drop: bool
) -> None:
    """What the proxy holds back, and what stands in the queue of a proxy that had no time to accept it."""
    at_work, go_on = threading.Event(), threading.Event()

    def busy() -> None:
        at_work.set()
        go_on.wait(30)

    with FaultProxy(("127.0.0.1", counter.port)) as proxy, ExitStack() as stack:
        proxy.half_open("up")
        sends(proxy, stack)
        wait_until(lambda: proxy.links, "the proxy has accepted the first")
        proxy._loop.call_soon_threadsafe(busy)
        assert at_work.wait(30)
        sends(proxy, stack)
        free = threading.Timer(0.05, go_on.set)
        free.start()
        proxy.heal(drop=drop)
        free.join()
        assert sends(proxy, stack).recv(64).startswith(b":")
        if drop:
            assert (counter.n, proxy.sent["INCR"], proxy.accepted) == (1, 1, 2)
        else:
            wait_until(lambda: counter.n == 3, "all three have arrived")
