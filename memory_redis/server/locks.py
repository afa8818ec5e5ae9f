"""File locks (`flock`) that belong to one process: a forked child never holds its parent's.

A lock taken with `flock` belongs to the open file, which a fork shares: a child that merely exists would keep
its parent's lock. Every descriptor opened here is therefore closed in a forked child at once, and on exec.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_redis.server.errors import ServerNotFound

try:
    import fcntl
except ModuleNotFoundError as error:  # pragma: no cover - Windows
    raise ServerNotFound("embedded:// needs Linux or macOS; use a redis:// URL here") from error

_open: set[int] = set()
# Held while a descriptor is opened and noted down, and during a fork, so that no fork falls between the two.
# Re-entrant, because a signal handler may fork while its own thread is in here.
_opening = threading.RLock()


def create(path: Path) -> None:
    """Make sure that the lock file `path` exists, readable by its owner only."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def open_file(path: Path) -> int:
    """Return a new descriptor of the existing lock file `path`.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with _opening:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        _open.add(descriptor)
    return descriptor


@contextmanager
def no_fork() -> Iterator[None]:
    """Make other threads that fork wait; for a moment only."""
    with _opening:
        yield


def close_file(descriptor: int) -> None:
    """Give up the lock held through `descriptor`, if any, and close it."""
    with _opening:
        _open.discard(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def try_shared(descriptor: int) -> bool:
    """Take the lock together with others; False when somebody holds it alone."""
    return _try(descriptor, fcntl.LOCK_SH)


def try_exclusive(descriptor: int) -> bool:
    """Take the lock alone; False when somebody holds it. A shared lock held before is lost in that case."""
    return _try(descriptor, fcntl.LOCK_EX)


def release(descriptor: int) -> None:
    """Give up the lock and keep the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_held_alone(path: Path) -> bool:
    """Whether somebody holds the lock file `path` exclusively at this moment."""
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        return False
    try:
        return not try_shared(descriptor)
    finally:
        close_file(descriptor)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the file that `descriptor` was opened on."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _after_fork_in_child() -> None:
    global _opening
    _opening = threading.RLock()
    for descriptor in _open:
        os.close(descriptor)  # not LOCK_UN: that would take the lock from the parent as well
    _open.clear()


os.register_at_fork(
    before=lambda: _opening.acquire(),
    after_in_parent=lambda: _opening.release(),
    after_in_child=_after_fork_in_child,
)
