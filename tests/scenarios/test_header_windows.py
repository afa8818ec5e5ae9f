"""Windows by turns, tokens, time and bytes: what they show, what they cost, and long histories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    BYTES_4_PLUS_1,
    AllMessages,
    CorruptRecord,
    HistoryTooLarge,
    InvalidSetting,
    LastMessages,
    LastTurns,
    Limits,
    MaxAge,
    MaxMessages,
    RedisMemory,
    Since,
    StoredMessage,
    TokenBudget,
    TokenCounter,
    Window,
    ai,
    human,
    system,
)
from tests.conftest import MakeMemory
from tests.scenarios.ambush import Ambush
from tests.scenarios.stored import Names, call, positions, reads, real_servers, result, texts
from tests.support.servers import bundled_valkey
from tests.unit.scripting import aged

pytestmark = pytest.mark.anyio

WORDS = TokenCounter("words", lambda message: len(message.text.split()))


def each(message: StoredMessage) -> int:
    """One token a message; a counter without a name."""
    return 1


def filled(raw: redis.Redis, keys: Names, more: int) -> None:
    """Put so many copies of the last record behind it, quickly."""
    record = raw.lindex(keys.messages, -1)
    with raw.pipeline(transaction=True) as pipeline:
        for done in range(0, more, 1000):
            pipeline.rpush(keys.messages, *[record] * min(1000, more - done))
        pipeline.hincrby(keys.meta, "v", more)
        pipeline.hincrby(keys.meta, "n", more * len(record))
        pipeline.execute()


def made_older(raw: redis.Redis, keys: Names, *seconds: int) -> None:
    """Rewrite the stamps of the first records: they were stored so long ago."""
    for at, age in enumerate(seconds):
        raw.lset(keys.messages, at, aged(raw.lindex(keys.messages, at), age * 1000))


async def test_a_window_that_is_set_on_the_memory_applies_to_loads_and_turns(coded: MakeMemory) -> None:
    """F03, I03: with its limits and keywords; a window of the call stands in its place."""
    window = LastTurns(2, keep_system=True) & TokenBudget(40, start_on="human")
    history = coded(window=window).history("ann", "c1")
    await history.append(system("be kind"), human("1"), ai("2"), human("3"), ai("4"), human("5"), ai("6"))
    assert texts(await history.load()) == ["be kind", "3", "4", "5", "6"]
    async with history.turn() as turn:
        assert texts(turn.messages) == ["be kind", "3", "4", "5", "6"]
    async with history.turn(window=LastTurns(1)) as turn:
        assert texts(turn.messages) == ["5", "6"]
    assert len((await history.load(AllMessages())).messages) == 7


WINDOWS: list[Window] = [
    LastTurns(9),
    LastTurns(9, keep_system=True),
    TokenBudget(50),
    TokenBudget(50, each, keep_system=True),
    TokenBudget(50, oldest=True),
    Since(60),
    Since(60, start_on="human"),
    LastMessages(9, keep_system=True),
    AllMessages(max_bytes=50),
    AllMessages(start_on="ai", keep_system=True),
    LastMessages(9) & LastTurns(9) & TokenBudget(50) & Since(60),
]


async def test_every_window_takes_an_empty_history_and_lone_messages(coded: MakeMemory) -> None:
    """F18: nothing of nothing, a system message, and nothing of a result whose call is not there."""
    one = coded()
    await one.history("ann", "c2").append(system("be kind"))
    await one.history("ann", "c3").append(result("a"))
    for window in WINDOWS:
        assert (await one.history("ann", "c1").load(window)).messages == []
        assert texts(await one.history("ann", "c2").load(window)) == ["be kind"]
        snapshot = await one.history("ann", "c3").load(window)
        assert (snapshot.messages, snapshot.version.number) == ([], 1)


BAD_COUNTS: list[Any] = [1.5, -1, True, None, "3", 2**24]


@pytest.mark.parametrize("number", BAD_COUNTS, ids=repr)
async def test_an_append_whose_counter_gives_no_count_stores_nothing(memory: MakeMemory, number: Any) -> None:
    """F01: nothing of the append, however many of its messages could be counted; and the history goes on."""
    odd = TokenCounter("odd", lambda message: number if message.text == "odd" else 1)
    for options in ({"counter": odd}, {"window": TokenBudget(5, odd)}):
        history = memory(**options).history("ann", "c1")
        with pytest.raises(InvalidSetting):
            await history.append(human("1"), human("odd"))
        with pytest.raises(InvalidSetting):
            async with history.turn() as turn:
                turn.add(human("1"), human("odd"))
        assert (await history.count(), await history.exists()) == (0, False)
    await history.append(human("2"))
    assert texts(await history.load()) == ["2"]


async def test_what_a_counter_raises_arrives_unchanged(memory: MakeMemory) -> None:
    """R118: the very error, from an append that stores nothing, and from a load that changes nothing."""
    error = LookupError("no such word")

    def broken(message: StoredMessage) -> int:
        raise error

    named = TokenCounter("broken", broken)
    history = memory(counter=named).history("ann", "c1")
    with pytest.raises(LookupError) as caught:
        await history.append(human("1"))
    assert caught.value is error
    assert not await history.exists()
    for codec in ("msgpack", "json"):
        history = memory(codec=codec).history("ann", codec)
        await history.append(human("1"))
        for counter in (broken, named):
            for window in (TokenBudget(5, counter), TokenBudget(5, counter, oldest=True)):
                with pytest.raises(LookupError) as caught:
                    await history.load(window)
                assert caught.value is error
        assert texts(await history.load()) == ["1"]


@pytest.mark.parametrize("number", BAD_COUNTS, ids=repr)
async def test_a_load_whose_counter_gives_no_count_is_refused(memory: MakeMemory, number: Any) -> None:
    """F01: instead of a window that nobody can rely on."""
    history = memory().history("ann", "c1")
    await history.append(human("1"), human("2"))
    for counter in (lambda message: number, TokenCounter("odd", lambda message: number)):
        with pytest.raises(InvalidSetting, match="16,777,215"):
            await history.load(TokenBudget(5, counter))


async def test_a_long_run_of_tools_is_shown_as_far_as_a_budget_reaches(coded: MakeMemory) -> None:
    """F15, F20: one question and 50 exchanges; the system message is kept, pairs are whole, budgets hold."""
    history = coded().history("ann", "c1")
    talk = [system("be kind"), human("q")]
    for number in range(50):
        talk += [call(f"{number}"), result(f"{number}")]
    await history.append(*talk)
    for size in (10, 11):  # an odd number would begin with a result
        for window in (
            TokenBudget(size, each, start_on="human"),
            LastMessages(size, start_on="human"),
            LastTurns(1) & LastMessages(size),
        ):
            assert (await history.load(window)).messages == talk[-10:]
    for window in (TokenBudget(10, each, keep_system=True), LastMessages(10, keep_system=True)):
        assert (await history.load(window)).messages == [talk[0], *talk[-8:]]
    assert (await history.load(TokenBudget(7, each, oldest=True))).messages == talk[:6]


# -- the clock -----------------------------------------------------------------------------------


async def test_ages_go_by_the_servers_clock(coded: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Decision 13: stamps against the server's time of the load; a system message is kept at any age."""
    history = coded().history("ann", "c1")
    await history.append(system("be kind"), human("1"), ai("2"), human("3"), ai("4"))
    made_older(raw, keys, 9000, 5000, 500, 200)
    assert texts(await history.load(Since(100))) == ["4"]
    assert texts(await history.load(Since(minutes=5))) == ["3", "4"]
    assert texts(await history.load(Since(600, start_on="human"))) == ["3", "4"]
    assert texts(await history.load(Since(600, keep_system=True))) == ["be kind", "2", "3", "4"]
    assert texts(await history.load(Since(100) & LastMessages(4))) == ["4"]
    assert texts(await history.load(Since(hours=1) & LastMessages(2))) == ["3", "4"]
    assert len((await history.load(Since(days=1))).messages) == 5


async def test_a_record_of_langchain_is_as_old_as_those_around_it(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 13: it has no time; it goes with an older message behind it, and stays with a newer one."""
    foreign = b'{"type": "human", "data": {"content": "of another library"}}'
    history = memory().history("ann", "c1")
    await history.append(human("1"), human("2"), human("3"))
    raw.lset(keys.messages, 1, foreign)
    made_older(raw, keys, 500)
    assert texts(await history.load(Since(100))) == ["of another library", "3"]
    raw.lset(keys.messages, 0, foreign)
    raw.lset(keys.messages, 2, aged(raw.lindex(keys.messages, 2), 500_000))
    assert texts(await history.load(Since(100))) == []
    assert len((await history.load(Since(1000))).messages) == 3


async def test_what_retention_will_remove_is_kept_by_no_window(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 23: a system message that is too old to be stored is not shown in front, nor by the oldest."""
    await coded().history("ann", "c1").append(system("be kind"), human("1"), human("2"), ai("3"))
    made_older(raw, keys, 900, 300)
    history = coded(retention=MaxAge(600)).history("ann", "c1")
    for window in (
        AllMessages(keep_system=True),
        LastMessages(9, keep_system=True),
        Since(2000, keep_system=True),
        TokenBudget(99, each, oldest=True, keep_system=True),
    ):
        assert texts(await history.load(window)) == ["1", "2", "3"]
    assert texts(await history.load(Since(100, keep_system=True))) == ["2", "3"]
    kept = coded(retention=MaxAge(1000)).history("ann", "c1")
    assert texts(await kept.load(Since(100, keep_system=True))) == ["be kind", "2", "3"]


# -- counters ------------------------------------------------------------------------------------


class Counted:
    """A counter of words that remembers what it was asked to count."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, message: StoredMessage) -> int:
        self.seen.append(message.text)
        return len(message.text.split())


TALK = [human("a b c"), ai("d e"), human("f"), ai("g h i j")]


async def test_tokens_are_counted_once_when_they_are_stored(memory: MakeMemory) -> None:
    """R118, decision 22: no load counts again; the counter of the memory, or of its window."""
    for number, key in enumerate(("counter", "window")):
        counter = Counted()
        named = TokenCounter("counted words", counter)
        one = memory(**{key: named if key == "counter" else TokenBudget(5, named)})
        history = one.history("ann", f"c{number}")
        await history.append(*TALK)
        assert counter.seen == texts(TALK)
        for size, left in ((3, 0), (4, 1), (5, 2), (7, 3), (9, 3), (10, 4)):
            assert (await history.load(TokenBudget(size, named))).messages == TALK[4 - left :]
        same = TokenCounter("counted words", lambda message: 1000)
        assert texts(await history.load(TokenBudget(7, same))) == texts(TALK[1:])
        assert len(counter.seen) == 4


async def test_a_counter_that_is_not_stored_is_exact_all_the_same(coded: MakeMemory) -> None:
    """R118, decision 22: of another name, without a name, built in; from records of both codecs."""
    history = coded(counter=TokenCounter("one", each)).history("ann", "c1")
    await history.append(*TALK)
    for counter in (TokenCounter("counted words", Counted()), Counted()):
        for size, left in ((3, 0), (4, 1), (5, 2), (7, 3), (9, 3), (10, 4)):
            assert (await history.load(TokenBudget(size, counter))).messages == TALK[4 - left :]
    for counter, size, left in ((BYTES_4, 3, 3), (BYTES_4_PLUS_1, 5, 3), (APPROXIMATE, 20, 3)):
        assert (await history.load(TokenBudget(size, counter))).messages == TALK[4 - left :]


async def test_a_change_of_counter_is_exact_from_the_first_worker_on(memory: MakeMemory) -> None:
    """R118, decision 22: records that were counted otherwise are counted again, while they matter."""
    counter = Counted()
    old, new = memory(counter=TokenCounter("one", each)), memory(counter=TokenCounter("words", counter))
    await old.history("ann", "c1").append(*TALK)
    await new.history("ann", "c1").append(*TALK)
    await old.history("ann", "c1").append(human("k l"))
    await new.history("ann", "c1").append(human("m n"))
    history = new.history("ann", "c1")
    everything = [*TALK, *TALK, human("k l"), human("m n")]
    words = TokenBudget(8, TokenCounter("words", counter))
    assert (await history.load(words)).messages == everything[-3:]
    assert len(counter.seen) > 5
    messages = TokenBudget(8, TokenCounter("one", each))
    assert (await old.history("ann", "c1").load(messages)).messages == everything[-8:]
    await history.append(*TALK)
    asked = len(counter.seen)
    assert (await history.load(words)).messages == TALK[1:]
    assert len(counter.seen) == asked


# -- what it costs -------------------------------------------------------------------------------

ONE_TRIP: list[Window] = [
    LastTurns(3),
    TokenBudget(20, WORDS),
    TokenBudget(20, BYTES_4),
    TokenBudget(20, BYTES_4_PLUS_1),
    Since(60),
    LastMessages(9, keep_system=True),
    LastMessages(9, start_on="human"),
    LastMessages(9, max_bytes=100),
    AllMessages(keep_system=True, start_on="ai"),
    LastTurns(3, keep_system=True, start_on="human") & TokenBudget(20, WORDS) & Since(60, max_bytes=100),
]
MORE_TRIPS: list[tuple[Window, int, int]] = [
    (TokenBudget(20, each), 2, 20),
    (TokenBudget(20, TokenCounter("one", each)), 2, 20),
    (TokenBudget(63, each), 2, 63),
    (TokenBudget(64, each), 3, 64),
    (TokenBudget(200, each), 4, 200),
    (TokenBudget(20, WORDS, oldest=True), 2, 20),
    (TokenBudget(1000, each) & LastMessages(64), 2, 64),
]


async def trips(raw: redis.Redis, work: Awaitable[Any]) -> tuple[int, Any]:
    """How often the server was asked while something was awaited, and what came of it."""
    before = reads(raw)
    result = await work
    return reads(raw) - before - 1, result  # less our own look


@real_servers
async def test_every_window_by_headers_is_one_trip(memory: MakeMemory, raw: redis.Redis) -> None:
    """I03, decisions 13, 14, 22: whatever limits it has, for counters that are stored or go by bytes."""
    history = memory(counter=WORDS).history("ann", "c1")
    await history.append(system("be kind"), *TALK * 10)
    await history.load(LastTurns(1))  # the server has the script by now
    for window in ONE_TRIP:
        asked, snapshot = await trips(raw, history.load(window))
        assert asked == 1, window
        assert snapshot.messages


@real_servers
async def test_a_window_that_headers_do_not_tell_reads_by_doubling_pages(
    memory: MakeMemory, raw: redis.Redis
) -> None:
    """Decision 22: counters without a name or of another one, and the oldest; 64 messages, 128, 256."""
    history = memory(counter=WORDS).history("ann", "c1")
    await history.append(*(human("w") for _ in range(500)))
    await history.load(LastTurns(1))
    for window, wanted, size in MORE_TRIPS:
        asked, snapshot = await trips(raw, history.load(window))
        assert (asked, len(snapshot.messages)) == (wanted, size), window


@real_servers
async def test_a_window_over_json_reads_by_doubling_pages(memory: MakeMemory, raw: redis.Redis) -> None:
    """Decision 13: one look for the clock, then pages; the same answer as from headers."""
    history = memory(codec="json").history("ann", "c1")
    await history.append(*(human("w") for _ in range(100)))
    await history.load(LastTurns(1))
    for window, wanted, size in (
        (TokenBudget(20, WORDS), 2, 20),
        (AllMessages(max_bytes=80), 3, 80),
        (Since(60), 3, 100),
    ):
        asked, snapshot = await trips(raw, history.load(window))
        assert (asked, len(snapshot.messages)) == (wanted, size), window


@real_servers
async def test_a_window_brings_about_what_it_returns(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """I03: of 5,000 messages the 50 that are shown and one before them, as the last 50 do."""
    history = memory(counter=WORDS).history("ann", "c1")
    await history.append(human("w " * 100))
    filled(raw, keys, 4999)

    async def sent(window: Window) -> int:
        await history.load(window)
        before = int(raw.info("stats")["total_net_output_bytes"])
        looked = int(raw.info("stats")["total_net_output_bytes"]) - before  # by one look
        assert len((await history.load(window)).messages) == 50
        return int(raw.info("stats")["total_net_output_bytes"]) - before - 2 * looked

    plain = await sent(LastMessages(50))
    for window in (
        TokenBudget(5000, WORDS),
        AllMessages(max_bytes=50 * 200),
        LastMessages(50, start_on="ai"),
    ):
        assert await sent(window) <= 1.2 * plain, window


# -- long histories ------------------------------------------------------------------------------

LONG = 10_000
"""Records that one reply has at most."""


def once(test: Any) -> Any:
    """For what takes long, and where faces and servers do not matter: the test runs on one of each."""
    test = pytest.mark.parametrize("server", [bundled_valkey().version], indirect=True)(test)
    return pytest.mark.parametrize("memory", ["sync"], indirect=True)(test)


@once
@pytest.mark.parametrize("size", [LONG, LONG + 2345])
async def test_a_window_of_thousands_of_messages_is_as_long_as_it_says(
    memory: MakeMemory, raw: redis.Redis, keys: Names, size: int
) -> None:
    """I04: at and beyond what one reply carries, by headers and by messages."""
    history = memory(counter=WORDS).history("ann", "c1")
    await history.append(system("be kind"), human("w"))
    filled(raw, keys, LONG + 3000)
    total = LONG + 3002
    for window in (TokenBudget(size, WORDS), TokenBudget(size, each)):
        assert positions(await history.load(window)) == list(range(total - size, total))
    with_system = positions(await history.load(LastMessages(size, keep_system=True)))
    assert with_system == [0, *range(total - size + 1, total)]
    assert positions(await history.load(LastTurns(1, max_bytes=size))) == list(range(total - size, total))
    oldest = positions(await history.load(TokenBudget(size, BYTES_4, oldest=True)))
    assert oldest == list(range(size))


@once
async def test_all_that_a_long_history_holds_has_room_in_a_window(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """I04: everything, where the limits are wider than the conversation, in few trips where headers tell."""
    history = memory().history("ann", "c1")
    await history.append(human("w"))
    filled(raw, keys, LONG + 500)
    await history.load(LastTurns(1))  # the server has the script by now
    for window in (Since(days=1), TokenBudget(10**9), LastTurns(10**9), TokenBudget(10**9, each)):
        asked, snapshot = await trips(raw, history.load(window))
        assert positions(snapshot) == list(range(LONG + 501))
        # one to see that they are many; each page twice, for copies show no position of their own
        assert asked == 5 or window == TokenBudget(10**9, each)


async def test_a_window_of_too_many_bytes_is_refused_and_a_smaller_one_is_not(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 16, S4: what counts is what the window shows, not what has to be read to find it."""
    await coded().history("ann", "c1").append(*(human("x" * 600) for _ in range(100)))
    room = 6 * len(raw.lindex(keys.messages, -1)) + 10
    history = coded(limits=Limits(load_bytes=room)).history("ann", "c1")

    def windows(size: int) -> list[Window]:
        return [
            LastMessages(size, start_on="human"),
            TokenBudget(size, each),
            TokenBudget(size, each, keep_system=True),
            AllMessages(max_bytes=600 * size + 599),
            TokenBudget(size, each, oldest=True),
        ]

    for window in windows(6):
        assert len((await history.load(window)).messages) == 6
    for size in (7, 9, 100, 1000):
        for window in windows(size):
            with pytest.raises(HistoryTooLarge, match="iterate"):
                await history.load(window)
    with pytest.raises(HistoryTooLarge):
        await history.load(Since(60))
    assert len((await history.load(Since(60) & LastMessages(6))).messages) == 6


@once
async def test_a_window_of_several_pages_is_bound_by_its_own_bytes(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 16, I04: although twice as much may be read to find it."""
    history = memory(limits=Limits(load_bytes=10**6)).history("ann", "c1")
    await history.append(human("x" * 10_000))
    filled(raw, keys, 99)
    await history.append(human("w"))
    filled(raw, keys, LONG + 1000)
    small = len(raw.lindex(keys.messages, -1))
    assert small * (LONG + 1001) < 10**6
    total = LONG + 1101
    for window in (TokenBudget(LONG + 500, each), AllMessages(max_bytes=LONG + 500)):
        assert positions(await history.load(window)) == list(range(total - LONG - 500, total))
    with pytest.raises(HistoryTooLarge):
        await history.load(TokenBudget(LONG + 1100, each))


# -- histories that were damaged -----------------------------------------------------------------


@pytest.mark.parametrize("mended", [False, True], ids=["as it was left", "appended to"])
async def test_a_history_that_lost_records_is_shown_with_its_system_message(
    coded: MakeMemory, raw: redis.Redis, keys: Names, mended: bool
) -> None:
    """P10, R100: by every window, although the positions in the records are no longer those in the list."""
    history = coded().history("ann", "c1")
    await history.append(system("be kind"), *(human(str(number)) for number in range(100)))
    raw.ltrim(keys.messages, 0, 89)
    if mended:
        await history.append(human("new"))
    last = ["88", "new"] if mended else ["87", "88"]
    for window in (
        LastMessages(3, keep_system=True),
        TokenBudget(3, each, keep_system=True),
        TokenBudget(3, TokenCounter("each", each), keep_system=True),
    ):
        assert texts(await history.load(window)) == ["be kind", *last]


async def test_a_damaged_record_in_front_is_no_system_message_and_hides_none(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F10, R100: with skip nothing is kept in front, and it is told; else it is the error."""
    history = coded().history("ann", "c1")
    await history.append(human("0"), system("be kind"), human("1"), ai("2"))
    raw.lset(keys.messages, 0, b"rubbish")
    for window in (LastMessages(2, keep_system=True), TokenBudget(2, each, keep_system=True)):
        assert texts(await history.load(window, on_corrupt="skip")) == ["1", "2"]
        with pytest.raises(CorruptRecord) as caught:
            await history.load(window)
        assert caught.value.position == 0
    for window in (LastMessages(9, keep_system=True), TokenBudget(9, each, oldest=True), Since(60)):
        snapshot = await history.load(window, on_corrupt="skip")
        assert texts(snapshot) == ["be kind", "1", "2"]
        assert [error.position for error in snapshot.skipped] == [0]


async def test_a_strict_window_is_an_error_if_it_reaches_a_damaged_record(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F10: the newest that it reaches, from its end; and none if it does not reach one."""
    history = coded().history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(9)))
    for at in (2, 6):
        raw.lset(keys.messages, at, b"rubbish")
    for window in (LastMessages(2, start_on="human"), LastMessages(2) & TokenBudget(2, each)):
        assert texts(await history.load(window)) == ["7", "8"]
    assert texts(await history.load(TokenBudget(1, each, oldest=True))) == ["0"]
    for window, place in (
        (LastMessages(3, start_on="human"), 6),
        (TokenBudget(2, each), 6),
        (LastMessages(9, start_on="human"), 6),
        (TokenBudget(2, each, oldest=True), 2),
        (TokenBudget(9, each, oldest=True), 2),
    ):
        with pytest.raises(CorruptRecord) as caught:
            await history.load(window)
        assert caught.value.position == place, window


async def test_corrupt_records_that_were_passed_over_are_told(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F10, F11: as far as the window reaches; behind the last message if it shows nothing."""
    history = coded(on_corrupt="skip").history("ann", "c1")
    await history.append(system("be kind"), *(human(f"{number}" * 9) for number in range(8)))
    for at in (1, 4, 8):
        raw.lset(keys.messages, at, b"rubbish")
    for window, shown_places, skipped in (
        (LastMessages(2, start_on="human"), [6, 7], [8]),
        (LastMessages(3, start_on="human"), [5, 6, 7], [8]),
        (LastMessages(4, start_on="human"), [3, 5, 6, 7], [4, 8]),
        (LastMessages(9, start_on="human"), [2, 3, 5, 6, 7], [1, 4, 8]),
        (LastMessages(9, keep_system=True), [0, 2, 3, 5, 6, 7], [1, 4, 8]),
        (TokenBudget(0, each), [], [8]),
        (TokenBudget(2, each, oldest=True), [0, 2], [1]),
        (TokenBudget(3, each, oldest=True), [0, 2, 3], [1, 4]),
    ):
        snapshot = await history.load(window)
        assert positions(snapshot) == shown_places, window
        assert [error.position for error in snapshot.skipped] == skipped, window


# -- others who write meanwhile ------------------------------------------------------------------

Meanwhile = Callable[[str, redis.Redis, Names], None]


def append(url: str, keys: Names, **options: Any) -> None:
    """One more message, by somebody else."""
    with RedisMemory.from_url(url, namespace=keys.meta.split(":")[0], **options) as memory:
        memory.history(keys.user, "c1").append(human("new"))


def begin_anew(url: str, raw: redis.Redis, keys: Names) -> None:
    """Another life, as long as the one before."""
    raw.delete(keys.messages, keys.meta)
    with RedisMemory.from_url(url, namespace=keys.meta.split(":")[0]) as memory:
        memory.history(keys.user, "c1").append(system("be quick"), *(human("new") for _ in range(99)))


MEANWHILE: dict[str, Meanwhile] = {
    "an append": lambda url, raw, keys: append(url, keys),
    "a trim": lambda url, raw, keys: append(url, keys, retention=MaxMessages(90)),
    "another life": begin_anew,
    "an end": lambda url, raw, keys: raw.delete(keys.messages, keys.meta),
}


@real_servers
@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_window_that_is_read_in_steps_shows_one_moment(
    ambush: Ambush, url: str, raw: redis.Redis, namespace: str, meanwhile: str
) -> None:
    """P6, P7: the system message, the messages and the version belong together, whoever comes between."""
    sprung = 0
    with (
        RedisMemory.from_url(url, namespace=namespace, codec="json") as writer,
        RedisMemory.from_url(ambush.url, namespace=namespace) as reader,
    ):
        for window in (TokenBudget(50, each, keep_system=True), TokenBudget(70, each, keep_system=True)):
            for nth in range(1, 10):
                keys = Names.of(namespace, f"user{window.bounds.tokens}.{nth}")
                history = writer.history(keys.user, "c1")
                history.append(system("be kind"), *(human(str(number)) for number in range(99)))
                before = history.load(window)
                ambush.lay(nth, lambda keys=keys: MEANWHILE[meanwhile](url, raw, keys))
                snapshot = reader.history(keys.user, "c1").load(window)
                sprung += ambush.sprung
                moment = before if snapshot.version == before.version else history.load(window)
                assert (texts(snapshot), snapshot.version) == (texts(moment), moment.version)
    assert sprung >= 12
