# SPDX-License-Identifier: BSD-2-Clause
"""Sends a crowd (`bed.crowds`) to a server, from addresses that the PROXY protocol names, and counts what each kind of visitor met; and the origin behind it,
which works on one request at a time."""
import asyncio
import collections
import dataclasses
import itertools

from .crowds import HOST, referer_of

PATIENCE = 10.0  # seconds after which a visitor leaves
BACKLOG = 511  # requests that wait before the origin; PHP-FPM's default
COST = 0.020  # seconds of the origin's work for each response
BODY = 8_000
TTL = 60  # seconds


class Origin:
    """Responses cost `cost` seconds of exclusive work each, in order of arrival; also those whose client has left. `spent` has the seconds of work by kind of visitor.
    With `has_queue` false each takes as long, but none waits for another."""

    def __init__(self):
        self.spent, self.refused, self.free_at, self.open, self.cost, self.has_queue = collections.Counter(), 0, 0.0, set(), COST, True

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        return self.server.sockets[0].getsockname()

    async def close(self):
        self.server.close()
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)

    async def serve(self, reader, writer):
        self.open.add(task := asyncio.current_task())
        try:
            while True:
                writer.write(await self.response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the peer went away, or all is over
        finally:
            self.open.discard(task)
            writer.close()

    async def response(self, head):
        now = asyncio.get_running_loop().time()
        if self.free_at - now > BACKLOG * COST:
            self.refused += 1
            return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        end = (max(now, self.free_at) if self.has_queue else now) + self.cost
        self.free_at = end if self.has_queue else self.free_at
        number, _, who = head.lower().partition(b"\r\nx-bed: ")[2].partition(b"\r\n")[0].partition(b" ")
        self.spent[who.decode()] += self.cost
        await asyncio.sleep(end - now)
        return b"HTTP/1.1 200 OK\r\nCache-Control: max-age=%d\r\nX-Bed-For: %s\r\nContent-Length: %d\r\n\r\n" % (TTL, number, BODY) + b"x" * BODY


@dataclasses.dataclass
class Met:
    """The responses that one kind of visitor met."""
    times: list = dataclasses.field(default_factory=list)
    statuses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    hits: int = 0

    def quantile(self, q):
        """Seconds until the whole response; PATIENCE for one that failed."""
        return sorted(self.times)[min(len(self.times) - 1, int(q * len(self.times)))] if self.times else float("nan")

    @property
    def hit_rate(self):
        return self.hits / max(1, len(self.times))

    @property
    def refused(self):
        """Requests that weren't served: refused, failed, or not within PATIENCE, which has status 0."""
        return len(self.times) - self.statuses[200]


class Visitors:
    """Sends a crowd to one server."""

    def __init__(self, address):
        self.address, self.numbers = address, itertools.count(1)

    async def send(self, asks, met_at):
        """Sends each ask when it is due, waits for all responses, and counts each in `met_at(ask.at)`, a dictionary of `Met` by kind of visitor; None: nowhere.
        The result is the longest delay of this loop, which is a defect of the bed."""
        loop = asyncio.get_running_loop()
        begin, worst, visits = loop.time(), 0.0, {}
        for ask in asks:
            visits.setdefault(ask.visit, []).append(ask)
        tasks = []
        for visit in visits.values():
            due = begin + visit[0].at
            await asyncio.sleep(max(0.0, due - loop.time()))
            worst = max(worst, loop.time() - due)
            tasks.append(asyncio.create_task(self.visit(visit, begin, met_at)))
        await asyncio.gather(*tasks)
        return worst

    async def visit(self, asks, begin, met_at):
        """One visitor on one connection, as long as the server keeps it."""
        loop, connection = asyncio.get_running_loop(), None
        for ask in asks:
            await asyncio.sleep(max(0.0, begin + ask.at - loop.time()))
            began, was_kept = loop.time(), connection is not None
            connection, status, is_hit = await self.one(connection, ask)
            # The server may close an idle connection at any time; browsers try again.
            if was_kept and status == 0 and loop.time() - began < PATIENCE:
                connection, status, is_hit = await self.one(None, ask)
            if (met := met_at(ask.at)) is None:
                continue
            found = met[ask.who]
            found.times.append(loop.time() - began if status == 200 else PATIENCE)
            found.statuses[status] += 1
            found.hits += is_hit
        if connection:
            connection[1].close()

    async def one(self, connection, ask):
        """(connection for the next one, status, whether the origin made the response for another request)"""
        status, is_hit, number = 0, False, next(self.numbers)
        try:
            async with asyncio.timeout(PATIENCE):
                if connection is None:
                    connection = await asyncio.open_connection(*self.address)
                    connection[1].write(f"PROXY TCP4 {ask.client} 192.0.2.1 4000 80\r\n".encode())
                reader, writer = connection
                writer.write(request(ask, number))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                status = int(head.split(b" ", 2)[1])
                is_hit = status == 200 and b"\r\nx-bed-for: %d\r\n" % number not in head
                await read_body(reader, head)
                if b"\r\nconnection: close" in head:
                    writer.close()
                    connection = None
        except (TimeoutError, OSError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            if connection:
                connection[1].close()
            return None, 0, False
        return connection, status, is_hit


async def read_body(reader, head):
    if b"\r\ntransfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    elif b"\r\ncontent-length: " in head:
        await reader.readexactly(int(head.split(b"\r\ncontent-length: ", 1)[1].split(b"\r", 1)[0]))
    else:
        await reader.read()


def request(ask, number):
    lines = [f"GET {ask.path} HTTP/1.1", f"Host: {HOST}", f"User-Agent: {ask.agent}", "Accept: text/html,application/xhtml+xml,*/*;q=0.8",
             "Accept-Language: en-GB,en;q=0.7", "Accept-Encoding: gzip, deflate, br, zstd", f"Sec-Fetch-Dest: {ask.dest}", f"X-Bed: {number} {ask.who}"]
    lines += [f"Referer: {referer_of(ask)}"] if ask.referer else []
    lines += [f"Cookie: {ask.cookie}"] if ask.cookie else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
