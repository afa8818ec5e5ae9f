"""Messages to records and back. The only module that knows msgpack."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn
from zlib import crc32

import msgpack

from memory_redis._engine.records import (
    CHECKED,
    CODES,
    DEEPEST,
    FORMAT,
    HEAD,
    HEADER_BYTES,
    JSON_STAMP,
    KINDS,
    LATEST_HIGH,
    LATEST_MS,
    LINKS,
    NAMES,
    PARTIAL,
    READ,
    STAMP,
    TOOL_CALLS,
    body_of,
    check_structure,
    links_in,
    owner_of,
)
from memory_redis.counting import APPROXIMATE, FROM_BYTES, TokenCounter
from memory_redis.errors import CorruptRecord, InvalidMessage, InvalidSetting, RecordError, UnsupportedFormat
from memory_redis.layouts import (
    DEFAULTS,
    MOST_LINKS,
    MessageType,
    canonical,
    has_calls,
    layout,
    links_of,
    text_of,
    well_formed,
)
from memory_redis.limits import Limits
from memory_redis.messages import PACKED, StoredMessage, loaded
from memory_redis.toolcalls import Tie
from memory_redis.wording import counted

# -- writing -------------------------------------------------------------------------------------


class _Unstorable(Exception):
    """A value that cannot be stored; the path is put together on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []


def _plain(value: Any, depth: int, as_json: bool, room: list[int]) -> Any:
    """A copy made of nothing but what every reader gets back."""
    kind = type(value)
    if kind is str:
        return well_formed(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if not -(2**63) <= value < 2**64:
            raise _Unstorable("an integer of more than 64 bits")
        return value
    if kind is float:
        if as_json and not math.isfinite(value):
            raise _Unstorable("JSON has no NaN and no infinity")
        return value
    if kind is dict or kind is list or kind is tuple or isinstance(value, (dict, list)):
        if depth >= DEEPEST:
            raise _Unstorable(f"nested deeper than {DEEPEST}")
        room[0] -= len(value)  # one list may stand in many places, and count in each
        if room[0] < 0:
            raise _Unstorable("more values than a record can hold")
        if isinstance(value, dict):
            return {_key(key): _inside(key, item, depth, as_json, room) for key, item in value.items()}
        return [_inside(at, item, depth, as_json, room) for at, item in enumerate(value)]
    if kind is bytes:
        if as_json:
            raise _Unstorable("JSON has no bytes")
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return well_formed(str.__str__(value))
    raise _Unstorable(f"a value of type {kind.__name__} cannot be stored")


def _key(key: Any) -> str:
    if type(key) is not str:
        raise _Unstorable(f"a key of type {type(key).__name__}, not a text")
    return well_formed(key)


def _inside(name: str | int, value: Any, depth: int, as_json: bool, room: list[int]) -> Any:
    try:
        return _plain(value, depth + 1, as_json, room)
    except _Unstorable as error:
        error.path.insert(0, name)
        raise


class Encoder:
    """Writes messages as records of one codec, with the tokens that the counter gives.

    Raises:
        InvalidSetting: there is no such codec.
    """

    __slots__ = ("_as_json", "_code", "_count", "_limits")

    def __init__(self, codec: str, limits: Limits, counter: TokenCounter) -> None:
        if not isinstance(codec, str) or codec not in ("msgpack", "json"):
            raise InvalidSetting('codec must be "msgpack" or "json"')
        self._as_json, self._limits = codec == "json", limits
        stored = counter.code not in FROM_BYTES
        self._code = counter.code if stored else 0
        own = counter.count if counter is APPROXIMATE else counter  # whose counts need not be checked
        self._count: Callable[[StoredMessage], int] = own if stored else _no_tokens

    def records(self, messages: Sequence[StoredMessage], owner: bytes) -> list[bytes]:
        """The messages of one append as records, for the conversation with that tag.

        Raises:
            InvalidMessage: there is none, one too many, one that is too large, or a value in one
                that cannot be stored.
        """
        if not messages:
            raise InvalidMessage("append needs at least one message")
        if len(messages) > self._limits.append_messages:
            raise InvalidMessage(
                f"an append holds at most {counted(self._limits.append_messages, 'message')}"
            )
        return self.together([self._record(message, at, owner) for at, message in enumerate(messages)])

    def together(self, records: list[bytes]) -> list[bytes]:
        """The records, if one append can hold them.

        Raises:
            InvalidMessage: it cannot.
        """
        limits = self._limits
        if len(records) > limits.append_messages:
            raise InvalidMessage(f"an append holds at most {counted(limits.append_messages, 'message')}")
        if sum(map(len, records)) > limits.append_bytes:
            raise InvalidMessage(f"an append holds at most {counted(limits.append_bytes, 'byte')}")
        return records

    def _record(self, message: StoredMessage, position: int, owner: bytes) -> bytes:
        if not isinstance(message, StoredMessage):
            raise InvalidMessage(
                f"a value of type {type(message).__name__} is no message: use human(), ai(), …",
                position=position,
            )
        kind, data = message.type, message.data
        if kind not in CODES:
            raise InvalidMessage("a type that is not known here", position=position, field="type")
        if not self._as_json and "type" not in data:
            try:  # nearly every message is plain already, and need not be copied to see that
                check_structure(kind, data, self._limits.record_bytes)
                body = _packing.bytes_of(data)
            except _NOT_PLAIN:
                pass
            else:
                return self._bounded(self._headed(message, body, owner, position), position)
        try:
            plain = _plain(data, 0, self._as_json, [self._limits.record_bytes])
        except _Unstorable as error:
            raise InvalidMessage(error.reason, position=position, field=["data", *error.path]) from None
        try:
            check_structure(kind, plain, self._limits.record_bytes)
            _, plain = canonical(kind, plain)
        except ValueError as error:
            raise InvalidMessage(str(error), position=position, field="data") from None
        if self._as_json:
            return self._bounded(_json_record(kind, plain, owner, position), position)
        stored = loaded({"type": kind, "seq": None, "stored_ms": None, "data": plain})
        return self._bounded(self._headed(stored, _packing.bytes_of(plain), owner, position), position)

    def _headed(self, message: StoredMessage, body: bytes, owner: bytes, position: int) -> bytes:
        """A record of format 1."""
        data: Mapping[str, Any] = message.data
        tokens = self._count(message)
        content = data.get("content")
        text = content if type(content) is str else text_of(content)
        size = len(text) if text.isascii() else len(text.encode())
        flags = TOOL_CALLS if has_calls(data) else 0
        if "response_metadata" in data and data["response_metadata"].get("partial") is True:
            flags |= PARTIAL
        links = links_of(message.type, data)
        if links:
            flags |= LINKS
            links = bytes((_how_many(links, position),)) + links
        head = HEAD.pack(CODES[message.type], flags, self._code, tokens >> 16, tokens & 0xFFFF, size, owner)
        checksum = crc32(body, crc32(links, crc32(head)))
        return b"".join((b"\x01", checksum.to_bytes(4), head, links, body))

    def _bounded(self, record: bytes, position: int) -> bytes:
        limit = self._limits.record_bytes
        if len(record) + (JSON_STAMP if self._as_json else STAMP) > limit:
            raise InvalidMessage(f"a record holds at most {counted(limit, 'byte')}", position=position)
        return record


_NOT_PLAIN = (ValueError, TypeError, OverflowError, RecursionError)


class _Packing(threading.local):
    """A packer of each thread's own: making one costs as much as packing a message."""

    KEPT = 256 * 1024

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pack = msgpack.Packer(strict_types=True).pack

    def bytes_of(self, data: Mapping[str, Any]) -> bytes:
        packed: bytes = self._pack(data)
        if len(packed) > self.KEPT:  # its buffer has grown, and would stay so
            self._renew()
        return packed


_packing = _Packing()


def _no_tokens(_message: StoredMessage) -> int:
    return 0


def _how_many(links: bytes, position: int) -> int:
    """The number of a message's ties to tool results or its call, if a record can hold as many."""
    if len(links) > 4 * MOST_LINKS:
        raise InvalidMessage(f"a message holds at most {MOST_LINKS} tool calls with an id", position=position)
    return len(links) // 4


def _json_record(kind: MessageType, data: dict[str, Any], owner: bytes, position: int) -> bytes:
    fields = {"content": data.get("content", "")}
    for name, default in DEFAULTS[kind].items():
        if name == "name":
            fields["type"] = kind
        fields[name] = data.get(name, default)
    links = links_of(kind, data)
    tied = {"links": links.hex()} if _how_many(links, position) else {}
    record = {"type": kind, "owner": owner.hex(), **tied, "data": fields | data}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


# -- reading -------------------------------------------------------------------------------------


def _refuse_extension(_code: int, _data: bytes) -> NoReturn:
    raise ValueError("an extension type")


_NO_HEAD = (0, 0, 0, 0, 0, 0, b"")
_NOT_A_RECORD = (ValueError, msgpack.UnpackException, RecursionError)


Decoded = tuple[list[StoredMessage], tuple[RecordError, ...], list[Tie]]
"""The messages that records hold; one error for each that is none; those that call or answer a tool."""


class Decoder:
    """Reads the records of one conversation.

    `conversation` is its label for errors, `owner` its tag.
    """

    __slots__ = ("_conversation", "_limit", "_owner")

    def __init__(self, conversation: str, owner: bytes, limits: Limits) -> None:
        self._conversation, self._owner, self._limit = conversation, owner, limits.record_bytes

    def messages(self, records: Sequence[bytes], position: int, *, whole: bool = False) -> Decoded:
        """The messages of records that stand from `position` on, and what is none.

        With `whole` their data is unpacked at once, so that nothing can fail later.
        """
        found: list[StoredMessage] = []
        failed: list[RecordError] = []
        tied: list[Tie] = []
        mine, limit = self._owner, self._limit
        for at, record in enumerate(records, position):
            try:
                head = READ(record) if HEADER_BYTES < len(record) <= limit else _NO_HEAD
                form, high, low, checksum, code, flags, owner = head
                sound = form == FORMAT and owner == mine and checksum == crc32(record[CHECKED:])
                if sound and high < LATEST_HIGH and code in KINDS:
                    kind, stored = KINDS[code], high << 32 | low
                    if whole:
                        data = self.unpacked(record, kind, at)
                        message = loaded({"type": kind, "seq": at, "stored_ms": stored, "data": data})
                    else:
                        held = (self, record)
                        message = loaded({"type": kind, "seq": at, "stored_ms": stored, PACKED: held})
                    if flags & LINKS:
                        tied.append((len(found), links_in(record)))
                else:
                    message = self._other(record, at)
                    tied.append((len(found), links_of(message.type, message.data)))
                found.append(message)
            except (CorruptRecord, UnsupportedFormat) as error:
                failed.append(error)
            except _NOT_A_RECORD as error:
                failed.append(self._corrupt(error, at))
        return found, tuple(failed), tied

    def unpacked(self, record: bytes, kind: MessageType, position: int) -> dict[str, Any]:
        """The data of a record of format 1.

        Raises:
            CorruptRecord: a writer that is none of ours made it.
        """
        try:
            data: dict[str, Any] = msgpack.unpackb(body_of(record), ext_hook=_refuse_extension)
            check_structure(kind, data, len(record))
        except _NOT_A_RECORD as error:
            raise self._corrupt(error, position) from None
        return data

    def _corrupt(self, error: Exception, position: int) -> CorruptRecord:
        reason = str(error) if type(error) is ValueError else type(error).__name__
        return CorruptRecord(self._conversation, reason, position)

    def _other(self, record: bytes, position: int) -> StoredMessage:
        """The message of a record that is no sound one of format 1, if it is one at all."""
        if len(record) > self._limit:
            raise ValueError(f"longer than {counted(self._limit, 'byte')}")
        if record[:1] == b"{":
            return self._from_json(record, position)
        if record and FORMAT < record[0] < 32:
            raise UnsupportedFormat(self._conversation, f"format {record[0]} is not known here", position)
        if record[:1] != b"\x01":
            raise ValueError("no record of this library")
        if len(record) <= HEADER_BYTES:
            raise ValueError("truncated")
        raise ValueError(
            "damaged" if owner_of(record) == self._owner else "it belongs to another conversation"
        )

    def _from_json(self, record: bytes, position: int) -> StoredMessage:
        value = json.loads(record, parse_constant=_refuse_constant)
        if type(value) is not dict:
            raise ValueError("no map")
        owner = value.get("owner")
        if owner is not None and owner != self._owner.hex():
            raise ValueError("it belongs to another conversation")
        stored = value.get("stored_at")
        try:
            name, data = canonical(*layout(value))
            data = _plain(data, 0, True, [len(record)])
        except _Unstorable:
            raise ValueError("a value that is never written") from None
        kind = NAMES.get(name)
        if kind is None:
            raise ValueError("no message type that is known here")
        check_structure(kind, data, len(record))
        timed = type(stored) is int and 0 <= stored <= LATEST_MS
        return loaded({"type": kind, "data": data, "seq": position, "stored_ms": stored if timed else None})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
