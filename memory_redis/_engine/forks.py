"""What a forked child must not share with its parent is made anew before the child does anything."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that holds connections or locks."""

    def after_fork(self) -> None:
        """Forget the parent's connections without touching them, and make new locks.

        Called in the child while it has one thread.
        """
        ...


_things: weakref.WeakSet[Forked] = weakref.WeakSet()


def renew_in_children(thing: Forked) -> None:
    """See that `after_fork` of this thing is called in every child."""
    _things.add(thing)


def _renew() -> None:
    for thing in list(_things):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
