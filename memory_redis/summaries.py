"""Summaries of conversations: when one is due, what a model is asked, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory_redis.counting import Counter, checked_count, text_bytes
from memory_redis.errors import InvalidMessage
from memory_redis.layouts import text_of
from memory_redis.messages import StoredMessage, human, system
from memory_redis.toolcalls import last_safe_cut, safe_cut

INSTRUCTION = (
    "Summarise the conversation below in a few sentences, for somebody who is to go on with it."
    " Keep names, numbers, wishes, decisions and open questions. Answer with the summary alone."
)
REQUEST_BYTES = 256 * 1024
_SHOWN = "Summary of earlier conversation: "


@dataclass(frozen=True, slots=True)
class Threshold:
    """A conversation is summarised when it has more messages than this, and more tokens.

    Without a counter tokens do not matter.
    """

    messages: int
    tokens: int = 0
    counter: Counter | None = None

    def crossed(self, messages: Sequence[StoredMessage]) -> bool:
        """Whether messages are more than that."""
        if len(messages) <= self.messages:
            return False
        if self.counter is None:
            return True
        counter = self.counter
        return sum(checked_count(counter(message)) for message in messages) > self.tokens


ALWAYS = Threshold(-1)
"""Crossed, whatever there is."""


@dataclass(frozen=True, slots=True)
class KeepMessages:
    """Summarise above twice `buffer_size` messages, and keep the newest `buffer_size`."""

    buffer_size: int

    @property
    def threshold(self) -> Threshold:
        """When a summary is due."""
        return Threshold(2 * self.buffer_size)

    def cut(self, messages: Sequence[StoredMessage]) -> int:
        """How many of the messages are to be summarised."""
        return safe_cut(messages, len(messages) - self.buffer_size)


@dataclass(frozen=True, slots=True)
class KeepTokens:
    """Summarise above so many tokens, and keep the newest messages with at most half as many.

    At least one message is kept and one is summarised; so a tool exchange at the end may stay although
    it is longer.
    """

    max_token_limit: int
    counter: Counter

    @property
    def threshold(self) -> Threshold:
        """When a summary is due."""
        return Threshold(1, self.max_token_limit, self.counter)

    def cut(self, messages: Sequence[StoredMessage]) -> int:
        """How many of the messages are to be summarised."""
        cut, left = len(messages), self.max_token_limit // 2
        while cut > 1:
            left -= checked_count(self.counter(messages[cut - 1]))
            if left < 0:
                break
            cut -= 1
        cut = max(min(cut, len(messages) - 1), 1)
        safe = safe_cut(messages, cut)
        if safe < len(messages):
            return safe
        return last_safe_cut(messages, cut - 1)


def at_once(messages: Sequence[StoredMessage], cut: int) -> int:
    """How many of the messages before `cut` one request tells of: up to 256 KiB of text, at least one.

    More than that has come together if a model has failed for long. It would never get through whole.
    A message that is longer by itself goes with those before it.
    """
    room = REQUEST_BYTES
    for at, message in enumerate(messages[:cut]):
        size = text_bytes(message)
        room -= size
        if room < 0:
            fits = at + (size > REQUEST_BYTES)
            return min(safe_cut(messages, fits), cut) or cut
    return cut


def cut_of_beginning(messages: Sequence[StoredMessage]) -> int:
    """How many are to be summarised of the oldest messages of a conversation of too many bytes.

    Half of them, whatever a plan would keep; 0 if they are one tool exchange.
    """
    half = max(len(messages) // 2, 1)
    safe = safe_cut(messages, half)
    return safe if safe < len(messages) else last_safe_cut(messages, half)


def shown(summary: str) -> StoredMessage:
    """A summary as the model sees it, before the messages that are left."""
    return system(_SHOWN + summary)


def request(messages: Sequence[StoredMessage], summary: str | None) -> StoredMessage:
    """What a model is asked: one human message with the instruction, the summary so far, and the messages."""
    lines = [] if summary is None else [f"system: {_SHOWN}{summary}"]
    lines += [_line(message) for message in messages]
    return human("\n".join([INSTRUCTION, "", *lines]))


def _line(message: StoredMessage) -> str:
    role = message.data.get("role", "chat") if message.type == "chat" else message.type
    calls = [f"[calls {call.get('name')} {_arguments(call)}]" for call in message.tool_calls]
    said = " ".join(filter(None, [message.text, *calls]))
    speaker = f"{role} ({message.name})" if message.name else role
    return f"{speaker}: {said}".replace("\n", "\n  ")  # or a text could pass for several speakers


def _arguments(call: dict[str, Any]) -> str:
    try:
        return json.dumps(call.get("args"), ensure_ascii=False)
    except (TypeError, ValueError):
        return "…"


def answer_of(output: Any) -> str:
    """The text of what a model gave: a text, a message of anyone's, or a dictionary with content.

    Raises:
        InvalidMessage: it is none of these, or empty.
    """
    content = output.get("content") if isinstance(output, dict) else getattr(output, "content", output)
    text = text_of(content)
    if not text.strip():
        raise InvalidMessage("the model gave no text for a summary")
    return text
