"""Making a wrapper: what is refused at once, and what the result looks like."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_redis import (
    AllMessages,
    HistoryNotSaved,
    InvalidId,
    InvalidSetting,
    RedisMemory,
    ServerUnavailable,
    StoredMessage,
    TurnReport,
    ai,
    with_history,
)
from tests.support.ids import shown

MEMORY = RedisMemory.from_url("redis://127.0.0.1:9/0")  # nobody listens there


def model(messages: Any, tone: str = "kind") -> str:
    """Says something."""
    return "ok"


WRONG: list[dict[str, Any]] = [
    {"on_conflict": "overwrite"},
    {"on_conflict": None},
    {"on_conflict": ["append"]},
    {"max_tries": 0},
    {"max_tries": 101},
    {"max_tries": True},
    {"max_tries": 2.0},
    {"max_tries": "2"},
    {"save_input": "never"},
    {"save_input": True},
    {"on_save_error": "ignore"},
    {"on_save_error": None},
    {"on_save_error": []},
    {"partial": True},
    {"partial": "maybe"},
    {"window": 5},
    {"window": AllMessages},
    {"unanswered": "ignore"},
    {"unanswered": None},
    {"on_corrupt": "ignore"},
    {"on_corrupt": None},
    {"input_messages_key": ""},
    {"output_messages_key": 5},
    {"input_messages_key": "a", "history_messages_key": "a"},
]


@pytest.mark.parametrize("rules", WRONG, ids=repr)
def test_a_rule_that_cannot_be_meant_is_refused_at_once(rules: dict[str, Any]) -> None:
    """T17: when the wrapper is made, not at its first call; a ValueError."""
    with pytest.raises(InvalidSetting) as caught:
        with_history(model, MEMORY, **rules)
    assert isinstance(caught.value, ValueError)


def test_a_rule_that_nobody_knows_is_a_type_error() -> None:
    """T17: as of any function."""
    wrap: Any = with_history
    with pytest.raises(TypeError):
        wrap(model, MEMORY, on_conflicts="append")
    with pytest.raises(TypeError):
        wrap(model, MEMORY, "question")


@pytest.mark.parametrize("what", [None, "model", 5, [model]], ids=shown)
def test_what_cannot_be_called_is_refused(what: Any) -> None:
    """R11: with one sentence."""
    with pytest.raises(InvalidSetting, match="function"):
        with_history(what, MEMORY)


@pytest.mark.parametrize(
    "what",
    [None, "redis://localhost", MEMORY.history("ann", "c1"), RedisMemory, lambda session: None],
    ids=shown,
)
def test_what_is_no_memory_is_refused(what: Any) -> None:
    """R12: a history, a URL or a function that gives one is none."""
    with pytest.raises(InvalidSetting, match="RedisMemory"):
        with_history(model, what)


async def coroutine(messages: Any) -> str:
    return "ok"


def generator(messages: Any) -> Iterator[str]:
    yield "ok"


async def asynchronous(messages: Any) -> Any:
    yield "ok"


def test_the_result_is_of_the_kind_of_the_model() -> None:
    """Issue 1: it is awaited or iterated as the model is."""
    for one in (coroutine, generator, asynchronous, model):
        chat: Any = with_history(one, MEMORY)  # type: ignore[arg-type]
        assert inspect.iscoroutinefunction(chat) == (one is coroutine)
    streams = [with_history(one, MEMORY)("Hi", session="s") for one in (generator, asynchronous)]
    assert inspect.isgenerator(streams[0])
    assert inspect.isasyncgen(streams[1])


def test_the_result_has_the_name_and_the_words_of_the_model() -> None:
    """T14: tools that list functions show it as what it is; its parameters are its own."""
    chat: Any = with_history(model, MEMORY)
    assert (chat.__name__, chat.__doc__, chat.__module__) == ("model", "Says something.", __name__)
    parameters = inspect.signature(chat).parameters
    assert [parameter.kind.name for parameter in parameters.values()] == ["POSITIONAL_ONLY", "VAR_KEYWORD"]


def test_making_and_showing_a_wrapper_sends_nothing() -> None:
    """R21, T13: nobody listens, and nobody is missed before the first call."""
    chat: Any = with_history(model, MEMORY)
    repr(chat)
    with_history(coroutine, MEMORY)
    with pytest.raises(ServerUnavailable):
        with_history(model, RedisMemory.from_url("redis://127.0.0.1:9/0", deadline=0.05))("Hi", session="s")


def test_one_memory_serves_many_wrappers() -> None:
    """R12: each with its own rules; they share nothing but the histories."""
    with RedisMemory.from_url("fake://") as memory:
        one = with_history(lambda messages: f"one saw {len(messages)}", memory)
        other = with_history(lambda messages: f"other saw {len(messages)}", memory, save_input="before")
        assert [one("Hi", session="s"), other("Hi", session="s"), one("Hi", session="s")] == [
            "one saw 1",
            "other saw 3",
            "one saw 5",
        ]


def test_an_error_that_carries_an_answer_shows_none_of_it() -> None:
    """Promise 7: neither its text nor its repr, nor that of the report."""
    report = TurnReport()
    with RedisMemory.from_url("fake://") as memory:
        chat = with_history(lambda messages: {"secret": 5}, memory)
        with pytest.raises(HistoryNotSaved) as caught:
            chat("my secret", session="s", report=report)
    for text in (str(caught.value), repr(caught.value), repr(report), str(caught.value.__cause__)):
        assert "secret" not in text


def text_model(given: Any) -> str:
    return "Hello"


def message_model(given: Any) -> StoredMessage:
    return ai("Hello")


def any_model(given: Any) -> Any:
    return "Hello"


def object_model(given: Any) -> object:
    return "Hello"


def optional_model(given: Any) -> str | None:
    return "Hello"


def dictionary_model(given: Any) -> dict[str, str]:
    return {"answer": "Hello"}


MODELS: list[tuple[Callable[[Any], Any], dict[str, str]]] = [
    (text_model, {}),
    (message_model, {}),
    (any_model, {}),
    (object_model, {}),
    (optional_model, {}),
    (dictionary_model, {"output_messages_key": "answer"}),
]


@pytest.mark.parametrize("resolved", [True, False], ids=["annotations", "texts of annotations"])
@pytest.mark.parametrize(("model", "keys"), MODELS, ids=[model.__name__ for model, _ in MODELS])
def test_annotations_help_to_find_the_form_and_never_spoil_it(
    model: Any, keys: dict[str, Any], resolved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 5, R51: a model that gives text is not thought to give messages for what it declares."""
    if resolved:
        returns = eval(model.__annotations__["return"], globals())
        monkeypatch.setitem(model.__annotations__, "return", returns)
    with RedisMemory.from_url("fake://") as memory:
        chat = with_history(model, memory, **keys)
        first, again = (chat("Hi", session="s", idempotency_key="k") for _ in range(2))
    assert first == again == model([])
    assert type(first) is type(again)


WITHOUT_LANGCHAIN = """
import sys
sys.modules["langchain_core"] = sys.modules["langchain"] = None  # importing either is an error now
from memory_redis import RedisMemory, to_openai, with_history

with RedisMemory.from_url("fake://") as memory:
    chat = with_history(lambda messages: to_openai(messages)[-1]["content"].upper(), memory)
    print(chat({"role": "user", "content": "hi"}, session="s"))
"""


def test_no_langchain_is_needed() -> None:
    """Issue 1: nothing of it is imported."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_LANGCHAIN],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "HI\n", "")


def test_a_model_of_langchain_is_told_which_wrapper_is_for_it() -> None:
    """R23: an object with `invoke` is no function."""

    class Model:
        def invoke(self, value: Any) -> Any:
            return value

    with pytest.raises(InvalidSetting, match="RunnableWithMessageHistory"):
        with_history(Model(), RedisMemory.from_url("fake://"))  # type: ignore[arg-type]


def test_the_name_that_langchain_has_for_a_session_is_told_to_be_none_here() -> None:
    """R13: and nothing is stored under it."""
    chat = with_history(lambda given: "ok", RedisMemory.from_url("fake://"))
    with pytest.raises(InvalidId, match=r"or session= \(there is no session_id=\)"):
        chat("Hi", session_id="s")
