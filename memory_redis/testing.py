"""Help for tests of applications, and for this library's own.

For fast tests without a server use `RedisMemory.from_url("fake://")` (extra `fake`): fakeredis runs
the same scripts. What it cannot do, and a real server can (`embedded://` is one):

- no persistence, no other process, no connection that could be lost;
- no `INFO`, so `ping()` does not see its version;
- no memory limit, so no `StorageFull`, and no access control, so no `AccessDenied`;
- it runs one script at a time within its process only, so it shows nothing about concurrency
  between processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Final

import anyio.to_thread

from memory_redis.history import History
from memory_redis.memory import RedisMemory
from memory_redis.turns import Turn

_WITHOUT_IO: Final = {"history", "session", "turn"}
_ITERATORS: Final = {"conversations", "iterate"}
_END: Final = object()


class AsyncView:
    """A sync memory, history or turn with the manners of the asyncio one.

    Its methods run in worker threads, so that one scenario can be written once, with `await`, and
    run on both faces. Give it a `RedisMemory`; what it hands out is wrapped as well.
    """

    def __init__(self, target: RedisMemory | History | Turn) -> None:
        self._target: Any = target

    def __getattr__(self, name: str) -> Any:
        target = self._target
        attribute = getattr(target, "close" if name == "aclose" else name)
        if not callable(attribute) or (isinstance(target, Turn) and name == "add"):
            return attribute
        method: Callable[..., Any] = attribute
        if name in _WITHOUT_IO:
            return lambda *args, **kwargs: AsyncView(method(*args, **kwargs))
        if name in _ITERATORS:
            return lambda *args, **kwargs: _iterated(method(*args, **kwargs))
        return _in_thread(method)

    async def __aenter__(self) -> AsyncView:
        await anyio.to_thread.run_sync(self._target.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await anyio.to_thread.run_sync(self._target.__exit__, kind, error, trace)


def _in_thread(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await anyio.to_thread.run_sync(lambda: method(*args, **kwargs))

    return call


async def _iterated(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    while (item := await anyio.to_thread.run_sync(next, iterator, _END)) is not _END:
        yield item
