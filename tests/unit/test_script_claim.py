"""The claim script on fakeredis: whether a summary is due, and who makes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import APPROXIMATE, BYTES_4, BYTES_4_PLUS_1, TokenCounter, ai, human
from tests.unit.records import encoded
from tests.unit.scripting import HOLD, Conversation, append_id
from tests.unit.strategies import examples

MINE, OTHERS = append_id(8), append_id(9)
BELOW, CLAIMED, TAKEN, UNTOLD, LARGE = 0, 1, 2, 3, 4
ONE = encoded(human("x"))[0]
IN_THE_PAST = (1_600_000_000_000).to_bytes(6)


@pytest.fixture
def one() -> Conversation:
    """Five messages."""
    conversation = Conversation()
    conversation.append(append_id(1), *[ONE] * 5)
    return conversation


def test_a_summary_is_due_above_a_number_of_messages(one: Conversation) -> None:
    """R92: not at it."""
    assert one.claim(MINE, most=5) == BELOW
    assert one.field("w") == b""
    assert one.claim(MINE, most=4) == CLAIMED


def test_a_claim_names_who_holds_it_and_until_when(one: Conversation) -> None:
    """R96: by the server's clock."""
    before = one.now()
    one.claim(MINE, ms=60_000)
    held = one.field("w")
    assert held[:12] == MINE
    assert before + 60_000 <= int.from_bytes(held[12:]) <= one.now() + 60_000


def test_one_of_many_gets_the_claim(one: Conversation) -> None:
    """R96: and the others are told so, as long as it is held."""
    assert one.claim(MINE) == CLAIMED
    held = one.field("w")
    assert [one.claim(append_id(20 + number)) for number in range(5)] == [TAKEN] * 5
    assert one.field("w") == held


def test_a_claim_that_is_sent_again_is_still_the_senders(one: Conversation) -> None:
    """R96: a lost reply does not lock everybody out."""
    assert one.claim(MINE, ms=1000) == CLAIMED
    assert one.claim(MINE, ms=60_000) == CLAIMED
    assert one.claim(OTHERS) == TAKEN


def test_a_claim_that_ran_out_is_taken_over(one: Conversation) -> None:
    """R96: a worker that died holds nothing up."""
    one.client.hset(one.meta, "w", OTHERS + IN_THE_PAST)
    assert one.claim(MINE) == CLAIMED
    assert one.field("w")[:12] == MINE
    assert one.claim(OTHERS) == TAKEN


def test_a_claim_is_given_up_by_its_holder_alone(one: Conversation) -> None:
    """R98: then the next one gets it at once."""
    one.claim(MINE)
    assert one.claim(OTHERS, ms=0) == CLAIMED
    assert one.claim(OTHERS) == TAKEN
    assert one.claim(MINE, ms=0) == CLAIMED
    assert one.field("w") == b""
    assert one.claim(OTHERS) == CLAIMED


def test_nothing_is_claimed_where_nothing_is_stored() -> None:
    """B03, H19: no key is made for a conversation that is not there, or whose other half is lost."""
    one = Conversation()
    assert one.claim(MINE) == BELOW
    assert one.claim(MINE, ms=0) == CLAIMED
    assert one.client.keys() == []
    one.client.rpush(one.messages, ONE)
    assert one.claim(MINE) == BELOW
    assert one.client.keys() == [one.messages.encode()]


def test_a_cleared_conversation_cannot_be_claimed(one: Conversation) -> None:
    """Decision 2: what is left of it is a mark without content."""
    one.clear(append_id(2))
    assert one.claim(MINE) == BELOW
    assert one.field("w") == b""


TEXTS = ["", "abc", "abcd", "x" * 41, "é" * 10, "😀" * 3]
COSTS = [
    (BYTES_4, [1, 1, 1, 10, 5, 3]),
    (BYTES_4_PLUS_1, [1, 1, 2, 11, 6, 4]),
]


@pytest.mark.parametrize(("counter", "costs"), COSTS, ids=lambda value: str(value)[:60])
def test_tokens_that_follow_from_bytes_are_exact(counter: TokenCounter, costs: list[int]) -> None:
    """R93: as the counter gives them; due above the limit, not at it."""
    messages = [human(text) for text in TEXTS]
    assert [counter(message) for message in messages] == costs
    one = Conversation()
    one.append(append_id(1), *encoded(*messages))
    assert one.claim(MINE, tokens=sum(costs), counter=counter.code) == BELOW
    assert one.claim(MINE, tokens=sum(costs) - 1, counter=counter.code) == CLAIMED


def test_a_summary_is_due_above_a_number_of_bytes_whatever_the_other_limits(one: Conversation) -> None:
    """R92, R93, decision 16: not at it; and only one worker is told to make it."""
    size = int(one.field("n"))
    assert one.claim(MINE, most=5, size=size) == BELOW
    assert one.claim(MINE, most=5, size=size - 1) == LARGE
    assert one.claim(OTHERS, most=5, size=size - 1) == TAKEN
    assert one.claim(MINE, 0, tokens=10**9, counter=BYTES_4.code, size=size - 1) == LARGE


def test_records_that_do_not_tell_their_tokens_tell_their_bytes() -> None:
    """R93: the limit of bytes is looked at first."""
    one = Conversation()
    one.append(append_id(1), b"{}", b"{}")
    assert one.claim(MINE, 1, tokens=1, counter=BYTES_4.code) == UNTOLD
    assert one.claim(MINE, 1, tokens=1, counter=BYTES_4.code, size=1) == LARGE


def test_one_message_is_not_summarised_for_its_bytes() -> None:
    """R93: at least one is kept."""
    one = Conversation()
    one.append(append_id(1), ONE)
    assert one.claim(MINE, most=1, size=1) == BELOW
    assert one.claim(MINE, most=0, size=1) == CLAIMED


def test_both_limits_have_to_be_crossed(one: Conversation) -> None:
    """R93: many tokens in one message are no reason."""
    assert one.claim(MINE, most=5, tokens=0, counter=BYTES_4.code) == BELOW
    assert one.claim(MINE, most=4, tokens=5, counter=BYTES_4.code) == BELOW
    assert one.claim(MINE, most=4, tokens=4, counter=BYTES_4.code) == CLAIMED


def test_tokens_of_a_counter_are_those_that_were_stored() -> None:
    """R93: a counter whose counts stand in the records needs no message to be read."""
    messages = [human("x" * 100), ai("y" * 10)]
    total = sum(APPROXIMATE(message) for message in messages)
    one = Conversation()
    one.append(append_id(1), *encoded(*messages, counter=APPROXIMATE))
    assert one.claim(MINE, tokens=total, counter=APPROXIMATE.code) == BELOW
    assert one.claim(MINE, tokens=total - 1, counter=APPROXIMATE.code) == CLAIMED


def test_records_that_do_not_tell_are_said_to(one: Conversation) -> None:
    """R93: JSON, damage, and counts of another counter; nothing is claimed by guessing."""
    assert one.claim(MINE, counter=APPROXIMATE.code) == UNTOLD
    for record in (*encoded(human("x"), codec="json"), b"\x01short", b"junk"):
        one.client.rpush(one.messages, record)
        assert one.claim(MINE, counter=BYTES_4.code) == UNTOLD
        one.client.rpop(one.messages)
    assert one.field("w") == b""
    assert one.claim(MINE, counter=BYTES_4.code) == CLAIMED


def test_who_is_not_to_make_it_is_told_so_without_a_look_at_the_records(one: Conversation) -> None:
    """R96: while one makes the summary, no other reads the whole conversation for its tokens."""
    one.client.rpush(one.messages, *encoded(human("x"), codec="json"))
    one.claim(OTHERS)
    assert one.claim(MINE, counter=BYTES_4.code) == TAKEN


operations = st.lists(
    st.one_of(
        st.lists(st.integers(0, 60), min_size=1, max_size=4).map(lambda sizes: ("append", sizes)),
        st.integers(1, 4).map(lambda keep: ("trim", keep)),
        st.sampled_from([("clear", 0), ("claim", 1), ("claim", 2)]),
    ),
    min_size=1,
    max_size=12,
)


@given(operations=operations, limit=st.integers(0, 40))
@examples(150)
def test_the_sum_that_is_kept_is_never_wrong(operations: list[tuple[str, object]], limit: int) -> None:
    """R93: whatever was appended, trimmed and cleared since it was made, and by whichever counter."""
    one, held, number = Conversation(), [], 1
    for what, value in [*operations, ("claim", 2), ("claim", 1)]:
        number += 1
        if what == "append" and isinstance(value, list):
            one.append(append_id(number), *encoded(*(human("x" * size) for size in value)))
            held += value
        elif what == "trim" and isinstance(value, int):
            one.append(append_id(number), ONE, keep=value)
            held = [*held, 1][-value:]
        elif what == "clear":
            one.clear(append_id(number))
            held = []
        else:
            code = int(str(value))
            costs = [size // 4 + 1 if code == 1 else max(size // 4, 1) for size in held]
            status = one.claim(MINE, tokens=limit, counter=code)
            assert status == (CLAIMED if sum(costs) > limit else BELOW)
            one.claim(MINE, ms=0)


def test_a_sum_is_made_of_new_messages_alone() -> None:
    """R93: an append to a long conversation is not paid for by its length."""
    one = Conversation()
    one.append(append_id(1), *[ONE] * 2000)
    one.claim(MINE, tokens=10**9, counter=BYTES_4.code)
    assert one.field("f") == b"2 0 2000 2000"
    one.client.hset(one.meta, "f", "2 0 2000 5")
    one.append(append_id(2), ONE)
    assert one.claim(MINE, tokens=6, counter=BYTES_4.code) == BELOW
    assert one.field("f") == b"2 0 2001 6"


def test_a_held_claim_does_not_move_the_end_of_a_conversation() -> None:
    """B03: list and meta still end together."""
    one = Conversation()
    one.append(append_id(1), ONE, ONE, policy="idle", ms=60_000)
    ends = one.client.pexpiretime(one.meta)
    one.claim(MINE, counter=2, ms=HOLD)
    assert one.client.pexpiretime(one.meta) == one.client.pexpiretime(one.messages) == ends > 0
