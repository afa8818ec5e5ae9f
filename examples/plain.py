"""A model that remembers, without any framework: `with_history` around a function and around a stream.

    python examples/plain.py [--url redis://localhost:6379/0]

Shows what the model sees, a request that is sent twice (idempotency key), an answer that is given again
because somebody else wrote meanwhile (`on_conflict="retry"`), and a stream. The default server is the
embedded one.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
from collections.abc import AsyncIterator

from memory_redis import (
    LastMessages,
    RedisMemory,
    SlidingExpiry,
    StoredMessage,
    TurnReport,
    human,
    with_history,
)


def model(messages: list[StoredMessage]) -> str:
    """The model: it gets the past and the new message, and gives a text. Yours would ask a service."""
    return f"Messages that I have seen: {len(messages)}; the last one: {messages[-1].text!r}."


async def streaming_model(messages: list[StoredMessage]) -> AsyncIterator[str]:
    """The same as a stream: what it yields is passed on at once, and stored as one message at the end."""
    for word in re.findall(r"\S+\s*", model(messages)):
        yield word


def calls(memory: RedisMemory) -> None:
    """Two calls in one conversation: the second sees the first."""
    chat = with_history(model, memory, window=LastMessages(20))
    print("-- two calls")
    print(chat("Hi", user_id="ann", conversation_id="parcel"))
    print(chat("Where is my parcel?", user_id="ann", conversation_id="parcel"))


def a_request_that_comes_twice(memory: RedisMemory) -> None:
    """Under the same key the model runs once, and the second call gives the stored answer."""
    runs = 0

    def counted(messages: list[StoredMessage]) -> str:
        nonlocal runs
        runs += 1
        return model(messages)

    chat = with_history(counted, memory)
    reports = TurnReport(), TurnReport()
    answers = [
        chat("And now?", user_id="ann", conversation_id="parcel", idempotency_key="request-1", report=report)
        for report in reports
    ]
    print("-- a request that comes twice")
    print(f"the same answer: {answers[0] == answers[1]}; runs of the model: {runs}")
    print(f"repeated: {[report.repeated for report in reports]}")


def somebody_else_writes(memory: RedisMemory) -> None:
    """While the model thinks, another worker appends: the model runs again, on what there is now."""
    history = memory.history("ann", "parcel")
    seen: list[int] = []

    def interrupted(messages: list[StoredMessage]) -> str:
        seen.append(len(messages))
        if len(seen) == 1:
            history.append(human("Never mind the parcel, where is my refund?"))  # the other worker
        return model(messages)

    chat = with_history(interrupted, memory, on_conflict="retry")
    report = TurnReport()
    chat("Any news?", user_id="ann", conversation_id="parcel", report=report)
    print("-- somebody else writes meanwhile")
    print(f"tries: {report.tries}; messages that each try saw: {seen}; saved: {report.saved}")


async def a_stream(memory: RedisMemory) -> None:
    """Parts come as the model gives them; what is stored is one message."""
    chat = with_history(streaming_model, memory)
    parts = [part async for part in chat("Thank you", user_id="ann", conversation_id="parcel")]
    last = memory.history("ann", "parcel").load(LastMessages(1)).messages[0]
    print("-- a stream")
    print(f"{len(parts)} parts, stored as one message: {last.text == ''.join(parts)}")


def main() -> None:
    """Run all of it, show what is stored, and remove it again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default="embedded://", help="the server (default: %(default)s)")
    url = parser.parse_args().url
    own = f"example-{secrets.token_hex(4)}"  # keys of our own on a server that others use
    with RedisMemory.from_url(url, namespace=own, expiry=SlidingExpiry(minutes=10)) as memory:
        calls(memory)
        a_request_that_comes_twice(memory)
        somebody_else_writes(memory)
        asyncio.run(a_stream(memory))
        print("-- what is stored")
        for message in memory.history("ann", "parcel").load().messages:
            print(f"{message.seq:3} {message.type:6} {message.text}")
        memory.forget("ann")


if __name__ == "__main__":
    main()
