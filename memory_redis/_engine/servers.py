"""Which servers this library works on, and what a server says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_redis._engine.plans import Call, Flow, Plan, only
from memory_redis.errors import AccessDenied, ServerRefused, UnsupportedServer

OLDEST: Final = (6, 2)


def _check(version: str) -> None:
    try:
        found = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        return
    if found < OLDEST:
        raise UnsupportedServer(
            f"the server is version {version}: Redis 6.2 or Valkey 7.2 is the oldest that works"
        )


def ping() -> Flow[None]:
    """See that a server answers, and that it is not too old."""
    yield Plan((Call("PING"),), list)
    try:
        info = yield Plan((Call("INFO", ("server",)),), only)
    except (AccessDenied, ServerRefused):
        return  # it answers, and does not tell its version
    check_info(info)


def check_handshake(metadata: Any) -> None:
    """Refuse a server whose answer to HELLO says that it is too old.

    Raises:
        UnsupportedServer: it is.
    """
    if isinstance(metadata, Mapping):
        version = metadata.get(b"version", metadata.get("version"))
        if isinstance(version, (bytes, str)):
            _check(version.decode() if isinstance(version, bytes) else version)


def check_info(info: Any) -> None:
    """Refuse a server whose INFO says that it is too old; `info` is text or redis-py's mapping.

    Raises:
        UnsupportedServer: it is.
    """
    if isinstance(info, bytes):
        info = info.decode("utf-8", "replace")
    if isinstance(info, str):
        info = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    if not isinstance(info, Mapping):
        return
    version = info.get("redis_version", info.get(b"redis_version"))
    if version is None:  # a cluster client answers for each node
        for node in info.values():
            if isinstance(node, Mapping):
                check_info(node)
    elif isinstance(version, (bytes, str)):
        _check(version.decode() if isinstance(version, bytes) else version)
