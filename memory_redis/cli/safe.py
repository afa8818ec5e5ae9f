"""Text from the store made safe for a terminal: it is data, whatever it contains."""

import json
import math
import unicodedata
from typing import Any

# Joiners inside emoji and in several scripts; they draw nothing and move nothing.
_HARMLESS = {"\u200c", "\u200d"}
# Controls, direction overrides, lone surrogates, private use, unassigned, line and paragraph separators.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def safe_text(text: str) -> str:
    """The text with everything that could steer a terminal written as an escape, line breaks kept."""
    return _escaped(text, keep="\n\t")


def safe_id(text: str) -> str:
    """An id on one line: escapes as in `safe_text`, backslashes doubled so that no two ids look alike."""
    return _escaped(text.replace("\\", "\\\\"), keep="")


def safe_json(value: Any) -> str:
    """One line of JSON in plain ASCII. What JSON has no word for, such as bytes, becomes text."""
    try:
        line = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        line = json.dumps(_plain(value))
    return line.replace("\x7f", "\\u007f")  # DEL is ASCII, and json leaves it as it is


def _escaped(text: str, keep: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _drawn(c) else _escape(c) for c in text)


def _drawn(character: str) -> bool:
    return character in _HARMLESS or unicodedata.category(character) not in _UNSAFE


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)
