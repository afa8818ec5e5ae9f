"""Expiry, retention and limits: numbers mean what they say, or are refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import FixedExpiry, InvalidSetting, Limits, MaxMessages, NoExpiry, SlidingExpiry
from tests.unit.strategies import examples

HUNDRED_YEARS = 36_525 * 24 * 3600
DURATIONS: list[Any] = [SlidingExpiry, FixedExpiry]
MIB = 1024 * 1024


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [
        (1, 1000),
        (0.5, 500),
        (0.001, 1),
        (90, 90_000),
        (1.0, 1000),
        (HUNDRED_YEARS, HUNDRED_YEARS * 1000),
        (timedelta(milliseconds=1), 1),
        (timedelta(hours=2), 7_200_000),
        (timedelta(days=-1, hours=25), 3_600_000),
    ],
    ids=str,
)
def test_a_duration_in_seconds_or_as_timedelta(kind: Any, duration: Any, milliseconds: int) -> None:
    """B11: from one millisecond to a hundred years; half a second is half a second."""
    assert kind(duration).terms.ms == milliseconds


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize(
    ("keywords", "milliseconds"),
    [
        ({"minutes": 1}, 60_000),
        ({"hours": 1}, 3_600_000),
        ({"days": 7}, 7 * 86_400_000),
        ({"weeks": 2}, 14 * 86_400_000),
        ({"days": 1.5}, 129_600_000),
        ({"days": 7, "hours": 12, "minutes": 30}, (7 * 24 + 12) * 3_600_000 + 1_800_000),
        ({"days": 1, "hours": 0}, 86_400_000),
    ],
    ids=str,
)
def test_a_duration_by_keywords(kind: Any, keywords: dict[str, float], milliseconds: int) -> None:
    """Keywords add up."""
    assert kind(**keywords).terms.ms == milliseconds


BAD: list[Any] = [
    *(0, -5, -0.5, 0.0, -0.0, 1e-9, 5e-324, HUNDRED_YEARS + 1, 1e18, 1e308, 10**400, -(10**400)),
    *(float("nan"), float("inf"), float("-inf"), True, False, "3", "", b"3", [3], {}, object(), 1j),
    *(
        Decimal(3),
        Fraction(3),
        timedelta(0),
        timedelta(days=-1),
        timedelta(microseconds=999),
        timedelta.max,
        int,
    ),
]


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize("bad", BAD, ids=lambda value: repr(value)[:20])
def test_a_duration_that_means_nothing_is_refused(kind: Any, bad: Any) -> None:
    """Decision 7: nothing, less than nothing, too much, no number; before anything is sent."""
    with pytest.raises(InvalidSetting) as caught:
        kind(bad)
    assert isinstance(caught.value, ValueError)
    for unit in ("weeks", "days", "hours", "minutes"):
        with pytest.raises(InvalidSetting):
            kind(**{unit: bad})


@pytest.mark.parametrize("kind", DURATIONS)
def test_no_duration_or_two_are_refused(kind: Any) -> None:
    """Which one was meant cannot be guessed."""
    refused: list[Callable[[], Any]] = [
        lambda: kind(),
        lambda: kind(None),
        lambda: kind(days=None),
        lambda: kind(5, days=1),
        lambda: kind(0, days=1),
        lambda: kind(timedelta(1), hours=1),
        lambda: kind(days=1, hours=-25),
        lambda: kind(days=timedelta(1)),
        lambda: kind(0.0005),
        lambda: kind(minutes=0.00001),
    ]
    for make in refused:
        with pytest.raises(InvalidSetting):
            make()


@pytest.mark.parametrize("kind", DURATIONS)
@given(seconds=st.floats() | st.integers() | st.floats(0, 10**10) | st.integers(0, 2 * HUNDRED_YEARS))
@examples(300)
def test_any_number_means_itself_or_is_refused(kind: Any, seconds: float) -> None:
    """Decision 7: never another duration than the one that was asked for, to the millisecond."""
    try:
        milliseconds = kind(seconds).terms.ms
    except InvalidSetting:
        assert not 0.001 <= seconds <= HUNDRED_YEARS
        return
    assert type(milliseconds) is int
    assert 1 <= milliseconds <= HUNDRED_YEARS * 1000
    assert abs(Fraction(seconds) * 1000 - milliseconds) < 1 + Fraction(1, 100)


def test_the_policies_differ() -> None:
    """What the scripts are told, and what a read renews."""
    assert NoExpiry().terms == ("none", 0, 0, False)
    assert SlidingExpiry(1).terms == ("idle", 1000, 0, False)
    assert SlidingExpiry(1, on_read=True).terms == ("idle", 1000, 0, True)
    assert SlidingExpiry(1, max_age=60).terms == ("idle", 1000, 60_000, False)
    assert FixedExpiry(1).terms == ("fixed", 1000, 0, False)
    with pytest.raises(TypeError):
        FixedExpiry(1, on_read=True)  # type: ignore[call-arg]


def test_equal_durations_are_equal_however_they_were_given() -> None:
    """Values."""
    same = {
        SlidingExpiry(3600),
        SlidingExpiry(3600.0),
        SlidingExpiry(timedelta(hours=1)),
        SlidingExpiry(hours=1),
    }
    assert len(same | {SlidingExpiry(minutes=60)}) == 1
    assert len({SlidingExpiry(3600), FixedExpiry(3600)}) == 2
    assert SlidingExpiry(3600) != SlidingExpiry(3600, on_read=True)
    assert NoExpiry() == NoExpiry()


VALUES = [
    NoExpiry(),
    SlidingExpiry(90, on_read=True),
    FixedExpiry(days=3),
    MaxMessages(5),
    Limits(record_bytes=9),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_setting_is_a_frozen_value(value: Any) -> None:
    """It can be compared, copied and pickled, and not changed."""
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, getattr(value, field.name))


@pytest.mark.parametrize("count", [1, 2, 1000, 10**9])
def test_a_cap_means_what_it_says(count: int) -> None:
    """From one message to a milliard."""
    assert MaxMessages(count).count == count


NO_COUNTS: list[Any] = [
    *(0, -1, -5, 10**9 + 1, 10**30, 1.0, 2.5, True, False, "3", None, [3]),
    float("nan"),
    b"3",
]


@pytest.mark.parametrize("count", NO_COUNTS, ids=repr)
def test_a_cap_that_means_nothing_is_refused(count: Any) -> None:
    """F01: a store that keeps nothing is no store; negatives, fractions, truth values and texts neither."""
    with pytest.raises(InvalidSetting):
        MaxMessages(count)


FIELDS = [field.name for field in dataclasses.fields(Limits)]


@pytest.mark.parametrize("field", FIELDS)
def test_each_limit_can_be_set(field: str) -> None:
    """Decision 16: limits are settable, from 1 to 512 MiB."""
    for value in (1, 12345, 512 * MIB):
        assert getattr(Limits(**{field: value}), field) == value


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "bad", [0, -1, 512 * MIB + 1, 10**30, 1.0, 2.5, True, "3", None, float("inf")], ids=repr
)
def test_a_limit_that_means_nothing_is_refused(field: str, bad: Any) -> None:
    """Decision 7, 16: None is not "unlimited", and no number stands for it."""
    with pytest.raises(InvalidSetting, match=field):
        Limits(**{field: bad})
