"""Tokens as texts: what `str` gives, `parse` takes, and nothing else."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import AppendId, InvalidSetting, RedisMemory, Version, human
from tests.support.ids import shown
from tests.unit.strategies import examples, texts

tokens = st.builds(
    Version,
    st.integers(0, 2**48 - 1),
    st.just(b"") | st.binary(min_size=12, max_size=12),
    st.just(b"") | st.binary(min_size=8, max_size=8),
)


@given(version=tokens)
@examples(300)
def test_a_version_survives_its_text(version: Version) -> None:
    """Decision 7: `Version` is a value with `str()` and `Version.parse`."""
    text = str(version)
    assert Version.parse(text) == version
    assert text.isascii()
    assert len(text) <= 15 + 1 + 24 + 1 + 16


@given(
    text=texts | st.text("0123456789abcdef-AF ", max_size=50) | st.from_regex(r"[0-9]+-[0-9a-f]*-[0-9a-f]*")
)
@examples(500)
def test_a_text_is_a_version_only_as_str_gives_it(text: str) -> None:
    """Decision 7: a text from a form or a header is refused, or it is that version's text."""
    for kind in (Version, AppendId):
        try:
            value = kind.parse(text)
        except InvalidSetting:
            continue
        assert str(value) == text


LAST, BIRTH = "0123456789ab" * 2, "01234567" * 2
HOSTILE: list[Any] = [
    *(
        "",
        "-",
        "--",
        "1",
        "1-",
        f"1-{LAST}",
        f"1-{LAST}-{BIRTH}-",
        f"1-{LAST}-{BIRTH}\n",
        f" 1-{LAST}-{BIRTH}",
    ),
    *(
        f"-1-{LAST}-{BIRTH}",
        f"+1-{LAST}-{BIRTH}",
        f"1.5-{LAST}-{BIRTH}",
        f"1e3-{LAST}-{BIRTH}",
        f"0x1-{LAST}-{BIRTH}",
    ),
    *(
        f"01-{LAST}-{BIRTH}",
        f"1_0-{LAST}-{BIRTH}",
        f"\u0661-{LAST}-{BIRTH}",
        f"1-{LAST.upper()}-{BIRTH}",
        "9" * 400 + "--",
    ),
    *(
        f"1-{LAST[:-1]}-{BIRTH}",
        f"1-{LAST}0-{BIRTH}",
        f"1-{LAST}-{BIRTH[:-2]}",
        f"nan-{LAST}-{BIRTH}",
        "1\0--",
        "\ud800",
    ),
    *(None, 5, b"1--", 1.5, [], {}, Version()),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda value: ascii(value)[:30])
def test_a_hostile_text_is_no_version(text: Any) -> None:
    """Decision 7: InvalidSetting, a ValueError, without the text."""
    with pytest.raises(InvalidSetting) as caught:
        Version.parse(text)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "not the text of a version"


BAD: list[tuple[Any, ...]] = [
    *((-1,), (2.5,), (1.0,), (True,), ("3",), (None,), (2**48,), (float("nan"),), (b"1",)),
    *(
        (1, b"short"),
        (1, "x" * 12),
        (1, None),
        (1, b"x" * 13),
        (1, b"", b"short"),
        (1, b"", "x" * 8),
        (1, bytearray(12)),
    ),
]


@pytest.mark.parametrize("parts", BAD, ids=repr)
def test_a_version_of_anything_else_is_refused(parts: tuple[Any, ...]) -> None:
    """Decision 7: numbers are checked before they are sent."""
    with pytest.raises(InvalidSetting):
        Version(*parts)


def test_versions_are_equal_by_what_they_stand_for() -> None:
    """P7: number, last append and life; whether the answer was a repeat is no part of the token."""
    one = Version(3, b"a" * 12, b"b" * 8)
    assert one == Version(3, b"a" * 12, b"b" * 8, repeated=True)
    assert hash(one) == hash(Version(3, b"a" * 12, b"b" * 8, repeated=True))
    assert (
        len(
            {
                one,
                Version(3, b"a" * 12, b"c" * 8),
                Version(3, b"c" * 12, b"b" * 8),
                Version(4, b"a" * 12, b"b" * 8),
            }
        )
        == 4
    )
    assert str(one) == f"3-{'61' * 12}-{'62' * 8}"
    assert str(Version()) == "0--"
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_append_ids_are_never_the_same() -> None:
    """P2: made once for each append."""
    made = {AppendId.new() for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(one.value) == 12 for one in made)


@given(value=st.binary(min_size=12, max_size=12))
@examples(100)
def test_an_append_id_survives_its_text(value: bytes) -> None:
    """Decision 10: an id can be kept as text, and settled by another process."""
    one = AppendId(value)
    assert AppendId.parse(str(one)) == one
    assert hash(AppendId.parse(str(one))) == hash(one)


@pytest.mark.parametrize(
    "value", [b"", b"x" * 11, b"x" * 13, "x" * 12, None, 5, bytearray(12), [0] * 12], ids=repr
)
def test_an_append_id_is_twelve_bytes(value: Any) -> None:
    """Decision 7, 10: anything else is refused."""
    with pytest.raises(InvalidSetting):
        AppendId(value)


@pytest.mark.parametrize(
    "text", [*HOSTILE, "ab" * 11, "AB" * 12, "zz" * 12, "ab" * 12 + "\n"], ids=lambda v: ascii(v)[:30]
)
def test_a_hostile_text_is_no_append_id(text: Any) -> None:
    """Decision 10."""
    with pytest.raises(InvalidSetting, match="not the text of an append id"):
        AppendId.parse(text)


def test_an_append_id_knows_when_it_was_made_only_where_it_was_made() -> None:
    """P2, decision 1: one process's clock says nothing in another; there the age is unknown."""
    one = AppendId.new()
    assert one.made is not None
    assert 0 <= time.monotonic() - one.made < 60
    assert AppendId.parse(str(one)).made is None
    assert pickle.loads(pickle.dumps(one)).made is None
    assert pickle.loads(pickle.dumps(one)) == one


NO_TOKENS: list[Any] = ["1--", 5, b"x" * 12, object(), True, ("1", "", "")]


@pytest.mark.parametrize("token", NO_TOKENS, ids=lambda value: type(value).__name__)
def test_a_call_takes_tokens_and_nothing_that_looks_like_one(token: Any) -> None:
    """Decision 7: a text where a version or an id belongs is refused before anything is sent."""
    with RedisMemory.from_url("fake://") as memory:
        history = memory.history("ann", "c1")
        with pytest.raises(InvalidSetting):
            history.append(human("x"), expected=token)
        with pytest.raises(InvalidSetting):
            history.append(human("x"), append_id=token)
        with pytest.raises(InvalidSetting):
            history.settle(token)
        assert not history.exists()


@pytest.mark.parametrize("key", ["", 5, b"k", True, ["k"], object()], ids=shown)
def test_an_idempotency_key_is_a_text(key: Any) -> None:
    """Decision 5: empty and other keys are refused, by an append as by a turn."""
    with RedisMemory.from_url("fake://") as memory:
        history = memory.history("ann", "c1")
        with pytest.raises(InvalidSetting):
            history.append(human("x"), idempotency_key=key)
        with pytest.raises(InvalidSetting):
            history.turn(idempotency_key=key)
        assert not history.exists()
