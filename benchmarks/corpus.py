"""Chat-like messages, the same ones in every run: what all benchmarks store.

The shapes, chosen to look like what chatbots keep (no text of a real person):

- A *turn* is a human message and the model's answer; of ten turns one calls a tool in between (human, ai
  with a tool call, tool result, ai).
- Contents: human 50 to 200 characters, ai 150 to 600, tool results a JSON object of 60 to 250. One sentence
  in eight has characters outside ASCII (typographic quotes, dashes, accents, an emoji).
- A human message has a content, and one in four a name. An ai message has an id (`run--` and a UUID),
  `response_metadata` of six entries, `usage_metadata` with nested details, and its tool calls. A tool result
  names its call and has an id.

`data` holds what was set and nothing else. LangChain's layout spells out every default as well: see
`langchain_json`.
"""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass
from typing import Any

from memory_redis import StoredMessage

VOCABULARY = """
the a of to and in is it you that for on with as this be at have from or one by but not what all when we there
can an your which if will each about how up out them then these so some would make like into time has look two
more order invoice delivery account password setting payment printer network update window button report
customer ticket address device battery screen message contract shipping refund manual
"""
WORDS = VOCABULARY.split()
ORNATE = (
    "Voilà — that should do it.",
    "It says “connection refused” … right?",
    "Größe und Maße stehen im Menü.",
    "Great, all done! 🎉",
)
TOOLS = ("find_order", "search_manual", "get_weather", "open_ticket")

TYPE_DEFAULTS: dict[str, dict[str, Any]] = {
    "human": {},
    "ai": {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None},
    "tool": {"tool_call_id": "", "artifact": None, "status": "success"},
}
"""The fields that LangChain's layout always writes for a type, beside the ones all types have."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One message as plain data: `type` and the fields of `data` that are set."""

    type: str
    data: dict[str, Any]

    def stored(self) -> StoredMessage:
        """The message as this project's users make it."""
        return StoredMessage.model_validate({"type": self.type, "data": dict(self.data)})

    def langchain_json(self, **style: Any) -> bytes:
        """The message as LangChain's Redis histories write it: `json.dumps` of its full dictionary.

        `style` goes to `json.dumps`; without it the text is ASCII with `", "` and `": "`, as they have it.
        """
        data: dict[str, Any] = {
            "content": "",
            "additional_kwargs": {},
            "response_metadata": {},
            "type": self.type,
            "name": None,
            "id": None,
        }
        data |= TYPE_DEFAULTS[self.type] | self.data
        return json.dumps({"type": self.type, "data": data}, **style).encode()


def shapes(count: int, seed: int = 7) -> list[Shape]:
    """The first `count` messages of the conversation that belongs to `seed`."""
    chance = random.Random(seed)
    made: list[Shape] = []
    turn = 0
    while len(made) < count:
        turn += 1
        made.append(_human(chance))
        if turn % 10 == 0:
            call: dict[str, Any] = {
                "name": chance.choice(TOOLS),
                "args": {"query": _text(chance, 10, 40), "limit": chance.randint(1, 20)},
                "id": f"call_{chance.getrandbits(96):024x}",
                "type": "tool_call",
            }
            made += [_ai(chance, "", [call]), _tool(chance, call["id"])]
        made.append(_ai(chance, _text(chance, 150, 600), []))
    return made[:count]


def messages(count: int, seed: int = 7) -> list[StoredMessage]:
    """The same as the messages of this project."""
    return [shape.stored() for shape in shapes(count, seed)]


def texts(count: int, seed: int = 7) -> list[StoredMessage]:
    """The same messages with nothing but their content; tool results become human ones."""
    return [
        Shape("ai" if shape.type == "ai" else "human", {"content": shape.data["content"]}).stored()
        for shape in shapes(count, seed)
    ]


def turns(count: int, seed: int = 7) -> list[tuple[StoredMessage, StoredMessage]]:
    """`count` turns of two messages each, a human one and its answer (the ones without tools)."""
    chance = random.Random(seed)
    return [
        (_human(chance).stored(), _ai(chance, _text(chance, 150, 600), []).stored()) for _ in range(count)
    ]


def _human(chance: random.Random) -> Shape:
    data: dict[str, Any] = {"content": _text(chance, 50, 200)}
    if chance.random() < 0.25:
        data["name"] = chance.choice(("ann", "bob", "carla", "user-1207"))
    return Shape("human", data)


def _ai(chance: random.Random, content: str, calls: list[dict[str, Any]]) -> Shape:
    asked, answered = chance.randint(200, 4000), max(8, len(content) // 4)
    data: dict[str, Any] = {
        "content": content,
        "id": f"run--{uuid.UUID(int=chance.getrandbits(128), version=4)}",
        "response_metadata": {
            "model_provider": "example",
            "model_name": "example-large-2025-06-01",
            "finish_reason": "tool_calls" if calls else "stop",
            "system_fingerprint": f"fp_{chance.getrandbits(40):010x}",
            "service_tier": "default",
            "logprobs": None,
        },
        "usage_metadata": {
            "input_tokens": asked,
            "output_tokens": answered,
            "total_tokens": asked + answered,
            "input_token_details": {"audio": 0, "cache_read": asked // 128 * 64},
            "output_token_details": {"audio": 0, "reasoning": 0},
        },
    }
    if calls:
        data["tool_calls"] = calls
    return Shape("ai", data)


def _tool(chance: random.Random, call_id: str) -> Shape:
    found = {"total": chance.randint(1, 40), "text": _text(chance, 30, 200)}
    return Shape("tool", {"content": json.dumps(found, ensure_ascii=False), "tool_call_id": call_id})


def _text(chance: random.Random, least: int, most: int) -> str:
    wanted = chance.randint(least, most)
    sentences: list[str] = []
    length = 0
    while length < wanted:
        if chance.random() < 0.125:
            sentence = chance.choice(ORNATE)
        else:
            words = chance.choices(WORDS, k=chance.randint(5, 14))
            sentence = " ".join(words).capitalize() + "."
        sentences.append(sentence)
        length += len(sentence) + 1
    return " ".join(sentences)[:wanted]
