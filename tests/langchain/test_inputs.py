"""What may go in, and that what may not is refused before the model runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from memory_redis import InvalidId, InvalidMessage, InvalidSetting, MissingKey, RedisMemory, ai, human
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import WAYS, Runs, ask, chunks_of, every_way, model, said, stored, talk

pytestmark = pytest.mark.anyio

CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}
PAST = [human("before"), ai("yes")]


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        one.history("ann", "c1").append(*PAST)
        yield one


@every_way
@pytest.mark.parametrize(
    ("value", "new"),
    [
        ("Hi", [("human", "Hi")]),
        ("", [("human", "")]),
        (HumanMessage(content="Hi"), [("human", "Hi")]),
        (AIMessage(content="Hi"), [("ai", "Hi")]),
        ([HumanMessage(content="a"), HumanMessage(content="b")], [("human", "a"), ("human", "b")]),
        ((SystemMessage(content="a"), HumanMessage(content="b")), [("system", "a"), ("human", "b")]),
        ([[HumanMessage(content="a"), HumanMessage(content="b")]], [("human", "a"), ("human", "b")]),
        ([[]], []),
        ([], []),
        ((), []),
        ({"text": "Hi"}, [("human", "Hi")]),
        ({"text": [HumanMessage(content="Hi")]}, [("human", "Hi")]),
        ({"input": "Hi", "lang": "de"}, [("human", "Hi")]),
        ([("human", "Hi"), ("ai", "Ho")], [("human", "Hi"), ("ai", "Ho")]),
        ([["human", "Hi"]], [("human", "Hi")]),
        ([["human", "Hi"], ["ai", "Ho"]], [("human", "Hi"), ("ai", "Ho")]),
        ([["a", "b"]], [("human", "a"), ("human", "b")]),
        ([[["human", "Hi"]]], [("human", "Hi")]),
        (("system", "Be kind"), [("system", "Be kind")]),
        ({"role": "user", "content": "Hi"}, [("human", "Hi")]),
        ([{"role": "assistant", "content": "Hi"}, "Ho"], [("ai", "Hi"), ("human", "Ho")]),
        ([{"type": "human", "content": "Hi"}], [("human", "Hi")]),
        (["Hi", "Ho"], [("human", "Hi"), ("human", "Ho")]),
        (StringPromptValue(text="Hi"), [("human", "Hi")]),
        (ChatPromptValue(messages=[SystemMessage(content="a")]), [("system", "a")]),
    ],
)
async def test_what_stands_for_messages_goes_in_behind_the_past(
    memory: RedisMemory, way: str, value: Any, new: list[tuple[str, str]]
) -> None:
    """R27 to R33, R40, R41, R110, T16: whatever a language model takes, and dictionaries that hold it.

    The runnable gets one list of messages, or the dictionary with it; stored are messages, never pairs.
    """
    runs = Runs("fine")
    chain = RunnableWithMessageHistory(runs, memory)
    assert await ask(way, chain, value) == "fine"
    [given] = runs.asked
    if isinstance(value, dict) and "content" not in value:
        [changed] = [name for name in value if name in ("text", "input")]
        assert {**given, changed: None} == {**value, changed: None}
        given = given[changed]
    assert type(given) is list
    assert all(isinstance(message, BaseMessage) for message in given)
    assert said(given) == [("human", "before"), ("ai", "yes"), *new]
    assert said(stored(memory)) == [("human", "before"), ("ai", "yes"), *new, ("ai", "fine")]


@every_way
@pytest.mark.parametrize("value", ["Hi", HumanMessage(content="Hi"), [HumanMessage(content="Hi")]])
async def test_an_input_key_takes_past_and_new_as_a_list(memory: RedisMemory, way: str, value: Any) -> None:
    """R34, R2: also in place of a text; the other keys stay, and the caller's dictionary is not touched."""
    runs = Runs()
    chain = RunnableWithMessageHistory(runs, memory, input_messages_key="question")
    asked = {"question": value, "role": "pirate", "input": 7}
    await ask(way, chain, asked)
    [given] = runs.asked
    assert said(given.pop("question")) == [("human", "before"), ("ai", "yes"), ("human", "Hi")]
    assert given == {"role": "pirate", "input": 7}
    assert asked == {"question": value, "role": "pirate", "input": 7}
    assert said(stored(memory)) == talk("before", "yes", "Hi", "fine")


@every_way
@pytest.mark.parametrize(
    ("value", "new"),
    [
        ("Hi", [("human", "Hi")]),
        (HumanMessage(content="Hi"), [("human", "Hi")]),
        (
            [AIMessage(content="", tool_calls=[CALL]), ToolMessage(content="2", tool_call_id="k1")],
            [("ai", ""), ("tool", "2")],
        ),
        ([("system", "a"), "b"], [("system", "a"), ("human", "b")]),
        (StringPromptValue(text="Hi"), [("human", "Hi")]),
    ],
)
async def test_a_history_key_takes_the_past_and_the_input_stays(
    memory: RedisMemory, way: str, value: Any, new: list[tuple[str, str]]
) -> None:
    """R35, R4: the past overwrites what stood there; input and other keys are handed over as they are."""
    runs = Runs()
    chain = RunnableWithMessageHistory(
        runs, memory, input_messages_key="question", history_messages_key="history"
    )
    await ask(way, chain, {"question": value, "history": "mine", "lang": "de"})
    [given] = runs.asked
    assert given["question"] == value
    assert type(given["question"]) is type(value)
    assert given["lang"] == "de"
    assert said(given["history"]) == talk("before", "yes")
    assert said(stored(memory)) == [*talk("before", "yes"), *new, ("ai", "fine")]
    tied = [one.data.get("tool_call_id") for one in stored(memory) if one.type == "tool"]
    assert tied == (["k1"] if ("tool", "2") in new else [])


@every_way
async def test_a_prompt_gets_the_past_in_its_placeholder(memory: RedisMemory, way: str) -> None:
    """R35, R4: the usual chain, a prompt with a place for the past; the model sees both."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be kind in {lang}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    fake = model("fine thank you")
    chain = RunnableWithMessageHistory(
        prompt | fake, memory, input_messages_key="question", history_messages_key="history"
    )
    await ask(way, chain, {"question": "Hi", "lang": "German"})
    assert said(fake.asked[0]) == [("system", "Be kind in German"), *talk("before", "yes", "Hi")]
    assert said(stored(memory)) == talk("before", "yes", "Hi", "fine thank you")


@every_way
async def test_without_an_input_key_the_usual_or_only_key_is_meant(memory: RedisMemory, way: str) -> None:
    """R32, R33, R39: also beside a history key; a turn is stored either way."""
    runs = Runs()
    chain = RunnableWithMessageHistory(runs, memory, history_messages_key="history")
    await ask(way, chain, {"text": "one"})
    await ask(way, chain, {"input": "two", "lang": "de"})
    assert said(stored(memory)) == talk("before", "yes", "one", "fine", "two", "fine")
    assert said(runs.asked[1]["history"]) == talk("before", "yes", "one", "fine")


class Ranked(HumanMessage):
    """A message with a field of somebody's own."""

    rank: int = 0


@every_way
@pytest.mark.parametrize("direct", [True, False])
async def test_a_subclass_of_a_message_is_stored_with_its_fields(
    memory: RedisMemory, way: str, direct: bool
) -> None:
    """R42: through a model as through a function, as its base type with the field."""
    inner = model("fine") if direct else Runs("fine")
    chain = RunnableWithMessageHistory(inner, memory)
    await ask(way, chain, Ranked(content="Hi", rank=3))
    kept = stored(memory)[-2]
    assert (kept.type, kept.text, kept.data["rank"]) == ("human", "Hi", 3)
    assert said(stored(memory)) == talk("before", "yes", "Hi", "fine")


REFUSED = [
    pytest.param({}, 7, InvalidMessage, "Expected str, BaseMessage", id="R37-int"),
    pytest.param({}, None, InvalidMessage, "Expected str, BaseMessage", id="R37-None"),
    pytest.param({}, {1, 2}, InvalidMessage, "Expected str, BaseMessage", id="R37-set"),
    pytest.param({}, [7], InvalidMessage, "Expected str, BaseMessage", id="R37-in-a-list"),
    pytest.param({}, [HumanMessage(content="a"), None], InvalidMessage, "message 1", id="R37-second"),
    pytest.param({}, {"text": 7}, InvalidMessage, "Expected str, BaseMessage", id="R37-in-a-dict"),
    pytest.param({}, [["a"], ["b"]], InvalidMessage, "single list", id="R30-two"),
    pytest.param({}, [[], []], InvalidMessage, "single list", id="R30-two-empty"),
    pytest.param({}, {"a": "x", "b": "y"}, KeyError, "input", id="R33-several"),
    pytest.param({}, {}, KeyError, "input", id="R33-none"),
    pytest.param({"input": "q"}, "Hi", InvalidMessage, "dictionary", id="R36-text"),
    pytest.param({"input": "q"}, [HumanMessage(content="a")], InvalidMessage, "dictionary", id="R36-list"),
    pytest.param({"input": "q"}, {"question": "Hi"}, MissingKey, "q", id="R34-absent"),
    pytest.param({"input": "q", "history": "h"}, {"h": [], "x": "Hi"}, MissingKey, "q", id="R38"),
    pytest.param({"input": "q", "history": "h"}, "Hi", InvalidMessage, "dictionary", id="R36-both"),
    pytest.param({"history": "h"}, {"a": "x", "b": "y"}, MissingKey, "input", id="R39"),
    pytest.param({"history": "h"}, "Hi", InvalidMessage, "dictionary", id="R39-text"),
    pytest.param({}, [("pirate", "Hi")], InvalidMessage, "role", id="R40-role"),
    pytest.param({}, {"role": "tool", "content": "Hi"}, InvalidMessage, "role", id="R40-tool-without-call"),
    pytest.param({}, [{"role": 7, "content": "Hi"}], InvalidMessage, "no message", id="R40-no-role"),
    pytest.param({}, [("human", 7)], InvalidMessage, "no message", id="R40-pair"),
    pytest.param({}, [{"type": "text", "text": "Hi"}], InvalidMessage, "no message", id="R40-block"),
    pytest.param(
        {}, HumanMessage(content="Hi", when=object()), InvalidMessage, "data.…: ", id="R42-not-storable"
    ),
]


@pytest.mark.parametrize("way", [*WAYS, "transform", "batch", "abatch"])
@pytest.mark.parametrize(("keys", "value", "error", "words"), REFUSED)
async def test_what_is_no_input_is_refused_before_the_model_runs(
    memory: RedisMemory, way: str, keys: dict[str, str], value: Any, error: type[Exception], words: str
) -> None:
    """R30, R33, R36 to R40, R42, T17: an error that says why, no model paid for, nothing stored."""
    runs = Runs()
    options: Any = {f"{name}_messages_key": key for name, key in keys.items()}
    chain = RunnableWithMessageHistory(runs, memory, **options)
    with pytest.raises(error) as caught:
        await chunks_of(way, chain, value)
    assert isinstance(caught.value, ValueError)
    assert words in str(caught.value)
    assert runs.calls == 0
    assert len(stored(memory)) == len(PAST)


NOT_NAMED: list[Any] = [
    pytest.param({}, InvalidSetting, ValueError, id="R13-nothing"),
    pytest.param({"user_id": "ann"}, InvalidSetting, ValueError, id="R13-half"),
    pytest.param({"conversation_id": "c1"}, InvalidSetting, ValueError, id="R13-other-half"),
    pytest.param({"user_id": "", "conversation_id": "c1"}, InvalidId, TypeError, id="R23-empty"),
    pytest.param({"user_id": "ann", "conversation_id": None}, InvalidId, TypeError, id="R23-None"),
    pytest.param({"user_id": 7, "conversation_id": "c1"}, InvalidId, TypeError, id="R23-number"),
    pytest.param({"session_id": ""}, InvalidId, TypeError, id="R23-empty-session"),
    pytest.param({"session_id": None}, InvalidId, TypeError, id="R23-None-session"),
    pytest.param({"session_id": 7}, InvalidId, TypeError, id="R23-number-session"),
]


@every_way
@pytest.mark.parametrize("factory", [False, True])
@pytest.mark.parametrize(("configurable", "error", "base"), NOT_NAMED)
async def test_no_conversation_no_model(
    memory: RedisMemory,
    way: str,
    factory: bool,
    configurable: dict[str, Any],
    error: type[Exception],
    base: type[Exception],
) -> None:
    """R13, R23, T19: absent, empty, None and numeric ids are refused, from a memory and from a factory."""
    if factory and "session_id" not in configurable:
        error, base = InvalidSetting, ValueError
    runs = Runs()
    source: Any = memory.session if factory else memory
    chain = RunnableWithMessageHistory(runs, source)
    with pytest.raises(error) as caught:
        await chunks_of(way, chain, "Hi", {"configurable": configurable})
    assert isinstance(caught.value, base)
    assert runs.calls == 0
    assert len(stored(memory)) == len(PAST)


@every_way
async def test_a_text_is_human_whoever_spoke_last(memory: RedisMemory, way: str) -> None:
    """R27, R31: nothing new shows the past alone, and stores the answer alone."""
    runs = Runs("one", "two")
    chain = RunnableWithMessageHistory(runs, memory)
    await ask(way, chain, [])
    await ask(way, chain, "Hi")
    assert said(runs.asked[0]) == talk("before", "yes")
    assert said(stored(memory)) == [*talk("before", "yes"), ("ai", "one"), ("human", "Hi"), ("ai", "two")]
