"""Wrapped models within wrapped models, and what else happens in the context of a call."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from memory_redis import AsyncRedisMemory, InvalidSetting, ai, human, with_history
from tests.scenarios.chats import Chats, Script, lines, one_server, streaming

pytestmark = [pytest.mark.anyio, one_server]

ANN = {"user_id": "ann", "conversation_id": "c1"}
sync = pytest.mark.parametrize("chats", ["function", "generator"], indirect=True)
coroutines = pytest.mark.parametrize("chats", ["coroutine"], indirect=True)


def give(given: Any) -> str:
    """An inner model, as a plain function."""
    return f"inner saw {len(given)}"


@pytest.mark.parametrize("rules", [{}, {"save_input": "before"}], ids=["after", "before"])
async def test_two_wrappers_over_one_conversation_are_refused(chats: Chats, rules: Any) -> None:
    """T23: the inner one would store the past again; nothing of either is stored."""
    chats.append(human("q"), ai("a"))
    inner = with_history(give, chats.direct, **rules)
    outer = chats.wrap(lambda given: inner(given, **ANN))
    with pytest.raises(InvalidSetting, match="nested"):
        await outer("Hi")
    assert chats.said() == ["human: q", "ai: a"]
    assert await chats.wrap(Script("ok"))("Hi") == "ok"


async def test_nesting_is_found_through_a_wrapper_of_another_conversation(chats: Chats) -> None:
    """T23: however deep."""
    innermost = with_history(give, chats.direct)
    middle = with_history(lambda given: innermost("Hi", **ANN), chats.direct)
    outer = chats.wrap(lambda given: middle("Hi", session="scratch"))
    with pytest.raises(InvalidSetting, match="nested"):
        await outer("Hi")
    assert chats.said() == []
    assert chats.direct.session("scratch").count() == 0


async def test_wrappers_over_different_conversations_may_be_nested(chats: Chats) -> None:
    """T23: each stores its own turn; one model may ask the same inner one twice."""
    inner = with_history(give, chats.direct)

    def answer(given: Any) -> str:
        return f"{inner('one', session='scratch')}, {inner('two', session='scratch')}"

    assert await chats.wrap(answer)("Hi") == "inner saw 1, inner saw 3"
    assert chats.said() == ["human: Hi", "ai: inner saw 1, inner saw 3"]
    assert len(chats.direct.session("scratch").load().messages) == 4


async def test_a_conversation_is_no_session_of_the_same_name(chats: Chats) -> None:
    """T23, R24: so they may be nested."""
    inner = with_history(give, chats.direct)
    assert await chats.wrap(lambda given: inner("Hi", session="c1"))("Hi") == "inner saw 1"


async def test_a_model_that_failed_leaves_no_trace_of_nesting(chats: Chats) -> None:
    """T23, R54: the next call, and the same one from an error handler, are not within it."""
    ask = chats.wrap(Script(RuntimeError("overloaded"), "ok"))
    try:
        await ask("Hi")
    except RuntimeError:
        assert await ask("Hi") == "ok"
    assert chats.said() == ["human: Hi", "ai: ok"]


@streaming
async def test_a_stream_within_a_model_of_its_conversation_is_refused_too(chats: Chats) -> None:
    """T23: an open stream may be left for another turn, but its model may not begin one."""
    inner = with_history(give, chats.direct)

    def model(given: Any) -> Iterator[str]:
        yield "one "
        yield inner("Hi", **ANN)

    stream = chats.start(model)
    assert await stream.next() == "one "
    assert inner("meanwhile", **ANN) == "inner saw 1"
    with pytest.raises(InvalidSetting, match="nested"):
        await stream.next()
    assert chats.said() == ["human: meanwhile", "ai: inner saw 1"]


@coroutines
async def test_models_that_run_side_by_side_are_not_nested(chats: Chats) -> None:
    """T2, T23: gathered calls over one conversation, each within a task of its own."""
    arrived = asyncio.Barrier(4)

    async def model(given: Any) -> str:
        await arrived.wait()
        return f"to {given[-1].text}"

    chat = with_history(model, chats.memory())
    await asyncio.gather(*(chat(str(number), **ANN) for number in range(4)))
    said = chats.said()
    assert sorted(said[::2]) == [f"human: {number}" for number in range(4)]
    assert [line.replace("ai: to", "human:") for line in said[1::2]] == said[::2]


@coroutines
async def test_a_task_that_outlives_the_model_may_talk_to_its_conversation(chats: Chats) -> None:
    """T23: a follow-up that a model leaves behind runs after it, not within it."""
    done = asyncio.Event()
    tasks: list[asyncio.Task[str]] = []

    async def follow_up() -> str:
        await done.wait()
        return await chat("And then?", **ANN)

    async def model(given: Any) -> str:
        if not tasks:
            tasks.append(asyncio.create_task(follow_up()))
        return f"saw {len(given)}"

    chat = with_history(model, chats.memory())
    await chat("Hi", **ANN)
    done.set()
    assert await tasks[0] == "saw 3"


@coroutines
async def test_tasks_of_a_model_are_within_it_while_it_runs(chats: Chats) -> None:
    """T23: nesting is found across gather."""

    async def model(given: Any) -> str:
        await asyncio.gather(chat("deeper", **ANN))
        raise AssertionError

    chat: Any = with_history(model, chats.memory())
    with pytest.raises(InvalidSetting, match="nested"):
        await chat("Hi", **ANN)
    assert chats.said() == []


flavour: contextvars.ContextVar[str] = contextvars.ContextVar("flavour", default="none")


async def test_the_model_runs_in_the_context_of_its_caller(chats: Chats) -> None:
    """R116: tracing and request variables are there, in every chunk."""

    def model(given: Any) -> Iterator[str]:
        yield f"{flavour.get()} "
        yield flavour.get()

    token = flavour.set("vanilla")
    answer = model if chats.streams else lambda given: " ".join([flavour.get()] * 2)
    assert await chats.wrap(answer)("Hi") == "vanilla vanilla"
    flavour.reset(token)


@coroutines
async def test_what_a_model_sets_in_its_context_stays_set(chats: Chats) -> None:
    """R116: a wrapped call is as transparent as the model's own would be."""

    async def model(given: Any) -> str:
        flavour.set("mint")
        return "ok"

    await with_history(model, chats.memory())("Hi", **ANN)
    assert flavour.get() == "mint"


@sync
async def test_a_sync_model_runs_in_the_thread_of_its_caller(chats: Chats) -> None:
    """R21: nothing is handed to a pool of threads."""
    threads: list[threading.Thread] = []
    await chats.wrap(lambda given: threads.append(threading.current_thread()) or "ok")("Hi")
    assert threads == [threading.current_thread()]


# -- what can be wrapped -------------------------------------------------------------------------


class Bot:
    """Methods and instances are models as well."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    def answer(self, messages: Any) -> str:
        self.given.append(lines(messages))
        return "ok"

    async def answer_later(self, messages: Any) -> str:
        return self.answer(messages)

    def words(self, messages: Any) -> Iterator[str]:
        yield self.answer(messages)

    async def words_later(self, messages: Any) -> AsyncIterator[str]:
        yield self.answer(messages)

    @classmethod
    def of_the_class(cls, messages: Any) -> str:
        return "ok"

    @staticmethod
    def of_nobody(messages: Any) -> str:
        return "ok"


class Called(Bot):
    def __call__(self, messages: Any) -> str:
        return self.answer(messages)


class CalledLater(Bot):
    async def __call__(self, messages: Any) -> str:
        return self.answer(messages)


class Spoken(Bot):
    def __call__(self, messages: Any) -> Iterator[str]:
        yield self.answer(messages)


class SpokenLater(Bot):
    async def __call__(self, messages: Any) -> AsyncIterator[str]:
        yield self.answer(messages)


def two(tone: str, messages: Any, *, language: str) -> str:
    return "ok"


async def two_later(tone: str, messages: Any, *, language: str) -> str:
    return "ok"


WRAPPED: dict[str, list[Any]] = {
    "function": [
        Bot().answer,
        Bot.of_the_class,
        Bot.of_nobody,
        Called(),
        functools.partial(two, "kind", language="en"),
        functools.partial(Called()),
        lambda messages: "ok",
        functools.lru_cache(lambda messages: "ok").__wrapped__,
    ],
    "coroutine": [
        Bot().answer_later,
        CalledLater(),
        functools.partial(two_later, "kind", language="en"),
        functools.partial(functools.partial(two_later, "kind"), language="en"),
        functools.partial(CalledLater()),
    ],
    "generator": [Bot().words, Spoken(), functools.partial(Spoken())],
    "asynchronous generator": [Bot().words_later, SpokenLater(), functools.partial(SpokenLater())],
}


async def test_methods_objects_and_partial_functions_are_wrapped_as_what_they_are(chats: Chats) -> None:
    """R11: the result is called as the model is, awaited or iterated as the model is."""
    for number, model in enumerate(WRAPPED[chats.kind]):
        ask = chats.asked(with_history(model, chats.memory()))
        assert await ask("Hi", user_id="ann", conversation_id=str(number)) == "ok"
        assert chats.said("ann", str(number)) == ["human: Hi", "ai: ok"]


@pytest.mark.parametrize("chats", ["function"], indirect=True)
async def test_a_plain_function_that_gives_a_coroutine_is_told_what_it_gave(chats: Chats) -> None:
    """R50, T1: it cannot be told before; the error carries the coroutine, and nothing is stored."""

    async def later() -> str:
        return "too late"

    coroutine = later()
    with pytest.raises(ValueError, match="coroutine") as caught:
        with_history(lambda messages: coroutine, AsyncRedisMemory.from_url(chats.url))("Hi", session="s")
    assert getattr(caught.value, "output", None) is coroutine
    coroutine.close()
