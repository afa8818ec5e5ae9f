"""The types are a promise, checked by two checkers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_package_says_that_it_is_typed() -> None:
    """`py.typed` lies in the package."""
    assert (ROOT / "memory_redis" / "py.typed").exists()


def test_the_public_api_types_as_a_user_writes_it() -> None:
    """mypy in strict mode finds nothing in tests/typing/api.py, and what it asserts is what it infers."""
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing/api.py"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
