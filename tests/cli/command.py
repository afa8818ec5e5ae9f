"""Running the command as a user does: a process, what it prints, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from memory_redis import History

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "memory_redis")


def environment(**more: str) -> dict[str, str]:
    """The environment without settings of the machine that would change what is printed."""
    kept = {name: value for name, value in os.environ.items() if name != "MEMORY_REDIS_URL"}
    return kept | {"COLUMNS": "120", "NO_COLOR": "1"} | more


def memory_redis(
    *arguments: str, stdin: str = "", seconds: float = 150, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m memory_redis`` to its end; `more` is added to its environment."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=seconds,
        cwd=ROOT,
        env=environment(**more),
        check=False,
    )


def started(*arguments: str) -> subprocess.Popen[str]:
    """Start it in a process group of its own, as a terminal does."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in a shell's background ignores SIGINT, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
    )


def alive_in_group(group: int) -> list[int]:
    """Pids of the process group that still run; a process that ended and waits to be reaped does not."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = entry.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(entry.parent.name))
    return found


def is_one_line(text: str) -> bool:
    """Whether an error is a single line that is no traceback."""
    return text.count("\n") == 1 and text.endswith("\n") and text.startswith("memory-redis: ")


def left(history: History) -> float:
    """Seconds until a conversation ends."""
    seconds = history.expire_in()
    assert seconds is not None
    return seconds
