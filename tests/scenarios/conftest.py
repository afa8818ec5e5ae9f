"""What the scenarios add to the fixtures of all tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from memory_redis import exchanges
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.ambush import Ambush
from tests.scenarios.chats import KINDS, Chats
from tests.scenarios.stored import Names, proxied
from tests.support.servers import Server


@pytest.fixture(params=["msgpack", "json"])
def coded(request: pytest.FixtureRequest, memory: MakeMemory) -> MakeMemory:
    """As `memory`; what it makes writes with each codec in turn."""
    return partial(memory, codec=request.param)


@pytest.fixture
def keys(namespace: str) -> Names:
    """The keys of the conversation ("ann", "c1")."""
    return Names.of(namespace)


@pytest.fixture
def events() -> list[Event]:
    """To be given as `hooks=(events.append,)`: what the hooks were told."""
    return []


@pytest.fixture
def ambush(server: Server) -> Iterator[Ambush]:
    """A proxy in front of the server under test."""
    with proxied(server) as (proxy, url):
        yield Ambush(proxy, url)


@pytest.fixture(params=KINDS)
async def chats(request: pytest.FixtureRequest, url: str, namespace: str) -> AsyncIterator[Chats]:
    """Wrapped models of each kind in turn, over the server under test."""
    chats = Chats(request.param, url, namespace)
    yield chats
    await chats.close()


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses before a model is run again are as long as they may be, but short."""
    monkeypatch.setattr(exchanges, "_FIRST_PAUSE", 0.001)
