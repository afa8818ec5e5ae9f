"""What a history does, on both faces and every server."""

from __future__ import annotations

import pytest

from memory_redis import ConflictError, InvalidMessage, ai, human
from tests.conftest import MakeMemory

pytestmark = pytest.mark.anyio


async def test_messages_come_back_in_the_order_of_their_appends(memory: MakeMemory) -> None:
    """A01: one by one or together, a load gives oldest first."""
    history = memory().history("ann", "c1")
    await history.append(human("1"))
    await history.append(ai("2"), human("3"))
    snapshot = await history.load()
    assert [message.text for message in snapshot.messages] == ["1", "2", "3"]
    assert [message.seq for message in snapshot.messages] == [0, 1, 2]
    assert snapshot.version.number == 3


async def test_an_append_against_an_old_version_stores_nothing(memory: MakeMemory) -> None:
    """P3, P8: the conflict carries the current version and what was missed."""
    history = memory().history("ann", "c1")
    seen = await history.append(human("1"))
    now = await history.append(ai("2"))
    with pytest.raises(ConflictError) as caught:
        await history.append(human("3"), expected=seen)
    assert caught.value.version == now
    assert [message.text for message in caught.value.missed] == ["2"]
    assert await history.count() == 2


async def test_an_append_of_nothing_is_refused(memory: MakeMemory) -> None:
    """Decision 9: no message is a ValueError, and no key appears."""
    history = memory().history("ann", "c1")
    with pytest.raises(InvalidMessage):
        await history.append()
    assert not await history.exists()
