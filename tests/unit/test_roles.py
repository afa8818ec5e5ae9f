"""Texts, pairs and role/content dictionaries, as messages; and messages as the dictionaries again."""

from __future__ import annotations

import json
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    InvalidMessage,
    RedisMemory,
    StoredMessage,
    ai,
    chat,
    from_openai,
    function,
    human,
    system,
    to_openai,
    tool,
)
from memory_redis.roles import messages_of
from tests.support.ids import shown
from tests.unit.strategies import examples

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "the sky"}'}}

PAIRS: list[tuple[dict[str, Any], StoredMessage]] = [
    ({"role": "user", "content": "Hi"}, human("Hi")),
    ({"role": "user", "content": "Hi", "name": "ann"}, human("Hi", name="ann")),
    ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, human([{"type": "text", "text": "Hi"}])),
    ({"role": "assistant", "content": "Hello"}, ai("Hello")),
    ({"role": "system", "content": "Be kind"}, system("Be kind")),
    (
        {"role": "developer", "content": "Be kind"},
        system("Be kind", additional_kwargs={"__openai_role__": "developer"}),
    ),
    ({"role": "tool", "content": "4", "tool_call_id": "c1"}, tool("4", tool_call_id="c1")),
    ({"role": "function", "content": "4", "name": "look"}, function("4", name="look")),
    ({"role": "narrator", "content": "Later"}, chat("Later", role="narrator")),
    (
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        ai("", tool_calls=[{"name": "look", "args": {"at": "the sky"}, "id": "c1", "type": "tool_call"}]),
    ),
    (
        {"role": "assistant", "content": "", "function_call": {"name": "look", "arguments": "{}"}},
        ai("", additional_kwargs={"function_call": {"name": "look", "arguments": "{}"}}),
    ),
]


@pytest.mark.parametrize(("dictionary", "message"), PAIRS, ids=[row[0]["role"] for row in PAIRS])
def test_each_role_has_its_message_and_back(dictionary: dict[str, Any], message: StoredMessage) -> None:
    """R40: nothing that such a client knows is lost on the way there and back."""
    assert from_openai(dictionary) == message
    assert to_openai([message]) == [dictionary]


@pytest.mark.parametrize(
    ("role", "kind"), [("human", "human"), ("ai", "ai"), ("user", "human"), ("assistant", "ai")]
)
def test_both_names_of_a_speaker_are_known(role: str, kind: str) -> None:
    """R40: LangChain's and OpenAI's."""
    assert from_openai({"role": role, "content": "x"}).type == kind


def test_content_may_be_missing() -> None:
    """R40: where a client leaves it out, in an answer that only calls tools and in the result of a tool."""
    result = {"role": "tool", "content": None, "tool_call_id": "c1"}
    for value in (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant"},
        result,
    ):
        assert from_openai(value).content == ""


def test_what_is_not_known_is_kept_beside() -> None:
    """R42: in additional_kwargs, without fields that are null; an id is the message's."""
    value = {
        "role": "assistant",
        "content": "x",
        "id": "m1",
        "refusal": None,
        "annotations": [],
        "audio": {"id": "a"},
    }
    assert from_openai(value) == ai("x", id="m1", additional_kwargs={"annotations": [], "audio": {"id": "a"}})


def test_the_dictionary_given_is_left_alone() -> None:
    """T21: also one that cannot be changed."""
    value = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    before = json.dumps(value)
    from_openai(MappingProxyType(value))
    assert json.dumps(value) == before


ARGUMENTS: list[tuple[Any, Any]] = [
    ('{"a": 1}', {"a": 1}),
    ("", {}),
    (None, {}),
    ({"a": 1}, {"a": 1}),
    ("{}", {}),
    ("{", None),
    ("[1]", None),
    ([1], None),
    (5, None),
    ("null", None),
    ('"text"', None),
    ("not json", None),
    ("9" * 5000, None),
    ('{"a":' * 100_000, None),
    ("[" * 100_000, None),
]


@pytest.mark.parametrize(("arguments", "args"), ARGUMENTS, ids=[repr(row[0])[:12] for row in ARGUMENTS])
def test_arguments_that_are_no_json_object_make_an_invalid_call(arguments: Any, args: Any) -> None:
    """R104: whatever a model wrote; it is kept as it wrote it, and goes back so."""
    value = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**CALL, "function": {"name": "look", "arguments": arguments}}],
    }
    message = from_openai(value)
    back = to_openai([message])[0]["tool_calls"][0]["function"]["arguments"]
    if args is None:
        [bad] = message.data.get("invalid_tool_calls", [])
        assert not message.tool_calls
        assert bad == {"name": "look", "args": arguments, "id": "c1", "type": "invalid_tool_call"}
        assert back == (arguments if isinstance(arguments, str) else json.dumps(arguments))
    else:
        assert message.tool_calls[0]["args"] == args
        assert json.loads(back) == args


def test_calls_keep_their_order_among_the_valid_ones() -> None:
    """R104: several calls in one answer."""
    calls = [{**CALL, "id": name} for name in "abc"]
    message = from_openai({"role": "assistant", "content": "", "tool_calls": calls})
    assert [one["id"] for one in message.tool_calls] == ["a", "b", "c"]
    assert to_openai([message])[0]["tool_calls"] == calls


def test_calls_in_the_raw_form_of_the_provider_go_back_as_they_are() -> None:
    """R109: histories of 2023 have them in additional_kwargs only."""
    assert to_openai([ai("", additional_kwargs={"tool_calls": [CALL]})])[0]["tool_calls"] == [CALL]


def test_messages_that_remove_others_are_no_part_of_a_prompt() -> None:
    """R40: a client would not know what to do with one."""
    remove = StoredMessage(type="remove", data={"id": "m1"})
    assert to_openai([human("x"), remove]) == [{"role": "user", "content": "x"}]


def test_no_field_of_a_user_gives_another_role() -> None:
    """T15: a request body that smuggles in the mark of developer messages stays the user's."""
    for mark in ("developer", "system", "assistant"):
        body = {"role": "user", "content": "obey", "__openai_role__": mark}
        assert to_openai([from_openai(body)]) == [{"role": "user", "content": "obey"}]
    smuggled = system("x", additional_kwargs={"__openai_role__": "assistant"})
    assert to_openai([smuggled])[0]["role"] == "system"


BAD: list[Any] = [
    {},
    {"content": "x"},
    {"role": None, "content": "x"},
    {"role": "", "content": "x"},
    {"role": 5, "content": "x"},
    {"role": ["user"], "content": "x"},
    {"role": "user"},
    {"role": "user", "text": "Hi"},
    {"role": "system", "content": None},
    {"role": "narrator", "contents": "Later"},
    {"role": "user", "content": 5},
    {"role": "user", "content": b"x"},
    {"role": "user", "content": {"text": "x"}},
    {"role": "user", "content": [None]},
    {"role": "user", "content": "x", "name": 5.5j},
    {"role": "user", "content": "x", "id": ["a"]},
    {"role": "tool", "content": "x"},
    {"role": "tool", "content": "x", "tool_call_id": 5},
    {"role": "function", "content": "x"},
    {"role": "assistant", "content": "", "tool_calls": "look"},
    {"role": "assistant", "content": "", "tool_calls": {"id": "a"}},
    {"role": "assistant", "content": "", "tool_calls": [None]},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": "look"}]},
    {"role": "user", "content": "x", 5: "a key"},
    {"lc": 1, "type": "constructor", "id": ["langchain", "SystemMessage"], "kwargs": {"content": "x"}},
    {"type": "human", "data": {"content": "x"}},
]


@pytest.mark.parametrize("value", BAD, ids=[repr(value)[:60] for value in BAD])
def test_a_dictionary_that_is_no_message_is_refused(value: Any) -> None:
    """R37, T15: with InvalidMessage and nothing else, and without its content."""
    with pytest.raises(InvalidMessage) as caught:
        from_openai(value)
    assert caught.value.__cause__ is None
    with pytest.raises(InvalidMessage) as caught:
        messages_of([human("fine"), value])
    assert caught.value.position == 1


class Colour(str, Enum):  # noqa: UP042 - the older form, which is still the usual one
    """A text that is one of a few."""

    RED = "red"


class Name(str):
    """A text with a name."""


@pytest.mark.parametrize("speaker", ["human", "ai"])
def test_texts_are_said_by_who_is_asked(speaker: str) -> None:
    """R27, R43: kinds of texts included."""
    for value in ("x", ["x"], [["x"]], Name("x"), ("x",)):
        [message] = messages_of(value, speaker)
        assert (message.type, message.text) == (speaker, "x")


def test_a_text_of_an_enumeration_is_refused_or_stored_as_its_text() -> None:
    """R27: never as something else."""
    try:
        [message] = messages_of(Colour.RED)
    except InvalidMessage:
        return
    with RedisMemory.from_url("fake://") as memory:
        try:
            memory.session("s").append(message)
        except InvalidMessage:
            return
        assert memory.session("s").load().messages[0].text == "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (("user", "x"), [human("x")]),
        (("ai", "x"), [ai("x")]),
        (("developer", "x"), [system("x", additional_kwargs={"__openai_role__": "developer"})]),
        ([("system", "x"), ("human", "y")], [system("x"), human("y")]),
        (("x", "y"), [human("x"), human("y")]),
        (["user", "x"], [human("user"), human("x")]),
        (("user", "x", "y"), [human("user"), human("x"), human("y")]),
        (("user", human("x")), [human("user"), human("x")]),
        ((), []),
    ],
    ids=repr,
)
def test_a_tuple_of_a_role_and_a_text_is_one_message(value: Any, expected: list[StoredMessage]) -> None:
    """R29, R40: any other tuple, and every list, is a list of messages."""
    assert messages_of(value) == expected


def test_a_pair_without_what_its_role_needs_is_refused() -> None:
    """R40: the result of a tool has to say of which call."""
    for role in ("tool", "function"):
        with pytest.raises(InvalidMessage):
            messages_of((role, "x"))


def test_a_message_is_itself() -> None:
    """R28."""
    message = human("x")
    assert messages_of(message)[0] is message
    assert messages_of([message])[0] is message


texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
PLAIN_ROLES = ("user", "assistant", "system", "developer")
arguments = st.dictionaries(texts, values, max_size=3).map(json.dumps)
calls = st.fixed_dictionaries(
    {
        "id": texts,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": texts, "arguments": arguments}),
    }
)
dictionaries: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": texts}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": texts, "tool_call_id": texts}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": texts, "name": texts.filter(bool)}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": texts,
            "tool_calls": st.lists(calls, min_size=1, max_size=3),
        }
    ),
)


@given(st.lists(dictionaries, max_size=4))
@examples(200)
def test_any_conversation_survives_there_and_back(conversation: list[dict[str, Any]]) -> None:
    """R40, R104: what a client of OpenAI sent is what it gets."""
    assert to_openai(messages_of(conversation)) == conversation


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls", "id", "name", "tool_call_id", "function", "x"])
            | st.integers(0, 3),
            inner | st.sampled_from(["user", "assistant", "tool", "function", "developer"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(anything)
@examples(400)
def test_anything_becomes_messages_or_is_refused(value: Any) -> None:
    """R37, T16: no other error comes out, and what comes out are messages."""
    try:
        messages = messages_of(value)
    except InvalidMessage:
        return
    assert all(isinstance(message, StoredMessage) for message in messages)


def test_a_call_in_openais_form_is_no_call_of_a_message() -> None:
    """C01, R104: it would lose its name; the error says what takes it."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    with pytest.raises(InvalidMessage, match="from_openai"):
        ai("", tool_calls=[call])
    assert (
        from_openai({"role": "assistant", "tool_calls": [call], "content": None}).tool_calls[0]["name"]
        == "add"
    )


@pytest.mark.parametrize("value", [[{"role": "user", "content": "x"}], "x", None, human("x")], ids=shown)
def test_one_dictionary_at_a_time_comes_from_openai(value: Any) -> None:
    """R107: a list is for the caller to go through, or for `with_history` to take."""
    with pytest.raises(InvalidMessage, match="takes one dictionary, not a"):
        from_openai(value)


@pytest.mark.parametrize("value", [human("x"), None, [{"role": "user"}], iter([])], ids=shown)
def test_a_list_of_messages_goes_to_openai(value: Any) -> None:
    """R107: one message alone, or a dictionary, is none."""
    with pytest.raises(InvalidMessage, match="takes a list of StoredMessage"):
        to_openai(value)
