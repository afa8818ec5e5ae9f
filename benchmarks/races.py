"""Races: contenders in turns, one shuffled turn each a round, and ratios paired within the round."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Call = Callable[[int], object]
AsyncCall = Callable[[int], Awaitable[object]]

FEWEST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: `rounds` x `operations` a contender, at most `seconds` a race."""

    rounds: int = 30
    operations: int = 20
    seconds: float = 30.0
    seed: int = 1
    collector: bool = True
    """Whether the cyclic garbage collector runs during a turn; it always runs before one."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work; `call` gets the number of the operation, counted from 0 over all rounds."""

    name: str
    call: Call | AsyncCall


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Lower quartile, median and upper quartile."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles:
        """The quartiles of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high)


@dataclass(slots=True)
class Times:
    """What was measured of one contender, in microseconds."""

    per_round: list[float] = field(default_factory=list)
    """Wall time of an operation, the median of each round's turn: the figure that ratios are made of.

    Not the mean: a neighbour that takes the core for milliseconds would decide it. What this leaves out, such
    as a collector that runs in every tenth operation, is in `cpu_per_round` and in the p99 of `singles`.
    """
    cpu_per_round: list[float] = field(default_factory=list)
    """Processor time of the client (this process) an operation, mean of each round's turn."""
    singles: list[float] = field(default_factory=list)
    """Wall time of every single operation."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a race's table; times in microseconds, `ratio` to the first contender."""

    name: str
    p50: float
    p99: float
    ratio: Quartiles
    cpu: float


@dataclass(frozen=True, slots=True)
class Race:
    """A finished race; the first contender is the one that the others are compared with."""

    title: str
    rounds: int
    operations: int
    times: dict[str, Times]

    def ratio(self, name: str, to: str | None = None) -> Quartiles:
        """The quartiles of `name` / `to` over the rounds; `to` is the first contender by default."""
        below = self.times[to or next(iter(self.times))].per_round
        return Quartiles.of([a / b for a, b in zip(self.times[name].per_round, below, strict=True)])

    def rows(self) -> list[Row]:
        """The lines of the table, in the order in which the contenders were given."""
        return [
            Row(
                name=name,
                p50=statistics.median(times.singles),
                p99=percentile(times.singles, 99),
                ratio=self.ratio(name),
                cpu=statistics.median(times.cpu_per_round),
            )
            for name, times in self.times.items()
        ]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def race(title: str, contenders: Sequence[Contender], plan: Plan) -> Race:
    """Let sync contenders race; round 0 warms up and is not counted."""
    times = {contender.name: Times() for contender in contenders}
    rounds = 0
    for number, order in _rounds(contenders, plan):
        for contender in order:
            turn = _turn(contender.call, number * plan.operations, plan)
            if number:
                _record(times[contender.name], turn, plan)
        rounds = number
    return Race(title, rounds, plan.operations, times)


async def async_race(title: str, contenders: Sequence[Contender], plan: Plan) -> Race:
    """The same for contenders whose calls are awaited, one at a time, in the running loop."""
    times = {contender.name: Times() for contender in contenders}
    rounds = 0
    for number, order in _rounds(contenders, plan):
        for contender in order:
            turn = await _async_turn(contender.call, number * plan.operations, plan)
            if number:
                _record(times[contender.name], turn, plan)
        rounds = number
        await asyncio.sleep(0)
    return Race(title, rounds, plan.operations, times)


def _rounds(contenders: Sequence[Contender], plan: Plan) -> Iterator[tuple[int, list[Contender]]]:
    shuffle = random.Random(plan.seed)
    deadline = time.monotonic() + plan.seconds
    for number in range(plan.rounds + 1):
        if number > FEWEST_ROUNDS and time.monotonic() > deadline:
            return
        order = list(contenders)
        shuffle.shuffle(order)
        yield number, order


@dataclass(frozen=True, slots=True)
class _Turn:
    marks: list[int]
    cpu: int


# What is inside the two loops is timed: the clock itself costs about 0.05 us an operation there.


def _turn(call: Callable[[int], Any], first: int, plan: Plan) -> _Turn:
    marks = _before(plan)
    clock = time.perf_counter_ns
    cpu = time.process_time_ns()
    marks.append(clock())
    for operation in range(first, first + plan.operations):
        call(operation)
        marks.append(clock())
    return _after(marks, cpu)


async def _async_turn(call: Callable[[int], Any], first: int, plan: Plan) -> _Turn:
    marks = _before(plan)
    clock = time.perf_counter_ns
    cpu = time.process_time_ns()
    marks.append(clock())
    for operation in range(first, first + plan.operations):
        await call(operation)
        marks.append(clock())
    return _after(marks, cpu)


def _before(plan: Plan) -> list[int]:
    gc.collect()
    if not plan.collector:
        gc.disable()
    return []


def _after(marks: list[int], cpu_at_start: int) -> _Turn:
    cpu = time.process_time_ns() - cpu_at_start
    gc.enable()
    return _Turn(marks, cpu)


def _record(times: Times, turn: _Turn, plan: Plan) -> None:
    marks = turn.marks
    singles = [(b - a) / 1000 for a, b in itertools.pairwise(marks)]
    times.singles.extend(singles)
    times.per_round.append(statistics.median(singles))
    times.cpu_per_round.append(turn.cpu / 1000 / plan.operations)
