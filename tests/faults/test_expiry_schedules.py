"""A thousand random schedules of everything that moves an end, against a model of what must hold then."""

from __future__ import annotations

import inspect
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest
import redis

from memory_redis import (
    AsyncRedisMemory,
    ConflictError,
    FixedExpiry,
    HistoryCleared,
    InvalidSetting,
    MaxMessages,
    NoExpiry,
    RedisMemory,
    SlidingExpiry,
    Snapshot,
    Turn,
    Version,
    human,
)
from memory_redis.expiry import Expiry, Terms, at_instant
from tests.support.servers import Server, wait_until

pytestmark = pytest.mark.anyio

SCHEDULES, FAKE_SCHEDULES = 500, 40
STEPS = 8
CAP = 4
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

POLICIES: list[Expiry] = [
    NoExpiry(),
    SlidingExpiry(60),
    SlidingExpiry(60, on_read=True, max_age=900),
    FixedExpiry(300),
]
OWN: list[Expiry] = [
    *(NoExpiry(), SlidingExpiry(50), SlidingExpiry(700, on_read=True), SlidingExpiry(700, max_age=200)),
    *(SlidingExpiry(70, on_read=True, max_age=400), FixedExpiry(200), FixedExpiry(5000)),
]
LATER = (31, 1100)
"""Seconds by which a conversation is made older; never within a second of any of the durations."""


class Span(NamedTuple):
    """Two times in ms since 1970 between which something happened, or will."""

    low: int
    high: int

    def plus(self, ms: int) -> Span:
        return Span(self.low + ms, self.high + ms)


FOREVER = Span(-1, -1)


def now_ms() -> int:
    """The clock, which the servers on this machine share."""
    return time.time_ns() // 1_000_000


async def answer(result: Any) -> Any:
    """What a method of either face gives."""
    return await result if inspect.isawaitable(result) else result


class Worker(NamedTuple):
    """One history object of each face, and what its memory was told."""

    sync: Any
    asynchronous: Any
    terms: Terms
    cap: int


class Token(NamedTuple):
    """A version that was loaded, and what it was loaded from."""

    version: Version
    life: int
    number: int


class Schedule:
    """One run: each step is done on a conversation and on the model, and then both are compared."""

    def __init__(self, name: str, workers: list[Worker], raw: redis.Redis, names: list[str]) -> None:
        self.random, self.trace, self.seen = random.Random(name), list[str](), Counter[str]()
        self.workers, self.raw, self.names, self.made = workers, raw, names, 0
        self.life = 0
        self.births: dict[int, bytes] = {}
        self.forgotten()

    def forgotten(self) -> None:
        """Nothing of it is there any more."""
        self.life += 1
        self.texts: list[str] = []
        self.summary: str | None = None
        self.own: Terms | None = None
        self.number = self.cleared = 0
        self.born = self.end = FOREVER

    @property
    def there(self) -> bool:
        return bool(self.texts) or self.summary is not None

    # what the model says of ends

    def terms(self, worker: Worker) -> Terms:
        return worker.terms if self.own is None else self.own

    def end_by(self, terms: Terms, now: Span, born: Span) -> Span:
        if terms.policy == "idle":
            idle, most = now.plus(terms.ms), born.plus(terms.most_ms)
            return Span(*map(min, idle, most)) if terms.most_ms else idle
        if terms.policy == "fixed":
            return born.plus(terms.ms)
        return Span(terms.ms, terms.ms) if terms.policy == "at" else FOREVER

    def over(self, terms: Terms) -> bool:
        """Whether the conversation has ended already by these terms."""
        now = now_ms()
        end = self.end_by(terms, Span(now, now), self.born)
        return self.there and end != FOREVER and end.high <= now

    def renewed(self, terms: Terms, began: int) -> None:
        self.end = self.end_by(terms, Span(began, now_ms()), self.born)

    # how a step is made

    async def call(self, worker: Worker, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method of either face."""
        history = self.random.choice((worker.sync, worker.asynchronous))
        return await answer(getattr(history, method)(*args, **kwargs))

    def said(self) -> list[str]:
        self.made += 1
        return [f"{self.made}.{part}" for part in range(self.random.randint(1, 3))]

    def stored(self, worker: Worker, texts: list[str], version: Version, began: int) -> None:
        """An append was accepted."""
        if not self.there:
            self.born = Span(began, now_ms())
        self.texts += texts
        if worker.cap:
            self.texts = self.texts[-worker.cap :]
        self.number += len(texts)
        assert version.number == self.number
        assert self.births.setdefault(self.life, version.birth) == version.birth
        assert len(set(self.births.values())) == len(self.births), "each life has a tag of its own"
        self.renewed(self.terms(worker), began)

    async def append(self) -> None:
        worker, texts, began = self.random.choice(self.workers), self.said(), now_ms()
        if self.over(self.terms(worker)):
            self.seen["append on what is over"] += 1
            self.forgotten()
        elif self.births and not self.there and not self.cleared:
            self.seen["append on what expired"] += 1
        version = await self.call(worker, "append", *map(human, texts))
        self.stored(worker, texts, version, began)

    async def load(self) -> tuple[Worker, Token]:
        worker, began = self.random.choice(self.workers), now_ms()
        return worker, self.loaded(worker, await self.call(worker, "load"), began)

    def loaded(self, worker: Worker, snapshot: Snapshot, began: int) -> Token:
        """A load showed what there is, and renewed the end if it was to."""
        terms = self.terms(worker)
        over = terms.on_read and self.over(terms)
        if over and worker.terms.on_read:
            self.forgotten()
        assert [message.text for message in snapshot.messages] == self.texts
        assert (snapshot.summary, snapshot.version.number) == (self.summary, self.number)
        token = Token(snapshot.version, self.life, self.number)
        if over:
            self.seen["ended by a load"] += 1
            self.forgotten()
        elif terms.on_read and self.there:
            self.seen["renewed by a load"] += 1
            self.renewed(terms, began)
        return token

    async def clear(self) -> None:
        began = now_ms()
        assert await self.call(self.random.choice(self.workers), "clear") == len(self.texts)
        self.was_cleared(began)

    def was_cleared(self, began: int) -> None:
        self.texts, self.summary, self.own = [], None, None
        self.number += 1
        self.cleared = self.number
        self.end = Span(began, now_ms()).plus(100_000)

    async def expire(self) -> None:
        """An expiry or an instant of its own, a pin, or none."""
        worker, own, began = self.random.choice(self.workers), self.random.choice(OWN), now_ms()
        kind = self.random.choice(["expire", "expire", "expire_at", "past", "pin", "none"])
        terms = own.terms
        change: tuple[Any, ...] = ("expire", own)
        if kind in ("expire_at", "past"):
            ms = began + 100_000_000 if kind == "expire_at" else began - self.random.choice([0, 1, 9999])
            terms = at_instant(EPOCH + timedelta(milliseconds=ms))
            change = ("expire_at", EPOCH + timedelta(milliseconds=ms))
        if kind == "pin":
            terms, change = NoExpiry().terms, ("pin",)
        if kind == "none":
            terms, change = worker.terms, ("expire", None)
        self.trace[-1] += f" {kind} {own}"
        over = self.over(terms)
        try:
            found = await self.call(worker, *change)
        except InvalidSetting:
            assert over, "only an end that would be past is refused"
            assert kind != "none"
            self.seen["refused"] += 1
            return
        assert found == (self.there and not over)
        if self.there:
            self.seen[kind] += 1
            self.own = None if kind == "none" else terms
            self.renewed(terms, began)
            if over:
                self.forgotten()

    async def touch(self) -> None:
        worker, began = self.random.choice(self.workers), now_ms()
        terms = self.terms(worker)
        over = self.over(terms)
        assert await self.call(worker, "touch") == (self.there and not over)
        if over:
            self.forgotten()
        elif self.there:
            self.renewed(terms, began)

    async def end_soon(self) -> None:
        """An end in some milliseconds is waited for; it may be past when it arrives, and is refused then."""
        ms = now_ms() + 20
        try:
            found = await self.call(
                self.random.choice(self.workers), "expire_at", EPOCH + timedelta(milliseconds=ms)
            )
        except InvalidSetting:
            assert self.there
            assert now_ms() >= ms, "only an end that is past is refused"
            return
        assert found == self.there
        if found:
            self.seen["ended by an instant"] += 1
            wait_until(lambda: not self.raw.exists(*self.names[:2]), "it ended")
            self.forgotten()

    async def end_now(self) -> None:
        """Its time is over, as it would be some day."""
        for key in self.names[:2]:
            self.raw.pexpireat(key, 1)
        self.forgotten()

    async def grow_older(self) -> None:
        """Its first message was stored earlier."""
        if self.there:
            ms = self.random.choice(LATER) * 1000
            self.raw.hset(self.names[1], "c", int(self.raw.hget(self.names[1], "c") or 0) - ms)
            self.born = self.born.plus(-ms)

    async def compact(self) -> None:
        worker, token = await self.load()
        keep, summary = self.random.randint(0, 3), f"summary {self.made}"
        if self.random.random() < 0.3:
            await self.append()
        new = self.texts[-(self.number - token.number) :] if self.number > token.number else []
        old = len(self.texts) - len(new)
        fits = token.life == self.life and old > keep
        try:
            removed = await self.call(worker, "compact", summary, expected=token.version, keep=keep)
        except (ConflictError, InvalidSetting):
            assert not fits
            return
        assert fits
        assert removed == old - keep
        self.seen["compact"] += 1
        self.texts, self.summary = self.texts[old - keep :], summary

    async def turn(self) -> None:
        """A turn that loaded before something else happens."""
        worker, began = self.random.choice(self.workers), now_ms()
        policy = self.random.choice(["append", "raise"])
        between = self.random.choice([None, self.append, self.clear, self.end_now, self.compact, self.expire])
        self.trace[-1] += f" {policy}, meanwhile {between.__name__ if between else 'nothing'}"
        turn = self.random.choice((worker.sync, worker.asynchronous)).turn(on_conflict=policy)
        await answer(turn.__enter__() if isinstance(turn, Turn) else turn.__aenter__())
        token = self.loaded(worker, turn.snapshot, began)
        if between is not None:
            await between()
        texts = self.said()
        turn.add(*map(human, texts))
        if self.over(self.terms(worker)):
            self.forgotten()
        ended = token.version.birth != b"" and token.life != self.life
        cleared = not ended and token.number < self.cleared
        moved = not ended and not cleared and token.number != self.number
        began = now_ms()
        try:
            leave = turn.__exit__ if isinstance(turn, Turn) else turn.__aexit__
            await answer(leave(None, None, None))
        except ConflictError as error:
            assert cleared or (policy == "raise" and (ended or moved))
            self.check_refused(error, ended, cleared, texts)
            return
        assert not cleared
        assert (turn.conflict is None) == (not ended and not moved)
        if turn.conflict is not None:
            assert policy == "append"
            assert turn.conflict.expired == ended
            first = ended and not self.number
            self.seen["first of a new life" if first else "stored after others"] += 1
        self.stored(worker, texts, turn.version, began)

    def check_refused(self, error: ConflictError, ended: bool, cleared: bool, texts: list[str]) -> None:
        assert (error.expired, isinstance(error, HistoryCleared)) == (ended, cleared)
        assert [message.text for message in error.unsaved] == texts
        self.seen["turn refused"] += 1

    async def race(self) -> None:
        """An append and a clear at the same time: one of them comes first, and nothing is torn."""
        worker, texts, began = self.random.choice(self.workers), self.said(), now_ms()
        if self.over(self.terms(worker)):
            return
        found: dict[str, Any] = {}

        async def do(name: str, method: Callable[..., Any], *args: Any) -> None:
            found[name] = await anyio.to_thread.run_sync(lambda: method(*args))

        async with anyio.create_task_group() as group:
            steps = [("append", worker.sync.append, *map(human, texts)), ("clear", worker.sync.clear)]
            for step in self.random.sample(steps, 2):
                group.start_soon(do, *step)
        first = found["append"].number == self.number + len(texts)
        self.seen["append before clear" if first else "append after clear"] += 1
        before = len(self.texts)
        if first:
            self.stored(worker, texts, found["append"], began)
            before = len(self.texts)
        self.was_cleared(began)
        if not first:
            self.stored(worker, texts, found["append"], began)
        assert found["clear"] == before

    # what must hold after each step

    def check(self) -> None:
        messages, meta, _ = self.names
        pipe = self.raw.pipeline(transaction=False)
        for key in self.names:
            pipe.pexpiretime(key)
        pipe.hget(meta, "p")
        pipe.lrange(messages, 0, -1)
        list_end, meta_end, index_end, own, records = pipe.execute()
        assert len(records) == len(self.texts)
        assert own == (None if self.own is None else self.own.text().encode())
        if not self.there and not self.cleared:
            assert (list_end, meta_end) == (-2, -2)
            return
        assert list_end == (meta_end if self.texts else -2), "both keys end at the same instant"
        assert self.end.low <= meta_end <= self.end.high, "at the end that was configured"
        if self.there:
            assert index_end == -1 or index_end > meta_end > 0, "the index outlives it"

    async def run(self) -> None:
        steps: list[Callable[[], Awaitable[Any]]] = [
            *(self.append, self.append, self.append, self.load, self.clear, self.expire, self.expire),
            *(self.touch, self.end_now, self.grow_older, self.grow_older, self.compact, self.turn, self.turn),
        ]
        rare: list[Callable[[], Awaitable[Any]]] = [self.end_soon, self.race]
        for _ in range(STEPS):
            step = self.random.choice(steps if self.random.random() < 0.94 else rare)
            self.trace.append(step.__name__)
            await step()
            self.check()
        await self.load()
        self.check()


EXPECTED = {
    *("append on what is over", "append on what expired", "renewed by a load", "ended by a load", "refused"),
    *("expire", "expire_at", "pin", "none", "ended by an instant", "compact", "turn refused"),
    *("first of a new life", "stored after others", "append before clear", "append after clear"),
}


async def test_a_thousand_random_schedules_end_when_the_model_says(
    server: Server | None, url: str, raw: redis.Redis, namespace: str
) -> None:
    """F14, P7, B03, B11, B12, decisions 2, 3, 7, 12: what is there, and when it ends, on every key."""
    memories: list[tuple[RedisMemory, AsyncRedisMemory, Terms, int]] = []
    for at, expiry in enumerate(POLICIES):
        cap = CAP if at % 2 else 0
        options: dict[str, Any] = {
            "namespace": namespace,
            "hooks": (),
            "expiry": expiry,
            "retention": MaxMessages(cap) if cap else None,
        }
        sync = RedisMemory.from_url(url, **options)
        memories.append((sync, AsyncRedisMemory.from_url(url, **options), expiry.terms, cap))
    seen = Counter[str]()
    for number in range(SCHEDULES if server else FAKE_SCHEDULES):
        user = f"u{number}"
        base = f"{namespace}:{{{user}:c}}:"
        workers = [
            Worker(sync.history(user, "c"), asynchronous.history(user, "c"), terms, cap)
            for sync, asynchronous, terms, cap in memories
        ]
        plain = memories[0]
        workers.append(
            Worker(
                *(memory.history(user, "c", expiry=SlidingExpiry(80)) for memory in plain[:2]),
                SlidingExpiry(80).terms,
                0,
            )
        )
        names = [base + "messages", base + "meta", f"{namespace}:{{{user}}}:conversations"]
        schedule = Schedule(f"ends {number}", workers, raw, names)
        try:
            await schedule.run()
        except AssertionError as error:
            error.add_note(f"schedule {number}: {schedule.trace}")
            raise
        seen += schedule.seen
    for sync, asynchronous, *_ in memories:
        sync.close()
        await asynchronous.aclose()
    assert server is None or min(seen[kind] for kind in EXPECTED) > 3
