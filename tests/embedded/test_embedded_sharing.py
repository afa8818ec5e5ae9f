"""Several processes on one path: one server, whoever comes and goes, and however they go."""

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from memory_redis.server import attach

from .users import HOLD, PATIENCE, User, client, eventually, is_locked, parent_of, pid_of, resume, runs

RACE = """
say("here")
for _ in range(int(sys.argv[2])):
    if listen() != "go":
        break
    with attach(path) as held:
        say(server_pid(held))
        listen()
"""

CYCLES = """
import random, select, time
me, cycle = sys.argv[2], 0
while not select.select([sys.stdin], [], [], random.uniform(0, 0.1))[0]:
    with attach(path) as held, client(held) as server:
        server.rpush("list:" + me, cycle)
        cycle += 1
        say(server.info("server")["process_id"])
say("done")
"""


def test_processes_that_start_at_once_share_one_server(tmp_path: Path) -> None:
    """In each of 20 rounds, four processes find no server, race to start one, and get the same."""
    with ExitStack() as stack:
        users = [stack.enter_context(User(RACE, tmp_path, 20)) for _ in range(4)]
        for user in users:
            assert user.line() == "here"
        for _ in range(20):
            for user in users:
                user.tell("go")
            pids = {int(user.line()) for user in users}
            assert len(pids) == 1
            for user in users:
                user.tell("leave")
            # The next round may meet the end of this one's server; both must come out well.
        for user in users:
            assert user.wait(PATIENCE) == 0


def test_eight_processes_at_once_share_one_server(tmp_path: Path) -> None:
    """Eight processes, interpreters and all, are started at once on a path that is new."""
    with ExitStack() as stack:
        users = [stack.enter_context(User(HOLD, tmp_path / "new" / "home")) for _ in range(8)]
        assert len({user.server() for user in users}) == 1


def test_users_that_come_while_the_server_ends_get_a_living_one(tmp_path: Path) -> None:
    """Two processes attach, store and close in a loop over ten servers: nothing fails, nothing is lost."""
    stored = dict.fromkeys("ab", 0)
    servers: set[str] = set()
    with ExitStack() as stack:
        users = {name: stack.enter_context(User(CYCLES, tmp_path, name)) for name in stored}
        while len(servers) < 10:
            for name, user in users.items():
                servers.add(user.line())
                stored[name] += 1
        for name, user in users.items():
            user.tell()
            while user.line() != "done":
                stored[name] += 1
            assert user.wait(PATIENCE) == 0
    with attach(tmp_path) as server, client(server.url) as talk:
        for name, count in stored.items():
            assert talk.lrange(f"list:{name}", 0, -1) == [str(cycle) for cycle in range(count)]


def test_a_server_stays_until_its_last_user_goes(tmp_path: Path) -> None:
    """Users leave in any order, the one that started the server first."""
    with User(HOLD, tmp_path) as first, User(HOLD, tmp_path) as second:
        pid, url = first.server()
        assert second.server() == (pid, url)
        first.finish()
        assert pid_of(url) == pid
        second.finish()
        eventually(lambda: not runs(pid), "the server ended")


def test_the_end_of_a_process_releases_what_it_did_not_close(tmp_path: Path) -> None:
    """A user that returns without `close` takes its server with it, and the data is kept."""
    script = "held = attach(path); say(server_pid(held), held.url); client(held).set('k', 'v')"
    with User(script, tmp_path) as user:
        pid, _ = user.server()
        user.wait(PATIENCE)
    eventually(lambda: not runs(pid), "the server ended")
    with attach(tmp_path) as server, client(server.url) as talk:
        assert talk.get("k") == "v"


def test_close_does_not_wait_for_the_others(tmp_path: Path) -> None:
    """Closing while another process uses the server leaves it alone."""
    with User(HOLD, tmp_path) as other, attach(tmp_path) as server:
        pid, url = other.server()
        server.close()
        assert pid_of(url) == pid
        with attach(tmp_path) as again:
            assert pid_of(again.url) == pid


def test_a_killed_user_takes_its_private_server_along(temporary: Path) -> None:
    """SIGKILL of the only user ends the server and removes its directory."""
    with User(HOLD) as user:
        pid, _ = user.server()
        supervisor = parent_of(pid)
        assert list(temporary.iterdir())
        user.send_signal(signal.SIGKILL)
        eventually(lambda: not runs(pid) and not runs(supervisor), "server and supervisor ended")
        eventually(lambda: not list(temporary.iterdir()), "the directory is gone")


def test_data_outlives_the_kill_of_every_user(tmp_path: Path) -> None:
    """Three users of a path are killed at once: the server ends, and the next user reads all they stored."""
    script = HOLD.replace("listen()", "client(held).rpush('list', *range(1000)); say('stored'); listen()")
    with ExitStack() as stack:
        users = [stack.enter_context(User(script, tmp_path)) for _ in range(3)]
        (pid,) = {user.server()[0] for user in users}
        for user in users:
            assert user.line() == "stored"
        for user in users:
            user.send_signal(signal.SIGKILL)
        eventually(lambda: not runs(pid), "the server ended")
    with attach(tmp_path) as server, client(server.url) as talk:
        assert talk.llen("list") == 3000
        assert pid_of(server.url) != pid


def test_a_killed_user_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """SIGKILL of the user that started the server leaves it to the other."""
    with User(HOLD, tmp_path) as first:
        pid, url = first.server()
        with User(HOLD, tmp_path) as second:
            assert second.server() == (pid, url)
            first.send_signal(signal.SIGKILL)
            first.wait(PATIENCE)
            with client(url) as talk:
                assert talk.set("key", "value")
            assert pid_of(url) == pid


def test_a_user_killed_while_it_starts_the_server_leaves_no_trouble(tmp_path: Path) -> None:
    """Users are killed at seven moments of a start; the next one gets a server each time."""
    begun = "say('begin'); held = attach(path); say('attached'); listen()"
    for moment in range(7):
        with User(begun, tmp_path) as user:
            assert user.line() == "begin"
            with pytest.raises(subprocess.TimeoutExpired):
                user.wait(moment * 0.015)
            user.send_signal(signal.SIGKILL)
            with attach(tmp_path) as server, client(server.url) as talk:
                assert talk.rpush("moments", moment) == moment + 1


def test_a_stopped_terminal_job_does_not_stop_the_server() -> None:
    """Server and supervisor are in a session of their own, so Ctrl-C at the user's terminal misses them."""
    # Not `say`: the signal may arrive while that is still at work.
    script = "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted\\n'))" + HOLD
    with User(script, start_new_session=True) as user:
        pid, url = user.server()
        os.killpg(user.pid, signal.SIGINT)
        assert user.line() == "interrupted"
        assert os.getsid(pid) != os.getsid(user.pid)
        assert pid_of(url) == pid


@pytest.mark.parametrize("where", ["private", "path"])
@pytest.mark.parametrize("victim", ["supervisor", "server"])
def test_a_user_goes_on_with_a_new_server_after_a_crash(tmp_path: Path, victim: str, where: str) -> None:
    """When supervisor or server is killed, the next `attach` starts another, also for old attachments."""
    path = tmp_path if where == "path" else None
    with attach(path) as server:
        pid = pid_of(server.url)
        with client(server.url) as talk:
            talk.set("key", "value")
        supervisor, home = parent_of(pid), Path(os.readlink(f"/proc/{pid}/cwd"))
        os.kill(pid if victim == "server" else supervisor, signal.SIGKILL)
        eventually(lambda: not is_locked(home / "socket"), "the supervisor is gone")
        with attach(path) as again, client(again.url) as talk:
            assert pid_of(again.url) != pid
            assert talk.get("key") == ("value" if path else None)
            assert server.url == again.url
        assert not runs(pid)
        with client(server.url) as talk:
            assert talk.ping()


def test_a_server_whose_supervisor_was_killed_ends(tmp_path: Path) -> None:
    """On Linux the kernel ends it in good order, though its users are still there."""
    with User(HOLD, tmp_path) as user:
        pid, _ = user.server()
        os.kill(parent_of(pid), signal.SIGKILL)
        eventually(lambda: not runs(pid), "the server ended")
        assert "bye bye" in (tmp_path / "log").read_text()
    with attach(tmp_path):  # which removes what the supervisor could not
        pass


def test_a_server_whose_supervisor_was_killed_is_never_joined_by_a_second_one(tmp_path: Path) -> None:
    """While such a server still ends, a new user waits for it, and starts its own then."""
    with User(HOLD, tmp_path) as first, User(HOLD, tmp_path) as second, ExitStack() as stack:
        pid, _ = first.server()
        assert second.server()[0] == pid
        supervisor = parent_of(pid)
        os.kill(pid, signal.SIGSTOP)
        stack.callback(resume, pid)
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: not is_locked(tmp_path / "socket"), "the supervisor is gone")
        with User(HOLD, tmp_path) as third:
            eventually(lambda: is_locked(tmp_path / "start"), "the new user holds the right to start")
            assert runs(pid)
            os.kill(pid, signal.SIGCONT)
            new, url = third.server()
            assert new != pid
            assert not runs(pid)
            assert pid_of(url) == new


def test_sigterm_to_the_supervisor_ends_the_server_in_good_order(tmp_path: Path) -> None:
    """As at a shutdown of the machine: the server saves and both end."""
    with attach(tmp_path) as server:
        pid = pid_of(server.url)
        supervisor = parent_of(pid)
        with client(server.url) as talk:
            talk.set("key", "value")
        os.kill(supervisor, signal.SIGTERM)
        eventually(lambda: not runs(pid) and not runs(supervisor), "both ended")
        assert "bye bye" in (tmp_path / "log").read_text()
