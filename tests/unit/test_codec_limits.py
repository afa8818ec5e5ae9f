"""How much a record and an append may hold: counted in bytes, before anything is sent or decoded."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import CorruptRecord, InvalidMessage, Limits, RedisMemory, human
from tests.unit.records import CODECS, encoded, read, refusal, stored

STAMP = 64
"""Bytes that the server's time and position may take in a record, at most."""


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_is_bounded_in_bytes_and_not_in_characters(codec: str) -> None:
    """S4, decision 16: the error names position and limit; one byte more than what fits does not fit."""
    message = human("é" * 400)
    size = len(encoded(message, codec=codec)[0])
    for bytes_ in range(size, size + STAMP):
        limits = Limits(record_bytes=bytes_)
        try:
            encoded(message, codec=codec, limits=limits)
        except InvalidMessage:
            continue
        error = refusal(human("fine"), human("é" * 400 + "x"), codec=codec, limits=limits)
        assert error.position == 1
        assert str(bytes_) in str(error)
        return
    raise AssertionError("no limit was large enough")


@pytest.mark.parametrize("codec", CODECS)
def test_an_append_is_bounded_in_bytes_and_in_messages(codec: str) -> None:
    """S4, decision 16."""
    size = len(encoded(human("x" * 100), codec=codec)[0])
    three = [human("x" * 100)] * 3
    enough = Limits(append_bytes=3 * (size + STAMP), append_messages=3)
    assert len(encoded(*three, codec=codec, limits=enough)) == 3
    refusal(*three, codec=codec, limits=Limits(append_bytes=3 * size - 1))
    refusal(*three, codec=codec, limits=Limits(append_messages=2))


def test_the_limits_are_those_that_are_documented() -> None:
    """Decision 16: 4 MiB a record, 16 MiB and 1,000 messages an append, unless set otherwise."""
    limits = Limits()
    assert (limits.record_bytes, limits.append_bytes, limits.append_messages) == (4 << 20, 16 << 20, 1000)
    encoded(*[human("x")] * 1000)
    refusal(*[human("x")] * 1001)
    refusal(human("x" * (4 << 20)))


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_above_the_limit_of_the_reader_is_not_decoded(codec: str) -> None:
    """S4: the length is looked at before anything is decoded."""
    record = stored(human("x" * 200), codec)
    assert read(record, Limits(record_bytes=len(record))) == human("x" * 200)
    with pytest.raises(CorruptRecord, match=f"longer than {len(record) - 1} bytes"):
        read(record, Limits(record_bytes=len(record) - 1))


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_stored_under_a_limit_can_be_read_under_it(codec: Any) -> None:
    """C06, S4: the largest message that an append takes comes back, the server's stamp included."""
    smallest = 40
    for size in range(smallest, smallest + 200):
        limits = Limits(record_bytes=size)
        with RedisMemory.from_url("fake://", codec=codec, limits=limits) as memory:
            history = memory.session("s1")
            try:
                history.append(human("x"))
            except InvalidMessage:
                continue
            assert history.load().messages == [human("x")]
            return
    raise AssertionError("no limit was large enough")


def test_nothing_is_sent_for_an_append_that_is_refused() -> None:
    """S3, P3: the first message is fine, the second is not; no key appears."""
    with RedisMemory.from_url("fake://") as memory:
        history = memory.history("ann", "c1")
        with pytest.raises(InvalidMessage):
            history.append(human("fine"), human("x", extra={1}))
        assert not history.exists()
        assert list(memory.conversations("ann")) == []
