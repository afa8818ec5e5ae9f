"""What goes in and comes out of LangChain runnables, as messages; and chunks of it, merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Final

from langchain_core.messages import (
    LC_AUTO_PREFIX,
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.output_parsers import BaseCumulativeTransformOutputParser
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase

from memory_redis.errors import InvalidMessage

_EXPECTED: Final = "Expected str, BaseMessage, list[BaseMessage], or tuple[BaseMessage]"
_ROLES: Final = frozenset({"human", "user", "ai", "assistant", "system", "developer"})


def messages_in(value: Any) -> list[BaseMessage]:
    """The messages that an input stands for; a text is the user's.

    It is a text, a message, a prompt value, what LangChain makes messages of (a pair of a role and a
    text, a dictionary with a role and content), or a list of these, possibly within one more list.

    Raises:
        InvalidMessage: it is none of these.
    """
    return _messages(value, HumanMessage)


def messages_out(value: Any) -> list[BaseMessage]:
    """The messages that an output stands for; a text is the model's. As `messages_in`.

    Chunks that belong together are one message, also in a list.
    """
    return _parts(_messages(value, AIMessage))


def _messages(value: Any, speaker: type[BaseMessage]) -> list[BaseMessage]:
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, str | BaseMessage | Mapping) or (isinstance(value, tuple) and _is_said(value)):
        return [_message(value, speaker, None)]
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list) and not _is_said(value[0]):
            if len(value) != 1:
                raise InvalidMessage("Expected a single list of messages")
            value = value[0]
        return [_message(item, speaker, at) for at, item in enumerate(value)]
    raise InvalidMessage(f"{_EXPECTED}, got {type(value).__name__}")


def _message(value: Any, speaker: type[BaseMessage], position: int | None) -> BaseMessage:
    if isinstance(value, BaseMessage):
        return value
    if isinstance(value, str):
        return speaker(content=value)
    if _is_pair(value) or _has_role(value):
        try:
            [message] = convert_to_messages([dict(value) if isinstance(value, Mapping) else tuple(value)])
        except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError):
            raise InvalidMessage("a role or content that is no message's", position=position) from None
        return message
    kind = type(value).__name__
    raise InvalidMessage(f"{_EXPECTED}, got {kind}, which is no message", position=position)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value)
    )


def _is_said(value: Any) -> bool:
    """Whether a pair of texts is certainly a role and a text, and not two texts."""
    return _is_pair(value) and value[0] in _ROLES


def _has_role(value: Any) -> bool:
    """Whether a value is a dictionary with a role and content; never one that names a class to be made."""
    if not isinstance(value, Mapping) or "lc" in value:
        return False
    return isinstance(value.get("role"), str) or (isinstance(value.get("type"), str) and "content" in value)


def merged(chunks: Sequence[Any]) -> Any:
    """The value that the chunks of a stream amount to.

    Texts are joined, and message chunks that belong together are one; values of dictionaries are
    merged key by key, lists are joined; whole messages stand for themselves. Where each dictionary
    holds all of the one before it, and they come to hold more keys or items, as those of a parser of
    JSON do, the last one is all.
    """
    if len(chunks) == 1 or _grows(chunks):
        return chunks[-1]
    if chunks and all(isinstance(chunk, Mapping) for chunk in chunks):
        names = dict.fromkeys(name for chunk in chunks for name in chunk)
        return {name: merged([chunk[name] for chunk in chunks if name in chunk]) for name in names}
    if chunks and all(isinstance(chunk, list | tuple) for chunk in chunks):
        return [item for chunk in chunks for item in chunk]
    parts = _parts(chunks)
    return parts[0] if len(parts) == 1 else parts


def merge_of(runnable: Runnable[Any, Any]) -> Callable[[Sequence[Any]], Any]:
    """What gives the value that the chunks of a runnable's stream amount to.

    It is `merged`; behind a parser that gives, each time, all that it has read so far, the last chunk.
    """
    while isinstance(runnable, RunnableSequence | RunnableBindingBase):
        runnable = runnable.last if isinstance(runnable, RunnableSequence) else runnable.bound
    if isinstance(runnable, BaseCumulativeTransformOutputParser) and not runnable.diff:
        return lambda chunks: merged(chunks[-1:])
    return merged


def _parts(items: Sequence[Any]) -> list[Any]:
    """Items in order, those that belong together joined into one."""
    groups: list[list[Any]] = []
    for item in items:
        if groups and _belongs(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [part for group in groups for part in _joined(group)]


def _belongs(group: Sequence[Any], item: Any) -> bool:
    first = group[0]
    if not isinstance(first, BaseMessageChunk) or not isinstance(item, BaseMessageChunk):
        return isinstance(first, str) and isinstance(item, str)
    if type(first) is not type(item) or _part_of(first) != _part_of(item):
        return False
    if first.id is not None and first.id == item.id:
        return True
    if getattr(group[-1], "chunk_position", None) == "last":
        return False
    if first.id is None or item.id is None:
        return True
    # Behind chunks with the model's id, LangChain puts a last one with an id of its own.
    return first.id.startswith(LC_AUTO_PREFIX) != item.id.startswith(LC_AUTO_PREFIX)


def _part_of(chunk: BaseMessageChunk) -> tuple[Any, Any]:
    return getattr(chunk, "role", None), getattr(chunk, "tool_call_id", None)


def _joined(group: list[Any]) -> list[Any]:
    if len(group) == 1:
        return group
    if isinstance(group[0], str):
        return ["".join(group)]
    try:
        return [group[0] + group[1:] if isinstance(group[0], AIMessageChunk) else reduce(add, group)]
    except (TypeError, ValueError):  # they say things that cannot both be said in one message
        return group


def _grows(chunks: Sequence[Any]) -> bool:
    """Whether these are plain dictionaries, each of them the one before it and more.

    Longer texts alone are not more: `1` and `10`, under one key, may be pieces of `110`. A parser of JSON
    gives the empty dictionary before them.
    """
    if not chunks or any(type(chunk) is not dict for chunk in chunks):
        return False
    whole = all(first != then and _begins(first, then) for first, then in pairwise(chunks))
    return whole and _size(chunks[0]) < _size(chunks[-1])


def _begins(first: Any, then: Any) -> bool:
    """Whether the second value is the first one, written further."""
    if isinstance(first, str) and isinstance(then, str):
        return then.startswith(first)
    if isinstance(first, dict) and isinstance(then, dict):
        return all(name in then and _begins(value, then[name]) for name, value in first.items())
    if isinstance(first, list) and isinstance(then, list):
        return len(first) <= len(then) and all(map(_begins, first, then))
    plain = type(first) is type(then) and type(first) in (int, float, bool)
    return first is None or (plain and bool(first == then))


def _size(value: Any) -> int:
    """How many keys, items and values there are in a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_size, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(_size, value))
    return 0 if value is None else 1
