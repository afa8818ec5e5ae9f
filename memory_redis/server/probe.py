"""A few words with a server over its Unix socket, without a client library."""

from __future__ import annotations

import socket
from dataclasses import dataclass

_TIMEOUT = 1.0  # seconds for each step of a question to a server on this machine


@dataclass(frozen=True)
class Greeting:
    """What a server answers when asked who it is."""

    version: str
    """Kind and number, as in "valkey 9.1.2"."""
    loading: bool
    """The server is still reading its data and answers nothing else."""


def greet(socket_path: str) -> Greeting | None:
    """Ask the server at `socket_path` who it is; None when nobody answers."""
    try:
        with _connected(socket_path) as connection, connection.makefile("rb") as answer:
            connection.sendall(b"INFO\r\n")
            header = answer.readline()
            if not header.startswith(b"$"):
                return None
            body = answer.read(int(header[1:])).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    facts = {name: value for name, _, value in (line.partition(":") for line in body.splitlines())}
    kind = facts.get("server_name") or "redis"
    number = facts.get(f"{kind}_version") or facts.get("redis_version", "")
    return Greeting(version=f"{kind} {number}".strip(), loading=facts.get("loading", "0") != "0")


def shut_down(socket_path: str) -> None:
    """Ask the server at `socket_path` to save its data and end; nothing happens when nobody listens."""
    try:
        with _connected(socket_path) as connection:
            connection.sendall(b"SHUTDOWN\r\n")
            connection.recv(1)
    except OSError:
        return


def _connected(socket_path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_TIMEOUT)
        connection.connect(socket_path)
    except BaseException:
        connection.close()
        raise
    return connection
