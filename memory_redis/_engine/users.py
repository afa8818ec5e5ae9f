"""A user's conversations: listing and erasing them, through the user's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from memory_redis._engine.keys import ConversationKeys, conversation_keys, index_key
from memory_redis._engine.plans import Call, Flow, Plan, only
from memory_redis._engine.scripts import INDEX_DROP, INDEX_PAGE
from memory_redis._engine.settings import Settings
from memory_redis._engine.writing import Writer
from memory_redis.errors import MemoryRedisError, WrongType
from memory_redis.expiry import NoExpiry
from memory_redis.snapshots import ConversationInfo, Forgotten
from memory_redis.telemetry import Event

SETTLED_MS: Final = 120_000
"""An index entry younger than this may belong to an append that is still on its way."""

ROUNDS: Final = 5
"""How often `forget` looks again for entries that writers made meanwhile."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A conversation id of an index, its score and its keys."""

    conversation_id: str
    score: int
    keys: ConversationKeys


class User:
    """The flows over one user's index."""

    __slots__ = ("_index", "_settings", "_size", "_user_id")

    def __init__(self, settings: Settings, user_id: str, page_size: int) -> None:
        self._settings, self._user_id, self._size = settings, user_id, page_size
        self._index = index_key(settings.namespace, user_id)

    def _entries(self, below: str) -> Flow[tuple[int, bool, list[Entry]]]:
        """The server's time, whether there are more pages, and the entries whose score is below."""
        now, more, *rest = yield Plan(
            (Call(INDEX_PAGE, (below, str(self._size)), keys=(self._index,)),), only
        )
        entries: list[Entry] = []
        for name, score in zip(rest[::2], rest[1::2], strict=True):
            conversation_id = name.decode()
            keys = conversation_keys(self._settings.namespace, self._user_id, conversation_id)
            entries.append(Entry(conversation_id, score, keys))
        return now, bool(more), entries

    def _drop(self, entries: Sequence[Entry]) -> Flow[int]:
        """Take entries out of the index that were not touched since they were read."""
        if not entries:
            return 0
        words = [word for entry in entries for word in (entry.conversation_id, str(entry.score))]
        removed: int = yield Plan(
            (Call(INDEX_DROP, words, keys=(self._index,)),), lambda replies: replies[0][0]
        )
        return removed

    def conversations(self, below: str) -> Flow[tuple[list[ConversationInfo], str | None]]:
        """A page of conversations, newest first, and where the next one begins."""
        now, more, entries = yield from self._entries(below)
        if not entries:
            return [], None
        calls = [
            call
            for entry in entries
            for call in (Call("LLEN", keys=(entry.keys.messages,)), Call("PTTL", keys=(entry.keys.messages,)))
        ]
        replies: list[Any] = yield Plan(tuple(calls), list, partial=True)
        found: list[ConversationInfo] = []
        stale: list[Entry] = []
        for entry, count, left in zip(entries, replies[::2], replies[1::2], strict=True):
            if isinstance(count, MemoryRedisError):
                if not isinstance(count, WrongType):
                    raise count
                self._settings.emit(Event("corrupt", entry.keys.label, detail="not listed: WrongType"))
            elif count:
                active = datetime.fromtimestamp(entry.score / 1000, UTC)
                seconds = left / 1000 if left >= 0 else None
                found.append(ConversationInfo(self._user_id, entry.conversation_id, count, active, seconds))
            elif entry.score < now - SETTLED_MS:
                stale.append(entry)
        yield from self._drop(stale)
        return found, f"({entries[-1].score}" if more else None

    def forget(self) -> Flow[Forgotten]:
        """Clear every conversation and the index; how much there was."""
        conversations = messages = 0
        for _ in range(ROUNDS):
            below, seen = "+inf", 0
            while True:
                _, _, entries = yield from self._entries(below)
                if not entries:
                    break
                seen += len(entries)
                for removed in (yield from self._clear(entries)):
                    messages += removed
                    conversations += removed > 0
                yield from self._drop(entries)
                below = f"({entries[-1].score}"
            if not seen:
                break
        return Forgotten(conversations, messages)

    def _clear(self, entries: Sequence[Entry]) -> Flow[list[int]]:
        """Clear conversations together; how many messages each had."""
        writers = [Writer(entry.keys, self._settings, NoExpiry()) for entry in entries]
        replies = yield Plan(tuple(one.clear_call() for one in writers), list, writes=True, partial=True)
        broken = [
            entry for entry, reply in zip(entries, replies, strict=True) if isinstance(reply, WrongType)
        ]
        if broken:  # what stands there is ours by name, and must go too
            keys = [key for entry in broken for key in (entry.keys.messages, entry.keys.meta)]
            yield Plan(tuple(Call("UNLINK", keys=(key,)) for key in keys), list, writes=True)
            yield from self._clear(broken)
        removed: list[int] = []
        for one, reply in zip(writers, replies, strict=True):
            if isinstance(reply, MemoryRedisError) and not isinstance(reply, WrongType):
                raise reply
            removed.append(0 if isinstance(reply, WrongType) else one.cleared(reply))
        return removed
