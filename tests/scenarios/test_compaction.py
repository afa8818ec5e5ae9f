"""`history.compact`: a summary takes the place of old messages, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    CorruptRecord,
    HistoryCleared,
    HistoryRolledBack,
    InvalidMessage,
    InvalidSetting,
    LastMessages,
    Limits,
    MaxBytes,
    MaxMessages,
    RecordError,
    SlidingExpiry,
    TurnAlreadyStored,
    UnsupportedFormat,
    Version,
    ai,
    human,
)
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.chats import one_server
from tests.scenarios.stored import (
    Backup,
    Names,
    call,
    eventually,
    keys_in,
    positions,
    result,
    take_turn,
    texts,
)
from tests.support.ids import shown

pytestmark = pytest.mark.anyio


async def filled(history: Any, count: int = 6) -> Version:
    """A conversation of messages "0", "1", …; its version."""
    version: Version = await history.append(*(human(str(number)) for number in range(count)))
    return version


async def test_a_summary_takes_the_place_of_old_messages(coded: MakeMemory) -> None:
    """R97: what is kept keeps its positions, and the version stays."""
    history = coded().history("ann", "c1")
    version = await filled(history)
    before = await history.load()
    assert (before.summary, before.trimmed) == (None, 0)
    assert await history.compact("in short", expected=before.version, keep=2) == 4
    after = await history.load()
    assert (after.summary, after.trimmed, after.version) == ("in short", 4, version)
    assert after.messages == before.messages[4:]
    assert positions(after) == [4, 5]
    assert [message.stored_at for message in after.messages] == [
        message.stored_at for message in before.messages[4:]
    ]
    assert await history.count() == 2
    assert [message.text async for message in history.iterate()] == ["4", "5"]


async def test_every_window_gives_the_summary(memory: MakeMemory) -> None:
    """R92: it is part of the snapshot, whatever is shown of the messages."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    await history.compact("in short", expected=version, keep=3)
    for count, shown_ in ((0, []), (2, ["4", "5"]), (9, ["3", "4", "5"])):
        snapshot = await history.load(LastMessages(count))
        assert (snapshot.summary, texts(snapshot)) == ("in short", shown_)
        assert snapshot.version == version
        budget = await history.load(LastMessages(count, max_bytes=100))
        assert (budget.summary, texts(budget)) == ("in short", shown_)


async def test_a_conversation_summarised_whole_goes_on(
    coded: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R97, decision 9, H14: it exists, is listed, and its next message has the next position."""
    memory = coded(expiry=SlidingExpiry(60))
    history = memory.history("ann", "c1")
    version = await filled(history)
    assert await history.compact("in short", expected=version) == 6
    snapshot = await history.load()
    assert (snapshot.messages, snapshot.summary, snapshot.version) == ([], "in short", version)
    assert await history.exists()
    assert 59 < await history.expire_in() <= 60
    assert [info.conversation_id async for info in memory.conversations("ann")] == ["c1"]
    assert (await history.append(human("6"), expected=version)).number == 7
    assert positions(await history.load()) == [6]
    assert (await history.load()).summary == "in short"
    assert 59_000 < raw.pttl(keys.messages) <= 60_000


async def test_the_next_summary_replaces_the_one_before(coded: MakeMemory) -> None:
    """R97: there is one at a time."""
    history = coded().history("ann", "c1")
    await filled(history)
    for number, summary in enumerate(("first", "second", "third")):
        snapshot = await history.load()
        await history.compact(summary, expected=snapshot.version, keep=2)
        await history.append(human(f"new {number}"))
        assert (await history.load()).summary == summary
    assert positions(await history.load()) == [6, 7, 8]


async def test_what_was_appended_meanwhile_is_never_lost(coded: MakeMemory) -> None:
    """R97, P1: neither is it counted among what is kept."""
    history = coded().history("ann", "c1")
    version = await filled(history)
    await history.append(human("6"), human("7"))
    assert await history.compact("in short", expected=version, keep=1) == 5
    assert texts(await history.load()) == ["5", "6", "7"]
    assert positions(await history.load()) == [5, 6, 7]


async def test_turns_on_their_way_commit_without_a_conflict(coded: MakeMemory) -> None:
    """R97: under every policy, for what they have seen is still told of."""
    history = coded().history("ann", "c1")
    version = await filled(history)
    for number, policy in enumerate(("raise", "append")):
        turn = await take_turn(
            history,
            human(f"q{number}"),
            meanwhile=lambda number=number: history.compact("s", expected=version, keep=4 - number),
            on_conflict=policy,
        )
        assert (turn.conflict, turn.missed) == (None, [])
    assert texts(await history.load()) == ["3", "4", "5", "q0", "q1"]


async def test_a_turn_that_missed_messages_which_were_summarised_is_told_how_many(memory: MakeMemory) -> None:
    """Decision 4: the number is exact, what is gone does not travel."""
    history = memory().history("ann", "c1")
    await filled(history)

    async def meanwhile() -> None:
        version = await history.append(human("6"), human("7"), human("8"))
        await history.compact("in short", expected=version, keep=1)

    turn = await take_turn(history, human("mine"), meanwhile=meanwhile)
    assert turn.conflict.missed_count == 3
    assert not turn.conflict.edited
    assert texts(turn.missed) == ["8"]


async def test_messages_that_were_summarised_meanwhile_are_a_conflict(coded: MakeMemory) -> None:
    """R97: of two who summarise the same, the second changes nothing, and is told the version."""
    history = coded().history("ann", "c1")
    version = await filled(history)
    later = await history.append(human("6"))
    assert await history.compact("mine", expected=later, keep=2) == 5
    for keep in (0, 1, 5):
        with pytest.raises(ConflictError) as caught:
            await history.compact("theirs", expected=version, keep=keep)
        assert (caught.value.edited, caught.value.expired, caught.value.version) == (True, False, later)
        assert caught.value.outcome == "not_stored"
    with pytest.raises(ConflictError):
        await history.compact("theirs", expected=later, keep=2)
    assert (await history.load()).summary == "mine"
    assert texts(await history.load()) == ["5", "6"]


async def test_more_to_keep_than_there_is_changes_nothing(memory: MakeMemory) -> None:
    """R97: a summary of no message takes the place of none."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    for seen in (version, (await history.load()).version):
        for keep in (6, 7, 10**9):
            with pytest.raises(InvalidSetting, match="keep"):
                await history.compact("in short", expected=seen, keep=keep)
    snapshot = await history.load()
    assert (snapshot.summary, len(snapshot.messages)) == (None, 6)


async def test_messages_lost_by_hand_are_a_conflict(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R97, decision 6: edited."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    raw.lpop(keys.messages)
    with pytest.raises(ConflictError) as caught:
        await history.compact("in short", expected=version)
    assert caught.value.edited
    assert (await history.load()).summary is None


@pytest.mark.parametrize("refilled", [False, True])
async def test_a_conversation_that_was_cleared_gets_no_summary(memory: MakeMemory, refilled: bool) -> None:
    """R92, decision 2: HistoryCleared, and nothing of it comes back."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    assert await history.clear() == 6
    if refilled:
        await history.append(human("new"))
    with pytest.raises(HistoryCleared):
        await history.compact("in short", expected=version)
    assert (await history.load()).summary is None
    assert texts(await history.load()) == (["new"] if refilled else [])


async def test_a_clear_drops_the_summary(coded: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """R92, decision 2: with the messages, and it does not count as one."""
    history = coded().history("ann", "c1")
    version = await filled(history)
    await history.compact("my secret", expected=version, keep=2)
    assert await history.clear() == 2
    assert await history.exists() is False
    assert (await history.load()).summary is None
    assert b"secret" not in b"".join(raw.hvals(keys.meta))


async def test_a_conversation_that_was_summarised_whole_is_cleared_and_forgotten(
    memory: MakeMemory, raw: redis.Redis, namespace: str, keys: Names
) -> None:
    """H17, decision 2: no message is left that could be counted, and the summary goes all the same."""
    one = memory()
    history = one.history("ann", "c1")
    await history.compact("my secret", expected=await filled(history))
    await one.forget("ann")
    assert await history.exists() is False
    assert b"secret" not in b"".join(raw.hvals(keys.meta))
    assert [info async for info in one.conversations("ann")] == []


@pytest.mark.parametrize("refilled", [False, True])
async def test_a_conversation_that_ended_gets_no_summary(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str, refilled: bool
) -> None:
    """R97, decision 3: expired, and no key is made."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    raw.delete(keys.messages, keys.meta)
    if refilled:
        await filled(history)
    with pytest.raises(ConflictError) as caught:
        await history.compact("in short", expected=version)
    assert caught.value.expired
    assert (await history.load()).summary is None
    if not refilled:
        assert keys_in(raw, namespace) == [keys.index]


async def test_a_server_that_lost_messages_gets_no_summary_of_them(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R97, decision 3: as a restored backup, with fewer messages or with others."""
    history = memory().history("ann", "c1")
    await filled(history)
    backup = Backup(raw, keys)
    version = await history.append(human("6"))
    backup.restore()
    for keep in (0, 6):
        with pytest.raises(HistoryRolledBack):
            await history.compact("in short", expected=version, keep=keep)
    await history.append(human("another 6"))
    with pytest.raises(HistoryRolledBack):
        await history.compact("in short", expected=version)
    assert (await history.load()).summary is None


async def test_a_conflict_names_no_content_and_is_told_to_the_hooks(
    memory: MakeMemory, events: list[Event]
) -> None:
    """The promise of quiet errors; one event for each."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    version = await filled(history)
    await history.clear()
    events.clear()
    with pytest.raises(HistoryCleared) as caught:
        await history.compact("my secret", expected=version)
    assert "secret" not in f"{caught.value!r}{caught.value}"
    [event] = events
    assert (event.kind, event.detail) == ("conflict", "HistoryCleared")


async def test_a_compaction_is_told_to_the_hooks(memory: MakeMemory, events: list[Event]) -> None:
    """How many messages went, and the version, which stayed."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    version = await filled(history)
    events.clear()
    await history.compact("my secret", expected=version, keep=2)
    [event] = events
    assert (event.kind, event.messages, event.version) == ("compact", 4, 6)
    assert "secret" not in repr(event)


async def test_a_list_that_grew_by_hand_is_healed(
    memory: MakeMemory, raw: redis.Redis, keys: Names, events: list[Event]
) -> None:
    """F13, decision 6: and the hooks are told."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    version = await filled(history)
    raw.rpush(keys.messages, raw.lindex(keys.messages, 5))
    assert await history.compact("in short", expected=version, keep=1) == 5
    assert [event.version for event in events if event.kind == "heal"] == [7]
    snapshot = await history.load()
    assert (snapshot.version.number, texts(snapshot)) == (7, ["5", "5"])


BAD_SUMMARIES: list[Any] = ["", None, 5, b"in short", ["in short"], ai("in short")]
BAD_KEEPS: list[Any] = [-1, 2.5, True, None, "2", 10**9 + 1, float("nan")]
BAD_VERSIONS: list[Any] = [None, 6, "6", (6,), True]


@one_server
async def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R95, decision 7: summaries, numbers to keep, versions."""
    history = memory().history("ann", "c1")
    version = await filled(history)
    before = Backup(raw, keys)
    for summary in BAD_SUMMARIES:
        with pytest.raises(InvalidMessage):
            await history.compact(summary, expected=version)
    for keep in BAD_KEEPS:
        with pytest.raises(InvalidSetting):
            await history.compact("in short", expected=version, keep=keep)
    for expected in BAD_VERSIONS:
        with pytest.raises(InvalidSetting):
            await history.compact("in short", expected=expected)
    after = Backup(raw, keys)
    assert (after._records, after._meta) == (before._records, before._meta)


async def test_a_summary_may_be_as_large_as_a_record_and_no_larger(coded: MakeMemory) -> None:
    """Decision 16: InvalidMessage, and nothing is changed."""
    history = coded(limits=Limits(record_bytes=2000)).history("ann", "c1")
    version = await filled(history)
    with pytest.raises(InvalidMessage):
        await history.compact("x" * 2000, expected=version)
    assert (await history.load()).summary is None
    assert await history.compact("x" * 1500, expected=version) == 6
    assert (await history.load()).summary == "x" * 1500


TEXTS = [" ", "\n", "\0", "{", '{"type":"ai"}', "é\u2028\U0001f600", "x" * 10_000]


async def test_a_summary_is_kept_exactly(coded: MakeMemory) -> None:
    """R101: any text that can be encoded."""
    history = coded().history("ann", "c1")
    for number, text in enumerate(TEXTS):
        version = await history.append(human(str(number)))
        await history.compact(text, expected=version)
        assert (await history.load()).summary == text


async def test_lone_surrogates_in_a_summary_become_marks(coded: MakeMemory) -> None:
    """Decision 17: as everywhere."""
    history = coded().history("ann", "c1")
    await history.compact("a\ud800b", expected=await filled(history))
    assert (await history.load()).summary == "a\ufffdb"


DAMAGE: list[tuple[bytes, type[RecordError]]] = [
    (b"junk", CorruptRecord),
    (b"\x01", CorruptRecord),
    (b"\x01" + b"x" * 60, CorruptRecord),
    (b"{}", CorruptRecord),
    (b"\x02of a later release", UnsupportedFormat),
]


@pytest.mark.parametrize(("record", "error"), DAMAGE, ids=shown)
async def test_a_damaged_summary_is_one_clear_error_or_left_out(
    memory: MakeMemory, raw: redis.Redis, keys: Names, record: bytes, error: type[RecordError]
) -> None:
    """P10, decision 18, 19: with a position, and it hides no message."""
    history = memory().history("ann", "c1")
    await history.compact("in short", expected=await filled(history), keep=2)
    raw.hset(keys.meta, "s", record)
    for window in (None, LastMessages(1), LastMessages(1, max_bytes=9)):
        with pytest.raises(error) as caught:
            await history.load(window)
        assert caught.value.position == 3
    snapshot = await history.load(on_corrupt="skip")
    assert (snapshot.summary, texts(snapshot)) == (None, ["4", "5"])
    assert [error.position for error in snapshot.skipped] == [3]
    await history.append(human("6"))
    assert (
        await history.compact("anew", expected=(await history.load(on_corrupt="skip")).version, keep=1) == 2
    )
    assert (await history.load()).summary == "anew"


async def test_the_summary_of_another_conversation_is_not_shown(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """R24, P10: a record that was moved belongs where it was written."""
    for name in ("c1", "c2"):
        history = memory().history("ann", name)
        await history.compact(f"of {name}", expected=await filled(history), keep=2)
    theirs = raw.hget(Names.of(namespace, conversation="c1").meta, "s")
    raw.hset(Names.of(namespace, conversation="c2").meta, "s", theirs)
    with pytest.raises(CorruptRecord):
        await memory().history("ann", "c2").load()
    assert (await memory().history("ann", "c1").load()).summary == "of c1"


async def test_a_key_whose_turn_was_summarised_is_still_known(memory: MakeMemory) -> None:
    """Decision 5: nothing is stored again, and a turn says that its messages are gone."""
    history = memory().history("ann", "c1")
    version = await history.append(human("q"), ai("a"), idempotency_key="k")
    await history.compact("in short", expected=version)
    repeat = await history.append(human("q"), ai("a"), idempotency_key="k")
    assert (repeat.repeated, repeat.number) == (True, 2)
    with pytest.raises(TurnAlreadyStored):
        await take_turn(history, human("q"), meanwhile=history.count, idempotency_key="k")
    assert (await history.load()).messages == []


async def test_half_of_a_turn_does_not_stand_for_it(memory: MakeMemory) -> None:
    """Decision 5: also where the question was summarised, and the answer stayed."""
    history = memory().history("ann", "c1")
    version = await history.append(human("q"), ai("a"), idempotency_key="k")
    await history.compact("in short", expected=version, keep=1)
    with pytest.raises(TurnAlreadyStored):
        await take_turn(history, human("q"), meanwhile=history.count, idempotency_key="k")
    assert texts(await history.load()) == ["a"]


async def test_retention_and_compaction_go_together(coded: MakeMemory) -> None:
    """R97, decision 23: both cut from the front, positions and versions stay absolute."""
    history = coded(retention=MaxMessages(4)).history("ann", "c1")
    version = await filled(history)
    assert positions(await history.load()) == [2, 3, 4, 5]
    assert await history.compact("in short", expected=version, keep=3) == 1
    assert positions(await history.load()) == [3, 4, 5]
    await history.append(human("6"), human("7"), human("8"))
    after = await history.load()
    assert (positions(after), after.summary, after.trimmed) == ([5, 6, 7, 8], "in short", 5)
    assert await history.compact("anew", expected=after.version, keep=1) == 3
    assert positions(await history.load()) == [8]


async def test_the_bytes_that_retention_counts_are_those_that_are_left(memory: MakeMemory) -> None:
    """R97: a summary makes room, and takes none."""
    history = memory(retention=MaxBytes(3000)).history("ann", "c1")
    version = await history.append(*(human("x" * 500) for _ in range(5)))
    assert await history.count() == 5
    await history.compact("y" * 5000, expected=version, keep=1)
    await history.append(*(human("z" * 500) for _ in range(4)))
    assert await history.count() == 5


async def test_results_whose_call_was_summarised_are_not_shown_alone(coded: MakeMemory) -> None:
    """F13: whoever compacts by a number may cut an exchange in two; what is loaded is valid."""
    history = coded().history("ann", "c1")
    version = await history.append(human("q"), call("a"), result("a"), ai("done"))
    await history.compact("in short", expected=version, keep=2)
    assert texts(await history.load()) == ["done"]
    assert texts(await history.load(LastMessages(9))) == ["done"]


async def test_a_compaction_moves_no_end(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """R96, B03: it is no append; messages and summary still end together."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    version = await filled(history)
    raw.pexpireat(keys.messages, 4_000_000_000_000)
    raw.pexpireat(keys.meta, 4_000_000_000_000)
    await history.compact("in short", expected=version, keep=2)
    for key in (keys.messages, keys.meta):
        assert raw.pexpiretime(key) == 4_000_000_000_000


async def test_a_summary_ends_with_its_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """R96: nothing of it outlives the messages."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.compact("in short", expected=await filled(history), keep=2)
    ends = {raw.pexpiretime(key) for key in (keys.messages, keys.meta)}
    assert len(ends) == 1
    assert min(ends) > 0
    await history.expire(SlidingExpiry(0.02))
    await eventually(lambda: not raw.exists(keys.messages, keys.meta), "both keys are gone")
    assert (await history.load()).summary is None


@pytest.mark.parametrize("keep", [0, 1, 2])
async def test_of_two_who_saw_the_same_load_one_puts_a_summary_in_place(coded: MakeMemory, keep: int) -> None:
    """R97: the other one is refused, also if it would keep fewer; who has loaded since is not."""
    history = coded().history("ann", "c1")
    await filled(history)
    seen = await history.load()
    assert await history.compact("mine", expected=seen.version, keep=2) == 4
    with pytest.raises(ConflictError) as caught:
        await history.compact("theirs", expected=seen.version, keep=keep)
    assert caught.value.edited
    assert (await history.load()).summary == "mine"
    if keep < 2:
        assert await history.compact("later", expected=(await history.load()).version, keep=keep) == 2 - keep
        assert (await history.load()).summary == "later"
