"""Sending a plan until it is answered or its time is over: the decisions."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from redis import exceptions as redis_errors

from memory_redis import (
    AccessDenied,
    AppendId,
    MemoryRedisError,
    PoolExhausted,
    ServerRefused,
    ServerUnavailable,
    StorageFull,
    UnknownOutcome,
    WrongType,
)
from memory_redis._engine.attempts import Attempts
from memory_redis._engine.failures import NotSent
from memory_redis._engine.plans import UNKNOWN_AGE, Call, Plan, only
from memory_redis._engine.scripts import APPEND

ID = AppendId(b"a" * 12)
LOST: list[BaseException] = [
    redis_errors.ConnectionError("Connection closed by server."),
    redis_errors.TimeoutError("Timeout reading from socket"),
    ConnectionResetError("reset"),
    TimeoutError(),
    EOFError(),
    OSError("broken pipe"),
    redis_errors.InvalidResponse("Protocol Error: b'x'"),
]
PASSING: list[BaseException] = [
    redis_errors.BusyLoadingError("Redis is loading the dataset in memory"),
    redis_errors.ReadOnlyError("You can't write against a read only replica."),
    redis_errors.ClusterDownError("CLUSTERDOWN The cluster is down"),
    redis_errors.MasterDownError("MASTERDOWN Link with MASTER is down"),
    redis_errors.TryAgainError("TRYAGAIN Multiple keys request during rehashing of slot"),
    redis_errors.ResponseError("NOREPLICAS Not enough good replicas to write."),
    redis_errors.ResponseError("BUSY Redis is busy running a script."),
]
FINAL: list[tuple[BaseException, type[MemoryRedisError]]] = [
    (redis_errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), StorageFull),
    (redis_errors.ResponseError("OOM command not allowed when used memory > 'maxmemory'."), StorageFull),
    (
        redis_errors.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        WrongType,
    ),
    (redis_errors.NoPermissionError("this user has no permissions to run the 'hset' command"), AccessDenied),
    (
        redis_errors.AuthenticationError("WRONGPASS invalid username-password pair or user is disabled."),
        AccessDenied,
    ),
    (redis_errors.ResponseError("ERR unknown command 'FOO'"), ServerRefused),
]


def plan(*, writes: bool = True, again: bool = False, append_id: AppendId | None = ID) -> Plan[Any]:
    call = Call(APPEND, (b"id", "0", "r"), keys=("k", "m"), timed=True)
    return Plan((call,), only, "c0ffee", writes=writes, append_id=append_id, again=again)


def begun(*, seconds: float = 60, **options: Any) -> Attempts:
    return Attempts(plan(**options), time.monotonic() + seconds)


def age(attempts: Attempts) -> int:
    return int(attempts.wires()[0][6])


def not_sent(cause: BaseException) -> NotSent:
    error = NotSent()
    error.__cause__ = cause
    return error


REFUSED = not_sent(redis_errors.ConnectionError("Error 111 connecting to h:1. Connection refused."))
FULL = not_sent(PoolExhausted("no connection was free in time"))
NOSCRIPT = redis_errors.NoScriptError("NOSCRIPT No matching script.")


def test_a_first_send_has_no_age() -> None:
    """Decision 1: nothing was sent before it."""
    assert age(begun()) == 0


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_lost_reply_is_asked_for_again_at_once_with_its_age(error: BaseException) -> None:
    """P2, decision 1: the same id, and the time since the first send, which was not after it."""
    attempts = begun()
    first = attempts.wires()
    assert attempts.failed(error) == 0.0
    again = attempts.wires()
    assert 1 <= int(again[0][6]) < 60_000
    assert (*again[0][:6], "0", *again[0][7:]) == first[0]


def test_pauses_grow_and_stay_short() -> None:
    """No storm of repeats, and no pause that wastes the deadline."""
    attempts = begun()
    pauses = [attempts.failed(LOST[0]) for _ in range(20)]
    assert pauses[0] == 0.0
    assert all(0 < pause <= 1.0 for pause in pauses[1:])
    assert max(pauses) >= 0.1
    assert sum(pauses[:4]) < 0.2


@pytest.mark.parametrize("error", [REFUSED, FULL, *PASSING], ids=repr)
def test_what_was_not_stored_is_sent_again_as_if_for_the_first_time(error: BaseException) -> None:
    """Connection refused, no connection free, not ready: nothing was done, so it has no age."""
    attempts = begun()
    assert attempts.failed(error) > 0
    assert age(attempts) == 0


def test_the_age_counts_from_the_first_send_that_may_have_arrived() -> None:
    """Decision 1: what was certainly not sent before it, and what was not stored after it, change nothing."""
    attempts = begun()
    attempts.failed(REFUSED)
    attempts.failed(LOST[0])
    one = age(attempts)
    attempts.failed(PASSING[0])
    attempts.failed(REFUSED)
    assert age(attempts) >= one >= 1


def test_a_missing_script_is_sent_by_its_source_at_once_and_only_once() -> None:
    """G27, F4: a restarted server is given the script; one that answers so again has refused it."""
    attempts = begun()
    assert attempts.failed(NOSCRIPT) == 0.0
    assert attempts.wires()[0][:2] == ("EVAL", APPEND.source)
    assert age(attempts) == 0
    with pytest.raises(ServerRefused):
        attempts.failed(NOSCRIPT)


def test_a_missing_script_does_not_end_an_expired_call() -> None:
    """F4: no error reaches the user only because the server was restarted in the last moment."""
    assert begun(seconds=0).failed(NOSCRIPT) == 0.0


@pytest.mark.parametrize(("error", "kind"), FINAL, ids=lambda value: str(value)[:30])
def test_a_refusal_is_final(error: BaseException, kind: type[MemoryRedisError]) -> None:
    """P3: out of memory, no permission, wrong password, wrong type: not repeated, nothing stored."""
    with pytest.raises(kind) as caught:
        begun().failed(error)
    assert caught.value.outcome == "not_stored"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("error", [error for error, _ in FINAL], ids=lambda error: str(error)[:30])
def test_a_refusal_after_a_lost_reply_leaves_the_outcome_open(error: BaseException) -> None:
    """P9: the send before may have been stored; the id settles it."""
    attempts = begun()
    attempts.failed(LOST[0])
    with pytest.raises(UnknownOutcome) as caught:
        attempts.failed(error)
    assert caught.value.append_id == ID
    assert caught.value.conversation == "c0ffee"


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_reply_that_is_lost_until_the_deadline_is_an_unknown_outcome(error: BaseException) -> None:
    """P9: never a guess; the append id is named."""
    with pytest.raises(UnknownOutcome) as caught:
        begun(seconds=0).failed(error)
    assert (caught.value.append_id, caught.value.outcome) == (ID, "unknown")


@pytest.mark.parametrize("error", [REFUSED, *PASSING], ids=repr)
def test_what_could_not_be_sent_until_the_deadline_is_not_stored(error: BaseException) -> None:
    """P9: known for certain."""
    with pytest.raises(ServerUnavailable) as caught:
        begun(seconds=0).failed(error)
    assert caught.value.outcome == "not_stored"


def test_a_pool_that_stays_used_up_is_told_as_that() -> None:
    """PoolExhausted, nothing was sent."""
    with pytest.raises(PoolExhausted) as caught:
        begun(seconds=0).failed(FULL)
    assert caught.value.outcome == "not_stored"


def last_sends(monkeypatch: pytest.MonkeyPatch, seconds: float, *errors: BaseException) -> list[float]:
    """Seconds that were left for each send, with these errors for replies, the last one for ever."""
    now = 100.0
    monkeypatch.setattr("memory_redis._engine.attempts.time", SimpleNamespace(monotonic=lambda: now))
    attempts, left = Attempts(plan(), now + seconds), []
    for error in chain(errors, repeat(errors[-1])):
        left.append(100.0 + seconds - now)
        try:
            now += attempts.failed(error) + 0.0001
        except MemoryRedisError:
            return left
    raise AssertionError("it never ends")


@pytest.mark.parametrize("error", [REFUSED, FULL, *PASSING], ids=repr)
@pytest.mark.parametrize("seconds", [0.05, 1, 15])
def test_what_was_surely_not_stored_is_not_sent_without_time_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, seconds: float
) -> None:
    """P9: an answer that came too late would leave the outcome open; it is tried for as long as it can be."""
    spare = min(seconds / 4, 0.25)
    assert spare - 0.001 <= last_sends(monkeypatch, seconds, error)[-1] <= spare + 0.001


def test_what_may_have_been_stored_is_asked_for_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: the outcome is open, so that another answer can only help."""
    assert last_sends(monkeypatch, 15, LOST[0], REFUSED)[-1] <= 0.001


@pytest.mark.parametrize("then", [REFUSED, FULL, *PASSING, NOSCRIPT], ids=repr)
def test_an_outcome_once_open_stays_open(then: BaseException) -> None:
    """P9: whatever comes after a lost reply, until there is an answer."""
    attempts = begun(seconds=0.05)
    error, outcome = LOST[0], None
    while outcome is None:
        try:
            time.sleep(attempts.failed(error) + 0.001)
        except MemoryRedisError as verdict:
            outcome = verdict
        error = then
    assert isinstance(outcome, UnknownOutcome)


def test_what_is_there_and_no_server_ends_a_call_at_once() -> None:
    """P9: waiting is no use; nothing was sent, unless it was before."""
    with pytest.raises(ServerUnavailable) as caught:
        begun().failed(NotSent("what answers there is no Redis server", final=True))
    assert caught.value.outcome == "not_stored"
    sending = begun()
    sending.failed(LOST[0])
    with pytest.raises(UnknownOutcome):
        sending.failed(NotSent("what answers there is no Redis server", final=True))


@pytest.mark.parametrize("error", [*LOST, REFUSED], ids=lambda error: type(error).__name__)
def test_a_read_has_no_outcome_to_be_unknown(error: BaseException) -> None:
    """P9: a load that got no answer is a server that could not be reached."""
    with pytest.raises(ServerUnavailable):
        begun(seconds=0, writes=False).failed(error)


def test_a_repeat_by_the_caller_counts_from_when_its_id_was_made() -> None:
    """Decision 1, 10: the first send was at some time after that, perhaps long ago."""
    made = AppendId(b"a" * 12, time.monotonic() - 5)
    assert 5000 <= age(begun(again=True, append_id=made)) < 60_000


def test_a_repeat_with_an_id_from_elsewhere_has_an_unknown_age() -> None:
    """Decision 1, 10: it is never taken for a first send."""
    attempts = begun(again=True, append_id=AppendId.parse("ab" * 12))
    assert age(attempts) == UNKNOWN_AGE
    attempts.failed(LOST[0])
    assert age(attempts) == UNKNOWN_AGE


@pytest.mark.parametrize("error", [REFUSED, FULL, *PASSING, *LOST, *(error for error, _ in FINAL)], ids=repr)
def test_a_repeat_that_cannot_be_sent_says_nothing_about_the_first(error: BaseException) -> None:
    """P2, P9: the append under this id may be stored since the call before; "not stored" would double it."""
    with pytest.raises(UnknownOutcome) as caught:
        begun(seconds=0, again=True).failed(error)
    assert caught.value.append_id == ID


def test_no_pause_goes_past_the_deadline() -> None:
    """Decision 29: the last pause ends where the time does, and each send is told how long it may take."""
    attempts = begun(seconds=0.2)
    assert 0 < attempts.seconds() <= 0.2
    with suppress(ServerUnavailable):  # where the time is over sooner than that
        for _ in range(9):
            assert attempts.failed(REFUSED) <= 0.2
    assert 0 < begun(seconds=-5).seconds() < 0.1


def test_an_error_among_the_replies_is_raised() -> None:
    """P10: a plan of several calls fails as a whole, by the first error."""
    attempts = begun()
    assert attempts.checked([1, b"x", None]) == [1, b"x", None]
    first = redis_errors.ResponseError("WRONGTYPE x")
    with pytest.raises(redis_errors.ResponseError) as caught:
        attempts.checked([1, first, NOSCRIPT])
    assert caught.value is first
