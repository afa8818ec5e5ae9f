"""What a run's history is made of: no connection, ids that are ids, and a config of the run's own."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig, RunnableLambda

from memory_redis import AsyncOnly, AsyncRedisMemory, InvalidId, InvalidSetting, RedisMemory
from memory_redis.history import History
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import (
    AWAITED,
    CONVERSATION,
    HI,
    SYNC,
    USER,
    Counts,
    Factory,
    every_way,
    model,
    once,
    said,
    to,
    together,
    two_ways,
)
from tests.support.servers import Server

pytestmark = pytest.mark.anyio


# -- no I/O while a history is made ------------------------------------------------------------------


async def test_nothing_connects_before_a_run(valkey: Server, namespace: str) -> None:
    """R21, T13: memories, histories, wrappers and what they say of themselves need no server."""
    with valkey.client() as admin:

        def connections() -> int:
            return int(admin.info("stats")["total_connections_received"])

        before = connections()
        made: list[int] = []

        def factory(session_id: str) -> RedisChatMessageHistory:
            history = RedisChatMessageHistory(session_id, valkey.url, key_prefix=namespace)
            made.append(connections())
            return history

        memory = RedisMemory.from_url(valkey.url, namespace=namespace)
        awaited = AsyncRedisMemory.from_url(valkey.url, namespace=namespace)
        prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])
        for source in (memory, awaited, factory, memory.session):
            chain = RunnableWithMessageHistory(
                prompt | model(), source, input_messages_key="q", history_messages_key="past"
            )
            assert chain.get_graph(to()).nodes
            assert chain.get_prompts() == [prompt]
            assert chain.config_specs
            assert chain.get_input_jsonschema()
            assert chain.get_output_jsonschema()
            assert chain.to_json()
            assert repr(chain)
        for source in (memory, awaited):
            assert repr(RedisChatMessageHistory(memory=source, session_id="s1"))
        assert connections() == before
        assert not made
        RunnableWithMessageHistory(model(), factory).invoke("Hi", to())
        await RunnableWithMessageHistory(model(), factory).ainvoke("Hi", to())
        assert made[0] == before
        assert made[1] > before
        await awaited.aclose()
        memory.close()


@two_ways
async def test_making_a_history_does_not_connect_in_a_run(valkey: Server, namespace: str, way: str) -> None:
    """R21: on whatever thread the factory runs, it blocks nothing."""
    with valkey.client() as admin:

        def connections() -> int:
            return int(admin.info("stats")["total_connections_received"])

        made: list[tuple[int, int]] = []

        def factory(session_id: str) -> RedisChatMessageHistory:
            before = connections()
            history = RedisChatMessageHistory(session_id, valkey.url, key_prefix=namespace)
            made.append((before, connections()))
            return history

        before = connections()
        await once(way, RunnableWithMessageHistory(model(), factory), "Hi", to())
        assert made == [(before, before)]
        assert connections() > before


def test_describing_a_chain_calls_no_factory() -> None:
    """T13, M:get_graph, M:get_prompts: nor does it need a session."""

    def factory(session_id: str) -> Any:
        raise AssertionError("a history was opened")

    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{q}")])
    chain = RunnableWithMessageHistory(
        prompt | model(), factory, input_messages_key="q", history_messages_key="past"
    )
    for config in (None, to()):
        assert chain.get_prompts(config) == [prompt]
        names = [node.name for node in chain.get_graph(config).nodes.values()]
        assert "ChatPromptTemplate" in names
        assert "FakeListChatModel" in names
        assert chain.get_input_schema(config)
        assert chain.get_output_schema(config)
    assert chain.config_specs
    assert chain.config_schema()
    assert (RunnableLambda(lambda value: value) | chain).get_prompts() == [prompt]


# -- asynchronous factories --------------------------------------------------------------------------


class AwaitedFactory:
    """An object whose call is a coroutine."""

    def __init__(self, memory: RedisMemory) -> None:
        self.memory = memory

    async def __call__(self, session_id: str) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(memory=self.memory, session_id=session_id)


@pytest.mark.parametrize("way", AWAITED)
@pytest.mark.parametrize("kind", ["function", "object", "partial"])
async def test_an_asynchronous_factory_serves_awaited_calls(kept: RedisMemory, way: str, kind: str) -> None:
    """R22, T11: a coroutine function, an object with an awaited call, or a partial of one."""

    async def factory(session_id: str) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(memory=kept, session_id=session_id)

    async def wider(memory: RedisMemory, session_id: str) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(memory=memory, session_id=session_id)

    kinds: dict[str, Any] = {
        "function": factory,
        "object": AwaitedFactory(kept),
        "partial": partial(wider, kept),
    }
    await once(way, RunnableWithMessageHistory(model(), kinds[kind]), "Hi", to())
    assert said(kept) == HI


@pytest.mark.parametrize("way", SYNC)
async def test_an_asynchronous_factory_is_refused_by_other_calls(kept: RedisMemory, way: str) -> None:
    """R22, T11: with a TypeError that says what to call instead, and no coroutine left behind."""
    counts = Counts()
    with pytest.raises(AsyncOnly, match="ainvoke") as caught:
        await once(way, RunnableWithMessageHistory(counts, AwaitedFactory(kept)), "Hi", to())
    assert isinstance(caught.value, TypeError)
    assert counts.runs == 0


# -- values of the key -------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("source", ["memory", "factory"])
@pytest.mark.parametrize("value", ["", None, 7, 0, b"s1", ["s1"]])
async def test_what_is_no_text_names_no_session(namespace: str, way: str, source: str, value: Any) -> None:
    """R23, T19: empty, None and whatever is no text is refused before a factory or a model runs."""
    with RedisMemory.from_url(f"fake://{namespace}") as memory:
        counts, factory = Counts(), Factory(memory)
        chain = RunnableWithMessageHistory(counts, factory if source == "factory" else memory)
        with pytest.raises((InvalidId, InvalidSetting)):
            await once(way, chain, "Hi", to(value))
        assert (counts.runs, factory.asked) == (0, [])


def test_a_key_that_is_declared_a_number_may_be_one(kept: RedisMemory) -> None:
    """R23: what kind of value names a session is the field's to say; None still does not."""
    number = ConfigurableFieldSpec(id="ticket", annotation=int, is_shared=True)
    chain = RunnableWithMessageHistory(
        model(), lambda ticket: kept.session(f"t{ticket}"), history_factory_config=[number]
    )
    chain.invoke("Hi", {"configurable": {"ticket": 7}})
    assert said(kept, "t7") == HI
    with pytest.raises(InvalidId):
        chain.invoke("Hi", {"configurable": {"ticket": None}})


IDS = [("a:b", "c"), ("a", "b:c"), ("a", "c"), ("b", "c"), ("a", "c "), ("A", "c"), ("a/b", "c"), ("ä", "c")]


@pytest.mark.parametrize("source", ["memory", "factory", "history class"])
@two_ways
async def test_users_and_conversations_never_mix(kept: RedisMemory, source: str, way: str) -> None:
    """R24: one conversation id under two users, two of one user, and ids with separators in them."""
    sources: dict[str, Any] = {
        "memory": (kept, None),
        "factory": (kept.history, [USER, CONVERSATION]),
        "history class": (
            lambda user_id, conversation_id: RedisChatMessageHistory(
                memory=kept, user_id=user_id, conversation_id=conversation_id
            ),
            [USER, CONVERSATION],
        ),
    }
    histories, specs = sources[source]
    seen: list[int] = []

    def count(messages: list[BaseMessage]) -> str:
        seen.append(len(messages))
        return "fine"

    chain = RunnableWithMessageHistory(RunnableLambda(count), histories, history_factory_config=specs)
    for user, conversation in IDS:
        text = f"{user}|{conversation}"
        await once(way, chain, text, {"configurable": {"user_id": user, "conversation_id": conversation}})
    assert seen == [1] * len(IDS)
    for user, conversation in IDS:
        messages = kept.history(user, conversation).load().messages
        assert [message.text for message in messages] == [f"{user}|{conversation}", "fine"]
        assert said(kept, conversation) == []
    assert said(kept, "a:b:c") == []


@two_ways
async def test_a_session_beside_a_user_is_refused(kept: RedisMemory, way: str) -> None:
    """R24, T19: to leave the user out would put those who have the same session id together."""
    chain = RunnableWithMessageHistory(model(), kept)
    for more in ({"user_id": "ann"}, {"conversation_id": "c1"}, {"user_id": "a", "conversation_id": "c"}):
        with pytest.raises(InvalidSetting, match="session_id and"):
            await once(way, chain, "Hi", to("s1", **more))
    assert said(kept) == []


# -- the config --------------------------------------------------------------------------------------


@every_way
async def test_the_callers_config_stays_as_it_was(kept: RedisMemory, way: str) -> None:
    """R25: the history stands in the run's own config, in place of one that the caller supplied."""
    found: list[Any] = []

    def answer(_: list[BaseMessage], config: RunnableConfig) -> AIMessage:
        found.append(config["configurable"])
        config["configurable"]["mine"] = True
        return AIMessage(content="fine")

    theirs = object()
    bound: Any = {"configurable": {"bound": 1}, "tags": ["a"], "metadata": {"b": 1}}
    config: Any = {"configurable": {"session_id": "s1", "message_history": theirs}, "tags": ["c"]}
    before = copy.copy(bound["configurable"]), dict(config["configurable"])
    chain = RunnableWithMessageHistory(RunnableLambda(answer), kept, config=bound)
    await once(way, chain, "Hi", config)
    assert (bound["configurable"], config["configurable"]) == before
    assert config.keys() == {"configurable", "tags"}
    assert (bound["tags"], config["tags"], bound["metadata"]) == (["a"], ["c"], {"b": 1})
    [one] = found
    assert (one["bound"], one["session_id"]) == (1, "s1")
    history = one["message_history"]
    assert isinstance(history, RedisChatMessageHistory)
    assert [message.content for message in history.messages] == ["Hi", "fine"]


async def test_inner_code_can_read_the_history(kept: RedisMemory) -> None:
    """R25: what a factory gave is what inner code finds, awaited or not."""
    made: list[History] = []

    def factory(session_id: str) -> History:
        made.append(kept.session(session_id))
        return made[-1]

    def look(_: Any, config: RunnableConfig) -> str:
        assert config["configurable"]["message_history"] is made[-1]
        return str(made[-1].count())

    chain = RunnableWithMessageHistory(RunnableLambda(look), factory)
    assert chain.invoke("Hi", to()) == "0"
    assert await chain.ainvoke("Hi", to()) == "2"
    assert together(list(chain.stream("Hi", to()))) == "4"


@every_way
@pytest.mark.parametrize("error", [KeyError("mine"), RuntimeError("mine"), TypeError("mine")])
async def test_what_a_factory_raises_arrives_unchanged(namespace: str, way: str, error: Exception) -> None:
    """R26: the very exception, and no model has run."""

    def factory(session_id: str) -> Any:
        raise error

    counts = Counts()
    with pytest.raises(type(error)) as caught:
        await once(way, RunnableWithMessageHistory(counts, factory), "Hi", to())
    assert caught.value is error
    assert counts.runs == 0


async def test_what_an_asynchronous_factory_raises_arrives_unchanged() -> None:
    """R22, R26: the same for a coroutine."""
    error = KeyError("mine")

    async def factory(session_id: str) -> Any:
        raise error

    with pytest.raises(KeyError) as caught:
        await RunnableWithMessageHistory(model(), factory).ainvoke("Hi", to())
    assert caught.value is error


@two_ways
async def test_what_is_no_history_is_refused(way: str) -> None:
    """R26: a factory that gives nothing, or something else, is told so before the model runs."""
    counts = Counts()
    for given in (None, "s1", []):
        with pytest.raises(InvalidSetting, match="no message history"):
            await once(way, RunnableWithMessageHistory(counts, lambda _, it=given: it), "Hi", to())
    assert counts.runs == 0
