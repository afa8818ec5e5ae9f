"""The commands. Each opens a memory, asks it, and prints what `shown` and `demo` make of it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated

import typer
from redis.exceptions import RedisError
from rich.console import Console

from memory_redis import LastMessages, MemoryRedisError, RedisMemory
from memory_redis.cli.problems import (
    ANOMALY,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    CommandError,
    exit_code,
    one_line,
)
from memory_redis.cli.safe import safe_id
from memory_redis.cli.server import DEADLINE_SECONDS, announced_url
from memory_redis.cli.shown import conversation_json, conversation_table, message_json, message_table
from memory_redis.telemetry import Event

__all__ = ["run"]

NAME = "memory-redis"
DEFAULT_NAMESPACE = "memory"
DEMO_CONVERSATIONS = "1000"

app = typer.Typer(
    name=NAME,
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The command group, for tests and for tools that read it; `run` is how it is called."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        show_default=False,
        help="redis://, rediss://, unix:// or embedded://[path]. "
        "Default: MEMORY_REDIS_URL, else the embedded server.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", metavar="NAME", show_default=False, help="Prefix of all keys. Default: memory."
    ),
]
User = Annotated[str, typer.Argument(metavar="USER", help="User id.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")]


@dataclass(frozen=True, slots=True)
class _Globals:
    url: str | None
    namespace: str | None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no such character
    try:
        code: object = app(
            args=None if arguments is None else list(arguments), prog_name=NAME, standalone_mode=False
        )
        if code == INTERRUPTED:
            return _complain("interrupted", INTERRUPTED)
        return code if isinstance(code, int) else 0
    except (MemoryRedisError, CommandError) as error:
        return _complain(one_line(error), exit_code(error))
    except RedisError as error:  # of the plain client that the demo looks at keys with
        return _complain(one_line(error), UNREACHABLE)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; without this, Python complains when it flushes.
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115
        return ANOMALY
    except Exception as error:
        # What typer raises about a wrong call has moved between its releases; its shape has not.
        sentence = getattr(error, "format_message", None)
        if sentence is None:
            raise
        said = one_line(CommandError(sentence())).removesuffix(".")
        return _complain(f"{said} (see {NAME} --help)", USAGE)


def _complain(line: str, code: int) -> int:
    print(f"{NAME}: {line}", file=sys.stderr)
    return code


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    url: Url = None,
    namespace: Namespace = None,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    """Conversations that many chatbot workers share, kept in Redis."""
    if show_version:
        print(f"{NAME} {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
    context.obj = _Globals(url, namespace)


@app.command()
def demo(
    context: typer.Context,
    conversations: Annotated[
        str, typer.Option(metavar="N|all", help="How many conversations of the data set to replay.")
    ] = DEMO_CONVERSATIONS,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Processes that share them.")] = 4,
    seed: Annotated[int, typer.Option(metavar="N", help="Which conversations are drawn.")] = 0,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Replay real conversations through workers, kill one, check every message."""
    number = _number(conversations)
    try:
        from memory_redis.cli.demo.plan import read_conversations
        from memory_redis.cli.demo.report import show_demo

        drawn = read_conversations(number, seed)
    except ModuleNotFoundError as missing:
        if missing.name != "chitchat_dataset":
            raise
        raise CommandError(
            'the demo needs its data set, which is not installed: pip install "memory-redis[demo]"', USAGE
        ) from None
    options = _options(context, url, namespace)
    prefix = "demo-" if options.namespace is None else f"{options.namespace}-demo-"
    if not show_demo(announced_url(options.url), prefix, drawn, workers, seed):
        raise CommandError("the check found what must not be: see the table")


@app.command("ls")
def list_conversations(
    context: typer.Context, user: User, as_json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """List a user's conversations, the one that was active last on top."""
    with _memory(context, url, namespace) as memory:
        infos = memory.conversations(user)
        if as_json:
            for info in infos:
                print(conversation_json(info))
        else:
            _output().print(conversation_table(infos))


@app.command()
def show(
    context: typer.Context,
    user: User,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Conversation id.")],
    last: Annotated[
        int | None, typer.Option(metavar="N", min=0, show_default=False, help="Only the newest N messages.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show a conversation, oldest message first."""
    corrupt: list[int] = []
    with _memory(context, url, namespace, corrupt) as memory:
        history = memory.history(user, conversation)
        messages = history.iterate() if last is None else iter(history.load(LastMessages(last)).messages)
        if as_json:
            for message in messages:
                print(message_json(message))
        else:
            _output().print(message_table(messages))
    if corrupt:
        raise CommandError(f"{sum(corrupt):,} records cannot be read and are left out")


@app.command()
def forget(
    context: typer.Context,
    user: User,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Erase every conversation of a user."""
    with _memory(context, url, namespace) as memory:
        if not yes:
            number = sum(1 for _ in memory.conversations(user))
            if not _confirmed(f"Erase {number:,} conversations of {safe_id(user)}?"):
                raise CommandError("nothing was erased")
        gone = memory.forget(user)
        print(f"erased {gone.conversations:,} conversations with {gone.messages:,} messages")


def _version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "(not installed, run from its source)"


def _confirmed(question: str) -> bool:
    """Ask on standard error, so that standard output holds results only; no answer is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise CommandError(f"--conversations takes a number from 1 or all, not {text!r}", USAGE)
    return int(text)


def _options(context: typer.Context, url: str | None, namespace: str | None) -> _Globals:
    """The options of the command, which may stand before it and after it; after it they win."""
    before = context.obj if isinstance(context.obj, _Globals) else _Globals(None, None)
    return _Globals(before.url if url is None else url, before.namespace if namespace is None else namespace)


def _memory(
    context: typer.Context, url: str | None, namespace: str | None, corrupt: list[int] | None = None
) -> RedisMemory:
    """The memory of the options. `corrupt` takes the numbers of records that a read left out."""

    def note(event: Event) -> None:
        if event.kind == "corrupt" and corrupt is not None:
            corrupt.append(event.messages)

    options = _options(context, url, namespace)
    return RedisMemory.from_url(
        announced_url(options.url),
        namespace=DEFAULT_NAMESPACE if options.namespace is None else options.namespace,
        on_corrupt="skip",
        hooks=(note,),
        deadline=DEADLINE_SECONDS,
    )


def _output() -> Console:
    return Console(highlight=False, markup=False, emoji=False)
