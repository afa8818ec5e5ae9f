"""Every window of any conversation, against a rule that is written out here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_
from typing import Any
from zlib import crc32

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from memory_redis import (
    APPROXIMATE,
    BYTES_4,
    BYTES_4_PLUS_1,
    AllMessages,
    History,
    LastMessages,
    LastTurns,
    RecordError,
    RedisMemory,
    Since,
    StoredMessage,
    TokenBudget,
    TokenCounter,
    Window,
    ai,
    chat,
    function,
    human,
    system,
    tool,
)
from memory_redis._engine import ranges, reading
from tests.scenarios.stored import Names, call, orphans
from tests.support.servers import Server
from tests.unit.strategies import examples

Count = Callable[[StoredMessage], int]

# -- the rule ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A window as its limits; None is no limit."""

    messages: int | None
    turns: int | None
    tokens: int | None
    seconds: int | None
    text_bytes: int | None
    counter: int
    keep_system: bool
    start_on: Any
    oldest: bool

    @property
    def window(self) -> Window:
        """The window itself; each limit is a window of its own, the common keywords stand on the last one."""
        common: dict[str, Any] = {"keep_system": self.keep_system, "max_bytes": self.text_bytes}
        if self.oldest:
            return TokenBudget(self.tokens or 0, COUNTERS[self.counter][0], oldest=True, **common)
        parts: list[Callable[..., Window]] = []
        if self.seconds is not None:
            parts.append(lambda **more: Since(self.seconds, **more))
        if self.messages is not None:
            parts.append(lambda **more: LastMessages(self.messages or 0, **more))
        if self.turns is not None:
            parts.append(lambda **more: LastTurns(self.turns or 0, **more))
        if self.tokens is not None:
            parts.append(lambda **more: TokenBudget(self.tokens or 0, COUNTERS[self.counter][0], **more))
        *others, last = parts or [AllMessages]
        return reduce(and_, [*(part() for part in others), last(**common, start_on=self.start_on)])

    @property
    def limits_nothing(self) -> bool:
        """Whether it is `AllMessages()`."""
        return self.window == AllMessages()

    def fits(self, shown: Sequence[StoredMessage]) -> bool:
        """Whether messages are within the limits of number, tokens and bytes."""
        rule = COUNTERS[self.counter][1]
        sums = len(shown), sum(map(rule, shown)), sum(len(message.text.encode()) for message in shown)
        limits = self.messages, self.tokens, self.text_bytes
        return all(limit is None or value <= limit for value, limit in zip(sums, limits, strict=True))


def words(message: StoredMessage) -> int:
    """A token each."""
    return len(message.text.split())


def costly_calls(message: StoredMessage) -> int:
    """What a call costs has nothing to do with its text; an answer without calls costs nothing."""
    return 5 * len(message.tool_calls)


def characters(message: StoredMessage) -> int:
    """A token each."""
    return len(message.text)


COUNTERS: list[tuple[Any, Count]] = [
    (TokenCounter("words", words), words),
    (TokenCounter("costly calls", costly_calls), costly_calls),
    (BYTES_4, lambda message: max(len(message.text.encode()) // 4, 1)),
    (BYTES_4_PLUS_1, lambda message: len(message.text.encode()) // 4 + 1),
    (APPROXIMATE, APPROXIMATE),
    (characters, characters),
]
WORDS = COUNTERS[0][0]


@dataclass(frozen=True)
class Item:
    """A record as it stands in the list: its message, how many seconds old it is, and what is done to it."""

    message: StoredMessage
    age: int
    done: str


def expected(items: Sequence[Item], asked: Asked) -> list[int]:
    """The places of the items that a window shows. What cannot be read is as if it were not there."""
    sound = [at for at, item in enumerate(items) if item.done in ("", "foreign")]
    messages = [items[at].message for at in sound]
    if asked.limits_nothing:
        return sound
    front = bool(items) and items[0].done in ("", "foreign") and items[0].message.type == "system"
    kept = [0] if asked.keep_system and front and asked.fits(messages[:1]) else []
    if asked.oldest:
        shown = from_the_front(messages, asked, left_out=asked.keep_system and front and not kept)
    else:
        shown = kept + from_the_end(items, sound, messages, asked, kept)
    return [sound[at] for at in shown]


def from_the_end(
    items: Sequence[Item], sound: list[int], messages: list[StoredMessage], asked: Asked, kept: list[int]
) -> list[int]:
    """The longest row of the newest that all limits allow, from `start_on` on, without results alone."""
    kinds = [message.type for message in messages]
    begins = [
        at for at, kind in enumerate(kinds) if kind == "human" and (at == 0 or kinds[at - 1] != "human")
    ]
    start = len(kept)
    if asked.turns is not None and len(begins) >= asked.turns:
        start = max(start, begins[-asked.turns] if asked.turns else len(messages))
    for at, place in enumerate(sound):
        timed = items[place].done != "foreign"
        if asked.seconds is not None and timed and items[place].age > asked.seconds:
            start = max(start, at + 1)
    while not asked.fits([messages[at] for at in kept] + messages[start:]):
        start += 1
    if asked.start_on in kinds[start:]:
        start = kinds.index(asked.start_on, start)
    return answers_alone_removed(messages, list(range(start, len(messages))))


def from_the_front(messages: list[StoredMessage], asked: Asked, left_out: bool) -> list[int]:
    """The longest row of the oldest, without calls that it does not answer and results of none."""
    start = end = int(left_out)
    while end < len(messages) and asked.fits(messages[start : end + 1]):
        end += 1
    row = list(range(start, end))
    if end < len(messages):
        answered: dict[int, set[str]] = {at: set() for at in row}
        caller: dict[str, int] = {}
        belongs: dict[int, int] = {}
        for at in row:
            caller.update(dict.fromkeys(made(messages[at]), at))
            for name in answering(messages[at]) & set(caller):
                answered[caller[name]].add(name)
                belongs[at] = caller[name]
        open_calls = {at for at in row if answered[at] != made(messages[at])}
        row = [at for at in row if at not in open_calls and belongs.get(at) not in open_calls]
    return answers_alone_removed(messages, row)


def answers_alone_removed(messages: list[StoredMessage], row: list[int]) -> list[int]:
    """The places without those of results whose call is not among the places before them."""
    called: set[str] = set()
    left: list[int] = []
    for at in row:
        if answering(messages[at]) <= called:
            left.append(at)
        called |= made(messages[at])
    return left


def made(message: StoredMessage) -> set[str]:
    """The calls that a message makes."""
    if message.type != "ai":
        return set()
    asked = message.data.get("additional_kwargs", {}).get("function_call", {})
    return {one["id"] for one in message.tool_calls} | ({asked["name"]} if asked else set())


def answering(message: StoredMessage) -> set[str]:
    """The call that a message answers."""
    if message.type == "tool":
        return {message.data["tool_call_id"]}
    return {message.name or ""} if message.type == "function" else set()


# -- conversations and windows -------------------------------------------------------------------

_texts = st.sampled_from(["", "x", "four", "éé ü", "\U0001f600 \U0001f600", "a longer text of seven words"])
_ids = st.sampled_from("abc")
_messages: st.SearchStrategy[StoredMessage] = st.one_of(
    _texts.map(human),
    _texts.map(human),
    _texts.map(ai),
    _texts.map(system),
    st.builds(
        lambda ids, text: call(*ids, text=text), st.lists(_ids, min_size=1, max_size=3, unique=True), _texts
    ),
    st.builds(lambda name, text: tool(text, tool_call_id=name), _ids, _texts),
    st.builds(lambda name, text: tool(text, tool_call_id=name), _ids, _texts),
    _texts.map(lambda text: ai(text, additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})),
    _texts.map(lambda text: function(text, name="f")),
    _texts.map(lambda text: chat(text, role="critic", name="ann")),
)
TELLTALE = ("another header", "another body", "no map")
"""Damage that leaves a header which the server reads."""
DAMAGE = (*TELLTALE, "rubbish", "cut short", "of the future", "blank")
_ages = st.sampled_from([0, 0, 0, 50, 150, 400])
_sound = st.builds(Item, _messages, _ages, st.just(""))
_telltale = st.builds(Item, _messages, _ages, st.sampled_from([*[""] * 9, *TELLTALE]))
_any = st.builds(Item, _messages, _ages, st.sampled_from([*[""] * 10, *["foreign"] * 2, *DAMAGE]))
_begin = st.builds(Item, st.just(system("be kind")), _ages, st.sampled_from(["", "", "", *DAMAGE]))
_conversations = st.builds(
    lambda begin, items: [*begin, *items],
    st.lists(_begin, max_size=1),
    st.one_of(*(st.lists(items, max_size=14) for items in (_sound, _telltale, _any))),
)


def _limit(most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.none() | st.integers(0, most)


_asked = st.builds(
    Asked,
    messages=_limit(9),
    turns=_limit(4),
    tokens=_limit(60),
    seconds=st.sampled_from([None, None, 100, 300]),
    text_bytes=_limit(60),
    counter=st.integers(0, len(COUNTERS) - 1),
    keep_system=st.booleans(),
    start_on=st.sampled_from([None, None, "human", "ai", "system", "chat"]),
    oldest=st.just(False),
) | st.builds(
    Asked,
    messages=st.none(),
    turns=st.none(),
    tokens=st.integers(0, 60),
    seconds=st.none(),
    text_bytes=_limit(60),
    counter=st.integers(0, len(COUNTERS) - 1),
    keep_system=st.booleans(),
    start_on=st.none(),
    oldest=st.just(True),
)


def rewritten(record: bytes, item: Item, now_ms: int) -> bytes:
    """A record as it was appended, made as old as the item says, and damaged as it says."""
    packed, done = record[:1] == b"\x01", item.done
    stamp = now_ms - item.age * 1000
    if packed:
        record = record[:1] + stamp.to_bytes(6) + record[7:]
    else:
        record = re.sub(rb'"stored_at":\d+', b'"stored_at":%d' % stamp, record, count=1)
    if done == "foreign":
        return json.dumps({"type": item.message.type, "data": dict(item.message.data)}).encode()
    if done == "rubbish":
        return b"\xff\xfe rubbish"
    if done == "blank":
        return b""
    if done == "cut short":
        return record[:20]
    if done == "of the future":
        return b"\x02" + record[1:]
    if done == "another body" or (done and not packed):
        return record[:-1] + b"\x00"
    if done == "another header":  # of another type, and all sizes are great
        return record[:17] + bytes([record[17] % 6 + 1]) + record[18:21] + b"\xff" * 7 + record[28:]
    if done == "no map":  # as somebody writes it who knows the checksum
        checked = record[17:18] + bytes([record[18] & 3]) + record[19:36] + b"\xc1"
        return record[:13] + crc32(checked).to_bytes(4) + checked
    return record


def strictly(history: History, window: Window) -> list[tuple[int | None, Any]] | int:
    """Places and data of what a window shows with `on_corrupt="raise"`; or the place that the error names."""
    try:
        return [(message.seq, message.data) for message in history.load(window).messages]
    except RecordError as error:
        return error.position


# -- the property --------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [False, True], ids=["as it is", "small pages"])
def test_every_window_of_every_conversation_shows_what_the_rule_says(
    server: Server | None,
    url: str,
    namespace: str,
    raw: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    small: bool,
) -> None:
    """R118, R119, F10, F13 to F15, F18, F20, decisions 13, 21, 22: each kind of window and their
    combinations, with each counter, over records of both codecs, of LangChain and damaged ones.

    With `on_corrupt="skip"` the answer is that of the rule above. With `"raise"` it is the same or an
    error. Nothing that is stored changes.
    """
    if small:  # so that what is read in several steps elsewhere is here too
        monkeypatch.setattr(reading, "_FIRST_TAIL", 1)
        for module in (reading, ranges):
            monkeypatch.setattr(module, "PAGE", 4)
        monkeypatch.setattr(ranges, "FIRST", 2)
    numbers = count()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(RedisMemory.from_url(url, namespace=namespace, hooks=(), **options))
            for options in ({"counter": WORDS}, {"window": TokenBudget(1)}, {"codec": "json"})
        ]

        @given(
            items=_conversations,
            windows=st.lists(_asked, min_size=4, max_size=8),
            codecs=st.sampled_from([(0, 0), (0, 0), (1, 1), (0, 1), (0, 2), (2, 0), (2, 2)]),
            split=st.integers(0, 15),
        )
        @examples(200 if server is not None and server.version.startswith("Valkey") else 40)
        def check(items: list[Item], windows: list[Asked], codecs: tuple[int, int], split: int) -> None:
            conversation = f"c{next(numbers)}"
            keys = Names.of(namespace, conversation=conversation)
            for writer, part in zip(codecs, (items[:split], items[split:]), strict=True):
                if part:
                    writers[writer].history("ann", conversation).append(*(item.message for item in part))
            seconds, _ = raw.time()
            records = raw.lrange(keys.messages, 0, -1)
            with raw.pipeline(transaction=False) as pipeline:
                for at, (record, item) in enumerate(zip(records, items, strict=True)):
                    pipeline.lset(keys.messages, at, rewritten(record, item, seconds * 1000))
                pipeline.execute()
            stored = raw.lrange(keys.messages, 0, -1), raw.hgetall(keys.meta)
            history = writers[codecs[0]].history("ann", conversation)
            for asked in windows:
                window, answer = asked.window, expected(items, asked)
                messages = history.load(window, on_corrupt="skip").messages
                assert [message.seq for message in messages] == answer, window
                assert messages == [items[at].message for at in answer]
                if not asked.limits_nothing:
                    assert asked.fits(messages)
                    assert orphans(messages) == []
                strict = strictly(history, window)
                if isinstance(strict, int):
                    assert items[strict].done in DAMAGE
                else:
                    assert strict == list(zip(answer, (message.data for message in messages), strict=True))
                    places = answer[1:] if asked.keep_system and answer[:1] == [0] else answer
                    if places:
                        seen = items[: places[-1]] if asked.oldest else items[places[0] :]
                        assert not any(item.done in DAMAGE for item in seen)
            assert (raw.lrange(keys.messages, 0, -1), raw.hgetall(keys.meta)) == stored

        check()
