#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A thousand tenants on a server, one of which floods it: what that costs the others in hits and in waits, and what a tenant costs in memory.
--full: longer, and the same before another varnishd (--beside). The table is that of docs/tenants.md.
"""
import asyncio
import bisect
import itertools
import os
import pathlib
import random
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import Varnishd, acting, pss
from bed.origin import Origin, simple
from bed.report import Report, options

TENANTS = 1000
OBJECTS = 40  # of each tenant
BODY = b"x" * 2000
STORE = "malloc,8m"  # for about a tenth of all objects
BATCH = 50  # requests that are sent before their responses are read
FLOODED = 2  # objects that the flooder requests for each request of the others, each twice
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_backend_response { set beresp.ttl = 1d; }
"""
TENANT_ARGS = ["-p", "tenant_by=host", "-p", f"tenants_max={TENANTS + 1}"]
WORKERS, SERVICE = 32, 0.4  # of the slow origin: so many responses at a time, each of which takes it half of that to one and a half times
CLASS = ["-p", f"classes=default:workers={WORKERS}"]
MISSES = 0.5  # part of the others' requests that need it
BLOCK = 4.0  # seconds with a flood, or without


class Zipf:
    def __init__(self, n):
        self.sums = list(itertools.accumulate(1 / k for k in range(1, n + 1)))

    def draw(self, rng):
        return bisect.bisect_left(self.sums, rng.random() * self.sums[-1])


class Pipeline:
    """A connection on which requests are sent in batches; says which were hits, by the second number in X-Varnish."""

    def __init__(self, address):
        self.sock = socket.create_connection(address, 60)
        self.file = self.sock.makefile("rb")

    def ask(self, requests):
        self.sock.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host) for host, path in requests))
        return [self._hit() for _ in requests]

    def _hit(self):
        if b" 200 " not in (status := self.file.readline()):
            raise ValueError(f"the server answers {status!r}")
        is_hit, length = False, 0
        while (line := self.file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            is_hit |= name.lower() == b"x-varnish" and len(value.split()) == 2
            length = int(value) if name.lower() == b"content-length" else length
        self.file.read(length)
        return is_hit

    def close(self):
        self.file.close()
        self.sock.close()


def drawn(rng, count):
    tenants, objects = Zipf(TENANTS), Zipf(OBJECTS)
    return [(b"t%d.example" % tenants.draw(rng), b"/%d" % objects.draw(rng)) for _ in range(count)]


def hit_rates(program, args, seed, count):
    """The hit rates of the others in percent, without and with a flood: two servers get the same requests in turn."""
    with Origin(simple(lambda *_: ("", BODY))) as origin:
        servers = [Varnishd(program, [*args, "-p", "feature=+no_coredump"], vcl=VCL % origin.address[:2], storage=STORE) for _ in range(2)]
        try:
            lines = [Pipeline(v.address) for v in servers]
            rng, hits, asked, flood = random.Random(seed), [0, 0], 0, itertools.count()
            for n in range(0, count, BATCH):
                batch = drawn(rng, BATCH)
                new = [(b"flood.example", b"/%d" % next(flood)) for _ in range(FLOODED * BATCH)]
                for at, line in enumerate(lines):
                    for part in (new, new) if at else ():
                        line.ask(part)
                    found = sum(line.ask(batch))
                    hits[at] += found if n >= count // 2 else 0
                asked += BATCH if n >= count // 2 else 0
            for line in lines:
                line.close()
        finally:
            for v in servers:
                v.close()
    return [100 * found / asked for found in hits]


def memory(program, count):
    """Bytes of memory an object more with tenants than without."""
    took = []
    for args in ([], TENANT_ARGS):
        with Origin(simple(lambda *_: ("", b"x"))) as origin, Varnishd(program, [*args, "-p", "feature=+no_coredump"], vcl=VCL % origin.address[:2],
                                                                       storage="malloc,500m") as v:
            line = Pipeline(v.address)
            # The first of each tenant come before, with all that a server takes once.
            for first, last in ((0, TENANTS), (TENANTS, TENANTS + count)):
                before = pss([v.worker()])
                for n in range(first, last, BATCH):
                    line.ask([(b"t%d.example" % (k % TENANTS), b"/%d" % k) for k in range(n, n + BATCH)])
            took.append((pss([v.worker()]) - before) / count)
            line.close()
    return took[1] - took[0]


class SlowOrigin:
    """Makes so many responses at a time; more wait."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    async def start(self):
        self.gate = asyncio.Semaphore(WORKERS)
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        return self.server.sockets[0].getsockname()

    async def serve(self, reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                async with self.gate:
                    await asyncio.sleep(SERVICE * self.rng.uniform(0.5, 1.5))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the peer went away, or all is over
        finally:
            writer.close()


class Clients:
    """Requests that begin at their times, over connections that are kept."""

    def __init__(self, address):
        self.address, self.free = address, []

    async def ask(self, host, path):
        """(path, status, seconds); on a new connection if the server has closed the kept one meanwhile."""
        began = time.monotonic()
        while True:
            kept = self.free.pop() if self.free else None
            try:
                reader, writer = kept or await asyncio.open_connection(*self.address)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                await reader.readexactly(length)
                self.free.append((reader, writer))
                return path, int(head.split(b" ", 2)[1]), time.monotonic() - began
            except (OSError, asyncio.IncompleteReadError):
                if not kept:
                    return path, 0, time.monotonic() - began

    async def load(self, rng, rate, seconds, request):
        tasks, loop = [], asyncio.get_running_loop()
        at = loop.time()
        end = at + seconds
        while at < end:
            at += rng.expovariate(rate)
            await asyncio.sleep(max(0.0, at - loop.time()))
            tasks.append(asyncio.create_task(self.ask(*request(rng))))
        return await asyncio.gather(*tasks)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def waits(program, args, seed, rounds):
    """The others' p99 in seconds without and with a flood of 1.5 times what the origin can serve, in turn on one server; the statuses of those that got no 200."""
    serial = itertools.count()
    capacity = WORKERS / SERVICE

    def other(rng):
        path = f"/new/{next(serial)}" if rng.random() < MISSES else "/known"
        return f"t{rng.randrange(TENANTS)}.example", path

    def flooding(_rng):
        return "flood.example", f"/{next(serial)}"

    async def run():
        address = await SlowOrigin(seed).start()
        loop = asyncio.get_running_loop()
        one_client = ["-p", "max_fetches_per_ip=100"] if acting(program) else []
        v = await loop.run_in_executor(None, lambda: Varnishd(program, [*args, *one_client, "-p", "thread_pool_max=5000"], vcl=VCL % address))
        others, flooder, took, failed = Clients(v.address), Clients(v.address), ([], []), []
        try:
            rng = random.Random(seed)
            known = [others.ask(f"t{n}.example", "/known") for n in range(TENANTS)]
            for n in range(0, TENANTS, WORKERS):
                await asyncio.gather(*known[n:n + WORKERS])
            for _ in range(rounds):
                for at in (0, 1):
                    jobs = [others.load(rng, capacity * 0.5, BLOCK, other)]
                    if at:
                        jobs.append(flooder.load(rng, capacity * 1.5, BLOCK, flooding))
                    answers = (await asyncio.gather(*jobs))[0]
                    took[at].extend(seconds for _, _, seconds in answers)
                    failed.extend(status for _, status, _ in answers if status != 200)
                    await asyncio.sleep(0.5)
        finally:
            await loop.run_in_executor(None, v.close)
        return [quantile(part, 0.99) for part in took], failed

    return asyncio.run(run())


def row(report, name, rates, p99, failed):
    report.note(f"{name:<10} hits of the others {rates[0]:.2f} % without a flood, {rates[1]:.2f} % with it; p99 {p99[0] * 1e3:.1f} ms, {p99[1] * 1e3:.1f} ms "
                f"({p99[1] / p99[0]:.3f} times); {len(failed)} failed")


def main():
    o = options(__doc__, beside={"default": "/usr/sbin/varnishd", "help": "another varnishd for the table; \"\": none"})
    report = Report("tenants")
    count, rounds = (40_000, 12) if o.full else (10_000, 2)
    rates = hit_rates(o.varnishd, TENANT_ARGS, o.seed, count)
    p99, failed = waits(o.varnishd, [*TENANT_ARGS, *CLASS], o.seed, rounds)
    row(report, "tenants", rates, p99, failed)
    report.check(rates[1] >= rates[0] - 1, f"the flood costs the others at most a point of hits: {rates}")
    report.check(not failed, f"all requests of the others are served: {failed} are not")
    report.check(p99[1] <= p99[0] * 2, f"the others wait less than twice as long, and not six times as without tenants: {p99}")
    more = memory(o.varnishd, 20_000)
    report.note(f"memory: {more:.0f} bytes an object more than without tenants")
    report.check(abs(more) <= 100, f"a tenant costs at most 100 bytes an object: {more:.0f}")
    if o.full:
        row(report, "without", hit_rates(o.varnishd, [], o.seed, count), *waits(o.varnishd, CLASS, o.seed, rounds))
        if o.beside and os.access(o.beside, os.X_OK):
            row(report, "varnishd", hit_rates(o.beside, [], o.seed, count), *waits(o.beside, [], o.seed, rounds))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
