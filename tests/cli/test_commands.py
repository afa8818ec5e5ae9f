"""`ls`, `show` and `forget` say what is stored and erase it, whatever ids and contents hold."""

from __future__ import annotations

import json
import subprocess

import pytest

from memory_redis import RedisMemory, SlidingExpiry, ai, human, tool
from tests.cli.command import COMMAND, ROOT, environment, is_one_line, memory_redis
from tests.support.servers import Server

HOSTILE = "a:b}{ü\n\x1b[31m[bold]\\%"
ATTACK = "\x1b]0;owned\x07\x1b[2J[bold red]not bold[/bold red]\r\u202eback :smile:"


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_ls_lists_newest_first(server: Server, memory: RedisMemory) -> None:
    """The table has the conversation that was active last on top, with its messages and its end."""
    memory.history("ann", "older").append(human("Hi"))
    with RedisMemory.from_url(server.url, expiry=SlidingExpiry(days=2)) as expiring:
        expiring.history("ann", "newer").append(human("Hi"), ai("Hello"))
    done = memory_redis("ls", "ann", "--url", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("newer") < done.stdout.index("older")
    assert "1 d 23:59:5" in done.stdout
    assert "never" in done.stdout
    newer, older = lines(memory_redis("ls", "ann", "--url", server.url, "--json").stdout)
    assert (newer["conversation"], newer["messages"], older["expire_in"]) == ("newer", 2, None)


def test_show_prints_messages_in_order(server: Server, memory: RedisMemory) -> None:
    """`show` has every message, oldest first, and `--last` only the newest."""
    call = {"name": "clock", "args": {}, "id": "c1", "type": "tool_call"}
    memory.history("bob", "talk").append(
        human("What time is it?", name="bob"), ai("", tool_calls=[call]), tool("12:00", tool_call_id="c1")
    )
    done = memory_redis("show", "bob", "talk", "--url", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("What time") < done.stdout.index("clock") < done.stdout.index("12:00")
    shown = lines(memory_redis("show", "bob", "talk", "--url", server.url, "--json").stdout)
    assert [(m["seq"], m["type"]) for m in shown] == [(0, "human"), (1, "ai"), (2, "tool")]
    assert shown[0]["data"] == {"content": "What time is it?", "name": "bob"}
    last = lines(memory_redis("show", "bob", "talk", "--last", "2", "--json", "--url", server.url).stdout)
    assert [m["seq"] for m in last] == [1, 2]
    assert memory_redis("show", "bob", "talk", "--last", "0", "--json", "--url", server.url).stdout == ""


def test_hostile_ids_and_contents_are_data(server: Server, memory: RedisMemory) -> None:
    """Escape sequences and markup reach the terminal as text, and JSON brings back what was stored."""
    memory.history(HOSTILE, HOSTILE).append(human(ATTACK, name=ATTACK))
    listed = memory_redis("ls", HOSTILE, "--url", server.url)
    shown = memory_redis("show", HOSTILE, HOSTILE, "--url", server.url, COLUMNS="300")
    for done in (listed, shown):
        assert (done.returncode, done.stderr) == (0, "")
        assert not set(done.stdout) & {"\x1b", "\x07", "\r", "\u202e"}
    assert "\\x1b[31m[bold]\\\\%" in listed.stdout
    assert "[bold red]not bold[/bold red]" in shown.stdout
    assert ":smile:" in shown.stdout
    [info] = lines(memory_redis("ls", HOSTILE, "--json", "--url", server.url).stdout)
    assert (info["user"], info["conversation"]) == (HOSTILE, HOSTILE)
    [message] = lines(memory_redis("show", HOSTILE, HOSTILE, "--json", "--url", server.url).stdout)
    assert message["data"] == {"content": ATTACK, "name": ATTACK}


def test_forget_asks_first(server: Server, memory: RedisMemory) -> None:
    """No answer and "no" erase nothing; "yes" erases all conversations of that user and of no other."""
    for user in ("eve", "joe"):
        memory.history(user, "one").append(human("Hi"))
        memory.history(user, "two").append(human("Hi"), ai("Hello"))
    for answer in ("", "n\n"):
        refused = memory_redis("forget", "eve", "--url", server.url, stdin=answer)
        assert refused.returncode == 1
        assert "Erase 2 conversations of eve?" in refused.stderr
        assert refused.stderr.endswith("memory-redis: nothing was erased\n")
        assert memory.history("eve", "one").exists()
    done = memory_redis("forget", "eve", "--url", server.url, stdin="y\n")
    assert (done.returncode, done.stdout) == (0, "erased 2 conversations with 3 messages\n")
    assert list(memory.conversations("eve")) == []
    assert not memory.history("eve", "one").exists()
    assert len(list(memory.conversations("joe"))) == 2
    done = memory_redis("forget", "joe", "--yes", "--url", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "erased 2 conversations with 3 messages\n"


def test_one_conversation_and_one_message_are_counted_as_such(server: Server, memory: RedisMemory) -> None:
    """Question and result have the singular for one, and the plural for none."""
    memory.history("uma", "only").append(human("Hi"))
    done = memory_redis("forget", "uma", "--url", server.url, stdin="y\n")
    assert done.stderr.startswith("Erase 1 conversation of uma?")
    assert (done.returncode, done.stdout) == (0, "erased 1 conversation with 1 message\n")
    done = memory_redis("forget", "uma", "--yes", "--url", server.url)
    assert (done.returncode, done.stdout) == (0, "erased 0 conversations with 0 messages\n")


def test_options_stand_before_or_after_the_command(server: Server) -> None:
    """`--url` and `--namespace` mean the same in both places, and after the command they win."""
    with RedisMemory.from_url(server.url, namespace="other") as other:
        other.history("kim", "talk").append(human("Hi"))
    for arguments in (
        ("--url", server.url, "--namespace", "other", "ls", "kim"),
        ("ls", "kim", "--url", server.url, "--namespace", "other"),
        ("--url", "redis://127.0.0.1:1", "ls", "kim", "--url", server.url, "--namespace=other"),
    ):
        done = memory_redis(*arguments, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert len(lines(done.stdout)) == 1
    assert memory_redis("ls", "kim", "--json", "--url", server.url).stdout == ""


def test_the_server_that_is_used_is_announced(server: Server, tmp_path: object) -> None:
    """A URL from the environment is named without its password, and so is the embedded server by default."""
    url = server.url.replace("redis://", "redis://default:@")
    done = memory_redis("ls", "nobody", MEMORY_REDIS_URL=url)
    assert done.returncode == 0
    assert done.stderr == f"memory-redis: using {server.url.rstrip('/')} (from MEMORY_REDIS_URL)\n"
    done = memory_redis("ls", "nobody")
    assert done.returncode == 0
    assert is_one_line(done.stderr)
    assert "embedded server" in done.stderr


def test_an_embedded_server_keeps_its_data_at_a_path(tmp_path: pytest.TempPathFactory) -> None:
    """What one process stored at a path, the command finds there later."""
    url = f"embedded://{tmp_path}/kept"
    with RedisMemory.from_url(url) as memory:
        memory.history("ann", "talk").append(human("Hi"))
    done = memory_redis("show", "ann", "talk", "--json", "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lines(done.stdout)) == 1


def test_a_reader_that_leaves_early_gets_no_traceback(server: Server, memory: RedisMemory) -> None:
    """`show … | head -1` ends quietly."""
    memory.history("ann", "long").append(*[human("x" * 1000) for _ in range(900)])
    process = subprocess.Popen(
        [*COMMAND, "show", "ann", "long", "--json", "--url", server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"seq": 0')
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1
