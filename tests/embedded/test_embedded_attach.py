"""One process and its server: it starts, answers, ends, and leaves nothing behind."""

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memory_redis import server as embedded
from memory_redis.errors import InvalidSetting
from memory_redis.server import attach

from .users import HOLD, PATIENCE, User, client, eventually, parent_of, pid_of, runs, sockets_of


def test_a_private_server_answers_and_its_data_goes_away_with_it(temporary: Path) -> None:
    """`attach(None)` starts a server in a temporary directory, and closing it removes both."""
    with attach(None) as server:
        assert server.url.startswith(f"unix://{temporary}/")
        assert server.version.startswith("valkey 9.")
        pid = pid_of(server.url)
        with client(server.url) as talk:
            assert talk.set("greeting", "hello")
        assert repr(server) == f"<Attachment {server.version} {server.url}>"
    eventually(lambda: not runs(pid), "the server ended")
    eventually(lambda: not list(temporary.iterdir()), "its directory is gone")
    with attach(None) as again, client(again.url) as talk:
        assert talk.get("greeting") is None


def test_attachments_of_a_process_share_its_private_server() -> None:
    """The server ends with the last attachment, and closing one twice counts once."""
    first, second = attach(None), attach(None)
    assert first.url == second.url
    pid = pid_of(first.url)
    first.close()
    first.close()
    assert pid_of(second.url) == pid
    second.close()
    eventually(lambda: not runs(pid), "the server ended")


def test_two_processes_have_two_private_servers() -> None:
    """What one process stores in its private server, another does not see."""
    with User(HOLD) as one, User(HOLD) as other:
        assert one.server() != other.server()


@pytest.mark.parametrize("program", ["bundled", "redis-server"])
def test_data_of_a_path_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """What was stored is there after each restart; `close` returns when the server has saved and ended."""
    if program != "bundled":
        monkeypatch.setenv("MEMORY_REDIS_SERVER", program)
    for start in range(3):
        with attach(tmp_path / "home") as server, client(server.url) as talk:
            pid = pid_of(server.url)
            assert server.version.startswith("valkey" if program == "bundled" else "redis")
            assert talk.lrange("starts", 0, -1) == [str(earlier) for earlier in range(start)]
            talk.rpush("starts", start)
        assert not runs(pid)
        assert b"starts" in b"".join(
            file.read_bytes() for file in (tmp_path / "home" / "appendonlydir").iterdir()
        )


def test_a_server_listens_on_nothing_but_its_socket(temporary: Path) -> None:
    """There is no port, and only the user may enter the directory of the socket."""
    with attach(None) as server, client(server.url) as talk:
        assert talk.config_get("port") == {"port": "0"}
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        sockets = sockets_of(pid_of(server.url))
        assert sockets
        assert not [inode for inode in sockets if f" {inode} " in listening]
        directory = Path(server.url.removeprefix("unix://")).parent
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert directory.parent == temporary


def test_names_of_one_directory_mean_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute, relative, through a symbolic link, and under `~`: the same server."""
    (tmp_path / "link").symlink_to(tmp_path / "home", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names: list[str | Path] = [tmp_path / "home", "home", "./link", tmp_path / "x" / ".." / "home", "~/home"]
    attachments = [attach(name) for name in names]
    assert len({server.url for server in attachments}) == 1
    with User(HOLD, "~/link") as other:
        assert other.server() == (pid_of(attachments[0].url), attachments[0].url)
    for server in attachments:
        server.close()


def test_a_long_path_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a temporary directory far beyond the limit of socket paths work."""
    long = tmp_path / ("very long " * 10) / ("even longer, with ünïcode and 'quotes'" * 3)
    long.mkdir(parents=True)
    with attach(long) as server, client(server.url) as talk:
        assert talk.set("key", "value")
    with attach(long) as server, client(server.url) as talk:
        assert talk.get("key") == "value"
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with attach(None) as server, client(server.url) as talk:
        assert talk.ping()
        home = Path(server.url.removeprefix("unix://")).parent
        assert home.parent == Path("/tmp")
    eventually(lambda: not home.exists(), "its directory is gone")


def test_a_temporary_directory_may_have_any_name(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that mean something in a URL are escaped in the URL."""
    odd = temporary / "100% odd?#&"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    with attach(None) as server, client(server.url) as talk:
        assert talk.ping()
        assert len(list(odd.iterdir())) == 1
    eventually(lambda: not list(odd.iterdir()), "the server's directory is gone")
    odd.rmdir()


def test_an_empty_path_is_refused() -> None:
    """The current directory is never meant by saying nothing."""
    with pytest.raises(InvalidSetting, match="empty"):
        attach("")


def test_many_uses_leave_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    """Attaching and closing again and again keeps the process as it was."""
    with attach(None), attach(tmp_path):
        pass
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        with attach(None), attach(tmp_path), attach(None):
            pass
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert threading.active_count() == threads


def test_a_server_has_no_child_of_its_user_and_leaves_no_zombie() -> None:
    """The supervisor belongs to nobody: a user that waits for its own children never meets it."""
    code = """
import os
from memory_redis.server import attach
with attach(None):
    try:
        print(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("no child")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout == "no child\n"
    with attach(None) as server:
        assert parent_of(parent_of(pid_of(server.url))) != os.getpid()


def test_threads_of_a_process_start_one_server(tmp_path: Path) -> None:
    """Eight threads that attach at once get the same server."""
    together = threading.Barrier(8)
    attachments = []

    def use() -> None:
        together.wait()
        attachments.append(attach(tmp_path))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({server.url for server in attachments}) == 1
    assert len(attachments) == 8
    for server in attachments:
        server.close()


def test_a_user_whose_output_is_captured_ends_at_once(tmp_path: Path) -> None:
    """Neither server nor supervisor holds the pipes of the user that started them: its caller does not wait.

    The server goes on for another user, so it is not its end that ends the wait.
    """
    with User(HOLD, tmp_path, stderr=subprocess.PIPE) as user:
        pid, _ = user.server()
        with User(HOLD, tmp_path) as keeper:
            assert keeper.server()[0] == pid
            _, errors = user.communicate(b"\n", timeout=PATIENCE)
            assert (user.returncode, errors) == (0, b"")
            assert runs(pid)
        eventually(lambda: not runs(pid), "the server ended")


def test_starting_takes_no_longer_than_the_server() -> None:
    """The quickest of three starts: it is seen that the server answers, and not waited any longer."""
    starts = []
    for _ in range(3):
        begin = time.monotonic()
        with attach(None, wait=60):
            starts.append(time.monotonic() - begin)
    assert min(starts) < 5


def test_the_public_names_are_these() -> None:
    """Nothing else is promised."""
    assert sorted(embedded.__all__) == ["Attachment", "ServerNotFound", "ServerNotStarted", "attach"]
