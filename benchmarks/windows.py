"""What does a window by turns, tokens, time or bytes cost, beside LastMessages of as many messages?

Such a window is found by the headers of the records, in one script call. The history has 100,000 messages,
one every ten minutes, tool exchanges among them. Each window is measured out to show the same messages as the
measure, `LastMessages`. Round trips, bytes and server time are what the server itself counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from corpus import messages
from harness import Bench, run, settle
from races import Call, Contender
from report import Table, figure

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    AllMessages,
    History,
    LastMessages,
    LastTurns,
    RedisMemory,
    Since,
    TokenBudget,
    Window,
    system,
)
from memory_redis.options import Codec

STORED, FEW_STORED = 100_000, 2_000
MOST_A_CALL = 1000
MINUTES = 10
NEWEST = 228
"""So many messages of the corpus end a history: its last 9 turns are 20 messages, the last 91 are 200."""
TURNS = {20: 9, 200: 91}
LOADS, REPEATS = 40, 9
OPERATIONS_OF_MESSAGES = 5
MEASURE = "LastMessages"


class Asked(NamedTuple):
    """What loads asked of the server, by its own count, for each load."""

    trips: float
    size: float
    busy_us: float | None


def measure(bench: Bench) -> None:
    """Windows that headers answer; then those for which the messages themselves have to be read."""
    wanted = {size: title for size in TURNS if bench.wants(title := f"{size} of {STORED:,} messages")}
    if wanted:
        history = filled(bench, "windows", STORED)
        grow_old(bench, bench.lists("windows")[0])
        settle()
    for size, title in wanted.items():
        first, *others = compare(bench, title, history, header_windows(history, size))
        title = f"{title}, the most of any window"
        bench.goal(f"{title}: round trips", max(one.trips for one in others), 1.0)
        bench.goal(f"{title}: bytes / LastMessages", max(one.size for one in others) / first.size, 1.2)
    for size in TURNS:
        if bench.wants(title := f"{size} of {FEW_STORED:,} messages, tokens counted by a function"):
            history = filled(bench, f"counted{size}", FEW_STORED)
            newest = history.load(LastMessages(size)).messages
            window = TokenBudget(sum(map(BYTES_4, newest)), lambda message: BYTES_4(message))
            few = {MEASURE: LastMessages(size), "TokenBudget": window}
            compare(bench, title, history, few, OPERATIONS_OF_MESSAGES)
        if bench.wants(title := f"{size} of {FEW_STORED:,} messages, JSON records"):
            history = filled(bench, f"text{size}", FEW_STORED, codec="json")
            found = header_windows(history, size)
            names = (MEASURE, "LastTurns", "TokenBudget, APPROXIMATE")
            few = {name: found[name] for name in names}
            compare(bench, title, history, few, OPERATIONS_OF_MESSAGES)


def header_windows(history: History, size: int) -> dict[str, Window]:
    """The measure, and every kind of window that headers answer, measured out to show as many messages."""
    newest = history.load(LastMessages(size)).messages
    turns, age = LastTurns(TURNS[size]), Since(minutes=MINUTES * size)
    tokens = TokenBudget(sum(map(APPROXIMATE, newest)))
    text = sum(len(message.text.encode()) for message in newest)
    return {
        MEASURE: LastMessages(size),
        "LastTurns": turns,
        "TokenBudget, APPROXIMATE": tokens,
        "TokenBudget, BYTES_4": TokenBudget(sum(map(BYTES_4, newest)), BYTES_4),
        "Since": age,
        "LastMessages, keep_system": LastMessages(size, keep_system=True),
        'LastMessages, start_on="human"': LastMessages(size, start_on="human"),
        "LastMessages, max_bytes": LastMessages(size, max_bytes=text),
        "AllMessages, max_bytes": AllMessages(max_bytes=text),
        "LastTurns & TokenBudget & Since": turns & tokens & age,
    }


def compare(
    bench: Bench, title: str, history: History, windows: Mapping[str, Window], operations: int | None = None
) -> list[Asked]:
    """Prove that all show the same, let them race, and count what each asks of the server."""
    prove(history, windows)
    settle()
    contenders = [Contender(name, load(history, window)) for name, window in windows.items()]
    bench.race(title, contenders, operations)
    counts: dict[str, list[Asked]] = {name: [] for name in windows}
    for _ in range(REPEATS):
        for name, window in windows.items():
            counts[name].append(asked(bench, load(history, window)))
    found = {name: middle(several) for name, several in counts.items()}
    first = found[MEASURE]
    rows = tuple(
        (
            name,
            f"{one.trips:g}",
            figure(one.size),
            f"{one.size / first.size:.2f}",
            "-" if one.busy_us is None else figure(one.busy_us),
        )
        for name, one in found.items()
    )
    columns = ("window", "round trips", "bytes", f"to {MEASURE}", "server us")
    note = f"of one load, bytes in both directions; medians of {REPEATS} repeats of {LOADS} loads"
    bench.table(Table(f"{title}: what the server counts", columns, rows, note))
    return list(found.values())


def prove(history: History, windows: Mapping[str, Window]) -> None:
    """Each window shows what the measure shows, or nothing is measured."""
    expected = history.load(windows[MEASURE]).messages
    front = next(history.iterate(page_size=1))
    for name, window in windows.items():
        wanted = [front, *expected[1:]] if window.keep_system else expected
        shown = history.load(window).messages
        if [(one.seq, one.data) for one in shown] != [(one.seq, one.data) for one in wanted]:
            raise RuntimeError(f"{name} does not show the {len(expected)} messages that it is to show")


def asked(bench: Bench, call: Call) -> Asked:
    """What the server counts of some loads, less what counting asks of it."""
    admin = bench.admin

    def look(loads: int) -> tuple[int, int]:
        admin.config_resetstat()
        for number in range(loads):
            call(number)
        stats = admin.info("stats")
        size = stats["total_net_input_bytes"] + stats["total_net_output_bytes"]
        return stats["total_reads_processed"], size

    idle_reads, idle_bytes = look(0)
    reads, size = look(LOADS)
    return Asked((reads - idle_reads) / LOADS, (size - idle_bytes) / LOADS, busy_us(bench))


def busy_us(bench: Bench) -> float | None:
    """Server time of a load: that of its script or of its commands, None where it has both.

    The time of a script contains that of the commands in it, which are counted a second time.
    """
    stats = bench.admin.info("commandstats")
    scripts = [entry for name, entry in stats.items() if name.startswith("cmdstat_eval")]
    plain = ("cmdstat_hget", "cmdstat_lrange", "cmdstat_hmget")
    if scripts and "cmdstat_hget" in stats:
        return None
    counted = scripts or [stats[name] for name in plain if name in stats]
    return float(sum(entry["usec"] for entry in counted) / LOADS)


def middle(several: Sequence[Asked]) -> Asked:
    """The median of each figure; of round trips the most."""
    busy = [one.busy_us for one in several if one.busy_us is not None]
    return Asked(
        max(one.trips for one in several),
        statistics.median(one.size for one in several),
        statistics.median(busy) if busy else None,
    )


def filled(bench: Bench, namespace: str, stored: int, codec: Codec = "msgpack") -> History:
    """A history of so many messages: a system message, the corpus over and over, and its end."""
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace=namespace, codec=codec))
    history = memory.history("ann", "c")
    filling, end = messages(MOST_A_CALL), messages(NEWEST)
    history.append(system("Be brief and friendly."))
    for start in range(NEWEST + 1, stored, MOST_A_CALL):
        history.append(*filling[: stored - start])
    history.append(*end)
    if history.count() != stored:
        raise RuntimeError(f"{history.count()} messages are stored, not {stored}")
    return history


def grow_old(bench: Bench, key: str) -> None:
    """Stamp the records of a list as if one had been stored every ten minutes, the last five minutes ago.

    Bytes 1 to 6 of a record are that time; its checksum does not cover them.
    """
    admin, step = bench.admin, MINUTES * 60_000
    length, stamp = admin.llen(key), int(time.time() * 1000) + step // 2
    for start in range(0, length, MOST_A_CALL):
        page = admin.lrange(key, start, start + MOST_A_CALL - 1)
        stamps = (stamp - (length - at) * step for at in range(start, start + len(page)))
        stamped = (one[:1] + at.to_bytes(6) + one[7:] for one, at in zip(page, stamps, strict=True))
        admin.rpush(f"{key}:older", *stamped)
    admin.rename(f"{key}:older", key)


def load(history: History, window: Window) -> Call:
    """`history.load(window)`."""

    def call(_number: int) -> object:
        return history.load(window)

    return call


if __name__ == "__main__":
    sys.exit(run("windows", __doc__ or "", measure))
