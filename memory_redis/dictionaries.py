"""Where messages stand in the dictionaries that go into a model and come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_redis.errors import InvalidMessage, InvalidSetting, MissingKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Where messages stand in dictionaries that go in and come out.

    Attributes:
        input: the key of the new messages in the input.

        history: the key under which the model expects the past.

        output: the key of the answer in the output.

    Raises:
        InvalidSetting: a key is no text, or two of them are one.
    """

    input: str | None = None
    history: str | None = None
    output: str | None = None

    def __post_init__(self) -> None:
        for key in (self.input, self.history, self.output):
            if key is not None and not (isinstance(key, str) and key):
                raise InvalidSetting("a messages_key must be a non-empty text")
        if self.input is not None and self.input == self.history:
            raise InvalidSetting("input_messages_key and history_messages_key must be two keys")

    def new(self, value: Any) -> Any:
        """The part of an input that is new.

        Raises:
            InvalidMessage: the input is not a dictionary, or has no such key.
        """
        if self._holds(value):
            return value[self._key_in(value)]
        if self.input or self.history:
            raise InvalidMessage(
                f"a dictionary was expected, since its keys are given, not {type(value).__name__}"
            )
        return value

    def given(self, value: Any, past: list[Any], new: list[Any]) -> Any:
        """What the model is given: the input with the past in its place."""
        if not self._holds(value):
            return past + new
        if self.history is not None:
            return {**value, self.history: past}
        return {**value, self._key_in(value): past + new}

    def _holds(self, value: Any) -> bool:
        """Whether an input has its messages under a key."""
        named = self.input or self.history
        return isinstance(value, Mapping) and bool(named or "role" not in value or "input" in value)

    def _key_in(self, value: Mapping[str, Any]) -> str:
        """The key of the new messages; that of the history is not meant."""
        others = {name: item for name, item in value.items() if name != self.history}
        return self.key_of(others, self.input, "input")

    def answer(self, output: Any) -> Any:
        """The part of an output that is to be stored.

        Raises:
            MissingKey: it has no such key.
        """
        if isinstance(output, Mapping) and (self.output or "role" not in output or "output" in output):
            return output[self.key_of(output, self.output, "output")]
        if self.output is not None:
            raise InvalidMessage(f"a dictionary was expected, not {type(output).__name__}")
        return output

    @staticmethod
    def key_of(value: Mapping[str, Any], key: str | None, usual: str) -> str:
        """The key that is meant: the given one, else the only one, else the usual one.

        Raises:
            MissingKey: the dictionary does not have it.
        """
        if key is None:
            key = next(iter(value)) if len(value) == 1 else usual
            if key not in value:
                raise MissingKey(f"the {usual} has no key {key!r}: say which it is by {usual}_messages_key")
        elif key not in value:
            raise MissingKey(f"the {usual} has no key {key!r}, which {usual}_messages_key names")
        return key
