"""Memory strategies in the place of a memory, and a session by default."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

from memory_redis import (
    AsyncConversationWindowMemory,
    AsyncRedisMemory,
    ConversationBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    ConversationWindowMemory,
    InvalidSetting,
    LastMessages,
    RedisMemory,
    StoredMessage,
    TurnReport,
    human,
)
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import every_way, once, to, two_ways

pytestmark = pytest.mark.anyio


def counting(seen: list[list[str]]) -> Any:
    """A chain that answers with how many messages it was given, and notes them."""

    def answer(given: list[BaseMessage]) -> str:
        seen.append([str(message.text) for message in given])
        return f"saw {len(given)}"

    return RunnableLambda(answer)


@every_way
async def test_a_strategy_takes_the_place_of_a_memory(kept: RedisMemory, way: str) -> None:
    """R87: with a window of n the model sees n + 1 messages, in every way to run it; all are stored."""
    seen: list[list[str]] = []
    chain = RunnableWithMessageHistory(counting(seen), ConversationWindowMemory(kept, 2))
    for number in range(4):
        await once(way, chain, f"q{number}", to("s1"))
    assert [len(given) for given in seen] == [1, 3, 3, 3]
    assert seen[-1] == ["q2", "saw 3", "q3"]
    assert kept.session("s1").count() == 8


@two_ways
async def test_without_a_window_the_model_sees_one_three_five(kept: RedisMemory, way: str) -> None:
    """R85, R89: the buffer passes all through."""
    seen: list[list[str]] = []
    chain = RunnableWithMessageHistory(counting(seen), ConversationBufferMemory(kept))
    for number in range(3):
        await once(way, chain, f"q{number}", to("s1"))
    assert [len(given) for given in seen] == [1, 3, 5]
    assert ConversationBufferMemory(kept).clear("s1") == 6
    assert await once(way, chain, "again", to("s1")) == "saw 1"


@two_ways
async def test_a_summary_is_a_system_message_in_front(kept: RedisMemory, way: str) -> None:
    """R87, R92: two questions and answers more than twice the buffer, and the model is told of the rest."""
    seen: list[list[str]] = []
    kinds: list[type[BaseMessage]] = []

    def answer(given: list[BaseMessage]) -> str:
        seen.append([str(message.text) for message in given])
        kinds.append(type(given[0]))
        return "yes"

    memory = ConversationSummaryMemory(kept, lambda messages: "they talked", 2)
    chain = RunnableWithMessageHistory(RunnableLambda(answer), memory)
    for number in range(4):
        await once(way, chain, f"q{number}", to("s1"))
    assert seen[:3] == [["q0"], ["q0", "yes", "q1"], ["q0", "yes", "q1", "yes", "q2"]]
    assert seen[3] == ["Summary of earlier conversation: they talked", "q2", "yes", "q3"]
    assert kinds[3] is SystemMessage
    assert kept.session("s1").load().summary == "they talked"


@every_way
async def test_a_summary_that_fails_is_reported_and_the_answer_given(kept: RedisMemory, way: str) -> None:
    """R98: the turn is stored once, the report has the error, and the next turn tries again."""
    asked: list[StoredMessage] = []

    def summarise(messages: list[StoredMessage]) -> str:
        asked.extend(messages)
        if len(asked) == 1:
            raise RuntimeError("no model today")
        return "they talked"

    memory = ConversationSummaryMemory(kept, summarise, 0)
    chain = RunnableWithMessageHistory(RunnableLambda(lambda given: "yes"), memory)
    report = TurnReport()
    assert await once(way, chain, "q0", to("s1", turn_report=report)) == "yes"
    assert report.saved
    assert report.summary_error is not None
    assert isinstance(report.summary_error.__cause__, RuntimeError)
    assert [one.text for one in kept.session("s1").load().messages] == ["q0", "yes"]
    report = TurnReport()
    assert await once(way, chain, "q1", to("s1", turn_report=report)) == "yes"
    assert (report.summary_error, len(asked)) == (None, 2)
    assert kept.session("s1").count() == 0


@two_ways
async def test_a_window_of_a_call_is_on_top(kept: RedisMemory, way: str) -> None:
    """R87: what is stored never depends on it."""
    seen: list[list[str]] = []
    chain = RunnableWithMessageHistory(counting(seen), ConversationWindowMemory(kept, 4))
    for number in range(3):
        await once(way, chain, f"q{number}", to("s1"))
    await once(way, chain, "q3", to("s1", window=LastMessages(1)))
    assert seen[-1] == ["saw 5", "q3"]
    assert kept.session("s1").count() == 8


async def test_an_asyncio_strategy_serves_both_kinds_of_call(kept: RedisMemory, valkey: Any) -> None:
    """R87: a memory that was made from a URL has both faces, and so has a strategy over it."""
    namespace = kept._settings.namespace
    async with AsyncRedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        seen: list[list[str]] = []
        chain = RunnableWithMessageHistory(counting(seen), AsyncConversationWindowMemory(memory, 1))
        chain.invoke("q0", to("s1"))
        await chain.ainvoke("q1", to("s1"))
        assert seen == [["q0"], ["saw 1", "q1"]]
        memory.twin.close()


@every_way
async def test_a_default_session_is_for_those_who_ask_for_one(kept: RedisMemory, way: str) -> None:
    """R83: without it a call that names no session is refused; with it it goes there."""
    plain = RunnableWithMessageHistory(counting([]), kept)
    with pytest.raises(InvalidSetting, match="missing keys"):
        await once(way, plain, "Hi")
    chain = RunnableWithMessageHistory(counting([]), kept, default_session="default")
    assert await once(way, chain, "Hi") == "saw 1"
    assert await once(way, chain, "Hi", to("other")) == "saw 1"
    assert await once(way, chain, "Hi") == "saw 3"
    assert kept.session("default").count() == 4


@pytest.mark.parametrize("half", ["user_id", "conversation_id"])
def test_half_of_a_conversation_is_not_the_default_session(kept: RedisMemory, half: str) -> None:
    """R83, R24: a config that forgot one id must not land where all are."""
    chain = RunnableWithMessageHistory(counting([]), kept, default_session="default")
    with pytest.raises(InvalidSetting, match="missing keys"):
        chain.invoke("Hi", {"configurable": {half: "ann"}})
    with pytest.raises(TypeError):
        chain.invoke("Hi", to(""))
    assert kept.session("default").count() == 0


@pytest.mark.parametrize("session", ["", 5, b"x", True])
def test_a_default_session_is_a_text(kept: RedisMemory, session: Any) -> None:
    """R83: and belongs to a memory."""
    with pytest.raises(InvalidSetting, match="default_session"):
        RunnableWithMessageHistory(counting([]), kept, default_session=session)
    with pytest.raises(InvalidSetting, match="default_session"):
        RunnableWithMessageHistory(counting([]), kept.session, default_session="default")


async def test_a_chat_message_history_shows_what_the_strategy_shows(kept: RedisMemory) -> None:
    """R90: the last n, and all of them below."""
    history = RedisChatMessageHistory("s1", memory=ConversationWindowMemory(kept, 2))
    history.add_user_message("1")
    history.add_ai_message("2")
    history.add_user_message("3")
    assert [message.text for message in history.messages] == ["2", "3"]
    assert [message.text for message in await history.aget_messages()] == ["2", "3"]
    assert kept.session("s1").count() == 3


def test_a_chat_message_history_shows_a_summary(kept: RedisMemory) -> None:
    """R92, R98: add_messages makes the summary that is due."""
    memory = ConversationSummaryMemory(kept, lambda messages: "they talked", 1)
    history = RedisChatMessageHistory("s1", memory=memory)
    for number in range(3):
        history.add_user_message(str(number))
    assert [message.text for message in history.messages] == [
        "Summary of earlier conversation: they talked",
        "2",
    ]


def test_a_token_buffer_limits_what_a_chain_sees(kept: RedisMemory) -> None:
    """R87, R91: by the bytes of the texts."""
    kept.session("s1").append(*(human("x" * 7) for _ in range(5)))
    seen: list[list[str]] = []
    chain = RunnableWithMessageHistory(counting(seen), ConversationTokenBufferMemory(kept, 5))
    chain.invoke("Hi", to("s1"))
    assert seen == [["x" * 7, "x" * 7, "Hi"]]
