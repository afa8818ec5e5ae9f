"""Which history a run works on: what the config says, what a factory gives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from memory_redis import InvalidId, InvalidSetting, RedisMemory
from memory_redis.history import History
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory
from tests.langchain.support import (
    BATCHES,
    CONVERSATION,
    HI,
    USER,
    Counts,
    Factory,
    every_way,
    many,
    model,
    once,
    said,
    to,
    two_ways,
)

pytestmark = pytest.mark.anyio


# -- a missing session -------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"other": "s1"}}])
async def test_a_missing_session_is_an_error_that_helps(namespace: str, way: str, config: Any) -> None:
    """R13: missing keys, expected keys and an example of a call; no model has run."""
    with RedisMemory.from_url(f"fake://{namespace}") as memory:
        counts = Counts()
        chain = RunnableWithMessageHistory(counts, memory.session)
        with pytest.raises(ValueError) as caught:
            await once(way, chain, "Hi", config)
    words = str(caught.value)
    assert "missing keys ['session_id'] in config['configurable']" in words
    assert "expected keys are ['session_id']" in words
    assert "chain.invoke(input, {'configurable': {'session_id': '[your-value-here]'}})" in words
    assert counts.runs == 0


@pytest.mark.parametrize("source", ["memory", "factory"])
def test_missing_and_expected_keys_are_sorted(kept: RedisMemory, source: str) -> None:
    """R13: of two keys, the one that is there is not called missing."""
    chain = RunnableWithMessageHistory(model(), kept)
    if source == "factory":
        chain = RunnableWithMessageHistory(model(), kept.history, history_factory_config=[USER, CONVERSATION])
    with pytest.raises(InvalidSetting) as caught:
        chain.invoke("Hi")
    assert "missing keys ['conversation_id', 'user_id']" in str(caught.value)
    with pytest.raises(InvalidSetting) as caught:
        chain.invoke("Hi", {"configurable": {"user_id": "ann"}})
    assert "missing keys ['conversation_id']" in str(caught.value)
    assert "expected keys are ['conversation_id', 'user_id']" in str(caught.value)


def test_a_stream_is_refused_at_its_first_item(kept: RedisMemory) -> None:
    """R13: to ask for a stream is not to run it."""
    chain = RunnableWithMessageHistory(model(), kept)
    stream = chain.stream("Hi")
    with pytest.raises(ValueError, match="missing keys"):
        next(stream)


@pytest.mark.parametrize("way", BATCHES)
async def test_a_batch_is_refused_before_any_item_runs(kept: RedisMemory, way: str) -> None:
    """R13: one item without a session, and the model is not paid for the others."""
    counts = Counts()
    chain: Any = RunnableWithMessageHistory(counts, kept)
    configs = [to("a"), to("b"), {}]
    with pytest.raises(ValueError, match="missing keys"):
        await many(way, chain, ["1", "2", "3"], configs)
    assert counts.runs == 0
    assert said(kept, "a") == said(kept, "b") == []


@pytest.mark.parametrize("way", BATCHES)
async def test_one_item_without_a_session_fails_alone(kept: RedisMemory, way: str) -> None:
    """R14, T18, M:return_exceptions: its exception stands in its place, the others are stored."""
    chain: Any = RunnableWithMessageHistory(Counts(), kept)
    configs = [to("a"), {}, to("c"), to("")]
    outputs = await many(way, chain, ["1", "2", "3", "4"], configs, return_exceptions=True)
    assert (outputs[0], outputs[2]) == ("fine", "fine")
    assert isinstance(outputs[1], InvalidSetting)
    assert isinstance(outputs[3], InvalidId)
    assert said(kept, "a") == [("human", "1"), ("ai", "fine")]
    assert said(kept, "c") == [("human", "3"), ("ai", "fine")]


# -- where the key is read ---------------------------------------------------------------------------


@every_way
async def test_a_flat_config_names_the_session(kept: RedisMemory, way: str) -> None:
    """R15: a key that no config has moves into configurable."""
    flat: Any = {"session_id": "s1"}
    await once(way, RunnableWithMessageHistory(model(), kept), "Hi", flat)
    assert said(kept) == HI


@two_ways
async def test_a_call_within_a_run_finds_the_session_of_that_run(kept: RedisMemory, way: str) -> None:
    """R15: a function that calls the wrapper without a config hands on its own."""
    chain = RunnableWithMessageHistory(model(), kept)

    async def later(value: str) -> Any:
        return await chain.ainvoke(value)

    outer = RunnableLambda(lambda value: chain.invoke(value), later)
    await once(way, outer, "Hi", to())
    assert said(kept) == HI


# -- factories ---------------------------------------------------------------------------------------


def test_a_factory_of_one_key_is_called_by_position(kept: RedisMemory) -> None:
    """R16: whatever its parameter is called."""

    def factory(whatever: str) -> History:
        return kept.session(whatever)

    def positional(name: str, /) -> History:
        return kept.session(name)

    def collecting(*names: str, **_: Any) -> History:
        return kept.session(*names)

    factories: list[Callable[..., Any]] = [
        factory,
        positional,
        collecting,
        kept.session,
        lambda x: factory(x),
    ]
    for at, one in enumerate(factories):
        RunnableWithMessageHistory(model(), one).invoke("Hi", to(f"s{at}"))
        assert said(kept, f"s{at}") == HI


def test_a_factory_that_takes_nothing_by_position_is_called_by_name(kept: RedisMemory) -> None:
    """R16, R19: a parameter with the name of the key, or any keywords; never a session that all share."""

    def keyword(*, user_id: str | None = None, session_id: str) -> History:
        return kept.session(f"{session_id}-{user_id}")

    def keywords(**given: str) -> History:
        return kept.session(given["session_id"])

    RunnableWithMessageHistory(model(), keyword).invoke("Hi", to("a", user_id="ann"))
    RunnableWithMessageHistory(model(), keywords).invoke("Hi", to("b"))
    assert said(kept, "a-ann") == said(kept, "b") == HI


def test_a_factory_of_several_keys_is_called_by_their_names(kept: RedisMemory) -> None:
    """R17: in whatever order it takes them, and by keyword only too."""
    config: Any = {"configurable": {"user_id": "ann", "conversation_id": "c1"}}

    def keyword_only(*, conversation_id: str, user_id: str) -> History:
        return kept.history(user_id, conversation_id)

    factories: list[Callable[..., Any]] = [
        *(kept.history, keyword_only),
        lambda conversation_id, user_id: kept.history(user_id, conversation_id),
    ]
    for factory in factories:
        chain = RunnableWithMessageHistory(model(), factory, history_factory_config=[USER, CONVERSATION])
        chain.invoke("Hi", config)
    assert kept.history("ann", "c1").count() == 6


@two_ways
@pytest.mark.parametrize(
    "factory",
    [
        lambda user_id: None,
        lambda user_id, chat_id: None,
        lambda user_id, conversation_id, tenant: None,
        lambda **keys: None,
        lambda user_id, **keys: None,
        lambda: None,
    ],
    ids=["too few", "another name", "too many", "any", "one and any", "none"],
)
async def test_a_factory_with_other_parameters_is_refused(kept: RedisMemory, way: str, factory: Any) -> None:
    """R17: the names must be those of the keys; which are which is not guessed."""
    chain = RunnableWithMessageHistory(model(), factory, history_factory_config=[USER, CONVERSATION])
    with pytest.raises(ValueError, match=r"\['conversation_id', 'user_id'\] do not match parameter names"):
        await once(way, chain, "Hi", {"configurable": {"user_id": "ann", "conversation_id": "c1"}})


@every_way
@pytest.mark.parametrize("config", [None, {}, {"tags": ["x"]}, {"configurable": {"other": 1}}])
async def test_a_factory_without_parameters_needs_no_config(namespace: str, way: str, config: Any) -> None:
    """R18: it is called bare, and its one history serves all calls."""
    with RedisMemory.from_url(f"fake://{namespace}") as memory:
        chain = RunnableWithMessageHistory(model(), lambda: memory.session("s1"))
        await once(way, chain, "Hi", config)
        assert said(memory) == HI


@every_way
async def test_an_optional_parameter_is_filled_from_the_config(kept: RedisMemory, way: str) -> None:
    """R19: where the config has it; else the factory's own default stands."""
    asked: list[Any] = []

    def factory(session_id: str, *, user_id: str | None = None, lang: str = "en") -> History:
        asked.append((session_id, user_id, lang))
        return kept.session(session_id)

    chain = RunnableWithMessageHistory(model(), factory)
    await once(way, chain, "Hi", to("a"))
    await once(way, chain, "Hi", to("b", user_id="ann", other="x"))
    assert asked == [("a", None, "en"), ("b", "ann", "en")]


def test_a_config_changes_no_setting_of_a_history(namespace: str) -> None:
    """R19: what a partial has set, and the parameters of a class, are not for a config to fill.

    A config may hold what a request brought: a URL in it must not lead to another server.
    """
    url, elsewhere = f"fake://{namespace}", "redis://nowhere.invalid"
    asked: list[str] = []

    def factory(session_id: str, *, url: str) -> RedisChatMessageHistory:
        asked.append(url)
        return RedisChatMessageHistory(session_id, url)

    more = {"url": elsewhere, "key_prefix": "theirs", "ttl": 1, "user_id": "bob", "memory": None}
    for at, one in enumerate([partial(RedisChatMessageHistory, url=url), partial(factory, url=url)]):
        history = RedisChatMessageHistory(f"s{at}", url)
        RunnableWithMessageHistory(model(), one).invoke("Hi", to(f"s{at}", **more))
        assert [message.content for message in history.messages] == ["Hi", "fine"]
    assert asked == [url]


@every_way
async def test_a_factory_is_called_once_a_run(kept: RedisMemory, way: str) -> None:
    """R20: in a call, a stream and a batch, and never to describe the chain."""
    factory = Factory(kept)
    chain = RunnableWithMessageHistory(model(), factory)
    await once(way, chain, "Hi", to())
    assert factory.asked == ["s1"]


@pytest.mark.parametrize("way", BATCHES)
async def test_a_factory_is_called_once_for_each_item(kept: RedisMemory, way: str) -> None:
    """R20: with the session of the item."""
    factory = Factory(kept)
    chain = RunnableWithMessageHistory(model(), factory)
    await many(way, chain, ["1", "2", "3"], [to("a"), to("b"), to("a")])
    assert sorted(factory.asked) == ["a", "a", "b"]
