"""One conversation: what its methods give, with either codec."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest
import redis

from memory_redis import AppendId, ai, chat, function, human, system, tool
from tests.conftest import MakeMemory
from tests.scenarios.stored import Names, call, keys_in, listed_in, positions, result, texts

pytestmark = pytest.mark.anyio


async def test_every_type_of_message_comes_back_as_it_was(coded: MakeMemory) -> None:
    """R101 to R106: types, names, ids, calls, results and extra fields survive."""
    messages = [
        human("Hi", name="ann", id="h1", colour="blue"),
        ai("", tool_calls=[{"name": "add", "args": {"x": [1, 2.5, None]}, "id": "c1", "type": "tool_call"}]),
        tool("3", tool_call_id="c1", status="error", artifact={"raw": [True]}),
        system("Be kind", additional_kwargs={"lc": 1, "type": "constructor"}),
        function("4", name="add"),
        chat("yo", role="critic", response_metadata={"deep": {"er": ["x"]}}),
        ai([{"type": "text", "text": "a\0b \U0001f600"}, "c"], usage_metadata={"input_tokens": 1}),
        human(""),
        human([]),
    ]
    history = coded().history("ann", "c1")
    await history.append(*messages)
    assert (await history.load()).messages == messages


async def test_a_message_tells_where_it_stands_and_when_it_was_stored(coded: MakeMemory) -> None:
    """Decision 9: each loaded message has its position and the server's time, aware and in UTC."""
    history = coded().history("ann", "c1")
    before = datetime.now(UTC) - timedelta(seconds=1)
    await history.append(human("1"), ai("2"))
    await history.append(human("3"))
    messages = (await history.load()).messages
    assert positions(messages) == [0, 1, 2]
    stamps = [message.stored_at for message in messages]
    assert all(before < stamp < datetime.now(UTC) + timedelta(seconds=1) for stamp in stamps)
    assert stamps == sorted(stamps)
    assert [message.id for message in messages] == [None] * 3


async def test_a_conversation_nobody_wrote_is_empty(memory: MakeMemory) -> None:
    """R75, D9: an unknown conversation is no error and holds nothing."""
    history = memory().history("ann", "c1")
    snapshot = await history.load()
    assert (snapshot.messages, snapshot.version.number, snapshot.trimmed) == ([], 0, 0)
    assert await history.count() == 0
    assert await history.exists() is False
    assert await history.expire_in() is None
    assert await history.settle(AppendId.new()) is None
    assert [message async for message in history.iterate()] == []
    assert bool(history) is True


async def test_looking_at_an_unknown_conversation_leaves_no_key(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """H19: reads, counts, pings, listings and turns without messages create nothing."""
    one = memory()
    for history in (one.history("ann", "c1"), one.session("s1")):
        await history.load()
        await history.count()
        await history.exists()
        await history.expire_in()
        assert [message async for message in history.iterate()] == []
        async with history.turn(idempotency_key="k") as turn:
            assert turn.messages == []
    assert [info async for info in one.conversations("ann")] == []
    assert (await one.forget("ann")).messages == 0
    await one.ping()
    assert keys_in(raw, namespace) == []


async def test_settling_leaves_no_more_than_a_mark(
    memory: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """P9: what settled as not stored stays so for 100 seconds; the mark makes no conversation."""
    one = memory()
    history = one.history("ann", "c1")
    assert await history.settle(AppendId.new()) is None
    assert set(keys_in(raw, namespace)) <= {keys.meta}
    assert raw.pttl(keys.meta) == -2 or 0 < raw.pttl(keys.meta) <= 100_000
    assert await history.exists() is False
    assert (await history.load()).version.number == 0
    assert [info async for info in one.conversations("ann")] == []
    await history.append(human("1"))
    assert raw.pttl(keys.meta) == raw.pttl(keys.messages) == -1


async def test_clear_removes_all_messages_and_says_how_many(
    coded: MakeMemory, raw: redis.Redis, keys: Names, namespace: str
) -> None:
    """R67, H17, decision 2: only a mark without content stays, and that for 100 seconds."""
    history = coded().history("ann", "c1")
    await history.append(human("secret one"), ai("secret two"))
    assert await history.clear() == 2
    assert (await history.load()).messages == []
    assert await history.count() == 0
    assert await history.exists() is False
    assert await history.clear() == 0
    assert set(keys_in(raw, namespace)) <= {keys.meta, keys.index}
    assert listed_in(raw, keys) == set()
    assert 90_000 < raw.pttl(keys.meta) <= 100_000
    assert b"secret" not in repr(raw.hgetall(keys.meta)).encode()


async def test_an_append_after_a_clear_starts_anew(coded: MakeMemory) -> None:
    """Decision 2, P7: nothing comes back, and the version does not return."""
    history = coded().history("ann", "c1")
    before = await history.append(human("1"), ai("2"))
    await history.clear()
    after = await history.append(human("3"))
    assert texts(await history.load()) == ["3"]
    assert after.number > before.number
    assert await history.count() == 1


async def test_changing_what_a_load_gave_changes_nothing_stored(memory: MakeMemory) -> None:
    """R80: a load hands out a list of its own."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    snapshot = await history.load()
    snapshot.messages.clear()
    assert texts(await history.load()) == ["1"]


async def test_conversations_with_awkward_ids_never_meet(memory: MakeMemory) -> None:
    """R24, K06: user and conversation are a pair, a session is none of a user's conversations."""
    one = memory()
    pairs = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a}b", "c"),
        ("a", "}b:c"),
        ("a%3Ab", "c"),
        ("A", "b:c"),
        ("a", "c"),
    ]
    for user, conversation in pairs:
        await one.history(user, conversation).append(human(f"{user}/{conversation}"))
    for session in ("a:c", "c", ":c"):
        await one.session(session).append(human(f"session {session}"))
    for user, conversation in pairs:
        assert texts(await one.history(user, conversation).load()) == [f"{user}/{conversation}"]
    for session in ("a:c", "c", ":c"):
        assert texts(await one.session(session).load()) == [f"session {session}"]


async def test_two_namespaces_share_nothing(memory: MakeMemory, namespace: str) -> None:
    """H15: memories with different namespaces in one database are independent."""
    here, there = memory(), memory(namespace=f"{namespace}x")
    await here.history("ann", "c1").append(human("here"))
    await there.history("ann", "c1").append(human("there"))
    assert texts(await here.history("ann", "c1").load()) == ["here"]
    await there.forget("ann")
    assert texts(await here.history("ann", "c1").load()) == ["here"]


async def test_two_workers_in_turn_give_one_order_that_every_read_sees(memory: MakeMemory) -> None:
    """A05, A19, P5: each append is readable by any other worker once it returned, and stays in its place."""
    first, second = memory().history("ann", "c1"), memory().history("ann", "c1")
    for number in range(50):
        writer, reader = (first, second) if number % 2 else (second, first)
        await writer.append(human(str(number)))
        assert texts((await reader.load()).messages[-1:]) == [str(number)]
    for _ in range(20):
        assert texts(await first.load()) == [str(number) for number in range(50)]


async def test_appends_at_the_same_time_get_positions_of_their_own(memory: MakeMemory) -> None:
    """A11, A06, P4: 20 writers at once, each with a batch of 3 that stays together."""
    history = memory().history("ann", "c1")
    versions: list[int] = []

    async def write(writer: int) -> None:
        version = await history.append(*(human(f"{writer}.{part}") for part in range(3)))
        versions.append(version.number)

    async with anyio.create_task_group() as tasks:
        for writer in range(20):
            tasks.start_soon(write, writer)
    snapshot = await history.load()
    assert sorted(versions) == list(range(3, 63, 3))
    assert positions(snapshot) == list(range(60))
    batches = [texts(snapshot)[at : at + 3] for at in range(0, 60, 3)]
    assert sorted(batches) == sorted([f"{writer}.{part}" for part in range(3)] for writer in range(20))
    assert all(batch[0].partition(".")[2] == "0" for batch in batches)


async def test_an_agents_turn_is_stored_as_one_unit_in_order(coded: MakeMemory) -> None:
    """E08, E10: text before a tool call, the call, its result and the answer all come back."""
    messages = [human("weather?"), call("c1", text="let me check"), result("c1"), ai("sunny")]
    history = coded().history("ann", "c1")
    await history.append(*messages)
    restored = await coded().history("ann", "c1").load()
    assert restored.messages == messages
    assert [message.type for message in restored.messages] == ["human", "ai", "tool", "ai"]


async def test_a_history_says_nothing_of_its_ids(memory: MakeMemory) -> None:
    """P12, D05: a repr does no I/O and shows neither ids nor content."""
    one = memory()
    assert "ann" not in repr(one.history("ann", "secret"))
    assert "secret" not in repr(one.history("ann", "secret"))
    assert "secret" not in repr(human("secret"))
