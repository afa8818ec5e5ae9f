"""Answers that no server of ours gives: from something in between, or meant for another command."""

from __future__ import annotations

import pytest

from memory_redis import AppendId, MemoryRedisError, ai, human
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import OWN, SCRIPTS, Way
from tests.support.fault_proxy import FaultProxy

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("way", [*OWN, Way("sync", "decode_responses"), Way("async", "Redis()")], ids=str),
]

NO_PROTOCOL = [b"?\r\n", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"\x00\x01\x02\r\n"]
ANOTHER_SHAPE = [
    *(b":1\r\n", b"+OK\r\n", b"$-1\r\n", b"*0\r\n", b"*1\r\n:1\r\n", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    b"*4\r\n:1\r\n:2\r\n$3\r\nabc\r\n:0\r\n",
]


def answer(proxy: FaultProxy, data: bytes, match: tuple[str, ...] = SCRIPTS) -> None:
    proxy.rewrite_reply(b"", match).extra["data"] = data


@pytest.mark.parametrize("data", NO_PROTOCOL, ids=repr)
async def test_what_is_no_protocol_is_a_lost_reply(
    connect: Connect, proxy: FaultProxy, texts: Texts, data: bytes
) -> None:
    """P2, P9: the connection is given up, the append is asked for again and recognised."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("0"))
    answer(proxy, data)
    version = await history.append(human("1"))
    assert (version.number, version.repeated) == (2, True)
    answer(proxy, data, ("LRANGE",))
    assert [message.text for message in (await history.load()).messages] == ["0", "1"]
    assert texts("ann", "c") == ["0", "1"]


@pytest.mark.parametrize("data", ANOTHER_SHAPE, ids=repr)
async def test_an_answer_that_cannot_be_ours_is_an_unknown_outcome(
    connect: Connect, proxy: FaultProxy, texts: Texts, data: bytes
) -> None:
    """P9, S9: never a bare TypeError, never "not stored" for what is stored; the id settles it."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("0"))
    append_id = AppendId.new()
    answer(proxy, data)
    with pytest.raises(MemoryRedisError) as caught:
        await history.append(human("1"), ai("2"), append_id=append_id)
    assert caught.value.outcome == "unknown"
    settled = await history.settle(append_id)
    assert settled.number == 3
    assert texts("ann", "c") == ["0", "1", "2"]


@pytest.mark.parametrize("data", [b":1\r\n", b"+OK\r\n", b"$1\r\nx\r\n", b"*1\r\n:1\r\n"], ids=repr)
async def test_a_read_that_gets_the_answer_of_another_command_is_a_clear_error(
    connect: Connect, proxy: FaultProxy, data: bytes
) -> None:
    """P9, S9: also for loads; and the next load is right."""
    history = connect(proxy.port, timeout=5).history("ann", "c")
    await history.append(human("0"))
    answer(proxy, data, ("HMGET",))
    with pytest.raises(MemoryRedisError):
        await history.load()
    assert [message.text for message in (await history.load()).messages] == ["0"]
