"""A process that appends through a summarising strategy; its model tells Redis what it was asked.

    python -m tests.faults.summarising '{"name": "w1", "port": 6379, "namespace": "n", ...}'

It says "ready", waits for a line, works, and prints its appends as lines of JSON for the checker, a line
of counts last. With `hang` its model says "asking" and never answers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

import redis

from memory_redis import MaxMessages, SlidingExpiry, StoredMessage, human
from memory_redis.telemetry import Event
from tests.faults.ways import HOST, Way
from tests.faults.worker import ROOT, Operation
from tests.scenarios.remembering import IN_FRONT, SUMMARY, over

SESSION = "c"


@dataclass(kw_only=True)
class Job:
    """What one process does."""

    name: str
    port: int
    namespace: str
    face: str = "sync"
    appends: int = 100
    buffer_size: int = 10
    model_seconds: float = 60
    keep: int = 0
    """Messages that retention keeps; 0 for all."""
    expiry: float = 0
    """Seconds after which the conversation ends; 0 for never."""
    hang: bool = False


@dataclass(frozen=True)
class Asked:
    """What a model was asked: the summary before, the texts; and what it answered."""

    before: str | None
    texts: list[str]
    answer: str


class Model:
    """Answers with a name that nobody else gives, and leaves a record of the question."""

    def __init__(self, job: Job) -> None:
        self.job, self.calls = job, 0
        self.client = redis.Redis(host=HOST, port=job.port)

    def __call__(self, given: Sequence[StoredMessage]) -> str:
        lines = given[0].text.split("\n")[2:]
        before = lines.pop(0).removeprefix(f"system: {IN_FRONT}") if lines[0].startswith("system: ") else None
        self.calls += 1
        asked = Asked(
            before, [line.removeprefix("human: ") for line in lines], f"{self.job.name}/{self.calls}"
        )
        self.client.rpush(f"{self.job.namespace}:asked", json.dumps(asdict(asked)))
        if self.job.hang:
            print("asking", flush=True)
            threading.Event().wait()
        return asked.answer


def asked_of(client: redis.Redis, namespace: str) -> list[Asked]:
    """What all models were asked, in order."""
    return [Asked(**json.loads(line)) for line in client.lrange(f"{namespace}:asked", 0, -1)]


async def work(job: Job) -> None:
    counts: Counter[str] = Counter()

    def count(event: Event) -> None:
        counts[event.kind] += 1

    options: dict[str, Any] = {"namespace": job.namespace, "hooks": (count,)}
    if job.keep:
        options["retention"] = MaxMessages(job.keep)
    if job.expiry:
        options["expiry"] = SlidingExpiry(job.expiry)
    operations: list[Operation] = []
    async with AsyncExitStack() as stack:
        model = Model(job)
        stack.callback(model.client.close)
        memory = Way(job.face, "own").open(stack, job.port, 5.0, **options)
        store = over(memory, SUMMARY, model, job.buffer_size, model_seconds=job.model_seconds)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(job.appends):
            value, start = f"{job.name}:{number}", time.monotonic()
            version = await store.append(SESSION, human(value))
            operations.append(
                {
                    "op": "append",
                    "process": job.name,
                    "key": SESSION,
                    "values": [value],
                    "status": "ok",
                    "version": version.number,
                    "start": start,
                    "end": time.monotonic(),
                }
            )
    for operation in operations:
        print(json.dumps(operation))
    print(json.dumps({**counts, "calls": model.calls}), flush=True)


class Processes:
    """Processes of one job each, that begin together."""

    def __init__(self, *jobs: Job) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.summarising", json.dumps(asdict(job))],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for job in jobs
        ]
        self.says("ready")

    def says(self, word: str) -> None:
        """Wait until each has said so."""
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{word}\n"

    def begin(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def kill(self) -> None:
        """End all of them with SIGKILL."""
        for process in self.processes:
            process.kill()
            process.communicate()

    def end(self, seconds: float = 240) -> tuple[list[Operation], Counter[str]]:
        """The appends of all, and how often each event was told to their hooks."""
        operations: list[Operation] = []
        counts: Counter[str] = Counter()
        for process in self.processes:
            output, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0
            *lines, last = output.splitlines()
            operations += map(json.loads, lines)
            counts.update(json.loads(last))
        return operations, counts

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


if __name__ == "__main__":
    asyncio.run(work(Job(**json.loads(sys.argv[1]))))
