"""A chat model's own methods: tools and structured output are set on the inner model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from memory_redis import HistoryNotSaved, InvalidAnswer, RedisMemory
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.support import HI, once, said, stored, to

pytestmark = pytest.mark.anyio

four_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


class Weather(BaseModel):
    """The weather somewhere."""

    place: str


CALL: Any = {"name": "Weather", "args": {"place": "Oslo"}, "id": "k1", "type": "tool_call"}


class WithTools(FakeMessagesListChatModel):
    """A fake chat model to which tools can be bound, as to a real one."""

    heard: list[dict[str, Any]]

    def bind_tools(self, tools: Any, **options: Any) -> Runnable[Any, Any]:
        return self.bind(tools=list(tools), **options)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        self.heard.append(options)
        return super()._generate(messages, stop, run_manager, **options)

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        self.heard.append(options)
        for name, written, call_id in (("Weather", '{"place": ', "k1"), (None, '"Oslo"}', None)):
            part = tool_call_chunk(name=name, args=written, id=call_id, index=0)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))


def _model() -> WithTools:
    return WithTools(responses=[AIMessage(content="", tool_calls=[CALL])], heard=[])


@four_ways
async def test_tools_are_bound_to_the_inner_model(kept: RedisMemory, way: str) -> None:
    """R120, M:bind_tools: they reach it, and the call that it makes is stored with the turn."""
    inner = _model()
    chain = RunnableWithMessageHistory(inner.bind_tools([Weather], tool_choice="any"), kept)
    answer = await once(way, chain, "Hi", to())
    assert answer.tool_calls == [CALL]
    assert inner.heard == [{"tools": [Weather], "tool_choice": "any"}]
    asked, called = stored(kept)
    assert asked == HumanMessage(content="Hi")
    assert isinstance(called, AIMessage)
    assert called.tool_calls == [CALL]


@four_ways
async def test_the_raw_answer_of_structured_output_is_stored(kept: RedisMemory, way: str) -> None:
    """R120, M:with_structured_output: with include_raw, and "raw" as the key of the output."""
    inner = _model().with_structured_output(Weather, include_raw=True)
    chain = RunnableWithMessageHistory(inner, kept, output_messages_key="raw")
    for count in (1, 2):
        answer = await once(way, chain, "Hi", to())
        assert answer["parsed"] == Weather(place="Oslo")
        assert answer["raw"].tool_calls == [CALL]
        assert said(kept) == [("human", "Hi"), ("ai", "")] * count
    called = stored(kept)[1]
    assert isinstance(called, AIMessage)
    assert called.tool_calls == [CALL]


@four_ways
async def test_a_parsed_object_alone_is_no_message(kept: RedisMemory, way: str) -> None:
    """R120, M:with_structured_output: an error that carries it, and nothing stored."""
    chain = RunnableWithMessageHistory(_model().with_structured_output(Weather), kept)
    with pytest.raises(InvalidAnswer) as caught:
        await once(way, chain, "Hi", to())
    assert isinstance(caught.value, HistoryNotSaved)
    assert isinstance(caught.value, ValueError)
    assert caught.value.output == Weather(place="Oslo")
    assert said(kept) == []


async def test_a_models_own_methods_are_called_on_the_model(kept: RedisMemory) -> None:
    """R121, M:generate, M:get_num_tokens: the wrapper does not offer them, and they touch no history."""
    inner = FakeListChatModel(responses=["fine"], custom_get_token_ids=lambda text: list(range(len(text))))
    chain = RunnableWithMessageHistory(inner, kept)
    for name in (
        *("generate", "agenerate", "generate_prompt", "agenerate_prompt"),
        *("get_num_tokens", "get_num_tokens_from_messages", "get_token_ids"),
        *("bind_tools", "with_structured_output", "set_verbose"),
    ):
        assert not hasattr(chain, name)
    assert chain.runnable is inner
    assert inner.generate([[HumanMessage(content="Hi")]]).generations[0][0].text == "fine"
    assert (await inner.agenerate([[HumanMessage(content="Hi")]])).generations[0][0].text == "fine"
    assert inner.get_num_tokens("four") == 4
    assert said(kept) == []
    chain.invoke("Hi", to())
    assert said(kept) == HI
