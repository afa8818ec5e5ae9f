"""`StoredMessage`, the schema of a stored record, and short constructors for each type.

The layout is that of LangChain: an outer `type` and a `data` object. Data at its default (no
name, no tool calls, empty `additional_kwargs`, …) is the same as absent and is left out, so that
one message has one form, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator, with_config
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from memory_redis.errors import InvalidMessage

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

_CHUNKS: Final[Mapping[str, str]] = {
    "AIMessageChunk": "ai",
    "HumanMessageChunk": "human",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
    "ChatMessageChunk": "chat",
}


@with_config(ConfigDict(extra="allow", strict=True))
class MessageData(TypedDict, total=False):
    """The fields that have a meaning here; any other field is kept as it is."""

    content: str | list[str | dict[str, Any]]
    id: str | None
    name: str | None
    additional_kwargs: dict[str, Any]
    response_metadata: dict[str, Any]
    tool_calls: list[dict[str, Any]]
    invalid_tool_calls: list[dict[str, Any]]
    usage_metadata: dict[str, Any] | None
    tool_call_id: str
    artifact: Any
    status: str
    role: str


class StoredMessage(BaseModel):
    """One message of a conversation.

    Two messages are equal when type and data are; where they stand does not matter. The repr and
    the text of its errors hold no content.

    Attributes:
        type: `human`, `ai`, `system`, `tool`, `function`, `chat` or `remove`.

        data: its fields (`MessageData`), extra ones kept. A tool message needs `tool_call_id`, a
            function message `name`, a chat message `role`, a remove message `id`; all but the last
            need `content`.

        seq: where it stands among all messages ever appended, from 0; None before it was stored.

    Raises:
        pydantic.ValidationError: the fields are not as above. (The constructors `human()`, `ai()`,
            … raise `InvalidMessage` instead.)
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, extra="ignore")

    type: MessageType
    data: MessageData
    seq: SkipJsonSchema[int | None] = Field(default=None, exclude=True)
    stored_ms: SkipJsonSchema[int | None] = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        kind, data = canonical(*layout(value))
        return {**value, "type": kind, "data": data}

    @model_validator(mode="after")
    def _complete(self) -> StoredMessage:
        needed = REQUIRED.get(self.type)
        if needed is not None and not isinstance(self.data.get(needed), str):
            raise ValueError(f"a {self.type} message needs data.{needed}")
        if "content" not in self.data and self.type != "remove":
            raise ValueError(f"a {self.type} message needs data.content")
        return self

    @property
    def content(self) -> str | list[str | dict[str, Any]]:
        """Text, or a list of texts and content blocks."""
        return self.data.get("content", "")

    @property
    def text(self) -> str:
        """The text of `content`: its texts and text blocks joined."""
        return text_of(self.content)

    @property
    def id(self) -> str | None:
        """The message's own id; never invented here."""
        return self.data.get("id")

    @property
    def name(self) -> str | None:
        """Who speaks, where the application said so."""
        return self.data.get("name")

    @property
    def tool_calls(self) -> Sequence[dict[str, Any]]:
        """The tools that an ai message calls: name, args and id of each."""
        return self.data.get("tool_calls", ())

    @property
    def stored_at(self) -> datetime | None:
        """When the server stored it, in UTC; None before, and where another library wrote it."""
        return None if self.stored_ms is None else datetime.fromtimestamp(self.stored_ms / 1000, UTC)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredMessage):
            return NotImplemented
        return self.type == other.type and self.data == other.data

    __hash__ = None  # type: ignore[assignment]

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield "type", self.type
        yield "characters", len(self.text)
        if self.seq is not None:
            yield "seq", self.seq


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


def restored(
    kind: MessageType, data: dict[str, Any], seq: int | None, stored_ms: int | None
) -> StoredMessage:
    """A message from fields that the codec has checked; pydantic does not look at them again."""
    message = _new(StoredMessage)
    _set_dict(message, {"type": kind, "data": data, "seq": seq, "stored_ms": stored_ms})
    _set_fields(message, _FIELDS)
    _set_extra(message, None)
    _set_private(message, None)
    return message


_new = object.__new__
# The slots of a pydantic model, filled without a look-up by name: this runs for every message of a load.
_set_dict, _set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_FIELDS: Final = {"type", "data", "seq", "stored_ms"}

Content = str | Sequence[str | dict[str, Any]]


def _made(kind: MessageType, content: Content, fields: dict[str, Any]) -> StoredMessage:
    data = {"content": content, **fields}
    data = {name: list(value) if type(value) is tuple else value for name, value in data.items()}
    try:
        return StoredMessage(type=kind, data=cast(MessageData, data))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidMessage(first["msg"].removeprefix("Value error, "), field=where or None) from None


def human(content: Content, **fields: Any) -> StoredMessage:
    """A message of the user. `fields` are further data: `name`, `id`, …, extra ones kept.

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("human", content, fields)


def ai(content: Content, **fields: Any) -> StoredMessage:
    """A message of the model. `fields`: `tool_calls`, `usage_metadata`, `id`, …, extra ones kept.

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("ai", content, fields)


def system(content: Content, **fields: Any) -> StoredMessage:
    """An instruction to the model. `fields` are further data, extra ones kept.

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("system", content, fields)


def tool(content: Content, *, tool_call_id: str, **fields: Any) -> StoredMessage:
    """The result of the tool call `tool_call_id`. `fields`: `status`, `artifact`, `name`, …

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("tool", content, {"tool_call_id": tool_call_id, **fields})


def function(content: Content, *, name: str, **fields: Any) -> StoredMessage:
    """The result of the function `name`: the older form of `tool`.

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("function", content, {"name": name, **fields})


def chat(content: Content, *, role: str, **fields: Any) -> StoredMessage:
    """A message of a speaker with a role of its own.

    Raises:
        InvalidMessage: a field has the wrong type.
    """
    return _made("chat", content, {"role": role, **fields})
