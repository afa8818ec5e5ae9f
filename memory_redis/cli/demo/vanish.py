"""A conversation with an expiry of two seconds, watched until it is gone."""

import time
from dataclasses import dataclass

from memory_redis import RedisMemory, SlidingExpiry, ai, human
from memory_redis.cli.demo.keys import Server

__all__ = ["Vanished", "watch_it_vanish"]

SECONDS = 2
PATIENCE = 10.0
PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Vanished:
    """Keys of the conversation (messages and meta) before and after its end, and when the last went."""

    before: int
    after: int
    still_listed: int
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether both keys were seen, both are gone, and not before their time."""
        return self.before == 2 and not self.after and not self.still_listed and self.seconds > SECONDS - 0.1


def watch_it_vanish(url: str, namespace: str, server: Server) -> Vanished:
    """Store a conversation that ends two seconds after its last write, and wait for its end."""
    with RedisMemory.from_url(url, namespace=namespace, expiry=SlidingExpiry(seconds=SECONDS)) as memory:
        began = time.monotonic()
        memory.history("guest", "short").append(human("Will you remember me?"), ai("For two seconds."))
        keys = _conversation_keys(server, namespace)
        while server.number_of(keys) and time.monotonic() - began < PATIENCE:
            time.sleep(PAUSE)
        seconds = time.monotonic() - began
        after = len(_conversation_keys(server, namespace))
        listed = sum(1 for _ in memory.conversations("guest"))
        memory.forget("guest")
    return Vanished(len(keys), after, listed, seconds)


def _conversation_keys(server: Server, namespace: str) -> list[bytes]:
    return [key for key in server.keys(namespace) if key.endswith((b":messages", b":meta"))]
