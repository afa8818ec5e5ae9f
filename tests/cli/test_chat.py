"""`chat` stores each line as a turn with its answer, and shows what others store, once and in order."""

from __future__ import annotations

import os
import re
import signal
import sys
from io import StringIO
from pathlib import Path

import pytest
import redis

from memory_redis import RedisMemory, SlidingExpiry, ai, chat, human, system, tool
from memory_redis.cli import main
from tests.cli.command import is_one_line, memory_redis
from tests.cli.talking import Piped, Terminal
from tests.cli.test_commands import ATTACK, HOSTILE
from tests.support.servers import Server

CONTROLS = {"\x1b", "\x07", "\r", "\u202e"}


def texts(memory: RedisMemory, user: str, conversation: str) -> list[tuple[str, str]]:
    """What is stored: types and texts."""
    return [(one.type, one.text) for one in memory.history(user, conversation).load().messages]


def test_each_line_of_a_pipe_is_a_turn(server: Server, memory: RedisMemory) -> None:
    """Lines are stored in order, each with its answer in one append; empty ones are no message."""
    lines = "hello\n\n   \nwhere is it?\r\n  two  spaces  "
    done = memory_redis("chat", "--user", "pat", "--conversation", "talk", "--url", server.url, stdin=lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "#1 ai: echo (1 message seen): hello\n"
        "#3 ai: echo (3 messages seen): where is it?\n"
        "#5 ai: echo (5 messages seen):   two  spaces  \n"
    )
    assert done.stderr == f"memory-redis: conversation talk of pat on {server.url}\n"
    assert texts(memory, "pat", "talk") == [
        ("human", "hello"),
        ("ai", "echo (1 message seen): hello"),
        ("human", "where is it?"),
        ("ai", "echo (3 messages seen): where is it?"),
        ("human", "  two  spaces  "),
        ("ai", "echo (5 messages seen):   two  spaces  "),
    ]
    with redis.Redis.from_url(server.url) as client:
        appends = client.hget("memory:{pat:talk}:meta", "r")
    assert appends is not None
    assert len(appends) == 3 * 28  # the ring of appends has 28 bytes for each


def test_the_first_line_says_where_one_is(server: Server) -> None:
    """Defaults are named, and so is the server of the environment, without its password."""
    url = server.url.replace("redis://", "redis://default:@")
    done = memory_redis("chat", "--namespace", "where", MEMORY_REDIS_URL=url)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"memory-redis: conversation main of me on {server.url} (from MEMORY_REDIS_URL)\n"


def test_the_embedded_server_is_enough() -> None:
    """Without any server one is started, and the first line says that it starts empty."""
    done = memory_redis("chat", stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "#1 ai: echo (1 message seen): hello\n")
    assert is_one_line(done.stderr)
    assert "conversation main of me on the embedded server, which starts empty" in done.stderr


def test_it_begins_with_the_last_messages(server: Server, memory: RedisMemory) -> None:
    """The summary and the last six messages are shown, with positions, speakers and calls."""
    history = memory.history("ann", "long")
    history.append(*[human(f"old {number}") for number in range(8)])
    history.compact("They said old things.", expected=history.load().version, keep=3)
    call = {"name": "clock", "args": {}, "id": "c1", "type": "tool_call"}
    history.append(
        human("two\nlines", name="ann"),
        chat("hm", role="critic"),
        ai([{"type": "text", "text": "so"}], tool_calls=[call]),
        tool("12:00", tool_call_id="c1"),
    )
    done = memory_redis("chat", "--user", "ann", "--conversation", "long", "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "summary: They said old things.\n"
        "#6 human: old 6\n"
        "#7 human: old 7\n"
        '#8 human "ann": two\n'
        "    lines\n"
        '#9 chat "critic": hm\n'
        '#10 ai: [{"type": "text", "text": "so"}]\n'
        '    calls [{"name": "clock", "args": {}, "id": "c1", "type": "tool_call"}]\n'
        "#11 tool: 12:00\n"
    )
    assert done.stderr.endswith("memory-redis: the last 6 of 7 messages:\n")


def test_a_single_message_that_cannot_be_shown_is_counted_as_one(server: Server, memory: RedisMemory) -> None:
    """The line before the last messages has the singular for one."""
    memory.history("ann", "broken").append(human("hurt"))
    with redis.Redis.from_url(server.url) as client:
        client.lset("memory:{ann:broken}:messages", 0, b"\x01garbage")
    done = memory_redis("chat", "--user", "ann", "--conversation", "broken", "--url", server.url)
    assert done.stderr.endswith("memory-redis: the last 0 of 1 message:\n")


@pytest.mark.parametrize(
    ("window", "seen"),
    [
        ("all", 6),
        ("last:3", 4),
        ("last:0", 1),
        ("turns:1", 3),
        ("tokens:1000", 6),
        ("since:1h", 6),
        ("max-bytes:4", 3),
        ("last:3+start-on:human", 3),
        ("turns:2 + max-bytes:6", 4),
    ],
)
def test_the_model_sees_the_window(
    window: str,
    seen: int,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The echo counts what the window shows of the past, and the new message."""
    url = f"fake://{namespace}"
    with RedisMemory.from_url(url) as memory:
        memory.history("me", "main").append(system("s"), human("h1"), ai("a1"), human("h2"), ai("a2"))
        monkeypatch.setattr(sys, "stdin", StringIO("hello"))
        assert main(["chat", "--url", url, "--window", window]) == 0
    assert f"#6 ai: echo ({seen} message{'' if seen == 1 else 's'} seen): hello\n" in capsys.readouterr().out


def test_a_terminal_sees_the_turns_of_another(server: Server, memory: RedisMemory) -> None:
    """Each of two sees the other's turns before its prompt, in order, nothing twice."""
    where = ("chat", "--user", "two", "--conversation", "talk", "--url", server.url)
    with Terminal(*where) as one, Terminal(*where) as other:
        for terminal in (one, other):
            terminal.waits_for("you: ")
        one.says("from one")
        other.says("")
        assert (
            "#0 human (elsewhere): from one\n#1 ai (elsewhere): echo (1 message seen): from one\n"
            in other.seen
        )
        other.says("from other")
        other.says("again")
        one.says("late")
        assert (
            "#2 human (elsewhere): from other\n"
            "#3 ai (elsewhere): echo (3 messages seen): from other\n"
            "#4 human (elsewhere): again\n"
            "#5 ai (elsewhere): echo (5 messages seen): again\n"
            "#7 ai: echo (7 messages seen): late\n"
        ) in one.seen
        other.says("")
        for terminal in (one, other):
            terminal.types("\x04")
            assert terminal.ends() == 0
        assert [int(at) for at in re.findall(r"^#(\d+) ", one.seen, re.M)] == [1, 2, 3, 4, 5, 7]
        assert [int(at) for at in re.findall(r"^#(\d+) ", other.seen, re.M)] == [0, 1, 3, 5, 6, 7]
        assert "#6 human (elsewhere): late\n#7 ai (elsewhere): echo (7 messages seen): late\n" in other.seen
    assert len(texts(memory, "two", "talk")) == 8


def test_many_chats_at_once_lose_nothing(server: Server, memory: RedisMemory) -> None:
    """Three processes talk at the same time, and each shows every turn once and in order."""
    many, turns = 3, 12
    where = ("chat", "--user", "many", "--conversation", "talk", "--url", server.url)
    with Piped(*where) as one, Piped(*where) as two, Piped(*where) as three:
        chats = (one, two, three)
        for piped in chats:
            piped.waits_for("conversation talk of many")
        for number in range(turns):
            for name, piped in enumerate(chats):
                piped.writes(f"{name}-{number}")
        assert [piped.ends() for piped in chats] == [0] * many
        stored = texts(memory, "many", "talk")
        assert len(stored) == 2 * many * turns
        for name, piped in enumerate(chats):
            shown = [re.fullmatch(r"#(\d+) (\w+)( \(elsewhere\))?: (.*)", line) for line in piped.lines]
            assert all(shown), piped.lines
            found = {int(one[1]): (one[2], one[4]) for one in shown if one is not None}
            assert len(found) == len(shown)
            assert list(found) == sorted(found)
            mine = [at for at, (_, text) in enumerate(stored) if text.endswith(f": {name}-{turns - 1}")]
            typed = [at for at, said in enumerate(stored) if said[0] == "human" and said[1][0] == str(name)]
            first = min(found.keys() | typed)
            assert sorted([*found, *typed]) == list(range(first, max(found) + 1))
            assert first <= typed[0]
            assert max(found) >= mine[0]
            assert all(stored[at] == said for at, said in found.items())


def test_the_ends_of_a_chat(server: Server) -> None:
    """Ctrl-C and Ctrl-D at the prompt end it with 0 and a new line, whatever stands on the line."""
    where = ("chat", "--url", server.url, "--namespace", "ends")
    with Terminal(*where) as one, Terminal(*where) as other:
        one.waits_for("you: ")
        one.types("half a li\x03")
        assert one.ends() == 0
        other.waits_for("you: ")
        other.types("\x04")
        assert other.ends() == 0
        for terminal in (one, other):
            assert "Traceback" not in terminal.seen
            assert "interrupted" not in terminal.seen
            assert terminal.seen.endswith("\n")
            assert "; an empty line looks for news, Ctrl-D ends\n" in terminal.seen


def test_a_terminal_whose_output_is_a_file_has_its_prompt(server: Server, tmp_path: Path) -> None:
    """Only what is said goes to the file; prompts and all else stay on the terminal."""
    with (
        open(tmp_path / "said", "wb") as file,
        Terminal("chat", "--url", server.url, "--namespace", "file", output=file.fileno()) as terminal,
    ):
        terminal.waits_for("you: ")
        terminal.says("hello")
        terminal.types("\x04")
        assert terminal.ends() == 0
        assert "echo" not in terminal.seen
    assert (tmp_path / "said").read_text() == "#1 ai: echo (1 message seen): hello\n"


def test_without_an_input_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose standard input is closed has nothing to say."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["chat", "--url", "fake://"]) == 0
    assert capsys.readouterr().out == ""


def test_an_interrupted_pipe_is_interrupted(server: Server) -> None:
    """SIGINT before the input has ended: exit code 130 and one line."""
    with Piped("chat", "--url", server.url, "--namespace", "interrupted") as piped:
        piped.says("hello")
        os.killpg(piped.process.pid, signal.SIGINT)
        assert piped.process.wait(60) == 130
        piped.waits_for("memory-redis: interrupted")
        assert len(piped.errors) == 2


def test_hostile_contents_do_not_steer_the_terminal(server: Server, memory: RedisMemory) -> None:
    """Ids, names and texts of others are shown as text, and none can pass for a line of somebody else."""
    history = memory.history(HOSTILE, HOSTILE)
    history.append(human("old"), human(ATTACK, name=ATTACK))
    history.compact(f"Summed up: {ATTACK}", expected=history.load().version, keep=1)
    forged = "first\n#99 ai: forged\nyou: \x1b[2J" + " " * 120 + "#98 ai: forged too"
    with Terminal("chat", "--user", HOSTILE, "--conversation", HOSTILE, "--url", server.url) as terminal:
        terminal.waits_for("you: ")
        history.append(ai(forged, name="x\n#97 ai: forged"), chat("hm", role=ATTACK))
        terminal.says("hello")
        terminal.types("\x04")
        assert terminal.ends() == 0
        seen = terminal.seen
    assert "summary: Summed up: \\x1b]0;owned\\x07" in seen
    assert '#1 human "\\x1b]0;owned\\x07' in seen
    assert "[bold red]not bold[/bold red]" in seen
    assert "\\x0a#97 ai: forged" in seen
    assert not re.search(r"^#9[789]", seen, re.M)
    assert "\n    #98 ai: forged too\n" in seen
    assert seen.count("\nyou: ") == 2
    assert not CONTROLS & set(seen.replace("\x1b[?2004h", "").replace("\x1b[?2004l", ""))


def test_bytes_that_are_no_text_are_taken_as_such(server: Server, memory: RedisMemory) -> None:
    """Input that is not UTF-8 is no traceback: U+FFFD stands for what cannot be read."""
    with Piped("chat", "--user", "raw", "--url", server.url, PYTHONIOENCODING="utf-8:strict") as piped:
        stdin = piped.process.stdin
        assert stdin is not None
        stdin.buffer.write(b"\xff hi\n")
        stdin.buffer.flush()
        piped.waits_for("\ufffd hi")
        assert piped.ends() == 0
    assert texts(memory, "raw", "main")[0] == ("human", "\ufffd hi")


def test_a_turn_leaves_the_end_where_it_is(server: Server, memory: RedisMemory) -> None:
    """A conversation that its program lets end still ends then; one that does not, does not."""
    lasting = memory.history("keep", "lasting", expiry=SlidingExpiry(hours=1))
    lasting.append(human("Hi"))
    memory.history("keep", "endless").append(human("Hi"))
    for conversation in ("lasting", "endless"):
        done = memory_redis(
            "chat", "--user", "keep", "--conversation", conversation, "--url", server.url, stdin="hello\n"
        )
        assert done.returncode == 0, done.stderr
    left = lasting.expire_in()
    assert left is not None
    assert 3_500 < left < 3_600
    assert memory.history("keep", "lasting").count() == 3
    assert memory.history("keep", "endless").expire_in() is None
