"""`RunnableWithMessageHistory`: a LangChain runnable that remembers its conversations.

Our own `Runnable`, with the arguments of the class of that name in langchain-core and built on what
is public there: its callbacks trace a call, its `RunnableGenerator` runs a stream.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig, RunnableGenerator
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import ensure_config, get_config_list, merge_configs

from memory_redis.dictionaries import Keys
from memory_redis.errors import InvalidSetting
from memory_redis.exchanges import Exchange
from memory_redis.langchain.declared import Declared
from memory_redis.langchain.sessions import FactorySessions, MemorySessions, Sessions, store_of
from memory_redis.langchain.tracing import atraced, traced
from memory_redis.langchain.values import merge_of, merged, messages_in, messages_out
from memory_redis.options import OnCorrupt, check_on_corrupt
from memory_redis.rules import OnConflict, OnSaveError, Partial, Rules, SaveInput, TurnReport
from memory_redis.runs import arun, astream, run, stream
from memory_redis.stores import AnyMemory
from memory_redis.toolcalls import Unanswered, check_unanswered
from memory_redis.windows import Window, check_window
from memory_redis.wrapper import answer_in, check_default_session


class RunnableWithMessageHistory(Declared):
    """A runnable that remembers: loads the conversation, runs the inner runnable, stores the turn.

    The conversation is named by the config of a call: with a memory by
    `{"configurable": {"user_id": …, "conversation_id": …}}` or `{"configurable": {"session_id": …}}`,
    with a function by the keys of `history_factory_config`. Further keys of `configurable`:

    - `idempotency_key`: a second call under the same key gives the stored answer;
    - `window`: what the runnable sees, instead of the one given here;
    - `turn_report`: an empty `TurnReport`, filled in with what became of the turn.

    Inner code finds the history as `configurable["message_history"]`.

    Args:
        runnable: a chat model, a plain model, a chain, or any other runnable or function that takes
            a list of messages, or a dictionary, and gives a text, messages, or a dictionary.

        get_session_history: a memory or a memory strategy, of either face; or a function, also an
            asynchronous one, that gives a `History`, an `AsyncHistory`, a `RedisChatMessageHistory`
            or any other chat message history.

        input_messages_key, output_messages_key, history_messages_key: as for `with_history`.

        history_factory_config: the keys that the function wants, by default `session_id` alone.

        default_session: as for `with_history`; with a memory only.

        on_conflict, max_tries, save_input, on_save_error, partial, window, unanswered, on_corrupt: as
            for `with_history`. Histories of other libraries know no versions, and serve with
            `on_conflict="append"` and without an idempotency key only.

        kwargs: keywords for the inner runnable, as those that a call is given.

        config, config_factories: merged under the config of each call.

        custom_input_type, custom_output_type: what the schemas say, instead of what can be known.

    Raises:
        InvalidSetting: one of these cannot be meant.
        TypeError: a keyword is none of these.

    A call raises:
        InvalidSetting, InvalidId: the config does not say which conversation is meant.
        AsyncOnly: something asynchronous is needed in a call that is not awaited.
        and what the result of `with_history` raises.
    """

    def __init__(
        self,
        runnable: Any,
        get_session_history: AnyMemory | Callable[..., Any],
        *,
        input_messages_key: str | None = None,
        output_messages_key: str | None = None,
        history_messages_key: str | None = None,
        history_factory_config: Sequence[ConfigurableFieldSpec] | None = None,
        default_session: str | None = None,
        on_conflict: OnConflict = "append",
        max_tries: int = 2,
        save_input: SaveInput = "after",
        on_save_error: OnSaveError = "raise",
        partial: Partial = "drop",
        window: Window | None = None,
        unanswered: Unanswered = "drop",
        on_corrupt: OnCorrupt = "skip",
        config: RunnableConfig | None = None,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others) - set(type(self).model_fields))
        if unknown:  # pydantic would take no notice of a slip of the pen
            raise TypeError(f"unexpected keywords: {', '.join(unknown)}")
        for name in ("kwargs", "config_factories"):
            if others.get(name, ...) is None:
                del others[name]
        keys = Keys(input=input_messages_key, history=history_messages_key, output=output_messages_key)
        rules = Rules(
            on_conflict=on_conflict,
            max_tries=max_tries,
            save_input=save_input,
            on_save_error=on_save_error,
            partial=partial,
        )
        declared: dict[str, Any] = {
            "runnable": coerce_to_runnable(runnable),
            "get_session_history": get_session_history,
            "input_messages_key": input_messages_key,
            "output_messages_key": output_messages_key,
            "history_messages_key": history_messages_key,
            "history_factory_config": history_factory_config,
            "default_session": check_default_session(default_session),
            "on_conflict": on_conflict,
            "max_tries": max_tries,
            "save_input": save_input,
            "on_save_error": on_save_error,
            "partial": partial,
            "window": None if window is None else check_window(window),
            "unanswered": check_unanswered(unanswered),
            "on_corrupt": check_on_corrupt(on_corrupt),
        }
        super().__init__(**declared, **others)
        self.config = config or {}  # pydantic would leave out keys that it does not know
        self._rules = rules
        self._keys = keys
        if isinstance(get_session_history, AnyMemory):
            if history_factory_config:
                raise InvalidSetting("history_factory_config is for a function, not for a memory")
            self._sessions = Sessions(MemorySessions(get_session_history, default_session))
        elif default_session is not None:
            raise InvalidSetting("default_session is for a memory: a function can have a default of its own")
        else:
            self._sessions = Sessions(FactorySessions(get_session_history, history_factory_config))

    # -- running -----------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The inner runnable's output; the turn is stored before it is given."""
        options = {**self.kwargs, **kwargs}
        own, mine = self._entered(config)

        def answer(config: RunnableConfig) -> Any:
            exchange, store, given = self._exchange(input, config, mine)
            return run(
                exchange,
                self._opening(store.open, mine),
                lambda past: self.runnable.invoke(given(past), config, **options),
            )

        return traced(own, input, answer)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As `invoke`."""
        options = {**self.kwargs, **kwargs}
        own, mine = await self._aentered(config)

        async def answer(config: RunnableConfig) -> Any:
            exchange, store, given = self._exchange(input, config, mine)
            return await arun(
                exchange,
                self._opening(store.aopen, mine),
                lambda past: self.runnable.ainvoke(given(past), config, **options),
            )

        return await atraced(own, input, answer)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """The chunks of the inner runnable's output as they come; the turn is stored before the end."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As `stream`."""

        async def inputs() -> AsyncIterator[Any]:
            yield input

        async with aclosing(self.atransform(inputs(), config, **kwargs)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """As `stream`, of an input that comes in chunks."""
        own, mine = self._entered(config)
        options = {**self.kwargs, **kwargs}
        running: list[Any] = []

        @_known
        def answer(inputs: Iterator[Any], config: RunnableConfig) -> Iterator[Any]:
            brought = list(inputs)
            if not brought:
                return
            exchange, store, given = self._exchange(merged(brought), config, mine)
            chunks = stream(
                exchange,
                self._opening(store.open, mine),
                lambda past: self.runnable.stream(given(past), config, **options),
            )
            running.append(chunks)
            yield from chunks

        try:
            generator: RunnableGenerator[Any, Any] = RunnableGenerator(cast(Any, answer))
            yield from generator.transform(input, own)
        finally:
            for chunks in running:  # the generator above leaves an abandoned one to the collector
                chunks.close()

    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As `transform`."""
        own, mine = await self._aentered(config)
        options = {**self.kwargs, **kwargs}

        @_known
        async def answer(inputs: AsyncIterator[Any], config: RunnableConfig) -> AsyncIterator[Any]:
            brought = [chunk async for chunk in inputs]
            if not brought:
                return
            exchange, store, given = self._exchange(merged(brought), config, mine)
            chunks = astream(
                exchange,
                self._opening(store.aopen, mine),
                lambda past: self.runnable.astream(given(past), config, **options),
            )
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

        generator: RunnableGenerator[Any, Any] = RunnableGenerator(cast(Any, answer))
        chunks: Any = generator.atransform(input, own)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """The outputs for several inputs, run side by side: a turn each."""
        configs = self._checked(config, len(inputs), return_exceptions)
        return super().batch(inputs, configs, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """As `batch`."""
        configs = self._checked(config, len(inputs), return_exceptions)
        return await super().abatch(inputs, configs, return_exceptions=return_exceptions, **kwargs)

    def batch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: Any = False, **kwargs: Any
    ) -> Iterator[tuple[int, Any]]:
        """As `batch`, each output with the index of its input and as soon as it is there."""
        configs = self._checked(config, len(inputs), return_exceptions)
        yield from super().batch_as_completed(inputs, configs, return_exceptions=return_exceptions, **kwargs)

    async def abatch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: Any = False, **kwargs: Any
    ) -> AsyncIterator[tuple[int, Any]]:
        """As `batch_as_completed`."""
        configs = self._checked(config, len(inputs), return_exceptions)
        outputs: Any = super().abatch_as_completed(
            inputs, configs, return_exceptions=return_exceptions, **kwargs
        )
        async with aclosing(outputs):
            async for output in outputs:
                yield output

    def _checked(
        self,
        config: RunnableConfig | Sequence[RunnableConfig] | None,
        count: int,
        return_exceptions: bool,
    ) -> list[RunnableConfig]:
        """The config of each item of a batch; no item runs if one of them lacks a conversation."""
        configs = get_config_list(config, count) if count else []
        if not return_exceptions:
            for one in configs:
                self._sessions.source.check(self._merged(one)["configurable"])
        return configs

    def _entered(self, config: RunnableConfig | None) -> tuple[Any, dict[str, Any]]:
        """The config of a run, with its history; and what is for this run alone, not for inner wrappers."""
        own = self._merged(config)
        mine = _taken(own["configurable"])
        own["configurable"]["message_history"] = self._sessions.history(own["configurable"])
        return own, mine

    async def _aentered(self, config: RunnableConfig | None) -> tuple[Any, dict[str, Any]]:
        """As `_entered`."""
        own = self._merged(config)
        mine = _taken(own["configurable"])
        own["configurable"]["message_history"] = await self._sessions.ahistory(own["configurable"])
        return own, mine

    def _merged(self, config: RunnableConfig | None) -> Any:
        """A config of this run's own: what is bound, under what the call says."""
        own: Any = merge_configs(self.config, config) if self.config else ensure_config(config)
        if self.config_factories:
            own = merge_configs(own, *(make(own) for make in self.config_factories))
        own["configurable"] = dict(own.get("configurable") or {})
        own.setdefault("run_name", self.get_name())
        return own

    def _exchange(
        self, value: Any, config: Any, mine: dict[str, Any]
    ) -> tuple[Exchange[Any], Any, Callable[[list[Any]], Any]]:
        """The exchange, where it is stored, and from what was loaded to the inner runnable's input."""
        key, report = mine["idempotency_key"], mine["turn_report"]
        if not isinstance(report, TurnReport | None):
            raise InvalidSetting("turn_report must be a TurnReport")
        store: Any = store_of(config["configurable"]["message_history"])
        store.check(self._rules, key)
        keys, rules = self._keys, self._rules
        new = messages_in(keys.new(value))
        kept: list[Any] = store.kept(new)
        exchange: Exchange[Any] = Exchange(
            rules=rules,
            new=kept,
            to_messages=lambda output: store.kept(messages_out(keys.answer(output))),
            from_stored=lambda found: self._as_answered(
                store.shown(answer_in(found, kept, rules.save_input))
            ),
            merge=lambda chunks: merge_of(self.runnable)(chunks),
            mark=store.mark,
            past=lambda turn, own: store.past(turn, own, kept, self.unanswered),
            key=key,
            label=store.label,
            report=TurnReport() if report is None else report,
        )
        return exchange, store, lambda past: keys.given(value, store.shown(past), new)

    def _opening(self, open_turn: Callable[..., Any], mine: dict[str, Any]) -> Callable[[str | None], Any]:
        """What opens a turn under a key, with the options of this run."""
        window = self.window if mine["window"] is None else mine["window"]
        return lambda key: open_turn(
            on_conflict=self._rules.turn_policy,
            window=window,
            idempotency_key=key,
            on_corrupt=self.on_corrupt,
        )

    def _as_answered(self, messages: list[BaseMessage]) -> Any:
        """Messages of a stored answer in the form in which the inner runnable gives one."""
        found: Any = messages
        if len(messages) == 1:
            [found] = messages
            kind = self.runnable.OutputType
            if kind is str or (kind is Any and _is_plain(found)):
                found = found.text
        return found if self.output_messages_key is None else {self.output_messages_key: found}


_OF_A_CALL: Final = ("idempotency_key", "window", "turn_report")


def _taken(configurable: dict[str, Any]) -> dict[str, Any]:
    """What a config says of one call; it is taken out, or calls inside would take it for theirs."""
    return {name: configurable.pop(name, None) for name in _OF_A_CALL}


_SIGNATURE: Final = inspect.signature(lambda value, config: None)  # noqa: ARG005


def _known(function: Any) -> Any:
    """A function of a value and a config, with its signature at hand: LangChain inspects it at every step."""
    function.__signature__ = _SIGNATURE
    return function


def _is_plain(message: BaseMessage) -> bool:
    """Whether a message may have been a text: there is nothing to it but that."""
    bare = not (message.id or message.name or message.additional_kwargs or message.response_metadata)
    return bare and message.type == "ai" and isinstance(message.content, str)
