"""What a config says of one call is for that call alone."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from memory_redis import ConflictError, InvalidSetting, LastMessages, RedisMemory, TurnReport, human
from memory_redis.langchain import RunnableWithMessageHistory
from tests.support.servers import Server

SESSION: Any = {"user_id": "ann", "conversation_id": "c1"}


@pytest.fixture
def memory(valkey: Server, namespace: str) -> Any:
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        yield memory


def test_an_inner_wrapper_does_not_take_the_key_the_window_or_the_report_for_its_own(
    valkey: Server, namespace: str, memory: RedisMemory
) -> None:
    """T23, decision 27: two steps that remember elsewhere both run, and see their own past."""
    with RedisMemory.from_url(valkey.url, namespace=f"{namespace}-inner") as inner_memory:
        inner_memory.history("ann", "c1").append(human("before"))
        seen: list[int] = []

        def step(name: str) -> Any:
            def run(given: list[Any]) -> AIMessage:
                seen.append(len(given))
                return AIMessage(name)

            return RunnableWithMessageHistory(RunnableLambda(run), inner_memory)

        def both(given: list[Any], config: Any) -> AIMessage:
            asked = [step(name).invoke(given[-1].text, config) for name in ("plan", "do")]
            return AIMessage(" ".join(answer.text for answer in asked))

        report = TurnReport()
        options = {"idempotency_key": "k", "window": LastMessages(0), "turn_report": report}
        outer = RunnableWithMessageHistory(RunnableLambda(both), memory)
        assert outer.invoke("Hi", {"configurable": SESSION | options}).text == "plan do"
    assert seen == [2, 4]
    assert report.tries == 1


def test_a_report_that_several_calls_share_takes_no_try_from_them(memory: RedisMemory) -> None:
    """T9: `max_tries` is counted for each call, whatever the report says."""
    tries: list[int] = []

    def crossed(given: list[Any]) -> AIMessage:
        tries.append(len(given))
        if len(tries) % 2:
            memory.history("ann", "c1").append(human("meanwhile"))
        return AIMessage("x")

    chain = RunnableWithMessageHistory(RunnableLambda(crossed), memory, on_conflict="retry", max_tries=2)
    report = TurnReport()
    for number in (1, 2):
        chain.invoke("Hi", {"configurable": SESSION | {"turn_report": report}})
        assert (len(tries), report.tries, report.saved) == (2 * number, 2, True)


def test_a_refused_turn_is_in_its_report(memory: RedisMemory) -> None:
    """T9: what others appended meanwhile can be read off it."""

    def crossed(_: list[Any]) -> AIMessage:
        memory.history("ann", "c1").append(human("meanwhile"))
        return AIMessage("x")

    report = TurnReport()
    chain = RunnableWithMessageHistory(RunnableLambda(crossed), memory, on_conflict="raise")
    with pytest.raises(ConflictError):
        chain.invoke("Hi", {"configurable": SESSION | {"turn_report": report}})
    assert (report.saved, [message.text for message in report.missed]) == (False, ["meanwhile"])


def test_a_report_is_a_turn_report(memory: RedisMemory) -> None:
    """R13: said before the model runs."""
    chain = RunnableWithMessageHistory(RunnableLambda(lambda _: AIMessage("x")), memory)
    with pytest.raises(InvalidSetting, match="turn_report"):
        chain.invoke("Hi", {"configurable": SESSION | {"turn_report": {}}})
