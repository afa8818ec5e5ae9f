"""A chat whose turns cannot be stored, or whose server goes away, says so and loses no answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from memory_redis import RedisMemory, ai, human
from memory_redis.cli import main
from memory_redis.cli.following import Follower, News
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server

ALL = 10**6
Step = str | Callable[[], object]


class Typist:
    """Standard input of lines, and of what happens before the next of them is read."""

    def __init__(self, *steps: Step) -> None:
        self._steps = iter(steps)

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        for step in self._steps:
            if isinstance(step, str):
                return f"{step}\n"
            step()
        return ""


Talk = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def talk(namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    """A chat by steps: its exit code, output, and lines of errors after the first. Its deadline is short."""
    monkeypatch.setattr("memory_redis.cli.arguments.DEADLINE_SECONDS", 1.0)

    def talk(url: str, *steps: Step) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "stdin", Typist(*steps))
        code = main(["chat", "--url", url, "--namespace", namespace])
        printed = capsys.readouterr()
        first, *errors = printed.err.splitlines()
        assert first.startswith("memory-redis: conversation main of me on ")
        return code, printed.out, errors

    return talk


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultProxy]:
    with FaultProxy(server.address) as proxy:
        yield proxy


@pytest.fixture
def way(proxy: FaultProxy) -> str:
    """The URL of the server by way of the proxy."""
    return f"redis://127.0.0.1:{proxy.port}"


@pytest.fixture
def stored(server: Server, namespace: str) -> Iterator[Callable[[], list[str]]]:
    """The texts that are stored."""
    with RedisMemory.from_url(server.url, namespace=namespace) as memory:
        yield lambda: [message.text for message in memory.history("me", "main").load().messages]


def an_append(command: list[bytes]) -> bool:
    """Whether a command is the script that appends: no other of these chats has so many arguments."""
    return command[0] == b"EVALSHA" and len(command) > 16


def test_a_turn_whose_reply_was_lost_is_found_stored(
    talk: Talk, proxy: FaultProxy, way: str, stored: Callable[[], list[str]]
) -> None:
    """No answer comes in time, the outcome is asked for, and the answer has its place."""
    code, output, errors = talk(
        way,
        "one",
        lambda: proxy.drop_reply(an_append, times=ALL, how="hang"),
        "two",
        proxy.heal,
        "three",
    )
    assert (code, errors) == (0, [])
    assert output == (
        "#1 ai: echo (1 message seen): one\n"
        "#3 ai: echo (3 messages seen): two\n"
        "#5 ai: echo (5 messages seen): three\n"
    )
    assert len(stored()) == 6


def test_a_turn_that_did_not_arrive_is_told_with_its_answer(
    talk: Talk, proxy: FaultProxy, way: str, stored: Callable[[], list[str]]
) -> None:
    """The answer is shown without a place, one line says that it is not stored, and the chat goes on."""
    code, output, errors = talk(
        way,
        "one",
        lambda: proxy.drop_request(an_append, times=ALL, how="reset"),
        "two",
        lambda: proxy.heal(drop=True),
        "three",
    )
    assert code == 1
    assert output == (
        "#1 ai: echo (1 message seen): one\n"
        "ai: echo (3 messages seen): two\n"
        "#3 ai: echo (3 messages seen): three\n"
    )
    assert errors == [
        "memory-redis: not stored: the server did not answer",
        "memory-redis: 1 of 3 turns was not stored",
    ]
    assert [text for text in stored() if "two" in text] == []


def test_an_outcome_that_nobody_can_tell_is_told_as_such(talk: Talk, proxy: FaultProxy, way: str) -> None:
    """The server falls silent during a turn: its answer is shown, then what is known, and it ends with 3."""

    def silence() -> None:
        proxy.drop_reply(("EVALSHA", "EVAL", "LLEN"), times=ALL, how="hang")

    code, output, errors = talk(way, "one", silence, "two", "three")
    assert (code, len(errors)) == (3, 2)
    assert output == "#1 ai: echo (1 message seen): one\nai: echo (3 messages seen): two\n"
    assert errors[0] == "memory-redis: it may or may not be stored: the server did not answer"
    assert errors[1].startswith("memory-redis: the server could not be reached in time")


def test_an_answer_is_shown_although_the_look_after_it_fails(
    talk: Talk, proxy: FaultProxy, way: str, stored: Callable[[], list[str]]
) -> None:
    """The turn is stored and the server goes away before its place is known: the answer, then exit code 3."""
    code, output, errors = talk(way, "one", lambda: proxy.drop_request("LLEN", times=ALL, how="reset"), "two")
    assert (code, len(errors)) == (3, 1)
    assert output == "#1 ai: echo (1 message seen): one\nai: echo (3 messages seen): two\n"
    assert stored()[2:] == ["two", "echo (3 messages seen): two"]


def test_a_server_that_went_away_is_said_in_one_line(talk: Talk) -> None:
    """The server is killed between two turns: exit code 3, one line, and what was said before stands."""
    with Server() as server:
        code, output, errors = talk(server.url, "one", server.kill, "two", "three")
    assert (code, len(errors)) == (3, 1)
    assert output == "#1 ai: echo (1 message seen): one\n"
    assert errors[0].startswith("memory-redis: the server could not be reached in time")


def test_a_full_server_stores_nothing_and_answers_are_shown(talk: Talk, server: Server) -> None:
    """A server that is out of memory refuses turns; each is told, and it goes on when there is room."""
    try:
        code, output, errors = talk(
            server.url,
            lambda: server.ask("CONFIG", "SET", "maxmemory", "1"),
            "one",
            "two",
            lambda: server.ask("CONFIG", "SET", "maxmemory", "0"),
            "three",
        )
    finally:
        server.ask("CONFIG", "SET", "maxmemory", "0")
    assert code == 1
    assert output == (
        "ai: echo (1 message seen): one\n"
        "ai: echo (1 message seen): two\n"
        "#1 ai: echo (1 message seen): three\n"
    )
    assert len(errors) == 3
    assert all(line.startswith("memory-redis: not stored: ") for line in errors[:2])
    assert errors[2] == "memory-redis: 2 of 3 turns were not stored"


def test_a_message_that_is_too_large_is_not_sent(talk: Talk) -> None:
    """One line says so, the model is not asked, and the chat goes on."""
    code, output, errors = talk("fake://", "x" * (5 * 2**20), "small")
    assert (code, output) == (1, "#1 ai: echo (1 message seen): small\n")
    assert len(errors) == 2
    assert errors[0].startswith("memory-redis: not sent: ")
    assert errors[1] == "memory-redis: 1 of 2 turns was not stored"


def test_the_only_turn_of_a_chat_is_counted_as_one(talk: Talk) -> None:
    """One turn is no turns."""
    _, _, errors = talk("fake://", "x" * (5 * 2**20))
    assert errors[-1] == "memory-redis: 1 of 1 turn was not stored"


def test_an_answer_that_is_too_large_is_shown(talk: Talk) -> None:
    """The message may be stored and its echo may not: it is shown, and neither is stored."""
    text = "x" * (4 * 2**20 - 50)
    code, output, errors = talk("fake://", text, "small")
    assert code == 1
    assert output == f"ai: echo (1 message seen): {text}\n#1 ai: echo (1 message seen): small\n"
    assert len(errors) == 2
    assert errors[0].startswith("memory-redis: not stored: ")


def test_what_others_do_is_told_beside_the_turns(talk: Talk, server: Server, namespace: str) -> None:
    """Turns that came meanwhile stand before the own answer; that it was cleared is said."""
    with RedisMemory.from_url(server.url, namespace=namespace) as memory:
        history = memory.history("me", "main")
        code, output, errors = talk(
            server.url,
            "one",
            lambda: history.append(human("other")),
            "two",
            history.clear,
            "three",
        )
    assert code == 0
    assert output == (
        "#1 ai: echo (1 message seen): one\n"
        "#2 human (elsewhere): other\n"
        "#4 ai: echo (4 messages seen): two\n"
        "#7 ai: echo (1 message seen): three\n"
    )
    assert errors == ["memory-redis: what stood before #6 is no longer stored"]


def test_a_turn_of_a_life_that_is_over_is_not_taken_for_one_of_the_next(
    talk: Talk, server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a turn and the look the conversation is lost and others begin anew, at the same positions."""
    honest = Follower.news
    with RedisMemory.from_url(server.url, namespace=namespace) as memory:

        def news(follower: Follower) -> News:
            history = memory.history("me", "main")
            if history.exists():
                server.ask("DEL", *server.ask("KEYS", f"{namespace}:*"))
                history.append(human("theirs"), ai("to them"))
            return honest(follower)

        monkeypatch.setattr(Follower, "news", news)
        code, output, errors = talk(server.url, "mine")
    assert (code, errors) == (0, [])
    assert output == (
        "#0 human (elsewhere): theirs\n#1 ai (elsewhere): to them\nai: echo (1 message seen): mine\n"
    )
