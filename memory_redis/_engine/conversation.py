"""One conversation, as the flows that both faces run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from memory_redis._engine.compacting import Compactor
from memory_redis._engine.keys import conversation_keys
from memory_redis._engine.plans import Call, Flow, Plan, only
from memory_redis._engine.reading import Place, Reader
from memory_redis._engine.renewing import Renewer
from memory_redis._engine.settings import Settings
from memory_redis._engine.writing import Writer
from memory_redis.errors import InvalidSetting
from memory_redis.expiry import Expiry, check_expiry
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, check_on_corrupt
from memory_redis.snapshots import Snapshot
from memory_redis.versions import AppendId
from memory_redis.windows import Window, check_window


class ReadsConversation(Protocol):
    """What the faces ask of a reader; a strategy puts one of its own before it."""

    def load(
        self, window: Window, on_corrupt: OnCorrupt, key_id: AppendId | None = None
    ) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        """As `Reader.load`."""
        ...

    def page(
        self, place: Place | None, size: int, on_corrupt: OnCorrupt
    ) -> Flow[tuple[list[StoredMessage], Place | None]]:
        """As `Reader.page`."""
        ...


class Conversation:
    """The keys of one conversation, and the flows that read and change it.

    `expiry` is instead of the memory's.

    Raises:
        InvalidId: an id is not a non-empty text.
        InvalidSetting: the expiry is none.
    """

    __slots__ = ("_reader", "_terms", "_writer", "default_window", "keys", "settings")

    def __init__(
        self, settings: Settings, user_id: str | None, conversation_id: str, expiry: Expiry | None = None
    ) -> None:
        self.keys = conversation_keys(settings.namespace, user_id, conversation_id)
        terms = settings.terms_of(user_id) if expiry is None else check_expiry(expiry).terms
        self.settings, self.default_window = settings, settings.window
        self._terms = terms
        self._reader: ReadsConversation | None = None
        self._writer: Writer | None = None

    # Each is made when it is needed first: many a conversation is made for one append, or one load.

    @property
    def reader(self) -> ReadsConversation:
        """The flows that read it."""
        if self._reader is None:
            self._reader = Reader(self.keys, self.settings, self._terms)
        return self._reader

    def read_by(self, reader: ReadsConversation) -> None:
        """Let another reader come before its own."""
        self._reader = reader

    @property
    def writer(self) -> Writer:
        """The flows that change it."""
        if self._writer is None:
            self._writer = Writer(self.keys, self.settings, self._terms)
        return self._writer

    @property
    def renewer(self) -> Renewer:
        """The flows that change when it ends."""
        return Renewer(self.keys, self._terms, self.settings.emit)

    def beginning(self, enough: int) -> Flow[Snapshot]:
        """As `Reader.beginning`: what is stored, whatever is shown of it."""
        return Reader(self.keys, self.settings, self._terms).beginning(enough)

    @property
    def compactor(self) -> Compactor:
        """The flows that summarise it."""
        return Compactor(self.keys, self.settings)

    def window(self, window: Window | None) -> Window:
        """The window of a call, or the memory's."""
        return self.default_window if window is None else check_window(window)

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

    def records(self, messages: Sequence[StoredMessage], after: Sequence[bytes]) -> list[bytes]:
        """Messages as they are stored by one append, behind records that it is to store already.

        Raises:
            InvalidMessage: they cannot be.
        """
        encoder = self.settings.encoder
        records = encoder.records(messages, self.keys.owner)
        return encoder.together([*after, *records]) if after else records

    def count(self) -> Plan[int]:
        """How many messages are stored."""
        return Plan(
            (Call("LLEN", keys=(self.keys.messages,)),), lambda replies: int(only(replies)), self.keys.label
        )

    def exists(self) -> Plan[bool]:
        """Whether a message, or a summary of messages, is stored."""
        calls = (Call("EXISTS", keys=(self.keys.messages,)), Call("HEXISTS", ("s",), keys=(self.keys.meta,)))
        return Plan(calls, any, self.keys.label)

    def expire_in(self) -> Plan[float | None]:
        """Seconds until the conversation ends; None if it does not, or is not there."""
        keys = self.keys
        calls = (
            Call("PTTL", keys=(keys.messages,)),
            Call("HEXISTS", ("s",), keys=(keys.meta,)),
            Call("PTTL", keys=(keys.meta,)),
        )

        def decode(replies: list[Any]) -> float | None:
            messages, summarised, meta = replies
            left = meta if messages == -2 and summarised else messages  # all of it may be summarised
            return left / 1000 if left >= 0 else None

        return Plan(calls, decode, keys.label)
