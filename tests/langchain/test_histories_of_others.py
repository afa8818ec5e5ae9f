"""Chat message histories that are not ours under the wrapper: what they can do, and where that ends."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage

from memory_redis import (
    AsyncOnly,
    HistoryNotSaved,
    InvalidMessage,
    InvalidSetting,
    TurnReport,
    UnansweredCall,
)
from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import (
    AWAITED,
    AsyncOnlyHistory,
    OthersHistory,
    Runs,
    ask,
    both_streams,
    chunks_of,
    every_way,
    model,
    said,
    talk,
    without_threads,
)

pytestmark = pytest.mark.anyio

CONFIG: Any = {"configurable": {"session_id": "s"}}
CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}


def over(history: Any, inner: Any = None, **options: Any) -> RunnableWithMessageHistory:
    """A wrapper over one history of somebody's."""
    inner = Runs() if inner is None else inner
    return RunnableWithMessageHistory(inner, lambda session_id: history, **options)


def in_memory() -> Any:
    """A subclass of LangChain's own base class, for as long as there is one; it keeps a list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_core.chat_history import BaseChatMessageHistory

        class InMemory(BaseChatMessageHistory):
            def __init__(self) -> None:
                super().__init__()
                self.messages = []

            def add_message(self, message: BaseMessage) -> None:
                self.messages.append(message)

            def clear(self) -> None:
                self.messages = []

        return InMemory()


@every_way
async def test_a_subclass_of_langchains_base_class_serves(way: str) -> None:
    """R63, R64, T10, R21: with the base's own bulk and awaited methods, three turns long; no warning."""
    history, inner = in_memory(), model("fine thank you")
    chain = over(history, inner)
    for number in range(3):
        await ask(way, chain, f"question {number}", CONFIG)
    assert [len(asked) for asked in inner.asked] == [1, 3, 5]
    assert said(history.messages[:4]) == talk("question 0", "fine thank you", "question 1", "fine thank you")
    assert not any(isinstance(message, AIMessageChunk) for message in history.messages)


@every_way
async def test_a_history_with_sync_methods_serves_awaited_calls(way: str) -> None:
    """T10: messages and add_messages are enough; one read and one write a run."""
    history = OthersHistory(HumanMessage(content="before"), AIMessage(content="yes"))
    runs = Runs()
    await ask(way, over(history, runs), "Hi", CONFIG)
    assert said(runs.asked[0]) == talk("before", "yes", "Hi")
    assert said(history.kept) == talk("before", "yes", "Hi", "fine")
    assert (history.reads, len(history.writes)) == (1, 1)


@pytest.mark.parametrize("way", AWAITED)
async def test_a_history_with_awaited_methods_serves_without_threads(way: str) -> None:
    """T10: its own coroutines are used, and `messages`, which it refuses, is not touched."""
    history, inner = AsyncOnlyHistory(), model("fine thank you")
    async with without_threads():
        for _ in range(2):
            await ask(way, over(history, inner), "Hi", CONFIG)
    assert said(history.kept) == talk("Hi", "fine thank you", "Hi", "fine thank you")
    assert (history.reads, history.writes) == (2, 2)


@pytest.mark.parametrize("way", ["invoke", "stream"])
async def test_a_history_with_awaited_methods_only_refuses_other_calls(way: str) -> None:
    """T10: with a TypeError that says what to use, before the model runs."""
    runs = Runs()
    with pytest.raises(AsyncOnly, match="ainvoke"):
        await chunks_of(way, over(AsyncOnlyHistory(), runs), "Hi", CONFIG)
    assert runs.calls == 0


@every_way
@pytest.mark.parametrize("shape", [tuple, iter, list])
async def test_messages_may_be_any_iterable(way: str, shape: Any) -> None:
    """R63: LangChain's wrapper wants a list, and copies it; a tuple or an iterator does as well."""

    class Shaped(OthersHistory):
        @property
        def messages(self) -> Any:
            return shape(self.kept)

    history, runs = Shaped(HumanMessage(content="before"), AIMessage(content="yes")), Runs()
    await ask(way, over(history, runs), "Hi", CONFIG)
    assert said(runs.asked[0]) == talk("before", "yes", "Hi")
    assert said(history.kept) == talk("before", "yes", "Hi", "fine")


@every_way
async def test_one_without_bulk_adds_gets_message_after_message(way: str) -> None:
    """R64, R73: where there is no add_messages, add_message is called for each, in order."""

    class OneByOne:
        def __init__(self) -> None:
            self.messages: tuple[BaseMessage, ...] = ()

        def add_message(self, message: BaseMessage) -> None:
            self.messages = (*self.messages, message)

    history = OneByOne()
    for _ in range(2):
        await ask(way, over(history), "Hi", CONFIG)
    assert said(history.messages) == talk("Hi", "fine", "Hi", "fine")


class Failing(OthersHistory):
    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        raise OSError("disk full")


@every_way
async def test_one_that_fails_to_save_loses_no_answer(way: str) -> None:
    """T1: HistoryNotSaved carries the answer and the error; nothing is swallowed, the model ran once."""
    runs = Runs("an expensive answer")
    with pytest.raises(HistoryNotSaved) as caught:
        await chunks_of(way, over(Failing(), runs), "Hi", CONFIG)
    assert caught.value.output == "an expensive answer"
    assert isinstance(caught.value.error, OSError)
    assert isinstance(caught.value.__cause__, OSError)
    assert runs.calls == 1
    told: list[HistoryNotSaved] = []
    assert await ask(way, over(Failing(), runs, on_save_error=told.append), "Hi", CONFIG) == (
        "an expensive answer"
    )
    assert [error.output for error in told] == ["an expensive answer"]


@every_way
async def test_one_that_cannot_take_the_question_fails_before_the_model(way: str) -> None:
    """T7, T17: with save_input="before" its own error, unchanged: there is no answer that could be lost."""
    runs = Runs()
    with pytest.raises(OSError, match="disk full"):
        await chunks_of(way, over(Failing(), runs, save_input="before"), "Hi", CONFIG)
    assert runs.calls == 0


@every_way
async def test_one_that_fails_to_load_fails_before_the_model(way: str) -> None:
    """T17: its own error, unchanged, and no model was paid for."""

    class Unreadable(OthersHistory):
        @property
        def messages(self) -> Any:
            raise OSError("no disk")

    runs = Runs()
    with pytest.raises(OSError, match="no disk"):
        await chunks_of(way, over(Unreadable(), runs), "Hi", CONFIG)
    assert runs.calls == 0


@pytest.mark.parametrize("way", ["batch", "abatch"])
async def test_runs_side_by_side_lose_no_question(way: str) -> None:
    """T2: nothing is recognised by counting, so a batch over one history keeps every turn, whole."""
    history = OthersHistory(HumanMessage(content="before"), AIMessage(content="yes"))
    questions = [f"question {number}" for number in range(8)]
    chain = over(history)
    if way == "batch":
        chain.batch(questions, CONFIG)
    else:
        await chain.abatch(questions, CONFIG)
    assert sorted(said(write)[0][1] for write in history.writes) == questions
    assert all(said(write)[1] == ("ai", "fine") for write in history.writes)
    assert len(history.kept) == 18


@every_way
async def test_one_that_is_cleared_meanwhile_gets_the_turn_alone(way: str) -> None:
    """T3: the old messages, which the model has seen, are not written again."""
    history = OthersHistory(HumanMessage(content="before"), AIMessage(content="yes"))

    def answer(messages: list[BaseMessage]) -> str:
        history.clear()
        return str(len(messages))

    assert await ask(way, over(history, answer), "Hi", CONFIG) == "3"
    assert said(history.kept) == talk("Hi", "3")


@both_streams
async def test_streams_store_messages_there_too(way: str) -> None:
    """T4, T5: no chunk gets into somebody's history."""
    history = OthersHistory()
    answer = AIMessage(content="let me see", tool_calls=[CALL], id="a1")
    await ask(way, over(history, model(answer)), "Hi", CONFIG)
    [question, kept] = history.kept
    assert type(kept) is AIMessage
    assert (kept.content, kept.tool_calls, kept.id) == ("let me see", [CALL], "a1")
    assert type(question) is HumanMessage


@every_way
async def test_its_messages_are_copies(way: str) -> None:
    """T21: neither the caller's question nor the model's answer is stored by reference."""
    history = OthersHistory()
    question, answer = HumanMessage(content="Hi"), AIMessage(content="fine", additional_kwargs={"a": [1]})
    await ask(way, over(history, Runs(answer)), question, CONFIG)
    question.content = "changed"
    answer.additional_kwargs["a"].append(2)
    assert history.kept == [
        HumanMessage(content="Hi"),
        AIMessage(content="fine", additional_kwargs={"a": [1]}),
    ]


class Thing:
    """Something that we could not store."""


@every_way
async def test_what_it_holds_need_not_be_storable_here(way: str) -> None:
    """E10, R42: artifacts and fields that only the other history can keep pass through, calls are paired."""
    thing = Thing()
    past = [
        HumanMessage(content="1 + 1?", thing=thing),
        AIMessage(content="", tool_calls=[CALL]),
        ToolMessage(content="2", tool_call_id="k1", artifact=thing),
        AIMessage(content="", tool_calls=[{**CALL, "id": "k2"}]),
    ]
    history, runs = OthersHistory(*past), Runs()
    await ask(way, over(history, runs), HumanMessage(content="Hi", thing=thing), CONFIG)
    assert runs.asked[0][:3] == past[:3]
    assert runs.asked[0][2].artifact is thing
    assert [message.content for message in runs.asked[0]] == ["1 + 1?", "", "2", "Hi"]
    assert said(history.kept[-2:]) == talk("Hi", "fine")


@every_way
async def test_calls_without_an_answer_are_treated_as_ours(way: str) -> None:
    """E17: dropped from what the model sees by default, kept or refused on demand; never removed."""
    past = [HumanMessage(content="1 + 1?"), AIMessage(content="", tool_calls=[CALL])]
    for unanswered, sight in (("drop", 2), ("keep", 3)):
        history, runs = OthersHistory(*past), Runs()
        await ask(way, over(history, runs, unanswered=unanswered), "Hi", CONFIG)
        assert len(runs.asked[0]) == sight
        assert history.kept[:2] == past
    history, runs = OthersHistory(*past), Runs()
    with pytest.raises(UnansweredCall):
        await ask(way, over(history, runs, unanswered="raise"), "Hi", CONFIG)
    assert (runs.calls, history.writes) == (0, [])
    result = ToolMessage(content="2", tool_call_id="k1")
    await ask(way, over(history, runs, unanswered="raise"), [result], CONFIG)
    assert runs.asked[0] == [*past, result]


@every_way
async def test_the_question_first_is_shown_once(way: str) -> None:
    """T7, R84: save_input="before" is two writes, and the model sees the question once."""
    history, inner = OthersHistory(), model(RuntimeError("down"), "fine thank you")
    chain = over(history, inner, save_input="before")
    with pytest.raises(RuntimeError):
        await ask(way, chain, "Hi", CONFIG)
    assert said(history.kept) == talk("Hi")
    await ask(way, chain, "Again", CONFIG)
    assert said(inner.asked[1]) == [("human", "Hi"), ("human", "Again")]
    assert [said(write) for write in history.writes[1:]] == [talk("Again"), [("ai", "fine thank you")]]


@both_streams
async def test_part_of_an_answer_can_be_kept(way: str) -> None:
    """T6: with partial="keep" what was delivered is stored, and marked."""
    history = OthersHistory()
    chain = over(history, model(("one two", RuntimeError("cut"))), partial="keep")
    with pytest.raises(RuntimeError, match="cut"):
        await chunks_of(way, chain, "Hi", CONFIG)
    assert said(history.kept) == talk("Hi", "one two")
    assert history.kept[1].response_metadata["partial"] is True
    assert type(history.kept[1]) is AIMessage


@every_way
async def test_nesting_over_one_history_is_noticed(way: str) -> None:
    """T23: where both wrappers are given the same object."""
    history = OthersHistory()
    with pytest.raises(InvalidSetting, match="nested"):
        await ask(way, over(history, over(history)), "Hi", CONFIG)
    assert history.kept == []
    first, second = OthersHistory(), OthersHistory()
    await ask(way, over(first, over(second)), "Hi", CONFIG)
    assert said(first.kept) == said(second.kept) == talk("Hi", "fine")


@every_way
async def test_what_needs_versions_is_refused(way: str) -> None:
    """T9: conflicts cannot be seen there, so policies other than "append", and keys, are errors."""
    runs = Runs()
    for options, more in (
        ({"on_conflict": "raise"}, {}),
        ({"on_conflict": "retry"}, {}),
        ({}, {"idempotency_key": "k"}),
    ):
        chain = over(OthersHistory(), runs, **options)
        with pytest.raises(InvalidSetting, match="need a history of memory_redis"):
            await ask(way, chain, "Hi", {"configurable": {"session_id": "s", **more}})
    assert runs.calls == 0
    report = TurnReport()
    await ask(
        way, over(OthersHistory(), runs), "Hi", {"configurable": {"session_id": "s", "turn_report": report}}
    )
    assert (report.saved, report.tries, report.version, report.conflict) == (True, 1, None, None)


@every_way
async def test_bad_input_is_refused_there_too(way: str) -> None:
    """R37, T17: before anything is read, run or written."""
    history, runs = OthersHistory(), Runs()
    for value in (7, None, [7]):
        with pytest.raises(InvalidMessage):
            await chunks_of(way, over(history, runs), value, CONFIG)
    assert (history.reads, history.writes, runs.calls) == (0, [], 0)
