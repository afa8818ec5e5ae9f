"""A memory on a real server for the LangChain tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_redis import RedisMemory
from tests.support.servers import Server


@pytest.fixture
def kept(valkey: Server, namespace: str) -> Iterator[RedisMemory]:
    """A memory on a real server, with a namespace of this test's own."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        yield memory
