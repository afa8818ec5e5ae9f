"""The check: what is stored against what was said, message by message. No I/O."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

from memory_redis.cli.demo.plan import Conversation
from memory_redis.cli.demo.tasks import NOISE, noise_text

__all__ = ["Found", "Tally", "check_conversation", "compare"]


@dataclass(frozen=True, slots=True)
class Found:
    """A message as it was read back."""

    kind: str
    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of messages; all but the first two are anomalies.

    ``torn`` counts turns that another writer's message stands inside of, ``foreign`` messages that
    nobody sent, or that came back changed.
    """

    messages: int = 0
    noise: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    torn: int = 0
    foreign: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def clean(self) -> bool:
        """Whether there is no anomaly at all."""
        return not (self.lost or self.doubled or self.out_of_order or self.torn or self.foreign)


def check_conversation(conversation: Conversation, noise: Mapping[int, int], found: Iterable[Found]) -> Tally:
    """Hold one stored conversation against the data set and against what each noise writer sent.

    `noise` maps a writer to the number of messages it had acknowledged.
    """
    edges = set(accumulate((len(turn.texts) for turn in conversation.turns), initial=0))
    said: list[tuple[str, str]] = []
    others: defaultdict[int, list[str]] = defaultdict(list)
    torn: set[int] = set()
    for message in found:
        if message.name != NOISE:
            said.append((message.kind, message.text))
            continue
        others[_writer(message.text)].append(message.text)
        if len(said) not in edges:
            torn.add(len(said))
    tally = compare([(turn.kind, text) for turn in conversation.turns for text in turn.texts], said)
    tally += Tally(messages=len(said), torn=len(torn))
    for writer in {*noise, *others}:
        sent = [noise_text(writer, number) for number in range(noise.get(writer, 0))]
        tally += compare(sent, others[writer]) + Tally(noise=len(others[writer]))
    return tally


def compare(sent: Sequence[Hashable], found: Sequence[Hashable]) -> Tally:
    """What is missing, what is there too often, what nobody sent, and what stands in the wrong place.

    Texts repeat in real conversations ("ok", "ok"), so equal messages are counted, and the fewest
    messages that would have to move are called out of order.
    """
    if list(sent) == list(found):
        return Tally()
    want, have = Counter(sent), Counter(found)
    extra = have - want
    foreign = sum(number for message, number in extra.items() if message not in want)
    return Tally(
        lost=(want - have).total(),
        doubled=extra.total() - foreign,
        out_of_order=(want & have).total() - _longest_common(sent, found),
        foreign=foreign,
    )


def _longest_common(sent: Sequence[Hashable], found: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence (Hunt and Szymanski)."""
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, message in enumerate(sent):
        places[message].append(place)
    ends: list[int] = []  # ends[n]: the earliest place at which a common run of n + 1 can end
    for message in found:
        # Backwards, so that one message found cannot stand for two that were sent.
        for place in reversed(places.get(message, [])):
            at = bisect_left(ends, place)
            ends[at : at + 1] = [place]
    return len(ends)


def _writer(text: str) -> int:
    """The noise writer that a message is from, -1 where its text was never sent by one."""
    number = text.removeprefix("noise ").partition("/")[0]
    return int(number) if number.isascii() and number.isdigit() else -1
