"""LangChain's messages as they are stored, and back: nothing is lost, shared, revived or made up."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    ChatMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
    messages_from_dict,
)

from memory_redis import StoredMessage, ai, chat, function, human, system, tool
from memory_redis.langchain import from_langchain, to_langchain
from tests.langchain.some_messages import (
    BLOCKS,
    CHUNKS,
    CONSTRUCTOR,
    OF_CHUNKS,
    PLAIN,
    chunks,
    containers,
    exactly,
    fields_of,
    of_class,
    plain_messages,
    shown,
)
from tests.support.foreign import JAVASCRIPT, PYTHON
from tests.unit.strategies import any_messages, examples, messages

CALL = {"name": "add", "args": {"x": 1}, "id": "c1", "type": "tool_call"}


def through(message: BaseMessage) -> BaseMessage:
    """A message, stored and loaded."""
    return to_langchain(from_langchain(message))


# -- LangChain's messages come back --------------------------------------------------------------


@examples(300)
@given(message=plain_messages)
def test_a_message_comes_back_as_it_was(message: BaseMessage) -> None:
    """R101 to R107: class, all fields and unknown ones, and what LangChain computes of them, are the same."""
    before = exactly(fields_of(message))
    back = through(message)
    assert type(back) is type(message)
    assert back == message
    assert exactly(fields_of(back)) == before == exactly(fields_of(message))
    assert exactly(back.model_dump()) == exactly(message.model_dump())
    assert shown(back) == shown(message)


@examples(300)
@given(chunk=chunks)
def test_a_chunk_comes_back_as_a_message(chunk: BaseMessage) -> None:
    """R109, T4, C04, C05: nothing of streaming is stored, all else is kept."""
    stored = from_langchain(chunk)
    assert stored.type == chunk.type.removesuffix("MessageChunk").lower()
    assert not OF_CHUNKS & set(stored.data)
    back = to_langchain(stored)
    assert type(back) in PLAIN
    assert isinstance(chunk, type(back))
    assert not isinstance(back, BaseMessageChunk)
    assert exactly(fields_of(back)) == exactly(fields_of(chunk))
    assert back.text == chunk.text


@pytest.mark.parametrize("made_of", PLAIN + CHUNKS, ids=lambda made_of: made_of.__name__)
def test_no_class_is_left_to_chance(made_of: type[BaseMessage]) -> None:
    """R105: each class, for itself."""

    @examples(20)
    @given(message=of_class(made_of))
    def check(message: BaseMessage) -> None:
        assert exactly(fields_of(through(message))) == exactly(fields_of(message))

    check()


@examples(300)
@given(message=plain_messages | chunks)
def test_nothing_that_can_change_is_shared(message: BaseMessage) -> None:
    """T21: neither storing nor loading leaves a list or map in two messages."""
    stored = from_langchain(message)
    one, other = to_langchain(stored), to_langchain(stored)
    held = [stored.data, *(fields_of(each) for each in (message, one, other))]
    found = [set(containers(each)) for each in held]
    assert sum(map(len, found)) == len(set().union(*found))


def test_later_changes_stay_where_they_are_made() -> None:
    """T21: a new id, a longer list or a changed argument on one side does not show on the other."""
    message = AIMessage([{"type": "text", "text": "a"}], tool_calls=[CALL], id="a1", own={"x": [1]})
    stored = from_langchain(message)
    back = to_langchain(stored)
    for one in (message, back):
        assert isinstance(one, AIMessage)
        one.id = "lc_run--1"
        one.content.append("b")  # type: ignore[union-attr]
        one.tool_calls[0]["args"]["x"] = 2
        one.own["x"].append(2)  # type: ignore[attr-defined]
        assert stored.data == {
            "content": [{"type": "text", "text": "a"}], "tool_calls": [CALL], "id": "a1", "own": {"x": [1]}
        }  # fmt: skip
    stored.data["own"]["x"].clear()  # type: ignore[typeddict-item]
    assert back.own == {"x": [1, 2]}  # type: ignore[attr-defined]


def test_large_texts_are_not_copied() -> None:
    """A text of a megabyte is the same object before and after."""
    text = "x" * 2**20
    stored = from_langchain(HumanMessage(text, additional_kwargs={"page": [text]}))
    back = to_langchain(stored)
    assert stored.content is text
    assert back.content is text
    assert back.additional_kwargs["page"][0] is text


def test_numbers_as_ids_are_texts() -> None:
    """R103: as LangChain makes them; None is kept."""
    assert through(HumanMessage("x", id=5)).id == "5"
    assert through(HumanMessage("x")).id is None
    late = HumanMessage("x")
    late.id = 5  # type: ignore[assignment]
    assert through(late).id == "5"


def test_standard_content_blocks_stay_as_they_are() -> None:
    """R115: with `output_version="v1"` the content is the list of blocks, in order, key for key."""
    message = AIMessage(list(BLOCKS), response_metadata={"output_version": "v1"})
    back = through(message)
    assert back.content == list(BLOCKS)
    assert back.content_blocks == message.content_blocks
    typed = AIMessage(content_blocks=[{"type": "text", "text": "x"}, {**CALL}])  # type: ignore[list-item]
    assert through(typed) == typed
    assert through(typed).tool_calls == [CALL]  # type: ignore[attr-defined]


def test_a_streamed_answer_is_stored_as_the_message_it_adds_up_to() -> None:
    """R109, R115, C04: chunks of a tool call in standard blocks, merged, are one whole call."""
    parts = [
        AIMessageChunk(
            content=[{"type": "tool_call_chunk", "name": name, "args": args, "id": call_id, "index": 0}],
            tool_call_chunks=[{"name": name, "args": args, "id": call_id, "index": 0}],
            response_metadata={"output_version": "v1"} if name else {},
            id="a1",
        )
        for name, args, call_id in (("add", '{"x"', "c1"), (None, ": 1}", None))
    ]
    merged = parts[0] + parts[1] + AIMessageChunk(content=[], chunk_position="last", id="a1")
    back = through(merged)
    assert back == message_chunk_to_message(merged)
    assert isinstance(back, AIMessage)
    assert back.tool_calls == [CALL]
    assert back.content_blocks == merged.content_blocks
    assert [block["type"] for block in back.content_blocks] == ["tool_call"]


def test_a_chunk_of_a_chat_message_keeps_its_role() -> None:
    """C05: and its name, without "Chunk"."""
    stored = from_langchain(ChatMessageChunk(content="x", role="critic", name="ann"))
    assert stored == chat("x", role="critic", name="ann")


def test_what_looks_like_a_constructor_stays_data() -> None:
    """T15, S2, R102: in every field, and as the whole of one; no object is made of it."""
    message = ToolMessage(
        [CONSTRUCTOR],
        tool_call_id="c1",
        artifact=CONSTRUCTOR,
        additional_kwargs=CONSTRUCTOR,
        response_metadata={"deep": [{"deeper": CONSTRUCTOR}]},
        own=CONSTRUCTOR,
    )
    back = through(message)
    assert back == message
    assert back.own == CONSTRUCTOR  # type: ignore[attr-defined]
    assert isinstance(back, ToolMessage)
    assert type(back.artifact) is dict
    call = {"name": "f", "args": {"x": CONSTRUCTOR}, "id": None, "type": "tool_call"}
    asked = through(AIMessage("", tool_calls=[call]))
    assert isinstance(asked, AIMessage)
    assert asked.tool_calls == [call]


def test_fields_that_were_set_later_are_kept() -> None:
    """R104, R106: also what LangChain's constructors would leave out or refuse."""
    message = AIMessage("", additional_kwargs={"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]})
    calls: Any = [{**CALL, "extras": {"signature": "s"}, "index": 0}]
    usage: Any = {"input_tokens": 1}
    message.tool_calls, message.invalid_tool_calls, message.usage_metadata = calls, [], usage
    assert through(message) == message
    removed = RemoveMessage(id="h1")
    removed.content = "why"
    assert through(removed) == removed


def test_tuples_become_lists() -> None:
    """Decision 17: as every reader of a record would give them."""
    content: Any = ("a", {"x": (1,)})
    back = through(ToolMessage(content, tool_call_id="c1", artifact=(1, (2, "3"))))
    assert isinstance(back, ToolMessage)
    assert (back.content, back.artifact) == (["a", {"x": [1]}], [1, [2, "3"]])


def test_numbers_and_bytes_that_json_has_not_are_kept() -> None:
    """Decision 17: whether they can be stored is for the codec to say."""
    back = through(ToolMessage("x", tool_call_id="c1", artifact=[math.inf, b"\0\xff", math.nan]))
    assert isinstance(back, ToolMessage)
    assert back.artifact[:2] == [math.inf, b"\0\xff"]
    assert math.isnan(back.artifact[2])


def test_the_mark_that_old_versions_wrote_everywhere_goes() -> None:
    """Section 2a: `example=False` is no field of today's messages; True says something, and stays."""
    assert through(HumanMessage("x", example=False)) == HumanMessage("x")
    assert through(HumanMessage("x", example=True)) == HumanMessage("x", example=True)


# -- stored messages, whoever made them ----------------------------------------------------------


@examples(300)
@given(message=messages)
def test_every_stored_message_can_be_given_to_langchain(message: StoredMessage) -> None:
    """R101 to R106: none is refused, and what comes back is the same but for keys that calls had lacked."""
    once = to_langchain(message)
    again = from_langchain(once)
    assert again.type == message.type
    assert set(again.data) == set(message.data)
    for name, value in message.data.items():
        if message.type == "ai" and name in ("tool_calls", "invalid_tool_calls"):
            pairs = zip(value, again.data[name], strict=True)  # type: ignore[literal-required,call-overload]
            assert all(given.items() <= found.items() for given, found in pairs)
        else:
            assert exactly(again.data[name]) == exactly(value)  # type: ignore[literal-required]
    assert to_langchain(again) == once


@examples(100)
@given(message=any_messages)
def test_none_of_them_is_refused_for_its_numbers_or_bytes(message: StoredMessage) -> None:
    """R101 to R106: NaN, infinities and bytes too; the types and fields are the same."""
    again = from_langchain(to_langchain(message))
    assert (again.type, set(again.data)) == (message.type, set(message.data))


@pytest.mark.parametrize(("text", "message"), PYTHON, ids=lambda value: str(value)[:60])
def test_a_record_of_langchain_is_what_langchain_reads(text: str, message: StoredMessage) -> None:
    """Section 2a: the same object as from LangChain's own reader, chunks and old marks aside."""
    (theirs,) = messages_from_dict([json.loads(text)])
    if isinstance(theirs, BaseMessageChunk):
        theirs = message_chunk_to_message(theirs)
    assert theirs.model_extra in ({}, {"example": False})
    theirs.model_extra.clear()
    ours = to_langchain(message)
    assert ours == theirs
    assert ours.model_dump() == theirs.model_dump()


@pytest.mark.parametrize(("text", "message"), JAVASCRIPT, ids=lambda value: str(value)[:60])
def test_a_record_of_langchain_js_is_a_message(text: str, message: StoredMessage) -> None:
    """Sections 2b, 2c: text, type and tool calls are those of the record, and nothing is lost on the way."""
    made = to_langchain(message)
    assert (made.type, made.text) == (message.type, message.text)
    assert from_langchain(made) == StoredMessage.model_validate(json.loads(text))


DEFAULTS: list[tuple[StoredMessage, BaseMessage]] = [
    (human("x"), HumanMessage("x")),
    (system([]), SystemMessage([])),
    (ai("x", tool_calls=[]), AIMessage("x")),
    (ai("", tool_calls=[{"name": "add", "args": {}, "id": "c1"}]),
     AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "c1"}])),
    (ai("", invalid_tool_calls=[{"name": "add", "args": "{"}]),
     AIMessage("", invalid_tool_calls=[{"name": "add", "args": "{", "id": None, "error": None}])),
    (ai("", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
     AIMessage("", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})),
    (tool("x", tool_call_id="c1"), ToolMessage("x", tool_call_id="c1")),
    (StoredMessage(type="remove", data={"id": "h1"}), RemoveMessage(id="h1")),
]  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), DEFAULTS, ids=lambda value: str(value)[:60])
def test_data_without_defaults_is_a_whole_message(message: StoredMessage, expected: BaseMessage) -> None:
    """R103 to R105: what is absent has LangChain's default, in tool calls as well."""
    made = to_langchain(message)
    assert made == expected
    assert exactly(made.model_dump()) == exactly(expected.model_dump())
    assert shown(made) == shown(expected)


def test_defaults_are_made_anew_for_each_message() -> None:
    """T21: the arguments that one call lacks are not those of another."""
    first, second = (to_langchain(ai("", tool_calls=[{"name": "add"}])) for _ in range(2))
    assert isinstance(first, AIMessage)
    assert isinstance(second, AIMessage)
    first.tool_calls[0]["args"]["x"] = 1
    assert second.tool_calls == [{"name": "add", "args": {}, "id": None, "type": "tool_call"}]


def test_calls_in_the_form_of_openai_are_read() -> None:
    """R104: records from before April 2024 have their calls only there, and keep them there."""
    raw = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
    made = to_langchain(ai("", additional_kwargs={"tool_calls": [raw]}))
    assert isinstance(made, AIMessage)
    assert made.tool_calls == [CALL]
    assert made.additional_kwargs == {"tool_calls": [raw]}


def test_calls_that_are_stored_come_before_those_in_the_form_of_openai() -> None:
    """R104: a message with calls of its own gets no others from `additional_kwargs`."""
    raw = {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{"}}
    message = AIMessage("", tool_calls=[CALL], additional_kwargs={"tool_calls": [raw]})
    assert message.invalid_tool_calls == []
    assert through(message) == message


ODD: dict[str, StoredMessage] = {
    "a status of another name": tool("x", tool_call_id="c1", status="cancelled"),
    "usage without a total": ai("x", usage_metadata={"input_tokens": 1, "output_tokens": 2}),
    "usage with a fraction": ai("x", usage_metadata={"input_tokens": 1.5}),
    "further keys of a call": ai("", tool_calls=[{**CALL, "index": 0, "extras": {}}]),
    "arguments that are no map": ai("", tool_calls=[{**CALL, "args": "x"}]),
    "raw calls that LangChain cannot read": ai(
        "", additional_kwargs={"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "[1]"}}]}
    ),
    "chunks of calls that are none": ai("", tool_call_chunks=5),
    "a remove message with content": StoredMessage(type="remove", data={"id": "h1", "content": "why"}),
    "a remove message with no blocks": StoredMessage(type="remove", data={"id": "h1", "content": []}),
    "names of parameters": human("x", self=1, cls=2, _fields_set=3, content_blocks=[4], text=5, kwargs=6),
    "names of methods": human("x", pretty_repr=1, model_extra=2, __class__="X", __dict__={}),
    "fields of other types": human("x", tool_calls=[CALL], role="critic", status="error", artifact=[1]),
    "a name that is empty": function("x", name=""),
}


def test_a_record_of_another_writer_may_repeat_its_type() -> None:
    """Section 2a: as LangChain's own data does; what counts is the type outside."""
    message = human("x")
    for inner in ("human", "HumanMessageChunk", "ai"):
        message.data["type"] = inner  # type: ignore[typeddict-unknown-key]
        assert to_langchain(message) == HumanMessage("x")


@pytest.mark.parametrize("name", ODD)
def test_one_odd_field_makes_no_history_unreadable(name: str) -> None:
    """R106, C06: what could be stored is given out as it stands, and stored again unchanged."""
    message = ODD[name]
    made = to_langchain(message)
    assert type(made) in PLAIN
    assert from_langchain(made) == message
