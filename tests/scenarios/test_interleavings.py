"""Another client comes exactly between two commands of a read."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis

from memory_redis import (
    AllMessages,
    AsyncRedisMemory,
    ConflictError,
    LastMessages,
    MaxMessages,
    RedisMemory,
    SlidingExpiry,
    human,
)
from memory_redis.testing import AsyncView
from tests.scenarios.stored import Names, positions, proxied, real_servers, texts
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

pytestmark = [pytest.mark.anyio, real_servers]

STORED = 6


class Ambush:
    """Does something on the server right before the `nth` request of the next read reaches it."""

    def __init__(self, proxy: FaultProxy, url: str) -> None:
        self.proxy, self.url = proxy, url
        self.sprung = False

    def lay(self, nth: int, action: Callable[[], object]) -> None:
        """The action is done once; what was sent before is executed before it."""
        seen = 0
        self.sprung = False

        def look(args: list[bytes]) -> bool:
            nonlocal seen
            if args[0].upper() in (b"HMGET", b"LLEN", b"LRANGE", b"EVALSHA"):
                seen += 1
                if seen == nth and not self.sprung:
                    self.sprung = True
                    threading.Event().wait(0.005)  # the server is done with what it was sent before
                    action()
            return False

        self.proxy.heal()
        self.proxy.drop_request(match=look)

    def before_each(self, name: bytes, action: Callable[[], object], times: int) -> list[bytes]:
        """The action is done before each request of a name, `times` times; the list grows with these."""
        asked: list[bytes] = []

        def look(args: list[bytes]) -> bool:
            if args[0].upper() == name:
                asked.append(name)
                if len(asked) <= times:
                    action()
            return False

        self.proxy.heal()
        self.proxy.drop_request(match=look)
        return asked


@pytest.fixture
def ambush(server: Server) -> Iterator[Ambush]:
    """A proxy in front of the server under test."""
    with proxied(server) as (proxy, url):
        yield Ambush(proxy, url)


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    """The face that reads; with the other one the other codec is read."""
    return str(request.param)


@pytest.fixture
async def reader(face: str, ambush: Ambush, namespace: str) -> AsyncIterator[Any]:
    """A history read through the proxy."""
    one: Any = (
        AsyncView(RedisMemory.from_url(ambush.url, namespace=namespace))
        if face == "sync"
        else AsyncRedisMemory.from_url(ambush.url, namespace=namespace)
    )
    async with one:
        yield one.history("ann", "c1")


@pytest.fixture
def writer(face: str, server: Server, namespace: str) -> Iterator[RedisMemory]:
    """A memory that writes past the proxy."""
    codec: Any = "json" if face == "sync" else "msgpack"
    with RedisMemory.from_url(server.url, namespace=namespace, codec=codec) as memory:
        yield memory


def refill(memory: RedisMemory, count: int) -> None:
    """Append `count` messages, one by one."""
    for number in range(count):
        memory.history("ann", "c1").append(human(f"new {number}"))


def actions(
    memory: RedisMemory, raw: redis.Redis, keys: Names, server: Server
) -> dict[str, Callable[[], Any]]:
    """What the other client may do."""
    history = memory.history("ann", "c1")

    def trim() -> None:
        capped = RedisMemory.from_url(server.url, namespace=keys.meta.split(":")[0], retention=MaxMessages(3))
        with capped:
            capped.history("ann", "c1").append(human("new"), human("newer"))

    def clear_and_refill() -> None:
        history.clear()
        refill(memory, STORED)

    def end() -> None:
        raw.delete(keys.messages, keys.meta)

    def end_and_refill() -> None:
        end()
        refill(memory, STORED)

    return {
        "append": lambda: refill(memory, 1),
        "many appends": lambda: refill(memory, 9),
        "trim": trim,
        "clear": history.clear,
        "clear and refill": clear_and_refill,
        "end": end,
        "end and refill": end_and_refill,
        "list lost": lambda: raw.delete(keys.messages),
        "meta lost": lambda: raw.delete(keys.meta),
        "forget": lambda: memory.forget("ann"),
    }


ACTIONS = [
    *("append", "many appends", "trim", "clear", "clear and refill"),
    *("end", "end and refill", "list lost", "meta lost", "forget"),
]


@pytest.mark.parametrize("window", [AllMessages(), LastMessages(2), LastMessages(0)], ids=repr)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("action", ACTIONS)
async def test_a_load_shows_one_moment(
    ambush: Ambush,
    reader: Any,
    writer: RedisMemory,
    raw: redis.Redis,
    keys: Names,
    server: Server,
    window: Any,
    nth: int,
    action: str,
) -> None:
    """P6, P7, P8: the messages are those that its version stands for, whatever happens meanwhile."""
    history = writer.history("ann", "c1")
    history.append(*(human(f"old {number}") for number in range(STORED)))
    before = history.load(window)
    ambush.lay(nth, actions(writer, raw, keys, server)[action])
    snapshot = await reader.load(window)
    after = history.load(window)
    assert (texts(snapshot), str(snapshot.version)) in [
        (texts(before), str(before.version)),
        (texts(after), str(after.version)),
    ]
    assert positions(snapshot) == positions(before if snapshot.version == before.version else after)
    try:
        history.append(human("x"), expected=snapshot.version)
    except ConflictError:
        assert snapshot.version != after.version
    else:
        assert texts(snapshot) == texts(after)


@pytest.mark.parametrize("nth", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("action", ACTIONS)
async def test_pages_never_mix_two_lives(
    ambush: Ambush,
    reader: Any,
    writer: RedisMemory,
    raw: redis.Redis,
    keys: Names,
    server: Server,
    nth: int,
    action: str,
) -> None:
    """P6, P7: an iteration gives a gapless run of one life, or stops with a conflict."""
    history = writer.history("ann", "c1")
    history.append(*(human(f"old {number}") for number in range(STORED)))
    ambush.lay(nth, actions(writer, raw, keys, server)[action])
    seen: list[Any] = []
    ended = False
    try:
        async for message in reader.iterate(page_size=2):
            seen.append(message)
    except ConflictError:
        ended = True
    old = [message for message in seen if message.text.startswith("old")]
    assert texts(seen[: len(old)]) == texts(old), "old messages after new ones"
    assert positions(seen) == sorted(set(positions(seen))), "a message twice, or out of order"
    if action in ("append", "many appends", "trim"):
        assert not ended
        assert seen[-1].text.startswith("new")
    if action in ("append", "many appends"):
        assert len(old) == STORED
    if action in ("clear and refill", "end and refill"):
        assert not (old and len(old) < len(seen)), "pages of two lives"


async def test_a_load_ends_although_every_page_of_it_meets_a_trim(
    ambush: Ambush, reader: Any, raw: redis.Redis, keys: Names, server: Server, namespace: str
) -> None:
    """I04, P6: what was read already may go; the load goes on and shows the moment of its first page."""
    with RedisMemory.from_url(server.url, namespace=namespace, retention=MaxMessages(20_500)) as capped:
        history = capped.history("ann", "c1")
        for _ in range(21):
            history.append(*(human("x") for _ in range(1000)))
        asked = ambush.before_each(b"LRANGE", lambda: history.append(human("new")), times=40)
        snapshot = await reader.load()
    assert positions(snapshot) == list(range(snapshot.trimmed, snapshot.version.number))
    assert len(snapshot.messages) == 20_500
    assert len(asked) <= 10


async def test_a_read_that_renews_the_end_shows_one_moment_too(
    ambush: Ambush, writer: RedisMemory, namespace: str
) -> None:
    """P6: with the renewal in the same trip."""
    history, expiry = writer.history("ann", "c1"), SlidingExpiry(60, on_read=True)
    with RedisMemory.from_url(ambush.url, namespace=namespace, expiry=expiry) as slow:
        for nth in range(1, 6):
            history.append(*(human(f"{nth}.{number}") for number in range(STORED)))
            ambush.lay(nth, lambda: history.append(human("new")))
            snapshot = slow.history("ann", "c1").load()
            assert positions(snapshot) == list(range(snapshot.version.number))
            assert texts(history.load())[: len(snapshot.messages)] == texts(snapshot)
