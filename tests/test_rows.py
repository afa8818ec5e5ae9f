"""Every row that must be there has a test that names it: `python -m tests.support.rows` shows which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import rows


def test_every_required_row_is_named_by_a_test() -> None:
    """Rows, traps and methods of a Runnable: none is left to belief."""
    absent = rows.missing()
    assert not absent, f"{len(absent)} without a test: {' '.join(absent)}"


def test_no_test_names_a_row_that_there_is_not() -> None:
    """An id with a slip of the pen proves nothing, so it is an error."""
    unknown = {name: tests for name, tests in rows.tests_by_id().items() if name not in rows.ALL}
    assert not unknown


def test_the_list_of_rows_is_whole() -> None:
    """The numbers have no gaps, no method stands twice, and no exception is made for what is not there."""
    numbers = [f"R{number}" for number in range(1, 122)] + [f"T{number}" for number in range(1, 27)]
    assert list(rows.ROWS) == numbers
    assert len(set(rows.METHODS)) == len(rows.METHODS)
    assert all(rows.ROWS.values())
    assert rows.LATER | set(rows.DECIDED_OTHERWISE) <= set(rows.ALL)
    assert not rows.LATER & set(rows.DECIDED_OTHERWISE)


def test_a_document_says_what_was_decided_otherwise() -> None:
    """Who leaves a row out says so to the users, in the words that are quoted here."""
    for name, (document, phrase) in rows.DECIDED_OTHERWISE.items():
        text = " ".join((rows.ROOT / document).read_text().split())
        assert phrase.strip(), name
        assert phrase in text, f"{name}: {document} does not say {phrase!r}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("R7: one", ["R7"]),
        ("R7, C03, T2: several", ["R7", "T2"]),
        ("R7 to R9: a range", ["R7", "R8", "R9"]),
        ("T8\u2013T10 and R1-R2, R3…4", ["T8", "T9", "T10", "R1", "R2", "R3", "R4"]),
        ("M:invoke, M:astream_events and M:__or__", ["M:invoke", "M:astream_events", "M:__or__"]),
        ("R12 T4, M:map.", ["R12", "T4", "M:map"]),
        ("UTF8, CR7, R1234, R7b and AM:PM", []),
        ("no id", []),
    ],
)
def test_ids_are_found_in_a_text(text: str, found: list[str]) -> None:
    """Alone, in a row or as a range, and not where a word only looks like one."""
    assert rows.ids_in(text) == found


def test_docstrings_of_tests_alone_count(tmp_path: Path) -> None:
    """Functions and methods that pytest would run; no helpers, modules, comments or other files."""
    (tmp_path / "test_one.py").write_text(
        '"""R1"""\n'
        'def test_a() -> None:\n    """R2"""\n    # R3\n'
        'async def test_b() -> None:\n    """R4"""\n    def test_inner() -> None:\n        """R5"""\n'
        'class TestIt:\n    """R6"""\n    def test_c(self) -> None:\n        """R7"""\n'
        'def helper() -> None:\n    """R8"""\n'
        "def test_d() -> None: ...\n"
    )
    (tmp_path / "other.py").write_text('def test_e() -> None:\n    """R9"""\n')
    assert [(name.partition("::")[2], text) for name, text in rows.docstrings(tmp_path)] == [
        ("test_a", "R2"),
        ("test_b", "R4"),
        ("test_d", ""),
        ("TestIt::test_c", "R7"),
    ]


def test_the_table_has_every_row() -> None:
    """What the command prints begins a line for each id, and marks as many as are missing."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.rows"],
        cwd=rows.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[:1] in set("RTM")] == list(rows.ALL)
    assert sum(line.endswith("  MISSING") for line in lines) == len(rows.missing())
