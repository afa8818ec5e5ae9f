"""The commands. Each opens a memory, asks it, and prints what `shown` and `demo` make of it."""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated

import typer
from redis.exceptions import RedisError
from rich.console import Console

from memory_redis import LastMessages, MemoryRedisError, RedisMemory
from memory_redis.cli.arguments import (
    Conversation,
    Globals,
    Json,
    Namespace,
    Session,
    Url,
    User,
    UserOrSession,
    given,
    opened,
)
from memory_redis.cli.chat import Chat
from memory_redis.cli.ends import change_of, pin, unpin
from memory_redis.cli.meant import DEFAULT_CONVERSATION, DEFAULT_USER, by_arguments, by_options
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
from memory_redis.cli.server import announced_url, url_of
from memory_redis.cli.shown import (
    conversation_json,
    conversation_table,
    message_json,
    message_table,
    summary_json,
)
from memory_redis.cli.window_text import WINDOW_HELP, window_of
from memory_redis.wording import counted, needs_extra

__all__ = ["run"]

NAME = "memory-redis"
DEMO_CONVERSATIONS = "1000"
CHAT_WINDOW = "last:20"

app = typer.Typer(
    name=NAME,
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The command group, for tests and for tools that read it; `run` is how it is called."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no such character
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # bytes that are no text
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
    context.obj = Globals(url, namespace)


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
        raise CommandError(needs_extra("the demo", "demo"), USAGE) from None
    options = given(context, url, namespace)
    prefix = "demo-" if options.namespace is None else f"{options.namespace}-demo-"
    if not show_demo(announced_url(options.url), prefix, drawn, workers, seed):
        raise CommandError("the check found what must not be: see the table")


@app.command("ls")
def list_conversations(
    context: typer.Context, user: User, as_json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """List a user's conversations, the one that was active last on top.

    Sessions, which are conversations without a user, are in no list.
    """
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
    user: UserOrSession = None,
    conversation: Conversation = None,
    session: Session = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=0, show_default=False, help="Only the newest N messages.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="W", show_default=False, help=f"Only what a model with this window sees: {WINDOW_HELP}"
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show a conversation, oldest message first.

    If older messages were put into a summary, it stands in front, with the type summary and no number.
    """
    if last is not None and window is not None:
        raise CommandError("give --last or --window, not both", USAGE)
    meant = by_arguments(user, conversation, session)
    found = LastMessages(last) if last is not None else None if window is None else window_of(window)
    corrupt: list[int] = []
    with _memory(context, url, namespace, corrupt) as memory:
        history = meant.history(memory)
        snapshot = history.load(LastMessages(0) if found is None else found)
        nothing = not snapshot.messages and snapshot.summary is None and not snapshot.skipped
        if nothing and not history.exists():
            raise meant.absent()
        messages = history.iterate() if found is None else iter(snapshot.messages)
        if as_json:
            if snapshot.summary is not None:
                print(summary_json(snapshot.summary))
            for message in messages:
                print(message_json(message))
        elif nothing and found is not None:
            print(f"nothing of {meant} is in this window")
        else:
            _output().print(message_table(messages, snapshot.summary))
    if corrupt:
        number = sum(corrupt)
        verb = "is" if number == 1 else "are"
        raise CommandError(f"{counted(number, 'record')} cannot be read and {verb} left out")


@app.command()
def chat(
    context: typer.Context,
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", show_default=False, help=f"User id. Default: {DEFAULT_USER}."),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            metavar="CONVERSATION",
            show_default=False,
            help=f"Conversation id. Default: {DEFAULT_CONVERSATION}.",
        ),
    ] = None,
    session: Session = None,
    window: Annotated[
        str, typer.Option(metavar="W", help=f"What the model sees: {WINDOW_HELP}")
    ] = CHAT_WINDOW,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Chat with an echo; several terminals may share it.

    Each line, from a terminal or a pipe, is a message. Its answer says how many messages the model saw, and
    is stored together with it. What others have stored in the conversation meanwhile is shown before each
    prompt; an empty line is no message and looks for that. Ctrl-D and Ctrl-C end the chat.
    """
    meant, seen = by_options(user, conversation, session), window_of(window)
    options = given(context, url, namespace)
    place, server = url_of(options.url)
    with opened(place, options.namespace) as memory:
        Chat(memory, meant, seen, server).run()


@app.command("expire")
def expire_conversation(
    context: typer.Context,
    user: UserOrSession = None,
    conversation: Conversation = None,
    session: Session = None,
    rest: Annotated[
        str | None,
        typer.Option("--in", metavar="2h", show_default=False, help="So long from now (s, m, h, d, w)."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT", show_default=False, help="At an instant, such as 2027-01-31T12:00:00+00:00."
        ),
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="2h", show_default=False, help="So long after the last message; each one renews it."
        ),
    ] = None,
    default: Annotated[
        bool,
        typer.Option(
            "--default", help="By the policy of the program that stores the next message, as before."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Set when a conversation ends.

    One of --in, --at, --idle and --default is given. It counts for every program that uses the conversation,
    whatever its own policy, until it is set again. The clock is the server's.
    """
    meant, change = by_arguments(user, conversation, session), change_of(rest, at, idle, default)
    with _memory(context, url, namespace) as memory:
        print(change(memory, meant))


@app.command("pin")
def pin_conversation(
    context: typer.Context,
    user: UserOrSession = None,
    conversation: Conversation = None,
    session: Session = None,
    undo: Annotated[bool, typer.Option("--undo", help="As expire --default.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Keep a conversation, so that it does not end by itself.

    It counts for every program that uses the conversation, whatever its own policy, until it is undone.
    """
    meant = by_arguments(user, conversation, session)
    with _memory(context, url, namespace) as memory:
        print((unpin if undo else pin)(memory, meant))


@app.command()
def forget(
    context: typer.Context,
    user: User,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Erase every conversation of a user.

    Sessions, which are conversations without a user, are in no list and stay.
    """
    with _memory(context, url, namespace) as memory:
        if not yes:
            number = sum(1 for _ in memory.conversations(user))
            if not _confirmed(f"Erase {counted(number, 'conversation')} of {safe_id(user)}?"):
                raise CommandError("nothing was erased")
        gone = memory.forget(user)
        conversations = counted(gone.conversations, "conversation")
        print(f"erased {conversations} with {counted(gone.messages, 'message')}")


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


def _memory(
    context: typer.Context, url: str | None, namespace: str | None, corrupt: list[int] | None = None
) -> RedisMemory:
    options = given(context, url, namespace)
    return opened(announced_url(options.url), options.namespace, corrupt)


def _output() -> Console:
    return Console(highlight=False, markup=False, emoji=False)
