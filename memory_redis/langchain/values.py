"""What goes in and comes out of LangChain runnables, as messages; and chunks of it, merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue

from memory_redis.errors import InvalidMessage

_EXPECTED = "Expected str, BaseMessage, list[BaseMessage], or tuple[BaseMessage]"


def messages_in(value: Any) -> list[BaseMessage]:
    """The messages that an input stands for; a text is the user's.

    It is a text, a message, a prompt value, what LangChain makes messages of (a pair of a role and a
    text, a dictionary with a role and content), or a list of these, possibly within one more list.

    Raises:
        InvalidMessage: it is none of these.
    """
    return _messages(value, HumanMessage)


def messages_out(value: Any) -> list[BaseMessage]:
    """The messages that an output stands for; a text is the model's. As `messages_in`."""
    return _messages(value, AIMessage)


def _messages(value: Any, speaker: type[BaseMessage]) -> list[BaseMessage]:
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, str | BaseMessage | Mapping):
        return [_message(value, speaker, None)]
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list):
            if len(value) != 1:
                raise InvalidMessage("Expected a single list of messages")
            value = value[0]
        return [_message(item, speaker, at) for at, item in enumerate(value)]
    raise InvalidMessage(f"{_EXPECTED}, got a {type(value).__name__}")


def _message(value: Any, speaker: type[BaseMessage], position: int | None) -> BaseMessage:
    if isinstance(value, BaseMessage):
        return value
    if isinstance(value, str):
        return speaker(content=value)
    pair = (
        isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value)
    )
    if pair or (isinstance(value, Mapping) and isinstance(value.get("role"), str)):
        try:
            [message] = convert_to_messages([dict(value) if isinstance(value, Mapping) else tuple(value)])
        except (ValueError, TypeError, NotImplementedError):
            raise InvalidMessage("a role or content that is no message's", position=position) from None
        return message
    kind = type(value).__name__
    raise InvalidMessage(f"{_EXPECTED}, got a {kind} that is no message", position=position)


def merged(chunks: Sequence[Any]) -> Any:
    """The value that the chunks of a stream amount to.

    Texts are joined, and message chunks that belong together are one; values of dictionaries are
    merged key by key, lists are joined and what belongs together in them is one; whole messages
    stand for themselves.
    """
    if len(chunks) == 1 and not isinstance(chunks[0], list):
        return chunks[0]
    if chunks and all(isinstance(chunk, Mapping) for chunk in chunks):
        names = dict.fromkeys(name for chunk in chunks for name in chunk)
        return {name: merged([chunk[name] for chunk in chunks if name in chunk]) for name in names}
    if chunks and all(isinstance(chunk, list | tuple) for chunk in chunks):
        return _parts([item for chunk in chunks for item in chunk])
    parts = _parts(chunks)
    return parts[0] if len(parts) == 1 else parts


def _parts(items: Sequence[Any]) -> list[Any]:
    """Items in order, those that belong together joined into one."""
    groups: list[list[Any]] = []
    for item in items:
        if groups and _belongs(groups[-1][0], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [_joined(group) for group in groups]


def _belongs(first: Any, item: Any) -> bool:
    if isinstance(first, BaseMessageChunk) and isinstance(item, BaseMessageChunk):
        return type(first) is type(item) and (first.id == item.id or first.id is None or item.id is None)
    return isinstance(first, str) and isinstance(item, str)


def _joined(group: list[Any]) -> Any:
    if len(group) == 1:
        return group[0]
    if isinstance(group[0], str):
        return "".join(group)
    return group[0] + group[1:]
