"""Behind `fake://`: fakeredis, for tests. What it cannot do is listed in `memory_redis.testing`."""

from __future__ import annotations

from typing import Any

from memory_redis.errors import InvalidSetting
from memory_redis.wording import needs_extra

_named: dict[str, Any] = {}


def fake_server(url: str) -> Any:
    """The fake server of a URL: a private one for `fake://`, one shared by the process for a name.

    Raises:
        InvalidSetting: fakeredis is not installed.
    """
    try:
        import fakeredis
        import lupa  # noqa: F401 - fakeredis runs scripts with it, and says so late
    except ImportError:
        raise InvalidSetting(needs_extra("fake://", "fake")) from None
    name = url.removeprefix("fake://")
    if not name:
        return fakeredis.FakeServer()
    return _named.setdefault(name, fakeredis.FakeServer())


def fake_client(server: Any) -> Any:
    """A sync client of a fake server."""
    import fakeredis

    return fakeredis.FakeRedis(server=server)


def fake_async_client(server: Any) -> Any:
    """An asyncio client of a fake server."""
    import fakeredis

    return fakeredis.FakeAsyncRedis(server=server)
