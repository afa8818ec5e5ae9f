"""The compact script on fakeredis: a summary takes the place of messages as one step, or nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory_redis import human, system
from tests.unit.records import encoded, stamped
from tests.unit.scripting import Conversation, append_id, ring_entries, wanted

A, B, C, D = map(append_id, (1, 2, 3, 4))
CLAIM, OTHERS = append_id(8), append_id(9)
BIRTH = b"birthtag"
ONE = encoded(human("x"))[0]
SUMMARY = encoded(system("in short"))[0]
LONG_AGO = 10**15


def seen(number: int, last: bytes = A, birth: bytes = BIRTH) -> bytes:
    """The version that a summary was made at."""
    return wanted("", number, last, birth)


@pytest.fixture
def one() -> Conversation:
    """Six messages of one append."""
    conversation = Conversation()
    conversation.append(A, *[ONE] * 6)
    return conversation


def test_a_summary_takes_the_place_of_the_oldest_messages(one: Conversation) -> None:
    """R97: the rest stays as it was, and so do version and last append."""
    records = one.records()
    reply = one.compact(B, SUMMARY, seen(6), keep=2)
    assert reply == {
        "status": 1,
        "removed": 4,
        "healed": 0,
        "version": 6,
        "birth": BIRTH,
        "last": A,
        "conflict": 0,
    }
    assert one.records() == records[4:]
    assert (one.field("v"), one.field("t"), one.field("l"), one.field("b")) == (b"6", b"4", A, BIRTH)
    assert int(one.field("n")) == sum(map(len, records[4:]))


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_a_summary_is_stamped_as_the_last_message_that_it_tells_of(one: Conversation, codec: str) -> None:
    """Decision 9, 13: with the server's time, in the format that it was sent in."""
    [record] = encoded(system("in short"), codec=codec)
    before = one.now()
    one.compact(B, record, seen(6), keep=2)
    times = [ms for ms in range(before, one.now() + 1) if one.field("s") == stamped(record, 3, ms)]
    assert len(times) == 1


def test_what_was_appended_since_stays(one: Conversation) -> None:
    """R97: messages are counted from the version that was seen, not from the end."""
    one.append(B, ONE, ONE)
    records = one.records()
    reply = one.compact(C, SUMMARY, seen(6), keep=2)
    assert (reply["removed"], reply["version"], reply["last"]) == (4, 8, B)
    assert one.records() == records[4:]


def test_a_conversation_may_be_summarised_whole(one: Conversation) -> None:
    """R97: the list is gone, the version is not; the next message stands where it would have stood."""
    assert one.compact(B, SUMMARY, seen(6))["removed"] == 6
    assert one.records() == []
    assert (one.field("v"), one.field("t"), one.field("n")) == (b"6", b"6", b"0")
    assert one.append(C, ONE) == [1, 7, BIRTH, 0]
    assert one.records()[0][7:13] == (6).to_bytes(6)
    assert one.field("t") == b"6"


def test_a_turn_on_its_way_meets_no_conflict(one: Conversation) -> None:
    """R97: an append that expects the version from before the compaction is stored."""
    one.compact(B, SUMMARY, seen(6), keep=1)
    assert one.append(C, ONE, want=wanted("r", 6, A, BIRTH)) == [1, 7, BIRTH, 0]


def test_a_summary_replaces_the_one_before(one: Conversation) -> None:
    """R97: there is one, that of the last compaction."""
    one.compact(B, SUMMARY, seen(6), keep=2)
    [newer] = encoded(system("in a word"))
    assert one.compact(C, newer, seen(6))["removed"] == 2
    assert one.field("s")[13:] == newer[1:]
    assert int.from_bytes(one.field("s")[7:13]) == 5


@pytest.mark.parametrize("age", [0, 1, 5000])
def test_a_compaction_that_is_sent_again_is_recognised(one: Conversation, age: int) -> None:
    """Decision 6: it answers as the first time; what came since stays."""
    one.compact(B, SUMMARY, seen(6), keep=2)
    one.append(C, ONE, ONE)
    state = one.state()
    reply = one.compact(B, SUMMARY, seen(6), keep=2, age=age)
    assert (reply["status"], reply["removed"], reply["version"], reply["last"]) == (2, 4, 8, C)
    assert one.state() == state
    assert [entry[0] for entry in ring_entries(one.field("r"))] == [A, B, C]


def test_a_compaction_that_may_have_been_forgotten_is_not_guessed(one: Conversation) -> None:
    """Decision 1, 6: the ring went past the time at which it was first sent."""
    for number in range(300):
        one.append(append_id(100 + number), ONE)
    state = one.state()
    assert one.compact(B, SUMMARY, seen(6), age=LONG_AGO)["status"] == -2
    assert one.state() == state


def compacted(one: Conversation) -> None:
    one.append(B, ONE)
    one.compact(C, SUMMARY, seen(7, B), keep=2)


def trimmed(one: Conversation) -> None:
    one.append(B, ONE, keep=2)


def cleared(one: Conversation) -> None:
    one.clear(B)
    one.append(C, ONE)


def lost(one: Conversation) -> None:
    one.client.rpop(one.messages)


def begun_anew(one: Conversation) -> None:
    one.client.delete(one.messages, one.meta)
    one.append(B, *[ONE] * 6, birth=b"otherone")


CONFLICTS: dict[str, tuple[Callable[[Conversation], object], bytes, int, int]] = {
    "summarised meanwhile": (compacted, seen(6), 1, 2),
    "trimmed meanwhile": (trimmed, seen(6), 1, 2),
    "fewer than are to be kept": (lambda one: None, seen(6), 6, 2),
    "lost meanwhile": (lost, seen(6), 1, 2),
    "cleared meanwhile": (cleared, seen(6), 1, 4),
    "another life": (begun_anew, seen(6), 1, 3),
    "ended": (lambda one: one.client.delete(one.messages, one.meta), seen(6), 1, 3),
    "more than there ever was": (lambda one: None, seen(7), 1, 5),
    "more than there ever was, all to be kept": (lambda one: None, seen(7), 7, 5),
    "the same number, another append": (lambda one: None, seen(6, B), 1, 5),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conversation_that_is_another_is_left_alone(one: Conversation, case: str) -> None:
    """R97, decision 3, 6: refused with the reason, and nothing is changed."""
    happens, version, keep, conflict = CONFLICTS[case]
    happens(one)
    state = one.state()
    reply = one.compact(D, SUMMARY, version, keep=keep)
    assert (reply["status"], reply["removed"], reply["conflict"]) == (-1, 0, conflict)
    assert one.state() == state


def test_messages_that_retention_has_removed_meanwhile_are_not_counted_again(one: Conversation) -> None:
    """R97, decision 23: what the summary tells of and is still there goes."""
    one.append(B, ONE, keep=5)
    assert one.field("t") == b"2"
    assert one.compact(C, SUMMARY, seen(6), keep=2)["removed"] == 2
    assert (one.field("t"), len(one.records())) == (b"4", 3)


@pytest.mark.parametrize("held", [None, OTHERS])
def test_a_claim_that_has_passed_to_another_changes_nothing(one: Conversation, held: bytes | None) -> None:
    """R96: the late one's summary is dropped, whether the other is still at it or has given up."""
    if held is not None:
        one.claim(held)
    state = one.state()
    reply = one.compact(B, SUMMARY, seen(6), claim=CLAIM)
    assert (reply["status"], reply["removed"], reply["conflict"]) == (-3, 0, 0)
    assert one.state() == state


def test_a_claim_ends_with_its_compaction(one: Conversation) -> None:
    """R96: the next one may be made at once."""
    one.claim(CLAIM)
    assert one.compact(B, SUMMARY, seen(6), keep=3, claim=CLAIM)["status"] == 1
    assert one.field("w") == b""


def test_a_compaction_without_a_claim_asks_for_none_and_leaves_any(one: Conversation) -> None:
    """R97: as one that an application makes itself."""
    one.claim(CLAIM)
    held = one.field("w")
    assert one.compact(B, SUMMARY, seen(6), keep=3)["status"] == 1
    assert one.field("w") == held != b""


def test_a_list_that_grew_by_hand_is_healed_and_weighed_anew(one: Conversation) -> None:
    """F13, decision 6: version and bytes fit what stands there."""
    one.client.rpush(one.messages, stamped(ONE, 6))
    reply = one.compact(B, SUMMARY, seen(6), keep=1)
    assert (reply["status"], reply["removed"], reply["healed"], reply["version"]) == (1, 5, 1, 7)
    assert int(one.field("n")) == sum(map(len, one.records()))
    assert int(one.field("v")) - int(one.field("t")) == len(one.records()) == 2


def test_a_cleared_conversation_has_no_summary(one: Conversation) -> None:
    """R92, decision 2: neither it, nor a claim, nor a sum of tokens stays in the mark."""
    one.claim(CLAIM, counter=2)
    one.compact(B, SUMMARY, seen(6), keep=3)
    one.clear(C)
    assert not {b"s", b"q", b"w", b"f"} & set(one.client.hkeys(one.meta))
