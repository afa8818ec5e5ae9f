"""Decodes hostile records, each in a process of its own, and prints the memory that each took.

    python -m tests.unit.decode_memory LIMIT [NAME…]

LIMIT is the most bytes a record may have; each record comes close to it. Prints a line per record: its name,
and the bytes of memory. Without names: all records.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable

from memory_redis import Limits, human
from tests.unit.records import HEADER_BYTES, crafted, decoded, stored


def records(limit: int) -> dict[str, Callable[[], bytes]]:
    """Records that make much of few bytes."""
    head = b"\x82\xa7content\xa0"

    def packed(unit: bytes, field: bytes = b"\xa1x") -> Callable[[], bytes]:
        count = (limit - HEADER_BYTES - len(head) - len(field) - 5) // len(unit)
        return lambda: crafted(head + field + b"\xdd" + count.to_bytes(4) + unit * count)

    def json(unit: bytes, field: bytes, kind: bytes = b"ai") -> Callable[[], bytes]:
        before = b'{"type":"' + kind + b'","data":{"content":"","' + field + b'":['
        count = (limit - len(before) - 3) // len(unit)
        return lambda: (before + unit * count)[:-1] + b"]}}"

    return {
        "lists": packed(b"\x90"),
        "maps": packed(b"\x80"),
        "nested lists": packed(b"\x91" * 29 + b"\x90"),
        "nested maps": packed(b"\x81\xa0" * 29 + b"\x80"),
        "maps in maps": packed(b"\x81\xa0\x80"),
        "tool calls": packed(b"\x80", b"\xaatool_calls"),
        "extension types": packed(b"\xd4\x05a"),
        "timestamps": packed(b"\xd6\xff\0\0\0\1"),
        "JSON maps": json(b"{},", b"x"),
        "JSON nested lists": json(b"[" * 29 + b"]" * 29 + b",", b"x"),
        "JSON nested maps": json(b'{"":' * 29 + b"{}" + b"}" * 29 + b",", b"x"),
        "JSON blocks of maps": json(b'{"":{}},', b"content"),
        "JSON blocks that are numbers": json(b"1,", b"content"),
        "JSON calls that are maps": json(b"{},", b"tool_calls"),
        "JSON calls that are numbers": json(b"1,", b"tool_calls"),
        "JSON chunk": json(b"1,", b"tool_call_chunks", b"AIMessageChunk"),
        "JSON kwargs that are a list": json(b"1,", b"additional_kwargs"),
    }


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    limits = Limits(record_bytes=int(sys.argv[1]))
    decoded([stored(human("x")), stored(human("x"), "json")], limits=limits)
    for name, make in records(limits.record_bytes).items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        child = os.fork()
        if child == 0:
            record = make()
            before = peak()
            decoded([record], limits=limits)
            sys.stdout.write(f"{name}: {peak() - before}\n")
            sys.stdout.flush()
            os._exit(0 if len(record) <= limits.record_bytes else 1)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{name}: the process failed")


if __name__ == "__main__":
    main()
