"""Which expiry counts, and what happens when it is another one than yesterday."""

from __future__ import annotations

import pytest
import redis

from memory_redis import (
    ConflictError,
    FixedExpiry,
    InvalidSetting,
    MaxMessages,
    NoExpiry,
    SlidingExpiry,
    Version,
    human,
)
from memory_redis.expiry import Expiry
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, eventually, texts
from tests.scenarios.test_expiry import end_of, now_of

pytestmark = pytest.mark.anyio


async def test_each_user_may_have_an_expiry_of_their_own(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """Decision 25, B11: the function of the user id is the most specific setting; sessions give it ""."""
    asked: list[str] = []

    def expiry(user_id: str) -> Expiry:
        asked.append(user_id)
        return {"ann": SlidingExpiry(60), "bob": NoExpiry(), "": FixedExpiry(600)}[user_id]

    one = memory(expiry=expiry)
    for history in (one.history("ann", "c1"), one.history("bob", "c1"), one.session("c1")):
        await history.append(human("1"))
    lasting = [raw.pttl(Names.of(namespace, user).messages) for user in ("ann", "bob", "")]
    assert 55_000 < lasting[0] <= 60_000
    assert lasting[1] == -1
    assert 595_000 < lasting[2] <= 600_000
    assert set(asked) == {"ann", "bob", ""}


async def test_a_function_that_gives_no_expiry_is_refused(memory: MakeMemory) -> None:
    """Decision 25: before anything is sent, and the memory says what it wants."""
    for bad in (60, "60", object()):
        with pytest.raises(InvalidSetting):
            memory(expiry=bad)
    with pytest.raises(InvalidSetting):
        await memory(expiry=lambda user_id: 60).history("ann", "c1").append(human("1"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NoExpiry(), SlidingExpiry(60)),
        (NoExpiry(), FixedExpiry(60)),
        (SlidingExpiry(600), SlidingExpiry(60)),
        (SlidingExpiry(60), FixedExpiry(600)),
        (FixedExpiry(600), SlidingExpiry(60)),
        (FixedExpiry(60), FixedExpiry(600)),
        (FixedExpiry(600), FixedExpiry(60)),
        (SlidingExpiry(60), NoExpiry()),
        (FixedExpiry(60), NoExpiry()),
    ],
    ids=repr,
)
async def test_the_next_append_sets_the_end_of_the_new_policy(
    memory: MakeMemory, raw: redis.Redis, keys: Names, before: Expiry, after: Expiry
) -> None:
    """B03, B11, decision 7: on every key; NoExpiry takes the end away, a fixed one counts from the birth."""
    old, new = memory(expiry=before).history("ann", "c1"), memory(expiry=after).history("ann", "c1")
    started = now_of(raw)
    version = await old.append(human("1"))
    first = now_of(raw)
    await eventually(lambda: now_of(raw) > first + 5, "the clock moved on")
    await new.append(human("2"), expected=version)
    end, length = end_of(raw, keys), after.terms.ms
    if isinstance(after, NoExpiry):
        assert end == -1
    elif isinstance(after, FixedExpiry):
        assert started + length <= end <= first + length
    else:
        assert first + length < end <= now_of(raw) + length
    assert texts(await new.load()) == ["1", "2"]


async def test_a_fixed_end_that_was_moved_into_the_past_ends_the_conversation(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Decisions 3 and 7: a shorter policy begins a new life with the next append; nothing half is left."""
    lasting = memory(expiry=FixedExpiry(600)).history("ann", "c1")
    old = await lasting.append(human("old 1"), human("old 2"))
    born = now_of(raw)
    await eventually(lambda: now_of(raw) > born + 60, "the clock moved on")
    one = memory(expiry=FixedExpiry(0.05))
    with pytest.raises(ConflictError) as caught:
        await one.history("ann", "c1").append(human("new"), expected=old)
    assert caught.value.expired
    assert caught.value.version == Version()
    version = await memory(expiry=FixedExpiry(60)).history("ann", "c1").append(human("new"))
    assert version.number == 1
    assert texts(await lasting.load()) == ["new"]
    assert end_of(raw, keys) > now_of(raw)
    assert [info.conversation_id async for info in one.conversations("ann")] == ["c1"]


async def test_trimming_keeps_the_end(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """B03: no path of a write leaves a key without the configured end."""
    history = memory(expiry=SlidingExpiry(60), retention=MaxMessages(2)).history("ann", "c1")
    for number in range(5):
        await history.append(human(str(number)))
        assert 0 < end_of(raw, keys) - now_of(raw) <= 60_000


async def test_a_refused_append_leaves_the_end_alone(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P3: a conflict or a repeat stores nothing and extends nothing."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"), idempotency_key="k")
    first = end_of(raw, keys)
    await eventually(lambda: now_of(raw) > first - 60_000 + 5, "the clock moved on")
    with pytest.raises(ConflictError):
        await history.append(human("2"), expected=Version())
    assert (await history.append(human("1"), idempotency_key="k")).repeated
    assert end_of(raw, keys) == first


async def test_a_meta_made_anew_gets_the_end_too(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """B03, P10: healing is a write path like any other."""
    history = memory(expiry=SlidingExpiry(60)).history("ann", "c1")
    await history.append(human("1"))
    for half in (keys.meta, keys.messages):
        raw.delete(half)
        await history.append(human("2"))
        assert 0 < end_of(raw, keys) - now_of(raw) <= 60_000
