"""From a user and a conversation to the names of keys.

    memory:{ann:support-42}:messages      list of records, oldest first
    memory:{ann:support-42}:meta          hash: version, ring of recent appends, …
    memory:{ann}:conversations            sorted set of the user's conversation ids
    memory:{:s1}:messages                 a session: a conversation without a user

The braces are Redis Cluster's hash tag: both keys of a conversation share one slot, and different
conversations, of one user too, spread over all. Ids are written so that no two pairs meet and no
id can close the tag: `ann:x` + `y` is `{ann%3Ax:y}`, `ann` + `x:y` is `{ann:x%3Ay}`.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from urllib.parse import quote

from memory_redis.errors import InvalidId, InvalidSetting

TAG_BYTES = 8
_LONGEST = 200
_PLAIN = re.compile(r"[A-Za-z0-9_.@-]{1,200}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.@:/-]{1,100}")


def check_namespace(namespace: str) -> str:
    """The namespace, if it can begin every key.

    Raises:
        InvalidSetting: it is empty, too long, or holds braces, glob characters or blanks.
    """
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise InvalidSetting("a namespace is 1 to 100 letters, digits and _ . @ : / -")
    return namespace


def check_id(what: str, value: str) -> str:
    """The id as a plain `str`, if it is a non-empty text that UTF-8 can hold.

    A lone surrogate is refused and not replaced: replacing would make one id of two.

    Raises:
        InvalidId: it is not.
    """
    if not isinstance(value, str):
        raise InvalidId(f"{what} must be a text, not {type(value).__name__}")
    if not value:
        raise InvalidId(f"{what} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidId(f"{what} holds half of a character (a lone surrogate)") from None
    return str.__str__(value)


def encode_id(value: str) -> str:
    """The id as it stands in a key: injective, without braces, colons or glob characters.

    Ids are opaque: nothing is normalised or folded, so the same letters composed differently (NFC,
    NFD) are different ids. A long one is written as `~` and its SHA-256.
    """
    if _PLAIN.fullmatch(value):
        return value
    text = quote(value, safe="@").replace("~", "%7E")
    return text if len(text) <= _LONGEST else "~" + hashlib.sha256(value.encode()).hexdigest()


class ConversationKeys:
    """The keys of one conversation, and what is derived from them.

    Attributes:
        messages, meta: key names.

        index: the key of the user's list of conversations; None for a session.

        conversation_id: as the caller gave it.

        owner: tag that every record carries, 8 bytes.

        label: short hash that stands for the conversation in errors and telemetry.
    """

    __slots__ = ("conversation_id", "index", "label", "messages", "meta", "owner")

    def __init__(self, namespace: str, user_id: str | None, conversation_id: str) -> None:
        what = "session_id" if user_id is None else "conversation_id"
        conversation_id = check_id(what, conversation_id)
        user = "" if user_id is None else encode_id(check_id("user_id", user_id))
        base = f"{namespace}:{{{user}:{encode_id(conversation_id)}}}:"
        self.conversation_id = conversation_id
        self.messages, self.meta = base + "messages", base + "meta"
        self.index = None if user_id is None else index_key(namespace, user_id)
        digest = hashlib.blake2b(base.encode(), digest_size=TAG_BYTES + 6).digest()
        self.owner, self.label = digest[:TAG_BYTES], digest[TAG_BYTES:].hex()


def index_key(namespace: str, user_id: str) -> str:
    """The key of a user's list of conversations."""
    return f"{namespace}:{{{encode_id(check_id('user_id', user_id))}}}:conversations"


def conversation_keys(namespace: str, user_id: str | None, conversation_id: str) -> ConversationKeys:
    """The keys of a conversation; the last 1,024 are remembered.

    Raises:
        InvalidId: an id is not a non-empty text.
    """
    if type(conversation_id) is str and (user_id is None or type(user_id) is str):
        return _remembered(namespace, user_id, conversation_id)
    return ConversationKeys(namespace, user_id, conversation_id)


_remembered = lru_cache(maxsize=1024)(ConversationKeys)
