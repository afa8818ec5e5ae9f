"""What the store holds cannot steer the terminal that shows it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis.cli.safe import safe_id, safe_json, safe_text
from memory_redis.cli.server import shown_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x00\x7f", "a\\x0db\\x00\\x7f"),
        ("\u202egnp", "\\u202egnp"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("two\nlines\t", "two\nlines\t"),
        ("[bold]ünï[/bold] 👩‍💻", "[bold]ünï[/bold] 👩‍💻"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, shown: str) -> None:
    """Escape sequences, direction overrides and half characters are spelled out; the rest is as it was."""
    assert safe_text(text) == shown


@given(st.text())
def test_nothing_unsafe_passes(text: str) -> None:
    """No control character survives, and an id is one line."""
    assert all(c in "\n\t" or unicodedata.category(c) != "Cc" for c in safe_text(text))
    assert not any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in safe_id(text))


@given(st.text(), st.text())
def test_two_ids_never_look_alike(one: str, other: str) -> None:
    """Escaping an id is injective."""
    assert (safe_id(one) == safe_id(other)) == (one == other)


def test_ids_with_backslashes_differ_from_escapes() -> None:
    """A backslash that was typed is not taken for one that escapes."""
    assert safe_id("\\x1b") == "\\\\x1b" != safe_id("\x1b")


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_json_is_plain_ascii_and_reads_back(value: dict[str, object]) -> None:
    """A line of JSON holds no control character and parses to what it was made of."""
    line = safe_json(value)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == value


def test_what_json_cannot_say_becomes_text() -> None:
    """Bytes, infinities and keys that are no text are written as text, and the line parses strictly."""
    line = safe_json({"a": [b"\xff\x1b", float("nan"), float("-inf")], 1: {b"k": object}, "\x7f": None})
    value = json.loads(line, parse_constant=pytest.fail)
    assert value["a"] == ["\\xff\x1b", "nan", "-inf"]
    assert set(value) == {"a", "1", "\x7f"}
    assert line.isprintable()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:secret@db.example:6380/2?password=secret", "redis://db.example:6380/2"),
        ("rediss://:secret@[::1]:6379", "rediss://[::1]:6379"),
        ("unix:///tmp/s?password=secret", "unix:///tmp/s"),
        ("embedded:///var/data", "embedded:///var/data"),
        ("embedded:///var/d@ta", "embedded:///var/d@ta"),
        ("embedded://", "embedded://"),
        ("redis://u:se/cret@h", "redis://h"),
        ("redis://u:se?cret@h", "redis://"),
        ("redis://h/0?password=se@cret", "redis://"),
        ("secret", "(a URL that cannot be read)"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    """User, password and query are left out wherever a URL is shown."""
    assert shown_url(url) == shown
