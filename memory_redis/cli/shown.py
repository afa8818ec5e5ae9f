"""Conversations and messages as tables, and as lines of JSON."""

from collections.abc import Iterable
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memory_redis import ConversationInfo, StoredMessage
from memory_redis.cli.safe import safe_id, safe_json, safe_text

__all__ = [
    "conversation_json",
    "conversation_table",
    "duration_text",
    "folded",
    "message_json",
    "message_table",
    "moment_text",
    "said",
    "said_message",
    "summary_json",
]

_HANGING = "    "


def conversation_table(infos: Iterable[ConversationInfo]) -> Table:
    """One line a conversation, in the order given."""
    table = Table("conversation", "messages", "last active (UTC)", "expires in")
    table.columns[1].justify = table.columns[3].justify = "right"
    table.columns[0].overflow = "fold"
    for info in infos:
        table.add_row(
            Text(safe_id(info.conversation_id)),
            f"{info.messages:,}",
            moment_text(info.last_active),
            duration_text(info.expire_in),
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


def message_table(messages: Iterable[StoredMessage], summary: str | None = None) -> Table:
    """One line a message, oldest first; in front, without a number, a summary of earlier ones."""
    table = Table("#", "stored at (UTC)", "type", "name", "content")
    table.columns[0].justify = "right"
    table.columns[3].max_width, table.columns[3].overflow = 24, "fold"
    table.columns[4].overflow = "fold"
    if summary is not None:
        table.add_row("", "", "summary", "", Text(safe_text(summary)))
    for message in messages:
        table.add_row(
            str(message.seq),
            moment_text(message.stored_at),
            Text(safe_id(message.type)),
            Text(safe_id(message.name or "")),
            Text(_content(message)),
        )
    return table


def message_json(message: StoredMessage) -> str:
    """One line: seq, stored_at (ISO 8601), type, data."""
    stored_at = message.stored_at.isoformat() if message.stored_at else None
    return safe_json({"seq": message.seq, "stored_at": stored_at, "type": message.type, "data": message.data})


def summary_json(summary: str) -> str:
    """One line as of a message, with the type `summary`, which no message has, and without a place."""
    return safe_json({"seq": None, "stored_at": None, "type": "summary", "data": {"content": summary}})


def said(who: str, content: str) -> str:
    """Who says what. Further lines are indented, so that none of them looks like somebody else's."""
    return f"{who}: {safe_text(content)}".replace("\n", f"\n{_HANGING}")


def said_message(message: StoredMessage, where: str = "") -> str:
    """A message with its position, its type and the speaker's name."""
    name = message.data.get("role") if message.type == "chat" else message.name
    who = f"#{message.seq} {safe_id(message.type)}"
    if isinstance(name, str) and name:
        who += f' "{safe_id(name)}"'
    return said(f"{who} ({where})" if where else who, _content(message))


def folded(text: str) -> str:
    """What was said, folded here and not by the terminal, which would not indent the rest."""
    console = Console()
    width = max(console.width - len(_HANGING), 20)
    first, *rest = text.split(f"\n{_HANGING}")
    lines = Text("\n".join((first, *rest))).wrap(console, width, overflow="fold")
    return f"\n{_HANGING}".join(line.plain for line in lines)


def _content(message: StoredMessage) -> str:
    content = message.content
    shown = safe_text(content) if isinstance(content, str) else safe_json(content)
    calls = message.data.get("tool_calls")
    return f"{shown}\ncalls {safe_json(calls)}".lstrip("\n") if calls else shown


def moment_text(moment: datetime | None) -> str:
    """An instant, to the second; of which zone, its heading says."""
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def duration_text(seconds: float | None) -> str:
    """A duration as days and a clock; None is for ever."""
    if seconds is None:
        return "never"
    days, rest = divmod(int(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock
