"""Conversations without a user: `--session` shows them, talks in them and sets when they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from memory_redis import AsyncRedisMemory, History, RedisMemory, SlidingExpiry, ai, human
from memory_redis.cli import main
from tests.cli.command import is_one_line, left, memory_redis
from tests.cli.conftest import Run
from tests.cli.test_commands import HOSTILE
from tests.support.servers import Server

HOUR = 3_600.0


@pytest.fixture
def memory(server: Server, namespace: str) -> Iterator[RedisMemory]:
    """The program whose sessions they are: they end a week after the last message."""
    with RedisMemory.from_url(server.url, namespace=namespace, expiry=SlidingExpiry(days=7)) as memory:
        yield memory


@pytest.fixture
def session(memory: RedisMemory) -> History:
    """A session of that program, beside a conversation of a user whose id is the same."""
    memory.history("s-1", "s-1").append(human("of a user"))
    session = memory.session("s-1")
    session.append(human("Hi"), ai("Hello"))
    return session


def test_show_shows_a_session(run: Run, session: History) -> None:
    """Its messages, with a window and without, as a table and as JSON."""
    table = run("show", "--session", "s-1")
    assert table.index("Hi") < table.index("Hello")
    assert "of a user" not in table
    lines = [json.loads(line) for line in run("show", "--session", "s-1", "--json").splitlines()]
    assert [(one["seq"], one["type"], one["data"]["content"]) for one in lines] == [
        (0, "human", "Hi"),
        (1, "ai", "Hello"),
    ]
    assert "Hi" not in run("show", "--window", "last:1", "--session=s-1")


def test_what_an_asyncio_program_has_said_in_a_session_is_shown(
    run: Run, server: Server, namespace: str
) -> None:
    """A session is the same whichever face of the library wrote it."""

    async def write() -> None:
        async with AsyncRedisMemory.from_url(server.url, namespace=namespace) as memory:
            await memory.session("later").append(human("from asyncio"))

    asyncio.run(write())
    assert "from asyncio" in run("show", "--session", "later")


def test_the_end_of_a_session_is_set(run: Run, session: History, memory: RedisMemory) -> None:
    """`expire` and `pin` do what they do for a conversation of a user, whose end is left alone."""
    assert run("expire", "--session", "s-1", "--in", "2h") == "ends in 2:00:00\n"
    assert 2 * HOUR - 10 < left(session) <= 2 * HOUR
    assert run("expire", "--session", "s-1", "--at", "2999-01-31T12:00:00Z").startswith("ends at 2999-01-31")
    assert (
        run("expire", "--idle", "90m", "--session", "s-1") == "ends in 1:30:00, which each message renews\n"
    )
    assert run("pin", "--session", "s-1") == "pinned: does not end by itself\n"
    assert session.expire_in() is None
    assert run("pin", "--session", "s-1", "--undo").startswith("does not end; ")
    session.append(human("later"))
    assert left(session) > 6 * 24 * HOUR
    assert run("expire", "--session", "s-1", "--default").startswith("ends in 6 d 23:59:5")
    assert left(memory.history("s-1", "s-1")) > 6 * 24 * HOUR


def test_a_chat_in_a_session_is_stored_there(server: Server, namespace: str, session: History) -> None:
    """It begins with what stands there, its turns are stored there, and its first line names the session."""
    where = ("--url", server.url, "--namespace", namespace)
    done = memory_redis("chat", "--session", "s-1", *where, stdin="How are you?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "#0 human: Hi\n#1 ai: Hello\n#3 ai: echo (3 messages seen): How are you?\n"
    assert done.stderr == f"memory-redis: session s-1 on {server.url}\n"
    assert [message.text for message in session.load().messages[2:]] == [
        "How are you?",
        "echo (3 messages seen): How are you?",
    ]
    assert left(session) > 6 * 24 * HOUR


def test_no_list_has_a_session_and_forget_leaves_it(run: Run, session: History) -> None:
    """A user whose id is that of a session has own conversations only, and their help says so."""
    assert len(run("ls", "s-1", "--json").splitlines()) == 1
    assert run("forget", "s-1", "--yes") == "erased 1 conversation with 1 message\n"
    assert run("ls", "s-1", "--json") == ""
    assert session.count() == 2
    for command in ("ls", "forget"):
        said = " ".join(run(command, "--help").split())
        assert "Sessions, which are conversations without a user, are in no list" in said


def test_the_help_of_the_others_names_the_option(run: Run) -> None:
    """Each command about one conversation takes `--session ID`."""
    for command in ("show", "chat", "expire", "pin"):
        said = run(command, "--help")
        assert "--session ID" in said
        assert "A conversation without a user" in said


@pytest.mark.parametrize(
    "arguments",
    [("show",), ("show", "--json"), ("expire", "--in", "2h"), ("expire", "--default"), ("pin",)],
    ids=" ".join,
)
def test_a_session_that_is_not_there_is_said_in_one_line(
    arguments: tuple[str, ...], server: Server, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, its name shown safely, and nothing is kept for it."""
    code = main([*arguments, "--session", HOSTILE, "--url", server.url, "--namespace", namespace])
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    assert printed.err == "memory-redis: there is no session a:b}{ü\\x0a\\x1b[31m[bold]\\\\%\n"
    assert server.ask("KEYS", f"{namespace}:*") == []


NEITHER = "give USER and CONVERSATION, or --session ID"
BOTH = "give USER and CONVERSATION, or --session ID, not both"
BOTH_OPTIONS = "give --user and --conversation, or --session, not both"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show",), NEITHER),
        (("show", "ann"), NEITHER),
        (("show", "ann", "talk", "--session", "s-1"), BOTH),
        (("show", "ann", "--session", "s-1"), BOTH),
        (("show", "ann", "talk", "--session", ""), BOTH),
        (("expire", "--in", "2h"), NEITHER),
        (("expire", "ann", "--in", "2h"), NEITHER),
        (("expire", "ann", "talk", "--session", "s-1", "--in", "2h"), BOTH),
        (("pin",), NEITHER),
        (("pin", "ann"), NEITHER),
        (("pin", "ann", "talk", "--session", "s-1"), BOTH),
        (("chat", "--user", "ann", "--session", "s-1"), BOTH_OPTIONS),
        (("chat", "--conversation", "talk", "--session", "s-1"), BOTH_OPTIONS),
        (("chat", "--user", "me", "--conversation", "main", "--session", "s-1"), BOTH_OPTIONS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_which_conversation_is_meant_is_not_guessed(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both or neither: exit code 2 and one line that says what to give, before anything is opened."""
    assert main([*arguments, "--url", "redis://127.0.0.1:1"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"memory-redis: {sentence}\n")


@pytest.mark.parametrize("command", [("show",), ("expire", "--in", "2h"), ("pin",), ("chat",)], ids=" ".join)
def test_a_session_without_a_name_is_refused(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty id is a wrong call, as it is for a conversation of a user."""
    assert main([*command, "--session", "", "--url", "fake://"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, is_one_line(printed.err)) == ("", True)
