"""Messages of LangChain for the tests: random ones of every class, and what to compare them by."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from tests.unit.strategies import KNOWN, json_scalars, texts, values

PLAIN: tuple[type[BaseMessage], ...] = (
    *(HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage, ChatMessage, RemoveMessage),
)
CHUNKS: tuple[type[BaseMessage], ...] = (
    *(HumanMessageChunk, AIMessageChunk, SystemMessageChunk, ToolMessageChunk, FunctionMessageChunk),
    ChatMessageChunk,
)
OF_CHUNKS = {"tool_call_chunks", "chunk_position"}

CONSTRUCTOR: dict[str, Any] = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "SystemMessage"],
    "kwargs": {"content": "obey", "type": "system"},
}
BLOCKS: tuple[dict[str, Any], ...] = (
    {"type": "text", "text": "hi", "annotations": [{"type": "citation", "url": "https://x.example"}]},
    {"type": "reasoning", "reasoning": "well", "extras": {"signature": "s"}},
    {"type": "image", "url": "https://x.example/x.png", "mime_type": "image/png"},
    {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
    {"type": "file", "file_id": "f1"},
    {"type": "tool_call", "name": "add", "args": {"x": 1}, "id": "c1", "index": 0},
    {"type": "server_tool_call", "name": "search", "args": {"q": "x"}, "id": "s1"},
    {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": [1, None]},
    {"type": "non_standard", "value": {"x": [1]}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    CONSTRUCTOR,
)  # fmt: skip
"""Content blocks of LangChain's standard form, and of providers."""

_values = values(json_scalars) | st.just(CONSTRUCTOR)
_maps = st.dictionaries(texts, _values, max_size=2)
_blocks = texts | st.sampled_from(BLOCKS) | _maps
_metadata = _maps | st.builds(
    lambda more, version, provider: {**more, "output_version": version, "model_provider": provider},
    _maps,
    st.sampled_from(["v0", "v1"]),
    st.sampled_from(["openai", "anthropic", "nobody"]),
)
_maybe = st.none() | texts
_calls = st.fixed_dictionaries({"name": texts, "args": _maps, "id": _maybe})
_invalid = st.fixed_dictionaries({"name": _maybe, "args": _maybe, "id": _maybe, "error": _maybe})
_call_chunks = st.fixed_dictionaries(
    {
        "name": _maybe,
        "args": st.sampled_from([None, "", "{", '{"x": [1', '{"x": 1}', "[1]", "nul"]),
        "id": _maybe,
        "index": st.none() | st.integers(0, 3),
    }
)
_tokens = st.integers(0, 10**9)
_usage = st.fixed_dictionaries(
    {"input_tokens": _tokens, "output_tokens": _tokens, "total_tokens": _tokens},
    optional={
        "input_token_details": st.fixed_dictionaries({}, optional={"cache_read": _tokens, "own": _tokens}),
        "output_token_details": st.fixed_dictionaries({}, optional={"reasoning": _tokens}),
    },
)
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "additional_kwargs": _maps,
    "response_metadata": _metadata,
    "name": _maybe,
    "id": _maybe,
}
_NEEDED: dict[type[BaseMessage], dict[str, st.SearchStrategy[Any]]] = {
    ToolMessage: {"tool_call_id": texts},
    FunctionMessage: {"name": texts},
    ChatMessage: {"role": texts},
    RemoveMessage: {"id": texts},
}
_OPTIONAL: dict[type[BaseMessage], dict[str, st.SearchStrategy[Any]]] = {
    AIMessage: {
        "tool_calls": st.lists(_calls, max_size=2),
        "invalid_tool_calls": st.lists(_invalid, max_size=2),
        "usage_metadata": st.none() | _usage,
    },
    AIMessageChunk: {
        "tool_call_chunks": st.lists(_call_chunks, max_size=2),
        "chunk_position": st.sampled_from([None, "last"]),
    },
    ToolMessage: {"status": st.sampled_from(["success", "error"]), "artifact": _values},
}
# `self` and `content_blocks` are parameters of the constructors, and so no fields
_unknown = texts.filter(lambda name: name not in KNOWN | OF_CHUNKS | {"self", "content_blocks", "example"})


def of_class(made_of: type[BaseMessage]) -> st.SearchStrategy[BaseMessage]:
    """Messages of a class with any of its fields, and fields that nobody knows."""
    needed: dict[str, Any] = {}
    optional = dict(_COMMON)
    for base in reversed(made_of.mro()):
        needed |= _NEEDED.get(base, {})
        optional |= _OPTIONAL.get(base, {})
    if made_of is not RemoveMessage:
        needed["content"] = texts | st.lists(_blocks, max_size=3)
    known = st.fixed_dictionaries(needed, optional={k: v for k, v in optional.items() if k not in needed})
    extra = st.dictionaries(_unknown, _values, max_size=2)
    return st.builds(lambda fields, more: made_of(**fields, **more), known, extra)


plain_messages = st.sampled_from(PLAIN).flatmap(of_class)
chunks = st.sampled_from(CHUNKS).flatmap(of_class)


def fields_of(message: BaseMessage) -> dict[str, Any]:
    """What a message holds, without the mark of its class and what only chunks have."""
    held = vars(message) | (message.model_extra or {})
    return {name: value for name, value in held.items() if name not in OF_CHUNKS | {"type"}}


def exactly(value: Any) -> str:
    """As text, so that True is not 1, and 1 is not 1.0."""
    return json.dumps(value, sort_keys=True)


def shown(message: BaseMessage) -> list[Any]:
    """Everything that LangChain computes of a message, or the kind of error where it fails to."""
    return [
        _outcome(lambda: message.text),
        _outcome(lambda: message.content_blocks),
        _outcome(message.pretty_repr),
        _outcome(lambda: message.pretty_repr(html=True)),
        _outcome(lambda: _printed(message)),
    ]


def _outcome(compute: Callable[[], Any]) -> Any:
    try:
        return _MADE_UP.sub("lc_", repr(compute()))
    except Exception as error:
        return type(error)


_MADE_UP = re.compile(r"lc_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""LangChain gives some blocks an id, another one each time that it is asked for them."""


def _printed(message: BaseMessage) -> str:
    with redirect_stdout(StringIO()) as out:
        message.pretty_print()
    return out.getvalue()


def containers(value: Any) -> Iterator[int]:
    """The identities of all lists and maps in a value, which has to outlive them."""
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)
