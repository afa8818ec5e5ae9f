"""The forms in which LangChain Python and LangChain.js wrote messages, by age and by class."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from memory_redis import CorruptRecord, StoredMessage, ai, human
from tests.support.foreign import CALL, JAVASCRIPT, PYTHON
from tests.unit.records import encoded, read


@pytest.mark.parametrize(("text", "message"), PYTHON + JAVASCRIPT, ids=lambda value: str(value)[:60])
def test_a_record_of_langchain_is_read(text: str, message: StoredMessage) -> None:
    """R104, R105, R109, R115: what either library wrote in any of its layouts is one message here."""
    assert read(text.encode()) == message
    assert StoredMessage.model_validate_json(text) == message
    assert StoredMessage.model_validate(json.loads(text)) == message


CHUNKS: dict[str, tuple[str, dict[str, Any]]] = {
    "AIMessageChunk": ("ai", {"tool_calls": [CALL]}),
    "HumanMessageChunk": ("human", {"name": "ann"}),
    "SystemMessageChunk": ("system", {}),
    "ToolMessageChunk": ("tool", {"tool_call_id": "c1", "status": "error"}),
    "FunctionMessageChunk": ("function", {"name": "add"}),
    "ChatMessageChunk": ("chat", {"role": "critic"}),
}


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_streamed_chunk_is_a_message(chunk: str) -> None:
    """R109, C04, C05: type without "Chunk", no tool_call_chunks or chunk_position, every other field kept."""
    kind, fields = CHUNKS[chunk]
    data = {"content": "par", "id": "k1", "type": chunk, **fields}
    dropped = {"tool_call_chunks": [], "chunk_position": "last"}
    message = read(json.dumps({"type": chunk, "data": {**data, **dropped}}).encode())
    assert message.type == kind
    assert message.data == {"content": "par", "id": "k1", **fields}
    assert "Chunk" not in encoded(message, codec="json")[0].decode()


@pytest.mark.parametrize(("text", "message"), PYTHON + JAVASCRIPT, ids=lambda value: str(value)[:60])
def test_what_was_read_is_written_as_langchain_writes_it(text: str, message: StoredMessage) -> None:
    """The JSON codec writes plain types, explicit content and every field that LangChain writes."""
    written = json.loads(encoded(message, codec="json")[0])
    data = written["data"]
    assert written["type"] == data["type"] == message.type
    assert {"content", "additional_kwargs", "response_metadata", "name", "id"} <= set(data)
    if message.type == "ai":
        assert {"tool_calls", "invalid_tool_calls", "usage_metadata"} <= set(data)
    if message.type == "tool":
        assert {"artifact", "status", "tool_call_id"} <= set(data)
    assert data["content"] == message.content


def test_json_is_written_byte_for_byte_in_the_layout_of_langchain() -> None:
    """Order of the fields, nulls and text as UTF-8; what is ours stands beside type and data."""
    record = encoded(ai("é", tool_calls=[CALL]), codec="json")[0]
    assert record.decode() == (
        '{"type":"ai","owner":"0123456789abcdef","links":"5ed72aa1","data":{"content":"é","additional_kwargs":{},"response_metadata":{},'
        '"type":"ai","name":null,"id":null,"tool_calls":[{"name":"add","args":{"x":1},"id":"c1","type":"tool_call"}],'
        '"invalid_tool_calls":[],"usage_metadata":null}}'
    )


@pytest.mark.parametrize(("number", "text"), [("5", "5"), ("0", "0"), ("1.5", "1.5")])
def test_a_numeric_id_of_a_record_becomes_text(number: str, text: str) -> None:
    """R103: as LangChain does it."""
    assert read(f'{{"type":"human","data":{{"content":"x","id":{number}}}}}'.encode()).id == text


def test_a_half_of_a_character_from_javascript_is_replaced() -> None:
    """S3: JSON.stringify escapes a lone surrogate; one odd character does not make the message unreadable."""
    record = rb'{"type":"human","data":{"content":"a\ud800b","additional_kwargs":{"\udfff":"\udc00"}}}'
    assert read(record).data == {"content": "a�b", "additional_kwargs": {"�": "�"}}


def test_other_top_level_keys_are_ignored() -> None:
    """Only type and data make the message; a foreign seq or stored_ms is no place of ours."""
    record = (
        b'{"id":"x","type":"human","data":{"content":"hi"},"lc":1,"seq":99,"stored_ms":5,"stored_at":"noon"}'
    )
    message = read(record)
    assert message == human("hi")
    assert message.seq == 0
    assert message.stored_at is None


BAD: dict[str, dict[str, Any]] = {
    "unknown type": {"type": "robot", "data": {"content": "x"}},
    "a class name": {"type": "HumanMessage", "data": {"content": "x"}},
    "no type": {"data": {"content": "x"}},
    "a number as type": {"type": 5, "data": {"content": "x"}},
    "no data": {"type": "human"},
    "data is text": {"type": "human", "data": "x"},
    "data is a list": {"type": "human", "data": ["content", "x"]},
    "no content": {"type": "human", "data": {"name": "x"}},
    "null content": {"type": "human", "data": {"content": None}},
    "content is a map": {"type": "human", "data": {"content": {"text": "x"}}},
    "content with numbers": {"type": "human", "data": {"content": ["x", 5]}},
    "tool without tool_call_id": {"type": "tool", "data": {"content": "x"}},
    "tool with a numeric tool_call_id": {"type": "tool", "data": {"content": "x", "tool_call_id": 5}},
    "function without name": {"type": "function", "data": {"content": "x"}},
    "chat without role": {"type": "chat", "data": {"content": "x"}},
    "generic without role": {"type": "generic", "data": {"content": "x"}},
    "remove without id": {"type": "remove", "data": {"content": ""}},
    "two types": {"type": "human", "data": {"content": "x", "type": "ai"}},
    "constructor form": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "SystemMessage"],
        "kwargs": {"content": "x"},
    },
    "tool calls that are no maps": {"type": "ai", "data": {"content": "x", "tool_calls": ["c1"]}},
    "kwargs that are no map": {"type": "ai", "data": {"content": "x", "additional_kwargs": []}},
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_message_is_refused(name: str) -> None:
    """R78, S1, S2, T15: unknown types and incomplete data are errors; no constructor form is revived."""
    with pytest.raises(ValidationError):
        StoredMessage.model_validate(BAD[name])
    with pytest.raises(CorruptRecord):
        read(json.dumps(BAD[name]).encode())
