"""Many writers while the network loses a request or a reply every 40 ms."""

from __future__ import annotations

import random
import time
from functools import partial

from memory_redis import RedisMemory
from tests.faults.ways import SCRIPTS
from tests.faults.worker import Job, Operation, Over, Workers, read_of
from tests.support.elle_append import check
from tests.support.fault_proxy import FaultProxy

APPENDS, FAULTS = 100, 60
CONVERSATIONS = ["c1", "c2", "c3"]


def final_reads(memory: RedisMemory, conversations: list[str]) -> list[Operation]:
    """What stands in each conversation in the end."""
    reads = []
    for name in conversations:
        start = time.monotonic()
        snapshot = memory.history("ann", name).load()
        reads.append(read_of(name, "final", snapshot, start, final=True))
    return reads


def harm(proxy: FaultProxy, over: Over) -> None:
    """A fault each 40 ms, one at a time; then everything is well again."""
    faults = (
        lambda: proxy.drop_reply(SCRIPTS, how="close"),
        lambda: proxy.drop_reply(SCRIPTS, how="reset"),
        lambda: proxy.drop_reply(SCRIPTS, how="hang"),
        lambda: proxy.drop_request(SCRIPTS, how="close"),
        lambda: proxy.truncate_reply(random.randint(1, 30), SCRIPTS),
    )
    for _ in range(FAULTS):
        rule = random.choice(faults)()
        time.sleep(0.04)  # the pace of the faults
        while not rule.hits and not over():
            time.sleep(0.005)
    proxy.heal()


def test_a_load_under_faults_loses_and_doubles_nothing(
    proxy: FaultProxy, direct: RedisMemory, namespace: str
) -> None:
    """F1, P1 to P9: half of the appends carry a version; every outcome is known, every list is clean."""
    jobs = [
        Job(
            name=f"w{number}",
            port=proxy.port,
            namespace=namespace,
            conversations=CONVERSATIONS,
            face=face,
            kind=kind,
            timeout=1,
            options={"deadline": 60},
            tasks=3,
            appends=APPENDS,
            expected=0.5,
            reads=0.15,
            pause=0.02,
        )
        for number, (face, kind) in enumerate(
            [("sync", "own"), ("async", "own"), ("sync", "Redis()"), ("async", "decode_responses")]
        )
    ]
    with Workers(*jobs) as workers:
        workers.begin()
        operations, counts = workers.end_while(partial(harm, proxy))
    operations += final_reads(direct, CONVERSATIONS)
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert [operation["error"] for operation in operations if "error" in operation] == []
    assert result["stats"].get("append_unknown", 0) == 0
    assert result["stats"]["append_ok"] >= 200
    assert counts["repeat"] >= 10


def test_eight_processes_append_a_thousand_messages_each_into_one_conversation(
    direct: RedisMemory, namespace: str, proxy: FaultProxy
) -> None:
    """P1, P2, P5, A05, A11: 0 lost, 0 doubled, each writer's order is kept."""
    port = proxy.upstream[1]
    jobs = [
        Job(
            name=f"w{number}",
            port=port,
            namespace=namespace,
            conversations=["c"],
            face=("sync", "async")[number % 2],
            appends=1000,
            most=1,
        )
        for number in range(8)
    ]
    with Workers(*jobs) as workers:
        workers.begin()
        operations, _ = workers.end()
    operations += final_reads(direct, ["c"])
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert result["stats"]["append_ok"] == 8000
    texts = operations[-1]["values"]
    for number in range(8):
        own = [text for text in texts if text.startswith(f"w{number}.")]
        assert own == [f"w{number}.0:{value}" for value in range(1000)]


def test_eight_processes_that_expect_a_version_and_try_again_all_get_through(
    direct: RedisMemory, namespace: str, proxy: FaultProxy
) -> None:
    """P3, P5, P8: a refused append stored nothing, an accepted one stands right after what it saw."""
    port = proxy.upstream[1]
    jobs = [
        Job(
            name=f"w{number}",
            port=port,
            namespace=namespace,
            conversations=["c"],
            face=("sync", "async")[number % 2],
            appends=45,
            expected=1.0,
            until_stored=True,
        )
        for number in range(8)
    ]
    with Workers(*jobs) as workers:
        workers.begin()
        operations, counts = workers.end()
    operations += final_reads(direct, ["c"])
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert result["stats"]["append_ok"] == 360
    assert counts["conflict"] >= 1
