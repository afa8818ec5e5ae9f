"""A server that is there and says no: out of memory, without replicas, a replica itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from memory_redis import (
    AsyncRedisMemory,
    LastMessages,
    MemoryRedisError,
    RedisMemory,
    ServerRefused,
    ServerUnavailable,
    SlidingExpiry,
    StorageFull,
    ai,
    human,
)
from memory_redis.testing import AsyncView
from tests.faults.conftest import Connect
from tests.faults.ways import OWN, WAYS, Way
from tests.support.servers import Binary, Server, binaries, in_step, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=binaries(), ids=lambda binary: binary.version)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this module, on each binary."""
    binary: Binary = request.param
    with Server(binary, *COPY_BY_DISK) as server:
        yield server


@pytest.fixture
def full(server: Server) -> Iterator[Server]:
    """Refuses writes once it was told to by `fill`, and recovers at the end."""
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    yield server
    server.ask("CONFIG", "SET", "maxmemory", 0)


def fill(server: Server) -> None:
    """From now on it has more in memory than it may."""
    server.ask("CONFIG", "SET", "maxmemory", 1024)


COPY_BY_DISK = ("--repl-diskless-sync", "no")
"""Else a replica waits five seconds for others."""

SOME = [*OWN, Way("sync", "Redis()"), Way("async", "decode_responses"), Way("sync", "RESP2, decoding")]


@pytest.mark.parametrize("way", SOME, ids=str)
async def test_a_full_server_refuses_appends_whole_and_still_reads_and_clears(
    connect: Connect, full: Server
) -> None:
    """B16, F10, P3: StorageFull, not stored; nothing is half written; loads, lists and clears work."""
    memory = connect(full.port, timeout=5)
    history, other = memory.history("ann", "c"), memory.history("ann", "other")
    seen = await history.append(human("1"), ai("2"))
    await other.append(human("x"))
    fill(full)
    attempts = (
        history.append(human("3"), ai("4")),
        history.append(human("3"), expected=seen),
        history.append(human("3"), idempotency_key="key"),
        memory.history("ann", "new").append(human("3")),
        memory.session("new").append(human("3")),
    )
    for attempt in attempts:
        with pytest.raises(StorageFull) as caught:
            await attempt
        assert caught.value.outcome == "not_stored"
    snapshot = await history.load()
    assert [message.text for message in snapshot.messages] == ["1", "2"]
    assert (snapshot.version, await history.count(), await history.exists()) == (seen, 2, True)
    assert [message.text async for message in history.iterate()] == ["1", "2"]
    assert {info.conversation_id: info.messages async for info in memory.conversations("ann")} == {
        "c": 2,
        "other": 1,
    }
    assert await memory.history("ann", "new").count() == 0
    assert await other.clear() == 1
    forgotten = await memory.forget("ann")
    assert (forgotten.conversations, forgotten.messages) == (1, 2)


async def test_a_full_server_that_has_room_again_takes_what_it_refused(
    connect: Connect, full: Server
) -> None:
    """B16, P2: the refused append is not there, its repeat is, once; no version was used up."""
    history = connect(full.port, timeout=5).history("ann", "c")
    seen = await history.append(human("1"))
    fill(full)
    with pytest.raises(StorageFull):
        await history.append(human("2"), idempotency_key="key")
    full.ask("CONFIG", "SET", "maxmemory", 0)
    version = await history.append(human("2"), idempotency_key="key", expected=seen)
    assert (version.number, version.repeated) == (2, False)
    assert [message.text for message in (await history.load()).messages] == ["1", "2"]


async def test_a_turn_on_a_full_server_stores_nothing_of_itself(connect: Connect, full: Server) -> None:
    """B16, P4: neither the question nor the answer, and the next turn sees the same past."""
    history = connect(full.port, timeout=5).history("ann", "c")
    await history.append(human("1"))

    async def turn() -> None:
        async with history.turn() as turn:
            assert [message.text for message in turn.messages] == ["1"]
            fill(full)
            turn.add(human("2"), ai("3"))

    with pytest.raises(StorageFull) as caught:
        await turn()
    assert caught.value.outcome == "not_stored"
    assert [message.text for message in (await history.load(LastMessages(5))).messages] == ["1"]


async def test_a_load_that_renews_the_expiry_works_on_a_full_server(
    connect: Connect, full: Server, namespace: str
) -> None:
    """B16: the renewal and the refresh of an old index entry may not stand in the way of reading."""
    memory = connect(full.port, timeout=5, expiry=SlidingExpiry(60, on_read=True))
    history = memory.history("ann", "c")
    await history.append(human("1"))
    full.ask("HSET", f"{namespace}:{{ann:c}}:meta", "i", 1)
    fill(full)
    assert [message.text for message in (await history.load()).messages] == ["1"]
    assert 55 < await history.expire_in() <= 60


@pytest.mark.parametrize("way", SOME, ids=str)
async def test_a_master_without_its_replicas_stores_nothing(connect: Connect, server: Server) -> None:
    """P3, P9: NOREPLICAS is waited for until the deadline, then not stored; reads go on."""
    memory = connect(server.port, timeout=5, deadline=1)
    history = memory.history("ann", "c")
    await history.append(human("1"))
    server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        refused = [one.append(human("2")) for one in (history, memory.history("ann", "new"))]
        for error in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(error, ServerUnavailable)
            assert error.outcome == "not_stored"
        assert [message.text for message in (await history.load()).messages] == ["1"]
    finally:
        server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    assert (await history.append(human("2"))).number == 2


async def test_a_replica_refuses_appends_and_serves_reads(server: Server, namespace: str) -> None:
    """P3, P9, P11: READONLY is "not stored", whatever client; after the promotion it is stored once."""
    with RedisMemory.from_url(server.url, namespace=namespace) as writer:
        writer.history("ann", "c").append(human("0"))
    with Server(server.binary, "--replicaof", *map(str, server.address)) as replica:
        wait_until(lambda: in_step(replica, [server]), "the replica has it")
        async with AsyncExitStack() as stack:
            histories = [
                way.open(stack, replica.port, 5, deadline=1.5, namespace=namespace).history("ann", "c")
                for way in SOME
            ]
            refused = [history.append(human("refused")) for history in histories]
            for error in await asyncio.gather(*refused, return_exceptions=True):
                assert isinstance(error, ServerUnavailable)
                assert error.outcome == "not_stored"
            for history in histories:
                assert [message.text for message in (await history.load()).messages] == ["0"]
            replica.ask("REPLICAOF", "NO", "ONE")  # the operator promotes it
            for number, history in enumerate(histories, 2):
                assert (await history.append(human("stored"))).number == number


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("key", ["messages", "meta"])
async def test_a_key_of_another_type_is_one_clear_error_and_nothing_is_written(
    connect: Connect, server: Server, namespace: str, key: str
) -> None:
    """P10, A20, F13: in that conversation alone, and repeats do not change it."""
    memory = connect(server.port, timeout=5)
    await memory.history("ann", "well").append(human("1"))
    name = f"{namespace}:{{ann:c}}:{key}"
    server.ask("SET", name, "something else")
    history: Any = memory.history("ann", "c")
    for _ in range(3):
        with pytest.raises(MemoryRedisError) as caught:
            await history.append(human("1"))
        assert (type(caught.value).__name__, caught.value.outcome) == ("WrongType", "not_stored")
    assert server.ask("GET", name) == "something else"
    names = server.ask("KEYS", f"{namespace}:{{ann:c}}:*")
    assert names == [name]
    assert [message.text for message in (await memory.history("ann", "well").load()).messages] == ["1"]


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_database_that_the_server_does_not_have_is_told_as_that(face: str, server: Server) -> None:
    """P9: the number in the URL is at fault, not a command; every call says so and stores nothing."""
    url = f"redis://{server.host}:{server.port}/99"
    memory: Any = AsyncRedisMemory.from_url(url)
    if face == "sync":
        memory = AsyncView(RedisMemory.from_url(url))
    for call in (memory.ping, memory.history("ann", "c").load):
        with pytest.raises(ServerRefused, match="no database of the number in the URL"):
            await call()
    with pytest.raises(ServerRefused, match="no database of the number in the URL") as caught:
        await memory.history("ann", "c").append(human("1"))
    assert caught.value.outcome == "not_stored"
    await memory.aclose()
