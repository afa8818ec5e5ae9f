"""Keys that callers give to an append or a turn, so that a request sent twice is stored once."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest
import redis

from memory_redis import (
    InvalidSetting,
    MaxMessages,
    SlidingExpiry,
    TurnAlreadyStored,
    Version,
    ai,
    human,
)
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, positions, texts

pytestmark = pytest.mark.anyio


async def test_a_second_append_under_a_key_stores_nothing(coded: MakeMemory) -> None:
    """Decision 5: it gives the first version, flagged as repeated, in any worker, whatever came between."""
    first = await coded().history("ann", "c1").append(human("1"), idempotency_key="request 7")
    await coded().history("ann", "c1").append(human("2"))
    history = coded().history("ann", "c1")
    again = await history.append(human("1"), idempotency_key="request 7")
    assert (again, again.repeated, first.repeated) == (first, True, False)
    assert texts(await history.load()) == ["1", "2"]


async def test_the_same_key_with_other_content_gives_the_first(memory: MakeMemory) -> None:
    """Decision 5: the first wins, flagged as repeated."""
    history = memory().history("ann", "c1")
    first = await history.append(human("1"), idempotency_key="k")
    again = await history.append(human("other"), ai("more"), idempotency_key="k")
    assert (again, again.repeated) == (first, True)
    assert texts(await history.load()) == ["1"]


async def test_a_key_belongs_to_one_conversation(memory: MakeMemory) -> None:
    """Decision 5: another conversation, user or session may use the same one."""
    one = memory()
    for history in (one.history("ann", "c1"), one.history("ann", "c2"), one.session("c1")):
        assert not (await history.append(human("1"), idempotency_key="k")).repeated
        assert await history.count() == 1


async def test_a_key_is_recognised_before_the_expected_version(memory: MakeMemory) -> None:
    """Decision 5, rule 3.2: a request sent twice does not conflict with itself."""
    history = memory().history("ann", "c1")
    first = await history.append(human("1"), idempotency_key="k", expected=Version())
    await history.append(human("2"))
    again = await history.append(human("1"), idempotency_key="k", expected=Version())
    assert (again, again.repeated) == (first, True)


async def test_a_repeat_is_answered_though_its_token_is_stale(memory: MakeMemory) -> None:
    """Decision 5, rule 3.2: what is stored is stored; a conflict comes after that, or not at all."""
    history = memory().history("ann", "c1")
    await history.append(human("0"))
    first = await history.append(human("1"), idempotency_key="k")
    again = await history.append(human("1"), idempotency_key="k", expected=Version())
    assert (again, again.repeated) == (first, True)
    async with history.turn(idempotency_key="k2", on_conflict="raise") as late:
        await history.append(human("of another worker"))
        second = await history.append(human("2"), idempotency_key="k2")
        late.add(human("2"))
    assert (late.version, late.version.repeated) == (second, True)
    assert texts(await history.load()) == ["0", "1", "of another worker", "2"]


async def test_a_request_sent_by_four_workers_at_once_is_stored_once(memory: MakeMemory) -> None:
    """F19 of the fault programme: one stored append, four equal answers, in each of 20 rounds."""
    histories = [memory().history("ann", "c1") for _ in range(4)]
    for number in range(20):
        versions: list[Version] = []

        async def send(worker: int, key: str, versions: list[Version]) -> None:
            versions.append(await histories[worker].append(human(key), idempotency_key=key))

        async with anyio.create_task_group() as tasks:
            for worker in range(4):
                tasks.start_soon(send, worker, str(number), versions)
        assert len({str(version) for version in versions}) == 1
        assert sorted(version.repeated for version in versions) == [False, True, True, True]
    assert texts(await histories[0].load()) == [str(number) for number in range(20)]


async def test_the_newest_256_keys_are_held(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Decision 5: bounded; within the bound a repeat is recognised, beyond it the key is free again."""
    history = memory().history("ann", "c1")
    for number in range(300):
        await history.append(human(str(number)), idempotency_key=f"key {number}")
    size = raw.hstrlen(keys.meta, "k")
    assert size <= 256 * 28
    for number in (299, 44):
        assert (await history.append(human("again"), idempotency_key=f"key {number}")).repeated
    assert not (await history.append(human("again"), idempotency_key="key 0")).repeated
    assert raw.hstrlen(keys.meta, "k") == size
    assert await history.count() == 301


async def test_many_appends_without_a_key_do_not_push_a_key_out(memory: MakeMemory) -> None:
    """Decision 5: keys have a field of their own."""
    history = memory().history("ann", "c1")
    first = await history.append(human("mine"), idempotency_key="k")
    for number in range(300):
        await history.append(human(str(number)))
    assert (await history.append(human("mine"), idempotency_key="k")) == first
    assert await history.count() == 301


@pytest.mark.parametrize("memory", ["sync"], indirect=True)  # the shortest hold is a whole second
async def test_a_key_is_held_no_longer_than_it_was_asked_for(memory: MakeMemory) -> None:
    """Decision 5: after the hold the same key names another append."""
    history = memory(idempotency_hold=timedelta(seconds=1)).history("ann", "c1")
    await history.append(human("0"), idempotency_key="daily report")
    assert (await history.append(human("0"), idempotency_key="daily report")).repeated

    async def stored_again() -> bool:
        return not (await history.append(human("1"), idempotency_key="daily report")).repeated

    await eventually(stored_again, "the key is free again", 4)
    assert texts(await history.load()) == ["0", "1"]


async def test_a_key_is_held_no_longer_than_its_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 5: it ends with the conversation's expiry."""
    history = memory(expiry=SlidingExpiry(0.1)).history("ann", "c1")
    await history.append(human("1"), idempotency_key="k")
    await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
    version = await history.append(human("2"), idempotency_key="k")
    assert (version.number, version.repeated) == (1, False)


async def test_a_turn_whose_key_is_stored_gives_the_stored_answer(coded: MakeMemory) -> None:
    """Decision 5: a repeat after the commit costs no model call, and committing it again changes nothing."""
    history = coded().history("ann", "c1")
    async with history.turn(idempotency_key="k") as turn:
        assert turn.stored is None
        turn.add(human("1"), ai("2"))
    await history.append(human("3"))
    async with coded().history("ann", "c1").turn(idempotency_key="k") as again:
        assert again.stored == [human("1"), ai("2")]
        assert positions(again.stored) == [0, 1]
        again.add(human("1"), ai("another answer"))
    assert again.version == turn.version
    assert again.version.repeated
    assert texts(await history.load()) == ["1", "2", "3"]


async def test_a_window_does_not_hide_the_stored_answer(memory: MakeMemory) -> None:
    """Decision 5: the stored turn is found wherever it stands by now."""
    history = memory().history("ann", "c1")
    await history.append(human("0"))
    await history.append(human("1"), ai("2"), idempotency_key="k")
    for number in range(40):
        await history.append(human(f"later {number}"))
    async with history.turn(idempotency_key="k") as turn:
        assert texts(turn.stored) == ["1", "2"]


async def test_overlapping_turns_under_one_key_store_one_answer(memory: MakeMemory) -> None:
    """Decisions 4 and 5: both may call the model; the second is told of the first, and what both missed."""
    history = memory().history("ann", "c1")
    await history.append(human("0"))
    async with history.turn(idempotency_key="k") as late:
        async with history.turn(idempotency_key="k") as early:
            await history.append(human("of another worker"))
            early.add(human("1"), ai("2"))
        late.add(human("1"))
    assert late.version == early.version
    assert (early.version.repeated, late.version.repeated) == (False, True)
    assert texts(await history.load()) == ["0", "of another worker", "1", "2"]
    for turn in (early, late):
        assert turn.conflict.missed_count == 1
        assert texts(turn.missed) == ["of another worker"]
        assert positions(turn.missed) == [1]


async def test_a_stored_turn_that_was_trimmed_says_so(memory: MakeMemory) -> None:
    """Decision 5: TurnAlreadyStored carries the version that the turn got."""
    history = memory(retention=MaxMessages(3)).history("ann", "c1")
    version = await history.append(human("1"), ai("2"), idempotency_key="k")
    await history.append(human("3"), ai("4"))
    with pytest.raises(TurnAlreadyStored) as caught:
        async with history.turn(idempotency_key="k"):
            pytest.fail("the turn must not begin")
    assert caught.value.version == version
    assert caught.value.outcome == "stored"
    assert texts(await history.load()) == ["3", "4"] or texts(await history.load()) == ["2", "3", "4"]


async def test_a_stored_turn_that_was_cleared_brings_nothing_back(memory: MakeMemory) -> None:
    """Decisions 2 and 5: the request sent again after a clear stores nothing."""
    history = memory().history("ann", "c1")
    await history.append(human("1"), idempotency_key="k")
    await history.clear()
    assert (await history.append(human("1"), idempotency_key="k")).repeated
    with pytest.raises(TurnAlreadyStored):
        async with history.turn(idempotency_key="k"):
            pytest.fail("the turn must not begin")
    assert await history.exists() is False


@pytest.mark.parametrize("key", ["", 7, b"k"])
async def test_a_key_is_a_text(memory: MakeMemory, key: object) -> None:
    """Decision 7: anything else is refused, by an append and by a turn before it begins."""
    history = memory().history("ann", "c1")
    with pytest.raises(InvalidSetting):
        await history.append(human("1"), idempotency_key=key)
    with pytest.raises(InvalidSetting):
        history.turn(idempotency_key=key)
    assert await history.exists() is False


async def test_any_text_is_a_key(memory: MakeMemory) -> None:
    """Decision 17: awkward keys are kept apart."""
    history = memory().history("ann", "c1")
    awkward = [" ", "\0", "k", "K", "k ", "\ud800", "\udfff", "\ufffd", "x" * 10_000, "é", "e\u0301"]
    for key in awkward:
        assert not (await history.append(human("1"), idempotency_key=key)).repeated
    for key in awkward:
        assert (await history.append(human("1"), idempotency_key=key)).repeated
