"""The demo's plan is the data set: as it is, once, and in turns that one append can store."""

from __future__ import annotations

import pytest

from memory_redis.cli.demo.plan import MOST_MESSAGES, Conversation, read_conversations


@pytest.fixture(scope="module")
def everything() -> list[Conversation]:
    return read_conversations(None, 0)


def test_the_plan_holds_every_message_of_the_data_set(everything: list[Conversation]) -> None:
    """All 7,168 conversations and 258,145 messages are planned, the 33 empty texts too."""
    assert len(everything) == len({conversation.name for conversation in everything}) == 7_168
    assert sum(conversation.messages for conversation in everything) == 258_145
    texts = (text for conversation in everything for turn in conversation.turns for text in turn.texts)
    assert sum(not text for text in texts) == 33


def test_speakers_take_turns(everything: list[Conversation]) -> None:
    """The first speaker is human and the second ai; only a burst too long for one append is split."""
    for conversation in everything:
        assert conversation.turns[0].kind == "human"
        for before, after in zip(conversation.turns, conversation.turns[1:], strict=False):
            assert before.kind != after.kind or len(before.texts) == MOST_MESSAGES
    assert max(len(turn.texts) for conversation in everything for turn in conversation.turns) == MOST_MESSAGES


def test_a_seed_draws_the_same_conversations_again() -> None:
    """The same seed draws the same conversations, another seed others; too many is all."""
    drawn = read_conversations(50, 7)
    assert drawn == read_conversations(50, 7)
    assert len(drawn) == 50
    assert drawn != read_conversations(50, 8)
    assert len(read_conversations(10_000, 7)) == 7_168
