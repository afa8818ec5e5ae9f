"""What the scripts share: its arithmetic against Python's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import StoredMessage, ai, chat, function, human, system, tool
from tests.unit.records import STORED_MS, encoded, stamped, stored
from tests.unit.scripting import ENTRY, Conversation, append_id, calculated, ring_entries, ring_entry
from tests.unit.strategies import examples

six_bytes = st.integers(0, 2**48 - 1)
EXCHANGE = "local _, _, exchange = trimming() "
CALLS = [{"name": "f", "args": {}, "id": "c1"}]


@given(number=six_bytes)
@examples(200)
def test_numbers_of_six_bytes_are_exact(number: int) -> None:
    """Decision 8: without struct, big-endian, for milliseconds and for any count."""
    (text,) = calculated("return {bytes6(tonumber(ARGV[1]))}", number)
    assert text == number.to_bytes(6)
    assert calculated("return {number6(ARGV[1], 2)}", b"x" + number.to_bytes(6) + b"y") == [number]


@given(number=st.integers(0, 2**53))
@examples(100)
def test_numbers_are_written_without_loss(number: int) -> None:
    """A command gets a number as its digits: never as 1e+15, never rounded."""
    code = "redis.call('SET', 'n', tonumber(ARGV[1])) return {redis.call('GET', 'n')}"
    assert calculated(code, number) == [str(number).encode()]


entries = st.lists(
    st.tuples(
        st.integers(0, 5).map(append_id), st.integers(0, 2**40), st.integers(0, 60), st.integers(0, 2**32 - 1)
    ),
    max_size=6,
)


@given(ring=entries, wanted=st.integers(0, 6).map(append_id), since=st.integers(0, 70))
@examples(200)
def test_the_newest_entry_of_an_id_is_found(
    ring: list[tuple[bytes, int, int, int]], wanted: bytes, since: int
) -> None:
    """P2, decision 5: version and number of messages of the entry; those from before `since` do not count."""
    text = b"".join(ring_entry(*one) for one in ring)
    matching = [one for one in ring if one[0] == wanted and one[2] >= since]
    lua = "local at = find(ARGV[1], ARGV[2], tonumber(ARGV[3])) return at and {entry(ARGV[1], at)} or {}"
    found = calculated(lua, text, wanted, since)
    assert found == ([matching[-1][1], matching[-1][3]] if matching else [])


def test_an_id_that_lies_across_two_entries_is_not_found() -> None:
    """P2: bytes that happen to be an id, in a time or a version, are none."""
    wanted = b"\0" * 5 + b"\x01" + b"\0" * 6
    across = ring_entry(b"\x07" * 12, 1, 0, 0) + ring_entry(b"\x08" * 12, 0, 1, 2)
    assert wanted in across
    assert calculated("return {find(ARGV[1], ARGV[2], 0) and 1 or 0}", across, wanted) == [0]
    assert calculated("return {find(ARGV[1], ARGV[2], 0)}", across + ring_entry(wanted, 1, 1, 1), wanted) == [
        57
    ]


def remembered(
    ring: bytes, dropped: int, version: int, now: int, count: int, hold: int, least: int
) -> tuple[bytes, int]:
    lua = (
        "local a = {} for i = 3, 8 do a[i] = tonumber(ARGV[i]) end"
        " local ring, dropped = remember(ARGV[1], a[3], ARGV[2], a[4], a[5], bytes6(a[5]), a[6], a[7], a[8])"
        " return {ring, dropped}"
    )
    words = (ring, b"newest-entry", dropped, version, now, count, hold, least)
    after, last = calculated(lua, *words)
    return after, last


@given(
    times=st.lists(st.integers(1000, 2000), max_size=20).map(sorted),
    many=st.sampled_from([0, 0, 240, 256]),
    hold=st.integers(0, 600),
    least=st.sampled_from([0, 8]),
    dropped=st.integers(0, 1500),
)
@examples(200)
def test_a_ring_forgets_what_is_too_old_or_too_many(
    times: list[int], many: int, hold: int, least: int, dropped: int
) -> None:
    """P2, decision 1, 5: at most 256 entries, at least `least`, else none older than the hold."""
    old = [ring_entry(append_id(at), at, ms, 1) for at, ms in enumerate([1000] * many + times)]
    after, gone = remembered(b"".join(old), dropped, 77, 2000, 3, hold, least)
    everything = [*ring_entries(b"".join(old)), (b"newest-entry", 77, 2000, 3)]
    kept = everything[-256:]
    while len(kept) > least and kept[0][2] < 2000 - hold:
        kept = kept[1:]
    assert ring_entries(after) == kept
    lost = everything[: len(everything) - len(kept)]
    assert gone == max([dropped, *(entry[2] for entry in lost[-1:])])


@given(
    version=st.integers(0, 2000),
    trimmed=st.integers(0, 1000),
    edited=st.integers(0, 2000),
    length=st.integers(0, 1500),
)
@examples(300)
def test_healing_never_lowers_a_version(version: int, trimmed: int, edited: int, length: int) -> None:
    """P7, F13, decision 6: list and meta fit afterwards, and a loss counts as an edit."""
    version, edited = max(version, trimmed), min(edited, version)
    lua = "return {heal(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))}"
    after, cut, edit, healed = calculated(lua, version, trimmed, edited, length)
    assert healed == (0 if version - trimmed == length else 1)
    assert after - cut == length
    assert after >= version
    assert edit == (after if length < version - trimmed else edited)
    if not healed:
        assert (after, cut, edit) == (version, trimmed, edited)
    if length < version - trimmed:
        assert after > version


@pytest.mark.parametrize(
    ("dropped", "age", "now", "answer"),
    [
        (0, 50_000, 100_000, False),
        (40_000, 0, 100_000, False),
        (40_000, 50_000, 100_000, False),
        (49_899, 50_000, 100_000, False),
        (49_950, 50_000, 100_000, True),
        (50_000, 50_000, 100_000, True),
        (60_000, 50_000, 100_000, True),
        (1, 10**15, 100_000, True),
    ],
)
def test_a_repeat_that_may_have_been_forgotten_is_told_from_one_that_cannot(
    dropped: int, age: int, now: int, answer: bool
) -> None:
    """P2, decision 1: a drop after the first send, or up to 100 ms before it, leaves the outcome open."""
    lua = "return {forgotten(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])) and 1 or 0}"
    assert calculated(lua, dropped, age, now) == [int(answer)]


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_a_record_is_stamped_with_time_and_position(codec: str) -> None:
    """Decision 9, 13: all else in the record stays as it was sent."""
    (record,) = encoded(human("x"), codec=codec)
    lua = "local now = tonumber(ARGV[2]) return {stamped(ARGV[1], now, bytes6(now), tonumber(ARGV[3]))}"
    assert calculated(lua, record, STORED_MS, 7) == [stamped(record, 7)]
    assert calculated(lua, record, STORED_MS, 10**14) == [stamped(record, 10**14)]


CALL, RESULT = b"call", b"result"
PARTS: list[tuple[StoredMessage, bytes]] = [
    (human("x"), b""),
    (ai("x"), b""),
    (system("x"), b""),
    (chat("x", role="tool"), b""),
    (ai("x", tool_calls=CALLS), CALL),
    (ai("x", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}), CALL),
    (ai("x", additional_kwargs={"tool_calls": [{"id": "c1", "function": {}}]}), CALL),
    (tool("x", tool_call_id="c1"), RESULT),
    (function("x", name="f"), RESULT),
    (human('"tool_calls": [{"id": 1}], "type": "tool", "function_call": {'), b""),
]


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize(("message", "part"), PARTS, ids=lambda value: repr(value)[:40])
def test_a_script_sees_calls_and_results_in_both_formats(
    message: StoredMessage, part: bytes, codec: str
) -> None:
    """F16, decision 13, 23: so that retention cuts none in half; text that looks like one is text."""
    assert calculated(EXCHANGE + "return {exchange(ARGV[1]) or ''}", stored(message, codec)) == [part]


@pytest.mark.parametrize(
    "record", [b"", b"\x01", b"\x01" * 20, b"\x01" * 36, b"junk", b"{", b'{"type": "tool"}']
)
def test_bytes_that_are_no_record_break_nothing(record: bytes) -> None:
    """P10: a script that meets them goes on; what has no links belongs to no exchange."""
    assert calculated(EXCHANGE + "local _, links = exchange(ARGV[1]) return {links}", record) == [b""]


def record_of(event: int, seen: set[int], codec: str) -> bytes:
    """The first time an id is met it is called, the second time answered; after that somebody talks."""
    if event in seen:
        return stored(tool("x", tool_call_id=f"c{event}"), codec)
    return stored(ai("", tool_calls=[{"id": f"c{event}", "name": "f", "args": {}}]), codec)


@given(
    events=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    split=st.integers(0, 60),
    keep=st.integers(1, 60),
    codec=st.sampled_from(["msgpack", "json"]),
)
@examples(150)
def test_a_cut_tears_no_exchange_apart(events: list[int], split: int, keep: int, codec: str) -> None:
    """F16, decision 23: it moves on past results of calls that go, and of calls that go with them."""
    seen: list[int] = []
    records, ids = [], []
    for event in events:
        many = seen.count(event)
        records.append(record_of(event, set(seen), codec) if many < 2 else stored(human("x"), codec))
        ids.append(("call", "result")[many] + str(event) if many < 2 else "")
        seen.append(event)
    split = min(split, len(records) - 1)
    one = Conversation()
    if split:
        one.client.rpush("list", *records[:split])
    lua = (
        "local more = {} for i = 3, #ARGV do more[i - 2] = ARGV[i] end"
        " return {surplus('list', tonumber(ARGV[1]), more, tonumber(ARGV[2]), 0, 0, 0, false)}"
    )
    cut, left = calculated(lua, split, keep, *records[split:], client=one.client)
    least = max(len(records) - keep, 0)
    assert least <= cut <= len(records)
    assert left == sum(map(len, records[cut:]))
    gone, kept = ids[:cut], ids[cut:]
    assert not [name for name in kept if name.startswith("result") and name.replace("result", "call") in gone]
    assert cut == least or ids[cut - 1].startswith("result"), "no further than needed"


@pytest.mark.parametrize(
    ("policy", "answer"), [("none", 0), ("idle", 1_000_060), ("fixed", 500_060), ("", 0), ("whatever", 0)]
)
def test_an_end_is_one_instant(policy: str, answer: int) -> None:
    """Decision 7: from now, from the first message, or never."""
    assert calculated("return {ending(nil, ARGV[1], 60, 0, 1000000, 500000)}", policy) == [answer]
    own = f"{policy or 'none'} 60 0 0"
    assert calculated("return {ending(ARGV[1], 'idle', 5, 0, 1000000, 500000)}", own) == [answer]


def test_an_end_after_idle_time_is_within_the_greatest_age() -> None:
    """Decision 7: whichever comes first; a life that begins now has its whole age before it."""
    assert calculated("return {ending(nil, 'idle', 60, 100, 1000000, 999950)}") == [1_000_050]
    assert calculated("return {ending(nil, 'idle', 60, 100, 1000000, 999990)}") == [1_000_060]
    assert calculated("return {ending(nil, 'idle', 600, 100, 1000000, 0)}") == [1_000_100]
    assert calculated("return {ending('at 77 0 0', 'idle', 600, 100, 1000000, 0)}") == [77]


def test_an_entry_is_as_long_as_documented() -> None:
    """256 of them are 7 kB."""
    assert calculated("return {ENTRY}") == [ENTRY]
