"""Bytes in the list that are no record: they hide nothing else and block nothing."""

from __future__ import annotations

import pickle

import pytest
import redis

from memory_redis import (
    ConflictError,
    CorruptRecord,
    HistoryTooLarge,
    InvalidSetting,
    LastMessages,
    Limits,
    MaxMessages,
    RedisMemory,
    UnsupportedFormat,
    human,
)
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.ambush import Ambush
from tests.scenarios.stored import Names, positions, real_servers, texts

pytestmark = pytest.mark.anyio

RUBBISH = {
    "empty": b"",
    "noise": b"\xff\xfe\x00rubbish",
    "truncated header": b"\x01\x01\x00",
    "not JSON": b'{"type": "human", "data": ',
    "JSON without content": b'{"type": "human", "data": {}}',
    "JSON of an unknown type": b'{"type": "alien", "data": {"content": "x"}}',
    "JSON that is no object": b"{}",
    "NaN": b'{"type": "human", "data": {"content": "x", "score": NaN}}',
    "a constructor": b'{"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}',
    "deep JSON": b'{"type": "human", "data": {"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_a_corrupt_record_is_told_with_its_position_and_hides_nothing(
    coded: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event], rubbish: bytes
) -> None:
    """P10, S1, decision 19: raised by default; with skip it is left out, listed and reported."""
    history = coded(hooks=(events.append,)).history("ann", "c1")
    await history.append(human("0"), human("1"), human("2"))
    raw.lset(keys.messages, 1, rubbish)
    with pytest.raises(CorruptRecord) as caught:
        await history.load()
    assert caught.value.position == 1
    snapshot = await history.load(on_corrupt="skip")
    assert (texts(snapshot), positions(snapshot)) == (["0", "2"], [0, 2])
    assert [error.position for error in snapshot.skipped] == [1]
    assert snapshot.version.number == 3
    (event,) = [event for event in events if event.kind == "corrupt"]
    assert event.messages == 1
    version = await history.append(human("3"), expected=snapshot.version)
    assert version.number == 4
    assert texts(await history.load(LastMessages(2))) == ["2", "3"]


async def test_pickled_bytes_are_never_unpickled(
    memory: MakeMemory, raw: redis.Redis, keys: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K03, K04: a payload with a side effect is a corrupt record on every path."""
    history = memory(on_corrupt="skip").history("ann", "c1")
    await history.append(human("0"))
    raw.rpush(keys.messages, pickle.dumps(Explosive()))
    assert len((await history.load()).skipped) == 1
    assert [message.text async for message in history.iterate()] == ["0"]
    with pytest.raises(CorruptRecord):
        await history.load(on_corrupt="raise")
    assert Explosive.exploded == []


class Explosive:
    """Says so when it is unpickled."""

    exploded: list[str] = []  # noqa: RUF012

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Explosive.exploded.append, ("boom",)


async def test_a_record_from_the_future_asks_for_an_upgrade(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 18: UnsupportedFormat, not CorruptRecord; skip passes over it as well."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), human("1"))
    record = raw.lindex(keys.messages, 0)
    raw.lset(keys.messages, 0, b"\x02" + record[1:])
    with pytest.raises(UnsupportedFormat) as caught:
        await history.load()
    assert caught.value.position == 0
    snapshot = await history.load(on_corrupt="skip")
    assert texts(snapshot) == ["1"]
    assert isinstance(snapshot.skipped[0], UnsupportedFormat)


@pytest.mark.parametrize("wanted", [1, 2, 3, 4])
async def test_a_window_reads_on_past_corrupt_records(
    coded: MakeMemory, raw: redis.Redis, keys: Names, wanted: int
) -> None:
    """F10: under skip the last n are the last n valid ones; under raise it is an error."""
    history = coded().history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(7)))
    for at in (2, 3, 5, 6):
        raw.lset(keys.messages, at, b"rubbish")
    snapshot = await history.load(LastMessages(wanted), on_corrupt="skip")
    assert texts(snapshot) == ["0", "1", "4"][-wanted:]
    with pytest.raises(CorruptRecord):
        await history.load(LastMessages(wanted))


async def test_what_a_window_of_messages_passes_over_is_told_as_far_as_it_reaches(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F10: not what stands before the oldest that it shows; all, if there are too few to show."""
    history = coded(on_corrupt="skip").history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(9)))
    for at in (0, 2, 5, 7, 8):
        raw.lset(keys.messages, at, b"rubbish")
    for wanted, shown, skipped in (
        (1, [6], [7, 8]),
        (2, [4, 6], [5, 7, 8]),
        (3, [3, 4, 6], [5, 7, 8]),
        (4, [1, 3, 4, 6], [2, 5, 7, 8]),
        (5, [1, 3, 4, 6], [0, 2, 5, 7, 8]),
    ):
        snapshot = await history.load(LastMessages(wanted))
        assert positions(snapshot) == shown
        assert [error.position for error in snapshot.skipped] == skipped


async def test_reading_on_past_corrupt_records_ends_at_the_limit_of_a_load(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """F10, decision 16: what is read further back counts as far as it is shown."""
    history = memory(limits=Limits(load_bytes=5000), on_corrupt="skip").history("ann", "c1")
    await history.append(*(human("x" * 600) for _ in range(20)))
    raw.lset(keys.messages, -2, b"rubbish")
    assert positions(await history.load(LastMessages(6))) == [13, 14, 15, 16, 17, 19]
    with pytest.raises(HistoryTooLarge):
        await history.load(LastMessages(8))


@real_servers
async def test_a_window_that_reads_on_shows_no_more_when_others_write_meanwhile(
    ambush: Ambush, raw: redis.Redis, keys: Names, namespace: str, url: str
) -> None:
    """F10, P6: the newest n of one moment, whatever comes before each request."""
    with (
        RedisMemory.from_url(url, namespace=namespace) as writer,
        RedisMemory.from_url(ambush.url, namespace=namespace, on_corrupt="skip") as reader,
    ):
        history = writer.history("ann", "c1")
        for nth in range(1, 10):
            history.append(human("old"), human("old"))
            raw.lset(keys.messages, -1, b"rubbish")
            ambush.lay(nth, lambda: history.append(human("new"), human("new")))
            snapshot = reader.history("ann", "c1").load(LastMessages(1))
            assert texts(snapshot) in (["old"], ["new"])
            assert snapshot.version.number - 1 - (positions(snapshot)[0] or 0) == len(snapshot.skipped)


async def test_a_strict_window_does_not_see_corrupt_records_before_it(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F10: only records of the window are decoded."""
    history = memory().history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(5)))
    raw.lset(keys.messages, 1, b"rubbish")
    assert texts(await history.load(LastMessages(3))) == ["2", "3", "4"]
    with pytest.raises(CorruptRecord):
        await history.load(LastMessages(4))


async def test_a_history_of_nothing_but_rubbish_is_read_and_goes_on(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, F11: empty is only said when it is empty, and the next message is stored."""
    history = memory(on_corrupt="skip").history("ann", "c1")
    await history.append(human("0"), human("1"))
    for at in range(2):
        raw.lset(keys.messages, at, b"rubbish")
    for window in (None, LastMessages(1), LastMessages(10**9)):
        snapshot = await history.load(window)
        assert snapshot.messages == []
        assert snapshot.skipped
    assert await history.count() == 2
    assert await history.exists()
    await history.append(human("2"))
    assert texts(await history.load()) == ["2"]


async def test_positions_of_corrupt_records_count_what_was_trimmed(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10: the position is that of all messages ever appended."""
    history = memory(retention=MaxMessages(3)).history("ann", "c1")
    for number in range(10):
        await history.append(human(str(number)))
    raw.lset(keys.messages, -1, b"rubbish")
    with pytest.raises(CorruptRecord) as caught:
        await history.load()
    assert caught.value.position == 9
    assert [error.position for error in (await history.load(on_corrupt="skip")).skipped] == [9]


async def test_pages_skip_or_raise_as_loads_do(
    memory: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event]
) -> None:
    """P10: what stands before a corrupt record is given, then the error; or it is passed over."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(6)))
    raw.lset(keys.messages, 3, b"rubbish")
    seen: list[str] = []

    async def read() -> None:
        async for message in history.iterate(page_size=2):
            seen.append(message.text)

    with pytest.raises(CorruptRecord) as caught:
        await read()
    assert (seen, caught.value.position) == (["0", "1"], 3)
    pages = [message.text async for message in history.iterate(page_size=2, on_corrupt="skip")]
    assert pages == ["0", "1", "2", "4", "5"]
    assert [event.messages for event in events if event.kind == "corrupt"] == [1]


async def test_corrupt_records_among_missed_ones_do_not_hide_the_conflict(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, decision 4: the conflict is told, with those messages that can be read."""
    history = memory().history("ann", "c1")
    seen = await history.append(human("0"))
    await history.append(human("1"), human("2"))
    raw.lset(keys.messages, 1, b"rubbish")
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert caught.value.missed_count == 2
    assert (texts(caught.value.missed), positions(caught.value.missed)) == (["2"], [2])


async def test_a_record_of_another_conversation_is_not_shown(
    coded: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """S9, S7: the owner tag turns a mix-up into an error instead of a leak."""
    one = coded()
    await one.history("bob", "c1").append(human("bob's secret"))
    await one.history("ann", "c1").append(human("0"))
    raw.rpush(keys.messages, raw.lindex(Names.of(namespace, "bob").messages, 0))
    with pytest.raises(CorruptRecord) as caught:
        await one.history("ann", "c1").load()
    assert caught.value.position == 1
    assert "secret" not in f"{caught.value!r} {caught.value}"
    assert texts(await one.history("ann", "c1").load(on_corrupt="skip")) == ["0"]
    pages = [m.text async for m in one.history("ann", "c1").iterate(on_corrupt="skip")]
    assert pages == ["0"]


async def test_a_record_above_the_limit_is_not_decoded(memory: MakeMemory) -> None:
    """S4: the limit of the reader holds, whoever wrote the record."""
    await memory().history("ann", "c1").append(human("0"), human("x" * 3000))
    strict = memory(limits=Limits(record_bytes=1000)).history("ann", "c1")
    with pytest.raises(CorruptRecord) as caught:
        await strict.load()
    assert caught.value.position == 1


@pytest.mark.parametrize("value", ["ignore", "", None, True])
async def test_an_unknown_way_with_corrupt_records_is_refused(memory: MakeMemory, value: str | None) -> None:
    """Decision 19: raise or skip."""
    with pytest.raises(InvalidSetting):
        memory(on_corrupt=value)
    if value is not None:
        with pytest.raises(InvalidSetting):
            await memory().history("ann", "c1").load(on_corrupt=value)
