"""Which server a command talks to, and how that is said without its password."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from memory_redis import InvalidSetting, RedisMemory
from memory_redis.cli.safe import safe_id

__all__ = ["DEADLINE_SECONDS", "EMBEDDED", "announced_url", "say", "shareable_url", "shown_url", "url_of"]

EMBEDDED = "embedded://"
DEADLINE_SECONDS = 5.0
"""How long a call may take before the server counts as unreachable: somebody sits and waits."""


def url_of(given: str | None) -> tuple[str, str]:
    """The URL of the server, and how that is said.

    It is the one given, else ``MEMORY_REDIS_URL``, else the embedded server's.
    """
    if given is not None:
        return given, shown_url(given)
    from_environment = os.environ.get("MEMORY_REDIS_URL")
    if from_environment:
        return from_environment, f"{shown_url(from_environment)} (from MEMORY_REDIS_URL)"
    return EMBEDDED, "the embedded server, which starts empty and ends with this command"


def announced_url(given: str | None) -> str:
    """The URL of the server, as `url_of` has it.

    A URL that was not given on the command line is announced, so that nobody erases on the wrong server.
    """
    url, description = url_of(given)
    if given is None:
        say(f"using {description}")
    return url


def say(line: str) -> None:
    """A line for the user on standard error, so that standard output holds results only."""
    print(f"memory-redis: {line}", file=sys.stderr, flush=True)


@contextmanager
def shareable_url(url: str) -> Iterator[str]:
    """A URL by which other processes reach the same server, for as long as the block runs.

    A private embedded server is known to its own process only; its socket is known to all.

    Raises:
        InvalidSetting: the URL names a server inside one process.
        ServerUnavailable: the embedded server cannot be started.
    """
    RedisMemory.from_url(url).close()  # refuses what is no URL; nothing is opened
    if url.startswith("fake:"):
        raise InvalidSetting(
            "fake:// lives inside one process, and this needs a server that several can reach"
        )
    if not url.startswith(EMBEDDED):
        yield url
        return
    from memory_redis.server import attach  # needs Linux or macOS

    with attach(unquote(url.removeprefix(EMBEDDED)) or None) as server:
        yield server.url


def shown_url(url: str) -> str:
    """The URL without user, password and query: where it is, not how to get in."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(a URL that cannot be read)"
    place, *query = re.split(r"[?#]", rest, maxsplit=1)
    if query and "@" in query[0]:
        # It may end a password that was not escaped: better to show too little.
        place = ""
    return safe_id(f"{scheme}://{place if place.startswith('/') else place.rpartition('@')[2]}")
