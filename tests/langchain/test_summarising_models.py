"""LangChain's models as what summarises a conversation: chat models, plain ones, chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langchain_core.language_models import (
    FakeListChatModel,
    FakeListLLM,
    GenericFakeChatModel,
    ParrotFakeChatModel,
)
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda

from memory_redis import AsyncRedisMemory, InvalidMessage, RedisMemory, SummaryNotMade, ai, human
from memory_redis.summaries import INSTRUCTION
from memory_redis.testing import AsyncView
from tests.scenarios.remembering import IN_FRONT, SUMMARY, SUMMARY_BUFFER, over
from tests.support.ids import shown

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sync", "async"])
async def memory(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Any]:
    """A memory of each face, awaited."""
    url = f"fake://{namespace}"
    one: Any = (
        AsyncView(RedisMemory.from_url(url)) if request.param == "sync" else AsyncRedisMemory.from_url(url)
    )
    async with one:
        yield one


async def summarised(memory: Any, model: Any, *, again: bool = False) -> list[str]:
    """What is shown of a session that a model has summarised."""
    store = over(memory, SUMMARY, model, 1)
    await store.append("s1", human("Hi"), ai("Hello"), human("Bye"))
    if again:
        await store.append("s1", ai("So long"), human("Hi again"))
    return [message.text for message in await store.load("s1")]


def blocks(*texts: str) -> AIMessage:
    return AIMessage(content=[{"type": "text", "text": text} for text in texts])


MODELS: dict[str, Callable[[], Any]] = {
    "a chat model of messages": lambda: GenericFakeChatModel(
        messages=iter([AIMessage(content="in short"), AIMessage(content="in a word")])
    ),
    "a chat model of content blocks": lambda: GenericFakeChatModel(
        messages=iter([blocks("in ", "short"), blocks("in a word")])
    ),
    "a chat model of a list": lambda: FakeListChatModel(responses=["in short", "in a word"]),
    "a plain model": lambda: FakeListLLM(responses=["in short", "in a word"]),
    "a chat model and a parser": lambda: (
        FakeListChatModel(responses=["in short", "in a word"]) | StrOutputParser()
    ),
    "a prompt and a plain model": lambda: (
        PromptTemplate.from_template("Be kind.\n{text}") | FakeListLLM(responses=["in short", "in a word"])
    ),
    "a chat prompt and a chat model": lambda: (
        ChatPromptTemplate.from_messages([("system", "Be kind"), ("human", "{text}")])
        | FakeListChatModel(responses=["in short", "in a word"])
    ),
    "a model that is bound": lambda: FakeListChatModel(responses=["in short", "in a word"]).bind(stop=["x"]),
    "a model with retries": lambda: FakeListChatModel(responses=["in short", "in a word"]).with_retry(),
}


@pytest.mark.parametrize("kind", MODELS)
async def test_every_kind_of_model_summarises(memory: Any, kind: str) -> None:
    """R92: by invoke or ainvoke, and again when the next summary is due."""
    model = MODELS[kind]()
    assert await summarised(memory, model) == [f"{IN_FRONT}in short", "Bye"]
    await memory.session("s1").clear()
    assert await summarised(memory, MODELS[kind](), again=True) == [f"{IN_FRONT}in a word", "Hi again"]


async def test_a_chat_model_gets_one_human_message(memory: Any) -> None:
    """R94: the whole text that a function would be given; the parrot gives it back."""
    prompt = f"{INSTRUCTION}\n\nhuman: Hi\nai: Hello"
    assert await summarised(memory, ParrotFakeChatModel()) == [f"{IN_FRONT}{prompt}", "Bye"]
    given: list[Any] = []

    def record(value: Any) -> str:
        given.append(value)
        return "in short"

    await memory.session("s1").clear()
    template = ChatPromptTemplate.from_messages([("human", "{text}")])
    await summarised(memory, template | RunnableLambda(record))
    assert given[0].to_messages() == [HumanMessage(content=prompt)]


@pytest.mark.parametrize(
    "answer",
    [
        AIMessage(content="in short"),
        AIMessageChunk(content="in short"),
        blocks("in ", "short"),
        {"content": "in short"},
        ai("in short"),
        "in short",
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_a_function_gives_may_be_langchains(memory: Any, answer: Any) -> None:
    """R92: a message of either library, a text, a dictionary with content."""

    def function(given: Any) -> Any:
        return answer

    assert await summarised(memory, function) == [f"{IN_FRONT}in short", "Bye"]
    await memory.session("s1").clear()
    assert await summarised(memory, RunnableLambda(function)) == [f"{IN_FRONT}in short", "Bye"]


async def test_a_runnable_is_asked_in_its_own_face(memory: Any) -> None:
    """R92: a coroutine in a runnable is awaited where there is something to await it."""
    asked: list[str] = []

    def sync(value: str) -> str:
        asked.append("sync")
        return "in short"

    async def later(value: str) -> str:
        asked.append("async")
        return "in short"

    await summarised(memory, RunnableLambda(sync, afunc=later))
    assert asked == ["sync" if isinstance(memory, AsyncView) else "async"]


@pytest.mark.parametrize(
    "answer",
    ["", AIMessage(content=""), AIMessage(content=[]), None, [AIMessage(content="x")], {"text": "x"}],
    ids=shown,
)
async def test_an_answer_without_a_text_is_an_error_that_is_seen(memory: Any, answer: Any) -> None:
    """R98: the messages stay."""
    store = over(memory, SUMMARY_BUFFER, RunnableLambda(lambda _: answer), 1)
    with pytest.raises(SummaryNotMade) as caught:
        await store.append("s1", human("Hi"), ai("Hello"))
    assert isinstance(caught.value.__cause__, InvalidMessage)
    assert await store.load("s1") == [human("Hi"), ai("Hello")]


async def test_what_a_model_raises_is_the_cause(memory: Any) -> None:
    """R98: whatever it is; a chat model that has no answer left raises one of its own."""
    failure = ConnectionError("no model there")

    def fail(_: Any) -> str:
        raise failure

    store = over(memory, SUMMARY, RunnableLambda(fail), 0)
    with pytest.raises(SummaryNotMade) as caught:
        await store.append("s1", human("Hi"))
    assert caught.value.__cause__ is failure
    spent = over(memory, SUMMARY, GenericFakeChatModel(messages=iter([])), 0)
    with pytest.raises(SummaryNotMade) as caught:
        await spent.append("s1", human("Hi"))
    assert isinstance(caught.value.__cause__, (StopIteration, RuntimeError))  # the latter of a coroutine
    assert await memory.session("s1").count() == 2
