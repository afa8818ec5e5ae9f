"""The layout of a record, and the structure of what it holds.

A record of format 1 is a header of 36 bytes, readable from Lua, and a msgpack map, the message's
data:

    0      format, 1
    1-6    ms since 1970 at which the server stored it  (these two are
    7-12   position among all messages ever appended     stamped by the append script)
    13-16  CRC-32 of all that follows
    17     type: 1 human, 2 ai, 3 system, 4 tool, 5 function, 6 chat, 7 remove
    18     flags: 1 has tool calls, 2 partial, 4 has links
    19-20  code of the token counter, 0 for none
    21-23  tokens by that counter
    24-27  bytes of the content's text, UTF-8
    28-35  tag of the conversation it belongs to
    36-    with flag 4: the number of links, up to 255, and 4 bytes for each: the CRC-32 of the id of each
           tool call that the message makes, or answers (of the name, for a function)
    then   msgpack

A writer sends a record without bytes 1 to 12. A load checks header, tag and CRC of every record;
the map is unpacked, and its structure checked, when the message's data is first asked for.

A record that begins with `{` is JSON text in LangChain's layout; ours has `stored_at`, `seq` and
`owner`, and `links` in hexadecimal, beside `type` and `data`, where LangChain's readers do not
look. Both may stand in one list.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Any, Final

from memory_redis.layouts import MESSAGE_TYPES, REQUIRED, MessageType

FORMAT: Final = 1
HEADER_BYTES: Final = 36
HEAD: Final = Struct(">BBHBHI8s")
CHECKED: Final = 17
STAMP, JSON_STAMP = 12, 50
"""Bytes that the append script adds to a record at most."""
TOOL_CALLS, PARTIAL, LINKS = 1, 2, 4
DEEPEST: Final = 32

READ: Final = Struct(">BHI6xIBB9x8s").unpack_from
"""Format, time (its upper 2 bytes and the other 4), checksum, type, flags, tag."""
CODES: Final[dict[MessageType, int]] = {kind: code for code, kind in enumerate(MESSAGE_TYPES, 1)}
KINDS: Final[dict[int, MessageType]] = {code: kind for kind, code in CODES.items()}
NAMES: Final[dict[str, MessageType]] = {kind: kind for kind in MESSAGE_TYPES}
LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, after which Python has no date."""
LATEST_HIGH: Final = LATEST_MS >> 32
_SCALARS: Final = frozenset({str, int, float, bool, bytes, type(None)})
_ANY: Final = _SCALARS | {dict, list}
_STRUCTURE: Final[dict[str, frozenset[type]]] = {
    "content": frozenset({str, list}),
    "id": frozenset({str, type(None)}),
    "name": frozenset({str, type(None)}),
    "additional_kwargs": frozenset({dict}),
    "response_metadata": frozenset({dict}),
    "tool_calls": frozenset({list}),
    "invalid_tool_calls": frozenset({list}),
    "usage_metadata": frozenset({dict, type(None)}),
    "tool_call_id": frozenset({str}),
    "status": frozenset({str}),
    "role": frozenset({str}),
}
_ITEMS: Final[dict[str, frozenset[type]]] = {
    "content": frozenset({str, dict}),
    "tool_calls": frozenset({dict}),
    "invalid_tool_calls": frozenset({dict}),
}


def check_structure(kind: str, data: Any, room: int) -> None:
    """That data has the structure of a message of this type."""
    if type(data) is not dict:
        raise ValueError("no map")
    left = [room]
    for name, value in data.items():
        found = type(value)
        expected = _STRUCTURE.get(name)
        if expected is None:
            if type(name) is not str:
                raise ValueError("a key that is no text")
            if found not in _ANY:
                raise ValueError("a type that is never written")
        elif found not in expected:
            raise ValueError(f"data.{name} is of type {found.__name__}")
        if (found is dict or found is list) and value:
            _check_value(value, 1, left)
            inside = _ITEMS.get(name)
            if inside is not None and not inside.issuperset(map(type, value)):
                raise ValueError(f"data.{name} holds a value of the wrong type")
    needed = REQUIRED.get(kind)
    if needed is not None and type(data.get(needed)) is not str:
        raise ValueError(f"no data.{needed}")
    if "content" not in data and kind != "remove":
        raise ValueError("no data.content")


def _check_value(value: Any, depth: int, room: list[int]) -> None:
    if depth >= DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST}")
    room[0] -= len(value)
    if room[0] < 0:
        raise ValueError("more values than a record can hold")
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise ValueError("a key that is no text")
        value = value.values()
    for item in value:
        kind = type(item)
        if kind is str:
            continue
        if kind is dict or kind is list:
            _check_value(item, depth + 1, room)
        elif kind not in _SCALARS:
            raise ValueError("a type that is never written")


_JSON_POSITION = re.compile(rb'\{"stored_at":\d{1,15},"seq":(\d{1,15}),')


def links_in(record: bytes) -> bytes:
    """The links of a record of format 1, 4 bytes each."""
    return (
        record[HEADER_BYTES + 1 : HEADER_BYTES + 1 + 4 * record[HEADER_BYTES]] if record[18] & LINKS else b""
    )


def owner_of(record: bytes) -> bytes:
    """The tag in a record of format 1."""
    return record[28:36]


def body_of(record: bytes) -> bytes:
    """The msgpack of a record of format 1."""
    links = 1 + 4 * record[HEADER_BYTES] if record[18] & LINKS else 0
    return record[HEADER_BYTES + links :]


def position_of(record: bytes) -> int | None:
    """The position that the append script stamped on a record; None if there is none to be read."""
    if len(record) > HEADER_BYTES and record[0] == FORMAT:
        return int.from_bytes(record[7:13])
    match = _JSON_POSITION.match(record)
    return int(match[1]) if match else None
