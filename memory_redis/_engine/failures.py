"""Errors of redis-py, told apart by what they mean for the call, and translated. Nowhere else."""

from __future__ import annotations

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
_DENIED = ("ACL failure in script", "can't run this command", "can't access at least one of the keys")
_CODES = frozenset(
    (
        *("BUSY", "CLUSTERDOWN", "CROSSSLOT", "ERR", "EXECABORT", "LOADING", "MASTERDOWN"),
        *("MOVED", "NOREPLICAS", "NOSCRIPT", "READONLY", "TRYAGAIN"),
    )
)
_REFUSALS: tuple[tuple[str, type[MemoryRedisError], str], ...] = (
    ("OOM", StorageFull, "the server is out of memory and refuses writes"),
    ("NOPERM", AccessDenied, "the server does not allow a command that is needed"),
    ("NOAUTH", AccessDenied, "the server wants a password"),
    ("WRONGPASS", AccessDenied, "the server does not accept the user or password"),
    ("WRONGTYPE", WrongType, "a key of the conversation holds something else"),
    ("MISCONF", StorageFull, "the server cannot write to its disk and refuses writes"),
)


class NotSent(Exception):
    """A channel could not send a request at all; `__cause__` says why."""


def reply_text(error: BaseException) -> str:
    """The server's words without the place in a pipeline that redis-py puts before them.

    redis-py quotes the command, and so message content, in errors of a pipeline: this text is for
    comparing, never for showing.
    """
    _, _, text = str(error).rpartition("of pipeline caused error: ")
    for prefix in ("ERR Error running script", "ERR user_script"):
        if text.startswith(prefix):
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


def is_untrusted(error: BaseException) -> bool:
    """Whether the server showed a certificate that is not to be trusted."""
    return "certificate verify failed" in str(_cause(error)).lower().replace("_", " ")


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
    error = _cause(error)
    if isinstance(error, MemoryRedisError):
        return error
    if isinstance(error, redis_errors.NoPermissionError):
        return AccessDenied("the server does not allow a command that is needed")
    if isinstance(error, (redis_errors.AuthenticationError, redis_errors.AuthorizationError)):
        return AccessDenied("the server does not accept the user or password")
    if is_exhausted(error):
        return PoolExhausted("no connection was free in time")
    if is_untrusted(error):
        return ServerUnavailable("the certificate of the server is not trusted, or is for another name")
    text = reply_text(error)
    if "unknown command" in text[:20] and "HELLO" in text[:30]:
        return UnsupportedServer(
            "the server knows no HELLO: Redis 6.2 or Valkey 7.2 is the oldest that works"
        )
    if any(phrase in text for phrase in _DENIED):
        return AccessDenied("the server does not allow a command that is needed")
    if isinstance(error, (redis_errors.ResponseError, redis_errors.OutOfMemoryError)) and not is_passing(
        error
    ):
        if isinstance(error, redis_errors.OutOfMemoryError):
            return StorageFull("the server is out of memory and refuses writes")
        for word, kind, summary in _REFUSALS:
            if word in text.split(" ", 2)[:2]:
                return kind(summary)
        return ServerRefused(f"the server refused a command{_code(text)}")
    if is_passing(error):
        return ServerUnavailable(f"the server is not ready{_code(text)}")
    return ServerUnavailable(f"the server could not be reached in time{_reason(error)}")


def _reason(error: BaseException | None) -> str:
    """What the system said, such as `: connection refused`; never an address or what was sent."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return f": {error.strerror.lower()}"
        error = error.__cause__ or error.__context__
    return ""
