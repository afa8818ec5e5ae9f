"""URLs and clients: what cannot be meant is refused when a memory is made, without I/O or a password."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from memory_redis import AsyncRedisMemory, InvalidSetting, RedisMemory, ServerUnavailable
from tests.support.ids import shown

FACES: list[Any] = [RedisMemory, AsyncRedisMemory]
SECRET = "hunter2"

GOOD = [
    *(
        "redis://h",
        "redis://h:6380/3",
        "redis://:pw@h",
        "redis://user:p%40ss@h:1/0",
        "redis://[::1]:6379/0",
        "redis://",
    ),
    *(
        "rediss://h",
        "rediss://h?ssl_cert_reqs=none",
        "rediss://h?ssl_check_hostname=False",
        "unix:///run/redis.sock",
    ),
    *(
        "unix://user:pw@/run/redis.sock?db=2",
        "redis://h?db=2",
        "redis://h?socket_timeout=1.5",
        "redis://h/0?protocol=2",
    ),
    *("redis://h?decode_responses=True", "redis://h?health_check_interval=5", "redis://h?client_name=bot"),
    *("fake://", "fake://name", "embedded://", "embedded:///tmp/somewhere", "embedded://some/where"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("url", GOOD)
def test_a_url_opens_nothing_before_the_first_call(face: Any, url: str) -> None:
    """Making a memory speaks to nobody, whether the server is there or not."""
    memory = face.from_url(url)
    memory.history("ann", "c1")
    assert repr(memory) == f"<{face.__name__} namespace='memory'>"


BAD: list[Any] = [
    *(
        f"http://u:{SECRET}@h",
        f"redis:/u:{SECRET}@h",
        f"REDIS://u:{SECRET}@h",
        "",
        "redis",
        f"//u:{SECRET}@h",
        "h:6379",
    ),
    *(f"redis://u:{SECRET}@h:bad/0", f"redis://u:{SECRET}@h:99999/0", f"redis://u:{SECRET}@[::1/0"),
    *(
        f"redis://u:{SECRET}@h/x",
        f"redis://u:{SECRET}@h/0/1",
        f"redis://u:{SECRET}@h/-1",
        f"redis://u:{SECRET}@h/1.5",
    ),
    *(
        f"redis://u:{SECRET}@h?db=x",
        f"redis://u:{SECRET}@h?foo=bar",
        f"redis://u:{SECRET}@h?max_connections=x",
    ),
    *(f"redis://u:{SECRET}@h?socket_timeout=x", f"redis://u:{SECRET}@h?socket_timeout=-1"),
    *(f"redis://u:{SECRET}@h?socket_timeout=nan", f"redis://u:{SECRET}@h?socket_timeout=0"),
    *(f"rediss://u:{SECRET}@h?ssl_cert_reqs=sometimes", "unix://", "embedded://x?y=1", "embedded://x#y"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("url", BAD)
def test_a_url_that_cannot_be_meant_is_refused_at_once(face: Any, url: str) -> None:
    """S6: wrong scheme, port, database or option; the text names no password, nor does a cause."""
    with pytest.raises(InvalidSetting) as caught:
        face.from_url(url)
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None


FILES = ["ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("what", ["nothing", "a folder", "a text", "no path"])
def test_a_file_of_a_url_that_cannot_be_used_is_refused_at_once(
    face: Any, option: str, what: str, tmp_path: Path
) -> None:
    """S6: the option is named, not the server blamed at the deadline; no path and no password is shown."""
    folder, text = tmp_path / f"folder-{SECRET}", tmp_path / f"{SECRET}.pem"
    folder.mkdir()
    text.write_text("no certificate")
    paths = {"nothing": tmp_path / SECRET, "a folder": folder, "a text": text, "no path": "a%00b"}
    url = f"rediss://u:{SECRET}@h?{option}={paths[what]}"
    if (option, what) == ("ssl_ca_path", "a folder"):
        face.from_url(url)
        return
    with pytest.raises(InvalidSetting, match=option) as caught:
        face.from_url(url)
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("face", FACES)
def test_a_key_with_a_password_is_never_asked_for_at_the_terminal(face: Any, tmp_path: Path) -> None:
    """S6: the password stands in the URL, and a wrong or missing one is an error when the memory is made."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET.encode()))
    (tmp_path / "me.pem").write_bytes(certificate + locked)
    url = f"rediss://h?ssl_certfile={tmp_path}/me.pem"
    face.from_url(f"{url}&ssl_password={SECRET}")
    for password in ("", "&ssl_password=another"):
        with pytest.raises(InvalidSetting, match="ssl_certfile and ssl_keyfile"):
            face.from_url(url + password)


@pytest.mark.parametrize("url", ["http://h", "redis:/h", "valkey://h", "redis+cluster://h"])
def test_both_faces_refuse_a_scheme_in_the_same_words(url: str) -> None:
    """G01: the sentence names the schemes that there are."""
    texts = set()
    for face in FACES:
        with pytest.raises(InvalidSetting) as caught:
            face.from_url(url)
        texts.add(str(caught.value))
    assert texts == {"a URL begins with one of redis://, rediss://, unix://, embedded://, fake://"}


@pytest.mark.parametrize("option", ["max_connections=5", "timeout=3", "retry_on_timeout=yes", "protocol=3"])
def test_an_option_that_redis_py_takes_is_heeded_or_refused(option: str) -> None:
    """G02, P9: on both faces it is never found out at the first call."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{closed.getsockname()[1]}/0?{option}"
        try:
            memory = RedisMemory.from_url(url, deadline=0.05)
        except InvalidSetting:
            with pytest.raises(InvalidSetting):
                AsyncRedisMemory.from_url(url)
            return
        with pytest.raises(ServerUnavailable):
            memory.ping()

        async def ping() -> None:
            async with AsyncRedisMemory.from_url(url, deadline=0.05) as other:
                await other.ping()

        with pytest.raises(ServerUnavailable):
            asyncio.run(ping())


@pytest.mark.parametrize("seconds", [0.2, 30])
def test_the_time_to_connect_is_that_of_the_url_if_the_call_has_as_long(
    monkeypatch: pytest.MonkeyPatch, nobody: int, seconds: float
) -> None:
    """G02: no option is checked and then ignored."""
    found, connect = [], redis.Connection.connect

    def noted(connection: redis.Connection) -> None:
        found.append(connection.socket_connect_timeout)
        connect(connection)

    monkeypatch.setattr(redis.Connection, "connect", noted)
    url = f"redis://127.0.0.1:{nobody}?socket_connect_timeout={seconds}"
    memory = RedisMemory.from_url(url, deadline=0.5)
    with pytest.raises(ServerUnavailable):
        memory.ping()
    assert found[0] == pytest.approx(min(seconds, 0.5), abs=0.1)


@pytest.mark.parametrize(
    "source", [None, 5, b"redis://h", object(), redis.Redis, redis.ConnectionPool()], ids=shown
)
def test_what_is_no_client_is_refused(source: Any) -> None:
    """One sentence, on both faces."""
    for face in FACES:
        with pytest.raises(InvalidSetting):
            face(source)
        with pytest.raises(InvalidSetting):
            face.from_url(source)


def test_a_client_of_the_other_face_is_refused() -> None:
    """G03: a sync client in an async memory would block the loop; the sentence says so at once."""
    with pytest.raises(InvalidSetting, match="asyncio"):
        RedisMemory(redis.asyncio.Redis())  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="asyncio"):
        AsyncRedisMemory(redis.Redis())  # type: ignore[arg-type]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("count", [0, -1, 100_001, 2.5, True, "3", None], ids=repr)
def test_a_number_of_connections_that_means_nothing_is_refused(face: Any, count: Any) -> None:
    """Decision 7: for every URL alike."""
    for url in ("redis://h", "fake://"):
        with pytest.raises(InvalidSetting):
            face.from_url(url, max_connections=count)
