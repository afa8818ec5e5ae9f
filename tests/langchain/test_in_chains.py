"""A wrapper within a chain, and fields and alternatives that a config chooses."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough

from memory_redis import LastMessages, RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.support import every_way, model, once, said, text, to, turns

pytestmark = pytest.mark.anyio

four_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


# -- chains ------------------------------------------------------------------------------------------


def _counting(kept: RedisMemory) -> Any:
    def answer(messages: list[BaseMessage]) -> dict[str, Any]:
        return {"output": f"re {messages[-1].content}", "count": len(messages)}

    return RunnableWithMessageHistory(RunnableLambda(answer), kept)


@four_ways
async def test_keys_are_added_to_the_output_and_picked(kept: RedisMemory, way: str) -> None:
    """M:assign, M:pick: what comes out follows, what is stored is the wrapped runnable's."""
    chain = _counting(kept)
    added = chain.assign(twice=lambda value: value["count"] * 2)
    assert await once(way, added, "a", to()) == {"output": "re a", "count": 1, "twice": 2}
    assert await once(way, chain.pick("output"), "b", to()) == "re b"
    assert await once(way, added.pick(["output", "twice"]), "c", to()) == {"output": "re c", "twice": 10}
    assert turns(said(kept)) == [(value, f"re {value}") for value in "abc"]


@four_ways
async def test_it_stands_anywhere_in_a_chain(kept: RedisMemory, way: str) -> None:
    """M:pipe, M:__or__, M:__ror__: before, behind and between; each run is one turn of what is wrapped."""
    chain: Any = RunnableWithMessageHistory(model("one", "two", "three", "four", "five", "six"), kept)
    upper = RunnableLambda(str.upper)
    first: Any = RunnableLambda(lambda value: value["asked"])
    assert await once(way, chain.pipe(StrOutputParser(), upper), "a", to()) == "ONE"
    assert await once(way, chain | StrOutputParser() | upper, "b", to()) == "TWO"
    assert await once(way, first | chain | StrOutputParser(), {"asked": "c"}, to()) == "three"
    assert await once(way, (lambda value: f"{value}d") | chain | StrOutputParser(), "", to()) == "four"
    asked: Any = {"input": RunnablePassthrough(), "other": lambda _: 1}
    assert text(await once(way, asked | _keyed(kept), "e", to())) == "2 8"
    both = chain | {"answer": StrOutputParser(), "kind": lambda message: message.type[:2].lower()}
    assert await once(way, both, "f", to()) == {"answer": "five", "kind": "ai"}
    assert turns(said(kept)) == [
        *[("a", "one"), ("b", "two"), ("c", "three"), ("d", "four"), ("e", "2 8"), ("f", "five")],
    ]


def _keyed(kept: RedisMemory) -> RunnableWithMessageHistory:
    def answer(value: dict[str, Any]) -> str:
        return f"{len(value) - 1} {len(value['past'])}"

    return RunnableWithMessageHistory(
        RunnableLambda(answer), kept, input_messages_key="input", history_messages_key="past"
    )


# -- what a config can change ------------------------------------------------------------------------


@every_way
async def test_fields_of_the_inner_runnable_are_configurable(kept: RedisMemory, way: str) -> None:
    """M:configurable_fields, M:config_specs: listed beside the session, and effective."""
    inner = model("usual").configurable_fields(responses=ConfigurableField(id="answers"))
    chain = RunnableWithMessageHistory(
        ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")]) | inner,
        kept.session,
        input_messages_key="q",
        history_messages_key="past",
    )
    assert {spec.id for spec in chain.config_specs} == {"session_id", "answers"}
    assert text(await once(way, chain, {"q": "Hi"}, to(answers=["other"]))) == "other"
    assert text(await once(way, chain, {"q": "Hi"}, to())) == "usual"
    assert said(kept) == [("human", "Hi"), ("ai", "other"), ("human", "Hi"), ("ai", "usual")]


@every_way
async def test_its_own_fields_are_configurable(kept: RedisMemory, way: str) -> None:
    """M:configurable_fields: a window for one call, everything else as it was made."""
    seen: list[int] = []

    def count(messages: list[BaseMessage], **options: Any) -> str:
        seen.append(len(messages))
        return f"fine {options}"

    made = RunnableWithMessageHistory(RunnableLambda(count), kept, kwargs={"a": 1}, name="talk")
    chain = made.configurable_fields(window=ConfigurableField(id="shown"))
    assert {spec.id for spec in chain.config_specs} == {"session_id", "user_id", "conversation_id", "shown"}
    for config in (to(), to(), to(shown=LastMessages(1)), to()):
        assert await once(way, chain, "Hi", config) == "fine {'a': 1}"
    assert seen == [1, 3, 2, 7]


def test_a_field_that_is_not_there_is_refused(kept: RedisMemory) -> None:
    """M:configurable_fields: with a ValueError."""
    with pytest.raises(ValueError, match="nothing"):
        RunnableWithMessageHistory(model(), kept).configurable_fields(nothing=ConfigurableField(id="x"))


def _alternatives(kept: RedisMemory, where: str, prefix_keys: bool) -> Any:
    """One of two models; the first one's answers can be configured, and with a prefix the second one's."""
    answers = ConfigurableField(id="answers")
    first = model("one").configurable_fields(responses=answers)
    second: Any = model("two")
    if prefix_keys:
        second = second.configurable_fields(responses=answers)
    options: Any = {"default_key": "first", "prefix_keys": prefix_keys}
    which = ConfigurableField(id="model")
    if where == "inner":
        return RunnableWithMessageHistory(
            first.configurable_alternatives(which, **options, second=second), kept.session
        )
    return RunnableWithMessageHistory(first, kept.session).configurable_alternatives(
        which, **options, second=RunnableWithMessageHistory(second, kept.session)
    )


@four_ways
@pytest.mark.parametrize("where", ["inner", "outer"])
async def test_alternatives_are_chosen_by_the_config(kept: RedisMemory, way: str, where: str) -> None:
    """M:configurable_alternatives: inside and outside, with a name for the usual one; one turn each."""
    chain = _alternatives(kept, where, prefix_keys=False)
    assert {spec.id for spec in chain.config_specs} == {"session_id", "model", "answers"}
    assert text(await once(way, chain, "a", to())) == "one"
    assert text(await once(way, chain, "b", to(model="first"))) == "one"
    assert text(await once(way, chain, "c", to(model="second"))) == "two"
    assert text(await once(way, chain, "d", to(answers=["three"]))) == "three"
    assert turns(said(kept)) == [("a", "one"), ("b", "one"), ("c", "two"), ("d", "three")]
    with pytest.raises(ValueError, match="third"):
        await once(way, chain, "e", to(model="third"))


@four_ways
@pytest.mark.parametrize("where", ["inner", "outer"])
async def test_keys_of_alternatives_can_be_told_apart(kept: RedisMemory, way: str, where: str) -> None:
    """M:configurable_alternatives: a prefix for the fields of each, none for the session of both."""
    chain = _alternatives(kept, where, prefix_keys=True)
    fields = {"model==first/answers", "model==second/answers"}
    assert {spec.id for spec in chain.config_specs} == {"session_id", "model", *fields}
    config = {"model==first/answers": ["1"], "model==second/answers": ["2"]}
    assert text(await once(way, chain, "a", to(**config))) == "1"
    assert text(await once(way, chain, "b", to(model="second", **config))) == "2"
    assert turns(said(kept)) == [("a", "1"), ("b", "2")]
