"""Tool calls and their results: which belong together, and what is left when a window cuts between them.

Results are paired with calls by `tool_call_id`, function results by the function's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from memory_redis.errors import InvalidSetting, UnansweredCall
from memory_redis.layouts import links_of
from memory_redis.messages import StoredMessage
from memory_redis.wording import counted

Unanswered = Literal["drop", "keep", "raise"]

Tie = tuple[int, bytes]
"""A message that calls a tool or answers a call: its place in a list, and its `layouts.links_of`."""


def check_unanswered(value: Unanswered) -> Unanswered:
    """The value, if it says what becomes of tool calls that nobody answered.

    Raises:
        InvalidSetting: it does not.
    """
    if value not in get_args(Unanswered):
        raise InvalidSetting('unanswered must be "drop", "keep" or "raise"')
    return value


def ties_of(messages: Sequence[StoredMessage]) -> list[Tie]:
    """The messages of a list that call a tool or answer a call."""
    linked = (
        (at, links_of(message.type, message.data))
        for at, message in enumerate(messages)
        if message.type not in ("human", "system")
    )
    return [(at, links) for at, links in linked if links]


def without_orphans(messages: list[StoredMessage], tied: Iterable[Tie]) -> list[StoredMessage]:
    """The messages without tool results whose call stands before the first of them."""
    called: set[bytes] = set()
    orphans: set[int] = set()
    for place, links in tied:
        if messages[place].type == "ai":
            called.update(_each(links))
        elif not called.issuperset(_each(links)):
            orphans.add(place)
    return [message for at, message in enumerate(messages) if at not in orphans] if orphans else messages


def without_unanswered(
    messages: Sequence[StoredMessage], new: Sequence[StoredMessage], unanswered: Unanswered
) -> list[StoredMessage]:
    """The messages without tool calls that neither they nor the new ones answer.

    A call and those results of it that there are go together.

    Args:
        unanswered: `"drop"` does that, `"keep"` nothing, `"raise"` raises where there is one.

    Raises:
        UnansweredCall: there is one.
    """
    if unanswered == "keep":
        return list(messages)
    waiting, answers = _exchanges([*messages, *new])
    left = {at for at in waiting if at < len(messages)}
    if left and unanswered == "raise":
        calls = "call" if len(left) > 1 else "calls"
        raise UnansweredCall(f"{counted(len(left), 'stored message')} {calls} tools that nobody answered")
    gone = left.union(*(answers.get(at, ()) for at in left))
    return [message for at, message in enumerate(messages) if at not in gone]


def safe_cut(messages: Sequence[StoredMessage], cut: int) -> int:
    """The place near `cut` where a list can be cut in two without parting a call from its results.

    That is at or after `cut`, behind the results of the calls before it; but before a call that may
    still be answered: one without its results, after which no human has spoken.
    """
    edge, spans = _spans(messages)
    for call, end in spans:
        if call < cut <= end:
            cut = end + 1
    return _whole_before(min(cut, edge), spans)


def last_safe_cut(messages: Sequence[StoredMessage], cut: int) -> int:
    """The last place up to `cut` where `safe_cut` would cut a list."""
    edge, spans = _spans(messages)
    return _whole_before(min(cut, edge), spans)


def _spans(messages: Sequence[StoredMessage]) -> tuple[int, list[tuple[int, int]]]:
    """The place of the first call that may still be answered; of each answered call and its last result."""
    waiting, answers = _exchanges(messages)
    last_human = max((at for at, message in enumerate(messages) if message.type == "human"), default=-1)
    edge = min((at for at in waiting if at > last_human), default=len(messages))
    return edge, sorted((call, max(found)) for call, found in answers.items())


def _whole_before(cut: int, spans: Sequence[tuple[int, int]]) -> int:
    """The last place up to `cut` that is inside no span."""
    for call, end in reversed(spans):
        if call < cut <= end:
            cut = call
    return cut


def _exchanges(messages: Sequence[StoredMessage]) -> tuple[set[int], dict[int, list[int]]]:
    """The places of calls that miss a result; and for each call the places of its results."""
    caller: dict[bytes, int] = {}
    waiting: dict[int, set[bytes]] = {}
    answers: dict[int, list[int]] = {}
    for at, tied in ties_of(messages):
        links = _each(tied)
        if messages[at].type == "ai":
            caller.update(dict.fromkeys(links, at))
            waiting[at] = set(links)
        for link in links if messages[at].type != "ai" else ():
            called = caller.get(link)
            if called is not None:
                waiting[called].discard(link)
                answers.setdefault(called, []).append(at)
    return {at for at, links in waiting.items() if links}, answers


def _each(links: bytes) -> list[bytes]:
    return [links[at : at + 4] for at in range(0, len(links), 4)]
