"""What the demonstration leaves in the server: its keys, their size, and their end."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis

__all__ = ["Server", "Sizes"]

BATCH = 500


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes in the server, by kind of key, as MEMORY USAGE reports them."""

    messages: int = 0
    meta: int = 0


class Server:
    """A plain client beside the memory: it sees the server's keys as they are."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def name(self) -> str:
        """Name and version of the server."""
        info: dict[str, Any] = self._client.info("server")
        if "valkey_version" in info:
            return f"Valkey {info['valkey_version']}"
        return f"Redis {info.get('redis_version', 'of unknown version')}"

    def keys(self, namespace: str) -> list[bytes]:
        """All keys of a namespace (SCAN, so the server goes on working)."""
        found = self._client.scan_iter(match=f"{namespace}:{{*", count=1000)
        return [key if isinstance(key, bytes) else key.encode() for key in found]

    def number_of(self, keys: list[bytes]) -> int:
        """How many of these keys are there."""
        return int(self._client.exists(*keys)) if keys else 0

    def sizes(self, keys: list[bytes]) -> Sizes:
        """What the messages and the meta of all conversations take; the index of users is left out."""
        sums = {b"messages": 0, b"meta": 0}
        for batch in _batches(keys):
            with self._client.pipeline(transaction=False) as pipeline:
                for key in batch:
                    pipeline.memory_usage(key, samples=0)
                for key, size in zip(batch, pipeline.execute(), strict=True):
                    kind = key.rpartition(b":")[2]
                    if kind in sums:
                        sums[kind] += size or 0
        return Sizes(sums[b"messages"], sums[b"meta"])

    def seconds_left(self, keys: list[bytes]) -> list[float | None]:
        """How long each key will live yet; None without end. A key that is gone has 0."""
        left: list[float | None] = []
        for batch in _batches(keys):
            with self._client.pipeline(transaction=False) as pipeline:
                for key in batch:
                    pipeline.pttl(key)
                left += [None if ms == -1 else max(ms, 0) / 1000 for ms in pipeline.execute()]
        return left

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()


def _batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
