"""The keywords of a memory: each is checked when the memory is made, on both faces."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memory_redis import (
    APPROXIMATE,
    AllMessages,
    AsyncRedisMemory,
    FixedExpiry,
    InvalidSetting,
    LastMessages,
    Limits,
    MaxAge,
    MaxBytes,
    MaxMessages,
    NoExpiry,
    RedisMemory,
    SlidingExpiry,
    TokenCounter,
    human,
)
from memory_redis.expiry import Expiry
from memory_redis.options import MemoryOptions
from memory_redis.telemetry import Event
from tests.support.ids import shown

FACES: list[Any] = [RedisMemory, AsyncRedisMemory]


def ignore(event: Event) -> None:
    """A hook."""


async def never(_value: Any) -> Any:
    """What would have to be awaited, by nobody."""
    raise AssertionError


GOOD: dict[str, list[Any]] = {
    "namespace": ["memory", "app:prod"],
    "window": [AllMessages(), LastMessages(0), LastMessages(20)],
    "expiry": [NoExpiry(), SlidingExpiry(1), FixedExpiry(days=1), lambda user: SlidingExpiry(60)],
    "retention": [None, MaxMessages(1), MaxAge(days=1) & MaxBytes(10**6)],
    "counter": [None, APPROXIMATE, TokenCounter("mine", lambda message: 1)],
    "codec": ["msgpack", "json"],
    "on_corrupt": ["raise", "skip"],
    "hooks": [None, (), [], [ignore], (ignore, ignore)],
    "limits": [Limits(), Limits(record_bytes=1)],
    "idempotency_hold": [timedelta(seconds=1), timedelta(hours=1), timedelta(days=366)],
    "deadline": [0.01, 1, 15.0, 60],
}
NEVER: list[Any] = [5, -1, 0, True, "3", b"x", [], {}, object(), 1.5, float("nan"), float("inf")]
BAD: dict[str, list[Any]] = {
    "namespace": ["", "a b", "a{", None, 5, b"memory", ["memory"]],
    "window": [*NEVER, None, AllMessages, LastMessages, "last", MaxMessages(3)],
    "expiry": [
        *NEVER,
        never,
        None,
        NoExpiry,
        SlidingExpiry,
        timedelta(days=1),
        Expiry(),
        Expiry,
        LastMessages(3),
    ],
    "retention": [*NEVER, MaxMessages, LastMessages(3)],
    "counter": [*NEVER, TokenCounter, len],
    "codec": [*NEVER, None, "", "pickle", "MSGPACK", "json ", ("json",)],
    "on_corrupt": [*NEVER, None, "", "ignore", "RAISE", ("skip",)],
    "hooks": [5, True, 1.5, "abc", b"abc", ignore, (5,), [ignore, "x"], (None,), object(), [never], (never,)],
    "limits": [*NEVER, None, Limits, (1, 2, 3, 4), {"record_bytes": 5}],
    "idempotency_hold": [
        *NEVER,
        None,
        timedelta(0),
        timedelta(days=-1),
        timedelta(days=367),
        timedelta(seconds=0.5),
    ],
    "deadline": [
        0,
        -1,
        0.009,
        60.5,
        1e18,
        True,
        "3",
        b"3",
        None,
        float("nan"),
        float("inf"),
        timedelta(seconds=5),
        [5],
    ],
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("keyword", GOOD)
def test_a_setting_that_can_be_meant_is_taken(face: Any, keyword: str) -> None:
    """Every keyword, on both faces, without I/O."""
    for value in GOOD[keyword]:
        face.from_url("fake://", **{keyword: value})


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("keyword", BAD)
def test_a_setting_that_cannot_be_meant_is_refused(face: Any, keyword: str) -> None:
    """F01: InvalidSetting, a ValueError, when the memory is made; never a TypeError of Python's."""
    for value in BAD[keyword]:
        with pytest.raises(InvalidSetting) as caught:
            face.from_url("fake://", **{keyword: value})
        assert isinstance(caught.value, ValueError), value


@pytest.mark.parametrize("face", FACES)
def test_every_documented_setting_is_covered_here_and_no_other_is_taken(face: Any) -> None:
    """B09: an option that is documented exists, one that is not is an error and does nothing silently."""
    assert set(GOOD) == set(BAD) == set(MemoryOptions.__annotations__)
    for name in GOOD:
        assert f"{name}: " in inspect.getdoc(MemoryOptions).__str__()
    with pytest.raises(TypeError, match="windw"):
        face.from_url("fake://", windw=AllMessages())


def test_hooks_are_told_whatever_kind_of_sequence_they_come_in() -> None:
    """A hook that was taken is called; also from a generator, unless that is refused."""
    kinds: list[Callable[[Any], Any]] = [tuple, list, iter, lambda hooks: (hook for hook in hooks)]
    for kind in kinds:
        seen: list[Event] = []
        try:
            memory = RedisMemory.from_url("fake://", hooks=kind([seen.append]))
        except InvalidSetting:
            assert kind not in (tuple, list)
            continue
        with memory:
            memory.history("ann", "c1").append(human("x"))
        assert [event.kind for event in seen] == ["append"]


def test_a_list_of_hooks_that_is_changed_later_changes_nothing() -> None:
    """A memory is as it was made."""
    seen: list[Event] = []
    hooks = [seen.append]
    with RedisMemory.from_url("fake://", hooks=hooks) as memory:
        hooks.clear()
        memory.history("ann", "c1").append(human("x"))
    assert len(seen) == 1


def test_expiry_may_depend_on_the_user() -> None:
    """Decision 25: a function of the user id; a session is asked for with the empty text."""
    asked: list[str] = []

    def expiry(user_id: str) -> Expiry:
        asked.append(user_id)
        return SlidingExpiry(100) if user_id == "ann" else NoExpiry()

    with RedisMemory.from_url("fake://", expiry=expiry) as memory:
        ann, ben, session = memory.history("ann", "c1"), memory.history("ben", "c1"), memory.session("s1")
        for history in (ann, ben, session):
            history.append(human("x"))
        left = ann.expire_in()
        assert left is not None
        assert 90 < left <= 100
        assert ben.expire_in() is None
        assert session.expire_in() is None
    assert asked == ["ann", "ben", ""]


@pytest.mark.parametrize("answer", [None, 5, timedelta(days=1), Expiry(), NoExpiry, "never"], ids=shown)
def test_an_expiry_function_that_answers_anything_else_is_refused(answer: Any) -> None:
    """B09, decision 25: nothing is stored for ever, or for a moment, because of a slip."""
    with RedisMemory.from_url("fake://", expiry=lambda user_id: answer) as memory:
        with pytest.raises(InvalidSetting):
            memory.history("ann", "c1")
        with pytest.raises(InvalidSetting):
            memory.session("s1")


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "load window": lambda history, value: history.load(value),
    "load on_corrupt": lambda history, value: history.load(on_corrupt=value),
    "iterate page_size": lambda history, value: history.iterate(value),
    "iterate on_corrupt": lambda history, value: history.iterate(on_corrupt=value),
    "turn on_conflict": lambda history, value: history.turn(on_conflict=value),
    "turn window": lambda history, value: history.turn(window=value),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_setting_of_a_call_is_checked_as_well(name: str) -> None:
    """F01: at the call itself, also where the result is only iterated or entered later."""
    with RedisMemory.from_url("fake://") as memory:
        history = memory.history("ann", "c1")
        for bad in [-1, 0, 2.5, True, "3", b"x", [], {}, object(), float("nan"), 10**30]:
            with pytest.raises(InvalidSetting):
                CALLS[name](history, bad)


@pytest.mark.parametrize("size", [0, -1, 1001, 2.5, True, "3", None, 10**30], ids=repr)
def test_a_page_of_conversations_has_a_size(size: Any) -> None:
    """From 1 to 1,000; checked at the call."""
    for face in FACES:
        with pytest.raises(InvalidSetting):
            face.from_url("fake://").conversations("ann", page_size=size)


def test_a_turn_that_was_not_entered_says_so() -> None:
    """D05: a turn is used with `with`; before that there is nothing to see, and no I/O."""
    with RedisMemory.from_url("fake://") as memory:
        turn = memory.history("ann", "c1").turn()
        for look in (lambda: turn.messages, lambda: turn.version, lambda: turn.snapshot):
            with pytest.raises(InvalidSetting, match="with"):
                look()


@pytest.mark.parametrize("face", FACES)
def test_what_has_connections_is_not_pickled(face: Any) -> None:
    """D13, D19: the error of a process that is spawned says what to do instead."""
    memory = face.from_url("fake://")
    with pytest.raises(TypeError, match="in each process, by from_url"):
        pickle.dumps(memory)
    for history in (memory.history("ann", "c1"), memory.session("s")):
        with pytest.raises(TypeError, match="give its ids to the other process"):
            pickle.dumps(history)


@pytest.mark.parametrize("face", FACES)
def test_an_argument_of_another_kind_is_told_what_it_is_to_be(face: Any) -> None:
    """P9: a load, or its version; each argument has a sentence of its own."""

    async def append(**options: Any) -> Any:
        given = face.from_url("fake://").history("ann", "c1").append(human("x"), **options)
        return await given if inspect.isawaitable(given) else given

    with pytest.raises(InvalidSetting, match=r"expected .*snapshot\.version"):
        asyncio.run(append(expected=RedisMemory.from_url("fake://").session("s").load()))
    with pytest.raises(InvalidSetting, match=r"append_id .*AppendId\.parse"):
        asyncio.run(append(append_id="k" * 24))


def test_a_turn_says_where_it_stands() -> None:
    """P12: no id and no content, but what it has to store."""
    history = RedisMemory.from_url("fake://").history("ann", "c1")
    turn = history.turn()
    said = [repr(turn)]
    with turn:
        turn.add(human("1"), human("2"))
        said.append(repr(turn))
    said.append(repr(turn))
    states = ("not entered", "open, 2 added", "ended, 0 added")
    assert said == [f"<Turn {history.label} {state}>" for state in states]
