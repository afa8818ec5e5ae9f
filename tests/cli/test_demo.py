"""The demo loses nothing, doubles nothing, keeps the order, cleans up, and ends with all its workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
import redis

from tests.cli.command import ROOT, alive_in_group, environment, memory_redis, started
from tests.support.servers import Binary, Server, binaries, wait_until


def figures(table: str) -> dict[str, str]:
    """The rows of the printed table by their names."""
    cells = (line.strip("│┃| \n").split("│") for line in table.splitlines() if line.count("│") == 3)
    return {name.strip(): value.strip() for name, value in cells}


def number(text: str) -> float:
    """The first number in a text."""
    found = re.search(r"[\d,.]*\d", text)
    assert found is not None, text
    return float(found[0].replace(",", ""))


def assert_clean(table: str, conversations: int) -> None:
    rows = figures(table)
    assert number(rows["conversations"]) == conversations
    assert rows["lost / doubled / out of order"] == "0 / 0 / 0"
    assert rows["torn turns / foreign / wrong views"] == "0 / 0 / 0"
    assert number(rows["repeats recognised"]) > 0
    assert number(rows["noise messages"]) > 0
    assert number(rows["bytes per message"]) > 0
    assert "1 killed by SIGKILL" in rows["workers"]
    assert re.match(r"2 keys, 0 after (?:[2-9]|\d\d)\.\d s", rows["a conversation of 2 seconds"])
    assert rows["erased"] == f"{conversations:,} conversations, 0 keys left"


def demo_keys(server: Server) -> list[str]:
    """Keys that hold anything; those of erased conversations are only waiting for their end."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        return [
            key for key in client.scan_iter(count=1000) if client.ttl(key) < 0 or key.endswith(":messages")
        ]


def test_the_embedded_server_is_enough() -> None:
    """Without any server and any setting the demo ends with 0 / 0 / 0, and says which server it used."""
    done = memory_redis("demo", "--conversations", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "embedded server" in done.stderr
    assert "Traceback" not in done.stderr
    assert_clean(done.stdout, 60)


@pytest.mark.parametrize("binary", binaries(), ids=lambda binary: binary.version)
def test_a_server_on_the_network_gives_the_same(binary: Binary) -> None:
    """With `--url` the demo runs on that server, under its own namespace, and leaves no key there."""
    with Server(binary) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("memory:mine", "untouched")
        done = memory_redis("demo", "--conversations", "40", "--workers", "2", "--url", server.url)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_clean(done.stdout, 40)
        assert binary.version in figures(done.stdout)["server"]
        assert demo_keys(server) == ["memory:mine"]


@pytest.mark.slow
def test_the_whole_data_set_is_replayed() -> None:
    """All 7,168 conversations, 258,145 messages: nothing lost, doubled or out of order."""
    done = memory_redis("demo", "--conversations", "all", seconds=580)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_clean(done.stdout, 7168)
    assert figures(done.stdout)["messages"].startswith("258,145 in ")


def test_damage_in_the_server_is_found() -> None:
    """Messages removed, doubled and swapped behind the back of the demo are counted, and it ends with 1."""
    program = """
import sys, redis
from memory_redis.cli import main
from memory_redis.cli.demo import run
honest = run.replay

def replay(url, namespace, *rest):
    heard = honest(url, namespace, *rest)
    client = redis.Redis.from_url(url)
    keys = sorted(client.scan_iter(f"{namespace}:*:messages"), key=client.llen)
    client.lpop(keys[-1])
    client.rpush(keys[-2], client.lindex(keys[-2], 0))
    records = client.lrange(keys[-3], 0, -1)
    kinds = [None if b"noise" in record else record[17] for record in records]
    at = next(i for i, kind in enumerate(kinds) if kinds[i : i + 2] in ([1, 2], [2, 1]))
    client.lset(keys[-3], at, records[at + 1])
    client.lset(keys[-3], at + 1, records[at])
    client.close()
    return heard

run.replay = replay
sys.exit(main(["demo", "--conversations", "30"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=150,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert figures(done.stdout)["lost / doubled / out of order"] == "1 / 1 / 1"
    assert done.stderr.endswith("memory-redis: the check found what must not be: see the table\n")


def test_the_smallest_run_still_loses_a_worker() -> None:
    """One worker and one conversation: the killed worker's turn is repeated by its replacement."""
    done = memory_redis("demo", "--conversations", "1", "--workers", "1", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = figures(done.stdout)
    assert number(rows["repeats recognised"]) == 1
    assert rows["erased"] == "1 conversation, 0 keys left"
    assert re.search(r"^check .* 1/1 +conversation ", done.stderr, re.M)


def test_ctrl_c_ends_everything() -> None:
    """Interrupted in the middle: exit code 130, one line, no worker and no key left."""
    with Server() as server:
        process = started("demo", "--conversations", "2000", "--url", server.url)
        wait_until(lambda: len(demo_keys(server)) > 20, "keys of the demo", 60)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert output == ""
        assert errors.endswith("memory-redis: interrupted\n")
        assert "Traceback" not in errors
        wait_until(lambda: not alive_in_group(process.pid), "the end of all workers")
        assert demo_keys(server) == []


def test_a_server_that_becomes_full_is_said_in_one_line_and_left_empty() -> None:
    """Full in the middle: exit code 3 as of any refusal, and still no key is left, for it may erase."""
    with Server() as server:
        process = started("demo", "--conversations", "2000", "--url", server.url)
        wait_until(lambda: len(demo_keys(server)) > 20, "keys of the demo", 30)
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", 1024)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 3, errors
        assert output == ""
        assert errors.splitlines()[-1].startswith("memory-redis: the server is out of memory")
        assert demo_keys(server) == []


def test_workers_end_with_their_parent() -> None:
    """When the parent is killed, no worker outlives it."""
    with Server() as server:
        process = started("demo", "--conversations", "2000", "--url", server.url)
        wait_until(lambda: len(demo_keys(server)) > 20, "keys of the demo", 60)
        wait_until(lambda: len(alive_in_group(process.pid)) >= 7, "all workers")
        process.kill()
        process.communicate(timeout=60)
        wait_until(lambda: not alive_in_group(process.pid), "the end of all workers")


def test_a_server_that_dies_is_said_in_one_line() -> None:
    """The server is killed in the middle: exit code 3, one line after the progress, no worker left."""
    with Server() as server:
        process = started("demo", "--conversations", "2000", "--url", server.url)
        wait_until(lambda: len(demo_keys(server)) > 20, "keys of the demo", 60)
        server.kill()
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 3, errors
        assert "Traceback" not in errors
        assert errors.splitlines()[-1].startswith("memory-redis: ")
        assert output == ""
        wait_until(lambda: not alive_in_group(process.pid), "the end of all workers")
