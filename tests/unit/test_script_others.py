"""The other scripts on fakeredis: clear, settle, renew, and the three of a user's index."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from memory_redis import human
from memory_redis._engine.scripts import INDEX_DROP, INDEX_PAGE, INDEX_TOUCH
from tests.unit.records import encoded
from tests.unit.scripting import HOLD, Conversation, append_id, ring_entries

A, B, C = append_id(1), append_id(2), append_id(3)
BIRTH = b"birthtag"
ONE = encoded(human("hunter2"))[0]
LONG_AGO = 10**15


@pytest.fixture
def one() -> Conversation:
    return Conversation()


def test_a_clear_leaves_a_mark_without_content(one: Conversation) -> None:
    """Decision 2: the list is gone at once; the meta stays 100 s, without summary and index."""
    one.append(A, ONE, ONE, index="-")
    one.client.hset(one.meta, "s", "hunter2")
    assert one.clear(B) == [1, 2, 0, 3, BIRTH, B]
    assert not one.client.exists(one.messages)
    assert 99_000 < one.client.pttl(one.meta) <= HOLD
    assert b"hunter2" not in b"".join(one.client.hvals(one.meta))
    assert not one.client.hexists(one.meta, "i")
    assert [entry[0] for entry in ring_entries(one.field("r"))] == [A, B]


def test_a_clear_is_recognised_when_it_is_sent_again(one: Conversation) -> None:
    """Decision 6: with the count of the first; what came after it is not cleared."""
    one.append(A, ONE, ONE)
    one.clear(B)
    one.append(C, ONE)
    assert one.clear(B, age=1000)[:2] == [2, 2]
    assert len(one.records()) == 1


def test_clearing_nothing_removes_nothing(one: Conversation) -> None:
    """S8: the count is 0, a second clear too, and versions go on."""
    assert one.clear(A)[:2] == [1, 0]
    assert one.clear(B)[:2] == [1, 0]
    assert one.append(C, ONE)[1] == 3


def test_a_clear_that_was_forgotten_is_not_guessed(one: Conversation) -> None:
    """Decision 1, 6: the ring went past it."""
    for number in range(300):
        one.append(append_id(100 + number), ONE)
    assert one.clear(A, age=LONG_AGO)[0] == -2
    assert len(one.records()) == 300


def test_the_list_of_a_clear_that_fails_stays(one: Conversation) -> None:
    """P10: a meta of another type is an error, before anything is removed."""
    one.append(A, ONE)
    one.client.delete(one.meta)
    one.client.set(one.meta, "x")
    with pytest.raises(ResponseError):
        one.clear(B)
    assert len(one.records()) == 1


def test_settling_tells_stored_not_stored_and_unknown(one: Conversation) -> None:
    """Decision 10: by both rings; with the version after it and the number of its messages."""
    assert one.settle(A) == [0, 0, b"", 0]
    one.append(A, ONE, ONE)
    one.append(B, ONE, ring="k")
    assert one.settle(A, age=LONG_AGO) == [1, 2, BIRTH, 2]
    assert one.settle(B, age=LONG_AGO) == [1, 3, BIRTH, 1]
    assert one.settle(C, age=LONG_AGO) == [0, 0, BIRTH, 0]
    for number in range(300):
        one.append(append_id(100 + number), ONE)
    assert one.settle(C, age=LONG_AGO)[0] == -2
    assert one.settle(A, age=LONG_AGO)[0] == -2


def test_settling_without_a_hold_leaves_no_mark(one: Conversation) -> None:
    """H19: a look creates no key."""
    one.settle(A)
    assert not one.client.exists(one.messages, one.meta)


def test_settling_where_nothing_is_stored_leaves_a_mark_that_ends(one: Conversation) -> None:
    """Decision 10, B03: it holds as long as a request could still be on its way, and no longer."""
    assert one.settle(A, hold=HOLD) == [0, 0, b"", 0]
    assert 99_000 < one.client.pttl(one.meta) <= HOLD
    assert one.full(A, ONE)["status"] == -4
    assert one.append(B, ONE) == [1, 1, BIRTH, 0]
    assert one.client.pttl(one.meta) == -1


def test_renewing_moves_the_end_of_both_keys(one: Conversation) -> None:
    """And of nothing that does not exist."""
    assert one.renew("idle", 60_000) == [0, 0, 0]
    assert not one.client.exists(one.messages, one.meta)
    one.append(A, ONE, policy="idle", ms=30_000)
    exists, refresh, ends = one.renew("idle", 60_000)
    assert (exists, refresh) == (1, 0)
    assert one.client.pexpiretime(one.messages) == one.client.pexpiretime(one.meta) == ends
    assert ends - one.now() > 59_000


def test_renewing_tells_when_the_index_is_due(one: Conversation) -> None:
    """Decision 12: a minute after it was last told, and only once then."""
    one.append(A, ONE, index="-", policy="idle", ms=60_000)
    assert one.renew("idle", 60_000)[1] == 0
    one.client.hset(one.meta, "i", one.now() - 61_000)
    assert one.renew("idle", 60_000)[1] == 1
    assert one.renew("idle", 60_000)[1] == 0


INDEX = "n:{u}:conversations"


def test_an_index_never_repeats_a_score(one: Conversation) -> None:
    """Decision 12: so that a page can begin below one, and a touched entry is told from one that was not."""
    scores = [one.call(INDEX_TOUCH, (INDEX,), f"c{n % 50}", 0)[0] for n in range(300)]
    assert scores == sorted(set(scores))
    assert one.client.zcard(INDEX) == 50


def test_an_index_ends_with_its_longest_conversation(one: Conversation) -> None:
    """Decision 12: as long again after it, and two minutes; and never where one of them never ends."""
    now = one.now()

    def lasts(longest: int) -> bool:
        """As long again as the conversation had left when the script ran."""
        left = 2 * (now + longest) + 120_000 - one.client.pexpiretime(INDEX)
        return now <= left <= one.now()

    one.call(INDEX_TOUCH, (INDEX,), "a", now + 60_000)
    assert lasts(60_000)
    one.call(INDEX_TOUCH, (INDEX,), "b", now + 600_000)
    one.call(INDEX_TOUCH, (INDEX,), "a", now + 70_000)
    assert lasts(600_000)
    one.call(INDEX_TOUCH, (INDEX,), "c", 0)
    assert one.client.pttl(INDEX) == -1
    one.call(INDEX_TOUCH, (INDEX,), "a", now + 70_000)
    assert one.client.pttl(INDEX) == -1


def test_a_page_of_an_index_is_newest_first_and_goes_on_below(one: Conversation) -> None:
    """Ids come back as the bytes they are, with the server's time before them."""
    names = [f"c{n}" for n in range(7)] + ["é\0{}"]
    scores = {name.encode(): one.call(INDEX_TOUCH, (INDEX,), name, 0)[0] for name in names}
    assert one.call(INDEX_PAGE, ("n:{nobody}:conversations",), "+inf", 5)[1:] == [0]
    below, seen = "+inf", []
    while True:
        now, more, *page = one.call(INDEX_PAGE, (INDEX,), below, 3)
        assert abs(now - one.now()) < 5000
        assert len(page) <= 6
        seen += list(zip(page[::2], page[1::2], strict=True))
        if not more:
            break
        below = f"({page[-1]}"
    assert seen == sorted(scores.items(), key=lambda item: -item[1])


def test_an_entry_is_dropped_only_with_the_score_that_was_read(one: Conversation) -> None:
    """Decision 12: a conversation that began anew meanwhile stays in the list."""
    (first,) = one.call(INDEX_TOUCH, (INDEX,), "a", 0)
    (second,) = one.call(INDEX_TOUCH, (INDEX,), "b", 0)
    (again,) = one.call(INDEX_TOUCH, (INDEX,), "a", 0)
    assert one.call(INDEX_DROP, (INDEX,), "a", first, "b", second, "nobody", 5) == [1]
    assert one.client.zrange(INDEX, 0, -1) == [b"", b"a"]
    assert one.call(INDEX_DROP, (INDEX,), "a", again) == [1]
    assert one.call(INDEX_PAGE, (INDEX,), "+inf", 5)[1:] == [0]
    assert 0 < one.client.pttl(INDEX) <= 120_000, "the mark of the highest score ends by itself"
    assert one.call(INDEX_TOUCH, (INDEX,), "a", 0) > [again]
