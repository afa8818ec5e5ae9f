"""What a chat shows of others: everything that was stored since its last look, once, whatever happened."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis

from memory_redis import Limits, MaxMessages, RedisMemory, StoredMessage, ai, human, tool
from memory_redis.cli.following import Follower
from tests.support.servers import Server


@pytest.fixture
def memory(server: Server, namespace: str) -> Iterator[RedisMemory]:
    """A namespace of its own, with what the command line has."""
    with RedisMemory.from_url(server.url, namespace=namespace, on_corrupt="skip") as memory:
        yield memory


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """A plain client."""
    with redis.Redis.from_url(server.url) as client:
        yield client


def some(count: int, start: int = 0) -> list[StoredMessage]:
    return [human(str(number)) for number in range(start, start + count)]


def seqs(messages: list[StoredMessage]) -> list[int | None]:
    return [message.seq for message in messages]


def test_news_is_what_came_since(memory: RedisMemory) -> None:
    """From the beginning on each message is news once; nothing new is no news."""
    history = memory.history("ann", "c")
    history.append(*some(10))
    follower = Follower(history)
    assert seqs(follower.begin(3).messages) == [7, 8, 9]
    assert follower.news().messages == []
    history.append(*some(2))
    history.append(*some(200))
    news = follower.news()
    assert (seqs(news.messages), news.notes) == ([*range(10, 212)], [])
    assert news.version == history.load().version
    assert follower.news().messages == []


def test_a_conversation_that_begins_is_news(memory: RedisMemory) -> None:
    """Who waits in an empty conversation sees its first message, without a note."""
    history = memory.history("ann", "c")
    follower = Follower(history)
    assert follower.begin(3).messages == []
    assert follower.news().messages == []
    history.append(*some(1))
    news = follower.news()
    assert (seqs(news.messages), news.notes) == ([0], [])


@pytest.mark.parametrize(
    ("between", "called"),
    [
        pytest.param(1, "1", id="the call a little before"),
        pytest.param(100, "1", id="the call far before"),
        pytest.param(1, "2", id="no call at all"),
    ],
)
def test_a_result_is_shown_although_its_call_was_shown_before(
    memory: RedisMemory, between: int, called: str
) -> None:
    """A window would leave such a result out, however far back its call stands."""
    history = memory.history("ann", "c")
    history.append(ai("", tool_calls=[{"name": "look", "args": {}, "id": "1", "type": "tool_call"}]))
    history.append(*some(between))
    follower = Follower(history)
    follower.begin(3)
    history.append(human("now"), tool("seen", tool_call_id=called))
    news = follower.news()
    assert ([message.text for message in news.messages], news.notes) == (["now", "seen"], [])


def test_more_than_a_load_may_hold_is_read_by_pages(
    memory: RedisMemory, server: Server, namespace: str
) -> None:
    """Others may store more between two looks than one load gives."""
    limits = Limits(load_bytes=2_000)
    with RedisMemory.from_url(server.url, namespace=namespace, limits=limits) as small:
        follower = Follower(small.history("ann", "c"))
        follower.begin(3)
        memory.history("ann", "c").append(*[human("x" * 100) for _ in range(90)])
        news = follower.news()
    assert (seqs(news.messages), news.notes) == ([*range(90)], [])


def test_a_damaged_message_is_told_and_hides_no_other(
    memory: RedisMemory, raw: redis.Redis, namespace: str
) -> None:
    """Each is told of once, and the messages beside it are shown."""
    history = memory.history("ann", "c")
    follower = Follower(history)
    follower.begin(3)
    history.append(*some(4))
    [key] = raw.keys(f"{namespace}:*:messages")
    raw.lset(key, 1, b"\x01garbage")
    raw.lset(key, 3, b"\x01garbage")
    news = follower.news()
    assert seqs(news.messages) == [0, 2]
    assert news.notes == ["2 messages cannot be shown: they are damaged, or were removed meanwhile"]
    history.append(*some(1))
    news = follower.news()
    assert (seqs(news.messages), news.notes) == ([4], [])
    history.append(*some(1))
    raw.lset(key, 5, b"\x01garbage")
    assert follower.news().notes == ["1 message cannot be shown: it is damaged, or was removed meanwhile"]


def test_what_was_removed_before_it_could_be_shown_is_told(
    memory: RedisMemory, server: Server, namespace: str
) -> None:
    """After a trim that went further than the last look, a note says from where on messages are there."""
    with RedisMemory.from_url(server.url, namespace=namespace, retention=MaxMessages(3)) as capped:
        history = capped.history("ann", "c")
        history.append(*some(3))
        follower = Follower(memory.history("ann", "c"))
        follower.begin(3)
        history.append(*some(2))
        assert (news := follower.news()).notes == []
        assert seqs(news.messages) == [3, 4]
        history.append(*some(9))
        news = follower.news()
    assert (seqs(news.messages), news.notes) == ([11, 12, 13], ["what stood before #11 is no longer stored"])


def test_a_cleared_conversation_goes_on(memory: RedisMemory) -> None:
    """That it was cleared is told once; what comes after it is news."""
    history = memory.history("ann", "c")
    history.append(*some(4))
    follower = Follower(history)
    follower.begin(2)
    history.clear()
    news = follower.news()
    assert (news.messages, news.notes) == ([], ["what stood before #5 is no longer stored"])
    history.append(*some(2))
    news = follower.news()
    assert (seqs(news.messages), news.notes) == ([5, 6], [])


def test_another_life_is_shown_from_its_beginning(
    memory: RedisMemory, raw: redis.Redis, namespace: str
) -> None:
    """A conversation that has ended is told, and one that begins under its name is news as a whole."""
    history = memory.history("ann", "c")
    history.append(*some(4))
    follower = Follower(history)
    follower.begin(2)
    raw.delete(*raw.keys(f"{namespace}:*"))
    news = follower.news()
    assert (news.messages, news.notes) == ([], ["the conversation that was shown so far has ended"])
    history.append(*some(1))
    news = follower.news()
    assert (seqs(news.messages), news.notes) == ([0], [])
    raw.delete(*raw.keys(f"{namespace}:*"))
    history.append(*some(5))
    news = follower.news()
    assert seqs(news.messages) == [0, 1, 2, 3, 4]
    assert news.notes == ["the conversation that was shown so far has ended"]


def test_a_summary_of_what_was_shown_changes_nothing(memory: RedisMemory) -> None:
    """Compaction removes messages that were shown, keeps positions, and is no news."""
    history = memory.history("ann", "c")
    history.append(*some(4))
    follower = Follower(history)
    follower.begin(2)
    history.compact("So it was.", expected=history.load().version, keep=1)
    news = follower.news()
    assert (news.messages, news.notes) == ([], [])
    history.append(*some(1))
    assert seqs(follower.news().messages) == [4]


def test_looks_while_others_write_lose_nothing(memory: RedisMemory) -> None:
    """Four threads append as fast as they can; the looks together show every position once, in order."""
    history = memory.history("ann", "c")
    follower = Follower(history)
    follower.begin(0)

    seen = threading.Event()

    def write() -> None:
        for number in range(60):
            if number == 30:  # who is quick waits for the first look
                assert seen.wait(60)
            history.append(*some(3))

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    shown: list[int | None] = []
    looks = 0
    while any(writer.is_alive() for writer in writers):
        news = follower.news()
        assert news.notes == []
        shown += seqs(news.messages)
        looks += bool(news.messages)
        if looks:
            seen.set()
    last = seqs(follower.news().messages)
    shown += last
    looks += bool(last)
    assert shown == [*range(4 * 60 * 3)]
    assert looks > 1
