"""The checker of append logs and the fault proxy pass their own tests, and leave nothing behind."""

import gc
import logging
import threading

import pytest

from . import elle_append, fault_proxy


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
    assert not [
        thread for thread in threading.enumerate() if thread not in before and thread.name != "MainThread"
    ]
