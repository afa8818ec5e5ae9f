"""One wrapped model and one conversation, used by many threads, tasks and processes at once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memory_redis import AsyncRedisMemory, ConflictError, RedisMemory, TurnReport, exchanges, with_history
from tests.faults.chatting import SHARED, WORKERS, Told, answer, check, wrapped
from tests.faults.worker import ROOT
from tests.scenarios.chats import KINDS
from tests.support.servers import Server

POLICIES = ["append", "raise", "retry"]
THREADED = [*(("function", policy) for policy in POLICIES), ("generator", "append")]
AWAITED = [*(("coroutine", policy) for policy in POLICIES), ("asynchronous generator", "append")]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses before a model is run again are as many as ever, but short."""
    monkeypatch.setattr(exchanges, "_FIRST_PAUSE", 0.001)


def all_of(direct: RedisMemory) -> Any:
    return direct.history("ann", "shared").load().messages


def in_threads(work: Callable[[int], object], count: int = WORKERS) -> None:
    """The work in so many threads that begin together."""
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(run, number) for number in range(count)]:
            future.result()


@pytest.mark.parametrize(
    ("kind", "policy"), [*(("function", one) for one in POLICIES), ("generator", "append")]
)
def test_eight_threads_of_fifty_turns(
    valkey: Server, namespace: str, direct: RedisMemory, kind: str, policy: str
) -> None:
    """T2, T8, T9: each question before its own answer, none lost, none doubled, none stale."""
    told = [Told(str(number)) for number in range(WORKERS)]
    with RedisMemory.from_url(valkey.url, namespace=namespace, max_connections=5) as memory:
        chat = wrapped(kind, policy, memory)
        in_threads(lambda number: told[number].work(chat))
    check(policy, all_of(direct), told)


@pytest.mark.parametrize(
    ("kind", "policy"), [*(("coroutine", one) for one in POLICIES), (KINDS[3], "append")]
)
def test_eight_tasks_of_fifty_turns(
    valkey: Server, namespace: str, direct: RedisMemory, kind: str, policy: str
) -> None:
    """T2, T8, T9: the same in one event loop."""
    told = [Told(str(number)) for number in range(WORKERS)]

    async def main() -> None:
        async with AsyncRedisMemory.from_url(valkey.url, namespace=namespace, max_connections=5) as memory:
            chat = wrapped(kind, policy, memory)
            await asyncio.gather(*(one.work_later(chat) for one in told))

    asyncio.run(main())
    check(policy, all_of(direct), told)


FORKED = [("function", "append"), ("generator", "raise"), ("coroutine", "retry"), (KINDS[3], "append")]


@pytest.mark.parametrize(("kind", "policy"), FORKED)
def test_eight_forked_processes_of_fifty_turns(
    valkey: Server, namespace: str, direct: RedisMemory, kind: str, policy: str
) -> None:
    """T2, T8, T9: children of a process that had used the wrapped model before the fork."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.faults.chatting", kind, policy, valkey.url, namespace],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stderr) == (0, "")
    told = []
    for line in run.stdout.splitlines():
        worker, stored, raised = json.loads(line)
        one = Told(worker)
        one.stored, one.raised = stored, raised
        told.append(one)
    assert len(told) == WORKERS
    messages = all_of(direct)
    assert [messages[at].text for at in (0, -2)] == ["parent, before", "parent, afterwards"]
    check(policy, messages, told)


def test_both_faces_and_all_kinds_at_once(valkey: Server, namespace: str, direct: RedisMemory) -> None:
    """T2, T8, T10: two workers of each kind over one memory and its twin."""
    memory = RedisMemory.from_url(valkey.url, namespace=namespace)
    told = [Told(str(number)) for number in range(WORKERS)]

    def work(number: int) -> None:
        kind = KINDS[number % 4]
        chat = wrapped(kind, "append", memory)
        if kind in ("function", "generator"):
            told[number].work(chat)
        else:
            asyncio.run(told[number].work_later(chat))

    in_threads(work)
    memory.close()
    check("append", all_of(direct), told)


def test_a_batch_of_many_messages_stays_together(valkey: Server, namespace: str, direct: RedisMemory) -> None:
    """A06, T8: 20 rounds of two workers with ten messages in and ten out; each turn is contiguous."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        chat = with_history(lambda given: [f"answer {message.text}" for message in given[-10:]], memory)

        def work(worker: int) -> None:
            for number in range(20):
                chat([f"{worker}.{number}.{at}" for at in range(10)], **SHARED)

        in_threads(work, 2)
    stored = [message.text for message in all_of(direct)]
    assert len(stored) == 2 * 20 * 20
    for at in range(0, len(stored), 20):
        asked = stored[at : at + 10]
        assert [text.rsplit(".", 1)[1] for text in asked] == list("0123456789")
        assert len({text.rsplit(".", 1)[0] for text in asked}) == 1
        assert stored[at + 10 : at + 20] == [f"answer {text}" for text in asked]


@pytest.mark.parametrize("save_input", ["after", "before"])
def test_a_request_that_eight_workers_send_at_once_is_stored_once(
    valkey: Server, namespace: str, direct: RedisMemory, save_input: Any
) -> None:
    """Decision 5: they may run the model, but all of them give the one stored answer."""
    rounds = 20
    answers: list[list[str]] = [[] for _ in range(rounds)]
    reports: list[list[TurnReport]] = [[] for _ in range(rounds)]
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        barrier = threading.Barrier(WORKERS)

        def work(worker: int) -> None:
            chat = with_history(lambda given: f"by {worker}", memory, save_input=save_input)
            for number in range(rounds):
                barrier.wait()
                report = TurnReport()
                key = f"request {number}"
                answers[number].append(chat(key, **SHARED, idempotency_key=key, report=report))
                reports[number].append(report)

        in_threads(work)
    stored = [message.text for message in all_of(direct)]
    assert stored[::2] == [f"request {number}" for number in range(rounds)]
    assert stored[1::2] == [one[0] for one in answers]
    for one in answers:
        assert len(set(one)) == 1
    for group in reports:
        assert all(report.saved for report in group)
        assert [report.repeated for report in group].count(False) == 1


def test_turns_of_policy_raise_have_one_winner_for_each_version(
    valkey: Server, namespace: str, direct: RedisMemory
) -> None:
    """T9: 8 workers that all answered on the same version; one is stored, seven are told."""
    rounds = 20
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        loaded, done = threading.Barrier(WORKERS), threading.Barrier(WORKERS)
        told = [Told(str(number)) for number in range(WORKERS)]

        def model(given: Any) -> str:
            loaded.wait()  # until all have loaded
            return answer(given)

        chat = with_history(model, memory, on_conflict="raise")

        def work(number: int) -> None:
            for turn in range(rounds):
                name = f"{number}.{turn}"
                try:
                    chat(name, **SHARED)
                except ConflictError:
                    told[number].raised.append(name)
                else:
                    told[number].stored.append(name)
                done.wait()

        in_threads(work)
    asked = [message.text for message in all_of(direct)[::2]]
    assert [message.text.split(" after ")[1] for message in all_of(direct)[1::2]] == ["nothing", *asked[:-1]]
    assert sorted(asked) == sorted(name for one in told for name in one.stored)
    assert len(asked) == rounds
    assert sum(len(one.raised) for one in told) == rounds * (WORKERS - 1)
