"""A summary that is made behind an answer: events and handlers of the call do not show its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tracers.langchain import LangChainTracer, wait_for_all_tracers

from memory_redis import ConversationSummaryMemory, RedisMemory
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import every_way, once, text, to
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

ANSWER = "fine"
SUMMARY = "secret summary"


class Told(BaseCallbackHandler):
    """Notes which models run, and what they say."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.chains: list[str] = []
        self.said: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **details: Any) -> None:
        self.started.append(details["name"])

    def on_chain_start(self, serialized: Any, inputs: Any, **details: Any) -> None:
        self.chains.append(details["name"])

    def on_llm_new_token(self, token: str, **details: Any) -> None:
        self.said.append(token)


class Client:
    """What a LangSmith tracer reports to."""

    tracing_queue = None

    def __init__(self) -> None:
        self._runs: dict[Any, tuple[str, Any]] = {}

    def create_run(self, **run: Any) -> None:
        self._runs[run["id"]] = run["name"], run.get("parent_run_id")

    def update_run(self, *_: Any, **run: Any) -> None:
        """The run has ended."""

    def paths(self) -> list[str]:
        """The runs by their names, each below the one that it is part of; some are reported at their end."""
        wait_for_all_tracers()
        return sorted(map(self._path, self._runs))

    def _path(self, run: Any) -> str:
        name, parent = self._runs[run]
        return f"{self._path(parent)}/{name}" if parent in self._runs else name


def answering() -> Runnable[Any, Any]:
    return FakeListChatModel(responses=[ANSWER]).with_config(run_name="answering")


def summarising() -> Runnable[Any, Any]:
    return FakeListChatModel(responses=[SUMMARY]).with_config(run_name="summarising")


def asking() -> Callable[[Any], Any]:
    """A plain function that asks a model."""
    model = summarising()
    return lambda messages: model.invoke(messages[0].text)


def asking_lambda() -> RunnableLambda[Any, Any]:
    """A runnable that asks a model, in the face in which it is asked itself."""
    model = summarising()

    async def later(given: str) -> Any:
        return await model.ainvoke(given)

    return RunnableLambda(lambda given: model.invoke(given), afunc=later)


SUMMARISERS = {"a model": summarising, "a function": asking, "a runnable": asking_lambda}
every_summariser = pytest.mark.parametrize("kind", SUMMARISERS)


@pytest.fixture(params=["a URL", "a sync client"])
def memory(request: pytest.FixtureRequest, valkey: Server, namespace: str) -> Iterator[RedisMemory]:
    """With both faces; or with one, which serves awaited calls in worker threads."""
    if request.param == "a URL":
        with RedisMemory.from_url(valkey.url, namespace=namespace) as one:
            yield one
        return
    with redis.Redis.from_url(valkey.url) as client, RedisMemory(client, namespace=namespace) as one:
        yield one


def summaries(memory: RedisMemory) -> str | None:
    """The summary of the session that the tests use."""
    return memory.session("s1").load().summary


@every_summariser
@every_way
async def test_handlers_of_a_call_see_its_own_model_alone(memory: RedisMemory, way: str, kind: str) -> None:
    """R92: not the one that summarises, however it is asked; the answer is traced as ever."""
    store = ConversationSummaryMemory(memory, SUMMARISERS[kind](), 0)
    chain = RunnableWithMessageHistory(answering(), store)
    for call in (1, 2):
        told = Told()
        assert text(await once(way, chain, "Hi", {**to(), "callbacks": [told]})) == ANSWER
        assert told.started == ["answering"]
        assert "RunnableWithMessageHistory" in told.chains
        assert "".join(told.said) in ("", ANSWER)
        assert summaries(memory) == SUMMARY, call


@every_summariser
@pytest.mark.parametrize("save_input", ["after", "before"])
async def test_events_of_a_call_hold_no_summary(memory: RedisMemory, save_input: Any, kind: str) -> None:
    """R92: what an application passes on to its users is the answer, whatever was saved before it."""
    store = ConversationSummaryMemory(memory, SUMMARISERS[kind](), 0)
    chain = RunnableWithMessageHistory(answering(), store, save_input=save_input)
    for _ in range(2):
        events = [event async for event in chain.astream_events("Hi", to(), version="v2")]
        tokens = [e["data"]["chunk"].content for e in events if e["event"] == "on_chat_model_stream"]  # type: ignore[typeddict-item]
        assert "".join(tokens) == ANSWER
        assert {e["name"] for e in events if "chat_model" in e["event"]} == {"answering"}
        assert summaries(memory) == SUMMARY


@pytest.mark.filterwarnings("ignore:The `.*` method is deprecated")  # which the tracer of core 1.2 calls
@every_summariser
@every_way
async def test_a_trace_of_a_call_holds_its_own_runs_alone(memory: RedisMemory, way: str, kind: str) -> None:
    """R92: a LangSmith tracer is told of the wrapper and of the answer below it, and of no summary."""
    client = Client()
    tracer = LangChainTracer(client=client)  # type: ignore[arg-type]
    store = ConversationSummaryMemory(memory, SUMMARISERS[kind](), 0)
    chain = RunnableWithMessageHistory(answering(), store)
    await once(way, chain, "Hi", {**to(), "callbacks": [tracer]})
    wrapper, answer = client.paths()
    assert wrapper == "RunnableWithMessageHistory"
    assert answer == f"{wrapper}/answering"
    assert summaries(memory) == SUMMARY


@every_way
async def test_what_else_a_call_says_reaches_the_model_that_summarises(memory: RedisMemory, way: str) -> None:
    """R92: its tags, its metadata and `configurable`; and it has handlers of its own."""
    told, configs = Told(), list[RunnableConfig]()

    def summarise(given: str, config: RunnableConfig) -> str:
        configs.append(config)
        return SUMMARY

    model = RunnableLambda(summarise).with_config(callbacks=[told], run_name="summarising")
    chain = RunnableWithMessageHistory(answering(), ConversationSummaryMemory(memory, model, 0))
    config = {**to(tenant="blue"), "tags": ["web"], "metadata": {"page": 7}}
    await once(way, chain, "Hi", config)
    [seen] = configs
    assert seen["tags"] == ["web"]
    assert seen["metadata"]["page"] == 7
    assert seen["configurable"]["tenant"] == "blue"
    assert told.chains == ["summarising"]


class Others(BaseChatMessageHistory):
    """A history of somebody else's, which passes everything on to one of ours."""

    def __init__(self, inner: RedisChatMessageHistory) -> None:
        self._inner = inner

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        return self._inner.messages

    def add_messages(self, messages: Any) -> None:
        self._inner.add_messages(messages)

    def clear(self) -> None:
        self._inner.clear()


@every_way
async def test_a_history_of_somebody_elses_may_summarise_unseen(memory: RedisMemory, way: str) -> None:
    """R92: what a history does to save a turn is no part of the answer."""
    store = ConversationSummaryMemory(memory, summarising(), 0)
    chain = RunnableWithMessageHistory(
        answering(), lambda session_id: Others(RedisChatMessageHistory(session_id, memory=store))
    )
    told = Told()
    await once(way, chain, "Hi", {**to(), "callbacks": [told]})
    assert told.started == ["answering"]
    assert summaries(memory) == SUMMARY
