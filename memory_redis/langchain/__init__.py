"""LangChain on this memory: a runnable that remembers, a chat message history, their messages and counters.

Needs langchain-core, which the extra `langchain` brings. Nothing here needs the history classes
that langchain-core has deprecated.
"""

from memory_redis.wording import needs_extra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "langchain_core":
        raise
    raise ModuleNotFoundError(needs_extra(__name__, "langchain"), name=missing.name) from None

from memory_redis.langchain.counting import token_counter
from memory_redis.langchain.history import RedisChatMessageHistory
from memory_redis.langchain.messages import from_langchain, to_langchain
from memory_redis.langchain.runnable import RunnableWithMessageHistory

__all__ = [
    "RedisChatMessageHistory",
    "RunnableWithMessageHistory",
    "from_langchain",
    "to_langchain",
    "token_counter",
]
