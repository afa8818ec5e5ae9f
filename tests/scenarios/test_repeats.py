"""One append sent again: it is stored once, and the answer is the first one."""

from __future__ import annotations

import time

import pytest

from memory_redis import AppendId, ConflictError, HistoryCleared, InvalidSetting, UnknownOutcome, ai, human
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.stored import texts

pytestmark = pytest.mark.anyio


async def test_a_repeat_returns_the_first_version_and_stores_nothing(
    coded: MakeMemory, events: list[Event]
) -> None:
    """Case 3.3, P2: also after others appended, and marked as repeated."""
    history = coded(hooks=(events.append,)).history("ann", "c1")
    append_id = AppendId.new()
    first = await history.append(human("1"), ai("2"), append_id=append_id)
    assert not first.repeated
    await history.append(human("3"))
    for same in (append_id, AppendId.parse(str(append_id))):
        again = await history.append(human("1"), ai("2"), append_id=same)
        assert (again, again.repeated) == (first, True)
    assert texts(await history.load()) == ["1", "2", "3"]
    assert [event.kind for event in events].count("repeat") == 2


async def test_a_repeat_does_not_meet_its_own_conflict(memory: MakeMemory) -> None:
    """Rule 3.2: the repeat is recognised before the token is looked at."""
    history = memory().history("ann", "c1")
    seen = await history.append(human("0"))
    append_id = AppendId.new()
    first = await history.append(human("1"), expected=seen, append_id=append_id)
    again = await history.append(human("1"), expected=seen, append_id=append_id)
    assert (again, again.repeated) == (first, True)
    await history.append(human("2"))
    assert (await history.append(human("1"), expected=seen, append_id=append_id)).number == first.number
    assert texts(await history.load()) == ["0", "1", "2"]


async def test_an_append_that_met_a_conflict_is_not_remembered_as_stored(memory: MakeMemory) -> None:
    """P3: the same append may be tried again with the version that the error told."""
    history = memory().history("ann", "c1")
    seen = (await history.load()).version
    await history.append(human("0"))
    append_id = AppendId.new()
    with pytest.raises(ConflictError) as caught:
        await history.append(human("1"), expected=seen, append_id=append_id)
    assert await history.settle(append_id) is None
    version = await history.append(human("1"), expected=caught.value.version, append_id=append_id)
    assert not version.repeated
    assert texts(await history.load()) == ["0", "1"]


async def test_a_repeat_is_recognised_after_two_hundred_other_appends(memory: MakeMemory) -> None:
    """P2: fewer than 256 others within 100 seconds."""
    history = memory().history("ann", "c1")
    append_id = AppendId.new()
    first = await history.append(human("mine"), append_id=append_id)
    for number in range(255):
        await history.append(human(str(number)))
    again = await history.append(human("mine"), append_id=append_id)
    assert (again, again.repeated) == (first, True)
    assert await history.count() == 256


async def test_past_the_ring_nothing_is_guessed(memory: MakeMemory) -> None:
    """P2, P9, decisions 1 and 10: after 300 others the outcome is unknown, and one copy is stored."""
    history = memory().history("ann", "c1")
    stored, never_sent = AppendId.new(), AppendId.new()
    await history.append(human("mine"), append_id=stored)
    for number in range(300):
        await history.append(human(str(number)))
    for append_id in (stored, never_sent, AppendId.parse(str(stored))):
        with pytest.raises(UnknownOutcome) as caught:
            await history.append(human("mine"), append_id=append_id)
        assert caught.value.append_id == append_id
        assert caught.value.outcome == "unknown"
        with pytest.raises(UnknownOutcome):
            await history.settle(append_id)
    assert await history.count() == 301
    assert texts(await history.load()).count("mine") == 1
    assert (await history.append(human("another"))).number == 302


async def test_settle_tells_what_became_of_an_append(memory: MakeMemory) -> None:
    """P9, decision 10: stored with its version, or not stored."""
    history = memory().history("ann", "c1")
    stored, other = AppendId.new(), AppendId.new()
    version = await history.append(human("1"), append_id=stored)
    await history.append(human("2"))
    for append_id in (stored, AppendId.parse(str(stored))):
        assert await history.settle(append_id) == version
    assert await history.settle(other) is None
    assert await history.settle(AppendId.parse(str(other))) is None
    assert await memory().history("ann", "c2").settle(stored) is None


async def test_an_append_that_was_not_stored_can_be_sent_under_its_id(memory: MakeMemory) -> None:
    """Decision 10: an id that settled as not stored is good for the append itself."""
    history = memory().history("ann", "c1")
    await history.append(human("0"))
    append_id = AppendId.parse(str(AppendId.new()))
    assert await history.settle(append_id) is None
    version = await history.append(human("1"), append_id=append_id)
    assert not version.repeated
    assert await history.settle(append_id) == version
    again = await history.append(human("1"), append_id=append_id)
    assert (again, again.repeated) == (version, True)
    assert texts(await history.load()) == ["0", "1"]


async def test_a_repeat_from_before_a_clear_brings_nothing_back(memory: MakeMemory) -> None:
    """Decision 2: whether it had been stored or was still on its way."""
    history = memory().history("ann", "c1")
    stored, under_way = AppendId.new(), AppendId.new()
    await history.append(human("1"), append_id=stored)
    later = time.monotonic() + 0.02
    while time.monotonic() < later:  # the clear comes clearly after both were made
        await history.count()
    await history.clear()
    with pytest.raises(HistoryCleared) as caught:
        await history.append(human("2"), append_id=under_way)
    assert caught.value.unsaved == [human("2")]
    assert (await history.append(human("1"), append_id=stored)).repeated
    assert await history.exists() is False
    await history.append(human("3"))
    assert (await history.append(human("1"), append_id=stored)).repeated
    assert texts(await history.load()) == ["3"]


async def test_an_id_and_an_idempotency_key_are_not_given_together(memory: MakeMemory) -> None:
    """Decision 10: an append has one name."""
    history = memory().history("ann", "c1")
    with pytest.raises(InvalidSetting):
        await history.append(human("1"), append_id=AppendId.new(), idempotency_key="k")
    assert await history.exists() is False
