"""Token counters that are made of LangChain's."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from memory_redis import InvalidSetting, RedisMemory, TokenBudget, ai, human, tool
from memory_redis.langchain import to_langchain, token_counter

MESSAGES = [
    human("How is the weather in Paris?"),
    ai("", tool_calls=[{"name": "look", "args": {"city": "Paris"}, "id": "a", "type": "tool_call"}]),
    tool("rain", tool_call_id="a"),
    ai("It rains, so take an umbrella."),
]


def by_words(text: str) -> list[int]:
    return list(range(len(text.split())))


MODEL = FakeListChatModel(responses=["x"], custom_get_token_ids=by_words)


def of_one(message: BaseMessage) -> int:
    return len(message.text.split()) + 1


def of_one_kind(message: AIMessage) -> int:
    return len(message.text)


@pytest.mark.parametrize(
    ("name", "counter", "expected"),
    [
        ("model", MODEL, lambda one: MODEL.get_num_tokens_from_messages([to_langchain(one)])),
        ("list", count_tokens_approximately, lambda one: count_tokens_approximately([to_langchain(one)])),
        ("one", of_one, lambda one: of_one(to_langchain(one))),
        ("kind", of_one_kind, lambda one: len(one.text)),
        ("untold", lambda messages: len(messages), lambda one: 1),
    ],
    ids=["a model", "a function of a list", "a function of one", "of a subclass", "a lambda"],
)
def test_what_counts_for_trim_messages_counts_for_a_window(
    kept: RedisMemory, name: str, counter: Any, expected: Any
) -> None:
    """R118: a model by its own token ids, a function of a list, and one of a single message."""
    made = token_counter(name, counter)
    costs = [expected(one) for one in MESSAGES]
    assert [made(one) for one in MESSAGES] == costs
    history = kept.session("s1")
    history.append(*MESSAGES)
    for budget in range(sum(costs) + 2):
        shown = history.load(TokenBudget(budget, made)).messages
        assert sum(costs[one.seq or 0] for one in shown) <= budget
        fits = [at for at in range(len(costs)) if sum(costs[at:]) <= budget]
        start = min(fits, default=len(costs))
        assert [one.seq for one in shown] == [at for at in range(start, len(costs)) if start != 2 or at != 2]


def test_the_counts_are_stored_where_the_memory_knows_the_counter(valkey: Any, namespace: str) -> None:
    """R118, decision 22: a tokenizer runs once a message, at append, and not at each load."""
    runs: list[str] = []

    def ids(text: str) -> list[int]:
        runs.append(text)
        return by_words(text)

    counter = token_counter("words", FakeListChatModel(responses=["x"], custom_get_token_ids=ids))
    with RedisMemory.from_url(valkey.url, namespace=namespace, window=TokenBudget(20, counter)) as memory:
        history = memory.session("s1")
        history.append(*MESSAGES)
        assert len(runs) == len(MESSAGES)
        shown = history.load().messages
        assert shown[-1:] == MESSAGES[-1:]
        assert len(runs) == len(MESSAGES)
        assert sum(map(counter, shown)) <= 20


@pytest.mark.parametrize("what", [None, 5, "model", AIMessage, FakeListChatModel])
def test_what_cannot_count_is_refused(what: Any) -> None:
    """R118: in one sentence."""
    with pytest.raises(InvalidSetting):
        token_counter("name", what)
    with pytest.raises(InvalidSetting):
        token_counter("", MODEL)
