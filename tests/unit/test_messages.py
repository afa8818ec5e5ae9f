"""`StoredMessage` and its constructors: rows R101 to R107, one form for each message, no content shown."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from memory_redis import InvalidMessage, StoredMessage, ai, chat, function, human, system, tool
from tests.support.ids import shown
from tests.unit.records import CODECS, exact, kept
from tests.unit.strategies import examples, messages

CALL = {"name": "add", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
BROKEN_CALL = {"name": "add", "args": "{", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "input_token_details": {"cache_read": 1}}

MADE: dict[str, tuple[StoredMessage, str, dict[str, Any]]] = {
    "human": (human("hi", name="ann", id="h1"), "human", {"content": "hi", "name": "ann", "id": "h1"}),
    "ai": (
        ai("", tool_calls=[CALL], invalid_tool_calls=[BROKEN_CALL], usage_metadata=USAGE),
        "ai",
        {"content": "", "tool_calls": [CALL], "invalid_tool_calls": [BROKEN_CALL], "usage_metadata": USAGE},
    ),
    "system": (system("be brief"), "system", {"content": "be brief"}),
    "tool": (
        tool("3", tool_call_id="c1", status="error", artifact={"raw": [1, 2]}, name="add"),
        "tool",
        {"content": "3", "tool_call_id": "c1", "status": "error", "artifact": {"raw": [1, 2]}, "name": "add"},
    ),
    "function": (function("3", name="add"), "function", {"content": "3", "name": "add"}),
    "chat": (chat("yo", role="critic"), "chat", {"content": "yo", "role": "critic"}),
    "remove": (StoredMessage(type="remove", data={"id": "h1"}), "remove", {"id": "h1"}),
}


@pytest.mark.parametrize("name", MADE)
def test_a_constructor_makes_type_and_data(name: str) -> None:
    """R103 to R105: each type's fields stand in data under their LangChain names, and nothing else does."""
    message, kind, data = MADE[name]
    assert message.type == kind
    assert message.data == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", MADE)
def test_every_field_of_every_type_survives_a_round_trip(name: str, codec: str) -> None:
    """R101 to R105, C01: tool calls, ids, status, artifact, usage and role come back as they were."""
    message = MADE[name][0]
    back = kept(message, codec)
    assert back == message
    assert exact(back.data) == exact(message.data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "content",
    [
        "",
        [],
        "\0",
        "a\0b",
        "\U0001f600\U0010ffff",
        "é",
        "e\u0301",
        " ",
        ["a", "", {"type": "text", "text": ""}],
    ],
    ids=repr,
)
def test_content_is_kept_exactly(content: Any, codec: str) -> None:
    """R101, C10: empty text, empty list, NUL, astral characters and blocks are kept as they are."""
    back = kept(human(content), codec)
    assert back.content == content
    assert type(back.content) is type(content)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("field", ["additional_kwargs", "response_metadata"])
def test_metadata_keeps_any_json_value(field: str, codec: str) -> None:
    """R102, F23: a message never gets lost or changed because of what its metadata holds."""
    value = {
        "n": 1,
        "f": 0.5,
        "s": "x",
        "l": [1, [None]],
        "d": {"lc": 1, "lc_kwargs": {}},
        "0": None,
        "b": True,
    }
    assert kept(human("x", **{field: value}), codec).data == {"content": "x", field: value}


@pytest.mark.parametrize(("given_id", "stored"), [(5, "5"), (0, "0"), (1.5, "1.5"), ("5", "5"), ("", "")])
def test_a_number_as_id_becomes_text(given_id: Any, stored: str) -> None:
    """R103: ids are texts; a number that an application gave is written as one."""
    assert human("x", id=given_id).id == stored


def test_an_id_is_never_invented() -> None:
    """R103, decision 9: None stays None, before and after storing."""
    message = human("x")
    assert message.id is None
    assert message.name is None
    assert kept(message).id is None


@pytest.mark.parametrize("codec", CODECS)
@given(message=messages)
@examples(150)
def test_unknown_fields_are_kept(codec: str, message: StoredMessage) -> None:
    """R106, R101: any message with any extra fields comes back equal, types included, in both codecs."""
    back = kept(message, codec)
    assert back == message
    assert exact(back.data) == exact(message.data)


@given(message=messages)
@examples(100)
def test_computed_text_is_the_same_after_a_round_trip(message: StoredMessage) -> None:
    """R107: what is computed from a message does not depend on whether it was stored."""
    back = kept(message)
    assert (back.text, back.content, back.id, back.name) == (
        message.text,
        message.content,
        message.id,
        message.name,
    )


def test_text_joins_texts_and_text_blocks() -> None:
    """R107: blocks of other kinds, and blocks whose text is none, add nothing."""
    blocks: Any = [
        "a",
        {"type": "text", "text": "b"},
        {"type": "image", "text": "c"},
        {"type": "text", "text": 1},
        "d",
    ]
    assert human(blocks).text == "abd"
    assert StoredMessage(type="remove", data={"id": "1"}).text == ""


DEFAULTS: dict[str, tuple[Callable[..., StoredMessage], dict[str, Any]]] = {
    "human": (
        human,
        {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None, "example": False},
    ),
    "ai": (ai, {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None, "example": False}),
    "system": (system, {"additional_kwargs": {}, "name": None}),
    "tool": (
        lambda c, **f: tool(c, tool_call_id="1", **f),
        {"artifact": None, "status": "success", "id": None},
    ),
    "function": (lambda c, **f: function(c, name="f", **f), {"additional_kwargs": {}, "id": None}),
    "chat": (lambda c, **f: chat(c, role="r", **f), {"response_metadata": {}, "name": None}),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_field_at_its_default_is_the_same_as_absent(name: str) -> None:
    """One writer names every field, the other leaves them out; both mean one message."""
    make, defaults = DEFAULTS[name]
    assert make("x", **defaults) == make("x")
    assert make("x", **defaults).data == make("x").data


@pytest.mark.parametrize("value", ["", 0, False, [], {}])
def test_only_the_exact_default_is_left_out(value: Any) -> None:
    """R105: an artifact that is merely empty is no default, and stays."""
    assert kept(tool("x", tool_call_id="1", artifact=value), "json").data.get("artifact", "gone") == value


def test_equality_is_type_and_data_and_not_the_place() -> None:
    """Where a message stands, or when it was stored, does not make it another message."""
    stored = kept(human("x"))
    assert stored.seq == 0
    assert stored == human("x")
    assert human("x") != ai("x")
    assert human("x") != human("x", name="")
    assert human("x") != "x"


def test_a_message_has_no_hash() -> None:
    """Data may change, so a message cannot be a key."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(human("x"))


def test_fields_of_a_message_cannot_be_assigned() -> None:
    """Messages are values."""
    with pytest.raises(ValueError, match="frozen"):
        human("x").type = "ai"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_loaded_message_can_be_copied_and_pickled(
    duplicate: Callable[[StoredMessage], StoredMessage],
) -> None:
    """A message that was read is as whole as one that was made: it may go to another process."""
    back = kept(ai("x", tool_calls=[CALL]))
    again = duplicate(back)
    assert again == back
    assert (again.seq, again.stored_at) == (back.seq, back.stored_at)
    assert again.model_dump() == {"type": "ai", "data": {"content": "x", "tool_calls": [CALL]}}


def test_a_message_is_not_tied_to_what_it_was_made_of() -> None:
    """T21: changing the caller's list or map afterwards does not change the message."""
    content, metadata = ["a"], {"k": 1}
    message = human(content, response_metadata=metadata)
    content.append("b")
    metadata["k"] = 2
    assert message.data == {"content": ["a"], "response_metadata": {"k": 1}}


def test_a_tuple_as_content_becomes_a_list() -> None:
    """Decision 17: tuples become lists, whether content or tool calls."""
    assert human(("a", {"type": "text", "text": "b"})).content == ["a", {"type": "text", "text": "b"}]
    assert ai("", tool_calls=(CALL,)).tool_calls == [CALL]


SECRET = "hunter2-secret"


@pytest.mark.parametrize("show", [repr, str, lambda m: f"{m}", lambda m: "%s" % [m]])
def test_no_text_of_a_message_shows_its_content(show: Callable[[StoredMessage], str]) -> None:
    """S6, P12: content, metadata, names and ids stay out of repr and str."""
    message = ai(
        [SECRET, {"type": "text", "text": SECRET}],
        id=SECRET,
        name=SECRET,
        tool_calls=[{"name": SECRET, "args": {SECRET: SECRET}, "id": SECRET}],
        response_metadata={SECRET: SECRET},
        extra=SECRET,
    )
    assert SECRET not in show(message)
    assert SECRET not in show(kept(message))
    assert "ai" in show(message)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: human(None), "data.content"),  # type: ignore[arg-type]
        (lambda: human(5), "data.content"),  # type: ignore[arg-type]
        (lambda: human(["a", 5]), "data.content"),  # type: ignore[list-item]
        (lambda: human("x", id=True), "data.id"),
        (lambda: human("x", name=["a"]), "data.name"),
        (lambda: human("x", additional_kwargs=[]), "data.additional_kwargs"),
        (lambda: human("x", response_metadata=None), "data.response_metadata"),
        (lambda: ai("x", tool_calls=[5]), "data.tool_calls"),
        (lambda: ai("x", tool_calls=5), "data.tool_calls"),
        (lambda: ai("x", tool_calls=True), "data.tool_calls"),
        (lambda: ai("x", tool_calls={}), "data.tool_calls"),
        (lambda: ai("x", usage_metadata=5), "data.usage_metadata"),
        (lambda: tool("x", tool_call_id=5), "data.tool_call_id"),  # type: ignore[arg-type]
        (lambda: tool("x", tool_call_id=None), "data.tool_call_id"),  # type: ignore[arg-type]
        (lambda: tool("x", tool_call_id="1", status=None), "data.status"),
        (lambda: chat("x", role=7), "data.role"),  # type: ignore[arg-type]
        (lambda: human("x", type="ai"), "data.type"),
    ],
)
def test_a_constructor_names_the_field_at_fault(make: Callable[[], StoredMessage], field: str) -> None:
    """What is no message is refused as InvalidMessage, a ValueError, with the path of the field."""
    with pytest.raises(InvalidMessage) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    assert caught.value.outcome == "not_stored"
    where = f"{caught.value.field}: {caught.value.reason}"
    assert field in where


def test_the_error_of_a_constructor_shows_no_content() -> None:
    """S6, P12: the path is named, the value is not."""
    with pytest.raises(InvalidMessage) as caught:
        human([SECRET, SECRET.encode()])  # type: ignore[list-item]
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_message_that_is_to_be_changed_refuses_and_shows_nothing() -> None:
    """S6, P12: frozen, whatever the name; the error is pydantic's, without the value."""
    for message in (human("x"), kept(human("x"))):
        for name in ("data", "type", "text", "content", "seq", "new"):
            with pytest.raises(ValidationError, match="frozen") as caught:
                setattr(message, name, SECRET)
            assert SECRET not in str(caught.value) + repr(caught.value)
            with pytest.raises(ValidationError, match="frozen"):
                delattr(message, name)
        assert message == human("x")
        assert message.model_copy(update={"data": {"content": "y"}}).text == "y"


@pytest.mark.parametrize("content", [None, 5, {"type": "text"}, ["a", 5], b"x"], ids=shown)
def test_what_is_no_content_is_told_what_content_is(content: Any) -> None:
    """P12: both forms are named, whatever was given."""
    with pytest.raises(InvalidMessage, match="a text, or a list of texts and content blocks") as caught:
        ai(content)
    assert caught.value.field == "data.content"
