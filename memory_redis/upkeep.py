"""Histories that keep a summary: what is shown of them, and who makes the summary when one is due.

After an append one script tells whether the conversation has outgrown its limit, and gives the making
of its summary to one worker. That one reads the messages, asks the model, with nothing locked, and
puts the summary in their place in one atomic step. The others go on. A worker that dies leaves a claim
that runs out, and the next append claims it again.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.to_thread

from memory_redis._engine.compacting import CLAIMED, UNTOLD
from memory_redis._engine.conversation import Conversation, ReadsConversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.plans import Flow
from memory_redis._engine.reading import Place
from memory_redis._engine.writing import OnConflict
from memory_redis.errors import (
    AsyncOnly,
    ConflictError,
    InvalidSetting,
    MemoryRedisError,
    ServerUnavailable,
    SummaryNotMade,
)
from memory_redis.history import AsyncHistory, History
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt
from memory_redis.selection import trim_messages
from memory_redis.snapshots import Snapshot
from memory_redis.summaries import KeepMessages, KeepTokens, Threshold, answer_of, request, shown
from memory_redis.telemetry import Event
from memory_redis.turns import AsyncTurn, Turn
from memory_redis.versions import AppendId, Version
from memory_redis.windows import AllMessages, Combined, Since, Window

Model = Any
"""What summarises: a function of a list of one `StoredMessage`, or a LangChain model."""

_WHOLE = AllMessages()


@dataclass(frozen=True, slots=True)
class Summariser:
    """How a conversation is summarised."""

    plan: KeepMessages | KeepTokens
    model: Model
    seconds: float


@dataclass(frozen=True, slots=True)
class View:
    """What a strategy shows of a conversation.

    Attributes:
        read: the window that the stored messages are read with.

        below: windows on what that gives, one after another.

        summariser: puts a summary in front of them; None for no summary.

        above: windows on what that gives.
    """

    read: Window = _WHOLE
    below: tuple[Window, ...] = ()
    summariser: Summariser | None = None
    above: tuple[Window, ...] = ()

    def windowed(self, window: Window) -> View:
        """With one more window on top."""
        if self.summariser is not None:
            return replace(self, above=(*self.above, window))
        read, below = _together(self.read, self.below, window)
        return replace(self, read=read, below=below)


def _together(read: Window, below: tuple[Window, ...], window: Window) -> tuple[Window, tuple[Window, ...]]:
    """A window on top of others: one with the first of them if both can be limits at once."""
    if not below:
        with suppress(InvalidSetting):  # two counters, say
            return read & window, ()
    parts = window.windows if isinstance(window, Combined) else (window,)
    for part in parts:
        if isinstance(part, Since):  # only the server knows what time it is
            read &= part
    return read, (*below, window)


class ViewReader:
    """Reads a conversation as a view shows it; in all else as its reader."""

    def __init__(self, reader: ReadsConversation, view: View) -> None:
        self._reader, self._view = reader, view

    def page(
        self, place: Place | None, size: int, on_corrupt: OnCorrupt
    ) -> Flow[tuple[list[StoredMessage], Place | None]]:
        """As `Reader.page`: what is stored."""
        return self._reader.page(place, size, on_corrupt)

    def load(
        self, window: Window, on_corrupt: OnCorrupt, key_id: AppendId | None = None
    ) -> Flow[tuple[Snapshot, list[StoredMessage] | None]]:
        """As `Reader.load`; the window of a call limits the messages, and a summary comes on top."""
        view = self._view
        read, below = _together(view.read, view.below, window)
        snapshot, stored = yield from self._reader.load(read, on_corrupt, key_id)
        messages = snapshot.messages
        for one in below:
            messages = trim_messages(messages, one)
        if view.summariser is not None and snapshot.summary is not None:
            messages = [shown(snapshot.summary), *messages]
        for one in view.above:
            messages = trim_messages(messages, one)
        return replace(snapshot, messages=messages), stored


def upkeep(conversation: Conversation, summariser: Summariser) -> Generator[Any, Any, None]:
    """Make a summary if one is due and nobody else makes it.

    Yields flows, to be driven, and the message that a model is to be asked; is sent their results.
    """
    plan, compactor, claim = summariser.plan, conversation.compactor, secrets.token_bytes(12)
    hold_ms = int(summariser.seconds * 1000)
    held, asking = True, False  # the claim is, for all that is known until the server has answered
    try:
        due = yield compactor.claim(claim, hold_ms, plan.threshold)
        if due == UNTOLD:
            snapshot, _ = yield conversation.reader.load(_WHOLE, "skip")
            held = plan.threshold.crossed(snapshot.messages)
            due = (yield compactor.claim(claim, hold_ms, Threshold(-1))) if held else due
        held = due == CLAIMED
        if not held:
            return
        snapshot, _ = yield conversation.reader.load(_WHOLE, "skip")
        messages: Sequence[StoredMessage] = snapshot.messages
        cut = plan.cut(messages) if plan.threshold.crossed(messages) else 0
        if cut > 0:
            asking = True
            output = yield request(messages[:cut], snapshot.summary)
            asking = False
            summary = answer_of(output)
            kept = messages[cut].seq if cut < len(messages) else None
            keep = 0 if kept is None else snapshot.version.number - kept
            # cleared, ended or edited meanwhile: the summary tells of nothing that is there
            with suppress(ConflictError):
                yield compactor.compact(summary, snapshot.version, keep, claim)
                held = False
    except ServerUnavailable:
        held = asking  # a server that is away would not hear of it either: the claim runs out
        raise
    finally:
        if held:
            with suppress(MemoryRedisError):
                yield compactor.give_up(claim)


def view_of(conversation: Conversation, view: View) -> Conversation:
    """The same conversation, read as a view shows it."""
    viewed = copy(conversation)
    viewed.reader = ViewReader(conversation.reader, view)
    viewed.default_window = _WHOLE
    return viewed


def check_model(model: Model, asynchronous: bool) -> Model:
    """The model, if it can be asked.

    Raises:
        InvalidSetting: it cannot.
    """
    has_invoke = callable(getattr(model, "ainvoke" if asynchronous else "invoke", None))
    if not (has_invoke or callable(model)) or isinstance(model, type):
        raise InvalidSetting("model takes a function or a LangChain model")
    if not asynchronous and not has_invoke and _is_awaited(model):
        raise InvalidSetting("a coroutine function summarises for the Async strategies only")
    return model


def _is_awaited(model: Model) -> bool:
    """Whether a callable is a coroutine function, or an object that is called as one."""
    return inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(type(model).__call__)


class Upkeep:
    """Runs the upkeep of one conversation, for sync code."""

    def __init__(self, conversation: Conversation, driver: Driver, summariser: Summariser) -> None:
        self._conversation, self._driver, self._summariser = conversation, driver, summariser

    def run(self, version: Version) -> None:
        """See whether a summary is due, and make it.

        Raises:
            SummaryNotMade: it could not be made; what was appended is stored.
        """
        steps = upkeep(self._conversation, self._summariser)
        try:
            step = next(steps)
            while True:
                try:
                    result = self._ask(step) if isinstance(step, StoredMessage) else self._driver.drive(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration:
            return
        except Exception as error:
            raise not_made(self._conversation, version, error) from error

    def _ask(self, question: StoredMessage) -> Any:
        model = self._summariser.model
        if callable(getattr(model, "invoke", None)):
            return model.invoke(question.text)
        output = model([question])
        if inspect.isawaitable(output):
            if inspect.iscoroutine(output):
                output.close()
            raise AsyncOnly("the model gave something to be awaited: use the Async strategy")
        return output


class AsyncUpkeep:
    """Runs the upkeep of one conversation, for asyncio."""

    def __init__(self, conversation: Conversation, driver: AsyncDriver, summariser: Summariser) -> None:
        self._conversation, self._driver, self._summariser = conversation, driver, summariser

    async def run(self, version: Version) -> None:
        """As `Upkeep.run`. If it is cancelled, it still gives its claim up."""
        steps = upkeep(self._conversation, self._summariser)
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, StoredMessage):
                        result = await self._ask(step)
                    else:
                        result = await self._driver.drive(step)
                except Exception as error:
                    step = steps.throw(error)
                except asyncio.CancelledError as error:
                    with anyio.move_on_after(1, shield=True), suppress(MemoryRedisError, StopIteration):
                        await self._driver.drive(steps.throw(error))
                    raise
                else:
                    step = steps.send(result)
        except StopIteration:
            return
        except Exception as error:
            raise not_made(self._conversation, version, error) from error

    async def _ask(self, question: StoredMessage) -> Any:
        model = self._summariser.model
        if callable(getattr(model, "ainvoke", None)):
            return await model.ainvoke(question.text)
        function: Callable[..., Any] = model
        if _is_awaited(function):
            return await function([question])
        output = await anyio.to_thread.run_sync(function, [question])
        return await output if inspect.isawaitable(output) else output


def not_made(conversation: Conversation, version: Version, error: Exception) -> SummaryNotMade:
    """The error of a summary that was due, told to the hooks too."""
    event = Event("summary", conversation.keys.label, version=version.number, detail=type(error).__name__)
    conversation.settings.emit(event)
    return SummaryNotMade(conversation.keys.label, version)


class SummarisedTurn(Turn):
    """A turn of a history that keeps a summary, which is made after a commit.

    A summary that cannot be made does not fail the commit: `summary_error` has why, and the hooks
    hear of it.
    """

    summary_error: SummaryNotMade | None = None

    def __init__(self, upkeep: Upkeep, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._upkeep = upkeep

    def commit(self, *, idempotency_key: str | None = None) -> Version:
        """As `Turn.commit`; then a summary is made if one is due."""
        stores = bool(self.added)
        version = super().commit(idempotency_key=idempotency_key)
        if stores:
            self.summary_error = None
            try:
                self._upkeep.run(version)
            except SummaryNotMade as error:
                self.summary_error = error
        return version


class AsyncSummarisedTurn(AsyncTurn):
    """A turn of a history that keeps a summary. As `SummarisedTurn`."""

    summary_error: SummaryNotMade | None = None

    def __init__(self, upkeep: AsyncUpkeep, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._upkeep = upkeep

    async def commit(self, *, idempotency_key: str | None = None) -> Version:
        """As `SummarisedTurn.commit`."""
        stores = bool(self.added)
        version = await super().commit(idempotency_key=idempotency_key)
        if stores:
            self.summary_error = None
            try:
                await self._upkeep.run(version)
            except SummaryNotMade as error:
                self.summary_error = error
        return version


class SummarisedHistory(History):
    """A history that keeps a summary; `append` makes it when it is due."""

    def __init__(self, conversation: Conversation, driver: Driver, upkeep: Upkeep) -> None:
        super().__init__(conversation, driver)
        self._upkeep = upkeep

    def append(self, *messages: StoredMessage, **options: Any) -> Version:
        """As `History.append`; then a summary is made if one is due.

        Raises:
            SummaryNotMade: it could not be made; the messages are stored.
        """
        version = super().append(*messages, **options)
        self._upkeep.run(version)
        return version

    def _opened(
        self, on_conflict: OnConflict, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> Turn:
        return SummarisedTurn(
            self._upkeep, self._conversation, self._driver, on_conflict, window, key, on_corrupt
        )


class AsyncSummarisedHistory(AsyncHistory):
    """A history that keeps a summary, for asyncio. As `SummarisedHistory`."""

    def __init__(self, conversation: Conversation, driver: AsyncDriver, upkeep: AsyncUpkeep) -> None:
        super().__init__(conversation, driver)
        self._upkeep = upkeep

    async def append(self, *messages: StoredMessage, **options: Any) -> Version:
        """As `SummarisedHistory.append`.

        Raises:
            SummaryNotMade: it could not be made; the messages are stored.
        """
        version = await super().append(*messages, **options)
        await self._upkeep.run(version)
        return version

    def _opened(
        self, on_conflict: OnConflict, window: Window | None, key: str | None, on_corrupt: OnCorrupt | None
    ) -> AsyncTurn:
        return AsyncSummarisedTurn(
            self._upkeep, self._conversation, self._driver, on_conflict, window, key, on_corrupt
        )
