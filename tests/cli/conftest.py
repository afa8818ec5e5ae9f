"""Fixtures of the command line's tests: a real server, filled through the library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_redis import RedisMemory
from tests.support.servers import Server


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
