"""Records in the forms in which LangChain Python and LangChain.js wrote messages, with their meaning here."""

from __future__ import annotations

from memory_redis import StoredMessage, ai, chat, function, human, system, tool

CALL = {"name": "add", "args": {"x": 1}, "id": "c1", "type": "tool_call"}

# As langchain-core 1.8.3 writes them, field for field.
PYTHON: list[tuple[str, StoredMessage]] = [
    (
        '{"type": "human", "data": {"content": "hi", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "human", "name": "ann", "id": "h1"}}',
        human("hi", name="ann", id="h1"),
    ),
    (
        '{"type": "ai", "data": {"content": "", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "ai", "name": null, "id": null, "tool_calls": [{"name": "add", "args": {"x": 1},'
        ' "id": "c1", "type": "tool_call"}], "invalid_tool_calls": [], "usage_metadata": null}}',
        ai("", tool_calls=[CALL]),
    ),
    (
        '{"type": "tool", "data": {"content": "3", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "tool", "name": "add", "id": null, "tool_call_id": "c1", "artifact": {"raw": [1, 2]},'
        ' "status": "success"}}',
        tool("3", tool_call_id="c1", name="add", artifact={"raw": [1, 2]}),
    ),
    (
        '{"type": "chat", "data": {"content": "yo", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "chat", "name": null, "id": null, "role": "critic"}}',
        chat("yo", role="critic"),
    ),
    (
        '{"type": "function", "data": {"content": "3", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "function", "name": "add", "id": null}}',
        function("3", name="add"),
    ),
    (
        '{"type": "system", "data": {"content": "be brief", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "system", "name": null, "id": null}}',
        system("be brief"),
    ),
    (
        '{"type": "remove", "data": {"content": "", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "remove", "name": null, "id": "h1"}}',
        StoredMessage(type="remove", data={"id": "h1"}),
    ),
    (
        '{"type": "human", "data": {"content": "old", "additional_kwargs": {}, "example": false}}',
        human("old"),
    ),
    (
        '{"type": "human", "data": {"content": "h\\u00e9", "additional_kwargs": {}, "response_metadata": {},'
        ' "type": "human", "name": "ann", "id": "h1", "example": false}}',
        human("hé", name="ann", id="h1"),
    ),
    (
        '{"type": "AIMessageChunk", "data": {"content": "par", "additional_kwargs": {}, "response_metadata":'
        ' {}, "type": "AIMessageChunk", "name": null, "id": "k1", "tool_calls": [], "invalid_tool_calls": [],'
        ' "usage_metadata": null, "tool_call_chunks": [], "chunk_position": "last"}}',
        ai("par", id="k1"),
    ),
]

# As @langchain/core 1.4.0 writes them, and its predecessors.
JAVASCRIPT: list[tuple[str, StoredMessage]] = [
    (
        '{"type":"human","data":{"content":"hi","name":"ann","id":"h1","additional_kwargs":{},"response_metadata":{}}}',
        human("hi", name="ann", id="h1"),
    ),
    (
        '{"type":"ai","data":{"content":"","tool_calls":[{"name":"add","args":{"x":1},"id":"c1","type":"tool_call"}],'
        '"invalid_tool_calls":[],"additional_kwargs":{},"response_metadata":{}}}',
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
    ('{"type":"ai","text":"hello"}', ai("hello")),
    ('{"type":"generic","role":"critic","text":"hello"}', chat("hello", role="critic")),
    ('{"type":"human","text":""}', human("")),
    ('{"type":"human","data":{"content":"hello","role":"user"}}', human("hello", role="user")),
    (
        '{"type":"human","data":{"content":"hello","name":"ann","additional_kwargs":{}}}',
        human("hello", name="ann"),
    ),
    (
        '{"type":"ai","data":{"content":"par","tool_calls":[],"invalid_tool_calls":[],"tool_call_chunks":[],'
        '"additional_kwargs":{},"response_metadata":{}}}',
        ai("par", tool_call_chunks=[]),
    ),
    (
        '{"type":"human","data":{"content":"hé","name":"ann","id":"h1","additional_kwargs":{},'
        '"response_metadata":{}}}',
        human("hé", name="ann", id="h1"),
    ),
    ('{"type":"human","text":"hello"}', human("hello")),
]
