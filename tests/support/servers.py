"""Real servers for tests: one `Server`, a `Cluster`, a `SentinelSet`. Take every name from here.

with Cluster(bundled_valkey(), replicas=1) as cluster:
    client = RedisCluster(startup_nodes=cluster.startup_nodes)
"""

from __future__ import annotations

import functools
import re
import time
from contextlib import ExitStack
from typing import Any, Self

from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

from .server import (
    HOST,
    Binary,
    Server,
    ServerError,
    binaries,
    bundled_valkey,
    coverage,
    covered,
    deaf_port,
    debian_redis,
    wait_until,
)

__all__ = [
    "HOST",
    "Binary",
    "Cluster",
    "SentinelSet",
    "Server",
    "ServerError",
    "binaries",
    "bundled_valkey",
    "coverage",
    "covered",
    "deaf_port",
    "debian_redis",
    "wait_until",
]

FORM_SECONDS = 60.0  # until a cluster or a Sentinel set agrees with itself, on a busy machine

# After a diskless copy a replica calls its link up, yet gets no writes before its next acknowledgement, up to
# a second later: a failover in between loses them (seen on Redis 7.0.15). After a copy by disk it gets them
# at once.
COPY_BY_DISK = ("--repl-diskless-sync", "no")


def in_step(replica: Server, servers: list[Server]) -> bool:
    """Whether `replica` is linked to its master, one of `servers`, and has what that had when asked."""
    info = replica.info()
    if info["role"] != "slave" or info["master_link_status"] != "up":
        return False
    master = next(server for server in servers if server.port == int(info["master_port"]))
    written = int(master.info()["master_repl_offset"])
    return int(replica.info()["slave_repl_offset"]) >= written


class _Group:
    """Servers that are started, formed into one whole, and closed together."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def start(self) -> Self:
        """Start and form it; what was started is closed again when that fails."""
        with ExitStack() as stack:
            self._form(stack)
            self._stack = stack.pop_all()
        return self

    def _form(self, stack: ExitStack) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Kill every server of it and remove their folders."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _ClusterNode(Server):
    kind = "cluster"


class Cluster(_Group):
    """Redis Cluster of three masters, each with `replicas` replicas, all from one binary.

    `options` go to every node. A node counts as failed after 2 seconds of silence: a slow one does not.
    """

    def __init__(self, binary: Binary | None = None, *options: str, replicas: int = 0) -> None:
        super().__init__()
        self.binary = binary or bundled_valkey()
        self.version = self.binary.version
        self.options = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"),
            *COPY_BY_DISK,
            *options,
        )
        self.replicas_per_master = replicas
        self.nodes: list[Server] = []

    def _form(self, stack: ExitStack) -> None:
        count = 3 * (1 + self.replicas_per_master)
        make = functools.partial(_ClusterNode, self.binary, *self.options)
        self.nodes = [stack.enter_context(make()) for _ in range(count)]
        masters, replicas = self.nodes[:3], self.nodes[3:]
        for index, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            self.nodes[0].ask("CLUSTER", "MEET", *node.address)
        for index, master in enumerate(masters):  # ADDSLOTSRANGE is younger than Redis 6.2
            master.ask("CLUSTER", "ADDSLOTS", *range(index * 16384 // 3, (index + 1) * 16384 // 3))
        wait_until(
            lambda: all(len(self._seen_by(n)) == count for n in self.nodes), "all nodes met", FORM_SECONDS
        )
        for index, replica in enumerate(replicas):
            replica.ask("CLUSTER", "REPLICATE", masters[index % 3].ask("CLUSTER", "MYID"))
        self.wait_ok()

    @staticmethod
    def _seen_by(node: Server) -> list[list[str]]:
        """The nodes that `node` is in touch with, as fields: id, address, flags, master's id, …, slots."""
        rows = [row.split() for row in node.ask("CLUSTER", "NODES").splitlines()]
        return [
            row for row in rows if row[7] == "connected" and not re.search("fail|handshake|noaddr", row[2])
        ]

    def wait_ok(self, seconds: float = FORM_SECONDS) -> None:
        """Wait until every running node says cluster_state:ok and each replica is in step with its master.

        All then know whose replica each is: a master that does not would give it no vote.
        """
        running = [node for node in self.nodes if node.running]

        def ok(node: Server) -> bool:
            state = node.ask("CLUSTER", "INFO")
            whole = "cluster_state:ok" in state and "cluster_slots_ok:16384" in state
            return whole and (node.info()["role"] == "master" or in_step(node, self.nodes))

        def agreed() -> bool:
            first, *others = [{(row[0], row[3]) for row in self._seen_by(node)} for node in running]
            return all(one == first for one in others)

        wait_until(lambda: all(map(ok, running)) and agreed(), "cluster_state:ok on all nodes", seconds)

    @property
    def ports(self) -> list[int]:
        """Ports of all nodes, the three first masters first."""
        return [node.port for node in self.nodes]

    @property
    def startup_nodes(self) -> list[ClusterNode]:
        """All nodes as redis-py's RedisCluster takes them."""
        return [ClusterNode(HOST, port) for port in self.ports]  # type: ignore[no-untyped-call]

    @property
    def url(self) -> str:
        """`redis://` URL of the first node; RedisCluster.from_url finds the others."""
        return f"redis://{HOST}:{self.ports[0]}"

    def client(self, **settings: Any) -> RedisCluster:
        """A new redis-py client of it; the caller closes it."""
        return RedisCluster(startup_nodes=self.startup_nodes, **settings)

    def master_of(self, key: str) -> Server:
        """The node that answers for `key` now."""
        anyone = next(node for node in self.nodes if node.running)
        slot = anyone.ask("CLUSTER", "KEYSLOT", key)
        port = next(row[2][1] for row in anyone.ask("CLUSTER", "SLOTS") if row[0] <= slot <= row[1])
        return self._node(port)

    def replicas_of(self, key: str) -> list[Server]:
        """The replicas of the node that answers for `key` now."""
        master = self.master_of(key)
        my_id = master.ask("CLUSTER", "MYID")
        ports = [row[1].split("@")[0].rpartition(":")[2] for row in self._seen_by(master) if row[3] == my_id]
        return [self._node(int(port)) for port in ports]

    def _node(self, port: int) -> Server:
        return next(node for node in self.nodes if node.port == port)

    def failover(self, key: str) -> Server:
        """Hand the slots of `key` to a replica as an operator would, without loss; returns the new master."""
        old, new = self.master_of(key), self.replicas_of(key)[0]

        asked = 0.0

        def took_over() -> bool:
            nonlocal asked
            if new.info()["role"] == "master":
                return self.master_of(key) is new
            if time.monotonic() - asked > 6:  # one that is not through after 5 s has been given up
                new.ask("CLUSTER", "FAILOVER")
                asked = time.monotonic()
            return False

        wait_until(took_over, f"{new!r} took over", FORM_SECONDS)
        wait_until(lambda: old.info()["role"] == "slave", f"{old!r} stepped down")
        self.wait_ok()
        return new

    def move_slot(self, key: str, target: Server, *, finish: bool = True) -> None:
        """Move the slot of `key` with its keys to `target`; unless `finish`, half-way (ASK answers)."""
        source, slot = self.master_of(key), self.nodes[0].ask("CLUSTER", "KEYSLOT", key)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.ask("MIGRATE", *target.address, "", 0, 5000, "KEYS", *keys)
        if finish:
            for node in (target, source):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))


class _Watched(Server):
    kind = "sentinel"


class _SentinelProcess(_Watched):
    def __init__(self, binary: Binary, watched: Server, service_name: str) -> None:
        super().__init__(binary)
        self._config = self.folder / "sentinel.conf"  # Sentinel keeps what it knows in there
        self._config.write_text(
            f"sentinel monitor {service_name} {HOST} {watched.port} 2\n"
            f"sentinel down-after-milliseconds {service_name} 5000\n"
            f"sentinel failover-timeout {service_name} 5000\n"
        )

    def _command(self) -> list[str]:
        return [str(self.binary.path), str(self._config), "--sentinel"]


class SentinelSet(_Group):
    """A master, a replica and three Sentinels with quorum 2, all from one binary.

    `options` go to master and replica. The master counts as down after 5 seconds of silence.
    """

    service_name = "memory"

    def __init__(self, binary: Binary | None = None, *options: str) -> None:
        super().__init__()
        self.binary = binary or bundled_valkey()
        self.version = self.binary.version
        self.options = (*COPY_BY_DISK, *options)
        self.servers: list[Server] = []
        self.sentinel_servers: list[Server] = []

    def _form(self, stack: ExitStack) -> None:
        first = stack.enter_context(_Watched(self.binary, *self.options))
        replica_of_first = ("--replicaof", HOST, str(first.port), *self.options)
        self.servers = [first, stack.enter_context(_Watched(self.binary, *replica_of_first))]
        wait_until(lambda: in_step(self.servers[1], self.servers), "the replica copied the master")
        for _ in range(3):  # they are told the replica's name by the master, once it is there
            process = _SentinelProcess(self.binary, first, self.service_name)
            self.sentinel_servers.append(stack.enter_context(process))
        for sentinel in self.sentinel_servers:
            # Sooner than the usual 10 and 2 s. Not sooner still: after 4 publish periods, Sentinels that have
            # not heard of a failover make the new master a replica again.
            sentinel.ask("SENTINEL", "DEBUG", "INFO-PERIOD", 1000, "PUBLISH-PERIOD", 500)
        self.wait_ok()

    def _known_by(self, sentinel: Server) -> tuple[dict[str, str], dict[str, str]]:
        """What a Sentinel knows of the master and of the first replica."""
        master = sentinel.ask("SENTINEL", "MASTER", self.service_name)
        replicas = sentinel.ask("SENTINEL", "REPLICAS", self.service_name) or [[]]
        as_dict = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in (master, replicas[0])]
        return as_dict[0], as_dict[1]

    def wait_ok(self, seconds: float = FORM_SECONDS) -> None:
        """Wait until all Sentinels agree on a healthy master with a replica in step and know each other."""

        def ok(sentinel: Server, port: int) -> bool:
            master, replica = self._known_by(sentinel)
            return (
                (master["port"], master["flags"], master["num-other-sentinels"]) == (str(port), "master", "2")
                and (replica.get("flags"), replica.get("master-link-status")) == ("slave", "ok")
                and in_step(self.replica, self.servers)
            )

        wait_until(
            lambda: all(ok(sentinel, self.master.port) for sentinel in self.sentinel_servers),
            "all Sentinels agree",
            seconds,
        )

    @property
    def sentinels(self) -> list[tuple[str, int]]:
        """Host and port of each Sentinel."""
        return [sentinel.address for sentinel in self.sentinel_servers]

    @property
    def url(self) -> str:
        """`redis+sentinel://host:port,host:port,host:port/service`."""
        addresses = ",".join(f"{host}:{port}" for host, port in self.sentinels)
        return f"redis+sentinel://{addresses}/{self.service_name}"

    @property
    def master(self) -> Server:
        """The server that the first running Sentinel calls master now."""
        sentinel = next(server for server in self.sentinel_servers if server.running)
        _, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service_name)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replica(self) -> Server:
        """The other one."""
        master = self.master
        return next(server for server in self.servers if server is not master)

    def client(self, **settings: Any) -> Sentinel:
        """redis-py's Sentinel object; its `master_for(service_name)` gives clients."""
        return Sentinel(self.sentinels, **settings)  # type: ignore[no-untyped-call]

    def failover(self) -> Server:
        """Make the replica the master, as an operator would; returns the new master once all agree."""
        old = self.master

        def accepted() -> bool:
            self.sentinel_servers[0].ask("SENTINEL", "FAILOVER", self.service_name)
            return True

        wait_until(
            accepted, "a Sentinel accepts the failover"
        )  # it refuses while an earlier one is under way
        self.wait_failed_over(old)
        self.wait_ok()
        return self.master

    def wait_failed_over(self, old: Server, seconds: float = FORM_SECONDS) -> Server:
        """Wait until all Sentinels name another master than `old`, killed or paused before; returns it."""

        def moved() -> bool:
            named = [
                s.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service_name) for s in self.sentinel_servers
            ]
            return all(int(port) != old.port for _, port in named) and self.master.info()["role"] == "master"

        wait_until(moved, f"another master than {old!r}", seconds)
        return self.master
