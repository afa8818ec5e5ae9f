"""What goes wrong, as one line for standard error and one exit code for the shell."""

from memory_redis import (
    AccessDenied,
    InvalidId,
    InvalidSetting,
    MemoryRedisError,
    PoolExhausted,
    ServerRefused,
    ServerUnavailable,
    StorageFull,
    UnsupportedServer,
)
from memory_redis.cli.safe import safe_id

__all__ = ["ANOMALY", "INTERRUPTED", "UNREACHABLE", "USAGE", "CommandError", "exit_code", "one_line"]

ANOMALY = 1
USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130

REFUSALS = (ServerUnavailable, PoolExhausted, StorageFull, AccessDenied, UnsupportedServer, ServerRefused)
"""The server cannot be reached, or refuses us or what we ask for: exit code 3."""


class CommandError(Exception):
    """A command cannot go on: one sentence, and the exit code of the process."""

    def __init__(self, reason: str, code: int = ANOMALY) -> None:
        super().__init__(reason)
        self.code = code


def exit_code(error: MemoryRedisError | CommandError) -> int:
    """The exit code of the process that ends with this error."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, REFUSALS):
        return UNREACHABLE
    if isinstance(error, InvalidSetting | InvalidId):
        return USAGE
    return ANOMALY


def one_line(error: BaseException) -> str:
    """The error's sentence on one line, safe for a terminal; its class where it has no sentence."""
    return safe_id(" ".join(str(error).split())).replace("\\\\", "\\") or type(error).__name__
