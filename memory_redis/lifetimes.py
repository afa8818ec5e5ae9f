"""When one conversation ends: what `History` and `AsyncHistory` can ask and change of that."""

from __future__ import annotations

from datetime import datetime, timedelta

from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.plans import Flow
from memory_redis.expiry import Expiry, NoExpiry, at_instant, check_expiry


def _changed(conversation: Conversation, expiry: Expiry | None) -> Flow[bool]:
    if expiry is None:
        return conversation.renewer.renew("drop")
    return conversation.renewer.renew("set", check_expiry(expiry).terms)


class Lifetime:
    """The end of one conversation, for sync code.

    A conversation ends by the expiry of its history, or else of the memory, and each append renews
    that. `expire`, `expire_at` and `pin` give it terms of its own instead, which later appends of
    every worker keep, until `expire(None)` or the end of the conversation.
    """

    _conversation: Conversation
    _driver: Driver

    def expire_in(self) -> float | None:
        """Seconds until the conversation ends; None if it does not, or is not there."""
        return self._driver.run(self._conversation.expire_in())

    def expire(self, expiry: Expiry | None) -> bool:
        """Give the conversation an expiry of its own; None takes it away again.

        Idle time counts from now, a fixed end and `max_age` from the first message, as ever. Without an
        expiry of its own the conversation ends by that of this history, at once if it is over by that.

        Returns:
            Whether the conversation is there. Nothing is kept for one that is not.

        Raises:
            InvalidSetting: it is no expiry, or the conversation would have ended already by its own.
        """
        return self._driver.drive(_changed(self._conversation, expiry))

    def expire_at(self, when: datetime | timedelta) -> bool:
        """Let the conversation end at an instant, whatever happens meanwhile.

        Args:
            when: an instant with a time zone, to the millisecond; or how long from now. By the server's
                clock.

        Returns:
            Whether the conversation is there.

        Raises:
            InvalidSetting: the instant has no time zone, or is past.
        """
        return self._driver.drive(self._conversation.renewer.renew("set", at_instant(when)))

    def pin(self) -> bool:
        """Let the conversation not end by itself; `expire(None)` unpins it.

        Returns:
            Whether the conversation is there.
        """
        return self.expire(NoExpiry())

    def touch(self) -> bool:
        """Renew the end as an append would, and store nothing.

        Returns:
            Whether the conversation is there. One that is over by its expiry, because that was made
            shorter, ends.
        """
        return self._driver.drive(self._conversation.renewer.renew("touch"))


class AsyncLifetime:
    """The end of one conversation, for asyncio. As `Lifetime`."""

    _conversation: Conversation
    _driver: AsyncDriver

    async def expire_in(self) -> float | None:
        """Seconds until the conversation ends; None if it does not, or is not there."""
        return await self._driver.run(self._conversation.expire_in())

    async def expire(self, expiry: Expiry | None) -> bool:
        """Give the conversation an expiry of its own; None takes it away again. As `Lifetime.expire`.

        Raises:
            InvalidSetting: it is no expiry, or the conversation would have ended already by its own.
        """
        return await self._driver.drive(_changed(self._conversation, expiry))

    async def expire_at(self, when: datetime | timedelta) -> bool:
        """Let the conversation end at an instant, whatever happens meanwhile. As `Lifetime.expire_at`.

        Raises:
            InvalidSetting: the instant has no time zone, or is past.
        """
        return await self._driver.drive(self._conversation.renewer.renew("set", at_instant(when)))

    async def pin(self) -> bool:
        """Let the conversation not end by itself; `expire(None)` unpins it. As `Lifetime.pin`."""
        return await self.expire(NoExpiry())

    async def touch(self) -> bool:
        """Renew the end as an append would, and store nothing. As `Lifetime.touch`."""
        return await self._driver.drive(self._conversation.renewer.renew("touch"))
