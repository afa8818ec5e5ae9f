"""What goes through the codecs unchanged, in both, and side by side in one list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import StoredMessage, ai, human, tool
from tests.unit.records import CODECS, decoded, encoded, exact, fields, kept, read, stored
from tests.unit.strategies import any_messages, any_scalars, examples, messages, texts, values


@given(message=any_messages)
@examples(300)
def test_format_1_keeps_every_value(message: StoredMessage) -> None:
    """R101 to R106, S1, decision 17: NaN, infinities, bytes, NUL, astral characters, in any field."""
    back = kept(message)
    assert back.type == message.type
    assert exact(back.data) == exact(message.data)


@given(message=messages)
@examples(300)
def test_both_codecs_keep_the_same_message(message: StoredMessage) -> None:
    """R101 to R106, decision 15: one message has one form, whichever codec wrote it."""
    by_msgpack, by_json = kept(message, "msgpack"), kept(message, "json")
    assert by_msgpack == by_json == message
    assert exact(by_msgpack.data) == exact(by_json.data) == exact(message.data)


@given(
    written=st.lists(st.tuples(messages, st.sampled_from(CODECS)), min_size=1, max_size=8),
    first=st.integers(0),
)
@examples(150)
def test_records_of_both_codecs_stand_in_one_list(
    written: list[tuple[StoredMessage, str]], first: int
) -> None:
    """Readers take every format, in any order, and positions go on."""
    records = [stored(message, codec) for message, codec in written]
    found, failed = decoded(records, position=first, whole=False)
    assert failed == ()
    assert found == [message for message, _ in written]
    assert [message.seq for message in found] == list(range(first, first + len(written)))


@pytest.mark.parametrize("codec", CODECS)
@given(value=values(any_scalars))
@examples(200)
def test_only_plain_types_come_out(codec: str, value: Any) -> None:
    """S1: None, bool, int, float, str, bytes, list and dict, exactly; never a subclass, never an object."""
    if codec == "json":
        value = json.loads(json.dumps(value, default=repr).replace("NaN", "0").replace("Infinity", "1"))
    assert _types(kept(human("x", extra=value), codec).data) <= {"NoneType", *_PLAIN}


_PLAIN = {"bool", "int", "float", "str", "bytes", "list", "dict"}


def _types(value: Any) -> set[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value).__name__}.union(*map(_types, inner))


REVIVABLE: list[dict[str, Any]] = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "SystemMessage"],
        "kwargs": {"a": 1},
    },
    {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
    {
        "lc": 2,
        "type": "constructor",
        "id": ["os", "system"],
        "method": "__call__",
        "args": ["true"],
        "kwargs": {},
    },
    {"__class__": "memory_redis.StoredMessage", "type": "human", "data": {"content": "x"}},
    {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, ["true"]]},
    {"__lc_escaped__": {"lc": 1}},
    {"type": "human", "data": {"content": "x"}, "owner": "0123456789abcdef", "stored_at": 1},
    {"$ref": "#/x", "__proto__": {"a": 1}, "__reduce__": "x", "__type__": "set"},
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("value", REVIVABLE, ids=lambda value: " ".join(value))
def test_a_map_that_looks_like_an_object_stays_a_map(value: dict[str, Any], codec: str) -> None:
    """S2, R102, T15: wherever it stands, nothing that is stored becomes an object, a secret or a message."""
    message = ai(
        ["x", {"type": "text", "text": "y", **value}],
        additional_kwargs={"k": value},
        response_metadata=value,
        tool_calls=[{"name": "f", "args": value, "id": "1"}],
        extra=value,
        more=[[value]],
    )
    back = kept(message, codec)
    assert exact(back.data) == exact(message.data)
    result = kept(tool("x", tool_call_id="1", artifact=value), codec)
    assert exact(fields(result)["artifact"]) == exact(value)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "number",
    [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0],
)
def test_a_number_stays_what_it_is(number: float, codec: str) -> None:
    """R102: integers of 64 bits are exact, floats are not turned into integers, minus zero keeps its sign."""
    back = fields(kept(human("x", n=number), codec))["n"]
    assert type(back) is type(number)
    assert repr(back) == repr(number)


@pytest.mark.parametrize("codec", CODECS)
def test_tuples_become_lists(codec: str) -> None:
    """Decision 17: at any depth."""
    assert fields(kept(human("x", pair=(1, ("a", [()]))), codec))["pair"] == [1, ["a", [[]]]]


class _Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not me"

    def __repr__(self) -> str:
        return "nor me"


class _Map(dict[str, int]):
    pass


@pytest.mark.parametrize("codec", CODECS)
def test_subclasses_of_text_list_and_map_are_stored_as_these(codec: str) -> None:
    """C07: the rule for what a framework subclasses: the content is kept, the class is not."""
    data = kept(human("x", text=_Text("me"), map=_Map(a=1)), codec).data
    assert exact(data) == exact({"content": "x", "text": "me", "map": {"a": 1}})


@given(content=texts, noise=texts)
@examples(100)
def test_a_json_record_is_one_line_of_utf8(content: str, noise: str) -> None:
    """Compact UTF-8 text that any JSON reader reads, and that begins with the brace."""
    record = encoded(human(content, noise=noise), codec="json")[0]
    assert record[:1] == b"{"
    assert b"\n" not in record
    assert json.loads(record.decode("utf-8"))["data"]["content"] == content


def test_encoding_does_not_change_the_message() -> None:
    """T21: what the caller holds is as it was, and shares nothing with what was stored."""
    inner = {"a": ["\ud800", (1, 2)]}
    message = human("\ud800", extra=inner)
    before = repr(message.data)
    encoded(message)
    encoded(message, codec="json")
    assert repr(message.data) == before
    record = stored(message)
    assert fields(read(record))["extra"] is not fields(read(record))["extra"]
