"""How a wrapper is made, and what can be wrapped."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM, FakeStreamingListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    ConfigurableFieldSpec,
    Runnable,
    RunnableConfig,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)

from memory_redis import InvalidSetting, LastMessages, RedisMemory
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import every_way, model, once, said, text, to, two_ways
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

PROMPT = ChatPromptTemplate.from_messages(
    [("system", "You know {subject}."), MessagesPlaceholder("past"), ("human", "{question}")]
)
TENANT = ConfigurableFieldSpec(id="tenant", annotation=str, name="Tenant", default="", is_shared=True)


def test_two_arguments_by_position_and_the_rest_by_name(kept: RedisMemory) -> None:
    """R1: the runnable and where its histories come from; a third one by position is refused."""
    parameters = inspect.signature(RunnableWithMessageHistory).parameters
    by_position = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert by_position == ["runnable", "get_session_history"]
    assert RunnableWithMessageHistory(runnable=model(), get_session_history=kept).invoke("Hi", to())
    make: Any = RunnableWithMessageHistory
    with pytest.raises(TypeError):
        make(model(), kept, "question")


def test_a_keyword_that_is_none_is_an_error(kept: RedisMemory) -> None:
    """R1: a slip of the pen in a keyword would else leave a setting out without a word."""
    with pytest.raises(TypeError, match="input_message_key"):
        RunnableWithMessageHistory(model(), kept, input_message_key="question")
    with pytest.raises(InvalidSetting):
        RunnableWithMessageHistory(model(), "redis://localhost")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting):
        RunnableWithMessageHistory(model(), kept, history_factory_config=[TENANT])


def test_none_is_taken_for_each_keyword_that_may_be_left_out(kept: RedisMemory) -> None:
    """R1: who passes settings on need not know which of them are set."""
    nothing: dict[str, Any] = dict.fromkeys(
        [
            *("input_messages_key", "output_messages_key", "history_messages_key", "history_factory_config"),
            *("kwargs", "config", "config_factories", "custom_input_type", "custom_output_type", "name"),
        ]
    )
    chain = RunnableWithMessageHistory(model(), kept, **nothing)
    assert chain.invoke("Hi", to()).content == "fine"
    assert (chain.kwargs, chain.config, chain.config_factories) == ({}, {}, [])


@every_way
async def test_the_keys_say_where_messages_are(kept: RedisMemory, way: str) -> None:
    """R2, R3, R4: the question, the place for the past and the answer of a dictionary; the rest passes."""
    seen: list[Any] = []

    def answer(value: dict[str, Any]) -> dict[str, Any]:
        seen.append(value)
        return {"answer": f"{len(value['past'])} before", "cost": 3}

    chain = RunnableWithMessageHistory(
        RunnableLambda(answer),
        kept,
        input_messages_key="question",
        output_messages_key="answer",
        history_messages_key="past",
    )
    assert await once(way, chain, {"question": "a", "tags": ["x", "y"]}, to()) == {
        "answer": "0 before",
        "cost": 3,
    }
    await once(way, chain, {"question": "b", "tags": []}, to())
    assert [{**value, "past": len(value["past"])} for value in seen] == [
        {"question": "a", "tags": ["x", "y"], "past": 0},
        {"question": "b", "tags": [], "past": 2},
    ]
    assert said(kept) == [("human", "a"), ("ai", "0 before"), ("human", "b"), ("ai", "2 before")]


def test_without_keys_each_is_none(kept: RedisMemory) -> None:
    """R2, R3, R4: the defaults, and attributes that tell."""
    chain = RunnableWithMessageHistory(model(), kept)
    assert chain.input_messages_key is None
    assert chain.output_messages_key is None
    assert chain.history_messages_key is None
    chain = RunnableWithMessageHistory(model(), kept, input_messages_key="q", history_messages_key="past")
    assert (chain.input_messages_key, chain.history_messages_key) == ("q", "past")


@pytest.mark.parametrize("given", [None, []])
def test_one_field_names_the_session_by_default(kept: RedisMemory, given: Any) -> None:
    """R5: session_id, a text, shared, its default empty."""
    chain = RunnableWithMessageHistory(model(), kept.session, history_factory_config=given)
    assert chain.config_specs == [
        ConfigurableFieldSpec(
            id="session_id",
            annotation=str,
            name="Session ID",
            description="Unique identifier for a session.",
            default="",
            is_shared=True,
        )
    ]


def test_other_fields_name_it_if_they_are_given(kept: RedisMemory) -> None:
    """R5: they are listed, session_id is not, and the history is found by them."""
    room = ConfigurableFieldSpec(id="room", annotation=str, name="Room", default="lobby", is_shared=True)
    chain = RunnableWithMessageHistory(model(), kept.history, history_factory_config=[TENANT, room])
    assert sorted(chain.config_specs, key=lambda spec: spec.id) == [room, TENANT]
    with pytest.raises(InvalidSetting, match="do not match"):
        chain.invoke("Hi", {"configurable": {"tenant": "t", "room": "r"}})
    chain = RunnableWithMessageHistory(
        model(), lambda room, tenant: kept.history(tenant, room), history_factory_config=[TENANT, room]
    )
    chain.invoke("Hi", {"configurable": {"tenant": "t", "room": "r"}})
    assert kept.history("t", "r").count() == 2


@two_ways
async def test_the_default_of_a_field_is_no_session(kept: RedisMemory, way: str) -> None:
    """R6: a field with a default still has to be given, or strangers would share a history."""
    spec = ConfigurableFieldSpec(id="session_id", annotation=str, default="everybody", is_shared=True)
    chain = RunnableWithMessageHistory(model(), kept.session, history_factory_config=[spec])
    with pytest.raises(ValueError, match="missing keys"):
        await once(way, chain, "Hi")
    assert said(kept, "everybody") == []


@every_way
async def test_a_bound_config_carries_the_session(kept: RedisMemory, way: str) -> None:
    """R7: what the constructor was given holds for each call, under what the call says."""
    config: RunnableConfig = {**to("bound"), "tags": ["mine"], "metadata": {"who": "me"}}
    found: list[RunnableConfig] = []

    def answer(_: list[BaseMessage], config: RunnableConfig) -> str:
        found.append(config)
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer), kept, config=config)
    await once(way, chain, "Hi")
    await once(way, chain, "Ho", to("called"))
    assert said(kept, "bound") == [("human", "Hi"), ("ai", "fine")]
    assert said(kept, "called") == [("human", "Ho"), ("ai", "fine")]
    assert all("mine" in one["tags"] and one["metadata"]["who"] == "me" for one in found)


def test_a_bound_config_may_be_flat(kept: RedisMemory) -> None:
    """R7, R15: a key that no config has names the session as well."""
    flat: Any = {"session_id": "flat"}
    RunnableWithMessageHistory(model(), kept, config=flat).invoke("Hi")
    assert said(kept, "flat") == [("human", "Hi"), ("ai", "fine")]


@every_way
async def test_a_config_factory_carries_the_session(kept: RedisMemory, way: str) -> None:
    """R8: it sees the config of the call, and what it makes is merged in for that call."""

    def name_it(config: RunnableConfig) -> RunnableConfig:
        return to(f"made-{config['metadata']['who']}")

    chain = RunnableWithMessageHistory(model(), kept, config_factories=[name_it])
    for who in ("ann", "bob"):
        await once(way, chain, "Hi", {"metadata": {"who": who}})
    assert said(kept, "made-ann") == said(kept, "made-bob") == [("human", "Hi"), ("ai", "fine")]


@every_way
async def test_keywords_reach_what_is_wrapped(kept: RedisMemory, way: str) -> None:
    """R9, T12, M:bind: those of the constructor, bound ones and those of a call, the last one winning."""
    given: list[dict[str, Any]] = []

    def answer(_: list[BaseMessage], **options: Any) -> str:
        given.append(options)
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer), kept, kwargs={"a": 1, "b": 1, "c": 1})
    await once(way, chain.bind(b=2, c=2), "Hi", to(), c=3)
    assert given == [{"a": 1, "b": 2, "c": 3}]
    assert said(kept) == [("human", "Hi"), ("ai", "fine")]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_keywords_may_have_any_name(namespace: str, way: str) -> None:
    """R9, T12: no name that is used on the way is taken from the runnable."""
    names = ["value", "inputs", "past", "options", "func", "input_", "run_manager", "run_type", "key"]

    class Own(Runnable[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return " ".join(kwargs)

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            return " ".join(kwargs)

    with RedisMemory.from_url(f"fake://{namespace}") as memory:
        chain = RunnableWithMessageHistory(Own(), memory).bind(**dict.fromkeys(names, 1))
        assert await once(way, chain, "Hi", to()) == " ".join(names)


@two_ways
async def test_keywords_reach_a_model(kept: RedisMemory, way: str) -> None:
    """R9, T12, M:bind: a stop word that is bound outside or inside is in the call of the model."""
    stops: list[Any] = []

    class Stopped(GenericFakeChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            stops.append(stop)
            return super()._generate(messages, stop, run_manager, **options)

    inner = Stopped(messages=iter(["fine"] * 2))
    await once(way, RunnableWithMessageHistory(inner, kept).bind(stop=["outside"]), "Hi", to())
    await once(way, RunnableWithMessageHistory(inner.bind(stop=["inside"]), kept), "Hi", to())
    assert stops == [["outside"], ["inside"]]


def test_custom_types_show_in_the_schemas(kept: RedisMemory) -> None:
    """R10, M:with_types: those of the constructor and those of with_types, in both schemas."""
    made = RunnableWithMessageHistory(model(), kept, custom_input_type=str, custom_output_type=int)
    typed = RunnableWithMessageHistory(model(), kept).with_types(input_type=str, output_type=int)
    for chain in (made, typed):
        assert (chain.InputType, chain.OutputType) == (str, int)
        assert chain.get_input_jsonschema()["type"] == "string"
        assert chain.get_output_jsonschema()["type"] == "integer"


def _by_and_by(messages: Iterator[list[BaseMessage]]) -> Iterator[str]:
    for _ in messages:
        yield from ("fi", "ne")


async def _by_and_by_later(messages: AsyncIterator[list[BaseMessage]]) -> AsyncIterator[str]:
    async for _ in messages:
        yield "fi"
        yield "ne"


class _Own(Runnable[Any, Any]):
    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return AIMessage(content="fine")


async def _later(_: Any) -> str:
    return "fine"


def _fails(_: Any) -> str:
    raise RuntimeError("never mind")


def _generic() -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(["fine"] * 9))


KINDS: dict[str, Any] = {
    "chat model": model,
    "streaming chat model": _generic,
    "plain LLM": lambda: FakeListLLM(responses=["fine"]),
    "streaming plain LLM": lambda: FakeStreamingListLLM(responses=["fine"]),
    "chain": lambda: model() | StrOutputParser(),
    "prompt and model": lambda: ChatPromptTemplate.from_messages([MessagesPlaceholder("all")]) | _generic(),
    "lambda": lambda: RunnableLambda(lambda _: "fine", _later),
    "function": lambda: lambda _: "fine",
    "function that gives a runnable": lambda: lambda _: model(),
    "binding": lambda: model().bind(stop=["x"]).with_config(tags=["inner"]),
    "retry": lambda: model().with_retry(stop_after_attempt=2, wait_exponential_jitter=False),
    "fallback": lambda: RunnableLambda(_fails).with_fallbacks([model()]),
    "generator": lambda: RunnableGenerator(_by_and_by, _by_and_by_later),
    "own subclass": _Own,
    "parallel": lambda: {"output": model(), "asked": RunnablePassthrough()},
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_runnable_can_be_wrapped(namespace: str, kind: str, way: str) -> None:
    """R11, T26: its answer comes out, and one whole turn is stored for each run, a plain LLM's too."""
    with RedisMemory.from_url(f"fake://{namespace}") as memory:
        chain = RunnableWithMessageHistory(KINDS[kind](), memory)
        for _ in range(2):
            answer = await once(way, chain, "Hi", to())
            assert text(answer["output"] if kind == "parallel" else answer) == "fine"
        assert said(memory) == [("human", "Hi"), ("ai", "fine")] * 2


@two_ways
async def test_wrappers_of_one_factory_share_only_the_history(kept: RedisMemory, way: str) -> None:
    """R12: each keeps its model, keys, keywords and config; what one stores the other one sees."""
    seen: list[Any] = []

    def count(value: Any, *, name: str) -> str:
        seen.append((name, value if isinstance(value, dict) else len(value)))
        return name

    def factory(session_id: str) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(memory=kept, session_id=session_id)

    one = RunnableWithMessageHistory(RunnableLambda(count), factory, kwargs={"name": "one"}, config=to("a"))
    two = RunnableWithMessageHistory(
        RunnableLambda(count),
        factory,
        input_messages_key="q",
        history_messages_key="past",
        kwargs={"name": "two"},
        window=LastMessages(1),
    )
    await once(way, one, "Hi")
    await once(way, two, {"q": "Ho"}, to("a"))
    await once(way, one, "He")
    assert [name for name, _ in seen] == ["one", "two", "one"]
    assert seen[0][1] == 1
    assert [message.content for message in seen[1][1]["past"]] == ["one"]
    assert seen[2][1] == 5
    assert said(kept, "a") == [
        *[("human", "Hi"), ("ai", "one"), ("human", "Ho")],
        *[("ai", "two"), ("human", "He"), ("ai", "one")],
    ]


@pytest.mark.parametrize("source", ["memory", "factory", "partial"])
def test_a_deep_copy_works_on_the_same_histories(valkey: Server, kept: RedisMemory, source: str) -> None:
    """R62: connections are not copied; alone and within a chain."""
    sources: dict[str, Any] = {
        "memory": kept,
        "factory": kept.session,
        "partial": partial(RedisChatMessageHistory, memory=kept),
    }
    chain = RunnableWithMessageHistory(model(), sources[source], window=LastMessages(2))
    copied = copy.deepcopy(chain)
    assert copied.runnable is not chain.runnable
    assert copied.get_session_history is chain.get_session_history
    assert copied.invoke("Hi", to()).content == "fine"
    assert copy.deepcopy(chain | StrOutputParser()).invoke("Ho", to()) == "fine"
    assert said(kept) == [("human", "Hi"), ("ai", "fine"), ("human", "Ho"), ("ai", "fine")]


def test_a_shallow_copy_goes_by_its_own_settings(kept: RedisMemory) -> None:
    """R12, R62: what is changed in a copy counts there, and the original stays as it was."""
    seen: list[int] = []

    def count(messages: list[BaseMessage]) -> str:
        seen.append(len(messages))
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(count), kept)
    copied = chain.model_copy(update={"window": LastMessages(1), "name": "copy"})
    for one in (chain, chain, copied, chain):
        one.invoke("Hi", to())
    assert seen == [1, 3, 2, 7]
    assert (chain.get_name(), copied.get_name()) == ("RunnableWithMessageHistory", "copy")
