"""A user's conversations: listing and erasing them."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from memory_redis import InvalidId, InvalidSetting, SlidingExpiry, WrongType, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, keys_in, listed_in, texts

pytestmark = pytest.mark.anyio

HOSTILE = [
    *("x[ab]", "xa", "xb", "x*", "x?", "x\\", "*", "?", "[a-z]", "{}", "}", "{", "a}b", "a{b", "a:b", ":"),
    *("%", "%3A", "a%3Ab", "\0", " ", "\n", "\r\n", "'", '"', "~", "../..", "\U0001f600", "a\U0001f600"),
    *(unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "x" * 10_000, "x" * 10_001),
]


async def ids(memory: Any, user: str, **options: Any) -> list[str]:
    """The ids of a user's conversations as they are listed."""
    return [info.conversation_id async for info in memory.conversations(user, **options)]


async def test_conversations_are_listed_newest_first(coded: MakeMemory) -> None:
    """H20, decision 12: with counts, time and end; sessions and other users are not among them."""
    one = coded(expiry=lambda user: SlidingExpiry(60))
    start = datetime.now(UTC) - timedelta(seconds=1)
    for number in range(3):
        await one.history("ann", f"c{number}").append(*(human("x") for _ in range(number + 1)))
    await one.session("s1").append(human("x"))
    await one.history("bob", "c9").append(human("x"))
    infos = [info async for info in one.conversations("ann")]
    assert [(info.conversation_id, info.messages) for info in infos] == [("c2", 3), ("c1", 2), ("c0", 1)]
    assert all(info.user_id == "ann" for info in infos)
    assert all(start < info.last_active < datetime.now(UTC) + timedelta(seconds=1) for info in infos)
    assert all(50 < info.expire_in <= 60 for info in infos)
    assert "ann" not in repr(infos)


async def test_a_conversation_that_does_not_end_says_so(memory: MakeMemory) -> None:
    """Decision 9: None is unlimited."""
    one = memory()
    await one.history("ann", "c1").append(human("1"))
    assert [info.expire_in async for info in one.conversations("ann")] == [None]


@pytest.mark.parametrize("size", [1, 2, 5, 11, 12, 1000])
async def test_pages_give_every_conversation_once(memory: MakeMemory, size: int) -> None:
    """H20: whatever the size of the pages is to their number."""
    one = memory()
    for number in range(11):
        await one.history("ann", f"c{number}").append(human("x"))
    assert await ids(one, "ann", page_size=size) == [f"c{number}" for number in reversed(range(11))]


@pytest.mark.parametrize("size", [0, -1, 1001, True, None, 10.0])
async def test_a_page_size_that_cannot_be_meant_is_refused(memory: MakeMemory, size: Any) -> None:
    """Decision 7: from 1 to 1,000."""
    with pytest.raises(InvalidSetting):
        memory().conversations("ann", page_size=size)


@pytest.mark.parametrize("bad", ["", None, 7, b"ann", "\ud800"])
async def test_ids_are_texts(memory: MakeMemory, bad: Any) -> None:
    """Decision 20, E12, R23: neither empty nor coerced, and never a default."""
    one = memory()
    for use in (
        lambda: one.history(bad, "c1"),
        lambda: one.history("ann", bad),
        lambda: one.session(bad),
        lambda: one.conversations(bad),
    ):
        with pytest.raises(InvalidId):
            use()
    with pytest.raises(InvalidId):
        await one.forget(bad)


async def test_every_listed_id_reads_back(memory: MakeMemory) -> None:
    """H14, H09: hostile ids come out of the listing as they went in, and each leads to its messages."""
    one = memory()
    for name in HOSTILE:
        await one.history("ann", name).append(human(f"of {name}"))
    listed = await ids(one, "ann", page_size=7)
    assert listed == HOSTILE[::-1]
    for name in listed:
        assert texts(await one.history("ann", name).load()) == [f"of {name}"]


async def test_each_of_many_awkward_users_has_a_list_of_their_own(memory: MakeMemory) -> None:
    """H09, R24: listing and forgetting one of them touches no other."""
    one = memory()
    for user in HOSTILE:
        await one.history(user, "c1").append(human(user))
    for number, user in enumerate(HOSTILE):
        assert await ids(one, user) == ["c1"]
        assert (await one.forget(user)).messages == 1
        left = [len(await ids(one, other)) for other in HOSTILE]
        assert left == [0] * (number + 1) + [1] * (len(HOSTILE) - number - 1)


async def test_ended_conversations_are_not_listed(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """H14: an id that is listed has messages."""
    await memory(expiry=SlidingExpiry(0.05)).history("ann", "c1").append(human("1"))
    one = memory()
    await one.history("ann", "c2").append(human("1"))
    await one.history("ann", "c3").append(human("1"))
    await one.history("ann", "c3").clear()
    await eventually(lambda: not raw.exists(keys.messages), "c1 ended")
    assert await ids(one, "ann") == ["c2"]


async def test_stale_entries_are_pruned_and_fresh_ones_are_not(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decision 12: an entry younger than two minutes may belong to an append that is on its way."""
    now = int(raw.time()[0]) * 1000
    raw.zadd(keys.index, {"stale": now - 130_000, "staler": 1, "fresh": now - 60_000})
    one = memory()
    await one.history("ann", "c1").append(human("1"))
    raw.zadd(keys.index, {"c1": now - 500_000})
    assert await ids(one, "ann", page_size=1) == ["c1"]
    assert listed_in(raw, keys) == {"c1", "fresh"}


async def test_forget_erases_everything_of_one_user(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """S8, H18: counts are returned, a second run finds nothing, others and sessions are untouched."""
    one = memory()
    for number in range(5):
        await one.history("ann", f"c{number}").append(human("secret"), ai("secret"))
    await one.history("bob", "c0").append(human("bob's"))
    await one.session("ann").append(human("session's"))
    forgotten = await one.forget("ann")
    assert (forgotten.conversations, forgotten.messages) == (5, 10)
    again = await one.forget("ann")
    assert (again.conversations, again.messages) == (0, 0)
    assert await ids(one, "ann") == []
    assert [await one.history("ann", f"c{number}").exists() for number in range(5)] == [False] * 5
    assert await ids(one, "bob") == ["c0"]
    assert texts(await one.history("bob", "c0").load()) == ["bob's"]
    assert texts(await one.session("ann").load()) == ["session's"]
    assert listed_in(raw, Names.of(namespace)) == set()
    mine = [key for key in keys_in(raw, namespace) if "{ann:" in key]
    assert all(key.endswith(":meta") and 0 < raw.pttl(key) <= 100_000 for key in mine)
    assert b"secret" not in b"".join(raw.dump(key) for key in mine)


async def test_forget_reaches_more_conversations_than_pages_hold(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """S8, H20: in one call, also those below 1,200 entries whose conversations ended long ago."""
    one = memory()
    for number in range(130):
        await one.history("ann", f"c{number}").append(human("x"))
    now = int(raw.zscore(keys.index, "c129"))
    raw.zadd(keys.index, {f"ended{number}": now + 1 + number for number in range(1200)})
    assert (await one.forget("ann")).conversations == 130
    assert listed_in(raw, keys) == set()
    assert await ids(one, "ann") == []


async def test_clearing_one_conversation_leaves_the_others(memory: MakeMemory) -> None:
    """H18: exactly the asked one."""
    one = memory()
    for number in range(3):
        await one.history("ann", f"c{number}").append(human(str(number)))
    assert await one.history("ann", "c1").clear() == 1
    assert await ids(one, "ann") == ["c2", "c0"]
    assert texts(await one.history("ann", "c0").load()) == ["0"]


async def test_a_user_who_was_forgotten_can_begin_anew(memory: MakeMemory) -> None:
    """S8, decision 2: what is new is stored and listed; nothing old comes back."""
    one = memory()
    await one.history("ann", "c1").append(human("old"))
    await one.forget("ann")
    await one.history("ann", "c1").append(human("new"))
    assert texts(await one.history("ann", "c1").load()) == ["new"]
    assert await ids(one, "ann") == ["c1"]
    assert (await one.forget("ann")).messages == 1


async def test_one_key_of_a_wrong_type_hides_no_other_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10: listing and forgetting reach every other conversation of the user."""
    one = memory()
    for name in ("c0", "c1", "c2"):
        await one.history("ann", name).append(human("1"))
    raw.delete(keys.messages)
    raw.set(keys.messages, "not ours")
    assert {"c0", "c2"} <= set(await ids(one, "ann", page_size=1)) <= {"c0", "c1", "c2"}
    try:
        await one.forget("ann")
    except WrongType:
        assert raw.get(keys.messages) == b"not ours"
    assert not await one.history("ann", "c0").exists()
    assert not await one.history("ann", "c2").exists()
    assert set(await ids(one, "ann")) <= {"c1"}
