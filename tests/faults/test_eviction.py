"""A server that throws keys away: half a conversation is noticed, mended and never made worse."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import redis

from memory_redis import (
    AppendId,
    ConflictError,
    MemoryRedisError,
    RedisMemory,
    UnknownOutcome,
    Version,
    human,
)
from memory_redis.telemetry import Event
from tests.faults.conftest import Connect, Texts
from tests.faults.ways import SCRIPTS
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Binary, Server, binaries

pytestmark = pytest.mark.anyio


@pytest.fixture(params=binaries(), ids=lambda binary: binary.version)
def small(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with 2 MB for data, which evicts what was used longest ago, or nearly."""
    binary: Binary = request.param
    with Server(binary, "--maxmemory-policy", "allkeys-lru") as server:
        used = int(server.info()["used_memory"])
        server.ask("CONFIG", "SET", "maxmemory", used + 2_000_000)
        yield server


def test_eviction_of_halves_is_mended_and_versions_do_not_fall(small: Server, namespace: str) -> None:
    """F10, P7, P10: no exception, marked heals, and within one life the version only rises."""
    events: list[Event] = []
    seen: dict[int, Version] = {}
    sender, heals = random.Random(10), 0
    with RedisMemory.from_url(small.url, namespace=namespace, hooks=(events.append,)) as memory:
        for number in range(2500):
            which = min(int(sender.expovariate(0.04)), 150)  # some are used often, some hardly ever
            history = memory.history("ann", f"c{which}")
            version = history.append(human(f"{number} " + "x" * 2000))
            before = seen.get(which)
            if before is not None and before.birth == version.birth:
                assert version.number > before.number
            snapshot = history.load()
            if snapshot.version == version:  # else it was evicted at once
                assert snapshot.messages[-1].text.startswith(f"{number} ")
                assert snapshot.messages[-1].seq == version.number - 1
            elif snapshot.version.birth == version.birth:
                assert snapshot.version.number > version.number
            seen[which] = version
        heals = sum(event.kind == "heal" for event in events)
    assert int(small.info()["evicted_keys"]) > 100
    assert heals > 0


def test_a_token_from_before_an_eviction_is_never_accepted_by_mistake(small: Server, namespace: str) -> None:
    """F10, P7: whatever is accepted against a token stands right behind what the token stood for."""
    sender = random.Random(20)
    seen: dict[int, tuple[Version, str]] = {}
    accepted = refused = 0
    with RedisMemory.from_url(small.url, namespace=namespace, hooks=()) as memory:
        for number in range(1500):
            which = sender.randrange(120)
            history = memory.history("ann", f"c{which}")
            text = f"{number} " + "x" * 3000
            if which not in seen:
                seen[which] = history.append(human(text)), text
                continue
            token, last = seen[which]
            try:
                version = history.append(human(text), expected=token)
            except ConflictError:
                refused += 1
                seen[which] = history.append(human(text)), text
                continue
            accepted += 1
            texts = [message.text for message in history.load().messages]
            assert texts == [] or texts[-2:] == [last, text]
            seen[which] = version, text
    assert accepted > 0
    assert refused > 0


@pytest.fixture
def keys(namespace: str) -> dict[str, str]:
    return {name: f"{namespace}:{{ann:c}}:{name}" for name in ("messages", "meta")}


async def test_a_repeat_after_the_meta_is_gone_is_not_guessed(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, keys: dict[str, str], texts: Texts
) -> None:
    """Decision 1, P2: the ring went with the meta; repeat and settle() are unknown, and make no copy."""
    history = connect(proxy.port).history("ann", "c")
    await history.append(human("0"))
    append_id = AppendId.new()
    await history.append(human("1"), append_id=append_id)
    plain.delete(keys["meta"])
    with pytest.raises(UnknownOutcome):
        await history.settle(append_id)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"), append_id=append_id)
    assert caught.value.append_id == append_id
    assert texts("ann", "c") == ["0", "1"]
    await history.append(human("2"))
    assert texts("ann", "c") == ["0", "1", "2"]


async def test_a_repeat_after_the_messages_are_gone_is_recognised(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, keys: dict[str, str], texts: Texts
) -> None:
    """P2, P10: the ring is still there; what was evicted does not come back by a repeat."""
    history = connect(proxy.port).history("ann", "c")
    seen = await history.append(human("0"))
    append_id = AppendId.new()
    version = await history.append(human("1"), append_id=append_id)
    plain.delete(keys["messages"])
    again = await history.append(human("1"), append_id=append_id)
    assert (again, again.repeated) == (version, True)
    assert texts("ann", "c") == []
    for token in (seen, version):
        with pytest.raises(ConflictError) as caught:
            await history.append(human("2"), expected=token)
        assert caught.value.edited
        assert caught.value.outcome == "not_stored"
    assert (await history.append(human("2"))).number > version.number
    assert texts("ann", "c") == ["2"]


async def test_a_lost_reply_and_an_eviction_at_once_make_no_second_copy(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, keys: dict[str, str], texts: Texts
) -> None:
    """Decision 1, P9: the call that has to repeat finds the meta gone, and says that it does not know."""
    history = connect(proxy.port, deadline=1).history("ann", "c")
    await history.append(human("0"))
    proxy.drop_reply(SCRIPTS, times=10**6)
    with pytest.raises(UnknownOutcome) as caught:
        await history.append(human("1"))
    plain.delete(keys["meta"])
    proxy.heal()
    with pytest.raises(MemoryRedisError) as again:
        await history.append(human("1"), append_id=caught.value.append_id)
    assert again.value.outcome == "unknown"
    assert texts("ann", "c") == ["0", "1"]
