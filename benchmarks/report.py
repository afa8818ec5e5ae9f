"""What a benchmark found: tables, goals with their verdicts, JSON, and the results part of the README."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from races import Quartiles, Race

README = Path(__file__).with_name("README.md")
BEGIN = "<!-- results: written by report.py -->"
END = "<!-- end of results -->"


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to print: every cell is text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @classmethod
    def of(cls, race: Race) -> Table:
        """The table of a race: times in microseconds, ratios to the first contender."""
        first = next(iter(race.times))
        return cls(
            title=race.title,
            columns=("contender", "p50 us", "p99 us", f"ratio to {first}", "quartiles", "client CPU us"),
            rows=tuple(
                (
                    row.name,
                    figure(row.p50),
                    figure(row.p99),
                    f"{row.ratio.median:.2f}",
                    f"{row.ratio.low:.2f}-{row.ratio.high:.2f}",
                    figure(row.cpu),
                )
                for row in race.rows()
            ),
            note=f"{race.rounds} rounds x {race.operations} operations",
        )

    def text(self) -> str:
        """The table for a terminal; it is Markdown too."""
        cells = list(zip(self.columns, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in cells]
        right = [all(cell[:1].isdigit() or cell == "-" for cell in column[1:]) for column in cells]
        rule = ["-" * (width - 1) + (":" if r else "-") for width, r in zip(widths, right, strict=True)]
        lines = [f"### {self.title}", ""]
        lines += [_line(row, widths, right) for row in (self.columns, rule, *self.rows)]
        if self.note:
            lines += ["", f"({self.note})"]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must stay at or below a bound."""

    text: str
    value: float
    at_most: float
    checked: bool = True
    """False: named for the reader, never a reason to fail."""

    @property
    def met(self) -> bool:
        """Whether the figure, rounded as it is printed, is within the bound."""
        return round(self.value, 2) <= self.at_most

    def line(self) -> str:
        """One line: verdict, text, figure and bound."""
        verdict = "met" if self.met else "MISSED" if self.checked else "not yet"
        return f"{verdict:<7} {self.text}: {self.value:.2f} (goal <= {self.at_most:g})"


@dataclass(slots=True)
class Report:
    """All that one benchmark found, with the machine it ran on."""

    name: str
    command: str
    environment: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    seconds: float = 0.0

    def missed(self) -> list[Goal]:
        """The checked goals that were not met."""
        return [goal for goal in self.goals if goal.checked and not goal.met]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data; of a race the per-round figures too, so that it can be re-judged."""
        return {
            "name": self.name,
            "command": self.command,
            "environment": self.environment,
            "seconds": round(self.seconds, 1),
            "tables": [asdict(table) for table in self.tables],
            "goals": [asdict(goal) | {"met": goal.met} for goal in self.goals],
            "races": [_race_as_json(race) for race in self.races],
        }

    def write(self, path: Path) -> None:
        """Write the JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n")


def figure(value: float) -> str:
    """A time or size with three significant digits or all of its whole ones."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    shown = (
        cell.rjust(width) if to_the_right else cell.ljust(width)
        for cell, width, to_the_right in zip(cells, widths, right, strict=True)
    )
    return "| " + " | ".join(shown) + " |"


def _race_as_json(race: Race) -> dict[str, Any]:
    def quartiles(of: Quartiles) -> list[float]:
        return [round(of.low, 3), round(of.median, 3), round(of.high, 3)]

    return {
        "title": race.title,
        "rounds": race.rounds,
        "operations": race.operations,
        "contenders": {
            row.name: {
                "p50_us": round(row.p50, 2),
                "p99_us": round(row.p99, 2),
                "cpu_us": round(row.cpu, 2),
                "ratio_quartiles": quartiles(row.ratio),
                "us_per_round": [round(value, 2) for value in race.times[row.name].per_round],
            }
            for row in race.rows()
        },
    }


def _markdown(found: dict[str, Any]) -> str:
    where = found["environment"]
    lines = [f"## {found['name']}", "", f"`{found['command']}`, {found['seconds']} s.", ""]
    lines.append("; ".join(f"{key} {value}" for key, value in where.items()) + ".")
    lines.append("")
    for goal in found["goals"]:
        fields = {key: goal[key] for key in ("text", "value", "at_most", "checked")}
        lines.append(f"- {Goal(**fields).line()}")
    for table in found["tables"]:
        columns, rows = tuple(table["columns"]), tuple(tuple(row) for row in table["rows"])
        lines += ["", Table(table["title"], columns, rows, table["note"]).text()]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the results part of README.md from the JSON files of runs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="JSON files written by --json")
    options = parser.parse_args(argv)
    results = "\n\n".join(_markdown(json.loads(path.read_text())) for path in options.files)
    readme = README.read_text()
    if BEGIN not in readme or END not in readme:
        print(f"{README.name} has no place for results", file=sys.stderr)
        return 1
    head, _, rest = readme.partition(BEGIN)
    tail = rest.partition(END)[2]
    README.write_text(f"{head}{BEGIN}\n\n{results}\n\n{END}{tail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
