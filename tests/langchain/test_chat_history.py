"""`RedisChatMessageHistory`: LangChain's methods on a conversation in Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
)

from memory_redis import (
    InvalidMessage,
    RedisMemory,
    ServerUnavailable,
)
from memory_redis.langchain import RedisChatMessageHistory
from tests.langchain.kit import Watched, awaited, said, talk, without_threads
from tests.support.servers import Server

pytestmark = pytest.mark.anyio

NOBODY = "redis://127.0.0.1:1/0"
CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}
EVERY_KIND: list[BaseMessage] = [
    SystemMessage(content="rule"),
    HumanMessage(content="Hi", name="ann"),
    AIMessage(content="let me see", tool_calls=[CALL], id="a1"),
    ToolMessage(content="2", tool_call_id="k1", artifact={"raw": [1]}),
    FunctionMessage(content="3", name="add"),
    ChatMessage(content="hm", role="critic"),
    AIMessage(content=[{"type": "text", "text": "fine"}, {"type": "image", "url": "u"}]),
]


@pytest.fixture
def make(valkey: Server, namespace: str) -> Callable[..., RedisChatMessageHistory]:
    """Makes histories in a namespace of the test's own."""

    def one(session_id: str | None = "s", **more: Any) -> RedisChatMessageHistory:
        return RedisChatMessageHistory(session_id, **{"url": valkey.url, "key_prefix": namespace} | more)

    return one


Make = Callable[..., RedisChatMessageHistory]


@pytest.fixture
def plain(valkey: Server) -> Iterator[redis.Redis]:
    with valkey.client() as client:
        yield client


def test_messages_is_a_list_of_what_was_added(make: Make) -> None:
    """R63, R64, R65, R72, A01, E10, E11: every kind of message, one by one and at once, oldest first."""
    history = make()
    assert history.messages == []
    for message in EVERY_KIND:
        history.add_message(message)
    assert type(history.messages) is list
    assert history.messages == EVERY_KIND
    history.add_messages(EVERY_KIND)
    history.add_messages(tuple(EVERY_KIND))
    history.add_messages([])
    assert make().messages == EVERY_KIND * 3
    assert [type(message) for message in history.messages] == [type(message) for message in EVERY_KIND] * 3


def test_helpers_take_texts_and_messages(make: Make) -> None:
    """R66, R72: what the user said and what the model said."""
    history = make()
    history.add_user_message("Hi")
    history.add_ai_message("Hello")
    history.add_user_message(HumanMessage(content="How?", name="ann"))
    history.add_ai_message(AIMessage(content="Fine", id="a1"))
    assert history.messages == [
        HumanMessage(content="Hi"),
        AIMessage(content="Hello"),
        HumanMessage(content="How?", name="ann"),
        AIMessage(content="Fine", id="a1"),
    ]


def test_clear_leaves_nothing(make: Make) -> None:
    """R67, R74, R88: also where nothing was; what is added afterwards stands alone."""
    history = make()
    history.clear()
    history.add_user_message("Hi")
    history.clear()
    assert history.messages == []
    assert len(history) == 0
    history.add_user_message("Again")
    assert said(history.messages) == talk("Again")


def test_a_session_that_nobody_wrote_to_is_empty(make: Make, plain: redis.Redis, namespace: str) -> None:
    """R75: an empty list, no error; and asking makes no key."""
    history = make("never seen")
    assert history.messages == []
    assert len(history) == 0
    assert str(history) == ""
    assert list(plain.scan_iter(f"{namespace}:*")) == []


def test_the_awaited_methods_do_the_same(make: Make) -> None:
    """R68: native twins of messages, add_messages and clear, on what the others have stored."""
    history = make()
    history.add_user_message("Hi")

    async def run() -> list[list[BaseMessage]]:
        before = await history.aget_messages()
        await history.aadd_messages(EVERY_KIND)
        await history.aadd_messages([])
        after = await history.aget_messages()
        await history.aclear()
        return [before, after, await history.aget_messages()]

    assert awaited(run()) == [[HumanMessage(content="Hi")], [HumanMessage(content="Hi"), *EVERY_KIND], []]
    assert history.messages == []


def test_the_awaited_methods_use_no_thread(make: Make, valkey: Server) -> None:
    """R68, T10: they work where every thread is taken; over a client of the sync kind they would wait."""

    async def use(history: Any) -> None:
        await history.aadd_messages([HumanMessage(content="Hi")])
        assert len(await history.aget_messages()) == 1
        await history.aclear()

    async def native() -> None:
        await make("other").aget_messages()  # to open this loop's connections takes a thread, once
        async with without_threads():
            await use(make())

    async def threaded() -> None:
        with valkey.client() as client:
            async with without_threads(0.1):
                await use(RedisChatMessageHistory("t", memory=RedisMemory(client)))

    awaited(native())
    with pytest.raises(TimeoutError):
        awaited(threaded())


def test_length_is_one_small_question(valkey: Server, namespace: str) -> None:
    """R71: the number of messages stored, without reading them."""
    with Watched(valkey.address) as watched:
        history = RedisChatMessageHistory("s", url=watched.url, key_prefix=namespace)
        history.add_messages([HumanMessage(content="x" * 1000)] * 50)
        watched.names()
        assert len(history) == 50
        assert watched.names() == ["LLEN"]


def test_many_messages_are_one_command(valkey: Server, namespace: str) -> None:
    """R73, R64, E14, T8: a bulk add is one script, whatever its length."""
    with Watched(valkey.address) as watched:
        history = RedisChatMessageHistory("s", url=watched.url, key_prefix=namespace)
        history.add_user_message("first")
        watched.names()
        history.add_messages([HumanMessage(content=str(number)) for number in range(100)])
        assert watched.names() == ["EVALSHA"]

        async def run() -> None:
            await history.aadd_messages([HumanMessage(content=str(number)) for number in range(100)])
            await history.aget_messages()

        awaited(run())
        names = watched.names()
        assert names.count("EVALSHA") == 1
        assert names.count("LRANGE") == 1
        assert len(history) == 201


def test_a_bulk_add_stores_all_or_none(make: Make) -> None:
    """R64, T8: one that cannot be stored keeps the others out, and the error says which it is."""
    history = make()
    good = HumanMessage(content="Hi")
    bad: list[Any] = [object(), "Hi", ("human", "Hi"), None, HumanMessage(content="Hi", when=object())]
    for message in bad:
        with pytest.raises(InvalidMessage):
            history.add_messages([good, message, good])
        with pytest.raises(InvalidMessage):
            awaited(history.aadd_messages([good, message, good]))
    with pytest.raises(InvalidMessage, match="message 1"):
        history.add_messages([good, "Hi"])  # type: ignore[list-item]
    assert history.messages == []


def test_its_text_is_a_line_for_each_message(make: Make) -> None:
    """R69: as LangChain writes histories, each role by its name."""
    history = make()
    history.add_messages(EVERY_KIND)
    lines = str(history).splitlines()
    assert lines[:2] == ["System: rule", "Human: Hi"]
    assert lines[2].startswith("AI: let me see")
    assert lines[3:] == ["Tool: 2", "Function: 3", "critic: hm", "AI: fine"]
    assert str(history) == get_buffer_string(EVERY_KIND)
    history.add_message(RemoveMessage(id="a1"))
    assert len(str(history).splitlines()) == len(EVERY_KIND) + 1


def test_neither_repr_nor_truth_asks_the_server() -> None:
    """D05: they do no I/O, an empty history is true, and the repr shows neither id nor URL."""
    history = RedisChatMessageHistory("secret-id", url="redis://:hunter2@127.0.0.1:1/0")
    assert history
    assert "secret" not in repr(history)
    assert "hunter2" not in repr(history)
    assert "127.0.0.1" not in repr(history)
    assert repr(history).startswith("<RedisChatMessageHistory ")
    with pytest.raises(ServerUnavailable):
        len(RedisChatMessageHistory("s", memory=RedisMemory.from_url(NOBODY, deadline=0.05)))


async def test_repr_and_truth_work_while_the_server_stands_still(valkey: Server, namespace: str) -> None:
    """D05: in a coroutine, on a connection that nothing comes over."""
    with Watched(valkey.address) as watched:
        history = RedisChatMessageHistory("s", url=watched.url, key_prefix=namespace)
        history.add_user_message("Hi")
        watched.freeze()
        watched.names()
        assert (bool(history), len(repr(history)) > 0) == (True, True)
        assert watched.names() == []


def test_messages_cannot_be_assigned(make: Make) -> None:
    """R70: it says what to use instead, and nothing changes."""
    history = make()
    history.add_user_message("Hi")
    with pytest.raises(NotImplementedError, match="add_messages"):
        history.messages = [HumanMessage(content="other")]
    assert said(history.messages) == talk("Hi")


def test_the_list_is_the_callers_own(make: Make) -> None:
    """R80, T21: what is done to it, to its messages or to what was added changes nothing."""
    history = make()
    added = HumanMessage(content="Hi", additional_kwargs={"a": [1]})
    history.add_message(added)
    added.content = "changed"
    added.additional_kwargs["a"].append(2)
    got = history.messages
    got[0].content = "changed"
    got[0].additional_kwargs["a"].append(3)
    got.append(AIMessage(content="more"))
    assert history.messages == [HumanMessage(content="Hi", additional_kwargs={"a": [1]})]
