"""When a conversation ends: renewing that, and giving it an end of its own."""

from __future__ import annotations

from typing import Any, Final, Literal

from memory_redis._engine import index
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import Call, Flow, Plan
from memory_redis._engine.scripts import RENEW
from memory_redis.errors import InvalidSetting
from memory_redis.expiry import Terms
from memory_redis.telemetry import Emitter, Event

Why = Literal["read", "own", "touch", "drop", "set"]

_INDEX_FIRST: Final = 2


class Renewer:
    """The flows that change when one conversation ends."""

    __slots__ = ("_emit", "_keys", "_words")

    def __init__(self, keys: ConversationKeys, terms: Terms, emit: Emitter) -> None:
        self._keys, self._emit, self._words = keys, emit, tuple(map(str, terms[:3]))

    def call(self, why: Why, own: Terms | None = None, told: bool = False) -> Call:
        """The script, which says in its head what it takes."""
        keys = self._keys
        words = (*self._words, why, str(int(told)), "" if own is None else own.text())
        return Call(RENEW, words, keys=(keys.messages, keys.meta))

    def renew(self, why: Why, own: Terms | None = None) -> Flow[bool]:
        """Whether the conversation is there; it has the new end then.

        The user's index hears of an end of its own before, so that no conversation outlives it.

        Raises:
            InvalidSetting: that end would be past.
        """
        reply = yield Plan((self.call(why, own),), _reply, self._keys.label)
        if reply[0] == _INDEX_FIRST:
            yield from index.touch(self._keys, reply[2])
            reply = yield Plan((self.call(why, own, told=True),), _reply, self._keys.label)
        found = reply[0]
        if found < 0:
            raise InvalidSetting("the conversation would have ended already; nothing was changed")
        yield from self.told(reply)
        if found and reply[2] and why != "own" and self._emit.wants_details():
            self._emit(Event("expiry", self._keys.label, expire_at=reply[2]))
        return bool(found)

    def told(self, reply: list[Any]) -> Flow[None]:
        """Tell the user's index, if the script's reply asks for that."""
        if reply[1]:
            yield from index.refresh(self._keys, reply[2])


def _reply(replies: list[Any]) -> list[Any]:
    found, refresh, ends = replies[0]
    if not type(found) is type(refresh) is type(ends) is int:
        raise TypeError("not the reply of a renewal")
    return [found, refresh, ends]
