"""What callers and models hand over, as messages: texts, messages, lists, and role/content dictionaries.

The dictionaries are those of OpenAI's chat completions, which most model clients take and give.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from memory_redis.errors import InvalidMessage
from memory_redis.messages import StoredMessage, ai, chat, function, human, system, tool

_ROLES: Final = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "system": "system"}
_NAMES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
}
_KNOWN: Final = frozenset({"role", "content", "name", "id", "tool_calls", "function_call", "tool_call_id"})
_TEXTS: Final = {"human": human, "ai": ai}


def messages_of(value: Any, speaker: str = "human") -> list[StoredMessage]:
    """The messages that a value stands for.

    Args:
        value: a text; a message; a dictionary with a role and content; a pair of a role and a text;
            or a list of these, possibly within one more list.

        speaker: who says a text without a role: `"human"` or `"ai"`.

    Raises:
        InvalidMessage: it is none of these.
    """
    if _is_one(value):
        return [_message(value, speaker, None)]
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list):
            if len(value) != 1:
                raise InvalidMessage("a list of lists may hold one list only")
            value = value[0]
        return [_message(item, speaker, at) for at, item in enumerate(value)]
    hint = ""
    if isinstance(value, Awaitable | Iterator | AsyncIterator):
        hint = ": give the function that makes it, with def and yield, or async def"
    raise InvalidMessage(
        "a text, a message, a dictionary with role and content, or a list of these was expected,"
        f" not {type(value).__name__}{hint}"
    )


def _is_one(value: Any) -> bool:
    return isinstance(value, str | StoredMessage | Mapping) or _is_pair(value)


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)
    return pair and (value[0] in _ROLES or value[0] in ("developer", "tool", "function"))


def _message(value: Any, speaker: str, position: int | None) -> StoredMessage:
    try:
        if isinstance(value, StoredMessage):
            return value
        if isinstance(value, str):
            return _TEXTS[speaker](value)
        if isinstance(value, Mapping):
            return from_openai(value)
        if _is_pair(value):
            return from_openai({"role": value[0], "content": value[1]})
    except InvalidMessage as error:
        raise InvalidMessage(error.reason, position=position, field=error.path) from None
    raise InvalidMessage(f"a value of type {type(value).__name__} is no message", position=position)


def merged(chunks: list[Any]) -> Any:
    """The output that the chunks of a stream amount to.

    Texts are joined, lists are put together, messages stand for themselves; in dictionaries key by key.
    None, which model clients send between texts, is nothing.
    """
    chunks = [chunk for chunk in chunks if chunk is not None]
    if len(chunks) == 1:
        return chunks[0]
    if chunks and all(
        isinstance(chunk, Mapping) and ("role" not in chunk or "output" in chunk) for chunk in chunks
    ):
        names = dict.fromkeys(name for chunk in chunks for name in chunk)
        return {name: merged([chunk[name] for chunk in chunks if name in chunk]) for name in names}
    parts: list[Any] = []
    for are_texts, group in groupby(chunks, lambda chunk: isinstance(chunk, str)):
        if are_texts:
            parts.append("".join(group))
        else:
            parts += [part for chunk in group for part in (chunk if isinstance(chunk, list) else [chunk])]
    return parts[0] if len(parts) == 1 else parts


def from_openai(value: Mapping[str, Any]) -> StoredMessage:
    """The message of one dictionary with `role` and `content`, and `tool_calls`, `tool_call_id` or `name`.

    Arguments of tool calls become values; those that are no JSON are kept as `invalid_tool_calls`.
    What is not known here is kept in `additional_kwargs`.

    Raises:
        InvalidMessage: it is no dictionary, has no role, or a part of it is of another kind.
    """
    if not isinstance(value, Mapping):
        raise InvalidMessage(f"from_openai takes one dictionary, not a {type(value).__name__}")
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or not role:
        raise InvalidMessage("a dictionary is a message if it has a role and content", field="role")
    if content is None:
        if _ROLES.get(role) != "ai" and role not in ("tool", "function"):
            raise InvalidMessage("a dictionary is a message if it has a role and content", field="content")
        content = ""
    fields = {name: value[name] for name in ("name", "id") if value.get(name) is not None}
    kept = {name: item for name, item in value.items() if name not in _KNOWN and item is not None}
    if role == "developer":
        role, kept = "system", {**kept, "__openai_role__": "developer"}
    if value.get("function_call"):
        kept["function_call"] = value["function_call"]
    if kept:
        fields["additional_kwargs"] = kept
    if role == "tool":
        call_id = value.get("tool_call_id")
        if not isinstance(call_id, str):
            raise InvalidMessage("a tool message needs the id of its call", field="tool_call_id")
        return tool(content, tool_call_id=call_id, **fields)
    if role == "function":
        if not fields.get("name"):
            raise InvalidMessage("a function message needs the function's name", field="name")
        return function(content, **fields)
    kind = _ROLES.get(role)
    if kind is None:
        return chat(content, role=role, **fields)
    if kind == "ai" and value.get("tool_calls"):
        calls, invalid = _calls(value["tool_calls"])
        fields |= {"tool_calls": calls} if calls else {}
        fields |= {"invalid_tool_calls": invalid} if invalid else {}
    return {"human": human, "ai": ai, "system": system}[kind](content, **fields)


def _calls(calls: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    good: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else [None]:
        called = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(called, Mapping):
            raise InvalidMessage("a tool call has an id and a function", field="tool_calls")
        name, text = called.get("name"), called.get("arguments") or "{}"
        try:
            args = json.loads(text) if isinstance(text, str) else text
        except (ValueError, RecursionError):
            args = None
        if isinstance(args, dict):
            good.append({"name": name, "args": args, "id": call.get("id"), "type": "tool_call"})
        else:
            bad.append({"name": name, "args": text, "id": call.get("id"), "type": "invalid_tool_call"})
    return good, bad


def to_openai(messages: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """A list of messages as the dictionaries that OpenAI's chat completions, and clients like it, take.

    The inverse of `from_openai`, which takes one, for what such a client knows: content, name, tool
    calls and their results. `remove` messages are left out.

    Raises:
        InvalidMessage: it is no sequence of `StoredMessage`, or JSON has no form for arguments of a call.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(one, StoredMessage) for one in messages):
        raise InvalidMessage("to_openai takes a list of StoredMessage")
    return [_dictionary(message) for message in messages if message.type != "remove"]


def _dictionary(message: StoredMessage) -> dict[str, Any]:
    data = message.data
    kept: Mapping[str, Any] = data.get("additional_kwargs") or {}
    role = data.get("role") if message.type == "chat" else _NAMES.get(message.type, message.type)
    if message.type == "system" and kept.get("__openai_role__") == "developer":
        role = "developer"
    found: dict[str, Any] = {"role": role, "content": message.content}
    if message.name is not None:
        found["name"] = message.name
    if message.type == "tool":
        found["tool_call_id"] = data.get("tool_call_id")
    if message.type == "ai":
        calls = [_call(call, call.get("args") or {}) for call in message.tool_calls]
        calls += [_call(call, call.get("args") or "") for call in data.get("invalid_tool_calls") or ()]
        calls = calls or list(kept.get("tool_calls") or ())
        if calls:
            found["tool_calls"] = calls
        if kept.get("function_call"):
            found["function_call"] = kept["function_call"]
    return found


def _call(call: Mapping[str, Any], args: Any) -> dict[str, Any]:
    try:
        arguments = args if isinstance(args, str) else json.dumps(args)
    except (TypeError, ValueError):
        raise InvalidMessage(
            "arguments of a tool call that JSON has no form for", field="tool_calls"
        ) from None
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call.get("name"), "arguments": arguments},
    }
