"""What the commands take: their common arguments and options, and the memory that these mean."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memory_redis import KeptExpiry, RedisMemory
from memory_redis.cli.server import DEADLINE_SECONDS
from memory_redis.telemetry import Event

__all__ = [
    "Conversation",
    "Globals",
    "Json",
    "Namespace",
    "Session",
    "Url",
    "User",
    "UserOrSession",
    "given",
    "opened",
]

DEFAULT_NAMESPACE = "memory"

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        show_default=False,
        help="redis://, rediss://, unix:// or embedded://[path]. "
        "Default: MEMORY_REDIS_URL, else the embedded server.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", metavar="NAME", show_default=False, help="Prefix of all keys. Default: memory."
    ),
]
User = Annotated[str, typer.Argument(metavar="USER", help="User id.")]
UserOrSession = Annotated[str | None, typer.Argument(metavar="USER", show_default=False, help="User id.")]
Conversation = Annotated[
    str | None, typer.Argument(metavar="CONVERSATION", show_default=False, help="Conversation id.")
]
Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="ID",
        show_default=False,
        help="A conversation without a user, in place of a user and a conversation.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")]


@dataclass(frozen=True, slots=True)
class Globals:
    """The options that may stand before the command and after it."""

    url: str | None
    namespace: str | None


def given(context: typer.Context, url: str | None, namespace: str | None) -> Globals:
    """The options of the command; those after it win."""
    before = context.obj if isinstance(context.obj, Globals) else Globals(None, None)
    return Globals(before.url if url is None else url, before.namespace if namespace is None else namespace)


def opened(
    url: str,
    namespace: str | None,
    corrupt: list[int] | None = None,
) -> RedisMemory:
    """The memory of the options. `corrupt` takes the numbers of records that a read left out."""

    def note(event: Event) -> None:
        if event.kind == "corrupt" and corrupt is not None:
            corrupt.append(event.messages)

    return RedisMemory.from_url(
        url,
        namespace=DEFAULT_NAMESPACE if namespace is None else namespace,
        expiry=KeptExpiry(),  # whose conversation it is, decides that
        on_corrupt="skip",
        hooks=(note,),
        deadline=DEADLINE_SECONDS,
    )
