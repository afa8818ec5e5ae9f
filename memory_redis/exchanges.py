"""One exchange with a model: load, let it answer, save. What every wrapper does, for any kind of message.

`Exchange` decides and does no I/O; the functions of `runs` walk it over turns: those of a history, or
what an adapter makes of somebody else's.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, Self, TypeVar

from memory_redis.errors import (
    ConflictError,
    HistoryCleared,
    HistoryNotSaved,
    InvalidAnswer,
    InvalidMessage,
    InvalidSetting,
    MemoryRedisError,
    SummaryNotMade,
)
from memory_redis.layouts import well_formed
from memory_redis.rules import Rules, TurnReport
from memory_redis.versions import Version

M = TypeVar("M")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_jitter = random.SystemRandom()
_logger = logging.getLogger("memory_redis")


@dataclass(slots=True)
class _Running:
    """A model at work; a task that it starts keeps this in its context, also when the model is done."""

    label: str
    still: bool = True
    pid: int = field(default_factory=os.getpid)

    def is_around(self, label: str) -> bool:
        """Whether it runs over this conversation; one of the process that forked this one does not."""
        return self.still and self.label == label and self.pid == os.getpid()


_inside: ContextVar[tuple[_Running, ...]] = ContextVar("memory_redis_inside", default=())


class TurnLike(Protocol[M]):
    """What an exchange asks of a turn, in either face: `memory_redis.Turn` for one kind of message."""

    @property
    def stored(self) -> list[M] | None:
        """The messages of an earlier turn under the same idempotency key."""
        ...

    @property
    def version(self) -> Version | None:
        """The version of the last commit, or of the load."""
        ...

    @property
    def conflict(self) -> ConflictError | None:
        """What a commit met."""
        ...

    @property
    def summary_error(self) -> SummaryNotMade | None:
        """Why a summary that was due after a commit could not be made."""
        ...

    @property
    def added(self) -> list[M]:
        """What was added and is not yet stored."""
        ...

    def add(self, *messages: M) -> None:
        """Put messages aside for the next commit."""


class SyncTurn(TurnLike[M], Protocol[M]):
    """A turn for sync code."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def commit(self, *, idempotency_key: str | None = None) -> Any:
        """Store what was added."""
        ...


class AwaitedTurn(TurnLike[M], Protocol[M]):
    """A turn for asyncio."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: Any) -> None: ...

    async def commit(self, *, idempotency_key: str | None = None) -> Any:
        """Store what was added."""
        ...


@dataclass(slots=True, kw_only=True)
class Exchange(Generic[M]):
    """The decisions of one exchange. No I/O.

    Args:
        rules: how it is saved.

        new: the messages that the caller brought.

        to_messages: from the model's output to messages; a ValueError says that it is none.

        from_stored: from the messages of a stored turn to an output.

        merge: from the chunks of a stream to an output.

        mark: a message, marked as part of an answer only.

        past: the messages that a turn has loaded, without those at these positions.

        key: the caller's idempotency key.

        label: the conversation, for finding two wrappers nested over one.

        split: from the output of a stored turn to the chunks of a stream.

        report: is filled in.
    """

    rules: Rules
    new: Sequence[M]
    to_messages: Callable[[Any], list[M]]
    from_stored: Callable[[list[M]], Any]
    merge: Callable[[list[Any]], Any]
    mark: Callable[[M], M]
    past: Callable[[Any, range], list[M]]
    label: str
    key: str | None = None
    split: Callable[[Any], list[Any]] = lambda output: [output]
    report: TurnReport = field(default_factory=TurnReport)
    _tries: int = 0
    _running: _Running = field(init=False)
    _own: range = range(0)
    _input_in: Version | None = None
    _part: list[M] = field(default_factory=list)
    _version: Version | None = None
    _answer: list[M] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._running = _Running(self.label)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """While the model is at work, by one step of a stream or as a whole."""
        token = _inside.set((*_inside.get(), self._running))
        try:
            yield
        finally:
            with suppress(ValueError):  # a coroutine that nobody finished is closed in another context
                _inside.reset(token)

    def over(self) -> None:
        """The model is done; a task that it has left behind is not inside any more."""
        self._running.still = False

    def resumes(self, stored: list[M] | None) -> bool:
        """Whether a part of an answer stands under the key, with its input: the whole one has another key."""
        self._part = stored if stored and self._is_part(stored) else []
        return bool(self._part)

    def _is_part(self, messages: list[Any]) -> bool:
        """Whether the answer among these messages is marked as part of one."""
        last = next((one for one in reversed(messages) if one.type == "ai"), None)
        return last is not None and bool(self.mark(last) == last)

    @property
    def turn_key(self) -> str | None:
        """The idempotency key for the answer: that of the call, unless a part stands under it."""
        return f"{self.key}\0whole" if self._part else self.key

    def begin(self, turn: TurnLike[M], stored: list[M] | None) -> bool:
        """Whether this turn is stored already.

        Raises:
            InvalidSetting: another exchange over the same conversation is around this one.
        """
        if self._tries == 0 and (self.report.tries or self.report.repeated):
            for name in fields(TurnReport):  # it was used before, and begins anew
                setattr(self.report, name.name, name.default)
        if stored is None:
            if any(outer.is_around(self.label) for outer in _inside.get()):
                raise InvalidSetting("two wrappers are nested over one conversation: one of them would do")
            self._tries += 1
            self._running.still = True
            self.report.tries = self._tries
            return False
        self.report.repeated = self.report.saved = True
        self.report.version = turn.version
        return True

    def output(self, stored: list[M] | None) -> Any:
        """The stored answer, as a call gives it."""
        beside = self.new if self._part and self.rules.save_input == "after" else ()  # it stands without it
        return self.from_stored([*beside, *(stored or ())])

    def stored_chunks(self, stored: list[M] | None) -> list[Any]:
        """The stored answer, as a stream gives it."""
        return self.split(self.output(stored))

    def brought(self, turn: TurnLike[M]) -> bool:
        """Add the input to the turn; whether it is to be stored now, before the model runs.

        Raises:
            InvalidMessage: it cannot be stored; or what stands under the key with a part is another.
            UnansweredCall: the model will not be run.
        """
        if not self.new or self._holds_input(turn):
            return False
        self._own = range(0)
        if self._part:  # sent again, it is recognised, and belongs to this turn
            self._check_same(self._part[: len(self.new)])
            turn.add(*self._part)
            return True
        turn.add(*self.new)
        if self.rules.save_input == "after":
            return False
        self.seen(turn)
        return True

    def _holds_input(self, turn: TurnLike[M]) -> bool:
        """Whether an earlier try has stored the input, in the life that the conversation has now."""
        before, now = self._input_in, turn.version
        return before is not None and (
            now is None or (now.birth == before.birth and now.number >= before.number)
        )

    @property
    def input_key(self) -> str | None:
        """The idempotency key for an input that is stored without an answer, or with a part of one."""
        return self.key if self.key is None or self._part else f"{self.key}\0input"

    def part_key(self, turn: TurnLike[M]) -> str | None:
        """The idempotency key for a part of an answer: who asks again is to get a whole one.

        With its input it stands under the key of the call, so that nobody stores that input again.
        """
        with_input = self.rules.save_input == "after" and self._is_part(turn.added)
        return self.key if self.key is None or with_input else f"{self.key}\0part"

    def input_stored(self, turn: TurnLike[M]) -> None:
        """The input stands in the history now, and is not to be shown to the model as past."""
        self._input_in = turn.version or Version()
        if turn.version is not None:
            self._own = range(turn.version.number - len(self._part or self.new), turn.version.number)

    def seen(self, turn: Any) -> list[M]:
        """What the model is shown as past.

        Raises:
            InvalidMessage: what stands under the idempotency key is another input, without an answer.
            UnansweredCall: see `with_history`.
        """
        if self._own:
            stored = [message for message in turn.messages if message.seq in self._own]
            if stored and not self._part:
                self._check_same(stored)
        return self.past(turn, self._own)

    def _check_same(self, stored: Sequence[M]) -> None:
        """That the input that is stored is this one, as far as a window shows it."""
        if [look(message) for message in stored] != [look(message) for message in self.new[-len(stored) :]]:
            raise InvalidMessage("the idempotency key was used for another input, which has no answer yet")

    def answered(self, turn: TurnLike[M], output: Any) -> None:
        """Add what the model gave.

        Raises:
            InvalidAnswer: it is nothing that can be stored.
        """
        self._version = turn.version
        try:
            self._answer = self.to_messages(output)
            turn.add(*self._answer)
        except Exception as error:
            raise InvalidAnswer(error, output) from error

    def output_of(self, chunks: list[Any]) -> Any:
        """The output that the chunks of a stream amount to.

        Raises:
            InvalidAnswer: they amount to nothing.
        """
        try:
            return self.merge(chunks)
        except Exception as error:
            raise InvalidAnswer(error, chunks) from error

    def committed(self, turn: TurnLike[M]) -> bool:
        """Note a commit; whether a turn stood under the idempotency key before."""
        report = self.report
        report.saved, report.version, report.conflict = True, turn.version, turn.conflict
        report.summary_error = turn.summary_error
        report.repeated = self.key is not None and turn.version is not None and turn.version.repeated
        return report.repeated

    def interrupted(self, turn: TurnLike[M]) -> None:
        """Note a commit that was made, though what came after it was not finished."""
        if turn.version is not self._version:
            self.committed(turn)

    def overtaken(self, stored: list[M] | None) -> bool:
        """Whether what stood under the key is a part only, so that the answer is to be stored behind it."""
        return not self._part and self.resumes(stored)

    def counting(self, stored: list[M] | None, output: Any) -> Any:
        """The answer that counts, where a turn stood under the key: that one, if it is not this very one.

        It is this one if the reply to its commit was lost, and the commit was made again.
        """
        alone = self._part or self.rules.save_input == "before"
        if stored is None or stored == [*(() if alone else self.new), *self._answer]:
            self.report.repeated = False
            return output
        return self.output(stored)

    def refused(self, error: MemoryRedisError, streamed: bool = False) -> float:
        """The seconds to wait before the turn is tried again on what the history is now.

        Raises:
            ConflictError: it is not.
            and any other error as it is; what a history of somebody else's raised, without our own around it.
        """
        if isinstance(error, HistoryNotSaved):
            raise error.error
        if not isinstance(error, ConflictError):
            raise error
        self.report.conflict = error
        rules, tries = self.rules, self._tries
        cleared = isinstance(error, HistoryCleared)
        if rules.on_conflict != "retry" or tries >= rules.max_tries or streamed or cleared:
            raise error
        longest: float = min(_FIRST_PAUSE * 2.0**tries, _LONGEST_PAUSE)
        return _jitter.uniform(0, longest)

    def failed(
        self, turn: TurnLike[M], error: MemoryRedisError, output: Any, streamed: bool = False
    ) -> float | None:
        """The seconds to wait before the model is run again; None if its output is to be given back.

        Raises:
            ConflictError: others had appended, and the rules do not allow for that.
            HistoryNotSaved: for any other reason.
        """
        rules = self.rules
        if isinstance(error, ConflictError):
            self.report.conflict, error.output = error, output
            if rules.on_conflict != "append":
                return self.refused(error, streamed)
        lost = error if isinstance(error, HistoryNotSaved) else HistoryNotSaved(error, output)
        self.report.error, error.output, lost.unsaved = lost, output, turn.added
        if rules.on_save_error == "raise":
            if isinstance(error, ConflictError) or lost is error:
                raise error
            raise lost from error
        if rules.on_save_error == "log":
            _logger.error("a turn was not saved: %s", lost)
        else:
            rules.on_save_error(lost)
        return None

    def broken_off(self, turn: TurnLike[M], chunks: list[Any]) -> bool:
        """Add what was delivered of a stream that was abandoned or failed, if it is to be kept."""
        self._version = turn.version
        if self.rules.partial == "drop" or not chunks:
            return False
        try:
            turn.add(*map(self.mark, self.to_messages(self.merge(chunks))))
        except Exception as error:
            self.not_kept(error)
            return False
        return True

    def not_kept(self, error: Exception) -> None:
        """Part of an answer could not be stored; whoever broke the stream off has an error already."""
        self.report.error = HistoryNotSaved(error)
        _logger.error("part of an answer was not saved: %s", self.report.error)


def look(message: Any) -> tuple[str, str]:
    """What tells one message of a conversation from another, before it is stored and after."""
    return message.type, well_formed(message.text)
