"""Sentences for people: nouns agree with their numbers, and what is to be installed has one form."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from memory_redis import (
    InvalidMessage,
    Limits,
    RedisMemory,
    StoredMessage,
    UnansweredCall,
    ai,
    human,
    with_history,
)
from memory_redis.errors import ConflictError
from memory_redis.toolcalls import without_unanswered
from memory_redis.wording import counted, needs_extra, plural
from tests.unit.records import refusal


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1_000, "1,000 messages")],
)
def test_a_noun_agrees_with_its_number(number: int, words: str) -> None:
    """One is singular; none and many are plural."""
    assert counted(number, "message") == words
    assert plural(number, "message") == words.split()[1]


@pytest.mark.parametrize(("missed", "words"), [(1, "1 new message"), (2, "2 new messages")])
def test_a_conflict_counts_what_was_missed(missed: int, words: str) -> None:
    """The text of the error has the number and a noun that agrees; none are not mentioned."""
    assert str(ConflictError("c0ffee", missed_count=missed)).endswith(f", {words}")
    assert "message" not in str(ConflictError("c0ffee"))


@pytest.mark.parametrize(("calls", "words"), [(1, "1 stored message calls"), (2, "2 stored messages call")])
def test_calls_that_nobody_answered_are_counted(calls: int, words: str) -> None:
    """The verb agrees as well."""
    asked = [ai("", tool_calls=[{"name": "look", "args": {}, "id": str(at)}]) for at in range(calls)]
    with pytest.raises(UnansweredCall, match=f"^{words} tools that nobody answered$"):
        without_unanswered(asked, (), "raise")


@pytest.mark.parametrize(("most", "words"), [(1, "1 message"), (2, "2 messages")])
def test_a_limit_is_told_with_its_unit(most: int, words: str) -> None:
    """S4: an append that is too large says how much one may hold."""
    error = refusal(*[human("x")] * 3, limits=Limits(append_messages=most))
    assert str(error) == f"an append holds at most {words}"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: human("x", extra=object()), "a value of type object cannot be stored"),
        (lambda: human("x", extra={5: 1}), "a key of type int, not a text"),
        (lambda: 5, "a value of type int is no message: use human(), ai(), …"),
    ],
)
def test_a_type_is_named_without_an_article(make: Any, sentence: str) -> None:
    """S3: no "a object" and no "a int", whatever the type is called."""
    error = refusal(make())
    assert error.reason == sentence


def test_a_message_that_lacks_a_field_is_named_by_its_type() -> None:
    """C06: also where the type begins with a vowel."""
    with pytest.raises(ValueError, match=r"a message of type ai needs data\.content"):
        StoredMessage.model_validate({"type": "ai", "data": {}})


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(5, "was expected, not int$"), ([object()], "^message 0: a value of type object is no message$")],
)
def test_an_input_that_is_no_message_is_named_by_its_type(value: Any, sentence: str) -> None:
    """R37: before the model runs."""
    with RedisMemory.from_url("fake://") as memory, pytest.raises(InvalidMessage, match=sentence):
        with_history(lambda _: "never", memory)(value, session="s")


def test_an_extra_that_is_needed_is_told_in_one_form() -> None:
    """The package is on no index yet, so the sentence names no place to get it from by its name."""
    assert needs_extra("the command line", "cli") == (
        "the command line needs the extra \"cli\": pip install '.[cli]' in a clone of the project"
    )


def test_each_extra_that_a_sentence_names_exists() -> None:
    """pyproject.toml has it, under the same name."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"cli", "demo", "embedded", "fake", "langchain"} <= extras.keys()
