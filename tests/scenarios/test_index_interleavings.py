"""Another client comes between the trips of whatever touches a user's index."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis

from memory_redis import AsyncRedisMemory, HistoryCleared, RedisMemory, human
from memory_redis.testing import AsyncView
from tests.scenarios.ambush import Ambush
from tests.scenarios.stored import Names, keys_in, listed_in, real_servers
from tests.support.servers import Server

pytestmark = [pytest.mark.anyio, real_servers]


@pytest.fixture(params=["sync", "async"])
async def slow(request: pytest.FixtureRequest, ambush: Ambush, namespace: str) -> AsyncIterator[Any]:
    """A memory behind the proxy."""
    one: Any = (
        AsyncView(RedisMemory.from_url(ambush.url, namespace=namespace))
        if request.param == "sync"
        else AsyncRedisMemory.from_url(ambush.url, namespace=namespace)
    )
    async with one:
        yield one


async def list_all(memory: Any, user: str) -> None:
    """Read a user's list to its end."""
    assert all([info.messages > 0 async for info in memory.conversations(user)])


OPERATIONS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "append": lambda memory, user: memory.history(user, "c1").append(human("mine")),
    "clear": lambda memory, user: memory.history(user, "c1").clear(),
    "forget": lambda memory, user: memory.forget(user),
    "list": list_all,
}
ACTIONS: dict[str, Callable[[RedisMemory, str], Any]] = {
    "append": lambda memory, user: memory.history(user, "c1").append(human("theirs")),
    "append to another": lambda memory, user: memory.history(user, "c2").append(human("theirs")),
    "clear": lambda memory, user: memory.history(user, "c1").clear(),
    "clear and append": lambda memory, user: (
        memory.history(user, "c1").clear(),
        memory.history(user, "c1").append(human("theirs")),
    ),
    "forget": lambda memory, user: memory.forget(user),
    "list": lambda memory, user: list(memory.conversations(user)),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("state", ["new", "stored", "cleared", "ended long ago"])
async def test_no_list_is_outside_the_index_whoever_comes_between(
    ambush: Ambush,
    slow: Any,
    raw: redis.Redis,
    namespace: str,
    server: Server,
    state: str,
    operation: str,
) -> None:
    """Decision 12, S8: every schedule of two clients ends with all lists listed, and forget empties them."""
    sprung = 0
    with RedisMemory.from_url(server.url, namespace=namespace) as quick:
        for action, act in ACTIONS.items():
            for nth in range(1, 9):
                user = f"{action[-5:].strip()}-{len(action)}-{nth}"
                keys = Names.of(namespace, user)
                if state != "new":
                    quick.history(user, "c1").append(human("old"))
                if state == "cleared":
                    quick.history(user, "c1").clear()
                if state == "ended long ago":
                    raw.delete(keys.messages, keys.meta)
                    raw.zadd(keys.index, {"c1": 1})
                ambush.lay(nth, lambda act=act, user=user: act(quick, user))
                with contextlib.suppress(HistoryCleared):
                    await OPERATIONS[operation](slow, user)
                if not ambush.sprung:  # the operation has no so many requests
                    break
                sprung += 1
                lists = [key for key in keys_in(raw, f"{namespace}:{{{user}") if key.endswith(":messages")]
                listed = [info.conversation_id for info in quick.conversations(user)]
                assert sorted(lists) == sorted(Names.of(namespace, user, name).messages for name in listed)
                assert quick.forget(user).conversations == len(lists)
                assert raw.exists(keys.messages) == 0
                assert listed_in(raw, keys) == set()
    assert sprung >= len(ACTIONS)


@pytest.mark.parametrize("operation", ["clear", "forget"])
async def test_a_score_never_comes_back(
    ambush: Ambush, slow: Any, raw: redis.Redis, keys: Names, server: Server, namespace: str, operation: str
) -> None:
    """Decision 12, F15 of the fault programme: not even with scores ahead of a clock that was set back."""
    with RedisMemory.from_url(server.url, namespace=namespace) as quick:

        def drop_and_begin_anew() -> None:
            quick.history("ann", "c1").clear()
            quick.history("ann", "c1").append(human("theirs"))

        for nth in range(2, 9):
            for name in ("c0", "c1"):
                quick.history("ann", name).append(human("old"))
            ahead = int(raw.zscore(keys.index, "c1")) * 2
            raw.zadd(keys.index, {"c0": ahead, "c1": ahead + 1})
            ambush.lay(nth, drop_and_begin_anew)
            await OPERATIONS[operation](slow, "ann")
            if not ambush.sprung:
                break
            listed = {info.conversation_id async for info in slow.conversations("ann")}
            assert raw.exists(keys.messages) == ("c1" in listed)
            quick.forget("ann")
            raw.delete(keys.index)
