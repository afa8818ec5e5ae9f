"""Imports point one way: values, engine, faces, what is plugged in."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "memory_redis"
VALUES = {
    *("errors", "versions", "limits", "layouts", "messages", "windows", "expiry", "retention"),
    *("snapshots", "telemetry", "options", "roles", "rules", "dictionaries"),
    *("durations", "counting", "toolcalls", "selection", "summaries", "wording"),
}
FACES = {
    *("turns", "lifetimes", "history", "memory", "exchanges", "runs", "wrapper"),
    *("upkeep", "views", "summarised", "stores", "strategies"),
}
LAYERS = [VALUES, {"_engine"}, FACES, {"__init__"}, {"testing", "server", "cli", "__main__", "langchain"}]
MODULES = sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    """The part of the package that a module belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def modules(node: ast.AST) -> set[str]:
    """The modules of the package that a statement imports."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    return {name for name in names if name.split(".")[0] == "memory_redis"}


def imported(path: Path, late: bool = False) -> set[str]:
    """The parts of the package that a module imports, but for type checkers; with `late` in functions."""
    body = ast.parse(path.read_text()).body
    functions = [
        node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    nodes = [inner for node in functions for inner in ast.walk(node)] if late else body
    found = [name.split(".") for node in nodes for name in modules(node)]
    return {parts[1] if len(parts) > 1 else "__init__" for parts in found}


def layer(part: str) -> int:
    return next(number for number, parts in enumerate(LAYERS) if part in parts)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_nothing_above_it(path: Path) -> None:
    """A module names only its own layer and lower ones; what is plugged in comes through public names."""
    part = place(path)
    for other in imported(path):
        assert layer(other) <= layer(part), f"{part} imports {other}"
        if layer(part) == 4 and part != "server":
            assert other != "_engine", f"{part} reaches into the engine"


LATE = {("_engine", "server")}
"""Who names whom above itself, once it is called: an embedded server is plugged into the engine."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_function_imports_nothing_above_its_module_but_for_what_is_plugged_in(path: Path) -> None:
    """An import inside a function is none that escapes the layers."""
    part = place(path)
    upward = {(part, other) for other in imported(path, late=True) if layer(other) > layer(part)}
    assert upward <= LATE


def test_nothing_imports_in_a_circle() -> None:
    """The modules can be put in an order in which each imports only earlier ones."""
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        name = ".".join(("memory_redis", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        graph[name] = {other for node in ast.parse(path.read_text()).body for other in modules(node)}
    done: set[str] = set()
    while len(done) < len(graph):
        free = {
            name
            for name, needs in graph.items()
            if name not in done and not (needs & set(graph)) - done - {name}
        }
        assert free, f"a circle among {sorted(set(graph) - done)}"
        done |= free


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_stays_small(path: Path) -> None:
    """No module is longer than 400 lines."""
    assert len(path.read_text().splitlines()) <= 400


def test_only_the_engine_speaks_to_redis() -> None:
    """Outside the engine only the embedded server's code, and nothing else in the core, imports redis."""
    for path in MODULES:
        if place(path) in VALUES | FACES | {"__init__", "testing"}:
            names = {
                (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, (ast.Import, ast.ImportFrom))
            }
            assert not any(name.split(".")[0] == "redis" for name in names), path


def test_nothing_is_ever_unpickled() -> None:
    """K03, K04: no module imports pickle or another reader that runs what it reads."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path
