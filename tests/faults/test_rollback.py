"""A server that comes back with less than it had acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_redis import AppendId, ConflictError, HistoryRolledBack, ai, human
from memory_redis.telemetry import Event
from tests.faults.conftest import Connect
from tests.support.servers import Binary, Server, binaries

pytestmark = pytest.mark.anyio


@pytest.fixture(params=binaries(), ids=lambda binary: binary.version)
def forgetful(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that keeps what it is told to SAVE, and loses the rest when it is killed."""
    binary: Binary = request.param
    with Server(binary) as server:
        yield server


def roll_back(server: Server) -> None:
    """Crash, and come back with the data of the last SAVE."""
    server.kill()
    server.start()


async def test_a_token_from_before_a_rollback_is_refused_and_says_so(
    connect: Connect, forgetful: Server
) -> None:
    """P7, F5, decision 3: same life, lower number: HistoryRolledBack, not stored."""
    events: list[Event] = []
    history = connect(forgetful.port, timeout=5, hooks=(events.append,)).history("ann", "c")
    kept = await history.append(human("1"))
    forgetful.ask("SAVE")
    lost = await history.append(ai("2"), human("3"))
    roll_back(forgetful)
    with pytest.raises(HistoryRolledBack) as caught:
        await history.append(human("4"), expected=lost)
    assert caught.value.outcome == "not_stored"
    assert caught.value.version == kept
    assert [event.detail for event in events if event.kind == "conflict"] == ["HistoryRolledBack"]
    assert [message.text for message in (await history.load()).messages] == ["1"]
    assert (await history.append(human("4"), expected=kept)).number == 2


async def test_a_history_that_grew_again_after_a_rollback_does_not_take_old_tokens(
    connect: Connect, forgetful: Server
) -> None:
    """P7, P8: the number is the same again, the append that it ended with is not."""
    history = connect(forgetful.port, timeout=5).history("ann", "c")
    await history.append(human("1"))
    forgetful.ask("SAVE")
    lost = await history.append(ai("2"))
    roll_back(forgetful)
    other = await history.append(ai("another 2"))
    assert (other.number, other.birth) == (lost.number, lost.birth)
    with pytest.raises(ConflictError):
        await history.append(human("3"), expected=lost)
    assert [message.text for message in (await history.load()).messages] == ["1", "another 2"]


@pytest.mark.parametrize("policy", ["append", "raise"])
async def test_a_turn_over_a_rollback_reports_it(connect: Connect, forgetful: Server, policy: str) -> None:
    """P7, decisions 3 and 4: under policy append the turn is stored, and the loss is not silent."""
    history = connect(forgetful.port, timeout=5).history("ann", "c")
    await history.append(human("1"))
    forgetful.ask("SAVE")
    await history.append(ai("2"))
    conflict: ConflictError | None = None
    try:
        async with history.turn(on_conflict=policy) as turn:
            turn.add(human("3"))
            roll_back(forgetful)
        conflict = turn.conflict
    except ConflictError as error:
        conflict = error
    assert isinstance(conflict, HistoryRolledBack)
    texts = [message.text for message in (await history.load()).messages]
    assert texts == (["1", "3"] if policy == "append" else ["1"])


async def test_what_was_rolled_back_can_be_stored_again_by_its_id(
    connect: Connect, forgetful: Server
) -> None:
    """P2, P9: the ring went back with the messages, so settle() says what is true, and a repeat stores."""
    history = connect(forgetful.port, timeout=5).history("ann", "c")
    await history.append(human("1"))
    forgetful.ask("SAVE")
    append_id = AppendId.new()
    await history.append(ai("2"), append_id=append_id)
    roll_back(forgetful)
    assert await history.settle(append_id) is None
    version = await history.append(ai("2"), append_id=append_id)
    assert (version.number, version.repeated) == (2, False)
    assert (await history.append(ai("2"), append_id=append_id)).repeated
    assert [message.text for message in (await history.load()).messages] == ["1", "2"]


async def test_a_server_that_lost_everything_begins_another_life(connect: Connect, forgetful: Server) -> None:
    """F5: total loss is reported as a conflict with another life; numbers begin anew, tokens do not fit."""
    memory = connect(forgetful.port, timeout=5)
    history = memory.history("ann", "c")
    lost = await history.append(human("1"), ai("2"))
    roll_back(forgetful)
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=lost)
    assert caught.value.expired
    assert (await history.append(human("1"), ai("2"))).number == lost.number
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=lost)
    assert caught.value.expired
    assert [info.messages async for info in memory.conversations("ann")] == [2]
