"""The replay: every turn in its conversation's order, each by another worker, others writing too."""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memory_redis.cli.demo.crew import Crew, Worker
from memory_redis.cli.demo.plan import Conversation
from memory_redis.cli.demo.tasks import NoiseTask, Ready, Reply, Stored, Task, TurnTask, noise_text

__all__ = ["NOISE_WRITERS", "Replayed", "replay"]

NOISE_WRITERS = 2
NOISE_SHARE = 0.25
MOST_NOISE_IN_FLIGHT = 32
PER_WORKER = 4
MOST_CONVERSATIONS = 128


@dataclass(slots=True)
class Replayed:
    """What the parent heard. ``noise`` counts the messages of each writer in each conversation."""

    seconds: float = 0.0
    appends: int = 0
    repeats: int = 0
    conflicts: int = 0
    wrong_views: int = 0
    killed: int = 0
    unknown: int = 0
    noise: Counter[tuple[int, int]] = field(default_factory=Counter)


def replay(
    url: str,
    namespace: str,
    conversations: Sequence[Conversation],
    workers: int,
    seed: int,
    progress: Callable[[int], None],
) -> Replayed:
    """Replay the conversations and return what was heard; `progress` gets the messages just stored.

    Raises:
        CommandError: A worker failed, or ended without having been killed here.
    """
    with Crew(url, namespace, workers + NOISE_WRITERS) as crew:
        run = _Replay(crew, conversations, workers, random.Random(seed), progress)  # noqa: S311
        return run.result()


class _Replay:
    def __init__(
        self,
        crew: Crew,
        conversations: Sequence[Conversation],
        workers: int,
        chance: random.Random,
        progress: Callable[[int], None],
    ) -> None:
        self._crew, self._conversations, self._workers = crew, conversations, workers
        self._chance, self._progress = chance, progress
        self._waiting = deque(range(len(conversations)))
        self._left = sum(len(c.turns) for c in conversations)
        self._half = max(self._left // 2, 1)
        self._heard = Replayed()

    def result(self) -> Replayed:
        """Run until the last reply is in."""
        began = time.perf_counter()
        for _ in range(min(self._workers * PER_WORKER, MOST_CONVERSATIONS, len(self._waiting))):
            self._begin()
        while self._left or any(worker.in_flight for worker in self._crew.workers):
            if self._kill_is_due():
                self._kill()
            for worker in self._crew.ready():
                self._take(worker, worker.hear())
                if self._kill_is_due():
                    break  # before the last turns are in: there must be some left unknown
        self._heard.seconds = time.perf_counter() - began
        return self._heard

    def _begin(self) -> None:
        if self._waiting:
            self._hand_out(self._waiting.popleft(), 0)

    def _hand_out(self, index: int, number: int) -> None:
        conversation = self._conversations[index]
        turn = conversation.turns[number]
        before = conversation.turns[number - 1] if number else None
        previous = (before.kind, before.texts[-1]) if before else None
        task = TurnTask(index, conversation.user, conversation.name, number, turn.kind, turn.texts, previous)
        # The next turn goes to the next worker: no two neighbours come from the same process.
        self._crew[(index + number) % self._workers].give(task)
        if self._chance.random() < NOISE_SHARE:
            self._disturb(index, conversation)

    def _disturb(self, index: int, conversation: Conversation) -> None:
        writer = self._chance.randrange(NOISE_WRITERS)
        worker = self._crew[self._workers + writer]
        if index in worker.in_flight or len(worker.in_flight) >= MOST_NOISE_IN_FLIGHT:
            return
        text = noise_text(writer, self._heard.noise[index, writer])
        self._heard.noise[index, writer] += 1
        worker.give(NoiseTask(index, conversation.user, conversation.name, text))

    def _take(self, worker: Worker, reply: Reply) -> None:
        if isinstance(reply, Ready):
            return
        assert isinstance(reply, Stored)  # noqa: S101 - a failure was raised when it was heard
        task: Task = worker.in_flight.pop(reply.conversation)
        heard = self._heard
        heard.appends += 1
        heard.repeats += reply.repeated
        heard.conflicts += reply.conflicts
        heard.wrong_views += reply.wrong_view
        if isinstance(task, NoiseTask):
            return
        self._left -= 1
        self._progress(len(task.texts))
        if task.turn + 1 < len(self._conversations[task.conversation].turns):
            self._hand_out(task.conversation, task.turn + 1)
        else:
            self._begin()

    def _kill_is_due(self) -> bool:
        return not self._heard.killed and self._left <= self._half

    def _kill(self) -> None:
        busiest = max(range(self._workers), key=lambda place: len(self._crew[place].in_flight))
        self._heard.unknown = len(self._crew.replace(busiest))
        self._heard.killed += 1
