"""Conversations and messages as tables, and as lines of JSON."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from memory_redis import ConversationInfo, StoredMessage
from memory_redis.cli.safe import safe_id, safe_json, safe_text

__all__ = ["conversation_json", "conversation_table", "message_json", "message_table"]


def conversation_table(infos: Iterable[ConversationInfo]) -> Table:
    """One line a conversation, in the order given."""
    table = Table("conversation", "messages", "last active (UTC)", "expires in")
    table.columns[1].justify = table.columns[3].justify = "right"
    table.columns[0].overflow = "fold"
    for info in infos:
        table.add_row(
            Text(safe_id(info.conversation_id)),
            f"{info.messages:,}",
            _moment(info.last_active),
            _duration(info.expire_in),
        )
    return table


def conversation_json(info: ConversationInfo) -> str:
    """One line: user, conversation, messages, last_active (ISO 8601), expire_in (seconds or null)."""
    return safe_json(
        {
            "user": info.user_id,
            "conversation": info.conversation_id,
            "messages": info.messages,
            "last_active": info.last_active.isoformat(),
            "expire_in": info.expire_in,
        }
    )


def message_table(messages: Iterable[StoredMessage]) -> Table:
    """One line a message, oldest first."""
    table = Table("#", "stored at (UTC)", "type", "name", "content")
    table.columns[0].justify = "right"
    table.columns[3].max_width, table.columns[3].overflow = 24, "fold"
    table.columns[4].overflow = "fold"
    for message in messages:
        table.add_row(
            str(message.seq),
            _moment(message.stored_at),
            Text(safe_id(message.type)),
            Text(safe_id(message.name or "")),
            Text(_content(message)),
        )
    return table


def message_json(message: StoredMessage) -> str:
    """One line: seq, stored_at (ISO 8601), type, data."""
    stored_at = message.stored_at.isoformat() if message.stored_at else None
    return safe_json({"seq": message.seq, "stored_at": stored_at, "type": message.type, "data": message.data})


def _content(message: StoredMessage) -> str:
    content = message.content
    shown = safe_text(content) if isinstance(content, str) else safe_json(content)
    calls = message.data.get("tool_calls")
    return f"{shown}\ncalls {safe_json(calls)}".lstrip("\n") if calls else shown


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    days, rest = divmod(int(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock
