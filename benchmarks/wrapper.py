"""What does `RunnableWithMessageHistory` add to a call, beside langchain-core's own wrapper?

All wrap the same trivial model, so that what is left is the wrapper: *added* time is that of the wrapped call
less that of the bare model in the same round. The reference is langchain-core's wrapper over its in-memory
history, which asks nobody; beside it, the same over the plainest history that workers can share, a list of
JSON in Redis. Ours asks the server twice a turn, which is counted too. Each operation goes to another one of
many conversations of 20 messages, each of which sees five turns, so that it grows to 30 for every contender.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import redis
from corpus import messages, texts
from harness import Bench, run, settle
from langchain_core.messages import AIMessage, BaseMessage, messages_from_dict, messages_to_dict
from langchain_core.runnables import Runnable, RunnableLambda
from races import AsyncCall, Call, Contender, Quartiles, Race
from report import Table, figure

from memory_redis import (
    AllMessages,
    AsyncRedisMemory,
    LastMessages,
    RedisMemory,
    SlidingExpiry,
    StoredMessage,
    with_history,
)
from memory_redis.langchain import RunnableWithMessageHistory, to_langchain
from memory_redis.windows import Window

STORED = 20
TURNS_A_CONVERSATION = 5
COUNTED_TURNS = 50
EXPIRY_SECONDS = 7 * 24 * 3600
QUESTION = "Where is the parcel that I ordered on Monday?"
ANSWER = "It left our warehouse on Tuesday, and should reach you within two days. " * 4

BARE, PLAIN = "bare model", "with_history, a function"
REFERENCE, SHARED = "reference, in memory", "reference, JSON in Redis"
LAST, ALL = f"ours, LastMessages({STORED})", "ours, AllMessages"
WINDOWS: Mapping[str, Window] = {LAST: LastMessages(STORED), ALL: AllMessages()}
TRACING = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")

Invoked = Callable[[Runnable[Any, Any], Any, Any], Any]
"""How a runnable is called: with an input and a config."""


def measure(bench: Bench) -> None:
    """All races of this question, then the round trips."""
    os.environ.update(dict.fromkeys(TRACING, "false"))  # no call is reported to a service while it is timed
    bench.report.environment["langchain-core"] = version("langchain-core")
    print(f"langchain-core {version('langchain-core')}")
    if reference({}) is None:
        print("it has no RunnableWithMessageHistory any more: there is nothing to compare with")
    if bench.wants(title := "invoke"):
        measure_calls(bench, title, messages(STORED), invoke)
    if bench.wants(title := "invoke, bare texts"):
        measure_calls(bench, title, texts(STORED), invoke)
    if bench.wants(title := "invoke, a history key"):
        measure_calls(bench, title, messages(STORED), invoke, keyed=True)
    if bench.wants(title := "stream"):
        measure_calls(bench, title, messages(STORED), stream, plain=answer_in_parts)
    if bench.wants(title := "ainvoke"):
        measure_async(bench, title, messages(STORED))
    if bench.wants(title := "round trips"):
        count_trips(bench, title)


# -- the model, and how it is called ---------------------------------------------------------------


def model() -> Runnable[Any, Any]:
    """The trivial model: it gives an answer whatever it is asked, and is native in both faces."""

    def answer_message(_: Any) -> AIMessage:
        return AIMessage(content=ANSWER)

    async def answer_message_later(_: Any) -> AIMessage:
        return AIMessage(content=ANSWER)

    return RunnableLambda(answer_message, answer_message_later)


def answer(_: list[StoredMessage]) -> str:
    """The same as a plain function, for `with_history`."""
    return ANSWER


async def answer_later(_: list[StoredMessage]) -> str:
    """The same as a coroutine function."""
    return ANSWER


def answer_in_parts(_: list[StoredMessage]) -> Iterator[str]:
    """The same as a generator function, of one part as the model's stream is."""
    yield ANSWER


def invoke(runnable: Runnable[Any, Any], value: Any, config: Any) -> Any:
    """One answer."""
    return runnable.invoke(value, config)


def stream(runnable: Runnable[Any, Any], value: Any, config: Any) -> Any:
    """One answer, as a stream that is read to its end."""
    return list(runnable.stream(value, config))


# -- the reference ----------------------------------------------------------------------------------


class JsonList:
    """A history in a Redis list, one JSON item a message, as plain as can be: what is read is read whole."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client, self._key = client, key

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages."""
        items: Any = self._client.lrange(self._key, 0, -1)
        return messages_from_dict(list(map(json.loads, items)))

    def add_messages(self, added: Sequence[BaseMessage]) -> None:
        """Add messages at the end, and put the end of all off, in one round trip."""
        pipe = self._client.pipeline(transaction=False)
        pipe.rpush(self._key, *map(json.dumps, messages_to_dict(added)))
        pipe.expire(self._key, EXPIRY_SECONDS)
        pipe.execute()


def reference(histories: Mapping[str, Any], **keys: str | None) -> Runnable[Any, Any] | None:
    """The model in langchain-core's own wrapper over these histories; None where core has none any more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is here to be compared with
        try:
            from langchain_core.runnables.history import RunnableWithMessageHistory as Reference
        except ImportError:
            return None
        return Reference(model(), lambda session_id: histories[session_id], **keys)


def in_memory(count: int, filling: Sequence[StoredMessage]) -> dict[str, Any]:
    """So many of langchain-core's in-memory histories, with these messages each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_core.chat_history import InMemoryChatMessageHistory as InMemory

        return {f"c{i}": InMemory(messages=list(map(to_langchain, filling))) for i in range(count)}


def in_redis(bench: Bench, prefix: str, count: int, filling: Sequence[StoredMessage]) -> dict[str, Any]:
    """So many histories in Redis lists, with these messages each."""
    client = bench.client()
    made = {f"c{i}": JsonList(client, f"{prefix}:c{i}") for i in range(count)}
    for history in made.values():
        history.add_messages(list(map(to_langchain, filling)))
    return made


def sessions(histories: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The configs that name these histories."""
    return [{"configurable": {"session_id": session}} for session in histories]


# -- ours -------------------------------------------------------------------------------------------


def ours(memory: RedisMemory | AsyncRedisMemory, window: Window, **keys: str | None) -> Runnable[Any, Any]:
    """The model in our wrapper."""
    return RunnableWithMessageHistory(model(), memory, window=window, **keys)


def filled(bench: Bench, namespace: str, count: int, filling: Sequence[StoredMessage]) -> RedisMemory:
    """A memory with so many conversations of these messages for each of our contenders, as its user."""
    expiry = SlidingExpiry(seconds=EXPIRY_SECONDS)
    memory = bench.closing(RedisMemory.from_url(bench.url, namespace=namespace, expiry=expiry))
    for user in (LAST, ALL, PLAIN):
        for i in range(count):
            memory.history(user, f"c{i}").append(*filling)
    return memory


def asyncio_face(bench: Bench, namespace: str) -> AsyncRedisMemory:
    """The same memory for asyncio."""
    expiry = SlidingExpiry(seconds=EXPIRY_SECONDS)
    memory = AsyncRedisMemory.from_url(bench.url, namespace=namespace, expiry=expiry)
    bench.aclosing(memory.aclose)
    return memory


def named(user: str, count: int) -> list[dict[str, Any]]:
    """The configs that name a user's conversations."""
    return [{"configurable": {"user_id": user, "conversation_id": f"c{i}"}} for i in range(count)]


def plain_call(model: Callable[..., Any], memory: RedisMemory, count: int) -> Call:
    """An operation: `with_history` around a function or a generator function."""
    chat: Any = with_history(model, memory, window=LastMessages(STORED))
    ids = [config["configurable"] for config in named(PLAIN, count)]
    if model is answer_in_parts:
        return lambda number: list(chat(QUESTION, **ids[number % count]))
    return lambda number: chat(QUESTION, **ids[number % count])


# -- races ------------------------------------------------------------------------------------------


def spread(bench: Bench) -> int:
    """Conversations that operations go round in: each sees five turns, the uncounted round's included."""
    return -(-(bench.plan.rounds + 1) * bench.plan.operations // TURNS_A_CONVERSATION)


def measure_calls(
    bench: Bench,
    title: str,
    filling: Sequence[StoredMessage],
    call: Invoked,
    *,
    plain: Callable[..., Any] = answer,
    keyed: bool = False,
) -> None:
    """Sync calls; `keyed` ones have a dictionary as input, and want the past under a key of it."""
    count, prefix = spread(bench), title.replace(", ", "-").replace(" ", "-")
    value: Any = {"question": QUESTION} if keyed else QUESTION
    keys = {"input_messages_key": "question", "history_messages_key": "history"} if keyed else {}

    def calling(runnable: Runnable[Any, Any], configs: Sequence[Any]) -> Call:
        return lambda number: call(runnable, value, configs[number % len(configs)])

    contenders = [Contender(BARE, calling(model(), [{}]))]
    if reference({}) is not None:
        shared = in_redis(bench, f"json-{prefix}", count, filling)
        for name, histories in ((REFERENCE, in_memory(count, filling)), (SHARED, shared)):
            wrapped: Any = reference(histories, **keys)
            contenders.append(Contender(name, calling(wrapped, sessions(histories))))
    memory = filled(bench, prefix, count, filling)
    for name, window in WINDOWS.items():
        contenders.append(Contender(name, calling(ours(memory, window, **keys), named(name, count))))
    if not keyed:
        contenders.append(Contender(PLAIN, plain_call(plain, memory, count)))
    settle()
    judge(bench, bench.race(title, contenders))


def measure_async(bench: Bench, title: str, filling: Sequence[StoredMessage]) -> None:
    """The same in asyncio, one task at a time."""
    count = spread(bench)
    filled(bench, title, count, filling)
    memory = asyncio_face(bench, title)
    chat = with_history(answer_later, memory, window=LastMessages(STORED))
    ids = [config["configurable"] for config in named(PLAIN, count)]

    def awaiting(runnable: Runnable[Any, Any], configs: Sequence[Any]) -> AsyncCall:
        return lambda number: runnable.ainvoke(QUESTION, configs[number % len(configs)])

    def plain(number: int) -> Awaitable[str]:
        return chat(QUESTION, **ids[number % count])

    contenders = [Contender(BARE, awaiting(model(), [{}]))]
    if reference({}) is not None:
        histories = in_memory(count, filling)
        wrapped: Any = reference(histories)
        contenders.append(Contender(REFERENCE, awaiting(wrapped, sessions(histories))))
    for name, window in WINDOWS.items():
        contenders.append(Contender(name, awaiting(ours(memory, window), named(name, count))))
    contenders.append(Contender(PLAIN, plain))
    settle()
    judge(bench, bench.async_race(title, contenders))


def added(race: Race, name: str) -> list[float]:
    """Microseconds that a contender took longer than the bare model, round by round.

    `with_history` has no runnable inside; what it wraps takes no time, so all of its own is added.
    """
    of_bare = [0.0] * race.rounds if name == PLAIN else race.times[BARE].per_round
    return [wrapped - bare for wrapped, bare in zip(race.times[name].per_round, of_bare, strict=True)]


def judge(bench: Bench, race: Race) -> None:
    """The table of added times, and the goal."""
    names = [name for name in race.times if name != BARE]
    compared = REFERENCE in names
    rows = []
    for name in names:
        times = Quartiles.of(added(race, name))
        cells = [name, figure(times.median), f"{times.low:.0f}-{times.high:.0f}"]
        if compared:
            pairs = zip(added(race, name), added(race, REFERENCE), strict=True)
            ratio = Quartiles.of([one / other for one, other in pairs])
            cells += [f"{ratio.median:.2f}", f"{ratio.low:.2f}-{ratio.high:.2f}"]
            if name == LAST:
                bench.goal(
                    f"{race.title}: added by ours / by the reference",
                    ratio.median,
                    1.0,
                    race.title != "ainvoke",
                )
        rows.append(tuple(cells))
    columns = ("contender", "added us", "quartiles", "to the reference", "quartiles")[: len(rows[0])]
    note = "what a call takes longer than one of the bare model in the same round"
    bench.table(Table(f"{race.title}: added time", columns, tuple(rows), note))


# -- round trips ------------------------------------------------------------------------------------


def count_trips(bench: Bench, title: str) -> None:
    """How often the server read a request during a turn, in conversations that exist already."""
    memory, awaited = filled(bench, "trips", 1, messages(STORED)), asyncio_face(bench, "trips")
    [config] = named(LAST, 1)
    chain, achain = ours(memory, LastMessages(STORED)), ours(awaited, LastMessages(STORED))
    plain = plain_call(answer, memory, 1)

    async def read(chunks: AsyncIterator[Any]) -> list[Any]:
        return [chunk async for chunk in chunks]

    ways: dict[str, Callable[[], object]] = {
        "invoke": lambda: invoke(chain, QUESTION, config),
        "stream": lambda: stream(chain, QUESTION, config),
        "ainvoke": lambda: bench.run(achain.ainvoke(QUESTION, config)),
        "astream": lambda: bench.run(read(achain.astream(QUESTION, config))),
        PLAIN: lambda: plain(0),
    }
    trips = {name: _trips_a_turn(bench, turn) for name, turn in ways.items()}
    rows = tuple((name, f"{found:.2f}") for name, found in trips.items())
    note = f"requests read by the server, {COUNTED_TURNS} turns each"
    bench.table(Table(title, ("a turn by", "round trips"), rows, note))
    bench.goal(f"{title} of a turn, the most of all ways", max(trips.values()), 2)


def _trips_a_turn(bench: Bench, turn: Callable[[], object]) -> float:
    def reads() -> int:
        return int(bench.admin.info("stats")["total_reads_processed"])

    turn()  # connections are open now, and the server knows the scripts
    before = reads()
    for _ in range(COUNTED_TURNS):
        turn()
    return (reads() - before - 1) / COUNTED_TURNS  # less our own look


if __name__ == "__main__":
    sys.exit(run("wrapper", __doc__ or "", measure))
