"""The chat as people use it: on a terminal of its own, or at the end of a pipe that stays open."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import termios
import threading
from types import TracebackType
from typing import Self, TextIO

from tests.cli.command import COMMAND, ROOT, environment
from tests.support.servers import wait_until

# A process that begins a session takes a terminal as its own by name or by this call; then a Ctrl-C that is
# typed there reaches it as SIGINT.
_ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def _heed_interrupts() -> None:
    """A run in a shell's background ignores SIGINT, and so would all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Terminal:
    """``memory-redis`` on a terminal: what is typed, and what is seen. `output`: a file for its output."""

    def __init__(self, *arguments: str, columns: int = 100, output: int | None = None) -> None:
        _heed_interrupts()
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_A_TERMINAL, *COMMAND[1:], *arguments],
            stdin=slave,
            stdout=slave if output is None else output,
            stderr=slave,
            cwd=ROOT,
            env=environment(TERM="dumb", COLUMNS=str(columns)),
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""

    @property
    def seen(self) -> str:
        """What stands on the terminal by now."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # nobody has it open any more
                break
            if not data:
                break
            self._seen += data
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def waits_for(self, text: str, times: int = 1) -> None:
        """Wait until a text is seen so often."""
        wait_until(lambda: self.seen.count(text) >= times, f"{text!r} on the terminal, after {self.seen!r}")

    def types(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def says(self, text: str) -> None:
        """Type a line, and wait until the next prompt stands there."""
        prompts = self.seen.count("you: ")
        self.types(f"{text}\n")
        self.waits_for("you: ", prompts + 1)

    def ends(self) -> int:
        """The exit code, once it has ended."""
        wait_until(lambda: self.process.poll() is not None, f"the end, after {self.seen!r}")
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self._master)


class Piped:
    """``memory-redis`` with pipes: lines that are written to it one by one, and what it prints."""

    def __init__(self, *arguments: str, **more: str) -> None:
        _heed_interrupts()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env=environment(PYTHONUNBUFFERED="", **more),  # as it is, unless somebody has set that
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=_collect, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def says(self, text: str) -> None:
        """Write a line, and wait until an answer to it is printed."""
        self.writes(text)
        self.waits_for(f"seen): {text}")

    def writes(self, text: str) -> None:
        """Write a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def waits_for(self, text: str) -> None:
        """Wait until a line with this text is printed, on either output."""
        found = lambda: any(text in line for line in (*self.lines, *self.errors))  # noqa: E731
        wait_until(found, f"{text!r} in {self.lines} and {self.errors}")

    def ends(self) -> int:
        """Close its input, and give its exit code once it has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(60)
        for reader in self._readers:
            reader.join(60)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(60)
        for reader in self._readers:
            reader.join(60)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _collect(stream: TextIO, into: list[str]) -> None:
    for line in stream:
        into.append(line.rstrip("\n"))
