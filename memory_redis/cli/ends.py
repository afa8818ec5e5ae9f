"""When a conversation ends: what `expire` and `pin` change of that."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from memory_redis import RedisMemory, SlidingExpiry
from memory_redis.cli.meant import Meant
from memory_redis.cli.problems import USAGE, CommandError
from memory_redis.cli.shown import duration_text, moment_text
from memory_redis.cli.window_text import duration_of

__all__ = ["Change", "change_of", "pin", "unpin"]

Change = Callable[[RedisMemory, Meant], str]
"""Changes when a conversation ends, and gives a line that says when that is."""


def change_of(rest: str | None, at: str | None, idle: str | None, default: bool) -> Change:
    """What the options of `expire` ask for.

    Raises:
        CommandError: not one of them is given, or it cannot be meant.
    """
    if sum((rest is not None, at is not None, idle is not None, default)) != 1:
        raise CommandError("give one of --in, --at, --idle and --default", USAGE)
    if rest is not None:
        return partial(_in, duration_of(rest, "--in"))
    if at is not None:
        return partial(_at, _instant(at))
    return unpin if idle is None else partial(_idle, SlidingExpiry(duration_of(idle, "--idle")))


def _in(rest: timedelta, memory: RedisMemory, meant: Meant) -> str:
    if not meant.history(memory).expire_at(rest):
        raise meant.absent()
    return f"ends in {duration_text(rest.total_seconds())}"


def _at(instant: datetime, memory: RedisMemory, meant: Meant) -> str:
    history = meant.history(memory)
    if not history.expire_at(instant):
        raise meant.absent()
    left = duration_text(history.expire_in() or 0)
    return f"ends at {moment_text(instant.astimezone(UTC))} UTC, in {left}"


def _idle(policy: SlidingExpiry, memory: RedisMemory, meant: Meant) -> str:
    if not meant.history(memory).expire(policy):
        raise meant.absent()
    return f"ends in {duration_text(policy.duration.total_seconds())}, which each message renews"


def pin(memory: RedisMemory, meant: Meant) -> str:
    """Let a conversation not end by itself; a line that says so.

    Raises:
        CommandError: the conversation is not there.
    """
    if not meant.history(memory).pin():
        raise meant.absent()
    return "pinned: does not end by itself"


def unpin(memory: RedisMemory, meant: Meant) -> str:
    """Take away what a conversation has of its own; a line that says when it ends.

    The end stays where it is until the next append, whose memory knows the policy.

    Raises:
        CommandError: the conversation is not there.
    """
    history = meant.history(memory)
    left = history.expire_in()
    if not history.expire(None):
        raise meant.absent()
    now = "does not end" if left is None else f"ends in {duration_text(left)}"
    return f"{now}; the next message sets the end by the policy of the program that stores it"


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"--at takes an instant such as 2027-01-31T12:00:00+00:00, not {text!r}", USAGE
        ) from None
    if instant.utcoffset() is None:
        raise CommandError(f"--at {text!r}: it needs a time zone, such as +00:00 or Z at its end", USAGE)
    return instant
