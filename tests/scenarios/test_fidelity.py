"""What goes in comes out, whoever reads it, wherever."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_redis import AsyncRedisMemory, InvalidMessage, RedisMemory, StoredMessage, ai, human, tool
from tests.conftest import MakeMemory
from tests.scenarios.stored import texts

pytestmark = pytest.mark.anyio

CALLS = [
    {"name": "weather", "args": {"city": "Zürich", "days": [1, 2.5, None]}, "id": "c1", "type": "tool_call"},
    {"name": "time", "args": {}, "id": "c2", "type": "tool_call"},
]
AGENT = [
    human("weather and time?", id="h1"),
    ai("let me see", tool_calls=CALLS, id="a1", usage_metadata={"input_tokens": 3, "output_tokens": 4}),
    tool("sunny", tool_call_id="c1", name="weather", status="success", artifact={"raw": [1, {"x": None}]}),
    tool("no clock", tool_call_id="c2", name="time", status="error"),
    ai("sunny, no idea", invalid_tool_calls=[{"name": "x", "args": "{", "id": None, "error": "cut"}]),
]


async def test_tool_calls_and_results_come_back_field_by_field(coded: MakeMemory) -> None:
    """C01, C13, R104, R105: ids, names, arguments, status, artifact and order."""
    history = coded().history("ann", "c1")
    await history.append(*AGENT)
    loaded = (await history.load()).messages
    assert [message.data for message in loaded] == [message.data for message in AGENT]
    assert loaded[1].tool_calls == CALLS
    assert [message.data["status"] for message in loaded if message.data.get("status")] == ["error"]


async def test_content_that_is_a_list_of_blocks_stays_one(coded: MakeMemory) -> None:
    """C10, R101, R115: blocks, texts among them, empty lists and odd characters."""
    contents: list[Any] = [
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
        ["plain", {"type": "text", "text": "mixed"}],
        [],
        "",
        "\0\x1f\x7f\u2028\ufeff\U0001f468\u200d\U0001f469",
        "{" + "x" * 100_000,
    ]
    history = coded().history("ann", "c1")
    await history.append(*(human(content) for content in contents))
    assert [message.content for message in (await history.load()).messages] == contents


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("writer", ["sync", "async"])
async def test_what_one_face_writes_the_other_reads(
    url: str, namespace: str, codec: Any, writer: str
) -> None:
    """C13: the same objects and the same version from both."""
    sync = RedisMemory.from_url(url, namespace=namespace, codec=codec)
    with sync:
        async with AsyncRedisMemory.from_url(url, namespace=namespace, codec=codec) as other:
            if writer == "sync":
                version = sync.history("ann", "c1").append(*AGENT)
            else:
                version = await other.history("ann", "c1").append(*AGENT)
            ours, theirs = sync.history("ann", "c1").load(), await other.history("ann", "c1").load()
            assert ours == theirs
            assert ours.messages == AGENT
            assert ours.version == version
            assert [m.stored_at for m in ours.messages] == [m.stored_at for m in theirs.messages]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the process's time zone; the old one is back at the end."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    before = os.environ.get("TZ")
    yield set_zone
    monkeypatch.undo()
    assert os.environ.get("TZ") == before
    time.tzset()


async def test_times_are_utc_whatever_the_zone_of_writer_and_reader(coded: MakeMemory, zone: Any) -> None:
    """C22, C23: written in Tokyo, read in New York, equal and aware; what a user wrote stays as it is."""
    one = coded()
    zone("Asia/Tokyo")
    naive, aware = "2026-01-01T12:00:00", "2026-01-01T12:00:00+09:00"
    await one.history("ann", "c1").append(human("1", additional_kwargs={"naive": naive, "aware": aware}))
    seen: list[datetime] = []
    for name in ("UTC", "America/New_York", "Asia/Tokyo"):
        zone(name)
        (message,) = (await one.history("ann", "c1").load()).messages
        (info,) = [info async for info in one.conversations("ann")]
        assert message.data["additional_kwargs"] == {"naive": naive, "aware": aware}
        assert message.stored_at.tzinfo is UTC
        assert info.last_active.tzinfo is UTC
        assert abs((datetime.now(UTC) - message.stored_at).total_seconds()) < 60
        assert abs((info.last_active - message.stored_at).total_seconds()) < 60
        seen.append(message.stored_at)
    assert len(set(seen)) == 1


async def test_appending_what_was_loaded_adds_it_again(coded: MakeMemory) -> None:
    """E02: appends only add; a message without a position is one that was not stored yet."""
    history = coded().history("ann", "c1")
    await history.append(human("1", id="h1"), ai("2", id="a1"))
    messages = [*(await history.load()).messages, human("3")]
    await history.append(*(message for message in messages if message.seq is None))
    assert texts(await history.load()) == ["1", "2", "3"]
    await history.append(*messages)
    assert texts(await history.load()) == ["1", "2", "3", "1", "2", "3"]
    assert [message.seq for message in (await history.load()).messages] == list(range(6))


async def test_saving_a_run_twice_under_its_key_saves_it_once(coded: MakeMemory) -> None:
    """E03: the second save is a no-op by contract when the run has a key, and additive when it has none."""
    history = coded().history("ann", "c1")
    for _ in range(2):
        await history.append(*AGENT, idempotency_key="run 1")
    assert await history.count() == len(AGENT)
    await history.append(*AGENT)
    assert await history.count() == 2 * len(AGENT)


async def test_messages_move_between_conversations_and_codecs_unchanged(memory: MakeMemory) -> None:
    """C21, C13: what was loaded from one is stored in another as the same message."""
    source = memory(codec="json").history("ann", "c1")
    await source.append(*AGENT)
    target = memory().history("bob", "c2")
    await target.append(human("0"), *(await source.load()).messages)
    copied = (await target.load()).messages[1:]
    assert copied == AGENT
    assert [message.seq for message in copied] == [1, 2, 3, 4, 5]


async def test_values_that_only_msgpack_holds_are_refused_in_json(memory: MakeMemory) -> None:
    """Decision 17, C07: NaN, infinities and bytes are kept in format 1, refused by path in JSON."""
    values = {"nan": math.nan, "infinity": math.inf, "bytes": b"\0\xff"}
    packed, written = memory().history("ann", "c1"), memory(codec="json").history("ann", "c2")
    for name, value in values.items():
        message = tool("x", tool_call_id="c1", artifact={name: [value]})
        await packed.append(message)
        with pytest.raises(InvalidMessage) as caught:
            await written.append(message)
        assert caught.value.field == f"data.artifact.{name}.0"
    nan, infinity, some_bytes = ((m.data["artifact"]) for m in (await packed.load()).messages)
    assert math.isnan(nan["nan"][0])
    assert (infinity, some_bytes) == ({"infinity": [math.inf]}, {"bytes": [b"\0\xff"]})
    assert await written.exists() is False


async def test_lone_surrogates_are_replaced_and_block_no_turn(coded: MakeMemory) -> None:
    """S3, decision 17: in content, keys and names, each by one U+FFFD."""
    history = coded().history("ann", "c1")
    await history.append(human("a\ud800b", name="\udfff", extra={"k\ud83d": ["\ude00"]}))
    (message,) = (await history.load()).messages
    assert (message.text, message.name) == ("a\ufffdb", "\ufffd")
    assert message.data["extra"] == {"k\ufffd": ["\ufffd"]}


async def test_tuples_come_back_as_lists(coded: MakeMemory) -> None:
    """Decision 17: as every reader would give them."""
    history = coded().history("ann", "c1")
    await history.append(tool("x", tool_call_id="c1", artifact=(1, (2, "3"))))
    assert (await history.load()).messages[0].data["artifact"] == [1, [2, "3"]]


async def test_dictionaries_that_look_like_constructors_stay_data(coded: MakeMemory) -> None:
    """S2, R102: `lc`, `__class__` and `type: constructor` are content, at every depth."""
    evil = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"__class__": "X"}}
    messages = [
        human([evil]),
        ai("", additional_kwargs=evil),
        StoredMessage(type="system", data={"content": "", "x": evil}),
    ]
    history = coded().history("ann", "c1")
    await history.append(*messages)
    assert (await history.load()).messages == messages
