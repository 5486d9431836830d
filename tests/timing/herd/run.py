#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A purge of all objects of a site before an origin that makes 100 responses a second. Readers send 300 requests a second by Zipf's law, each at its own time;
their times count from then on. One row for each kind of purge: none, a ban at once, a ban that spreads (by CLI, by HTTP, and with a worker that is killed
in the middle). A response of the version before the purge is outdated.

--full: 100,000 objects instead of 2,000, and Debian's varnishd (--beside). The table is that of docs/tags.md.
"""
import asyncio
import itertools
import os
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.crowds import Popularity
from bed.daemon import Varnishd, acting
from bed.pace import most_in_a_second, too_early
from bed.report import Report, options

LIMIT = 60  # seconds; the longest wait for a response, and for what follows a ban
COST = 0.010  # seconds of the origin's exclusive work for a response
READERS = 300  # requests per second
QUIET = 10  # seconds of readers before the purge
AFTER = 10  # seconds of readers after the last object is stale
AT_ONCE = 30  # seconds of readers after a ban that doesn't spread
FILLERS = 16
PROBE = "X-Probe: 1\r\n"
VCL = """vcl 4.1;
%s
backend default { .host = "%s"; .port = "%d"; .first_byte_timeout = 60s; }
sub vcl_recv { %s }
sub vcl_backend_response { set beresp.ttl = 1d; set beresp.grace = 1d; }
sub vcl_hit { if (req.http.X-Probe) { if (obj.ttl > 0s && obj.http.X-Version == "0") { return (synth(409)); } return (synth(200)); } }
sub vcl_miss { if (req.http.X-Probe) { return (synth(200)); } }
"""
BY_HTTP = """if (req.method == "PURGE") { std.ban("rate=" + req.http.X-Rate + " obj.tag == " + req.http.X-Tags); return (synth(200)); }"""


class Versions:
    """An origin that works on one response at a time once `has_queue` is set, and notes when it was asked since the purge."""

    def __init__(self):
        self.version, self.times, self.has_queue, self.free_at, self.open = 0, [], False, 0.0, set()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        return self.server.sockets[0].getsockname()

    async def serve(self, reader, writer):
        self.open.add(task := asyncio.current_task())
        loop = asyncio.get_running_loop()
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                version, now = self.version, loop.time()
                if self.has_queue:
                    self.times.append(now)
                    self.free_at = max(now, self.free_at) + COST
                    await asyncio.sleep(self.free_at - now)
                writer.write(b"HTTP/1.1 200 OK\r\nX-Version: %d\r\nSurrogate-Key: all\r\nContent-Length: 5\r\n\r\nhello" % version)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the peer went away, or all is over
        finally:
            self.open.discard(task)
            writer.close()

    async def close(self):
        self.server.close()
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)


class Readers:
    """Clients on connections that are kept, each new one from another address: some servers bound the fetches of one."""

    def __init__(self, address):
        self.address, self.free, self.seen, self.clients = address, [], [], itertools.cycle(range(2, 252))

    async def ask(self, path, more="", method="GET"):
        """(status, version); status 0: no response, also not on a new connection in the place of a kept one."""
        while True:
            kept = self.free.pop() if self.free else None
            writer = None
            try:
                async with asyncio.timeout(LIMIT):
                    reader, writer = kept or await asyncio.open_connection(*self.address, local_addr=(f"127.0.0.{next(self.clients)}", 0))
                    writer.write(f"{method} {path} HTTP/1.1\r\nHost: bed.test\r\n{more}\r\n".encode())
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.split(b"\r\ncontent-length: ", 1)[1].split(b"\r", 1)[0]))
                self.free.append((reader, writer))
                return int(head.split(b" ", 2)[1]), head.partition(b"\r\nx-version: ")[2][:1]
            except (TimeoutError, OSError, asyncio.IncompleteReadError):
                if writer:
                    writer.close()
                if not kept:
                    return 0, b""

    async def one(self, path, due):
        status, version = await self.ask(path)
        self.seen.append((due, asyncio.get_running_loop().time(), status, version))

    async def load(self, rng, popular, is_over):
        """Requests at their times until `is_over`; waits for their responses."""
        loop, tasks = asyncio.get_running_loop(), set()
        due = loop.time()
        while not is_over():
            due += rng.expovariate(READERS)
            await asyncio.sleep(max(0.0, due - loop.time()))
            tasks.add(task := asyncio.create_task(self.one(f"/{popular.draw(rng)}", due)))
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def each(self, objects, more=""):
        """Requests all objects; those whose status isn't 200."""
        left, bad = iter(range(objects)), []

        async def some():
            for n in left:
                if (await self.ask(f"/{n}", more))[0] != 200:
                    bad.append(n)

        await asyncio.gather(*(some() for _ in range(FILLERS)))
        return bad


def progress(v):
    """The matched and the stale objects of the ban that spreads; None: none does."""
    rows = v.cli.ask("ban.spreads").splitlines()[1:]
    return tuple(map(int, rows[0].split()[2:4])) if rows else None


class Bed:
    """One server with all objects, and one purge."""

    def __init__(self, o, program, objects, kind):
        self.o, self.program, self.objects, self.kind = o, program, objects, kind
        self.spreads, self.shown, self.died = kind.startswith("spread"), [], True

    async def purge(self, v, readers):
        """Purges, and returns once readers have read for long enough."""
        run = lambda f, *args: asyncio.get_running_loop().run_in_executor(None, f, *args)
        if not self.spreads:
            if self.kind == "at once":
                await run(v.cli.ask, "ban obj.http.X-Version == 0")
            return await asyncio.sleep(AT_ONCE)
        if self.kind == "spread, by HTTP":
            await readers.ask("/", f"X-Rate: {self.o.rate}/s\r\nX-Tags: all\r\n", "PURGE")
        else:
            await run(v.cli.ask, f"ban rate={self.o.rate}/s obj.tag == all")
        loop, whole = asyncio.get_running_loop(), self.objects / self.o.rate
        begin, crash_at = loop.time(), whole / 2 if self.kind.endswith("killed") else None
        # A worker that comes after another doesn't list a ban that had tested all objects.
        while (row := await run(progress, v)) or loop.time() < begin + whole:
            if loop.time() > begin + whole + LIMIT:
                break
            if row:
                self.shown.append(row)
            if crash_at and loop.time() > begin + crash_at:
                crash_at, self.died = None, await run(v.worker_dies)
            await asyncio.sleep(0.5)
        await asyncio.sleep(AFTER)

    async def run(self):
        loop, origin = asyncio.get_running_loop(), Versions()
        address = await origin.start()
        ours = bool(acting(self.program))
        vcl = VCL % ("import std;" if ours else "", *address, BY_HTTP if ours else "")
        args = ["-p", "feature=+no_coredump", *(["-p", "tag_fields=Surrogate-Key"] if ours else [])]
        v = await loop.run_in_executor(None, lambda: Varnishd(self.program, args, vcl=vcl, storage="malloc,500m"))
        readers, is_over = Readers(v.address), False
        try:
            self.unfilled = await readers.each(self.objects)
            origin.has_queue = True
            job = asyncio.create_task(readers.load(random.Random(self.o.seed), Popularity(self.objects), lambda: is_over))
            await asyncio.sleep(QUIET)
            origin.version, origin.times, begin = 1, [], loop.time()
            try:
                await self.purge(v, readers)
            finally:
                is_over = True
                await job
            self.times = [at - begin for at in origin.times]
            self.seen = [(due - begin, took - due, took - begin, status, version) for due, took, status, version in readers.seen]
            self.kept = await readers.each(self.objects, PROBE)
            return self
        finally:
            for _, writer in readers.free:
                writer.close()
            await loop.run_in_executor(None, v.close)
            await origin.close()

    def figures(self):
        """(p99 before the purge, p99 since, requests that failed, seconds after which nothing outdated came)"""
        p99 = lambda values: statistics.quantiles(values, n=100)[98] * 1e3
        quiet, since = ([one for one in self.seen if (one[0] >= 0) == later] for later in (False, True))
        outdated = [end for _, _, end, status, version in since if status == 200 and version == b"0"]
        failed = sum(status != 200 for *_, status, _ in self.seen)
        return p99([one[1] for one in quiet]), p99([one[1] for one in since]), failed, max(outdated, default=0)

    def row(self, name):
        """A row of the table in docs/tags.md."""
        before, since, failed, outdated = self.figures()
        by_second = [0] * (int(max(one[2] for one in self.seen)) + 1)
        for at in self.times:
            by_second[int(at)] += 1
        last = "all the time" if self.kind == "none" else f"{outdated:.1f} s"
        return (f"| {name} | {most_in_a_second(self.times)}, {statistics.median(by_second):.0f} | {before:.0f} ms | {since:.0f} ms | {failed} "
                f"| {last} | {len(self.kept)} |")


def judge(report, bed):
    name, objects = bed.kind, bed.objects
    killed = name.endswith("killed")
    report.check(not bed.unfilled, f"{name}: all objects are stored: {bed.unfilled[:3]}")
    report.check(bed.seen and (killed or not bed.figures()[2]), f"{name}: no request fails: {bed.figures()[2]} do")
    if name == "none":
        report.check(not bed.times and len(bed.kept) == objects, f"without a purge all are hits: {len(bed.times)} fetches")
        return
    report.check(not bed.kept, f"{name}: all objects are stale or gone: {len(bed.kept)} aren't, as {bed.kept[:3]}")
    if bed.spreads:
        # A worker that comes after another gives moments beside those that the former one gave.
        rate = bed.o.rate * (2 if killed else 1)
        report.check(not too_early(bed.times, rate), f"{name}: before its time: {too_early(bed.times, rate)}")
        report.check(bed.died, f"{name}: the next worker comes")
        stale = [row[1] for row in bed.shown]
        report.check(len(set(stale)) > 2 and (killed or stale == sorted(stale)), f"{name}: progress is shown: {bed.shown[:9]}")


def main():
    kinds = ("none", "at once", "spread, by CLI", "spread, by HTTP", "spread, killed")
    o = options(__doc__, kinds, beside={"default": "/usr/sbin/varnishd", "help": "another varnishd for the table; \"\": none"},
                objects={"type": int, "help": "so many"}, rate={"type": int, "default": 50, "help": "objects that become stale per second"})
    report = Report("herd")
    objects = o.objects or (100_000 if o.full else 2_000)
    rows = []
    for program in (o.varnishd, o.beside if o.full and os.access(o.beside, os.X_OK) else None):
        for kind in o.cases if program else ():
            if program == o.varnishd or not kind.startswith("spread"):
                bed = asyncio.run(Bed(o, program, objects, kind).run())
                judge(report, bed)
                rows.append(bed.row(f"{'Lacquer' if acting(program) else 'varnishd'}, {kind}"))
                report.note(rows[-1])
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
