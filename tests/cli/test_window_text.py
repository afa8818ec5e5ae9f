"""A window as text means the window of the same name, and anything else is one clear sentence."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import AllMessages, LastMessages, LastTurns, Since, TokenBudget, Window
from memory_redis.cli.problems import USAGE, CommandError, one_line
from memory_redis.cli.window_text import duration_of, window_of


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("all", AllMessages()),
        ("last:20", LastMessages(20)),
        ("last:0", LastMessages(0)),
        ("last:1000000000", LastMessages(10**9)),
        ("turns:5", LastTurns(5)),
        ("tokens:4000", TokenBudget(4000)),
        ("since:90s", Since(90)),
        ("since:15m", Since(minutes=15)),
        ("since:2h", Since(hours=2)),
        ("since:3d", Since(days=3)),
        ("since:1w", Since(weeks=1)),
        ("keep-system", AllMessages(keep_system=True)),
        ("max-bytes:10000", AllMessages(max_bytes=10_000)),
        ("start-on:human", AllMessages(start_on="human")),
        ("start-on:ai", AllMessages(start_on="ai")),
        ("start-on:system", AllMessages(start_on="system")),
        ("start-on:chat", AllMessages(start_on="chat")),
        ("all+keep-system", AllMessages(keep_system=True)),
        ("keep-system+last:20", LastMessages(20, keep_system=True)),
        ("last:20+start-on:human", LastMessages(20, start_on="human")),
        ("turns:5+tokens:4000", LastTurns(5) & TokenBudget(4000)),
        (" turns:5 + since:2h ", LastTurns(5) & Since(hours=2)),
        (
            "last:9+turns:5+tokens:40+since:2h+keep-system+start-on:human+max-bytes:0",
            LastMessages(9)
            & LastTurns(5)
            & TokenBudget(40)
            & Since(hours=2, keep_system=True, start_on="human", max_bytes=0),
        ),
    ],
)
def test_a_text_is_the_window_of_its_words(text: str, window: Window) -> None:
    """Each word has its window or option, and + joins them in any order."""
    assert window_of(text).bounds == window.bounds


WRONG = [
    "",
    " ",
    "+",
    "last:20+",
    "everything",
    "All",
    "all:5",
    "last",
    "last:",
    "last:-1",
    "last:+1",
    "last:2.5",
    "last: 5",
    "last:many",
    "last:1_000",
    "last:\u0663",
    "last:1000000001",
    "last:" + "9" * 5_000,
    "last=5",
    "last:5,turns:2",
    "last:5:6",
    "turns:x",
    "tokens:4k",
    "since:2",
    "since:h",
    "since:2H",
    "since:2 h",
    "since:1h30m",
    "since:1.5h",
    "since:-2h",
    "since:0s",
    "since:5y",
    "since:999999999999w",
    "since:101000w",
    "keep-system:yes",
    "keep_system",
    "start-on",
    "start-on:tool",
    "start-on:",
    "max-bytes:1000000000001",
    "max-bytes:1k",
    "last:5+last:6",
    "keep-system+keep-system",
    "max-bytes:1+last:5+max-bytes:1",
    "all+last:5",
    "all+all",
    "\x1b[2J",
]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: ascii(text[:30]))
def test_a_text_that_means_no_window_is_refused(text: str) -> None:
    """Wrong words, numbers, units, words that stand twice: a wrong call, said in one safe line."""
    with pytest.raises(CommandError) as caught:
        window_of(text)
    assert caught.value.code == USAGE
    line = one_line(caught.value)
    assert line.startswith("--window")
    assert line.isprintable()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "last 5",
            "--window 'last 5': not one of all, last:N, turns:N, tokens:N, since:2h, keep-system, "
            "start-on:human and max-bytes:N, which + joins",
        ),
        ("last:-1", "--window 'last:-1': a whole number from 0 to 1,000,000,000 is wanted"),
        ("max-bytes:x", "--window 'max-bytes:x': a whole number from 0 to 1,000,000,000,000 is wanted"),
        ("since:2", "--window 'since:2': a duration is a whole number with s, m, h, d or w, such as 2h"),
        ("since:0h", "--window 'since:0h': a duration is from 1 ms to 100 years"),
        ("start-on:tool", "--window 'start-on:tool': a window starts on one of human, ai, system, chat"),
        ("turns:1+turns:2", "--window 'turns:2': given twice"),
        ("all+turns:2", "--window: all is no limit, and goes with no limit"),
    ],
)
def test_a_refusal_says_what_is_wanted(text: str, sentence: str) -> None:
    """The part at fault is named, and what may stand in its place."""
    with pytest.raises(CommandError) as caught:
        window_of(text)
    assert str(caught.value) == sentence


@given(st.text(alphabet="alst:+25h0-", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_window_or_a_refusal(text: str) -> None:
    """Whatever is typed, nothing else is raised."""
    with suppress(CommandError):
        assert isinstance(window_of(text), Window)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1s", timedelta(seconds=1)),
        ("90m", timedelta(minutes=90)),
        ("2h", timedelta(hours=2)),
        ("36525d", timedelta(days=36_525)),
        ("1w", timedelta(weeks=1)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, length: timedelta) -> None:
    """Seconds, minutes, hours, days and weeks, up to 100 years."""
    assert duration_of(text, "--in") == length


@pytest.mark.parametrize("text", ["", "2", "h", "2 h", "-2h", "0h", "36526d", "2h\n", "\u0661h"], ids=ascii)
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    """The option is named, and it is a wrong call."""
    with pytest.raises(CommandError, match=r"^--in ") as caught:
        duration_of(text, "--in")
    assert caught.value.code == USAGE
