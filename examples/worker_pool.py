"""A pool of worker processes that answers the messages of the same conversations from one queue.

    python examples/worker_pool.py [--workers 4] [--url redis://localhost:6379/0]

Whichever worker is free takes the next message, so that several answer in one conversation at once; and the
queue delivers some messages twice, as queues do. At the end every stored conversation is read and checked:
each message of a user is followed by its own answer, none is lost, none is doubled. The default server is the
embedded one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memory_redis import LastMessages, RedisMemory, SlidingExpiry, StoredMessage, TurnReport, with_history

CONVERSATIONS, MESSAGES, BLOCK = 5, 40, 8
SECONDS = 60.0
"""For all work; a pool that has not ended by then is ended."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as the queue delivers it."""

    id: str
    conversation: str
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """What a worker tells when it ends: how many deliveries it took, and what became of them."""

    deliveries: int
    repeats: int
    overlaps: int


def open_memory(url: str, namespace: str) -> RedisMemory:
    """The memory, the same in every process."""
    return RedisMemory.from_url(url, namespace=namespace, expiry=SlidingExpiry(minutes=10))


def echo(text: str) -> str:
    """How the answer to a message begins."""
    return f"echo of {text}, by "


def model(messages: list[StoredMessage]) -> str:
    """The model: it says what it was asked, and who answers. Yours would ask a service."""
    time.sleep(0.003)  # which takes its time: others write meanwhile
    return echo(messages[-1].text) + multiprocessing.current_process().name


def work(url: str, namespace: str, deliveries: Any, all_are_ready: Any, done: Any) -> None:
    """A worker process: takes deliveries until it is told that there are no more."""
    counts: Counter[str] = Counter()
    with open_memory(url, namespace) as memory:
        chat = with_history(model, memory, window=LastMessages(20))
        all_are_ready.wait(SECONDS)
        while (delivery := deliveries.get()) is not None:
            report = TurnReport()
            chat(
                delivery.text,
                user_id="ann",
                conversation_id=delivery.conversation,
                idempotency_key=delivery.id,
                report=report,
            )
            counts.update(deliveries=1, repeats=report.repeated, overlaps=report.conflict is not None)
    done.put(Done(counts["deliveries"], counts["repeats"], counts["overlaps"]))


def all_deliveries() -> list[Delivery]:
    """Some messages of each conversation in turn, and again; the first of each block comes twice."""
    found = []
    for first in range(0, MESSAGES, BLOCK):
        for conversation in (f"c{number}" for number in range(CONVERSATIONS)):
            for number in range(first, first + BLOCK):
                delivery = Delivery(f"{conversation}-{number}", conversation, f"message {number}")
                found += [delivery] * (2 if number == first else 1)
    return found


def answer_all(url: str, namespace: str, workers: int, deliveries: list[Delivery]) -> list[Done]:
    """Let a pool of processes work on the deliveries; what each worker told.

    Raises:
        RuntimeError: a worker failed, or was not done in time.
    """
    context = multiprocessing.get_context("spawn")  # each worker is a new interpreter, on every system
    waiting, done, all_are_ready = context.Queue(), context.Queue(), context.Barrier(workers)
    given = (url, namespace, waiting, all_are_ready, done)
    pool = [context.Process(target=work, args=given, name=f"worker {n}") for n in range(workers)]
    for process in pool:
        process.start()
    for delivery in [*deliveries, *[None] * workers]:
        waiting.put(delivery)
    waiting.cancel_join_thread()  # nobody reads on if the pool fails
    for process in pool:
        process.join(SECONDS)
        process.kill()  # if it is not done
        process.join()
    if any(process.exitcode for process in pool):
        raise RuntimeError("a worker failed, or was not done in time")
    return [done.get(timeout=SECONDS) for _ in pool]


def check(memory: RedisMemory, deliveries: list[Delivery]) -> bool:
    """Read every conversation, print what is stored, and say whether all of it is as it must be."""
    lost = doubled = astray = 0
    for conversation in sorted({delivery.conversation for delivery in deliveries}):
        stored = memory.history("ann", conversation).load().messages
        pairs = list(zip(stored[::2], stored[1::2], strict=False))
        right = sum(
            question.type == "human" and answer.type == "ai" and answer.text.startswith(echo(question.text))
            for question, answer in pairs
        )
        print(f"  {conversation}: {len(stored)} messages, {right} questions followed by their own answers")
        asked = Counter(message.text for message in stored if message.type == "human")
        expected = {delivery.text for delivery in deliveries if delivery.conversation == conversation}
        lost += len(expected - set(asked))
        doubled += sum(count - 1 for count in asked.values())
        astray += len(stored) - 2 * right
    print(f"lost {lost}, doubled {doubled}, astray {astray}")
    return not (lost or doubled or astray)


@contextmanager
def shareable(url: str) -> Iterator[str]:
    """A URL that means the same server in every process: a private embedded one is known by its socket."""
    if url != "embedded://":
        yield url
        return
    from memory_redis.server import attach

    with attach() as server:
        yield server.url


def main() -> int:
    """Fill the queue, let the pool empty it, check what is stored; the exit code is 1 if it is not right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default="embedded://", help="the server (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, choices=range(1, 17), metavar="1-16")
    options = parser.parse_args()
    if options.url.startswith("fake://"):
        parser.error("the workers are processes of their own, which no fake server serves")
    deliveries = all_deliveries()
    own = f"example-{secrets.token_hex(4)}"  # keys of our own on a server that others use
    with shareable(options.url) as url, open_memory(url, own) as memory:
        told = answer_all(url, own, options.workers, deliveries)
        shares = ", ".join(str(one.deliveries) for one in told)
        print(
            f"{len(set(deliveries))} messages in {CONVERSATIONS} conversations, {len(deliveries)} deliveries"
        )
        print(f"{len(told)} worker processes took {shares} of them")
        print(f"deliveries recognised as repeats: {sum(one.repeats for one in told)}")
        print(f"turns stored after somebody else's, with nothing lost: {sum(one.overlaps for one in told)}")
        right = check(memory, deliveries)
        memory.forget("ann")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
