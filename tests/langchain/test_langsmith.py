"""langchain-core brings a tracing client and a pytest plugin along; in the tests neither does anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUNS = """
import asyncio, sys

asked = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        asked.append(event)
        raise OSError("no network here")

sys.addaudithook(watch)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.prompts import ChatPromptTemplate

model = GenericFakeChatModel(messages=iter(["one two"] * 5))
chain = ChatPromptTemplate.from_messages([("human", "{text}")]) | model
question = {"text": "Hi"}

async def main():
    await chain.ainvoke(question)
    return [chunk async for chunk in chain.astream(question)]

chain.invoke(question)
list(chain.stream(question))
chain.batch([question])
asyncio.run(main())

from langchain_core.tracers.langchain import wait_for_all_tracers

wait_for_all_tracers()
print(asked)
"""


def test_the_plugin_is_switched_off(pytestconfig: pytest.Config) -> None:
    """pytest was told not to load it, in whichever environment the tests run."""
    assert pytestconfig.pluginmanager.is_blocked("langsmith_plugin")
    assert "langsmith.pytest_plugin" not in sys.modules


def test_runs_of_a_chain_are_reported_to_nobody() -> None:
    """No name is looked up and nothing is connected to, in any kind of call; and nothing warns."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNS], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
    assert run.stderr == ""
