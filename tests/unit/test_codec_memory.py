"""How much memory hostile bytes can take while they are decoded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memory_redis import Limits

KIB = 1024


@pytest.mark.parametrize(
    ("limit", "names"),
    [(512 * KIB, []), (Limits().record_bytes, ["nested maps", "JSON nested lists"])],
    ids=["every kind", "the worst at the default limit"],
)
def test_decoding_hostile_bytes_takes_a_bounded_multiple_of_the_limit(limit: int, names: list[str]) -> None:
    """Decision 16, F12: at most 100 times the limit of a record and 20 MB, by the kernel's count."""
    command = [sys.executable, "-m", "tests.unit.decode_memory", str(limit), *names]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    taken = {line.rpartition(": ")[0]: int(line.rpartition(": ")[2]) for line in run.stdout.splitlines()}
    assert len(taken) == (len(names) or 17)
    most = 100 * limit + 20_000_000
    assert {name: f"{size / limit:.0f} times the limit" for name, size in taken.items() if size > most} == {}
