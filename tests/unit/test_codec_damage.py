"""Damaged and hostile records: a marked error or a valid message comes out, and nothing else happens."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import CorruptRecord, RecordError, StoredMessage, UnsupportedFormat, ai, human, tool
from tests.unit.records import CODECS, HEADER_BYTES, crafted, decoded, encoded, fields, read, stored
from tests.unit.strategies import any_messages, examples, nested

RICH = ai(
    ["text", {"type": "text", "text": "é😀"}, {"type": "image", "url": "x"}],
    id="m1",
    name="bot",
    tool_calls=[{"name": "add", "args": {"x": 1, "y": [1.5, None, True]}, "id": "c1"}],
    usage_metadata={"input_tokens": 3, "output_tokens": 2**40},
    response_metadata={"model": "m", "nested": {"a": {"b": {"c": [-1, -200, 70000]}}}},
    extra="kept",
)


def check(record: bytes) -> None:
    """The record gives a message that is whole in every respect, or a marked error."""
    found, failed = decoded([record], position=7)
    assert len(found) + len(failed) == 1
    lazily, _ = decoded([record], position=7, whole=False)
    if found:  # by their text: damage may make a NaN, which is not equal to itself
        assert [repr(message.data) for message in lazily] == [repr(message.data) for message in found]
    else:
        assert [_asked(message) for message in lazily] in ([], [failed[0].reason])
    for error in failed:
        assert type(error) in (CorruptRecord, UnsupportedFormat)
        assert isinstance(error, RecordError)
        assert error.position == 7  # type: ignore[attr-defined]
    for message in found:
        assert message.seq == 7
        assert StoredMessage.model_validate(message.model_dump()).type == message.type
        assert isinstance(message.text, str)
        assert message.id is None or isinstance(message.id, str)
        _ = (message.stored_at, message.content, message.name, list(message.tool_calls), repr(message))
        encoded(message)


def _asked(message: StoredMessage) -> str:
    """Why the data of a message cannot be given, when it is asked for."""
    with pytest.raises(CorruptRecord) as caught:
        _ = message.data
    return caught.value.reason


@pytest.mark.parametrize("codec", CODECS)
def test_a_thousand_flipped_bits_raise_nothing_else(codec: str) -> None:
    """F12, S1: one bit of a record flipped, a thousand times."""
    record = stored(RICH, codec)
    chance = random.Random(20240607)
    for _ in range(1000):
        at, bit = chance.randrange(len(record)), chance.randrange(8)
        check(record[:at] + bytes([record[at] ^ 1 << bit]) + record[at + 1 :])


@pytest.mark.parametrize("codec", CODECS)
def test_every_byte_of_the_header_may_hold_anything(codec: str) -> None:
    """F12: also a time far beyond what Python can show."""
    record = stored(RICH, codec)
    for at in range(HEADER_BYTES):
        for value in (0, 1, 2, 31, 32, 127, 128, 254, 255):
            check(record[:at] + bytes([value]) + record[at + 1 :])
    check(record[:1] + b"\xff" * 12 + record[13:])


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_cut_short_anywhere_is_corrupt(codec: str) -> None:
    """F12, S5: no beginning of a record is a record."""
    record = stored(RICH, codec)
    for size in range(len(record)):
        with pytest.raises(CorruptRecord):
            read(record[:size])


@pytest.mark.parametrize("codec", CODECS)
@given(message=any_messages, where=st.integers(0, 10**6), junk=st.binary(min_size=1, max_size=6))
@examples(150)
def test_foreign_bytes_anywhere_raise_nothing_else(
    codec: str, message: StoredMessage, where: int, junk: bytes
) -> None:
    """F12: bytes of any kind written over, put into, or put behind any record."""
    try:
        record = stored(message, codec)
    except ValueError:  # NaN or bytes, which JSON has not
        record = stored(message)
    at = where % len(record)
    check(record[:at] + junk + record[at + len(junk) :])
    check(record[:at] + junk + record[at:])
    check(record + junk)


@given(
    record=st.binary(max_size=60)
    | st.binary(max_size=60).map(crafted)
    | st.binary(max_size=60).map(b"{".__add__)
)
@examples(400)
def test_any_bytes_at_all_raise_nothing_else(record: bytes) -> None:
    """F12, S1: no record at all, or one whose checksum is right."""
    check(record)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("trailing", [b"\0", b"x", b"\xc0", b"{}", b"\n{", b'{"type":"human"}'])
def test_trailing_bytes_are_refused(trailing: bytes, codec: str) -> None:
    """S5: one record holds one message."""
    with pytest.raises(CorruptRecord):
        read(stored(human("x"), codec) + trailing)


def body(value: Any, **options: Any) -> bytes:
    """A record of a human message with this for its data."""
    packed: Any = msgpack.packb(value, **options)
    return crafted(bytes(packed))


HOSTILE: dict[str, bytes] = {
    "extension": body({"content": "x", "t": msgpack.ExtType(5, b"a")}),
    "extension 0": body({"content": "x", "t": [msgpack.ExtType(0, b"")]}),
    "timestamp": body({"content": "x", "t": msgpack.Timestamp(1, 2)}),
    "timestamp as content": body({"content": msgpack.Timestamp(1, 2)}),
    "timestamp as data": body(msgpack.Timestamp(1, 2)),
    "timestamp of a wrong length": crafted(b"\x82\xa7content\xa1x\xa1t\xc7\x05\xff12345"),
    "timestamp with too many nanoseconds": crafted(b"\x82\xa7content\xa1x\xa1t\xc7\x0c\xff" + b"\xff" * 12),
    "extension as key": crafted(b"\x82\xa7content\xa1x\xd4\x05a\x01"),
    "integer key": body({"content": "x", 5: 1}),
    "nested integer key": body({"content": "x", "a": [{"b": {5: 1}}]}),
    "nil key": body({"content": "x", None: 1}),
    "boolean key": body({"content": "x", True: 1}),
    "bytes key": body({"content": "x", b"k": 1}),
    "nested bytes key": body({"content": "x", "a": {b"k": 1}}),
    "bytes key for content": body({b"content": "x"}),
    "list for data": body(["content", "x"]),
    "text for data": body("content"),
    "nil for data": body(None),
    "integer for data": body(5),
    "empty map": body({}),
    "bytes for content": body({"content": b"x"}),
    "integer for content": body({"content": 5}),
    "nil for content": body({"content": None}),
    "integers in content": body({"content": [1, 2]}),
    "text that is no UTF-8": crafted(b"\x81\xa7content\xa2\xff\xfe"),
    "half of a character": crafted(b"\x81\xa7content\xa3\xed\xa0\x80"),
    "list header of 4 billion": crafted(b"\x82\xa7content\xa1x\xa1a\xdd" + b"\xff" * 4),
    "map header of 4 billion": crafted(b"\xdf" + b"\xff" * 4),
    "text header of 4 billion": crafted(b"\x81\xa7content\xdb" + b"\xff" * 4),
    "a hundred thousand lists": crafted(b"\x82\xa7content\xa1x\xa1a" + b"\x91" * 100_000),
    "forty nested lists": body({"content": "x", "a": nested(40)}),
    "forty nested maps": body({"content": "x", "a": nested(40, in_lists=False)}),
    "reserved byte": crafted(b"\x81\xa7content\xc1"),
    "type 0": crafted(b"\x81\xa7content\xa1x", kind=0),
    "type 8": crafted(b"\x81\xa7content\xa1x", kind=8),
    "tool without its id": crafted(b"\x81\xa7content\xa1x", kind=4),
    "header alone": crafted(b""),
    "trailing bytes": crafted(b"\x81\xa7content\xa1x\0"),
    "wrong checksum": stored(human("x"))[:13] + bytes(4) + stored(human("x"))[17:],
    "empty": b"",
    "JSON list": b'["human", {"content": "x"}]',
    "JSON text": b'"human"',
    "JSON in UTF-16": '{"type":"human","data":{"content":"x"}}'.encode("utf-16-le")[:-1],
    "JSON with NaN": b'{"type":"human","data":{"content":"x","a":NaN}}',
    "JSON with infinity": b'{"type":"human","data":{"content":"x","a":-Infinity}}',
    "JSON with a huge number": b'{"type":"human","data":{"content":"x","a":1e999}}',
    "JSON with a huge integer": b'{"type":"human","data":{"content":"x","a":' + b"9" * 5000 + b"}}",
    "JSON with an integer of 65 bits": b'{"type":"human","data":{"content":"x","a":18446744073709551616}}',
    "JSON nested": b'{"type":"human","data":{"content":"x","a":' + b"[" * 40 + b"]" * 40 + b"}}",
    "JSON nested a hundred thousand times": b'{"type":"human","data":{"content":"x","a":' + b"[" * 100_000,
    "JSON maps nested a hundred thousand times": b'{"a":' * 100_000,
    "JSON without end": b'{"type":"human","data":{"content":"x"',
    "JSON that is no UTF-8": b'{"type":"human","data":{"content":"\xff\xfe"}}',
    "brace": b"{",
    "braces": b"{}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_record_is_corrupt(name: str) -> None:
    """S1, S5, decision 16: extension types, odd keys, wrong structure, bombs: refused, nothing is built."""
    with pytest.raises(CorruptRecord) as caught:
        read(HOSTILE[name])
    assert caught.value.position == 0
    assert caught.value.__cause__ is None
    assert len(str(caught.value)) < 200


WAYS: dict[str, Callable[[StoredMessage], object]] = {
    "data": lambda message: message.data,
    "content": lambda message: message.content,
    "text": lambda message: message.text,
    "id": lambda message: message.id,
    "tool_calls": lambda message: message.tool_calls,
    "equality": lambda message: message == human("x"),
    "dump": lambda message: message.model_dump(),
    "JSON": lambda message: message.model_dump_json(),
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "fields": dict,
    "append": lambda message: encoded(message),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_crafted_record_gives_its_error_however_it_is_asked(way: str) -> None:
    """S1, K03: only a writer that makes the checksum right gets so far; it is a CorruptRecord, each time."""
    message = read(HOSTILE["extension"], whole=False)
    assert repr(message) == "StoredMessage(type='human', seq=0)"
    for _ in range(2):
        with pytest.raises(CorruptRecord) as caught:
            WAYS[way](message)
        assert caught.value.position == 0


def test_the_last_of_duplicate_keys_wins() -> None:
    """Decision 16: in both formats, and in nested maps."""
    record = crafted(b"\x83\xa7content\xa1a\xa7content\xa1b\xa1m\x82\xa1k\x01\xa1k\x02")
    assert read(record).data == {"content": "b", "m": {"k": 2}}
    text = b'{"type":"ai","type":"human","data":{},"data":{"content":"a","content":"b","m":{"k":1,"k":2}}}'
    assert read(text) == read(record)


@pytest.mark.parametrize("at", [-1, -100_000_000_000_000, 253_402_300_800_000, 10**30])
def test_a_time_that_no_calendar_has_does_not_break_a_message(at: int) -> None:
    """F12: stored_at of a JSON record is hostile as well; the message is refused, or has no time."""
    check(f'{{"stored_at":{at},"type":"human","data":{{"content":"x"}}}}'.encode())


def test_a_pickle_is_a_corrupt_record_and_never_run(tmp_path: Path) -> None:
    """K03, K04: whatever protocol, wherever it stands, it is bytes; its side effect does not happen."""
    target = tmp_path / "executed"

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (target,)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        payload = pickle.dumps(Bomb(), protocol)
        for record in (payload, crafted(payload), b"{" + payload):
            with pytest.raises(CorruptRecord):
                read(record)
        assert fields(read(stored(tool("x", tool_call_id="1", artifact=payload))))["artifact"] == payload
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb()))
    assert target.exists()


def test_the_reason_of_a_corrupt_record_shows_none_of_it() -> None:
    """S6, P12: what stands in a broken record may be a message all the same."""
    secret = "hunter2-secret"
    for codec in CODECS:
        record = stored(human(secret, name=secret, **{secret: secret}), codec)
        for broken in (record[:-1], record + b"x", record.replace(b"content", secret[:7].encode())):
            with pytest.raises(CorruptRecord) as caught:
                read(broken)
            assert secret[:7] not in str(caught.value) + repr(caught.value)
