"""A thousand short random schedules against a model of a few lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from memory_redis import (
    AppendId,
    ConflictError,
    FixedExpiry,
    History,
    HistoryCleared,
    RedisMemory,
    SlidingExpiry,
    Version,
    ai,
    human,
)
from memory_redis._engine.fakes import fake_client, fake_server
from tests.support.servers import Server

SCHEDULES = 300
FAKE_SCHEDULES = 100
"""fakeredis runs a script in a hundred times the time."""
STEPS = 10

Token = tuple[Version, int, int, int]
"""A version, and the life, the state and the number of messages it was given out for."""

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "expiring": {"expiry": SlidingExpiry(60, on_read=True)},
    "json": {"codec": "json", "expiry": FixedExpiry(60)},
}


class Model:
    """What a conversation holds, and which of its states each token stands for.

    A state is a number that rises with every change. `life` rises when the conversation ends,
    `cleared` is the state in which it was last cleared within its life.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.state = self.life = self.cleared = 0
        self.exists = False
        self.tokens: list[Token] = [(Version(), 0, 0, 0)]
        self.numbers: set[int] = set()
        self.latest = 0

    def seen(self, token: Version) -> None:
        """A token that was given out for the present state."""
        self.tokens.append((token, self.life, self.state, len(self.texts)))

    def stored(self, texts: list[str], token: Version) -> None:
        assert token.number > self.latest, "a version never falls or returns within a life"
        self.latest = token.number
        self.texts += texts
        self.exists = True
        self.state += 1
        self.seen(token)

    def clear(self) -> None:
        self.texts, self.exists = [], True
        self.state += 1
        self.cleared = self.state

    def expire(self) -> None:
        if self.exists:
            self.life += 1
            self.state += 1
        self.texts, self.exists, self.latest = [], False, 0

    def fits(self, token: Token) -> bool:
        """Whether an append against the token must be accepted."""
        version, life, state, _ = token
        if not self.exists:  # nothing is there, and nothing is what the empty token stands for
            return version == Version()
        return life == self.life and state == self.state


class Schedule:
    """One run: the same steps on a conversation and on the model."""

    def __init__(self, name: str, memory: RedisMemory, raw: redis.Redis, namespace: str) -> None:
        self.random, self.model, self.trace = random.Random(name), Model(), list[str]()
        self.name = name.replace(" ", "-")
        self.history: History = memory.history("ann", self.name)
        self.raw, self.keys = (
            raw,
            [f"{namespace}:{{ann:{self.name}}}:{part}" for part in ("messages", "meta")],
        )
        self.made = self.conflicts = self.accepted = 0
        self.keyed: dict[tuple[str, int], Version] = {}
        self.ids: list[tuple[AppendId, int, Version, list[str]]] = []

    def run(self) -> None:
        steps: list[Callable[[], None]] = [
            *[
                self.append,
                self.append_keyed,
                self.append_expected,
                self.append_expected,
                self.turn,
                self.turn,
            ],
            *[self.load, self.clear, self.expire, self.repeat],
        ]
        for _ in range(STEPS):
            step = self.random.choice(steps)
            self.trace.append(step.__name__)
            step()
        self.load()

    def text(self) -> str:
        self.made += 1
        return f"{self.name} {self.made}"

    def append(self) -> None:
        texts = [self.text() for _ in range(self.random.randint(1, 3))]
        append_id, life = AppendId.new(), self.model.life
        version = self.history.append(*map(human, texts), append_id=append_id)
        assert not version.repeated
        self.ids.append((append_id, life, version, texts))
        self.model.stored(texts, version)

    def append_keyed(self) -> None:
        """A request that is sent under a key: once in each life, clears or not."""
        key, text, life = self.random.choice("abc"), self.text(), self.model.life
        version = self.history.append(human(text), idempotency_key=key)
        if (key, life) in self.keyed:
            assert version.repeated
            assert version == self.keyed[key, life]
        else:
            assert not version.repeated
            self.keyed[key, life] = version
            self.model.stored([text], version)

    def append_expected(self) -> None:
        model, token = self.model, self.random.choice(self.model.tokens)
        text = self.text()
        try:
            version = self.history.append(human(text), expected=token[0])
        except ConflictError as error:
            assert not model.fits(token), "a token of the present state is accepted"
            self.check_conflict(error, token)
        else:
            assert model.fits(token), "a token of another state is refused"
            model.stored([text], version)
            self.accepted += 1

    def check_conflict(self, error: ConflictError, token: Token) -> None:
        model, (version, life, state, length) = self.model, token
        self.conflicts += 1
        assert error.outcome == "not_stored" or not error.unsaved
        if not model.exists or (version != Version() and life != model.life):
            assert error.expired
            assert not isinstance(error, HistoryCleared)
        elif version != Version() and state < model.cleared:
            assert isinstance(error, HistoryCleared)
        elif version != Version() and model.cleared <= state:
            assert [message.text for message in error.missed] == model.texts[length:]
            assert error.missed_count == len(model.texts) - length

    def turn(self) -> None:
        model, policy = self.model, self.random.choice(["append", "raise"])
        text = self.text()
        between = self.random.choice([None, None, self.append, self.clear, self.expire, self.load])
        self.trace[-1] += f" {policy} {between.__name__ if between else ''}"
        try:
            with self.history.turn(on_conflict=policy) as turn:  # type: ignore[arg-type]
                assert [message.text for message in turn.messages] == model.texts
                model.seen(turn.snapshot.version)
                token = model.tokens[-1]
                if between is not None:
                    between()
                turn.add(human(text), ai("answer"))
        except ConflictError as error:
            self.check_refused(error, token, policy, [text, "answer"])
            return
        assert (turn.conflict is None) == model.fits(token)
        if turn.conflict is not None:
            assert policy == "append"
            self.check_conflict(turn.conflict, token)
        assert turn.version is not None
        model.stored([text, "answer"], turn.version)

    def check_refused(self, error: ConflictError, token: Token, policy: str, texts: list[str]) -> None:
        assert not self.model.fits(token)
        assert policy == "raise" or isinstance(error, HistoryCleared)
        assert error.outcome == "not_stored"
        assert [message.text for message in error.unsaved] == texts
        self.check_conflict(error, token)

    def repeat(self) -> None:
        """An append of this life is sent again by its id: nothing changes, also after a clear."""
        model = self.model
        ids = [made for made in self.ids if made[1] == model.life and model.exists]
        if ids:
            append_id, _, version, texts = self.random.choice(ids)
            again = self.history.append(*map(human, texts), append_id=append_id)
            assert again.repeated
            assert again == version

    def load(self) -> None:
        snapshot = self.history.load()
        assert [message.text for message in snapshot.messages] == self.model.texts
        assert self.history.count() == len(self.model.texts)
        assert self.history.exists() == bool(self.model.texts)
        assert snapshot.version.number >= self.model.latest
        if self.model.exists:
            self.model.seen(snapshot.version)

    def clear(self) -> None:
        assert self.history.clear() == len(self.model.texts)
        self.model.clear()

    def expire(self) -> None:
        for key in self.keys:
            self.raw.pexpireat(key, 1)
        self.model.expire()


@pytest.mark.parametrize("settings", [*SETTINGS, "fakeredis"])
def test_random_schedules_agree_with_the_model(valkey: Server, namespace: str, settings: str) -> None:
    """F14, P3, P7, P8: 1,000 schedules; a token of another life or state is refused, others are not."""
    url = f"fake://{namespace}" if settings == "fakeredis" else valkey.url
    options = SETTINGS.get(settings, {})
    conflicts = accepted = lives = 0
    with (
        RedisMemory.from_url(url, namespace=namespace, hooks=(), **options) as memory,
        fake_client(fake_server(url)) if settings == "fakeredis" else redis.Redis.from_url(url) as raw,
    ):
        for number in range(FAKE_SCHEDULES if settings == "fakeredis" else SCHEDULES):
            schedule = Schedule(f"{settings} {number}", memory, raw, namespace)
            try:
                schedule.run()
            except AssertionError as error:
                error.add_note(f"schedule {settings} {number}: {schedule.trace}")
                raise
            conflicts, accepted = conflicts + schedule.conflicts, accepted + schedule.accepted
            lives += schedule.model.life
    assert min(conflicts, accepted, lives) > 20
