"""A LangChain chain that remembers: prompt, history and chat model, sync and asyncio, whole and streamed.

    python examples/langchain_chain.py [--url redis://localhost:6379/0]

Two users talk to it, one of them in two conversations: none of the three sees another. The chat model is
langchain-core's fake one, with answers given in advance. The default server is the embedded one.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from memory_redis import LastMessages, RedisMemory, SlidingExpiry
from memory_redis.langchain import RedisChatMessageHistory, RunnableWithMessageHistory

ANSWERS = (
    "Hello Ann, where do you want to go?",
    "Lisbon is lovely in May, Ann.",
    "A report on what, and for whom?",
    "Hello Bob, what can I do for you?",
    "It is raining in Bergen, Bob.",
)


def a_chain(memory: RedisMemory) -> Runnable[Any, Any]:
    """Prompt and model, in a wrapper that loads the conversation and stores each turn.

    The wrapper puts the past where the prompt wants it, and stores what stands under "question" with
    the answer; the prompt's own system message is not stored.
    """
    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", "You are a helpful {role}."),
            MessagesPlaceholder("history"),
            ("human", "{question}"),
        ]
    )
    model = GenericFakeChatModel(messages=iter([AIMessage(content=answer) for answer in ANSWERS]))
    return RunnableWithMessageHistory(
        prompt | RunnableLambda(count) | model,
        memory,
        input_messages_key="question",
        history_messages_key="history",
        window=LastMessages(20),
    )


def count(prompt: PromptValue) -> PromptValue:
    """A step of the chain that says how many messages the model will see."""
    print(f"  (the model sees {len(prompt.to_messages())} messages)")
    return prompt


def conversation(user: str, name: str) -> RunnableConfig:
    """Which conversation a call means. The user id comes from whoever authenticated the user."""
    return {"configurable": {"user_id": user, "conversation_id": name}}


def ask(question: str, role: str = "assistant") -> dict[str, Any]:
    """The input of the chain."""
    return {"question": question, "role": role}


def sync(chain: Runnable[Any, Any]) -> None:
    """Ann has two conversations; the second answer of the first one is streamed."""
    trip, report = conversation("ann", "trip"), conversation("ann", "report")
    print("ann, trip:", chain.invoke(ask("Hi, I am Ann."), trip).text)
    chunks = [chunk.text for chunk in chain.stream(ask("Lisbon, in May?", "travel agent"), trip)]
    print("ann, trip:", "|".join(chunks))
    print("ann, report:", chain.invoke(ask("Help me with a report."), report).text)


async def asyncio_too(chain: Runnable[Any, Any]) -> None:
    """Bob talks to the very same chain, awaited: its asyncio face has connections of its own."""
    trip = conversation("bob", "trip")
    print("bob, trip:", (await chain.ainvoke(ask("Hi, I am Bob."), trip)).text)
    chunks = [chunk.text async for chunk in chain.astream(ask("How is the weather in Bergen?"), trip)]
    print("bob, trip:", "|".join(chunks))


def main() -> None:
    """Let both users talk, show what is stored of each, and remove it again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default="embedded://", help="the server (default: %(default)s)")
    url = parser.parse_args().url
    own = f"example-{secrets.token_hex(4)}"  # keys of our own on a server that others use
    with RedisMemory.from_url(url, namespace=own, expiry=SlidingExpiry(minutes=10)) as memory:
        chain = a_chain(memory)
        sync(chain)
        asyncio.run(asyncio_too(chain))
        for user in ("ann", "bob"):
            for info in memory.conversations(user):  # newest first
                print(f"-- stored of {user}, {info.conversation_id}: {info.messages} messages")
                print(
                    RedisChatMessageHistory(memory=memory, user_id=user, conversation_id=info.conversation_id)
                )
            memory.forget(user)


if __name__ == "__main__":
    main()
