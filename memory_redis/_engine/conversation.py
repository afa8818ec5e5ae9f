"""One conversation, as the flows that both faces run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory_redis._engine.keys import conversation_keys
from memory_redis._engine.plans import Call, Plan, only
from memory_redis._engine.reading import Reader
from memory_redis._engine.settings import Settings
from memory_redis._engine.writing import Writer
from memory_redis.errors import InvalidSetting
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, check_on_corrupt
from memory_redis.windows import Window, check_window


class Conversation:
    """The keys, the reader and the writer of one conversation.

    Raises:
        InvalidId: an id is not a non-empty text.
    """

    __slots__ = ("keys", "reader", "settings", "writer")

    def __init__(self, settings: Settings, user_id: str | None, conversation_id: str) -> None:
        self.keys = conversation_keys(settings.namespace, user_id, conversation_id)
        expiry = settings.expiry_of(user_id)
        self.settings = settings
        self.reader = Reader(self.keys, settings, expiry)
        self.writer = Writer(self.keys, settings, expiry)

    def window(self, window: Window | None) -> Window:
        """The window of a call, or the memory's."""
        return self.settings.window if window is None else check_window(window)

    def on_corrupt(self, value: OnCorrupt | None) -> OnCorrupt:
        """What a call, or else the memory, does with a corrupt record."""
        return self.settings.on_corrupt if value is None else check_on_corrupt(value)

    def page_size(self, size: int) -> int:
        """The size, if a page can have it.

        Raises:
            InvalidSetting: it is not an integer from 1 to 10,000.
        """
        if type(size) is not int or not 1 <= size <= 10_000:
            raise InvalidSetting("page_size must be an integer from 1 to 10,000")
        return size

    def records(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        """Messages as they are stored.

        Raises:
            InvalidMessage: they cannot be.
        """
        return self.settings.encoder.records(messages, self.keys.owner)

    def count(self) -> Plan[int]:
        """How many messages are stored."""
        return self._messages("LLEN", int)

    def exists(self) -> Plan[bool]:
        """Whether a message, or a summary of messages, is stored."""
        calls = (Call("EXISTS", keys=(self.keys.messages,)), Call("HEXISTS", ("s",), keys=(self.keys.meta,)))
        return Plan(calls, any, self.keys.label)

    def expire_in(self) -> Plan[float | None]:
        """Seconds until the conversation ends; None if it does not, or is not there."""
        return self._messages("PTTL", lambda left: left / 1000 if left >= 0 else None)

    def _messages(self, command: str, read: Any) -> Plan[Any]:
        call = Call(command, keys=(self.keys.messages,))
        return Plan((call,), lambda replies: read(only(replies)), self.keys.label)
