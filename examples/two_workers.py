"""How LangChain's own wrapper loses messages when two runs overlap, and the same code with ours.

    python examples/two_workers.py [--workers 4] [--url redis://localhost:6379/0]

Each worker asks one question in the same session, by a chain that takes a list of messages. They overlap on
purpose, by a barrier: all of them have loaded the history before any of them saves, and then they save one
after the other. langchain-core's `RunnableWithMessageHistory` hands past and question to the model as one
list; on the way out it reads the history again, and cuts as many messages off that list. If others have saved
meanwhile, the question is cut off too. Ours keeps the question from the start. All counts are measured. The
default server is the embedded one.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda

from memory_redis import RedisMemory, SlidingExpiry
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory

SECONDS = 20.0
"""How long a worker waits for the others before it gives up."""


class InMemory:
    """The simplest history there can be, to show that no server has to do with it."""

    def __init__(self) -> None:
        self.messages: list[BaseMessage] = []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end."""
        self.messages.extend(messages)


def overlapping(wrapper: Callable[..., Any], history: Any, workers: int) -> list[str]:
    """What is stored after so many workers have asked a question each, all at the same time.

    The model answers when every worker has loaded the history. A worker's model then waits until the worker
    before it has saved, so that the outcome is the same in every run.
    """
    all_have_loaded = threading.Barrier(workers, timeout=SECONDS)
    saved = [threading.Event() for _ in range(workers)]

    def model(messages: list[BaseMessage]) -> AIMessage:
        question = messages[-1].text
        number = int(question.split()[-1])
        all_have_loaded.wait()
        if number and not saved[number - 1].wait(SECONDS):
            raise TimeoutError(f"worker {number - 1} did not save")
        return AIMessage(content=f"answer to {question}")

    histories = {"s1": history}
    chain = wrapper(RunnableLambda(model), lambda session_id: histories[session_id])
    session = {"configurable": {"session_id": "s1"}}

    def work(number: int) -> None:
        chain.invoke(f"question {number}", session)
        saved[number].set()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return [message.text for message in history.messages]


def langchains_own() -> Callable[..., Any] | None:
    """langchain-core's wrapper; None where it has none any more. Its deprecation is no news here."""
    try:
        from langchain_core.runnables.history import RunnableWithMessageHistory as Reference
    except ImportError:
        return None

    def made(*arguments: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "RunnableWithMessageHistory is deprecated", DeprecationWarning)
            return Reference(*arguments)

    return made


def show(title: str, stored: Sequence[str], workers: int) -> bool:
    """Print what became of questions and answers; whether all are there, each question before its answer."""
    questions = [f"question {number}" for number in range(workers)]
    expected = {text for question in questions for text in (question, f"answer to {question}")}
    lost = sorted(expected - set(stored))
    turns = list(zip(stored[::2], stored[1::2], strict=False))
    whole = sum((question, f"answer to {question}") in turns for question in questions)
    print(f"{title}\n  stored: {len(stored)} of {len(expected)} messages, {whole} of {workers} whole turns")
    print(f"  lost:   {', '.join(lost) or 'nothing'}")
    return not lost and len(stored) == len(expected) and whole == workers


def main() -> int:
    """Run both wrappers and compare; the exit code is 1 if ours loses anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default="embedded://", help="the server (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, choices=range(2, 17), metavar="2-16")
    options = parser.parse_args()
    workers: int = options.workers
    print(f"{workers} workers ask a question each in one session, at the same time.")
    own = f"example-{secrets.token_hex(4)}"  # keys of our own on a server that others use
    with RedisMemory.from_url(options.url, namespace=own, expiry=SlidingExpiry(minutes=10)) as memory:

        def in_redis() -> RedisChatMessageHistory:
            return RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id=secrets.token_hex(4))

        core = f"langchain-core {version('langchain-core')}"
        reference = langchains_own()
        if reference is None:
            print(f"{core} has no RunnableWithMessageHistory any more: there is nothing to compare with.")
        else:
            stored = overlapping(reference, InMemory(), workers)
            show(f"{core}, its wrapper, history in memory:", stored, workers)
            stored = overlapping(reference, in_redis(), workers)
            show(f"{core}, its wrapper, history in Redis:", stored, workers)
        stored = overlapping(RunnableWithMessageHistory, in_redis(), workers)
        kept = show("memory_redis, our wrapper, history in Redis:", stored, workers)
        memory.forget("ann")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
