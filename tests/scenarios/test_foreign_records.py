"""Records that LangChain's own histories wrote, and lists of both codecs."""

from __future__ import annotations

import json

import pytest
import redis

from memory_redis import StoredMessage, ai, chat, human, tool
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, texts

pytestmark = pytest.mark.anyio

CALL = {"name": "add", "args": {"x": 1}, "id": "c1", "type": "tool_call"}

PYTHON = [
    (
        '{"type": "human", "data": {"content": "h\\u00e9", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "human", "name": "ann", "id": "h1", "example": false}}',
        human("hé", name="ann", id="h1"),
    ),
    (
        '{"type": "ai", "data": {"content": "", "additional_kwargs": {}, "response_metadata": {}, "type":'
        ' "ai", "name": null, "id": null, "tool_calls": [{"name": "add", "args": {"x": 1}, "id": "c1",'
        ' "type": "tool_call"}], "invalid_tool_calls": [], "usage_metadata": null}}',
        ai("", tool_calls=[CALL]),
    ),
    (
        '{"type": "tool", "data": {"content": "3", "additional_kwargs": {}, "response_metadata": {}, "type":'
        ' "tool", "name": "add", "id": null, "tool_call_id": "c1", "artifact": {"raw": [1, 2]},'
        ' "status": "success"}}',
        tool("3", tool_call_id="c1", name="add", artifact={"raw": [1, 2]}),
    ),
    (
        '{"type": "chat", "data": {"content": "yo", "additional_kwargs": {}, "response_metadata": {}, "type":'
        ' "chat", "name": null, "id": null, "role": "critic"}}',
        chat("yo", role="critic"),
    ),
    (
        '{"type": "AIMessageChunk", "data": {"content": "par", "additional_kwargs": {}, "response_metadata":'
        ' {}, "type": "AIMessageChunk", "name": null, "id": "k1", "tool_calls": [], "invalid_tool_calls": [],'
        ' "usage_metadata": null, "tool_call_chunks": [], "chunk_position": "last"}}',
        ai("par", id="k1"),
    ),
]

JAVASCRIPT = [
    (
        '{"type":"human","data":{"content":"hé","name":"ann","id":"h1","additional_kwargs":{},'
        '"response_metadata":{}}}',
        human("hé", name="ann", id="h1"),
    ),
    (
        '{"type":"ai","data":{"content":"","tool_calls":[{"name":"add","args":{"x":1},"id":"c1",'
        '"type":"tool_call"}],"invalid_tool_calls":[],"additional_kwargs":{},"response_metadata":{}}}',
        ai("", tool_calls=[CALL]),
    ),
    (
        '{"type":"tool","data":{"content":"3","tool_call_id":"c1","artifact":{"rawData":[1]},"status":"error",'
        '"additional_kwargs":{},"response_metadata":{}}}',
        tool("3", tool_call_id="c1", artifact={"rawData": [1]}, status="error"),
    ),
    (
        '{"type":"generic","data":{"content":"yo","role":"critic","additional_kwargs":{},"response_metadata":{}}}',
        chat("yo", role="critic"),
    ),
    (
        '{"type":"ai","data":{"content_blocks":[{"type":"text","text":"v1 block"}],"tool_calls":[],'
        '"invalid_tool_calls":[],"additional_kwargs":{},"response_metadata":{"output_version":"v1"}}}',
        ai([{"type": "text", "text": "v1 block"}], response_metadata={"output_version": "v1"}),
    ),
    (
        '{"type":"ai","data":{"content":"","additional_kwargs":{"__lc_escaped__":{"lc":5}},"tool_calls":[],'
        '"invalid_tool_calls":[],"response_metadata":{}}}',
        ai("", additional_kwargs={"__lc_escaped__": {"lc": 5}}),
    ),
    ('{"type":"human","role":"user","text":"hello"}', human("hello", role="user")),
    ('{"type":"human","text":"hello"}', human("hello")),
]


@pytest.mark.parametrize("layout", [PYTHON, JAVASCRIPT], ids=["python", "javascript"])
async def test_records_of_langchain_are_read(
    memory: MakeMemory, raw: redis.Redis, keys: Names, layout: list[tuple[str, StoredMessage]]
) -> None:
    """R76 to R78, J01: Python's and JavaScript's layouts of every age, pushed by hand in reading order."""
    raw.rpush(keys.messages, *(record for record, _ in layout))
    history = memory().history("ann", "c1")
    messages = (await history.load()).messages
    assert messages == [expected for _, expected in layout]
    assert {message.stored_at for message in messages} == {None}
    await history.append(human("and on"))
    assert texts(await history.load())[-1] == "and on"
    assert await history.count() == len(layout) + 1


async def test_both_codecs_stand_in_one_list(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Both codecs: the setting chooses what is written; every reader takes both."""
    packed, written = memory().history("ann", "c1"), memory(codec="json").history("ann", "c1")
    await packed.append(human("1"), call("a"))
    await written.append(tool("2", tool_call_id="a"), ai("3"))
    await packed.append(human("4", extra={"lc": 1}))
    for history in (packed, written):
        messages = (await history.load()).messages
        assert texts(messages) == ["1", "", "2", "3", "4"]
        assert messages[4].data["extra"] == {"lc": 1}
        assert all(message.stored_at is not None for message in messages)
    assert [record[:1] for record in raw.lrange(keys.messages, 0, -1)] == [b"\1", b"\1", b"{", b"{", b"\1"]


async def test_json_records_are_in_langchains_layout(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R76, decision 38: outer type and data, the type repeated, defaults written out."""
    await (
        memory(codec="json")
        .history("ann", "c1")
        .append(human("é", name="ann"), ai("", tool_calls=[CALL]), tool("3", tool_call_id="c1"))
    )
    records = [json.loads(record) for record in raw.lrange(keys.messages, 0, -1)]
    assert [record["type"] for record in records] == ["human", "ai", "tool"]
    assert all(record["data"]["type"] == record["type"] for record in records)
    common = {"additional_kwargs": {}, "response_metadata": {}, "id": None}
    assert {**common, "content": "é", "type": "human", "name": "ann"} == records[0]["data"]
    assert records[1]["data"]["tool_calls"] == [CALL]
    assert records[1]["data"]["usage_metadata"] is None
    assert records[2]["data"]["status"] == "success"
