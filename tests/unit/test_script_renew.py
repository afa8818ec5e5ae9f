"""The renew script on fakeredis: reads, touches, and terms of a conversation's own, which appends keep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import FixedExpiry, NoExpiry, SlidingExpiry, ai, human, tool
from memory_redis._engine.scripts import COMPACT
from memory_redis.expiry import Expiry
from tests.unit.records import encoded
from tests.unit.scripting import HOLD, Conversation, append_id, calculated
from tests.unit.strategies import examples

A, B, C = append_id(1), append_id(2), append_id(3)
BIRTH = b"birthtag"
ONE = encoded(human("x"))[0]
MINUTE, HOUR = 60_000, 3_600_000

PINNED = "none 0 0 0"
OWN = ["idle 600000 0 0", "idle 600000 0 1", "idle 600000 900000 0", "fixed 600000 0 0", PINNED]
WHYS = ["r", "t", "d", *OWN, "at 9000000000000 0 0"]


@pytest.fixture
def one() -> Conversation:
    return Conversation()


def state(one: Conversation) -> tuple[Any, ...]:
    """All that stands there, with both ends."""
    ends = [one.client.pexpiretime(key) for key in (one.messages, one.meta)]
    return one.records(), one.client.hgetall(one.meta), *ends


def end_of(one: Conversation) -> int:
    """The one instant at which both keys end, -1 for never."""
    ends = {one.client.pexpiretime(key) for key in (one.messages, one.meta)}
    assert len(ends) == 1
    end: int = ends.pop()
    return end


def born(one: Conversation, ms_ago: int) -> None:
    """The first message was stored so long ago."""
    one.client.hset(one.meta, "c", one.now() - ms_ago)


def summarised(one: Conversation) -> None:
    """A summary takes the place of all messages."""
    version = int(one.field("v")).to_bytes(6) + one.field("l") + one.field("b")
    reply = one.call(COMPACT, (one.messages, one.meta), b"c" * 12, 0, HOLD, version, 0, -1, "", ONE)
    assert reply[0] == 1
    assert not one.client.exists(one.messages)


@pytest.mark.parametrize("why", WHYS)
def test_where_nothing_is_stored_nothing_is_made(one: Conversation, why: str) -> None:
    """H19, B03: neither for a conversation that never was nor for what is left of one that was cleared."""
    assert one.renew("idle", MINUTE, why=why) == [0, 0, 0]
    assert not one.client.exists(one.messages, one.meta)
    one.append(A, ONE, policy="idle", ms=MINUTE)
    one.clear(B)
    before = state(one)
    assert one.renew("idle", HOUR, why=why) == [0, 0, 0]
    assert state(one) == before


@pytest.mark.parametrize("why", ["r", "t", PINNED])
def test_a_conversation_that_was_trimmed_to_nothing_is_not_there(one: Conversation, why: str) -> None:
    """Decision 9: a conversation is there when a message or a summary is stored; its meta ends as it was."""
    call = {"name": "f", "args": {}, "id": "a"}
    one.append(
        A, *encoded(ai("", tool_calls=[call]), tool("x", tool_call_id="a")), keep=1, policy="idle", ms=HOUR
    )
    assert one.records() == []
    before = state(one)
    assert one.renew("idle", MINUTE, why=why) == [0, 0, 0]
    assert state(one) == before


@pytest.mark.parametrize(
    ("expiry", "text"),
    [
        (NoExpiry(), PINNED),
        (SlidingExpiry(60), "idle 60000 0 0"),
        (SlidingExpiry(60, on_read=True), "idle 60000 0 1"),
        (SlidingExpiry(60, max_age=3600), "idle 60000 3600000 0"),
        (FixedExpiry(60), "fixed 60000 0 0"),
        (FixedExpiry(days=36_525), "fixed 3155760000000 0 0"),
    ],
    ids=repr,
)
def test_an_expiry_stands_in_the_meta_as_one_text(one: Conversation, expiry: Expiry, text: str) -> None:
    """J02: the layout of the field that keeps a conversation's own terms."""
    assert expiry.terms.text() == text
    one.append(A, ONE)
    one.renew("idle", MINUTE, why=text)
    assert one.field("p") == text.encode()


@pytest.mark.parametrize("own", [*OWN, "at 9000000000000 0 0"])
@pytest.mark.parametrize(("policy", "ms"), [("none", 0), ("idle", MINUTE), ("fixed", MINUTE)])
def test_an_append_of_any_policy_keeps_an_own_end(one: Conversation, own: str, policy: str, ms: int) -> None:
    """B11, decision 7: the conversation's own terms come before those of whoever writes."""
    one.append(A, ONE, policy=policy, ms=ms)
    status, _, ends = one.renew(policy, ms, why=own)
    assert status == 1
    assert end_of(one) == (ends or -1)
    reply = one.append(B, ONE, policy=policy, ms=ms)
    assert one.field("p") == own.encode()
    assert end_of(one) == (reply[3] or -1)
    if own.startswith("idle"):
        assert ends <= reply[3] <= one.now() + 600_000
        assert reply[3] > one.now() + 590_000
    else:
        assert reply[3] == ends


@pytest.mark.parametrize("own", ["at 1000 0 0", "fixed 60000 0 0", "idle 3600000 60000 0"])
@pytest.mark.parametrize("before", [None, PINNED])
def test_an_own_end_that_is_past_is_refused_and_changes_nothing(
    one: Conversation, own: str, before: str | None
) -> None:
    """Decision 7: a conversation is not ended by giving it an end."""
    one.append(A, ONE, policy="idle", ms=HOUR)
    if before:
        one.renew("idle", HOUR, why=before)
    born(one, 60_000)
    found = state(one)
    assert one.renew("idle", HOUR, why=own) == [-1, 0, 0]
    assert state(one) == found


def test_reads_renew_an_own_end_only_if_it_says_so(one: Conversation) -> None:
    """The promise of reads: the conversation's terms decide, not the policy of the memory that reads."""
    one.append(A, ONE, policy="idle", ms=MINUTE)
    one.renew("idle", MINUTE, why="idle 600000 0 0")
    one.client.pexpire(one.messages, MINUTE)
    one.client.pexpire(one.meta, MINUTE)
    before = state(one)
    assert one.renew("idle", HOUR, why="r") == [1, 0, 0]
    assert state(one) == before
    one.renew("idle", MINUTE, why="idle 600000 0 1")
    one.client.pexpire(one.messages, MINUTE)
    one.client.pexpire(one.meta, MINUTE)
    assert one.renew("idle", HOUR, why="r")[0] == 1
    assert 590_000 < end_of(one) - one.now() <= 600_000


def test_a_touch_renews_by_own_terms_or_else_the_policy(one: Conversation) -> None:
    """B11: as an append would; a fixed end stays where it is."""
    one.append(A, ONE, policy="idle", ms=MINUTE)
    assert one.renew("idle", HOUR, why="t")[2] == end_of(one) > one.now() + HOUR - MINUTE
    one.renew("idle", HOUR, why="idle 600000 0 0")
    assert one.renew("idle", HOUR, why="t")[2] == end_of(one) < one.now() + HOUR - MINUTE
    born(one, 50_000)
    first = one.renew("fixed", MINUTE, why="d")[2]
    assert one.renew("fixed", MINUTE, why="t")[2] == first == end_of(one)
    assert one.renew("none", 0, why="t") == [1, 0, 0]
    assert end_of(one) == -1


def test_without_own_terms_the_policy_counts_again(one: Conversation) -> None:
    """B11: at once, and for the appends that follow."""
    one.append(A, ONE, policy="idle", ms=MINUTE)
    one.renew("idle", MINUTE, why=PINNED)
    assert end_of(one) == -1
    assert one.renew("idle", MINUTE, why="d")[2] == end_of(one) > one.now()
    assert not one.client.hexists(one.meta, "p")
    assert 0 < one.append(B, ONE, policy="idle", ms=MINUTE)[3] <= one.now() + MINUTE


@pytest.mark.parametrize(
    ("why", "policy", "ms", "most"),
    [
        ("r", "idle", HOUR, MINUTE),
        ("t", "idle", HOUR, MINUTE),
        ("t", "fixed", MINUTE, 0),
        ("d", "fixed", MINUTE, 0),
    ],
)
def test_what_is_over_by_a_shorter_policy_ends(
    one: Conversation, why: str, policy: str, ms: int, most: int
) -> None:
    """Decision 7: no key is left with an end in the past, and the index hears nothing of it."""
    one.append(A, ONE, index="-")
    if why == "d":
        one.renew("none", 0, why=PINNED)
    born(one, MINUTE)
    one.client.hset(one.meta, "i", one.now() - 61_000)
    assert one.renew(policy, ms, most, why=why)[:2] == [0, 0]
    assert not one.client.exists(one.messages, one.meta)


def test_the_index_hears_of_an_own_end_before_the_conversation_has_it(one: Conversation) -> None:
    """Decision 12: a caller that dies in between leaves no conversation that outlives its index."""
    one.append(A, ONE, index="-", policy="idle", ms=MINUTE)
    told = int(one.field("j"))
    before = state(one)
    assert one.renew("idle", MINUTE, why=PINNED) == [2, 1, 0]
    status, _, ends = one.renew("idle", MINUTE, why="idle 600000 0 0")
    assert (status, ends - one.now() > 590_000) == (2, True)
    assert state(one) == before
    assert one.renew("idle", MINUTE, why=PINNED, told=1) == [1, 0, 0]
    assert (end_of(one), one.field("j"), told > 0) == (-1, b"0", True)
    assert one.renew("idle", MINUTE, why="d")[0] == 1, "an index without an end need not be told"
    one.client.hset(one.meta, "j", one.now())
    assert one.renew("idle", HOUR, why="d")[0] == 2, "dropping terms may move the end too"
    assert one.renew("idle", HOUR, why="d", told=1)[:2] == [1, 0]


def test_an_own_end_that_the_index_outlives_takes_one_call(one: Conversation) -> None:
    """Decision 12: the index ends two minutes after the end that it was told."""
    one.append(A, ONE, index="-", policy="idle", ms=HOUR)
    assert one.renew("idle", HOUR, why="idle 60000 0 0")[:2] == [1, 0]
    assert one.renew("idle", HOUR, why="fixed 3600000 0 0")[:2] == [1, 0]
    session = Conversation()
    session.append(A, ONE, policy="idle", ms=MINUTE)
    assert session.renew("idle", MINUTE, why=PINNED) == [1, 0, 0]


@pytest.mark.parametrize("why", ["r", "t"])
def test_a_renewal_that_moves_the_end_far_asks_for_the_index(one: Conversation, why: str) -> None:
    """Decision 12: not only once a minute, but whenever the index could end before the conversation."""
    one.append(A, ONE, index="-", policy="idle", ms=MINUTE)
    assert one.renew("idle", HOUR, why=why)[:2] == [1, 1]
    assert one.renew("idle", HOUR, why=why)[:2] == [1, 0]


@pytest.mark.parametrize("why", WHYS)
def test_a_conversation_of_which_only_a_summary_is_left_has_an_end(one: Conversation, why: str) -> None:
    """R96, decision 9: the meta ends by itself then, and the next append gives both keys one end."""
    one.append(A, ONE, ONE, policy="idle", ms=MINUTE)
    summarised(one)
    status, _, ends = one.renew("idle", MINUTE, why=why)
    assert status == 1
    assert one.client.pexpiretime(one.meta) == (ends or -1)
    own = one.append(B, ONE, policy="idle", ms=MINUTE)[3]
    assert end_of(one) == (own or -1)
    assert one.append(C, ONE, policy="idle", ms=MINUTE)[:3] == [1, 4, BIRTH]


def test_a_clear_drops_own_terms(one: Conversation) -> None:
    """Decision 2: what begins anew after it ends by the policy."""
    one.append(A, ONE)
    one.renew("none", 0, why="at 9000000000000 0 1")
    one.clear(B)
    assert not one.client.hexists(one.meta, "p")
    assert 0 < one.append(C, ONE, policy="idle", ms=MINUTE)[3] <= one.now() + MINUTE


@pytest.mark.parametrize("own", ["idle 600000 60000 0", "fixed 60000 0 0"])
def test_a_life_that_is_over_takes_its_own_terms_along(one: Conversation, own: str) -> None:
    """Decision 3: the next append begins a life of the policy, with a tag of its own."""
    one.append(A, ONE, policy="none")
    one.renew("none", 0, why=own)
    born(one, MINUTE)
    reply = one.append(B, ONE, policy="idle", ms=HOUR, birth=b"secondli")
    assert reply[:3] == [1, 1, b"secondli"]
    assert end_of(one) == reply[3] > one.now() + HOUR - MINUTE
    assert not one.client.hexists(one.meta, "p")


def test_the_half_that_is_left_of_a_conversation_takes_an_own_end(one: Conversation) -> None:
    """P10, B03: where the meta was evicted, the end shows on both keys and the next append keeps it."""
    one.append(A, ONE, ONE, policy="idle", ms=MINUTE)
    one.client.delete(one.meta)
    assert one.renew("idle", MINUTE, why="t")[0] == 1
    assert not one.client.exists(one.meta)
    ends = one.renew("idle", MINUTE, why="at 9000000000000 0 0")[2]
    assert end_of(one) == ends == 9_000_000_000_000
    reply = one.append(B, ONE, policy="idle", ms=MINUTE)
    assert (reply[0], reply[1], end_of(one)) == (1, 3, ends)


@pytest.mark.parametrize("damaged", [b"", b"junk", b"\xff\x00", b"idle", b"idle x y 1", b"later 5 0 0"])
def test_own_terms_that_say_nothing_are_no_end(one: Conversation, damaged: bytes) -> None:
    """P10: neither appends nor reads fail, and nothing goes because of them."""
    one.append(A, ONE, policy="idle", ms=MINUTE)
    one.client.hset(one.meta, "p", damaged)
    assert one.renew("idle", MINUTE, why="t") == [1, 0, 0]
    assert one.renew("idle", MINUTE, why="r")[0] == 1
    assert one.append(B, ONE, policy="idle", ms=MINUTE) == [1, 2, BIRTH, 0]
    assert end_of(one) == -1


durations = st.integers(1, 10**13)


@given(
    policy=st.sampled_from(["none", "idle", "fixed", "at"]),
    ms=durations,
    most=st.just(0) | durations,
    now=st.integers(10**12, 10**13),
    age=st.just(-1) | st.integers(0, 10**12),
    own=st.booleans(),
)
@examples(200)
def test_an_end_is_what_its_terms_say(policy: str, ms: int, most: int, now: int, age: int, own: bool) -> None:
    """Decision 7: to the millisecond, from the policy as from a conversation's own terms."""
    created = 0 if age < 0 else now - age
    birth = created or now
    idle = min(now + ms, birth + most) if most else now + ms
    wanted = {"none": 0, "idle": idle, "fixed": birth + ms, "at": ms}[policy]
    lua = (
        "local a = {} for i = 3, #ARGV do a[i] = tonumber(ARGV[i]) end"
        " local own = ARGV[1] ~= '' and ARGV[1]"
        " return {string.format('%.0f', ending(own, ARGV[2], a[3], a[4], a[5], a[6]))}"
    )
    words = (f"{policy} {ms} {most} 0", "idle", 1, 1) if own else ("", policy, ms, most)
    assert calculated(lua, *words, now, created) == [str(wanted).encode()]
