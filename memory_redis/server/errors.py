"""What can go wrong before the embedded server answers: it is not installed, or it does not start."""

from __future__ import annotations

from memory_redis.errors import ServerUnavailable


class ServerNotFound(ServerUnavailable):
    """No server program was found; the message says how to install one."""


class ServerNotStarted(ServerUnavailable):
    """A server program was found, but no server answered in time; the message quotes the server's log."""
