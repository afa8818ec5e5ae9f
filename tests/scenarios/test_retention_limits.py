"""What stays stored by age and by size, alone and with a number, and what that costs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from memory_redis import (
    AllMessages,
    LastMessages,
    LastTurns,
    MaxAge,
    MaxBytes,
    MaxMessages,
    RedisMemory,
    Since,
    SlidingExpiry,
    StoredMessage,
    TokenBudget,
    Window,
    ai,
    human,
    tool,
)
from memory_redis.retention import Retention
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, keys_in, orphans, positions, real_servers, result, texts
from tests.support.ids import shown
from tests.support.servers import Server
from tests.unit.records import encoded
from tests.unit.scripting import Conversation, aged, append_id

pytestmark = pytest.mark.anyio

HOUR = 3_600_000
FOREIGN = b'{"type":"human","data":{"content":"by another library"}}'


def grow_older(raw: redis.Redis, keys: Names, many: int, ms: int = 2 * HOUR) -> None:
    """The first so many messages were stored so much earlier."""
    for at, record in enumerate(raw.lrange(keys.messages, 0, many - 1)):
        raw.lset(keys.messages, at, aged(record, ms))


def check_size(raw: redis.Redis, keys: Names) -> int:
    """The bytes that all records take, which the meta has to know."""
    size = sum(map(len, raw.lrange(keys.messages, 0, -1)))
    assert int(raw.hget(keys.meta, "n") or 0) == size
    version, trimmed = (int(raw.hget(keys.meta, field) or 0) for field in "vt")
    assert version - trimmed == raw.llen(keys.messages)
    return size


WINDOWS: list[Window] = [
    *(AllMessages(), LastMessages(10), LastTurns(10), TokenBudget(10_000), Since(days=1)),
    *(AllMessages(start_on="human"), LastMessages(10) & TokenBudget(10_000)),
]


async def test_messages_go_with_the_first_append_after_their_time(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 23: versions and positions go on; until then no load shows them, though they count."""
    history = coded(retention=MaxAge(hours=1)).history("ann", "c1")
    for number in range(5):
        version = await history.append(human(str(number)))
    grow_older(raw, keys, 3)
    for window in WINDOWS:
        snapshot = await history.load(window)
        assert (texts(snapshot), positions(snapshot), snapshot.version) == (["3", "4"], [3, 4], version)
    assert texts([message async for message in history.iterate(page_size=2)]) == ["3", "4"]
    assert await history.count() == 5
    assert len((await coded().history("ann", "c1").load()).messages) == 5, "who keeps all sees all"
    assert (await history.append(human("5"), expected=version)).number == 6
    snapshot = await history.load()
    assert (texts(snapshot), positions(snapshot), snapshot.trimmed) == (["3", "4", "5"], [3, 4, 5], 3)
    assert (await history.count(), raw.llen(keys.messages)) == (3, 3)
    check_size(raw, keys)


async def test_loads_show_nothing_where_everything_is_too_old(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 23: and a turn on it commits; what it adds is all there is."""
    history = coded(retention=MaxAge(hours=1)).history("ann", "c1")
    await history.append(human("1"), call("a"), result("a"))
    grow_older(raw, keys, 3)
    for window in WINDOWS:
        assert texts(await history.load(window)) == []
    assert [message async for message in history.iterate()] == []
    async with history.turn(on_conflict="raise") as turn:
        assert turn.messages == []
        turn.add(human("2"), ai("3"))
    snapshot = await history.load()
    assert (texts(snapshot), positions(snapshot), snapshot.trimmed) == (["2", "3"], [3, 4], 3)
    check_size(raw, keys)


async def test_a_result_is_not_shown_without_its_call_that_is_too_old(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """F16, F13: nor kept when the call goes, however new it is."""
    history = coded(retention=MaxAge(hours=1)).history("ann", "c1")
    await history.append(human("1"), call("a", "b"), result("a"), result("b"), ai("2"))
    grow_older(raw, keys, 2)
    for window in WINDOWS[:-1]:
        assert orphans((await history.load(window)).messages) == []
    await history.append(human("3"))
    assert texts([message async for message in coded().history("ann", "c1").iterate()]) == ["2", "3"]
    check_size(raw, keys)


@pytest.mark.parametrize("size", [1, 700, 5000])
async def test_at_most_so_many_bytes_stay(
    coded: MakeMemory, raw: redis.Redis, keys: Names, size: int
) -> None:
    """Decision 23: as many of the newest as there is room for, and the newest in any case."""
    history = coded(retention=MaxBytes(size)).history("ann", "c1")
    chance = random.Random(size)
    for number in range(25):
        before = raw.lrange(keys.messages, 0, -1)
        many = chance.randint(1, 3)
        version = await history.append(*(human("x" * chance.randint(0, 300)) for _ in range(many)))
        records = raw.lrange(keys.messages, 0, -1)
        total = check_size(raw, keys)
        assert total <= size or len(records) == 1
        gone = len(before) + many - len(records)
        if 0 < gone <= len(before):
            assert total + len(before[gone - 1]) > size, f"no more went than had to, in append {number}"
        assert positions(await history.load()) == list(range(version.number - len(records), version.number))


async def test_an_append_larger_than_the_room_is_stored_then_trimmed(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 11: its newest message stays; an exchange that has no room goes whole."""
    history = coded(retention=MaxBytes(1000)).history("ann", "c1")
    assert (await history.append(*(human("x" * 900) for _ in range(4)))).number == 4
    assert positions(await history.load()) == [3]
    await history.append(human("y" * 5000))
    assert positions(await history.load()) == [4]
    seen = await history.append(human("q"), call("a"), tool("r" * 2000, tool_call_id="a"))
    assert (await history.count(), check_size(raw, keys)) == (0, 0)
    assert (await history.append(ai("r"), expected=seen)).number == 9
    assert texts(await history.load()) == ["r"]
    check_size(raw, keys)


async def test_each_of_several_limits_holds(coded: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Decision 23: the one that asks for most decides, whichever it is at the time."""
    history = coded(retention=MaxAge(hours=1) & MaxMessages(6) & MaxBytes(3000)).history("ann", "c1")
    for number in range(9):
        await history.append(human(str(number)))
    assert texts(await history.load()) == ["3", "4", "5", "6", "7", "8"]
    grow_older(raw, keys, 4)
    await history.append(human("9"))
    assert texts(await history.load()) == ["7", "8", "9"]
    await history.append(human("x" * (3000 - check_size(raw, keys))))
    assert check_size(raw, keys) <= 3000
    assert positions(await history.load())[-1] == 10
    assert await history.count() < 4


LIMITS: list[tuple[Retention, int]] = [
    (MaxAge(hours=1), 60),
    (MaxBytes(2000), 60),
    (MaxMessages(5) & MaxAge(hours=1) & MaxBytes(2500), 5),
]


@pytest.mark.parametrize(("retention", "most"), LIMITS, ids=shown)
async def test_no_schedule_of_agents_leaves_an_orphan_or_a_wrong_size(
    coded: MakeMemory, raw: redis.Redis, keys: Names, retention: Retention, most: int
) -> None:
    """F16, F14, the promise of retention: agents write at random, time passes; what is stored is in order."""
    chance = random.Random(repr(retention))
    history, plain = coded(retention=retention).history("ann", "c1"), coded().history("ann", "c1")
    waiting: list[str] = []
    late: set[str] = set()
    stored: list[StoredMessage] = []
    for number in range(50):
        message: StoredMessage
        if waiting and chance.random() < 0.5:
            message = result(waiting.pop(chance.randrange(len(waiting))))
            late.update(orphans([*stored, message]))
        elif len(waiting) < 3 and chance.random() < 0.6:
            ids = [f"{number}.{part}" for part in range(chance.randint(1, 2))]
            waiting += ids
            message = call(*ids)
        else:
            message = human("x" * chance.randint(1, 400))
        if chance.random() < 0.2 and retention.caps.age_ms:
            grow_older(raw, keys, chance.randint(0, 4))
        version = await history.append(message)
        stored = [one async for one in plain.iterate()]
        assert late.issuperset(orphans(stored)), "only results that came after their call had gone"
        assert version.number == number + 1
        assert positions(stored) == list(range(version.number - len(stored), version.number))
        assert len(stored) <= most
        check_size(raw, keys)
        for reader in (history, plain):
            for window in (AllMessages(), LastMessages(chance.randint(1, 8))):
                assert orphans((await reader.load(window)).messages) == []


async def test_records_without_a_time_go_with_the_older_ones(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 23: those of other libraries tell no age; what they take is counted all the same."""
    history = coded(retention=MaxAge(hours=1), on_corrupt="skip").history("ann", "c1")
    await history.append(human("old"))
    raw.rpush(keys.messages, FOREIGN)
    await history.append(human("old too"))
    grow_older(raw, keys, 1)
    raw.lset(keys.messages, 2, aged(raw.lrange(keys.messages, 2, 2)[0], 2 * HOUR))
    raw.rpush(keys.messages, FOREIGN)
    await history.append(human("new"))
    assert texts(await coded().history("ann", "c1").load()) == ["by another library", "new"]
    check_size(raw, keys)
    sized = coded(retention=MaxBytes(1)).history("ann", "c1")
    raw.rpush(keys.messages, FOREIGN, b"junk")
    await sized.append(human("newest"))
    assert texts(await history.load()) == ["newest"]
    check_size(raw, keys)


async def write_and_clear(history: Any, raw: redis.Redis, keys: Names) -> None:
    await history.append(human("x" * 50))
    await history.clear()
    await history.append(human("x"))


async def compact_some(history: Any, raw: redis.Redis, keys: Names) -> None:
    await history.append(*(human("x" * n) for n in range(9)))
    await history.compact("so far", expected=(await history.load()).version, keep=4)


async def compact_all(history: Any, raw: redis.Redis, keys: Names) -> None:
    await history.compact("so far", expected=(await history.load()).version)


async def lose_the_meta(history: Any, raw: redis.Redis, keys: Names) -> None:
    raw.delete(keys.meta)
    await history.append(human("x" * 70))


async def lose_the_list(history: Any, raw: redis.Redis, keys: Names) -> None:
    raw.delete(keys.messages)
    await history.append(human("x" * 70))


async def others_write(history: Any, raw: redis.Redis, keys: Names) -> None:
    raw.rpush(keys.messages, FOREIGN, b"junk")
    await history.append(human("x" * 70))


async def others_trim(history: Any, raw: redis.Redis, keys: Names) -> None:
    raw.ltrim(keys.messages, 1, -1)
    await history.append(human("x" * 70))


async def renew(history: Any, raw: redis.Redis, keys: Names) -> None:
    await history.pin()
    await history.touch()
    await history.expire(None)


async def repeat(history: Any, raw: redis.Redis, keys: Names) -> None:
    for _ in range(2):
        await history.append(human("x" * 30), idempotency_key="k")


CHANGES: list[Callable[..., Any]] = [
    *(write_and_clear, compact_some, compact_all, lose_the_meta, lose_the_list, others_write, others_trim),
    *(renew, repeat),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_the_size_that_the_meta_knows_is_that_of_the_records(
    memory: MakeMemory, raw: redis.Redis, keys: Names, change: Any
) -> None:
    """Decision 23, P10: whatever changed the conversation, and the limit holds with the next append."""
    history = memory(retention=MaxBytes(1500), on_corrupt="skip").history("ann", "c1")
    await history.append(*(human("x" * 40 * number) for number in range(1, 5)))
    check_size(raw, keys)
    await change(history, raw, keys)
    check_size(raw, keys)
    await history.append(human("last"), ai("words"))
    assert check_size(raw, keys) <= 1500
    assert texts(await history.load(LastMessages(2))) == ["last", "words"]


async def test_a_summary_is_no_message_that_could_go(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 23: limits of number, age and size are those of the messages."""
    history = memory(retention=MaxMessages(1) & MaxAge(hours=1) & MaxBytes(1)).history("ann", "c1")
    await history.append(human("1"))
    await history.compact("x" * 500, expected=(await history.load()).version)
    await history.append(human("2"))
    grow_older(raw, keys, 1)
    await history.append(human("3"))
    snapshot = await history.load()
    assert (texts(snapshot), snapshot.summary) == (["3"], "x" * 500)


@pytest.fixture
def quick(server: Server, namespace: str) -> Iterator[Callable[..., RedisMemory]]:
    """Makes memories of the sync face, for what needs many appends."""
    made: list[RedisMemory] = []

    def make(**options: Any) -> RedisMemory:
        made.append(RedisMemory.from_url(server.url, namespace=namespace, hooks=(), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@real_servers
def test_ten_thousand_appends_under_limits_take_the_room_of_few(
    quick: Callable[..., RedisMemory], raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """I07, F24: at each thousand the memory of list and meta is the same, and no key has come beside them."""
    limits = MaxMessages(50) & MaxBytes(20_000) & MaxAge(hours=1)
    history = quick(retention=limits, expiry=SlidingExpiry(600)).history("ann", "c1")
    sizes: list[int] = []
    for number in range(10_000):
        history.append(human("x" * (200 + number % 7)))
        if number % 1000 == 999:
            sizes.append(sum(raw.memory_usage(key, samples=0) for key in (keys.messages, keys.meta)))
            assert keys_in(raw, namespace) == sorted([keys.messages, keys.meta, keys.index])
    assert len(sizes) == 10
    assert max(sizes) <= min(sizes) * 1.05
    assert raw.llen(keys.messages) == 50
    assert check_size(raw, keys) <= 20_000
    assert history.load().version.number == 10_000


def ranges_asked(raw: redis.Redis, keys: Names, act: Callable[[], object]) -> list[tuple[int, int]]:
    """The ranges of the list that the server reads meanwhile."""
    found: list[tuple[int, int]] = []
    with raw.monitor() as monitor:
        act()
        raw.echo("done")
        while (command := monitor.next_command()["command"]) != "ECHO done":
            match = re.fullmatch(rf"LRANGE {re.escape(keys.messages)} (-?\d+) (-?\d+)", command)
            if match:
                found.append((int(match[1]), int(match[2])))
    return found


@real_servers
def test_an_append_reads_few_records_of_a_long_history(
    quick: Callable[..., RedisMemory], raw: redis.Redis, keys: Names
) -> None:
    """I01, P5: one, by age, where nothing is to go, none by size and number; else what goes, little more."""
    script = Conversation(raw, keys.messages, keys.meta)
    [record] = encoded(human("x"))
    for number in range(5):
        script.append(append_id(number), *[record] * 20_000)
    size = int(script.field("n"))
    room = size + 10 * len(record)
    for limits, wanted in (
        (MaxAge(days=1), [(0, 0)]),
        (MaxBytes(room), []),
        (MaxMessages(200_000), []),
        (MaxAge(days=1) & MaxBytes(room) & MaxMessages(200_000), [(0, 0)]),
    ):
        history = quick(retention=limits).history("ann", "c1")
        assert ranges_asked(raw, keys, lambda history=history: history.append(human("y"))) == wanted
    for limits, least in ((MaxMessages(99_990), 15), (MaxBytes(size * 9 // 10), 9000), (MaxAge(hours=1), 40)):
        if limits.caps.age_ms:
            grow_older(raw, keys, 40)
        history, before = quick(retention=limits).history("ann", "c1"), raw.llen(keys.messages)
        ranges = ranges_asked(raw, keys, lambda history=history: history.append(human("z")))
        gone = before + 1 - raw.llen(keys.messages)
        assert least <= gone <= least * 1.2
        assert sum(stop - start + 1 for start, stop in ranges) <= 2 * gone + 64
        assert max(stop - start + 1 for start, stop in ranges) <= 1000
    check_size(raw, keys)
