"""What the append script removes by number, age and size: its rule against one in Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import StoredMessage, ai, human, tool
from tests.unit.records import CODECS, encoded, stamped
from tests.unit.scripting import Conversation, aged, append_id, calculated
from tests.unit.strategies import examples

NOW = 1_700_000_000_000
FOREIGN = [b'{"type":"human","data":{"content":"by another library"}}', b"junk", b"\x01short", b""]


@dataclass(frozen=True)
class Kept:
    """A record with what the rule goes by: when it was stored, the calls it makes, those it answers."""

    record: bytes
    ms: int | None = None
    calls: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()


def of(message: StoredMessage, ms: int, codec: str, position: int = 0) -> Kept:
    """The record of a message that was stored at some time."""
    calls = frozenset(str(one["id"]) for one in message.tool_calls)
    answers = frozenset({message.data["tool_call_id"]}) if message.type == "tool" else frozenset[str]()
    return Kept(stamped(encoded(message, codec=codec)[0], position, ms), ms, calls, answers)


def wanted_cut(kept: Sequence[Kept], keep: int, age: int, room: int, now: int) -> int:
    """How many of the oldest go: the fewest that all limits ask for, and then the fewest that tear nothing.

    Times rise. The newest goes for its age or size only with an exchange.
    """
    sizes, last = [len(one.record) for one in kept], len(kept) - 1
    cut = max(len(kept) - keep, 0) if keep else 0
    if age:
        old = [at for at, one in enumerate(kept[:last]) if one.ms is not None and one.ms < now - age]
        cut = max(cut, *(at + 1 for at in old), 0)
    while room and cut < last and sum(sizes[cut:]) > room:
        cut += 1
    while cut and torn(kept, cut):
        cut += 1
    return cut


def torn(kept: Sequence[Kept], cut: int) -> bool:
    """Whether a result stays whose call goes; a call takes over the id of those before it."""
    owed = set[str]()
    for one in kept[:cut]:
        owed = (owed | one.calls) - one.answers
    for one in kept[cut:]:
        if owed & one.answers:
            return True
        owed -= one.calls
    return False


def surplus(kept: Sequence[Kept], split: int, keep: int, age: int, room: int) -> list[int]:
    """What the scripts find, with the first records in a list and the others about to be added to it.

    The same whether the bytes of all are known, or have to be found out.
    """
    one = Conversation()
    records = [each.record for each in kept]
    if split:
        one.client.rpush("list", *records[:split])
    lua = (
        "local a, more = {}, {} for i = 1, 6 do a[i] = tonumber(ARGV[i]) end"
        " for i = 7, #ARGV do more[i - 6] = ARGV[i] end"
        " return {surplus('list', a[1], more, a[2], a[3], a[4], a[5], a[6] >= 0 and a[6])}"
    )
    words = (split, keep, age, room, NOW)
    known, found = (
        calculated(lua, *words, size, *records[split:], client=one.client)
        for size in (sum(map(len, records)), -1)
    )
    assert known == found
    return known


messages = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 40), st.integers(0, 300)), min_size=1, max_size=40
)
"""Of each message: what happens, how long after the one before it, how much it says."""


def conversation(events: list[tuple[int, int, int]], codec: str) -> list[Kept]:
    """A number up to 8 is called, then answered, and so on, some with the next one; the others talk."""
    made: list[Kept] = []
    ms, waiting = NOW - sum(event[1] for event in events), set[int]()
    for what, later, size in events:
        ms += later
        if what > 10:
            made.append(Kept(FOREIGN[size % len(FOREIGN)]))
            continue
        if what > 8:
            message = human("x" * size)
        elif what in waiting and size % 7:
            message = tool("x" * size, tool_call_id=f"c{what}")
            waiting.discard(what)
        else:
            ids = {what, (what + 1) % 9} if size % 3 == 0 else {what}
            waiting |= ids
            message = ai("x" * size, tool_calls=[{"id": f"c{i}", "name": "f", "args": {}} for i in ids])
        made.append(of(message, ms, codec))
    return made


@given(
    events=messages,
    split=st.integers(0, 40),
    keep=st.just(0) | st.integers(1, 40),
    age=st.just(0) | st.integers(1, 800),
    room=st.just(0) | st.integers(1, 8000),
    codec=st.sampled_from(CODECS),
)
@examples(300)
def test_what_goes_is_the_least_that_the_limits_ask_for_and_no_half_exchange(
    events: list[tuple[int, int, int]], split: int, keep: int, age: int, room: int, codec: str
) -> None:
    """F16, decision 23: by number, age and bytes at once, among parallel calls and records of others."""
    kept = conversation(events, codec)
    split = min(split, len(kept) - 1)
    cut = wanted_cut(kept, keep, age, room, NOW)
    assert surplus(kept, split, keep, age, room) == [cut, sum(len(one.record) for one in kept[cut:])]


def test_a_newer_call_of_the_same_id_has_the_results_that_follow() -> None:
    """F16: a call that nobody answered, and that goes, takes no later exchange along."""
    one = conversation([(0, 1, 0), (9, 1, 0), (0, 1, 7), (0, 1, 1)], "msgpack")
    assert [bool(each.calls) for each in one] == [True, False, True, False]
    assert surplus(one, 2, 2, 0, 0)[0] == 2


def test_a_second_result_of_a_call_that_was_answered_takes_nothing_along() -> None:
    """F16: the exchange was whole when it went."""
    one = conversation([(0, 1, 1), (0, 1, 1), (9, 1, 0)], "msgpack")
    kept = [*one, one[1], one[2]]
    assert surplus(kept, 4, 3, 0, 0)[0] == 2


@pytest.mark.parametrize(("many", "cut"), [(999, 1000), (1000, 1001), (1001, 0)])
def test_records_without_a_time_go_with_an_older_one_behind_them(many: int, cut: int) -> None:
    """Decision 23: if it is near; so an append looks at a bounded number of records."""
    kept = [*[Kept(FOREIGN[0])] * many, of(human("old"), NOW - 1000, "json"), of(human("new"), NOW, "json")]
    assert surplus(kept, len(kept) - 1, 0, 500, 0)[0] == cut
    assert surplus([*kept[:many], kept[-1]], many, 0, 500, 0)[0] == 0, "none goes for a younger one"


@pytest.mark.parametrize("codec", CODECS)
def test_the_newest_stays_whatever_its_age_and_size(codec: str) -> None:
    """Decision 11, 23: an append larger than the limit is stored, then trimmed; one message is the least."""
    kept = [of(human("x" * 100), NOW - 1000 * at, codec) for at in (3, 2, 1)]
    assert surplus(kept, 2, 0, 0, 1)[0] == 2
    assert surplus(kept, 0, 0, 1, 0)[0] == 2
    exchange = conversation([(9, 1, 5), (0, 1, 5), (0, 1, 500)], codec)
    assert surplus(exchange, 2, 0, 0, 500)[0] == 3, "the result of a call that goes is no message of its own"


@pytest.mark.parametrize("codec", CODECS)
def test_a_message_is_too_old_a_millisecond_after_its_time(codec: str) -> None:
    """Decision 23: as old as the limit is not older."""
    kept = [of(human("x"), NOW - 500, codec), of(human("x"), NOW, codec)]
    assert surplus(kept, 1, 0, 500, 0)[0] == 0
    assert surplus(kept, 1, 0, 499, 0)[0] == 1


def test_whatever_is_trimmed_positions_versions_and_sizes_fit() -> None:
    """P7, F16, decision 23: 500 appends under changing limits leave what the rule says, byte for byte."""
    chance, one, kept, gone = random.Random(11), Conversation(), list[Kept](), 0
    waiting: list[str] = []
    trims = {"keep": 0, "old": 0, "size": 0, "exchange": 0}
    for number in range(500):
        codec = chance.choice(CODECS)
        if chance.random() < 0.3:  # time passes
            kept = [
                Kept(aged(k.record, 60_000), k.ms - 60_000, k.calls, k.answers) if k.ms else k for k in kept
            ]
            for at, each in enumerate(kept):
                one.client.lset(one.messages, at, each.record)
        said: list[StoredMessage] = []
        for part in range(chance.randint(1, 3)):
            if waiting and chance.random() < 0.5:
                said.append(tool("r" * chance.randint(0, 90), tool_call_id=waiting.pop()))
            elif chance.random() < 0.4:
                ids = [f"{number}.{part}.{call}" for call in range(chance.randint(1, 2))]
                said.append(ai("", tool_calls=[{"id": i, "name": "f", "args": {}} for i in ids]))
                waiting = ids if chance.random() < 0.7 else []
            else:
                said.append(human("h" * chance.randint(0, 200)))
        limits = {
            "keep": chance.choice([0, 0, 0, 6, 15]),
            "old": chance.choice([0, 0, 150_000, 300_000]),
            "size": chance.choice([0, 0, 1500, 4000]),
        }
        total = gone + len(kept)
        reply = one.append(append_id(number), *encoded(*said, codec=codec), **limits)
        assert reply[:2] == [1, total + len(said)]
        now = newest_ms(one)
        kept += [of(message, now, codec, total + at) for at, message in enumerate(said)]
        cut = wanted_cut(kept, limits["keep"], limits["old"], limits["size"], now)
        for name, most in limits.items():
            alone = {**dict.fromkeys(limits, 0), name: most}
            trims[name] += cut > 0 and wanted_cut(kept, *alone.values(), now) == cut
        trims["exchange"] += cut > 0 and bool(kept[cut - 1].answers)
        gone, kept = gone + cut, kept[cut:]
        assert one.records() == [each.record for each in kept]
        assert (int(one.field("v")), int(one.field("t") or 0)) == (gone + len(kept), gone)
        assert int(one.field("n")) == sum(len(each.record) for each in kept)
    assert min(trims.values()) > 10


def newest_ms(one: Conversation) -> int:
    """When the last append was made: the time in the newest entry of the ring."""
    return int.from_bytes(one.field("r")[-10:-4])
