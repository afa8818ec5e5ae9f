"""Conversations that many chatbot workers share, kept in Redis."""

from memory_redis.errors import (
    AccessDenied,
    AppendSettled,
    AsyncOnly,
    ConflictError,
    CorruptRecord,
    HistoryCleared,
    HistoryNotSaved,
    HistoryRolledBack,
    HistoryTooLarge,
    InvalidAnswer,
    InvalidId,
    InvalidMessage,
    InvalidSetting,
    MemoryRedisError,
    MissingKey,
    PoolExhausted,
    RecordError,
    ServerError,
    ServerRefused,
    ServerUnavailable,
    StorageFull,
    TurnAlreadyStored,
    UnansweredCall,
    UnknownOutcome,
    UnsupportedFormat,
    UnsupportedServer,
    WrongEventLoop,
    WrongType,
)
from memory_redis.expiry import FixedExpiry, NoExpiry, SlidingExpiry
from memory_redis.history import AsyncHistory, History
from memory_redis.limits import Limits
from memory_redis.memory import AsyncRedisMemory, RedisMemory
from memory_redis.messages import StoredMessage, ai, chat, function, human, system, tool
from memory_redis.options import MemoryOptions
from memory_redis.retention import MaxMessages
from memory_redis.roles import from_openai, to_openai
from memory_redis.rules import TurnReport
from memory_redis.snapshots import ConversationInfo, Forgotten, Snapshot
from memory_redis.telemetry import Event, Hook
from memory_redis.turns import AsyncTurn, Turn
from memory_redis.versions import AppendId, Version
from memory_redis.windows import AllMessages, LastMessages
from memory_redis.wrapper import with_history

__all__ = [
    "AccessDenied",
    "AllMessages",
    "AppendId",
    "AppendSettled",
    "AsyncHistory",
    "AsyncOnly",
    "AsyncRedisMemory",
    "AsyncTurn",
    "ConflictError",
    "ConversationInfo",
    "CorruptRecord",
    "Event",
    "FixedExpiry",
    "Forgotten",
    "History",
    "HistoryCleared",
    "HistoryNotSaved",
    "HistoryRolledBack",
    "HistoryTooLarge",
    "Hook",
    "InvalidAnswer",
    "InvalidId",
    "InvalidMessage",
    "InvalidSetting",
    "LastMessages",
    "Limits",
    "MaxMessages",
    "MemoryOptions",
    "MemoryRedisError",
    "MissingKey",
    "NoExpiry",
    "PoolExhausted",
    "RecordError",
    "RedisMemory",
    "ServerError",
    "ServerRefused",
    "ServerUnavailable",
    "SlidingExpiry",
    "Snapshot",
    "StorageFull",
    "StoredMessage",
    "Turn",
    "TurnAlreadyStored",
    "TurnReport",
    "UnansweredCall",
    "UnknownOutcome",
    "UnsupportedFormat",
    "UnsupportedServer",
    "Version",
    "WrongEventLoop",
    "WrongType",
    "ai",
    "chat",
    "from_openai",
    "function",
    "human",
    "system",
    "to_openai",
    "tool",
    "with_history",
]
