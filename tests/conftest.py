"""Servers, faces and prefixes for every test.

A scenario takes `memory`, a function that makes memories over the server and face under test, and
awaits everything; it runs on each face over each server. Every test has a namespace of its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import redis

from memory_redis import AsyncRedisMemory, RedisMemory
from memory_redis.testing import AsyncView
from tests.support.servers import Server, binaries, bundled_valkey, coverage, covered, deaf_port

MakeMemory = Callable[..., Any]

LANGCHAIN = Path(__file__).parent / "langchain"

# LangChain reports every run to a service when one of these is set, as it may be where people work with it.
for _name in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[_name] = "false"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def namespace() -> str:
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens, or will."""
    with deaf_port() as port:
        yield port


@pytest.fixture(scope="session")
def valkey() -> Iterator[Server]:
    """One Valkey for the tests of a run that do not harm it."""
    with Server(bundled_valkey()) as server:
        yield server


@pytest.fixture(scope="session", params=[*(binary.version for binary in binaries()), "fakeredis"])
def server(request: pytest.FixtureRequest) -> Iterator[Server | None]:
    """Each server in turn; None is fakeredis."""
    if request.param == "fakeredis":
        covered(f"fakeredis {version('fakeredis')}")
        yield None
        return
    binary = next(binary for binary in binaries() if binary.version == request.param)
    with Server(binary) as server:
        yield server


@pytest.fixture
def url(server: Server | None, namespace: str) -> str:
    """The URL of the server under test."""
    return f"fake://{namespace}" if server is None else server.url


@pytest.fixture
def raw(url: str, namespace: str) -> Iterator[redis.Redis]:
    """A plain client of the server under test."""
    if url.startswith("fake://"):
        from memory_redis._engine.fakes import fake_client, fake_server

        yield fake_client(fake_server(url))
        return
    with redis.Redis.from_url(url) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
async def memory(request: pytest.FixtureRequest, url: str, namespace: str) -> AsyncIterator[MakeMemory]:
    """Makes memories of the face under test; they are closed at the end."""
    made: list[Any] = []

    def make(**options: Any) -> Any:
        options.setdefault("namespace", namespace)
        if request.param == "sync":
            one: Any = AsyncView(RedisMemory.from_url(url, **options))
        else:
            one = AsyncRedisMemory.from_url(url, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        await one.aclose()


def pytest_runtest_call(item: pytest.Item) -> None:
    if LANGCHAIN in item.path.parents:
        covered(f"langchain-core {version('langchain-core')}", "tests/langchain")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a process that shares the run with others
        output["covered"] = coverage()


class _Workers:
    """What the processes that share a run tell the one that reports."""

    @staticmethod
    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(node: Any) -> None:
        for name, kinds in getattr(node, "workeroutput", {}).get("covered", {}).items():
            for kind in kinds:
                covered(name, kind)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Workers())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("covered")
    for name, kinds in coverage().items():
        terminalreporter.write_line(f"{name}: {', '.join(sorted(kinds))}")
