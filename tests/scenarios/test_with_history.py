"""A model that remembers: what goes in, what the model sees, what comes out, what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import (
    InvalidAnswer,
    InvalidMessage,
    LastMessages,
    TurnReport,
    ai,
    chat,
    human,
    system,
    tool,
)
from tests.scenarios.chats import Chats, Script, one_server
from tests.scenarios.stored import call, result
from tests.support.ids import shown

pytestmark = pytest.mark.anyio


async def test_text_in_text_out(chats: Chats) -> None:
    """R27, R43, R51, R52, R56, R82: a human and an ai message, stored in this order before the call ends."""
    model = Script("Hello")
    ask = chats.wrap(model)
    assert await ask("Hi") == "Hello"
    assert model.seen == [["human: Hi"]]
    assert chats.said() == ["human: Hi", "ai: Hello"]
    assert chats.load().messages == [human("Hi"), ai("Hello")]


async def test_the_model_sees_one_three_and_five_messages(chats: Chats) -> None:
    """R85: the past, and what is new."""
    model = Script("a1", "a2", "a3")
    ask = chats.wrap(model)
    for number in (1, 2, 3):
        await ask(f"q{number}")
    assert list(map(len, model.given)) == [1, 3, 5]
    assert model.seen[2] == ["human: q1", "ai: a1", "human: q2", "ai: a2", "human: q3"]


async def test_a_turn_is_there_for_any_worker_when_the_call_returns(chats: Chats) -> None:
    """A19, R56: twenty turns in a row, each by a wrapper and a memory of its own, and none is missing."""
    for number in range(20):
        model = Script(str(number))
        await chats.wrap(model)(f"question {number}")
        assert len(model.given[0]) == 2 * number + 1
    assert len(chats.said()) == 40


INPUTS: list[tuple[str, Any, list[str]]] = [
    ("a text", "Hi", ["human: Hi"]),
    ("an empty text", "", ["human: "]),
    ("a message", human("Hi", name="ann"), ["human: Hi"]),
    ("a system message", system("Be kind"), ["system: Be kind"]),
    ("a list of messages", [system("Be kind"), human("Hi")], ["system: Be kind", "human: Hi"]),
    ("a tuple of messages", (human("Hi"), human("there")), ["human: Hi", "human: there"]),
    ("texts", ["Hi", "there"], ["human: Hi", "human: there"]),
    ("a list in a list", [["Hi", ai("Hello")]], ["human: Hi", "ai: Hello"]),
    ("a role and a text", ("system", "Be kind"), ["system: Be kind"]),
    ("roles and texts", [("human", "Hi"), ("assistant", "Hello")], ["human: Hi", "ai: Hello"]),
    ("a dictionary", {"role": "user", "content": "Hi"}, ["human: Hi"]),
    (
        "dictionaries",
        [{"role": "developer", "content": "Be kind"}, {"role": "user", "content": "Hi"}],
        ["system: Be kind", "human: Hi"],
    ),
    ("a result of a tool", {"role": "tool", "content": "4", "tool_call_id": "x"}, ["tool: 4"]),
    ("a role of its own", {"role": "narrator", "content": "Later"}, ["chat: Later"]),
]


@one_server
@pytest.mark.parametrize(("value", "expected"), [row[1:] for row in INPUTS], ids=[row[0] for row in INPUTS])
async def test_what_goes_in_becomes_messages(chats: Chats, value: Any, expected: list[str]) -> None:
    """R27 to R30, R40, T16: the model and the store get messages, never raw texts, pairs or dictionaries."""
    model = Script("Hello")
    ask = chats.wrap(model)
    assert await ask(value) == "Hello"
    assert model.seen == [expected]
    assert chats.said() == [*expected, "ai: Hello"]


@pytest.mark.parametrize("nothing", [[], (), [[]]], ids=repr)
async def test_nothing_new_stores_the_answer_alone(chats: Chats, nothing: Any) -> None:
    """R31: the model gets the past only."""
    chats.append(human("q"), ai("a"))
    model = Script("and another thing")
    assert await chats.wrap(model)(nothing) == "and another thing"
    assert model.seen == [["human: q", "ai: a"]]
    assert chats.said() == ["human: q", "ai: a", "ai: and another thing"]


BAD_INPUTS: list[Any] = [
    None,
    5,
    1.5,
    True,
    b"Hi",
    object(),
    {"Hi"},
    range(3),
    [None],
    ["Hi", 5],
    ["Hi", b"there"],
    [()],
    ["Hi", ["there"]],
    [["Hi"], ["there"]],
    [[["Hi"]]],
    [["Hi"], "there"],
    {},
    {"role": "user", "content": 5},
    {"role": "user", "content": [5]},
    {"role": 5, "content": "Hi"},
    {"role": "tool", "content": "a call is missing"},
    {"role": "user", "content": "Hi", "id": ["x"]},
    [{"content": "no role"}],
    {"role": "user", "content": "Hi", 5: "a key that is no text"},
    {"role": "assistant", "content": "Hi", "tool_calls": ["not a call"]},
]


@one_server
async def test_what_is_no_message_is_refused_before_the_model_runs(chats: Chats) -> None:
    """R37, T17: a ValueError, nothing stored and nothing paid for."""
    ask = chats.wrap(Script())
    for value in BAD_INPUTS:
        with pytest.raises(InvalidMessage) as caught:
            await ask(value)
        assert isinstance(caught.value, ValueError), value
    assert chats.said() == []


async def test_the_place_of_what_is_no_message_is_told(chats: Chats) -> None:
    """R37, decision 17: the position in the list, and no content."""
    with pytest.raises(InvalidMessage) as caught:
        await chats.wrap(Script())(["my secret", {"role": "user", "content": {"my": "secret"}}])
    assert caught.value.position == 1
    assert "secret" not in str(caught.value)


OUTPUTS: list[tuple[str, Any, list[str]]] = [
    ("a text", "Hello", ["ai: Hello"]),
    ("an empty text", "", ["ai: "]),
    ("a message", ai("Hello", usage_metadata={"input_tokens": 3}), ["ai: Hello"]),
    ("a message of another kind", human("I am the user now"), ["human: I am the user now"]),
    ("a dictionary", {"role": "assistant", "content": "Hello"}, ["ai: Hello"]),
    ("messages", [call("a"), result("a"), ai("Done")], ["ai: ", "tool: result of a", "ai: Done"]),
    ("texts", ["Hello", ai("there")], ["ai: Hello", "ai: there"]),
    ("nothing", [], []),
]


@one_server
@pytest.mark.parametrize(
    ("output", "expected"), [row[1:] for row in OUTPUTS], ids=[row[0] for row in OUTPUTS]
)
async def test_what_comes_out_is_stored_and_given_unchanged(
    chats: Chats, output: Any, expected: list[str]
) -> None:
    """R43 to R45, R51, R52: a text is the model's, a message keeps its kind, a list its order."""
    assert await chats.wrap(Script(output))("Hi") == output
    assert chats.said() == ["human: Hi", *expected]


async def test_the_caller_gets_the_very_object_that_the_model_gave() -> None:
    """R51: not a copy of it, and nothing is added to it."""
    chats = Chats("function", "fake://", "n")
    answer = ai("Hello")
    assert await chats.wrap(Script(answer))("Hi") is answer
    assert answer.seq is None
    await chats.close()


BAD_OUTPUTS: list[Any] = [
    None,
    5,
    b"Hello",
    object(),
    {"Hello"},
    [{"type": "text", "text": "a content block"}],
    ["Hello", None],
    ai("Hello", response_metadata={"big": 2**70}),
    ai("Hello", additional_kwargs={"held": object()}),
    {"role": "assistant", "content": 5},
]


@one_server
@pytest.mark.parametrize("output", BAD_OUTPUTS, ids=shown)
async def test_an_answer_that_is_no_message_is_raised_and_not_lost(chats: Chats, output: Any) -> None:
    """R50, T1, T16: InvalidAnswer carries it; neither it nor the question is stored."""
    report = TurnReport()
    if "generator" in chats.kind and output in (None, ["Hello", None]):
        output = 7  # in a stream None is nothing
    with pytest.raises(InvalidAnswer) as caught:
        await chats.wrap(Script(output))("Hi", report=report)
    found = caught.value.output
    assert found == output or found == [output] or [found] == output
    assert caught.value.outcome == "not_stored"
    assert isinstance(caught.value, ValueError)
    assert (report.saved, report.version) == (False, None)
    assert chats.said() == []


async def test_a_model_that_fails_stores_nothing(chats: Chats) -> None:
    """R54, T7: its error arrives unchanged, and the next turn sees none of it."""
    error = RuntimeError("overloaded")
    model = Script(error, "Hello")
    ask = chats.wrap(model)
    with pytest.raises(RuntimeError) as caught:
        await ask("Hi")
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (None, None)
    assert chats.said() == []
    assert await ask("Hi again") == "Hello"
    assert model.seen[1] == ["human: Hi again"]


async def test_a_retry_of_the_model_itself_is_stored_once(chats: Chats) -> None:
    """R59: for the attempt that worked, whether it is repeated inside or outside of the wrapper."""
    attempts: list[str] = []

    def stubborn(given: list[Any]) -> str:
        for _ in range(3):
            attempts.append("inside")
            if len(attempts) == 3:
                return "Hello"
        raise RuntimeError

    await chats.wrap(stubborn)("Hi")
    ask = chats.wrap(Script(RuntimeError(), RuntimeError(), "there"))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await ask("Hi again")
    await ask("Hi again")
    assert chats.said() == ["human: Hi", "ai: Hello", "human: Hi again", "ai: there"]


async def test_a_prompt_that_the_model_adds_is_not_stored(chats: Chats) -> None:
    """R60, T21: what a model does with the list that it gets is its own affair."""

    def model(given: list[Any]) -> str:
        given.insert(0, system("You are helpful"))
        given.append(human("and brief"))
        return str(len(given))

    ask = chats.wrap(model)
    assert await ask("Hi") == "3"
    assert await ask("Hi") == "5"
    assert chats.said() == ["human: Hi", "ai: 3", "human: Hi", "ai: 5"]


async def test_a_stored_system_message_is_shown_in_its_place(chats: Chats) -> None:
    """R61: and kept."""
    chats.append(human("q"), system("Be brief from now on"), ai("a"))
    model = Script("ok")
    await chats.wrap(model)("Hi")
    assert model.seen == [["human: q", "system: Be brief from now on", "ai: a", "human: Hi"]]
    assert chats.said()[1] == "system: Be brief from now on"


async def test_a_turn_with_tools_is_one_unit(chats: Chats) -> None:
    """E08, E10, E11, T22: call, result and answer are stored together and seen by the next turn."""
    turn = [call("a", text="Let me look"), result("a"), ai("It is late")]
    await chats.wrap(Script(turn))("Where is my parcel?")
    model = Script("ok")
    await chats.wrap(model)("Thanks")
    assert model.given[0] == [human("Where is my parcel?"), *turn, human("Thanks")]
    assert chats.load().messages[1].tool_calls == turn[0].tool_calls


async def test_blocks_of_one_message_stay_together(chats: Chats) -> None:
    """E24: reasoning, text and call of one answer are given back as they were, in one message."""
    answer = ai(
        [
            {"type": "reasoning", "reasoning": "hm", "id": "r1"},
            {"type": "text", "text": "Let me look"},
            {"type": "tool_use", "id": "a", "name": "look", "input": {}},
        ],
        tool_calls=[{"name": "look", "args": {}, "id": "a", "type": "tool_call"}],
    )
    await chats.wrap(Script([answer]))("Hi")
    model = Script("ok")
    await chats.wrap(model, window=LastMessages(1))(result("a"))
    assert model.given == [[answer, result("a")]]


async def test_fields_that_nobody_knows_are_kept(chats: Chats) -> None:
    """R42: of what goes in and of what comes out."""
    question = human("Hi", id="q1", name="ann", additional_kwargs={"lang": "en"}, mood="fine")
    answer = ai("Hello", response_metadata={"model": "m1"}, sources=["a", {"b": 1}])
    await chats.wrap(Script(answer))(question)
    model = Script("ok")
    await chats.wrap(model)(chat("psst", role="narrator"))
    assert model.given[0] == [question, answer, chat("psst", role="narrator")]


async def test_other_keywords_go_to_the_model(chats: Chats) -> None:
    """T12: those of the wrapper do not, whatever a call names."""
    model = Script("ok", "ok")
    ask = chats.wrap(model)
    await ask("Hi", temperature=0.5, value="mine", past=[])
    await ask("Hi", session="s1", report=TurnReport(), window=LastMessages(1), idempotency_key="k")
    assert model.options == [{"temperature": 0.5, "value": "mine", "past": []}, {}]


async def test_a_keyword_that_the_model_does_not_know_stores_nothing(chats: Chats) -> None:
    """R54: a TypeError as of any call."""

    def answer(given: list[Any]) -> str:
        return "ok"

    with pytest.raises(TypeError):
        await chats.wrap(answer)("Hi", temperatur=0.5)
    assert chats.said() == []


async def test_a_window_is_what_the_model_sees_and_not_what_is_kept(chats: Chats) -> None:
    """R87, T20, T25: of the memory, of the wrapper or of the call, the nearest one counts."""
    chats.append(*(human(str(number)) for number in range(6)))
    model = Script("a", "b", "c")
    memory = chats.memory(window=LastMessages(4))
    await chats.wrap(model, memory)("q1")
    ask = chats.wrap(model, memory, window=LastMessages(2))
    await ask("q2")
    await ask("q3", window=LastMessages(0))
    assert model.seen == [
        ["human: 2", "human: 3", "human: 4", "human: 5", "human: q1"],
        ["human: q1", "ai: a", "human: q2"],
        ["human: q3"],
    ]
    assert len(chats.said()) == 12


async def test_results_of_a_tool_can_be_the_input(chats: Chats) -> None:
    """R35, E09: the call of the turn before is answered by it, so it is shown."""
    await chats.wrap(Script(call("a")))("Hi")
    model = Script("It is late")
    await chats.wrap(model)([tool("late", tool_call_id="a")])
    assert model.seen == [["human: Hi", "ai: ", "tool: late"]]
    assert chats.said() == ["human: Hi", "ai: ", "tool: late", "ai: It is late"]
