"""The directory of one embedded server: its locks, its log, and the way to its socket.

users   held as a lock by all processes that use the server, together; at the end by the supervisor, alone
start   held by the one process that may start a server at this moment
socket  the path of the server's socket; held as a lock by the supervisor
server  held as a lock by the supervisor and by the server itself: free only when both have ended
log     what supervisors and servers wrote; emptied at a start when it has grown long
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import memory_redis.server.locks as locks
import memory_redis.server.probe as probe
from memory_redis.server.binary import find_server
from memory_redis.server.errors import ServerNotStarted
from memory_redis.server.patience import Patience

_LONGEST_SOCKET_PATH = 100  # bytes; the limit is 108 on Linux and 104 on macOS, with a final zero byte
_LAST_LINES = 5  # of the log, quoted in an error
_LONGEST_LOG = 1_000_000  # bytes
_PREFIX = "memory-redis-"


@dataclass(frozen=True)
class Home:
    """The directory of one embedded server."""

    path: Path
    private: bool
    """Made for one process: the data is not saved, and the directory goes away with the server."""

    @classmethod
    def temporary(cls) -> Home:
        """Make a private home, in a directory that only this user can enter."""
        home = cls(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_directory())), private=True)
        home.lay_out()
        return home

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Home:
        """Make the home at `path`, where it is not there yet; `~` and symbolic links are followed."""
        home = cls(Path(os.path.realpath(os.path.expanduser(path))), private=False)
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.lay_out()
        return home

    @property
    def users(self) -> Path:
        """The lock that every user of the server shares."""
        return self.path / "users"

    @property
    def log(self) -> Path:
        """What supervisors and servers wrote."""
        return self.path / "log"

    @property
    def has_server(self) -> bool:
        """Whether a server runs here, or one that is starting or ending."""
        return locks.is_held_alone(self.path / "server")

    @property
    def has_supervisor(self) -> bool:
        """Whether a supervisor looks after this home."""
        return locks.is_held_alone(self.path / "socket")

    def lay_out(self) -> None:
        """Create the two locks that users take; whoever comes later only opens them."""
        locks.create(self.users)
        locks.create(self.path / "start")

    def socket(self) -> str | None:
        """Return the path of the server's socket, as far as it is known."""
        try:
            return os.fsdecode((self.path / "socket").read_bytes()) or None
        except FileNotFoundError:
            return None

    @contextmanager
    def starting(self, patience: Patience) -> Iterator[int]:
        """Be the only process that may start a server here; gives the lock that says so.

        Raises:
            ServerNotStarted: another process keeps that right for too long.
        """
        start = locks.open_file(self.path / "start")
        try:
            while not locks.try_exclusive(start):
                patience.pause(
                    lambda: f"another process is still starting the embedded server of {self.path}"
                )
            yield start
        finally:
            locks.close_file(start)

    def ask_server_to_end(self) -> None:
        """Tell a server whose supervisor was killed to save its data and end."""
        socket = self.socket()
        if socket is not None:
            probe.shut_down(socket)

    def launch(self, start: int) -> int:
        """Start a supervisor, which starts the server; returns when it holds its locks or has failed.

        The supervisor keeps the lock `start` until then: nobody starts another if this process is killed.
        Returns the place in the log at which its words begin.

        Raises:
            ServerNotFound: no server program is installed.
            ServerNotStarted: there is no Python to run the supervisor with.
        """
        program = find_server(self.path)
        # -I and -S: only the standard library, whatever the user's environment says, and a quick start.
        python = [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py"))]
        kind = "private" if self.private else "kept"
        command = [*python, kind, str(self.path), _short_directory(), str(program), str(start)]
        # A child forked by another thread meanwhile would hold the pipe on which Popen waits for the start.
        with locks.no_fork():
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(log).st_size > _LONGEST_LOG:
                    os.ftruncate(log, 0)
                begin = os.fstat(log).st_size
                supervisor = subprocess.Popen(  # noqa: S603
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.path,
                    pass_fds=(start,),
                    start_new_session=True,  # Ctrl-C at the user's terminal does not reach it
                )
            except OSError as error:
                raise ServerNotStarted(f"cannot run the supervisor of {self.path}: {error}") from error
            finally:
                os.close(log)
        supervisor.wait()
        return begin

    def last_words(self, begin: int = 0) -> str:
        """Return the last lines of the log, joined to one, of those after the place `begin`."""
        try:
            lines = self.log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        return " | ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip()) or "its log is empty"


def _short_directory() -> str:
    """Return the temporary directory, or /tmp where a socket in it would have too long a path."""
    directory = tempfile.gettempdir()
    longest = len(os.fsencode(directory)) + len(f"/{_PREFIX}12345678/s")
    return directory if longest <= _LONGEST_SOCKET_PATH else "/tmp"  # noqa: S108
