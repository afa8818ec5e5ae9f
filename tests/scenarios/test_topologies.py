"""Every operation on a real Cluster and a real Sentinel set, through clients that are passed in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import redis
import redis.asyncio
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.sentinel import Sentinel as AsyncSentinel

from memory_redis import (
    BYTES_4,
    AppendId,
    AsyncRedisMemory,
    ConflictError,
    CorruptRecord,
    HistoryCleared,
    LastMessages,
    LastTurns,
    MaxMessages,
    RedisMemory,
    Since,
    SlidingExpiry,
    TokenBudget,
    Window,
    WrongType,
    ai,
    human,
)
from memory_redis.testing import AsyncView
from tests.conftest import MakeMemory
from tests.scenarios.remembering import IN_FRONT, SUMMARY_BUFFER, Model, over
from tests.scenarios.stored import call, eventually, orphans, positions, result, texts
from tests.support.servers import Binary, Cluster, SentinelSet, binaries

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session", params=binaries(), ids=lambda binary: binary.version)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three masters of each server program."""
    binary: Binary = request.param
    with Cluster(binary) as running:
        yield running


@pytest.fixture(scope="session", params=binaries(), ids=lambda binary: binary.version)
def sentinels(request: pytest.FixtureRequest) -> Iterator[SentinelSet]:
    """A master, a replica and three Sentinels of each server program."""
    binary: Binary = request.param
    with SentinelSet(binary) as running:
        yield running


@pytest.fixture(params=[False, True], ids=["bytes", "decoding"])
def decoding(request: pytest.FixtureRequest) -> bool:
    """Whether the client decodes replies."""
    return bool(request.param)


@pytest.fixture(params=["sync", "async"])
async def clustered(
    request: pytest.FixtureRequest, cluster: Cluster, namespace: str, decoding: bool
) -> AsyncIterator[MakeMemory]:
    """Makes memories over a cluster client."""
    async with AsyncExitStack() as stack:
        if request.param == "sync":
            client = stack.enter_context(cluster.client(decode_responses=decoding))
            yield lambda **options: AsyncView(RedisMemory(client, namespace=namespace, **options))
        else:
            nodes = [ClusterNode("127.0.0.1", port) for port in cluster.ports]
            other = redis.asyncio.RedisCluster(startup_nodes=nodes, decode_responses=decoding)
            await stack.enter_async_context(other)
            yield lambda **options: AsyncRedisMemory(other, namespace=namespace, **options)


@pytest.fixture(params=["sync", "async"])
async def watched(
    request: pytest.FixtureRequest, sentinels: SentinelSet, namespace: str, decoding: bool
) -> AsyncIterator[MakeMemory]:
    """Makes memories over the client of a Sentinel set's master."""
    async with AsyncExitStack() as stack:
        if request.param == "sync":
            guard = sentinels.client(decode_responses=decoding)
            for one in guard.sentinels:
                stack.callback(one.close)
            client = stack.enter_context(guard.master_for(sentinels.service_name))
            yield lambda **options: AsyncView(RedisMemory(client, namespace=namespace, **options))
        else:
            async_guard = AsyncSentinel(sentinels.sentinels, decode_responses=decoding)
            for sentinel in async_guard.sentinels:
                stack.push_async_callback(sentinel.aclose)
            other = async_guard.master_for(sentinels.service_name)
            await stack.enter_async_context(other)
            yield lambda **options: AsyncRedisMemory(other, namespace=namespace, **options)


async def test_every_operation_on_a_cluster(clustered: MakeMemory, cluster: Cluster, namespace: str) -> None:
    """P11, G07, G08: all keys of a conversation in one slot, one user's conversations over many."""
    await every_operation(clustered)
    with cluster.client() as client:
        slots = set()
        for number in range(12):
            await clustered().history("ann", f"spread{number}").append(human("1"))
            base = f"{namespace}:{{ann:spread{number}}}"
            slots |= {client.keyslot(f"{base}:messages"), client.keyslot(f"{base}:meta")}
        assert len(slots) == 12
    assert [info.messages async for info in clustered().conversations("ann", page_size=5)] == [1] * 12
    assert (await clustered().forget("ann")).conversations == 12


async def test_a_window_by_headers_is_one_script_on_a_cluster(
    clustered: MakeMemory, cluster: Cluster
) -> None:
    """I03, decision 14, P11: one call of one script, and none of the commands of a read by pages."""

    def calls() -> list[int]:
        stats = [node.ask("INFO", "commandstats") for node in cluster.nodes]
        names = ("evalsha", "eval", "hget", "multi")  # a plain read begins with the birth tag
        found = [[int(one.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for one in stats] for name in names]
        return [sum(each) for each in found]

    history = clustered().history("ann", "c1")
    await history.append(human("1"), ai("2"), human("3"), ai("4"))
    await history.load(LastTurns(1))  # the node has the script by now
    windows: list[Window] = [LastTurns(1), TokenBudget(20), Since(60), LastMessages(3, keep_system=True)]
    for window in windows:
        before = calls()
        assert (await history.load(window)).messages
        assert [after - was for after, was in zip(calls(), before, strict=True)] == [1, 0, 0, 0]


async def test_every_operation_through_sentinel(watched: MakeMemory) -> None:
    """P11, G01: the client that redis-py's Sentinel gives for the master."""
    await every_operation(watched)


async def test_a_key_of_a_wrong_type_on_a_cluster(
    clustered: MakeMemory, cluster: Cluster, namespace: str
) -> None:
    """P10, A20: the error is the same, and in that conversation only."""
    one = clustered()
    for name in ("c0", "c1", "c2"):
        await one.history("ann", name).append(human("1"))
    with cluster.client() as client:
        client.delete(f"{namespace}:{{ann:c1}}:messages")
        client.set(f"{namespace}:{{ann:c1}}:messages", "not ours")
        with pytest.raises(WrongType) as caught:
            await one.history("ann", "c1").append(human("2"))
        assert caught.value.outcome == "not_stored"
        with pytest.raises(WrongType):
            await one.history("ann", "c1").load()
        assert {"c0", "c2"} <= {info.conversation_id async for info in one.conversations("ann")}
        client.rpush(f"{namespace}:{{ann:c2}}:messages", b"\xff rubbish")
    with pytest.raises(CorruptRecord):
        await one.history("ann", "c2").load()
    assert texts(await one.history("ann", "c2").load(on_corrupt="skip")) == ["1"]


WINDOWS: list[tuple[Window, list[str]]] = [
    (LastTurns(1), ["1", "", "result of a", "2"]),
    (TokenBudget(3, BYTES_4), ["2"]),
    (TokenBudget(16), ["2"]),
    (Since(60) & LastMessages(3), ["", "result of a", "2"]),
    (LastMessages(3, keep_system=True, start_on="human"), ["", "result of a", "2"]),
    (TokenBudget(2, lambda message: len(message.text)), ["2"]),
    (TokenBudget(2, BYTES_4, oldest=True), ["1"]),
]
"""Windows by headers and by messages, with what they show of the first four messages below."""


async def every_operation(make: MakeMemory) -> None:
    """Each operation once, with what it must give."""
    one = make(expiry=SlidingExpiry(60, on_read=True))
    await one.ping()
    history = one.history("ann", "c{1}")
    empty = (await history.load()).version
    append_id = AppendId.new()
    version = await history.append(human("1"), call("a"), expected=empty, append_id=append_id)
    assert version.number == 2
    assert (await history.append(human("1"), call("a"), append_id=append_id)).repeated
    assert await history.settle(append_id) == version
    assert await history.settle(AppendId.new()) is None
    await history.append(result("a"), ai("2"), idempotency_key="k")
    assert (await history.append(result("a"), ai("2"), idempotency_key="k")).repeated
    with pytest.raises(ConflictError) as caught:
        await history.append(human("x"), expected=version)
    assert texts(caught.value.missed) == ["result of a", "2"]
    assert texts(await history.load()) == ["1", "", "result of a", "2"]
    assert texts(await history.load(LastMessages(2))) == ["2"]
    for window, shown in WINDOWS:
        assert texts(await history.load(window)) == shown
    assert positions([message async for message in history.iterate(page_size=3)]) == [0, 1, 2, 3]
    assert (await history.count(), await history.exists()) == (4, True)
    assert 50 < await history.expire_in() <= 60
    async with history.turn() as turn:
        await history.append(human("of another worker"))
        turn.add(human("3"), ai("4"))
    assert texts(turn.missed) == ["of another worker"]
    async with history.turn(idempotency_key="k") as turn:
        assert texts(turn.stored) == ["result of a", "2"]
    capped = make(retention=MaxMessages(3), codec="json").history("ann", "c{1}")
    for number in range(5):
        await capped.append(human(f"new {number}"))
    assert texts(await history.load()) == ["new 2", "new 3", "new 4"]
    assert orphans((await history.load()).messages) == []
    assert await history.compact("in short", expected=(await history.load()).version, keep=1) == 2
    assert ((await history.load()).summary, await history.count()) == ("in short", 1)
    assert await history.pin()
    assert await history.expire_in() is None
    assert await history.expire(None)
    assert await history.touch()
    assert 50 < await history.expire_in() <= 60
    store = over(one, SUMMARY_BUFFER, Model("of two"), 1)
    await store.append("s:2", human("1"), ai("2"))
    await store.append("s:2", human("3"))
    assert texts(await store.load("s:2")) == [f"{IN_FRONT}s2", "3"]
    await store.clear("s:2")
    session = one.session("s:1")
    await session.append(human("in a session"))
    assert await session.clear() == 1
    await one.history("ann", "c2").append(human("1"))
    infos = [info async for info in one.conversations("ann", page_size=1)]
    assert [(info.conversation_id, info.messages) for info in infos] == [("c2", 1), ("c{1}", 1)]
    cleared = one.history("ann", "c2").turn()
    await cleared.__aenter__()
    assert await one.history("ann", "c2").clear() == 1
    cleared.add(human("late"))
    with pytest.raises(HistoryCleared):
        await cleared.__aexit__(None, None, None)
    forgotten = await one.forget("ann")
    assert (forgotten.conversations, forgotten.messages) == (1, 1)
    assert [info async for info in one.conversations("ann")] == []
    brief = make(expiry=SlidingExpiry(0.05)).history("ann", "c3")
    await brief.append(human("1"))

    async def ended() -> bool:
        return not await brief.exists()

    await eventually(ended, "the conversation ended")
