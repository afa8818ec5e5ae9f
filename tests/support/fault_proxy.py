"""A small TCP fault proxy for Redis/Valkey tests (standard library only).

It understands just enough RESP2/RESP3 framing to count requests and replies,
so a fault can be aimed at "the reply of the 3rd EVALSHA" and not at a byte
offset.  It runs in its own thread with its own event loop, so it can be
driven from synchronous tests, asyncio tests and child processes alike.

    with FaultProxy(("127.0.0.1", 6379)) as proxy:
        client = redis.Redis(port=proxy.port)
        proxy.drop_reply(match="EVALSHA")      # executed, answer never arrives
        ...
        assert proxy.sent["EVALSHA"] == 2      # times it reached the server

Faults (each may be combined with ``delay``):

  drop_reply(after, match, times, how)   forward the request, wait until the
        server has answered, swallow that answer, then close ("close"), reset
        ("reset") or keep the socket silent ("hang").  => executed, unknown.
  drop_request(...)                      same, but the request is not
        forwarded.  => not executed, yet the client cannot tell.
  truncate_reply(keep, ...)              forward the first `keep` bytes, close.
  rewrite_reply(data, ...)               answer with `data` instead.
  delay(seconds, jitter, direction)      latency, "up", "down" or "both".
  half_open(direction)                   accept and keep sockets, move no bytes.
  cut()                                  reset all connections, refuse new ones.
  heal(drop)                             clear every fault; with `drop`, lose
        first all that clients have sent until now, wherever it stands.
  retarget((host, port))                 new connections go elsewhere.

Command line (faults are typed on stdin as `name key=value ...`):

    python tests/support/fault_proxy.py --listen 7400 --upstream 127.0.0.1:6379 \
        --do "drop_reply match=EVALSHA after=3"
    python tests/support/fault_proxy.py --self-test
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque

# Requests a client library sends on its own when it opens a connection; they
# are not counted unless a rule names them.
HANDSHAKE = frozenset(
    b"HELLO AUTH CLIENT SELECT READONLY READWRITE ASKING COMMAND PING INFO".split()
)


class RequestParser:
    """Incremental parser of client->server bytes; yields (raw, args)."""

    def __init__(self):
        self.buf = bytearray()

    def feed(self, data):
        self.buf += data
        while True:
            got = self._one()
            if got is None:
                return
            yield got

    def _line(self, pos):
        end = self.buf.find(b"\r\n", pos)
        return (None, pos) if end < 0 else (bytes(self.buf[pos:end]), end + 2)

    def _one(self):
        if not self.buf:
            return None
        line, pos = self._line(0)
        if line is None:
            return None
        if line[:1] != b"*":  # inline command
            args = line.split()
        else:
            args = []
            for _ in range(int(line[1:])):
                head, pos = self._line(pos)
                if head is None:
                    return None
                size = int(head[1:])
                if len(self.buf) < pos + size + 2:
                    return None
                args.append(bytes(self.buf[pos : pos + size]))
                pos += size + 2
        raw = bytes(self.buf[:pos])
        del self.buf[:pos]
        return raw, args


class ReplyParser:
    """Incremental framing of server->client bytes; yields (raw, is_push)."""

    def __init__(self):
        self.buf = bytearray()
        self._restart()

    def _restart(self):
        self.pos, self.left, self.push = 0, 1, False

    def feed(self, data):
        self.buf += data
        while self._advance():
            raw = bytes(self.buf[: self.pos])
            push = self.push
            del self.buf[: self.pos]
            self._restart()
            yield raw, push

    def _advance(self):
        while self.left:
            end = self.buf.find(b"\r\n", self.pos)
            if end < 0:
                return False
            kind, rest, nxt = self.buf[self.pos : self.pos + 1], self.buf[self.pos + 1 : end], end + 2
            if kind in b"$=!":
                size = int(rest)
                if size >= 0:
                    nxt += size + 2
                    if len(self.buf) < nxt:
                        return False
                self.left -= 1
            elif kind in b"*~>":
                if kind == b">" and self.pos == 0:
                    self.push = True
                self.left += max(int(rest), 0) - 1
            elif kind == b"%":
                self.left += 2 * int(rest) - 1
            elif kind == b"|":  # attribute: decorates the frame after it
                self.left += 2 * int(rest)
            else:
                self.left -= 1
            self.pos = nxt
        return True


class Rule:
    """Hit requests number after+1 .. after+times among those that match."""

    def __init__(self, action, match=None, after=0, times=1, **extra):
        if isinstance(match, str):
            match = [match]
        self.names = None if match is None or callable(match) else {m.upper().encode() for m in match}
        self.call = match if callable(match) else None
        self.action, self.after, self.times, self.extra = action, after, times, extra
        self.seen = self.hits = 0

    def wants(self, args):
        name = args[0].upper() if args else b""
        if self.call is not None:
            ok = self.call(args)
        elif self.names is not None:
            ok = name in self.names
        else:
            ok = name not in HANDSHAKE
        if not ok:
            return False
        self.seen += 1
        if self.seen <= self.after or self.hits >= self.times:
            return False
        self.hits += 1
        return True


class _Link:
    """One proxied connection."""

    def __init__(self, proxy, reader, writer):
        self.proxy, self.c_reader, self.c_writer = proxy, reader, writer
        self.s_reader = self.s_writer = None
        self.waiting = deque()  # one entry (Rule or None) for each request forwarded
        self.muted = False  # client side: no further bytes go to it
        self.dead = False  # what was read and not forwarded yet is lost

    async def run(self):
        proxy = self.proxy
        try:
            self.s_reader, self.s_writer = await asyncio.open_connection(*proxy.upstream)
        except OSError:
            self.kill()
            return
        if self.dead:  # killed while it connected: the server gets nothing
            self.kill(reset=True)
            return
        jobs = [asyncio.ensure_future(self._up()), asyncio.ensure_future(self._down())]
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            self.kill(reset=False)

    def kill(self, reset=False):
        self.dead = True
        for w in (self.c_writer, self.s_writer):
            if w is None:
                continue
            sock = w.get_extra_info("socket")
            if reset and sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            w.transport.abort() if reset else w.close()

    async def _arrivals(self, reader):
        """Bytes with their time of arrival; reading goes on while they wait, so
        latency adds up as on a wire and does not throttle a pipeline."""
        queue = asyncio.Queue(maxsize=1024)

        async def pump():
            while True:
                try:
                    data = await reader.read(65536)
                except OSError:
                    data = b""
                await queue.put((time.monotonic(), data))
                if not data:
                    return

        job = asyncio.ensure_future(pump())
        try:
            while True:
                at, data = await queue.get()
                yield at, data
                if not data:
                    return
        finally:
            job.cancel()

    async def _lag(self, direction, at):
        seconds, jitter, way = self.proxy.lag
        if seconds and way in (direction, "both"):
            due = at + max(0.0, seconds + random.uniform(-jitter, jitter))
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _open(self, direction):
        while self.proxy.hole in (direction, "both"):
            await asyncio.sleep(0.01)

    async def _plain(self, direction, reader, writer):
        async for at, data in self._arrivals(reader):
            await self._lag(direction, at)
            await self._open(direction)
            if not data or self.dead:
                return
            writer.write(data)
            await writer.drain()

    async def _up(self):
        if self.proxy.raw:
            return await self._plain("up", self.c_reader, self.s_writer)
        parser = RequestParser()
        async for at, data in self._arrivals(self.c_reader):
            if not data:
                return
            for raw, args in parser.feed(data):
                await self._lag("up", at)
                await self._open("up")
                if self.dead:
                    return
                rule = next((r for r in self.proxy.rules if r.wants(args)), None)
                name = args[0].upper().decode("latin1") if args else ""
                if rule is not None and rule.action == "drop_request":
                    self.proxy.dropped[name] += 1
                    if await self._end(rule.extra.get("how", "close")):
                        return
                    continue
                self.waiting.append(rule)
                self.proxy.sent[name] += 1
                self.s_writer.write(raw)
                await self.s_writer.drain()

    async def _down(self):
        if self.proxy.raw:
            return await self._plain("down", self.s_reader, self.c_writer)
        parser = ReplyParser()
        async for at, data in self._arrivals(self.s_reader):
            if not data:
                return
            for raw, push in parser.feed(data):
                rule = None if push or not self.waiting else self.waiting.popleft()
                await self._lag("down", at)
                await self._open("down")
                if rule is not None:
                    self.proxy.log.append((time.time(), rule.action, raw[:200]))
                    if rule.action == "rewrite_reply":
                        raw = rule.extra["data"]
                    elif rule.action == "truncate_reply":
                        self.c_writer.write(raw[: rule.extra.get("keep", 1)])
                        await self.c_writer.drain()
                        return
                    else:  # drop_reply
                        if await self._end(rule.extra.get("how", "close")):
                            return
                        continue
                if not self.muted:
                    self.c_writer.write(raw)
                    await self.c_writer.drain()

    async def _end(self, how):
        if how == "hang":
            self.muted = True
            return False
        if how == "reset":
            self.kill(reset=True)
        return True


class FaultProxy:
    """`raw`: move bytes without reading them, for links that do not speak plain
    request/reply (replication, cluster bus, TLS); only delay, half_open, cut
    and retarget work then."""

    def __init__(self, upstream, listen=("127.0.0.1", 0), raw=False):
        self.upstream, self._listen, self.raw = upstream, listen, raw
        self.rules, self.links = [], set()
        self.lag, self.hole, self.refuse = (0.0, 0.0, "both"), None, False
        self.sent, self.dropped, self.log = Counter(), Counter(), deque(maxlen=10000)
        self.accepted = 0
        self._ready = threading.Event()
        self._loop = self._server = self._thread = self._error = None

    # -- life cycle -------------------------------------------------------
    def start(self):
        self._thread = threading.Thread(target=self._main, daemon=True, name="fault-proxy")
        self._thread.start()
        if not self._ready.wait(10):
            raise TimeoutError("the fault proxy did not start within 10 s")
        if self._error:
            raise self._error
        return self

    def stop(self):
        if self._loop and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    __enter__ = start

    def __exit__(self, *exc):
        self.stop()

    def _main(self):
        self._loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            self._server = loop.run_until_complete(asyncio.start_server(self._accept, *self._listen))
            self.host, self.port = self._server.sockets[0].getsockname()[:2]
        except OSError as error:
            self._error = error
            self._ready.set()
            return
        self._ready.set()
        loop.run_forever()
        loop.run_until_complete(self._shut())
        loop.close()

    async def _shut(self):
        """Leave no task, generator or open socket behind."""
        self._server.close()
        await asyncio.sleep(0)  # a connection accepted in this turn gets its task in the next
        while jobs := asyncio.all_tasks() - {asyncio.current_task()}:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        for link in list(self.links):
            link.kill(reset=True)
        await asyncio.get_running_loop().shutdown_asyncgens()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    async def _accept(self, reader, writer):
        link = _Link(self, reader, writer)
        if self.refuse:
            link.kill(reset=True)
            return
        self.accepted += 1
        self.links.add(link)
        try:
            await link.run()
        except (OSError, ValueError):
            link.kill()
        except asyncio.CancelledError:
            link.kill()  # the proxy is stopping
        finally:
            self.links.discard(link)

    def _call(self, fn):
        done = threading.Event()

        def inner():
            try:
                fn()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(inner)
        if not done.wait(30):
            raise TimeoutError("the fault proxy did not answer within 30 s")

    # -- faults -----------------------------------------------------------
    def _rule(self, *a, **k):
        if self.raw:
            raise ValueError("a raw proxy cannot aim at requests")
        rule = Rule(*a, **k)
        self._call(lambda: self.rules.append(rule))
        return rule

    def drop_reply(self, match=None, after=0, times=1, how="close"):
        return self._rule("drop_reply", match, int(after), int(times), how=how)

    def drop_request(self, match=None, after=0, times=1, how="close"):
        return self._rule("drop_request", match, int(after), int(times), how=how)

    def truncate_reply(self, keep=1, match=None, after=0, times=1):
        return self._rule("truncate_reply", match, int(after), int(times), keep=int(keep))

    def rewrite_reply(self, data, match=None, after=0, times=1):
        data = data.encode().decode("unicode_escape").encode("latin1") if isinstance(data, str) else data
        return self._rule("rewrite_reply", match, int(after), int(times), data=data)

    def delay(self, seconds, jitter=0.0, direction="both"):
        self.lag = (float(seconds), float(jitter), direction)

    def half_open(self, direction="both"):
        self.hole = direction

    def cut(self, refuse=True):
        self.refuse = bool(refuse)
        self._call(lambda: [link.kill(reset=True) for link in list(self.links)])

    def heal(self, drop=False):
        if drop:
            self.cut(refuse=True)
            self._pass_the_queue()
        self.lag, self.hole, self.refuse = (0.0, 0.0, "both"), None, False
        self._call(self.rules.clear)

    def _pass_the_queue(self):
        """Return when all that stood in the kernel's queue has been accepted, and so
        refused: first come, first served.  Not for the proxy's own thread."""
        try:
            with socket.create_connection((self.host, self.port), timeout=30) as last:
                while last.recv(65536):
                    pass
        except ConnectionResetError:  # perhaps before it is called connected
            pass

    def retarget(self, upstream, drop=False):
        self.upstream = upstream
        if drop:
            self.cut(refuse=False)


# -- self-test against a toy server, so that it needs no Redis ----------------
class _ToyServer(threading.Thread):
    """INCR answers a counter, anything else +OK."""

    def __init__(self):
        super().__init__(daemon=True)
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port, self.n, self.lock = self.sock.getsockname()[1], 0, threading.Lock()
        self.closing = False

    def run(self):
        while True:
            conn, _ = self.sock.accept()
            if self.closing:
                conn.close()
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def close(self):
        self.closing = True
        socket.create_connection(("127.0.0.1", self.port)).close()  # wakes accept()
        self.join(10)
        self.sock.close()

    def serve(self, conn):
        parser = RequestParser()
        with conn:
            while True:
                try:
                    data = conn.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                for _, args in parser.feed(data):
                    if args[0].upper() == b"INCR":
                        with self.lock:
                            self.n += 1
                        conn.sendall(b":%d\r\n" % self.n)
                    else:
                        conn.sendall(b"+OK\r\n")


def _wait(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.005)


def _ask(port, *cmds, timeout=30):
    """Send commands pipelined; return the bytes, or the way it went wrong."""
    try:
        s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    except ConnectionError:
        return b"", "reset"
    with s:
        request = b"".join(b"*%d\r\n" % len(c) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in c) for c in cmds)
        out, parser, want = b"", ReplyParser(), len(cmds)
        try:
            s.sendall(request)  # a connection may be cut before it is ever written to
            while want:
                data = s.recv(65536)
                if not data:
                    return out, "closed"
                out += data
                want -= sum(1 for _ in parser.feed(data))
            return out, "ok"
        except TimeoutError:
            return out, "timeout"
        except OSError:
            return out, "reset"


def self_test():
    # framing: RESP3 maps, attributes, pushes, nulls, bulk strings holding CRLF
    stream = (
        b"+OK\r\n" b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n" b"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n#t\r\n_\r\n"
        b"|1\r\n+ttl\r\n:5\r\n$4\r\na\r\nb\r\n" b"*-1\r\n" b"$-1\r\n" b"*2\r\n*0\r\n$0\r\n\r\n" b",1.5\r\n" b"-ERR x\r\n"
    )
    for step in (1, 2, 3, 7, len(stream)):
        parser, got = ReplyParser(), []
        for i in range(0, len(stream), step):
            got += parser.feed(stream[i : i + step])
        assert b"".join(r for r, _ in got) == stream and len(got) == 9, (step, len(got))
        assert [p for _, p in got] == [False, True] + [False] * 7
    req = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nPING\r\n"
    for step in (1, 4, len(req)):
        parser, got = RequestParser(), []
        for i in range(0, len(req), step):
            got += parser.feed(req[i : i + step])
        assert [a for _, a in got] == [[b"GET", b"\r\n"], [b"PING"]], got

    toy = _ToyServer()
    toy.start()
    incr = (b"INCR", b"k")
    with FaultProxy(("127.0.0.1", toy.port)) as px:
        assert _ask(px.port, incr) == (b":1\r\n", "ok")
        px.drop_reply(match="INCR")
        assert _ask(px.port, incr) == (b"", "closed") and toy.n == 2, "executed, reply lost"
        px.drop_reply(match="INCR", after=1)  # the 2nd of three pipelined
        assert _ask(px.port, incr, incr, incr) == (b":3\r\n", "closed")
        _wait(lambda: toy.n == 5)
        px.heal()
        px.drop_reply(how="hang")
        assert _ask(px.port, (b"HELLO", b"3"), incr, timeout=1) == (b"+OK\r\n", "timeout") and toy.n == 6
        px.heal()
        px.drop_reply(how="reset")
        assert _ask(px.port, incr) == (b"", "reset") and toy.n == 7
        px.heal()
        px.drop_request()
        assert _ask(px.port, incr) == (b"", "closed") and toy.n == 7, "not executed"
        px.heal()
        px.truncate_reply(keep=2)
        assert _ask(px.port, incr) == (b":8", "closed")
        px.heal()
        px.rewrite_reply(rb"-OOM no\r\n")
        px.rules[-1].extra["data"] = b"-OOM no\r\n"
        assert _ask(px.port, incr) == (b"-OOM no\r\n", "ok") and toy.n == 9
        px.heal()
        px.delay(0.3, direction="down")
        t = time.monotonic()
        assert _ask(px.port, incr)[1] == "ok" and time.monotonic() - t >= 0.29
        t = time.monotonic()  # latency, not throttling: 20 pipelined take one delay, and not six seconds
        assert _ask(px.port, *[(b"PING",)] * 20)[1] == "ok" and time.monotonic() - t < 4
        px.heal()
        px.half_open("up")
        assert _ask(px.port, incr, timeout=0.5) == (b"", "timeout") and toy.n == 10
        px.heal()
        _wait(lambda: toy.n == 11)  # what was held back is delivered once healed, as TCP would
        px.half_open("down")
        assert _ask(px.port, incr, timeout=1) == (b"", "timeout") and toy.n == 12, "executed, silent"
        px.heal()
        px.cut()
        assert _ask(px.port, incr)[1] in ("closed", "reset")
        px.heal()
        toy2 = _ToyServer()
        toy2.start()
        px.retarget(("127.0.0.1", toy2.port))
        assert _ask(px.port, incr) == (b":1\r\n", "ok")
        assert px.sent["INCR"] >= 11
    with FaultProxy(("127.0.0.1", toy.port), raw=True) as px:
        assert _ask(px.port, incr)[1] == "ok"
        px.half_open()
        assert _ask(px.port, incr, timeout=0.5) == (b"", "timeout")
        px.heal()
        px.cut()
        assert _ask(px.port, incr)[1] in ("closed", "reset")
    toy.close()
    toy2.close()
    print("fault_proxy self-test: 19 passed, 0 failed")


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--listen", type=int, default=0)
    ap.add_argument("--upstream", default="127.0.0.1:6379")
    ap.add_argument("--do", action="append", default=[], metavar="FAULT")
    ap.add_argument("--seconds", type=float, default=None, help="stop after this long")
    ap.add_argument("--raw", action="store_true", help="bytes only: for replication links, cluster bus or TLS")
    ap.add_argument("--self-test", action="store_true")
    args = ap.parse_args(argv)
    if args.self_test:
        return self_test()
    host, _, port = args.upstream.rpartition(":")
    allowed = {"drop_reply", "drop_request", "truncate_reply", "rewrite_reply", "delay", "half_open", "cut", "heal"}

    def do(px, line):
        name, *pairs = line.split()
        if name not in allowed:
            return print("unknown fault", name, file=sys.stderr)
        getattr(px, name)(**dict(p.split("=", 1) for p in pairs))

    with FaultProxy((host, int(port)), ("127.0.0.1", args.listen), raw=args.raw) as px:
        print("listening", px.port, flush=True)
        for line in args.do:
            do(px, line)
        if args.seconds is not None:
            time.sleep(args.seconds)
        else:
            for line in sys.stdin:
                if line.strip():
                    do(px, line)
        print("sent", dict(px.sent), "dropped", dict(px.dropped), flush=True)


if __name__ == "__main__":
    main()
