"""A user's conversations: listing and erasing them, through the user's index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from memory_redis._engine import index
from memory_redis._engine.keys import ConversationKeys, conversation_keys, index_key
from memory_redis._engine.plans import Call, Flow, Plan
from memory_redis._engine.settings import Settings
from memory_redis._engine.writing import Writer
from memory_redis.errors import MemoryRedisError, WrongType
from memory_redis.expiry import Terms
from memory_redis.snapshots import ConversationInfo, Forgotten
from memory_redis.telemetry import Event

SETTLED_MS: Final = 120_000
"""An index entry younger than this may belong to an append that is still on its way.

As long stands in index_touch.lua and index_drop.lua: the index itself lasts until then.
"""

ROUNDS: Final = 5
"""How often `forget` looks again for entries that writers made meanwhile."""


class Entry(NamedTuple):
    """A conversation id of an index, its score and its keys."""

    conversation_id: str
    score: int
    keys: ConversationKeys


class User:
    """The flows over one user's conversations."""

    __slots__ = ("_index", "_settings", "_size", "_user_id")

    def __init__(self, settings: Settings, user_id: str, page_size: int) -> None:
        self._settings, self._user_id, self._size = settings, user_id, page_size
        self._index = index_key(settings.namespace, user_id)

    def _entries(self, below: str) -> Flow[tuple[int, str | None, list[Entry]]]:
        """The server's time, where the next page begins, and the entries whose score is below.

        What no conversation can be called was put there by somebody else, and is taken out.
        """
        now, more, found = yield from index.page(self._index, below, self._size)
        entries: list[Entry] = []
        foreign: list[tuple[bytes, int]] = []
        for name, score in found:
            try:
                keys = conversation_keys(self._settings.namespace, self._user_id, name.decode())
            except UnicodeDecodeError:
                foreign.append((name, score))
            else:
                entries.append(Entry(keys.conversation_id, score, keys))
        yield from index.drop(self._index, foreign)
        return now, f"({found[-1][1]}" if more and found else None, entries

    def conversations(self, below: str) -> Flow[tuple[list[ConversationInfo], str | None]]:
        """A page of conversations, newest first, and where the next one begins."""
        now, after, entries = yield from self._entries(below)
        if not entries:
            return [], after
        calls = [
            call
            for entry in entries
            for call in (
                Call("PTTL", keys=(entry.keys.messages,)),
                Call("PTTL", keys=(entry.keys.meta,)),
                Call("LLEN", keys=(entry.keys.messages,)),
                Call("HEXISTS", ("s",), keys=(entry.keys.meta,)),
            )
        ]
        replies: list[Any] = yield Plan(tuple(calls), list, partial=True)
        found: list[ConversationInfo] = []
        stale: list[tuple[str, int]] = []
        for at, entry in enumerate(entries):
            left, meta_left, count, summarised = replies[4 * at : 4 * at + 4]
            if isinstance(count, WrongType) or isinstance(summarised, WrongType):
                self._settings.emit(Event("corrupt", entry.keys.label, detail="not listed: WrongType"))
                continue
            for reply in (left, meta_left, count, summarised):
                if isinstance(reply, MemoryRedisError):
                    raise reply
            if count or summarised:
                active = datetime.fromtimestamp(entry.score / 1000, UTC)
                left = left if count else meta_left  # all of it may be summarised
                seconds = left / 1000 if left >= 0 else None
                found.append(ConversationInfo(self._user_id, entry.conversation_id, count, active, seconds))
            elif entry.score < now - SETTLED_MS:
                stale.append((entry.conversation_id, entry.score))
        yield from index.drop(self._index, stale)
        return found, after

    def forget(self) -> Flow[Forgotten]:
        """Clear every conversation and the index; how much there was."""
        conversations = messages = 0
        for _ in range(ROUNDS):
            below: str | None = "+inf"
            seen = 0
            while below is not None:
                _, below, entries = yield from self._entries(below)
                seen += len(entries)
                for removed in (yield from self._clear(entries)):
                    messages += removed
                    conversations += removed > 0
                yield from index.drop(self._index, [entry[:2] for entry in entries])
            if not seen:
                break
        return Forgotten(conversations, messages)

    def _clear(self, entries: Sequence[Entry]) -> Flow[list[int]]:
        """Clear conversations together; how many messages each had."""
        if not entries:
            return []
        writers = [Writer(entry.keys, self._settings, Terms()) for entry in entries]
        replies = yield Plan(tuple(one.clear_call() for one in writers), list, partial=True)
        broken = [
            entry for entry, reply in zip(entries, replies, strict=True) if isinstance(reply, WrongType)
        ]
        if broken:  # what stands there is ours by name, and must go too
            keys = [key for entry in broken for key in (entry.keys.messages, entry.keys.meta)]
            yield Plan(tuple(Call("UNLINK", keys=(key,)) for key in keys), list)
            yield from self._clear(broken)
        removed: list[int] = []
        for one, reply in zip(writers, replies, strict=True):
            if isinstance(reply, MemoryRedisError) and not isinstance(reply, WrongType):
                raise reply
            removed.append(0 if isinstance(reply, WrongType) else one.cleared(reply))
        return removed
