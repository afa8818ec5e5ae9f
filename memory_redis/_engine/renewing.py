"""When a conversation ends: renewing that, and giving it an end of its own."""

from __future__ import annotations

from typing import Any

from memory_redis._engine import index
from memory_redis._engine.keys import ConversationKeys
from memory_redis._engine.plans import Call, Flow, Plan
from memory_redis._engine.scripts import RENEW
from memory_redis.errors import InvalidSetting
from memory_redis.expiry import Terms


class Renewer:
    """The flows that change when one conversation ends."""

    __slots__ = ("_keys", "_words")

    def __init__(self, keys: ConversationKeys, terms: Terms) -> None:
        self._keys, self._words = keys, tuple(map(str, terms[:3]))

    def call(self, why: str) -> Call:
        """The script: `"r"` because of a read, `"t"` by a touch, `"d"` to drop own terms, or own terms."""
        keys = self._keys
        return Call(RENEW, (*self._words, why), keys=(keys.messages, keys.meta))

    def renew(self, why: str) -> Flow[bool]:
        """Whether the conversation is there; it has the new end then.

        Raises:
            InvalidSetting: that end would be past.
        """
        reply = yield Plan((self.call(why),), _reply, self._keys.label)
        found, _, _ = reply
        if found < 0:
            raise InvalidSetting("the conversation would have ended already; nothing was changed")
        yield from self.told(reply)
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
