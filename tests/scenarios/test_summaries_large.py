"""Summaries of conversations that have many bytes for what one load may bring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import redis

from memory_redis import Limits, StoredMessage, SummaryNotMade, UnsupportedFormat, human, tool
from tests.conftest import MakeMemory
from tests.scenarios.chats import one_server
from tests.scenarios.remembering import IN_FRONT, SUMMARY, SUMMARY_BUFFER, Model, over
from tests.scenarios.stored import call, texts

pytestmark = pytest.mark.anyio

LIMITS = Limits(load_bytes=8000, record_bytes=1000)
"""Eight messages surely fit; about twelve of those below do."""

PLANS: dict[str, tuple[Any, ...]] = {
    "messages": (SUMMARY, 20),
    "tokens": (SUMMARY_BUFFER, 10**6),
    "tokens that are not stored": (SUMMARY_BUFFER, 10**6, lambda message: 1),
}
"""None of which is ever crossed here."""


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    """The strategy, its size and its counter."""
    found: tuple[Any, ...] = PLANS[request.param]
    return found


def planned(store: Any, plan: tuple[Any, ...], model: Model) -> Any:
    """A strategy of that plan."""
    name, size, *counter = plan
    return over(store, name, model, size, **({"counter": counter[0]} if counter else {}))


def large(number: int) -> StoredMessage:
    return human(f"{number} " + "x" * 550)


def told_by(model: Model) -> list[int]:
    """The numbers of the messages that a model was told of."""
    lines = [line for lines in model.told for line in lines if line.startswith("human: ")]
    return [int(line.split(" ")[1]) for line in lines]


def numbers(messages: Iterable[StoredMessage]) -> list[int]:
    """The numbers of messages."""
    return [int(message.text.split(" ")[0]) for message in messages]


async def test_a_conversation_never_grows_beyond_what_one_load_may_bring(
    coded: MakeMemory, plan: tuple[Any, ...]
) -> None:
    """R92, R93, decision 16: above half of it a summary is due, however few the messages; none is lost."""
    memory, model = coded(limits=LIMITS), Model()
    store = planned(memory, plan, model)
    for number in range(40):
        await store.append("s1", large(number))
        await memory.session("s1").load()
    left = numbers((await memory.session("s1").load()).messages)
    assert [*told_by(model), *left] == list(range(40))
    assert texts(await store.load("s1"))[0] == f"{IN_FRONT}s{len(model.asked)}"


async def test_a_model_that_was_away_for_long_catches_up(coded: MakeMemory, plan: tuple[Any, ...]) -> None:
    """R98, decision 16: meanwhile the newest messages are shown that surely fit; turns go on."""
    memory = coded(limits=LIMITS)
    model = Model(*[RuntimeError("away")] * 100)
    store = planned(memory, plan, model)
    for number in range(30):
        async with store.session("s1").turn() as turn:
            turn.add(large(number))
        assert turn.summary_error is None or isinstance(turn.summary_error.__cause__, RuntimeError)
    assert turn.summary_error is not None
    assert numbers(await store.load("s1")) == list(range(22, 30))
    with pytest.raises(SummaryNotMade):
        await store.append("s1", large(30))

    model.answers.clear()
    model.asked.clear()
    for number in range(31, 50):
        await store.append("s1", large(number))
    left = numbers((await memory.session("s1").load()).messages)
    assert [*told_by(model), *left] == list(range(50))
    assert len(left) <= 8


@one_server
async def test_a_long_exchange_in_front_does_not_keep_the_others_from_being_summarised(
    memory: MakeMemory,
) -> None:
    """R92, F16: it is summarised whole, although one request has no room for it."""
    one, model = memory(limits=Limits(load_bytes=4_000_000, record_bytes=1_000_000)), Model()
    results = [tool("x" * 20_000, tool_call_id="a") for _ in range(80)]
    await one.session("s1").append(call("a"), *results, *(human("x" * 100_000) for _ in range(5)))
    store = over(one, SUMMARY, model, 100)
    await store.append("s1", human("last"))
    await store.append("s1", human("x" * 100_000))
    assert len(model.asked) == 1
    assert len((await one.session("s1").load()).messages) == 7


async def test_a_large_conversation_is_not_summarised_past_what_a_later_release_wrote(
    memory: MakeMemory, raw: redis.Redis, namespace: str
) -> None:
    """R97, decision 18: what stands before it is; then nothing is, and the error says why."""
    model, messages = Model(), f"{namespace}:{{:s1}}:messages"
    one = memory(limits=LIMITS, on_corrupt="skip")
    await one.session("s1").append(*(large(number) for number in range(6)))
    record: Any = raw.lindex(messages, 1)
    raw.lset(messages, 1, b"\x02" + record[1:])
    store = over(one, SUMMARY, model, 20)
    await store.append("s1", large(6))
    with pytest.raises(SummaryNotMade) as caught:
        await store.append("s1", large(7))
    assert isinstance(caught.value.__cause__, UnsupportedFormat)
    assert (told_by(model), raw.llen(messages)) == ([0], 7)
