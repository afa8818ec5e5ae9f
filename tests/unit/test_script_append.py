"""The append script on fakeredis: once, in order, refused for a reason, remembered, trimmed, ended."""

from __future__ import annotations

import random
from typing import Any

import pytest
from redis.exceptions import ResponseError

from memory_redis import StoredMessage, ai, human, tool
from tests.unit.records import encoded, stamped
from tests.unit.scripting import HOLD, Conversation, append_id, ring_entries, ring_entry, wanted

A, B, C = append_id(1), append_id(2), append_id(3)
BIRTH = b"birthtag"
LONG_AGO = 10**15


def sent(*messages: StoredMessage, codec: str = "msgpack") -> list[bytes]:
    return encoded(*messages, codec=codec)


ONE = sent(human("x"))[0]


@pytest.fixture
def one() -> Conversation:
    return Conversation()


def test_messages_are_stamped_and_stored_side_by_side(one: Conversation) -> None:
    """P4, decision 9: in order, each with its position; the reply is short where all is well."""
    first, second = sent(human("1"), ai("2")), sent(human("3"), codec="json")
    before = one.now()
    assert one.append(A, *first) == [1, 2, BIRTH, 0]
    assert one.append(B, *second, birth=b"notused!") == [1, 3, BIRTH, 0]
    records = one.records()
    times = [int.from_bytes(record[1:7]) for record in records[:2]]
    assert before <= times[0] == times[1] <= one.now()
    assert records[:2] == [stamped(record, at, times[0]) for at, record in enumerate(first)]
    assert records[2].startswith(b'{"stored_at":')
    assert b'"seq":2,"type":"human"' in records[2]
    assert (one.field("v"), one.field("b"), one.field("l")) == (b"3", BIRTH, B)


@pytest.mark.parametrize("age", [0, 1, 5000])
def test_a_repeat_stores_nothing_and_gets_the_first_answer(one: Conversation, age: int) -> None:
    """P2: also when others appended meanwhile, and whatever it is sent with."""
    one.append(A, ONE, ONE)
    one.append(B, ONE)
    again = one.full(A, ONE, ONE, age=age, want=wanted("r", 0, B, BIRTH), keep=1)
    assert (again["status"], again["version"], again["birth"]) == (2, 2, BIRTH)
    assert len(one.records()) == 3


def test_a_repeat_is_known_by_either_ring(one: Conversation) -> None:
    """P2, decision 5: the id of an idempotency key settles an append by that key, and the other way round."""
    one.append(A, ONE, ring="k")
    one.append(B, ONE)
    assert one.full(A, ONE, age=1, again=1)["status"] == 2
    assert one.full(B, ONE, ring="k")["status"] == 2
    assert len(one.records()) == 2


def test_an_idempotency_key_is_forgotten_after_its_hold(one: Conversation) -> None:
    """Decision 5: then the same key is another append."""
    one.append(A, ONE, ring="k")
    one.client.hset(one.meta, "k", ring_entry(A, 1, one.now() - 2000, 1))
    assert one.full(A, ONE, ring="k", hold=60_000)["status"] == 2
    assert one.full(A, ONE, ring="k", hold=1000, age=3000)["status"] == 2
    assert one.append(A, ONE, ring="k", hold=1000)[0] == 1
    assert len(one.records()) == 2


@pytest.mark.parametrize("policy", ["r", "a"])
@pytest.mark.parametrize(
    ("make", "conflict", "missed"),
    [
        (lambda last: wanted("r", 1, A, BIRTH), 1, 2),
        (lambda last: wanted("r", 0), 1, 3),
        (lambda last: wanted("r", 3, last, b"otherone"), 3, 3),
        (lambda last: wanted("r", 9, last, BIRTH), 5, 0),
        (lambda last: wanted("r", 3, A, BIRTH), 5, 0),
    ],
    ids=["moved on", "from nothing", "another life", "rolled back", "same number, other append"],
)
def test_another_version_is_a_conflict(
    one: Conversation, policy: str, make: Any, conflict: int, missed: int
) -> None:
    """P3, P7, P8, decision 3, 4: refused with what was missed, or stored and reported in one call."""
    one.append(A, ONE)
    one.append(B, ONE, ONE)
    records = one.records()
    reply = one.full(C, ONE, want=policy.encode() + make(B)[1:])
    assert reply["conflict"] == conflict
    assert reply["missed"] == missed
    assert reply["rest"] == records[len(records) - missed :]
    assert reply["status"] == (-1 if policy == "r" else 1)
    assert len(one.records()) == (3 if policy == "r" else 4)
    assert reply["before"] == 3


@pytest.mark.parametrize("conflict", [1, 3, 5])
def test_a_step_of_a_turn_is_refused_in_another_life_only(one: Conversation, conflict: int) -> None:
    """Decision 3: there its earlier steps are gone; whatever else it meets is reported."""
    one.append(A, ONE, ONE)
    seen = {1: wanted("s", 1, A, BIRTH), 3: wanted("s", 2, A, b"otherone"), 5: wanted("s", 9, A, BIRTH)}
    reply = one.full(B, ONE, want=seen[conflict])
    assert (reply["status"], reply["conflict"]) == (-1 if conflict == 3 else 1, conflict)
    assert len(one.records()) == (2 if conflict == 3 else 3)


def test_the_version_that_was_seen_is_no_conflict(one: Conversation) -> None:
    """P8: from an empty history, and on from there."""
    assert one.append(A, ONE, want=wanted("r", 0)) == [1, 1, BIRTH, 0]
    assert one.append(B, ONE, want=wanted("r", 1, A, BIRTH)) == [1, 2, BIRTH, 0]


def test_a_conflict_answers_with_a_hundred_messages_and_a_mebibyte(one: Conversation) -> None:
    """Decision 4: the newest of them; the count is exact."""
    one.append(A, *[ONE] * 150)
    reply = one.full(B, ONE, want=wanted("r", 0))
    assert reply["missed"] == 150
    assert reply["rest"] == one.records()[50:]
    big = sent(human("x" * 400_000))[0]
    one.append(C, big, big, big)
    reply = one.full(append_id(9), ONE, want=wanted("r", 0))
    assert reply["missed"] == 153
    assert reply["rest"] == one.records()[-2:]


def test_the_first_append_of_a_life_asks_for_the_index(one: Conversation) -> None:
    """Decision 12: it stores nothing until it is sent with the tag that it answered."""
    reply = one.full(A, ONE, index="?", policy="idle", ms=60_000)
    assert (reply["status"], reply["rest"]) == (0, [b"-"])
    assert reply["ends"] >= one.now() + 59_000
    assert not one.client.exists(one.messages, one.meta)
    assert one.append(A, ONE, index="-")[0] == 1
    assert one.append(B, ONE, index="?")[0] == 1
    one.clear(C)
    tag = one.full(append_id(4), ONE, index="-")
    assert (tag["status"], tag["rest"]) == (0, [C])
    assert one.append(append_id(4), ONE, index=C)[0] == 1


def test_the_index_is_refreshed_once_a_minute(one: Conversation) -> None:
    """Decision 12: the steady state costs nothing."""
    one.append(A, ONE, index="-")
    assert one.append(B, ONE, index="?") == [1, 2, BIRTH, 0]
    one.client.hset(one.meta, "i", one.now() - 61_000)
    assert one.full(C, ONE, index="?")["refresh"] == 1
    assert one.append(append_id(4), ONE, index="?") == [1, 4, BIRTH, 0]


def test_three_hundred_appends_leave_a_bounded_ring(one: Conversation) -> None:
    """P2, decision 1: 256 entries; one that was dropped is not guessed: stored, not stored, or unknown."""
    for number in range(300):
        assert one.append(append_id(number), ONE) == [1, number + 1, BIRTH, 0]
    entries = ring_entries(one.field("r"))
    assert [entry[:2] for entry in entries] == [(append_id(n), n + 1) for n in range(44, 300)]
    assert int(one.field("dr")) >= entries[0][2] - 60_000
    assert one.full(append_id(44), ONE, age=1000)["status"] == 2
    assert one.full(append_id(43), ONE, age=LONG_AGO)["status"] == -2
    assert one.full(append_id(999), ONE, age=LONG_AGO)["status"] == -2
    assert len(one.records()) == 300


def test_a_quiet_ring_shrinks_to_eight(one: Conversation) -> None:
    """What is older than the hold goes, but the last eight stay in any case."""
    for number in range(20):
        one.append(append_id(number), ONE)
    one.append(append_id(20), ONE, hold=-1000)
    assert [entry[0] for entry in ring_entries(one.field("r"))] == [append_id(n) for n in range(13, 21)]
    one.append(append_id(30), ONE, ring="k")
    one.append(append_id(31), ONE, ring="k", hold=-1000)
    assert len(ring_entries(one.field("k"))) <= 1


def test_a_repeat_from_before_a_clear_brings_nothing_back(one: Conversation) -> None:
    """Decision 2: one that was stored is recognised, another is refused; a new append begins anew."""
    one.append(A, ONE, ONE)
    one.clear(B)
    assert one.full(A, ONE, ONE, age=1000)["status"] == 2
    assert one.full(C, ONE, age=60_000)["status"] == -3
    seen = one.full(C, ONE, want=wanted("a", 2, A, BIRTH))
    assert (seen["status"], seen["conflict"]) == (-1, 4)
    assert one.records() == []
    fresh = one.append(append_id(7), ONE)
    assert fresh[:3] == [1, 4, BIRTH]
    assert len(one.records()) == 1


def test_an_append_that_was_settled_as_not_stored_stays_so(one: Conversation) -> None:
    """Decision 10: a request still on its way comes too late; the caller may send it again knowingly."""
    one.append(A, ONE)
    assert one.settle(B, hold=HOLD)[0] == 0
    assert one.full(B, ONE)["status"] == -4
    assert one.append(B, ONE, again=1, age=1)[0] == 1
    assert len(one.records()) == 2


@pytest.mark.parametrize("broken", ["messages", "meta"])
def test_a_key_of_another_type_is_an_error_and_nothing_is_written(one: Conversation, broken: str) -> None:
    """F13, A20: neither key is touched, however often it is tried."""
    key, other = (one.messages, one.meta) if broken == "messages" else (one.meta, one.messages)
    one.client.set(key, "something else")
    for _ in range(3):
        with pytest.raises(ResponseError):
            one.append(A, ONE)
    assert one.client.get(key) == b"something else"
    assert not one.client.exists(other)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_twenty_thousand_messages_in_one_append(one: Conversation, codec: str) -> None:
    """No limit of Lua is met; all are there, in order."""
    (record,) = sent(human("x"), codec=codec)
    assert one.append(A, *[record] * 20_000)[:2] == [1, 20_000]
    assert one.client.llen(one.messages) == 20_000
    assert int(one.field("n")) == sum(map(len, one.records()))


@pytest.mark.parametrize(("policy", "ms"), [("idle", 60_000), ("fixed", 60_000)])
def test_both_keys_end_at_one_instant(one: Conversation, policy: str, ms: int) -> None:
    """P7, decision 7, B12: the end is told, set on list and meta, and taken away by NoExpiry."""
    ends = one.append(A, ONE, policy=policy, ms=ms)[3]
    assert ends - one.now() <= ms
    assert one.client.pexpiretime(one.messages) == one.client.pexpiretime(one.meta) == ends
    later = one.append(B, ONE, policy=policy, ms=ms)[3]
    assert later >= ends if policy == "idle" else later == ends
    assert one.append(C, ONE)[3] == 0
    assert one.client.pttl(one.messages) == one.client.pttl(one.meta) == -1


def test_a_fixed_expiry_that_was_shortened_ends_what_is_too_old(one: Conversation) -> None:
    """Decision 7: the old messages go, the new ones begin another life; no key ends in the past."""
    one.append(A, ONE)
    one.client.hset(one.meta, "c", one.now() - 100_000)
    reply = one.append(B, ONE, policy="fixed", ms=50_000, birth=b"secondli")
    assert reply[:3] == [1, 1, b"secondli"]
    assert len(one.records()) == 1
    assert 0 < one.client.pttl(one.messages) <= 50_000


EXCHANGE = [human("1"), ai("", tool_calls=[{"id": "a"}]), tool("2", tool_call_id="a"), ai("3")]


def test_retention_cuts_no_exchange_in_half(one: Conversation) -> None:
    """F16, decision 23: fewer may stay, an append beyond the cap is stored whole, and versions go on."""
    one.append(A, *sent(*EXCHANGE), keep=4)
    assert len(one.records()) == 4
    reply = one.append(B, ONE, keep=3)
    assert reply[:2] == [1, 5]
    assert len(one.records()) == 2
    assert int(one.field("t")) == 3
    one.append(C, *[ONE] * 9, keep=3)
    assert (len(one.records()), int(one.field("v")), int(one.field("t"))) == (3, 14, 11)


def test_version_trim_and_size_fit_the_list_whatever_happens(one: Conversation) -> None:
    """P7, F13, decision 23: random appends, repeats, caps, clears, edits by hand; the version never falls."""
    chance = random.Random(7)
    version = 0
    for number in range(300):
        deed = chance.random()
        if deed < 0.05:
            one.clear(append_id(10_000 + number))
        elif deed < 0.1:
            one.client.rpush(one.messages, b"by hand")
        elif deed < 0.15:
            one.client.ltrim(one.messages, 2, -1)
        records = sent(*chance.choices([*EXCHANGE, human("y" * 50)], k=chance.randint(1, 4)))
        by_hand = 0.05 < deed < 0.15  # and found out by the next append, before another edit makes up for it
        identity = append_id(number if by_hand else chance.randrange(number + 1))
        reply = one.append(identity, *records, keep=chance.choice([0, 0, 5, 20]))
        assert reply[0] in (1, 2)
        assert int(one.field("v")) >= version
        version = int(one.field("v"))
        if reply[0] == 1:
            assert reply[1] == version
            assert version - int(one.field("t") or 0) == one.client.llen(one.messages)
            assert int(one.field("n")) == sum(map(len, one.records()))
        assert len(ring_entries(one.field("r"))) <= 256
