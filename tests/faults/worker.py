"""A process that appends and reads as it is told, and logs it for the checker.

    python -m tests.faults.worker '{"name": "w1", "port": 6379, "conversations": ["c1"], ...}'

It says "ready", waits for a line, works, and prints its operations as lines of JSON, a line of
counts last.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory_redis import (
    ConflictError,
    LastMessages,
    MemoryRedisError,
    Snapshot,
    UnknownOutcome,
    Version,
    human,
)
from memory_redis.telemetry import Event
from tests.faults.ways import Way

ROOT = Path(__file__).parents[2]
Operation = dict[str, Any]
Over = Callable[[], bool]
"""Whether all processes have ended."""


@dataclass(kw_only=True)
class Job:
    """What one process does: `tasks` writers, for `seconds` or until each made `appends`."""

    name: str
    port: int
    namespace: str
    conversations: list[str]
    face: str = "sync"
    kind: str = "own"
    timeout: float = 5.0
    options: dict[str, Any] = field(default_factory=dict)
    tasks: int = 1
    seconds: float = 200.0
    appends: int = 10**9
    expected: float = 0.0
    """The share of appends that name the version they were made for."""
    until_stored: bool = False
    """Whether a conflict is met with another try against the version it names."""
    reads: float = 0.0
    """The share of operations that are loads of the last 50 messages."""
    most: int = 2
    """Messages of one append, at most."""
    pause: float = 0.0
    """Seconds between two operations."""


class Writer:
    """One task of a job, with a name of its own in the log."""

    def __init__(self, job: Job, number: int, memory: Any) -> None:
        self.job, self.name = job, f"{job.name}.{number}"
        self.histories = {name: memory.history("ann", name) for name in job.conversations}
        self.versions: dict[str, Version] = {}
        self.log: list[Operation] = []
        self.random = random.Random(self.name)
        self.values = (f"{self.name}:{number}" for number in itertools.count())

    async def run(self) -> None:
        job, until = self.job, time.monotonic() + self.job.seconds
        made = 0
        while made < job.appends and time.monotonic() < until:
            name = self.random.choice(job.conversations)
            if self.random.random() < job.reads:
                await self.read(name)
            else:
                await self.append(name, self.random.random() < job.expected)
                made += 1
            await asyncio.sleep(job.pause)

    async def read(self, name: str) -> None:
        start = time.monotonic()
        try:
            snapshot: Snapshot = await self.histories[name].load(LastMessages(50))
        except MemoryRedisError:
            return
        self.versions[name] = snapshot.version
        self.log.append(read_of(name, self.name, snapshot, start))

    async def append(self, name: str, with_version: bool) -> None:
        values = [next(self.values) for _ in range(self.random.randint(1, self.job.most))]
        messages = [human(value) for value in values]
        while True:
            expected = self.versions.get(name, Version()) if with_version else None
            operation: Operation = {
                "op": "append",
                "process": self.name,
                "key": name,
                "values": values,
                "start": time.monotonic(),
            }
            if expected is not None:
                operation["expected"] = expected.number
            try:
                version = await self.histories[name].append(*messages, expected=expected)
            except ConflictError as error:
                self.versions[name] = error.version or Version()
                if self.job.until_stored:
                    continue
                operation["status"] = "fail"
            except UnknownOutcome:
                operation["status"] = "unknown"
            except MemoryRedisError as error:
                operation |= {"status": "fail", "error": repr(error)}
            else:
                self.versions[name] = version
                operation |= {"status": "ok", "version": version.number}
            self.log.append({**operation, "end": time.monotonic()})
            return


def read_of(name: str, process: str, snapshot: Snapshot, start: float, final: bool = False) -> Operation:
    """A load as an operation of the log."""
    messages = snapshot.messages
    return {
        "op": "read",
        "process": process,
        "key": name,
        "values": [message.text for message in messages],
        "offset": messages[0].seq if messages else snapshot.version.number,
        "version": snapshot.version.number,
        "start": start,
        "end": time.monotonic(),
        "final": final,
    }


async def work(job: Job) -> None:
    counts: Counter[str] = Counter()

    def count(event: Event) -> None:
        counts[event.kind] += 1

    async with AsyncExitStack() as stack:
        way = Way(job.face, job.kind)
        options = {"namespace": job.namespace, "hooks": (count,), **job.options}
        memory = way.open(stack, job.port, job.timeout, **options)
        writers = [Writer(job, number, memory) for number in range(job.tasks)]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(writer.run() for writer in writers))
    for writer in writers:
        for operation in writer.log:
            print(json.dumps(operation))
    print(json.dumps({"counts": counts}), flush=True)


class Workers:
    """Processes of one job each, that begin together."""

    def __init__(self, *jobs: Job) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.worker", json.dumps(asdict(job))],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for job in jobs
        ]
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def end_while(self, goes_on: Callable[[Over], None]) -> tuple[list[Operation], Counter[str]]:
        """As `end`, while something goes on in a thread."""
        over = threading.Event()
        thread = threading.Thread(target=goes_on, args=(over.is_set,))
        thread.start()
        try:
            return self.end()
        finally:
            over.set()
            thread.join()

    def end(self, seconds: float = 240) -> tuple[list[Operation], Counter[str]]:
        """The operations of all, and how often each event was told to their hooks."""
        operations: list[Operation] = []
        counts: Counter[str] = Counter()
        for process in self.processes:
            output, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0
            *lines, last = output.splitlines()
            operations += map(json.loads, lines)
            counts.update(json.loads(last)["counts"])
        return operations, counts

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    asyncio.run(work(Job(**json.loads(sys.argv[1]))))
