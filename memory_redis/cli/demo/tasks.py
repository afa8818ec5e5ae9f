"""What the parent hands to a worker process, and what comes back."""

from dataclasses import dataclass

__all__ = ["NOISE", "Failed", "NoiseTask", "Ready", "Reply", "Stored", "Task", "TurnTask", "noise_text"]

NOISE = "noise"
"""The ``name`` of every message that the other writers add."""


def noise_text(writer: int, number: int) -> str:
    """The text of a writer's message in a conversation; each writer counts its own from 0."""
    return f"noise {writer}/{number}"


@dataclass(frozen=True, slots=True)
class TurnTask:
    """Append this turn after the message that ends the turn before it."""

    conversation: int
    user: str
    name: str
    turn: int
    kind: str
    texts: tuple[str, ...]
    previous: tuple[str, str] | None

    @property
    def key(self) -> str:
        """The idempotency key: whoever repeats this turn stores it once."""
        return f"{self.name}/{self.turn}"


@dataclass(frozen=True, slots=True)
class NoiseTask:
    """Append one message of another writer, whatever stands there."""

    conversation: int
    user: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The process has started and waits for its first task."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The task is done. ``wrong_view``: the history did not end with the turn before this one."""

    conversation: int
    repeated: bool = False
    conflicts: int = 0
    wrong_view: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The task could not be done: one line, and the exit code that says so."""

    reason: str
    exit_code: int


Task = TurnTask | NoiseTask
Reply = Ready | Stored | Failed
