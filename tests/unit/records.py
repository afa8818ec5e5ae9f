"""Messages to records and back, as one conversation does it: the only place here that names the codec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory_redis import InvalidMessage, Limits, RecordError, StoredMessage
from memory_redis._engine.codec import Decoder, Encoder

OWNER = bytes.fromhex("0123456789abcdef")
LABEL = "c0ffee"
CODECS = ("msgpack", "json")
HEADER_BYTES = 32


def encoded(*messages: StoredMessage, codec: str = "msgpack", limits: Limits | None = None) -> list[bytes]:
    """The records of one append."""
    return Encoder(codec, limits or Limits()).records(messages, OWNER)


def decoded(
    records: Sequence[bytes], position: int = 0, limits: Limits | None = None
) -> tuple[list[StoredMessage], tuple[RecordError, ...]]:
    """What a read makes of records that stand from `position` on."""
    return Decoder(LABEL, OWNER, limits or Limits()).messages(records, position)


def read(record: bytes, limits: Limits | None = None) -> StoredMessage:
    """The message of one record; its error is raised."""
    messages, failed = decoded([record], limits=limits)
    if failed:
        raise failed[0]
    return messages[0]


def kept(message: StoredMessage, codec: str = "msgpack") -> StoredMessage:
    """The message after a round trip."""
    return read(encoded(message, codec=codec)[0])


def refusal(*messages: StoredMessage, codec: str = "msgpack", limits: Limits | None = None) -> InvalidMessage:
    """The error with which an append of the messages is refused."""
    try:
        encoded(*messages, codec=codec, limits=limits)
    except InvalidMessage as error:
        return error
    raise AssertionError("the append was not refused")


def exact(value: Any) -> str:
    """A text that is the same only for values of the same types, NaN and -0.0 included; not for order of keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{exact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact, value)) + "]"
    return f"{type(value).__name__}:{value!r}"
