"""The whole demonstration, from the data set to the last key: it measures, `report` prints."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from memory_redis import MemoryRedisError, RedisMemory, StoredMessage
from memory_redis.cli.demo.check import Found, Tally, check_conversation
from memory_redis.cli.demo.keys import Server, Sizes
from memory_redis.cli.demo.plan import Conversation
from memory_redis.cli.demo.replay import NOISE_WRITERS, Replayed, replay
from memory_redis.cli.demo.vanish import Vanished, watch_it_vanish
from memory_redis.cli.demo.worker import open_memory
from memory_redis.cli.problems import UNREACHABLE, CommandError, exit_code

__all__ = ["Leftovers", "Outcome", "Screen", "demonstrate"]

EXPIRY = "-expiry"
TOMBSTONE_SECONDS = 120


class Screen(Protocol):
    """Where progress is shown."""

    def phase(self, name: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Show a phase of the work; the function given takes the steps just done."""
        ...


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is in the namespaces after everything was erased: only tombstones may be, and not for long."""

    erased: int
    tombstones: int
    longest: float
    keys: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was measured and checked."""

    server: str
    conversations: int
    turns: int
    replayed: Replayed
    tally: Tally
    sizes: Sizes
    vanished: Vanished
    leftovers: Leftovers

    @property
    def clean(self) -> bool:
        """Whether every promise held, and the kill left something to recognise."""
        return (
            self.tally.clean
            and not self.replayed.wrong_views
            and self.replayed.repeats > 0
            and self.vanished.clean
            and not self.leftovers.keys
        )


def demonstrate(
    url: str, prefix: str, conversations: Sequence[Conversation], workers: int, seed: int, screen: Screen
) -> Outcome:
    """Replay, check, watch an expiry, erase: in a namespace of its own that nothing is left of.

    Raises:
        CommandError: A worker process failed.
        MemoryRedisError: The server failed.
    """
    namespace = prefix + secrets.token_hex(4)
    total = sum(conversation.messages for conversation in conversations)
    with (
        open_memory(url, namespace) as memory,
        Server(url) as server,
    ):
        memory.ping()
        try:
            with screen.phase("replay", total) as advance:
                replayed = replay(url, namespace, conversations, workers, seed, advance)
            with screen.phase("check", len(conversations)) as advance:
                tally = _check(memory, conversations, replayed, advance)
            sizes = server.sizes(server.keys(namespace))
            with screen.phase("expiry", 1) as advance:
                vanished = watch_it_vanish(url, namespace + EXPIRY, server)
                advance(1)
        except BaseException as error:
            said = exit_code(error) if isinstance(error, MemoryRedisError | CommandError) else None
            if said != UNREACHABLE or _answers(url):
                with suppress(MemoryRedisError):
                    _erase(memory, conversations, screen)
            raise
        erased = _erase(memory, conversations, screen)
        leftovers = _leftovers(server, namespace, erased)
        turns = sum(len(conversation.turns) for conversation in conversations)
        return Outcome(server.name(), len(conversations), turns, replayed, tally, sizes, vanished, leftovers)


def _answers(url: str) -> bool:
    """Whether the server that refused something, as a full one does, is there and may yet erase."""
    try:
        with RedisMemory.from_url(url, deadline=1) as memory:
            memory.ping()
    except MemoryRedisError:
        return False
    return True


def _check(
    memory: RedisMemory,
    conversations: Sequence[Conversation],
    replayed: Replayed,
    advance: Callable[[int], None],
) -> Tally:
    tally = Tally()
    for index, conversation in enumerate(conversations):
        noise = {writer: replayed.noise[index, writer] for writer in range(NOISE_WRITERS)}
        stored = memory.history(conversation.user, conversation.name).iterate()
        tally += check_conversation(conversation, noise, map(_found, stored))
        advance(1)
    return tally


def _found(message: StoredMessage) -> Found:
    content = message.content
    return Found(message.type, content if isinstance(content, str) else repr(content), message.name)


def _erase(memory: RedisMemory, conversations: Sequence[Conversation], screen: Screen) -> int:
    users = {conversation.user for conversation in conversations}
    erased = 0
    with screen.phase("erase", len(users)) as advance:
        for user in users:
            erased += memory.forget(user).conversations
            advance(1)
    return erased


def _leftovers(server: Server, namespace: str, erased: int) -> Leftovers:
    keys = server.keys(namespace) + server.keys(namespace + EXPIRY)
    left = dict(zip(keys, server.seconds_left(keys), strict=True))
    tombstones = {
        key: seconds
        for key, seconds in left.items()
        if seconds is not None and seconds <= TOMBSTONE_SECONDS and not key.endswith(b":messages")
    }
    return Leftovers(
        erased, len(tombstones), max(tombstones.values(), default=0.0), len(left) - len(tombstones)
    )
