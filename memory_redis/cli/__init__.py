"""The command line ``memory-redis``: talk, show, erase, say when a conversation ends, and the demonstration.

It is plugged in from outside, and works with what every user of the library has. Nothing here is
imported by the library itself.
"""

import sys
from collections.abc import Sequence

from memory_redis.wording import needs_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process.

    0 done, 1 failed or an anomaly was found, 2 the call itself is wrong, 3 the server cannot be
    reached or refuses us (a password, a permission, a replica, full, too old, any other refusal), 130
    interrupted. Errors are one line on standard error.
    """
    # Imported late: worker processes of the demo import this package again and need none of it.
    try:
        from memory_redis.cli.app import run
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"typer", "rich"}:
            raise
        print(f"memory-redis: {needs_extra('the command line', 'cli')}", file=sys.stderr)
        return 2
    return run(arguments)
