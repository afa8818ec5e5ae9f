"""Memory strategies of either face, called alike, and models that summarise by a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import memory_redis
from memory_redis import RedisMemory, StoredMessage
from memory_redis.stores import Strategy
from memory_redis.summaries import INSTRUCTION
from memory_redis.testing import AsyncView

BUFFER, WINDOW, TOKENS = (
    "ConversationBufferMemory",
    "ConversationWindowMemory",
    "ConversationTokenBufferMemory",
)
SUMMARY, SUMMARY_BUFFER = "ConversationSummaryMemory", "ConversationSummaryBufferMemory"
IN_FRONT = "Summary of earlier conversation: "


def over(store: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """A strategy over a memory of either face, or over another strategy; awaited, whichever face it is."""
    target: Any = store._target if isinstance(store, AsyncView) else store
    if isinstance(target, RedisMemory | Strategy):
        return AsyncView(getattr(memory_redis, name)(target, *arguments, **options))
    return getattr(memory_redis, f"Async{name}")(target, *arguments, **options)


class Model:
    """Gives one answer after the other, then `s1`, `s2`, …, by how often it was asked.

    An exception among the answers is raised; something callable is called, without arguments.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, given: Sequence[StoredMessage]) -> Any:
        assert [type(one) for one in given] == [StoredMessage]
        assert given[0].type == "human"
        self.asked.append(given[0].text)
        answer = self.answers.pop(0) if self.answers else f"s{len(self.asked)}"
        if callable(answer):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def told(self) -> list[list[str]]:
        """The lines that it was to summarise, each time that it was asked."""
        assert all(text.startswith(f"{INSTRUCTION}\n\n") for text in self.asked)
        return [text.split("\n")[2:] for text in self.asked]
