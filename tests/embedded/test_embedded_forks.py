"""Forked children: they share their parent's server, and neither takes it from the other."""

import os
from pathlib import Path

import pytest

from .users import PATIENCE, User, eventually, pid_of, runs

FAMILY = """
held = attach(path)
with client(held) as server:
    server.set("born", "before the fork")
say(server_pid(held), held.url)
read, write = os.pipe()
child = os.fork()
if child == 0:
    mine = attach(path)
    with client(mine) as server:
        say("child", server.info("server")["process_id"], server.get("born"))
    os.write(write, b"attached")
    if sys.argv[2] == "child first":
        mine.close() if sys.argv[3] == "close" else None
        os._exit(0)
    os.close(0)
    os.read(os.open(sys.argv[4], os.O_RDONLY), 1)  # until the test opens the other end
    with client(mine) as server:
        say("child again", server.get("born"))
    mine.close() if sys.argv[3] == "close" else None
    os._exit(0)
os.read(read, 8)
if sys.argv[2] == "child first":
    os.waitpid(child, 0)
    listen()
    with client(held) as server:
        say("parent again", server.get("born"))
    listen()
if sys.argv[3] == "close":
    held.close()
os._exit(0)
"""


@pytest.fixture(params=["private", "path"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path of a server, or nothing for a private one."""
    return "" if request.param == "private" else str(tmp_path / "home")


def family(where: str, order: str, ending: str, gate: Path) -> User:
    """Return a parent that attaches, forks, and goes before or after its child."""
    script = FAMILY.replace("attach(path)", "attach(path or None)")
    return User(script, where, order, ending, gate)


@pytest.mark.parametrize("ending", ["close", "exit"])
def test_a_child_that_goes_first_leaves_the_server_to_its_parent(
    where: str, ending: str, tmp_path: Path
) -> None:
    """The child sees the parent's data, and after its end the parent still does."""
    with family(where, "child first", ending, tmp_path) as parent:
        pid, _ = parent.server()
        assert parent.line() == f"child {pid} before the fork"
        parent.tell()
        assert parent.line() == "parent again before the fork"
        parent.finish()
        eventually(lambda: not runs(pid), "the server ended")


@pytest.mark.parametrize("ending", ["close", "exit"])
def test_a_parent_that_goes_first_leaves_the_server_to_its_child(
    where: str, ending: str, tmp_path: Path
) -> None:
    """After the parent's end the child still has the server and the data; it ends with the child."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with family(where, "parent first", ending, gate) as parent:
        pid, url = parent.server()
        assert parent.line() == f"child {pid} before the fork"
        assert parent.wait(PATIENCE) == 0
        assert pid_of(url) == pid
        gate.write_bytes(b".")
        assert parent.line() == "child again before the fork"
        eventually(lambda: not runs(pid), "the server ended")


def test_a_child_that_uses_nothing_keeps_nothing_alive(where: str) -> None:
    """A forked child that never attaches does not hold its parent's server, and cannot end it either."""
    script = """
held = attach(path or None)
say(server_pid(held), held.url)
child = os.fork()
if child == 0:
    held.close()  # the parent's, so this does nothing
    held.close()
    say("child", os.getpid())
    listen()
    os._exit(0)
signal.pause()
"""
    with User(script, where) as parent:
        pid, url = parent.server()
        child = int(parent.line().removeprefix("child "))
        assert pid_of(url) == pid
        parent.kill()
        eventually(lambda: not runs(pid), "the server ended")
        assert runs(child)
        parent.tell()
        eventually(lambda: not runs(child), "the child ended")


def test_a_program_started_by_a_user_keeps_nothing_alive(where: str) -> None:
    """Descriptors do not pass to other programs, even when the user asks for it."""
    script = """
import subprocess
held = attach(path or None)
other = subprocess.Popen(["sleep", "60"], close_fds=False)
say(server_pid(held), held.url)
say(other.pid)
listen()
"""
    with User(script, where) as parent:
        pid, _ = parent.server()
        sleeper = int(parent.line())
        try:
            parent.kill()
            eventually(lambda: not runs(pid), "the server ended")
            assert runs(sleeper)
        finally:
            os.kill(sleeper, 9)


def test_children_share_the_private_server_of_their_parent() -> None:
    """Four children of a pool, and their own children, store into the server that the parent started."""
    script = """
held = attach()
say(server_pid(held), held.url)
def work(depth):
    for _ in range(2):
        if os.fork() == 0:
            with attach() as mine, client(mine) as server:
                server.incr("children")
                if depth:
                    work(depth - 1)
            os._exit(0)
    for _ in range(2):
        os.waitpid(-1, 0)
work(1)
with client(held) as server:
    say(server.get("children"), server_pid(held))
"""
    with User(script) as parent:
        pid, _ = parent.server()
        assert parent.line() == f"6 {pid}"


def test_a_child_of_a_parent_that_is_gone_has_a_private_server_of_its_own(
    temporary: Path, tmp_path: Path
) -> None:
    """When the parent's server ended before the child attached, the child starts anew with no data."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = """
held = attach()
say(server_pid(held), held.url)
if os.fork() == 0:
    os.read(os.open(sys.argv[1], os.O_RDONLY), 1)
    mine = attach()
    say(server_pid(mine), mine.url)
    os._exit(0)
os._exit(0)
"""
    with User(script, gate) as parent:
        pid, _ = parent.server()
        eventually(lambda: not runs(pid), "the parent's server ended")
        gate.write_bytes(b".")
        assert parent.server()[0] != pid


def test_a_child_that_attaches_while_the_private_server_ends_gets_a_living_one() -> None:
    """Six parents end at the moment at which their child attaches: it has the old server or its own."""
    script = """
read, write = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        held = attach()
        if os.fork() == 0:
            os.read(read, 1)
            with attach() as mine, client(mine) as server:
                say(server.incr("uses"))
            os._exit(0)
        os.write(write, b".")
        os._exit(0)
    os.wait()
listen()
"""
    with User(script) as ancestor:
        assert [ancestor.line() for _ in range(6)] == ["1"] * 6


def test_multiprocessing_workers_share_what_they_inherit(where: str) -> None:
    """Workers of a pool attach and close for each task, and have the server of their parent each time."""
    script = """
import multiprocessing
def which(path):
    with attach(path or None) as mine:
        return server_pid(mine)
held = attach(path or None)
say(server_pid(held), held.url)
with multiprocessing.get_context("fork").Pool(2) as pool:
    say(*set(pool.map(which, [path] * 6)))
    pool.close()
    pool.join()
"""
    with User(script, where) as parent:
        pid, _ = parent.server()
        assert parent.line() == str(pid)


def test_a_fork_while_another_thread_attaches_is_safe(tmp_path: Path) -> None:
    """Children forked while a thread starts a server can attach at once, and keep no lock of their parent."""
    script = """
import threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons advise against just this
sys.setswitchinterval(1e-5)
for _ in range(8):
    thread = threading.Thread(target=lambda: attach(path).close())
    thread.start()
    children = []
    while thread.is_alive() and len(children) < 8:
        child = os.fork()
        if child == 0:
            with attach(path) as mine, client(mine) as server:
                server.ping()
            os._exit(0)
        children.append(child)
        time.sleep(0.001)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    thread.join()
say("done")
"""
    with User(script, tmp_path) as parent:
        assert parent.line() == "done"
        assert parent.wait(PATIENCE) == 0
