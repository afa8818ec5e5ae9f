"""Everything works without the classes that langchain-core has deprecated, and warns of nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

pytestmark = pytest.mark.anyio


WITHOUT = """
import sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name in ("langchain_core.chat_history", "langchain_core.runnables.history"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if sys.argv[1] == "gone":
    sys.meta_path.insert(0, Gone())

import asyncio
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from memory_redis import RedisMemory
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory

memory = RedisMemory.from_url("fake://")
inner = GenericFakeChatModel(messages=iter(["one two"] * 20))
config = {"configurable": {"session_id": "s"}}

def factory(session_id):
    return RedisChatMessageHistory(session_id, memory=memory)

async def awaited(chain):
    await chain.ainvoke("Hi", config)
    assert len([chunk async for chunk in chain.astream("Hi", config)]) > 1
    await chain.abatch(["Hi"], config)
    events = [event["event"] async for event in chain.astream_events("Hi", config, version="v2")]
    assert events[0] == "on_chain_start" and events[-1] == "on_chain_end"

for source in (memory, factory):
    chain = RunnableWithMessageHistory(inner, source)
    assert chain.invoke("Hi", config).text == "one two"
    assert len(list(chain.stream("Hi", config))) > 1
    assert len(chain.batch(["Hi", "Ho"], config)) == 2
    asyncio.run(awaited(chain))
    chain.get_graph(), chain.get_input_schema(), chain.get_output_schema(), chain.config_specs

history = factory("s")
assert len(history) == len(history.messages) == 32
assert {message.type for message in history.messages} == {"human", "ai"}
history.add_user_message("Hi")
history.add_ai_message("Hello")
history.add_message(HumanMessage(content="x"))
history.add_messages([AIMessage(content="y")])
assert str(history).splitlines()[-1] == "AI: y"
history.clear()
assert history.messages == []
memory.close()
print(sorted(name for name in sys.modules if name.endswith(("chat_history", "runnables.history"))))
"""


@pytest.mark.parametrize("classes", ["gone", "there"])
async def test_no_deprecated_class_is_needed(classes: str) -> None:
    """T24, J06: with warnings as errors everything works, also when LangChain has no history classes."""
    run = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", WITHOUT, classes],
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert run.returncode == 0
    assert "runnables.history" not in run.stdout
    assert ("chat_history" in run.stdout) == (classes == "there")
