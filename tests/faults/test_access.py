"""Passwords and permissions: clear errors, no secret in them, and nothing half stored."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_redis import (
    AccessDenied,
    AsyncRedisMemory,
    History,
    MemoryRedisError,
    RedisMemory,
    SlidingExpiry,
    ai,
    human,
)
from memory_redis.retention import MaxMessages
from memory_redis.testing import AsyncView
from tests.faults.test_server_down import CALLS
from tests.faults.ways import OWN, Way
from tests.scenarios.stored import eventually
from tests.support.servers import Binary, Server, binaries

pytestmark = pytest.mark.anyio

PASSWORD = "correct-horse-battery"
WRONG = "wrong-horse-wrong-battery"


@pytest.fixture(scope="module", params=binaries(), ids=lambda binary: binary.version)
def guarded(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that wants a password."""
    binary: Binary = request.param
    with Server(binary, password=PASSWORD) as server:
        yield server


def opened(face: str, url: str, **options: Any) -> Any:
    """A memory of either face."""
    if face == "sync":
        return AsyncView(RedisMemory.from_url(url, **options))
    return AsyncRedisMemory.from_url(url, **options)


def everything_said(error: BaseException, log: pytest.LogCaptureFixture) -> str:
    """The error's text, repr and traceback with all that it hangs on, and the log."""
    seen: list[str] = []
    chain: BaseException | None = error
    while chain is not None:
        seen += [str(chain), repr(chain), repr(chain.args)]
        chain = chain.__cause__ or chain.__context__
    return "\n".join([*seen, *traceback.format_exception(error), log.text])


@pytest.mark.parametrize("way", OWN, ids=str)
@pytest.mark.parametrize("url", [f"redis://:{WRONG}@", f"redis://nobody:{WRONG}@", "redis://"])
@pytest.mark.parametrize("call", CALLS)
async def test_a_wrong_password_is_refused_at_once_and_shown_nowhere(
    way: Way, guarded: Server, call: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S6, P12: AccessDenied without any repeat; no password in text, repr, traceback or log."""
    caplog.set_level(logging.DEBUG)
    address = f"{url}{guarded.host}:{guarded.port}/0"
    memory = opened(way.face, address)
    with pytest.raises(AccessDenied) as caught:
        await CALLS[call](memory)
    said = everything_said(caught.value, caplog)
    assert WRONG not in said
    assert PASSWORD not in said
    assert WRONG not in repr(memory)
    if call == "append":
        assert caught.value.outcome == "not_stored"
    await memory.aclose()
    await eventually(lambda: int(guarded.info()["connected_clients"]) <= 2, "its connections are closed")


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_the_right_password_is_shown_nowhere_either(
    guarded: Server, face: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S6: also where the server goes away while it is used."""
    caplog.set_level(logging.DEBUG)
    url = guarded.url.replace(str(guarded.port), "9")  # nobody listens on the discard port
    memory = opened(face, url, deadline=0.1)
    content = "-".join(["never", "to", "be", "shown"])
    with pytest.raises(MemoryRedisError) as caught:
        await memory.history("ann", "c").append(human(content))
    said = everything_said(caught.value, caplog) + repr(memory) + repr(memory.history("ann", "c"))
    assert PASSWORD not in said
    assert content not in said
    await memory.aclose()


@pytest.fixture
def allowed(guarded: Server, namespace: str) -> Iterator[Server]:
    """The server with a user `app` that may do everything in this test's namespace."""
    guarded.ask("ACL", "SETUSER", "app", "reset", "on", f">{PASSWORD}", f"~{namespace}:*", "+@all")
    yield guarded
    guarded.ask("ACL", "DELUSER", "app")


def deny(server: Server, command: str) -> None:
    server.ask("ACL", "SETUSER", "app", f"-{command}")


WORDS = [
    *("evalsha", "eval", "hmget", "llen", "time", "lrange", "rpush", "hset", "pexpireat", "ltrim"),
    *("zadd", "zrevrange", "pttl", "hget", "hgetall", "del", "expire", "pexpire", "persist", "zscore"),
]


@pytest.mark.parametrize("first", [True, False], ids=["first append", "later append"])
@pytest.mark.parametrize("word", WORDS)
def test_a_command_that_is_not_allowed_leaves_no_half_append(
    allowed: Server, namespace: str, word: str, first: bool
) -> None:
    """P3, P4, F21: AccessDenied says "not stored", and then nothing is; or the append is whole."""
    url = f"redis://app:{PASSWORD}@{allowed.host}:{allowed.port}/0"
    options: dict[str, Any] = {
        "namespace": namespace,
        "expiry": SlidingExpiry(60),
        "retention": MaxMessages(3),
    }
    with (
        RedisMemory.from_url(url, **options) as memory,
        RedisMemory.from_url(allowed.url, namespace=namespace) as operator,
    ):
        history, truth = memory.history("ann", "c"), operator.history("ann", "c")
        before: list[str] = []
        if not first:
            history.append(human("1"), human("2"), human("3"))
            before = ["1", "2", "3"]
        deny(allowed, word)
        try:
            version = history.append(human("4"), ai("5"))
        except AccessDenied as error:
            outcome = error.outcome
        else:
            outcome = "stored"
        if outcome != "stored":
            assert outcome == "not_stored"
            assert [message.text for message in truth.load().messages] == before
        else:
            assert truth.load().version == version
            assert [message.text for message in truth.load().messages] == [*before, "4", "5"][-3:]
            assert truth.expire_in() is not None
        allowed.ask("ACL", "SETUSER", "app", "+@all")
        history.append(human("6"))
        assert truth.load().messages[-1].text == "6"


ENDS: list[tuple[Callable[[History], bool], str | None, float]] = [
    (lambda history: history.expire(SlidingExpiry(3600)), "idle 3600000 0 0", 3600),
    (lambda history: history.expire(SlidingExpiry(20)), "idle 20000 0 0", 20),
    (lambda history: history.pin(), "none 0 0 0", 0),
    (lambda history: history.expire_at(datetime(2200, 1, 1, tzinfo=UTC)), "at 7258118400000 0 0", 4e9),
    (lambda history: history.expire(None), None, 60),
]
"""What gives a conversation another end, the terms that it has of its own then, and about how long."""


END_WORDS = [
    *("evalsha", "hmget", "llen", "time", "hset", "hdel", "pexpireat", "persist"),
    *("zadd", "zrevrange", "pttl"),
]


@pytest.mark.parametrize("word", END_WORDS)
def test_a_command_that_is_not_allowed_leaves_no_half_end(allowed: Server, namespace: str, word: str) -> None:
    """P3, F21, B03: the end and the terms that it comes of are changed together, or neither is."""
    url = f"redis://app:{PASSWORD}@{allowed.host}:{allowed.port}/0"
    meta = f"{namespace}:{{ann:c}}:meta"

    def state() -> tuple[str | None, set[int]]:
        ends = {int(allowed.ask("PEXPIRETIME", key)) for key in (meta, meta.replace("meta", "messages"))}
        own: str | None = allowed.ask("HGET", meta, "p")
        return own, ends

    with RedisMemory.from_url(url, namespace=namespace, expiry=SlidingExpiry(60)) as memory:
        history = memory.history("ann", "c")
        for own in (None, SlidingExpiry(90)):
            for change, text, seconds in ENDS:
                history.clear()
                history.append(human("1"))
                history.expire(own)
                before = state()
                deny(allowed, word)
                try:
                    assert change(history)
                except AccessDenied:
                    assert state() == before
                else:
                    after, [end] = state()
                    left = end / 1000 - time.time()
                    assert after == text
                    assert 0.5 * seconds < left < 2 * seconds if seconds else end == -1
                allowed.ask("ACL", "SETUSER", "app", "+@all")
                assert change(history)
                assert state()[0] == text


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_a_namespace_that_is_not_allowed_is_refused_and_untouched(
    allowed: Server, way: Way, namespace: str
) -> None:
    """F21, P9: keys of another prefix are out of reach, and the error says so."""
    url = f"redis://app:{PASSWORD}@{allowed.host}:{allowed.port}/0"
    memory = opened(way.face, url, namespace="foreign")
    for call in ("append", "load", "count", "clear", "forget"):
        with pytest.raises(AccessDenied) as caught:
            await CALLS[call](memory)
        assert str(caught.value) == "the server does not allow this user the keys of the namespace"
        assert caught.value.outcome == "not_stored"
    await memory.aclose()
    assert allowed.ask("KEYS", "foreign:*") == []


NEEDED = [
    ("append", "evalsha"),
    ("append", "hmget"),
    ("append", "time"),
    ("append", "rpush"),
    ("load", "hmget"),
    ("load", "lrange"),
    ("forget", "zrevrangebyscore"),
    ("ping", "ping"),
]
"""A call, and a command that it cannot do without; some are sent, some are called by a script."""


@pytest.mark.parametrize("way", OWN, ids=str)
@pytest.mark.parametrize(("call", "word"), NEEDED, ids=str)
async def test_a_command_that_is_missing_is_named(
    allowed: Server, way: Way, namespace: str, call: str, word: str
) -> None:
    """F21, P12: so that the operator knows what to allow; Redis 7.0 does not say it of scripts."""
    memory = opened(way.face, f"redis://app:{PASSWORD}@{allowed.host}:{allowed.port}/0", namespace=namespace)
    await memory.history("ann", "c").append(human("1"))
    deny(allowed, word)
    with pytest.raises(AccessDenied) as caught:
        await CALLS[call](memory)
    await memory.aclose()
    by_script = word not in ("evalsha", "ping") and (call, word) not in SENT
    unnamed = by_script and allowed.version.startswith("Redis 7.0")
    name = "" if unnamed else f": {word.upper()}"
    assert str(caught.value) == f"the server does not allow a command that is needed{name}"


SENT = [("load", "hmget"), ("load", "lrange")]
"""Of these, what is sent as it is, and not called by a script."""


@pytest.mark.parametrize("way", OWN, ids=str)
async def test_a_database_that_the_user_may_not_select_is_told_at_once(
    allowed: Server, way: Way, namespace: str
) -> None:
    """F21: a URL with another database than 0 needs one command more, and the error names it."""
    deny(allowed, "select")
    url = f"redis://app:{PASSWORD}@{allowed.host}:{allowed.port}/1"
    memory = opened(way.face, url, namespace=namespace)
    with pytest.raises(AccessDenied, match="that is needed: SELECT") as caught:
        await CALLS["append"](memory)
    assert caught.value.outcome == "not_stored"
    await memory.aclose()
