"""Token counters: names, counts that are none, and the three that are built in."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    BYTES_4_PLUS_1,
    InvalidSetting,
    Limits,
    StoredMessage,
    TokenCounter,
    ai,
    chat,
    function,
    human,
    system,
    tool,
)
from memory_redis.counting import MOST_TOKENS, check_counter, checked_count, code_of
from tests.support.ids import shown
from tests.unit.records import encoded
from tests.unit.strategies import examples, messages


class Level(IntEnum):
    LOW = 1


class WholeNumber(int):
    """As numbers of other libraries are."""


NO_COUNTS: list[Any] = [
    1.0,
    2.5,
    -1,
    True,
    False,
    None,
    "3",
    [3],
    float("nan"),
    2**24,
    10**30,
    Level.LOW,
    WholeNumber(3),
    (human("x"), 3),
]


@pytest.mark.parametrize("count", NO_COUNTS, ids=shown)
def test_what_is_no_count_is_refused(count: Any) -> None:
    """F01: fractions, negatives, truth values, nothing, and more than a header has room for."""
    with pytest.raises(InvalidSetting, match="16,777,215"):
        checked_count(count)
    with pytest.raises(InvalidSetting):
        TokenCounter("mine", lambda message: count)(human("x"))


@pytest.mark.parametrize("count", [0, 1, 2**24 - 1])
def test_every_count_that_has_room_means_what_it_says(count: int) -> None:
    """R118: nothing to the most that a header can hold."""
    assert TokenCounter("mine", lambda message: count)(human("x")) == count


@pytest.mark.parametrize("count", NO_COUNTS, ids=shown)
def test_a_message_whose_count_is_none_becomes_no_record(count: Any) -> None:
    """F01: nothing is encoded, the messages before it neither."""
    odd = TokenCounter("mine", lambda message: count if message.text == "odd" else 1)
    with pytest.raises(InvalidSetting):
        encoded(human("x"), human("odd"), counter=odd)


def test_what_a_counter_raises_arrives_unchanged() -> None:
    """R118: the very error, of whatever kind, from a message that needs copying before it is stored too."""
    for error in (KeyError("x"), ValueError("no"), TypeError("no"), OverflowError("no"), RuntimeError("no")):

        def broken(message: StoredMessage, error: Exception = error) -> int:
            raise error

        for message in (human("x"), human("x", pair=(1, 2)), human("\ud800")):
            with pytest.raises(type(error)) as caught:
                encoded(message, counter=TokenCounter("mine", broken))
            assert caught.value is error


@pytest.mark.parametrize("name", ["", None, 5, b"words", ["words"]], ids=repr)
def test_a_counter_needs_a_name(name: Any) -> None:
    """F01: a non-empty text."""
    with pytest.raises(InvalidSetting, match="name"):
        TokenCounter(name, len)


async def later(message: StoredMessage) -> int:
    return 1


@pytest.mark.parametrize("count", [None, 5, "len", int, WholeNumber, later], ids=shown)
def test_a_counter_needs_a_function(count: Any) -> None:
    """F01: no class, whose calls make objects, and no coroutine function; when it is made."""
    with pytest.raises(InvalidSetting):
        TokenCounter("mine", count)
    with pytest.raises(InvalidSetting):
        check_counter(count)


def test_a_counter_is_its_name() -> None:
    """R118: equal, with one hash and one code, in every process; frozen; its function is not shown."""
    one, other = TokenCounter("words", len), TokenCounter("words", str.__len__)  # type: ignore[arg-type]
    assert one == other
    assert hash(one) == hash(other)
    assert code_of(one) == code_of(other) == 14044
    assert one != TokenCounter("Words", len)
    assert repr(one) == "TokenCounter(name='words')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "tokens"  # type: ignore[misc]
    assert TokenCounter("\ud800 é", len).code >= 16


def test_codes_in_records_never_change() -> None:
    """Decision 18: 0 is no counter, those that are built in have the first, and no other name gets one."""
    assert [code_of(counter) for counter in (None, len, BYTES_4_PLUS_1, BYTES_4, APPROXIMATE)] == [
        *(0, 0, 1, 2, 3)
    ]
    for name in ("approximate", "bytes // 4 + 1", "max(bytes // 4, 1)"):
        with pytest.raises(InvalidSetting, match="another"):  # it would pass for the one that is built in
            TokenCounter(name, len)
    assert all(16 <= TokenCounter(f"mine {number}", len).code < 2**16 for number in range(2000))


# -- by bytes ------------------------------------------------------------------------------------

BY_BYTES: list[tuple[str, int, int]] = [
    ("", 1, 1),
    ("abc", 1, 1),
    ("abcd", 2, 1),
    ("abcdefg", 2, 1),
    ("abcdefgh", 3, 2),
    ("é", 1, 1),
    ("éé", 2, 1),
    ("ééé", 2, 1),
    ("éééé", 3, 2),
    ("€", 1, 1),
    ("€€", 2, 1),
    ("€€€", 3, 2),
    ("\U0001f600", 2, 1),
    ("\U0001f600\U0001f600", 3, 2),
    ("e\u0301", 1, 1),
    ("\0\0\0\0", 2, 1),
    ("x" * 4000, 1001, 1000),
]


@pytest.mark.parametrize(
    ("text", "plus_1", "at_least_1"), BY_BYTES, ids=[repr(row[0][:9]) for row in BY_BYTES]
)
def test_bytes_are_those_of_utf_8(text: str, plus_1: int, at_least_1: int) -> None:
    """R91: bytes // 4 + 1 for the token buffer, max(bytes // 4, 1) for the summary buffer, exact."""
    for message in (human(text), ai(text), ai([text, {"type": "image", "url": "x" * 99}])):
        assert BYTES_4_PLUS_1(message) == plus_1
        assert BYTES_4(message) == at_least_1


def test_tool_calls_cost_nothing_by_bytes() -> None:
    """R91: the content counts, and nothing else of a message."""
    calls = [{"name": "look", "args": {"x": "y" * 400}, "id": "a"}]
    assert BYTES_4_PLUS_1(ai("abcd", tool_calls=calls, name="ann" * 40)) == 2
    assert BYTES_4(tool("", tool_call_id="a" * 400)) == 1


@given(message=messages)
@examples(200)
def test_the_header_has_the_bytes_that_the_rules_count(message: StoredMessage) -> None:
    """R91, decision 13: so that both counters need not be stored; any message of any type."""
    [record] = encoded(message)
    assert int.from_bytes(record[12:16]) // 4 + 1 == BYTES_4_PLUS_1(message)


# -- approximately -------------------------------------------------------------------------------

APPROXIMATELY: list[tuple[StoredMessage, int]] = [
    (human(""), 4),
    (human("abcd"), 5),
    (human("éééé"), 5),
    (ai(""), 6),
    (system("abcd"), 6),
    (system("abcd", additional_kwargs={"__openai_role__": "developer"}), 7),
    (human("", name="x" * 8), 6),
    (tool("", tool_call_id="x" * 8), 6),
    (function("", name="f"), 6),
    (chat("", role="critic"), 5),
    (ai("", tool_calls=[{"name": "f", "args": {}, "id": "a", "type": "tool_call"}]), 20),
    (ai("", tool_calls=[{"name": "f", "args": {}, "id": "a"}]), 20),
    (human(["abcd", {"type": "text", "text": "abcd"}]), 6),
    (human([{"type": "image", "url": "x" * 4000}]), 89),
    (human([{"type": "image_url", "image_url": {"url": "x" * 4000}}, {"type": "image"}]), 174),
    (StoredMessage(type="remove", data={"id": "a"}), 5),
]


@pytest.mark.parametrize(("message", "tokens"), APPROXIMATELY, ids=shown)
def test_the_approximation_counts_text_role_name_calls_and_images(
    message: StoredMessage, tokens: int
) -> None:
    """R118: a quarter of the characters, rounded up, and 3; 85 for an image."""
    assert APPROXIMATE(message) == tokens


@given(message=messages)
@examples(200)
def test_the_approximation_counts_every_message(message: StoredMessage) -> None:
    """R118: it is the counter of every memory by default, and fails for none that can be stored."""
    tokens = APPROXIMATE(message)
    assert type(tokens) is int
    assert 3 <= tokens <= MOST_TOKENS
    [record] = encoded(message, counter=APPROXIMATE)
    assert int.from_bytes(record[7:9]) == 3
    assert int.from_bytes(record[9:12]) == tokens


def test_a_text_beyond_all_headers_is_stored_with_the_most_tokens() -> None:
    """Decision 13: a memory that allows records of 100 MiB can store one."""
    limits = Limits(record_bytes=100 * 2**20, append_bytes=100 * 2**20)
    for message in (human("x" * 68_000_000), ai("x" * 68_000_000, name="ann")):
        [record] = encoded(message, counter=APPROXIMATE, limits=limits)
        assert int.from_bytes(record[9:12]) == MOST_TOKENS
