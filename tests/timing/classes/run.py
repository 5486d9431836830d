#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Classes under an overload that lasts: how long cheap and expensive requests wait, how much is served, and whether `lacquer plan` estimates
the same from the log. --full: for a minute, and the same before Debian's varnishd and haproxy. Counts and order: tests/e2e/traffic/classes.
"""
import asyncio
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import Varnishd, die_with_parent, free_port
from bed.report import Report, options


class Bed:
    """An origin with so many workers: what is dear takes it a hundred times as long as what is cheap. More wait in its own queue, as
    they do before PHP's workers."""

    def __init__(self, workers, cheap):
        self.workers, self.cheap, self.dear, self.most_dear = workers, cheap, 0, 0

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                is_dear = b" /dear" in head.split(b"\r\n", 1)[0]
                self.dear += is_dear
                self.most_dear = max(self.most_dear, self.dear)
                try:
                    async with self.gate:
                        await asyncio.sleep(self.cheap * (100 if is_dear else 1))
                finally:
                    self.dear -= is_dear
                writer.write(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\nhello")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the peer went away, or all is over
        finally:
            writer.close()

    async def start(self):
        self.gate = asyncio.Semaphore(self.workers)
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        return self.server.sockets[0].getsockname()

    @property
    def capacity(self):
        """Requests a second that it can serve, of which a tenth are dear."""
        return self.workers / (0.9 * self.cheap + 0.1 * 100 * self.cheap)


async def ask(address, path, limit):
    """(status, seconds) of one request on a connection of its own."""
    began = time.monotonic()
    status = 0
    try:
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\nConnection: close\r\n\r\n".encode())
                data = await reader.read()
                status = int(data.split(b" ", 2)[1]) if data else 0
            finally:
                writer.close()
    except (TimeoutError, OSError, ValueError, IndexError):
        pass
    return status, time.monotonic() - began


async def load(address, rate, seconds, dear, limit, seed):
    """Arrivals by chance (Poisson) at that rate, a share of them dear; {kind: [(status, seconds)]}."""
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    answers, tasks, at = {"cheap": [], "dear": []}, [], loop.time()
    end = at + seconds

    async def one(kind, number):
        answers[kind].append(await ask(address, f"/{kind}/x?{number}", limit))

    number = 0
    while at < end:
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, at - loop.time()))
        number += 1
        tasks.append(asyncio.create_task(one("dear" if rng.random() < dear else "cheap", number)))
    await asyncio.gather(*tasks)
    return answers


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def served(answers):
    return [seconds for status, seconds in answers if status == 200]


DEAR_WORKERS, DEAR_SLOTS, PATIENCE = 10, 20, 10
OVERLOAD_VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; .max_connections = 500; .first_byte_timeout = 60s; }
sub vcl_recv { if (req.url ~ "^/dear") { %s } return (pass); }
"""


def figures(name, bed, alone, answers, seconds):
    """What came of it, as a line and as numbers."""
    cheap, dear = served(answers["cheap"]), served(answers["dear"])
    came = len(answers["cheap"]) + len(answers["dear"])
    # All of the cheap ones, and dear ones with what these leave, until all patience is over: as much as anybody could serve.
    left = bed.workers - len(answers["cheap"]) / seconds * bed.cheap
    possible = len(answers["cheap"]) + min(len(answers["dear"]), max(0.0, left) * (seconds + PATIENCE) / (100 * bed.cheap))
    p99 = quantile(cheap, 0.99)
    return {
        "name": name, "came": came, "cheap": len(cheap) / max(1, len(answers["cheap"])), "dear": len(dear) / max(1, len(answers["dear"])),
        "p50": quantile(cheap, 0.5), "p99": p99, "ratio": p99 / alone, "goodput": (len(cheap) + len(dear)) / possible,
        "wait": max(0.0, sum(dear) / len(dear) - 100 * bed.cheap) if dear else float("nan"),
    }


def tell(report, f):
    report.note(f"{f['name']:<22} cheap served {f['cheap']:.3f}, p50 {f['p50'] * 1e3:.0f} ms, p99 {f['p99'] * 1e3:.0f} ms ({f['ratio']:.2f} of alone);"
                f" dear served {f['dear']:.2f}, waits {f['wait']:.2f} s; goodput {f['goodput']:.3f}")


def overload(report, program, full, seed):
    """A tenth of the requests costs a hundred times, and twice as much comes as can be served."""
    seconds = int(os.environ.get("SECONDS_OF_LOAD") or (60 if full else 8))
    bed = Bed(16, 0.020)

    async def run():
        address = await bed.start()
        rate = 2 * bed.capacity
        ours = OVERLOAD_VCL % (*address, 'set req.class = "dear";')
        args = ["-p", f"classes=dear:workers={DEAR_WORKERS},queue={DEAR_SLOTS},patience={PATIENCE}s", "-p", "thread_pool_max=5000"]
        results = []
        loop = asyncio.get_running_loop()

        async def through(name, address, cheap_alone):
            alone = cheap_alone
            if alone is None:
                quiet = await load(address, rate * 0.9, seconds / 2, 0.0, 60, seed)
                alone = quantile(served(quiet["cheap"]), 0.99)
            answers = await load(address, rate, seconds, 0.1, 90, seed)
            results.append(figures(name, bed, alone, answers, seconds))
            tell(report, results[-1])
            return alone

        v = await loop.run_in_executor(None, lambda: Varnishd(program, args, vcl=ours))
        log = v.dir / "log"
        writer = subprocess.Popen([pathlib.Path(program).with_name("varnishlog"), "-n", str(v.n), "-w", str(log), "-g", "raw"], preexec_fn=die_with_parent,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            alone = await through("classes", v.address, None)
            await asyncio.sleep(0.5)
            most_dear = bed.most_dear
            counts = {name: v.counter(f"CLASS.dear.{name}") for name in ("served", "ended", "refused", "late", "waited", "wait_us", "service_us", "busy", "waiting")}
            writer.terminate()
            writer.wait()
            planned = plan(program, log)
        finally:
            writer.kill()
            v.close()
        if full:
            await others(report, bed, address, through, alone)
        return results, counts, planned, most_dear

    results, counts, planned, most_dear = asyncio.run(run())
    ours = results[0]
    report.check(ours["cheap"] == 1.0, f"every cheap request is served: {ours['cheap']}")
    # The queue is filled and emptied within a short run, too.
    least = 0.95 if full else 0.9
    report.check(ours["goodput"] >= least, f"goodput {ours['goodput']:.3f}")
    report.check(counts["busy"] == counts["waiting"] == 0 and counts["ended"] == counts["served"], f"all is accounted: {counts}")
    report.check(counts["refused"] > 0 and most_dear == DEAR_WORKERS, f"who finds no slot is refused: {counts}, {most_dear} at the origin at once")
    if full:
        report.check(ours["ratio"] <= 1.5, f"p99 of the cheap ones is {ours['ratio']:.2f} of theirs alone")
    model(report, bed, counts, planned, full)


def plan(program, log):
    """What `lacquer plan` says of the class by the log of it."""
    words = [pathlib.Path(program).with_name("lacquer"), "plan", "--workers", str(DEAR_WORKERS), "--queue", str(DEAR_SLOTS), "--in-class", "dear", "-q", "--format", "json", str(log)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": done.stderr}


def model(report, bed, counts, planned, full):
    """The queue of the class as the model has it, beside what was counted."""
    service = counts["service_us"] / max(1, counts["ended"]) / 1e6
    waited = counts["wait_us"] / max(1, counts["served"]) / 1e6
    refused = (counts["refused"] + counts["late"]) / max(1, counts["refused"] + counts["late"] + counts["served"])
    report.note(f"class dear: service {service:.2f} s ({100 * bed.cheap:.2f} at the origin), waited {waited:.2f} s, refused {refused:.3f}")
    report.check(0.9 <= service / (100 * bed.cheap) <= 1.5, f"the service time is the origin's: {service:.3f}")
    report.check("error" not in planned, f"lacquer plan reads the log: {planned.get('error')}")
    if "error" in planned:
        return
    now, [told] = planned["now"], planned["classes"]
    report.note(f"lacquer plan by the log: {told['name']} {told['rate']:.2f}/s, service {told['service_seconds']:.2f} s; waited {now['wait_seconds']:.2f} s, "
                f"refused {now['refused_percent'] / 100:.3f}")
    report.check(told["name"] == "dear" and abs(told["service_seconds"] / service - 1) < 0.1, f"it has the class's service time: {told}")
    # A short run has a queue that fills, and one that empties.
    near = 0.08 if full else 0.2
    report.check(abs(now["refused_percent"] / 100 - refused) <= near, f"as many are refused as the model says: {refused:.3f}, {now}")
    # The model scales what is waited by how much services vary, which is too little where the queue is always full.
    report.check(abs(now["wait_seconds"] - waited) <= 0.6 * waited, f"they wait about as long: {waited:.2f}, {now}")


async def others(report, bed, address, through, alone):
    """The same load before Debian's varnishd and haproxy."""
    loop = asyncio.get_running_loop()
    varnishd = "/usr/sbin/varnishd"
    if os.access(varnishd, os.X_OK):
        vcl = OVERLOAD_VCL % (*address, "")
        for name, text in (("varnishd", vcl), ("varnishd, 16 at most", vcl.replace("max_connections = 500", f"max_connections = {bed.workers}"))):
            v = await loop.run_in_executor(None, lambda text=text: Varnishd(varnishd, ["-p", "thread_pool_max=5000"], vcl=text))
            try:
                await through(name, v.address, alone)
            finally:
                v.close()
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    if haproxy:
        with tempfile.TemporaryDirectory() as directory:
            port = free_port()
            config = pathlib.Path(directory) / "haproxy.cfg"
            config.write_text(f"""global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 90s
    timeout server 90s
    timeout queue 10s
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server s {address[0]}:{address[1]} maxconn {bed.workers} maxqueue 200
""")
            process = subprocess.Popen([haproxy, "-f", str(config)], preexec_fn=die_with_parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                await asyncio.sleep(1)
                await through("haproxy, maxconn 16", ("127.0.0.1", port), alone)
            finally:
                process.terminate()
                process.wait()


def main():
    o = options(__doc__)
    report = Report("classes")
    overload(report, o.varnishd, o.full, o.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
