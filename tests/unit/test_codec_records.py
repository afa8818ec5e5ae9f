"""The bytes of a record: a changed layout fails here, for what is stored must be read by every release."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory_redis import (
    CorruptRecord,
    RecordError,
    StoredMessage,
    UnsupportedFormat,
    ai,
    chat,
    function,
    human,
    system,
    tool,
)
from tests.unit.records import CODECS, HEADER_BYTES, LABEL, OWNER, decoded, encoded, read, stamped, stored

CALLS = [{"name": "add", "args": {"x": 1}, "id": "c1"}]

# format | CRC-32 of what follows | type, flags, token counter | tokens | bytes of content | owner | links
# | msgpack
# The append script puts time and position behind the first byte.
GOLDEN: dict[str, tuple[StoredMessage, str, bytes]] = {
    "human": (
        human("hi", name="ann"),
        "01 44a6948f 010000 00000000 00000002 0123456789abcdef",
        b"\x82\xa7content\xa2hi\xa4name\xa3ann",
    ),
    "ai": (
        ai("é", tool_calls=CALLS),
        "01 add9d286 020500 00000000 00000002 0123456789abcdef 01 5ed72aa1",
        b"\x82\xa7content\xa2\xc3\xa9\xaatool_calls\x91\x83\xa4name\xa3add\xa4args\x81\xa1x\x01\xa2id\xa2c1",
    ),
    "system": (
        system(""),
        "01 55119fd6 030000 00000000 00000000 0123456789abcdef",
        b"\x81\xa7content\xa0",
    ),
    "tool": (
        tool("3", tool_call_id="c1"),
        "01 94a8d902 040400 00000000 00000001 0123456789abcdef 01 5ed72aa1",
        b"\x82\xa7content\xa13\xactool_call_id\xa2c1",
    ),
    "function": (
        function("3", name="add"),
        "01 7ffcd645 050400 00000000 00000001 0123456789abcdef 01 fd1a73e7",
        b"\x82\xa7content\xa13\xa4name\xa3add",
    ),
    "chat": (
        chat("yo", role="critic"),
        "01 d3f796a5 060000 00000000 00000002 0123456789abcdef",
        b"\x82\xa7content\xa2yo\xa4role\xa6critic",
    ),
    "remove": (
        StoredMessage(type="remove", data={"id": "h1"}),
        "01 b100817e 070000 00000000 00000000 0123456789abcdef",
        b"\x81\xa2id\xa2h1",
    ),
    "partial answer": (
        ai("a", response_metadata={"partial": True}),
        "01 3d87712d 020200 00000000 00000001 0123456789abcdef",
        b"\x82\xa7content\xa1a\xb1response_metadata\x81\xa7partial\xc3",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_is_written_to_these_bytes(name: str) -> None:
    """Decision 13, 18, J02: golden bytes of format 1; type and flags stand where scripts look for them."""
    message, header, body = GOLDEN[name]
    assert encoded(message) == [bytes.fromhex(header) + body]


@pytest.mark.parametrize("name", GOLDEN)
def test_these_bytes_are_read_as_the_message(name: str) -> None:
    """Decision 18, J01: what this release wrote, with the server's time in it, later ones read."""
    message, header, body = GOLDEN[name]
    head = bytes.fromhex(header)
    record = head[:1] + (1_700_000_000_123).to_bytes(6) + (7).to_bytes(6) + head[1:] + body
    back = read(record)
    assert back == message
    assert back.stored_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert record == stamped(encoded(message)[0], position=7)


GOLDEN_JSON = {
    "human": (
        b'{"stored_at":1700000000123,"seq":7,"type":"human","owner":"0123456789abcdef","data":{"content":"hi",'
        b'"additional_kwargs":{},"response_metadata":{},"type":"human","name":"ann","id":null}}'
    ),
    "tool": (
        b'{"stored_at":1700000000123,"seq":7,"type":"tool","owner":"0123456789abcdef","data":{"content":"3",'
        b'"additional_kwargs":{},"response_metadata":{},"type":"tool","name":null,"id":null,"artifact":null,'
        b'"status":"success","tool_call_id":"c1"}}'
    ),
}


@pytest.mark.parametrize("name", GOLDEN_JSON)
def test_this_json_is_read_as_the_message(name: str) -> None:
    """Decision 18, J02: golden text of JSON records as the append script leaves them in the list."""
    back = read(GOLDEN_JSON[name])
    assert back == GOLDEN[name][0]
    assert back.stored_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_the_header_counts_the_bytes_of_the_text() -> None:
    """Decision 13: content bytes, for token rules that follow from them; texts and text blocks, in UTF-8."""
    message = human(["é", {"type": "text", "text": "😀"}, {"type": "image", "url": "x" * 50}])
    assert int.from_bytes(stored(message)[24:28]) == 2 + 4


@pytest.mark.parametrize(
    ("message", "flag"),
    [
        (ai("", tool_calls=CALLS), 5),
        (ai("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}), 5),
        (ai("", additional_kwargs={"tool_calls": [{"id": "c1", "function": {"name": "f"}}]}), 5),
        (ai("", tool_calls=CALLS, response_metadata={"partial": True}), 7),
        (ai("", response_metadata={"partial": 1}), 0),
        (ai("", response_metadata={"partial": "True"}), 0),
        (ai("", tool_calls=[]), 0),
        (ai("", additional_kwargs={"function_call": None}), 0),
        (tool("", tool_call_id="c1"), 4),
        (human(""), 0),
    ],
)
def test_the_flags_say_what_trimming_has_to_know(message: StoredMessage, flag: int) -> None:
    """Decision 13, 27: a message that calls tools, in either of LangChain's forms, and a partial answer."""
    assert stored(message)[18] == flag


@pytest.mark.parametrize("format_byte", [2, 3, 17, 31])
def test_a_format_of_a_later_release_is_unsupported(format_byte: int) -> None:
    """Decision 18: upgrade the reader; the record is not called corrupt."""
    record = bytes([format_byte]) + stored(human("x"))[1:]
    with pytest.raises(UnsupportedFormat) as caught:
        read(record)
    assert caught.value.position == 0
    assert caught.value.conversation == LABEL
    assert str(format_byte) in str(caught.value)
    with pytest.raises(UnsupportedFormat):
        read(bytes([format_byte]))


@pytest.mark.parametrize("first", [0, 32, 91, 128, 255])
def test_any_other_first_byte_is_corrupt(first: int) -> None:
    """S1: it is neither a format of ours nor JSON."""
    with pytest.raises(CorruptRecord):
        read(bytes([first]) + stored(human("x"))[1:])


def test_a_record_of_another_conversation_is_corrupt() -> None:
    """S9: the owner tag turns a mix-up of connections or keys into an error; no content comes out."""
    for codec in CODECS:
        record = stored(human("hunter2"), codec)
        other = record.replace(OWNER, bytes(8)).replace(OWNER.hex().encode(), b"00" * 8)
        assert other != record
        with pytest.raises(CorruptRecord, match="another conversation") as caught:
            read(other)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("owner", ["5", "true", "{}", '"0123456789ABCDEF"', '""', '"0123456789abcde"'])
def test_an_owner_that_is_no_tag_of_ours_is_refused(owner: str) -> None:
    """S9: a JSON record may have no owner, as another library writes it, but not a wrong one."""
    record = f'{{"type":"human","owner":{owner},"data":{{"content":"x"}}}}'.encode()
    with pytest.raises(CorruptRecord):
        read(record)


def test_a_damaged_byte_is_noticed_before_the_data_is_asked_for() -> None:
    """F12, decision 19: all but time and position is under the checksum, so a load finds out."""
    record = stored(human("some text", name="ann"))
    for at in (0, *range(13, len(record))):
        broken = record[:at] + bytes([record[at] ^ 0x10]) + record[at + 1 :]
        with pytest.raises(RecordError):
            read(broken, whole=False)


def test_a_json_record_without_owner_is_read() -> None:
    """As LangChain wrote it; it has no time of ours."""
    message = read(b'{"type":"human","data":{"content":"x"}}')
    assert message == human("x")
    assert message.stored_at is None


def test_a_bad_record_hides_none_of_its_neighbours() -> None:
    """S1, P10, F12: each record stands for itself; the error names the position among all ever appended."""
    good = [stored(human("a")), stored(ai("b")), stored(human("c"))]
    found, failed = decoded([good[0], b"junk", good[1], good[2][:-1], b"\x02x", good[2]], position=40)
    assert [(message.seq, message.text) for message in found] == [(40, "a"), (42, "b"), (45, "c")]
    assert [(type(error), error.position) for error in failed] == [  # type: ignore[attr-defined]
        (CorruptRecord, 41),
        (CorruptRecord, 43),
        (UnsupportedFormat, 44),
    ]
    assert all(error.conversation == LABEL for error in failed)


def test_the_header_is_as_long_as_documented() -> None:
    """Decision 13: what follows the header is the message's data and nothing else."""
    assert stored(system(""))[HEADER_BYTES:] == b"\x81\xa7content\xa0"
