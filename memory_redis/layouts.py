"""The layouts in which LangChain, in Python and JavaScript, wrote messages; and the one form kept here.

A message is an outer `type` and a `data` object. Data at its default (no name, no tool calls, empty
`additional_kwargs`, …) is the same as absent and is left out, so that one message has one form,
whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args
from zlib import crc32

MessageType = Literal["human", "ai", "system", "tool", "function", "chat", "remove"]
MESSAGE_TYPES: Final[tuple[MessageType, ...]] = get_args(MessageType)

REQUIRED: Final[Mapping[str, str]] = {
    "tool": "tool_call_id",
    "function": "name",
    "chat": "role",
    "remove": "id",
}
_COMMON: Final[dict[str, object]] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "name": None,
    "id": None,
}
DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "human": _COMMON,
    "ai": {**_COMMON, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None},
    "system": _COMMON,
    "tool": {**_COMMON, "artifact": None, "status": "success"},
    "function": _COMMON,
    "chat": _COMMON,
    "remove": {**_COMMON, "content": ""},
}
"""Per type, the fields that LangChain always writes and their value when nobody set them."""

MOST_LINKS: Final = 255
"""Tool calls that one message can be tied to their results by: a header has one byte for how many."""

_CHUNKS: Final[Mapping[str, str]] = {
    "AIMessageChunk": "ai",
    "HumanMessageChunk": "human",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
    "ChatMessageChunk": "chat",
}


def well_formed(text: str) -> str:
    """The text itself, or with U+FFFD for each lone surrogate, which no encoding can hold."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def text_of(content: object) -> str:
    """The texts and text blocks of a message's content, joined."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            parts.append(block["text"])
    return "".join(parts)


def _calls(data: Mapping[str, Any]) -> Iterator[Any]:
    for name in ("tool_calls", "invalid_tool_calls"):
        yield from data.get(name) or ()
    raw = (data.get("additional_kwargs") or {}).get("tool_calls")  # OpenAI's form, LangChain until April 2024
    if isinstance(raw, list):
        yield from raw


def call_ids(data: Mapping[str, Any]) -> set[str]:
    """The ids of the tools that a message's data calls."""
    found = (call.get("id") for call in _calls(data) if isinstance(call, dict))
    return {call_id for call_id in found if isinstance(call_id, str)}


def called_functions(data: Mapping[str, Any]) -> set[str]:
    """The name of the function that a message's data calls, in the older form of tool calls."""
    call = (data.get("additional_kwargs") or {}).get("function_call")
    name = call.get("name") if isinstance(call, dict) else None
    return {name} if isinstance(name, str) else set()


def has_calls(data: Mapping[str, Any]) -> bool:
    """Whether a message's data calls a tool or a function."""
    if "tool_calls" not in data and "additional_kwargs" not in data and "invalid_tool_calls" not in data:
        return False
    return any(True for _ in _calls(data)) or bool((data.get("additional_kwargs") or {}).get("function_call"))


def links_of(kind: str, data: Mapping[str, Any]) -> bytes:
    """What ties a call to its result: the CRC-32, 4 bytes, of each id that a message calls or answers.

    The name stands for the id in the older form, of functions. Other messages have none. What is written
    has at most `MOST_LINKS`; a record that others wrote as JSON may have more.
    """
    if kind == "tool":
        names = {data["tool_call_id"]}
    elif kind == "function":
        names = {data["name"]}
    elif kind == "ai" and has_calls(data):
        names = call_ids(data) | called_functions(data)
    else:
        return b""
    return b"".join(crc32(name.encode("utf-8", "surrogatepass")).to_bytes(4) for name in sorted(names))


def layout(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Type and data of a message, from any outer form that LangChain wrote.

    Raises:
        ValueError: it has none.
    """
    kind, data = value.get("type"), value.get("data")
    if data is None and "text" in value:  # LangChain.js before June 2023
        data = {"content": value["text"]} | ({"role": value["role"]} if value.get("role") else {})
    if not isinstance(kind, str) or not isinstance(data, Mapping):
        raise ValueError("a message has a type and data")
    return kind, data


def canonical(kind: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Type and data in the one form that is stored, from any form that LangChain wrote.

    Streamed chunks become messages, `generic` (LangChain.js) becomes `chat`, content that stands
    only in `content_blocks` becomes content, and fields at their default go.
    """
    chunk = _CHUNKS.get(kind)
    fields = {well_formed(name) if isinstance(name, str) else name: value for name, value in data.items()}
    inner = fields.pop("type", kind)
    if chunk is not None:
        fields.pop("tool_call_chunks", None)
        fields.pop("chunk_position", None)
    if inner not in (kind, chunk) and not (kind == "generic" and inner == "chat"):
        raise ValueError("data.type is not the type of the message")
    kind = chunk or ("chat" if kind == "generic" else kind)
    if "content" not in fields and isinstance(fields.get("content_blocks"), list):
        fields["content"] = fields.pop("content_blocks")
    if fields.get("example") is False and kind in ("human", "ai"):
        del fields["example"]
    for name in ("id", "name"):
        value = fields.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            fields[name] = str(value)
    for name, default in DEFAULTS.get(kind, {}).items():
        given = name in fields and name != REQUIRED.get(kind)
        if given and fields[name] == default and type(fields[name]) is type(default):
            del fields[name]
    return kind, fields
