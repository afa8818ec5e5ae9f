"""Summaries that processes make of one conversation, while they die, lose replies and lose the server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from memory_redis import (
    AccessDenied,
    MaxMessages,
    MemoryRedisError,
    RedisMemory,
    ServerUnavailable,
    StorageFull,
    SummaryNotMade,
    Version,
    human,
)
from memory_redis._engine.scripts import CLAIM, COMPACT, Script
from memory_redis.telemetry import Event
from tests.faults.conftest import Connect
from tests.faults.summarising import SESSION, Asked, Job, Processes, asked_of
from tests.faults.ways import HOST, SCRIPTS, WAYS, Way
from tests.faults.worker import read_of
from tests.scenarios.remembering import IN_FRONT, SUMMARY, SUMMARY_BUFFER, Model, over
from tests.scenarios.stored import eventually, texts
from tests.support.elle_append import check
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Server, bundled_valkey, wait_until

pytestmark = pytest.mark.anyio

SCRIPT_WORDS = tuple(word.encode() for word in SCRIPTS)
IN_THE_PAST = (1_600_000_000_000).to_bytes(6)


@pytest.fixture
def port(valkey: Server) -> int:
    return valkey.port


def meta(namespace: str) -> str:
    """The key of the meta of the session that the processes share."""
    return f"{namespace}:{{:{SESSION}}}:meta"


# -- processes ------------------------------------------------------------------------------------


def test_eight_processes_lose_no_message_between_append_and_summary(
    port: int, plain: redis.Redis, direct: RedisMemory, namespace: str
) -> None:
    """R92, R97, R99, P1: what models were asked of, and what is left, is what was appended, in order."""
    jobs = [
        Job(name=f"w{number}", port=port, namespace=namespace, face=("sync", "async")[number % 2], keep=800)
        for number in range(8)
    ]
    with Processes(*jobs) as processes:
        processes.begin()
        operations, counts = processes.end()
    start, snapshot = time.monotonic(), direct.session(SESSION).load()
    asked = asked_of(plain, namespace)
    summarised = [text for one in asked for text in one.texts]
    appended = {operation["version"] - 1: operation["values"][0] for operation in operations}
    assert [appended[place] for place in range(800)] == [*summarised, *texts(snapshot)]
    assert snapshot.trimmed == len(summarised)

    # one model for each time that the limit was crossed, each told of the one before
    assert counts["compact"] == counts["calls"] == len(asked) >= 3
    assert (counts["summary"], counts["conflict"]) == (0, 0)
    assert [one.before for one in asked] == [None, *(one.answer for one in asked[:-1])]
    assert snapshot.summary == asked[-1].answer
    assert min(len(one.texts) for one in asked) > 10

    operations.append(read_of(SESSION, "final", snapshot, start, final=True))
    result = check(operations, version_is_length=True, require_final=True)
    assert result["ok"], result["examples"]
    assert result["stats"]["append_ok"] == 800


def test_retention_that_cuts_into_summaries_at_work_tears_nothing(
    valkey: Server, direct: RedisMemory, namespace: str
) -> None:
    """R97, R99, decision 23: what it removes before anybody tells of it is missing, and nothing else."""
    places: dict[str, int] = {}
    model, events = Model(), list[Event]()

    def work(name: str) -> None:
        options: dict[str, Any] = {"retention": MaxMessages(8), "hooks": (events.append,)}
        with RedisMemory.from_url(valkey.url, namespace=namespace, **options) as memory:
            store = over(memory, SUMMARY, model, 3)._target
            for number in range(60):
                text = f"{name}:{number}"
                places[f"human: {text}"] = store.append(SESSION, human(text)).number - 1

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    snapshot = direct.session(SESSION).load()
    assert sorted(places.values()) == list(range(240))
    assert [message.seq for message in snapshot.messages] == list(range(snapshot.trimmed, 240))
    assert len(snapshot.messages) <= 8

    kinds = Counter(event.kind for event in events)
    assert len(model.asked) == kinds["compact"] + kinds["conflict"] >= 3
    assert kinds["summary"] == 0
    told = [[places[line] for line in lines if line in places] for lines in model.told]
    assert [found for found in told if found != list(range(found[0], found[0] + len(found)))] == []
    if not kinds[
        "conflict"
    ]:  # else a summary was dropped, as its messages were gone, and the next tells of more
        each = [place for found in told for place in found]
        assert each == sorted(set(each))
        assert each[-1] < snapshot.trimmed


def test_a_process_that_is_killed_while_its_model_works_is_replaced(
    port: int, plain: redis.Redis, direct: RedisMemory, namespace: str
) -> None:
    """R96, R97, P5: its messages stay, and the first append after its time makes the summary."""
    job = Job(name="w", port=port, namespace=namespace, appends=9, buffer_size=2, model_seconds=1, hang=True)
    with Processes(job) as processes:
        processes.begin()
        processes.says("asking")
        held = plain.hget(meta(namespace), "w")
        processes.kill()
    assert held is not None
    snapshot = direct.session(SESSION).load()
    assert (texts(snapshot), snapshot.summary) == ([f"w:{number}" for number in range(5)], None)

    def over_now() -> bool:
        seconds, micros = plain.time()
        return int(seconds) * 1000 + int(micros) // 1000 > int.from_bytes(held[12:])

    wait_until(over_now, "the claim has run out")
    store = over(direct, SUMMARY, model := Model(), 2)._target
    store.append(SESSION, human("mine"))
    assert model.told == [[f"human: w:{number}" for number in range(4)]]
    assert texts(store.load(SESSION)) == [f"{IN_FRONT}s1", "w:4", "mine"]
    assert not plain.hexists(meta(namespace), "w")


def test_a_summary_that_a_process_made_is_seen_by_another(
    port: int, plain: redis.Redis, direct: RedisMemory, namespace: str
) -> None:
    """R96: after the process has ended, by whoever reads; it ends with the messages, at the same instant."""
    job = Job(name="w", port=port, namespace=namespace, appends=5, buffer_size=2, expiry=60)
    with Processes(job) as processes:
        processes.begin()
        processes.end()
    store = over(direct, SUMMARY, model := Model(), 2)._target
    assert texts(store.load(SESSION)) == [f"{IN_FRONT}w/1", "w:3", "w:4"]
    assert asked_of(plain, namespace) == [Asked(None, ["w:0", "w:1", "w:2"], "w/1")]
    messages = meta(namespace).replace(":meta", ":messages")
    assert plain.pexpiretime(messages) == plain.pexpiretime(meta(namespace)) > 0
    store.append(SESSION, *(human(str(number)) for number in range(3)))
    assert model.told[0][0] == f"system: {IN_FRONT}w/1"


# -- lost replies ---------------------------------------------------------------------------------


def asks(script: Script, nth: int = 1) -> Any:
    """Whether a request is the `nth` call of a script."""
    seen = 0

    def matches(args: list[bytes]) -> bool:
        nonlocal seen
        if len(args) > 1 and args[1] in (script.sha, script.source):
            seen += 1
            return seen == nth
        return False

    return matches


def numbered(count: int) -> list[Any]:
    return [human(str(number)) for number in range(count)]


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("script", [CLAIM, COMPACT], ids=["claim", "compact"])
async def test_a_lost_answer_makes_no_second_summary_and_prevents_none(
    connect: Connect,
    proxy: FaultProxy,
    direct: RedisMemory,
    plain: redis.Redis,
    namespace: str,
    script: Script,
    what: str,
) -> None:
    """R96, R97: it is sent again and recognised; the model is asked once, and no claim is left."""
    store = over(connect(proxy.port, timeout=5), SUMMARY, model := Model(), 2)
    await store.append(SESSION, *numbered(4))
    fault = proxy.drop_reply if what == "reply" else proxy.drop_request
    rule = fault(asks(script), how="close")
    await store.append(SESSION, human("4"))
    assert rule.hits == 1
    assert len(model.asked) == 1
    snapshot = direct.session(SESSION).load()
    assert (snapshot.summary, texts(snapshot)) == ("s1", ["3", "4"])
    assert not plain.hexists(meta(namespace), "w")


async def test_a_lost_answer_to_giving_up_leaves_no_claim(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str
) -> None:
    """R98: and the error is the model's."""
    failure = ZeroDivisionError()
    store = over(connect(proxy.port, timeout=5), SUMMARY, Model(failure), 2)
    await store.append(SESSION, *numbered(4))
    rule = proxy.drop_request(asks(CLAIM, 2), how="close")
    with pytest.raises(SummaryNotMade) as caught:
        await store.append(SESSION, human("4"))
    assert (caught.value.__cause__, rule.hits) == (failure, 1)
    assert not plain.hexists(meta(namespace), "w")


async def test_a_claim_that_cannot_be_given_up_does_not_hide_why_the_model_failed(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory
) -> None:
    """R98: the server went away while the model was at work."""

    def fail() -> str:
        proxy.drop_request(how="close", times=10**6)
        raise ZeroDivisionError

    store = over(connect(proxy.port, deadline=1.5), SUMMARY, Model(fail), 2)
    with pytest.raises(SummaryNotMade) as caught:
        await store.append(SESSION, *numbered(5))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    proxy.heal()
    assert texts(direct.session(SESSION).load()) == list("01234")


@pytest.mark.parametrize("script", [CLAIM, COMPACT], ids=["claim", "compact"])
async def test_a_server_that_goes_away_after_the_append_leaves_the_message_stored(
    connect: Connect,
    proxy: FaultProxy,
    direct: RedisMemory,
    plain: redis.Redis,
    namespace: str,
    script: Script,
) -> None:
    """R98, P9: SummaryNotMade says so; the next append after that makes the summary."""
    store = over(
        connect(proxy.port, deadline=1.5),
        SUMMARY,
        Model(),
        2,
        model_seconds=1,
    )
    await store.append(SESSION, *numbered(4))
    matches = asks(script)
    given_up: list[bytes] = []

    def gone(args: list[bytes]) -> bool:
        if args[1:2] == [CLAIM.sha] and args[6] == b"0":
            given_up.append(args[5])
        return matches(args) or (args[0] in SCRIPT_WORDS and bool(rule.hits))

    rule = proxy.drop_request(gone, how="close", times=10**6)
    with pytest.raises(SummaryNotMade) as caught:
        await store.append(SESSION, human("4"))
    assert isinstance(caught.value.__cause__, ServerUnavailable)
    assert (caught.value.outcome, caught.value.version.number) == ("stored", 5)
    assert given_up == [], "who is not heard spends no second deadline on giving up"
    proxy.heal(drop=True)
    assert texts(direct.session(SESSION).load()) == list("01234")

    assert plain.hexists(meta(namespace), "w") is (script is COMPACT)
    if script is COMPACT:  # it runs out by itself; here it has run out
        plain.hset(meta(namespace), "w", b"x" * 12 + IN_THE_PAST)
    await store.append(SESSION, human("5"))
    assert texts(direct.session(SESSION).load()) == ["4", "5"]


@pytest.mark.parametrize("way", [Way("async", "own")], ids=str)
async def test_a_call_that_is_cancelled_while_it_claims_leaves_no_claim(
    connect: Connect, proxy: FaultProxy, plain: redis.Redis, namespace: str
) -> None:
    """R98, D12: the server has made the claim, the answer is on its way."""
    store = over(connect(proxy.port, timeout=5), SUMMARY, model := Model(), 2)
    await store.append(SESSION, *numbered(4))
    proxy.drop_reply(asks(CLAIM), how="hang")
    task = asyncio.create_task(store.append(SESSION, human("4")))
    await eventually(lambda: plain.hexists(meta(namespace), "w"), "the claim is made")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not plain.hexists(meta(namespace), "w")
    await store.append(SESSION, human("5"))
    assert len(model.asked) == 1


async def test_counting_by_the_messages_meets_lost_replies_too(
    connect: Connect, proxy: FaultProxy, direct: RedisMemory
) -> None:
    """R93, P11: where the server cannot tell the tokens, they are read, counted and claimed for."""
    counter = {"counter": lambda message: 1}
    store = over(connect(proxy.port, timeout=5), SUMMARY_BUFFER, model := Model(), 4, **counter)
    await store.append(SESSION, *numbered(4))
    rules = [proxy.drop_reply(asks(script), how="reset") for script in (CLAIM, COMPACT)]
    rules.append(proxy.drop_reply("LRANGE", how="close"))
    await store.append(SESSION, human("4"))
    assert [rule.hits for rule in rules] == [1, 1, 1]
    assert len(model.asked) == 1
    assert texts(direct.session(SESSION).load()) == ["3", "4"]


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_every_way_to_the_server_summarises(connect: Connect, port: int, direct: RedisMemory) -> None:
    """R96: own connections, and clients that are passed in, whatever they decode and repeat."""
    store = over(connect(port, timeout=5), SUMMARY_BUFFER, model := Model(), 4)
    for number in range(5):
        await store.append(SESSION, human(str(number)))
    assert model.told == [["human: 0", "human: 1", "human: 2"]]
    assert texts(await store.load(SESSION)) == [f"{IN_FRONT}s1", "3", "4"]
    version = direct.session(SESSION).load().version
    assert await store.session(SESSION).compact("in short", expected=version, keep=1) == 1
    assert direct.session(SESSION).load().summary == "in short"


# -- the server -----------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, that forgets nothing it has acknowledged."""
    with Server(bundled_valkey(), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def test_a_server_that_is_killed_leaves_the_old_state_or_the_new(own: Server, namespace: str) -> None:
    """R97, P5: of each conversation, at whatever moment; what was acknowledged stays."""
    done: list[int] = []
    hasty = RedisMemory.from_url(own.url, namespace=namespace, deadline=2)
    with RedisMemory.from_url(own.url, namespace=namespace) as memory, hasty:
        histories = [memory.session(f"s{number}") for number in range(400)]
        versions: list[Version] = [history.append(*numbered(6)) for history in histories]

        def compact() -> None:
            try:
                for number, version in enumerate(versions):
                    hasty.session(f"s{number}").compact("in short", expected=version, keep=2)
                    done.append(number)
            except MemoryRedisError:
                pass

        working = threading.Thread(target=compact)
        working.start()
        wait_until(lambda: len(done) >= 20, "it is at it")
        own.kill()
        working.join()
        own.start()
        summarised = 0
        for number, history in enumerate(histories):
            snapshot = history.load()
            new = (snapshot.summary, texts(snapshot)) == ("in short", ["4", "5"])
            assert new or (snapshot.summary, texts(snapshot)) == (None, list("012345"))
            assert new or number not in done
            assert snapshot.version == versions[number]
            summarised += new
        assert len(done) <= summarised <= len(done) + 1
        assert histories[0].append(human("6"), expected=versions[0]).number == 7


def test_a_full_server_refuses_a_summary_and_changes_nothing(own: Server, namespace: str) -> None:
    """R97, B16: StorageFull; messages stay, and with room it is made."""
    with RedisMemory.from_url(own.url, namespace=namespace) as memory:
        history = memory.session(SESSION)
        version = history.append(*numbered(6))
        own.ask("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StorageFull):
            history.compact("in short", expected=version, keep=2)
        snapshot = history.load()
        assert (snapshot.summary, texts(snapshot), snapshot.version) == (None, list("012345"), version)
        own.ask("CONFIG", "SET", "maxmemory", 0)
        assert history.compact("in short", expected=version, keep=2) == 4


def test_a_command_that_is_not_allowed_leaves_no_half_summary(own: Server, namespace: str) -> None:
    """R97, P3, F21: AccessDenied, and both keys are what they were; or the summary is whole."""
    own.ask("ACL", "SETUSER", "app", "on", "nopass", f"~{namespace}:*", "+@all")
    url = f"redis://app:x@{HOST}:{own.port}/0"
    with (
        RedisMemory.from_url(url, namespace=namespace) as memory,
        RedisMemory.from_url(own.url, namespace=namespace) as operator,
        own.client() as client,
    ):
        for number, word in enumerate(
            ["evalsha", "hmget", "llen", "time", "lrange", "hset", "ltrim", "hdel"]
        ):
            history, truth = memory.session(f"s{number}"), operator.session(f"s{number}")
            key = f"{namespace}:{{:s{number}}}:meta"
            first = history.append(*numbered(6))
            history.compact("first", expected=first, keep=5)
            version = history.append(human("6"))
            before = client.hgetall(key)
            own.ask("ACL", "SETUSER", "app", f"-{word}")
            try:
                history.compact("second", expected=version, keep=2)
            except AccessDenied:
                assert client.hgetall(key) == before
                assert (truth.load().summary, texts(truth.load())) == ("first", list("123456"))
            else:
                assert word == "hdel"
            own.ask("ACL", "SETUSER", "app", "+@all")
            if word != "hdel":
                assert history.compact("second", expected=version, keep=2) == 4
            assert (truth.load().summary, texts(truth.load())) == ("second", ["5", "6"])
