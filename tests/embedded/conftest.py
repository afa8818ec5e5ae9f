"""A temporary directory of its own for each test, which must be empty again after it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .users import eventually


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory for private homes and sockets; no server and no file may be left in it."""
    tmp_path_factory.getbasetemp()  # pytest chooses its own directory before ours takes effect
    with tempfile.TemporaryDirectory(prefix="embedded-", dir="/tmp") as name:
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.delenv("MEMORY_REDIS_SERVER", raising=False)
        directory = Path(name)
        yield directory
        eventually(lambda: not list(directory.iterdir()), "all servers of the test are gone")
