"""Plans and flows, run over a channel: the same few lines for sync and asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar, cast

from memory_redis._engine.attempts import RAISED, Attempts
from memory_redis._engine.channels import AsyncChannel, Channel
from memory_redis._engine.plans import Flow, Plan
from memory_redis.errors import MemoryRedisError

T = TypeVar("T")


class Driver:
    """Runs plans over a sync channel. `deadline`: seconds a call may take, repeats included."""

    __slots__ = ("_channel", "_deadline")

    def __init__(self, channel: Channel, deadline: float) -> None:
        self._channel, self._deadline = channel, deadline

    def run(self, plan: Plan[T]) -> T:
        """One plan's result."""
        return self._run(plan, time.monotonic() + self._deadline)

    def _run(self, plan: Plan[T], until: float) -> T:
        channel, attempts = self._channel, Attempts(plan, until)
        while True:
            try:
                replies = attempts.checked(channel.exchange(attempts.wires(), attempts.seconds()))
            except RAISED as error:
                time.sleep(attempts.failed(error))
            else:
                return cast(T, attempts.decoded(replies))

    def drive(self, flow: Flow[T], seconds: float | None = None) -> T:
        """A flow's result; within so many seconds, if that is less than the deadline."""
        until = time.monotonic() + min(self._deadline, seconds or self._deadline)
        try:
            plan = next(flow)
            while True:
                try:
                    result = self._run(plan, until)
                except MemoryRedisError as error:
                    plan = flow.throw(error)
                else:
                    plan = flow.send(result)
        except StopIteration as end:
            return cast(T, end.value)

    def close(self) -> None:
        """Close what the channel opened."""
        self._channel.close()


class AsyncDriver:
    """Runs plans over an asyncio channel. `deadline`: seconds a call may take, repeats included."""

    __slots__ = ("_channel", "_deadline")

    def __init__(self, channel: AsyncChannel, deadline: float) -> None:
        self._channel, self._deadline = channel, deadline

    async def run(self, plan: Plan[T]) -> T:
        """One plan's result."""
        return await self._run(plan, time.monotonic() + self._deadline)

    async def _run(self, plan: Plan[T], until: float) -> T:
        channel, attempts = self._channel, Attempts(plan, until)
        while True:
            try:
                replies = attempts.checked(await channel.exchange(attempts.wires(), attempts.seconds()))
            except RAISED as error:
                await asyncio.sleep(attempts.failed(error))
            else:
                return cast(T, attempts.decoded(replies))

    async def drive(self, flow: Flow[T], seconds: float | None = None) -> T:
        """A flow's result; within so many seconds, if that is less than the deadline."""
        until = time.monotonic() + min(self._deadline, seconds or self._deadline)
        try:
            plan = next(flow)
            while True:
                try:
                    result = await self._run(plan, until)
                except MemoryRedisError as error:
                    plan = flow.throw(error)
                else:
                    plan = flow.send(result)
        except StopIteration as end:
            return cast(T, end.value)

    async def aclose(self) -> None:
        """Close what the channel opened."""
        await self._channel.aclose()

    def release(self) -> None:
        """Let go of what the channel opened, from outside of its event loops."""
        self._channel.release()
