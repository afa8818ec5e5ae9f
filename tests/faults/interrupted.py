"""A process that is interrupted in the middle of its calls, again and again.

python -m tests.faults.interrupted URL NAMESPACE
"""

from __future__ import annotations

import random
import signal
import sys
import time
from types import FrameType

from memory_redis import AppendId, ConversationInfo, History, RedisMemory, StoredMessage, human

INTERRUPTS = 600
armed = False


def interrupt(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does, if a call is under way."""
    if armed:
        raise KeyboardInterrupt


def messages_of(memory: RedisMemory, info: ConversationInfo) -> list[StoredMessage]:
    """The messages of a listed conversation, in the order in which they were made."""
    messages = memory.history(info.user_id, info.conversation_id).load().messages
    assert [message.text for message in messages] == sorted((m.text for m in messages), key=int)
    return messages


def main(url: str, namespace: str) -> None:
    """Each call is interrupted at a random point; then another conversation must show its own data."""
    global armed
    signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(7)
    memory = RedisMemory.from_url(url, namespace=namespace, max_connections=2, deadline=30)
    other = memory.history("ben", "other")
    other.append(human("other"))
    done: set[str] = set()
    ids: dict[str, AppendId] = {}
    histories: dict[str, History] = {}
    interrupts = 0
    while interrupts < INTERRUPTS:
        text = str(len(ids))
        ids[text] = AppendId.new()
        mine = histories[text] = memory.history("ann", f"mine {len(ids) // 100}")
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.0006))
            mine.append(human(text), append_id=ids[text])
            mine.count()
            armed = False
            done.add(text)
        except KeyboardInterrupt:
            armed = False
            interrupts += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        began = time.monotonic()
        assert [message.text for message in other.load().messages] == ["other"]
        assert time.monotonic() - began < 15, "no connection was left"
    stored = [message.text for info in memory.conversations("ann") for message in messages_of(memory, info)]
    assert len(stored) == len(set(stored))
    assert done <= set(stored)
    for text, append_id in ids.items():
        assert (histories[text].settle(append_id) is not None) == (text in stored)
    memory.close()
    print(len(stored))


if __name__ == "__main__":
    main(*sys.argv[1:])
