"""What is to be said to the server, as values: no I/O, no clock.

A plan is one round trip. What takes several is a flow: a generator that yields plans, is sent
their results, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from memory_redis._engine.scripts import Script
from memory_redis.versions import AppendId

T = TypeVar("T")

UNKNOWN_AGE: Final = 10**15
"""ms since an append was first sent, where nobody knows: longer than any ring reaches back."""

# No numbers: hiredis makes text of them in a way that a signal may break in upon, and ends the process.
Word = bytes | str
Wire = tuple[Word, ...]


class Call:
    """One command, or one script with its keys and arguments.

    The second argument of a script that must recognise its repeats is the time since it was first
    sent; `timed` says that it is one of these.
    """

    __slots__ = ("script", "timed", "words")

    def __init__(
        self,
        command: str | Script,
        words: Sequence[Word] = (),
        *,
        keys: Sequence[str] = (),
        timed: bool = False,
    ) -> None:
        if isinstance(command, Script):
            self.script: Script | None = command
            self.words: Wire = (str(len(keys)), *keys, *words)
        else:
            self.script = None
            self.words = (command, *keys, *words)
        self.timed = timed

    def wire(self, age: int = 0, by_source: bool = False) -> Wire:
        """The words that go out; `age` in ms since the call was first sent."""
        if self.script is None:
            return self.words
        words = self.words
        if self.timed and age:
            at = 2 + int(words[0])
            words = (*words[:at], str(age), *words[at + 1 :])
        if by_source:
            return ("EVAL", self.script.source, *words)
        return ("EVALSHA", self.script.sha, *words)


@dataclass(slots=True)
class Plan(Generic[T]):
    """One round trip: calls in order, and how their replies are read.

    Attributes:
        calls: sent together.

        decode: from the replies, one each, to the result.

        conversation: label for errors.

        writes: whether a lost reply leaves the outcome open.

        append_id: what settles that outcome.

        partial: an error reply to one call is handed to `decode`, translated, and does not fail the rest.

        again: the caller sends it again: it was first sent when its append id was made.
    """

    calls: tuple[Call, ...]
    decode: Callable[[list[Any]], T]
    conversation: str = ""
    writes: bool = False
    append_id: AppendId | None = None
    again: bool = False
    partial: bool = False


Flow = Generator[Plan[Any], Any, T]


def only(replies: list[Any]) -> Any:
    """The reply of a plan of one call."""
    return replies[0]
