"""Streams that remember: passed on as they come, stored as one turn at the end, or not at all."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import anyio.to_thread
import pytest

from memory_redis import (
    HistoryCleared,
    HistoryNotSaved,
    InvalidAnswer,
    InvalidMessage,
    LastMessages,
    TurnReport,
    ai,
    human,
)
from tests.scenarios.chats import END, Chats, Script, Stream, lines, one_server, streaming
from tests.scenarios.stored import call, eventually, result

pytestmark = [pytest.mark.anyio, streaming, one_server]


def words(given: Any) -> Iterator[Any]:
    """A model that says three words."""
    yield "one "
    yield "two "
    yield "three"


async def test_chunks_come_as_they_are_made_and_are_stored_at_the_end(chats: Chats) -> None:
    """R56, T4: none waits for the next one; nothing is stored before the last, and all is after the end."""
    made: list[str] = []

    def model(given: Any) -> Iterator[str]:
        for word in ("one ", "two ", "three"):
            made.append(word)
            yield word

    stream = chats.start(model)
    assert made == []
    assert await stream.next() == "one "
    assert (made, chats.said()) == (["one "], [])
    assert [await stream.next(), await stream.next()] == ["two ", "three"]
    assert chats.said() == []
    assert await stream.next() is END
    assert chats.load().messages == [human("Hi"), ai("one two three")]


async def test_a_stream_is_refused_where_it_is_begun(chats: Chats) -> None:
    """R37, T17: not at its first chunk."""
    with pytest.raises(InvalidMessage):
        chats.start(Script(), None)


async def test_a_stream_that_nobody_reads_loads_and_stores_nothing(chats: Chats) -> None:
    """R56: nor does it run the model."""
    stream = chats.start(Script())
    await stream.close()
    chats.start(Script())
    assert chats.said() == []


MERGED: list[tuple[str, list[Any], list[Any]]] = [
    ("texts", ["a", "", "b"], [ai("ab")]),
    ("one text", ["a"], [ai("a")]),
    ("nothing", [], []),
    ("whole messages", [call("x"), result("x"), ai("done")], [call("x"), result("x"), ai("done")]),
    ("texts around a message", ["a", "b", call("x"), "c", "d"], [ai("ab"), call("x"), ai("cd")]),
    ("lists of messages", [[call("x")], [result("x"), ai("done")]], [call("x"), result("x"), ai("done")]),
    ("lists of texts", [["a", "b"], "c", "d"], [ai("a"), ai("b"), ai("cd")]),
    ("dictionaries with a role", [{"role": "assistant", "content": "a"}, "b"], [ai("a"), ai("b")]),
    ("dictionaries", [{"output": "a"}, {"sources": [1]}, {"output": "b", "sources": [2]}], [ai("ab")]),
    ("dictionaries of a role", [{"role": "r", "output": "a"}, {"role": "r", "output": "b"}], [ai("ab")]),
    ("dictionaries of texts that begin alike", [{"output": "1"}, {"output": "10"}], [ai("110")]),
    ("dictionaries of lists", [{"output": [call("x")]}, {"output": [result("x")]}], [call("x"), result("x")]),
    ("dictionaries of messages", [{"output": ai("a")}, {"output": ai("b")}], [ai("a"), ai("b")]),
]


@pytest.mark.parametrize(("chunks", "stored"), [row[1:] for row in MERGED], ids=[row[0] for row in MERGED])
async def test_what_the_chunks_of_a_stream_amount_to_is_stored(
    chats: Chats, chunks: list[Any], stored: list[Any]
) -> None:
    """T5, R45: texts are one message, messages stay themselves, dictionaries are merged key by key."""
    stream = chats.start(lambda given: list(chunks))
    assert await stream.rest() == chunks
    assert chats.load().messages == [human("Hi"), *stored]


async def test_a_very_long_stream_is_one_message(chats: Chats) -> None:
    """T5: 50,000 chunks, joined once."""
    stream = chats.start(lambda given: ["word "] * 50_000)
    assert len(await stream.rest()) == 50_000
    assert chats.load().messages[1].text == "word " * 50_000


async def test_none_in_a_stream_is_passed_on_and_is_nothing(chats: Chats) -> None:
    """R51: model clients send it before, between and after the texts."""
    chunks = [None, "one ", None, "two", None]
    stream = chats.start(lambda given: chunks)
    assert await stream.rest() == chunks
    assert [message.text for message in chats.load().messages] == ["Hi", "one two"]


@pytest.mark.parametrize("bad", [5, b"x", {"answer": None}], ids=repr)
async def test_a_stream_that_amounts_to_no_message_says_so_at_its_end(chats: Chats, bad: Any) -> None:
    """R50, T1: all of it was passed on, nothing is stored, and the error carries it."""
    stream = chats.start(lambda given: ["one ", bad])
    assert [await stream.next(), await stream.next()] == ["one ", bad]
    with pytest.raises(InvalidAnswer) as caught:
        await stream.next()
    assert caught.value.output == ["one ", bad]
    assert chats.said() == []


# -- abandoned and failed ------------------------------------------------------------------------


@pytest.mark.parametrize("read", [1, 2, 3])
async def test_an_abandoned_stream_stores_nothing(chats: Chats, read: int) -> None:
    """E16, T6: whatever was read, also the last chunk; the model is closed, the next turn is whole."""
    closed: list[bool] = []

    def model(given: Any) -> Iterator[str]:
        try:
            yield from words(given)
        finally:
            closed.append(True)

    stream = chats.start(model)
    for _ in range(read):
        await stream.next()
    await stream.close()
    assert closed == [True]
    assert chats.said() == []
    after = Script("ok")
    await chats.wrap(after)("Hi again")
    assert after.seen == [["human: Hi again"]]


@pytest.mark.parametrize("read", [1, 2, 3])
async def test_what_was_read_of_an_abandoned_stream_can_be_kept(chats: Chats, read: int) -> None:
    """E16, T6, decision 27: exactly that, with its question, marked."""
    report = TurnReport()
    stream = chats.start(words, partial="keep", report=report)
    seen = "".join([await stream.next() for _ in range(read)])
    await stream.close()
    assert chats.load().messages == [human("Hi"), ai(seen, response_metadata={"partial": True})]
    assert report.saved
    assert report.version == chats.load().version


async def test_a_stream_that_is_thrown_away_is_an_abandoned_one(chats: Chats) -> None:
    """T6: collected without a close, it is settled by the same rule."""
    streams = [chats.start(words, partial=partial, conversation_id=partial) for partial in ("drop", "keep")]
    for stream in streams:
        await stream.next()
    del stream
    streams.clear()
    gc.collect()
    await eventually(lambda: chats.said("ann", "keep"), "what was read is stored")
    assert chats.said("ann", "keep") == ["human: Hi", "ai: one "]
    assert chats.said("ann", "drop") == []


async def test_a_stream_abandoned_before_its_first_chunk_stores_nothing(chats: Chats) -> None:
    """T6: there is nothing to keep."""
    stream = chats.start(words, partial="keep")
    await stream.close()
    assert chats.said() == []


@pytest.mark.parametrize("made", [0, 1, 2])
async def test_a_stream_that_fails_stores_nothing(chats: Chats, made: int) -> None:
    """R55, T7: what it made before was passed on, and the error arrives unchanged."""
    error = RuntimeError("overloaded")

    def model(given: Any) -> Iterator[str]:
        yield from ["one ", "two "][:made]
        raise error

    stream = chats.start(model)
    for _ in range(made):
        await stream.next()
    with pytest.raises(RuntimeError) as caught:
        await stream.next()
    assert caught.value is error
    assert chats.said() == []


async def test_what_a_stream_made_before_it_failed_can_be_kept(chats: Chats) -> None:
    """R55, E16: marked, and the error is the model's own."""
    error = RuntimeError("overloaded")

    def model(given: Any) -> Iterator[Any]:
        yield "one "
        yield call("x")
        raise error

    stream = chats.start(model, partial="keep")
    assert [await stream.next(), await stream.next()] == ["one ", call("x")]
    with pytest.raises(RuntimeError) as caught:
        await stream.next()
    assert caught.value is error
    stored = chats.load().messages
    assert lines(stored) == ["human: Hi", "ai: one ", "ai: "]
    assert [message.data.get("response_metadata") for message in stored[1:]] == [{"partial": True}] * 2


async def test_a_stream_that_fails_where_its_reader_is_keeps_to_the_same_rule(chats: Chats) -> None:
    """R55: an exception that is thrown in is one of the stream's."""
    for partial, stored in (("drop", []), ("keep", ["human: Hi", "ai: one "])):
        stream = chats.start(words, partial=partial, conversation_id=partial)
        await stream.next()
        with pytest.raises(ValueError, match="mine"):
            await stream.throw(ValueError("mine"))
        assert chats.said("ann", partial) == stored
        assert await stream.next() is END


async def test_a_part_that_cannot_be_stored_does_not_hide_why_the_stream_broke(
    chats: Chats, caplog: pytest.LogCaptureFixture
) -> None:
    """R55, T1: it is logged and reported, without content, and the model's error passes on."""

    def model(given: Any) -> Iterator[Any]:
        yield "secret "
        yield 5
        raise RuntimeError("overloaded")

    report = TurnReport()
    with pytest.raises(RuntimeError, match="overloaded"):
        await chats.start(model, partial="keep", report=report).rest()
    assert isinstance(report.error, HistoryNotSaved)
    assert not report.saved
    assert "part of an answer was not saved" in caplog.text
    assert "secret" not in caplog.text
    assert chats.said() == []


async def test_a_model_that_fails_while_it_is_closed_is_heard(chats: Chats) -> None:
    """R55: its error is not swallowed, and nothing is stored."""

    def model(given: Any) -> Iterator[str]:
        try:
            yield "one "
        finally:
            raise RuntimeError("while closing")

    stream = chats.start(model)
    await stream.next()
    with pytest.raises(RuntimeError, match="while closing"):
        await stream.close()
    assert chats.said() == []


async def test_parts_are_kept_after_what_others_stored_meanwhile(chats: Chats) -> None:
    """T2, T9: by policy append; the report says what was missed."""
    report = TurnReport()
    stream = chats.start(words, partial="keep", report=report)
    await stream.next()
    chats.append(human("other"))
    await stream.close()
    assert chats.said() == ["human: other", "human: Hi", "ai: one "]
    assert lines(report.missed) == ["human: other"]


async def test_parts_are_not_kept_against_the_rules(chats: Chats, caplog: pytest.LogCaptureFixture) -> None:
    """T9: on_conflict="raise" stores nothing on a history that moved on, and the reader's close succeeds."""
    report = TurnReport()
    stream = chats.start(words, partial="keep", on_conflict="raise", report=report)
    await stream.next()
    chats.append(human("other"))
    await stream.close()
    assert chats.said() == ["human: other"]
    assert report.error is not None
    assert not report.saved
    assert "was not saved" in caplog.text


async def test_parts_are_not_kept_in_a_conversation_that_was_cleared(
    chats: Chats, caplog: pytest.LogCaptureFixture
) -> None:
    """T3, decision 2: nothing is brought back, and the reader's close succeeds."""
    chats.append(human("0"))
    report = TurnReport()
    stream = chats.start(words, partial="keep", report=report)
    await stream.next()
    chats.direct.history("ann", "c1").clear()
    await stream.close()
    assert chats.said() == []
    assert report.error is not None
    assert isinstance(report.error.error, HistoryCleared)
    assert "was not saved" in caplog.text


async def test_a_question_that_was_stored_before_stays_when_the_stream_is_abandoned(chats: Chats) -> None:
    """E16, E17, R84: with save_input="before" the next turn sees it; kept parts come after it."""
    for partial, stored in (("drop", ["human: Hi"]), ("keep", ["human: Hi", "ai: one "])):
        stream = chats.start(words, save_input="before", partial=partial, conversation_id=partial)
        await stream.next()
        assert chats.said("ann", partial) == ["human: Hi"]
        await stream.close()
        assert chats.said("ann", partial) == stored


async def test_a_call_that_was_cut_off_does_not_spoil_the_next_turn(chats: Chats) -> None:
    """E17, decision 24: aborted between a call and its result; the model is not shown the call."""
    stream = chats.start(lambda given: [call("x"), result("x"), "done"], partial="keep")
    await stream.next()
    await stream.close()
    assert lines(chats.load().messages) == ["human: Hi", "ai: "]
    model = Script("ok")
    await chats.wrap(model)("Something else")
    assert model.seen == [["human: Hi", "human: Something else"]]


# -- side by side --------------------------------------------------------------------------------


async def test_two_streams_of_two_conversations_keep_apart(chats: Chats) -> None:
    """E18: begun in one order, read by turns, ended in the other; each answer stands in its conversation."""
    model = Script(["a1", "a2", "a3"], ["b1", "b2", "b3"])
    memory = chats.memory()
    a = chats.start(model, "to a", memory, conversation_id="a")
    b = chats.start(model, "to b", memory, conversation_id="b")
    read = [await a.next(), await b.next(), await b.next(), await a.next(), await b.next()]
    assert read == ["a1", "b1", "b2", "a2", "b3"]
    assert await b.next() is END
    assert await a.rest() == ["a3"]
    assert chats.said("ann", "a") == ["human: to a", "ai: a1a2a3"]
    assert chats.said("ann", "b") == ["human: to b", "ai: b1b2b3"]


async def test_two_streams_of_one_conversation_are_both_stored_whole(chats: Chats) -> None:
    """T2, T9, E18: in the order in which they end, and the later one knows what it missed."""
    report = TurnReport()
    memory = chats.memory()
    a = chats.start(lambda given: ["a1", "a2"], "to a", memory, report=report)
    b = chats.start(lambda given: ["b1", "b2"], "to b", memory)
    assert [await a.next(), await b.next(), await b.next(), await b.next()] == ["a1", "b1", "b2", END]
    assert await a.rest() == ["a2"]
    assert chats.said() == ["human: to b", "ai: b1b2", "human: to a", "ai: a1a2"]
    assert lines(report.missed) == ["human: to b", "ai: b1b2"]


async def test_a_turn_may_be_taken_while_a_stream_is_open(chats: Chats) -> None:
    """E18, T23: between two chunks the model is not at work, so this is no nesting."""
    memory = chats.memory()
    stream = chats.start(words, "first", memory)
    await stream.next()
    assert await chats.wrap(Script("ok"), memory)("second") == "ok"
    await stream.rest()
    assert chats.said() == ["human: second", "ai: ok", "human: first", "ai: one two three"]


async def test_a_stream_may_be_read_by_other_threads_than_began_it(chats: Chats) -> None:
    """E18: as web frameworks do, a chunk in a thread each; asynchronous ones, a chunk in a task each."""
    stream = chats.start(words)
    read: list[Any] = []

    async def read_one() -> None:
        chunk = await stream.next() if stream.asynchronous else await in_thread(stream)
        read.append(chunk)

    for _ in range(4):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_one)
    assert read == ["one ", "two ", "three", END]
    assert chats.said() == ["human: Hi", "ai: one two three"]


async def in_thread(stream: Stream) -> Any:
    return await anyio.to_thread.run_sync(next, stream.chunks, END)


async def test_the_model_of_a_stream_sees_the_window_of_its_beginning(chats: Chats) -> None:
    """T20, T25: a load at the first chunk, and none after it."""
    chats.append(*(human(str(number)) for number in range(4)))
    seen: list[list[str]] = []

    def model(given: Any) -> Iterator[str]:
        yield "one "
        chats.append(human("meanwhile"))
        seen.append(lines(given))
        yield "two"

    await chats.start(model, window=LastMessages(2)).rest()
    assert seen == [["human: 2", "human: 3", "human: Hi"]]
    assert chats.said()[4:] == ["human: meanwhile", "human: Hi", "ai: one two"]
