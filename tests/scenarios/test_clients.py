"""Clients that are passed in: whatever their settings, the same is stored and answered."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
import redis
import redis.asyncio

from memory_redis import (
    AppendId,
    AsyncRedisMemory,
    ConflictError,
    CorruptRecord,
    InvalidSetting,
    LastMessages,
    RedisMemory,
    SlidingExpiry,
    WrongType,
    ai,
    human,
)
from memory_redis.testing import AsyncView
from tests.scenarios.stored import Names, call, listed_in, real_servers, result, texts
from tests.support.servers import Server

pytestmark = [pytest.mark.anyio, real_servers]

MESSAGES = [
    human("Hé \0 \U0001f600", name="ann"),
    call("a"),
    result("a"),
    ai([{"type": "text", "text": "x"}]),
]


def make_client(module: Any, kind: str, url: str, options: dict[str, Any]) -> Any:
    """A client of redis-py, made in one of the ways that there are; `module` is redis or redis.asyncio."""
    parts = redis.connection.parse_url(url)
    if kind == "from_url":
        return module.Redis.from_url(url, **options)
    if kind == "own pool":
        pool = module.ConnectionPool(host=parts["host"], port=parts["port"], **options)
        return module.Redis.from_pool(pool)
    if kind == "blocking pool":
        pool = module.BlockingConnectionPool(host=parts["host"], port=parts["port"], **options)
        return module.Redis.from_pool(pool)
    single = kind == "single connection"
    return module.Redis(host=parts["host"], port=parts["port"], single_connection_client=single, **options)


KINDS = ["plain", "from_url", "own pool", "blocking pool", "single connection"]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"protocol": 2},
    {"protocol": 3},
    {"decode_responses": True, "protocol": 2},
    {"decode_responses": True, "protocol": 3},
    {"decode_responses": True, "encoding": "latin-1"},
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """How the client is made."""
    return str(request.param)


@pytest.fixture(params=SETTINGS, ids=repr)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the client is told."""
    return dict(request.param)


@pytest.fixture(params=["sync", "async"])
async def client(
    request: pytest.FixtureRequest, server: Server, kind: str, settings: dict[str, Any]
) -> AsyncIterator[Any]:
    """A client of each kind with each setting, of both faces."""
    if request.param == "sync":
        with make_client(redis, kind, server.url, settings) as sync_client:
            yield sync_client
    else:
        async with make_client(redis.asyncio, kind, server.url, settings) as async_client:
            yield async_client


def memory_over(client: Any, **options: Any) -> Any:
    """A memory of the client's face."""
    if isinstance(client, redis.Redis):
        return AsyncView(RedisMemory(client, **options))
    return AsyncRedisMemory(client, **options)


def without_stamps(records: list[bytes]) -> list[bytes]:
    """Records without the time and the position that the server stamped on them."""
    return [record[:1] + record[13:] for record in records]


async def test_every_operation_works_with_every_client(
    client: Any, raw: redis.Redis, keys: Names, namespace: str, url: str
) -> None:
    """P11: settings of the user's client change neither stored bytes nor results."""
    with RedisMemory.from_url(url, namespace=namespace) as ours:
        ours.history("ann", "c1").append(*MESSAGES)
    one = memory_over(client, namespace=namespace, expiry=SlidingExpiry(60, on_read=True))
    history = one.history("ann", "c1")
    await one.ping()
    append_id = AppendId.new()
    version = await history.append(*MESSAGES, append_id=append_id)
    stored = without_stamps(raw.lrange(keys.messages, 0, -1))
    assert stored[:4] == stored[4:]
    assert version.number == 8
    snapshot = await history.load()
    assert (snapshot.messages, snapshot.version) == (MESSAGES * 2, version)
    assert (await history.load(LastMessages(1))).messages == MESSAGES[-1:]
    assert [message async for message in history.iterate(page_size=3)] == MESSAGES * 2
    assert (await history.count(), await history.exists()) == (8, True)
    assert 50 < await history.expire_in() <= 60
    assert await history.settle(append_id) == version
    assert (await history.append(*MESSAGES, append_id=append_id)).repeated
    async with history.turn(idempotency_key="k") as turn:
        turn.add(human("q"), ai("a"))
    async with history.turn(idempotency_key="k") as again:
        assert texts(again.stored) == ["q", "a"]
    with pytest.raises(ConflictError) as caught:
        await history.append(human("x"), expected=version)
    assert texts(caught.value.missed) == ["q", "a"]
    raw.rpush(keys.messages, b"\xff rubbish")
    with pytest.raises(CorruptRecord):
        await history.load()
    assert len((await history.load(on_corrupt="skip")).messages) == 10
    assert [info.messages async for info in one.conversations("ann")] == [11]
    assert await history.clear() == 11
    raw.set(keys.messages, "not ours")
    with pytest.raises(WrongType):
        await history.load()
    raw.delete(keys.messages)
    await history.append(human("1"))
    assert (await one.forget("ann")).messages == 1


async def test_closing_a_memory_leaves_the_client_open(client: Any, namespace: str) -> None:
    """Decision 32: a memory closes what it opened, and a client that was passed in is not that."""
    async with memory_over(client, namespace=namespace) as one:
        await one.history("ann", "c1").append(human("1"))
    await one.aclose()
    answer = client.ping()
    assert (await answer if not isinstance(client, redis.Redis) else answer) is True
    assert await memory_over(client, namespace=namespace).history("ann", "c1").count() == 1


@pytest.mark.parametrize("settings", [{}], ids=repr)
async def test_a_hundred_appends_at_once_go_through_any_client(
    client: Any, kind: str, namespace: str, settings: dict[str, Any]
) -> None:
    """D17: also through a client that has a single connection."""
    history = memory_over(client, namespace=namespace).history("ann", "c1")
    await history.append(human("first"))
    limit = anyio.Semaphore(40)

    async def append(number: int) -> None:
        async with limit:
            await history.append(human(str(number)))

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(append, number)
    assert sorted(texts(await history.load())) == sorted(["first", *map(str, range(100))])


@pytest.mark.parametrize(
    "query", ["?protocol=2", "?protocol=3", "?decode_responses=true", "?protocol=3&decode_responses=true"]
)
@pytest.mark.parametrize("face", ["sync", "async"])
async def test_options_in_a_url_change_nothing_stored(
    url: str, raw: redis.Redis, keys: Names, namespace: str, query: str, face: str
) -> None:
    """P11: connections of our own read bytes whatever the URL says."""
    address = f"{url}{query}"
    one: Any = (
        AsyncView(RedisMemory.from_url(address, namespace=namespace))
        if face == "sync"
        else AsyncRedisMemory.from_url(address, namespace=namespace)
    )
    async with one:
        await one.ping()
        await one.history("ann", "c1").append(*MESSAGES)
        assert (await one.history("ann", "c1").load()).messages == MESSAGES
        assert [info.messages async for info in one.conversations("ann")] == [4]
        assert await one.history("ann", "c1").clear() == 4
    assert listed_in(raw, keys) == set()


@pytest.fixture
def plain(server: Server) -> Iterator[redis.Redis]:
    """A sync client."""
    with server.client() as one:
        yield one


async def test_a_client_of_the_other_face_is_refused(plain: redis.Redis, url: str) -> None:
    """Decision 32: at construction, in one sentence, before anything is sent."""
    async with redis.asyncio.Redis.from_url(url) as other:
        with pytest.raises(InvalidSetting):
            AsyncRedisMemory(plain)  # type: ignore[arg-type]
        with pytest.raises(InvalidSetting):
            RedisMemory(other)  # type: ignore[arg-type]
    for bad in (None, 7, object(), plain.pipeline(), redis.ConnectionPool()):
        with pytest.raises(InvalidSetting):
            RedisMemory(bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidSetting):
            AsyncRedisMemory(bad)  # type: ignore[arg-type]


async def test_a_memory_over_a_sync_client_serves_many_threads(plain: redis.Redis, namespace: str) -> None:
    """A11: threads that share a memory share nothing else."""
    history = RedisMemory(plain, namespace=namespace).history("ann", "c1")
    threads = [threading.Thread(target=history.append, args=(human(str(n)),)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts(history.load()), key=int) == [str(number) for number in range(30)]
