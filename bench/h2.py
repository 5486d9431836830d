#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/2: CPU per request beside varnishd (over TLS: behind hitch), nginx, haproxy and h2o; and memory of idle and of busy connections.

As bench/run.py: all run at once on core 0 with one thread (or process) for traffic, one is asked at a time, generator (h2load) and origin
have core 1, rounds are interleaved, CPU is what all processes of a server ran. `1x64` is 64 connections with one request at a time each,
`16x64` 64 with 16. h2o has no cache of answers: its hits are files.

usage: bench/h2.py [--rounds N] [--seconds S] [--cases A,B] [--servers a,b] [--over clear,tls] [--ours PROGRAM] [--also NAME=PROGRAM] [--out FILE]
It fails when an answer of ours is wrong, or when ours takes as much CPU as the best of the peers or more; an idle connection in clear
4 KB or more; or one with 100 streams that wait more than the best of them.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import servers
import tls
from bed import h2
from bed.sealed import client_context
from cases import HIT, HIT100K, Case
from run import commit, measure, medians, table
from servers import HERE, Bed, Haproxy, Nginx, Ours, Varnish, spawn
from tls import Certificate, ClearH2o, Hitch, OverTls, SealedH2o, SealedHaproxy, SealedNginx, TlsOurs, beside

PASS = "/n/1024/1"
FEATURE = ("-p", "feature=+http2")
IDLE, MOST_IDLE_BYTES = 2000, 4096
BUSY, STREAMS = 20, 100      # connections, and streams on each
WARM, LEAST = 3000, 2000     # requests
CONTEXT = client_context(alpn=("h2",))


class Answer:
    def __init__(self, status):
        self.status = status


class Probe:
    """What `Server.start` asks with, over HTTP/2 in clear."""

    def __init__(self, port):
        self.port = port

    def request(self, _method, path):
        with h2.Connection(h2.plain(("127.0.0.1", self.port), 2)) as c:
            self.status = c.get(path, 2).status

    def getresponse(self):
        return Answer(self.status)


class InClear:
    """A server that is asked by prior knowledge."""
    context = None

    def connection(self):
        return Probe(self.port)


class Sealed:
    context = CONTEXT


class ClearVarnish(InClear, Varnish):
    def argv(self):
        return [*super().argv(), *FEATURE]


class ClearOurs(InClear, Ours):
    def argv(self):
        return [*super().argv(), *FEATURE]


class ClearNginx(InClear, Nginx):
    def argv(self):
        argv, conf = super().argv(), self.dir / "nginx.conf"
        conf.write_text(conf.read_text().replace(" backlog=4096;", " http2 backlog=4096;"))
        return argv


class ClearHaproxy(InClear, Haproxy):
    def argv(self):
        argv, conf = super().argv(), self.dir / "h.cfg"
        conf.write_text(conf.read_text().replace(" backlog 4096", " backlog 4096 proto h2"))
        return argv


class OwnH2o(InClear, ClearH2o):
    pass


class H2Nginx(Sealed, SealedNginx):
    speaks = "http2"


class H2Haproxy(Sealed, SealedHaproxy):
    speaks = "h2,http/1.1"


class H2H2o(Sealed, SealedH2o):
    pass


class H2Hitch(Sealed, Hitch):
    speaks, behind = "h2,http/1.1", FEATURE


class H2Ours(Sealed, TlsOurs):
    speaks = "h2,http/1.1"

    def argv(self):
        return [*super().argv(), *FEATURE]


OVER = {"clear": {"varnish": ClearVarnish, "nginx": ClearNginx, "haproxy": ClearHaproxy, "h2o": OwnH2o, "ours": ClearOurs},
        "tls": {"varnish": H2Hitch, "nginx": H2Nginx, "haproxy": H2Haproxy, "h2o": H2H2o, "ours": H2Ours}}
NEEDS = {"h2o": "h2o"}


class H2Load(Case):
    """The same request on so many connections, so many at a time on each."""
    columns = ("rps", "mean_us")

    def __init__(self, name, path, streams, connections=64):
        super().__init__(name)
        self.path, self.streams, self.connections = path, streams, connections

    def load(self, server, count):
        """h2load's figures of so many requests."""
        scheme = "https" if server.context else "http"
        argv = ["h2load", "-n", count, "-c", self.connections, "-m", self.streams, "-t", 1, f"{scheme}://127.0.0.1:{server.port}{self.path}"]
        p = spawn(1, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            said, _ = p.communicate(timeout=75)
        except subprocess.TimeoutExpired:
            p.kill()
            raise SystemExit(f"bench: h2load hangs on {server.name} {self.path}")
        done = re.search(r"requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored", said)
        rate = re.search(r"finished in [^,]*, ([\d.]+) req/s", said)
        codes = re.search(r"status codes: (\d+) 2xx", said)
        took = re.search(r"time for request: +(\S+) +(\S+) +(\S+)", said)
        spoken = re.search(r"Application protocol: (\S+)", said)
        if not (done and rate and codes and took and spoken and spoken.group(1) in ("h2", "h2c")):
            raise SystemExit(f"bench: {server.name} {self.path}: {said}")
        return {"ok": int(done.group(1)), "errors": int(done.group(2)) + int(done.group(3)), "rps": float(rate.group(1)),
                "non200": count - int(codes.group(1)), "mean_us": in_us(took.group(3))}

    def measure(self, bed, server, seconds):
        warm = self.load(server, WARM)
        count = max(LEAST, int(warm["rps"] * seconds))
        ran = server.ran_ns()
        got = self.load(server, count)
        return got | {"cpu_us": (server.ran_ns() - ran) / max(1, got["ok"]) / 1e3}

    def remarks(self, median):
        lines, wrong = beside(self.key, 1.0, median)
        return lines, wrong


def in_us(text):
    """A time as h2load writes it."""
    unit = next(unit for unit in ("us", "ms", "s") if text.endswith(unit))
    return float(text.removesuffix(unit)) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


@contextlib.contextmanager
def connections(server, count, asked=None, credits=True):
    """So many open ones."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            address = ("127.0.0.1", server.port)
            sock = h2.sealed(address, server.context) if server.context else h2.plain(address)
            opened.append(stack.enter_context(h2.Connection(sock, asked, credits=credits, keep=False)))
        yield opened


class Memory(Case):
    """Bytes a connection, of what `hold` leaves it with."""
    key, columns, once = "bytes", (), True

    def __init__(self, name, count):
        super().__init__(name)
        self.count = count

    @contextlib.contextmanager
    def taking_part(self, bed):
        """Fresh ones: what a load left for the next connections would be taken for nothing."""
        with contextlib.ExitStack() as stack:
            fresh = {}
            for server in bed.servers:
                fresh[server.name] = type(server)(bed.origin_port, bed.ours)
                stack.callback(fresh[server.name].stop)
            yield fresh

    def measure(self, bed, server, seconds):
        with connections(server, self.warm, *self.how) as some:
            self.hold(server, some)
        time.sleep(0.5)
        before = server.pss()
        with connections(server, self.count, *self.how) as opened:
            self.hold(server, opened)
            time.sleep(1.0)
            return {"bytes": (server.pss() - before) / self.count}


class Idle(Memory):
    """One answer came on each."""
    how, warm = (), 64

    def hold(self, server, opened):
        for c in opened:
            if not c.get(HIT, 20).whole():
                raise SystemExit(f"bench: {server.name} doesn't answer: {c.how()}")

    def remarks(self, median):
        lines, wrong = beside(self.key, 1.0, median)
        ours = median.get("ours", {}).get("bytes", 0)
        return lines, wrong + ([f"ours has {ours:.0f} bytes a connection"] if ours >= MOST_IDLE_BYTES and not self.name.endswith("tls") else [])


class Busy(Memory):
    """A hundred streams on each wait for a window, with an object from the cache to come."""
    how, warm = ({h2.INITIAL_WINDOW_SIZE: 100}, False), 1

    def hold(self, server, opened):
        for c in opened:
            c.ping(5)
            asked = [c.ask(h2.request(HIT100K)) for _ in range(STREAMS)]
            if not c.wait(lambda: sum(c.streams[at].length > 0 for at in asked) >= STREAMS * 9 // 10, 20):
                print(f"bench: {server.name}: only {sum(c.streams[at].length > 0 for at in asked)} of {STREAMS} streams are answered", file=sys.stderr)

    def remarks(self, median):
        return beside(self.key, 1.0, median)


CASES = {case.name: case for case in (
    H2Load("hit-1x64", HIT, 1), H2Load("hit-16x64", HIT, 16), H2Load("hit-100k-16x16", HIT100K, 16, 16),
    H2Load("pass-1x64", PASS, 1), H2Load("pass-16x64", PASS, 16), Idle("idle-bytes", IDLE), Busy("busy-bytes", BUSY))}


def one_way(o, over, results, wrong):
    """All cases in clear, or over TLS."""
    own = OVER[over]
    servers.SERVERS.clear()
    servers.SERVERS.update(own)
    names = [name for name in o.servers.split(",") if name in own]
    for word in o.also:
        name, program = word.split("=", 1)
        servers.SERVERS[name] = type(name, (own["ours"],), {"name": name, "program": lambda _, program=program: program})
        names.append(name)
    with Bed(names, o.ours) as bed:
        for case in map(CASES.get, o.cases.split(",")):
            name = f"{case.name}-{over}"
            results[name] = measure(case, bed, o.rounds, o.seconds)
            text, complaints = table(case, results[name])
            print(text.replace(f"### {case.name}", f"### {name}"), flush=True)
            wrong += complaints


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--servers", default="varnish,nginx,haproxy,h2o,ours")
    a.add_argument("--over", default="clear,tls")
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM", help="another build of ours beside it")
    a.add_argument("--key", choices=tls.KEYS, default="ecdsa")
    a.add_argument("--out")
    o = a.parse_args()
    unknown = set(o.cases.split(",")) - set(CASES) | set(o.over.split(",")) - set(OVER)
    if unknown:
        a.error(f"no {', '.join(unknown)}")
    if not shutil.which("h2load"):
        sys.exit("bench: no h2load here (scripts/need-packages h2)")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    servers.NEEDS.update(NEEDS)
    results, wrong, files = {}, [], pathlib.Path(tempfile.mkdtemp(prefix="lacquer-bench-h2.", dir="/dev/shm"))
    OverTls.passes, OverTls.tls_origin = False, 1
    OverTls.certificate = Certificate(files, o.key)
    try:
        for over in o.over.split(","):
            one_way(o, over, results, wrong)
    finally:
        shutil.rmtree(files, ignore_errors=True)
    saved = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "load": os.getloadavg()[0],
             "rounds": o.rounds, "seconds": o.seconds, "results": results}
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(saved, indent=1) + "\n")
    closing(results)
    print("\n".join(f"h2: {text}" for text in wrong))
    return 1 if wrong else 0


def closing(results):
    """A line a case: what servers are compared by."""
    names = list(dict.fromkeys(server for by in results.values() for server in by))
    print("\n| case | " + " | ".join(names) + " | ours to best |\n|" + " --- |" * (len(names) + 2))
    for name, by in results.items():
        key = "bytes" if "bytes" in name else "cpu_us"
        own = {server: figures[key] for server, figures in medians(by).items()}
        peers = [figure for server, figure in own.items() if not server.startswith("ours")]
        ratio = f"{own['ours'] / min(peers):.2f}" if "ours" in own and peers else "-"
        print(f"| {name} | " + " | ".join(f"{own[server]:.4g}" if server in own else "-" for server in names) + f" | {ratio} |")


if __name__ == "__main__":
    sys.exit(main())
