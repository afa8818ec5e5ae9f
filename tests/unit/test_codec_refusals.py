"""What cannot be stored, and is refused before anything is sent: position and field are named."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memory_redis import InvalidMessage, Limits, StoredMessage, ai, human, tool
from tests.support.ids import shown
from tests.unit.records import CODECS, encoded, fields, kept, refusal
from tests.unit.strategies import examples, nested

REPLACED = "\ufffd"


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: int


class Model(BaseModel):
    x: int


class Pair(NamedTuple):
    a: int
    b: int


class Whole(int):
    pass


class Real(float):
    pass


def cycle_of_lists() -> list[Any]:
    value: list[Any] = []
    value.append([value])
    return value


def cycle_of_maps() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


UNSTORABLE: dict[str, Callable[[], Any]] = {
    "integer above 64 bits": lambda: 2**64,
    "integer below 64 bits": lambda: -(2**63) - 1,
    "huge integer": lambda: 10**5000,
    "set": lambda: {1},
    "frozenset": frozenset,
    "cycle of lists": cycle_of_lists,
    "cycle of maps": cycle_of_maps,
    "nested lists": lambda: nested(33),
    "nested maps": lambda: nested(33, in_lists=False),
    "very deep": lambda: nested(5000),
    "datetime": lambda: datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    "date": lambda: datetime.date(2024, 1, 1),
    "timedelta": lambda: datetime.timedelta(1),
    "dataclass": lambda: Point(1),
    "dataclass type": lambda: Point,
    "enum": lambda: Colour.RED,
    "text enum": lambda: Word.RED,
    "integer enum": lambda: Level.ONE,
    "pydantic object": lambda: Model(x=1),
    "message": lambda: human("inner"),
    "named tuple": lambda: Pair(1, 2),
    "integer subclass": lambda: Whole(1),
    "float subclass": lambda: Real(1.5),
    "decimal": lambda: decimal.Decimal("1.5"),
    "complex": lambda: 1j,
    "uuid": lambda: uuid.UUID(int=1),
    "path": lambda: Path("x"),
    "bytearray": lambda: bytearray(b"x"),
    "memoryview": lambda: memoryview(b"x"),
    "object": object,
    "function": lambda: nested,
    "generator": lambda: (x for x in "ab"),
    "range": lambda: range(3),
    "ellipsis": lambda: ...,
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_value_that_cannot_be_stored_is_refused_by_position_and_path(name: str, codec: str) -> None:
    """S3, C07, C08, C09: which message, which field, and a ValueError; nothing is turned into text."""
    bad = ai("x", additional_kwargs={"deep": [1, {"when": UNSTORABLE[name]()}]})
    error = refusal(human("fine"), bad, human("fine"), codec=codec)
    assert error.position == 1
    assert error.field is not None
    assert error.field.startswith("data.additional_kwargs.deep.1.when")
    assert isinstance(error, ValueError)
    assert error.outcome == "not_stored"
    assert str(error).startswith("message 1: data.additional_kwargs.….1.…")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda bad: human("x", extra=bad), "data.extra"),
        (lambda bad: human(["a", {"type": "image", "data": bad}]), "data.content.1.data"),
        (lambda bad: ai("x", tool_calls=[{"id": "1"}, {"args": {"a": bad}}]), "data.tool_calls.1.args.a"),
        (lambda bad: ai("x", usage_metadata={"n": bad}), "data.usage_metadata.n"),
        (lambda bad: tool("x", tool_call_id="1", artifact=bad), "data.artifact"),
        (lambda bad: tool("x", tool_call_id="1", artifact=[[bad]]), "data.artifact.0.0"),
        (lambda bad: human("x", response_metadata={"a": (bad,)}), "data.response_metadata.a.0"),
    ],
)
def test_the_path_is_exact_in_every_field(
    make: Callable[[Any], StoredMessage], path: str, codec: str
) -> None:
    """C08: the error says where, whatever field it is."""
    error = refusal(make({1}), codec=codec)
    assert (error.position, error.field) == (0, path)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("key", [5, None, True, b"a", 1.5, ("a",), Colour.RED, Word.RED], ids=repr)
def test_a_key_that_is_no_text_is_refused(key: Any, codec: str) -> None:
    """S3, S5: JSON would have made a text of it, msgpack could not read it."""
    error = refusal(human("x", extra={"a": {key: 1}}), codec=codec)
    assert (error.position, error.field) == (0, "data.extra.a")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), b"", b"\x00\xff"], ids=repr)
def test_values_that_json_lacks_are_refused_there_and_kept_in_format_1(value: Any) -> None:
    """Decision 17: NaN, infinities and bytes."""
    message = tool("x", tool_call_id="1", artifact={"a": [value]})
    error = refusal(message, codec="json")
    assert (error.position, error.field) == (0, "data.artifact.a.0")
    assert repr(fields(kept(message))["artifact"]["a"][0]) == repr(value)


@pytest.mark.parametrize("in_lists", [True, False])
def test_thirty_two_levels_are_kept_and_no_more(in_lists: bool) -> None:
    """S3: data itself is the first; both codecs draw the line at the same depth."""
    message = human("x", extra=nested(31, in_lists))
    assert kept(message, "msgpack") == kept(message, "json") == message
    for codec in CODECS:
        error = refusal(human("x", extra=nested(32, in_lists)), codec=codec)
        assert str(error.field).startswith("data.extra")


@pytest.mark.parametrize("codec", CODECS)
@given(text=st.text(st.characters(categories=["Cs", "Ll", "So"]), max_size=12))
@examples(200)
def test_each_half_of_a_character_is_replaced(codec: str, text: str) -> None:
    """S3, decision 17: each lone surrogate becomes U+FFFD, all else stays; halves that meet are whole."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    expected = "".join(REPLACED if "\ud800" <= letter <= "\udfff" else letter for letter in whole)
    message = human(text, name=text, extra=[text], map={"k" + text: text})
    data = kept(message, codec).data
    assert data == {
        "content": expected,
        "name": expected,
        "extra": [expected],
        "map": {"k" + expected: expected},
    }


@pytest.mark.parametrize("codec", CODECS)
def test_a_half_of_a_character_never_blocks_a_turn(codec: str) -> None:
    """S3: in content, blocks, ids, names of fields, tool calls and their ids."""
    bad = "a\udce9b"
    message = ai(
        [bad, {"type": "text", "text": bad}],
        id=bad,
        tool_calls=[{"id": bad, "name": bad, "args": {bad: bad}}],
        **{bad: bad},
    )
    good = bad.replace("\udce9", REPLACED)
    assert kept(message, codec) == ai(
        [good, {"type": "text", "text": good}],
        id=good,
        tool_calls=[{"id": good, "name": good, "args": {good: good}}],
        **{good: good},
    )


@pytest.mark.parametrize("codec", CODECS)
def test_a_value_that_stands_in_many_places_counts_in_each(codec: str) -> None:
    """S3, S4: two to the power of thirty texts in thirty lists are refused before they fill the memory."""
    value: Any = "x"
    for _ in range(30):
        value = [value, value]
    error = refusal(human("fine"), human("x", extra=value), codec=codec, limits=Limits(record_bytes=50_000))
    assert error.position == 1
    shared = ["x"] * 3
    assert fields(kept(human("x", extra=[shared, shared]), codec))["extra"] == [shared, shared]


@pytest.mark.parametrize("codec", CODECS)
def test_data_that_was_changed_after_it_was_checked_is_checked_again(codec: str) -> None:
    """C06: data is a plain dict; whatever was put into it, nothing is written that cannot be read."""
    for field, value in [
        ("content", 5),
        ("content", [5]),
        ("tool_calls", [5]),
        ("id", 5.5),
        ("status", None),
    ]:
        message: Any = ai("x")
        message.data[field] = value
        assert refusal(message, codec=codec).position == 0
    without = human("x")
    del without.data["content"]
    assert refusal(without, codec=codec).position == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_type_inside_data_cannot_poison_a_record(codec: str) -> None:
    """C06: data["type"] of another type is refused; what is written reads back equal."""
    message: Any = human("x")
    message.data["type"] = "ai"
    assert refusal(message, codec=codec).position == 0
    message.data["type"] = "human"
    assert kept(message, codec) == human("x")


@pytest.mark.parametrize("codec", CODECS)
def test_a_type_that_nobody_can_read_is_refused(codec: str) -> None:
    """C06: also where pydantic was gone round."""
    message = StoredMessage.model_construct(type="robot", data={"content": "x"})
    assert refusal(message, codec=codec).position == 0


@pytest.mark.parametrize(
    "item", ["hi", {"role": "user", "content": "hi"}, ("human", "hi"), None, b"hi", human], ids=shown
)
def test_what_is_no_message_is_refused(item: Any) -> None:
    """T16: nothing is guessed to be a message; the error says how to make one."""
    error = refusal(human("fine"), item)
    assert error.position == 1
    assert "human()" in str(error)


def test_an_append_of_nothing_is_refused() -> None:
    """Decision 9."""
    with pytest.raises(InvalidMessage, match="at least one message"):
        encoded()
