"""Processes that use an embedded server, and what the tests ask about them and about the server."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import redis

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds; nothing here takes a tenth of it on an idle machine

PRELUDE = """
import os, signal, sys
import redis
from memory_redis.server import attach

def client(attachment):
    return redis.Redis.from_url(attachment.url, decode_responses=True)

def say(*words):
    print(*words, flush=True)

def listen():
    return sys.stdin.readline().strip()

def server_pid(attachment):
    with client(attachment) as server:
        return server.info("server")["process_id"]

path = sys.argv[1] if len(sys.argv) > 1 else None
"""

HOLD = """
held = attach(path)
say(server_pid(held), held.url)
listen()
"""
"""A user that attaches, tells the server's pid and URL, and stays until it is told to go or killed."""


def eventually(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the first true value of `condition`, which must come within `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Whether there is such a process, and not as a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def resume(pid: int) -> None:
    """Let a stopped process go on, if it is still there."""
    if runs(pid):
        os.kill(pid, signal.SIGCONT)


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of the sockets a process holds; what it closes while they are read is left out."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            kind, _, inode = os.readlink(descriptor).partition(":")
            if kind == "socket":
                found.add(inode.strip("[]"))
    return found


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock file `path` alone."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def client(url: str) -> redis.Redis:
    """Return a client of the server at `url`; usable in a `with` statement."""
    return redis.Redis.from_url(url, decode_responses=True)


def pid_of(url: str) -> int:
    """Return the pid of the server at `url`."""
    with client(url) as server:
        return int(server.info("server")["process_id"])


class User(subprocess.Popen[bytes]):
    """A Python process that runs `script` after the prelude above, with `argv`; ended by `with`."""

    def __init__(self, script: str, *argv: object, **options: Any) -> None:
        self._read = b""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
        super().__init__(
            [sys.executable, "-W", "error", "-c", PRELUDE + script, *map(str, argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            **options,
        )

    def line(self) -> str:
        """Return the next line that it prints, which must come soon."""
        assert self.stdout is not None
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no line from the user; it said {self._read!r}"
            chunk = os.read(self.stdout.fileno(), 65536)
            assert chunk, f"the user ended; it said {self._read!r}"
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def server(self) -> tuple[int, str]:
        """Return the pid and URL of its server, from the line that `HOLD` prints."""
        pid, url = self.line().split()
        return int(pid), url

    def tell(self, word: str = "") -> None:
        """Answer its `listen()`."""
        assert self.stdin is not None
        self.stdin.write(word.encode() + b"\n")
        self.stdin.flush()

    def finish(self) -> None:
        """Tell it to go on, and wait until it has ended well."""
        self.tell()
        assert self.wait(PATIENCE) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait(PATIENCE)
        for stream in (self.stdin, self.stdout):
            assert stream is not None
            stream.close()
