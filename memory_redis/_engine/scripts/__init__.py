"""The Lua scripts beside this file, loaded once. Each has what it shares with others put before it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """A script by name, with its source and the hash that the server knows it by."""

    name: str
    source: bytes = field(repr=False)
    sha: bytes = field(repr=False)


def _load(name: str, *shared: str) -> Script:
    folder = files(__name__)
    parts = ("prelude", *shared, name)
    source = b"\n".join(folder.joinpath(f"{part}.lua").read_bytes() for part in parts)
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


APPEND = _load("append", "records", "trimming")
WINDOW = _load("window", "headers")
CLEAR = _load("clear")
SETTLE = _load("settle")
RENEW = _load("renew")
COMPACT = _load("compact", "records", "trimming")
CLAIM = _load("claim", "headers")
INDEX_TOUCH = _load("index_touch")
INDEX_PAGE = _load("index_page")
INDEX_DROP = _load("index_drop")

ALL = (APPEND, WINDOW, CLEAR, SETTLE, RENEW, COMPACT, CLAIM, INDEX_TOUCH, INDEX_PAGE, INDEX_DROP)
