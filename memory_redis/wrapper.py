"""`with_history`: a model, given as a plain callable, that remembers its conversations."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from functools import partial as partial_function
from functools import update_wrapper
from typing import Any, TypeVar

from memory_redis.dictionaries import Keys
from memory_redis.errors import InvalidId, InvalidMessage, InvalidSetting
from memory_redis.exchanges import Exchange, look
from memory_redis.memory import AsyncRedisMemory
from memory_redis.messages import StoredMessage
from memory_redis.options import OnCorrupt, check_on_corrupt
from memory_redis.roles import merged, messages_of
from memory_redis.rules import OnConflict, OnSaveError, Partial, Rules, SaveInput, TurnReport
from memory_redis.runs import arun, astream, run, stream
from memory_redis.stores import AnyMemory, AsyncStrategy
from memory_redis.toolcalls import Unanswered, check_unanswered, without_unanswered
from memory_redis.windows import Window, check_window

T = TypeVar("T")


def check_default_session(session: str | None) -> str | None:
    """The session, if there can be one.

    Raises:
        InvalidSetting: it is not None and no non-empty text.
    """
    if session is not None and (not isinstance(session, str) or not session):
        raise InvalidSetting("default_session must be a non-empty text or None")
    return session


def marked_partial(message: StoredMessage) -> StoredMessage:
    """An answer, marked as part of one in `response_metadata`; other messages as they are."""
    if message.type != "ai":
        return message
    metadata = {**message.data.get("response_metadata", {}), "partial": True}
    return message.model_copy(update={"data": {**message.data, "response_metadata": metadata}})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remembering:
    """What the four kinds of wrapped callable share."""

    model: Callable[..., Any]
    memory: Any
    default_session: str | None
    keys: Keys
    rules: Rules
    window: Window | None
    unanswered: Unanswered
    on_corrupt: OnCorrupt
    as_text: bool | None

    def prepare(
        self, value: Any, options: dict[str, Any]
    ) -> tuple[Exchange[StoredMessage], Callable[[str | None], Any], Callable[[list[StoredMessage]], Any]]:
        """The exchange, what opens a turn under a key, and the model with the past as its only argument.

        Raises:
            InvalidId: it is not said which conversation is meant.
            InvalidMessage: the input is nothing that can be stored.
        """
        history = self._history(options)
        key, window, report = (options.pop(name, None) for name in ("idempotency_key", "window", "report"))
        if not isinstance(report, TurnReport | None):
            raise InvalidSetting("report must be a TurnReport")
        new = _copies(messages_of(self.keys.new(value)))
        exchange = Exchange(
            rules=self.rules,
            new=new,
            to_messages=lambda output: messages_of(self.keys.answer(output), "ai"),
            from_stored=lambda found: self._as_answered(answer_in(found, new, self.rules.save_input)),
            merge=merged,
            mark=marked_partial,
            past=lambda turn, own: without_unanswered(
                [message for message in turn.messages if message.seq not in own], new, self.unanswered
            ),
            key=key,
            label=history.label,
            split=lambda output: output if isinstance(output, list) else [output],
            report=TurnReport() if report is None else report,
        )

        def open_turn(key: str | None) -> Any:
            return history.turn(
                on_conflict=self.rules.turn_policy,
                window=self.window if window is None else window,
                idempotency_key=key,
                on_corrupt=self.on_corrupt,
            )

        def ask(past: list[StoredMessage]) -> Any:
            return self.model(self.keys.given(value, past, _copies(new)), **options)

        return exchange, open_turn, ask

    def _history(self, options: dict[str, Any]) -> Any:
        user, conversation, session = (
            options.pop(name, None) for name in ("user_id", "conversation_id", "session")
        )
        if session is not None:
            if user is not None or conversation is not None:
                raise InvalidSetting("give user_id and conversation_id, or session, not both")
            return self.memory.session(session)
        if self.default_session is not None and user is None and conversation is None:
            return self.memory.session(self.default_session)
        missing = [
            name for name, value in (("user_id", user), ("conversation_id", conversation)) if not value
        ]
        if missing:
            hint = " (there is no session_id=)" if "session_id" in options else ""
            raise InvalidId(
                f"{' and '.join(missing)} must be given: user_id= and conversation_id=, or session={hint}"
            )
        return self.memory.history(user, conversation)

    def _as_answered(self, messages: list[StoredMessage]) -> Any:
        """Messages of a stored answer in the form in which the model gives one."""
        found: Any = messages
        if len(messages) == 1:
            [found] = messages
            plain = found.type == "ai" and found.data.keys() == {"content"} and isinstance(found.content, str)
            if plain and self.as_text is not False:
                found = found.text
        return found if self.keys.output is None else {self.keys.output: found}


def answer_in(
    stored: list[StoredMessage], new: list[StoredMessage], save_input: SaveInput
) -> list[StoredMessage]:
    """What of the messages under a key is the answer: all, or all behind the input, which may be another."""
    if save_input == "before":
        return stored
    behind = stored[len(new) :]
    if new and [*map(look, stored[: len(new)])] == [*map(look, new)]:
        return behind
    humans = [at for at, message in enumerate(stored) if message.type == "human"]
    if humans:
        return stored[humans[-1] + 1 :]
    alike = [message.type for message in stored[: len(new)]] == [message.type for message in new]
    return behind if alike else stored


def _copies(messages: list[StoredMessage]) -> list[StoredMessage]:
    """Messages that neither the caller nor the model can change.

    Raises:
        InvalidMessage: one holds a value that cannot be copied, much less stored.
    """
    try:
        return [message.model_copy(deep=True) for message in messages]
    except Exception as error:
        raise InvalidMessage(f"it cannot be copied: {type(error).__name__}") from None


def _core(model: Any) -> Any:
    """The function in a callable: without partial arguments, and of an object that is called."""
    while isinstance(model, partial_function):
        model = model.func
    return model if inspect.isroutine(model) or inspect.isclass(model) else type(model).__call__


_TEXT = re.compile(r"str|[\w.]*(?:Iterator|Iterable|Generator)\[str\b[^|]*")


def _gives_text(function: Any) -> bool | None:
    """Whether a model gives text, as far as its annotations tell."""
    found = getattr(function, "__annotations__", {}).get("return")
    name = "str" if found is str else found if isinstance(found, str) else repr(found)
    if _TEXT.fullmatch(name) is not None:
        return True
    return False if "StoredMessage" in name else None


def with_history(
    model: Callable[..., T],
    memory: AnyMemory,
    *,
    default_session: str | None = None,
    input_messages_key: str | None = None,
    history_messages_key: str | None = None,
    output_messages_key: str | None = None,
    on_conflict: OnConflict = "append",
    max_tries: int = 2,
    save_input: SaveInput = "after",
    on_save_error: OnSaveError = "raise",
    partial: Partial = "drop",
    window: Window | None = None,
    unanswered: Unanswered = "drop",
    on_corrupt: OnCorrupt = "skip",
) -> Callable[..., T]:
    """A model that remembers: loads the conversation, runs the model, stores the turn.

    The result is called as the model is, awaited or iterated as the model is, and gives what the
    model gives: `chat("Hi", user_id="ann", conversation_id="support-42")`. It takes as input a
    text, a `StoredMessage`, a dictionary with `role` and `content`, or a list of these: new messages
    only, for all that it is given is stored. The model then gets the list of what was said before
    and the new messages, as `StoredMessage`. A dictionary without a role holds them under a key (see
    below), and the model gets a dictionary.

    A call takes these keywords, and hands all others on to the model:

    - `user_id` and `conversation_id`, or `session`: the conversation;
    - `idempotency_key`: a second call under the same key gives the stored answer, as the text or
      message that was stored, whatever its input is; the model is not run again unless both calls
      overlap;
    - `window`: instead of the one given here;
    - `report`: an empty `TurnReport`, filled in with what became of the turn.

    Args:
        model: a function, a coroutine function, a generator function or an asynchronous generator
            function. It gives a text, a message, a dictionary with a role, or a list of these; or
            a dictionary that has them under a key. A generator's texts are passed on as they come
            and stored as one message; a stream that is abandoned or fails stores nothing.

        memory: a memory, or a memory strategy, of either face; its twin is used where the model needs
            the other one.

        default_session: the session of a call that names no conversation. Without it such a call is
            refused; with it all such calls share one conversation, whoever they are for.

        input_messages_key: the key of the new messages in a dictionary that goes in. By default
            its only key, or `"input"`.

        history_messages_key: the key under which the model wants the past. By default it gets past
            and new messages together.

        output_messages_key: the key of the answer in a dictionary that comes out. By default its
            only key, or `"output"`.

        on_conflict: what happens if others have appended while the model ran. `"append"` stores
            the turn after theirs and notes the conflict in the report; `"raise"` stores nothing
            and raises `ConflictError`; `"retry"` runs the model again on what there is now, with
            growing pauses, and raises after `max_tries`, or once a part of the answer was passed
            on.

        max_tries: how often `"retry"` runs the model, the first time included, 1 to 100.

        save_input: `"after"` stores input and answer together, once there is an answer; `"before"`
            stores the input before the model runs, so that it stays if the model fails.

        on_save_error: what happens if the answer cannot be stored: `"raise"` raises
            `HistoryNotSaved`, which carries it; `"log"` logs that, and a function is called with
            it, and the answer is given back all the same, unless the function raises. It does not
            concern conflicts under `"raise"` and `"retry"`.

        partial: `"keep"` stores what was passed on of a stream that was abandoned or failed, with
            `response_metadata["partial"]` set; `"drop"` stores nothing of it. Under an idempotency key
            a part is no answer: the next call runs the model, and stores the whole one behind it.

        window: what the model sees, instead of the memory's.

        unanswered: whether tool calls in the past that nobody answered are left out (`"drop"`) or
            shown (`"keep"`), or raise `UnansweredCall` before the model runs (`"raise"`).

        on_corrupt: whether a record that cannot be decoded is left out and reported (`"skip"`) or
            raises (`"raise"`).

    Raises:
        InvalidSetting: one of these cannot be meant.

    A call raises:
        InvalidId, InvalidMessage: before the model runs; MissingKey where a dictionary has no key
            that could be meant.
        ConflictError: see `on_conflict`; as `HistoryCleared` if the conversation was cleared while
            the model ran. `output` has the answer.
        HistoryNotSaved: see `on_save_error`; as `InvalidAnswer` if the answer is no message.
        UnansweredCall: see `unanswered`.
        TurnAlreadyStored, RecordError: the turn under the idempotency key is gone, or damaged.
        ServerError: the history could not be loaded, or the input not stored; the model was not run.
    """
    if not callable(model):
        raise InvalidSetting(
            "with_history takes a function, a coroutine function or a generator function; for LangChain's"
            " runnables there is memory_redis.langchain.RunnableWithMessageHistory"
            if hasattr(model, "invoke")
            else "with_history takes a function, a coroutine function or a generator function"
        )
    function = _core(model)
    asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if not isinstance(memory, AnyMemory):
        raise InvalidSetting("with_history takes a RedisMemory, an AsyncRedisMemory or a memory strategy")
    if isinstance(memory, AsyncRedisMemory | AsyncStrategy) is not asynchronous:
        memory = memory.twin
    remembering = _Remembering(
        model=model,
        memory=memory,
        default_session=check_default_session(default_session),
        keys=Keys(input=input_messages_key, history=history_messages_key, output=output_messages_key),
        rules=Rules(
            on_conflict=on_conflict,
            max_tries=max_tries,
            save_input=save_input,
            on_save_error=on_save_error,
            partial=partial,
        ),
        window=None if window is None else check_window(window),
        unanswered=check_unanswered(unanswered),
        on_corrupt=check_on_corrupt(on_corrupt),
        as_text=_gives_text(function),
    )
    chat: Any = _wrapped(function, remembering)
    update_wrapper(chat, model)
    del chat.__wrapped__  # its keywords are not the model's
    found: Callable[..., T] = chat
    return found


def _wrapped(function: Any, remembering: _Remembering) -> Any:
    """A callable of the kind of the model's function."""
    if inspect.isasyncgenfunction(function):

        def chat_in_parts(value: Any, /, **options: Any) -> AsyncGenerator[Any, None]:
            return astream(*remembering.prepare(value, options))

        return chat_in_parts
    if inspect.iscoroutinefunction(function):

        async def chat_later(value: Any, /, **options: Any) -> Any:
            return await arun(*remembering.prepare(value, options))

        return chat_later
    if inspect.isgeneratorfunction(function):

        def chat_by_and_by(value: Any, /, **options: Any) -> Generator[Any, None, None]:
            return stream(*remembering.prepare(value, options))

        return chat_by_and_by

    def chat(value: Any, /, **options: Any) -> Any:
        return run(*remembering.prepare(value, options))

    return chat
