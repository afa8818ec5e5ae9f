"""What the memory answers with: frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from memory_redis.errors import RecordError
from memory_redis.messages import StoredMessage
from memory_redis.versions import Version


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Messages of a conversation, and the version they belong to.

    Attributes:
        messages: oldest first; a list of its own, so changing it changes nothing else.

        version: token to append against: `history.append(…, expected=snapshot.version)`.

        trimmed: messages that were stored once and are no longer.

        skipped: one error for each record of the window that could not be decoded and was left
            out (`on_corrupt="skip"`), with its position.

        summary: what `compact` has put in the place of older messages; None if it never did.
    """

    messages: list[StoredMessage]
    version: Version
    trimmed: int = 0
    skipped: tuple[RecordError, ...] = ()
    summary: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """One entry of a user's list of conversations.

    Attributes:
        messages: how many are stored.

        last_active: when something was appended last (or read, where reads renew the end; or its end was
            changed), exact to a minute, UTC.

        expire_in: seconds until it ends; None if it does not.
    """

    user_id: str = field(repr=False)
    conversation_id: str = field(repr=False)
    messages: int
    last_active: datetime
    expire_in: float | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What `forget` erased: conversations that held messages, and the messages."""

    conversations: int
    messages: int
