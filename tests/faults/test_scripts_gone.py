"""The server forgets its scripts: under load, and by a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_redis import LastMessages, RedisMemory, SlidingExpiry, ai, human
from tests.faults.conftest import Connect
from tests.faults.test_load_with_faults import CONVERSATIONS, final_reads
from tests.faults.ways import OWN, WAYS, Way
from tests.faults.worker import Job, Over, Workers
from tests.support.elle_append import check
from tests.support.servers import Binary, Server, binaries, wait_until

pytestmark = pytest.mark.anyio

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=binaries(), ids=lambda binary: binary.version)
def durable(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own that loses nothing by a crash."""
    binary: Binary = request.param
    with Server(binary, *DURABLE) as server:
        yield server


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_every_call_reloads_a_script_that_is_gone(connect: Connect, valkey: Server) -> None:
    """G27, F4: SCRIPT FLUSH before each call; none of them shows it, none of them doubles."""
    memory = connect(valkey.port, timeout=5, expiry=SlidingExpiry(minutes=5, on_read=True))
    history = memory.history("ann", "c")

    def flush() -> None:
        valkey.ask("SCRIPT", "FLUSH")

    flush()
    seen = await history.append(human("1"))
    flush()
    await history.append(ai("2"), expected=seen)
    flush()
    async with history.turn(idempotency_key="key") as turn:
        flush()
        turn.add(human("3"))
    flush()
    snapshot = await history.load()
    assert [message.text for message in snapshot.messages] == ["1", "2", "3"]
    flush()
    assert len((await history.load(LastMessages(2))).messages) == 2
    flush()
    assert [info.messages async for info in memory.conversations("ann")] == [3]
    flush()
    assert await history.clear() == 3
    await history.append(human("4"))
    flush()
    forgotten = await memory.forget("ann")
    assert (forgotten.conversations, forgotten.messages) == (1, 1)


def test_no_error_reaches_anybody_while_scripts_are_flushed_ten_times_a_second(
    valkey: Server, direct: RedisMemory, namespace: str
) -> None:
    """F4, G27: 0 errors, 0 lost, 0 doubled."""

    def flush(over: Over) -> None:
        while not over():
            valkey.ask("SCRIPT", "FLUSH")
            time.sleep(0.1)  # the pace of the flushes

    jobs = [
        Job(
            name=f"w{number}",
            port=valkey.port,
            namespace=namespace,
            conversations=CONVERSATIONS,
            face=face,
            kind=kind,
            tasks=2,
            appends=100,
            expected=0.3,
            reads=0.15,
            pause=0.002,
        )
        for number, (face, kind) in enumerate([("sync", "own"), ("async", "own"), ("async", "Redis()")])
    ]
    with Workers(*jobs) as workers:
        workers.begin()
        operations, _ = workers.end_while(flush)
    operations += final_reads(direct, CONVERSATIONS)
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert [operation["error"] for operation in operations if "error" in operation] == []
    assert result["stats"].get("append_unknown", 0) == 0
    assert result["stats"]["append_ok"] >= 200


@pytest.mark.parametrize("way", [*OWN, Way("sync", "Redis()"), Way("async", "Redis()")], ids=str)
async def test_a_restarted_server_is_used_again_without_an_error(connect: Connect, durable: Server) -> None:
    """F4, G27, P1: connections and scripts are gone, the conversation, its version and its ids are not."""
    memory = connect(durable.port, timeout=5)
    history = memory.history("ann", "c")
    seen = await history.append(human("1"))
    keyed = await history.append(ai("2"), idempotency_key="key")
    durable.restart()
    again = await history.append(ai("2"), idempotency_key="key")
    assert (again, again.repeated) == (keyed, True)
    assert (await history.append(human("3"), expected=keyed)).number == 3
    assert seen.number == 1
    durable.kill()
    durable.start()
    assert [message.text for message in (await history.load()).messages] == ["1", "2", "3"]
    assert [info.conversation_id async for info in memory.conversations("ann")] == ["c"]


def test_a_server_that_goes_and_comes_back_under_load_loses_and_doubles_nothing(
    durable: Server, namespace: str
) -> None:
    """F5, P1, P2: appendfsync always, a kill -9 and a shutdown: all that was acknowledged is there."""
    jobs = [
        Job(
            name=f"w{number}",
            port=durable.port,
            namespace=namespace,
            conversations=CONVERSATIONS,
            face=("sync", "async")[number % 2],
            tasks=2,
            appends=200,
            expected=0.3,
            reads=0.1,
            pause=0.005,
        )
        for number in range(2)
    ]
    with RedisMemory.from_url(durable.url, namespace=namespace) as memory:

        def stored() -> int:
            return sum(memory.history("ann", name).count() for name in CONVERSATIONS)

        with Workers(*jobs) as workers:
            workers.begin()
            for end, load in ((durable.kill, 100), (durable.stop, 300)):
                wait_until(lambda load=load: stored() >= load, "there is some load before the fault")
                end()
                time.sleep(0.2)  # the time it is down
                durable.start()
            operations, _ = workers.end()
        operations += final_reads(memory, CONVERSATIONS)
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert [operation["error"] for operation in operations if "error" in operation] == []
    assert result["stats"].get("append_unknown", 0) == 0
    assert result["stats"]["append_ok"] >= 100
    assert any(Path(durable.folder).glob("appendonly*"))
