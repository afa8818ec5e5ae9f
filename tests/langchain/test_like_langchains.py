"""Where nothing better was wanted, the wrapper does what langchain-core's deprecated one does."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from memory_redis.langchain import RunnableWithMessageHistory
from tests.langchain.kit import OthersHistory, Runs, chunks_of, every_way, said

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated"),
]

CONFIG: Any = {"configurable": {"session_id": "s"}}
CALL = {"name": "add", "args": {"x": 1}, "id": "k1", "type": "tool_call"}
WITH_TOOLS = [AIMessage(content="", tool_calls=[CALL]), ToolMessage(content="2", tool_call_id="k1")]
INPUT: dict[str, str] = {"input_messages_key": "q"}
BOTH = {**INPUT, "history_messages_key": "h"}


class History(OthersHistory):
    """With the awaited methods that LangChain's wrapper wants."""

    async def aget_messages(self) -> list[BaseMessage]:
        return list(self.kept)

    async def aadd_messages(self, messages: Any) -> None:
        self.add_messages(messages)


def shape(value: Any) -> Any:
    """A value with its messages by role and text: ids differ."""
    if isinstance(value, BaseMessage):
        return said([value])[0]
    if isinstance(value, list | tuple):
        return type(value)(shape(item) for item in value)
    return {name: shape(item) for name, item in value.items()} if isinstance(value, dict) else value


@every_way
@pytest.mark.parametrize(
    ("keys", "value", "output"),
    [
        pytest.param({}, "Hi", "fine", id="R27-R43"),
        pytest.param({}, HumanMessage(content="Hi"), AIMessage(content="fine"), id="R28-R44"),
        pytest.param({}, AIMessage(content="Hi"), HumanMessage(content="fine"), id="R28-R44-roles"),
        pytest.param({}, [SystemMessage(content="a"), HumanMessage(content="b")], "fine", id="R29"),
        pytest.param({}, (HumanMessage(content="a"), HumanMessage(content="b")), "fine", id="R29-tuple"),
        pytest.param({}, [[HumanMessage(content="a")]], "fine", id="R30"),
        pytest.param({}, [], "fine", id="R31"),
        pytest.param(INPUT, {"q": "Hi", "lang": "de"}, "fine", id="R34-text"),
        pytest.param(INPUT, {"q": [HumanMessage(content="Hi")], "lang": "de"}, "fine", id="R34-list"),
        pytest.param(BOTH, {"q": "Hi", "h": "mine", "lang": "de"}, "fine", id="R35-text"),
        pytest.param(BOTH, {"q": HumanMessage(content="Hi")}, "fine", id="R35-message"),
        pytest.param(BOTH, {"q": WITH_TOOLS}, "fine", id="R35-tools"),
        pytest.param({"history_messages_key": "h"}, {"input": "Hi", "x": "y"}, "fine", id="R33"),
        pytest.param({}, "Hi", [AIMessage(content="a"), AIMessage(content="b")], id="R45"),
        pytest.param({"output_messages_key": "a"}, "Hi", {"a": "fine", "b": [1]}, id="R46"),
        pytest.param({"output_messages_key": "a"}, "Hi", {"a": WITH_TOOLS, "b": 1}, id="R46-list"),
        pytest.param({}, "Hi", {"a": "fine"}, id="R47"),
        pytest.param({}, "Hi", {"output": "fine", "b": 1}, id="R48"),
    ],
)
async def test_input_and_output_are_treated_alike(
    way: str, keys: dict[str, str], value: Any, output: Any
) -> None:
    """R27 to R31, R33 to R35, R43 to R48, R51, R61: what runs, comes out and is stored is the same."""
    from langchain_core.runnables.history import RunnableWithMessageHistory as Deprecated

    results = []
    for made_of in (Deprecated, RunnableWithMessageHistory):
        history = History(HumanMessage(content="before"), SystemMessage(content="rule"))
        runs = Runs(output)
        chain: Any = made_of(RunnableLambda(runs), lambda session_id, history=history: history, **keys)
        given = await chunks_of(way, chain, value, CONFIG)
        results.append((shape(runs.asked), shape(given), said(history.kept), len(history.writes)))
    assert results[0] == results[1]
