"""Plans: what goes over the wire for a call, first and again."""

from __future__ import annotations

import pytest

from memory_redis._engine.plans import UNKNOWN_AGE, Call
from memory_redis._engine.scripts import ALL, APPEND, RENEW
from memory_redis._engine.settings import HOLD_MS


def sent(call: Call, age: int = 0, by_source: bool = False) -> tuple[bytes | str, ...]:
    """The words of a call; no number goes over the wire, for a client might write it in another way."""
    words = call.wire(age, by_source)
    assert all(isinstance(word, bytes | str) for word in words)
    return words


def test_a_command_is_sent_as_it_is() -> None:
    """Name, keys, arguments; an age means nothing to it."""
    call = Call("LRANGE", ("0", "-1"), keys=("k",))
    assert sent(call) == sent(call, 5) == sent(call, 5, by_source=True) == ("LRANGE", "k", "0", "-1")


def test_a_script_is_sent_by_its_hash_and_by_its_source_when_asked() -> None:
    """G27: EVALSHA, and EVAL for a server that lost its scripts; same keys, same arguments."""
    call = Call(RENEW, ("idle", "1000"), keys=("k", "m"))
    assert sent(call) == ("EVALSHA", RENEW.sha, "2", "k", "m", "idle", "1000")
    assert sent(call, by_source=True) == ("EVAL", RENEW.source, "2", "k", "m", "idle", "1000")


@pytest.mark.parametrize("keys", [("k",), ("k", "m"), ("a", "b", "c")])
def test_a_timed_script_carries_the_age_in_its_second_argument(keys: tuple[str, ...]) -> None:
    """Decision 1: each repeat passes the milliseconds since its first send; all else is the same."""
    call = Call(APPEND, (b"id", "0", "r", "5"), keys=keys, timed=True)
    first, again = sent(call), sent(call, 1234)
    assert first == ("EVALSHA", APPEND.sha, str(len(keys)), *keys, b"id", "0", "r", "5")
    assert again == ("EVALSHA", APPEND.sha, str(len(keys)), *keys, b"id", "1234", "r", "5")
    assert sent(call, 1234, by_source=True)[2:] == again[2:]
    assert sent(call) == first


def test_a_script_that_is_not_timed_carries_no_age() -> None:
    """Decision 1: only scripts that recognise their repeats have a place for it."""
    call = Call(RENEW, ("idle", "1000"), keys=("k", "m"))
    assert call.wire(1234) == call.wire()


def test_an_unknown_age_is_longer_than_any_ring_reaches_back() -> None:
    """Decision 1: and an integer that Lua holds exactly."""
    assert UNKNOWN_AGE > 366 * 86_400_000 > HOLD_MS
    assert UNKNOWN_AGE < 2**53
    assert HOLD_MS == 100_000


def test_scripts_are_told_apart_by_their_hash() -> None:
    """G27: the hash is that of the source which is sent in its place."""
    import hashlib

    assert len({script.sha for script in ALL}) == len(ALL)
    for script in ALL:
        assert script.sha == hashlib.sha1(script.source).hexdigest().encode()
