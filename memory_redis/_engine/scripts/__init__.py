"""The Lua scripts beside this file, loaded once. Each gets the prelude put before it."""

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


def _load(name: str) -> Script:
    folder = files(__name__)
    source = b"\n".join(folder.joinpath(part).read_bytes() for part in ("prelude.lua", f"{name}.lua"))
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


APPEND = _load("append")
CLEAR = _load("clear")
SETTLE = _load("settle")
RENEW = _load("renew")
INDEX_TOUCH = _load("index_touch")
INDEX_PAGE = _load("index_page")
INDEX_DROP = _load("index_drop")

ALL = (APPEND, CLEAR, SETTLE, RENEW, INDEX_TOUCH, INDEX_PAGE, INDEX_DROP)
