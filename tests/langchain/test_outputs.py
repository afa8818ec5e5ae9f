"""What may come out, what is stored of it, and that what cannot be stored is an error with the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.runnables import RunnableParallel, RunnablePassthrough

from memory_redis import HistoryNotSaved, InvalidAnswer, MissingKey, RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import (
    OthersHistory,
    Runs,
    ask,
    chunks_of,
    every_way,
    model,
    pieces,
    said,
    session,
    stored,
    talk,
)

pytestmark = pytest.mark.anyio

CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@every_way
@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ("fine", [("ai", "fine")]),
        ("", [("ai", "")]),
        (AIMessage(content="fine", id="a1", response_metadata={"model": "m"}), [("ai", "fine")]),
        (HumanMessage(content="as you said"), [("human", "as you said")]),
        (SystemMessage(content="rule"), [("system", "rule")]),
        (ToolMessage(content="3", tool_call_id="k1"), [("tool", "3")]),
        (FunctionMessage(content="3", name="add"), [("function", "3")]),
        (ChatMessage(content="hm", role="critic"), [("chat", "hm")]),
        ([AIMessage(content="a"), AIMessage(content="b")], [("ai", "a"), ("ai", "b")]),
        ((HumanMessage(content="a"), AIMessage(content="b")), [("human", "a"), ("ai", "b")]),
        (["a", "b"], [("ai", "a"), ("ai", "b")]),
        ([("ai", "a"), {"role": "user", "content": "b"}], [("ai", "a"), ("human", "b")]),
        ({"role": "assistant", "content": "fine"}, [("ai", "fine")]),
        ({"text": "fine"}, [("ai", "fine")]),
        ({"text": [AIMessage(content="a"), "b"]}, [("ai", "a"), ("ai", "b")]),
        ({"output": "fine", "docs": ["x", 7]}, [("ai", "fine")]),
        ([], []),
    ],
)
async def test_what_stands_for_an_answer_is_stored_and_comes_out_as_it_is(
    memory: RedisMemory, way: str, output: Any, kept: list[tuple[str, str]]
) -> None:
    """R43, R44, R45, R47, R51, R111: each message with its own role, in order; other keys are not stored."""
    chain = RunnableWithMessageHistory(Runs(output), memory)
    [given] = await chunks_of(way, chain, "Hi")
    assert given is output or given == output
    assert type(given) is type(output)
    assert said(stored(memory)) == [("human", "Hi"), *kept]


@every_way
@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("fine", [("ai", "fine")]),
        (AIMessage(content="fine"), [("ai", "fine")]),
        ([AIMessage(content="a"), ToolMessage(content="b", tool_call_id="k")], [("ai", "a"), ("tool", "b")]),
    ],
)
async def test_an_output_key_names_what_is_stored(
    memory: RedisMemory, way: str, answer: Any, kept: list[tuple[str, str]]
) -> None:
    """R46, R3: that value alone, also beside a key `output`; the caller gets the whole dictionary."""
    whole = {"answer": answer, "output": "not this", "docs": [1, 2]}
    chain = RunnableWithMessageHistory(Runs(whole), memory, output_messages_key="answer")
    assert await chunks_of(way, chain, "Hi") == [whole]
    assert said(stored(memory)) == [("human", "Hi"), *kept]


@every_way
async def test_the_message_of_a_chat_model_is_stored_whole(memory: RedisMemory, way: str) -> None:
    """R49, R51: with id, calls, usage and metadata, as the caller gets it."""
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    answer = AIMessage(
        content="let me see",
        id="a1",
        tool_calls=[CALL],
        usage_metadata=usage,
        response_metadata={"model_name": "fake"},
        additional_kwargs={"safe": True},
    )
    chain = RunnableWithMessageHistory(model(answer), memory)
    given = await ask(way, chain, "Hi")
    kept = stored(memory)[-1]
    assert (kept.type, kept.text, kept.id) == ("ai", given.text, given.id)
    assert kept.tool_calls == given.tool_calls == [CALL]
    assert kept.data["usage_metadata"] == given.usage_metadata == usage
    assert kept.data["response_metadata"] == given.response_metadata
    assert kept.data["additional_kwargs"] == given.additional_kwargs == {"safe": True}
    assert not {"tool_call_chunks", "chunk_position"} & kept.data.keys()


@dataclass
class Thing:
    text: str = "x"


REFUSED = [
    pytest.param(7, {}, id="R50-int"),
    pytest.param(None, {}, id="R50-None"),
    pytest.param(Thing(), {}, id="R50-object"),
    pytest.param([7], {}, id="R50-list"),
    pytest.param([{"type": "text", "text": "a"}], {}, id="R50-blocks"),
    pytest.param([["a"], ["b"]], {}, id="R50-lists"),
    pytest.param(AIMessage(content="a", thing=Thing()), {}, id="R50-not-storable"),
    pytest.param({"a": "x", "b": "y"}, {}, id="R48"),
    pytest.param({}, {}, id="R48-empty"),
    pytest.param({"text": 7}, {}, id="R47-int"),
    pytest.param({"output": "a", "b": "y"}, {"output_messages_key": "answer"}, id="R46-absent"),
    pytest.param("fine", {"output_messages_key": "answer"}, id="R46-no-dictionary"),
]


@every_way
@pytest.mark.parametrize(("output", "keys"), REFUSED)
async def test_an_output_that_is_no_message_is_an_error_that_carries_it(
    memory: RedisMemory, way: str, output: Any, keys: dict[str, str]
) -> None:
    """R46, R47, R48, R50, T1: a ValueError, nothing is stored; the answer, which cost money, is in it."""
    runs = Runs(output)
    chain: Any = RunnableWithMessageHistory(runs, memory, **keys)
    with pytest.raises(InvalidAnswer) as caught:
        await chunks_of(way, chain, "Hi")
    assert isinstance(caught.value, ValueError | HistoryNotSaved)
    assert caught.value.output is output
    assert caught.value.__cause__ is caught.value.error
    assert isinstance(caught.value.error, MissingKey) == (isinstance(output, dict) and "text" not in output)
    assert runs.calls == 1
    assert stored(memory) == []


@every_way
async def test_what_cannot_be_stored_can_still_be_had(memory: RedisMemory, way: str) -> None:
    """R50, T1: who prefers the answer to the error asks for that, and is told by other ways."""
    told: list[HistoryNotSaved] = []
    chain = RunnableWithMessageHistory(Runs(7), memory, on_save_error=told.append)
    assert await ask(way, chain, "Hi") == 7
    assert [type(error) for error in told] == [InvalidAnswer]
    assert stored(memory) == []


@every_way
async def test_a_turn_is_one_write(way: str) -> None:
    """R52, R53: what is new, then the answer, in one add_messages call; and one read before."""
    history = OthersHistory(HumanMessage(content="before"), AIMessage(content="yes"))
    chain = RunnableWithMessageHistory(model("fine thank you"), lambda session_id: history)
    await ask(way, chain, [SystemMessage(content="a"), HumanMessage(content="b")], session(session_id="s"))
    assert [said(write) for write in history.writes] == [
        [("system", "a"), ("human", "b"), ("ai", "fine thank you")]
    ]
    assert history.reads == 1


# -- streams ------------------------------------------------------------------------------------------


def part(text: str, **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=text, **fields)


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize(
    ("chunks", "kept"),
    [
        (["one ", "two"], [("ai", "one two")]),
        ([part("one "), part("two")], [("ai", "one two")]),
        ([part("one ", id="1"), part("two", id="2")], [("ai", "one "), ("ai", "two")]),
        ([[part("one ", id="1")], [part("two", id="1")]], [("ai", "one two")]),
        ([[part("one ", id="1"), part("two", id="1")]], [("ai", "one two")]),
        ([[AIMessage(content="a")], [AIMessage(content="b")]], [("ai", "a"), ("ai", "b")]),
        ([["a"], ["b"]], [("ai", "a"), ("ai", "b")]),
        ([AIMessage(content="a"), HumanMessage(content="b")], [("ai", "a"), ("human", "b")]),
        ([{"text": "one "}, {"text": "two"}], [("ai", "one two")]),
        ([{"text": part("one ")}, {"text": part("two")}], [("ai", "one two")]),
        ([{"text": part("ha")}, {"text": part("ha")}], [("ai", "haha")]),
        ([{"output": "one "}, {"docs": [1]}, {"output": "two"}, {"docs": [2]}], [("ai", "one two")]),
        ([{"output": [AIMessage(content="a")]}, {"output": ["b"]}], [("ai", "a"), ("ai", "b")]),
        ([{}, {"text": ""}, {"text": "one"}, {"text": "one two"}], [("ai", "one two")]),
        ([{"text": ["a"]}, {"text": ["a", "b"]}, {"text": ["a", "bc"]}], [("ai", "a"), ("ai", "bc")]),
        ([{"text": "ha"}, {"text": "ha"}], [("ai", "haha")]),
        ([{"text": "1"}, {"text": "10"}], [("ai", "110")]),
        ([{}, {"text": "1"}, {"text": "10"}], [("ai", "10")]),
        ([{"text": None}, {"text": "1"}], [("ai", "1")]),
        ([part("one "), "two"], [("ai", "one "), ("ai", "two")]),
    ],
)
async def test_the_pieces_of_a_stream_are_put_together(
    memory: RedisMemory, way: str, chunks: list[Any], kept: list[tuple[str, str]]
) -> None:
    """T5, T4, R51: texts, chunks, lists and dictionaries of these; the caller gets each piece as it is.

    What a parser streams, each piece holding all of the last, is stored once; texts that happen to begin
    alike are pieces.
    """
    chain = RunnableWithMessageHistory(pieces(*chunks), memory)
    given = await chunks_of(way, chain, "Hi")
    assert len(given) == len(chunks)
    assert given == chunks
    assert said(stored(memory)) == [("human", "Hi"), *kept]
    assert {message.type for message in stored(memory)} <= {"human", "ai"}


@every_way
async def test_dictionaries_of_chains_are_stored_under_their_key(memory: RedisMemory, way: str) -> None:
    """T5, R46: what RunnableParallel and assign stream is put together key by key."""
    chain: Any = RunnablePassthrough.assign(answer=(lambda given: given["text"]) | model("one two three"))
    wrapped = RunnableWithMessageHistory(
        chain, memory, input_messages_key="text", output_messages_key="answer"
    )
    given = await ask(way, wrapped, {"text": "Hi", "lang": "de"})
    assert str(given["answer"].text) == "one two three"
    both: Any = RunnableParallel(a=model("four five"), b=model("six seven") | StrOutputParser())
    wrapped = RunnableWithMessageHistory(both, memory, output_messages_key="b")
    given = await ask(way, wrapped, "Ho")
    assert (str(given["a"].text), given["b"]) == ("four five", "six seven")
    assert said(stored(memory)) == talk("Hi", "one two three", "Ho", "six seven")


@every_way
async def test_the_answer_of_a_json_parser_is_stored_once(memory: RedisMemory, way: str) -> None:
    """T5, R46: its stream gives the dictionary again and again, further written each time."""
    text = json.dumps({"mood": "glad", "answer": "one two three"})
    chain = RunnableWithMessageHistory(model(text) | JsonOutputParser(), memory, output_messages_key="answer")
    *_, last = await chunks_of(way, chain, "Hi")
    assert last == {"mood": "glad", "answer": "one two three"}
    assert said(stored(memory)) == talk("Hi", "one two three")


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("bound", [False, True])
async def test_a_json_parser_may_begin_with_the_whole_structure(
    memory: RedisMemory, way: str, bound: bool
) -> None:
    """T5, R46: a model that streams large pieces lets nothing grow but the text; it is stored once."""
    chain: Any = pieces(part('{"answer": "one'), part(" two"), part(' three"}')) | JsonOutputParser()
    if bound:
        chain = chain.with_config(run_name="bound").with_retry()
    wrapped = RunnableWithMessageHistory(chain, memory, output_messages_key="answer")
    given = await chunks_of(way, wrapped, "Hi")
    assert given[0] == {"answer": "one"}
    assert given[-1] == {"answer": "one two three"}
    assert said(stored(memory)) == talk("Hi", "one two three")


@every_way
async def test_a_text_chain_gives_text(memory: RedisMemory, way: str) -> None:
    """R43, R51: behind a parser of texts, one AI message is stored."""
    chain = RunnableWithMessageHistory(model("one two") | StrOutputParser(), memory)
    given = await chunks_of(way, chain, "Hi")
    assert "".join(given) == "one two"
    assert len(given) == 1 if way.endswith("invoke") else len(given) > 1
    assert said(stored(memory)) == talk("Hi", "one two")


async def test_a_stored_answer_does_not_change_with_the_callers_object(memory: RedisMemory) -> None:
    """T21, R51: what the caller does with the answer afterwards is his."""
    answer = AIMessage(content="fine", additional_kwargs={"a": [1]})
    chain = RunnableWithMessageHistory(Runs(answer), memory)
    given: BaseMessage = chain.invoke("Hi", session())
    assert given is answer
    given.content = "changed"
    given.additional_kwargs["a"].append(2)
    kept = stored(memory)[-1]
    assert (kept.text, kept.data["additional_kwargs"]) == ("fine", {"a": [1]})
