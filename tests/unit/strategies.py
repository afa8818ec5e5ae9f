"""What hypothesis makes messages, values and ids of."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from memory_redis import StoredMessage

KINDS = ("human", "ai", "system", "tool", "function", "chat", "remove")
NEEDED = {"tool": "tool_call_id", "function": "name", "chat": "role", "remove": "id"}
KNOWN = {
    *("content", "id", "name", "additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls"),
    *("usage_metadata", "tool_call_id", "artifact", "status", "role", "type"),
}


def examples(count: int) -> settings:
    """So many examples, however slow the machine is."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# every character that UTF-8 can hold, the awkward ones more often
_letters = st.one_of(
    st.sampled_from("\0\n\"\\{}'é\u0301\u2028\ufeff\ufffd\U0001f600\U0010ffff"),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.text(_letters, max_size=12)
integers = st.integers(-(2**63), 2**64 - 1)
json_scalars = st.one_of(
    st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts
)
any_scalars = st.one_of(json_scalars, st.floats(), st.binary(max_size=12))


def values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Scalars, and lists and maps of them, nested."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )


def _messages(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[StoredMessage]:
    maps = st.dictionaries(texts, values(scalars), max_size=2)
    fields: dict[str, st.SearchStrategy[Any]] = {
        "content": texts | st.lists(texts | maps, max_size=3),
        "id": st.none() | texts,
        "name": st.none() | texts,
        "additional_kwargs": maps,
        "response_metadata": maps,
        "tool_calls": st.lists(maps, max_size=2),
        "invalid_tool_calls": st.lists(maps, max_size=2),
        "usage_metadata": st.none() | maps,
        "tool_call_id": texts,
        "artifact": values(scalars),
        "status": st.sampled_from(["success", "error"]),
        "role": texts,
    }
    unknown = st.dictionaries(texts.filter(lambda name: name not in KNOWN), values(scalars), max_size=2)

    def of_kind(kind: str) -> st.SearchStrategy[StoredMessage]:
        needed = {NEEDED[kind]: texts} if kind in NEEDED else {}
        if kind != "remove":
            needed["content"] = fields["content"]
        known = st.fixed_dictionaries(needed, optional={k: v for k, v in fields.items() if k not in needed})
        return st.tuples(known, unknown).map(
            lambda both: StoredMessage.model_validate({"type": kind, "data": both[1] | both[0]})
        )

    return st.sampled_from(KINDS).flatmap({kind: of_kind(kind) for kind in KINDS}.__getitem__)


messages = _messages(json_scalars)
"""Messages of any type with any of their fields, and fields that nobody knows; all of it can be JSON."""
any_messages = _messages(any_scalars)
"""The same with NaN, infinities and bytes."""


# ids that would break a key that is put together carelessly
_awkward = st.sampled_from(
    [*"{}:%~\0*?[]\\^- /@._ab0", "%3A", "%257E", "}:{", "~", "é", "e\u0301", "\U0001f600"]
)
ids = st.one_of(
    st.lists(_awkward, min_size=1, max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.builds(lambda piece, times: piece * times, _awkward, st.sampled_from([1, 66, 67, 200, 201, 10_000])),
)


def nested(depth: int, in_lists: bool = True) -> Any:
    """A text inside so many lists or maps."""
    value: Any = "x"
    for _ in range(depth):
        value = [value] if in_lists else {"a": value}
    return value
