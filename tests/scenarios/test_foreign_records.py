"""Records that LangChain's own histories wrote, and lists of both codecs."""

from __future__ import annotations

import json

import pytest
import redis

from memory_redis import AllMessages, LastMessages, StoredMessage, TokenBudget, ai, human, tool
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, orphans, result, texts
from tests.support.foreign import CALL, JAVASCRIPT, PYTHON

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("layout", [PYTHON, JAVASCRIPT], ids=["python", "javascript"])
async def test_records_of_langchain_are_read(
    memory: MakeMemory, raw: redis.Redis, keys: Names, layout: list[tuple[str, StoredMessage]]
) -> None:
    """R76 to R78, R109, R115, J01: layouts of every age of Python and JavaScript, pushed in reading order."""
    raw.rpush(keys.messages, *(record for record, _ in layout))
    history = memory().history("ann", "c1")
    messages = (await history.load()).messages
    assert messages == [expected for _, expected in layout]
    assert {message.stored_at for message in messages} == {None}
    await history.append(human("and on"))
    assert texts(await history.load())[-1] == "and on"
    assert await history.count() == len(layout) + 1


async def test_both_codecs_stand_in_one_list(memory: MakeMemory, raw: redis.Redis, keys: Names) -> None:
    """Both codecs: the setting chooses what is written; every reader takes both."""
    packed, written = memory().history("ann", "c1"), memory(codec="json").history("ann", "c1")
    await packed.append(human("1"), call("a"))
    await written.append(tool("2", tool_call_id="a"), ai("3"))
    await packed.append(human("4", extra={"lc": 1}))
    for history in (packed, written):
        messages = (await history.load()).messages
        assert texts(messages) == ["1", "", "2", "3", "4"]
        assert messages[4].data["extra"] == {"lc": 1}
        assert all(message.stored_at is not None for message in messages)
    assert [record[:1] for record in raw.lrange(keys.messages, 0, -1)] == [b"\1", b"\1", b"{", b"{", b"\1"]


async def test_json_records_are_in_langchains_layout(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """R76, decision 38: outer type and data, the type repeated, defaults written out."""
    await (
        memory(codec="json")
        .history("ann", "c1")
        .append(human("é", name="ann"), ai("", tool_calls=[CALL]), tool("3", tool_call_id="c1"))
    )
    records = [json.loads(record) for record in raw.lrange(keys.messages, 0, -1)]
    assert [record["type"] for record in records] == ["human", "ai", "tool"]
    assert all(record["data"]["type"] == record["type"] for record in records)
    common = {"additional_kwargs": {}, "response_metadata": {}, "id": None}
    assert {**common, "content": "é", "type": "human", "name": "ann"} == records[0]["data"]
    assert records[1]["data"]["tool_calls"] == [CALL]
    assert records[1]["data"]["usage_metadata"] is None
    assert records[2]["data"]["status"] == "success"


async def test_three_hundred_tool_calls_of_others_stay_with_their_results(
    memory: MakeMemory, raw: redis.Redis, keys: Names
) -> None:
    """Promise 3: more than a message of ours may call; a window shows all of the exchange or nothing."""
    ids = [f"c{number}" for number in range(300)]
    foreign = [human("q"), call(*ids), *map(result, ids), ai("done")]
    raw.rpush(keys.messages, *(json.dumps(message.model_dump()) for message in foreign))
    history = memory().history("ann", "c1")
    for window in (AllMessages(), LastMessages(1000), TokenBudget(10**6)):
        assert (await history.load(window)).messages == foreign
    for count in (2, 60, 301, 302):
        shown = (await history.load(LastMessages(count))).messages
        assert orphans(shown) == []
        assert texts(shown)[-1] == "done"
