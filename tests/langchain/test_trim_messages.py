"""Windows beside LangChain's `trim_messages`, and the counter that goes by its rule."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages import trim_messages as theirs
from langchain_core.messages.utils import count_tokens_approximately

from memory_redis import (
    APPROXIMATE,
    LastMessages,
    RedisMemory,
    StoredMessage,
    TokenBudget,
    Window,
    trim_messages,
)
from memory_redis.langchain import from_langchain, to_langchain
from tests.langchain.some_messages import plain_messages
from tests.unit.strategies import examples

CALLS = [{"name": "look", "args": {"city": name}, "id": name, "type": "tool_call"} for name in "ab"]
SYSTEM = SystemMessage("be kind")
TALK: list[BaseMessage] = [
    SYSTEM,
    HumanMessage("How is the weather in Paris and in Rome?", name="ann"),
    AIMessage("", tool_calls=CALLS),
    ToolMessage("rain", tool_call_id="a"),
    ToolMessage("sun", tool_call_id="b"),
    AIMessage("It rains in Paris. In Rome the sun is shining."),
    HumanMessage("And what shall I take?"),
    AIMessage("An umbrella."),
]


def ours(messages: Sequence[BaseMessage], window: Window) -> list[BaseMessage]:
    """What a window of ours shows of messages of LangChain's."""
    return [to_langchain(one) for one in trim_messages([from_langchain(one) for one in messages], window)]


def without_orphans(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages without the results whose call does not stand before them."""
    called: set[str | None] = set()
    left: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, AIMessage):
            called.update(call["id"] for call in message.tool_calls)
        if not isinstance(message, ToolMessage) or message.tool_call_id in called:
            left.append(message)
    return left


def without_open_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages that are safe to be cut off: no call of the last exchange without all its results."""
    ids = [
        {call["id"] for call in one.tool_calls} if isinstance(one, AIMessage) else set() for one in messages
    ]
    given_to = [one.tool_call_id if isinstance(one, ToolMessage) else None for one in messages]
    for at, wanted in enumerate(ids):
        if wanted - set(given_to[at:]):
            return without_open_calls([one for place, one in enumerate(messages) if place != at])
    return without_orphans(messages)


# -- the same where it is right ------------------------------------------------------------------


@pytest.mark.parametrize("size", range(len(TALK) + 2))
def test_the_last_messages_are_those_of_trim_messages(size: int) -> None:
    """R100, R119: counted by `len`, with and without the system message; ours have no result alone."""
    trimmed = theirs(TALK, max_tokens=size, token_counter=len, strategy="last")
    assert ours(TALK, LastMessages(size)) == without_orphans(trimmed)
    if size:
        kept = theirs(TALK, max_tokens=size, token_counter=len, strategy="last", include_system=True)
        assert ours(TALK, LastMessages(size, keep_system=True)) == without_orphans(kept)


def test_the_golden_windows_are_those_of_trim_messages() -> None:
    """R100, R118, R119: as its documentation asks for them, where no exchange is cut in two."""
    for size, start, keep_system, shown in (
        (2, None, False, [6, 7]),
        (3, None, True, [0, 6, 7]),
        (3, "human", False, [6, 7]),
        (4, "human", True, [0, 6, 7]),
        (7, "human", False, [1, 2, 3, 4, 5, 6, 7]),
        (9, "human", True, [0, 1, 2, 3, 4, 5, 6, 7]),
    ):
        trimmed = theirs(TALK, max_tokens=size, token_counter=len, start_on=start, include_system=keep_system)
        window = LastMessages(size, start_on=start, keep_system=keep_system)  # type: ignore[arg-type]
        assert trimmed == ours(TALK, window) == [TALK[at] for at in shown]
    for tokens, shown in ((18, [7]), (19, [6, 7]), (40, [5, 6, 7]), (111, [0, 1, 2, 3, 4, 5, 6, 7])):
        trimmed = theirs(TALK, max_tokens=tokens, token_counter=count_tokens_approximately)
        assert trimmed == ours(TALK, TokenBudget(tokens)) == [TALK[at] for at in shown]
    for tokens, shown in ((7, [0]), (63, [0, 1]), (75, [0, 1, 2, 3, 4]), (111, [0, 1, 2, 3, 4, 5, 6, 7])):
        trimmed = theirs(TALK, max_tokens=tokens, token_counter=count_tokens_approximately, strategy="first")
        assert trimmed == ours(TALK, TokenBudget(tokens, oldest=True)) == [TALK[at] for at in shown]


_ids = st.sampled_from("ab")
_steps: st.SearchStrategy[BaseMessage] = st.one_of(
    st.sampled_from([HumanMessage(""), HumanMessage("Hi there"), AIMessage("Hello"), SystemMessage("s")]),
    st.lists(_ids, min_size=1, max_size=2, unique=True).map(
        lambda names: AIMessage("", tool_calls=[CALLS["ab".index(name)] for name in names])
    ),
    _ids.map(lambda name: ToolMessage("result", tool_call_id=name)),
)
_talks = st.lists(_steps, max_size=10)


@given(
    talk=_talks,
    size=st.integers(0, 60),
    by_tokens=st.booleans(),
    keep_system=st.booleans(),
    start=st.sampled_from([None, "human", "ai"]),
)
@examples(400)
def test_any_window_is_that_of_trim_messages_or_mended(
    talk: list[BaseMessage], size: int, by_tokens: bool, keep_system: bool, start: Any
) -> None:
    """R100, R118, R119: equal but for what the tests below show: results that are alone, a system message
    that has no room, and a start that is not there."""
    counter: Any = count_tokens_approximately if by_tokens else len
    size = size if by_tokens else size // 6
    window: Window = LastMessages(size, keep_system=keep_system, start_on=start)
    if by_tokens:
        window = TokenBudget(size, keep_system=keep_system, start_on=start)

    def trimmed(**more: Any) -> list[BaseMessage]:
        return theirs(talk, max_tokens=size, token_counter=counter, **more)

    front = talk[:1] if keep_system and talk and isinstance(talk[0], SystemMessage) else []
    keep = bool(front) and counter(front) <= size
    right = trimmed(include_system=keep, start_on=start)
    without_start = trimmed(include_system=keep)
    if start not in [one.type for one in without_start[int(keep) :]]:
        right = without_start
    shown = ours(talk, window)
    assert shown == right[: int(keep)] + without_orphans(right[int(keep) :])
    assert counter(shown) <= size


@given(talk=_talks, size=st.integers(0, 60))
@examples(200)
def test_any_window_of_the_oldest_is_that_of_trim_messages_or_mended(
    talk: list[BaseMessage], size: int
) -> None:
    """R100: `strategy="first"`; what it cuts off leaves no call without its results."""
    right = theirs(talk, max_tokens=size, token_counter=count_tokens_approximately, strategy="first")
    shown = ours(talk, TokenBudget(size, oldest=True))
    assert count_tokens_approximately(shown) <= size
    if len(right) == len(talk):
        assert shown == without_orphans(talk)
    elif not any(isinstance(one, AIMessage) and one.tool_calls for one in right):
        assert shown == without_orphans(right)
    else:
        assert [one for one in shown if one.type in ("human", "system")] == [
            one for one in right if one.type in ("human", "system")
        ]
        assert without_open_calls(shown) == shown


# -- and where it is not -------------------------------------------------------------------------


def test_it_leaves_results_without_their_call_in_front_and_a_window_does_not() -> None:
    """R119: a provider refuses such a list; by number and by tokens."""
    for size in (4, 5):
        trimmed = theirs(TALK, max_tokens=size, token_counter=len)
        assert isinstance(trimmed[0], ToolMessage)
        assert ours(TALK, LastMessages(size)) == TALK[5:]
    trimmed = theirs(TALK, max_tokens=60, token_counter=count_tokens_approximately)
    assert isinstance(trimmed[0], ToolMessage)
    assert ours(TALK, TokenBudget(60)) == TALK[5:]
    kept = theirs(TALK, max_tokens=5, token_counter=len, include_system=True)
    assert isinstance(kept[1], ToolMessage)
    assert ours(TALK, LastMessages(5, keep_system=True)) == [SYSTEM, *TALK[5:]]


def test_it_leaves_the_system_message_alone_if_no_human_fits_and_a_window_shows_what_does() -> None:
    """R119, F20: an agent at work on one question; the documented fallback respects the budget."""
    talk: list[BaseMessage] = [SYSTEM, HumanMessage("q")]
    for number in range(5):
        call = {"name": "look", "args": {}, "id": f"{number}", "type": "tool_call"}
        talk += [AIMessage("", tool_calls=[call]), ToolMessage("r", tool_call_id=f"{number}")]
    trimmed = theirs(talk, max_tokens=6, token_counter=len, include_system=True, start_on="human")
    assert trimmed == [SYSTEM]
    window = LastMessages(6, keep_system=True, start_on="human")
    assert ours(talk, window) == [SYSTEM, *talk[-4:]]
    assert theirs(talk, max_tokens=6, token_counter=len, start_on="human") == []
    assert ours(talk, LastMessages(6, start_on="human")) == talk[-6:]


def test_it_goes_over_the_budget_with_a_system_message_and_a_window_does_not() -> None:
    """R100, decision 21: what has no room is left out, and the room is the others'."""
    talk: list[BaseMessage] = [SystemMessage("be kind " * 50), HumanMessage("Hi"), AIMessage("Hello")]
    trimmed = theirs(talk, max_tokens=20, token_counter=count_tokens_approximately, include_system=True)
    assert trimmed == talk[:1]
    assert count_tokens_approximately(trimmed) > 20
    shown = ours(talk, TokenBudget(20, keep_system=True))
    assert shown == talk[1:]
    assert count_tokens_approximately(shown) <= 20


def test_it_takes_what_a_load_gives(kept: RedisMemory) -> None:
    """R119: our messages, as LangChain's, are trimmed by it; and windows of a load are those of the list."""
    history = kept.session("s1")
    history.append(*(from_langchain(one) for one in TALK))
    loaded = [to_langchain(one) for one in history.load().messages]
    assert theirs(loaded, max_tokens=3, token_counter=len, include_system=True) == [SYSTEM, *TALK[6:]]
    windows: list[Window] = [
        LastMessages(5, keep_system=True),
        TokenBudget(60, start_on="human"),
        TokenBudget(60, oldest=True),
    ]
    for window in windows:
        assert [to_langchain(one) for one in history.load(window).messages] == ours(TALK, window)


# -- the counter ---------------------------------------------------------------------------------

COUNTS_BLOCKS = "tokens_per_image" in inspect.signature(count_tokens_approximately).parameters
"""Older releases count the repr of content that is a list; APPROXIMATE goes by the newer rule."""

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}}
ONE_OF_EACH: list[BaseMessage] = [
    *TALK,
    HumanMessage(""),
    HumanMessage("\U0001f600 é", name=""),
    HumanMessage("x" * 1001, name="x" * 99),
    AIMessage("Let me look", tool_calls=CALLS[:1], name="ann"),
    AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "a", "error": "no JSON"}]),
    AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
    SystemMessage("Be brief.", additional_kwargs={"__openai_role__": "developer"}),
    FunctionMessage("3", name="add"),
    ChatMessage("no", role="critic"),
    ChatMessage("no", role="", name="ann"),
    ToolMessage("3", tool_call_id="x" * 40, artifact=["x"] * 40, status="error", name="add"),
]
WITH_BLOCKS: list[BaseMessage] = [
    HumanMessage([]),
    HumanMessage(["Look", "here"]),
    HumanMessage([{"type": "text", "text": "What is this?"}, IMAGE]),
    HumanMessage([IMAGE, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}, "?"]),
    HumanMessage([{"type": "file", "file_id": "f1"}, {"text": "no type"}]),
    AIMessage([{"type": "tool_use", "id": "a", "name": "look", "input": {}}], tool_calls=CALLS[:1]),
    ToolMessage([{"type": "text", "text": "rain"}], tool_call_id="a"),
]
COUNTED = ONE_OF_EACH + WITH_BLOCKS * COUNTS_BLOCKS


def test_the_approximation_is_langchains(kept: RedisMemory) -> None:
    """R118: of each kind of message, before it is stored and after."""
    for message in COUNTED:
        assert APPROXIMATE(from_langchain(message)) == count_tokens_approximately([message])
    history = kept.session("s1")
    history.append(*(from_langchain(one) for one in COUNTED))
    loaded = history.load().messages
    assert [APPROXIMATE(one) for one in loaded] == [count_tokens_approximately([one]) for one in COUNTED]


def test_the_approximation_of_blocks_is_that_of_the_newest_release() -> None:
    """R118: with every release, so that workers with different ones count alike."""
    costs = [APPROXIMATE(from_langchain(message)) for message in WITH_BLOCKS]
    assert costs == [4, 6, 93, 175, 17, 21, 6]


def countable(message: BaseMessage) -> bool:
    """Whether this release's function counts a message, and by the rule of the newest."""
    if isinstance(message, RemoveMessage) or not (COUNTS_BLOCKS or isinstance(message.content, str)):
        return False
    blocks = message.content if isinstance(message.content, list) else []
    return all(isinstance(one.get("text", ""), str) for one in blocks if isinstance(one, dict))


@given(message=plain_messages.filter(countable))
@examples(400)
def test_the_approximation_is_langchains_of_any_message(message: BaseMessage) -> None:
    """R118: whatever its fields hold."""
    assert APPROXIMATE(from_langchain(message)) == count_tokens_approximately([message])


@given(talk=_talks)
@examples(50)
def test_the_approximation_of_a_list_is_the_sum(talk: list[BaseMessage]) -> None:
    """R118, decision 22: the rule is additive, so that counts of single messages serve for a budget."""
    stored: list[StoredMessage] = [from_langchain(one) for one in talk]
    assert sum(map(APPROXIMATE, stored)) == count_tokens_approximately(talk)
