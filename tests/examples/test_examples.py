"""Each example runs as its first lines say, without a warning, and prints what it claims."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest
import redis

from tests.cli.command import ROOT, environment
from tests.support.servers import Server

EXAMPLES = ROOT / "examples"
NAMES = ["langchain_chain", "plain", "two_workers", "worker_pool"]
SECONDS = 100.0


def run(*command: str) -> str:
    """What a Python process prints that ends well and says nothing else; a warning would end it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def example(name: str, *arguments: str) -> str:
    """What an example prints."""
    return run(f"examples/{name}.py", *arguments)


def without(module: str, name: str) -> str:
    """What an example prints where this module, and all in it, cannot be imported."""
    code = f"import runpy, sys; sys.modules[{module!r}] = None; sys.argv = [{name!r}]; "
    return run("-c", f"{code}runpy.run_path('examples/{name}.py', run_name='__main__')")


def lines_after(heading: str, printed: str) -> list[str]:
    """The lines between a heading and the next one."""
    return printed.partition(f"{heading}\n")[2].partition("\n--")[0].splitlines()


def test_every_example_is_tested_and_says_how_to_run_it() -> None:
    """A new example comes with a test, and its first lines have the command."""
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES
    for name in NAMES:
        assert f"\n    python examples/{name}.py " in (EXAMPLES / f"{name}.py").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_another_server_is_used_and_left_clean(name: str) -> None:
    """With `--url` an example writes there; nothing of it stays but marks that end by themselves."""
    with Server() as server, redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.set("mine", "untouched")
        example(name, "--url", server.url)
        assert int(client.info("commandstats")["cmdstat_rpush"]["calls"]) > 0
        keys = list(client.scan_iter(count=1000))
        assert [key for key in keys if client.ttl(key) < 0] == ["mine"]
        assert not [key for key in keys if key.endswith(":messages")]


def assert_all_answered(printed: str) -> None:
    assert re.search(r"^200 messages in 5 conversations, 225 deliveries$", printed, re.MULTILINE)
    shares = re.search(r"worker processes took ([\d, ]+) of them", printed)
    assert shares is not None
    assert sum(map(int, shares[1].split(","))) == 225
    assert "deliveries recognised as repeats: 25\n" in printed
    for conversation in range(5):
        line = f"  c{conversation}: 80 messages, 40 questions followed by their own answers\n"
        assert line in printed
    assert "lost 0, doubled 0, astray 0\n" in printed


@pytest.mark.parametrize("workers", ["1", "4"])
def test_a_pool_of_processes_answers_each_message_once(workers: str) -> None:
    """R99, T8: whatever the number of workers, and though the queue delivers every ninth message twice."""
    printed = example("worker_pool", "--workers", workers)
    assert f"\n{workers} worker processes took" in printed
    assert_all_answered(printed)


def test_a_pool_whose_workers_fail_ends_with_an_error() -> None:
    """A server that lets nobody in ends the workers, and the example with them."""
    with Server(password="parcel") as server:
        done = subprocess.run(
            [
                sys.executable,
                "examples/worker_pool.py",
                "--workers",
                "2",
                "--url",
                f"redis://127.0.0.1:{server.port}/0",
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=ROOT,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert "a worker failed" in done.stderr


def test_a_chain_keeps_conversations_apart() -> None:
    """R24, R60: whole or streamed, sync or awaited, the model sees the prompt and its own conversation."""
    printed = example("langchain_chain")
    assert re.findall(r"the model sees (\d+) messages", printed) == ["2", "4", "2", "2", "4"]
    assert "ann, trip: Lisbon| |is| |lovely| |in| |May,| |Ann.\n" in printed
    assert "bob, trip: It| |is| |raining| |in| |Bergen,| |Bob.\n" in printed
    assert lines_after("-- stored of ann, trip: 4 messages", printed) == [
        "Human: Hi, I am Ann.",
        "AI: Hello Ann, where do you want to go?",
        "Human: Lisbon, in May?",
        "AI: Lisbon is lovely in May, Ann.",
    ]
    assert lines_after("-- stored of ann, report: 2 messages", printed) == [
        "Human: Help me with a report.",
        "AI: A report on what, and for whom?",
    ]
    assert lines_after("-- stored of bob, trip: 4 messages", printed) == [
        "Human: Hi, I am Bob.",
        "AI: Hello Bob, what can I do for you?",
        "Human: How is the weather in Bergen?",
        "AI: It is raining in Bergen, Bob.",
    ]


def losses(printed: str) -> dict[str, tuple[int, int, str]]:
    """Of each wrapper and history: messages stored and expected, and what is lost."""
    found = re.findall(
        r"^(\S.*):\n  stored: (\d+) of (\d+) messages.*\n  lost:   (.*)$", printed, re.MULTILINE
    )
    return {title: (int(stored), int(expected), lost) for title, stored, expected, lost in found}


@pytest.mark.parametrize("workers", [2, 5])
def test_overlapping_runs_lose_questions_only_in_langchains_own_wrapper(workers: int) -> None:
    """T2: the reference keeps the first question alone, wherever its history is; ours keeps all."""
    found = losses(example("two_workers", "--workers", str(workers)))
    total = 2 * workers
    assert found.pop("memory_redis, our wrapper, history in Redis") == (total, total, "nothing")
    assert len(found) == 2
    lost = ", ".join(f"question {number}" for number in range(1, workers))
    assert set(found.values()) == {(total - workers + 1, total, lost)}


def test_without_langchains_wrapper_there_is_nothing_to_compare_with() -> None:
    """T24: the example says that langchain-core has no such class any more, and shows ours."""
    printed = without("langchain_core.runnables.history", "two_workers")
    assert "has no RunnableWithMessageHistory any more" in printed
    assert losses(printed) == {"memory_redis, our wrapper, history in Redis": (4, 4, "nothing")}


def assert_plain(printed: str) -> None:
    def shown(*lines: str) -> bool:
        return "\n".join(lines) in printed

    assert shown("the same answer: True; runs of the model: 1", "repeated: [False, True]")
    assert shown("tries: 2; messages that each try saw: [7, 8]; saved: True")
    assert shown("11 parts, stored as one message: True")
    stored: Sequence[str] = lines_after("-- what is stored", printed)
    kinds = [line.split()[1] for line in stored]
    assert kinds == ["human", "ai"] * 3 + ["human", "human", "ai", "human", "ai"]


def test_plain_functions_remember() -> None:
    """A repeat runs no model, a conflict runs it again, a stream is stored as one message."""
    assert_plain(example("plain"))


def test_plain_functions_need_no_langchain() -> None:
    """The same where langchain-core cannot be imported."""
    assert_plain(without("langchain_core", "plain"))
