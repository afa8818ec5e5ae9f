"""The Lua scripts as texts: what they may use, how large they may be, what they say of themselves."""

from __future__ import annotations

import re

import pytest

from memory_redis._engine.scripts import ALL
from tests.unit.scripting import SHARED, SOURCES, Conversation

SCRIPTS = [name for name in SOURCES if name not in SHARED]


def code_of(name: str) -> list[str]:
    """The lines of a script without comments and blanks."""
    lines = [re.sub(r"\s*--.*$", "", line) for line in SOURCES[name].splitlines()]
    return [line for line in lines if line.strip()]


def test_every_script_is_loaded() -> None:
    """One Lua file for each operation, and no other."""
    assert {script.name for script in ALL} == set(SCRIPTS)
    assert "append" in SCRIPTS


@pytest.mark.parametrize("name", SOURCES)
def test_a_script_stays_small(name: str) -> None:
    """Decision 8: without comments, append has at most 90 lines, a shared part 110, every other script 45."""
    most = 90 if name == "append" else 110 if name in SHARED else 45
    assert len(code_of(name)) <= most
    assert max(map(len, SOURCES[name].splitlines())) <= 120


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(
    "library", ["struct", "cmsgpack", "bit", "cjson", "os", "io", "debug", "load", "require"]
)
def test_a_script_uses_no_library_that_a_server_may_lack(name: str, library: str) -> None:
    """Decision 8: only what Redis, Valkey and fakeredis all have."""
    assert not re.search(rf"\b{library}\b\s*[.(]", "\n".join(code_of(name)))


FORBIDDEN = (
    "KEYS",
    "SCAN",
    "FLUSHALL",
    "FLUSHDB",
    "EVAL",
    "EVALSHA",
    "WAIT",
    "PUBLISH",
    "EXPIRE",
    "SORT",
    "RANDOMKEY",
)


@pytest.mark.parametrize("name", SOURCES)
def test_a_script_walks_no_keyspace_and_waits_for_nothing(name: str) -> None:
    """H20: no KEYS, no SCAN, no expiry in whole seconds, nothing that is refused inside a script."""
    called = set(re.findall(r"redis\.p?call\(\s*'([A-Za-z]+)'", "\n".join(code_of(name))))
    assert called
    assert called.isdisjoint(FORBIDDEN)
    assert called == {command.upper() for command in called}


@pytest.mark.parametrize("name", SOURCES)
def test_a_script_names_its_keys_by_argument(name: str) -> None:
    """G08, G28: no key is made inside a script, so a cluster can send it to the right node."""
    code = "\n".join(code_of(name))
    assert "setresp" not in code
    assert not SOURCES[name].startswith("#!")
    for first in re.findall(r"redis\.p?call\(\s*'[A-Z]+'\s*,\s*([^,)]+)", code):
        assert first.strip() in {"list", "meta", "index", "KEYS[1]", "KEYS[2]"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_takes_and_gives(name: str) -> None:
    """Decision 8: keys, arguments and reply are documented at its top."""
    head = SOURCES[name].split("\n\n", 1)[0] + SOURCES[name].split("\nlocal", 1)[0]
    for word in ("KEYS", "ARGV", "Reply"):
        assert f"-- {word}" in head


def test_the_layout_number_stands_in_the_meta() -> None:
    """Decision 18: a later release can tell what it finds."""
    one = Conversation()
    one.append(b"a" * 12, b"\x01record")
    assert one.field("y") == b"1"
    one.clear(b"b" * 12)
    assert one.field("y") == b"1"


def test_the_fields_of_a_meta_are_these() -> None:
    """Decision 18, J02: a changed name of a field would lose what stored conversations have."""
    one = Conversation()
    one.append(b"a" * 12, b"\x01record")
    assert set(one.client.hkeys(one.meta)) == {b"y", b"b", b"v", b"l", b"r", b"n", b"c"}
    one.append(b"k" * 12, b"\x01record", b"\x01record", ring="k", keep=1)
    assert set(one.client.hkeys(one.meta)) == {b"y", b"b", b"v", b"l", b"r", b"k", b"n", b"c", b"t", b"e"}
    other = Conversation()
    other.append(b"a" * 12, b"\x01record", index="-")
    assert {b"i", b"j"} <= set(other.client.hkeys(other.meta))
    other.clear(b"b" * 12)
    assert set(other.client.hkeys(other.meta)) <= {
        b"y",
        b"b",
        b"v",
        b"t",
        b"l",
        b"r",
        b"dr",
        b"k",
        b"dk",
        b"e",
        b"z",
    }
