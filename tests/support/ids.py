"""Names of test cases."""

from __future__ import annotations

import re


def shown(value: object) -> str:
    """A value's repr without addresses: two processes that share a run have to call a case the same."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
