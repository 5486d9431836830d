#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3: CPU per request beside quinn's bare echo, which is what QUIC alone costs, and beside ngtcp2's server of files, the one that Debian has; and
memory of idle and of busy connections.

As bench/h2.py: the servers are on core 0 with one thread for traffic, generator (crates/net/examples/quic.rs) and origin have core 1, rounds are
interleaved, CPU is what all processes of a server ran. The echo reads each request to its end and answers 1 KB, or 100 KB in cases of 100k; it has no HTTP/3,
no VCL, no log, no cache. Its streams that wait hold what quinn holds. ngtcp2's (gtlsserver, an example of its authors') has no passes.

usage: bench/h3.py [--rounds N] [--seconds S] [--cases A,B] [--servers a,b] [--ours PROGRAM] [--generator PROGRAM] [--out FILE]
It fails when an answer of ours is wrong, or an idle connection takes more than 1.25 times the echo's.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import servers
import tls
from bed.certificates import Authority
from cases import HIT, HIT100K, Case
from h2 import PASS, Memory, closing
from run import commit, measure, table
from servers import HERE, Bed, Server, spawn
from tls import OverTls, TlsOurs, beside

NAME = "bed.test"
IDLE, BUSY, STREAMS = 500, 10, 100  # connections; and streams on each
WINDOW = 64                         # bytes of an answer that nobody reads
WARM, LEAST = 2000, 2000            # requests
MOST_IDLE = 1.25                    # times the echo's
# Of its own: its flags aren't those of `make build`.
TARGET = HERE.parent / "target/quic"
PROGRAM = TARGET / "release/examples/quic"


def build(built):
    global PROGRAM
    if built:
        PROGRAM = built.resolve()
        return
    argv = ["cargo", "build", "--release", "-q", "-p", "net", "--example", "quic", "--target-dir", TARGET]
    subprocess.run(argv, check=True, cwd=HERE.parent)


class Echo(Server):
    """quinn's, of answers of one length."""
    name, bytes = "echo", 1024

    def argv(self):
        return [PROGRAM, "echo", self.roots(), self.dir / "port", self.bytes]

    def start(self):
        with open(self.dir / "out", "wb") as out:
            self.process = spawn(0, self.argv(), stdout=out, stderr=out, stdin=subprocess.PIPE)
        end = time.time() + servers.START_LIMIT
        while not (self.dir / "port").exists() or not (self.dir / "port").read_text():
            if time.time() > end or self.process.poll() is not None:
                raise SystemExit(f"bench: the echo does not start: {(self.dir / 'out').read_text(errors='replace')}")
            time.sleep(0.02)
        self.port = int((self.dir / "port").read_text())

    def roots(self):
        return self.dir / "roots.pem"

    authority = "a.example"


class Echo100k(Echo):
    name, bytes = "echo-100k", 100 << 10


class QuicOurs(TlsOurs):
    authority, root = NAME, None

    def argv(self):
        return [*super().argv(), "-a", f"quic=127.0.0.1:{self.port},quic"]

    def roots(self):
        return self.root


class Ngtcp2(Server):
    """Files in the place of hits."""
    name, authority = "ngtcp2", NAME

    def argv(self):
        for path, size in ((HIT, 1024), (HIT100K, 100 << 10)):
            file = self.dir / f"files{path}"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"x" * size)
        leaf = OverTls.certificate
        return ["gtlsserver", "-q", "--timeout=300s", "-d", self.dir / "files", "127.0.0.1", self.port, leaf.key, leaf.chain]

    def start(self):
        with open(self.dir / "out", "wb") as out:
            self.process = spawn(0, self.argv(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        end = time.time() + servers.START_LIMIT
        while quic("load", self, HIT, 1, 1, 1).wait() != 0:
            if time.time() > end or self.process.poll() is not None:
                raise SystemExit(f"bench: gtlsserver does not start: {(self.dir / 'out').read_text(errors='replace')}")

    def roots(self):
        return QuicOurs.root


SERVERS = {"echo": Echo, "echo-100k": Echo100k, "ngtcp2": Ngtcp2, "ours": QuicOurs}


def quic(verb, server, path, *more, **options):
    argv = [PROGRAM, verb, server.roots(), server.authority, server.port, path, *more]
    return spawn(1, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


class Load(Case):
    """The same request on so many connections, so many at a time on each."""
    columns = ("rps",)

    def __init__(self, name, path, streams, connections=64):
        super().__init__(name)
        self.path, self.streams, self.connections = path, streams, connections

    def takes(self, name):
        if name == "ngtcp2":
            return self.path != PASS
        return name.endswith("-100k") == (self.path == HIT100K) or not name.startswith("echo")

    def load(self, server, count):
        p = quic("load", server, self.path, self.connections, self.streams, count)
        try:
            said, why = p.communicate(timeout=75)
        except subprocess.TimeoutExpired:
            p.kill()
            raise SystemExit(f"bench: the load hangs on {server.name} {self.path}")
        if p.returncode:
            raise SystemExit(f"bench: {server.name} {self.path}: {why}")
        got, least = json.loads(said), count * (102_400 if self.path == HIT100K else 1024)
        return {"ok": got["ok"], "errors": got["failed"] + (got["bytes"] < least), "rps": got["ok"] / got["seconds"]}

    def measure(self, bed, server, seconds):
        warm = self.load(server, WARM)
        count = max(LEAST, int(warm["rps"] * seconds))
        ran = server.ran_ns()
        got = self.load(server, count)
        return got | {"cpu_us": (server.ran_ns() - ran) / max(1, got["ok"]) / 1e3}

    def remarks(self, median):
        return beside(self.key, float("inf"), median)


class Held(Memory):
    """Bytes a connection of so many, each with so many streams whose answers wait for a window."""

    def __init__(self, name, path, count, streams):
        super().__init__(name, count)
        self.path, self.streams = path, streams

    def takes(self, name):
        return name != "echo-100k" or self.streams > 0

    @contextlib.contextmanager
    def held(self, server, count):
        p = quic("hold", server, self.path, count, self.streams, WINDOW, stdin=subprocess.PIPE)
        try:
            if p.stdout.readline() != "held\n":
                p.kill()
                raise SystemExit(f"bench: {server.name} holds nothing: {p.communicate()[1]}")
            yield
        finally:
            p.stdin.close()
            p.wait()

    @contextlib.contextmanager
    def taking_part(self, bed):
        with super().taking_part(bed) as fresh:
            yield {name: server for name, server in fresh.items() if self.takes(name)}

    def measure(self, bed, server, seconds):
        with self.held(server, 1 if self.streams else 32):
            pass
        time.sleep(0.5)
        before = server.pss()
        with self.held(server, self.count):
            time.sleep(1.0)
            return {"bytes": (server.pss() - before) / self.count}

    def remarks(self, median):
        return beside(self.key, float("inf") if self.streams else MOST_IDLE, median)


CASES = {case.name: case for case in (
    Load("hit-1x64", HIT, 1), Load("hit-16x64", HIT, 16), Load("hit-100k-16x16", HIT100K, 16, 16), Load("pass-1x64", PASS, 1), Load("pass-16x64", PASS, 16),
    Held("idle-bytes", HIT, IDLE, 0), Held("busy-bytes", HIT100K, BUSY, STREAMS))}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--servers", default=",".join(SERVERS))
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--generator", type=pathlib.Path, help="the example, where it is built already")
    a.add_argument("--out")
    o = a.parse_args()
    if unknown := set(o.cases.split(",")) - set(CASES) | set(o.servers.split(",")) - set(SERVERS):
        a.error(f"no {', '.join(unknown)}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    build(o.generator)
    servers.SERVERS.clear()
    servers.SERVERS.update(SERVERS)
    servers.NEEDS["ngtcp2"] = "gtlsserver"
    results, wrong, files = {}, [], pathlib.Path(tempfile.mkdtemp(prefix="lacquer-bench-h3.", dir="/dev/shm"))
    authority = Authority(files / "root", "Bench Root")
    OverTls.certificate, OverTls.passes, OverTls.tls_origin, QuicOurs.root = authority.leaf(NAME), False, 1, authority.cert
    try:
        with Bed(o.servers.split(","), o.ours) as bed:
            for case in map(CASES.get, o.cases.split(",")):
                results[case.name] = measure(case, bed, o.rounds, o.seconds)
                text, complaints = table(case, results[case.name])
                print(text, flush=True)
                wrong += complaints
    finally:
        shutil.rmtree(files, ignore_errors=True)
    saved = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "load": os.getloadavg()[0],
             "rounds": o.rounds, "seconds": o.seconds, "results": results}
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(saved, indent=1) + "\n")
    closing(results)
    print("\n".join(f"h3: {text}" for text in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
