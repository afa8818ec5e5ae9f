"""The window script on fakeredis: what it finds by headers, and where it says that it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    BYTES_4_PLUS_1,
    StoredMessage,
    TokenCounter,
    ai,
    human,
    system,
)
from memory_redis._engine.scripts import WINDOW
from tests.unit.records import encoded
from tests.unit.scripting import Conversation, aged, append_id

FOUND, UNTOLD, TOO_MANY, TOO_LARGE = 1, 0, 2, -1
META = ("b", "v", "t", "s")
MOST = 10_000
"""Records that one reply has at most."""
WORDS = TokenCounter("words", lambda message: len(message.text.split()))


@dataclass
class Answer:
    """A reply of the script by name."""

    status: int
    now: int
    length: int
    meta: list[bytes]
    index: int = -1
    first: list[bytes] | None = None
    before: list[bytes] | None = None
    records: list[bytes] | None = None


@pytest.fixture
def one() -> Conversation:
    return Conversation()


def window(
    one: Conversation,
    messages: int = -1,
    turns: int = -1,
    tokens: int = -1,
    counter: TokenCounter = WORDS,
    text: int = -1,
    age: int = -1,
    front: int | str = "",
    room: int = 10**9,
) -> Answer:
    """The window script; `front` is the age up to which a system message in front is shown."""
    words = (messages, turns, tokens, counter.code, text, age, front, room)
    reply = one.call(WINDOW, (one.messages, one.meta), *words, *META)
    status, now, length = reply[:3]
    answer = Answer(status, now, length, reply[3:7])
    if status != FOUND:
        assert len(reply) == 7
        return answer
    answer.index, first, before = reply[7:10]
    assert first in (0, 1)
    assert before in (0, 1)
    records = reply[10:]
    answer.first, answer.before = records[:first], records[first : first + before]
    answer.records = records[first + before :]
    return answer


def fill(
    one: Conversation, *messages: StoredMessage, counter: TokenCounter = WORDS, codec: str = "msgpack"
) -> None:
    """Append messages."""
    one.append(append_id(len(one.records())), *encoded(*messages, counter=counter, codec=codec))


def shown(one: Conversation, **limits: Any) -> tuple[int, int]:
    """Index of the first record of a window and how many there are; they are those at the end of the list."""
    answer = window(one, **limits)
    assert answer.status == FOUND
    assert answer.records is not None
    records = one.records()
    assert answer.records == records[answer.index :]
    return answer.index, len(answer.records)


def test_nothing_has_an_answer_too(one: Conversation) -> None:
    """F18, R75: no message, no meta, the server's time."""
    for limits in ({}, {"messages": 0}, {"turns": 1, "tokens": 5, "text": 5, "age": 5, "front": -1}):
        answer = window(one, **limits)  # type: ignore[arg-type]
        assert (answer.status, answer.length, answer.meta) == (FOUND, 0, [b""] * 4)
        assert (answer.index, answer.first, answer.before, answer.records) == (0, [], [], [])
        assert abs(answer.now - one.now()) < 60_000
    assert not one.client.keys()


def test_the_state_comes_with_every_answer(one: Conversation) -> None:
    """Decision 14: length and meta of the same moment, whatever the status; nothing is written."""
    fill(one, human("a"), human("b"))
    before = one.state()
    for limits in ({}, {"tokens": 5, "counter": APPROXIMATE}, {"room": 1}):
        answer = window(one, **limits)  # type: ignore[arg-type]
        assert (answer.length, answer.meta) == (2, [b"birthtag", b"2", b"", b""])
    assert one.state() == before


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 64, 65, 99, 100, 101])
def test_the_newest_are_found_at_and_around_each_chunk(one: Conversation, count: int) -> None:
    """Decision 14: the list is read by 32 from its end."""
    fill(one, *(human("w") for _ in range(100)))
    expected = (max(100 - count, 0), min(count, 100))
    assert shown(one, messages=count) == expected
    assert shown(one, tokens=count) == expected
    assert shown(one, text=count) == expected
    assert shown(one, turns=count) == ((0, 100) if count else (100, 0))


def test_each_limit_holds(one: Conversation) -> None:
    """Decision 21: the smallest of all; an upper bound that is used up."""
    fill(one, human("a b"), ai("c"), human("ddd"), human("e f g"), ai(""))
    assert [shown(one, tokens=size)[1] for size in range(9)] == [1, 1, 1, 2, 3, 4, 4, 5, 5]
    assert [shown(one, text=size)[1] for size in (0, 4, 5, 7, 8, 9, 11, 12)] == [1, 1, 2, 2, 3, 4, 4, 5]
    assert [shown(one, turns=count)[1] for count in range(4)] == [0, 3, 5, 5]
    assert shown(one, turns=2, messages=4, tokens=4) == (2, 3)
    assert shown(one, turns=1, messages=4, tokens=10**9, text=10**12) == (2, 3)


def test_the_record_before_the_window_shows_why_it_ends(one: Conversation) -> None:
    """F10: so that the reader can see whether it is damaged; not where a number was reached, or the front."""
    fill(one, human("a"), ai("b b b"), human("c"), ai("d"))
    records = one.records()
    assert window(one, tokens=2).before == [records[1]]
    assert window(one, turns=1).before == [records[1]]
    assert window(one, text=2).before == [records[1]]
    assert window(one, messages=2).before == []
    assert window(one, tokens=9).before == []
    one.client.lset(one.messages, 1, aged(records[1], 60_000))
    assert window(one, age=30_000).before == [one.records()[1]]


def test_a_system_message_in_front_comes_first_and_uses_up_room(one: Conversation) -> None:
    """R100, decision 21: of messages, tokens and bytes; it is not among the others."""
    fill(one, system("be kind"), human("a"), ai("b"), human("c"))
    front = one.records()[:1]
    for limits, index in (
        ({"messages": 3}, 2),
        ({"messages": 1}, 4),
        ({"messages": 9}, 1),
        ({"tokens": 4}, 2),
        ({"text": 8}, 3),
        ({"turns": 1}, 3),
        ({"turns": 9}, 1),
    ):
        answer = window(one, front=-1, **limits)  # type: ignore[arg-type]
        assert (answer.first, answer.index, answer.records) == (front, index, one.records()[index:])
        assert answer.before == (
            [] if "messages" in limits or index == 1 else one.records()[index - 1 : index]
        )
    for limits in ({"messages": 0}, {"tokens": 1}, {"text": 6}):
        assert window(one, front=-1, **limits).first == []  # type: ignore[arg-type]
    assert shown(one, front=-1, tokens=1) == (3, 1)
    assert window(one, messages=3).first == []


def test_a_message_in_front_that_is_no_system_message_is_one_of_the_others(one: Conversation) -> None:
    """R100: so is one that is older than what may be shown."""
    fill(one, human("a"), system("b"))
    assert window(one, front=-1).first == []
    assert shown(one, front=-1, messages=1) == (1, 1)
    other = Conversation()
    fill(other, system("a"), human("b"))
    other.client.lset(other.messages, 0, aged(other.records()[0], 60_000))
    assert window(other, front=30_000, messages=2).first == []
    assert window(other, front=90_000, messages=2).first == other.records()[:1]
    assert window(other, front=-1, messages=2, age=30_000).first == other.records()[:1]


def test_ages_are_told_by_the_stamps_and_the_servers_clock(one: Conversation) -> None:
    """Decision 13: those behind the newest that is too old."""
    fill(one, *(human(str(number)) for number in range(6)))
    for at, seconds in enumerate((500, 300, 400, 200, 100, 0)):
        one.client.lset(one.messages, at, aged(one.records()[at], seconds * 1000))
    ages = (50, 150, 250, 350, 450, 550)
    assert [shown(one, age=seconds * 1000)[1] for seconds in ages] == [1, 2, 3, 3, 5, 6]


def test_bytes_stand_for_the_tokens_of_two_counters(one: Conversation) -> None:
    """R91, decision 22: whatever was stored; exact on bytes that are no multiple of four."""
    fill(one, human("\U0001f600\U0001f600"), human("ééé"), human(""), human("abc"), counter=WORDS)
    plus_1, at_least_1 = (3, 2, 1, 1), (2, 1, 1, 1)
    for counter, costs in ((BYTES_4_PLUS_1, plus_1), (BYTES_4, at_least_1)):
        for size in range(9):
            fitting = next(at for at in range(5) if sum(costs[at:]) <= size)
            assert shown(one, tokens=size, counter=counter) == (fitting, 4 - fitting)


def test_tokens_of_another_counter_are_not_taken_for_those_that_are_asked_for(one: Conversation) -> None:
    """Decision 22: where such a record matters, and nowhere else."""
    fill(one, human("a"), counter=APPROXIMATE)
    fill(one, human("b"), human("c"), counter=WORDS)
    assert shown(one, tokens=1) == (2, 1)
    assert window(one, tokens=3).status == UNTOLD
    assert window(one, tokens=3, messages=2).status == FOUND
    assert window(one, tokens=9, counter=APPROXIMATE).status == UNTOLD
    assert shown(one, turns=1, text=9) == (0, 3)


@pytest.mark.parametrize(
    "other",
    [b"", b"{", b"\x01" + b"x" * 35, b"\x02" + b"x" * 60, b"\xff" * 60, *encoded(human("x"), codec="json")],
    ids=["blank", "JSON", "cut short", "of the future", "rubbish", "ours as JSON"],
)
def test_a_record_without_a_header_is_left_to_the_reader(one: Conversation, other: bytes) -> None:
    """Decision 13: where it matters, as the last one, as the one before a turn, and in front."""
    fill(one, ai("a"), human("b"), ai("c"))
    one.client.lset(one.messages, 0, other)
    assert window(one, tokens=9).status == UNTOLD
    assert window(one, turns=1).status == UNTOLD
    assert window(one, front=-1, messages=1).status == UNTOLD
    assert shown(one, messages=2) == (1, 2)
    assert shown(one, tokens=1) == (2, 1)
    one.client.lset(one.messages, 2, other)
    assert window(one, tokens=0).status == UNTOLD
    assert window(one, messages=0).status == FOUND


def test_a_window_of_more_bytes_than_a_load_may_bring_is_told(one: Conversation) -> None:
    """Decision 16: the bytes of its records, and not of others."""
    fill(one, *(human("x" * 100) for _ in range(10)))
    size = len(one.records()[0])
    assert shown(one, messages=3, room=3 * size) == (7, 3)
    assert window(one, messages=3, room=3 * size - 1).status == TOO_LARGE
    assert window(one, room=9 * size).status == TOO_LARGE
    assert shown(one, room=10 * size) == (0, 10)


def test_a_reply_has_so_many_records_and_no_more(one: Conversation) -> None:
    """I04: what is longer is read by pages; a window of just as many has its answer."""
    fill(one, human("a"))
    record = one.records()[0]
    one.client.rpush(one.messages, *[record] * (MOST - 1))
    assert shown(one, age=10**9) == (0, MOST)
    one.client.rpush(one.messages, record)
    assert window(one, age=10**9).status == TOO_MANY
    assert shown(one, tokens=MOST) == (1, MOST)
    assert shown(one, messages=MOST, tokens=10**9) == (1, MOST)
