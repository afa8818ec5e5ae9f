"""LangChain's messages through a real server, in both codecs."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from memory_redis import RedisMemory
from memory_redis.langchain import from_langchain, to_langchain
from tests.conftest import MakeMemory
from tests.langchain.some_messages import (
    BLOCKS,
    CONSTRUCTOR,
    chunks,
    exactly,
    fields_of,
    plain_messages,
    shown,
)
from tests.support.servers import Server
from tests.unit.strategies import examples

CALL = {"name": "add", "args": {"x": 1, "y": [None, 2.5, "é"]}, "id": "c1", "type": "tool_call"}
USAGE: Any = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_token_details": {"cache_read": 1},
}
CONVERSATION: list[BaseMessage] = [
    SystemMessage("be brief", id="s1"),
    HumanMessage("", name="ann", id="h1", own={"deep": [1, {"x": None}]}),
    AIMessage(
        list(BLOCKS), response_metadata={"output_version": "v1", "model": "m"}, usage_metadata=USAGE, id="a1"
    ),
    AIMessage(
        [],
        tool_calls=[CALL],
        invalid_tool_calls=[{"name": "f", "args": "{", "id": None, "error": "cut"}],
        additional_kwargs={"lc": CONSTRUCTOR},
    ),
    ToolMessage("3", tool_call_id="c1", name="add", status="error", artifact={"raw": [1], "x": CONSTRUCTOR}),
    FunctionMessage(content="\0\x1f\u2028\ufeff\U0001f600", name="f"),
    ChatMessage(content="yo", role="critic"),
    RemoveMessage(id="h1"),
]  # fmt: skip
STREAMED: list[tuple[BaseMessage, BaseMessage]] = [
    (
        AIMessageChunk(
            content="par",
            tool_call_chunks=[{"name": "add", "args": '{"x": 1}', "id": "c2", "index": 0}],
            usage_metadata=USAGE,
            chunk_position="last",
            id="k1",
        ),
        AIMessage(
            "par", tool_calls=[{"name": "add", "args": {"x": 1}, "id": "c2"}], usage_metadata=USAGE, id="k1"
        ),
    ),
    (HumanMessageChunk(content="x", name="ann"), HumanMessage("x", name="ann")),
    (SystemMessageChunk(content="x"), SystemMessage("x")),
    (
        ToolMessageChunk(content="x", tool_call_id="c2", status="error", artifact=[1]),
        ToolMessage("x", tool_call_id="c2", status="error", artifact=[1]),
    ),
    (FunctionMessageChunk(content="x", name="f"), FunctionMessage(content="x", name="f")),
    (ChatMessageChunk(content="x", role="critic"), ChatMessage(content="x", role="critic")),
]


@pytest.mark.anyio
@pytest.mark.parametrize("codec", ["msgpack", "json"])
async def test_a_conversation_comes_back_from_the_server(memory: MakeMemory, codec: Any) -> None:
    """R101 to R107, R115, C01, C10, T15: messages of every class are the same, in order, on either face."""
    history = memory(codec=codec).history("ann", "c1")
    await history.append(*map(from_langchain, CONVERSATION))
    back = [to_langchain(message) for message in (await history.load()).messages]
    assert back == CONVERSATION
    assert list(map(type, back)) == list(map(type, CONVERSATION))
    assert [exactly(fields_of(message)) for message in back] == [exactly(fields_of(m)) for m in CONVERSATION]
    assert list(map(shown, back)) == list(map(shown, CONVERSATION))


@pytest.mark.anyio
@pytest.mark.parametrize("codec", ["msgpack", "json"])
async def test_streamed_chunks_come_back_as_messages(
    memory: MakeMemory, namespace: str, raw: redis.Redis, codec: Any
) -> None:
    """R109, T4, C04, C05: of every class; no record of them speaks of chunks."""
    history = memory(codec=codec).history("ann", "c1")
    await history.append(*(from_langchain(chunk) for chunk, _ in STREAMED))
    back = [to_langchain(message) for message in (await history.load()).messages]
    assert back == [message for _, message in STREAMED]
    assert list(map(type, back)) == [type(message) for _, message in STREAMED]
    lists = [key for key in raw.scan_iter(match=f"{namespace}:*") if raw.type(key) == b"list"]
    records = [record for key in lists for record in raw.lrange(key, 0, -1)]
    assert len(records) == len(STREAMED)
    assert not any(b"chunk" in record.lower() for record in records)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_random_messages_come_back_from_the_server(valkey: Server, codec: Any) -> None:
    """R101 to R109: whatever class, fields, unknown fields and blocks, in one append."""
    with RedisMemory.from_url(valkey.url, namespace=f"t{secrets.token_hex(6)}", codec=codec) as memory:

        @examples(100)
        @given(messages=st.lists(plain_messages | chunks, min_size=1, max_size=4))
        def check(messages: list[BaseMessage]) -> None:
            history = memory.history("ann", secrets.token_hex(6))
            history.append(*map(from_langchain, messages))
            back = [to_langchain(message) for message in history.load().messages]
            assert [exactly(fields_of(m)) for m in back] == [exactly(fields_of(m)) for m in messages]
            again = history.append(*map(from_langchain, back))
            assert again.number == 2 * len(messages)
            twice = [to_langchain(message) for message in history.load().messages]
            assert twice[: len(back)] == twice[len(back) :] == back

        check()


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_halves_of_characters_are_replaced_and_block_no_turn(
    valkey: Server, namespace: str, codec: Any
) -> None:
    """S3: a lone surrogate, which no encoding holds, is one U+FFFD after loading."""
    with RedisMemory.from_url(valkey.url, namespace=namespace, codec=codec) as memory:
        history = memory.history("ann", "c1")
        history.append(from_langchain(HumanMessage("a\ud800b", additional_kwargs={"\udfff": "\udc00"})))
        (message,) = history.load().messages
        expected = HumanMessage("a\ufffdb", additional_kwargs={"\ufffd": "\ufffd"})
        assert to_langchain(message) == expected
