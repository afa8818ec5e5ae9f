"""How much a record, an append and a load may hold."""

from __future__ import annotations

from dataclasses import dataclass, fields

from memory_redis.errors import InvalidSetting

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that are checked before anything is sent, and before anything is decoded.

    One bound is not to be set: a message holds at most 255 tool calls with an id.

    Attributes:
        record_bytes: one message, encoded. A stored record above it is not decoded.

        append_bytes: all messages of one append, encoded.

        append_messages: messages of one append.

        load_bytes: a whole conversation that one load may return.

    Raises:
        InvalidSetting: a limit is not an integer from 1 to 2**29 (512 MiB).
    """

    record_bytes: int = 4 * MIB
    append_bytes: int = 16 * MIB
    append_messages: int = 1000
    load_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) is not int or not 0 < value <= 512 * MIB:
                unit = "" if item.name == "append_messages" else " (512 MiB)"
                raise InvalidSetting(f"{item.name} must be an integer from 1 to {512 * MIB:,}{unit}")
