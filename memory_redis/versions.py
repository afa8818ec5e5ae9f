"""Tokens: the version of a conversation, and the id of one append."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import ClassVar

from memory_redis.errors import InvalidSetting

ID_BYTES = 12
BIRTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a conversation, as a token to append against.

    Two versions are equal when the same conversation, in the same life, ended with the same
    append. A version never returns while the conversation lives, and one of a former life (ended,
    cleared, evicted, rolled back) is always refused.

    Attributes:
        number: messages ever appended in this life, those that were trimmed included; an edit
            raises it too.

        last: id of the last append, 12 bytes; empty for a conversation without messages.

        birth: tag of this life, 8 bytes; empty for a conversation without messages.

        repeated: true on the answer to an append that had been stored before and was recognised.
            Not part of the token.

        trimmed: on the answer to a load, how many messages were no longer stored; else -1. Not part of
            the token.
    """

    number: int = 0
    last: bytes = b""
    birth: bytes = b""
    repeated: bool = field(default=False, compare=False)
    trimmed: int = field(default=-1, compare=False, repr=False)

    _TEXT: ClassVar[re.Pattern[str]] = re.compile(r"(0|[1-9][0-9]{0,14})-([0-9a-f]{24})?-([0-9a-f]{16})?")

    def __post_init__(self) -> None:
        number = type(self.number) is int and 0 <= self.number < 2**48
        last = type(self.last) is bytes and len(self.last) in (0, ID_BYTES)
        birth = type(self.birth) is bytes and len(self.birth) in (0, BIRTH_BYTES)
        if not (number and last and birth):
            raise InvalidSetting("a version is a number below 2**48, an append id and a birth tag")

    def __str__(self) -> str:
        return f"{self.number}-{self.last.hex()}-{self.birth.hex()}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """The version that `str()` gave `text` for.

        Raises:
            InvalidSetting: the text is no version.
        """
        match = cls._TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidSetting("not the text of a version")
        number, last, birth = match.groups(default="")
        return cls(int(number), bytes.fromhex(last), bytes.fromhex(birth))


def known_version(
    number: int, last: bytes, birth: bytes, repeated: bool = False, trimmed: int = -1
) -> Version:
    """A version of parts that were checked before: every append and every load makes one."""
    known = object.__new__(Version)
    object.__setattr__(known, "number", number)
    object.__setattr__(known, "last", last)
    object.__setattr__(known, "birth", birth)
    object.__setattr__(known, "repeated", repeated)
    object.__setattr__(known, "trimmed", trimmed)
    return known


@dataclass(frozen=True, slots=True)
class AppendId:
    """Names one append, so that sending it again stores nothing twice.

    Make one with `AppendId.new()` before an append whose outcome must be settled later, even by
    another process; an `UnknownOutcome` carries one too.

    Attributes:
        value: 12 bytes.

        made: when it was made, by this process's monotonic clock in seconds; None for an id that
            came from elsewhere. With it an append can be proved not to be stored; without it the
            answer is more often `UnknownOutcome`.

        keyed: it stands for an idempotency key, and is remembered as long as that.
    """

    value: bytes
    made: float | None = field(default=None, compare=False, repr=False)
    keyed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, bytes) or len(self.value) != ID_BYTES:
            raise InvalidSetting(f"an append id is {ID_BYTES} bytes")

    def __str__(self) -> str:
        return ("k" if self.keyed else "") + self.value.hex()

    def __reduce__(self) -> tuple[type[AppendId], tuple[bytes, None, bool]]:
        return AppendId, (self.value, None, self.keyed)  # another process has another clock

    @classmethod
    def new(cls) -> AppendId:
        """An id that was never used."""
        fresh = object.__new__(cls)  # right by construction: nothing to check, and this runs for every append
        object.__setattr__(fresh, "value", os.urandom(ID_BYTES))
        object.__setattr__(fresh, "made", time.monotonic())
        object.__setattr__(fresh, "keyed", False)
        return fresh

    @classmethod
    def parse(cls, text: str) -> AppendId:
        """The id that `str()` gave `text` for.

        Raises:
            InvalidSetting: the text is no append id.
        """
        if not isinstance(text, str) or not re.fullmatch(r"k?[0-9a-f]{24}", text):
            raise InvalidSetting("not the text of an append id")
        return cls(bytes.fromhex(text.removeprefix("k")), keyed=text.startswith("k"))
