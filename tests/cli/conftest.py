"""Fixtures of the command line's tests: a real server, filled through the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from memory_redis import RedisMemory
from memory_redis.cli import main
from tests.support.servers import Server

Run = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for the tests of a module; each uses users of its own."""
    with Server() as server:
        yield server


@pytest.fixture
def memory(server: Server) -> Iterator[RedisMemory]:
    """The default namespace of that server."""
    with RedisMemory.from_url(server.url) as memory:
        yield memory


@pytest.fixture
def run(server: Server, namespace: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command that succeeds; what it prints."""

    def run(*arguments: str) -> str:
        code = main([*arguments, "--url", server.url, "--namespace", namespace])
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, "")
        return printed.out

    return run
