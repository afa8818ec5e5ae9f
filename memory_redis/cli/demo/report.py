"""The demonstration on the screen: progress on standard error, the result as a table."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from memory_redis.cli.demo.plan import Conversation
from memory_redis.cli.demo.replay import NOISE_WRITERS
from memory_redis.cli.demo.run import Outcome, demonstrate
from memory_redis.cli.demo.vanish import SECONDS
from memory_redis.cli.server import shareable_url, shown_url
from memory_redis.wording import counted, plural

__all__ = ["ProgressScreen", "outcome_table", "show_demo"]

UNITS = {"replay": "message", "check": "conversation", "erase": "user"}


def show_demo(url: str, prefix: str, conversations: Sequence[Conversation], workers: int, seed: int) -> bool:
    """Run the demonstration, show its progress and its table; True when no anomaly was found."""
    screen = ProgressScreen(Console(stderr=True, highlight=False))
    with shareable_url(url) as reachable:
        outcome = demonstrate(reachable, prefix, conversations, workers, seed, screen)
    Console(highlight=False).print(outcome_table(outcome, shown_url(url), workers))
    return outcome.clean


class ProgressScreen:
    """Progress bars, one for each phase; where standard error is no terminal, a line when one is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while the block runs; the function given moves it on."""
        bar = Progress(
            TextColumn(f"{name:<8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(plural(total, UNITS[name]) if name in UNITS else ""),
            TimeElapsedColumn(),
            console=self._console,
        )
        with bar:
            task = bar.add_task(name, total=total)
            yield lambda steps: bar.advance(task, steps)


def outcome_table(outcome: Outcome, url: str, workers: int) -> Table:
    """The table of everything that was measured and checked. `url` is shown as it is given."""
    heard, tally, sizes, left = outcome.replayed, outcome.tally, outcome.sizes, outcome.leftovers
    stored = max(tally.messages + tally.noise, 1)
    table = Table(show_header=False, title="memory-redis demo", title_justify="left")
    table.add_column(style="bold")
    table.add_column()

    def row(name: str, value: str, good: bool | None = None) -> None:
        style = "" if good is None else "green" if good else "bold red"
        table.add_row(name, Text(value, style=style))

    row("server", f"{outcome.server} ({url})")
    row("conversations", f"{outcome.conversations:,}")
    row("messages", f"{tally.messages:,} in {counted(outcome.turns, 'turn')}")
    row("noise messages", f"{tally.noise:,} by {NOISE_WRITERS} other writers")
    row("workers", f"{workers}; {heard.killed} killed by SIGKILL and replaced")
    row("appends per second", f"{heard.appends / max(heard.seconds, 1e-9):,.0f}, a load before each turn")
    row("repeats recognised", f"{heard.repeats} of {heard.unknown} left unknown", heard.repeats > 0)
    row("conflicts", f"{heard.conflicts:,}, each tried again")
    row(
        "bytes per message",
        f"{(sizes.messages + sizes.meta) / stored:.0f} "
        f"({sizes.messages / stored:.0f} message, {sizes.meta / stored:.0f} meta)",
    )
    row(
        "lost / doubled / out of order",
        f"{tally.lost} / {tally.doubled} / {tally.out_of_order}",
        not (tally.lost or tally.doubled or tally.out_of_order),
    )
    row(
        "torn turns / foreign / wrong views",
        f"{tally.torn} / {tally.foreign} / {heard.wrong_views}",
        not (tally.torn or tally.foreign or heard.wrong_views),
    )
    gone = outcome.vanished
    row(
        f"a conversation of {SECONDS} seconds",
        f"{counted(gone.before, 'key')}, {gone.after} after {gone.seconds:.1f} s",
        gone.clean,
    )
    erased = counted(left.erased, "conversation")
    row("erased", f"{erased}, {counted(left.keys, 'key')} left", not left.keys)
    row("tombstones, without content", f"{left.tombstones:,}, gone within {left.longest:.0f} s")
    return table
