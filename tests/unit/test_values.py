"""Expiry, retention and limits: numbers mean what they say, or are refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    FixedExpiry,
    InvalidSetting,
    Limits,
    MaxAge,
    MaxBytes,
    MaxMessages,
    NoExpiry,
    SlidingExpiry,
)
from memory_redis.expiry import at_instant
from memory_redis.retention import Caps, Retention, caps_of
from tests.unit.strategies import examples

HUNDRED_YEARS = 36_525 * 24 * 3600
DURATIONS: list[Any] = [SlidingExpiry, FixedExpiry, MaxAge]
MIB = 1024 * 1024


def ms_of(value: Any) -> int:
    """The duration that the scripts are told, in ms."""
    found = value.caps.age_ms if isinstance(value, MaxAge) else value.terms.ms
    assert type(found) is int
    return found


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
    assert ms_of(kind(duration)) == milliseconds


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
    assert ms_of(kind(**keywords)) == milliseconds


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
        milliseconds = ms_of(kind(seconds))
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
    SlidingExpiry(90, max_age=timedelta(days=1)),
    FixedExpiry(days=3),
    MaxMessages(5),
    MaxAge(days=3),
    MaxBytes(5),
    MaxMessages(5) & MaxAge(days=3) & MaxBytes(5),
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


@pytest.mark.parametrize("bad", BAD, ids=lambda value: repr(value)[:20])
def test_a_greatest_age_that_means_nothing_is_refused(bad: Any) -> None:
    """Decision 7: 0 is not "without", and no duration is guessed."""
    with pytest.raises(InvalidSetting):
        SlidingExpiry(60, max_age=bad)


@pytest.mark.parametrize("bad", [1, 0, None, "yes"], ids=repr)
def test_whether_reads_renew_is_true_or_false(bad: Any) -> None:
    """B09: nothing is renewed, or not, because of a slip."""
    with pytest.raises(InvalidSetting):
        SlidingExpiry(60, on_read=bad)


@pytest.mark.parametrize(
    ("when", "ms"),
    [
        (datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), 1),
        (datetime(2030, 1, 2, 3, 4, 5, 678_999, UTC), 1_893_553_445_678),
        (datetime(2030, 1, 2, 5, 4, 5, 678_000, timezone(timedelta(hours=2))), 1_893_553_445_678),
        (datetime.max.replace(tzinfo=UTC), 253_402_300_799_999),
    ],
    ids=str,
)
def test_an_instant_is_told_to_the_millisecond(when: datetime, ms: int) -> None:
    """Decision 7: the same instant in any time zone, never a later one."""
    assert at_instant(when) == ("at", ms, 0, False)


def test_an_instant_may_be_so_long_from_now() -> None:
    """Decision 7: the server, which knows what time it is, makes an instant of it."""
    assert at_instant(timedelta(minutes=1, microseconds=1999)) == ("in", 60_001, 0, False)


NO_INSTANTS: list[Any] = [
    *(datetime(2030, 1, 1), datetime.max, datetime(2030, 1, 1).date(), 1_893_553_445, 1e9, "2030-01-01"),
    *(None, True, timedelta(0), timedelta(days=-1), timedelta(days=36_526)),
    *(datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
]


@pytest.mark.parametrize("bad", NO_INSTANTS, ids=repr)
def test_an_instant_without_a_time_zone_or_that_is_none_is_refused(bad: Any) -> None:
    """Decision 7: whose midnight was meant cannot be guessed."""
    with pytest.raises(InvalidSetting):
        at_instant(bad)


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


@pytest.mark.parametrize("size", [1, 2, 1000, 10**12])
def test_a_limit_of_bytes_means_what_it_says(size: int) -> None:
    """From one byte to a million million."""
    assert MaxBytes(size).caps == (0, 0, size)


@pytest.mark.parametrize("size", [*NO_COUNTS[:2], 10**12 + 1, *NO_COUNTS[4:]], ids=repr)
def test_a_limit_of_bytes_that_means_nothing_is_refused(size: Any) -> None:
    """F01: a store that keeps nothing is no store; negatives, fractions, truth values and texts neither."""
    with pytest.raises(InvalidSetting):
        MaxBytes(size)


def test_limits_together_are_the_smallest_of_each() -> None:
    """Decision 23: in any order, however often one is given."""
    assert caps_of(None) == Caps()
    both = MaxMessages(5) & MaxAge(60)
    assert both.caps == (5, 60_000, 0)
    assert (both & MaxMessages(9) & (MaxBytes(7) & MaxAge(30))).caps == (5, 30_000, 7)
    assert (MaxBytes(7) & MaxBytes(3)).caps == (0, 0, 3)
    assert repr(both & MaxBytes(7)) == f"MaxMessages(count=5) & {MaxAge(60)!r} & MaxBytes(size=7)"
    assert both == MaxMessages(5) & MaxAge(minutes=1)


@pytest.mark.parametrize("other", [5, None, "5", object()], ids=["5", "None", "text", "object"])
def test_a_limit_goes_together_with_limits_only(other: Any) -> None:
    """F01: a number beside a limit is a slip."""
    with pytest.raises(TypeError):
        MaxMessages(5) & other
    with pytest.raises(TypeError):
        other & MaxMessages(5)


class Mine(Retention):
    """A rule that the append script knows nothing of."""


@pytest.mark.parametrize(
    "bad",
    [0, 50, "50", [MaxMessages(5)], MaxMessages, Retention(), Mine(), MaxMessages(5) & Mine()],
    ids=["0", "50", "text", "list", "class", "base", "subclass", "combined"],
)
def test_a_retention_that_is_none_is_refused(bad: Any) -> None:
    """B09, F01: what would have no effect is an error, also among others."""
    with pytest.raises(InvalidSetting):
        caps_of(bad)


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
