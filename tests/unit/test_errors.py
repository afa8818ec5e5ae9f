"""Errors: one tree, an outcome for each, nothing of a message, an id or a password in any text."""

from __future__ import annotations

import copy
import inspect
import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, get_args

import pytest

import memory_redis
from memory_redis import (
    AccessDenied,
    AppendId,
    ConflictError,
    CorruptRecord,
    HistoryCleared,
    HistoryRolledBack,
    HistoryTooLarge,
    InvalidId,
    InvalidMessage,
    InvalidSetting,
    Limits,
    MemoryRedisError,
    RecordError,
    RedisMemory,
    ServerError,
    TurnAlreadyStored,
    UnknownOutcome,
    UnsupportedFormat,
    Version,
    ai,
    errors,
    human,
)
from memory_redis._engine.fakes import fake_client, fake_server
from memory_redis.messages import MessageData
from memory_redis.roles import messages_of

SECRET = "hunter2-secret"
EXPORTED = {
    name: value
    for name in memory_redis.__all__
    if isinstance(value := getattr(memory_redis, name), type) and issubclass(value, BaseException)
}
DEFINED = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == errors.__name__
}


def test_every_error_is_in_one_tree_and_exported() -> None:
    """One `except MemoryRedisError` catches all of them; nothing is hidden in a module."""
    assert EXPORTED == DEFINED
    assert all(issubclass(error, MemoryRedisError) for error in EXPORTED.values())
    assert all(
        sum(issubclass(base, MemoryRedisError) for base in error.__bases__) == 1
        for error in EXPORTED.values()
        if error is not MemoryRedisError
    )


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (InvalidSetting, (ValueError,)),
        (InvalidMessage, (ValueError,)),
        (InvalidId, (TypeError,)),
        (HistoryCleared, (ConflictError,)),
        (HistoryRolledBack, (ConflictError,)),
        (CorruptRecord, (RecordError,)),
        (UnsupportedFormat, (RecordError,)),
        (HistoryTooLarge, (RecordError,)),
        (AccessDenied, (ServerError,)),
    ],
)
def test_an_error_is_also_what_python_programs_expect(
    error: type[Exception], bases: tuple[type, ...]
) -> None:
    """Decision 20: wrong values are ValueErrors, wrong ids TypeErrors, kinds stand under their kind."""
    assert issubclass(error, bases)


def test_an_unsupported_format_is_not_corrupt() -> None:
    """Decision 18: who drops corrupt records must not drop those of a later release."""
    assert not issubclass(UnsupportedFormat, CorruptRecord)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_error_is_documented_and_has_an_outcome(name: str) -> None:
    """P9: stored, not stored, or unknown; and a sentence says what the error means."""
    error = EXPORTED[name]
    assert error.outcome in (*get_args(errors.Outcome), None)  # type: ignore[attr-defined]
    assert inspect.getdoc(error)
    assert error.__doc__ != MemoryRedisError.__doc__ or error is MemoryRedisError
    assert name in str(errors.__doc__)


def test_the_outcomes() -> None:
    """P9, P3: refusals and conflicts stored nothing; the reply that was lost leaves it open."""
    assert (
        ConflictError("c").outcome
        == HistoryCleared("c").outcome
        == InvalidMessage("r").outcome
        == "not_stored"
    )
    assert UnknownOutcome("c").outcome == "unknown"
    assert TurnAlreadyStored("c", Version()).outcome == "stored"


SERVER_ERRORS: list[type[ServerError]] = [ServerError, *ServerError.__subclasses__()]
MADE: list[MemoryRedisError] = [
    MemoryRedisError("text"),
    InvalidSetting("text"),
    InvalidId("text"),
    InvalidMessage("reason", position=2, field="data.x"),
    ConflictError(
        "c0ffee", version=Version(3, b"a" * 12, b"b" * 8), missed=[human("x")], missed_count=7, edited=True
    ),
    ConflictError("c0ffee", expired=True, unsaved=[ai("y")]),
    HistoryCleared("c0ffee", unsaved=[ai("y")]),
    HistoryRolledBack("c0ffee", missed_count=2),
    TurnAlreadyStored("c0ffee", Version(3, b"a" * 12, b"b" * 8)),
    UnknownOutcome("c0ffee", AppendId(b"a" * 12)),
    UnknownOutcome("c0ffee"),
    RecordError("c0ffee", "reason"),
    CorruptRecord("c0ffee", "reason", 9),
    UnsupportedFormat("c0ffee", "reason", 9),
    HistoryTooLarge("c0ffee", "reason"),
    *(kind("text") for kind in SERVER_ERRORS),
]


@pytest.mark.parametrize("duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_can_be_pickled(error: MemoryRedisError, duplicate: Callable[[Any], Any]) -> None:
    """P9: a worker process hands it to its parent with its text, its outcome and all it carries."""
    again = duplicate(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert repr(again) == repr(error)
    assert again.outcome == error.outcome
    assert vars(again) == vars(error)


def _fail() -> None:
    raise CorruptRecord("c0ffee", "reason", 9)


def test_an_error_comes_out_of_a_process_pool() -> None:
    """P9: an error that cannot be unpickled would break the whole pool."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(CorruptRecord, match="record 9"):
            pool.submit(_fail).result(timeout=60)
        assert pool.submit(abs, -1).result(timeout=60) == 1


def test_a_conflict_carries_what_is_needed_to_go_on() -> None:
    """P8, decision 4: lists of its own, and texts that count."""
    missed, unsaved = [human("x")], [ai("y")]
    error = ConflictError("c0ffee", missed=missed, missed_count=1, unsaved=unsaved)
    missed.clear()
    unsaved.clear()
    assert (len(error.missed), len(error.unsaved)) == (1, 1)
    assert str(error).endswith(", 1 new message")
    assert "expired" in str(ConflictError("c", expired=True))


def shown(error: BaseException) -> str:
    """All that a log or a terminal could show of an error."""
    return str(error) + repr(error) + "".join(traceback.format_exception(error))


def test_no_error_of_a_history_shows_content_ids_or_keys() -> None:
    """S6, P12: conflict, clear, corrupt record, wrong type, refused message; the worst content."""
    url, name = f"fake://{SECRET}", "secret"
    client = fake_client(fake_server(url))
    secret: Any = {SECRET: SECRET, "of pipeline caused error: ": SECRET}
    with RedisMemory.from_url(url, namespace=name, limits=Limits(load_bytes=10**6)) as memory:
        history = memory.history(SECRET, SECRET)
        seen = history.append(human(SECRET, extra=secret), idempotency_key=SECRET)
        history.append(ai(SECRET))

        def corrupt() -> None:
            client.lset(f"{name}:{{{SECRET}:{SECRET}}}:messages", 0, SECRET)
            history.load()

        def wrong_type() -> None:
            other = memory.history(SECRET, "other")
            client.set(f"{name}:{{{SECRET}:other}}:messages", SECRET)
            other.append(human(SECRET))

        def cleared() -> None:
            session = memory.session(SECRET)
            session.append(human(SECRET))
            with session.turn() as turn:
                turn.add(human(SECRET))
                session.clear()

        failing: list[tuple[type[MemoryRedisError], Callable[[], object]]] = [
            (ConflictError, lambda: history.append(human(SECRET), expected=seen)),
            (InvalidMessage, lambda: history.append(human(SECRET, extra={SECRET}))),
            (InvalidMessage, lambda: history.append(human(SECRET, additional_kwargs={SECRET: {1}}))),
            (InvalidMessage, lambda: history.append(ai("", tool_calls=[{"args": {SECRET: {1}}}]))),
            (InvalidMessage, lambda: history.append(human("", **{SECRET: {SECRET: {1: SECRET}}}))),
            (InvalidMessage, lambda: history.append(SECRET)),  # type: ignore[arg-type]
            (InvalidMessage, lambda: history.append(human(SECRET * 10**6))),
            (InvalidId, lambda: memory.history(SECRET + "\ud800", SECRET)),
            (InvalidId, lambda: memory.session([SECRET])),  # type: ignore[arg-type]
            (InvalidSetting, lambda: history.turn(on_conflict=SECRET)),  # type: ignore[arg-type]
            (CorruptRecord, corrupt),
            (memory_redis.WrongType, wrong_type),
            (HistoryCleared, cleared),
        ]
        for kind, call in failing:
            with pytest.raises(kind) as caught:
                call()
            assert SECRET not in shown(caught.value), kind
        assert SECRET not in repr(history) + repr(memory) + repr(history.turn()) + repr(seen)
        session = memory.session(SECRET)
        with session.turn() as turn:
            turn.add(human(SECRET))
            assert SECRET not in repr(turn)
        session.append(human("x"))
        session.compact(SECRET, expected=session.load().version)
        assert session.load().summary == SECRET
        assert SECRET not in repr(session.load()) + repr(list(memory.conversations(SECRET)))


PATHS: list[tuple[list[str | int], str]] = [
    (["data", "content", 1, "url"], "data.content.1.…"),
    (["data", "additional_kwargs", "my card is 4111", "12"], "data.additional_kwargs.….…"),
    (["data", "tool_calls", 0, "args", "a.b", 31], "data.tool_calls.0.args.….31"),
    (["data", *[0] * 40], "data.0.0.0.0.0.0.0.…"),
    (["data", "artifact", "x" * 1000], "data.artifact.…"),
]


@pytest.mark.parametrize(("path", "text"), PATHS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_text_of_an_error_shows_fields_and_positions_of_a_path_alone(
    path: list[str | int], text: str
) -> None:
    """S6, P12: names that an application or a model has chosen are content; attributes have them."""
    error = InvalidMessage("a set cannot be stored", position=2, field=path)
    assert str(error) == f"message 2: {text}: a set cannot be stored"
    assert error.path == tuple(path)
    assert error.field == ".".join(map(str, path))


def test_a_path_that_is_handed_on_shows_no_more_than_before() -> None:
    """S6, P12: a dictionary among others that stands for a message, and a path that is given as a text."""
    with pytest.raises(InvalidMessage) as caught:
        messages_of(["Hi", {"role": "user", "content": "", "4111": 1, "name": ["4111"]}])
    assert (caught.value.position, caught.value.field) == (1, "data.name")
    assert str(caught.value).startswith("message 1: data.name: ")
    assert str(InvalidMessage("no", field="data.4111.name")) == "data.….name: no"
    assert InvalidMessage("no").path is InvalidMessage("no").field is None


def test_every_field_of_a_message_is_known_to_its_errors() -> None:
    """C08: the text of an error names it."""
    for name in MessageData.__annotations__:
        assert str(InvalidMessage("no", field=["data", name])) == f"data.{name}: no"


def test_a_key_that_is_no_text_is_not_shown() -> None:
    """S6, P12: a number among keys is content, and no position."""
    for make in (
        lambda: human("", additional_kwargs={4111: 1}),
        lambda: ai("", tool_calls=[{4111: 1}]),
        lambda: human([{4111: 1}]),  # type: ignore[dict-item]
    ):
        with pytest.raises(InvalidMessage) as caught:
            make()
        assert "4111" not in str(caught.value) + repr(caught.value)


def test_a_conflict_that_is_only_reported_says_that_the_turn_is_stored() -> None:
    """P9, decision 4, 26: under policy append the messages are there, and the report does not deny it."""
    with RedisMemory.from_url("fake://") as memory:
        history = memory.history("ann", "c1")
        with history.turn(on_conflict="append") as turn:
            history.append(human("other"))
            turn.add(human("mine"))
        assert turn.conflict is not None
        assert turn.conflict.outcome == "stored"
        assert turn.conflict.unsaved == []
        assert [message.text for message in turn.missed] == ["other"]
        assert [message.text for message in history.load().messages] == ["other", "mine"]
