"""How many bytes does a message take in the server, and how long does an append keep the server busy?

Bytes are `MEMORY USAGE ... SAMPLES 0` of the keys of a conversation, against those of a list of JSON in
LangChain's layout. Server time is what `INFO commandstats` says of the script calls: no client, no network.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import redis
from corpus import Shape, messages, shapes, turns
from harness import Bench, run
from report import Table, figure

from memory_redis import MaxMessages, RedisMemory, SlidingExpiry

Codec = Literal["msgpack", "json"]
CODECS: tuple[Codec, ...] = ("msgpack", "json")
SIZES = (2, 20, 200, 2000)
MOST_A_CALL = 1000
MANY = 100_000
CONVERSATIONS = 50
APPENDS = 300
RING = 256
REPEATS = 9
SCRIPTS = ("evalsha", "eval", "fcall")

Work = Callable[[int], Callable[[], None]]
"""Prepares repeat number so-and-so and returns what is measured."""


def settings(cap: int) -> dict[str, Any]:
    """A cap and an expiry that slides on each write."""
    return {"retention": MaxMessages(cap), "expiry": SlidingExpiry(days=7)}


def measure(bench: Bench) -> None:
    """Bytes, then server time."""
    if bench.wants("bytes"):
        measure_bytes(bench)
    if bench.wants("server time"):
        measure_server_time(bench)


def measure_bytes(bench: Bench) -> None:
    """Both codecs against LangChain's JSON, for short and long conversations."""
    rows = []
    for size in SIZES:
        made = shapes(size)
        baseline = _json_list(bench, f"json{size}", [shape.langchain_json() for shape in made])
        compact = _json_list(
            bench,
            f"compact{size}",
            [shape.langchain_json(separators=(",", ":"), ensure_ascii=False) for shape in made],
        )
        rows.append(_bytes_row(size, "JSON list, LangChain's layout", baseline, 0, size, baseline))
        rows.append(_bytes_row(size, "the same, compact UTF-8", compact, 0, size, baseline))
        for codec in CODECS:
            records, other = _our_bytes(bench, f"{codec}{size}", codec, made)
            rows.append(_bytes_row(size, f"memory_redis, {codec}", records, other, size, baseline))
            if codec == "msgpack" and size == SIZES[-1]:
                bench.goal("bytes a message, msgpack / JSON list", records / baseline, 0.85, checked=False)
    columns = ("messages", "kept as", "bytes a message", "to JSON list", "with meta", "meta bytes")
    note = "the corpus, written in appends of up to 1,000; 'with meta' counts every key of the conversation"
    bench.table(Table("bytes in the server", columns, tuple(rows), note))


def measure_server_time(bench: Bench) -> None:
    """Microseconds an append of two keeps the server busy: quiet, with a full ring, and the bare RPUSH."""
    ready = turns(RING)
    roomy = bench.closing(RedisMemory.from_url(bench.url, namespace="time", **settings(MANY)))
    tight = bench.closing(RedisMemory.from_url(bench.url, namespace="trim", **settings(MOST_A_CALL)))
    keys = [f"bare:{i}" for i in range(CONVERSATIONS)]

    def quiet(memory: RedisMemory, filled: int) -> Work:
        def prepare(repeat: int) -> Callable[[], None]:
            histories = [memory.history(f"quiet{repeat}", f"c{i}") for i in range(CONVERSATIONS)]
            for history in histories:
                history.append(*messages(filled))

            def work() -> None:
                for i in range(APPENDS):
                    histories[i % CONVERSATIONS].append(*ready[i % RING])

            return work

        return prepare

    def full(_repeat: int) -> Callable[[], None]:
        history = roomy.history("busy", "c")

        def work() -> None:
            for i in range(APPENDS):
                history.append(*ready[i % RING])

        return work

    def bare(_repeat: int) -> Callable[[], None]:
        def work() -> None:
            for i in range(APPENDS):
                bench.admin.rpush(keys[i % CONVERSATIONS], b"x" * 150, b"x" * 450)

        return work

    full(0)()  # fills the ring
    works: dict[str, tuple[Work, Sequence[str]]] = {
        "RPUSH of 2, no script": (bare, ("rpush",)),
        f"append, quiet (up to {APPENDS // CONVERSATIONS} recent appends)": (quiet(roomy, 2), SCRIPTS),
        f"append, full ring (over {RING} appends in 100 s)": (full, SCRIPTS),
        "append, quiet, at the cap (trims 2)": (quiet(tight, MOST_A_CALL), SCRIPTS),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(REPEATS):
        for name, (prepare, commands) in works.items():
            work = prepare(repeat)
            bench.admin.config_resetstat()
            work()
            found[name].append(_microseconds_a_call(bench.admin, commands))
    medians = {name: statistics.median(values) for name, values in found.items()}
    rows = tuple(
        (name, figure(medians[name]), f"{figure(min(values))}-{figure(max(values))}")
        for name, values in found.items()
    )
    note = f"{REPEATS} repeats of {APPENDS} appends of two messages, never the first of a conversation"
    bench.table(Table("server time of an append", ("work", "us a call", "least-most"), rows, note))
    _, name_quiet, name_full, _ = works
    bench.goal("server us an append, quiet", medians[name_quiet], 15.0, checked=False)
    bench.goal("server us an append, full ring", medians[name_full], 60.0, checked=False)


def _json_list(bench: Bench, key: str, records: Sequence[bytes]) -> int:
    for start in range(0, len(records), MOST_A_CALL):
        bench.admin.rpush(key, *records[start : start + MOST_A_CALL])
    return _usage(bench.admin, [key])


def _our_bytes(bench: Bench, namespace: str, codec: Codec, made: Sequence[Shape]) -> tuple[int, int]:
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace=namespace, codec=codec))
    history = memory.history("ann", "c")
    ready = [shape.stored() for shape in made]
    for start in range(0, len(ready), MOST_A_CALL):
        history.append(*ready[start : start + MOST_A_CALL])
    lists = bench.lists(namespace)
    every = [key.decode() for key in bench.admin.scan_iter(match=f"{namespace}:*", count=1000)]
    return _usage(bench.admin, lists), _usage(bench.admin, [key for key in every if key not in lists])


def _usage(client: redis.Redis, keys: Sequence[str]) -> int:
    return sum(client.memory_usage(key, samples=0) or 0 for key in keys)


def _bytes_row(size: int, name: str, records: int, other: int, count: int, baseline: int) -> tuple[str, ...]:
    return (
        f"{size:,}",
        name,
        f"{records / count:.0f}",
        f"{records / baseline:.2f}",
        f"{(records + other) / baseline:.2f}",
        f"{other}" if other else "-",
    )


def _microseconds_a_call(client: redis.Redis, commands: Sequence[str]) -> float:
    stats = client.info("commandstats")
    used = [stats[f"cmdstat_{command}"] for command in commands if f"cmdstat_{command}" in stats]
    calls = sum(entry["calls"] for entry in used)
    return float(sum(entry["usec"] for entry in used) / calls)


if __name__ == "__main__":
    sys.exit(run("memory", __doc__ or "", measure))
