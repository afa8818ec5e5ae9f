"""redis-py's errors, translated: class, outcome, and not a word of what was stored."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions as redis_errors

from memory_redis import (
    AccessDenied,
    MemoryRedisError,
    PoolExhausted,
    ServerError,
    ServerRefused,
    ServerUnavailable,
    StorageFull,
    UnsupportedServer,
    WrongType,
)
from memory_redis._engine.attempts import RAISED
from memory_redis._engine.failures import (
    COMMANDS,
    NotSent,
    is_missing_script,
    is_passing,
    never_sent,
    not_opened,
    translated,
)

SECRET = "HUNTER2"
response = redis_errors.ResponseError
OOM = "OOM command not allowed when used memory > 'maxmemory'."
WRONG = "WRONGTYPE Operation against a key holding the wrong kind of value"


def not_sent(cause: BaseException) -> NotSent:
    error = NotSent()
    error.__cause__ = cause
    return error


TABLE: list[tuple[BaseException, type[MemoryRedisError]]] = [
    (response(OOM), StorageFull),
    (response(f"{OOM} script: 4ca238f611c9d0ae4e9a75a5dbac22aedc1e44, on @user_script:49."), StorageFull),
    (response(f"ERR Error running script (call to f_4ca238): @user_script:49: {OOM}"), StorageFull),
    (
        response(f"ERR Error running script (call to f_4ca238): @user_script:49: @user_script: 49: -{OOM}"),
        StorageFull,
    ),
    (redis_errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), StorageFull),
    (
        response("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to"),
        StorageFull,
    ),
    (response(WRONG), WrongType),
    (response(f"{WRONG} script: 4ca238f611, on @user_script:49."), WrongType),
    (response(f"ERR Error running script (call to f_4ca238): @user_script:49: {WRONG}"), WrongType),
    (response("NOPERM this user has no permissions to run the 'hset' command"), AccessDenied),
    (
        response("ERR Error running script (call to f_4): @user_script:1: NOPERM this user has no"),
        AccessDenied,
    ),
    (redis_errors.NoPermissionError("this user has no permissions to run the 'hset' command"), AccessDenied),
    (response("NOAUTH Authentication required."), AccessDenied),
    (response("WRONGPASS invalid username-password pair or user is disabled."), AccessDenied),
    (redis_errors.AuthenticationError("Authentication required."), AccessDenied),
    (redis_errors.AuthorizationError("no"), AccessDenied),
    (response("READONLY You can't write against a read only replica."), ServerUnavailable),
    (redis_errors.ReadOnlyError("You can't write against a read only replica."), ServerUnavailable),
    (response("LOADING Redis is loading the dataset in memory"), ServerUnavailable),
    (redis_errors.BusyLoadingError("Redis is loading the dataset in memory"), ServerUnavailable),
    (redis_errors.MasterDownError("Link with MASTER is down"), ServerUnavailable),
    (redis_errors.ClusterDownError("The cluster is down"), ServerUnavailable),
    (redis_errors.TryAgainError("Multiple keys request during rehashing of slot"), ServerUnavailable),
    (response("NOREPLICAS Not enough good replicas to write."), ServerUnavailable),
    (response("BUSY Redis is busy running a script."), ServerUnavailable),
    (redis_errors.ConnectionError("Connection closed by server."), ServerUnavailable),
    (redis_errors.TimeoutError("Timeout reading from socket"), ServerUnavailable),
    (redis_errors.InvalidResponse(f"Protocol Error: b'{SECRET}'"), ServerUnavailable),
    (redis_errors.RedisClusterException("Redis Cluster cannot be connected."), ServerUnavailable),
    (redis_errors.ClusterError("TTL exhausted."), ServerUnavailable),
    (redis_errors.SlotNotCoveredError("Slot 5 is not covered by the cluster."), ServerUnavailable),
    (OSError("broken pipe"), ServerUnavailable),
    (EOFError(), ServerUnavailable),
    (TimeoutError(), ServerUnavailable),
    (redis_errors.MaxConnectionsError("Too many connections"), PoolExhausted),
    (redis_errors.ConnectionError("Too many connections"), PoolExhausted),
    (redis_errors.ConnectionError("No connection available."), PoolExhausted),
    (not_sent(redis_errors.ConnectionError("No connection available.")), PoolExhausted),
    (not_sent(PoolExhausted("no connection was free in time")), PoolExhausted),
    (not_sent(redis_errors.AuthenticationError("x")), AccessDenied),
    (not_sent(redis_errors.ConnectionError("Error 111 connecting to h:1.")), ServerUnavailable),
    (not_sent(OSError()), ServerUnavailable),
    (NotSent(), ServerUnavailable),
    (redis_errors.NoScriptError("No matching script. Please use EVAL."), ServerRefused),
    (response("ERR unknown command 'EVALSHA'"), ServerRefused),
    (response("BUSYGROUP Consumer Group name already exists"), ServerRefused),
    (response("CROSSSLOT Keys in request don't hash to the same slot"), ServerRefused),
    (redis_errors.ExecAbortError("Transaction discarded because of previous errors."), ServerRefused),
    (response(""), ServerRefused),
]


@pytest.mark.parametrize(("error", "kind"), TABLE, ids=lambda value: repr(value)[:50])
def test_an_error_is_translated_by_what_it_means(error: BaseException, kind: type[MemoryRedisError]) -> None:
    """In the words of Redis 6.2, 7 and Valkey, from scripts as from commands."""
    verdict = translated(error)
    assert type(verdict) is kind
    assert isinstance(verdict, ServerError)
    assert verdict.outcome == "not_stored"
    assert SECRET not in str(verdict)


def test_an_error_of_this_library_stays_what_it_is() -> None:
    """Also where it was the reason that nothing was sent."""
    error = UnsupportedServer("the server is version 5.0")
    assert translated(error) is error
    assert translated(not_sent(error)) is error


CONTENT = [
    f"{SECRET} ",
    f"of pipeline caused error: {SECRET} x",
    f"x of pipeline caused error: {SECRET}",
    f"of pipeline caused error: OOM {SECRET}",
    f"of pipeline caused error: LOADING {SECRET}",
    f"of pipeline caused error: NOSCRIPT {SECRET}",
    f"ERR Error running script: {SECRET}",
    f") of pipeline caused error: of pipeline caused error: {SECRET}",
]
REPLIES = [
    (OOM, StorageFull),
    (WRONG, WrongType),
    ("NOPERM this user has no permissions to run the 'hset' command", AccessDenied),
    ("ERR unknown command 'FOO', with args beginning with: 'k' 'x", ServerRefused),
    ("ERR value is not an integer or out of range", ServerRefused),
]


@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize(("reply", "kind"), REPLIES, ids=lambda value: str(value)[:20])
def test_content_in_the_error_of_a_pipeline_is_neither_shown_nor_believed(
    content: str, reply: str, kind: type[MemoryRedisError]
) -> None:
    """P12, S6: redis-py puts the command, and so a message, before the server's words."""
    error = response(
        f"Command # 1 (RPUSH memory:{{ann:c}}:messages {content}) of pipeline caused error: {reply}"
    )
    verdict = translated(error)
    assert type(verdict) is kind
    assert SECRET not in str(verdict) + repr(verdict)
    assert not is_passing(error)
    assert not is_missing_script(error)


@pytest.mark.parametrize(
    "word", [SECRET, f"{SECRET}: x", f"-{SECRET}", f"ERR {SECRET}", f"ERR: {SECRET}", SECRET.lower()]
)
def test_a_reply_shows_no_word_that_is_no_code_of_the_server(word: str) -> None:
    """P12: a server's text may quote arguments; only its own error codes are passed on."""
    assert SECRET.lower() not in str(translated(response(f"{word} 'argument'"))).lower()
    assert (
        SECRET.lower()
        not in str(translated(response(f"Command # 2 (X) of pipeline caused error: {word}"))).lower()
    )


def test_the_code_of_a_refusal_is_named() -> None:
    """An operator wants to know which."""
    assert "CROSSSLOT" in str(translated(response("CROSSSLOT Keys in request don't hash to the same slot")))
    assert "NOREPLICAS" in str(translated(response("NOREPLICAS Not enough good replicas to write.")))


SCRIPT = "script: 698a4385ce39340602df1b6e6abb2d1f92de8da6, on @user_script:1."
NO_KEYS = [
    "NOPERM this user has no permissions to access one of the keys used as arguments",  # Redis 7.0
    "ERR The user executing the script can't access at least one of the keys mentioned in the command"
    f" arguments {SCRIPT}",
    "NOPERM No permissions to access a key",  # Redis 7.2, Valkey
    "ERR ACL failure in script: No permissions to access a key script: on @user_script:1.",
    "ERR Error running script (call to f_4): @user_script:1: @user_script: 1: -NOPERM The user executing"
    " the script can't access at least one of the keys mentioned in the command arguments",  # Redis 6.2
    f"NOPERM User {SECRET} has no permissions to access the '{SECRET}' key",
]
NO_COMMAND = [
    ("NOPERM this user has no permissions to run the 'hset' command", ": HSET"),
    ("NOPERM this user has no permissions to run the 'hset' command or its subcommand", ": HSET"),  # 6.2
    (f"NOPERM User {SECRET} has no permissions to run the 'hset' command", ": HSET"),
    (f"ERR ACL failure in script: User c has no permissions to run the 'time' command {SCRIPT}", ": TIME"),
    (f"ERR The user executing the script can't run this command or subcommand {SCRIPT}", ""),
    (f"NOPERM this user has no permissions to run the '{SECRET.lower()}' command", ""),
    (f"NOPERM {SECRET}", ""),
]


@pytest.mark.parametrize("text", NO_KEYS)
def test_keys_that_are_not_allowed_are_told_from_commands(text: str) -> None:
    """F21, P12: as each server puts it, of a command and in a script, with its code or without."""
    for error in (response(text), response(text.removeprefix("ERR "))):
        assert type(translated(error)) is AccessDenied
        assert str(translated(error)) == "the server does not allow this user the keys of the namespace"
    bare = redis_errors.NoPermissionError(text.removeprefix("NOPERM "))
    assert str(translated(bare)) == str(translated(response(text)))


@pytest.mark.parametrize(("text", "name"), NO_COMMAND)
def test_a_command_that_is_not_allowed_is_named_if_it_is_one_of_ours(text: str, name: str) -> None:
    """F21, P12: nothing else of the server's text is shown."""
    said = f"the server does not allow a command that is needed{name}"
    assert str(translated(response(text))) == said
    assert type(translated(response(text))) is AccessDenied
    assert str(translated(redis_errors.NoPermissionError(text.removeprefix("NOPERM ")))) == said


def test_a_database_that_is_not_allowed_is_told_as_that() -> None:
    """F21: Valkey 9.1 keeps users to databases."""
    said = str(translated(redis_errors.NoPermissionError("No permissions to access database")))
    assert said == "the server does not allow this user the database of the number in the URL"


def test_the_commands_that_are_named_are_those_of_the_documents() -> None:
    """What docs/in-redis.md asks for, and what an error may name, are one list."""
    text = (Path(__file__).parents[2] / "docs" / "in-redis.md").read_text()
    [line] = re.findall(r"^    (ACL SETUSER .*)$", text, re.MULTILINE)
    assert {word[1:] for word in line.split() if word.startswith("+")} == COMMANDS


@pytest.mark.parametrize(
    "text", ["DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode"]
)
def test_a_database_that_is_not_there_is_told_as_that(text: str) -> None:
    """P9: each way to say that SELECT cannot be."""
    for error in (response(text), response(f"ERR {text}")):
        assert type(translated(error)) is ServerRefused
        assert "no database of the number in the URL" in str(translated(error))
    assert "database" not in str(translated(response(f"ERR unknown command '{text}'")))


@pytest.mark.parametrize(
    ("text", "tls", "said"),
    [
        (f'Protocol error, got "{SECRET}" as reply type byte', False, "no Redis server"),
        (f'Protocol error, got "{SECRET}" as reply type byte', True, "no Redis server"),
        ('Protocol error, got "\\x15" as reply type byte', False, "rediss://"),
        ('Protocol error, got "\\x15" as reply type byte', True, "no Redis server"),
    ],
)
def test_an_answer_to_the_greeting_that_is_no_protocol_is_final(text: str, tls: bool, said: str) -> None:
    """P9, P12: what is there is no server of ours; a TLS alert shows that TLS is spoken there."""
    cause = redis_errors.InvalidResponse(text)
    error = not_opened(cause, tls=tls)
    error.__cause__ = cause
    assert error.final
    assert type(translated(error)) is ServerUnavailable
    assert said in str(translated(error))
    assert SECRET not in str(translated(error)) + repr(error)


@pytest.mark.parametrize("password", ["redis://u:HUNTER2@h:1/0", "user HUNTER2", "HUNTER2"])
def test_no_password_or_address_is_shown(password: str) -> None:
    """P12, S6: what a driver says about a connection stays behind."""
    for error in (
        redis_errors.ConnectionError(f"Error 111 connecting to {password}. Connection refused."),
        redis_errors.AuthenticationError(f"invalid: {password}"),
        redis_errors.TimeoutError(password),
        not_sent(OSError(password)),
        redis_errors.InvalidResponse(password),
        redis_errors.RedisClusterException(password),
    ):
        assert SECRET not in str(translated(error)) + repr(translated(error))


@pytest.mark.parametrize(
    ("error", "nothing_was_done"),
    [
        (not_sent(OSError()), True),
        (redis_errors.MaxConnectionsError("Too many connections"), True),
        (redis_errors.ConnectionError("No connection available."), True),
        (redis_errors.AuthenticationError("x"), True),
        (redis_errors.BusyLoadingError("x"), True),
        (redis_errors.ReadOnlyError("x"), True),
        (response("NOREPLICAS x"), True),
        (redis_errors.ConnectionError("Connection closed by server."), False),
        (redis_errors.ConnectionError("Error 104 while writing to socket. Connection reset by peer."), False),
        (redis_errors.TimeoutError("Timeout reading from socket"), False),
        (redis_errors.InvalidResponse("x"), False),
        (OSError(), False),
        (EOFError(), False),
    ],
    ids=repr,
)
def test_what_shows_that_nothing_was_done(error: BaseException, nothing_was_done: bool) -> None:
    """Not sent or refused is not stored; anything after bytes left is unknown."""
    assert never_sent(error) is nothing_was_done


ESCAPING = {"ChildDeadlockedError", "IncorrectPolicyType", "ExceptionType"}
"""Of redis-py's, those that no command of ours can meet."""


def test_every_error_of_redis_py_is_caught() -> None:
    """P9, P12: also those that are neither ConnectionError nor ResponseError; none reaches the caller raw."""
    kinds: list[Any] = [kind for _, kind in inspect.getmembers(redis_errors, inspect.isclass)]
    errors = [kind for kind in kinds if issubclass(kind, Exception) and kind.__name__ not in ESCAPING]
    assert len(errors) > 20
    assert [kind.__name__ for kind in errors if not issubclass(kind, RAISED)] == []
