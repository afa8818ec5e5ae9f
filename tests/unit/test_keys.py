"""From ids to keys: no two meet, one slot for a conversation, nothing in an id can steer a key."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from memory_redis import InvalidId, InvalidSetting, RedisMemory
from memory_redis._engine.keys import ConversationKeys, conversation_keys, index_key
from tests.support.ids import shown
from tests.unit.strategies import examples, ids

users = st.none() | ids
longest = 100 + len(":{") + 200 + len(":") + 200 + len("}:conversations")


def all_keys(user: str | None, conversation: str) -> list[str]:
    keys = ConversationKeys("memory", user, conversation)
    return [keys.messages, keys.meta] if keys.index is None else [keys.messages, keys.meta, keys.index]


@given(one=st.tuples(users, ids), other=st.tuples(users, ids))
@examples(600)
def test_different_conversations_have_no_key_in_common(
    one: tuple[str | None, str], other: tuple[str | None, str]
) -> None:
    """R24: only the list of one user's conversations is shared, by that user's conversations."""
    shared = set(all_keys(*one)) & set(all_keys(*other))
    if one == other:
        assert shared == set(all_keys(*one))
    elif one[0] is not None and one[0] == other[0]:
        assert shared == {index_key("memory", one[0])}
    else:
        assert shared == set()


def test_every_pair_of_awkward_ids_has_keys_of_its_own() -> None:
    """R24, H09: joins of awkward pieces, as users, conversations and sessions, all at once."""
    pieces = ["a", "b", ":", "%", "}", "{", "~", "%3A", "*", "\0", "é"]
    names = sorted({"".join(pair) for pair in product(pieces, repeat=2)} | set(pieces))
    seen: dict[str, tuple[str | None, str]] = {}
    for pair in [*product(names, names[::7]), *product([None], names)]:
        keys = ConversationKeys("memory", *pair)
        for key in (keys.messages, keys.meta):
            assert seen.setdefault(key, pair) == pair
    assert len(seen) == 2 * (len(names) * len(names[::7]) + len(names))


@given(user=users, conversation=ids)
@examples(400)
def test_the_keys_of_a_conversation_share_one_slot(user: str | None, conversation: str) -> None:
    """G08, G09: by the function that Redis Cluster uses; ids cannot break or steer the hash tag."""
    keys = ConversationKeys("memory", user, conversation)
    assert key_slot(keys.messages.encode()) == key_slot(keys.meta.encode())
    tag = keys.messages[keys.messages.index("{") + 1 : keys.messages.index("}")]
    assert tag
    assert key_slot(keys.messages.encode()) == key_slot(tag.encode())


@given(user=users, conversation=ids)
@examples(400)
def test_a_key_is_short_and_made_of_safe_characters(user: str | None, conversation: str) -> None:
    """H09: exactly one pair of braces, nothing that a pattern would take for a wildcard, bounded."""
    for key in all_keys(user, conversation):
        assert re.fullmatch(r"memory:\{[A-Za-z0-9_.@%~-]*(:[A-Za-z0-9_.@%~-]+)?\}:[a-z]+", key)
        assert (key.count("{"), key.count("}")) == (1, 1)
        assert len(key) <= longest


@given(user=users, conversation=ids)
@examples(100)
def test_keys_depend_on_nothing_but_the_ids(user: str | None, conversation: str) -> None:
    """H13: whoever asks, from the cache or not, gets the same keys, tag and label."""
    fresh, cached = (
        ConversationKeys("memory", user, conversation),
        conversation_keys("memory", user, conversation),
    )
    for name in ConversationKeys.__slots__:
        assert getattr(fresh, name) == getattr(cached, name)
    assert fresh.conversation_id == conversation
    assert len(fresh.owner) == 8


@given(user=users, conversation=ids)
@examples(100)
def test_the_label_of_a_conversation_shows_no_id(user: str | None, conversation: str) -> None:
    """S6, P12: errors and telemetry name a conversation by a short hash."""
    label = ConversationKeys("memory", user, conversation).label
    assert re.fullmatch(r"[0-9a-f]{12}", label)


# (namespace, user, conversation): messages, meta, index, owner tag
GOLDEN = {
    ("memory", "ann", "support-42"): (
        "memory:{ann:support-42}:messages",
        "memory:{ann:support-42}:meta",
        "memory:{ann}:conversations",
        "54c034c21057ba87",
    ),
    ("memory", None, "s1"): ("memory:{:s1}:messages", "memory:{:s1}:meta", None, "1ad67b051aeb938b"),
    ("memory", "ann:x", "y"): (
        "memory:{ann%3Ax:y}:messages",
        "memory:{ann%3Ax:y}:meta",
        "memory:{ann%3Ax}:conversations",
        "8938d3ae3c5f2cbd",
    ),
    ("memory", "ann", "x:y"): (
        "memory:{ann:x%3Ay}:messages",
        "memory:{ann:x%3Ay}:meta",
        "memory:{ann}:conversations",
        "fb72f074691232c3",
    ),
    ("app/1", "{a}", "*?[]"): (
        "app/1:{%7Ba%7D:%2A%3F%5B%5D}:messages",
        "app/1:{%7Ba%7D:%2A%3F%5B%5D}:meta",
        "app/1:{%7Ba%7D}:conversations",
        "7ed44c2487198182",
    ),
    ("memory", "é~", "%00\0"): (
        "memory:{%C3%A9%7E:%2500%00}:messages",
        "memory:{%C3%A9%7E:%2500%00}:meta",
        "memory:{%C3%A9%7E}:conversations",
        "da4a23c5cf20beb9",
    ),
    ("memory", "u" * 201, "c"): (
        "memory:{~5440d856ad900450d0aebef60c1733cea506c690eeef3fbf7597c39938b23cec:c}:messages",
        "memory:{~5440d856ad900450d0aebef60c1733cea506c690eeef3fbf7597c39938b23cec:c}:meta",
        "memory:{~5440d856ad900450d0aebef60c1733cea506c690eeef3fbf7597c39938b23cec}:conversations",
        "ff70922bc419f5d1",
    ),
    ("memory", "u" * 200, "c.d_e-f@g"): (
        f"memory:{{{'u' * 200}:c.d_e-f@g}}:messages",
        f"memory:{{{'u' * 200}:c.d_e-f@g}}:meta",
        f"memory:{{{'u' * 200}}}:conversations",
        "39966c4578a6b021",
    ),
}


@pytest.mark.parametrize("ids", GOLDEN, ids=lambda pair: repr(pair)[:40])
def test_these_ids_have_these_keys(ids: tuple[str, str | None, str]) -> None:
    """Decision 18, J02: golden keys and owner tags; a change would make all that is stored invisible."""
    messages, meta, index, owner = GOLDEN[ids]
    keys = ConversationKeys(*ids)
    assert (keys.messages, keys.meta, keys.index) == (messages, meta, index)
    assert keys.owner.hex() == owner


@given(one=st.tuples(users, ids), other=st.tuples(users, ids))
@examples(200)
def test_different_conversations_have_different_owner_tags(
    one: tuple[str | None, str], other: tuple[str | None, str]
) -> None:
    """S9: the tag stands for namespace, user and conversation."""
    same = ConversationKeys("memory", *one).owner == ConversationKeys("memory", *other).owner
    assert same == (one == other)
    assert ConversationKeys("memory", *one).owner != ConversationKeys("memory2", *one).owner


@pytest.mark.parametrize("text", ["é", "Å", "ñ", "한"])
def test_ids_are_not_normalised(text: str) -> None:
    """NFC and NFD are two accounts, as are upper and lower case, and blanks count."""
    composed, apart = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert composed != apart
    forms = {composed, apart, composed.upper(), f" {composed}", f"{composed} ", f"{composed}\0"}
    assert len({index_key("memory", form) for form in forms}) == len({*forms})
    assert len({ConversationKeys("memory", "ann", form).messages for form in forms}) == len({*forms})


def test_users_are_spread_over_the_slots() -> None:
    """G09: a thousand users, and a thousand conversations of one user, do not gather in one place."""
    of_users = {key_slot(ConversationKeys("memory", f"user{n}", "c").messages.encode()) for n in range(1000)}
    of_one = {key_slot(ConversationKeys("memory", "ann", f"c{n}").messages.encode()) for n in range(1000)}
    assert len(of_users) > 900
    assert len(of_one) > 900


def test_a_session_is_no_conversation_of_any_user() -> None:
    """A session is in no index; no user id, however odd, reaches it."""
    session = ConversationKeys("memory", None, "s1")
    assert session.index is None
    for user in (":", "%", "", " ", "None", "\0", "{:s1}"):
        if user:
            assert session.messages not in all_keys(user, "s1")


def calls_with(memory: RedisMemory, one_id: Any) -> list[Callable[[], object]]:
    """Every call that takes an id, with this one."""
    return [
        lambda: memory.history(one_id, "c"),
        lambda: memory.history("ann", one_id),
        lambda: memory.session(one_id),
        lambda: memory.conversations(one_id),
        lambda: memory.forget(one_id),
    ]


NO_IDS: list[Any] = [None, 5, 0, True, 1.5, b"ann", [], ["ann"], {}, ("ann",), object(), ""]


@pytest.mark.parametrize("bad", NO_IDS, ids=shown)
def test_an_id_that_is_no_text_is_refused(bad: Any) -> None:
    """Decision 20, R19, R23, E12: a TypeError; nothing is coerced, and no default conversation is shared."""
    with RedisMemory.from_url("fake://") as memory:
        for call in calls_with(memory, bad):
            with pytest.raises(InvalidId) as caught:
                call()
            assert isinstance(caught.value, TypeError)
            assert "ann" not in str(caught.value)


@pytest.mark.parametrize("bad", ["\ud800", "a\udfffb", "\ud83d\ude00", "x" * 300 + "\udc00"], ids=ascii)
def test_an_id_with_half_of_a_character_is_refused(bad: str) -> None:
    """To replace it would make one account of two."""
    with RedisMemory.from_url("fake://") as memory:
        for call in calls_with(memory, bad):
            with pytest.raises(InvalidId, match="surrogate") as caught:
                call()
            assert caught.value.__cause__ is None
            str(caught.value).encode()


class Name(str, enum.Enum):  # noqa: UP042 - one whose format is not its value
    ANN = "ann"


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()

    def __format__(self, spec: str) -> str:
        return self.upper()


@pytest.mark.parametrize("name", [Name.ANN, Shouting("ann")])
def test_a_kind_of_text_as_id_means_its_text(name: str) -> None:
    """H13: however it shows itself, it never leads elsewhere, and leads nobody else elsewhere after it."""
    namespace = f"n{type(name).__name__}"
    before = conversation_keys(namespace, name, name)
    plain = conversation_keys(namespace, "ann", "ann")
    assert before.messages == plain.messages == f"{namespace}:{{ann:ann}}:messages"
    assert before.index == plain.index == f"{namespace}:{{ann}}:conversations"
    assert before.owner == plain.owner
    assert type(before.conversation_id) is str


@pytest.mark.parametrize("namespace", ["memory", "app:prod", "a/b", "x@y.z", "A-1_b", "x" * 100])
def test_a_namespace_begins_every_key(namespace: str) -> None:
    """H15: memories with different namespaces share nothing."""
    keys = ConversationKeys(namespace, "ann", "c")
    assert keys.messages == f"{namespace}:{{ann:c}}:messages"
    RedisMemory.from_url("fake://", namespace=namespace).close()


@pytest.mark.parametrize(
    "namespace",
    [
        "",
        " ",
        "a b",
        "a{b",
        "a}b",
        "{}",
        "a*",
        "a?",
        "[a]",
        "a\\",
        "a\n",
        "a\0",
        "é",
        "%",
        "~",
        "x" * 101,
        None,
        5,
        b"a",
    ],
    ids=repr,
)
def test_a_namespace_that_could_break_keys_is_refused(namespace: Any) -> None:
    """No braces, no wildcards, checked when the memory is made."""
    with pytest.raises(InvalidSetting):
        RedisMemory.from_url("fake://", namespace=namespace)
