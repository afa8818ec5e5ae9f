"""What cannot be stored is refused by its path, and nothing of it becomes a text or a map in silence."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections import OrderedDict, namedtuple
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompt_values import StringPromptValue
from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from memory_redis import InvalidMessage, RedisMemory, StoredMessage, ai, human, tool
from memory_redis.langchain import from_langchain, to_langchain
from tests.support.ids import shown
from tests.support.servers import Server


class Model(BaseModel):
    x: int = 1


@dataclasses.dataclass
class Record:
    x: int = 1


class Colour(enum.Enum):
    RED = "crimson"


class Word(enum.StrEnum):
    RED = "crimson"


class Number(enum.IntEnum):
    ONE = 1


class Real(float):
    pass


Pair = namedtuple("Pair", "x y")

OBJECTS: dict[str, Any] = {
    "model": Model(),
    "dataclass": Record(),
    "enum": Colour.RED,
    "text enum": Word.RED,
    "number enum": Number.ONE,
    "named tuple": Pair(1, 2),
    "message": HumanMessage("x"),
    "chunk": AIMessageChunk(content="x"),
    "stored message": human("x"),
    "prompt value": StringPromptValue(text="x"),
    "secret": SecretStr("x"),
    "date": datetime(2026, 1, 1, tzinfo=UTC),
    "uuid": uuid.UUID(int=1),
    "decimal": Decimal(1),
    "kind of float": Real(1.0),
    "set": {1},
    "byte array": bytearray(b"x"),
    "function": print,
    "class": Model,
    "map with a number as key": {1: 2},
    "map with an enum as key": {Word.RED: 1},
}


def messages_with(value: Any) -> dict[str, BaseMessage]:
    """Messages with a value at a path."""
    return {
        "data.additional_kwargs.x": AIMessage("", additional_kwargs={"x": value}),
        "data.response_metadata.x.0.y": HumanMessage("", response_metadata={"x": [{"y": value}]}),
        "data.content.1.x": HumanMessage(["a", {"type": "own", "x": value}]),
        "data.tool_calls.0.args.x": AIMessage("", tool_calls=[{"name": "f", "args": {"x": value}, "id": ""}]),
        "data.artifact": ToolMessage("", tool_call_id="c1", artifact=value),
        "data.artifact.x.1": ToolMessage("", tool_call_id="c1", artifact={"x": (0, value)}),
        "data.own": HumanMessage("", own=value),
    }  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_refused_by_its_path(name: str) -> None:
    """C07, C08: models, dataclasses, enums, messages and dates, wherever they stand."""
    for path, message in messages_with(OBJECTS[name]).items():
        with pytest.raises(InvalidMessage) as caught:
            from_langchain(message)
        assert caught.value.field == path
        assert caught.value.__cause__ is None
        assert "crimson" not in str(caught.value), "no content in an error"


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("name", OBJECTS)
def test_an_append_refuses_it_as_well(valkey: Server, namespace: str, name: str, codec: Any) -> None:
    """C07, C08: who made the message does not matter; the error names message and path, nothing is stored."""
    value = OBJECTS[name]
    with RedisMemory.from_url(valkey.url, namespace=namespace, codec=codec) as memory:
        history = memory.history("ann", "c1")
        for path, message in {
            "data.additional_kwargs.x": ai("", additional_kwargs={"x": value}),
            "data.response_metadata.x.0.y": human("", response_metadata={"x": [{"y": value}]}),
            "data.content.1.x": human(["a", {"type": "own", "x": value}]),
            "data.tool_calls.0.args.x": ai("", tool_calls=[{"args": {"x": value}}]),
            "data.artifact.x.1": tool("", tool_call_id="c1", artifact={"x": (0, value)}),
            "data.own": human("", own=value),
        }.items():
            with pytest.raises(InvalidMessage) as caught:
                history.append(human("fine"), message)
            assert (caught.value.position, caught.value.field) == (1, path)
            with pytest.raises(InvalidMessage) as caught, history.turn() as turn:
                turn.add(human("fine"), message)
            assert (caught.value.position, caught.value.field) == (1, path)
            with pytest.raises(InvalidMessage) as caught:
                to_langchain(message)
            assert caught.value.field == path
        assert history.exists() is False


def test_the_names_on_a_path_are_not_in_the_text_of_an_error() -> None:
    """S6, P12: names are the application's or the model's; fields and positions are shown."""
    message = AIMessage("", tool_calls=[{"name": "f", "args": {"my secret": [0, {1}]}, "id": ""}])
    with pytest.raises(InvalidMessage) as caught:
        from_langchain(message)
    assert str(caught.value) == "data.tool_calls.0.args.….1: a value of type set cannot be stored"
    assert caught.value.field == "data.tool_calls.0.args.my secret.1"


def test_a_message_as_a_block_of_content_is_refused() -> None:
    """C08: neither LangChain nor an error of ours lets it through."""
    message = HumanMessage([])
    message.content = [HumanMessage("x")]  # type: ignore[list-item]
    with pytest.raises(InvalidMessage) as caught:
        from_langchain(message)
    assert caught.value.field == "data.content.0"


def test_texts_and_maps_of_other_classes_are_texts_and_maps() -> None:
    """A text that LangChain gives out, or an ordered map, is stored as what it is to every reader."""
    text = HumanMessage("hi").text
    message = ToolMessage("", tool_call_id="c1", artifact=OrderedDict(x=text), own=text)
    stored = from_langchain(message)
    assert stored == tool("", tool_call_id="c1", artifact={"x": "hi"}, own="hi")
    assert type(stored.data["artifact"]) is dict
    assert type(stored.data["artifact"]["x"]) is str


def test_a_field_of_the_wrong_kind_is_refused() -> None:
    """R104: a name that means something here holds what it means, on every type; the error says which."""
    with pytest.raises(InvalidMessage) as caught:
        from_langchain(HumanMessage("x", tool_calls="none"))
    assert caught.value.field == "data.tool_calls"
    bare = HumanMessage.model_construct(id="h1")
    with pytest.raises(InvalidMessage, match=r"needs data\.content"):
        from_langchain(bare)


def test_lists_that_hold_themselves_are_refused() -> None:
    """They have an error, not an end of memory."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidMessage, match="nested deeper"):
        from_langchain(HumanMessage("x", own=loop))


def test_a_list_in_many_places_is_copied_once(valkey: Server, namespace: str) -> None:
    """A few lists that hold each other often are 10 ** 30 values when written out: an append says so."""
    value: Any = ["x"]
    for _ in range(30):
        value = [value] * 10
    stored = from_langchain(HumanMessage("x", own=value))
    assert stored.data["own"][0] is stored.data["own"][9]  # type: ignore[typeddict-item]
    with (
        RedisMemory.from_url(valkey.url, namespace=namespace) as memory,
        pytest.raises(InvalidMessage, match="more values than a record can hold"),
    ):
        memory.history("ann", "c1").append(stored)


# -- classes -------------------------------------------------------------------------------------


class Rated(HumanMessage):
    """A message class of a user."""

    stars: int
    reasons: tuple[str, ...] = ()
    token: str = Field(default="hidden", exclude=True)
    _seen: bool = PrivateAttr(default=False)

    @cached_property
    def loud(self) -> str:
        return f"{self.content}!"


class RatedChunk(AIMessageChunk):
    stars: int


class Quiet(AIMessageChunk):
    type: Literal["ai"] = "ai"  # type: ignore[assignment]


class Robot(HumanMessage):
    type: Literal["robot"] = "robot"  # type: ignore[assignment]


class Stranger(BaseMessage):
    type: Literal["human"] = "human"


def test_a_class_of_a_user_is_stored_as_its_base() -> None:
    """R42, C06: with the fields that it adds, those excluded from dumps and private ones aside."""
    message = Rated.model_validate({"content": "x", "stars": 5, "reasons": ["good"], "own": 1})
    assert message.loud == "x!"
    stored = from_langchain(message)
    assert stored == human("x", stars=5, reasons=["good"], own=1)
    assert to_langchain(stored) == HumanMessage("x", stars=5, reasons=["good"], own=1)
    assert from_langchain(RatedChunk(content="x", stars=1, chunk_position="last")) == ai("x", stars=1)
    assert from_langchain(Quiet(content="x", chunk_position="last")) == ai("x")


def test_a_class_of_a_user_with_objects_is_refused() -> None:
    """C07: its fields are held to the same rule."""

    class Dated(HumanMessage):
        at: datetime

    with pytest.raises(InvalidMessage) as caught:
        from_langchain(Dated(content="x", at=datetime(2026, 1, 1, tzinfo=UTC)))
    assert caught.value.field == "data.at"


def test_a_type_that_is_not_known_is_refused() -> None:
    """C06: a type tag of a user's own, or a class that is none of LangChain's, is never written."""
    late = HumanMessage("x")
    late.type = "ai"  # type: ignore[assignment]
    odd = HumanMessage("x")
    odd.type = ["human"]  # type: ignore[assignment]
    bare = BaseMessage.model_construct(content="x")
    for message in (
        Robot(content="x"),
        Stranger(content="x"),
        BaseMessage("x", type="human"),
        late,
        odd,
        bare,
    ):
        with pytest.raises(InvalidMessage) as caught:
            from_langchain(message)
        assert caught.value.field == "type"


@pytest.mark.parametrize("value", ["x", {"role": "user", "content": "x"}, ("human", "x"), None, human("x")])
def test_what_is_no_message_of_langchain_is_refused(value: Any) -> None:
    """T16: texts, maps and pairs are for the caller to convert."""
    with pytest.raises(InvalidMessage, match="takes one message of LangChain, not a"):
        from_langchain(value)


@pytest.mark.parametrize("value", ["x", {"type": "human"}, None, [human("x")], HumanMessage("x")], ids=shown)
def test_what_is_no_stored_message_is_refused(value: Any) -> None:
    """T16: a list is for the caller to go through."""
    with pytest.raises(InvalidMessage, match="takes one StoredMessage, not a"):
        to_langchain(value)


def test_a_schema_of_ours_is_not_changed_by_a_message(namespace: str) -> None:
    """R42: a field with a name of ours, `seq`, stays the user's."""
    stored = from_langchain(HumanMessage("x", seq=7, stored_ms=1, data={"y": 1}))
    assert (stored.seq, stored.stored_at) == (None, None)
    assert stored == StoredMessage.model_validate(
        {"type": "human", "data": {"content": "x", "seq": 7, "stored_ms": 1, "data": {"y": 1}}}
    )
    assert to_langchain(stored) == HumanMessage("x", seq=7, stored_ms=1, data={"y": 1})
