"""Everything that this library raises, under one base.

MemoryRedisError
├── InvalidSetting          a number, name or URL that cannot be meant (also a ValueError)
├── InvalidId               a user or conversation id that is no non-empty text (also a TypeError)
├── AsyncOnly               something for asyncio in a call that is not awaited (also a TypeError)
├── InvalidMessage          a message that cannot be stored (also a ValueError)
│   └── MissingKey          a dictionary without the key that holds messages (also a KeyError)
├── ConflictError           the conversation is not the one that the caller saw
│   ├── HistoryCleared      it was cleared meanwhile
│   └── HistoryRolledBack   the server lost what it had acknowledged
├── TurnAlreadyStored       an idempotency key was used before, and its turn is gone
├── UnknownOutcome          nobody can tell whether an append was stored
├── AppendSettled           somebody settled an append as not stored while it was on its way
├── UnansweredCall          a stored tool call that nobody answered, with `unanswered="raise"`
├── HistoryNotSaved         a model answered, and its turn could not be stored
│   └── InvalidAnswer       because the answer is nothing that can be stored (also a ValueError)
├── SummaryNotMade          messages are stored, and the summary that was due could not be made
├── RecordError             what is stored cannot be given back
│   ├── CorruptRecord       bytes that are no record of this conversation
│   ├── UnsupportedFormat   a record that a later release wrote
│   └── HistoryTooLarge     more than a load may return
└── ServerError             the server, or the way to it, said no
    ├── ServerUnavailable   it could not be reached, or was not ready, within the deadline; and of
    │                       embedded servers ServerNotFound and ServerNotStarted
    ├── PoolExhausted       no free connection within the deadline
    ├── StorageFull         it is out of memory and refuses writes
    ├── AccessDenied        wrong password, or a command or key that is not allowed
    ├── WrongType           a key of the conversation holds something else
    ├── UnsupportedServer   it is older than Redis 6.2
    ├── WrongEventLoop      an asyncio client of another event loop or process
    └── ServerRefused       any other refusal

No text of an error, and no repr, holds a message's content, an id or a password: conversations
are named by a short hash, the same that telemetry shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from memory_redis.wording import counted

if TYPE_CHECKING:
    from memory_redis.messages import StoredMessage
    from memory_redis.versions import AppendId, Version

Outcome = Literal["stored", "not_stored", "unknown"]


class MemoryRedisError(Exception):
    """Base of every error of this library.

    Attributes:
        outcome: what became of the messages that the failed call was to store: `"stored"`,
            `"not_stored"` or `"unknown"`; None where the call was to store none, as for the errors of
            records that a load meets.

        output: what the model answered, where a wrapper raises the error after that; else None.
    """

    outcome: Outcome | None = "not_stored"
    output: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[MemoryRedisError], args: tuple[Any, ...], state: dict[str, Any]) -> MemoryRedisError:
    """An error from what pickle kept of it; its constructor would want the parts of its text."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidSetting(MemoryRedisError, ValueError):
    """A number, name or URL that cannot be meant."""


class InvalidId(MemoryRedisError, TypeError):
    """A user or conversation id that is not a non-empty text."""


class AsyncOnly(MemoryRedisError, TypeError):
    """Something that only asyncio can use was met in a call that is not awaited."""


class InvalidMessage(MemoryRedisError, ValueError):
    """A message that cannot be stored.

    The text of the error names fields that every message may have, and positions in lists; other names
    are the application's, or a model's, and stand there as `…`.

    Attributes:
        position: counts the messages of the call from 0.

        path: where the value at fault stands: a text for each name, a number for each position in a list.

        field: the path as a text, such as `data.additional_kwargs.when`. As the others, None where it
            does not apply.
    """

    def __init__(
        self, reason: str, *, position: int | None = None, field: str | Sequence[str | int] | None = None
    ) -> None:
        path = tuple(field.split(".") if isinstance(field, str) else field or ())
        place = "" if position is None else f"message {position}: "
        super().__init__(place + (f"{_shown(path)}: " if path else "") + reason)
        self.reason, self.position = reason, position
        self.path = path or None
        self.field = ".".join(map(str, path)) or None


_FIELDS: Final = frozenset(
    {
        *("data", "type", "content", "id", "name", "role", "additional_kwargs", "response_metadata"),
        *("tool_calls", "invalid_tool_calls", "args", "tool_call_id", "artifact", "status", "usage_metadata"),
    }
)
_SHOWN_PARTS: Final = 8


def _shown(path: Sequence[str | int]) -> str:
    """A path without the names that are content."""
    parts = [str(part) if isinstance(part, int) or part in _FIELDS else "…" for part in path[:_SHOWN_PARTS]]
    return ".".join([*parts, "…"] if len(path) > _SHOWN_PARTS else parts)


class MissingKey(InvalidMessage, KeyError):
    """A dictionary has no key that holds messages, or several that could be meant."""

    def __str__(self) -> str:
        return str(self.args[0])


class ConflictError(MemoryRedisError):
    """The conversation is not the one that the caller saw.

    Attributes:
        version: the version there is now; None where nobody can tell.

        missed: messages that were stored since the caller looked, oldest first: the newest 100 of
            them, up to 1 MiB.

        missed_count: how many there are, those that were left out or trimmed included.

        expired: the conversation had ended, and this is another life of it or none.

        edited: messages were changed or removed, not only added.

        unsaved: the messages of the call, which were not stored. Empty where the conflict is only
            reported, as by a turn with `on_conflict="append"`.
    """

    summary: ClassVar[str] = "the conversation has moved on"

    def __init__(
        self,
        conversation: str,
        *,
        version: Version | None = None,
        missed: Sequence[StoredMessage] = (),
        missed_count: int = 0,
        expired: bool = False,
        edited: bool = False,
        unsaved: Sequence[StoredMessage] = (),
        stored: bool = False,
    ) -> None:
        summary = "the conversation had expired" if expired else self.summary
        more = f", {counted(missed_count, 'new message')}" if missed_count else ""
        super().__init__(f"conversation {conversation}: {summary}{more}")
        self.conversation, self.version = conversation, version
        self.missed, self.missed_count = list(missed), missed_count
        self.expired, self.edited = expired, edited
        self.unsaved = list(unsaved)
        self.outcome = "stored" if stored else "not_stored"


class HistoryCleared(ConflictError):
    """The conversation was cleared after the caller saw it; nothing is brought back."""

    summary = "the conversation was cleared meanwhile"


class HistoryRolledBack(ConflictError):
    """The store holds less than it had acknowledged, as after a failover or a restored backup."""

    summary = "the server has lost messages that it had acknowledged"


class TurnAlreadyStored(MemoryRedisError):
    """The idempotency key was used before, and the messages stored then are no longer there.

    `version` is the version that the first call got.
    """

    outcome = "stored"

    def __init__(self, conversation: str, version: Version) -> None:
        super().__init__(f"conversation {conversation}: this idempotency key was used, its messages are gone")
        self.conversation, self.version = conversation, version


class UnknownOutcome(MemoryRedisError):
    """Nobody can tell whether an append was stored: its reply was lost and could not be asked for.

    `append_id` settles it: `history.settle(append_id)`, or a repeat of the same messages with
    `history.append(*messages, append_id=append_id)`, which stores them at most once.
    """

    outcome = "unknown"

    def __init__(self, conversation: str, append_id: AppendId | None = None) -> None:
        super().__init__(f"conversation {conversation}: no answer, the append may or may not be stored")
        self.conversation, self.append_id = conversation, append_id


class AppendSettled(MemoryRedisError):
    """`settle` had said of this append that it is not stored, while it was still on its way.

    It stays so. `history.append(*messages, append_id=append_id)` stores the messages after all.
    """

    def __init__(self, conversation: str, append_id: AppendId) -> None:
        super().__init__(f"conversation {conversation}: the append was settled as not stored meanwhile")
        self.conversation, self.append_id = conversation, append_id


class UnansweredCall(MemoryRedisError):
    """The past holds a tool call that nobody answered; the model was not run."""


class HistoryNotSaved(MemoryRedisError):
    """A model answered, and its turn could not be stored.

    Attributes:
        output: the answer.

        error: why; also the `__cause__`.

        append_id: settles the outcome where that is `"unknown"`, as in `UnknownOutcome`; else None.

        unsaved: the messages that were to be stored, of the history's kind; with `append_id` to be
            appended again.
    """

    unsaved: Sequence[Any] = ()

    def __init__(self, error: Exception, output: Any = None) -> None:
        reason = str(error) if isinstance(error, MemoryRedisError) else type(error).__name__
        super().__init__(f"the answer was given, but not stored: {reason}")
        self.error, self.output = error, output
        self.outcome = error.outcome if isinstance(error, MemoryRedisError) else "not_stored"
        self.append_id: AppendId | None = getattr(error, "append_id", None)


class InvalidAnswer(HistoryNotSaved, ValueError):
    """A model answered with something that cannot be stored."""


class SummaryNotMade(MemoryRedisError):
    """A summary that was due, or may have been, was not made; the messages of the call are stored.

    The next append tries again. `__cause__` is what went wrong, `version` the version with the messages.
    """

    outcome = "stored"

    def __init__(self, conversation: str, version: Version) -> None:
        super().__init__(f"conversation {conversation}: the messages are stored, a summary was not made")
        self.conversation, self.version = conversation, version


class RecordError(MemoryRedisError):
    """What is stored cannot be given back. `conversation` names it by its short hash."""

    outcome = None
    position: int = -1

    def __init__(self, conversation: str, reason: str) -> None:
        super().__init__(f"conversation {conversation}: {reason}")
        self.conversation, self.reason = conversation, reason


class CorruptRecord(RecordError):
    """Bytes that are no record of this conversation.

    `position` counts all messages ever appended from 0, as `StoredMessage.seq` does.
    """

    def __init__(self, conversation: str, reason: str, position: int) -> None:
        super().__init__(conversation, f"record {position}: {reason}")
        self.position = position


class UnsupportedFormat(RecordError):
    """A record that a later release of this library wrote: upgrade the reader.

    `position` as in `CorruptRecord`.
    """

    def __init__(self, conversation: str, reason: str, position: int) -> None:
        super().__init__(conversation, f"record {position}: {reason}")
        self.position = position


class HistoryTooLarge(RecordError):
    """The conversation holds more bytes than a load may return: read it with `iterate()`."""


class ServerError(MemoryRedisError):
    """The server, or the way to it, said no."""


class ServerUnavailable(ServerError):
    """The server could not be reached, or was not ready, within the deadline."""


class PoolExhausted(ServerError):
    """All connections were in use until the deadline; nothing was sent."""


class StorageFull(ServerError):
    """The server is out of memory and refuses writes; reads, trims and clears still work."""


class AccessDenied(ServerError):
    """The server wants another user or password, or does not allow a command or key that is needed."""


class WrongType(ServerError):
    """A key of the conversation holds something that this library did not put there."""


class UnsupportedServer(ServerError):
    """The server is older than Redis 6.2."""


class WrongEventLoop(ServerError):
    """An asyncio client that was passed in belongs to another event loop or process."""


class ServerRefused(ServerError):
    """Any other refusal by the server."""
