"""From a URL to the options of a connection. Nothing is opened before the first call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from redis.connection import parse_url

from memory_redis.errors import InvalidSetting

if TYPE_CHECKING:
    from memory_redis.server import Attachment

SOCKET_TIMEOUT = 5.0
SCHEMES = ("redis://", "rediss://", "unix://", "embedded://", "fake://")


class Endpoint(Protocol):
    """Where connections go."""

    def url(self) -> str:
        """The address; an embedded server is started for it. Blocking."""
        ...

    def close(self) -> None:
        """Release what `url` took."""


class FixedEndpoint:
    """A server that is there."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self) -> str:
        """The address."""
        return self._url

    def close(self) -> None:
        """Nothing was taken."""


class EmbeddedEndpoint:
    """A server that runs as long as somebody uses it; see `memory_redis.server`."""

    __slots__ = ("_attachment", "_lock", "_path")

    def __init__(self, path: str | None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._attachment: Attachment | None = None

    def url(self) -> str:
        """The address of the server, which is started if need be."""
        from memory_redis.server import attach

        with self._lock:
            before, self._attachment = self._attachment, attach(self._path)
            if before is not None:
                before.close()
            return self._attachment.url

    def close(self) -> None:
        """Let the server go: it ends with its last user."""
        with self._lock:
            if self._attachment is not None:
                self._attachment.close()
                self._attachment = None


def endpoint(url: str) -> Endpoint:
    """The endpoint of any URL but `fake://`.

    Raises:
        InvalidSetting: it is no URL of a scheme that is known here, or a part of it is wrong.
    """
    scheme = scheme_of(url)
    if scheme == "embedded":
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            raise InvalidSetting("an embedded:// URL has a path and nothing else")
        return EmbeddedEndpoint(unquote(parts.netloc + parts.path) or None)
    connection_options(url)
    return FixedEndpoint(url)


def scheme_of(url: str) -> str:
    """The scheme of a URL.

    Raises:
        InvalidSetting: it is none of `SCHEMES`.
    """
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise InvalidSetting(f"a URL begins with one of {', '.join(SCHEMES)}")
    return url.partition(":")[0]


def connection_options(url: str, parse: Callable[[str], Mapping[str, Any]] = parse_url) -> dict[str, Any]:
    """The keywords of a redis-py connection for a URL; a certificate is checked, name included.

    `parse` is redis-py's parser, the sync or the asyncio one.

    Raises:
        InvalidSetting: a part of the URL is wrong.
    """
    try:
        options: dict[str, Any] = dict(parse(url))
    except (ValueError, TypeError, AttributeError):
        raise InvalidSetting(
            "a part of the URL is wrong: it is scheme://[user:password@]host:port/db"
        ) from None
    if url.startswith("rediss://"):
        options.setdefault("ssl_cert_reqs", "required")
        options.setdefault("ssl_check_hostname", options["ssl_cert_reqs"] == "required")
    return options


def patience_of(url: str) -> float:
    """Seconds that one exchange may take: the URL's socket_timeout, or the default."""
    if url.startswith(("redis", "unix")):
        return float(connection_options(url).get("socket_timeout") or SOCKET_TIMEOUT)
    return SOCKET_TIMEOUT
