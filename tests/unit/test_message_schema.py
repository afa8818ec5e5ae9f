"""What `StoredMessage` says of itself: JSON Schema, dumps, place and time."""

from __future__ import annotations

import json
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, TypeAdapter, ValidationError

from memory_redis import StoredMessage, ai, human
from tests.unit.records import kept
from tests.unit.strategies import examples, messages

SECRET = "hunter2-secret"


MODES: list[Any] = ["validation", "serialization"]


@pytest.mark.parametrize("mode", MODES)
def test_the_json_schema_has_type_and_data_and_nothing_of_ours(mode: Any) -> None:
    """Decision 15: pydantic gives the schema of what goes in and of what comes out, without the place."""
    schema = StoredMessage.model_json_schema(mode=mode)
    assert set(schema["properties"]) == {"type", "data"}
    assert set(schema["required"]) == {"type", "data"}
    assert schema["properties"]["type"]["enum"] == [
        "human",
        "ai",
        "system",
        "tool",
        "function",
        "chat",
        "remove",
    ]
    json.dumps(schema)


@pytest.mark.parametrize("mode", MODES)
def test_the_json_schema_names_the_fields_and_allows_others(mode: Any) -> None:
    """R101 to R106: a client in another language can tell from the schema what a field holds."""
    data = StoredMessage.model_json_schema(mode=mode)["$defs"]["MessageData"]
    assert data["additionalProperties"] is True
    assert {"content", "id", "name", "additional_kwargs", "response_metadata", "tool_calls"} <= set(
        data["properties"]
    )
    assert {"invalid_tool_calls", "usage_metadata", "tool_call_id", "artifact", "status", "role"} <= set(
        data["properties"]
    )
    assert data["properties"]["status"]["type"] == "string"


@given(message=messages)
@examples(100)
def test_a_dump_is_read_back(message: StoredMessage) -> None:
    """R76, R77: a stored object is {type, data}, and reading it gives the message again."""
    dump = message.model_dump()
    assert set(dump) == {"type", "data"}
    assert StoredMessage.model_validate(dump) == message
    assert kept(message).model_dump() == dump


@given(message=messages)
@examples(100)
def test_a_json_dump_is_read_back(message: StoredMessage) -> None:
    """R76: so does its JSON text."""
    assert StoredMessage.model_validate_json(message.model_dump_json()) == message


def test_messages_can_be_fields_of_other_models() -> None:
    """R78: a list of stored objects is validated, and the error says which one is wrong."""
    many = TypeAdapter(list[StoredMessage])
    assert many.validate_python([{"type": "human", "data": {"content": "x"}}, ai("y")]) == [
        human("x"),
        ai("y"),
    ]
    with pytest.raises(ValidationError) as caught:
        many.validate_python(
            [{"type": "human", "data": {"content": "x"}}, {"type": "robot", "data": {"content": "x"}}]
        )
    assert caught.value.errors()[0]["loc"][0] == 1


@pytest.mark.parametrize(
    "value",
    [
        {"type": "human", "data": {"content": {"x": SECRET}}},
        {"type": "human", "data": {"content": [SECRET.encode()]}},
        {"type": SECRET, "data": {"content": SECRET}},
        {"type": "human", "data": SECRET},
        {"type": "tool", "data": {"content": SECRET}},
        {"type": "human", "data": {"content": SECRET, "type": SECRET}},
        {"type": "human", "data": {"content": SECRET, "additional_kwargs": SECRET}},
    ],
    ids=repr,
)
def test_a_validation_error_shows_no_content(value: Any) -> None:
    """S6, P12: neither its text nor its repr nor a traceback holds what was given."""
    with pytest.raises(ValidationError) as caught:
        StoredMessage.model_validate(value)
    shown = "".join(traceback.format_exception_only(caught.value))
    assert SECRET not in str(caught.value) + repr(caught.value) + shown


class Page(BaseModel):
    """A model of an application that holds messages."""

    messages: list[StoredMessage]


def test_a_loaded_message_is_dumped_wherever_it_stands() -> None:
    """R76: in a model, in a list, by fields, in Python and in JSON; just like one that was made."""
    made = ai("x", name="bot")
    expected = {"type": "ai", "data": {"content": "x", "name": "bot"}}
    assert Page(messages=[kept(made)]).model_dump() == {"messages": [expected]}
    assert json.loads(Page(messages=[kept(made)]).model_dump_json()) == {"messages": [expected]}
    assert TypeAdapter(list[StoredMessage]).dump_python([kept(made)]) == [expected]
    assert kept(made).model_dump(include={"data": {"name"}}) == {"data": {"name": "bot"}}
    assert kept(made).model_dump(exclude={"type"}) == {"data": expected["data"]}
    assert dict(kept(made))["data"] == expected["data"]
    assert kept(made).model_copy(update={"type": "human"}) == human("x", name="bot")
    assert (
        StoredMessage.model_validate(kept(made))
        == Page.model_validate({"messages": [kept(made)]}).messages[0]
        == made
    )


def test_a_loaded_message_has_no_other_attributes_than_a_made_one() -> None:
    """Decision 15: the same class, whichever way it came about."""
    assert not hasattr(kept(human("x")), "nope")
    with pytest.raises(AttributeError, match="nope"):
        _ = kept(human("x")).nope  # type: ignore[attr-defined]
    assert type(kept(human("x"))) is StoredMessage


def test_many_threads_may_look_at_one_message() -> None:
    """G26: whoever is first, all see one dict."""
    for _ in range(50):
        message = kept(ai("x" * 1000, extra=[{"a": [1, 2]}] * 100))
        barrier = threading.Barrier(4)

        def look(message: StoredMessage = message, barrier: threading.Barrier = barrier) -> int:
            barrier.wait(10)
            return id(message.data)

        with ThreadPoolExecutor(4) as pool:
            seen = {future.result() for future in [pool.submit(look) for _ in range(4)]}
        assert len(seen) == 1


def test_place_and_time_are_unknown_before_storing() -> None:
    """Decision 9: seq and stored_at come with a load."""
    message = human("x")
    assert message.seq is None
    assert message.stored_at is None


def test_the_time_of_storing_is_aware_and_in_utc() -> None:
    """C22, C23: whoever reads it, and in whatever time zone, sees one instant."""
    message = StoredMessage.model_validate(
        {"type": "human", "data": {"content": "x"}, "stored_ms": 1_700_000_000_123}
    )
    assert message.stored_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_times_of_the_application_are_returned_unchanged() -> None:
    """C23: texts that look like times are texts."""
    data = {"created": "2024-01-01T00:00:00", "zoned": "2024-01-01T00:00:00+09:00"}
    assert kept(human("x", response_metadata=data)).data.get("response_metadata") == data
