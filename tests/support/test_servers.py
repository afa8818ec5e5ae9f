"""Each kind of test server starts, answers through redis-py, takes what is done to it, and is gone after."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from .servers import Binary, Cluster, SentinelSet, Server, ServerError, binaries, coverage, wait_until

BOTH = pytest.mark.parametrize("binary", binaries(), ids=lambda binary: binary.version)
NO_RETRY = Retry(NoBackoff(), 0)


def refuses(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@BOTH
def test_a_server_answers_over_tcp_and_over_its_unix_socket(binary: Binary) -> None:
    """Both URLs reach the same server, which has the options it was given and demands its password."""
    with Server(binary, "--maxmemory", "8mb", password="secret", unix_socket=True) as server:
        with redis.Redis.from_url(server.url) as tcp, redis.Redis.from_url(server.unix_url) as unix:
            assert tcp.set("key", "value")
            assert unix.get("key") == b"value"
        assert server.ask("CONFIG", "GET", "maxmemory") == ["maxmemory", "8388608"]
        with (
            redis.Redis(port=server.port, retry=NO_RETRY) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
    assert not server.running
    assert refuses(server.port)
    assert not server.folder.exists()
    assert "server" in coverage()[binary.version]


@BOTH
def test_data_outlives_a_crash_only_when_the_options_say_so(binary: Binary) -> None:
    """After SIGKILL and a start on the same port, an append-only file is read back; without, all is gone."""
    durable = Server(binary, "--appendonly", "yes", "--appendfsync", "always")
    with durable, Server(binary) as volatile:
        for server in (durable, volatile):
            port = server.port
            server.ask("SET", "key", "value")
            server.kill()
            assert refuses(port)
            assert server.start().port == port
        assert durable.ask("GET", "key") == "value"
        assert volatile.ask("GET", "key") is None
        assert durable.restart("--maxmemory", "9mb").ask("CONFIG", "GET", "maxmemory")[1] == str(9 * 2**20)
        assert durable.ask("GET", "key") == "value"


def test_a_paused_server_is_silent_and_then_goes_on() -> None:
    """While it stands still a request times out; resumed, it answers, and it can be stopped while paused."""
    with Server() as server, server.client(socket_timeout=1, retry=NO_RETRY) as client:
        assert client.ping()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()
        server.pause()
        server.stop()
        assert not server.running


def test_a_server_that_cannot_start_says_why_and_leaves_no_folder() -> None:
    """The error carries what the server wrote."""
    server = Server(None, "--maxmemory", "plenty")
    with pytest.raises(ServerError, match="maxmemory"), server:
        pass
    assert not server.folder.exists()


def test_servers_do_not_outlive_a_killed_test_run() -> None:
    """When the interpreter that started a server is killed, the server and its folder go too."""
    script = (
        "import time\n"
        "from tests.support.servers import Server\n"
        "server = Server().start()\n"
        "print(server.port, server.folder, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        port, folder = run.stdout.readline().split()
        assert not refuses(int(port))
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: refuses(int(port)) and not Path(folder).exists(), "server and folder are gone")


@BOTH
def test_a_cluster_serves_every_slot_and_survives_failover_and_resharding(binary: Binary) -> None:
    """Keys of all three masters can be written, and stay readable when their slot changes hands."""
    with Cluster(binary, replicas=1) as cluster, RedisCluster(startup_nodes=cluster.startup_nodes) as client:
        keys = [f"key-{number}" for number in range(30)]
        assert all(client.set(key, key) for key in keys)
        assert {cluster.master_of(key).port for key in keys} == set(cluster.ports[:3])

        old = cluster.master_of("key-0")
        assert cluster.failover("key-0") is not old
        target = next(node for node in cluster.nodes[:3] if node is not old)
        cluster.move_slot("key-0", target)
        assert cluster.master_of("key-0") is target
        assert [client.get(key) for key in keys] == [key.encode() for key in keys]
    assert all(refuses(port) for port in cluster.ports)


@BOTH
def test_a_sentinel_set_names_a_new_master_after_failover(binary: Binary) -> None:
    """The Sentinels agree on another master, which has the data of the first."""
    with SentinelSet(binary) as group:
        sentinel = group.client(socket_timeout=2)
        assert sentinel.discover_master(group.service_name) == group.master.address
        group.master.ask("SET", "key", "value")
        old = group.master
        assert group.failover() is not old
        assert sentinel.discover_master(group.service_name)[1] != old.port
        assert group.master.ask("GET", "key") == "value"
        for client in sentinel.sentinels:
            client.close()
    assert all(refuses(port) for _, port in group.sentinels)
