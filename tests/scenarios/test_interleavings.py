"""Another client comes exactly between two commands of a read."""

from __future__ import annotations

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
from tests.scenarios.ambush import Ambush
from tests.scenarios.stored import Names, positions, real_servers, texts
from tests.support.servers import Server

pytestmark = [pytest.mark.anyio, real_servers]

STORED = 6


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    """The face that reads; with the other one the other codec is read."""
    return str(request.param)


@pytest.fixture
async def reader(face: str, ambush: Ambush, namespace: str) -> AsyncIterator[Any]:
    """A memory that reads through the proxy."""
    one: Any = (
        AsyncView(RedisMemory.from_url(ambush.url, namespace=namespace))
        if face == "sync"
        else AsyncRedisMemory.from_url(ambush.url, namespace=namespace)
    )
    async with one:
        yield one


@pytest.fixture
def writer(face: str, server: Server, namespace: str) -> Iterator[RedisMemory]:
    """A memory that writes past the proxy."""
    codec: Any = "json" if face == "sync" else "msgpack"
    with RedisMemory.from_url(server.url, namespace=namespace, codec=codec) as memory:
        yield memory


Action = Callable[[RedisMemory, redis.Redis, Names], Any]


def refill(memory: RedisMemory, keys: Names, count: int) -> None:
    """Append `count` messages, one by one."""
    for number in range(count):
        memory.history(keys.user, "c1").append(human(f"new {number}"))


def clear_and_refill(memory: RedisMemory, raw: redis.Redis, keys: Names) -> None:
    """Another content of the same length in the same life."""
    memory.history(keys.user, "c1").clear()
    refill(memory, keys, STORED)


def end_and_refill(memory: RedisMemory, raw: redis.Redis, keys: Names) -> None:
    """Another life of the same length."""
    raw.delete(keys.messages, keys.meta)
    refill(memory, keys, STORED)


def trim(memory: RedisMemory, raw: redis.Redis, keys: Names) -> None:
    """Two more messages, and only the newest three stay."""
    namespace, port = keys.meta.split(":")[0], raw.connection_pool.connection_kwargs["port"]
    url = f"redis://127.0.0.1:{port}/0"
    with RedisMemory.from_url(url, namespace=namespace, retention=MaxMessages(3)) as capped:
        capped.history(keys.user, "c1").append(human("new"), human("newer"))


ACTIONS: dict[str, Action] = {
    "append": lambda memory, raw, keys: refill(memory, keys, 1),
    "many appends": lambda memory, raw, keys: refill(memory, keys, 9),
    "trim": trim,
    "clear": lambda memory, raw, keys: memory.history(keys.user, "c1").clear(),
    "clear and refill": clear_and_refill,
    "end": lambda memory, raw, keys: raw.delete(keys.messages, keys.meta),
    "end and refill": end_and_refill,
    "list lost": lambda memory, raw, keys: raw.delete(keys.messages),
    "meta lost": lambda memory, raw, keys: raw.delete(keys.meta),
    "forget": lambda memory, raw, keys: memory.forget(keys.user),
}


@pytest.mark.parametrize("window", [AllMessages(), LastMessages(2), LastMessages(0)], ids=repr)
@pytest.mark.parametrize("action", ACTIONS)
async def test_a_load_shows_one_moment(
    ambush: Ambush,
    reader: Any,
    writer: RedisMemory,
    raw: redis.Redis,
    namespace: str,
    window: Any,
    action: str,
) -> None:
    """P6, P7, P8: the messages are those that its version stands for, whatever happens meanwhile."""
    sprung = 0
    for nth in range(1, 9):
        keys = Names.of(namespace, f"user{nth}")
        history = writer.history(keys.user, "c1")
        history.append(*(human(f"old {number}") for number in range(STORED)))
        before = history.load(window)
        ambush.lay(nth, lambda keys=keys: ACTIONS[action](writer, raw, keys))
        snapshot = await reader.history(keys.user, "c1").load(window)
        if not ambush.sprung:
            break
        sprung += 1
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
    assert sprung >= 2


@pytest.mark.parametrize("action", ACTIONS)
async def test_pages_never_mix_two_lives(
    ambush: Ambush,
    reader: Any,
    writer: RedisMemory,
    raw: redis.Redis,
    namespace: str,
    action: str,
) -> None:
    """P6, P7: an iteration gives a gapless run of one life, or stops with a conflict."""
    for nth in range(2, 9):
        keys = Names.of(namespace, f"user{nth}")
        history = writer.history(keys.user, "c1")
        history.append(*(human(f"old {number}") for number in range(STORED)))
        ambush.lay(nth, lambda keys=keys: ACTIONS[action](writer, raw, keys))
        seen: list[Any] = []
        ended = False
        try:
            async for message in reader.history(keys.user, "c1").iterate(page_size=2):
                seen.append(message)
        except ConflictError:
            ended = True
        assert ambush.sprung
        old = [message for message in seen if message.text.startswith("old")]
        assert texts(seen[: len(old)]) == texts(old), "old messages after new ones"
        assert positions(seen) == sorted(set(positions(seen))), "a message twice, or out of order"
        if action in ("append", "many appends"):
            assert len(old) == STORED
        if action in ("append", "many appends", "trim"):
            assert not ended
            assert texts(seen)[-1] == texts(history.load())[-1]
        if action in ("clear and refill", "end and refill"):
            assert not (old and len(old) < len(seen)), "pages of two lives"


async def test_a_load_ends_although_every_page_of_it_meets_a_trim(
    ambush: Ambush, reader: Any, server: Server, namespace: str
) -> None:
    """I04, P6: what was read already may go; the load goes on and shows the moment of its first page."""
    with RedisMemory.from_url(server.url, namespace=namespace, retention=MaxMessages(20_500)) as capped:
        history = capped.history("ann", "c1")
        for _ in range(21):
            history.append(*(human("x") for _ in range(1000)))
        asked = ambush.before_each(b"LRANGE", lambda: history.append(human("new")), times=40)
        snapshot = await reader.history("ann", "c1").load()
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
