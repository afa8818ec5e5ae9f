"""What goes wrong is one line on standard error and an exit code that says which kind it is."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
import redis

from memory_redis import RedisMemory, ServerError, errors, human
from memory_redis.cli import main
from memory_redis.cli.problems import exit_code
from tests.cli.command import ROOT, environment, is_one_line, memory_redis
from tests.faults.test_old_servers import OldServer
from tests.support.server import free_port
from tests.support.servers import Server


@pytest.mark.parametrize(
    "arguments",
    [("ls", "ann"), ("forget", "ann", "--yes"), ("demo", "--conversations", "1")],
    ids=lambda arguments: arguments[0],
)
def test_an_unreachable_server_is_said_in_one_line(nobody: int, arguments: tuple[str, ...]) -> None:
    """Nobody listens there: exit code 3, one line, no password."""
    url = f"redis://:secret@127.0.0.1:{nobody}/0"
    done = memory_redis(*arguments, "--url", url)
    assert (done.returncode, done.stdout) == (3, "")
    assert is_one_line(done.stderr)
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("chat",),
        ("show", "ann", "talk"),
        ("expire", "ann", "talk", "--in", "2h"),
        ("expire", "ann", "talk", "--default"),
        ("pin", "ann", "talk"),
    ],
    ids=" ".join,
)
def test_whatever_is_asked_an_unreachable_server_is_said(
    nobody: int,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command ends with exit code 3 and one line; the chat has said before where it looked."""
    monkeypatch.setattr("memory_redis.cli.arguments.DEADLINE_SECONDS", 0.1)
    code = main([*arguments, "--url", f"redis://:secret@127.0.0.1:{nobody}/0"])
    printed = capsys.readouterr()
    assert (code, printed.out) == (3, "")
    lines = printed.err.splitlines()
    assert lines[-1].startswith("memory-redis: the server could not be reached in time")
    assert [line.split(" on ")[0] for line in lines[:-1]] == (
        ["memory-redis: conversation main of me"] if arguments == ("chat",) else []
    )
    assert "secret" not in printed.err


def test_a_wrong_password_is_said_in_one_line() -> None:
    """The server refuses us: exit code 3, and neither password is shown."""
    with Server(password="right-one") as server:
        done = memory_redis("ls", "ann", "--url", f"redis://:wrong-one@127.0.0.1:{server.port}/0")
    assert (done.returncode, done.stdout) == (3, "")
    assert is_one_line(done.stderr)
    assert "-one" not in done.stderr


def pinned_on(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """What `pin`, which writes, gives on a server that will not have it: code, output, error."""
    monkeypatch.setattr("memory_redis.cli.arguments.DEADLINE_SECONDS", 0.5)
    code = main(["pin", "ann", "talk", "--url", url])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("full", "out of memory"),
        ("replica", "is not ready: READONLY"),
        ("other keys", "the keys of the namespace"),
        ("command missing", "a command that is needed: HMGET"),
        ("no such database", "no database of the number in the URL"),
        ("too old", "6.2"),
    ],
)
def test_a_server_that_refuses_us_is_exit_code_3(
    state: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the reason is, a script that calls us can tell it from a wrong call and from an anomaly."""
    with Server() as server:
        url = server.url
        with RedisMemory.from_url(url) as memory:
            memory.history("ann", "talk").append(human("Hi"))
        if state == "full":
            server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
            server.ask("CONFIG", "SET", "maxmemory", 1024)
        elif state == "replica":
            server.ask("REPLICAOF", "127.0.0.1", free_port())
        elif state == "no such database":
            url = url.removesuffix("/0") + "/99"
        elif state != "too old":
            rules = {
                "other keys": ("~other:*", "+@all"),
                "command missing": ("~*", "+@all", "-hmget"),
            }
            server.ask("ACL", "SETUSER", "bot", "on", ">secret", *rules[state])
            url = f"redis://bot:secret@127.0.0.1:{server.port}/0"
        if state == "too old":
            with contextlib.closing(OldServer("5.0.14")) as old:
                code, output, said = pinned_on(f"redis://127.0.0.1:{old.port}/0", monkeypatch, capsys)
        else:
            code, output, said = pinned_on(url, monkeypatch, capsys)
    assert (code, output) == (3, "")
    assert is_one_line(said)
    assert reason in said
    assert "secret" not in said


def test_every_error_of_the_server_is_exit_code_3_but_those_of_the_data_and_the_loop() -> None:
    """A key of another type is an anomaly; an asyncio client of another loop is a fault of the program."""
    kinds = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ServerError)
    }
    others = {kind for kind in kinds if exit_code(kind("x")) != 3}
    assert others == {ServerError, errors.WrongType, errors.WrongEventLoop}
    assert exit_code(errors.UnknownOutcome("c0ffee")) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "ann", "--url", "http://localhost"),
        ("ls", "ann", "--url", "localhost:6379"),
        ("ls", "ann", "--url", ""),
        ("ls", "ann", "--url", "redis://localhost:port"),
        ("ls", "ann", "--namespace", "a{b}", "--url", "fake://"),
        ("ls", "ann", "--namespace", "", "--url", "fake://"),
        ("ls", "", "--url", "fake://"),
        ("ls", "--url", "fake://"),
        ("show", "ann", "talk", "--last", "-1", "--url", "fake://"),
        ("show", "ann", "talk", "--last", "many", "--url", "fake://"),
        ("show", "ann", "talk", "--window", "--url", "fake://"),
        ("show", "ann", "talk", "--window", "last:5,turns:2", "--url", "fake://"),
        ("show", "ann", "talk", "--last", "5", "--window", "all", "--url", "fake://"),
        ("chat", "--user", "", "--url", "fake://"),
        ("chat", "--conversation", "", "--url", "fake://"),
        ("chat", "--window", "", "--url", "fake://"),
        ("chat", "--namespace", "a{b}", "--url", "fake://"),
        ("chat", "--url", "http://localhost"),
        ("chat", "ann", "--url", "fake://"),
        ("expire", "ann", "--in", "2h", "--url", "fake://"),
        ("expire", "ann", "", "--in", "2h", "--url", "fake://"),
        ("expire", "ann", "talk", "--url", "fake://"),
        ("expire", "ann", "talk", "--in", "--url", "fake://"),
        ("pin", "ann", "--url", "fake://"),
        ("pin", "ann", "", "--url", "fake://"),
        ("demo", "--conversations", "0"),
        ("demo", "--conversations", "-5"),
        ("demo", "--conversations", "few"),
        ("demo", "--workers", "0"),
        ("demo", "--workers", "1000"),
        ("demo", "--conversations", "1", "--url", "fake://"),
        ("nonsense",),
        ("ls", "ann", "--nonsense"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_said_in_one_line(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown schemes, bad numbers, empty names: exit code 2, one line, nothing printed."""
    code = main(arguments)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert is_one_line(printed.err)


def test_corrupt_records_do_not_hide_their_neighbours(server: Server) -> None:
    """A record that cannot be decoded is left out and said; the others are shown."""
    with RedisMemory.from_url(server.url) as memory, redis.Redis.from_url(server.url) as client:
        memory.history("ann", "hurt").append(human("before"), human("hurt"), human("after"))
        client.lset("memory:{ann:hurt}:messages", 1, b"\x01garbage")
    done = memory_redis("show", "ann", "hurt", "--url", server.url)
    assert "before" in done.stdout
    assert "after" in done.stdout
    assert (done.returncode, done.stderr) == (1, "memory-redis: 1 record cannot be read and is left out\n")
    with redis.Redis.from_url(server.url) as client:
        client.lset("memory:{ann:hurt}:messages", 0, b"\x01garbage")
    for window in ((), ("--last", "5")):
        done = memory_redis("show", "ann", "hurt", "--json", *window, "--url", server.url)
        assert len(done.stdout.splitlines()) == 1
        assert done.returncode == 1
        assert done.stderr == "memory-redis: 2 records cannot be read and are left out\n"


def test_a_window_of_damaged_records_alone_is_not_called_empty(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The conversation is there, so the damage is what is said, once."""
    with RedisMemory.from_url(server.url) as memory, redis.Redis.from_url(server.url) as client:
        memory.history("ann", "broken").append(human("hurt"))
        client.lset("memory:{ann:broken}:messages", 0, b"\x01garbage")
    for window in ((), ("--last", "5")):
        assert main(["show", "ann", "broken", *window, "--url", server.url]) == 1
        printed = capsys.readouterr()
        assert printed.err == "memory-redis: 1 record cannot be read and is left out\n"
        assert "nothing of" not in printed.out


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", ("ls", "ann"), "cli"),
        ("rich", ("ls", "ann"), "cli"),
        ("chitchat_dataset", ("demo",), "demo"),
    ],
)
def test_a_missing_extra_is_named(missing: str, arguments: tuple[str, ...], extra: str) -> None:
    """Where an optional package is not installed, one sentence says what to install."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None\nfrom memory_redis.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr)
    what = "the demo" if extra == "demo" else "the command line"
    how = f"pip install '.[{extra}]' in a clone of the project"
    assert done.stderr == f'memory-redis: {what} needs the extra "{extra}": {how}\n'


def test_importing_the_library_loads_nothing_of_the_command_line() -> None:
    """`import memory_redis` loads neither typer nor rich nor the data set."""
    program = "import sys, memory_redis; print({'typer', 'rich', 'chitchat_dataset'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "set()\n"


def test_the_help_names_what_a_command_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command is listed, and the help of those with a window or an end says how these are written."""
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for command in ("demo", "ls", "show", "chat", "expire", "pin", "forget"):
        assert f"\n  {command} " in listed
    for command in ("show", "chat"):
        assert main([command, "--help"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        for word in ("all", "last:20", "turns:5", "tokens:4000", "since:2h", "keep-system", "start-on:human"):
            assert word in said
        assert "max-bytes:10000" in said
        assert "joined by +" in said
    assert main(["expire", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(
        option in said for option in ("--in", "--at", "--idle", "--default", "2027-01-31T12:00:00+00:00")
    )
    assert main(["pin", "--help"]) == 0
    assert "--undo" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("demo", "--help")], ids=" ".join)
def test_help_is_printed(arguments: tuple[str, ...]) -> None:
    """Called without a command, and with `--help`, it says what it can do."""
    done = memory_redis(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: memory-redis" in done.stdout


def test_the_version_is_printed() -> None:
    """`--version` names the program and its version."""
    done = memory_redis("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("memory-redis 0.")
