"""What each conflict policy does when four workers answer in one conversation at once.

Every worker runs six turns; a turn loads, takes a quarter of a second to answer, and commits. The server is
the embedded one. Printed: how many turns were committed without a conflict, with one, or refused.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from memory_redis import ConflictError, History, RedisMemory, ai, human
from memory_redis.turns import OnConflict

WORKERS, TURNS, ANSWER_SECONDS = 4, 6, 0.25


def work(history: History, policy: OnConflict, outcomes: list[str]) -> None:
    """Six turns of one worker."""
    for _ in range(TURNS):
        turn = history.turn(on_conflict=policy)
        try:
            with turn:
                time.sleep(ANSWER_SECONDS)
                turn.add(human("question"), ai("answer"))
            outcomes.append("on a history that had moved on" if turn.conflict else "clean")
        except ConflictError:
            outcomes.append("refused")


def main() -> None:
    """Run both policies and print what came of the turns."""
    policies: tuple[OnConflict, ...] = ("append", "raise")
    with RedisMemory.from_url("embedded://", hooks=()) as memory:
        for policy in policies:
            outcomes: list[str] = []
            history = memory.session(policy)
            workers = [
                threading.Thread(target=work, args=(history, policy, outcomes)) for _ in range(WORKERS)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            print(f"{policy:7} {dict(Counter(outcomes))}, {history.count()} messages stored")


if __name__ == "__main__":
    main()
