"""Tokens: what the caller saw, against what there is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    HistoryCleared,
    HistoryRolledBack,
    InvalidSetting,
    MaxMessages,
    SlidingExpiry,
    Version,
    ai,
    human,
)
from tests.conftest import MakeMemory
from tests.scenarios.stored import Backup, Names, eventually, positions, real_servers, texts

pytestmark = pytest.mark.anyio


async def test_a_stale_token_gets_the_messages_that_were_missed(coded: MakeMemory) -> None:
    """Case 3.3, P8, R99: the error has the current version, the new messages and one's own."""
    history = coded().history("ann", "c1")
    seen = await history.append(human("1"))
    await history.append(ai("2"))
    now = await history.append(human("3"), ai("4"))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    error = caught.value
    assert (error.version, error.missed_count) == (now, 3)
    assert texts(error.missed) == ["2", "3", "4"]
    assert positions(error.missed) == [1, 2, 3]
    assert error.unsaved == [human("mine")]
    assert not error.expired
    assert not error.edited
    assert error.outcome == "not_stored"
    await history.append(human("mine"), expected=error.version)
    assert texts(await history.load()) == ["1", "2", "3", "4", "mine"]


async def test_a_current_token_is_accepted_once(memory: MakeMemory) -> None:
    """P7, P8: with a token nothing stands between what was seen and what is appended."""
    history = memory().history("ann", "c1")
    empty = (await history.load()).version
    first = await history.append(human("1"), expected=empty)
    for token in (empty, Version()):
        with pytest.raises(ConflictError):
            await history.append(human("2"), expected=token)
    second = await history.append(human("2"), expected=first)
    assert (second.number, (await history.load()).version) == (2, second)


async def test_a_conversation_that_ended_refuses_its_token(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P7, decision 3: after the expiry there is no meta, and the token of the former life is refused."""
    history = memory(expiry=SlidingExpiry(0.05)).history("ann", "c1")
    old = await history.append(human("1"))
    await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
    with pytest.raises(ConflictError) as caught:
        await history.append(human("2"), expected=old)
    assert caught.value.expired
    assert caught.value.version == Version()
    assert caught.value.missed == []
    assert await history.exists() is False


async def test_a_conversation_that_ended_and_grew_again_to_its_length_refuses_its_token(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Case 3.3, P7, decision 3: the birth tag tells the lives apart."""
    short = memory(expiry=SlidingExpiry(0.05)).history("ann", "c1")
    old = await short.append(human("1"), human("2"))
    await eventually(lambda: not raw.exists(keys.messages, keys.meta), "the conversation ended")
    history = memory().history("ann", "c1")
    new = await history.append(human("other 1"), human("other 2"))
    assert new.number == old.number
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=old)
    assert caught.value.expired
    assert caught.value.version == new
    assert texts(caught.value.missed) == ["other 1", "other 2"]
    assert await history.count() == 2


async def test_a_cleared_conversation_refuses_the_tokens_from_before(memory: MakeMemory) -> None:
    """P7, decision 2: also after it was filled again; the error carries what was not saved."""
    history = memory().history("ann", "c1")
    old = await history.append(human("1"))
    await history.clear()
    for filled in (False, True):
        if filled:
            await history.append(human("new"))
        with pytest.raises(HistoryCleared) as caught:
            await history.append(human("2"), expected=old)
        assert caught.value.unsaved == [human("2")]
        assert texts(caught.value.missed) == (["new"] if filled else [])
        assert caught.value.missed_count == int(filled)
    assert texts(await history.load()) == ["new"]


async def test_a_token_taken_after_a_clear_holds(memory: MakeMemory) -> None:
    """Decision 2: an empty history that was cleared can be appended to with a condition."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    await history.clear()
    token = (await history.load()).version
    await history.append(human("2"), expected=token)
    assert texts(await history.load()) == ["2"]


@pytest.mark.parametrize("refilled", [0, 1, 2], ids=["shorter", "shorter still", "as long"])
async def test_a_server_that_went_back_is_noticed(
    memory: MakeMemory, raw: redis.Redis, keys: Names, refilled: int
) -> None:
    """Decision 3, P7: same life and a lower number, or another last append, is HistoryRolledBack."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    backup = Backup(raw, keys)
    await history.append(human("2"))
    lost = await history.append(human("3"))
    backup.restore()
    for number in range(refilled):
        await history.append(human(f"other {number}"))
    with pytest.raises(HistoryRolledBack) as caught:
        await history.append(human("4"), expected=lost)
    assert caught.value.unsaved == [human("4")]
    assert caught.value.version == (await history.load()).version
    assert await history.count() == 1 + refilled


async def test_a_turn_over_a_server_that_went_back_is_stored_and_says_so(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decisions 3 and 4: policy append stores after what is left, the conflict tells of the loss."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    backup = Backup(raw, keys)
    await history.append(human("2"))
    async with history.turn() as turn:
        backup.restore()
        turn.add(human("3"))
    assert isinstance(turn.conflict, HistoryRolledBack)
    assert texts(await history.load()) == ["1", "3"]


async def test_at_most_the_newest_100_missed_messages_travel(memory: MakeMemory) -> None:
    """Decision 4: the count is exact all the same."""
    history = memory().history("ann", "c1")
    seen = await history.append(human("0"))
    await history.append(*(human(str(number)) for number in range(1, 151)))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert caught.value.missed_count == 150
    assert texts(caught.value.missed) == [str(number) for number in range(51, 151)]
    assert positions(caught.value.missed) == list(range(51, 151))


async def test_at_most_one_mebibyte_of_missed_messages_travels(coded: MakeMemory) -> None:
    """Decision 4: the newest that fit, oldest first; one that is larger than all stays behind."""
    history = coded().history("ann", "c1")
    seen = await history.append(human("0"))
    for number in range(5):
        await history.append(human(str(number) * 300_000))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert caught.value.missed_count == 5
    assert [message.text[0] for message in caught.value.missed] == ["2", "3", "4"]
    assert positions(caught.value.missed) == [3, 4, 5]
    await history.append(human("x" * 1_100_000))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert (caught.value.missed, caught.value.missed_count) == ([], 6)


async def test_trimming_keeps_versions_absolute(coded: MakeMemory) -> None:
    """Case 3.3: a token below the window conflicts; what was trimmed is counted, not sent."""
    history = coded(retention=MaxMessages(2)).history("ann", "c1")
    seen = await history.append(human("0"))
    for number in range(1, 5):
        last = await history.append(human(str(number)))
    assert last.number == 5
    snapshot = await history.load()
    assert (texts(snapshot), positions(snapshot), snapshot.trimmed) == (["3", "4"], [3, 4], 3)
    with pytest.raises(ConflictError) as caught:
        await history.append(human("mine"), expected=seen)
    assert caught.value.missed_count == 4
    assert texts(caught.value.missed) == ["3", "4"]
    assert positions(caught.value.missed) == [3, 4]
    assert (await history.append(human("5"), expected=last)).number == 6


async def test_a_token_of_another_conversation_is_refused(memory: MakeMemory) -> None:
    """P7: tokens of equal length are not interchangeable."""
    one, other = memory().history("ann", "c1"), memory().history("ann", "c2")
    await one.append(human("1"))
    token = await other.append(human("1"))
    with pytest.raises(ConflictError):
        await one.append(human("2"), expected=token)


async def test_a_token_survives_being_written_down(memory: MakeMemory) -> None:
    """Decision 7: str and parse give an equal token, and other texts are refused."""
    history = memory().history("ann", "c1")
    for token in (Version(), await history.append(human("1"))):
        assert Version.parse(str(token)) == token
    await history.append(human("2"), expected=Version.parse(str((await history.load()).version)))
    for text in ("", "1", "1-2-3", "-1--", f"{token} ", f"{token}\n", f"{2**48}--", None, 3):
        with pytest.raises(InvalidSetting):
            Version.parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2**48 - 1, 2**31, 10**12])
async def test_a_token_with_a_number_beyond_the_history_is_refused(memory: MakeMemory, number: int) -> None:
    """Decision 7: whatever a token says, the answer is one of this library's errors."""
    history = memory().history("ann", "c1")
    token = await history.append(human("1"))
    for forged in (f"{number}--", f"{number}-{str(token).partition('-')[2]}"):
        with pytest.raises(ConflictError):
            await history.append(human("2"), expected=Version.parse(forged))
    assert await history.count() == 1


APPENDER = """
import sys
from memory_redis import ConflictError, RedisMemory, Version, human
url, namespace, token = sys.argv[1:]
with RedisMemory.from_url(url, namespace=namespace) as memory:
    try:
        print(memory.history("ann", "c1").append(human("from afar"), expected=Version.parse(token)))
    except ConflictError as error:
        print("conflict", error.version, error.missed_count)
"""


@real_servers
async def test_a_token_holds_in_another_process(memory: MakeMemory, url: str, namespace: str) -> None:
    """Decision 7: a token handed over as text is accepted once, then refused, wherever it is used."""

    def append_elsewhere(token: object) -> list[str]:
        command: list[Any] = [sys.executable, "-c", APPENDER, url, namespace, str(token)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()

    history = memory().history("ann", "c1")
    token = await history.append(human("1"))
    (text,) = append_elsewhere(token)
    assert Version.parse(text) == (await history.load()).version
    assert append_elsewhere(token) == ["conflict", text, "1"]
    await history.append(human("3"), expected=Version.parse(text))
    assert texts(await history.load()) == ["1", "from afar", "3"]
