"""The README's table of what each strategy shows, and when, is what a server gives."""

from __future__ import annotations

from tests.support.rows import ROOT
from tests.support.servers import Server
from tests.support.timeline import table

SECTION = (ROOT / "README.md").read_text().partition("## Memory strategies\n")[2].partition("\n## ")[0]
SHOWN = SECTION.partition("```text\n")[2].partition("\n```")[0].splitlines()


def test_the_table_in_the_readme_is_what_loads_show(valkey: Server, namespace: str) -> None:
    """One line for each strategy, window, retention and expiry: `python -m tests.support.timeline`."""
    assert table(valkey.url, namespace) == SHOWN


def test_the_table_can_be_read_on_a_narrow_screen() -> None:
    """No line has more than 120 columns."""
    assert max(map(len, SHOWN)) <= 120
