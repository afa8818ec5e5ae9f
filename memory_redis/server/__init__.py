"""The server behind `embedded://`: a real Valkey or Redis that runs while processes use it.

Words used in this package:

home        the directory of one server: its locks, its log and, when a path was given, its data
attachment  one use of a server; the attachments of a process share one claim on the home
supervisor  a small process which starts the server, waits until nobody holds a claim, and ends it

Every claim is a shared `flock` on `HOME/users`. The kernel drops it when a process ends, however it ends,
so no server outlives its users, and none is taken from under them. The home must be on a local file system,
and all processes that share a home must run as the same user on the same machine.
"""

from memory_redis.server.attachment import Attachment, attach
from memory_redis.server.errors import ServerNotFound, ServerNotStarted

__all__ = ["Attachment", "ServerNotFound", "ServerNotStarted", "attach"]
