"""Waiting for another process, for so long and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable

from memory_redis.server.errors import ServerNotStarted

_PAUSE = 0.003  # seconds between two looks


class Patience:
    """A number of seconds to wait, which ends with an error."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def renew(self) -> None:
        """Begin to wait anew, because there is progress."""
        self._end = time.monotonic() + self._seconds

    def pause(self, complaint: Callable[[], str]) -> None:
        """Wait a moment.

        Raises:
            ServerNotStarted: there was time enough; `complaint()` says what did not happen.
        """
        if time.monotonic() >= self._end:
            raise ServerNotStarted(f"{complaint()}, after {self._seconds:g} s")
        time.sleep(_PAUSE)
