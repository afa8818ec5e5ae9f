"""What stays stored: frozen values that become arguments of the append script."""

from __future__ import annotations

from dataclasses import dataclass

from memory_redis.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class MaxMessages:
    """At most `count` messages stay stored; an append removes the oldest beyond that.

    No tool exchange that is stored is cut in half: the cut moves on past the results of every call
    that goes (looking 1,000 messages ahead), so fewer may stay. A result that is appended after its
    call has gone is stored, and left out by windows. An append of more messages than `count` is
    stored whole, then trimmed. Records that another library wrote are not looked into.

    Args:
        count: from 1 to 10**9.

    Raises:
        InvalidSetting: anything else.
    """

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= 10**9:
            raise InvalidSetting("MaxMessages takes an integer from 1 to 10**9")
