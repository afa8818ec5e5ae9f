"""Memories that are used before a fork and after it, and calls that are interrupted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memory_redis import RedisMemory
from tests.faults.forked import CASES
from tests.faults.worker import ROOT
from tests.support.servers import Server


def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.faults.{module}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("case", CASES)
def test_a_memory_that_was_used_before_a_fork_serves_parent_and_children(
    valkey: Server, namespace: str, case: str
) -> None:
    """G25, G26, F16, decision 31: no data of another process, no error, no shared connection."""
    result = run("forked", case, valkey.url, namespace)
    assert (result.returncode, result.stderr) == (0, "")


def test_an_interrupted_call_leaves_no_half_read_connection(
    valkey: Server, namespace: str, direct: RedisMemory
) -> None:
    """D12, S9, F16: 600 KeyboardInterrupts; no crossed reply, no connection lost, nothing stored twice."""
    result = run("interrupted", valkey.url, namespace)
    assert result.returncode == 0, result.stderr
    assert sum(info.messages for info in direct.conversations("ann")) == int(result.stdout)
