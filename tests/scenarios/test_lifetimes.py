"""The end of one conversation: which setting wins, what moves it, and that both keys have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from memory_redis import (
    ConflictError,
    FixedExpiry,
    InvalidSetting,
    KeptExpiry,
    LastMessages,
    MaxAge,
    MaxBytes,
    MaxMessages,
    NoExpiry,
    SlidingExpiry,
    TokenBudget,
    Version,
    WrongType,
    ai,
    human,
)
from memory_redis._engine.scripts import RENEW
from memory_redis.expiry import Expiry
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, eventually, keys_in, result, texts
from tests.scenarios.test_expiry import end_of, now_of
from tests.support.ids import shown

pytestmark = pytest.mark.anyio

DAY = 86_400_000
WORKERS: list[Expiry] = [
    NoExpiry(),
    SlidingExpiry(60),
    SlidingExpiry(60, on_read=True),
    SlidingExpiry(60, max_age=90),
    FixedExpiry(60),
]


def everything(raw: redis.Redis, namespace: str) -> dict[str, tuple[Any, int]]:
    """What stands in every key of a namespace, and when it ends."""
    read: dict[bytes, Callable[[str], Any]] = {
        b"list": lambda key: raw.lrange(key, 0, -1),
        b"hash": raw.hgetall,
        b"zset": lambda key: raw.zrange(key, 0, -1, withscores=True),
        b"string": raw.get,
    }
    return {key: (read[raw.type(key)](key), raw.pexpiretime(key)) for key in keys_in(raw, namespace)}


def shorten(raw: redis.Redis, keys: Names) -> int:
    """Both keys end in half a minute, whatever was set; that instant."""
    at = now_of(raw) + 30_000
    for key in (keys.messages, keys.meta):
        raw.pexpireat(key, at)
    return at


def grow_older(raw: redis.Redis, keys: Names, ms: int) -> int:
    """The conversation began so much earlier; when that was."""
    began = int(raw.hget(keys.meta, "c") or 0) - ms
    raw.hset(keys.meta, "c", began)
    return began


def instant(ms: int, hours: int = 0) -> datetime:
    """ms since 1970 as a datetime of some time zone."""
    return datetime.fromtimestamp(0, timezone(timedelta(hours=hours))) + timedelta(milliseconds=ms)


async def take(history: Any) -> None:
    """A turn."""
    async with history.turn() as turn:
        turn.add(human("q"), ai("a"))


async def summarise(history: Any) -> None:
    """A summary takes the place of all messages."""
    await history.compact("what was said", expected=(await history.load()).version)


@pytest.mark.parametrize(
    "own",
    [SlidingExpiry(600), SlidingExpiry(600, max_age=700), FixedExpiry(600), NoExpiry()],
    ids=shown,
)
async def test_an_expiry_of_its_own_survives_the_appends_of_every_worker(
    memory: MakeMemory, raw: redis.Redis, keys: Names, own: Expiry
) -> None:
    """B11: whatever policy the memory, or the history, of a writer has; on both keys after each write."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    before = now_of(raw)
    await history.append(human("1"))
    born, ms = now_of(raw), own.terms.ms
    assert await history.expire(own) is True
    for expiry in WORKERS:
        worker = memory(expiry=expiry).history("ann", "c1")
        for write in (
            worker.append(human("2")),
            take(memory().history("ann", "c1", expiry=expiry)),
            worker.touch(),
        ):
            started = now_of(raw)
            await write
            end = end_of(raw, keys)
            if isinstance(own, NoExpiry):
                assert end == -1
            elif isinstance(own, FixedExpiry):
                assert before + ms <= end <= born + ms
            else:
                assert started + ms <= end <= now_of(raw) + ms


async def test_an_instant_of_its_own_is_kept_to_the_millisecond(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B09, B11: given in any time zone; through appends, turns, loads and touches of every worker."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    at = now_of(raw) + 5 * DAY
    assert await history.expire_at(instant(at, hours=-7)) is True
    for expiry in WORKERS:
        worker = memory(expiry=expiry).history("ann", "c1")
        await worker.append(human("2"))
        await take(worker)
        await worker.load(LastMessages(1))
        await worker.touch()
        assert end_of(raw, keys) == at
    assert 5 * 86_400 - 60 < await history.expire_in() <= 5 * 86_400


async def test_an_end_may_be_so_long_from_now(
    memory: MakeMemory, keys: Names, raw: redis.Redis, events: list[Event]
) -> None:
    """An instant by the server's clock, which later appends of every policy keep, and hooks hear of."""
    history = memory(expiry=SlidingExpiry(days=7), hooks=(events.append,)).history("ann", "c1")
    await history.append(human("1"))
    before = now_of(raw)
    assert await history.expire_at(timedelta(hours=2)) is True
    end = before + raw.pttl(keys.messages)
    assert before + 7_190_000 < end <= now_of(raw) + 7_200_000
    told = [event.expire_at for event in events if event.kind == "expiry"][-1]
    assert before + 7_200_000 <= told <= now_of(raw) + 7_200_000
    await memory(expiry=NoExpiry()).history("ann", "c1").append(human("2"))
    assert 0 < raw.pttl(keys.messages) <= 7_200_000
    assert raw.hget(keys.meta, "p") == f"at {told} 0 0".encode()
    for wrong in (timedelta(0), timedelta(seconds=-1), timedelta(days=36_526)):
        with pytest.raises(InvalidSetting):
            await history.expire_at(wrong)


async def test_the_most_specific_setting_shows_after_the_very_first_append(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """B11, decision 25: that of the user, of the history, of the conversation itself."""
    one = memory(expiry=lambda user: SlidingExpiry(100 if user == "ann" else 200))
    cases = [
        (one.history("ann", "c1"), "ann", "c1", 100),
        (one.history("bob", "c1"), "bob", "c1", 200),
        (one.session("c1"), "", "c1", 200),
        (one.history("ann", "c2", expiry=SlidingExpiry(300)), "ann", "c2", 300),
        (one.history("ann", "c3", expiry=SlidingExpiry(500, max_age=400)), "ann", "c3", 400),
        (one.session("c2", expiry=FixedExpiry(500)), "", "c2", 500),
    ]
    for history, user, conversation, seconds in cases:
        keys, before = Names.of(namespace, user, conversation), now_of(raw)
        await history.append(human("1"))
        assert before + seconds * 1000 <= end_of(raw, keys) <= now_of(raw) + seconds * 1000
        await history.expire(SlidingExpiry(700))
        await history.append(human("2"))
        assert 690 < await history.expire_in() <= 700
        await history.expire(None)
        assert seconds - 10 < await history.expire_in() <= seconds
    forever = one.history("ann", "c4", expiry=NoExpiry())
    await forever.append(human("1"))
    assert await forever.expire_in() is None


@pytest.mark.parametrize("bad", [60, "60", None, object(), SlidingExpiry, Expiry(), MaxAge(60)], ids=shown)
async def test_an_expiry_that_is_none_is_refused(
    memory: MakeMemory, raw: redis.Redis, namespace: str, bad: Any
) -> None:
    """Decision 7, B09: for a history, a session and a conversation; nothing is changed."""
    one = memory(expiry=SlidingExpiry(60))
    history = one.history("ann", "c1")
    await history.append(human("1"))
    before = everything(raw, namespace)
    if bad is not None:  # the memory's, or no expiry of its own
        with pytest.raises(InvalidSetting):
            one.history("ann", "c1", expiry=bad)
        with pytest.raises(InvalidSetting):
            one.session("c1", expiry=bad)
        with pytest.raises(InvalidSetting):
            await history.expire(bad)
    with pytest.raises(InvalidSetting):
        await history.expire_at(bad)
    assert everything(raw, namespace) == before


@pytest.mark.parametrize("pinned", [False, True])
async def test_an_end_that_would_be_past_is_refused_and_changes_nothing(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str, pinned: bool
) -> None:
    """Decision 7: neither its end nor what it had of its own; an instant without a time zone neither."""
    history = memory(expiry=SlidingExpiry(600)).history("ann", "c1")
    await history.append(human("1"))
    if pinned:
        await history.pin()
    grow_older(raw, keys, 60_000)
    before, now = everything(raw, namespace), now_of(raw)
    refused = [
        history.expire(FixedExpiry(60)),
        history.expire(SlidingExpiry(600, max_age=60)),
        *(history.expire_at(instant(ms)) for ms in (now, now - DAY, 1)),
        history.expire_at(datetime.now() + timedelta(days=1)),
    ]
    for attempt in refused:
        with pytest.raises(InvalidSetting):
            await attempt
    assert everything(raw, namespace) == before
    assert texts(await history.load()) == ["1"]


@pytest.mark.parametrize("state", ["never was", "cleared", "ended", "trimmed to nothing"])
async def test_a_conversation_that_is_not_there_gets_no_end(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str, state: str
) -> None:
    """H19, B03: each answers False, makes no key and changes none."""
    history = memory(expiry=SlidingExpiry(60), retention=MaxMessages(1)).history("ann", "c1")
    if state != "never was":
        await history.append(*([call("a"), result("a")] if state.startswith("trimmed") else [human("1")]))
    if state == "cleared":
        await history.clear()
    if state == "ended":
        raw.pexpireat(keys.messages, 1)
        raw.pexpireat(keys.meta, 1)
    before = everything(raw, namespace)
    assert await history.expire(SlidingExpiry(600)) is False
    assert await history.expire(None) is False
    assert await history.expire_at(instant(now_of(raw) + DAY)) is False
    assert await history.pin() is False
    assert await history.touch() is False
    assert await history.expire_in() is None
    assert everything(raw, namespace) == before


READS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "all": lambda history: history.load(),
    "last": lambda history: history.load(LastMessages(1)),
    "by header": lambda history: history.load(TokenBudget(1000)),
    "turn": lambda history: history.turn().__aenter__(),
}


@pytest.mark.parametrize("read", READS)
async def test_the_terms_of_the_conversation_say_whether_reads_renew_it(
    memory: MakeMemory, raw: redis.Redis, keys: Names, read: str
) -> None:
    """The promise of reads, B11: before the policy of the memory that reads, in both directions."""
    still = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    renewing = memory(expiry=SlidingExpiry(60, on_read=True)).history("ann", "c1")
    await still.append(human("1"))
    await still.expire(SlidingExpiry(600))
    shortened = shorten(raw, keys)
    for history in (still, renewing):
        await READS[read](history)
        assert end_of(raw, keys) == shortened
    await still.expire(SlidingExpiry(600, on_read=True))
    for history in (still, renewing):
        shorten(raw, keys)
        await READS[read](history)
        assert 590_000 < end_of(raw, keys) - now_of(raw) <= 600_000
    await still.expire(None)
    shortened = shorten(raw, keys)
    await READS[read](still)
    assert end_of(raw, keys) == shortened
    await READS[read](renewing)
    assert end_of(raw, keys) > shortened


async def test_pages_and_looks_renew_nothing(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """The promise of reads: a load is asked to renew, no other read is."""
    one = memory(expiry=SlidingExpiry(60, on_read=True))
    history = one.history("ann", "c1")
    await history.append(human("1"))
    shortened = shorten(raw, keys)
    assert [message async for message in history.iterate()]
    assert [info async for info in one.conversations("ann")]
    assert (await history.count(), await history.exists()) == (1, True)
    await history.expire_in()
    assert end_of(raw, keys) == shortened


async def test_idle_time_ends_within_the_greatest_age(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B09, decision 7: whichever comes first, for appends, loads and touches alike."""
    history = memory(expiry=SlidingExpiry(60, max_age=90, on_read=True)).history("ann", "c1")
    await history.append(human("1"))
    assert end_of(raw, keys) <= now_of(raw) + 60_000
    began = grow_older(raw, keys, 50_000)
    for renew in (history.append(human("2")), history.load(), history.touch()):
        shorten(raw, keys)
        await renew
        assert end_of(raw, keys) == began + 90_000


@pytest.mark.parametrize("expiry", [FixedExpiry(60), SlidingExpiry(600, max_age=60)], ids=shown)
async def test_an_append_on_what_is_over_by_a_shorter_policy_begins_a_new_life(
    memory: MakeMemory, raw: redis.Redis, keys: Names, expiry: Expiry
) -> None:
    """Decisions 3 and 7: another birth, positions from 0, tokens of the former life refused."""
    lasting = memory(expiry=FixedExpiry(600)).history("ann", "c1")
    old = await lasting.append(human("old 1"), human("old 2"))
    grow_older(raw, keys, 60_000)
    history = memory(expiry=expiry).history("ann", "c1")
    version = await history.append(human("new"))
    assert version.number == 1
    assert version.birth != old.birth
    assert 55_000 < end_of(raw, keys) - now_of(raw) <= expiry.terms.ms
    snapshot = await lasting.load()
    assert (texts(snapshot), snapshot.messages[0].seq, snapshot.trimmed) == (["new"], 0, 0)
    with pytest.raises(ConflictError) as caught:
        await lasting.append(human("x"), expected=old)
    assert caught.value.expired


async def test_a_touch_renews_and_stores_nothing(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """B09: as an append would: idle time starts again, a fixed end stays where it is."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    version = await history.append(human("1"))
    shortened = shorten(raw, keys)
    assert await history.touch() is True
    assert end_of(raw, keys) > shortened
    assert (await history.load()).version == version
    fixed = memory(expiry=FixedExpiry(600)).history("ann", "c1")
    await fixed.touch()
    end = end_of(raw, keys)
    await eventually(lambda: now_of(raw) > end - 600_000 + 5, "the clock moved on")
    assert await fixed.touch() is True
    assert end_of(raw, keys) == end
    assert await memory().history("ann", "c1").touch() is True
    assert (end_of(raw, keys), await history.expire_in()) == (-1, None)


async def test_without_an_expiry_of_its_own_the_policy_counts_at_once(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B11: also where by that the conversation is over: it ends, and the answer is that it is not there."""
    history = memory(expiry=FixedExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    first = end_of(raw, keys)
    await history.pin()
    assert (end_of(raw, keys), await history.expire_in()) == (-1, None)
    assert await history.expire(None) is True
    assert end_of(raw, keys) == first
    assert not raw.hexists(keys.meta, "p")
    await history.pin()
    grow_older(raw, keys, 60_000)
    assert await history.expire(None) is False
    assert await history.exists() is False


@pytest.mark.parametrize("how", ["clear", "end", "shorter policy"])
async def test_a_life_that_is_over_takes_its_own_expiry_along(
    memory: MakeMemory, raw: redis.Redis, keys: Names, how: str
) -> None:
    """Decision 2: what is appended next ends by the policy of the memory."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    await history.expire(FixedExpiry(5000))
    if how == "clear":
        await history.clear()
    elif how == "end":
        await history.expire(SlidingExpiry(0.02))
        await eventually(lambda: not raw.exists(keys.messages, keys.meta), "it ended")
    else:
        grow_older(raw, keys, 5_000_000)
    await history.append(human("2"))
    assert 55_000 < end_of(raw, keys) - now_of(raw) <= 60_000
    assert texts(await history.load()) == ["2"]


async def test_a_conversation_that_is_all_summary_lives_and_ends(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """R96, decision 9, B03: it is there, listed, renewed and given ends; an append gives both keys one."""
    one = memory(expiry=SlidingExpiry(60))
    history = one.history("ann", "c1")
    await history.append(human("1"), ai("2"))
    await summarise(history)
    assert (await history.exists(), await history.count()) == (True, 0)
    assert 55 < await history.expire_in() <= 60
    raw.pexpire(keys.meta, 30_000)
    assert await history.touch() is True
    assert 55 < await history.expire_in() <= 60
    [info] = [info async for info in one.conversations("ann")]
    assert (info.messages, 55 < (info.expire_in or 0) <= 60) == (0, True)
    assert await history.pin() is True
    assert (await history.expire_in(), raw.pttl(keys.meta)) == (None, -1)
    assert [info.expire_in async for info in one.conversations("ann")] == [None]
    at = now_of(raw) + DAY
    assert await history.expire_at(instant(at)) is True
    version = await history.append(human("3"))
    assert (version.number, end_of(raw, keys)) == (3, at)
    snapshot = await history.load()
    assert (texts(snapshot), snapshot.summary, snapshot.trimmed) == (["3"], "what was said", 2)
    await summarise(history)
    assert await history.clear() == 0
    assert (await history.exists(), await history.touch(), raw.hexists(keys.meta, "p")) == (
        False,
        False,
        False,
    )


async def test_a_summary_ends_with_its_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """R96, B12: nothing of it is left, and what begins anew knows nothing of it."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    await summarise(history)
    await history.expire(SlidingExpiry(0.02))
    await eventually(lambda: keys_in(raw, namespace) == [keys.index], "its keys are gone")
    assert (await history.exists(), await history.expire_in()) == (False, None)
    snapshot = await history.load()
    assert (snapshot.version, snapshot.summary) == (Version(), None)
    await history.append(human("2"))
    assert (await history.load()).summary is None


LONGER: dict[str, Callable[[MakeMemory, Any, int], Awaitable[Any]]] = {
    "expire": lambda memory, history, at: history.expire(SlidingExpiry(days=1)),
    "fixed": lambda memory, history, at: history.expire(FixedExpiry(days=1)),
    "expire_at": lambda memory, history, at: history.expire_at(instant(at)),
    "pin": lambda memory, history, at: history.pin(),
    "unset": lambda memory, history, at: memory(expiry=FixedExpiry(days=1)).history("ann", "c1").expire(None),
    "touch": lambda memory, history, at: memory(expiry=SlidingExpiry(days=1)).history("ann", "c1").touch(),
    "load": lambda memory, history, at: (
        memory(expiry=SlidingExpiry(days=1, on_read=True)).history("ann", "c1").load()
    ),
    "append": lambda memory, history, at: (
        memory().history("ann", "c1", expiry=SlidingExpiry(days=1)).append(human("x"))
    ),
}


@pytest.mark.parametrize(
    ("longer", "summary"), [*((longer, False) for longer in LONGER), ("pin", True), ("touch", True)]
)
async def test_the_users_index_outlives_a_conversation_that_was_given_longer(
    memory: MakeMemory, raw: redis.Redis, keys: Names, longer: str, summary: bool
) -> None:
    """Decision 12: whatever moved the end, it is listed, and can be forgotten, as long as it is there."""
    one = memory(expiry=SlidingExpiry(60))
    history = one.history("ann", "c1")
    await history.append(human("1"))
    if summary:
        await summarise(history)
    await LONGER[longer](memory, history, now_of(raw) + DAY)
    left, index = raw.pttl(keys.meta), raw.pttl(keys.index)
    assert left == -1 or left > DAY - 60_000
    assert index == -1 or index > left > 0
    assert [info.conversation_id async for info in one.conversations("ann")] == ["c1"]


async def test_an_end_that_the_index_cannot_be_told_is_not_given(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """Decision 12: no conversation outlives its index, though the call fails between its two steps."""
    one = memory(expiry=SlidingExpiry(60))
    history = one.history("ann", "c1")
    await history.append(human("1"))
    await history.expire(SlidingExpiry(90))
    raw.delete(keys.index)
    raw.set(keys.index, "of somebody else")
    before = everything(raw, namespace)
    for attempt in (
        history.pin(),
        history.expire(SlidingExpiry(days=1)),
        history.expire_at(instant(now_of(raw) + DAY)),
        memory().history("ann", "c1").expire(None),
    ):
        with pytest.raises(WrongType):
            await attempt
    assert everything(raw, namespace) == before
    raw.delete(keys.index)
    assert await history.pin() is True
    assert [info.expire_in async for info in one.conversations("ann")] == [None]


async def test_a_list_of_conversations_tells_the_end_of_each(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """B10: as `expire_in` does, also of one that lost half of its keys."""
    one = memory(expiry=SlidingExpiry(60))
    for name in ("idle", "pinned", "soon", "half", "summary"):
        await one.history("ann", name).append(human("1"))
    await one.history("ann", "pinned").pin()
    await one.history("ann", "soon").expire_at(instant(now_of(raw) + 20_000))
    await summarise(one.history("ann", "summary"))
    raw.delete(Names.of(namespace, "ann", "half").meta)
    infos = {info.conversation_id: info.expire_in async for info in one.conversations("ann")}
    assert infos.pop("pinned") is None
    assert 10 < infos.pop("soon") <= 20
    assert sorted(infos) == ["half", "idle", "summary"]
    for name, left in infos.items():
        assert 50 < left <= 60
        assert left - 5 < await one.history("ann", name).expire_in() <= left


async def append_keyed(history: Any) -> None:
    await history.append(human("2"), idempotency_key="k")


async def append_after_a_clear(history: Any) -> None:
    await history.clear()
    await history.append(human("2"))


async def append_after_a_summary(history: Any) -> None:
    await summarise(history)
    await history.append(human("2"))


async def summarise_and_keep(history: Any) -> None:
    await history.append(human("2"))
    await history.compact("so far", expected=(await history.load()).version, keep=1)


async def trim_to_nothing_and_append(history: Any) -> None:
    await history.append(call("a"), *(human("x" * 100) for _ in range(4)), result("a"))
    await history.append(human("2"))


WRITES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "append": lambda history: history.append(human("2")),
    "turn": take,
    "with a key": append_keyed,
    "after a clear": append_after_a_clear,
    "compact all": summarise,
    "compact some": summarise_and_keep,
    "append to a summary": append_after_a_summary,
    "trim": lambda history: history.append(*(human("x" * 100) for _ in range(9))),
    "trim to nothing": trim_to_nothing_and_append,
    "touch": lambda history: history.touch(),
    "expire": lambda history: history.expire(SlidingExpiry(60)),
    "unset": lambda history: history.expire(None),
    "load": lambda history: history.load(),
}


@pytest.mark.parametrize("write", WRITES)
async def test_no_path_of_a_write_leaves_a_key_without_the_configured_end(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str, write: str
) -> None:
    """B03, B12: of summaries, ends and retention too; list and meta end together, the index after them."""
    limits = MaxMessages(4) & MaxBytes(2000) & MaxAge(3600)
    history = memory(expiry=SlidingExpiry(60, on_read=True), retention=limits).history("ann", "c1")
    await history.append(human("1"))
    await WRITES[write](history)
    left = {key: raw.pttl(key) for key in keys_in(raw, namespace)}
    assert set(left) >= {keys.meta, keys.index}
    ends = {raw.pexpiretime(key) for key in (keys.messages, keys.meta) if raw.exists(key)}
    assert len(ends) == 1
    assert all(0 < left[key] <= 60_000 for key in left if key != keys.index)
    assert 60_000 < left[keys.index] <= 240_000
    await history.append(human("3"))
    assert 0 < end_of(raw, keys) - now_of(raw) <= 60_000


async def test_a_conversation_that_was_pinned_does_not_end_and_others_do(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """B10: an expiry of the memory, and one of a single conversation; what is not touched again goes."""
    one = memory(expiry=SlidingExpiry(0.3))
    for number in range(10):
        await one.session(f"s{number}").append(human("1"))
    pinned = memory(expiry=SlidingExpiry(60)).session("pinned")
    await pinned.append(human("1"))
    assert await pinned.pin() is True
    kept = [f"{namespace}:{{:pinned}}:{part}" for part in ("messages", "meta")]
    await eventually(lambda: keys_in(raw, namespace) == kept, "the others are gone")
    await one.session("pinned").append(human("2"))
    assert [raw.pttl(key) for key in kept] == [-1, -1]
    assert texts(await pinned.load()) == ["1", "2"]


async def test_by_default_nothing_ends_and_nothing_goes(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """B17: the default is stated where the options are, and both can be changed there, once for all."""
    history = memory().history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(900)))
    await history.append(*(human(str(number)) for number in range(900)))
    assert (await history.count(), await history.expire_in(), end_of(raw, keys)) == (1800, None, -1)
    changed = memory(expiry=SlidingExpiry(60), retention=MaxMessages(10)).history("ann", "c1")
    await changed.append(human("x"))
    assert await changed.count() == 10
    assert 0 < end_of(raw, keys) - now_of(raw) <= 60_000


async def test_a_load_does_not_renew_what_has_lost_its_own_terms_meanwhile(
    memory: MakeMemory, keys: Names, raw: redis.Redis
) -> None:
    """Decision 7: the policy of one who only looks is not the conversation's."""
    await memory(expiry=SlidingExpiry(days=7)).history("ann", "c1").append(human("1"))
    end = end_of(raw, keys)
    reader = memory().history("ann", "c1")
    await reader.expire(SlidingExpiry(60, on_read=True))
    # as between the two trips of a load: the terms are gone, and the end is that of the writer again
    terms = raw.hget(keys.meta, "p")
    raw.hdel(keys.meta, "p")
    for key in (keys.messages, keys.meta):
        raw.pexpireat(key, end)
    assert terms is not None
    words = ("none", "0", "0", "own", "0", "")
    assert raw.eval(RENEW.source, 2, keys.messages, keys.meta, *words) == [1, 0, 0]
    assert end_of(raw, keys) == end


@pytest.mark.parametrize("what", ["append", "touch", "expire"])
async def test_one_who_keeps_the_end_keeps_that_of_a_conversation_that_is_all_summary(
    memory: MakeMemory, keys: Names, raw: redis.Redis, what: str
) -> None:
    """R96, decision 2: the list is empty, and the meta has the end that both keys get again."""
    owner, guest = (
        memory(expiry=expiry).history("ann", "c1") for expiry in (SlidingExpiry(60), KeptExpiry())
    )
    await owner.append(human("0"), ai("1"))
    await owner.compact("in short", expected=(await owner.load()).version)
    end = raw.pexpiretime(keys.meta)
    calls = {"append": guest.append, "touch": guest.touch, "expire": guest.expire}
    await calls[what](*{"append": [human("2")], "expire": [None]}.get(what, []))
    assert abs(raw.pexpiretime(keys.meta) - end) <= 50
    if what == "append":
        assert abs(end_of(raw, keys) - end) <= 50


async def test_one_who_keeps_the_end_leaves_it_where_it_is(
    memory: MakeMemory, keys: Names, raw: redis.Redis
) -> None:
    """For programs that append to conversations of others; one that begins has no end."""
    guest = memory(expiry=KeptExpiry()).history("ann", "c1")
    await guest.append(human("0"))
    assert end_of(raw, keys) == -1
    await memory(expiry=SlidingExpiry(60)).history("ann", "c1").append(human("1"))
    end = end_of(raw, keys)
    await guest.append(human("2"))
    assert abs(end_of(raw, keys) - end) <= 50  # the server tells the rest, not the end
    assert await guest.touch() is True
    assert abs(end_of(raw, keys) - end) <= 50
    await guest.pin()
    assert end_of(raw, keys) == -1
    await guest.expire(None)
    assert end_of(raw, keys) == -1
