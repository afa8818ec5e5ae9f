"""Errors of redis-py, told apart by what they mean for the call, and translated. Nowhere else."""

from __future__ import annotations

import re
import ssl
from typing import Final

from redis import exceptions as redis_errors

from memory_redis.errors import (
    AccessDenied,
    MemoryRedisError,
    PoolExhausted,
    ServerRefused,
    ServerUnavailable,
    StorageFull,
    UnsupportedServer,
    WrongType,
)

TRANSPORT = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError, TimeoutError, EOFError)
"""What is raised when there is no reply to be had."""

_PASSING = (
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "BUSY ",
    "UNBLOCKED",
)
COMMANDS: Final = frozenset(
    (
        *("evalsha", "eval", "hmget", "hget", "hset", "hdel", "hexists", "llen", "lrange", "rpush", "rpop"),
        *("ltrim", "pexpireat", "persist", "pttl", "exists", "del", "unlink", "time", "ping", "info"),
        *("zadd", "zcard", "zscore", "zrem", "zrevrange", "zrevrangebyscore", "pexpire", "select"),
    )
)
"""The commands of docs/in-redis.md: no other is named by an error."""
_DENIED = re.compile(r"(ERR )?(NOPERM|ACL failure in script|The user executing the script can't)")
_KEYS = re.compile(r"\baccess .*\bkeys?\b")
_COMMAND = re.compile(r"to run the '([a-z]+)' command")
_DATABASE = ("DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode")
_CODES = frozenset(
    (
        *("BUSY", "CLUSTERDOWN", "CROSSSLOT", "ERR", "EXECABORT", "LOADING", "MASTERDOWN"),
        *("MOVED", "NOREPLICAS", "NOSCRIPT", "READONLY", "TRYAGAIN"),
    )
)
_REFUSALS: tuple[tuple[str, type[MemoryRedisError], str], ...] = (
    ("OOM", StorageFull, "the server is out of memory and refuses writes"),
    ("NOAUTH", AccessDenied, "the server wants a password"),
    ("WRONGPASS", AccessDenied, "the server does not accept the user or password"),
    ("WRONGTYPE", WrongType, "a key of the conversation holds something else"),
    ("MISCONF", StorageFull, "the server cannot write to its disk and refuses writes"),
)


_CONNECTING = re.compile(r"Error .*connecting to|Timeout connecting to")
_NO_TLS_AT_ALL = frozenset(
    ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
)
"""What OpenSSL makes of bytes that are no TLS."""
NO_HANDSHAKE: Final = "no TLS handshake: does the server speak TLS?"
_NO_REDIS = "what answers there is no Redis server"
_ONLY_TLS = "the server speaks TLS: its URL begins with rediss://"
_HUNG_UP = "it closed the connection without an answer: does it speak TLS only (rediss://)?"


class NotSent(Exception):
    """A channel could not send a request at all; `__cause__` says why.

    `reason` is what is known beyond that, a sentence or a part of one; `final`, that waiting is no use.
    """

    def __init__(self, reason: str = "", *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


def not_opened(error: BaseException, *, tls: bool, tcp: bool = True, shaking: bool = False) -> NotSent:
    """What a connection of this kind that could not be opened is called; `error` becomes its cause.

    `shaking` says that a TLS handshake was under way, as only asyncio has to be asked.
    """
    if isinstance(error, (redis_errors.InvalidResponse, AttributeError)):
        if not tls and 'got "\\x15"' in str(error):  # an alert
            return NotSent(_ONLY_TLS, final=True)
        return NotSent(_NO_REDIS, final=True)
    chain = _chain(error)
    if shaking and isinstance(error, redis_errors.TimeoutError):
        return NotSent(NO_HANDSHAKE)
    if not tls:
        hung_up = tcp and any(map(_is_end, chain))
        return NotSent(_HUNG_UP if hung_up else "")
    if not is_untrusted(error) and _CONNECTING.match(str(error)):
        for one in chain:
            if isinstance(one, ssl.SSLError) and one.reason in _NO_TLS_AT_ALL:
                return NotSent(NO_HANDSHAKE, final=True)
            if _is_end(one) or "handshake operation" in str(one):
                return NotSent(NO_HANDSHAKE)
    return NotSent()


def _is_end(error: BaseException) -> bool:
    """Whether the other side closed the connection."""
    ends = (ConnectionResetError, ssl.SSLEOFError)
    return isinstance(error, ends) or str(error) == "Connection closed by server."


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and what led to it, newest first."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def reply_text(error: BaseException) -> str:
    """The server's words without the place in a pipeline that redis-py puts before them.

    redis-py quotes the command, and so message content, in errors of a pipeline: this text is for
    comparing, never for showing.
    """
    _, _, text = str(error).rpartition("of pipeline caused error: ")
    # redis-py's own parser has taken off the code, hiredis leaves it.
    if text.removeprefix("ERR ").startswith(("Error running script", "user_script")):
        _, _, text = text.rpartition(": ")
    return text.removeprefix("-")


def is_passing(error: BaseException) -> bool:
    """Whether a server that answered so did nothing, and may soon do it."""
    if isinstance(
        error,
        (
            redis_errors.BusyLoadingError,
            redis_errors.ReadOnlyError,
            redis_errors.TryAgainError,
            redis_errors.MasterDownError,
            redis_errors.ClusterDownError,
        ),
    ):
        return True
    return isinstance(error, redis_errors.ResponseError) and reply_text(error).startswith(_PASSING)


def is_missing_script(error: BaseException) -> bool:
    """Whether the server does not have a script that was called by its hash."""
    return isinstance(error, redis_errors.NoScriptError) or reply_text(error).startswith("NOSCRIPT")


def never_sent(error: BaseException) -> bool:
    """Whether an error shows by itself that the request did not leave, whatever was tried before."""
    return isinstance(
        error, (NotSent, redis_errors.AuthenticationError, redis_errors.AuthorizationError)
    ) or (is_exhausted(error) or is_passing(error))


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, NotSent) and error.__cause__ is not None else error


def is_timeout(error: BaseException) -> bool:
    """Whether there was no time to open a connection."""
    timeouts = (TimeoutError, redis_errors.TimeoutError)
    return isinstance(error, NotSent) and isinstance(error.__cause__, timeouts)


def is_untrusted(error: BaseException) -> bool:
    """Whether the server showed a certificate that is not to be trusted."""
    return "certificate verify failed" in str(_cause(error)).lower().replace("_", " ")


def is_beyond_waiting(error: BaseException) -> bool:
    """Whether what is there, though it answers nothing, shows that it will not be the server in time."""
    return is_untrusted(error) or (isinstance(error, NotSent) and error.final)


def is_exhausted(error: BaseException) -> bool:
    """Whether there was no free connection."""
    error = _cause(error)
    if isinstance(error, PoolExhausted) or type(error).__name__ == "MaxConnectionsError":
        return True
    return isinstance(error, redis_errors.ConnectionError) and str(error) in (
        "No connection available.",
        "Too many connections",
    )


def _code(text: str) -> str:
    """The server's error code, if it is one of its own words."""
    code = text.split(" ", 1)[0]
    return f": {code}" if code in _CODES else ""


def translated(error: BaseException) -> MemoryRedisError:
    """The error of this library for one of redis-py's that is final. Nothing was stored."""
    known = error if isinstance(error, NotSent) else NotSent()
    error = _cause(error)
    if isinstance(error, MemoryRedisError):
        return error
    text = reply_text(error)
    if isinstance(error, redis_errors.NoPermissionError):
        return _denied(text)
    if isinstance(error, (redis_errors.AuthenticationError, redis_errors.AuthorizationError)):
        return AccessDenied("the server does not accept the user or password")
    if is_exhausted(error):
        return PoolExhausted("no connection was free in time")
    if is_untrusted(error):
        return ServerUnavailable("the certificate of the server is not trusted, or is for another name")
    if known.final or known.reason == NO_HANDSHAKE:
        return ServerUnavailable(known.reason)
    if "unknown command" in text[:20] and "HELLO" in text[:30]:
        return UnsupportedServer(
            "the server knows no HELLO: Redis 6.2 or Valkey 7.2 is the oldest that works"
        )
    if isinstance(error, (redis_errors.ResponseError, redis_errors.OutOfMemoryError)) and not is_passing(
        error
    ):
        return _refused(error, text)
    if is_passing(error):
        return ServerUnavailable(f"the server is not ready{_code(text)}")
    reason = f": {known.reason}" if known.reason else _reason(error)
    return ServerUnavailable(f"the server could not be reached in time{reason}")


def _refused(error: BaseException, text: str) -> MemoryRedisError:
    """The error for a reply that says no."""
    if isinstance(error, redis_errors.OutOfMemoryError):
        return StorageFull("the server is out of memory and refuses writes")
    if _DENIED.match(text):
        return _denied(text)
    for word, kind, summary in _REFUSALS:
        if word in text.split(" ", 2)[:2]:
            return kind(summary)
    if text.removeprefix("ERR ").startswith(_DATABASE):
        return ServerRefused("the server has no database of the number in the URL")
    return ServerRefused(f"the server refused a command{_code(text)}")


def _denied(text: str) -> AccessDenied:
    """What an ACL keeps a user from: a command, named if it is one of ours, keys, or a database."""
    command = _COMMAND.search(text)
    if command is not None:
        name = f": {command[1].upper()}" if command[1] in COMMANDS else ""
        return AccessDenied(f"the server does not allow a command that is needed{name}")
    if "permissions to access database" in text:
        return AccessDenied("the server does not allow this user the database of the number in the URL")
    if _KEYS.search(text):
        return AccessDenied("the server does not allow this user the keys of the namespace")
    return AccessDenied("the server does not allow a command that is needed")


def _reason(error: BaseException) -> str:
    """What the system said, such as `: connection refused`; never an address or what was sent."""
    for one in _chain(error):
        if isinstance(one, redis_errors.InvalidResponse):
            return ": the answer was not in Redis's protocol"
        if isinstance(one, OSError) and one.strerror:
            return f": {one.strerror.lower()}"
    return ""
