"""The other face of a memory: what a sync model over an asyncio memory uses, and the other way round."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from memory_redis import (
    AsyncRedisMemory,
    InvalidSetting,
    LastMessages,
    RedisMemory,
    SlidingExpiry,
    ai,
    human,
    with_history,
)
from memory_redis.server import attach
from memory_redis.telemetry import Event
from tests.embedded.users import eventually, pid_of, runs
from tests.scenarios.chats import one_server
from tests.scenarios.stored import eventually as in_time
from tests.scenarios.stored import texts

ANN = {"user_id": "ann", "conversation_id": "c1"}
FACES: list[Any] = [RedisMemory, AsyncRedisMemory]


@pytest.fixture(params=FACES, ids=["sync", "async"])
def either(request: pytest.FixtureRequest, url: str, namespace: str) -> Iterator[Any]:
    """A memory of each face; both faces are closed at the end."""
    memory: Any = request.param.from_url(url, namespace=namespace)
    yield memory
    (memory if isinstance(memory, RedisMemory) else memory.twin).close()


def test_a_twin_is_the_same_memory_with_the_other_face(either: Any, namespace: str) -> None:
    """Issue 5: made once, and its twin is the memory itself; both see the same conversations."""
    twin = either.twin
    assert either.twin is twin
    assert twin.twin is either
    assert {type(either), type(twin)} == {RedisMemory, AsyncRedisMemory}
    sync, other = (either, twin) if isinstance(either, RedisMemory) else (twin, either)
    sync.history("ann", "c1").append(human("1"))

    async def look() -> list[str]:
        await other.history("ann", "c1").append(ai("2"))
        found = texts(await other.history("ann", "c1").load())
        await other.aclose()
        return found

    assert asyncio.run(look()) == ["1", "2"]
    assert texts(sync.history("ann", "c1").load()) == ["1", "2"]


def test_a_twin_keeps_every_setting(url: str, namespace: str) -> None:
    """Issue 5: window, expiry, hooks and all."""
    events: list[Event] = []
    memory = AsyncRedisMemory.from_url(
        url,
        namespace=namespace,
        window=LastMessages(1),
        expiry=SlidingExpiry(100),
        hooks=(events.append,),
        codec="json",
    )
    with memory.twin as twin:
        history = twin.history("ann", "c1")
        history.append(human("1"), human("2"))
        assert texts(history.load()) == ["2"]
        left = history.expire_in()
    assert left is not None
    assert 90 < left <= 100
    assert {"append", "load"} <= {event.kind for event in events}


@pytest.mark.anyio
async def test_models_of_every_kind_take_either_face(either: Any) -> None:
    """Issue 1, T10: sync models use the sync one, asynchronous ones the asyncio one; all see one history."""

    def function(given: Any) -> str:
        return f"function {len(given)}"

    async def coroutine(given: Any) -> str:
        return f"coroutine {len(given)}"

    def generator(given: Any) -> Any:
        yield f"generator {len(given)}"

    async def asynchronous(given: Any) -> Any:
        yield f"asynchronous {len(given)}"

    assert with_history(function, either)("q", **ANN) == "function 1"
    assert await with_history(coroutine, either)("q", **ANN) == "coroutine 3"
    assert list(with_history(generator, either)("q", **ANN)) == ["generator 5"]
    chunks = with_history(asynchronous, either)("q", **ANN)
    assert [chunk async for chunk in chunks] == ["asynchronous 7"]
    await (either.twin if isinstance(either, RedisMemory) else either).aclose()


def test_a_client_that_was_passed_in_has_no_twin(url: str) -> None:
    """Issue 5: said when the wrapper is made, not when it is called."""

    async def coroutine(given: Any) -> str:
        return "ok"

    sync = RedisMemory(redis.Redis(port=9))
    awaited = AsyncRedisMemory(redis.asyncio.Redis(port=9))
    for model, memory in ((coroutine, sync), (len, awaited)):
        with pytest.raises(InvalidSetting, match="URL"):
            with_history(model, memory)
        with pytest.raises(InvalidSetting, match="URL"):
            _ = memory.twin
        assert not memory.has_twin


@one_server
def test_a_client_that_was_passed_in_serves_models_of_its_face(url: str, namespace: str) -> None:
    """Issue 1: and is not closed."""
    with redis.Redis.from_url(url) as client:
        chat = with_history(lambda given: f"saw {len(given)}", RedisMemory(client, namespace=namespace))
        assert [chat("Hi", **ANN), chat("Hi", **ANN)] == ["saw 1", "saw 3"]
        assert client.ping()

    async def with_asyncio() -> str:
        async def coroutine(given: Any) -> str:
            return f"saw {len(given)}"

        async with redis.asyncio.Redis.from_url(url) as client:
            return await with_history(coroutine, AsyncRedisMemory(client, namespace=namespace))("Hi", **ANN)

    assert asyncio.run(with_asyncio()) == "saw 5"


def test_making_a_twin_sends_nothing() -> None:
    """R21: nobody listens there."""
    memory = RedisMemory.from_url("redis://127.0.0.1:9/0")
    assert repr(memory.twin) == "<AsyncRedisMemory namespace='memory'>"
    with_history(lambda given: "ok", AsyncRedisMemory.from_url("redis://127.0.0.1:9/0"))


@one_server
def test_a_twin_that_many_threads_ask_for_at_once_serves_them_all(url: str, namespace: str) -> None:
    """Issue 5: whoever comes first."""
    memory = AsyncRedisMemory.from_url(url, namespace=namespace)
    barrier = threading.Barrier(8)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            barrier.wait()
            chat = with_history(lambda given: "ok", memory)
            assert chat("Hi", user_id="ann", conversation_id=str(number)) == "ok"
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with memory.twin as twin:
        assert len(list(twin.conversations("ann"))) == 8


@one_server
def test_a_memory_goes_on_when_its_twin_is_closed(url: str, namespace: str) -> None:
    """Issue 5: whoever closes what he was given closes no more than that."""

    async def use(twin: AsyncRedisMemory) -> int:
        async with twin:
            return (await twin.history("ann", "c1").append(human("x"))).number

    for address in (url, "embedded://"):  # a private server lives as long as somebody uses it
        with RedisMemory.from_url(address, namespace=namespace) as memory:
            first = memory.history("ann", "c1").append(human("1"))
            assert asyncio.run(use(memory.twin)) == 2
            assert memory.history("ann", "c1").append(human("3")).number == 3
            assert memory.history("ann", "c1").load().version.birth == first.birth

    async def other_way_round() -> list[str]:
        async with AsyncRedisMemory.from_url("embedded://", namespace=namespace) as memory:
            await memory.history("ann", "c1").append(human("1"))
            with memory.twin as twin:
                twin.history("ann", "c1").append(human("2"))
            return texts(await memory.history("ann", "c1").load())

    assert asyncio.run(other_way_round()) == ["1", "2"]


def test_a_memory_that_is_closed_lets_its_twin_go(tmp_path: Path) -> None:
    """Issue 5, D11: an embedded server ends, although nobody closed the twin in the loop that used it."""
    memory = RedisMemory.from_url(f"embedded://{tmp_path}/home")
    version = asyncio.run(memory.twin.history("ann", "c1").append(human("1")))
    with attach(tmp_path / "home") as server:
        pid = pid_of(server.url)
    with memory:
        assert memory.history("ann", "c1").load().version == version
        assert runs(pid)
    eventually(lambda: not runs(pid), "the server ended")
    with memory:
        assert texts(memory.history("ann", "c1").load()) == ["1"]


async def used_after_release(memory: RedisMemory, connections: Callable[[], int]) -> list[str]:
    """What is stored by calls that are under way when their memory is closed; no connection stays."""
    history = memory.twin.history("ann", "c1")
    await history.append(human("1"))
    assert connections() == 1
    calls = [asyncio.ensure_future(history.append(human(str(number)))) for number in range(2, 6)]
    await asyncio.sleep(0)
    memory.close()
    await asyncio.gather(*calls)
    found = texts(await history.load())
    assert connections() > 0
    memory.close()
    gc.collect()
    await in_time(lambda: connections() == 0, "the connections are closed, although the loop goes on")
    return found


@one_server
def test_a_memory_that_is_closed_under_its_twin_breaks_no_call_and_leaves_no_connection(
    url: str, namespace: str
) -> None:
    """D11, D12: calls that are under way end well, later ones open connections anew."""
    with redis.Redis.from_url(url, decode_responses=True) as server:
        joint = "&" if "?" in url else "?"
        memory = RedisMemory.from_url(f"{url}{joint}client_name={namespace}", namespace=namespace)

        def connections() -> int:
            return sum(client["name"] == namespace for client in server.client_list())

        found = asyncio.run(used_after_release(memory, connections))
    assert sorted(found) == ["1", "2", "3", "4", "5"]
