"""Summaries as values: when one is due, where it cuts, what a model is asked, what counts as its answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    BYTES_4,
    InvalidMessage,
    InvalidSetting,
    StoredMessage,
    ai,
    chat,
    function,
    human,
    system,
    tool,
    toolcalls,
)
from memory_redis.layouts import links_of
from memory_redis.summaries import (
    INSTRUCTION,
    REQUEST_BYTES,
    KeepMessages,
    KeepTokens,
    answer_of,
    at_once,
    cut_of_beginning,
    request,
    shown,
)
from memory_redis.toolcalls import safe_cut
from tests.support.ids import shown as name
from tests.unit.strategies import examples


def sized(*sizes: int) -> list[StoredMessage]:
    """Messages of so many tokens by `BYTES_4`."""
    return [human("x" * 4 * size) for size in sizes]


def call(*ids: str) -> StoredMessage:
    return ai("", tool_calls=[{"name": "look", "args": {}, "id": one} for one in ids])


def result(of: str, text: str = "found") -> StoredMessage:
    return tool(text, tool_call_id=of)


@pytest.mark.parametrize(
    ("buffer_size", "count", "due"),
    [
        (2, 4, False),
        (2, 5, True),
        (1, 2, False),
        (1, 3, True),
        (0, 0, False),
        (0, 1, True),
        (10**9, 50, False),
    ],
)
def test_a_summary_is_due_above_twice_the_buffer(buffer_size: int, count: int, due: bool) -> None:
    """R92: not at it."""
    assert KeepMessages(buffer_size).threshold.crossed(sized(*[1] * count)) is due


@pytest.mark.parametrize(("buffer_size", "count", "cut"), [(2, 5, 3), (2, 9, 7), (0, 1, 1), (3, 7, 4)])
def test_all_but_the_buffer_is_summarised(buffer_size: int, count: int, cut: int) -> None:
    """R92: the newest `buffer_size` messages stay."""
    assert KeepMessages(buffer_size).cut(sized(*[1] * count)) == cut


@pytest.mark.parametrize(
    ("sizes", "due"),
    [([], False), ([11], False), ([5, 5], False), ([5, 6], True), ([1] * 10, False), ([1] * 11, True)],
    ids=str,
)
def test_a_summary_is_due_above_a_number_of_tokens(sizes: list[int], due: bool) -> None:
    """R93: in more than one message."""
    assert KeepTokens(10, BYTES_4).threshold.crossed(sized(*sizes)) is due


@pytest.mark.parametrize(
    ("limit", "sizes", "cut"),
    [
        (10, [3, 3, 3, 2], 2),  # 3 + 2 are 5 of 10
        (10, [3, 3, 3, 3], 3),  # 3 + 3 are too many
        (11, [3, 3, 3, 2], 2),  # half of 11 is 5
        (10, [1] * 11, 6),
        (10, [2, 9], 1),  # at least one is kept
        (10, [9, 2], 1),
        (40, [1, 20, 20], 2),
        (40, [21, 10, 10], 1),  # at least one is summarised, and only one
        (0, [1, 1], 1),
        (10**9, [1, 1], 1),
    ],
    ids=str,
)
def test_half_of_the_tokens_stay(limit: int, sizes: list[int], cut: int) -> None:
    """R93: the newest messages that cost half of the limit at most; one is kept and one summarised."""
    assert KeepTokens(limit, BYTES_4).cut(sized(*sizes)) == cut


@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=30), limit=st.integers(0, 80))
@examples(200)
def test_no_more_and_no_less_stays_than_fits(sizes: list[int], limit: int) -> None:
    """R93: one message more would be too many, unless it is the first."""
    cut = KeepTokens(limit, BYTES_4).cut(sized(*sizes))
    assert 1 <= cut <= len(sizes) - 1
    assert sum(sizes[cut:]) <= limit // 2 or cut == len(sizes) - 1
    assert sum(sizes[cut - 1 :]) > limit // 2 or cut == 1


def test_a_tool_exchange_is_summarised_whole() -> None:
    """R92, F16: the cut goes on behind the results of the calls before it."""
    messages = [human("q"), call("a", "b"), result("a"), result("b"), ai("done")]
    assert [KeepMessages(size).cut(messages) for size in range(1, 4)] == [4, 4, 4]


def test_a_call_that_may_still_be_answered_stays() -> None:
    """R92, decision 24: with all that stands behind it; once the user goes on, nobody waits for it."""
    messages = [human("q"), ai("a"), human("q"), call("a"), ai("hm"), ai("hm")]
    assert KeepMessages(1).cut(messages) == 3
    assert KeepTokens(2, BYTES_4).cut(messages) == 3
    assert KeepMessages(1).cut([*messages, human("never mind")]) == 6
    assert KeepMessages(1).cut(messages[3:]) == 0


def test_an_exchange_at_the_end_is_not_summarised_to_the_last_message() -> None:
    """R93: at least one message is kept, so the exchange is kept, or the summary waits."""
    messages = [human("q"), call("a"), result("a", "x" * 400)]
    assert KeepTokens(10, BYTES_4).cut(messages) == 1
    assert KeepTokens(10, BYTES_4).cut(messages[1:]) == 0
    assert KeepTokens(10, BYTES_4).cut([*messages, ai("done")]) == 3
    twice = [human("q"), call("a"), result("a"), call("b"), result("b", "x" * 400)]
    assert KeepTokens(10, BYTES_4).cut(twice) == 3


@given(data=st.data(), size=st.integers(0, 6), limit=st.integers(0, 20))
@examples(300)
def test_no_cut_tears_an_exchange_apart(data: st.DataObject, size: int, limit: int) -> None:
    """R92, R93, F16: agents at random; no result without its call is left, no open call is summarised."""
    messages: list[StoredMessage] = []
    waiting: list[str] = []
    for number in range(data.draw(st.integers(2, 25))):
        what = data.draw(st.sampled_from(["human", "ai", "call", "result", "result"]))
        if what == "call":
            ids = [f"{number}.{part}" for part in range(data.draw(st.integers(1, 3)))]
            waiting += ids
            messages.append(call(*ids))
        elif what == "result" and waiting:
            of = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            messages.append(result(of, "x" * data.draw(st.integers(0, 40))))
        else:
            messages.append(human("q") if what == "human" else ai("a"))
    tokens = KeepTokens(limit, BYTES_4).cut(messages)
    assert tokens < len(messages)
    for cut in (KeepMessages(min(size, len(messages))).cut(messages), tokens):
        assert safe_cut(messages, cut) == cut
        made = {one["id"] for message in messages[:cut] for one in message.tool_calls}
        answered = {message.data.get("tool_call_id") for message in messages[:cut]}
        assert made.isdisjoint(message.data.get("tool_call_id") for message in messages[cut:])
        if not any(message.type == "human" for message in messages[cut:]):
            last = max((at for at, one in enumerate(messages[:cut]) if one.type == "human"), default=-1)
            late = {one["id"] for message in messages[last + 1 : cut] for one in message.tool_calls}
            assert late <= answered


def test_half_of_a_beginning_is_summarised() -> None:
    """R92, F16, decision 16: whatever a plan would keep; but no exchange is torn apart for it."""
    assert [cut_of_beginning(sized(*[1] * count)) for count in range(6)] == [0, 1, 1, 1, 2, 2]
    exchange = [call("a"), result("a"), result("a")]
    assert cut_of_beginning([human("q"), *exchange]) == 1
    assert cut_of_beginning([*exchange, ai("done")]) == 3
    assert cut_of_beginning(exchange) == 0
    assert cut_of_beginning([call("a"), ai("hm")]) == 0


def test_a_message_that_no_request_has_room_for_goes_with_those_before_it() -> None:
    """R98: or the next request would be as large, and tell of nothing else."""
    room = REQUEST_BYTES // 4
    assert at_once(sized(1, 1, room, 1), 4) == 2
    assert at_once(sized(1, 1, room + 1, 1), 4) == 3
    assert at_once(sized(room + 1, 1), 2) == 1
    assert at_once(sized(1, room + 1), 1) == 1


def test_a_long_exchange_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R93: not again for each place where it cannot be cut."""
    looks: list[int] = []

    def links(kind: str, data: Any) -> bytes:
        looks.append(1)
        return links_of(kind, data)

    monkeypatch.setattr(toolcalls, "links_of", links)
    messages = [human("q"), call("a"), *(result("a") for _ in range(200))]
    assert KeepTokens(10, BYTES_4).cut(messages) == 1
    assert len(looks) <= 2 * len(messages)


class Counter:
    """Counts what it is told to, and keeps what it was asked."""

    def __init__(self, tokens: Any) -> None:
        self.tokens = tokens

    def __call__(self, _: StoredMessage) -> Any:
        if isinstance(self.tokens, Exception):
            raise self.tokens
        return self.tokens


@pytest.mark.parametrize("tokens", [-1, 2.5, True, None, "3", 2**24], ids=name)
def test_a_counter_that_does_not_count_is_an_error(tokens: Any) -> None:
    """R93: wherever it is asked."""
    plan = KeepTokens(10, Counter(tokens))
    with pytest.raises(InvalidSetting):
        plan.threshold.crossed(sized(1, 1))
    with pytest.raises(InvalidSetting):
        plan.cut(sized(1, 1))


def test_what_a_counter_raises_arrives_as_it_is() -> None:
    """R93: nobody guesses a number instead."""
    with pytest.raises(ZeroDivisionError):
        KeepTokens(10, Counter(ZeroDivisionError())).threshold.crossed(sized(1, 1))


def test_a_model_is_asked_by_one_human_message() -> None:
    """R94: the instruction, then a line for each message with its role."""
    messages = [
        system("Be kind"),
        human("Hi"),
        ai("Hello"),
        chat("Later", role="narrator"),
        tool("4", tool_call_id="c"),
        function("5", name="f"),
    ]
    asked = request(messages, None)
    assert asked.type == "human"
    assert asked.text.split("\n") == [
        INSTRUCTION,
        "",
        "system: Be kind",
        "human: Hi",
        "ai: Hello",
        "narrator: Later",
        "tool: 4",
        "function (f): 5",
    ]


def test_a_model_is_told_who_speaks() -> None:
    """R94: the name stands beside the role; more than one line of it cannot pass for another speaker."""
    messages = [human("Hi", name="Ann"), human("Hello", name="Bob"), ai("Yes?", name="x\nai: y")]
    lines = request(messages, None).text.split("\n")[2:]
    assert lines == ["human (Ann): Hi", "human (Bob): Hello", "ai (x", "  ai: y): Yes?"]


def test_a_summary_comes_first_when_the_next_one_is_asked_for() -> None:
    """R94: as a system line, in the words in which a model sees it."""
    lines = request([human("Hi")], "Ann greeted.").text.split("\n")
    assert lines[2:] == ["system: Summary of earlier conversation: Ann greeted.", "human: Hi"]
    assert shown("Ann greeted.") == system("Summary of earlier conversation: Ann greeted.")


def test_a_model_is_told_of_tools_that_were_called() -> None:
    """R94: name and arguments, behind the text if there is any."""
    calls = [{"name": "add", "args": {"x": 1, "to": "é"}, "id": "1"}, {"name": "now", "args": {}, "id": "2"}]
    asked = request([ai("Let me see", tool_calls=calls), ai("", tool_calls=calls[1:])], None)
    assert asked.text.split("\n")[2:] == [
        'ai: Let me see [calls add {"x": 1, "to": "é"}] [calls now {}]',
        "ai: [calls now {}]",
    ]


def test_arguments_that_are_no_json_keep_no_summary_from_being_made() -> None:
    """R94: as bytes, which a message may hold."""
    asked = request([ai("", tool_calls=[{"name": "f", "args": {"x": b"\xff"}, "id": "1"}])], None)
    assert asked.text.split("\n")[2:] == ["ai: [calls f …]"]


def test_texts_of_content_blocks_are_told_and_images_are_not() -> None:
    """R94: what a model of text can be told."""
    blocks: list[str | dict[str, Any]] = [
        {"type": "text", "text": "Look: "},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        "nice",
    ]
    assert request([human(blocks)], None).text.split("\n")[2:] == ["human: Look: nice"]


class Message:
    """A message of somebody else's."""

    def __init__(self, content: Any) -> None:
        self.content = content


ANSWERS: list[Any] = [
    "in short",
    ai("in short"),
    human("in short"),
    {"content": "in short"},
    {"role": "assistant", "content": [{"type": "text", "text": "in "}, "short"]},
    Message("in short"),
    Message([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "in short"}]),
]


@pytest.mark.parametrize(
    "output", ANSWERS, ids=[f"{at} {type(one).__name__}" for at, one in enumerate(ANSWERS)]
)
def test_a_summary_is_the_text_of_what_a_model_gives(output: Any) -> None:
    """R92: a text, a message of anyone's, a dictionary with content."""
    assert answer_of(output) == "in short"


@pytest.mark.parametrize(
    "output",
    [
        None,
        "",
        " \n",
        5,
        b"in short",
        {},
        {"text": "in short"},
        {"content": None},
        [],
        [ai("x")],
        ai(""),
        Message(5),
    ],
    ids=name,
)
def test_an_answer_without_a_text_is_an_error(output: Any) -> None:
    """R98: no empty summary takes the place of messages."""
    with pytest.raises(InvalidMessage):
        answer_of(output)
