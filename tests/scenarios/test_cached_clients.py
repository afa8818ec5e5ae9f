"""A client that caches replies on its side, as redis-py does with `cache_config`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from memory_redis import LastMessages, RedisMemory, human
from tests.scenarios.stored import proxied, real_servers, texts
from tests.support.servers import Server

try:
    from redis.cache import CacheConfig
except ImportError:  # the lowest supported redis-py has no such cache
    CacheConfig = None

# redis-py wants to see Redis 7.4 or newer; what it then uses is as old as 6.0.
HELLO = b"%4\r\n+server\r\n+redis\r\n+version\r\n+7.4.0\r\n+proto\r\n:3\r\n+role\r\n+master\r\n"


def caching_client(port: int) -> redis.Redis:
    """A caching client; a plain one where redis-py and hiredis cannot cache together, as old ones cannot."""
    if CacheConfig is not None:
        client = redis.Redis("127.0.0.1", port, protocol=3, cache_config=CacheConfig())
        try:
            client.ping()
        except AttributeError:
            client.connection_pool.disconnect()
        else:
            return client
    return redis.Redis("127.0.0.1", port, protocol=3)


@pytest.fixture
def caching(server: Server) -> Iterator[redis.Redis]:
    """A caching client of a server that says it is new enough."""
    with proxied(server) as (proxy, _):
        proxy.rewrite_reply(HELLO, match="HELLO", times=1000)
        with caching_client(proxy.port) as client:
            yield client
            client.connection_pool.disconnect()


@real_servers
def test_no_answer_comes_from_the_clients_cache(caching: redis.Redis, url: str, namespace: str) -> None:
    """P11: what other workers did is seen at once, by every method."""
    here = RedisMemory(caching, namespace=namespace)
    history = here.history("ann", "c1")
    with RedisMemory.from_url(url, namespace=namespace) as elsewhere:
        for number in range(10):
            other = elsewhere.history("ann", "c1")
            version = (other if number % 2 else history).append(human(str(number)))
            assert history.count() == number + 1
            assert history.exists()
            assert history.expire_in() is None
            assert history.load().version == version
            assert texts(history.load(LastMessages(1))) == [str(number)]
            assert len(list(history.iterate())) == number + 1
            assert [info.messages for info in here.conversations("ann")] == [number + 1]
        elsewhere.history("ann", "c1").clear()
        assert (history.count(), history.exists()) == (0, False)
        history.append(human("again"))
        assert history.clear() == 1
        assert here.forget("ann").messages == 0
