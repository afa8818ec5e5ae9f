"""`StoredMessage`, the schema of a stored record, and short constructors for each type.

The layout is that of LangChain, in the one form that `memory_redis.layouts` describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
    with_config,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema, InitErrorDetails
from typing_extensions import TypedDict

from memory_redis.errors import InvalidMessage
from memory_redis.layouts import REQUIRED, MessageType, canonical, layout, text_of


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

    A message that was loaded is unpacked when its data is first asked for. That can only fail, with
    `CorruptRecord`, if somebody else than this library wrote the record and made its checksum right.

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
        if isinstance(value, StoredMessage):
            return value._unpack()
        if not isinstance(value, Mapping):
            return value
        kind, data = canonical(*layout(value))
        return {**value, "type": kind, "data": data}

    @model_validator(mode="after")
    def _complete(self) -> StoredMessage:
        needed = REQUIRED.get(self.type)
        if needed is not None and not isinstance(self.data.get(needed), str):
            raise ValueError(f"a message of type {self.type} needs data.{needed}")
        if "content" not in self.data and self.type != "remove":
            raise ValueError(f"a message of type {self.type} needs data.content")
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

    # A loaded message holds its record until `data` is first asked for. Every way out that reads the
    # fields themselves comes by one of these.

    def _unpack(self) -> Self:
        values: Any = self.__dict__
        held = values.get(PACKED)
        if held is not None:
            source, record = held
            values.setdefault("data", source.unpacked(record, values["type"], values["seq"]))
            values.pop(PACKED, None)
        return self

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            raise _frozen(name)

        def __delattr__(self, name: str) -> None:
            raise _frozen(name)

        def __getattr__(self, name: str) -> Any:
            if name == "data" and self.__dict__:
                return self._unpack().__dict__["data"]
            if name in _UNSET:
                return copy(_UNSET[name])
            return super().__getattr__(name)

    @model_serializer(mode="wrap")
    def _serialized(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return cast(dict[str, Any], write(self._unpack()))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(cast(CoreSchema, _by_fields(cast(dict[str, Any], core))))

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As pydantic's; the message is unpacked first, so that its errors come as they are."""
        return super(StoredMessage, self._unpack()).model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        """As pydantic's; the message is unpacked first, so that its errors come as they are."""
        return super(StoredMessage, self._unpack()).model_dump_json(**options)

    def __iter__(self) -> Any:
        return super(StoredMessage, self._unpack()).__iter__()

    def __copy__(self) -> Self:
        return super(StoredMessage, self._unpack()).__copy__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return super(StoredMessage, self._unpack()).__deepcopy__(memo)

    def __getstate__(self) -> dict[Any, Any]:
        return super(StoredMessage, self._unpack()).__getstate__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredMessage):
            return NotImplemented
        return self.type == other.type and self.data == other.data

    __hash__ = None  # type: ignore[assignment]

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield "type", self.type
        if PACKED not in self.__dict__:
            yield "characters", len(self.text)
        if self.seq is not None:
            yield "seq", self.seq


def _frozen(name: str) -> ValidationError:
    """What pydantic raises for a frozen model, without the value that was to be set."""
    error = InitErrorDetails(type="frozen_instance", loc=(name,), input=None)
    return ValidationError.from_exception_data("StoredMessage", [error], hide_input=True)


def _by_fields(core: dict[str, Any]) -> dict[str, Any]:
    """A core schema without its serializer: what that writes is what the fields say."""
    core = {key: value for key, value in core.items() if key != "serialization"}
    return core | {"schema": _by_fields(core["schema"])} if core.get("type") != "model" else core


class Source(Protocol):
    """Where a loaded message gets its data from, once it is asked for."""

    def unpacked(self, record: bytes, kind: MessageType, position: int) -> dict[str, Any]:
        """The data of a record."""
        ...


def loaded(values: dict[str, Any]) -> StoredMessage:
    """A message of fields that the codec has checked; pydantic does not look at them again.

    `values` are type, seq, stored_ms, and data, or a source and a record under `PACKED`.
    """
    message = _new(StoredMessage)
    _set_values(message, values)
    return message


PACKED: Final = "packed"
_new = object.__new__
# The one slot of a pydantic model that differs from message to message; what the others would hold,
# `StoredMessage.__getattr__` knows. This runs for every message of a load.
_set_values = BaseModel.__dict__["__dict__"].__set__
_UNSET: Final[Mapping[str, Any]] = {
    "__pydantic_fields_set__": {"type", "data", "seq", "stored_ms"},
    "__pydantic_extra__": None,
    "__pydantic_private__": None,
}

Content = str | Sequence[str | dict[str, Any]]


def _made(kind: MessageType, content: Content, fields: dict[str, Any]) -> StoredMessage:
    data = {"content": content, **fields}
    data = {name: list(value) if type(value) is tuple else value for name, value in data.items()}
    calls = fields.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        if isinstance(call, dict) and "function" in call and "name" not in call:
            raise InvalidMessage(
                "a tool call has name, args and id; from_openai() knows OpenAI's form", field="tool_calls"
            )
    try:
        return StoredMessage(type=kind, data=cast(MessageData, data))
    except ValidationError as error:
        raise refusal(error) from None


_LISTS: Final = ("tool_calls", "invalid_tool_calls")


def refusal(error: ValidationError) -> InvalidMessage:
    """A field of the wrong type as an error of ours, without the value."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    what, where = first["msg"].removeprefix("Value error, "), first["loc"]
    if where[:2] == ("data", "content"):  # pydantic names the first of the types that it may have
        what, where = "content is a text, or a list of texts and content blocks", where[:2]
    # A number is a position in one of these, and anywhere else a key.
    path = [part if at == 2 and where[1] in _LISTS else str(part) for at, part in enumerate(where)]
    return InvalidMessage(what, field=path)


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


# pydantic's first validation sets up more, under a lock. A process that forks while another thread is
# at that leaves its child with a lock that nobody opens.
human("")
