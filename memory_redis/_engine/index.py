"""What is said to a user's index: entering a conversation, a page of it, taking entries out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import Call, Flow, Plan, only
from memory_redis._engine.scripts import INDEX_DROP, INDEX_PAGE, INDEX_TOUCH
from memory_redis.errors import MemoryRedisError


def touch(keys: ConversationKeys, ends: int) -> Flow[None]:
    """Enter a conversation, or bring it to the top; a session is in no index."""
    if keys.index is not None:
        yield Plan((Call(INDEX_TOUCH, (keys.conversation_id, str(ends)), keys=(keys.index,)),), only)


def refresh(keys: ConversationKeys, ends: int) -> Flow[None]:
    """As `touch`, for a conversation that is entered; nothing fails if the index cannot be told.

    What the caller asked for is done by then, and the next minute's append tells it again.
    """
    with suppress(MemoryRedisError):
        yield from touch(keys, ends)


def page(index: str, below: str, size: int) -> Flow[tuple[int, bool, list[tuple[bytes, int]]]]:
    """The server's time in ms, whether more entries follow, and ids with scores, newest first."""

    def decode(replies: list[Any]) -> tuple[int, bool, list[tuple[bytes, int]]]:
        now, more, *rest = replies[0]
        if not all(type(name) is bytes for name in rest[::2]):
            raise TypeError("an id is a text")
        return (
            int(now),
            bool(more),
            [(name, int(read)) for name, read in zip(rest[::2], rest[1::2], strict=True)],
        )

    found: tuple[int, bool, list[tuple[bytes, int]]]
    found = yield Plan((Call(INDEX_PAGE, (below, str(size)), keys=(index,)),), decode)
    return found


def score(keys: ConversationKeys) -> Flow[int | None]:
    """The score of a conversation's entry, None if it has none."""
    if keys.index is None:
        return None

    def decode(replies: list[Any]) -> int | None:
        return None if replies[0] is None else int(float(replies[0]))

    read: int | None
    read = yield Plan((Call("ZSCORE", (keys.conversation_id,), keys=(keys.index,)),), decode, keys.label)
    return read


def drop(index: str, entries: Sequence[tuple[str | bytes, int]]) -> Flow[None]:
    """Take entries out, by id and the score that was read, unless they were touched since."""
    if entries:
        words = [word for name, read in entries for word in (name, str(read))]
        yield Plan((Call(INDEX_DROP, words, keys=(index,)),), only)
