"""What the hooks are told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import redis

from memory_redis import ConflictError, FixedExpiry, HistoryCleared, SlidingExpiry, Version, ai, human
from memory_redis.telemetry import Event
from tests.conftest import MakeMemory
from tests.scenarios.stored import Backup, Names, take_turn

pytestmark = pytest.mark.anyio


async def test_an_append_and_a_load_are_told_with_numbers(coded: MakeMemory, events: list[Event]) -> None:
    """Telemetry: how many messages, and the version afterwards."""
    history = coded(hooks=(events.append,)).history("ann", "c1")
    await history.append(human("1"), ai("2"))
    await history.append(human("3"))
    await history.load()
    told = [(event.kind, event.messages, event.version) for event in events]
    assert told == [("append", 2, 2), ("append", 1, 3), ("load", 3, 3)]
    assert len({event.conversation for event in events}) == 1


async def test_a_repeat_is_told_instead_of_an_append(memory: MakeMemory, events: list[Event]) -> None:
    """Telemetry: repeats recognised can be counted."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    for _ in range(3):
        await history.append(human("1"), idempotency_key="k")
    assert [event.kind for event in events] == ["append", "repeat", "repeat"]
    assert [event.version for event in events] == [1, 1, 1]


async def test_a_conflict_is_told_with_its_class(
    memory: MakeMemory, events: list[Event], raw: redis.Redis, keys: Names
) -> None:
    """Telemetry: raised or only reported, moved on, cleared or rolled back."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    await history.append(human("1"))
    backup = Backup(raw, keys)
    lost = await history.append(human("2"))
    with pytest.raises(ConflictError):
        await history.append(human("x"), expected=Version())
    await take_turn(history, human("3"), meanwhile=lambda: history.append(human("of another")))
    backup.restore()
    with pytest.raises(ConflictError):
        await history.append(human("x"), expected=lost)
    seen = (await history.load()).version
    await history.clear()
    with pytest.raises(HistoryCleared):
        await history.append(human("x"), expected=seen)
    conflicts = [(event.detail, event.messages) for event in events if event.kind == "conflict"]
    assert conflicts == [
        ("ConflictError", 2),
        ("ConflictError", 1),
        ("HistoryRolledBack", 0),
        ("HistoryCleared", 0),
    ]


@pytest.mark.parametrize("half", ["messages", "meta"])
async def test_a_heal_is_told_where_it_is_seen(
    memory: MakeMemory, events: list[Event], raw: redis.Redis, keys: Names, half: str
) -> None:
    """Telemetry, P10: by a load, and by the append that repairs it, once."""
    history = memory(hooks=(events.append,)).history("ann", "c1")
    await history.append(human("1"), human("2"))
    raw.delete(getattr(keys, half))
    events.clear()
    await history.load()
    await history.append(human("3"))
    await history.append(human("4"))
    assert [event.kind for event in events].count("heal") == 2
    assert [event.kind for event in events][-1] == "append"


async def test_an_end_that_was_set_is_told(
    memory: MakeMemory, events: list[Event], raw: redis.Redis, keys: Names
) -> None:
    """Telemetry: the instant, in ms since 1970, as the server has it; none without an expiry."""
    for number, expiry in enumerate((SlidingExpiry(60), FixedExpiry(90), SlidingExpiry(60, on_read=True))):
        events.clear()
        name = f"c{number}"
        await memory(expiry=expiry, hooks=(events.append,)).history("ann", name).append(human("1"))
        (event,) = [event for event in events if event.kind == "expiry"]
        assert event.expire_at == raw.pexpiretime(keys.messages.replace(":c1}", f":{name}}}"))
    events.clear()
    await memory(hooks=(events.append,)).history("ann", "c9").append(human("1"))
    assert [event.kind for event in events] == ["append"]


async def test_records_left_out_are_told(
    memory: MakeMemory, events: list[Event], raw: redis.Redis, keys: Names
) -> None:
    """Telemetry, S1: how many, by a load and by a page."""
    history = memory(hooks=(events.append,), on_corrupt="skip").history("ann", "c1")
    await history.append(*(human(str(number)) for number in range(4)))
    for at in (1, 2):
        raw.lset(keys.messages, at, b"rubbish")
    await history.load()
    assert [message.text async for message in history.iterate()] == ["0", "3"]
    assert [event.messages for event in events if event.kind == "corrupt"] == [2, 2]


async def test_a_hook_that_raises_fails_no_call(
    memory: MakeMemory, events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 27: it is logged, without its text, and the other hooks are told."""

    def broken(event: Event) -> None:
        raise ValueError("secret in a hook")

    history = memory(hooks=(broken, events.append)).history("ann", "c1")
    await history.append(human("1"))
    assert len((await history.load()).messages) == 1
    assert [event.kind for event in events] == ["append", "load"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


async def test_nobody_is_told_where_no_hooks_are_wanted(
    memory: MakeMemory, raw: redis.Redis, keys: Names, caplog: pytest.LogCaptureFixture
) -> None:
    """Telemetry: an empty sequence does nothing."""
    caplog.set_level(logging.DEBUG, logger="memory_redis")
    history = memory(hooks=()).history("ann", "c1")
    await history.append(human("1"))
    raw.delete(keys.meta)
    await history.load()
    assert [record for record in caplog.records if record.name == "memory_redis"] == []


async def test_by_default_it_is_logged_without_ids_and_content(
    memory: MakeMemory, raw: redis.Redis, caplog: pytest.LogCaptureFixture, namespace: str
) -> None:
    """Telemetry, P12, S6: heals and skipped records warn, conflicts inform, the rest is for debugging."""
    caplog.set_level(logging.DEBUG, logger="memory_redis")
    keys = Names.of(namespace, "secret-user", "secret-conversation")
    history: Any = memory(on_corrupt="skip").history("secret-user", "secret-conversation")
    await history.append(human("secret content"), idempotency_key="secret key")
    with pytest.raises(ConflictError) as caught:
        await history.append(human("secret content"), expected=Version())
    raw.rpush(keys.messages, b"secret rubbish")
    await history.load()
    levels = {record.getMessage().split()[0]: record.levelno for record in caplog.records}
    assert levels["append"] == levels["load"] == logging.DEBUG
    assert levels["conflict"] == logging.INFO
    assert levels["corrupt"] == levels["heal"] == logging.WARNING
    assert "secret" not in caplog.text
    assert "secret" not in f"{caught.value} {caught.value!r}"
