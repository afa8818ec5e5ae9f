"""What a window shows of messages that are at hand: `trim_messages`, and when a part of them suffices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    BYTES_4_PLUS_1,
    AllMessages,
    InvalidMessage,
    InvalidSetting,
    LastMessages,
    LastTurns,
    Limits,
    Since,
    StoredMessage,
    TokenBudget,
    TokenCounter,
    Window,
    ai,
    human,
    system,
    tool,
    trim_messages,
)
from memory_redis._engine.keys import conversation_keys
from memory_redis._engine.ranges import Ranges
from memory_redis.messages import loaded
from memory_redis.selection import chosen
from memory_redis.windows import Bounds
from tests.support.ids import shown
from tests.unit.strategies import examples


def each(message: StoredMessage) -> int:
    """One token a message."""
    return 1


def characters(message: StoredMessage) -> int:
    """One token a character."""
    return len(message.text)


def call(*ids: str) -> StoredMessage:
    return ai("", tool_calls=[{"name": "f", "args": {}, "id": name} for name in ids])


def result(name: str) -> StoredMessage:
    return tool(f"result of {name}", tool_call_id=name)


def stored(message: StoredMessage, seconds: float | None) -> StoredMessage:
    """A message as if the server had stored it at that time; None is one of another library."""
    ms = None if seconds is None else int(seconds * 1000)
    return loaded({"type": message.type, "data": message.data, "seq": 0, "stored_ms": ms})


def texts(messages: list[StoredMessage]) -> list[str]:
    return [message.text for message in messages]


def said(text: str, window: Window) -> str:
    """What a window shows of a conversation of one letter a message: h, a, s, as in `TALK`."""
    kinds = {"h": human, "a": ai, "s": system}
    messages = [kinds[letter.lower()](letter) for letter in text]
    return "".join(texts(trim_messages(messages, window)))


def of_each_kind(size: int, **common: Any) -> list[Window]:
    """Windows of every kind that limit something, so many messages of a token each."""
    return [
        LastMessages(size, **common),
        TokenBudget(size, each, **common),
        TokenBudget(size, TokenCounter("each", each), **common),
        LastMessages(size) & LastTurns(100, **common),
        LastMessages(size + 1) & Since(1) & TokenBudget(size, each, **common),
    ]


@pytest.mark.parametrize("size", range(8))
def test_so_many_of_the_newest_are_shown(size: int) -> None:
    """R90, R100, F02, F03: from none to more than there are, oldest first; the list stays as it was."""
    messages = [human("1"), ai("2"), human("3"), ai("4"), human("5")]
    for window in of_each_kind(size):
        assert texts(trim_messages(messages, window)) == texts(messages)[max(5 - size, 0) :]
    assert texts(messages) == ["1", "2", "3", "4", "5"]


def test_everything_is_shown_as_it_stands() -> None:
    """F18: by the window that limits nothing; in a list of its own, a result without its call too."""
    messages = [result("a"), human("x")]
    for window in (AllMessages(), AllMessages() & AllMessages()):
        kept = trim_messages(messages, window)
        assert kept == messages
        assert kept is not messages


LIMITING: list[Window] = [
    *of_each_kind(5),
    *of_each_kind(5, keep_system=True),
    *of_each_kind(5, start_on="human"),
    LastTurns(5),
    LastTurns(5, keep_system=True, start_on="ai"),
    Since(5),
    Since(5, keep_system=True),
    AllMessages(keep_system=True),
    AllMessages(start_on="human"),
    AllMessages(max_bytes=100),
    AllMessages(max_bytes=100, keep_system=True),
    TokenBudget(5, each, oldest=True),
    TokenBudget(5, each, oldest=True, keep_system=True),
]


@pytest.mark.parametrize("window", LIMITING, ids=shown)
def test_every_window_takes_nothing_a_lone_system_message_and_a_lone_result(window: Window) -> None:
    """F18: [] of [], the system message, and [] of a result whose call is not there."""
    assert trim_messages([], window) == []
    assert trim_messages([system("s")], window) == [system("s")]
    assert trim_messages([result("a")], window) == []
    assert trim_messages([system("s"), result("a"), result("b")], window) == [system("s")]


TURNS: list[tuple[str, int, str]] = [
    ("", 1, ""),
    ("hahaha", 0, ""),
    ("hahaha", 1, "ha"),
    ("hahaha", 2, "haha"),
    ("hahaha", 3, "hahaha"),
    ("hahaha", 4, "hahaha"),
    ("hhahhha", 1, "hhha"),
    ("hhahhha", 2, "hhahhha"),
    ("hah", 1, "h"),
    ("hahaa", 1, "haa"),
    ("hasaha", 1, "ha"),
    ("hasaha", 2, "hasaha"),
    ("hhshha", 1, "hha"),
    ("aaha", 1, "ha"),
    ("aaha", 2, "aaha"),
    ("saha", 2, "saha"),
    ("aaa", 1, "aaa"),
    ("aaa", 0, ""),
    ("h", 1, "h"),
]


@pytest.mark.parametrize(("text", "turns", "kept"), TURNS)
def test_a_turn_begins_with_a_human_after_none_or_another(text: str, turns: int, kept: str) -> None:
    """Decision 21: several in a row are one turn; what stands before the first is shown if it is reached."""
    assert said(text, LastTurns(turns)) == kept


def test_limits_cut_turns_and_exchanges_where_they_must() -> None:
    """Decision 21, R119: both limits hold; a turn that is too long is shown in part, from a safe place on."""
    messages = [human("1"), call("a", "b"), result("a"), result("b"), ai("2"), human("3"), ai("4")]
    sizes = [len(trim_messages(messages, LastTurns(2) & LastMessages(size))) for size in range(9)]
    assert sizes == [0, 1, 2, 3, 3, 3, 6, 7, 7]
    assert trim_messages(messages, LastTurns(1) & LastMessages(6)) == messages[5:]


KEPT: list[tuple[str, int, str]] = [
    ("Shaha", 0, ""),
    ("Shaha", 1, "S"),
    ("Shaha", 2, "Sa"),
    ("Shaha", 4, "Saha"),
    ("Shaha", 5, "Shaha"),
    ("Shaha", 9, "Shaha"),
    ("haSha", 2, "ha"),
    ("SS", 1, "S"),
    ("Ss", 2, "Ss"),
    ("Ssh", 2, "Sh"),
]


@pytest.mark.parametrize(("text", "size", "kept"), KEPT)
def test_a_system_message_in_front_takes_one_of_the_places(text: str, size: int, kept: str) -> None:
    """R100, decision 21, F15: by number and by tokens; one that stands elsewhere is a message like others."""
    for window in of_each_kind(size, keep_system=True):
        assert said(text, window) == kept


def test_a_system_message_without_room_is_left_out() -> None:
    """R100, decision 21: the budgets are upper bounds; the room is then for the others."""
    messages = [system("be very kind"), human("Hi"), ai("Hello")]
    for window in (
        TokenBudget(11, characters, keep_system=True),
        AllMessages(max_bytes=11, keep_system=True),
        LastMessages(9) & TokenBudget(11, characters, keep_system=True),
    ):
        assert texts(trim_messages(messages, window)) == ["Hi", "Hello"]
    assert texts(trim_messages(messages, TokenBudget(17, characters, keep_system=True))) == [
        "be very kind",
        "Hello",
    ]
    oldest = TokenBudget(11, characters, keep_system=True, oldest=True)
    assert texts(trim_messages(messages, oldest)) == ["Hi", "Hello"]
    assert trim_messages(messages, TokenBudget(11, characters, oldest=True)) == []


def test_a_system_message_is_kept_whatever_turns_and_ages_are_asked_for() -> None:
    """Decision 21: it is none of the turns, and from before all of them; only what it costs counts."""
    messages = [stored(system("s"), 1), stored(human("1"), 2), stored(human("2"), 500), stored(ai("3"), 501)]
    assert texts(trim_messages(messages, Since(100, keep_system=True))) == ["s", "2", "3"]
    assert texts(trim_messages(messages, LastTurns(1, keep_system=True))) == ["s", "1", "2", "3"]
    assert texts(trim_messages(messages, LastTurns(0, keep_system=True))) == ["s"]


START: list[tuple[str, Any, str]] = [
    ("ahaha", "human", "haha"),
    ("ahaha", "ai", "ahaha"),
    ("haha", "ai", "aha"),
    ("aaa", "human", "aaa"),
    ("aaa", "system", "aaa"),
    ("hsha", "system", "sha"),
    ("", "human", ""),
]


@pytest.mark.parametrize(("text", "start", "kept"), START)
def test_a_window_starts_on_the_first_of_a_type_or_stays_as_it_is(text: str, start: Any, kept: str) -> None:
    """R100, R119, F20: the documented fallback, which is within the limits too."""
    for window in of_each_kind(9, start_on=start):
        assert said(text, window) == kept


def test_a_start_is_looked_for_behind_the_system_message_that_is_kept() -> None:
    """R100: it stands in front of what begins with the right type."""
    assert said("Sahaha", LastMessages(6, keep_system=True, start_on="human")) == "Shaha"
    assert said("Sahaha", LastMessages(6, start_on="human")) == "haha"
    assert said("Saaa", LastMessages(3, keep_system=True, start_on="human")) == "Saa"
    assert said("Sas", LastMessages(9, keep_system=True, start_on="system")) == "Ss"


def test_a_long_run_of_tools_is_shown_as_far_as_the_budget_reaches() -> None:
    """F15, F20: one question, 50 exchanges; no human fits, and the budget holds all the same."""
    talk = [system("s"), human("q")]
    for number in range(50):
        talk += [call(f"{number}"), result(f"{number}")]
    for window in of_each_kind(10, start_on="human"):
        assert trim_messages(talk, window) == talk[-10:]
    for window in of_each_kind(10, keep_system=True, start_on="human"):
        assert trim_messages(talk, window) == [talk[0], *talk[-8:]]


def test_bytes_are_those_of_the_text() -> None:
    """Decision 21: UTF-8, and nothing of names and calls; an upper bound that is used up."""
    messages = [human("ééé"), ai("€", tool_calls=[{"name": "f", "args": {}, "id": "a"}]), human("\U0001f600")]
    assert [
        len(trim_messages(messages, AllMessages(max_bytes=size))) for size in (0, 3, 4, 6, 7, 12, 13)
    ] == [*(0, 0, 1, 1, 2, 2, 3)]
    assert trim_messages([human("x"), human(""), human("")], AllMessages(max_bytes=0)) == [human("")] * 2


def test_messages_that_cost_nothing_are_shown_by_any_budget() -> None:
    """Decision 22: the sum counts, not the number."""
    free = TokenCounter("free", lambda message: 0)
    assert len(trim_messages([human("x")] * 9, TokenBudget(0, free))) == 9


def test_tokens_are_added_up_exactly() -> None:
    """R91: the oldest are left out until the sum is within the budget, and none that has room."""
    messages = [human("x" * 8), human("x" * 3), human("é" * 2), ai("")]  # 3, 1, 2 and 1 tokens
    shown = [len(trim_messages(messages, TokenBudget(size, BYTES_4_PLUS_1))) for size in range(8)]
    assert shown == [0, 1, 1, 2, 3, 3, 3, 4]
    assert trim_messages([human("x" * 100), human("x")], TokenBudget(0, BYTES_4_PLUS_1)) == []


def test_ages_go_back_from_the_newest() -> None:
    """A list has no clock; one that nobody stored has no ages, and a message without one goes with others."""
    messages = [stored(human(str(seconds)), seconds) for seconds in (10, 20, 30)]
    assert texts(trim_messages(messages, Since(10))) == ["20", "30"]
    assert texts(trim_messages(messages, Since(9.999))) == ["30"]
    assert texts(trim_messages([human("1"), human("2")], Since(1))) == ["1", "2"]
    foreign = [stored(human("before"), None), *messages, stored(human("behind"), None)]
    assert texts(trim_messages(foreign, Since(10))) == ["20", "30", "behind"]
    assert texts(trim_messages(foreign, Since(100))) == ["before", "10", "20", "30", "behind"]


def test_the_oldest_begin_behind_all_that_are_too_old() -> None:
    """Decision 23: retention hides them, and a message without an age among them."""
    bounds = Bounds(tokens=9, counter=each, age_ms=1000, kept_ms=1000, oldest=True, keep_system=True)
    messages = [stored(system("s"), 1), stored(human("foreign"), None), stored(human("1"), 2)]
    messages += [stored(human("2"), 8.5), stored(ai("3"), 9)]
    assert texts(chosen(messages, bounds, 9000).messages) == ["2", "3"]
    assert texts(chosen(messages[:3], bounds, 9000, whole=False).messages) == []
    assert texts(chosen(messages, bounds, 2000).messages) == texts(messages)


def test_the_oldest_are_shown_from_the_front_on() -> None:
    """R100: until the budget is used up; none behind one that has no room."""
    messages = [human("1"), ai("22"), human("333"), ai("4")]
    kept = [texts(trim_messages(messages, TokenBudget(size, characters, oldest=True))) for size in range(8)]
    assert kept == [[], ["1"], ["1"], *[["1", "22"]] * 3, ["1", "22", "333"], texts(messages)]
    bounded = TokenBudget(9, characters, oldest=True, max_bytes=3)
    assert texts(trim_messages(messages, bounded)) == ["1", "22"]


def test_the_oldest_end_with_no_call_whose_results_are_cut_off() -> None:
    """F13, F14, R119: for every size; parallel calls are shown with all their results or not at all."""
    messages = [human("1"), call("a", "b"), result("a"), result("b"), ai("2")]
    for size, left in enumerate([0, 1, 1, 1, 4, 5]):
        assert trim_messages(messages, TokenBudget(size, each, oldest=True)) == messages[:left]
    assert trim_messages(messages[:3], TokenBudget(9, each, oldest=True)) == messages[:3]
    assert trim_messages([result("z"), *messages], TokenBudget(9, each, oldest=True)) == messages


@pytest.mark.parametrize("window", [None, 5, "all", LastMessages, Window()], ids=shown)
def test_what_is_no_window_trims_nothing(window: Any) -> None:
    """F01: it is refused as by a load."""
    with pytest.raises(InvalidSetting):
        trim_messages([human("x")], window)


@pytest.mark.parametrize("count", [1.5, -1, True, None, "3", 2**24], ids=repr)
def test_a_counter_that_gives_no_count_is_refused(count: Any) -> None:
    """F01: at the first message that it counts; what it raises arrives unchanged."""
    with pytest.raises(InvalidSetting):
        trim_messages([human("x")], TokenBudget(5, lambda message: count))

    def broken(message: StoredMessage) -> int:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        trim_messages([human("x")], TokenBudget(5, broken))


# -- a part of the messages ----------------------------------------------------------------------

ids = st.sampled_from("abc")
steps = st.one_of(
    st.sampled_from([human(""), human("h"), human("hh"), ai("a"), system("s")]),
    st.lists(ids, min_size=1, max_size=2, unique=True).map(lambda names: call(*names)),
    ids.map(result),
)
sizes = st.none() | st.integers(0, 6)


@given(
    messages=st.lists(steps, max_size=12),
    part=st.integers(0, 12),
    limits=st.tuples(sizes, sizes, sizes, sizes),
    keep_system=st.booleans(),
    front=st.booleans(),
)
@examples(500)
def test_a_part_that_says_it_suffices_does(
    messages: list[StoredMessage],
    part: int,
    limits: tuple[int | None, ...],
    keep_system: bool,
    front: bool,
) -> None:
    """Decision 22: the pages of a tail, of whatever size, give the answer of the whole conversation."""
    count, turns, tokens, size = limits
    messages = [system("s")] * keep_system + messages
    window: Window = AllMessages(keep_system=keep_system, max_bytes=size)
    if front:
        window = TokenBudget(tokens or 0, characters, oldest=True, keep_system=keep_system, max_bytes=size)
    else:
        for limit, kind in ((count, LastMessages), (turns, LastTurns)):
            window = window if limit is None else window & kind(limit)  # type: ignore[operator]
        window = window if tokens is None else window & TokenBudget(tokens, characters)
    bounds = window.bounds
    whole = chosen(messages, bounds, 0)
    assert whole.closed
    some = messages[:part] if front else messages[max(len(messages) - part, 0) :]
    if len(some) < len(messages):
        pick = chosen(some, bounds, 0, whole=False, head=messages[0] if keep_system else None)
        if pick.closed:
            assert pick.messages == whole.messages
        else:  # it is shown up to its other end
            assert pick.after == len(some) if front else pick.first == 0


def test_a_part_suffices_as_soon_as_the_limits_are_reached() -> None:
    """Decision 22: no further page is asked for then."""
    for window, messages in (
        (LastMessages(2), [human("1"), ai("2")]),
        (LastTurns(1), [ai("0"), human("1"), ai("2")]),
        (TokenBudget(1, characters), [human("1"), ai("2")]),
        (TokenBudget(2, characters, oldest=True), [human("1"), ai("22")]),
        (LastMessages(0), []),
        (LastTurns(0), []),
    ):
        assert chosen(messages, window.bounds, 0, whole=False).closed, window
    for window in (LastMessages(3), LastTurns(1), TokenBudget(2, characters), Since(5)):
        assert not chosen([human("1"), ai("2")], window.bounds, 0, whole=False).closed


def test_so_many_records_are_looked_at_as_a_load_may_bring_and_one_more() -> None:
    """Decision 16, S4: from either end; the one that is too much shows what a window ends with."""
    ranges = Ranges(conversation_keys("memory", "ann", "c1"), Limits(load_bytes=10))
    records = [b"aaaa", b"bbb", b"ccc", b"ddddd"]
    assert ranges.fitting(records) == [b"bbb", b"ccc", b"ddddd"]
    assert ranges.fitting(records, oldest=True) == records
    assert ranges.fitting(records[:3]) == ranges.fitting(records[:3], oldest=True) == records[:3]
    assert ranges.fitting([b"x" * 11, *records], oldest=True) == [b"x" * 11]
    assert ranges.fitting([*records, b"x" * 11]) == [b"x" * 11]
    assert ranges.fitting([]) == []


@pytest.mark.parametrize("window", [AllMessages(), LastMessages(2), Since(60)], ids=shown)
def test_only_messages_of_ours_are_trimmed(window: Window) -> None:
    """R100: any iterable of them; other things are refused by a sentence."""
    assert trim_messages((human(text) for text in "ab"), window) == [human("a"), human("b")]
    for wrong in ([{"role": "user", "content": "Hi"}], ["Hi"], [None]):
        with pytest.raises(InvalidMessage, match="messages of memory_redis"):
            trim_messages(wrong, window)  # type: ignore[arg-type]
