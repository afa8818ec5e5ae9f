"""The frame of every benchmark: options, one core, a server of its own, verdicts, a bounded end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import redis
import redis.asyncio
from races import Contender, Plan, Race, async_race, race
from report import Goal, Report, Table
from server import BenchServer, ServerMissingError, serve

T = TypeVar("T")

PACKAGES = ("memory-redis", "redis", "hiredis", "pydantic", "msgpack")
DEFAULTS = Plan()
BUSY = 1.5
"""Load average above which neighbours take the core from whoever needs it longest; we make about 1."""


class Bench:
    """What a benchmark works with: the server, clients, races and the report.

    Contenders that open something hand it to `closing` or `aclosing`; all is closed at the end.
    """

    def __init__(self, server: BenchServer, plan: Plan, only: str | None, report: Report) -> None:
        self.server = server
        self.url = server.url
        self.plan = plan
        self.report = report
        self._only = only
        self._runner = asyncio.Runner()
        self._open = contextlib.ExitStack()
        self.admin = self.client()

    def client(self, **settings: Any) -> redis.Redis:
        """A redis-py client with redis-py's own defaults but for what `settings` says."""
        return self.closing(redis.Redis(host=self.server.host, port=self.server.port, **settings))

    def async_client(self, **settings: Any) -> redis.asyncio.Redis:
        """The same for asyncio."""
        made = redis.asyncio.Redis(host=self.server.host, port=self.server.port, **settings)
        self.aclosing(made.aclose)
        return made

    def lists(self, namespace: str) -> list[str]:
        """The keys of the lists whose names begin with the namespace, sorted."""
        found = self.admin.scan_iter(match=f"{namespace}:*", count=1000, _type="list")
        return sorted(key.decode() for key in found)

    def closing(self, thing: T) -> T:
        """Close `thing` when the benchmark ends."""
        self._open.callback(thing.close)  # type: ignore[attr-defined]
        return thing

    def aclosing(self, aclose: Callable[[], Awaitable[object]]) -> None:
        """Await `aclose()` in the benchmark's loop when it ends."""

        async def close() -> None:
            await aclose()

        self._open.callback(lambda: self.run(close()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the one loop of this benchmark."""
        return self._runner.run(work)

    def wants(self, title: str) -> bool:
        """Whether `--only` lets this race run; ask before preparing an expensive one."""
        return self._only is None or self._only in title

    def race(self, title: str, contenders: Sequence[Contender], operations: int | None = None) -> Race:
        """Let sync contenders race, the first being the measure; print the table and keep it."""
        return self._keep(race(title, contenders, self._plan(operations)))

    def async_race(self, title: str, contenders: Sequence[Contender], operations: int | None = None) -> Race:
        """The same for contenders that are awaited."""
        return self._keep(self.run(async_race(title, contenders, self._plan(operations))))

    def table(self, table: Table) -> None:
        """Print and keep a table that is no race."""
        self.report.tables.append(table)
        print(f"\n{table.text()}", flush=True)

    def goal(self, text: str, value: float, at_most: float, checked: bool = True) -> None:
        """Keep a figure and the bound that it must stay within."""
        self.report.goals.append(Goal(text, value, at_most, checked))

    def close(self) -> None:
        """Close what was opened, then the loop."""
        self._open.close()
        self._runner.close()

    def _plan(self, operations: int | None) -> Plan:
        return replace(self.plan, operations=min(operations or self.plan.operations, self.plan.operations))

    def _keep(self, found: Race) -> Race:
        self.report.races.append(found)
        self.table(Table.of(found))
        return found


def run(name: str, question: str, measure: Callable[[Bench], None], argv: Sequence[str] | None = None) -> int:
    """Run one benchmark from the command line and return its exit code.

    0: done; 1: `--check` and a goal was missed; 2: it could not run. A signal or `--limit` ends it with
    its server stopped.
    """
    options = _options(name, question).parse_args(argv)
    try:
        pinned = _pin(options.pin) if options.pin is not None else None
    except OSError:
        print(f"{name}: there is no core {options.pin}; name another, or take --no-pin", file=sys.stderr)
        return 2
    plan = Plan(options.rounds, options.operations, options.seconds, options.seed, options.gc == "on")
    command = shlex.join(["python", f"benchmarks/{name}.py", *(sys.argv[1:] if argv is None else argv)])
    started = time.monotonic()
    try:
        with _bounded(options.limit), serve(options.server) as server:
            report = Report(name, command, _environment(server, plan, pinned))
            print("; ".join(f"{key} {value}" for key, value in report.environment.items()), flush=True)
            bench = Bench(server, plan, options.only, report)
            with contextlib.closing(bench):
                measure(bench)
    except ServerMissingError as missing:
        print(f"{name}: {missing}", file=sys.stderr)
        return 2
    except TimeoutError as late:
        print(f"{name}: {late}", file=sys.stderr)
        return 2
    report.seconds = time.monotonic() - started
    print(f"\n{name}: {report.seconds:.0f} s")
    for goal in report.goals:
        print(goal.line())
    if options.json is not None:
        report.write(options.json)
    if pinned is None:
        print("warning: not pinned to a core: ratios of one-trip operations are flattered")
    if os.getloadavg()[0] > BUSY:
        print(f"warning: load average {os.getloadavg()[0]:.1f}: operations of milliseconds come out too slow")
    return 1 if options.check and report.missed() else 0


def settle() -> None:
    """Take all that exists now out of the collector's sight.

    Call it after preparing: an application does not keep ten thousand prepared messages either, and their
    scan would be charged to whoever allocates.
    """
    gc.collect()
    gc.freeze()


def _options(name: str, question: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"benchmarks/{name}.py", description=question)
    parser.add_argument("--server", metavar="PATH", help="server to start (default: the bundled Valkey)")
    core = parser.add_mutually_exclusive_group()
    core.add_argument("--pin", type=int, metavar="CORE", default=_first_core(), help="core for both ends")
    core.add_argument("--no-pin", dest="pin", action="store_const", const=None, help="leave it to the system")
    parser.add_argument("--rounds", type=_positive, default=DEFAULTS.rounds)
    parser.add_argument(
        "--operations", type=_positive, default=DEFAULTS.operations, help="of each contender in a round"
    )
    parser.add_argument("--seconds", type=float, default=DEFAULTS.seconds, help="most for one race")
    parser.add_argument("--limit", type=_positive, default=300, help="seconds for all; then exit code 2")
    parser.add_argument("--seed", type=int, default=DEFAULTS.seed, help="of the order within rounds")
    parser.add_argument("--gc", choices=("on", "off"), default="on", help="the collector while timing")
    parser.add_argument("--only", metavar="TEXT", help="only the races with TEXT in the title")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _first_core() -> int | None:
    return min(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def _pin(core: int) -> int | None:
    if sys.platform != "linux":
        return None
    os.sched_setaffinity(0, {core})  # the server is started later and inherits it
    return core


@contextlib.contextmanager
def _bounded(seconds: int) -> Iterator[None]:
    def end(signum: int, _frame: FrameType | None) -> None:
        if signum == signal.SIGALRM:
            raise TimeoutError(f"not done after {seconds} s (--limit)")
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _environment(server: BenchServer, plan: Plan, pinned: int | None) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "server": server.product,
        "Python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "pinned to": "no core" if pinned is None else f"core {pinned}",
        "niceness": os.nice(0),
        "load average": f"{os.getloadavg()[0]:.1f}",
        "collector": "on" if plan.collector else "off",
        "seed": plan.seed,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from the tree"
