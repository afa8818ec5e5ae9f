"""`show` with a window shows what a model with that window sees; a summary stands in front."""

from __future__ import annotations

import json

import pytest

from memory_redis import RedisMemory, ai, human, system, tool
from memory_redis.cli import main
from tests.cli.command import is_one_line, memory_redis
from tests.cli.test_commands import ATTACK
from tests.support.servers import Server

CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


@pytest.fixture
def url(namespace: str) -> str:
    """A server in this process."""
    return f"fake://{namespace}"


@pytest.fixture
def talk(url: str) -> None:
    """Nine messages: a system prompt and three turns, the second with a tool."""
    with RedisMemory.from_url(url) as memory:
        memory.history("ann", "c").append(
            system("be kind"),
            human("one"),
            ai("1"),
            human("two"),
            ai("", tool_calls=[CALL]),
            tool("seen", tool_call_id="c1"),
            ai("2"),
            human("three"),
            ai("3"),
        )


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[int]:
    """The positions of what is shown."""
    assert main(["show", "ann", "c", "--json", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return [json.loads(line)["seq"] for line in printed.out.splitlines()]


@pytest.mark.parametrize(
    ("window", "positions"),
    [
        ("all", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("last:2", [7, 8]),
        ("last:4", [6, 7, 8]),
        ("last:0", []),
        ("turns:1", [7, 8]),
        ("turns:2", [3, 4, 5, 6, 7, 8]),
        ("turns:1+keep-system", [0, 7, 8]),
        ("last:3+keep-system", [0, 7, 8]),
        ("last:3+start-on:human", [7, 8]),
        ("last:4+start-on:ai", [6, 7, 8]),
        ("max-bytes:6", [7, 8]),
        ("max-bytes:7", [6, 7, 8]),
        ("tokens:12", [7, 8]),
        ("tokens:100000", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("since:1h", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("since:1h+turns:2+max-bytes:7+keep-system", [0]),
    ],
)
@pytest.mark.usefixtures("talk")
def test_show_has_what_the_window_shows(
    url: str, window: str, positions: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each word of a window does what it says."""
    assert shown(capsys, "--window", window, "--url", url) == positions


@pytest.mark.usefixtures("talk")
def test_last_stays(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--last N` is `--window last:N`; without either everything is shown."""
    assert (
        shown(capsys, "--last", "2", "--url", url)
        == shown(capsys, "--window", "last:2", "--url", url)
        == [7, 8]
    )
    assert shown(capsys, "--url", url) == [*range(9)]


def test_last_and_window_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    """Which of them counts is not guessed: a wrong call, in one line."""
    assert main(["show", "ann", "c", "--last", "2", "--window", "all", "--url", "fake://"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, is_one_line(printed.err)) == ("", True)
    assert "give --last or --window, not both" in printed.err


def test_a_wrong_window_is_refused_before_anything_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong text is a wrong call, also where there is no server."""
    for command in (["show", "ann", "c"], ["chat"]):
        assert main([*command, "--window", "last:\x1b[2J", "--url", "redis://127.0.0.1:1"]) == 2
        printed = capsys.readouterr()
        assert (printed.out, is_one_line(printed.err)) == ("", True)
        assert "a whole number from 0 to 1,000,000,000 is wanted" in printed.err
        assert "\x1b" not in printed.err


def test_a_summary_stands_in_front(server: Server, memory: RedisMemory) -> None:
    """It has the type summary and no position, in the table and in JSON, with a window and without."""
    history = memory.history("sum", "talk")
    history.append(human("old"), ai("older"), human("new"))
    history.compact(f"They met. {ATTACK}", expected=history.load().version, keep=1)
    table = memory_redis("show", "sum", "talk", "--url", server.url)
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.index("summary") < table.stdout.index("They met.") < table.stdout.index("new")
    assert not set(table.stdout) & {"\x1b", "\x07", "\r", "\u202e"}
    for more in ([], ["--last", "0"], ["--window", "turns:1"]):
        done = memory_redis("show", "sum", "talk", "--json", *more, "--url", server.url)
        first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
        assert first == {
            "seq": None,
            "stored_at": None,
            "type": "summary",
            "data": {"content": f"They met. {ATTACK}"},
        }
        assert [one["seq"] for one in rest] == ([] if "0" in more else [2])


def test_a_conversation_that_is_not_there_is_said_in_one_line(
    server: Server, memory: RedisMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never begun, or cleared: exit code 1 and the line that `expire` has, whatever is asked."""
    memory.history("ann", "cleared").append(human("Hi"))
    memory.history("ann", "cleared").clear()
    for conversation in ("never", "cleared"):
        for more in ([], ["--json"], ["--last", "2"], ["--window", "turns:1", "--json"]):
            assert main(["show", "ann", conversation, *more, "--url", server.url]) == 1
            printed = capsys.readouterr()
            assert printed.out == ""
            assert printed.err == f"memory-redis: there is no conversation {conversation} of ann\n"


def test_a_window_that_shows_nothing_says_so(
    server: Server, memory: RedisMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line in place of an empty table, and exit code 0; JSON has no line for what is not shown."""
    memory.history("bea", "talk").append(human("Hi"), ai("Hello"))
    for more in (["--last", "0"], ["--window", "tokens:0"]):
        assert main(["show", "bea", "talk", *more, "--url", server.url]) == 0
        assert capsys.readouterr() == ("nothing of conversation talk of bea is in this window\n", "")
        assert main(["show", "bea", "talk", *more, "--json", "--url", server.url]) == 0
        assert capsys.readouterr() == ("", "")


def test_a_conversation_that_is_a_summary_alone_is_there(
    server: Server, memory: RedisMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    """All its messages were summarised: the summary is shown, with a window and without."""
    history = memory.history("sum", "alone")
    history.append(human("old"), ai("older"))
    history.compact("They met.", expected=history.load().version)
    for more in ([], ["--last", "2"]):
        assert main(["show", "sum", "alone", *more, "--url", server.url]) == 0
        printed = capsys.readouterr()
        assert "They met." in printed.out
        assert "nothing of" not in printed.out


def test_without_a_summary_nothing_stands_in_front(
    url: str, capsys: pytest.CaptureFixture[str], talk: None
) -> None:
    """The table of a conversation that was never summarised has its messages only."""
    assert main(["show", "ann", "c", "--window", "last:1", "--url", url]) == 0
    assert "summary" not in capsys.readouterr().out
