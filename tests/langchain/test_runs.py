"""Calls, streams and events: the right output, and one whole turn for each run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.language_models import (
    FakeListChatModel,
    FakeStreamingListLLM,
    GenericFakeChatModel,
    ParrotFakeChatModel,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableLambda

from memory_redis import RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.support import (
    HI,
    chunks,
    every_way,
    model,
    once,
    one_by_one,
    said,
    stored,
    text,
    to,
    together,
    two_ways,
)

pytestmark = pytest.mark.anyio

two_streams = pytest.mark.parametrize("way", ["stream", "astream"])
two_transforms = pytest.mark.parametrize("way", ["transform", "atransform"])
PROMPT = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])


def _words(*answers: str) -> GenericFakeChatModel:
    """A chat model that streams its answers by words."""
    return GenericFakeChatModel(messages=iter(answers or ["one two three"] * 9))


def _asked(value: str, shape: str) -> Any:
    shapes: dict[str, Any] = {
        "text": value,
        "message": HumanMessage(content=value),
        "list": [HumanMessage(content=value)],
        "dict": {"q": value},
    }
    return shapes[shape]


# -- calls -------------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("shape", ["text", "message", "list", "dict"])
async def test_each_turn_sees_those_before_it(kept: RedisMemory, way: str, shape: str) -> None:
    """M:invoke, M:ainvoke, M:stream, M:astream, M:batch, M:abatch, M:transform, M:atransform:

    The model is given one, three, five messages; three whole turns are stored.
    """
    seen: list[list[str]] = []

    def answer(messages: list[BaseMessage]) -> str:
        seen.append([str(message.content) for message in messages])
        return f"re {messages[-1].content}"

    inner: Runnable[Any, Any] = RunnableLambda(answer)
    keys: dict[str, Any] = {}
    if shape == "dict":
        inner = PROMPT | RunnableLambda(lambda value: value.to_messages()) | inner
        keys = {"input_messages_key": "q", "history_messages_key": "past"}
    chain = RunnableWithMessageHistory(inner, kept, **keys)
    for value in ("a", "b", "c"):
        assert await once(way, chain, _asked(value, shape), to()) == f"re {value}"
    assert seen == [["a"], ["a", "re a", "b"], ["a", "re a", "b", "re b", "c"]]
    assert said(kept) == [
        (kind, f"{'re ' if kind == 'ai' else ''}{value}") for value in "abc" for kind in ("human", "ai")
    ]


@two_ways
async def test_a_chat_models_message_is_given_back_as_it_is(kept: RedisMemory, way: str) -> None:
    """M:invoke, M:ainvoke: the caller gets the model's own answer, and its like is stored."""
    answer = AIMessage(content="fine", response_metadata={"model": "m"}, name="bot")
    chain = RunnableWithMessageHistory(GenericFakeChatModel(messages=iter([answer])), kept)
    given = await once(way, chain, "Hi", to())
    assert isinstance(given, AIMessage)
    assert (given.content, given.name) == ("fine", "bot")
    assert stored(kept)[1] == given


@two_ways
async def test_a_parrot_gives_back_what_it_was_told(kept: RedisMemory, way: str) -> None:
    """M:invoke, M:ainvoke: question and answer of one role are still a turn of two messages."""
    chain = RunnableWithMessageHistory(ParrotFakeChatModel(), kept)
    for value in ("a", "b"):
        assert text(await once(way, chain, value, to())) == value
    assert said(kept) == [("human", "a"), ("human", "a"), ("human", "b"), ("human", "b")]


# -- streams -----------------------------------------------------------------------------------------


@two_streams
@pytest.mark.parametrize("kind", ["chat model", "plain LLM", "chain", "letters"])
async def test_a_stream_streams(kept: RedisMemory, way: str, kind: str) -> None:
    """M:stream, M:astream, T4: several chunks; what they amount to is stored, as a message of type ai."""
    kinds: dict[str, Any] = {
        "chat model": _words(),
        "plain LLM": FakeStreamingListLLM(responses=["one two three"]),
        "chain": _words() | StrOutputParser(),
        "letters": FakeListChatModel(responses=["one two three"]),
    }
    chain = RunnableWithMessageHistory(kinds[kind], kept)
    pieces = await chunks(way, chain, "Hi", to())
    assert len(pieces) > 1
    assert text(together(pieces)) == "one two three"
    assert said(kept) == [("human", "Hi"), ("ai", "one two three")]


@two_streams
async def test_chunks_come_while_the_model_runs(kept: RedisMemory, way: str) -> None:
    """M:stream, M:astream: the first chunk is there before the second is made; the turn at the end."""
    made: list[str] = []

    def parts(_: Any) -> Any:
        for part in ("one ", "two"):
            made.append(part)
            yield part

    async def parts_later(_: Any) -> AsyncIterator[str]:
        for part in ("one ", "two"):
            made.append(part)
            yield part

    chain = RunnableWithMessageHistory(RunnableLambda(parts, parts_later), kept)
    seen: list[tuple[str, int, int]] = []
    if way == "stream":
        for chunk in chain.stream("Hi", to()):
            seen.append((chunk, len(made), len(said(kept))))
    else:
        async for chunk in chain.astream("Hi", to()):
            seen.append((chunk, len(made), len(said(kept))))
    assert seen == [("one ", 1, 0), ("two", 2, 0)]
    assert said(kept) == [("human", "Hi"), ("ai", "one two")]


# -- transforms --------------------------------------------------------------------------------------


async def _transformed(way: str, chain: Any, values: list[Any], config: Any) -> list[Any]:
    if way == "transform":
        return list(chain.transform(iter(values), config))
    return [chunk async for chunk in chain.atransform(one_by_one(values), config)]


@two_transforms
@pytest.mark.parametrize("values", [["Hi there"], ["Hi", " ", "there"]])
async def test_an_input_in_chunks_is_one_input(kept: RedisMemory, way: str, values: list[str]) -> None:
    """M:transform, M:atransform: texts are joined before they are used, and the answer streams."""
    seen: list[Any] = []

    def look(messages: list[BaseMessage]) -> list[BaseMessage]:
        seen.append([message.content for message in messages])
        return messages

    chain = RunnableWithMessageHistory(RunnableLambda(look) | _words(), kept)
    pieces = await _transformed(way, chain, values, to())
    assert len(pieces) > 1
    assert seen == [["Hi there"]]
    assert said(kept) == [("human", "Hi there"), ("ai", "one two three")]


@two_transforms
async def test_chunks_of_a_dictionary_are_one_dictionary(kept: RedisMemory, way: str) -> None:
    """M:transform, M:atransform: key by key, whichever comes when; lists among them stay as they are."""
    seen: list[Any] = []

    def look(value: Any) -> str:
        seen.append(value)
        return "fine"

    chain = RunnableWithMessageHistory(
        RunnableLambda(look), kept, input_messages_key="q", history_messages_key="past"
    )
    await _transformed(way, chain, [{"q": "Hi"}], to("whole"))
    await _transformed(way, chain, [{"q": "H", "tags": ["x", "y"]}, {"lang": "de"}, {"q": "i"}], to("parts"))
    assert seen == [
        {"q": "Hi", "past": []},
        {"q": "Hi", "tags": ["x", "y"], "lang": "de", "past": []},
    ]
    assert said(kept, "whole") == said(kept, "parts") == HI


@two_transforms
async def test_no_input_is_no_run(kept: RedisMemory, way: str) -> None:
    """M:transform, M:atransform: an iterator that ends at once pays for no model and stores nothing."""
    assert await _transformed(way, RunnableWithMessageHistory(model(), kept), [], to()) == []
    assert said(kept) == []


@two_ways
async def test_an_assigned_key_arrives_with_the_rest(kept: RedisMemory, way: str) -> None:
    """M:transform, M:atransform: a step before the wrapper that hands out its keys one after the other."""
    seen: list[Any] = []

    def look(value: Any) -> str:
        seen.append(value)
        return "fine"

    first: Any = RunnableLambda(lambda value: value)
    chain = first.assign(lang=lambda _: "de") | RunnableWithMessageHistory(
        RunnableLambda(look), kept, input_messages_key="q", history_messages_key="past"
    )
    way = "stream" if way == "invoke" else "astream"
    await once(way, chain, {"q": "Hi", "tags": ["x", "y"]}, to())
    assert seen == [{"q": "Hi", "tags": ["x", "y"], "lang": "de", "past": []}]
    assert said(kept) == HI


# -- events and logs ---------------------------------------------------------------------------------


def _chain(memory: RedisMemory, **options: Any) -> RunnableWithMessageHistory:
    inner = PROMPT | _words().with_config(tags=["talker"], run_name="talker")
    return RunnableWithMessageHistory(
        inner, memory, input_messages_key="q", history_messages_key="past", **options
    )


async def test_events_frame_the_run(kept: RedisMemory) -> None:
    """M:astream_events, R20: the wrapper starts first and ends last, without parents; the model within.

    By its end event the turn is stored.
    """
    events: list[Any] = []
    async for event in _chain(kept).astream_events({"q": "Hi"}, to(), version="v2"):
        events.append(event)
        if event["event"] == "on_chain_end" and not event["parent_ids"]:
            assert said(kept) == [("human", "Hi"), ("ai", "one two three")]
    names = [(event["event"], event["name"]) for event in events]
    assert names[0] == ("on_chain_start", "RunnableWithMessageHistory")
    assert names[-1] == ("on_chain_end", "RunnableWithMessageHistory")
    assert events[0]["parent_ids"] == events[-1]["parent_ids"] == []
    assert events[0]["run_id"] == events[-1]["run_id"]
    root = events[0]["run_id"]
    assert all(event["parent_ids"][:1] == [root] for event in events if event["run_id"] != root)
    assert names.count(("on_chain_start", "RunnableWithMessageHistory")) == 1
    assert names.count(("on_chat_model_start", "talker")) == 1
    assert names.count(("on_chat_model_end", "talker")) == 1
    streamed = [event for event in events if event["event"] == "on_chat_model_stream"]
    assert len(streamed) > 1
    assert "".join(event["data"]["chunk"].content for event in streamed) == "one two three"
    assert events[0]["data"]["input"] == {"q": "Hi"}
    assert events[-1]["data"]["output"].content == "one two three"
    assert said(kept) == [("human", "Hi"), ("ai", "one two three")]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"include_types": ["chat_model"]}, {"talker"}),
        ({"include_names": ["talker"]}, {"talker"}),
        ({"include_tags": ["talker"]}, {"talker"}),
        ({"include_names": ["chat"]}, {"chat"}),
        ({"exclude_names": ["chat"]}, {"talker", "RunnableSequence", "ChatPromptTemplate"}),
        ({"exclude_types": ["chain", "prompt"]}, {"talker"}),
        ({"exclude_tags": ["talker"]}, {"chat", "RunnableSequence", "ChatPromptTemplate"}),
    ],
)
async def test_events_can_be_chosen(kept: RedisMemory, filters: Any, names: set[str]) -> None:
    """M:astream_events: by name, type and tag; the turn is stored whatever is looked at."""
    chain = _chain(kept, name="chat")
    events = [event async for event in chain.astream_events({"q": "Hi"}, to(), version="v2", **filters)]
    assert {event["name"] for event in events} == names
    assert said(kept) == [("human", "Hi"), ("ai", "one two three")]


@pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated")
async def test_the_first_version_of_events_runs(kept: RedisMemory) -> None:
    """M:astream_events: with its own order, and one turn."""
    events = [event async for event in _chain(kept).astream_events({"q": "Hi"}, to(), version="v1")]
    assert [(event["event"], event["name"]) for event in (events[0], events[-1])] == [
        ("on_chain_start", "RunnableWithMessageHistory"),
        ("on_chain_end", "RunnableWithMessageHistory"),
    ]
    assert any(event["event"] == "on_chat_model_stream" for event in events)
    assert events[-1]["data"]["output"].content == "one two three"
    assert said(kept) == [("human", "Hi"), ("ai", "one two three")]


@pytest.mark.parametrize("version", ["v3", "v9"])
async def test_other_versions_of_events_are_refused(kept: RedisMemory, version: Any) -> None:
    """M:astream_events: as core refuses them, and nothing is stored."""
    with pytest.raises(NotImplementedError):
        await _events(_chain(kept), version)
    assert said(kept) == []


async def _events(chain: Any, version: str) -> None:
    events = chain.astream_events({"q": "Hi"}, to(), version=version)
    if hasattr(events, "__aiter__"):
        async for _ in events:
            pass
    else:
        await events


async def test_events_of_two_runs_are_kept_apart(kept: RedisMemory) -> None:
    """M:astream_events: two streams read by turns; each sees its own run and stores its own turn."""
    chain = _chain(kept)
    one = chain.astream_events({"q": "a"}, to("a"), version="v2")
    two = chain.astream_events({"q": "b"}, to("b"), version="v2")
    roots: list[set[str]] = [set(), set()]
    for events, found in ((one, roots[0]), (two, roots[1])):
        found.add((await anext(events))["run_id"])
    for events, found in ((one, roots[0]), (two, roots[1])):
        async for event in events:
            found.add(event["parent_ids"][0] if event["parent_ids"] else event["run_id"])
    assert len(roots[0]) == len(roots[1]) == 1
    assert roots[0] != roots[1]
    assert said(kept, "a") == [("human", "a"), ("ai", "one two three")]
    assert said(kept, "b") == [("human", "b"), ("ai", "one two three")]


@pytest.mark.filterwarnings("ignore:astream_log is deprecated")
async def test_a_log_has_the_whole_answer(kept: RedisMemory) -> None:
    """M:astream_log, R20: and names the model, for as long as core has it."""
    assert hasattr(RunnableWithMessageHistory, "astream_log") == hasattr(Runnable, "astream_log")
    if not hasattr(Runnable, "astream_log"):
        return
    patches: list[Any] = [patch async for patch in _chain(kept).astream_log({"q": "Hi"}, to())]
    state = together(patches).state
    assert state["final_output"].content == "one two three"
    assert state["logs"]["talker"]["type"] == "llm"
    assert len(state["streamed_output"]) > 1
    assert said(kept) == [("human", "Hi"), ("ai", "one two three")]
