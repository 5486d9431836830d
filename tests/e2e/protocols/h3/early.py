# SPDX-License-Identifier: BSD-2-Clause
"""Early data: what is safe is answered before the handshake's end, origins are told and may ask for patience (RFC 8470)."""
import asyncio
import contextlib
import queue

import client
from bed.origin import head
from bed.report import until


class Heard:
    """What the origin was asked: method, path, Early-Data."""
    requests = queue.Queue()


def serve(s):
    """Says 425 to early requests of /pass-fussy."""
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        length = int(fields.get("content-length", 0))
        while len(buf) < length:
            buf += s.recv(65536) or (_ for _ in ()).throw(ConnectionError())
        body, buf = buf[:length], buf[length:]
        early = fields.get("early-data")
        Heard.requests.put((method, path, early))
        status = b"425 Too Early" if early and "fussy" in path else b"200 OK"
        s.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class Gate(client.Path):
    """Keeps what the server says until it is opened: the handshake can't end before."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.kept, self.is_open = [], False

    async def pass_on(self, data, sender):
        if sender not in self.clients:
            self.clients[sender] = await self.behind(sender)
        self.clients[sender].sendto(data)

    def later(self, data, send):
        if self.is_open:
            send(data)
        else:
            self.kept.append((data, send))

    def release(self):
        self.is_open = True
        for data, send in self.kept:
            send(data)


async def blocking(work, *args):
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)


async def heard():
    """The next request that the origin got."""
    return await blocking(lambda: Heard.requests.get(timeout=client.LIMIT))


async def ticket(bed):
    """Of a session that may be taken up."""
    tickets = []
    async with client.client(bed.quic, session_ticket_handler=tickets.append) as one:
        await one.get("/a")
    return tickets[-1]


@contextlib.asynccontextmanager
async def early(bed, *args, **kw):
    """A request by early data whose client hears nothing until the gate opens: the gate, and what will be the response."""
    async with Gate.open(bed.quic, 1) as gate:
        async with client.client(gate.address, session_ticket=await ticket(bed), wait_connected=False) as one:
            while not Heard.requests.empty():
                Heard.requests.get()
            yield gate, one.send(*args, **kw)


async def answered(gate, response):
    gate.release()
    return await asyncio.wait_for(asyncio.shield(response.done), client.LIMIT)


async def cases(report, bed):
    async with early(bed, "/pass-get") as (gate, response):
        asked = await heard()
        report.check(asked == ("GET", "/pass-get", "1"), f"an origin is told of early data: {asked}")
        report.check((await answered(gate, response)).status == 200, "a safe request is answered")
    async with early(bed, "/pass-post", method="POST", body=b"abc", more=[("content-length", "3")]) as (gate, response):
        await blocking(until, client.LIMIT, lambda: bed.counter("MAIN.early_data_wait") == 1)
        report.check(Heard.requests.empty(), "a POST waits for the handshake")
        report.check((await answered(gate, response)).body == b"abc", "and is answered then")
        report.check((await heard()) == ("POST", "/pass-post", None), "it isn't early any more")
    async with early(bed, "/pass-fussy") as (gate, response):
        report.check((await heard()) == ("GET", "/pass-fussy", "1"), "an origin that doesn't want it")
        report.check((await answered(gate, response)).status == 200, "a 425 isn't the client's")
        report.check((await heard()) == ("GET", "/pass-fussy", None), "it was asked again after the handshake")
    async with early(bed, "/fussy-miss") as (gate, response):
        report.check((await heard()) == ("GET", "/fussy-miss", "1"), "the same of a miss")
        report.check((await answered(gate, response)).status == 200, "a 425 isn't the client's, nor the cache's")
        report.check((await heard()) == ("GET", "/fussy-miss", None), "asked again for the cache")
    async with early(bed, "/pass-fussy", more=[("early-data", "1")]) as (gate, response):
        report.check((await heard()) == ("GET", "/pass-fussy", "1"), "a client that has early data of its own client")
        report.check((await answered(gate, response)).status == 425, "hears of the 425")
    for name, want in (("req", 4), ("wait", 1), ("retry", 2)):
        got = await blocking(bed.counter, f"MAIN.early_data_{name}")
        report.check(got == want, f"early_data_{name}: {got}, not {want}")
    bed.cli.ask("param.set h3_early_data off")
    tickets = await ticket(bed)
    report.check(not tickets.max_early_data_size, "switched off")
