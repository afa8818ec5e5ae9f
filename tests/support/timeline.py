"""What each strategy, window, retention and expiry shows of one conversation, at clock times: README's table.

    python -m tests.support.timeline

prints it, from loads of a real server. Nobody waits: between two times, what is stored is made older by the
time that passes.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import redis

import memory_redis
from memory_redis import RedisMemory, StoredMessage, Window, ai, human, tool
from memory_redis.expiry import Expiry
from memory_redis.retention import Retention
from memory_redis.stores import Strategy
from tests.support.servers import Server

CALL = {"name": "track", "args": {"parcel": 4711}, "id": "call-1", "type": "tool_call"}

SAID = [
    human("Hi, I am Ann. My parcel 4711 is late."),
    ai("Hello Ann. I am going to look for it."),
    human("Please do. And where is it right now?"),
    ai("I am asking the carrier about it now.", tool_calls=[CALL]),
    tool("Parcel 4711: Leeds, the sorting office.", tool_call_id="call-1"),
    ai("It is in Leeds, and comes on Wednesday."),
    human("Can my neighbour at number 12 take it?"),
    ai("Yes. I have noted number 12 for that."),
    human("Good morning. Is it on its way by now?"),
    ai("Yes, it left Leeds in a van at seven."),
]
"""The messages, numbered from 1. Each text has 36 to 39 bytes."""

TIMES = {
    "09:00": range(1, 3),
    "09:10": range(3, 7),
    "09:30": range(7, 9),
    "12:00": range(0),
    "14:00": range(0),
    "Tue 09:15": range(9, 11),
}
"""Which of them are stored when, as one append: on Monday, where no day is named."""

LINES = [
    "ConversationBufferMemory(memory)",
    "ConversationWindowMemory(memory, 4)",
    "ConversationTokenBufferMemory(memory, 50)",
    "ConversationSummaryMemory(memory, model, 2)",
    "ConversationSummaryBufferMemory(memory, model, 50)",
    'LastMessages(4, start_on="human")',
    "LastTurns(2)",
    "TokenBudget(60)",
    "Since(minutes=25)",
    "LastTurns(3) & Since(hours=4)",
    "MaxMessages(4)",
    "MaxAge(hours=4)",
    "MaxBytes(500)",
    "SlidingExpiry(hours=3)",
    "SlidingExpiry(hours=3, on_read=True)",
    "SlidingExpiry(hours=3, max_age=9000)",
    "SlidingExpiry(days=1)",
    "FixedExpiry(days=1)",
]
"""The lines of the table: each is the code that makes what it is about."""

KINDS = (Strategy, Window, Retention, Expiry)


def model(messages: Sequence[StoredMessage]) -> str:
    """Summarises: gives the numbers of the messages that it is asked about, those of an older summary too."""
    question = messages[0].text
    told = re.findall(r"Summary of earlier conversation: ([\d ]+)", question)
    return " ".join([*told, *(str(at) for at, one in enumerate(SAID, 1) if one.text in question)])


class Line:
    """A conversation that is kept, and read, as one line of the table says."""

    def __init__(self, code: str, url: str, namespace: str, opened: ExitStack) -> None:
        def memory(**options: Any) -> RedisMemory:
            return opened.enter_context(RedisMemory.from_url(url, namespace=namespace, **options))

        names = {name: getattr(memory_redis, name) for name in memory_redis.__all__}
        store: Any = memory()
        made = eval(code, {**names, "memory": store, "model": model})
        self.code, self.kind = code, next(kind for kind in KINDS if isinstance(made, kind))
        if self.kind is Retention:
            store = memory(retention=made)
        elif self.kind is Expiry:
            store = memory(expiry=made)
        elif self.kind is Strategy:
            store = made
        self.history = store.session(code)
        self.window = made if self.kind is Window else None

    def seen(self) -> str:
        """What a load shows: the numbers of the messages, in brackets those that a summary tells of."""
        messages = self.history.load(self.window).messages
        told = [re.findall(r"\d+", one.text) for one in messages if one.type == "system"]
        shown = [1 + SAID.index(one) for one in messages if one.type != "system"]
        parts = [f"[{spans([*map(int, one)])}]" for one in told]
        if shown:
            parts.append(spans(shown))
        hidden = self.history.count() if self.kind is Retention and not parts else 0
        return " ".join(parts) or (f"none of {hidden}" if hidden else "none")


def spans(numbers: Sequence[int]) -> str:
    """Numbers as they are written: "1-3 5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return " ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)


def minute(time: str) -> int:
    """Minutes since Monday began."""
    hours, minutes = map(int, time[-5:].split(":"))
    return 24 * 60 * time.startswith("Tue") + 60 * hours + minutes


def grow_older(raw: redis.Redis, namespace: str, minutes: int) -> None:
    """Let time pass: move back the times of messages, and when conversations began and end.

    A key whose end is past then is deleted by the server. Bytes 1 to 6 of a record are the time at which it
    was stored; its checksum does not cover them.
    """
    ms = minutes * 60_000
    for key in raw.scan_iter(match=f"{namespace}:*", count=1000):
        if key.endswith(b":messages"):
            for at, record in enumerate(raw.lrange(key, 0, -1)):
                stamp = int.from_bytes(record[1:7]) - ms
                raw.lset(key, at, record[:1] + stamp.to_bytes(6) + record[7:])
        elif key.endswith(b":meta"):
            for field in "cij":
                if raw.hexists(key, field):
                    raw.hincrby(key, field, -ms)
        if (end := raw.pexpiretime(key)) > 0:
            raw.pexpireat(key, end - ms)


def table(url: str, namespace: str) -> list[str]:
    """The lines of the table, by loads of a server."""
    with ExitStack() as opened:
        raw = opened.enter_context(redis.Redis.from_url(url))
        lines = [Line(code, url, namespace, opened) for code in LINES]
        cells: list[list[str]] = [[] for _ in lines]
        now = minute("09:00")
        for time, said in TIMES.items():
            grow_older(raw, namespace, minute(time) - now)
            now = minute(time)
            for line, row in zip(lines, cells, strict=True):
                if said:
                    line.history.append(*(SAID[number - 1] for number in said))
                row.append(line.seen())
        rows = [["what a load shows on Monday at", *TIMES, "stored"]]
        rows += [["said then", *(spans(said) for said in TIMES.values()), ""]]
        for line, row in zip(lines, cells, strict=True):
            rows.append([line.code, *row, f"{line.history.count()}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    printed = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    gaps = [at for at, line in enumerate(lines) if not at or line.kind is not lines[at - 1].kind]
    for at in reversed(gaps):
        printed.insert(at + 2, "")
    return printed


if __name__ == "__main__":
    with Server() as server:
        print("\n".join(table(server.url, f"t{secrets.token_hex(6)}")))
