"""The conversations of the data set, as turns that one append stores each."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any

__all__ = ["MOST_MESSAGES", "Conversation", "Turn", "read_conversations"]

MOST_MESSAGES = 1_000
"""Messages an append may have; the two longer bursts of the data set become several turns."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive messages of one speaker."""

    kind: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of the data set; it belongs to the person who spoke first."""

    user: str
    name: str
    turns: tuple[Turn, ...]

    @property
    def messages(self) -> int:
        """Number of messages in all turns."""
        return sum(len(turn.texts) for turn in self.turns)


def read_conversations(number: int | None, seed: int) -> list[Conversation]:
    """Draw so many conversations from the data set, or take all of them for ``None``.

    The same seed draws the same ones. The data set is read once, by the parent of all workers.

    Raises:
        ModuleNotFoundError: The package ``chitchat-dataset`` is not installed.
    """
    source = json.loads((files("chitchat_dataset") / "dataset.json").read_bytes())
    names = list(source)
    if number is not None and number < len(names):
        names = random.Random(seed).sample(names, number)  # noqa: S311 - a sample, not a secret
    return [_conversation(name, source[name]["messages"]) for name in names]


def _conversation(name: str, bursts: list[list[dict[str, Any]]]) -> Conversation:
    first = bursts[0][0]["sender"]
    turns = (
        Turn("human" if burst[0]["sender"] == first else "ai", texts)
        for burst in bursts
        for texts in _pieces(message["text"] for message in burst)
    )
    return Conversation(first, name, tuple(turns))


def _pieces(texts: Iterator[str]) -> Iterator[tuple[str, ...]]:
    while piece := tuple(islice(texts, MOST_MESSAGES)):
        yield piece
