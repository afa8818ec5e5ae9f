"""How a `RedisChatMessageHistory` is made, its two faces, and its connections."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis
from langchain_core.messages import AIMessage, HumanMessage

from memory_redis import (
    AsyncOnly,
    AsyncRedisMemory,
    Event,
    InvalidId,
    InvalidSetting,
    LastMessages,
    RedisMemory,
    TurnReport,
)
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.kit import (
    WAYS,
    Watched,
    ask,
    awaited,
    every_way,
    model,
    said,
    session,
    talk,
    until,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def make(valkey: Server, namespace: str) -> Callable[..., RedisChatMessageHistory]:
    """Makes histories in a namespace of the test's own."""

    def one(session_id: str | None = "s", **more: Any) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(session_id, **{"url": valkey.url, "key_prefix": namespace} | more)

    return one


Make = Callable[..., RedisChatMessageHistory]


@pytest.fixture
def plain(valkey: Server) -> Iterator[redis.Redis]:
    with valkey.client() as client:
        yield client


def test_it_is_made_as_the_communitys(valkey: Server, plain: redis.Redis, namespace: str) -> None:
    """R63, R71: session_id, url, key_prefix and ttl, by position or by name; the ttl holds for the whole."""
    history = RedisChatMessageHistory("s", valkey.url, namespace, 100)
    history.add_user_message("Hi")
    history.add_ai_message("Hello")
    keys = list(plain.scan_iter(f"{namespace}:*"))
    assert len(keys) == 2
    assert all(90_000 < plain.pttl(key) <= 100_000 for key in keys)
    named = RedisChatMessageHistory(session_id="s", url=valkey.url, key_prefix=namespace, ttl=None)
    assert said(named.messages) == [("human", "Hi"), ("ai", "Hello")]
    named.add_user_message("for ever")
    assert all(plain.pttl(key) == -1 for key in keys)
    zero = RedisChatMessageHistory("z", url=valkey.url, key_prefix=namespace, ttl=0)
    zero.add_user_message("Hi")
    assert all(plain.pttl(key) == -1 for key in plain.scan_iter(f"{namespace}:*"))


def test_a_user_and_a_conversation_are_the_other_way(make: Make, valkey: Server, namespace: str) -> None:
    """R71, R24: the conversation that the core names so; separators in ids do not collide."""
    history = make(None, user_id="ann", conversation_id="c1")
    history.add_user_message("Hi")
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        assert said(memory.history("ann", "c1").load().messages) == talk("Hi")
        assert said(
            RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id="c1").messages
        ) == talk("Hi")
        assert RedisChatMessageHistory(memory=memory, session_id="c1").messages == []
    make(None, user_id="a:b", conversation_id="c").add_user_message("1")
    make(None, user_id="a", conversation_id="b:c").add_user_message("2")
    assert said(make(None, user_id="a:b", conversation_id="c").messages) == talk("1")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, InvalidSetting),
        ({"user_id": "ann"}, InvalidSetting),
        ({"conversation_id": "c1"}, InvalidSetting),
        ({"session_id": "s", "user_id": "ann"}, InvalidSetting),
        ({"session_id": "s", "conversation_id": "c1"}, InvalidSetting),
        ({"session_id": ""}, InvalidId),
        ({"session_id": 7}, InvalidId),
        ({"user_id": "", "conversation_id": "c1"}, InvalidId),
        ({"user_id": "ann", "conversation_id": 7}, InvalidId),
        ({"session_id": "s", "ttl": -1}, InvalidSetting),
        ({"session_id": "s", "ttl": 1.5}, InvalidSetting),
        ({"session_id": "s", "ttl": True}, InvalidSetting),
        ({"session_id": "s", "url": "http://localhost"}, InvalidSetting),
        ({"session_id": "s", "memory": RedisMemory.from_url(NOBODY), "ttl": 5}, InvalidSetting),
        ({"session_id": "s", "memory": RedisMemory.from_url(NOBODY), "url": NOBODY}, InvalidSetting),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(given: dict[str, Any], error: type[Exception]) -> None:
    """R23: before anything is sent."""
    with pytest.raises(error):
        RedisChatMessageHistory(**given)


def test_it_is_one_of_langchains(make: Make) -> None:
    """R63: isinstance() says so, for code that asks; that warns of nothing."""
    from langchain_core.chat_history import BaseChatMessageHistory

    assert isinstance(make(), BaseChatMessageHistory)
    assert issubclass(RedisChatMessageHistory, BaseChatMessageHistory)


def test_the_memorys_window_and_skipping_apply(valkey: Server, plain: redis.Redis, namespace: str) -> None:
    """R80, T20: what `messages` shows is the memory's window, without what cannot be decoded."""
    with RedisMemory.from_url(valkey.url, namespace=namespace, window=LastMessages(2)) as memory:
        history = RedisChatMessageHistory("s", memory=memory)
        history.add_messages([HumanMessage(content=str(number)) for number in range(5)])
        assert [text for _, text in said(history.messages)] == ["3", "4"]
        assert len(history) == 5
        [key] = plain.scan_iter(f"{namespace}:*:messages")
        plain.lset(key, 4, b"damaged")
        assert [text for _, text in said(history.messages)] == ["2", "3"]
        assert [text for _, text in said(awaited(history.aget_messages()))] == ["2", "3"]


async def test_over_a_sync_client_awaited_calls_wait_in_threads(valkey: Server, namespace: str) -> None:
    """R68, T10, D04: a memory over a client that was passed in has one face; the other is made up for."""
    with valkey.client() as client:
        history = RedisChatMessageHistory("s", memory=RedisMemory(client, namespace=namespace))
        assert (history.history is not None, history.ahistory) == (True, None)
        await history.aadd_messages([HumanMessage(content="Hi")])
        assert await history.aget_messages() == history.messages == [HumanMessage(content="Hi")]
        await history.aclear()
        assert len(history) == 0


@pytest.fixture
async def aclient(valkey: Server) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis(host=valkey.host, port=valkey.port)
    yield client
    await client.aclose()


async def test_over_an_asyncio_client_sync_calls_are_refused(
    aclient: redis.asyncio.Redis, namespace: str
) -> None:
    """T10: with an error that says so, not with a blocked loop; repr and truth still work."""
    history = RedisChatMessageHistory("s", memory=AsyncRedisMemory(aclient, namespace=namespace))
    await history.aadd_messages([HumanMessage(content="Hi")])
    assert said(await history.aget_messages()) == talk("Hi")
    calls: list[Callable[[], Any]] = [
        lambda: history.messages,
        lambda: history.add_user_message("x"),
        history.clear,
        lambda: len(history),
        lambda: str(history),
    ]
    for call in calls:
        with pytest.raises(AsyncOnly):
            call()
    assert history
    assert repr(history)
    assert history.history is None


@pytest.mark.parametrize("kind", [RedisMemory, AsyncRedisMemory])
async def test_a_memory_from_a_url_has_both_faces(valkey: Server, namespace: str, kind: Any) -> None:
    """R68, T10: whichever of the two it is, sync and awaited calls reach one conversation, natively."""
    memory = kind.from_url(valkey.url, namespace=namespace)
    history = RedisChatMessageHistory("s", memory=memory)
    assert history.history is not None
    assert history.ahistory is not None
    history.add_user_message("Hi")
    await history.aadd_messages([AIMessage(content="Hello")])
    assert history.messages == await history.aget_messages()
    assert said(history.messages) == talk("Hi", "Hello")
    one, other = (memory, memory.twin) if kind is RedisMemory else (memory.twin, memory)
    one.close()
    await other.aclose()


async def test_a_wrapper_over_a_sync_client_serves_awaited_calls(valkey: Server, namespace: str) -> None:
    """T10, R58: in worker threads; a save is finished there although its caller is cancelled."""
    with (
        Watched(valkey.address) as watched,
        redis.Redis(port=watched.proxy.port) as client,
        valkey.client() as beside,
    ):
        events: list[Event] = []
        memory = RedisMemory(client, namespace=namespace, hooks=[events.append])
        chain = RunnableWithMessageHistory(model("fine thank you"), memory)
        for way in WAYS:
            await ask(way, chain, "Hi")
        watched.names()
        events.clear()

        def answer(_: Any) -> str:
            watched.freeze()
            return "fine"

        report = TurnReport()
        chain = RunnableWithMessageHistory(answer, memory)
        running = asyncio.create_task(chain.ainvoke("last", session(turn_report=report)))
        await until(lambda: any(args[0] == b"EVALSHA" for args in watched.seen))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not report.saved
        watched.thaw()
        await until(lambda: any(event.kind == "append" for event in events))
        assert beside.llen(f"{namespace}:{{ann:c1}}:messages") == 10


async def test_a_wrapper_over_an_asyncio_client_refuses_other_calls(
    aclient: redis.asyncio.Redis, namespace: str
) -> None:
    """T10: a TypeError that says what to use, before the model runs; awaited calls work."""
    inner = model("fine thank you")
    chain = RunnableWithMessageHistory(inner, AsyncRedisMemory(aclient, namespace=namespace))
    for way in ("invoke", "stream"):
        with pytest.raises(AsyncOnly, match="ainvoke"):
            await ask(way, chain, "Hi")
    assert inner.calls == 0
    for way in ("ainvoke", "astream"):
        await ask(way, chain, "Hi")
    assert [len(asked) for asked in inner.asked] == [1, 3]


@every_way
@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
async def test_langchains_own_wrapper_takes_it(make: Make, way: str) -> None:
    """R63, R64, R68: for as long as langchain-core has one, it is a drop-in there."""
    from langchain_core.runnables.history import RunnableWithMessageHistory as Deprecated

    inner = model("fine thank you")
    chain = Deprecated(inner, lambda session_id: make(session_id))
    for _ in range(2):
        await ask(way, chain, "Hi", {"configurable": {"session_id": "s"}})
    assert said(inner.asked[1]) == talk("Hi", "fine thank you", "Hi")
    assert said(make().messages) == talk("Hi", "fine thank you", "Hi", "fine thank you")


def test_a_thousand_histories_share_their_connections(valkey: Server, namespace: str) -> None:
    """G23, G24, R21: making them opens none; used in turn they need one of each face; few memories stay."""

    def connected() -> int:
        clients = valkey.ask("CLIENT", "LIST")
        return len(clients) if isinstance(clients, list) else len(str(clients).splitlines())

    gc.collect()
    settings: Any = {"url": valkey.url, "key_prefix": namespace}
    baseline = connected()
    histories = [RedisChatMessageHistory(f"s{number}", **settings) for number in range(1000)]
    assert connected() <= baseline
    for history in histories:
        history.add_user_message("Hi")
    assert connected() <= baseline + 1

    async def run(some: list[RedisChatMessageHistory]) -> None:
        await asyncio.gather(*(history.aget_messages() for history in some))
        assert connected() <= baseline + 21

    awaited(run(histories[:20]))
    assert all(len(history) == 1 for history in histories[::100])
    for _ in range(100):
        RedisChatMessageHistory("once", **settings).add_user_message("Hi")
    assert connected() <= baseline + 1
    assert len(RedisChatMessageHistory("once", **settings)) == 100
    for _ in range(100):  # each of a memory of its own: the oldest ones are let go
        namespace += "n"
        history = RedisChatMessageHistory("once", url=valkey.url, key_prefix=namespace[-90:])
        history.add_user_message("Hi")
    gc.collect()
    assert connected() <= baseline + 34


def test_histories_made_by_many_threads_share_too(valkey: Server, namespace: str) -> None:
    """G23: the first use of a URL by many threads at once makes one memory."""
    settings: Any = {"url": valkey.url, "key_prefix": namespace}
    ready = threading.Barrier(8)
    made: list[RedisChatMessageHistory] = []

    def make_one() -> None:
        ready.wait()
        made.append(RedisChatMessageHistory("s", **settings))
        made[-1].add_user_message("Hi")

    threads = [threading.Thread(target=make_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(history._memory) for history in made}) == 1
    assert len(made[0]) == 8
