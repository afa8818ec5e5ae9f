"""A key of a conversation is gone, edited by hand, or something else altogether."""

from __future__ import annotations

import pytest
import redis

from memory_redis import ConflictError, WrongType, human
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, keys_in, positions, texts

pytestmark = pytest.mark.anyio


async def test_with_the_list_gone_versions_go_on_and_the_old_token_is_refused(
    memory: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event]
) -> None:
    """Case 3.3, P7, P10: an evicted list is healed; what was lost looks trimmed."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    old = await history.append(human("1"), human("2"))
    raw.delete(keys.messages)
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=old)
    assert caught.value.missed_count == 0
    assert await history.count() == 0
    snapshot = await history.load()
    assert snapshot.messages == []
    assert snapshot.version.number > old.number
    assert snapshot.trimmed == snapshot.version.number
    new = await history.append(human("3"), expected=snapshot.version)
    assert new.number == snapshot.version.number + 1
    assert positions(await history.load()) == [new.number - 1]
    assert "heal" in [event.kind for event in events]


async def test_a_healed_conversation_stays_healed(
    memory: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event]
) -> None:
    """P10: an append writes the repair down, so it is made and told once."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    await history.append(human("1"), human("2"))
    raw.delete(keys.messages)
    await history.append(human("3"))
    events.clear()
    await history.append(human("4"))
    snapshot = await history.load()
    assert [event.kind for event in events] == ["append", "load"]
    assert texts(snapshot) == ["3", "4"]


async def test_a_list_that_was_lost_and_made_again_to_its_length_refuses_the_old_token(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P7, P8: the number of messages alone proves nothing."""
    history = memory().history("ann", "c1")
    old = await history.append(human("1"), human("2"))
    raw.delete(keys.messages)
    await history.append(human("other 1"), human("other 2"))
    with pytest.raises(ConflictError):
        await history.append(human("3"), expected=old)
    assert texts(await history.load()) == ["other 1", "other 2"]


async def test_with_the_meta_gone_the_old_token_is_refused_and_a_new_one_works(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Case 3.3, P7: the messages stay readable; a fresh load gives a token that holds."""
    history = memory().history("ann", "c1")
    old = await history.append(human("1"), human("2"))
    raw.delete(keys.meta)
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=old)
    assert caught.value.unsaved == [human("3")]
    assert raw.exists(keys.meta) == 0
    snapshot = await history.load()
    assert texts(snapshot) == ["1", "2"]
    version = await history.append(human("3"), expected=snapshot.version)
    assert version.number == 3
    with pytest.raises(ConflictError):
        await history.append(human("4"), expected=snapshot.version)
    assert texts(await history.load()) == ["1", "2", "3"]


async def test_with_the_meta_gone_the_conversation_is_entered_in_the_index_again(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 12: nobody knows any more whether it is in there."""
    one = memory()
    await one.history("ann", "c1").append(human("1"))
    raw.delete(keys.meta, keys.index)
    await one.history("ann", "c1").append(human("2"))
    assert [info.conversation_id async for info in one.conversations("ann")] == ["c1"]


async def test_messages_pushed_by_hand_count_and_conflict(
    memory: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event]
) -> None:
    """F13 of the fault programme: a list that grew outside is healed, the token from before refused."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    old = await history.append(human("1"))
    raw.rpush(keys.messages, raw.lindex(keys.messages, 0))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("2"), expected=old)
    assert caught.value.missed_count == 1
    version = await history.append(human("2"))
    assert version.number == 3
    assert texts(await history.load()) == ["1", "1", "2"]
    assert "heal" in [event.kind for event in events]


async def test_messages_removed_by_hand_count_as_an_edit(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P7, decision 6: a list that shrank outside refuses every token from before."""
    history = memory().history("ann", "c1")
    old = await history.append(human("1"), human("2"), human("3"))
    raw.rpop(keys.messages)
    with pytest.raises(ConflictError) as caught:
        await history.append(human("4"), expected=old)
    assert caught.value.edited
    assert not caught.value.expired
    snapshot = await history.load()
    assert snapshot.version.number > old.number
    await history.append(human("4"), expected=snapshot.version)
    assert texts(await history.load()) == ["1", "2", "4"]


@pytest.mark.parametrize("half", ["messages", "meta"])
async def test_a_key_of_another_type_is_a_clear_error_and_nothing_is_written(
    memory: MakeMemory, raw: redis.Redis, keys: Names, half: str
) -> None:
    """A20, P3, case 3.3: appends are refused however often they are tried, and never doubled."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    key = getattr(keys, half)
    raw.rename(key, f"{key}:aside")
    raw.set(key, "not ours")
    other = keys.meta if half == "messages" else keys.messages
    before = raw.dump(other)
    for _ in range(3):
        with pytest.raises(WrongType) as caught:
            await history.append(human("2"))
        assert caught.value.outcome == "not_stored"
    with pytest.raises(WrongType):
        await history.load()
    assert raw.get(key) == b"not ours"
    assert raw.dump(other) == before
    raw.rename(f"{key}:aside", key)
    await history.append(human("2"))
    assert texts(await history.load()) == ["1", "2"]


async def test_an_index_of_another_type_refuses_the_first_append_whole(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """A20, decision 12: a conversation that cannot be entered in the index is not begun."""
    raw.set(keys.index, "not ours")
    history = memory().history("ann", "c1")
    for _ in range(3):
        with pytest.raises(WrongType) as caught:
            await history.append(human("1"))
        assert caught.value.outcome == "not_stored"
    assert keys_in(raw, namespace) == [keys.index]
    raw.delete(keys.index)
    await history.append(human("1"))
    assert texts(await history.load()) == ["1"]
