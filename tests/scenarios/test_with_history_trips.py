"""How often a wrapped call asks the server, counted on the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from memory_redis import LastMessages, ai, human
from tests.scenarios.chats import Chats, Script
from tests.scenarios.stored import call, reads, real_servers, result

pytestmark = [pytest.mark.anyio, real_servers]

Trips = Callable[[Awaitable[Any]], Awaitable[int]]


@pytest.fixture
def trips(raw: redis.Redis) -> Trips:
    """How often the server read a request from any client while something was awaited."""

    async def count(work: Awaitable[Any]) -> int:
        before = reads(raw)
        await work
        return reads(raw) - before - 1  # less our own look

    return count


async def test_a_turn_is_two_trips(chats: Chats, trips: Trips) -> None:
    """R53, E14, T25: one load and one append, whatever it stores, shows or expects."""
    chats.append(*(human(str(number)) for number in range(100)))
    turn = [call("a"), result("a"), ai("done")]
    model = Script(*["ok"] * 8, turn)
    memory = chats.memory()
    rules: list[dict[str, Any]] = [{}, {"on_conflict": "raise"}, {"on_conflict": "retry"}]
    asks = [chats.wrap(model, memory, **rule) for rule in rules]
    await asks[0]("Hi", idempotency_key="k0")  # connected, and the server has each script by now
    for ask in asks:
        assert await trips(ask("Hi")) == 2
    assert await trips(asks[0]("Hi", window=LastMessages(5))) == 2
    assert await trips(asks[0](["Hi"] * 100)) == 2
    assert await trips(asks[0]("Hi", idempotency_key="k1")) == 2
    assert await trips(asks[0]("Hi")) == 2
    assert await trips(asks[0]("Hi")) == 2


async def test_a_request_that_is_sent_again_is_a_load_and_a_look(chats: Chats, trips: Trips) -> None:
    """R53, decision 5: the stored answer is read where it stands."""
    ask = chats.wrap(Script("ok"))
    for _ in range(2):
        await ask("Hi", idempotency_key="k")
    assert await trips(ask("Hi", idempotency_key="k")) == 2


async def test_a_question_that_is_stored_first_is_a_third_trip(chats: Chats, trips: Trips) -> None:
    """R53, R84: load, question, answer."""
    ask = chats.wrap(Script("ok", "ok", "ok"), save_input="before")
    await ask("Hi", idempotency_key="k")
    assert await trips(ask("Hi")) == 3
    assert await trips(ask("Hi", idempotency_key="k2")) == 3


async def test_a_request_that_is_sent_again_after_a_part_looks_for_the_whole(
    chats: Chats, trips: Trips
) -> None:
    """R53, decision 5: load, look, whole answer, turn again, answer; then a load and a look for each."""
    ask = chats.wrap(Script("ok", "ok"))
    await ask("Hi", idempotency_key="k0")
    part = ai("o", response_metadata={"partial": True})
    chats.direct.history("ann", "c1").append(human("Hi"), part, idempotency_key="k")
    assert await trips(ask("Hi", idempotency_key="k")) == 5
    assert await trips(ask("Hi", idempotency_key="k")) == 4


async def test_a_conflict_costs_a_trip_only_where_the_model_runs_again(chats: Chats, trips: Trips) -> None:
    """R53, T9: by policy append it is told with the append itself; the other worker's append is the third."""

    def interrupted(given: Any) -> str:
        chats.append(human("other"))
        return "ok"

    chats.append(human("0"))
    memory = chats.memory()
    await chats.wrap(Script("ok"), memory)("Hi")
    assert await trips(chats.wrap(interrupted, memory)("Hi")) == 3
    if not chats.streams:
        retried = chats.wrap(Script(interrupted, "ok"), memory, on_conflict="retry")
        assert await trips(retried("Hi")) == 5


async def test_a_turn_that_is_refused_before_the_model_runs_asks_nothing(chats: Chats, trips: Trips) -> None:
    """R53, T17: an input that is no message, or a call that names no conversation."""
    ask = chats.wrap(Script())

    async def refused() -> None:
        for value, names in ((None, {}), ("Hi", {"session": ""}), ({}, {})):
            with pytest.raises((ValueError, TypeError)):
                await ask(value, **names)

    assert await trips(refused()) == 0
