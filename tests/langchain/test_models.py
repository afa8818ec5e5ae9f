"""Chat models and plain models of LangChain under the wrapper, with all that they are set up with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import (
    FakeListChatModel,
    FakeListLLM,
    FakeStreamingListLLM,
    GenericFakeChatModel,
    LangSmithParams,
    ParrotFakeChatModel,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import PydanticToolsParser, StrOutputParser
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.rate_limiters import InMemoryRateLimiter
from pydantic import BaseModel

from memory_redis import InvalidAnswer, RedisMemory
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.kit import Model, ask, chunks_of, every_way, model, said, session, stored, talk

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(namespace: str) -> Iterator[RedisMemory]:
    with RedisMemory.from_url(f"fake://{namespace}") as one:
        yield one


@every_way
@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("Hi", [("human", "Hi")]),
        (StringPromptValue(text="Hi"), [("human", "Hi")]),
        (ChatPromptValue(messages=[SystemMessage(content="a"), HumanMessage(content="b")]), None),
        ([SystemMessage(content="a"), HumanMessage(content="b")], None),
        ([("system", "a"), ("human", "b")], None),
        ([["system", "a"], {"role": "user", "content": "b"}], None),
        ([{"type": "system", "content": "a"}, "b"], None),
        (("a", "b"), [("human", "a"), ("human", "b")]),
    ],
)
async def test_what_a_model_takes_goes_in_and_what_it_gives_comes_out(
    memory: RedisMemory, way: str, value: Any, asked: list[tuple[str, str]] | None
) -> None:
    """R110, R111: every input of a chat model; it sees the same messages as without the wrapper."""
    asked = asked or [("system", "a"), ("human", "b")]
    inner = model("fine thank you")
    answer = await ask(way, RunnableWithMessageHistory(inner, memory), value)
    await ask(way, inner, value, None)
    assert said(inner.asked[0]) == said(inner.asked[1]) == asked
    assert isinstance(answer, AIMessage)
    assert said(stored(memory)) == [*asked, ("ai", "fine thank you")]


@every_way
async def test_the_generic_fake_model_streams_words(memory: RedisMemory, way: str) -> None:
    """R112: the text that is stored is that of the chunks, joined."""
    inner = GenericFakeChatModel(messages=iter([AIMessage(content="one two three"), "four five"]))
    chain = RunnableWithMessageHistory(inner, memory)
    given = await chunks_of(way, chain, "Hi")
    assert "".join(str(chunk.text) for chunk in given) == "one two three"
    assert len(given) == 1 if way.endswith("invoke") else len(given) >= 5
    await ask(way, chain, "Ho")
    assert said(stored(memory)) == talk("Hi", "one two three", "Ho", "four five")


@every_way
async def test_a_function_call_comes_together_from_its_pieces(memory: RedisMemory, way: str) -> None:
    """R112, R104: the older form of a call, which the fake model streams bit by bit."""
    called = {"function_call": {"name": "add", "arguments": '{"x": 1, "y": 2}'}}
    inner = GenericFakeChatModel(messages=iter([AIMessage(content="", additional_kwargs=called)]))
    await ask(way, RunnableWithMessageHistory(inner, memory), "Hi")
    assert said(stored(memory)) == talk("Hi", "")
    assert stored(memory)[1].data["additional_kwargs"] == called


@every_way
async def test_question_and_answer_of_a_parrot_share_no_id(memory: RedisMemory, way: str) -> None:
    """R112, R44, T21: it gives back the caller's own message, on which LangChain then writes an id."""
    chain = RunnableWithMessageHistory(ParrotFakeChatModel(), memory)
    question = HumanMessage(content="Hi")
    await ask(way, chain, question)
    first, second = stored(memory)
    assert said([first, second]) == [("human", "Hi"), ("human", "Hi")]
    assert first.id is None
    assert second.id
    await ask(way, chain, question.model_copy(update={"id": "q2"}))
    assert [one.id for one in stored(memory)[:3]] == [None, second.id, "q2"]


@every_way
@pytest.mark.parametrize("kind", [FakeListLLM, FakeStreamingListLLM])
@pytest.mark.parametrize("parsed", [False, True])
async def test_plain_models_give_texts(memory: RedisMemory, way: str, kind: Any, parsed: bool) -> None:
    """R113, R111, R43, T26: directly and behind a parser, streamed by letters or not."""
    inner = kind(responses=["one two", "three"])
    chain = RunnableWithMessageHistory(inner | StrOutputParser() if parsed else inner, memory)
    given = await chunks_of(way, chain, "Hi")
    assert "".join(given) == "one two"
    assert all(type(chunk) is str for chunk in given)
    await ask(way, chain, "Ho")
    assert said(stored(memory)) == talk("Hi", "one two", "Ho", "three")


@every_way
@pytest.mark.parametrize("disabled", [True, "tool_calling"])
async def test_a_model_that_does_not_stream_is_stored_once(
    memory: RedisMemory, way: str, disabled: Any
) -> None:
    """R114: its stream is one whole message, and one turn."""
    inner = model("one two three")
    inner.disable_streaming = disabled
    chain = RunnableWithMessageHistory(inner.bind(tools=[{"name": "add"}]), memory)
    given = await chunks_of(way, chain, "Hi")
    assert [str(chunk.text) for chunk in given if chunk.text] == ["one two three"]
    assert said(stored(memory)) == talk("Hi", "one two three")
    assert stored(memory)[1].type == "ai"


@every_way
async def test_content_of_output_version_1_is_kept(memory: RedisMemory, way: str) -> None:
    """R115, R101: the list of blocks, as the caller gets it, and after a round trip."""
    inner = model(AIMessage(content="one two"))
    inner.output_version = "v1"
    chain = RunnableWithMessageHistory(inner, memory)
    given = await ask(way, chain, "Hi")
    assert isinstance(given.content, list)
    assert str(given.text) == "one two"
    kept = stored(memory)[1]
    assert kept.content == given.content
    assert kept.data["response_metadata"] == given.response_metadata
    history = RedisChatMessageHistory(memory=memory, user_id="ann", conversation_id="c1")
    assert history.messages[1].content == given.content
    assert history.messages[1].content_blocks == given.content_blocks


class Listens(BaseCallbackHandler):
    """Notes what the runs of a model are told."""

    def __init__(self) -> None:
        self.starts: list[dict[str, Any]] = []
        self.ends = 0

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self.starts.append({"messages": messages[0], **kwargs})

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends += 1


@every_way
async def test_what_a_model_is_set_up_with_works(memory: RedisMemory, way: str) -> None:
    """R116: callbacks, tags, metadata, verbose and rate limit, of the model and of the call."""
    own, calls = Listens(), Listens()
    inner = FakeListChatModel(
        responses=["ok"],
        callbacks=[own],
        tags=["model"],
        metadata={"a": "1"},
        verbose=False,
        rate_limiter=InMemoryRateLimiter(requests_per_second=1000, check_every_n_seconds=0.001),
    )
    chain = RunnableWithMessageHistory(inner, memory)
    config = {**session(), "callbacks": [calls], "tags": ["call"], "metadata": {"b": "2"}, "run_name": "mine"}
    await ask(way, chain, "Hi", config)
    for listener in (own, calls):
        [start] = listener.starts
        assert said(start["messages"]) == [("human", "Hi")]
        assert {"model", "call"} <= set(start["tags"])
        assert {"a": "1", "b": "2"}.items() <= start["metadata"].items()
        assert listener.ends == 1
    assert said(stored(memory)) == talk("Hi", "ok")


@every_way
async def test_a_cached_answer_is_stored_like_any_other(memory: RedisMemory, way: str) -> None:
    """R116: the model is not run again for the same past and question, the turn is stored all the same."""
    inner = model("one two")
    inner.cache = InMemoryCache()
    chain = RunnableWithMessageHistory(inner, memory)
    for conversation in ("c1", "c2"):
        answer = await ask("ainvoke" if way[0] == "a" else "invoke", chain, "Hi", named(conversation))
        assert answer.text == "one two"
        assert said(stored(memory, conversation_id=conversation)) == talk("Hi", "one two")
    assert inner.calls == 1
    await ask(way, chain, "Ho", named("c2"))
    assert len(stored(memory, conversation_id="c2")) == 4


def named(conversation: str) -> Any:
    return session(conversation_id=conversation)


class Traced(Model):
    """A model that says what it is, as those of the large providers do."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(ls_provider="nobody", ls_model_name="m1", ls_model_type="chat")
        params.update({"ls_temperature": 0.5, "ls_max_tokens": 7})
        if stop:
            params["ls_stop"] = stop
        return params


@every_way
async def test_tracing_learns_of_the_model_what_it_wants_to_know(memory: RedisMemory, way: str) -> None:
    """R117: provider, name, type, temperature, tokens and stop words are in the model's run."""
    listener = Listens()
    chain = RunnableWithMessageHistory(Traced(answers=["fine"]), memory)
    await ask(way, chain, "Hi", {**session(), "callbacks": [listener]}, stop=["x"])
    [start] = listener.starts
    found = {name: value for name, value in start["metadata"].items() if name.startswith("ls_")}
    assert (
        found.items()
        >= {
            "ls_provider": "nobody",
            "ls_model_name": "m1",
            "ls_model_type": "chat",
            "ls_temperature": 0.5,
            "ls_max_tokens": 7,
            "ls_stop": ["x"],
        }.items()
    )


class Sum(BaseModel):
    """The sum of two numbers."""

    total: int


CALL = {"name": "Sum", "args": {"total": 2}, "id": "k1", "type": "tool_call"}


@every_way
async def test_tools_are_bound_to_the_model_inside(memory: RedisMemory, way: str) -> None:
    """R120, E09: bind_tools reaches it, its calls are stored, and a later result is paired with them."""
    inner = model(AIMessage(content="let me see", tool_calls=[CALL]), "It is 2")
    chain = RunnableWithMessageHistory(inner.bind_tools([Sum]), memory)
    answer = await ask(way, chain, "1 + 1?")
    assert answer.tool_calls == [CALL]
    assert inner.given[0]["tools"] == [Sum]
    await ask(way, chain, [{"role": "tool", "content": "2", "tool_call_id": "k1"}])
    assert [(one.type, one.text) for one in stored(memory)] == [
        *talk("1 + 1?", "let me see"),
        ("tool", "2"),
        ("ai", "It is 2"),
    ]
    assert inner.asked[1][1].tool_calls == [CALL]


@every_way
async def test_structured_output_is_stored_as_the_raw_answer(memory: RedisMemory, way: str) -> None:
    """R120, R46: with include_raw, the message under `raw`; the parsed object alone is no message (R50)."""
    answer = AIMessage(content="", tool_calls=[CALL])
    raw: Any = model(answer).with_structured_output(Sum, include_raw=True)
    chain = RunnableWithMessageHistory(raw, memory, output_messages_key="raw")
    given = await ask(way, chain, "1 + 1?")
    assert given["parsed"] == Sum(total=2)
    assert stored(memory)[1].tool_calls == [CALL]
    parsed = model(answer).bind_tools([Sum]) | PydanticToolsParser(tools=[Sum], first_tool_only=True)
    with pytest.raises(InvalidAnswer) as caught:
        await chunks_of(way, RunnableWithMessageHistory(parsed, memory), "1 + 1?")
    assert caught.value.output == Sum(total=2)
    assert len(stored(memory)) == 2


async def test_a_models_own_methods_stay_its_own(memory: RedisMemory) -> None:
    """R121, R120: they are called on the model; the wrapper, which is none, does not offer them."""
    inner = model("fine thank you")
    chain = RunnableWithMessageHistory(inner, memory)
    for name in (
        *("generate", "agenerate", "generate_prompt", "agenerate_prompt", "get_token_ids"),
        *("get_num_tokens", "get_num_tokens_from_messages", "bind_tools", "with_structured_output"),
        *("set_verbose", "asdict"),
    ):
        assert not hasattr(chain, name), name
    result = chain.runnable.generate([[HumanMessage(content="Hi")]])
    assert result.generations[0][0].text == "fine thank you"
    aresult = await chain.runnable.agenerate_prompt([StringPromptValue(text="Hi")])
    assert aresult.generations[0][0].text == "fine thank you"
    assert stored(memory) == []
