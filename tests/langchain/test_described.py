"""What a wrapper says of itself: schemas, graph, names and serialised forms, without a secret in them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListLLM
from langchain_core.load import dumpd, dumps
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField, RunnableLambda
from pydantic import ValidationError
from typing_extensions import TypedDict

from memory_redis import AsyncRedisMemory, RedisMemory
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import CONVERSATION, USER, every_way, model, once, to

pytestmark = pytest.mark.anyio

PROMPT = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])
KEYS: Any = {"input_messages_key": "q", "history_messages_key": "past"}


@pytest.fixture
def memory(namespace: str) -> RedisMemory:
    return RedisMemory.from_url(f"fake://{namespace}")


# -- schemas -----------------------------------------------------------------------------------------


def test_without_keys_messages_go_in(memory: RedisMemory) -> None:
    """M:get_input_schema, M:get_input_jsonschema: an array of messages."""
    chain = RunnableWithMessageHistory(model(), memory)
    schema = chain.get_input_jsonschema()
    assert (schema["type"], schema["items"]) == ("array", {"$ref": "#/$defs/BaseMessage"})
    assert chain.get_input_schema().model_json_schema() == schema
    assert chain.input_schema.model_validate([]).root == []
    with pytest.raises(ValidationError):
        chain.get_input_schema().model_validate("Hi")


def test_with_an_input_key_a_dictionary_goes_in(memory: RedisMemory) -> None:
    """M:get_input_schema, M:get_input_jsonschema: that key, required, with an array of messages."""
    chain = RunnableWithMessageHistory(PROMPT | model(), memory, input_messages_key="q")
    schema = chain.get_input_jsonschema()
    assert (schema["type"], schema["required"], list(schema["properties"])) == ("object", ["q"], ["q"])
    assert schema["properties"]["q"]["type"] == "array"
    assert chain.get_input_schema().model_fields["q"].is_required()


def test_the_place_for_the_past_is_not_the_callers(memory: RedisMemory) -> None:
    """M:get_input_schema, M:get_input_jsonschema: text, message or array under the input key; no more."""
    chain = RunnableWithMessageHistory(PROMPT | model(), memory, **KEYS)
    schema = chain.get_input_jsonschema()
    assert (schema["type"], schema["required"], list(schema["properties"])) == ("object", ["q"], ["q"])
    kinds = [one.get("type", one.get("$ref")) for one in schema["properties"]["q"]["anyOf"]]
    assert kinds == ["string", "#/$defs/BaseMessage", "array"]
    assert "past" not in json.dumps(schema["properties"])
    assert chain.get_input_schema().model_validate({"q": "Hi"})


class Answer(TypedDict):
    """What comes out."""

    output: str
    cost: int


def _answer(_: Any) -> Answer:
    return {"output": "fine", "cost": 1}


@pytest.mark.parametrize("kind", ["chat model", "plain LLM", "chain", "dictionary"])
def test_what_comes_out_is_what_comes_out_of_the_inner_one(memory: RedisMemory, kind: str) -> None:
    """M:get_output_schema, M:get_output_jsonschema, T14: type and schema are the wrapped runnable's."""
    kinds: dict[str, Any] = {
        "chat model": model(),
        "plain LLM": FakeListLLM(responses=["fine"]),
        "chain": PROMPT | model() | StrOutputParser(),
        "dictionary": RunnableLambda(_answer),
    }
    inner = kinds[kind]
    chain = RunnableWithMessageHistory(inner, memory)
    assert chain.OutputType == inner.OutputType
    assert chain.get_output_jsonschema() == inner.get_output_jsonschema()
    assert chain.get_output_schema().model_json_schema() == inner.get_output_schema().model_json_schema()
    assert (chain | RunnableLambda(lambda value: value)).get_input_jsonschema()["type"] == "array"


def test_the_output_schema_follows_the_config(memory: RedisMemory) -> None:
    """M:get_output_schema, M:get_output_jsonschema: the alternative that the config chooses."""
    inner = model().configurable_alternatives(ConfigurableField(id="kind"), llm=FakeListLLM(responses=["x"]))
    chosen: Any = {"configurable": {"kind": "llm"}}
    chain = RunnableWithMessageHistory(inner, memory)
    bound = RunnableWithMessageHistory(inner, memory, config=chosen)
    assert chain.get_output_jsonschema().get("type") != "string"
    assert chain.get_output_jsonschema(chosen)["type"] == "string"
    assert bound.get_output_jsonschema()["type"] == "string"
    assert "FakeListLLM" in [node.name for node in bound.get_graph().nodes.values()]


# -- graph, prompts, config --------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, to()])
def test_the_graph_is_that_of_the_inner_one(memory: RedisMemory, config: Any) -> None:
    """M:get_graph, M:get_prompts, T13: with a session and without, alone and within a chain."""
    inner = PROMPT | model() | StrOutputParser()
    chain = RunnableWithMessageHistory(inner, memory, **KEYS)
    names = [node.name for node in inner.get_graph().nodes.values()]
    assert [node.name for node in chain.get_graph(config).nodes.values()] == names
    assert len(chain.get_graph(config).edges) == len(inner.get_graph().edges)
    assert "FakeListChatModel" in chain.get_graph(config).draw_mermaid()
    assert chain.get_prompts(config) == [PROMPT]
    longer = RunnableLambda(lambda value: value) | chain
    assert "ChatPromptTemplate" in [node.name for node in longer.get_graph(config).nodes.values()]
    assert longer.get_prompts(config) == [PROMPT]


def test_the_config_says_session_and_inner_fields(memory: RedisMemory) -> None:
    """M:config_specs, M:config_schema, M:get_config_jsonschema: the keys of either way to name it."""
    inner = model().configurable_fields(responses=ConfigurableField(id="answers", name="Answers"))
    by_memory = RunnableWithMessageHistory(inner, memory)
    by_one = RunnableWithMessageHistory(inner, memory.session)
    by_two = RunnableWithMessageHistory(inner, memory.history, history_factory_config=[USER, CONVERSATION])
    for chain, names in (
        (by_memory, {"user_id", "conversation_id", "session_id", "answers"}),
        (by_one, {"session_id", "answers"}),
        (by_two, {"user_id", "conversation_id", "answers"}),
    ):
        assert {spec.id for spec in chain.config_specs} == names
        schema = chain.get_config_jsonschema()
        assert set(schema["$defs"]["Configurable"]["properties"]) == names
        assert schema["$defs"]["Configurable"]["properties"]["answers"]["title"] == "Answers"
        assert chain.config_schema().model_json_schema() == schema
        assert set(schema["properties"]) == {"configurable"}
        more = chain.get_config_jsonschema(include=["tags", "metadata"])
        assert set(more["properties"]) == {"configurable", "tags", "metadata"}
        given: Any = chain.config_schema().model_validate(
            {"configurable": dict.fromkeys(names - {"answers"}, "x")}
        )
        assert all(getattr(given.configurable, name) == "x" for name in names - {"answers"})
    assert all(spec.is_shared for spec in by_memory.config_specs if spec.id != "answers")


# -- names and serialised forms ----------------------------------------------------------------------


def test_it_has_a_name_of_its_own(memory: RedisMemory) -> None:
    """M:get_name, M:name, T14: that of the class, or the one that it is given, then or later."""
    chain = RunnableWithMessageHistory(model(), memory)
    assert (chain.name, chain.get_name()) == (None, "RunnableWithMessageHistory")
    assert chain.get_name("Input") == chain.get_input_schema().__name__ == "RunnableWithMessageHistoryInput"
    assert chain.get_name(name="other") == "other"
    chain.name = "later"
    assert chain.get_name() == "later"
    named = RunnableWithMessageHistory(model(), memory, name="talk")
    assert (named.name, named.get_name(), named.get_name("input")) == ("talk", "talk", "talk_input")
    assert named.with_config(tags=["x"]).get_name() == "talk"


def test_it_does_not_claim_to_be_serialisable(memory: RedisMemory) -> None:
    """R62, M:lc_id, M:get_lc_namespace, M:is_lc_serializable, M:to_json, M:to_json_not_implemented:

    A memory or a function cannot be read back, so the form says "not implemented", and where it is from.
    """
    chain = RunnableWithMessageHistory(model(), memory, name="talk")
    where = ["memory_redis", "langchain", "runnable"]
    assert RunnableWithMessageHistory.is_lc_serializable() is False
    assert RunnableWithMessageHistory.get_lc_namespace() == where
    assert RunnableWithMessageHistory.lc_id() == [*where, "RunnableWithMessageHistory"]
    expected: dict[str, Any] = {
        "lc": 1,
        "type": "not_implemented",
        "id": [*where, "RunnableWithMessageHistory"],
    }
    form: Any = chain.to_json()
    assert {name: form[name] for name in expected} == expected
    assert form["name"] == "talk"
    bare: Any = chain.to_json_not_implemented()
    assert {name: bare[name] for name in expected} == expected
    assert "kwargs" not in form
    assert dumpd(chain) == form
    assert json.loads(dumps(chain | StrOutputParser()))["kwargs"]["first"] == form


SECRET = "hunter2"
URL = f"redis://user:{SECRET}@redis.invalid:6379/0"


def _sources() -> dict[str, Any]:
    memory = RedisMemory.from_url(URL)
    return {
        "memory": memory,
        "async memory": AsyncRedisMemory.from_url(URL),
        "partial": partial(RedisChatMessageHistory, url=URL),
        "partial of a lambda": partial(lambda url, session_id: RedisChatMessageHistory(session_id, url), URL),
        "method": memory.session,
        "history": lambda session_id: RedisChatMessageHistory(session_id, URL),
    }


@pytest.mark.parametrize("source", _sources())
def test_no_output_tells_the_url(source: str) -> None:
    """R62, M:to_json, M:to_json_not_implemented: neither URL nor password, alone and within others."""
    chain = RunnableWithMessageHistory(PROMPT | model(), _sources()[source], **KEYS)
    for one in (
        chain,
        chain.bind(stop=["x"]),
        chain.with_config(to()),
        chain.with_retry(),
        chain.with_fallbacks([chain]),
        chain | StrOutputParser(),
        chain.map(),
        chain.configurable_fields(window=ConfigurableField(id="window")),
        RunnableWithMessageHistory(chain, _sources()[source]),
    ):
        shown = [repr(one), str(one), dumps(one), str(one.to_json()), str(one.to_json_not_implemented())]
        shown += [str(one.get_graph().to_json()), one.get_graph().draw_mermaid()]
        shown += [str(one.get_input_jsonschema()), str(one.get_output_jsonschema())]
        shown += [str(one.config_specs), str(one.get_config_jsonschema()), str(one.model_dump())]
        for text in shown:
            assert SECRET not in text
            assert "redis.invalid" not in text


@pytest.mark.parametrize("source", _sources())
def test_no_error_tells_the_url(source: str) -> None:
    """R62: nor does what is said when a chain is made or called in a wrong way."""
    made = _sources()[source]
    chain = RunnableWithMessageHistory(model(), made)
    attempts: list[Any] = [
        lambda: chain.invoke("Hi"),
        lambda: chain.invoke("Hi", to("")),
        lambda: chain.invoke(7, to()),
        lambda: chain.configurable_fields(nothing=ConfigurableField(id="x")),
        lambda: RunnableWithMessageHistory(model(), made, kwargs=7),
        lambda: RunnableWithMessageHistory(model(), made, nothing=7),
        lambda: RunnableWithMessageHistory(model(), made, max_tries=0),
        lambda: RunnableWithMessageHistory(model(), made, window=7),  # type: ignore[arg-type]
    ]
    for attempt in attempts:
        with pytest.raises((ValueError, TypeError)) as caught:
            attempt()
        assert SECRET not in str(caught.value)
        assert "redis.invalid" not in str(caught.value)


class Everything(BaseCallbackHandler):
    """Notes all that the starts and ends of runs are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.told.append(repr((args, kwargs)))

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        self.told.append(repr((args, kwargs)))

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.told.append(repr((args, kwargs)))

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.told.append(repr((args, kwargs)))


@every_way
async def test_no_trace_tells_the_url(namespace: str, way: str) -> None:
    """R62: what tracers are given of a run holds the messages, and not where they are kept."""
    url = f"fake://{namespace}{SECRET}"
    for source in (
        partial(RedisChatMessageHistory, url=url),
        RedisMemory.from_url(url),
        lambda session_id: RedisChatMessageHistory(session_id, url),
    ):
        heard = Everything()
        chain = RunnableWithMessageHistory(model(), source)
        await once(way, chain, "Hi", {**to(), "callbacks": [heard]})
        assert len(heard.told) >= 4
        assert not [text for text in heard.told if SECRET in text]
