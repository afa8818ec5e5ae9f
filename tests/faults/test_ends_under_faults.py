"""Ends and limits where the connection breaks, or the server has no room: whole, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from memory_redis import MaxBytes, MaxMessages, NoExpiry, SlidingExpiry, StorageFull, human
from tests.faults.conftest import Connect
from tests.faults.ways import SCRIPTS
from tests.support.fault_proxy import FaultProxy, Rule
from tests.support.servers import Binary, Server, binaries

pytestmark = pytest.mark.anyio

LATER = datetime(2200, 1, 1, tzinfo=UTC)


async def compact(history: Any) -> None:
    await history.compact("so far", expected=(await history.load()).version, keep=1)


CHANGES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "append": lambda history: history.append(human("3")),
    "expire": lambda history: history.expire(SlidingExpiry(90)),
    "expire_at": lambda history: history.expire_at(LATER),
    "pin": lambda history: history.pin(),
    "unset": lambda history: history.expire(None),
    "touch": lambda history: history.touch(),
    "load": lambda history: history.load(),
}
FAULTS: dict[str, Callable[[FaultProxy], Rule]] = {
    "request lost": lambda proxy: proxy.drop_request(SCRIPTS),
    "reply lost": lambda proxy: proxy.drop_reply(SCRIPTS),
    "second reply lost": lambda proxy: proxy.drop_reply(SCRIPTS, after=1),
}


def ends_of(plain: redis.Redis, namespace: str, name: str) -> set[int]:
    """When the keys of a conversation end."""
    return {plain.pexpiretime(f"{namespace}:{{ann:{name}}}:{part}") for part in ("messages", "meta")}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("change", CHANGES)
async def test_an_end_is_set_on_both_keys_or_on_none_when_the_connection_breaks(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str, change: str, fault: str
) -> None:
    """B14, B03: the repeat finds what was done; no key is left without the end that was asked for."""
    memory = connect(proxy.port, expiry=SlidingExpiry(60, on_read=True))
    for name in ("new", "pinned", "old"):
        history = memory.history("ann", name)
        if name != "new":
            await history.append(human("1"), human("2"))
        if name == "pinned":
            await history.pin()
        FAULTS[fault](proxy)
        await CHANGES[change](history)
        proxy.heal()
        [end] = ends_of(plain, namespace, name)
        own = plain.hget(f"{namespace}:{{ann:{name}}}:meta", "p")
        wanted = {"expire": SlidingExpiry(90).terms.text(), "pin": NoExpiry().terms.text()}
        if name == "new" and change != "append":
            assert (end, own) == (-2, None)
        elif change in wanted:
            assert own == wanted[change].encode()
            assert (end == -1) == (change == "pin")
        elif change == "expire_at":
            assert end == int(LATER.timestamp()) * 1000
        elif name == "pinned" and change != "unset":
            assert (end, own) == (-1, NoExpiry().terms.text().encode())
        else:
            assert own is None
            assert 0 < plain.pttl(f"{namespace}:{{ann:{name}}}:messages") <= 60_000


@pytest.fixture(scope="module", params=binaries(), ids=lambda binary: binary.version)
def small(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this module, on each binary, that evicts nothing."""
    binary: Binary = request.param
    with Server(binary, "--maxmemory-policy", "noeviction") as server:
        yield server


async def test_a_full_server_refuses_ends_and_summaries_whole(
    connect: Connect, small: Server, namespace: str
) -> None:
    """B16: StorageFull, and nothing is changed; a touch, dropped terms and reads work."""
    memory = connect(
        small.port, timeout=5, expiry=SlidingExpiry(60), retention=MaxMessages(2) & MaxBytes(10_000)
    )
    one, other = memory.history("ann", "one"), memory.history("ann", "other")
    for history in (one, other):
        await history.append(human("1"), human("2"))
    await other.expire(SlidingExpiry(90))
    with redis.Redis(port=small.port) as plain:
        before = plain.hgetall(f"{namespace}:{{ann:one}}:meta"), ends_of(plain, namespace, "one")
        small.ask("CONFIG", "SET", "maxmemory", 1024)
        try:
            for refused in (one.expire(SlidingExpiry(90)), one.pin(), one.expire_at(LATER), compact(one)):
                with pytest.raises(StorageFull):
                    await refused
            for refused in (one.append(human("3")), other.append(human("3"), human("4"), human("5"))):
                with pytest.raises(StorageFull):
                    await refused
            after = plain.hgetall(f"{namespace}:{{ann:one}}:meta"), ends_of(plain, namespace, "one")
            assert after == before
            plain.pexpire(f"{namespace}:{{ann:one}}:messages", 30_000)
            assert await one.touch() is True
            assert 55 < await one.expire_in() <= 60
            assert await other.expire(None) is True
            assert 55 < await other.expire_in() <= 60
            for history in (one, other):
                assert [message.text for message in (await history.load()).messages] == ["1", "2"]
        finally:
            small.ask("CONFIG", "SET", "maxmemory", 0)
    assert await one.pin() is True
    await one.append(human("3"))
    assert [message.text for message in (await one.load()).messages] == ["2", "3"]
