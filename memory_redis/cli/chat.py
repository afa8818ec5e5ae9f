"""A chat with an echo, at a terminal or by lines from a pipe, in a conversation that others may share."""

import sys
from contextlib import suppress
from typing import Final, NamedTuple

from memory_redis import (
    HistoryNotSaved,
    InvalidMessage,
    MemoryRedisError,
    RedisMemory,
    StoredMessage,
    TurnReport,
    Version,
    Window,
    with_history,
)
from memory_redis.cli.following import Follower
from memory_redis.cli.meant import Meant
from memory_redis.cli.problems import CommandError, one_line
from memory_redis.cli.server import say
from memory_redis.cli.shown import folded, said, said_message
from memory_redis.wording import counted

__all__ = ["Chat", "echo"]

SHOWN: Final = 6
"""Messages that the chat begins with."""

PROMPT: Final = "you: "


def echo(messages: list[StoredMessage]) -> str:
    """The model: how many messages it was shown, the new one included, and the text of that one."""
    return f"echo ({counted(len(messages), 'message')} seen): {messages[-1].text}"


class _Answer(NamedTuple):
    """What the model gave: the version with its turn, or why there is none."""

    text: str
    version: Version | None
    trouble: str | None = None

    def holds(self, message: StoredMessage, birth: bytes) -> bool:
        """Whether a message is of this turn: question and answer are the last two of its version."""
        version = self.version
        if version is None or version.birth != birth:
            return False
        return message.seq in range(version.number - 2, version.number)


class Chat:
    """One side of a chat. What others store meanwhile is shown before each prompt.

    Args:
        server: as it is said.
    """

    def __init__(self, memory: RedisMemory, meant: Meant, window: Window, server: str) -> None:
        self._history = meant.history(memory)
        self._follower = Follower(self._history)
        self._ids = meant.keywords()
        self._model = with_history(echo, memory, window=window, on_save_error=lambda _: None)
        self._title = f"{meant} on {server}"
        self._turns = self._unsaved = 0

    def run(self) -> None:
        """Chat until the input ends.

        Raises:
            CommandError: a turn could not be stored.
            MemoryRedisError: the conversation cannot be read.
        """
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if terminal and sys.stdout.isatty():
            with suppress(ImportError):  # `input` then lets the user edit a line, and takes long ones
                import readline  # noqa: F401
        say(self._title + ("; an empty line looks for news, Ctrl-D ends" if terminal else ""))
        self._begin()
        answer: _Answer | None = None
        while True:
            self._tell(answer)
            line = _typed() if terminal else _read()
            if line is None:
                break
            answer = self._turn(line) if line.strip() else None
        if self._unsaved:
            verb = "was" if self._unsaved == 1 else "were"
            raise CommandError(f"{self._unsaved:,} of {counted(self._turns, 'turn')} {verb} not stored")

    def _begin(self) -> None:
        snapshot = self._follower.begin(SHOWN)
        stored = snapshot.version.number - snapshot.trimmed
        if stored > len(snapshot.messages):
            say(f"the last {len(snapshot.messages):,} of {counted(stored, 'message')}:")
        if snapshot.summary is not None:
            _show(said("summary", snapshot.summary))
        for message in snapshot.messages:
            _show(said_message(message))

    def _tell(self, answer: _Answer | None) -> None:
        """Show what was stored since the last look, and the answer in its place."""
        try:
            news = self._follower.news()
        except BaseException:
            _show_alone(answer)
            raise
        for note in news.notes:
            say(note)
        for message in news.messages:
            own = answer is not None and answer.holds(message, news.version.birth)
            if not own:
                _show(said_message(message, "elsewhere"))
            elif message.type == "ai":
                _show(said_message(message))
                answer = None
        _show_alone(answer)

    def _turn(self, text: str) -> _Answer | None:
        self._turns += 1
        report = TurnReport()
        try:
            answer = _Answer(self._model(text, report=report, **self._ids), report.version)
        except InvalidMessage as error:
            self._unsaved += 1
            say(f"not sent: {one_line(error)}")
            return None
        if report.error is not None:
            answer = self._settled(answer.text, report.error)
            self._unsaved += answer.trouble is not None
        return answer

    def _settled(self, text: str, error: HistoryNotSaved) -> _Answer:
        """The answer of a turn that was not saved, or of which nobody knows yet."""
        if error.append_id is None:
            return _Answer(text, None, f"not stored: {one_line(error.error)}")
        try:
            version = self._history.settle(error.append_id)
        except MemoryRedisError:
            return _Answer(text, None, "it may or may not be stored: the server did not answer")
        return _Answer(text, version, None if version else "not stored: the server did not answer")


def _show_alone(answer: _Answer | None) -> None:
    """Show an answer that stands nowhere in the conversation, and why."""
    if answer is not None:
        _show(said("ai", answer.text))
        if answer.trouble is not None:
            say(answer.trouble)


def _show(text: str) -> None:
    print(folded(text) if sys.stdout.isatty() else text, flush=True)


def _typed() -> str | None:
    """A line from the terminal; None at its end, or when the user has enough."""
    try:
        if sys.stdout.isatty():
            return input(PROMPT)
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = _read()
    except (EOFError, KeyboardInterrupt):
        line = None
    if line is None:
        print(file=sys.stderr, flush=True)  # what the shell says next begins a line of its own
    return line


def _read() -> str | None:
    """A line from standard input, None at its end."""
    line = "" if sys.stdin is None else sys.stdin.readline()
    return line.removesuffix("\n").removesuffix("\r") if line else None
