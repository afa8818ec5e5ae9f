"""Messages to records and back, as one conversation does it: the only place here that names the codec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from zlib import crc32

from memory_redis import BYTES_4, InvalidMessage, Limits, RecordError, StoredMessage, TokenCounter
from memory_redis._engine.codec import Decoder, Encoder

OWNER = bytes.fromhex("0123456789abcdef")
LABEL = "c0ffee"
CODECS = ("msgpack", "json")
HEADER_BYTES = 36
STORED_MS = 1_700_000_000_123


def encoded(
    *messages: StoredMessage,
    codec: str = "msgpack",
    limits: Limits | None = None,
    counter: TokenCounter = BYTES_4,
) -> list[bytes]:
    """The records of one append, as they are sent."""
    return Encoder(codec, limits or Limits(), counter).records(messages, OWNER)


def stamped(record: bytes, position: int = 0, ms: int = STORED_MS) -> bytes:
    """A record as the append script leaves it in the list, with the server's time and its position."""
    if record[:1] == b"{":
        return b'{"stored_at":%d,"seq":%d,' % (ms, position) + record[1:]
    return record[:1] + ms.to_bytes(6) + position.to_bytes(6) + record[1:]


def stored(message: StoredMessage, codec: str = "msgpack") -> bytes:
    """The record of a message as it stands in the list."""
    return stamped(encoded(message, codec=codec)[0])


def crafted(data: bytes, kind: int = 1, owner: bytes = OWNER) -> bytes:
    """A record of format 1 with these bytes for its data, as a hostile writer makes it: all else is right."""
    checked = bytes([kind]) + bytes(10) + owner + data
    return stamped(b"\x01" + crc32(checked).to_bytes(4) + checked)


def decoded(
    records: Sequence[bytes], position: int = 0, limits: Limits | None = None, whole: bool = True
) -> tuple[list[StoredMessage], tuple[RecordError, ...]]:
    """What a read makes of records that stand from `position` on; with `whole` also of their data."""
    return Decoder(LABEL, OWNER, limits or Limits()).messages(records, position, whole=whole)[:2]


def read(record: bytes, limits: Limits | None = None, whole: bool = True) -> StoredMessage:
    """The message of one record; its error is raised."""
    messages, failed = decoded([record], limits=limits, whole=whole)
    if failed:
        raise failed[0]
    return messages[0]


def kept(message: StoredMessage, codec: str = "msgpack") -> StoredMessage:
    """The message after a round trip, its data not yet asked for."""
    return read(stored(message, codec), whole=False)


def refusal(*messages: StoredMessage, codec: str = "msgpack", limits: Limits | None = None) -> InvalidMessage:
    """The error with which an append of the messages is refused."""
    try:
        encoded(*messages, codec=codec, limits=limits)
    except InvalidMessage as error:
        return error
    raise AssertionError("the append was not refused")


def fields(message: StoredMessage) -> dict[str, Any]:
    """A message's data, for a look at fields that are its own."""
    return cast(dict[str, Any], message.data)


def exact(value: Any) -> str:
    """A text that is the same only for values of the same types, NaN and -0.0 too; in any order of keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{exact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact, value)) + "]"
    return f"{type(value).__name__}:{value!r}"
