"""Words that many sentences for people share: numbers with their nouns, and what is to be installed."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """The noun as it stands behind a number: `message`, or `messages`."""
    return noun if number == 1 else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """A number and its noun: `1 message`, `1,000 messages`."""
    return f"{number:,} {plural(number, noun)}"


def needs_extra(what: str, extra: str) -> str:
    """What needs an extra that is not installed, and how to install that."""
    return f"{what} needs the extra \"{extra}\": pip install '.[{extra}]' in a clone of the project"
