"""Which conversation a command is about: one of a user, or a session, which has none."""

from dataclasses import dataclass

from memory_redis import History, RedisMemory
from memory_redis.cli.problems import USAGE, CommandError
from memory_redis.cli.safe import safe_id

__all__ = ["DEFAULT_CONVERSATION", "DEFAULT_USER", "Meant", "by_arguments", "by_options"]

DEFAULT_USER = "me"
DEFAULT_CONVERSATION = "main"


@dataclass(frozen=True, slots=True)
class Meant:
    """A conversation by its ids; a session has no user. As a text it names itself, on one safe line."""

    user: str | None
    id: str

    def history(self, memory: RedisMemory) -> History:
        """The conversation in a memory. Nothing is sent."""
        return memory.session(self.id) if self.user is None else memory.history(self.user, self.id)

    def keywords(self) -> dict[str, str]:
        """What a call of a model with `with_history` takes."""
        if self.user is None:
            return {"session": self.id}
        return {"user_id": self.user, "conversation_id": self.id}

    def absent(self) -> CommandError:
        """The error of a command that finds nothing there."""
        return CommandError(f"there is no {self}")

    def __str__(self) -> str:
        if self.user is None:
            return f"session {safe_id(self.id)}"
        return f"conversation {safe_id(self.id)} of {safe_id(self.user)}"


def by_arguments(user: str | None, conversation: str | None, session: str | None) -> Meant:
    """What USER, CONVERSATION and --session mean.

    Raises:
        CommandError: both are given, or neither, or a user alone.
    """
    wanted = "give USER and CONVERSATION, or --session ID"
    if session is not None:
        if user is not None or conversation is not None:
            raise CommandError(f"{wanted}, not both", USAGE)
        return Meant(None, session)
    if user is None or conversation is None:
        raise CommandError(wanted, USAGE)
    return Meant(user, conversation)


def by_options(user: str | None, conversation: str | None, session: str | None) -> Meant:
    """What --user, --conversation and --session mean; without any of them the user's own default.

    Raises:
        CommandError: a session is given, and a user or a conversation too.
    """
    if session is not None:
        if user is not None or conversation is not None:
            raise CommandError("give --user and --conversation, or --session, not both", USAGE)
        return Meant(None, session)
    return Meant(
        DEFAULT_USER if user is None else user,
        DEFAULT_CONVERSATION if conversation is None else conversation,
    )
