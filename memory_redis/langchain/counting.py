"""Token counters made of LangChain's: a model's own tokenizer, or a function that counts messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage

from memory_redis.counting import TokenCounter
from memory_redis.errors import InvalidSetting
from memory_redis.langchain.messages import to_langchain


def token_counter(
    name: str, counter: BaseLanguageModel[Any] | Callable[[list[BaseMessage]], int] | Callable[..., int]
) -> TokenCounter:
    """A counter for `TokenBudget` of what `trim_messages` takes as its `token_counter`.

    Each message is counted alone, for a counter has to be additive: a model that adds tokens once for
    a whole list adds them to every message.

    Args:
        name: which counter it is, such as the name of the tokenizer; see `TokenCounter`.

        counter: a model, whose `get_num_tokens_from_messages` counts (it goes by `custom_get_token_ids`
            where that is set); a function of a list of messages, such as `count_tokens_approximately`;
            or a function whose first parameter is annotated as `BaseMessage`, of one message.

    Raises:
        InvalidSetting: it is none of these, or the name is empty.
    """
    if isinstance(counter, BaseLanguageModel):
        model = counter
        return TokenCounter(name, lambda message: model.get_num_tokens_from_messages([to_langchain(message)]))
    if not callable(counter) or isinstance(counter, type):
        raise InvalidSetting("a token counter is made of a model or of a function that counts messages")
    function: Callable[..., int] = counter
    if _takes_one(function):
        return TokenCounter(name, lambda message: function(to_langchain(message)))
    return TokenCounter(name, lambda message: function([to_langchain(message)]))


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function says that it counts one message, as `trim_messages` asks it."""
    try:
        [first, *_] = inspect.signature(function, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError):
        return False
    return inspect.isclass(first.annotation) and issubclass(first.annotation, BaseMessage)
