"""What stays stored: frozen values that become arguments of the append script."""

from __future__ import annotations

from dataclasses import dataclass

from memory_redis.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class MaxMessages:
    """At most `count` messages stay stored; an append removes the oldest beyond that.

    No tool exchange is cut in half: the cut moves on to the next place where none is open, so
    fewer may stay. An append of more messages than `count` is stored whole, then trimmed.

    Args:
        count: from 1 to 10**9.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= 10**9:
            raise InvalidSetting("MaxMessages takes an integer from 1 to 10**9")
