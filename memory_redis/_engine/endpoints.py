"""From a URL to the options of a connection. No connection is opened before the first call."""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from redis.connection import Connection, parse_url
from redis.exceptions import RedisError

from memory_redis._engine.forks import renew_in_children
from memory_redis.errors import InvalidSetting

if TYPE_CHECKING:
    from memory_redis.server import Attachment

SOCKET_TIMEOUT = 5.0
_DATABASE = re.compile(r"/?|/[0-9]{1,5}")
_WRONG = "a part of the URL is wrong: it is scheme://[user:password@]host:port/db"
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

    __slots__ = ("__weakref__", "_attachment", "_lock", "_path")

    def __init__(self, path: str | None) -> None:
        self._path = path
        self.after_fork()
        renew_in_children(self)

    def after_fork(self) -> None:
        """Forget the parent's attachment; the next connection makes one for this process."""
        self._lock = threading.Lock()
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
    return FixedEndpoint(check_url(url))


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
        parts = urlsplit(url)
    except ValueError:
        raise InvalidSetting(_WRONG) from None
    if parts.scheme == "unix":
        if not parts.path:
            raise InvalidSetting("a unix:// URL needs the path of a socket")
    elif not _DATABASE.fullmatch(parts.path):
        raise InvalidSetting(_WRONG)
    try:
        options: dict[str, Any] = dict(parse(url))
    except (ValueError, TypeError, AttributeError):
        raise InvalidSetting(_WRONG) from None
    if parts.scheme == "rediss":
        options.setdefault("ssl_cert_reqs", "required")
        options.setdefault("ssl_check_hostname", options["ssl_cert_reqs"] == "required")
    for name in ("socket_timeout", "socket_connect_timeout"):
        seconds = options.get(name)
        if seconds is not None and not 0 < seconds < 3600:
            raise InvalidSetting(f"{name} in the URL must be more than 0 and less than 3,600 seconds")
    return options


def check_url(url: str) -> str:
    """The URL, if a connection can be made from it. Nothing is opened but the files that it names.

    Raises:
        InvalidSetting: a part or an option of it is wrong.
    """
    options = connection_options(url)
    try:
        options.pop("connection_class", Connection)(**options)
    except (TypeError, ValueError, RedisError):
        raise InvalidSetting("an option in the URL is not one of a connection") from None
    if url.startswith("rediss://"):
        _check_files(options)
    return url


def _check_files(options: Mapping[str, Any]) -> None:
    """That the certificates and keys that a URL names are there, and are such.

    Raises:
        InvalidSetting: one is not; the sentence names the option.
    """
    authorities, folder = options.get("ssl_ca_certs"), options.get("ssl_ca_path")
    certificate, key = options.get("ssl_certfile"), options.get("ssl_keyfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities is not None:
        with _told_of("ssl_ca_certs in the URL is no file of certificates that can be read"):
            context.load_verify_locations(authorities)
    if folder is not None:
        with _told_of("ssl_ca_path in the URL is no folder that can be read"):
            os.scandir(folder).close()
    for name, file in (("ssl_certfile", certificate), ("ssl_keyfile", key)):
        if file is not None:
            with _told_of(f"{name} in the URL is no file that can be read"), open(file, "rb"):
                pass
    if certificate is not None or key is not None:
        with _told_of("ssl_certfile and ssl_keyfile in the URL are no certificate with its key"):
            # Without a password OpenSSL would ask for it at the terminal.
            context.load_cert_chain(certificate, key, options.get("ssl_password") or "")  # type: ignore[arg-type]


@contextmanager
def _told_of(reason: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError):
        raise InvalidSetting(reason) from None


def patience_of(url: str) -> float:
    """Seconds that one exchange may take: the URL's socket_timeout, or the default."""
    if scheme_of(url) in ("redis", "rediss", "unix"):
        return float(connection_options(url).get("socket_timeout") or SOCKET_TIMEOUT)
    return SOCKET_TIMEOUT
