"""Memory strategies: what the model sees of a conversation, under the names that Synaptic and LangChain use.

A strategy is made over a memory, or over another strategy. It has the three methods of a
`MemoryStore`, by session, and gives histories like a memory's, so that a wrapper takes it in a
memory's place. What it shows it shows on loads and turns; all that is stored stays readable through
the memory, but for messages that were summarised. The sizes have no defaults, as in Synaptic.

Each class is there for sync code and, with the prefix `Async`, for asyncio.
"""

from __future__ import annotations

from typing import Any

from memory_redis.counting import BYTES_4, BYTES_4_PLUS_1, Counter, check_counter
from memory_redis.errors import InvalidSetting
from memory_redis.memory import AsyncRedisMemory, RedisMemory
from memory_redis.stores import AsyncStrategy, Strategy
from memory_redis.summaries import KeepMessages, KeepTokens
from memory_redis.upkeep import Model
from memory_redis.windows import LastMessages, TokenBudget


class ConversationBufferMemory(Strategy):
    """Shows everything that is stored: a memory as a `MemoryStore`.

    Args:
        store: a memory, or a strategy over one.

    Raises:
        InvalidSetting: it is neither.
    """

    def __init__(self, store: RedisMemory | Strategy) -> None:
        super().__init__(store)


class AsyncConversationBufferMemory(AsyncStrategy, other=ConversationBufferMemory):
    """As `ConversationBufferMemory`, for asyncio."""

    def __init__(self, store: AsyncRedisMemory | AsyncStrategy) -> None:
        super().__init__(store)


class ConversationWindowMemory(Strategy):
    """Shows the newest `n` messages, and stores all. Messages, not turns or pairs.

    Args:
        store: a memory, or a strategy over one.

        n: from 0 (no message) to 10**9.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    def __init__(self, store: RedisMemory | Strategy, n: int) -> None:
        super().__init__(store)
        self._show(LastMessages(n))


class AsyncConversationWindowMemory(AsyncStrategy, other=ConversationWindowMemory):
    """As `ConversationWindowMemory`, for asyncio."""

    def __init__(self, store: AsyncRedisMemory | AsyncStrategy, n: int) -> None:
        super().__init__(store)
        self._show(LastMessages(n))


class ConversationTokenBufferMemory(Strategy):
    """Shows the newest messages that cost at most `max_tokens` together, and stores all.

    Unlike Synaptic's it never shows a tool result without its call.

    Args:
        store: a memory, or a strategy over one.

        max_tokens: from 0 to 10**9; may leave nothing to show.

        counter: what counts them. By default Synaptic's rule: the bytes of the text // 4 + 1, nothing
            for tool calls.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    def __init__(
        self, store: RedisMemory | Strategy, max_tokens: int, *, counter: Counter = BYTES_4_PLUS_1
    ) -> None:
        super().__init__(store)
        self._show(TokenBudget(max_tokens, counter))


class AsyncConversationTokenBufferMemory(AsyncStrategy, other=ConversationTokenBufferMemory):
    """As `ConversationTokenBufferMemory`, for asyncio."""

    def __init__(
        self, store: AsyncRedisMemory | AsyncStrategy, max_tokens: int, *, counter: Counter = BYTES_4_PLUS_1
    ) -> None:
        super().__init__(store)
        self._show(TokenBudget(max_tokens, counter))


class ConversationSummaryMemory(Strategy):
    """Keeps the newest messages, and a summary of those before.

    After an append that leaves more than twice `buffer_size` messages, all but the newest
    `buffer_size` are summarised, with the summary that there was, and the summary takes their place in
    one atomic step. It stands beside the messages in Redis, for all workers, and ends with them. A load
    shows it as a system message in front. A tool exchange is summarised whole, or not yet.

    Among many workers one asks the model; the others go on. `append` raises `SummaryNotMade` if the
    model fails; the message is stored then, and the next append tries again. A turn notes that as
    `summary_error` instead, and so does the report of a wrapped model.

    Args:
        store: a memory, or a strategy over one that does not summarise; a window of that limits what is
            shown of the messages, not what is summarised.

        model: what summarises. A function is given a list of one human message, and gives a text, a
            message, or a dictionary with `content`; a LangChain model is given the text. For asyncio
            a coroutine function too; a plain function runs in a worker thread.

        buffer_size: how many messages stay, 0 to 10**9.

        model_seconds: after so many seconds without an answer, 1 to 3,600, another worker may try; an
            answer that comes later is dropped if one has begun. It is no timeout of the model.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    def __init__(
        self, store: RedisMemory | Strategy, model: Model, buffer_size: int, *, model_seconds: float = 60
    ) -> None:
        super().__init__(store)
        self._summarise(KeepMessages(_size(buffer_size, "buffer_size")), model, model_seconds)


class AsyncConversationSummaryMemory(AsyncStrategy, other=ConversationSummaryMemory):
    """As `ConversationSummaryMemory`, for asyncio."""

    def __init__(
        self,
        store: AsyncRedisMemory | AsyncStrategy,
        model: Model,
        buffer_size: int,
        *,
        model_seconds: float = 60,
    ) -> None:
        super().__init__(store)
        self._summarise(KeepMessages(_size(buffer_size, "buffer_size")), model, model_seconds)


class ConversationSummaryBufferMemory(Strategy):
    """Keeps the newest messages up to a number of tokens, and a summary of those before.

    After an append that leaves more than `max_token_limit` tokens in more than one message, the newest
    messages that cost at most half of that stay, at least one, and all others are summarised, at least
    one. In all else as `ConversationSummaryMemory`.

    Args:
        store: as for `ConversationSummaryMemory`.

        model: as for `ConversationSummaryMemory`.

        max_token_limit: from 0 to 10**9; tokens of the messages, without the summary.

        counter: what counts them. By default Synaptic's rule: the bytes of the text // 4, at least 1.
            With a counter that the memory stores no counts of, and with the codec `"json"`, each append
            reads all messages.

        model_seconds: as for `ConversationSummaryMemory`.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    def __init__(
        self,
        store: RedisMemory | Strategy,
        model: Model,
        max_token_limit: int,
        *,
        counter: Counter = BYTES_4,
        model_seconds: float = 60,
    ) -> None:
        super().__init__(store)
        plan = KeepTokens(_size(max_token_limit, "max_token_limit"), check_counter(counter))
        self._summarise(plan, model, model_seconds)


class AsyncConversationSummaryBufferMemory(AsyncStrategy, other=ConversationSummaryBufferMemory):
    """As `ConversationSummaryBufferMemory`, for asyncio."""

    def __init__(
        self,
        store: AsyncRedisMemory | AsyncStrategy,
        model: Model,
        max_token_limit: int,
        *,
        counter: Counter = BYTES_4,
        model_seconds: float = 60,
    ) -> None:
        super().__init__(store)
        plan = KeepTokens(_size(max_token_limit, "max_token_limit"), check_counter(counter))
        self._summarise(plan, model, model_seconds)


def _size(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= 10**9:
        raise InvalidSetting(f"{name} takes an integer from 0 to 10**9")
    return value
