"""One worker process: takes turns as they are due and commits them with optimistic locking."""

import logging
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from memory_redis import (
    ConflictError,
    History,
    LastMessages,
    MemoryRedisError,
    RedisMemory,
    SlidingExpiry,
    StoredMessage,
    UnknownOutcome,
    Version,
    ai,
    human,
)
from memory_redis.cli.demo.tasks import NOISE, Failed, NoiseTask, Ready, Reply, Stored, Task, TurnTask
from memory_redis.cli.problems import ANOMALY, exit_code, one_line
from memory_redis.cli.server import DEADLINE_SECONDS

__all__ = ["open_memory", "work"]

WINDOW = 20
MOST_TRIES = 200
UNKNOWN_TRIES = 2


def work(url: str, namespace: str, connection: Connection) -> None:
    """Do tasks until the parent closes the connection or ends."""
    # Ctrl-C reaches every process of the terminal; the parent alone decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Conflicts and repeats are wanted here, and counted: not a warning each.
    logging.getLogger("memory_redis").setLevel(logging.CRITICAL)
    try:
        with open_memory(url, namespace) as memory:
            connection.send(Ready())
            while True:
                connection.send(_reply(memory, connection.recv()))
    except (EOFError, OSError):
        return  # the parent closed its end, or is gone


def open_memory(url: str, namespace: str) -> RedisMemory:
    """The memory that the demonstration replays into; what a killed demonstration leaves ends by itself."""
    return RedisMemory.from_url(
        url, namespace=namespace, expiry=SlidingExpiry(hours=1), deadline=DEADLINE_SECONDS
    )


def _reply(memory: RedisMemory, task: Task) -> Reply:
    history = memory.history(task.user, task.name)
    try:
        if isinstance(task, NoiseTask):
            _append(history, [human(task.text, name=NOISE)], task.text)
            return Stored(task.conversation)
        return _store_turn(history, task)
    except MemoryRedisError as error:
        return Failed(one_line(error), exit_code(error))


def _store_turn(history: History, task: TurnTask) -> Reply:
    make = human if task.kind == "human" else ai
    messages = [make(text) for text in task.texts]
    for conflicts in range(MOST_TRIES):
        last, version = _last_turn(history)
        try:
            stored = _append(history, messages, task.key, version)
        except ConflictError:
            continue  # another writer was faster: look again, then try again
        # A repeat looks at a history that already holds its own turn.
        wrong = last != task.previous and not stored.repeated
        return Stored(task.conversation, stored.repeated, conflicts, wrong)
    return Failed(f"turn {task.key} met {MOST_TRIES} conflicts", ANOMALY)


def _append(
    history: History, messages: Sequence[StoredMessage], key: str, expected: Version | None = None
) -> Version:
    for _ in range(UNKNOWN_TRIES):
        with suppress(UnknownOutcome):  # the key makes trying again harmless
            return history.append(*messages, expected=expected, idempotency_key=key)
    return history.append(*messages, expected=expected, idempotency_key=key)


def _last_turn(history: History) -> tuple[tuple[str, str] | None, Version]:
    """The newest message that is no noise, from a window that grows until it shows one; and the version."""
    size = WINDOW
    while True:
        snapshot = history.load(LastMessages(size))
        last = _last_chat(reversed(snapshot.messages))
        if last is not None or len(snapshot.messages) < size:
            return last, snapshot.version
        size *= 4


def _last_chat(newest_first: Iterable[StoredMessage]) -> tuple[str, str] | None:
    return next(((m.type, m.text) for m in newest_first if m.name != NOISE), None)
