"""Messages of langchain-core as stored messages, and back.

Fields are read one by one and copied. A dump would turn objects inside them into dictionaries without
a word; LangChain's loader would make objects of dictionaries that look like constructors.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, Final, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
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
from pydantic import ValidationError

from memory_redis import InvalidMessage, StoredMessage
from memory_redis.messages import refusal

_CLASSES: Final[Mapping[str, type[BaseMessage]]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
    "remove": RemoveMessage,
}
_STORABLE: Final[Mapping[str, type[BaseMessage]]] = {
    **_CLASSES,
    "HumanMessageChunk": HumanMessageChunk,
    "AIMessageChunk": AIMessageChunk,
    "SystemMessageChunk": SystemMessageChunk,
    "ToolMessageChunk": ToolMessageChunk,
    "FunctionMessageChunk": FunctionMessageChunk,
    "ChatMessageChunk": ChatMessageChunk,
}
_OF_CHUNKS: Final = frozenset({"tool_call_chunks", "chunk_position"})
_FIELDS: Final = {kind: frozenset(made_of.model_fields) - {"type"} for kind, made_of in _CLASSES.items()}
_PLAIN: Final = {
    kind: frozenset({"content", "id", "name", "response_metadata", *more})
    for kind, more in {
        "human": (),
        "system": (),
        "ai": ("tool_calls", "invalid_tool_calls", "usage_metadata"),
    }.items()
}
"""Fields that a message may hold and be made without LangChain's constructor."""
_SCALARS: Final = frozenset({str, int, float, bool, bytes, NoneType})
_DEEPEST: Final = 64
"""Beyond what an append takes; it ends lists that hold themselves."""


class _Unstorable(Exception):
    """A value that cannot be stored; the path is put together on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []


def from_langchain(message: BaseMessage) -> StoredMessage:
    """One message of LangChain as it is stored; it shares nothing with the one given.

    A chunk becomes a message: `tool_call_chunks` and `chunk_position` go. A message of a subclass is
    stored as its base class, with the fields that were added and not excluded from dumps. Tuples
    become lists, and `example=False`, which LangChain once wrote everywhere, goes.

    Raises:
        InvalidMessage: the message is of no class that LangChain defines, or has a type of its own;
            or a field holds what cannot be stored, such as a model, a dataclass, an enum, a date or a
            message (`field` is its path), or a value of the wrong kind.
    """
    if not isinstance(message, BaseMessage):
        raise InvalidMessage(f"from_langchain takes one message of LangChain, not a {type(message).__name__}")
    held = vars(message)
    kind = held.get("type")
    base = _STORABLE.get(kind) if isinstance(kind, str) else None
    if base is None or not isinstance(message, base):
        name = type(message).__name__
        raise InvalidMessage(
            f"a message of class {name}: its class or its type is not known here", field="type"
        )
    stored = _stored_of(type(message))
    data = {name: value for name, value in held.items() if name in stored}
    data |= message.model_extra or {}
    if isinstance(message, BaseMessageChunk):
        data = {name: value for name, value in data.items() if name not in _OF_CHUNKS}
    data = _plain(data)
    try:
        return StoredMessage.model_validate({"type": kind, "data": data})
    except ValidationError as error:
        raise refusal(error) from None


@lru_cache(maxsize=256)
def _stored_of(kind: type[BaseMessage]) -> frozenset[str]:
    """The names of a class's fields that are stored."""
    return frozenset(name for name, field in kind.model_fields.items() if not field.exclude)


def to_langchain(message: StoredMessage) -> BaseMessage:
    """One stored message as LangChain's class for its type; it shares nothing with the one given.

    What LangChain's own constructors would refuse or leave out (a status of another name, usage
    without a total, further keys of a tool call) is handed over as it stands: one odd field makes no
    history unreadable. Tool calls get the keys that they lack.

    Raises:
        CorruptRecord: the message was loaded, and its record holds no data of a message.
        InvalidMessage: it is no `StoredMessage`, or was made by hand, of values that cannot be stored.
    """
    if not isinstance(message, StoredMessage):
        raise InvalidMessage(f"to_langchain takes one StoredMessage, not a {type(message).__name__}")
    return _made(message.type, _plain(message.data))


def handed_over(message: StoredMessage) -> BaseMessage:
    """As `to_langchain`, of a message that nobody else holds: its data becomes the new message's."""
    return _made(message.type, dict(message.data))


def _made(kind: str, data: dict[str, Any]) -> BaseMessage:
    if kind in _PLAIN and type(data.get("content")) is str and data.keys() <= _PLAIN[kind]:
        return _made_directly(kind, data)
    made_of, fields = _CLASSES[kind], _FIELDS[kind]
    data.setdefault("content", "")
    held: dict[str, Any] = {}
    if made_of is AIMessage:
        usage = data.pop("usage_metadata", None)
        if usage is not None:
            held["usage_metadata"] = usage
        if "tool_calls" in data or "invalid_tool_calls" in data:
            calls, invalid = _take_calls(data)
            if calls or invalid:  # else LangChain reads them from additional_kwargs, if there are any
                held["tool_calls"], held["invalid_tool_calls"] = calls, invalid
    elif made_of is RemoveMessage:  # which makes a text of its own
        held["content"] = data["content"]
    known = {name: value for name, value in data.items() if name in fields}
    try:
        made = made_of(**known)
    except (TypeError, ValueError):
        made = made_of.model_construct(**known)
    if held:
        vars(made).update(held)
    if len(known) < len(data):
        # Not by the constructor: a field may have the name of one of its parameters.
        extra = {name: value for name, value in data.items() if name not in made_of.model_fields}
        cast(dict[str, Any], made.model_extra).update(extra)
    return made


def _made_directly(kind: str, data: dict[str, Any]) -> BaseMessage:
    """A message of fields that stand as the constructor would leave them; it takes three times as long."""
    made_of = _CLASSES[kind]
    values: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
    if made_of is AIMessage:
        values |= {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
        if "tool_calls" in data or "invalid_tool_calls" in data:
            values["tool_calls"], values["invalid_tool_calls"] = _take_calls(data)
    made: BaseMessage = object.__new__(made_of)
    object.__setattr__(made, "__dict__", values | data | {"type": kind})
    object.__setattr__(made, "__pydantic_fields_set__", set(data))
    object.__setattr__(made, "__pydantic_extra__", {})
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _take_calls(data: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Take the tool calls out of the data, each with every key that LangChain's code asks for."""
    calls = [
        {"name": "", "args": {}, "id": None, "type": "tool_call"} | call
        for call in data.pop("tool_calls", ())
    ]
    invalid = [
        {"name": None, "args": None, "id": None, "error": None, "type": "invalid_tool_call"} | call
        for call in data.pop("invalid_tool_calls", ())
    ]
    return calls, invalid


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the data in which nothing that can change is shared.

    Raises:
        InvalidMessage: it holds something that cannot be stored.
    """
    try:
        return cast(dict[str, Any], _copied(data, 0, {}))
    except _Unstorable as error:
        raise InvalidMessage(error.reason, field=["data", *error.path]) from None


def _copied(value: Any, depth: int, done: dict[int, tuple[Any, Any]]) -> Any:
    kind = type(value)
    if id(value) in done:  # what stands in many places is copied once: else a few lists could fill memory
        return done[id(value)][1]
    if depth > _DEEPEST:
        raise _Unstorable(f"nested deeper than {_DEEPEST}")
    copy: Any
    if isinstance(value, dict):
        copy = {_key(key): _inside(key, item, depth, done) for key, item in value.items()}
    elif kind is tuple or isinstance(value, list):
        copy = [_inside(at, item, depth, done) for at, item in enumerate(value)]
    elif isinstance(value, str) and not isinstance(value, Enum):
        return str.__str__(value)
    else:
        raise _Unstorable(f"a value of type {kind.__name__} cannot be stored")
    done[id(value)] = value, copy  # held, so that its id stays its own
    return copy


def _key(key: Any) -> str:
    if type(key) is not str:
        raise _Unstorable(f"a key of type {type(key).__name__}, not a text")
    return key


def _inside(name: str | int, value: Any, depth: int, done: dict[int, tuple[Any, Any]]) -> Any:
    if type(value) in _SCALARS:
        return value
    try:
        return _copied(value, depth + 1, done)
    except _Unstorable as error:
        error.path.insert(0, name)
        raise
