"""Runnables made of a wrapper (bind, with_…, map, fallbacks, tools): one whole turn for each run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel
from typing_extensions import TypedDict

from memory_redis import RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.support import HI, every_way, model, once, said, text, to, turns, two_ways

pytestmark = pytest.mark.anyio

four_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


class Flaky:
    """A function as a runnable that fails a number of times before it answers."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.seen: list[int] = []

    def __call__(self, messages: list[BaseMessage]) -> str:
        self.seen.append(len(messages))
        if len(self.seen) <= self.failures:
            raise RuntimeError("never mind")
        return "fine"


def _fails(_: Any) -> str:
    raise RuntimeError("never mind")


# -- bind, config, types -----------------------------------------------------------------------------


@every_way
async def test_bound_keywords_reach_the_model_from_inside_and_outside(kept: RedisMemory, way: str) -> None:
    """M:bind, R9, T12: both at once, the outer one above the inner one."""
    given: list[Any] = []

    def answer(_: Any, **options: Any) -> str:
        given.append(options)
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(answer).bind(a=1, b=1), kept).bind(b=2)
    await once(way, chain, "Hi", to())
    assert given == [{"a": 1, "b": 2}]
    assert said(kept) == HI


class Heard(BaseCallbackHandler):
    """Notes the start of each run."""

    def __init__(self) -> None:
        self.chains: list[tuple[str, list[str]]] = []
        self.models: list[tuple[list[str], dict[str, Any]]] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.chains.append((kwargs["name"], kwargs["tags"]))

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.models.append((kwargs["tags"], kwargs["metadata"]))


@every_way
async def test_a_bound_config_reaches_the_model(kept: RedisMemory, way: str) -> None:
    """M:with_config, M:name, M:get_name: session, tags, metadata and callbacks; the run has its name."""
    heard = Heard()
    chain = RunnableWithMessageHistory(model(), kept, name="mine").with_config(
        {**to(), "tags": ["outer"], "metadata": {"who": "me"}, "callbacks": [heard], "run_name": "talk"}
    )
    await once(way, chain, "Hi")
    assert heard.chains == [("talk", ["outer"])]
    [(tags, metadata)] = heard.models
    assert "outer" in tags
    assert metadata["who"] == "me"
    assert said(kept) == HI


@every_way
async def test_its_name_is_that_of_its_runs(kept: RedisMemory, way: str) -> None:
    """M:name, M:get_name: the one it was given, else that of the class."""
    heard = Heard()
    for name in ("talk", None):
        chain = RunnableWithMessageHistory(model(), kept, name=name)
        await once(way, chain, "Hi", {**to(), "callbacks": [heard]})
    assert [name for name, _ in heard.chains] == ["talk", "RunnableWithMessageHistory"]


@every_way
async def test_other_types_change_no_behaviour(kept: RedisMemory, way: str) -> None:
    """M:with_types, R10: the schemas follow, the turn is stored as ever."""
    chain = RunnableWithMessageHistory(model() | StrOutputParser(), kept)
    typed = chain.with_types(input_type=str, output_type=int)
    assert (typed.get_input_jsonschema()["type"], typed.get_output_jsonschema()["type"]) == (
        "string",
        "integer",
    )
    assert chain.get_input_jsonschema()["type"] == "array"
    assert await once(way, typed, "Hi", to()) == "fine"
    assert said(kept) == HI


# -- listeners ---------------------------------------------------------------------------------------


def _listeners(kept: RedisMemory, heard: list[Any]) -> dict[str, Any]:
    def note(event: str) -> Any:
        return lambda run: heard.append((event, run.inputs, len(said(kept))))

    return {f"on_{event}": note(event) for event in ("start", "end", "error")}


def _async_listeners(kept: RedisMemory, heard: list[Any]) -> dict[str, Any]:
    def note(event: str) -> Any:
        async def listen(run: Any) -> None:
            heard.append((event, run.inputs, len(said(kept))))

        return listen

    return {f"on_{event}": note(event) for event in ("start", "end", "error")}


LISTENERS: Any = pytest.mark.parametrize(
    ("way", "kind"),
    [(way, "with_listeners") for way in ("invoke", "ainvoke", "stream", "astream", "batch", "abatch")]
    + [(way, "with_alisteners") for way in ("ainvoke", "astream", "abatch")],
)


def _listened(chain: Any, kind: str, kept: RedisMemory, heard: list[Any]) -> Any:
    if kind == "with_listeners":
        return chain.with_listeners(**_listeners(kept, heard))
    return chain.with_alisteners(**_async_listeners(kept, heard))


@LISTENERS
async def test_listeners_frame_the_turn(kept: RedisMemory, way: str, kind: str) -> None:
    """M:with_listeners, M:with_alisteners, R56: nothing is stored at the start, all of it at the end."""
    heard: list[Any] = []
    chain = _listened(RunnableWithMessageHistory(model(), kept), kind, kept, heard)
    await once(way, chain, "Hi", to())
    assert [(event, count) for event, _, count in heard] == [("start", 0), ("end", 2)]
    assert heard[-1][1] == {"input": "Hi"}


@LISTENERS
async def test_a_listener_hears_of_a_failure(kept: RedisMemory, way: str, kind: str) -> None:
    """M:with_listeners, M:with_alisteners: of the model's, and nothing is stored."""
    heard: list[Any] = []
    chain = _listened(RunnableWithMessageHistory(RunnableLambda(_fails), kept), kind, kept, heard)
    with pytest.raises(RuntimeError, match="never mind"):
        await once(way, chain, "Hi", to())
    assert [(event, count) for event, _, count in heard] == [("start", 0), ("error", 0)]


@pytest.mark.parametrize("kind", ["with_listeners", "with_alisteners"])
async def test_runs_at_the_same_time_are_told_apart(kept: RedisMemory, kind: str) -> None:
    """M:with_listeners, M:with_alisteners: each run has its start, its end and its input."""
    heard: list[Any] = []
    runs: list[Any] = []

    def note(run: Any) -> None:
        heard.append(run.inputs["input"])
        runs.append(run.id)

    async def note_later(run: Any) -> None:
        note(run)

    chain: Any = RunnableWithMessageHistory(model(), kept)
    if kind == "with_listeners":
        chain = chain.with_listeners(on_start=lambda run: runs.append(run.id), on_end=note)
        chain.batch(["a", "b"], [to("a"), to("b")])
    else:
        chain = chain.with_alisteners(on_end=note_later)
        await chain.abatch(["a", "b"], [to("a"), to("b")])
    assert sorted(heard) == ["a", "b"]
    assert len(set(runs)) == 2
    assert said(kept, "a") == [("human", "a"), ("ai", "fine")]
    assert said(kept, "b") == [("human", "b"), ("ai", "fine")]


# -- retry, map, fallbacks ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "batch", "abatch"])
@pytest.mark.parametrize("where", ["outside", "inside"])
async def test_retries_store_one_turn(kept: RedisMemory, way: str, where: str) -> None:
    """M:with_retry, R59: for the attempt that worked; each attempt sees the same past."""
    flaky = Flaky(2)
    options: Any = {"stop_after_attempt": 3, "wait_exponential_jitter": False}
    chain: Any
    if where == "outside":
        chain = RunnableWithMessageHistory(RunnableLambda(flaky), kept).with_retry(**options)
    else:
        chain = RunnableWithMessageHistory(RunnableLambda(flaky).with_retry(**options), kept)
    assert await once(way, chain, "Hi", to()) == "fine"
    assert said(kept) == HI
    assert await once(way, chain, "Hi", to()) == "fine"
    assert flaky.seen == [1, 1, 1, 3]
    assert said(kept) == HI * 2


@two_ways
async def test_retries_that_all_fail_store_nothing(kept: RedisMemory, way: str) -> None:
    """M:with_retry: the last error arrives."""
    chain = RunnableWithMessageHistory(RunnableLambda(_fails), kept).with_retry(
        stop_after_attempt=3, wait_exponential_jitter=False
    )
    with pytest.raises(RuntimeError, match="never mind"):
        await once(way, chain, "Hi", to())
    assert said(kept) == []


@two_ways
async def test_a_map_is_a_turn_for_each(kept: RedisMemory, way: str) -> None:
    """M:map, T2: a list in, a list out, all turns whole in the one session."""
    values = [f"q{number}" for number in range(12)]
    chain = RunnableWithMessageHistory(RunnableLambda(lambda messages: f"re {messages[-1].content}"), kept)
    assert await once(way, chain.map(), values, to()) == [f"re {value}" for value in values]
    assert sorted(turns(said(kept))) == sorted((value, f"re {value}") for value in values)


@every_way
@pytest.mark.parametrize("where", ["outside", "inside"])
async def test_a_fallback_stores_one_turn(kept: RedisMemory, way: str, where: str) -> None:
    """M:with_fallbacks, R59: that of the one that worked."""
    chain: Any
    if where == "outside":
        chain = RunnableWithMessageHistory(RunnableLambda(_fails), kept).with_fallbacks(
            [RunnableWithMessageHistory(model("second"), kept)]
        )
    else:
        inner: Any = RunnableLambda(_fails)
        chain = RunnableWithMessageHistory(inner.with_fallbacks([model("second")]), kept)
    assert text(await once(way, chain, "Hi", to())) == "second"
    assert said(kept) == [("human", "Hi"), ("ai", "second")]


@four_ways
@pytest.mark.parametrize("where", ["outside", "inside"])
async def test_a_fallback_is_told_what_went_wrong(kept: RedisMemory, way: str, where: str) -> None:
    """M:with_fallbacks: the exception comes under its key; only question and answer are stored."""
    errors: list[Any] = []

    def explain(value: dict[str, Any]) -> str:
        errors.append(value["error"])
        return "second"

    keys: Any = {"input_messages_key": "q", "history_messages_key": "past"}
    first: Any = RunnableLambda(_fails)
    second: Any = RunnableLambda(explain)
    if where == "outside":
        first = RunnableWithMessageHistory(first, kept, **keys)
        second = RunnableWithMessageHistory(second, kept, **keys)
    chain = first.with_fallbacks([second], exception_key="error")
    if where == "inside":
        chain = RunnableWithMessageHistory(chain, kept, **keys)
    assert await once(way, chain, {"q": "Hi"}, to()) == "second"
    assert [str(error) for error in errors] == ["never mind"]
    assert said(kept) == [("human", "Hi"), ("ai", "second")]


# -- tools -------------------------------------------------------------------------------------------


class Question(BaseModel):
    """What can be asked."""

    q: str
    lang: str = "en"


def _answering(kept: RedisMemory, **options: Any) -> RunnableWithMessageHistory:
    def answer(value: dict[str, Any]) -> str:
        return f"{value['q']} {value.get('lang')} {len(value['past'])}"

    return RunnableWithMessageHistory(
        RunnableLambda(answer), kept, input_messages_key="q", history_messages_key="past", **options
    )


in_beta = pytest.mark.filterwarnings("ignore:.*is in beta")


@in_beta
@two_ways
@pytest.mark.parametrize("by", ["arg_types", "args_schema", "with_types"])
async def test_a_tool_takes_a_dictionary(kept: RedisMemory, way: str, by: str) -> None:
    """M:as_tool, T14: its arguments by types or by a schema; the session comes from the config."""
    chain = _answering(kept)
    if by == "arg_types":
        tool = chain.as_tool(arg_types={"q": str, "lang": str}, name="ask", description="Asks.")
    elif by == "args_schema":
        tool = chain.as_tool(Question, name="ask", description="Asks.")
    else:
        tool = _answering(kept, custom_input_type=Question).as_tool(name="ask", description="Asks.")
    assert (tool.name, tool.description) == ("ask", "Asks.")
    assert set(tool.args) == {"q", "lang"}
    for count in (0, 2):
        answer = await once(way, tool, {"q": "Hi", "lang": "de"}, to())
        assert answer == f"Hi de {count}"
    assert said(kept) == [("human", "Hi"), ("ai", "Hi de 0"), ("human", "Hi"), ("ai", "Hi de 2")]


@in_beta
@two_ways
@pytest.mark.parametrize("kind", ["chain", "model", "typed", "named"])
async def test_a_tool_of_a_chain_of_texts_takes_a_text(kept: RedisMemory, way: str, kind: str) -> None:
    """M:as_tool, T14: where no keys are named; its name is the wrapper's own."""
    chains: dict[str, Any] = {
        "chain": RunnableWithMessageHistory(model() | StrOutputParser(), kept),
        "model": RunnableWithMessageHistory(model(), kept),
        "typed": RunnableWithMessageHistory(model(), kept, custom_input_type=str),
        "named": RunnableWithMessageHistory(model(), kept, name="talk"),
    }
    tool = chains[kind].as_tool()
    assert tool.name == ("talk" if kind == "named" else "RunnableWithMessageHistory")
    assert list(tool.args) == ["tool_input"]
    assert text(await once(way, tool, "Hi", to())) == "fine"
    assert said(kept) == HI


@in_beta
async def test_a_tool_of_a_chain_of_dictionaries_takes_its_keys(kept: RedisMemory) -> None:
    """M:as_tool, T14: nothing is guessed of a runnable that wants a dictionary, as core does."""

    class Wanted(TypedDict):
        q: list[Any]

    inner: Any = RunnableLambda(lambda value: f"{len(value['q'])}").with_types(input_type=Wanted)
    tool = RunnableWithMessageHistory(inner, kept).as_tool(arg_types={"q": str})
    assert tool.invoke({"q": "Hi"}, to()) == "1"
    assert said(kept) == [("human", "Hi"), ("ai", "1")]
