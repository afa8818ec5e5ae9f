"""Token counters: what a message costs in a `TokenBudget`, and what is stored with it at append."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Final, cast
from zlib import crc32

from memory_redis.errors import InvalidSetting
from memory_redis.messages import StoredMessage

MOST_TOKENS: Final = 2**24 - 1
"""What the header of a record has room for; a message with more cannot be counted."""

_FIRST_OWN, _CODES = 16, 2**16
_ROLES: Final = {"human": 4, "ai": 9, "system": 6, "tool": 4, "function": 8, "remove": 6}
"""Characters of the role's name in OpenAI's words: user, assistant, …"""
_IMAGE: Final = 85


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """A way to count tokens that has a name, so that its counts can be stored with the messages.

    A memory stores the counts of one counter (`RedisMemory(counter=…)`, or the counter of its window).
    A `TokenBudget` of that counter is then answered from what is stored. One of any other counter
    reads the messages and counts them: exact, but more than one round trip.

    A counter is additive: what a list of messages costs is the sum of what each costs.

    Args:
        name: says which counter it is, in every process and release that shares the memory. Counts
            under one name have to mean the same: another tokenizer is another name.

        count: from one `StoredMessage` to its tokens, an integer from 0 to 16,777,215. What it raises
            arrives unchanged, from `append` before anything is stored.

    Raises:
        InvalidSetting: the name is not a non-empty text, or `count` is no function.
    """

    name: str
    count: Callable[[StoredMessage], int] = field(compare=False, repr=False)
    code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidSetting("a token counter has a name, a non-empty text")
        check_counter(self.count)
        code = _BUILT_IN.get(self.name)
        if code is not None and self.count not in (_by_bytes_plus_1, _by_bytes, _approximately):
            raise InvalidSetting("that is the name of a counter of memory_redis: give yours another")
        if code is None:
            code = _FIRST_OWN + crc32(self.name.encode("utf-8", "surrogatepass")) % (_CODES - _FIRST_OWN)
        object.__setattr__(self, "code", code)

    def __call__(self, message: StoredMessage) -> int:
        """The tokens of a message.

        Raises:
            InvalidSetting: the function gave something else than an integer that can be stored.
        """
        return checked_count(self.count(message))


Counter = TokenCounter | Callable[[StoredMessage], int]
"""A counter with a name, or a plain function: its counts are not stored, and are made at each load."""


def checked_count(tokens: Any) -> int:
    """A count, if it is one.

    Raises:
        InvalidSetting: it is not an integer from 0 to 16,777,215.
    """
    if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
        raise InvalidSetting(f"a token counter must give an integer from 0 to {MOST_TOKENS:,}")
    return tokens


def check_counter(counter: Any) -> Counter:
    """The counter, if it can be one.

    Raises:
        InvalidSetting: it is no function: a class, a coroutine function, or nothing that can be called.
    """
    if isinstance(counter, type) or not callable(counter) or iscoroutinefunction(counter):
        raise InvalidSetting("a counter is a TokenCounter or a function from a message to its tokens")
    return cast(Counter, counter)


def code_of(counter: Counter | None) -> int:
    """The code under which a counter's tokens stand in records; 0 for one without a name."""
    return counter.code if isinstance(counter, TokenCounter) else 0


def text_bytes(message: StoredMessage) -> int:
    """The bytes of a message's text, UTF-8, as they stand in the header of its record."""
    return len(message.text.encode("utf-8", "surrogatepass"))


def _by_bytes_plus_1(message: StoredMessage) -> int:
    return text_bytes(message) // 4 + 1


def _by_bytes(message: StoredMessage) -> int:
    return max(text_bytes(message) // 4, 1)


def _approximately(message: StoredMessage) -> int:
    data: Any = message.data
    kind, content = message.type, data.get("content", "")
    plain = kind in ("human", "ai") and "tool_calls" not in data and "name" not in data
    if plain and type(content) is str:  # nearly every message
        return min((len(content) + _ROLES[kind] + 3) // 4 + 3, MOST_TOKENS)
    characters, extra = 0, 3
    if type(content) is str:
        characters = len(content)
        if kind == "ai" and data.get("tool_calls"):
            calls = data["tool_calls"]
            typed = all("type" in call for call in calls)
            characters += len(repr(calls if typed else [_with_type(call) for call in calls]))
    else:
        blocks: Any = content
        for block in blocks:
            shape = block.get("type", "") if isinstance(block, dict) else ""
            if shape in ("image", "image_url"):
                extra += _IMAGE
            elif shape == "text":
                text = block.get("text", "")
                characters += len(text if isinstance(text, str) else repr(text))
            else:
                characters += len(block if isinstance(block, str) else repr(block))
    if kind == "tool":
        characters += len(data["tool_call_id"])
    role: Any = data.get("role")
    if kind == "system":  # "developer" is a system message with this mark in LangChain
        role = (data.get("additional_kwargs") or {}).get("__openai_role__")
    own = kind in ("chat", "system") and isinstance(role, str)
    characters += (len(role) if own else _ROLES[kind]) + len(data.get("name") or "")
    return min(-(-characters // 4) + extra, MOST_TOKENS)


def _with_type(call: Any) -> Any:
    """A tool call as LangChain writes it, which is what its rule counts."""
    return call if "type" in call else {**call, "type": "tool_call"}


_BUILT_IN: Final = {"bytes // 4 + 1": 1, "max(bytes // 4, 1)": 2, "approximate": 3}

BYTES_4_PLUS_1: Final = TokenCounter("bytes // 4 + 1", _by_bytes_plus_1)
"""UTF-8 bytes of the text // 4 + 1, nothing for tool calls: Synaptic's rule for its token buffer."""

BYTES_4: Final = TokenCounter("max(bytes // 4, 1)", _by_bytes)
"""UTF-8 bytes of the text // 4, at least 1: Synaptic's rule for its summary buffer."""

APPROXIMATE: Final = TokenCounter("approximate", _approximately)
"""A quarter of the characters of text, role, name, tool calls and call id, rounded up, 3 for each
message, 85 for each image: the rule of LangChain's `count_tokens_approximately`."""

FROM_BYTES: Final = frozenset({1, 2})
"""Codes of the counters that follow from the bytes of a text, which stand in every header."""
