"""A compaction comes exactly between two commands of a read, or its own reply is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis

from memory_redis import (
    AllMessages,
    AsyncRedisMemory,
    LastMessages,
    RedisMemory,
    ServerUnavailable,
    SlidingExpiry,
    TokenBudget,
    Version,
    human,
)
from memory_redis.telemetry import Event
from memory_redis.testing import AsyncView
from tests.faults.ways import SCRIPTS
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
async def reader(face: str, ambush: Ambush, namespace: str, events: list[Event]) -> AsyncIterator[Any]:
    """A memory behind the proxy."""
    options: dict[str, Any] = {"namespace": namespace, "hooks": (events.append,)}
    one: Any = (
        AsyncView(RedisMemory.from_url(ambush.url, **options))
        if face == "sync"
        else AsyncRedisMemory.from_url(ambush.url, **options)
    )
    async with one:
        yield one


@pytest.fixture
def writer(face: str, server: Server, namespace: str) -> Iterator[RedisMemory]:
    """A memory past the proxy."""
    codec: Any = "json" if face == "sync" else "msgpack"
    with RedisMemory.from_url(server.url, namespace=namespace, codec=codec) as memory:
        yield memory


WINDOWS = [
    AllMessages(),
    LastMessages(2),
    LastMessages(5),
    LastMessages(0),
    TokenBudget(100),
    AllMessages(max_bytes=99),
]


@pytest.mark.parametrize("keep", [3, 0])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
async def test_a_load_shows_the_moment_before_a_compaction_or_after_it(
    ambush: Ambush,
    reader: Any,
    writer: RedisMemory,
    events: list[Event],
    namespace: str,
    window: Any,
    keep: int,
) -> None:
    """R97, P6: messages, summary and version belong together, and nothing looks lost."""
    sprung = 0
    for nth in range(1, 12):
        user = f"user{nth}"
        history = writer.history(user, "c1")
        version = history.append(*(human(f"old {number}") for number in range(STORED)))
        before = history.load(window)
        ambush.lay(nth, lambda user=user, version=version: shrink(writer, user, version, keep))
        snapshot = await reader.history(user, "c1").load(window)
        if not ambush.sprung:
            break
        sprung += 1
        after = history.load(window)
        assert after.summary == "in short"
        found = (texts(snapshot), positions(snapshot), snapshot.summary, snapshot.trimmed, snapshot.version)
        assert found in [
            (texts(one), positions(one), one.summary, one.trimmed, version) for one in (before, after)
        ]
        assert history.append(human("new"), expected=snapshot.version).number == STORED + 1
    assert sprung >= 1
    assert not [event for event in events if event.kind == "heal"]


def shrink(memory: RedisMemory, user: str, version: Version, keep: int) -> None:
    memory.history(user, "c1").compact("in short", expected=version, keep=keep)


async def test_pages_go_on_behind_what_was_summarised(
    ambush: Ambush, reader: Any, writer: RedisMemory, namespace: str
) -> None:
    """R97, P6: an iteration misses what went before its page came, and nothing else."""
    for nth in range(2, 9):
        user = f"user{nth}"
        history = writer.history(user, "c1")
        version = history.append(*(human(str(number)) for number in range(STORED)))
        ambush.lay(nth, lambda user=user, version=version: shrink(writer, user, version, 2))
        seen = [message async for message in reader.history(user, "c1").iterate(page_size=2)]
        assert ambush.sprung
        read = [message.seq for message in seen]
        assert read == sorted(set(read))
        assert {4, 5} <= set(read)
        assert read[:2] in ([0, 1], [4, 5])


LOST = {
    "closed": lambda proxy: proxy.drop_reply(SCRIPTS, how="close"),
    "reset": lambda proxy: proxy.drop_reply(SCRIPTS, how="reset"),
    "cut": lambda proxy: proxy.truncate_reply(9, SCRIPTS),
    "request": lambda proxy: proxy.drop_request(SCRIPTS, how="close"),
}


@pytest.mark.parametrize("fault", LOST)
async def test_a_compaction_whose_reply_is_lost_is_made_once(
    ambush: Ambush, reader: Any, writer: RedisMemory, events: list[Event], fault: str
) -> None:
    """R97, decision 6: it is recognised when it is sent again, and answers as the first time."""
    history = reader.history("ann", "c1")
    version = await history.append(*(human(str(number)) for number in range(STORED)))
    rule = LOST[fault](ambush.proxy)
    assert await history.compact("in short", expected=version, keep=2) == 4
    assert rule.hits == 1
    snapshot = writer.history("ann", "c1").load()
    assert (snapshot.summary, texts(snapshot)) == ("in short", ["4", "5"])
    assert [event.messages for event in events if event.kind == "compact"] == [4]


async def test_a_repeat_does_not_take_what_came_meanwhile(
    ambush: Ambush, reader: Any, writer: RedisMemory, raw: redis.Redis, keys: Names
) -> None:
    """R97, P2: others append and summarise between a compaction and its repeat."""
    history, other = reader.history("ann", "c1"), writer.history("ann", "c1")
    version = await history.append(*(human(str(number)) for number in range(STORED)))
    sent = 0

    def between(args: list[bytes]) -> bool:
        nonlocal sent
        if args[0].upper() in (b"EVALSHA", b"EVAL"):
            sent += 1
            if sent == 2:  # the first one was executed, and its reply dropped
                later = other.append(human("6"), human("7"))
                other.compact("of others", expected=later, keep=1)
        return False

    ambush.proxy.drop_request(match=between)
    ambush.proxy.drop_reply(SCRIPTS, how="close")
    assert await history.compact("in short", expected=version, keep=2) == 4
    snapshot = other.load()
    assert (snapshot.summary, texts(snapshot)) == ("of others", ["7"])


async def test_a_repeat_that_may_have_been_forgotten_is_not_guessed(
    ambush: Ambush, reader: Any, writer: RedisMemory, raw: redis.Redis, keys: Names
) -> None:
    """R97, decision 1: when so much came between that nobody can tell; it is made once all the same."""
    history, other = reader.history("ann", "c1"), writer.history("ann", "c1")
    version = await history.append(*(human(str(number)) for number in range(STORED)))
    sent = 0

    def between(args: list[bytes]) -> bool:
        nonlocal sent
        sent += args[0].upper() in (b"EVALSHA", b"EVAL")
        if sent == 2 and raw.hexists(keys.meta, "s"):  # as appends of others push the newest id out
            ring = raw.hget(keys.meta, "r") or b""
            dropped = int.from_bytes(ring[-10:-4]) + 60_000  # however long this repeat is under way
            raw.hset(keys.meta, mapping={"r": ring[:-28], "dr": dropped})
            sent += 1
        return False

    ambush.proxy.drop_request(match=between)
    ambush.proxy.drop_reply(SCRIPTS, how="close")
    with pytest.raises(ServerUnavailable) as caught:
        await history.compact("in short", expected=version, keep=2)
    assert caught.value.outcome == "unknown"
    snapshot = other.load()
    assert (snapshot.summary, texts(snapshot)) == ("in short", ["4", "5"])


@pytest.mark.parametrize("keep", [5000, 500])
@pytest.mark.parametrize("face", ["async"], indirect=True)
async def test_a_long_load_shows_one_moment_too(
    ambush: Ambush, reader: Any, writer: RedisMemory, keep: int
) -> None:
    """R97, P6: the compaction comes between two pages; what is read is from before it or from after it."""
    history = writer.history("ann", "c1")
    for _ in range(11):
        version = history.append(*(human("x") for _ in range(1000)))
    pages = 0

    def compact(args: list[bytes]) -> bool:
        nonlocal pages
        pages += args[0].upper() == b"LRANGE"
        if pages == 2:
            pages += 1
            history.compact("in short", expected=version, keep=keep)
        return False

    ambush.proxy.drop_request(match=compact)
    snapshot = await reader.history("ann", "c1").load()
    assert history.load().summary == "in short"
    assert (snapshot.summary, len(snapshot.messages)) in [(None, 11_000), ("in short", keep)]
    assert positions(snapshot) == list(range(snapshot.trimmed, 11_000))
    assert snapshot.version == version


async def test_a_compaction_that_gets_no_answer_is_settled_by_a_load(
    ambush: Ambush, writer: RedisMemory, namespace: str
) -> None:
    """R97, decision 10: the error says that the outcome is not known."""
    with RedisMemory.from_url(ambush.url, namespace=namespace, deadline=1) as slow:
        history = slow.history("ann", "c1")
        version = history.append(*(human(str(number)) for number in range(STORED)))
        ambush.proxy.drop_reply(SCRIPTS, how="close", times=1000)
        with pytest.raises(ServerUnavailable) as caught:
            history.compact("in short", expected=version, keep=2)
        assert caught.value.outcome == "unknown"
        ambush.proxy.heal()
    assert writer.history("ann", "c1").load().summary == "in short"


async def test_a_renewal_by_a_read_meets_a_compaction(
    ambush: Ambush, writer: RedisMemory, namespace: str
) -> None:
    """R97, P6: with the renewal in the same trip."""
    expiry = SlidingExpiry(60, on_read=True)
    with RedisMemory.from_url(ambush.url, namespace=namespace, expiry=expiry) as slow:
        for nth in range(1, 7):
            user = f"user{nth}"
            version = writer.history(user, "c1").append(*(human(str(number)) for number in range(STORED)))
            ambush.lay(nth, lambda user=user, version=version: shrink(writer, user, version, 2))
            snapshot = slow.history(user, "c1").load()
            assert (snapshot.summary, len(snapshot.messages)) in [(None, 6), ("in short", 2)]
            assert snapshot.version == version
