"""Workers that share one wrapped model and one conversation; run by the tests, and in processes of its own.

    python -m tests.faults.chatting KIND POLICY URL NAMESPACE

The process uses the wrapped model, forks 8 children that use it 50 times each, and prints what each of
them stored and was refused, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from memory_redis import (
    AsyncRedisMemory,
    ConflictError,
    LastMessages,
    RedisMemory,
    StoredMessage,
    exchanges,
    with_history,
)

WORKERS, TURNS = 8, 50
SHARED = {"user_id": "ann", "conversation_id": "shared"}


def answer(given: list[StoredMessage]) -> str:
    """Says what it answers, and after which other question."""
    before = given[-2].text.split(" after ")[0] if len(given) > 1 else "nothing"
    return f"{given[-1].text} after {before}"


async def coroutine(given: list[StoredMessage]) -> str:
    await asyncio.sleep(0)
    return answer(given)


def generator(given: list[StoredMessage]) -> Iterator[str]:
    yield answer(given)[:3]
    yield answer(given)[3:]


async def asynchronous(given: list[StoredMessage]) -> AsyncIterator[str]:
    for chunk in generator(given):
        yield chunk
        await asyncio.sleep(0)


MODELS: dict[str, Callable[..., Any]] = {
    "function": answer,
    "coroutine": coroutine,
    "generator": generator,
    "asynchronous generator": asynchronous,
}


def wrapped(kind: str, policy: Any, memory: RedisMemory | AsyncRedisMemory) -> Callable[..., Any]:
    """A model of a kind; what it gives is the whole text, awaited or not as that kind is."""
    chat = with_history(MODELS[kind], memory, on_conflict=policy, max_tries=3, window=LastMessages(2))
    if kind == "generator":
        return lambda *args, **names: "".join(chat(*args, **names))
    if kind != "asynchronous generator":
        return chat

    async def whole(*args: Any, **names: Any) -> str:
        return "".join([chunk async for chunk in chat(*args, **names)])

    return whole


class Told:
    """What one worker stored, and what it was refused."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.stored: list[str] = []
        self.raised: list[str] = []

    def work(self, chat: Callable[..., str]) -> None:
        for number in range(TURNS):
            name = f"{self.worker}.{number}"
            try:
                output = chat(name, **SHARED)
                self.stored.append(name)
            except ConflictError as error:
                output = error.output
                self.raised.append(name)
            assert output.startswith(f"{name} after "), output

    async def work_later(self, chat: Callable[..., Any]) -> None:
        for number in range(TURNS):
            name = f"{self.worker}.{number}"
            try:
                output = await chat(name, **SHARED)
                self.stored.append(name)
            except ConflictError as error:
                output = error.output
                self.raised.append(name)
            assert output.startswith(f"{name} after "), output


def check(policy: str, messages: list[StoredMessage], told: list[Told]) -> None:
    """That every question is followed by its own answer, that none is lost or doubled, and by policy
    `raise` and `retry` that no answer was given on a stale history."""
    assert [message.type for message in messages] == ["human", "ai"] * (len(messages) // 2)
    asked = [message.text for message in messages[::2]]
    answered = [message.text.split(" after ") for message in messages[1::2]]
    assert [name for name, _ in answered] == asked
    begun = [f"{one.worker}.{number}" for one in told for number in range(TURNS)]
    stored = [name for one in told for name in one.stored]
    raised = [name for one in told for name in one.raised]
    assert sorted(stored + raised) == sorted(begun)
    assert sorted(name for name in asked if "." in name) == sorted(stored)
    if policy == "append":
        assert raised == []
    else:
        assert [before for _, before in answered] == ["nothing", *asked[:-1]]


def child(kind: str, chat: Callable[..., Any], worker: str) -> None:
    """What a forked process does."""
    status = 1
    try:
        signal.alarm(240)
        told = Told(worker)
        if kind in ("function", "generator"):
            told.work(chat)
        else:
            asyncio.run(told.work_later(chat))
        line = json.dumps([told.worker, told.stored, told.raised]) + "\n"
        os.write(1, line.encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main(kind: str, policy: str, url: str, namespace: str) -> None:
    """Use the wrapped model, fork, and use it again afterwards."""
    exchanges._FIRST_PAUSE = 0.001
    awaited = kind in ("coroutine", "asynchronous generator")
    face: Any = AsyncRedisMemory if awaited else RedisMemory
    chat = wrapped(kind, policy, face.from_url(url, namespace=namespace))

    def use(name: str) -> None:
        given: Any = chat(name, **SHARED)
        given = asyncio.run(given) if awaited else given
        assert given.startswith(f"{name} after "), given

    use("parent, before")
    pids = []
    for number in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            child(kind, chat, str(number))
        pids.append(pid)
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
    use("parent, afterwards")
    raise SystemExit(len(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
