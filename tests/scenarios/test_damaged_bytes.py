"""Records of format 1 whose bytes were damaged, or forged by somebody who can write to the server."""

from __future__ import annotations

from zlib import crc32

import msgpack
import pytest
import redis

from memory_redis import CorruptRecord, RecordError, ai, human
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, texts

pytestmark = pytest.mark.anyio

HEADER, CHECKED = 36, 17
STAMPS = range(1, 13)  # time and position, which the server writes


def forged(record: bytes, body: bytes, kind: int | None = None) -> bytes:
    """A record with another body, and a sum that fits it."""
    rest = record[CHECKED:HEADER] + body
    if kind is not None:
        rest = bytes([kind]) + rest[1:]
    return record[: CHECKED - 4] + crc32(rest).to_bytes(4) + rest


async def test_a_flipped_bit_is_never_another_message(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """S1, S9, F12 of the fault programme: wherever it is, it is an error, or the message is the same."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), human("the quick brown fox", name="ann"))
    record = raw.lindex(keys.messages, 1)
    for at in range(len(record)):
        damaged = bytearray(record)
        damaged[at] ^= 1 << at % 8
        raw.lset(keys.messages, 1, bytes(damaged))
        snapshot = await history.load(on_corrupt="skip")
        assert snapshot.messages[0] == human("0")
        if at in STAMPS:
            assert snapshot.messages[1:] == [human("the quick brown fox", name="ann")]
            assert snapshot.messages[1].seq == 1
        else:
            assert [error.position for error in snapshot.skipped] == [1], f"byte {at}"
            with pytest.raises(RecordError):
                await history.load()


@pytest.mark.parametrize("length", [0, 1, 12, 13, 17, 35, 36, 37, -1])
async def test_a_record_that_was_cut_off_is_an_error(
    memory: MakeMemory, raw: redis.Redis, keys: Names, length: int
) -> None:
    """S1, F12 of the fault programme: at every edge of the header and in the body."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), human("the quick brown fox"))
    raw.lset(keys.messages, 1, raw.lindex(keys.messages, 1)[:length])
    with pytest.raises(CorruptRecord) as caught:
        await history.load()
    assert caught.value.position == 1
    assert texts(await history.load(on_corrupt="skip")) == ["0"]


BODIES = {
    "no map": msgpack.packb(["content", "x"]),
    "no content": msgpack.packb({"name": "ann"}),
    "content of a wrong type": msgpack.packb({"content": 7}),
    "a block that is no map": msgpack.packb({"content": [7]}),
    "an extension type": msgpack.packb({"content": "x", "y": msgpack.ExtType(5, b"z")}),
    "a time": msgpack.packb({"content": "x", "y": msgpack.Timestamp(1)}),
    "trailing bytes": msgpack.packb({"content": "x"}) + b"\0",
    "a key that is no text": msgpack.packb({"content": "x", 7: 8}),
    "a key of bytes": msgpack.packb({"content": "x", b"7": 8}),
    "an inner key that is no text": msgpack.packb({"content": "x", "y": {7: 8}}),
    "a text that is no UTF-8": b"\x81\xa7content\xa1\xff",
    "a promise of 4 GB": b"\x81\xa7content\xdd\xff\xff\xff\xff",
    "deep lists": b"\x81\xa7content" + b"\x91" * 100_000 + b"\xc0",
    "lists of depth 40": msgpack.packb({"content": "x"})[:1] + b"\xa1y" + b"\x91" * 40 + b"\xc0",
    "empty": b"",
    "tool calls that are no maps": msgpack.packb({"content": "x", "tool_calls": ["rm -rf"]}),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_forged_body_is_an_error_no_later_than_it_is_looked_at(
    memory: MakeMemory, raw: redis.Redis, keys: Names, body: bytes
) -> None:
    """S1, S5, CVE rows of 5.1: only plain data of the schema comes out, neighbours stay readable."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), ai("1"), human("2"))
    raw.lset(keys.messages, 1, forged(raw.lindex(keys.messages, 1), body))
    with pytest.raises(CorruptRecord) as caught:
        texts(await history.load())
    assert caught.value.position == 1
    snapshot = await history.load(on_corrupt="skip")
    assert texts(snapshot) == ["0", "2"]
    assert [error.position for error in snapshot.skipped] == [1]
    assert [m.text async for m in history.iterate(on_corrupt="skip")] == ["0", "2"]
    await history.append(human("3"))


@pytest.mark.parametrize("kind", [0, 8, 255, 4, 5, 6])
async def test_a_forged_type_is_an_error(
    memory: MakeMemory, raw: redis.Redis, keys: Names, kind: int
) -> None:
    """S1: unknown types, and known ones that lack a field they need."""
    history = memory().history("ann", "c1")
    await history.append(human("0"), human("1"))
    body = msgpack.packb({"content": "x"})
    raw.lset(keys.messages, 1, forged(raw.lindex(keys.messages, 1), body, kind))
    with pytest.raises(CorruptRecord):
        texts(await history.load())
    assert texts(await history.load(on_corrupt="skip")) == ["0"]


async def test_a_forged_record_among_missed_ones_does_not_hide_the_conflict(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """P10, decision 4: what is handed out as missed can be looked at."""
    history = memory().history("ann", "c1")
    async with history.turn() as turn:
        await history.append(human("0"), human("1"))
        raw.lset(keys.messages, 0, forged(raw.lindex(keys.messages, 0), msgpack.packb({"content": 7})))
        turn.add(human("mine"))
    assert turn.conflict.missed_count == 2
    assert texts(turn.missed) == ["1"]
