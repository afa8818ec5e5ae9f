"""`expire` and `pin` set when a conversation ends, for every program that uses it, and say when that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory_redis import History, RedisMemory, SlidingExpiry, human
from memory_redis.cli import main
from tests.cli.command import is_one_line, left, memory_redis
from tests.cli.conftest import Run
from tests.cli.test_commands import HOSTILE
from tests.support.servers import Server, wait_until

HOUR = 3_600.0


@pytest.fixture
def memory(server: Server, namespace: str) -> Iterator[RedisMemory]:
    """The program whose conversations they are: they end a week after the last message."""
    with RedisMemory.from_url(server.url, namespace=namespace, expiry=SlidingExpiry(days=7)) as memory:
        yield memory


@pytest.fixture
def history(memory: RedisMemory) -> History:
    """A conversation of that program."""
    history = memory.history("ann", "c")
    history.append(human("Hi"))
    return history


def test_expire_in_is_an_instant_from_now(run: Run, history: History) -> None:
    """It ends two hours from now, by the clock of the server, whatever is said meanwhile."""
    assert run("expire", "ann", "c", "--in", "2h") == "ends in 2:00:00\n"
    first = left(history)
    assert 2 * HOUR - 10 < first <= 2 * HOUR
    history.append(human("later"))
    assert left(history) <= first


def test_expire_in_ends_the_conversation(run: Run, history: History) -> None:
    """After so many seconds it is gone."""
    run("expire", "ann", "c", "--in", "1s")
    wait_until(lambda: not history.exists(), "the end of the conversation")


def test_expire_at_is_an_instant(run: Run, history: History, memory: RedisMemory) -> None:
    """An instant of any zone; later messages do not move it, and `ls` shows it."""
    zone = timezone(timedelta(hours=5, minutes=30))
    when = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    said = run("expire", "ann", "c", "--at", when.astimezone(zone).isoformat())
    assert said.startswith(f"ends at {when:%Y-%m-%d %H:%M:%S} UTC, in 2 d 23:59:5")
    history.append(human("later"))
    assert abs(left(history) - (when - datetime.now(UTC)).total_seconds()) < 5
    assert "2 d 23:59:" in run("ls", "ann")
    short = when.strftime("%Y%m%dT%H%M%SZ")
    assert run("expire", "ann", "c", "--at", short).startswith(f"ends at {when:%Y-%m-%d %H:%M:%S} UTC, in ")


def test_expire_idle_is_renewed_by_each_message(
    run: Run, history: History, server: Server, namespace: str
) -> None:
    """It ends so long after the last message, in place of the program's own policy."""
    assert run("expire", "ann", "c", "--idle", "90m") == "ends in 1:30:00, which each message renews\n"
    assert 1.5 * HOUR - 10 < left(history) <= 1.5 * HOUR
    before = end_of(server, namespace)
    wait_until(lambda: server_ms(server) > before - 1.5 * HOUR * 1000 + 5, "the clock moved on")
    history.append(human("later"))
    assert before < end_of(server, namespace) < before + 60_000


def server_ms(server: Server) -> int:
    """The server's clock."""
    seconds, micros = server.ask("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def end_of(server: Server, namespace: str) -> int:
    """When the conversation ends, in ms since 1970."""
    return int(server.ask("PEXPIRETIME", f"{namespace}:{{ann:c}}:messages"))


def test_default_leaves_the_end_until_the_next_message(run: Run, history: History) -> None:
    """Nothing of its own is left, its end is not moved, and then the program's policy is back."""
    run("expire", "ann", "c", "--in", "2h")
    said = run("expire", "ann", "c", "--default")
    assert re.fullmatch(r"ends in 1:59:5\d; the next message sets the end by the policy of .*\n", said)
    assert 2 * HOUR - 10 < left(history) <= 2 * HOUR
    history.append(human("later"))
    assert left(history) > 6 * 24 * HOUR


def test_default_takes_no_end_away(run: Run, history: History) -> None:
    """A conversation that has nothing of its own ends as before."""
    said = run("expire", "ann", "c", "--default")
    assert said.startswith("ends in 6 d 23:59:5")
    assert left(history) > 6 * 24 * HOUR


def test_pin_keeps_a_conversation(run: Run, history: History) -> None:
    """It does not end, later messages included, and `ls` says never; undone, its program's policy is back."""
    assert run("pin", "ann", "c") == "pinned: does not end by itself\n"
    history.append(human("later"))
    assert history.expire_in() is None
    assert "never" in run("ls", "ann")
    assert run("pin", "ann", "c", "--undo") == (
        "does not end; the next message sets the end by the policy of the program that stores it\n"
    )
    assert history.expire_in() is None
    history.append(human("later"))
    assert left(history) > 6 * 24 * HOUR


@pytest.mark.parametrize(
    "arguments",
    [
        ("expire", "--in", "2h"),
        ("expire", "--at", "2999-01-31T12:00:00Z"),
        ("expire", "--idle", "2h"),
        ("expire", "--default"),
        ("pin",),
        ("pin", "--undo"),
    ],
    ids=" ".join,
)
def test_a_conversation_that_is_not_there_is_said_in_one_line(
    arguments: tuple[str, ...], server: Server, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, its name shown safely, and nothing is kept for it."""
    command, *options = arguments
    code = main([command, "ann", HOSTILE, *options, "--url", server.url, "--namespace", namespace])
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    assert printed.err == ("memory-redis: there is no conversation a:b}{ü\\x0a\\x1b[31m[bold]\\\\% of ann\n")
    assert server.ask("KEYS", f"{namespace}:*") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "give one of --in, --at, --idle and --default"),
        (("--in", "2h", "--default"), "give one of --in, --at, --idle and --default"),
        (("--in", "2h", "--idle", "2h"), "give one of --in, --at, --idle and --default"),
        (("--in", "2h", "--at", "2999-01-31T12:00:00Z"), "give one of --in, --at, --idle and --default"),
        (("--in", "2"), "--in '2': a duration is a whole number with s, m, h, d or w, such as 2h"),
        (("--in", ""), "--in '': a duration is a whole number with s, m, h, d or w, such as 2h"),
        (("--in", "0s"), "--in '0s': a duration is from 1 ms to 100 years"),
        (("--idle", "1y"), "--idle '1y': a duration is a whole number with s, m, h, d or w, such as 2h"),
        (
            ("--at", "2999-01-31T12:00:00"),
            "--at '2999-01-31T12:00:00': it needs a time zone, such as +00:00 or Z at its end",
        ),
        (
            ("--at", "2999-01-31"),
            "--at '2999-01-31': it needs a time zone, such as +00:00 or Z at its end",
        ),
        (
            ("--at", "tomorrow\x1b[2J"),
            "--at takes an instant such as 2027-01-31T12:00:00+00:00, not 'tomorrow\\x1b[2J'",
        ),
        (("--at", "2001-01-31T12:00:00Z"), "the conversation would have ended already; nothing was changed"),
        (("--at", "1969-01-31T12:00:00Z"), "an instant is of the years 1970 to 9999"),
        (("--at", "9999-12-31T23:59:59-10:00"), "an instant is of the years 1970 to 9999"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, tuple) else "",
)
def test_an_end_that_cannot_be_meant_is_refused(
    options: tuple[str, ...],
    sentence: str,
    history: History,
    server: Server,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 and one line that says what is wanted; the end of the conversation stays where it was."""
    code = main(["expire", "ann", "c", *options, "--url", server.url, "--namespace", namespace])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert is_one_line(printed.err)
    assert printed.err.removeprefix("memory-redis: ").rstrip("\n") == sentence
    assert left(history) > 6 * 24 * HOUR


def test_a_command_of_its_own_process_does_the_same(history: History, server: Server, namespace: str) -> None:
    """As processes: the line on standard output, nothing on standard error."""
    where = ("--url", server.url, "--namespace", namespace)
    done = memory_redis("expire", "ann", "c", "--in", "3d", *where)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ends in 3 d 0:00:00\n"
    done = memory_redis("pin", "ann", "c", *where)
    assert (done.returncode, done.stdout, done.stderr) == (0, "pinned: does not end by itself\n", "")
    assert history.expire_in() is None
