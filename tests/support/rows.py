"""The numbered rows that tests name in their docstrings: what each is about, and which tests name it.

R1 to R121 are behaviour, T1 to T26 are traps of LangChain's own wrapper, and M:invoke, M:stream and so on are
methods of a Runnable. `python -m tests.support.rows` prints them all with their tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

ROWS: dict[str, str] = {
    # the wrapper is made
    "R1": "two arguments by position, all others by name",
    "R2": "input_messages_key says where a dictionary has what is new",
    "R3": "output_messages_key says where a dictionary has the answer",
    "R4": "history_messages_key says where the chain wants the past",
    "R5": "history_factory_config: the fields that name a session, one by default",
    "R6": "the default of such a field never stands in for a missing session",
    "R7": "a config bound at construction may carry the session",
    "R8": "a config factory may carry the session",
    "R9": "bound and given keyword arguments reach what is wrapped",
    "R10": "custom input and output types show in the schemas",
    "R11": "every kind of Runnable can be wrapped, a plain LLM included",
    "R12": "wrappers of one factory share nothing but the histories",
    # which history
    "R13": "a missing session is an error that says what was expected",
    "R14": "one item of a batch without a session fails alone",
    "R15": "the session is found in configurable, and in a flat config",
    "R16": "a factory of one field is called by position",
    "R17": "a factory of several fields is called by their names",
    "R18": "a factory without parameters needs no config",
    "R19": "an optional parameter of the factory is filled when the config has it",
    "R20": "the factory is called once a run",
    "R21": "making a history sends nothing, on whatever thread",
    "R22": "an asynchronous factory works in asynchronous calls",
    "R23": "empty, absent and numeric session ids are refused",
    "R24": "users and conversations never mix, whatever their ids hold",
    "R25": "the caller's config stays as it was, the run's own has the history",
    "R26": "what the factory raises arrives unchanged",
    # what goes in
    "R27": "text is a human message",
    "R28": "one message is taken as it is",
    "R29": "a list or tuple of messages comes after the past",
    "R30": "one list inside a list is unwrapped, two are refused",
    "R31": "nothing new: the answer alone is stored",
    "R32": "a dictionary of one key needs no key to be named",
    "R33": "a dictionary of several keys has an input, or is refused",
    "R34": "the input's place takes past and new as a list",
    "R35": "with a place for the past, the input stays as it is",
    "R36": "an input key needs a dictionary",
    "R37": "what is no message is refused before the model runs",
    "R38": "a missing input key is refused before the model runs",
    "R39": "an ambiguous dictionary loses no turn silently",
    "R40": "pairs and role dictionaries become messages first",
    "R41": "a prompt's value is its messages",
    "R42": "a subclass of a message is stored with its fields",
    # what comes out
    "R43": "text is an AI message",
    "R44": "a message keeps the role it came with",
    "R45": "a list of messages is stored whole, in order",
    "R46": "of a dictionary, the value under the output key is stored",
    "R47": "a dictionary of one key needs no output key",
    "R48": "a dictionary of several keys without an output is an error",
    "R49": "a chat model's own message is what is stored",
    "R50": "an output that is no message is an error, not a silent loss",
    "R51": "the caller gets the output as the model gave it",
    "R52": "new messages, then answer, in one write",
    # a run from begin to end
    "R53": "one read and one write a run",
    "R54": "a failed run stores nothing and raises what failed",
    "R55": "a stream that fails stores nothing",
    "R56": "the turn is stored before the call returns or the stream ends",
    "R57": "a run that is cancelled in the model stores nothing",
    "R58": "a run that is cancelled while saving is saved",
    "R59": "retries and fallbacks store one turn",
    "R60": "the chain's own system message is not stored",
    "R61": "a stored system message is handed out in its place",
    "R62": "what serialisation shows is honest and without secrets",
    # the history class
    "R63": "messages is a list",
    "R64": "add_messages adds all at once",
    "R65": "add_message adds one",
    "R66": "helpers for what the user and the model said take text",
    "R67": "clear leaves nothing",
    "R68": "asynchronous methods use no thread",
    "R69": "str gives one line for each message",
    "R70": "messages cannot be assigned",
    "R71": "the extras of other histories: id, len, delete, search",
    # LangChain.js
    "R72": "the methods that a JavaScript history has",
    "R73": "many messages are added by one command",
    "R74": "a clear may be missing there",
    "R75": "a session that nobody wrote to is empty",
    "R76": "a stored message is a type and its data",
    "R77": "messages become stored ones, one for one",
    "R78": "stored ones become messages again, or the bad one is named",
    "R79": "the keys of the JavaScript wrapper",
    "R80": "what a load gave is the caller's own copy",
    # Synaptic
    "R81": "a store that appends, loads and clears by session",
    "R82": "text in, text out",
    "R83": "a default session, for those who ask for one",
    "R84": "the question can be stored before the model runs",
    "R85": "the model sees one, three, five messages",
    "R86": "batches, and streams that stream",
    "R87": "a window under the wrapper",
    "R88": "a cleared session begins anew",
    "R89": "the buffer passes all through",
    "R90": "the last n are loaded, all are stored",
    "R91": "as many of the last as fit a number of tokens",
    "R92": "old messages become a summary when there are too many",
    "R93": "old messages become a summary when they are too long",
    "R94": "what the summarising model is asked",
    "R95": "sizes have no defaults",
    "R96": "the summary is shared by all workers",
    "R97": "compaction is one step",
    "R98": "a summary that fails loses no message",
    "R99": "writers at the same time lose nothing",
    "R100": "trimming by count or tokens, with the system message kept",
    # messages and models
    "R101": "content is kept exactly, text or blocks",
    "R102": "metadata may hold any JSON",
    "R103": "type, name and id",
    "R104": "calls, broken calls and usage of an AI message",
    "R105": "the fields that only one kind of message has",
    "R106": "fields that nobody knows",
    "R107": "what is computed from a message is equal after storing",
    "R108": "chunks are merged, never messages added",
    "R109": "a chunk is stored as a message",
    "R110": "all that a language model takes goes in",
    "R111": "all that a language model gives comes out",
    "R112": "the fake chat models, and the parrot that returns its input",
    "R113": "plain LLMs, streaming or not",
    "R114": "a model that does not stream is stored once",
    "R115": "content in the blocks of output version 1",
    "R116": "cache, rate limit, callbacks, tags and metadata work",
    "R117": "what tracing wants to know of a model gets there",
    "R118": "the library's token counters measure a window",
    "R119": "the library's trimming after a load, and no orphan results",
    "R120": "tools and structured output of the model inside",
    "R121": "a model's own methods are not the wrapper's",
    # traps
    "T1": "a save that fails is raised, with the answer",
    "T2": "runs that overlap lose no question",
    "T3": "a history that shrank does not come back",
    "T4": "streams store messages, no chunks",
    "T5": "chunks of lists and dictionaries are put together right",
    "T6": "a stream that is left early has one rule",
    "T7": "a failing model keeps the question only if asked to",
    "T8": "a turn is stored whole or not at all, with its expiry",
    "T9": "two answers on one past are noticed",
    "T10": "both faces are native, on several event loops",
    "T11": "a factory may be asynchronous",
    "T12": "keyword arguments end at the model, not at the history",
    "T13": "asking for structure opens no history",
    "T14": "types, names and tools are those of what is wrapped",
    "T15": "nothing that a run carries is revived",
    "T16": "message-likes are not stored raw",
    "T17": "bad input is refused before the model is paid for",
    "T18": "a batch item without a session fails alone",
    "T19": "there is no shared session by accident",
    "T20": "a window is for reading and does not touch saving",
    "T21": "what is stored is no object of the caller's",
    "T22": "the turns of an agent's tools can be stored",
    "T23": "one session wrapped twice is noticed",
    "T24": "no deprecated class is needed",
    "T25": "only the window is read, and once",
    "T26": "a plain LLM's answer is stored",
}

METHODS = [
    *("invoke", "ainvoke", "stream", "astream", "batch", "abatch"),
    *("batch_as_completed", "abatch_as_completed", "return_exceptions"),
    *("astream_events", "astream_log", "transform", "atransform"),
    *("bind", "with_config", "with_listeners", "with_alisteners", "with_types"),
    *("with_retry", "map", "with_fallbacks", "as_tool"),
    *("assign", "pick", "pipe", "__or__", "__ror__"),
    *("configurable_fields", "configurable_alternatives"),
    *("get_input_schema", "get_input_jsonschema", "get_output_schema", "get_output_jsonschema"),
    *("get_graph", "get_prompts", "config_schema", "get_config_jsonschema", "config_specs"),
    *("get_name", "name"),
    *("lc_id", "get_lc_namespace", "is_lc_serializable", "to_json", "to_json_not_implemented"),
    *("generate", "get_num_tokens", "bind_tools", "with_structured_output"),
]

ALL = {**ROWS, **{f"M:{name}": f"{name} through the wrapper" for name in METHODS}}

# They come with other work. Take an id out as soon as its tests are there.
LATER = {"R72", "R74", "R76", "R78", "R79"}

# Where this project does something else on purpose: the document that says so, and a phrase from it.
DECIDED_OTHERWISE: dict[str, tuple[str, str]] = {}

REQUIRED = [name for name in ALL if name not in LATER and name not in DECIDED_OTHERWISE]

_ID = re.compile(r"\b(?:([RT])(\d{1,3})(?: ?(?:\u2013|-|to|…) ?\1?(\d{1,3}))?|(M:\w+))\b")


def ids_in(text: str) -> list[str]:
    """The ids that a text names; a range, as by "to" or a dash, names all that lie in it."""
    found: list[str] = []
    for letter, first, last, method in _ID.findall(text):
        found += [method] if method else [f"{letter}{n}" for n in range(int(first), int(last or first) + 1)]
    return found


def docstrings(folder: Path = ROOT / "tests") -> Iterator[tuple[str, str]]:
    """Each test function below a folder, named as pytest names it, with its docstring."""
    for path in sorted(folder.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        holders: list[ast.Module | ast.ClassDef] = [module]
        holders += [node for node in module.body if isinstance(node, ast.ClassDef)]
        for holder in holders:
            inside = f"{holder.name}::" if isinstance(holder, ast.ClassDef) else ""
            for node in holder.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                    name = f"{path.relative_to(folder.parent).as_posix()}::{inside}{node.name}"
                    yield name, ast.get_docstring(node) or ""


def tests_by_id() -> dict[str, list[str]]:
    """The tests that name each id, known or not."""
    found: dict[str, list[str]] = {}
    for test, text in docstrings():
        for name in dict.fromkeys(ids_in(text)):
            found.setdefault(name, []).append(test)
    return found


def missing() -> list[str]:
    """The required ids that no test names."""
    found = tests_by_id()
    return [name for name in REQUIRED if name not in found]


def table() -> Iterator[str]:
    """A line for each id, those without a test marked, and a sum at the end."""
    found = tests_by_id()
    width, wide = max(map(len, ALL)), max(map(len, ALL.values()))
    for name, about in ALL.items():
        without = "later" if name in LATER else "MISSING"
        if name in DECIDED_OTHERWISE:
            without = f"decided otherwise: {DECIDED_OTHERWISE[name][0]}"
        for line, test in enumerate(found.get(name, [without])):
            yield f"{'' if line else name:{width}}  {'' if line else about:{wide}}  {test}"
    yield ""
    yield f"{len(REQUIRED) - len(missing())} of {len(REQUIRED)} required have a test."
    if missing():
        yield f"missing: {' '.join(missing())}"


if __name__ == "__main__":
    print("\n".join(table()))
