"""The check of the demo reports every kind of damage, and none where there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis.cli.demo.check import Found, Tally, check_conversation, compare
from memory_redis.cli.demo.plan import Conversation, Turn
from memory_redis.cli.demo.tasks import NOISE, noise_text

TALK = Conversation(
    "ann",
    "talk",
    (Turn("human", ("hi", "you there?")), Turn("ai", ("hello",)), Turn("human", ("ok", "ok", ""))),
)


def said(*texts: str) -> list[Found]:
    kinds = {"hello": "ai"}
    return [Found(kinds.get(text, "human"), text) for text in texts]


def noise(writer: int, *numbers: int) -> list[Found]:
    return [Found("human", noise_text(writer, number), NOISE) for number in numbers]


WHOLE = said("hi", "you there?", "hello", "ok", "ok", "")


def test_the_data_set_itself_is_clean() -> None:
    """What was said, and nothing else, is no anomaly; empty texts count."""
    tally = check_conversation(TALK, {}, WHOLE)
    assert tally == Tally(messages=6)
    assert tally.clean


def test_noise_between_turns_is_clean() -> None:
    """Other writers may stand between turns, each in its own order, however they interleave."""
    found = noise(0, 0) + WHOLE[:2] + noise(1, 0) + noise(0, 1) + WHOLE[2:] + noise(1, 1)
    assert check_conversation(TALK, {0: 2, 1: 2}, found) == Tally(messages=6, noise=4)


@pytest.mark.parametrize(
    ("found", "sent", "damage"),
    [
        pytest.param(WHOLE[:2] + WHOLE[3:], 0, Tally(messages=5, lost=1), id="lost"),
        pytest.param(WHOLE[:4] + WHOLE[5:], 0, Tally(messages=5, lost=1), id="one of two equal texts lost"),
        pytest.param([], 0, Tally(lost=6), id="all lost"),
        pytest.param(WHOLE[:3] + WHOLE[2:], 0, Tally(messages=7, doubled=1), id="doubled"),
        pytest.param(WHOLE[:2] + WHOLE, 0, Tally(messages=8, doubled=2), id="a turn doubled"),
        pytest.param(
            said("hi", "hello", "you there?", "ok", "ok", ""),
            0,
            Tally(messages=6, out_of_order=1),
            id="out of order",
        ),
        pytest.param(WHOLE[2:] + WHOLE[:2], 0, Tally(messages=6, out_of_order=2), id="turns swapped"),
        pytest.param(
            [*WHOLE, Found("human", "never said")], 0, Tally(messages=7, foreign=1), id="never sent"
        ),
        pytest.param(
            [Found("ai", "hi"), *WHOLE[1:]], 0, Tally(messages=6, lost=1, foreign=1), id="another speaker"
        ),
        pytest.param(
            said("hi", "you there", "hello", "ok", "ok", ""),
            0,
            Tally(messages=6, lost=1, foreign=1),
            id="changed",
        ),
        pytest.param(WHOLE[:1] + noise(0, 0) + WHOLE[1:], 1, Tally(messages=6, noise=1, torn=1), id="torn"),
        pytest.param(WHOLE, 1, Tally(messages=6, lost=1), id="noise lost"),
        pytest.param(WHOLE + noise(0, 0, 0), 1, Tally(messages=6, noise=2, doubled=1), id="noise doubled"),
        pytest.param(
            WHOLE + noise(0, 1, 0), 2, Tally(messages=6, noise=2, out_of_order=1), id="noise out of order"
        ),
        pytest.param(WHOLE + noise(1, 0), 0, Tally(messages=6, noise=1, foreign=1), id="noise never sent"),
        pytest.param(
            [*WHOLE, Found("human", "noise", NOISE)],
            0,
            Tally(messages=6, noise=1, foreign=1),
            id="noise of nobody",
        ),
    ],
)
def test_damage_is_counted_by_its_kind(found: list[Found], sent: int, damage: Tally) -> None:
    """Each kind of planted damage is counted as what it is, and the result is not clean."""
    tally = check_conversation(TALK, {0: sent}, found)
    assert tally == damage
    assert not tally.clean


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_no_difference_is_overlooked(sent: list[str], found: list[str]) -> None:
    """Any two sequences that differ give an anomaly, and the counts add up to what was found."""
    tally = compare(sent, found)
    assert tally.clean == (sent == found)
    assert len(sent) - tally.lost + tally.doubled + tally.foreign == len(found)
