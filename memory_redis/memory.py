"""`RedisMemory` and `AsyncRedisMemory`: a Redis deployment and how conversations are kept in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NoReturn, Self, Unpack, cast

from memory_redis._engine.channels import AsyncClient, SyncClient
from memory_redis._engine.conversation import Conversation
from memory_redis._engine.opening import Opening, async_client_driver, client_driver
from memory_redis._engine.servers import ping
from memory_redis._engine.settings import Settings
from memory_redis._engine.users import User
from memory_redis.errors import InvalidId, InvalidSetting
from memory_redis.expiry import Expiry
from memory_redis.history import AsyncHistory, History
from memory_redis.options import MemoryOptions
from memory_redis.snapshots import ConversationInfo, Forgotten


class _MemoryBase:
    """What both faces share."""

    _settings: Settings
    _opening: Opening | None = None
    _is_twin = False
    """It was made by the other face, which outlives it."""

    @property
    def has_twin(self) -> bool:
        """Whether there is a `twin`: the memory was made from a URL."""
        return self._opening is not None

    def _opened(self) -> Opening:
        if self._opening is None:
            raise InvalidSetting("a memory over a client that was passed in has no twin: make it from a URL")
        return self._opening

    def _conversation(self, user_id: str, conversation_id: str, expiry: Expiry | None) -> Conversation:
        if user_id is None:
            raise InvalidId("user_id must be a text; a conversation without a user is memory.session(id)")
        return Conversation(self._settings, user_id, conversation_id, expiry)

    def _session(self, session_id: str, expiry: Expiry | None) -> Conversation:
        return Conversation(self._settings, None, session_id, expiry)

    def _user(self, user_id: str, page_size: int = 100) -> User:
        if type(page_size) is not int or not 1 <= page_size <= 1000:
            raise InvalidSetting("page_size must be an integer from 1 to 1,000")
        return User(self._settings, user_id, page_size)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self._settings.namespace!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a memory has connections: make one in each process, by from_url()")


class RedisMemory(_MemoryBase):
    """A Redis deployment and how conversations are kept in it. Making one does no I/O.

    A memory may be used by many threads, and after a fork.

    Args:
        client: a sync client of redis-py: single, Sentinel's or Cluster. It is never closed or
            reconfigured. `RedisMemory.from_url()` makes connections of its own instead.

        options: the keywords of `MemoryOptions`.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    _twin: AsyncRedisMemory | None = None

    def __init__(self, client: SyncClient, **options: Unpack[MemoryOptions]) -> None:
        self._settings = Settings.of(options)
        self._driver = client_driver(client, self._settings.deadline)

    @classmethod
    def from_url(cls, url: str, *, max_connections: int = 50, **options: Unpack[MemoryOptions]) -> Self:
        """A memory with connections of its own, opened when they are first needed.

        Args:
            url: `redis://[user:password@]host:port/db`, `rediss://…` (TLS, certificate checked),
                `unix://path`, `embedded://` (a real server for this process and its children),
                `embedded://path` (the same, shared by all that give the path, which keeps the
                data), `fake://` or `fake://name` (fakeredis: private, or shared in the process).

            max_connections: how many there may be; a call that finds all in use waits.

            options: the keywords of `MemoryOptions`.

        Raises:
            InvalidSetting: one of these cannot be meant.
        """
        memory = cls.__new__(cls)
        memory._settings = Settings.of(options)
        memory._opening = Opening(url, max_connections, memory._settings.deadline)
        memory._driver = memory._opening.driver()
        return memory

    @property
    def twin(self) -> AsyncRedisMemory:
        """The asyncio face of the same server with the same settings, connections of its own.

        It is made at the first call. Its connections close with their event loop; `close()` of this
        memory lets it go as well.

        Raises:
            InvalidSetting: this memory was not made from a URL.
        """
        if self._twin is None:
            twin = AsyncRedisMemory.__new__(AsyncRedisMemory)
            twin._settings, twin._opening, twin._twin = self._settings, self._opened(), self
            twin._driver, twin._is_twin = twin._opening.async_driver(), True
            return cast(AsyncRedisMemory, self.__dict__.setdefault("_twin", twin))  # threads get the same
        return self._twin

    def history(self, user_id: str, conversation_id: str, *, expiry: Expiry | None = None) -> History:
        """A conversation of a user. Nothing is sent.

        Ids are opaque: every difference counts, nothing is trimmed, folded or normalised. The user
        id must come from whoever authenticated the user, never from the request itself.

        Args:
            expiry: when the conversation ends, by what this history does; instead of the memory's.
                What `History.expire` has set for the conversation itself comes first.

        Raises:
            InvalidId: an id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        return History(self._conversation(user_id, conversation_id, expiry), self._driver)

    def session(self, session_id: str, *, expiry: Expiry | None = None) -> History:
        """A conversation without a user, for applications that have one id only. Nothing is sent.

        Sessions are in no user's list: `conversations` and `forget` do not reach them.

        Args:
            expiry: as for `history`.

        Raises:
            InvalidId: the id is not a non-empty text.
            InvalidSetting: it is no expiry.
        """
        return History(self._session(session_id, expiry), self._driver)

    def conversations(self, user_id: str, page_size: int = 100) -> Iterator[ConversationInfo]:
        """A user's conversations that hold messages, newest first, read by pages.

        The order is exact to a minute. Entries of conversations that have ended are removed on the
        way.

        Args:
            page_size: conversations that are asked for together, 1 to 1,000.

        Raises:
            InvalidId: the id is not a non-empty text.
            ServerError: the server, or the way to it, said no.
        """
        return self._pages(self._user(user_id, page_size))

    def _pages(self, user: User) -> Iterator[ConversationInfo]:
        below: str | None = "+inf"
        while below is not None:
            infos, below = self._driver.drive(user.conversations(below))
            yield from infos

    def forget(self, user_id: str) -> Forgotten:
        """Erase everything of a user: conversations, what belongs to them, and the list of them.

        For 100 seconds a mark without content stays for each, so that no append that was on its
        way brings one back. What the server wrote to disk, replicas and backups keeps the bytes
        until it is rewritten.

        Raises:
            InvalidId: the id is not a non-empty text.
            ServerError: the server, or the way to it, said no; calling again goes on.
        """
        return self._driver.drive(self._user(user_id).forget())

    def ping(self) -> None:
        """See that the server answers, and that it is not too old.

        Raises:
            ServerError: it does not, or it is.
        """
        self._driver.drive(ping())

    def close(self) -> None:
        """Close what the memory, and a twin that it made, opened; a client that was passed in stays open.

        The connections of an asyncio twin end with what uses them, or else with their event loop. A
        memory that is used again opens new ones.
        """
        self._driver.close()
        if self._twin is not None and not self._is_twin:
            self._twin._driver.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRedisMemory(_MemoryBase):
    """A Redis deployment and how conversations are kept in it, for asyncio. Making one does no I/O.

    Args:
        client: an asyncio client of redis-py: single, Sentinel's or Cluster, for one event loop.
            It is never closed or reconfigured. `AsyncRedisMemory.from_url()` makes connections of
            its own instead, and may be used from any number of loops, and after a fork.

        options: the keywords of `MemoryOptions`.

    Raises:
        InvalidSetting: one of these cannot be meant.
    """

    _twin: RedisMemory | None = None

    def __init__(self, client: AsyncClient, **options: Unpack[MemoryOptions]) -> None:
        self._settings = Settings.of(options)
        self._driver = async_client_driver(client, self._settings.deadline)

    @classmethod
    def from_url(cls, url: str, *, max_connections: int = 50, **options: Unpack[MemoryOptions]) -> Self:
        """A memory with connections of its own, opened when they are first needed.

        Args:
            url: as for `RedisMemory.from_url`.

            max_connections: how many there may be for each event loop; a call that finds all in
                use waits.

            options: the keywords of `MemoryOptions`.

        Raises:
            InvalidSetting: one of these cannot be meant.
        """
        memory = cls.__new__(cls)
        memory._settings = Settings.of(options)
        memory._opening = Opening(url, max_connections, memory._settings.deadline)
        memory._driver = memory._opening.async_driver()
        return memory

    @property
    def twin(self) -> RedisMemory:
        """The sync face of the same server with the same settings, connections of its own.

        It is made at the first call; `twin.close()` closes it, and so does `aclose()` of this memory.

        Raises:
            InvalidSetting: this memory was not made from a URL.
        """
        if self._twin is None:
            twin = RedisMemory.__new__(RedisMemory)
            twin._settings, twin._opening, twin._twin = self._settings, self._opened(), self
            twin._driver, twin._is_twin = twin._opening.driver(), True
            return cast(RedisMemory, self.__dict__.setdefault("_twin", twin))
        return self._twin

    def history(self, user_id: str, conversation_id: str, *, expiry: Expiry | None = None) -> AsyncHistory:
        """A conversation of a user. Nothing is sent. As `RedisMemory.history`.

        Raises:
            InvalidId: an id is not a non-empty text.
        """
        return AsyncHistory(self._conversation(user_id, conversation_id, expiry), self._driver)

    def session(self, session_id: str, *, expiry: Expiry | None = None) -> AsyncHistory:
        """A conversation without a user. Nothing is sent. As `RedisMemory.session`.

        Raises:
            InvalidId: the id is not a non-empty text.
        """
        return AsyncHistory(self._session(session_id, expiry), self._driver)

    def conversations(self, user_id: str, page_size: int = 100) -> AsyncIterator[ConversationInfo]:
        """A user's conversations that hold messages, newest first. As `RedisMemory.conversations`.

        Args:
            page_size: conversations that are asked for together, 1 to 1,000.

        Raises:
            InvalidId: the id is not a non-empty text.
            ServerError: the server, or the way to it, said no.
        """
        return self._pages(self._user(user_id, page_size))

    async def _pages(self, user: User) -> AsyncIterator[ConversationInfo]:
        below: str | None = "+inf"
        while below is not None:
            infos, below = await self._driver.drive(user.conversations(below))
            for info in infos:
                yield info

    async def forget(self, user_id: str) -> Forgotten:
        """Erase everything of a user. As `RedisMemory.forget`.

        Raises:
            InvalidId: the id is not a non-empty text.
            ServerError: the server, or the way to it, said no; calling again goes on.
        """
        return await self._driver.drive(self._user(user_id).forget())

    async def ping(self) -> None:
        """See that the server answers, and that it is not too old.

        Raises:
            ServerError: it does not, or it is.
        """
        await self._driver.drive(ping())

    async def aclose(self) -> None:
        """Close what the memory opened in this event loop, and what a twin that it made opened.

        A client that was passed in stays open. A memory that is used again opens new connections.
        """
        await self._driver.aclose()
        if self._twin is not None and not self._is_twin:
            self._twin._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
