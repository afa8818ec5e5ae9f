"""Which history a call of a LangChain wrapper means, as its config says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from langchain_core.runnables import ConfigurableFieldSpec

from memory_redis.errors import AsyncOnly, InvalidId, InvalidSetting
from memory_redis.history import AsyncHistory, History
from memory_redis.langchain.history import RedisChatMessageHistory
from memory_redis.langchain.stores import Faces, OtherStore, OwnStore
from memory_redis.stores import AnyMemory

Store = OwnStore | OtherStore

_SESSION: Final = ConfigurableFieldSpec(
    id="session_id",
    annotation=str,
    name="Session ID",
    description="Unique identifier for a session.",
    default="",
    is_shared=True,
)
_USER: Final = ConfigurableFieldSpec(
    id="user_id", annotation=str, name="User ID", description="Whose conversation it is.", is_shared=True
)
_CONVERSATION: Final = ConfigurableFieldSpec(
    id="conversation_id",
    annotation=str,
    name="Conversation ID",
    description="Which of the user's conversations it is.",
    is_shared=True,
)
_BY_POSITION: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


class MemorySessions:
    """The conversations of a memory: `user_id` and `conversation_id` in the config, or `session_id`.

    `default_session` is the session of a config that names neither.
    """

    specs: Sequence[ConfigurableFieldSpec] = (_USER, _CONVERSATION, _SESSION)

    def __init__(self, memory: AnyMemory, default_session: str | None = None) -> None:
        self._memory, self._default = memory, default_session

    def check(self, configurable: Mapping[str, Any]) -> None:
        """That a config says which conversation is meant.

        Raises:
            InvalidSetting: it does not, or says it twice.
            InvalidId: an id is not a non-empty text.
        """
        expected = ["conversation_id", "user_id"]
        given = [name for name in expected if name in configurable]
        if self._default is not None and not given and "session_id" not in configurable:
            return
        if "session_id" in configurable:
            if given:  # to leave a user out would let others into the conversation
                raise InvalidSetting(
                    f"config['configurable'] has session_id and {' and '.join(given)}:"
                    " give session_id alone, or user_id and conversation_id"
                )
            given = ["session_id"]
        elif len(given) < 2:
            raise missing_keys(sorted(set(expected) - set(given)), expected, " (or session_id alone)")
        for name in given:
            check_id(name, configurable[name])

    def resolve(self, configurable: Mapping[str, Any]) -> Any:
        """The history."""
        session = configurable.get("session_id", None if "user_id" in configurable else self._default)
        if session is not None:
            return RedisChatMessageHistory(memory=self._memory, session_id=session)
        return RedisChatMessageHistory(
            memory=self._memory,
            user_id=configurable["user_id"],
            conversation_id=configurable["conversation_id"],
        )


class FactorySessions:
    """The histories that a function makes.

    It is called with the one key by position (by name where it takes none by position), or with
    several by their names. With one key it is also given those of its keyword-only parameters that
    the config has; not what a `partial` has set, and nothing more if it is a class: those are
    settings, and a config may come from far away. It may be a coroutine function.

    Raises:
        InvalidSetting: it is not callable.
    """

    def __init__(
        self, factory: Callable[..., Any], specs: Sequence[ConfigurableFieldSpec] | None = None
    ) -> None:
        if not callable(factory):
            raise InvalidSetting("a memory of memory_redis, or a function that gives a history, was expected")
        self._factory = factory
        self.specs = list(specs) if specs else [_SESSION]
        self._expected = [spec.id for spec in self.specs]
        parameters = _parameters(factory)
        self._takes = [one.name for one in parameters]
        self._optional = {
            one.name
            for one in parameters
            if one.kind is one.KEYWORD_ONLY
            and one.default is not one.empty
            and one.name not in self._expected
        }
        self._by_name = not any(one.kind in _BY_POSITION for one in parameters) and (
            self._expected[0] in self._takes or any(one.kind is one.VAR_KEYWORD for one in parameters)
        )
        self._further = _further(factory, parameters if self._by_name else parameters[1:])

    def check(self, configurable: Mapping[str, Any]) -> None:
        """That a config has the keys, and that they are ids.

        Raises:
            InvalidSetting: a key is missing, or several keys do not fit the factory's parameters.
            InvalidId: a key is empty, None or, where a text is wanted, no text.
        """
        if not self._takes and len(self._expected) == 1:
            return
        missing = sorted(set(self._expected) - set(configurable))
        if missing:
            raise missing_keys(missing, sorted(self._expected))
        if len(self._expected) > 1 and set(self._expected) != set(self._takes) - self._optional:
            raise InvalidSetting(
                f"expected keys {sorted(self._expected)} do not match parameter names"
                f" {sorted(self._takes)} of get_session_history"
            )
        for spec in self.specs:
            check_id(spec.id, configurable[spec.id], spec.annotation is str)

    def resolve(self, configurable: Mapping[str, Any]) -> Any:
        """What the factory gives: a history, or an awaitable of one. What it raises is not changed."""
        if len(self._expected) > 1:
            return self._factory(**{name: configurable[name] for name in self._expected})
        if not self._takes:
            return self._factory()
        [name] = self._expected
        further = {other: configurable[other] for other in self._further if other in configurable}
        if self._by_name:
            return self._factory(**{**further, name: configurable[name]})
        return self._factory(configurable[name], **further)


def missing_keys(missing: Sequence[str], expected: Sequence[str], more: str = "") -> InvalidSetting:
    """The error for a config that does not say which history is meant."""
    example = {"configurable": dict.fromkeys(missing, "[your-value-here]")}
    return InvalidSetting(
        f"missing keys {list(missing)} in config['configurable']; expected keys are {list(expected)}{more}."
        f" Pass a config to .invoke() or .stream(), as chain.invoke(input, {example})"
    )


def check_id(name: str, value: Any, text: bool = True) -> None:
    """That a value can name a session.

    Raises:
        InvalidId: it is empty or None or, where a text is wanted, no text.
    """
    if value is None or value == "" or (text and not isinstance(value, str)):
        raise InvalidId(f"{name} must be a non-empty text")


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """A factory's parameters, those that collect others included."""
    try:
        return list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):  # some built-in callables do not say
        return [inspect.Parameter("session_id", inspect.Parameter.POSITIONAL_ONLY)]


def _further(factory: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> list[str]:
    """The names of those of these parameters that a config may fill."""
    bound, core = set[str](), factory
    while isinstance(core, partial):
        bound, core = bound | set(core.keywords), core.func
    if inspect.isclass(core):
        return []
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in bound]


@dataclass(frozen=True, slots=True)
class Sessions:
    """From a config to a history and its store."""

    source: MemorySessions | FactorySessions

    def history(self, configurable: Mapping[str, Any]) -> Any:
        """The history of a call that is not awaited.

        Raises:
            AsyncOnly: the factory is a coroutine function.
        """
        self.source.check(configurable)
        history = self.source.resolve(configurable)
        if inspect.isawaitable(history):
            if inspect.iscoroutine(history):
                history.close()
            raise AsyncOnly("get_session_history is asynchronous: use ainvoke, astream, abatch")
        return history

    async def ahistory(self, configurable: Mapping[str, Any]) -> Any:
        """The history of a call that is awaited."""
        self.source.check(configurable)
        history = self.source.resolve(configurable)
        return await history if inspect.isawaitable(history) else history


def store_of(history: Any) -> Store:
    """The store of a history.

    Raises:
        InvalidSetting: it is none.
    """
    if isinstance(history, RedisChatMessageHistory):
        return OwnStore(history, history.label)
    if isinstance(history, History):
        return OwnStore(Faces(history, None), history.label)
    if isinstance(history, AsyncHistory):
        return OwnStore(Faces(None, history), history.label)
    if any(hasattr(history, name) for name in ("add_messages", "add_message", "aadd_messages")):
        return OtherStore(history)
    raise InvalidSetting(
        f"get_session_history gave a value of type {type(history).__name__}, which is no message history"
    )
