"""A process that starts one server, waits until nobody uses it, and ends it.

Run as a script, by its path, with the standard library only:

    supervisor.py private|kept HOME DIRECTORY-FOR-SOCKETS SERVER-PROGRAM START-LOCK

It returns as soon as it holds the locks `HOME/socket` and `HOME/server`, and goes on in the background. Until
then it holds the lock `HOME/start` too, through a descriptor that it inherits.
It needs no news from the users: the kernel wakes it when the last of them lets go of `HOME/users`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_LOCK_SECONDS = 5.0  # others look at our locks for a moment; nobody keeps them
_STOP_SECONDS = 30.0  # then the server is killed; its append-only file stays readable
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def main(kind: str, home: str, sockets: str, program: str, start: str) -> None:
    """Start the server and go on in the background; the caller's process ends at once."""
    os.umask(0o077)
    os.chdir(home)
    private = kind == "private"
    users = os.open("users", os.O_RDWR | os.O_CLOEXEC)
    socket_file = _locked("socket")
    server_lock = _locked("server")
    _remove_left_over(os.fsdecode(os.read(socket_file, 4096)))
    room = home if private else tempfile.mkdtemp(prefix="memory-redis-", dir=sockets)
    socket_path = os.path.join(room, "s")
    os.ftruncate(socket_file, 0)
    os.pwrite(socket_file, os.fsencode(socket_path), 0)
    if os.fork():
        os._exit(0)
    os.close(int(start))
    unused = threading.Event()
    server = _start(program, socket_path, private, server_lock)
    threading.Thread(target=_end_with_last_user, args=(users, unused, server), daemon=True).start()
    if server is not None:
        server.wait()
    if not private:
        shutil.rmtree(room, ignore_errors=True)
        return
    os.close(server_lock)
    os.close(socket_file)
    unused.wait()
    _remove_home(home)


def _start(program: str, socket_path: str, private: bool, server_lock: int) -> subprocess.Popen[bytes] | None:
    """Start the server; None, and a line in the log, when the program cannot be run."""
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        server = subprocess.Popen(  # noqa: S603
            [
                *(program, "--port", "0", "--unixsocket", socket_path, "--unixsocketperm", "700"),
                *("--save", "", "--appendonly", "no" if private else "yes", "--appendfsync", "everysec"),
                *("--daemonize", "no"),
            ],
            stdin=subprocess.DEVNULL,
            # The server holds this lock too: if we are killed, it stays taken while the server writes.
            pass_fds=(server_lock,),
            preexec_fn=_end_with_parent(os.getpid()),
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"memory-redis: cannot run {program}: {error}", file=sys.stderr, flush=True)
        return None
    signal.signal(signal.SIGTERM, lambda _number, _frame: server.terminate())
    return server


def _end_with_last_user(users: int, unused: threading.Event, server: subprocess.Popen[bytes] | None) -> None:
    """Wait until nobody holds the lock `users`, keep newcomers out from then on, and end the server."""
    fcntl.flock(users, fcntl.LOCK_EX)
    unused.set()
    if server is not None:
        server.terminate()
        time.sleep(_STOP_SECONDS)
        server.kill()


def _end_with_parent(parent: int) -> Callable[[], None] | None:
    """Return what lets the kernel end the server when this process is killed; None where it cannot."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return arm


def _locked(name: str) -> int:
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                sys.exit("memory-redis: another server runs in this directory")
            time.sleep(0.002)
        else:
            return descriptor


def _remove_left_over(socket_path: str) -> None:
    """Remove the socket that a killed supervisor left, and its directory if nothing else is in it."""
    if not socket_path.endswith("/s"):
        return
    with suppress(OSError):
        os.unlink(socket_path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(socket_path))


def _remove_home(home: str) -> None:
    """Remove a private home, unless another supervisor started a new server in it meanwhile."""
    try:
        server_lock = os.open("server", os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(server_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:
        pass
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as problem:
        sys.exit(f"memory-redis: cannot start a server: {problem}")
