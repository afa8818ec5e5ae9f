"""How a wrapper of a model saves, and what it reports of each call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Literal, get_args

from memory_redis.errors import ConflictError, HistoryNotSaved, InvalidSetting, SummaryNotMade
from memory_redis.messages import StoredMessage
from memory_redis.options import TurnPolicy
from memory_redis.versions import Version

OnConflict = Literal["append", "retry", "raise"]
SaveInput = Literal["after", "before"]
Partial = Literal["drop", "keep"]
OnSaveError = Literal["raise", "log"] | Callable[[HistoryNotSaved], None]


@dataclass(slots=True)
class TurnReport:
    """What became of one call of a wrapped model. Give an empty one to the call, read it afterwards.

    Attributes:
        tries: how often the model was run, or was about to be; 0 where the stored answer was found.

        saved: whether the turn is stored.

        repeated: the idempotency key was used before, and the answer is the stored one.

        version: of the conversation with the turn; None where it was not saved, or the history has
            no versions.

        conflict: what the save met, if others had appended, or cleared the conversation, meanwhile.

        error: why the turn was not saved; None where `conflict` was raised because `on_conflict` says so.

        summary_error: why a summary that was due after the save could not be made.
    """

    tries: int = 0
    saved: bool = False
    repeated: bool = False
    version: Version | None = None
    conflict: ConflictError | None = None
    error: HistoryNotSaved | None = None
    summary_error: SummaryNotMade | None = None

    @property
    def missed(self) -> list[StoredMessage]:
        """What others had appended while the model ran, the newest 100 at most."""
        return [] if self.conflict is None else self.conflict.missed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a wrapper saves; see `with_history` for what each means.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    on_conflict: OnConflict = "append"
    max_tries: int = 2
    save_input: SaveInput = "after"
    on_save_error: OnSaveError = "raise"
    partial: Partial = "drop"

    @property
    def turn_policy(self) -> TurnPolicy:
        """The rule by which the turns themselves are committed."""
        return "append" if self.on_conflict == "append" else "raise"

    def __post_init__(self) -> None:
        for name, kind in (("on_conflict", OnConflict), ("save_input", SaveInput), ("partial", Partial)):
            if getattr(self, name) not in get_args(kind):
                raise InvalidSetting(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}")
        if type(self.max_tries) is not int or not 1 <= self.max_tries <= 100:
            raise InvalidSetting("max_tries must be an integer from 1 to 100")
        told = self.on_save_error
        if told not in ("raise", "log") and (not callable(told) or iscoroutinefunction(told)):
            raise InvalidSetting('on_save_error must be "raise", "log" or a function of the error, not async')
