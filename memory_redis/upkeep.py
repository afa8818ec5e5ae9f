"""Making the summary of a conversation when one is due.

After an append one script tells whether the conversation has outgrown its limit, and gives the making
of its summary to one worker. That one reads the messages, asks the model, with nothing locked, and
puts the summary in their place in one atomic step. The others go on. A worker that dies leaves a claim
that runs out, and the next append claims it again.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from memory_redis._engine.compacting import Claim
from memory_redis._engine.conversation import Conversation
from memory_redis._engine.drivers import AsyncDriver, Driver
from memory_redis._engine.plans import Flow
from memory_redis.errors import (
    AsyncOnly,
    ConflictError,
    InvalidSetting,
    MemoryRedisError,
    ServerUnavailable,
    SummaryNotMade,
    UnsupportedFormat,
)
from memory_redis.messages import StoredMessage
from memory_redis.snapshots import Snapshot
from memory_redis.summaries import (
    ALWAYS,
    REQUEST_BYTES,
    KeepMessages,
    KeepTokens,
    answer_of,
    at_once,
    cut_of_beginning,
    request,
)
from memory_redis.telemetry import Event
from memory_redis.versions import Version
from memory_redis.windows import AllMessages

Model = Any
"""What summarises: a function of a list of one `StoredMessage`, or a LangChain model."""

_WHOLE = AllMessages()
_GIVE_UP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Summariser:
    """How a conversation is summarised."""

    plan: KeepMessages | KeepTokens
    model: Model
    seconds: float


class _Making:
    """The steps of making one summary, if one is due and nobody else makes it."""

    def __init__(self, conversation: Conversation, summariser: Summariser) -> None:
        self._conversation, self._summariser = conversation, summariser
        self._claim = secrets.token_bytes(12)
        self._steps = self._walk()
        self.held = False
        """Whether the claim has to be given up, for all that is known."""

    def next(self, result: Any) -> Any:
        """A flow, to be driven, or the message that a model is to be asked; None at the end.

        `result` is what the step before gave.
        """
        try:
            return self._steps.send(result)
        except StopIteration:
            return None

    def _walk(self) -> Generator[Any, Any, None]:
        plan, compactor, read = self._summariser.plan, self._conversation.compactor, self._conversation.reader
        hold_ms = int(self._summariser.seconds * 1000)
        self.held = True  # a request that is on its way may get there
        due = yield compactor.claim(self._claim, hold_ms, plan.threshold)
        if due == Claim.UNTOLD:
            snapshot, _ = yield read.load(_WHOLE, "skip")
            self.held = plan.threshold.crossed(snapshot.messages)
            due = (yield compactor.claim(self._claim, hold_ms, ALWAYS)) if self.held else due
        self.held = due in (Claim.HELD, Claim.LARGE)
        if not self.held:
            return
        if due == Claim.LARGE:
            snapshot, messages, cut = yield from self._beginning()
        else:
            snapshot, _ = yield read.load(_WHOLE, "skip")
            messages = _understood(snapshot)
            cut = plan.cut(messages) if plan.threshold.crossed(messages) else 0
        if cut < 1:
            return
        cut = at_once(messages, cut)
        output = yield request(messages[:cut], snapshot.summary)
        summary = answer_of(output)
        last = messages[cut - 1].seq or 0
        yield self._put(summary, snapshot.version, snapshot.version.number - last - 1)

    def _beginning(self) -> Generator[Any, Any, tuple[Snapshot, Sequence[StoredMessage], int]]:
        """The oldest messages of a conversation of too many bytes, and how many are to be summarised.

        Enough for one request; where that is one tool exchange, as far as one load may bring them.
        """
        conversation, plan = self._conversation, self._summariser.plan
        snapshot = yield conversation.beginning(4 * REQUEST_BYTES)
        messages = _understood(snapshot)
        if not cut_of_beginning(messages):
            snapshot = yield conversation.beginning(conversation.settings.limits.load_bytes)
            messages = _understood(snapshot)
        return snapshot, messages, max(plan.cut(messages), cut_of_beginning(messages))

    def _put(self, summary: str, version: Version, keep: int) -> Flow[None]:
        with suppress(ConflictError):  # cleared, ended or edited: it tells of nothing that is there
            yield from self._conversation.compactor.compact(summary, version, keep, self._claim)
            self.held = False

    def give_up(self) -> Flow[Claim]:
        """Let others make the summary."""
        self.held = False
        return self._conversation.compactor.give_up(self._claim)

    def not_made(self, version: Version, error: Exception) -> SummaryNotMade:
        """The error of a summary that was due, told to the hooks too."""
        conversation = self._conversation
        event = Event("summary", conversation.keys.label, version=version.number, detail=type(error).__name__)
        conversation.settings.emit(event)
        return SummaryNotMade(conversation.keys.label, version)


def _understood(snapshot: Snapshot) -> Sequence[StoredMessage]:
    """The messages of a load, as far as all of them can be read here.

    Raises:
        UnsupportedFormat: a later release has written the summary, or the first of the messages.
    """
    unknown = [error for error in snapshot.skipped if isinstance(error, UnsupportedFormat)]
    if not unknown:
        return snapshot.messages
    edge = unknown[0].position
    if edge <= snapshot.trimmed:
        raise unknown[0]
    return [one for one in snapshot.messages if one.seq is not None and one.seq < edge]


def check_model(model: Model, asynchronous: bool) -> Model:
    """The model, if it can be asked.

    Raises:
        InvalidSetting: it cannot.
    """
    has_invoke = callable(getattr(model, "ainvoke" if asynchronous else "invoke", None))
    if not (has_invoke or callable(model)) or isinstance(model, type):
        raise InvalidSetting("model takes a function or a LangChain model")
    if not asynchronous and not has_invoke and _is_awaited(model):
        raise InvalidSetting(
            "a coroutine function summarises for the Async strategies, in awaited calls: or take a plain one"
        )
    if inspect.isgeneratorfunction(model) or inspect.isasyncgenfunction(model):
        raise InvalidSetting("a generator gives parts: a model that summarises gives a text or a message")
    return model


def _is_awaited(model: Model) -> bool:
    """Whether a callable is a coroutine function, or an object that is called as one."""
    return inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(type(model).__call__)


class Upkeep:
    """Keeps the summary of one conversation, for sync code."""

    def __init__(self, conversation: Conversation, driver: Driver, summariser: Summariser) -> None:
        self._conversation, self._driver, self._summariser = conversation, driver, summariser

    def run(self, version: Version) -> None:
        """See whether a summary is due, and make it.

        Raises:
            SummaryNotMade: it could not be made; what was appended is stored.
        """
        making = _Making(self._conversation, self._summariser)
        result, asked = None, False
        try:
            while (step := making.next(result)) is not None:
                asked = isinstance(step, StoredMessage)
                result = self._ask(step) if asked else self._driver.drive(step)
        except BaseException as error:
            if asked or not isinstance(error, ServerUnavailable):
                self._give_up(making)
            if isinstance(error, Exception):
                raise making.not_made(version, error) from error
            raise
        self._give_up(making)

    def _give_up(self, making: _Making) -> None:
        """Let others make the summary. A server that is away would not hear of it: the claim runs out."""
        if making.held:
            with suppress(MemoryRedisError):
                self._driver.drive(making.give_up(), _GIVE_UP_SECONDS)

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
    """Keeps the summary of one conversation, for asyncio."""

    def __init__(self, conversation: Conversation, driver: AsyncDriver, summariser: Summariser) -> None:
        self._conversation, self._driver, self._summariser = conversation, driver, summariser

    async def run(self, version: Version) -> None:
        """As `Upkeep.run`. If it is cancelled, it still gives its claim up."""
        making = _Making(self._conversation, self._summariser)
        result, asked = None, False
        try:
            while (step := making.next(result)) is not None:
                asked = isinstance(step, StoredMessage)
                result = await (self._ask(step) if asked else self._driver.drive(step))
        except GeneratorExit:  # nothing can be awaited any more
            raise
        except BaseException as error:
            if asked or not isinstance(error, ServerUnavailable):
                await self._give_up(making)
            if isinstance(error, Exception):
                raise making.not_made(version, error) from error
            raise
        await self._give_up(making)

    async def _give_up(self, making: _Making) -> None:
        if making.held:
            with anyio.move_on_after(_GIVE_UP_SECONDS, shield=True), suppress(MemoryRedisError):
                await self._driver.drive(making.give_up(), _GIVE_UP_SECONDS)

    async def _ask(self, question: StoredMessage) -> Any:
        model = self._summariser.model
        if callable(getattr(model, "ainvoke", None)):
            return await model.ainvoke(question.text)
        function: Callable[..., Any] = model
        if _is_awaited(function):
            return await function([question])
        output = await anyio.to_thread.run_sync(function, [question])
        return await output if inspect.isawaitable(output) else output
