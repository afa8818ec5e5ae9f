"""Attaching a process to an embedded server: started when nobody else uses it, shared when somebody does."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import quote

import memory_redis.server.locks as locks
import memory_redis.server.probe as probe
from memory_redis.errors import InvalidSetting
from memory_redis.server.errors import ServerNotStarted
from memory_redis.server.home import Home
from memory_redis.server.patience import Patience

START_SECONDS = 10.0
"""How long `attach` waits by default for a server that does not answer."""

_SAVE_SECONDS = 5.0  # how long the last `close` waits for the data to be on disk
_PAUSE = 0.003  # seconds between two looks


class _HomeVanishedError(Exception):
    """The home was removed between finding it and holding its lock."""


@dataclass(eq=False)
class _Claim:
    """A process's one claim on the server of a home."""

    home: Home
    lock: int
    """Descriptor of `HOME/users`, locked together with the other users."""
    socket: str = ""
    version: str = ""
    uses: int = 0
    pid: int = field(default_factory=os.getpid)


@dataclass
class _Process:
    """What this process holds; a forked child begins with no claim, but knows its parent's private home."""

    private: Home | None = None
    inherited: bool = False
    """The private home is one that a parent made: a child that closes it can come back to it."""
    claims: dict[Home, _Claim] = field(default_factory=dict)
    # Re-entrant, because a finalizer may close an attachment while its own thread attaches.
    guard: threading.RLock = field(default_factory=threading.RLock)


_process = _Process()


class Attachment:
    """One use of an embedded server, which runs at least until `close`. Usable in a `with` statement.

    It belongs to the process that made it. In a forked child it keeps nothing alive and `close` does nothing:
    the child calls `attach` for itself.
    """

    def __init__(self, claim: _Claim) -> None:
        self._claim = claim
        self._closed = False

    @property
    def url(self) -> str:
        """URL of the server's Unix socket, as in "unix:///tmp/memory-redis-k3x9/s".

        It changes when a server that had crashed is started again by a later `attach` of this process.
        """
        return f"unix://{quote(self._claim.socket)}"

    @property
    def version(self) -> str:
        """Kind and version of the server, as in "valkey 9.1.2"."""
        return self._claim.version

    def close(self) -> None:
        """End this use; a second call does nothing.

        When it was the last use by any process, the server ends. A private server's data is then gone. The
        server of a path has its data on disk when this method returns, which takes some 0.1 s, at most 5 s.
        A process that ends without this call loses nothing: the server saves, and ends, a moment later.
        """
        claim = self._claim
        with _process.guard:
            if self._closed or claim.pid != os.getpid():
                return
            self._closed = True
            claim.uses -= 1
            if claim.uses:
                return
            if _process.claims.get(claim.home) is claim:
                del _process.claims[claim.home]
            if _process.private == claim.home and not _process.inherited:
                _process.private = None
        try:
            if not claim.home.private:
                _await_saved(claim)
        finally:
            locks.close_file(claim.lock)

    def __enter__(self) -> Attachment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.url
        return f"<Attachment {self.version} {state}>"


def attach(path: str | os.PathLike[str] | None = None, *, wait: float = START_SECONDS) -> Attachment:
    """Use the server of `path`, which is started when it does not run; blocks until it answers.

    With a path, the data is kept there (append-only file, synced every second), and all processes that name
    the same directory share one server. Relative paths, symbolic links and `~` are followed, and a directory
    that is missing is made.

    Without a path, the process has one private server, whatever the number of calls; its data is gone after
    the last `close` or the end of the process. A child forked while the server was in use shares it, if
    somebody still uses it when the child attaches; a process started in another way has its own.

    `wait` is the number of seconds to wait without any progress: a server that reads its data is waited for.

    Raises:
        ServerNotFound: no server program is installed.
        ServerNotStarted: the server did not start; the message quotes its log.
        InvalidSetting: the path is empty.
    """
    if path is not None and not os.fspath(path):
        raise InvalidSetting("the path of an embedded server is empty; use None for a private server")
    patience = Patience(wait)
    with _process.guard:
        while True:
            try:
                home = _private_home() if path is None else Home.at(path)
                claim = _claim(home, patience)
            except _HomeVanishedError:
                _process.private, _process.inherited = None, False
                patience.pause(lambda: "the directory of the embedded server is removed again and again")
                continue
            except OSError as error:
                where = "a private directory" if path is None else os.fspath(path)
                raise ServerNotStarted(f"the embedded server cannot use {where}: {error}") from error
            claim.uses += 1
            return Attachment(claim)


def _private_home() -> Home:
    if _process.private is None:
        _process.private = Home.temporary()
    return _process.private


def _claim(home: Home, patience: Patience) -> _Claim:
    """Return this process's claim on a server that answers."""
    claim = _process.claims.get(home)
    if claim is not None and locks.is_same_file(claim.lock, home.users):
        _await_answer(claim, patience)
        return claim
    try:
        claim = _Claim(home, locks.open_file(home.users))
    except FileNotFoundError:
        raise _HomeVanishedError from None
    try:
        _await_answer(claim, patience)
    except BaseException:
        locks.close_file(claim.lock)
        _forget_unused(home)
        raise
    _process.claims[home] = claim
    return claim


def _forget_unused(home: Home) -> None:
    """Remove a private home of ours in which nothing was started; a supervisor removes all others."""
    if home.private and not _process.inherited and not home.has_supervisor:
        _process.private = None
        shutil.rmtree(home.path, ignore_errors=True)


def _await_answer(claim: _Claim, patience: Patience) -> None:
    """Wait until the server of the claim's home answers, and start it when there is none."""
    home = claim.home
    while True:
        launched = _ensure_running(claim, patience)
        while True:
            socket = home.socket()
            greeting = probe.greet(socket) if socket else None
            if greeting is not None and not greeting.loading:
                claim.socket, claim.version = socket or "", greeting.version
                return
            if greeting is not None:
                patience.renew()
            if not home.has_server:
                break
            patience.pause(
                lambda: f"the embedded server of {home.path} does not answer ({home.last_words()})"
            )
        if launched is not None:
            words = home.last_words(launched)
            raise ServerNotStarted(f"the embedded server of {home.path} did not start: {words}")
        patience.pause(lambda: f"the embedded server of {home.path} ends at once ({home.last_words()})")


def _ensure_running(claim: _Claim, patience: Patience) -> int | None:
    """Hold the claim's lock and have a server under a supervisor.

    Returns the place in its log at which its words begin when it was started here, else None.
    """
    home = claim.home
    try:
        with home.starting(patience) as start:
            while not locks.try_shared(claim.lock):
                patience.pause(lambda: f"the previous embedded server of {home.path} is still ending")
            if not locks.is_same_file(claim.lock, home.users):
                raise _HomeVanishedError
            # A server that runs now goes on while we hold the lock, unless it fails or lost its supervisor.
            while (server := home.has_server) | (supervisor := home.has_supervisor):
                if server and supervisor:
                    return None
                if server:
                    home.ask_server_to_end()
                patience.pause(
                    lambda: f"the embedded server of {home.path} has lost its supervisor and does not end"
                )
            return home.launch(start)
    except FileNotFoundError:
        raise _HomeVanishedError from None


def _await_saved(claim: _Claim) -> None:
    """Let go of the server, and wait until it has ended, if nobody else uses it."""
    end = time.monotonic() + _SAVE_SECONDS
    while not _others_use(claim.lock):
        locks.release(claim.lock)
        if not claim.home.has_server or time.monotonic() >= end:
            return
        time.sleep(_PAUSE)


def _others_use(lock: int) -> bool:
    # Nobody else: we get it alone. The supervisor is ending the server: we get it neither way.
    return not locks.try_exclusive(lock) and locks.try_shared(lock)


def _after_fork_in_child() -> None:
    global _process
    _process = _Process(private=_process.private, inherited=_process.private is not None)


os.register_at_fork(after_in_child=_after_fork_in_child)
