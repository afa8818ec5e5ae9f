"""Hooks: told of what happens, never in the way of it; standard logging where nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from memory_redis import FixedExpiry, HistoryRolledBack, RedisMemory, Version, ai, human
from memory_redis._engine.fakes import fake_client, fake_server
from memory_redis.telemetry import Emitter, Event, Kind, log_event

SECRET = "hunter2-secret"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def memory(events: list[Event], namespace: str) -> Iterator[RedisMemory]:
    url = f"fake://{namespace}"
    with RedisMemory.from_url(url, namespace=namespace, hooks=[events.append], on_corrupt="skip") as memory:
        yield memory


@pytest.fixture
def client(namespace: str) -> Any:
    return fake_client(fake_server(f"fake://{namespace}"))


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_an_append_and_a_load_are_told(memory: RedisMemory, events: list[Event]) -> None:
    """How many messages, and the version afterwards."""
    history = memory.history("ann", "c1")
    history.append(human("1"), ai("2"))
    history.load()
    assert [(event.kind, event.messages, event.version) for event in events] == [
        ("append", 2, 2),
        ("load", 2, 2),
    ]


def test_a_repeat_is_told(memory: RedisMemory, events: list[Event]) -> None:
    """An append that was recognised is no second append."""
    history = memory.history("ann", "c1")
    history.append(human("1"), idempotency_key="k")
    history.append(human("1"), idempotency_key="k")
    assert kinds(events) == ["append", "repeat"]


def test_a_conflict_is_told(memory: RedisMemory, events: list[Event]) -> None:
    """Refused or only reported, with its class."""
    history = memory.history("ann", "c1")
    with history.turn() as turn:
        history.append(human("1"))
        turn.add(human("2"))
    assert ("conflict", "ConflictError") in [(event.kind, event.detail) for event in events]
    with pytest.raises(HistoryRolledBack):
        history.append(human("3"), expected=Version(50, b"x" * 12, turn.version.birth))
    assert events[-1].detail == "HistoryRolledBack"


def test_an_expiry_is_told(namespace: str, events: list[Event]) -> None:
    """The instant at which the conversation ends."""
    with RedisMemory.from_url("fake://", expiry=FixedExpiry(days=1), hooks=[events.append]) as memory:
        memory.history("ann", "c1").append(human("1"))
    ends = [event.expire_at for event in events if event.kind == "expiry"]
    assert len(ends) == 1
    assert ends[0] > 1_700_000_000_000


def test_a_heal_and_a_corrupt_record_are_told(
    memory: RedisMemory, events: list[Event], client: Any, namespace: str
) -> None:
    """P10: what was edited by hand is noticed, what cannot be read is counted."""
    history = memory.history("ann", "c1")
    history.append(human("1"))
    client.rpush(f"{namespace}:{{ann:c1}}:messages", SECRET)
    events.clear()
    snapshot = history.load()
    assert len(snapshot.skipped) == 1
    assert {("corrupt", 1), ("load", 1)} <= {(event.kind, event.messages) for event in events}
    assert "heal" in kinds(events)
    assert SECRET not in repr(events)


def test_an_event_shows_no_id_and_no_content(memory: RedisMemory, events: list[Event]) -> None:
    """S6, P12: a conversation is named by its hash, the same in every event."""
    history = memory.history(SECRET, SECRET)
    history.append(human(SECRET, name=SECRET))
    history.load()
    assert SECRET not in repr(events)
    assert len({event.conversation for event in events}) == 1


class Rude(Exception):
    """What a hook raises, with content in its text."""


@pytest.mark.parametrize(
    "error", [Rude(SECRET), ValueError(SECRET), AssertionError(), StopIteration(), RuntimeError()]
)
def test_a_hook_that_raises_is_logged_and_fails_no_call(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 27: the call goes on, the next hook is told, and the log shows the class and no content."""
    seen: list[Event] = []

    def rude(event: Event) -> None:
        raise error

    with RedisMemory.from_url("fake://", hooks=[rude, seen.append], expiry=FixedExpiry(60)) as memory:
        history = memory.history("ann", "c1")
        with history.turn() as turn:
            history.append(human("1"))
            turn.add(human("2"))
        assert history.append(human("3"), idempotency_key="k").number == 3
        assert history.append(human("3"), idempotency_key="k").repeated
        assert len(history.load().messages) == 3
        assert history.clear() == 3
    assert {"append", "load", "conflict", "repeat", "expiry"} <= set(kinds(seen))
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text
    assert all(record.levelno == logging.ERROR and record.name == "memory_redis" for record in caplog.records)


def test_an_interrupt_in_a_hook_is_not_swallowed() -> None:
    """Decision 27: only errors are; a program that is told to stop stops."""

    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Emitter([stop])(Event("load", "c0ffee"))


LEVELS = {
    "append": logging.DEBUG,
    "load": logging.DEBUG,
    "expiry": logging.DEBUG,
    "conflict": logging.INFO,
    "repeat": logging.INFO,
    "settled": logging.INFO,
    "heal": logging.WARNING,
    "corrupt": logging.WARNING,
    "summary": logging.WARNING,
    "compact": logging.INFO,
}


@pytest.mark.parametrize("kind", get_args(Kind))
def test_standard_logging_is_the_default(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Each kind has a level; the line names kind, conversation and figures."""
    caplog.set_level(logging.DEBUG, "memory_redis")
    log_event(Event(kind, "c0ffee", messages=3, version=9, detail="why"))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("memory_redis", LEVELS[kind])
    for part in (kind, "c0ffee", "3", "9", "why"):
        assert part in record.getMessage()


def test_a_summary_that_could_not_be_made_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    """The line says that it failed, and by which error; the kind alone would not."""
    log_event(Event("summary", "c0ffee", version=14, detail="RuntimeError"))
    line = "summary not made conversation=c0ffee messages=0 version=14 RuntimeError"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, line)]


def test_a_rolled_back_history_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It is the only sign of loss that a client gets."""
    caplog.set_level(logging.DEBUG, "memory_redis")
    log_event(Event("conflict", "c0ffee", detail="HistoryRolledBack"))
    assert caplog.records[0].levelno == logging.WARNING


def test_a_memory_without_hooks_logs_and_one_with_none_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """None is the default hook, an empty sequence no hook at all; content is in no line."""
    caplog.set_level(logging.DEBUG, "memory_redis")
    with RedisMemory.from_url("fake://", hooks=()) as memory:
        memory.history(SECRET, SECRET).append(human(SECRET))
    assert caplog.records == []
    with RedisMemory.from_url("fake://") as memory:
        memory.history(SECRET, SECRET).append(human(SECRET))
        memory.history(SECRET, SECRET).load()
    assert [record.getMessage().split()[0] for record in caplog.records] == ["append", "load"]
    assert SECRET not in caplog.text


def test_an_event_is_a_frozen_value() -> None:
    """It can be compared, and not changed."""
    event = Event("load", "c0ffee", messages=1)
    assert event == Event("load", "c0ffee", 1)
    with pytest.raises(AttributeError):
        event.kind = "append"  # type: ignore[misc]
