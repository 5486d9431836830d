#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A fleet of nodes with one log of bans and purges, kept by a real NATS and by a real Redis: what one node has acknowledged holds on all,
also on those that were killed or cut off meanwhile, before they serve a hit; what can't be caught up with costs the objects; and who bans
or purges while the log is away is told so.

--words says which cases to run: these run one after the other. Without it all run, three beside each other.
With --full 20,000 objects and 10,000 purges, otherwise some hundreds, and what waits for leases with one of the two servers (ONCE)."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TESTS), str(TESTS / "e2e/cluster")]
from bed.beside import beside
from bed import clocks
from bed.daemon import Varnishd, die_with_parent, directory, of_threads, workdir
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import ROOT, Report, options, settled, until
from fleet import deploy
from bed.engines import Cluster, Nats, Redis
from bed.stores import INVALIDATING_VCL as VCL

LIMIT = 60  # seconds; it only ends what hangs


# What the origin says of how old they are already.
AGES = {"/old": "Age: 2000\r\n", "/young": "Age: 480\r\n"}


# A node spreads so many bans at the same time.
SPREADS = 64


class Pages:
    """An origin whose bodies are their versions. A version is counted up before what is served of the older one is invalidated."""

    def __init__(self):
        self.versions, self.asked, self.lock, self.holds = {}, 0, threading.Lock(), threading.Event()
        self.holds.set()

    def answer(self, _method, path, _fields):
        with self.lock:
            self.asked += 1
            version = self.versions.get(path, 0)
        if path.startswith("/held"):
            self.holds.wait(LIMIT)
        return AGES.get(path, ""), f"{path} {version}".encode()

    def change(self, *paths):
        with self.lock:
            for path in paths:
                self.versions[path] = self.versions.get(path, 0) + 1

    def is_stale(self, path, body):
        return body != f"{path} {self.versions.get(path, 0)}".encode()


class Node:
    """A server of the fleet, which may be killed and started again with its store."""

    def __init__(self, fleet, name, storage="malloc,64m", settings="", args=()):
        self.fleet, self.name, self.storage, self.settings, self.args = fleet, name, storage, settings, args
        self.store = fleet.dir / f"store-{name}"
        self.start()

    def start(self):
        spec = f"{self.fleet.engine.settings},name={self.fleet.name},node={self.name}{self.settings}"
        args = ["-p", "feature=+no_coredump", "-p", "tag_urls=on", "--fleet", spec, *self.args]
        self.v = Varnishd(self.fleet.program, args, vcl=VCL % self.fleet.origin.address[:2], storage=self.storage.replace("@", str(self.store)))

    def kill(self):
        self.v.kill()

    def counter(self, name):
        return self.v.counter(name) or 0

    def status(self):
        return json.loads(self.v.cli.ask("fleet.status -j"))[-1]

    def follows(self, applied=None):
        """Waits until it follows the log, and has carried out so much; else how it fares."""
        def is_there():
            s = self.status()
            return s["follow"]["up"] and s["append"]["up"] and s["serves"] == "all" and s["lag"] == 0 and (applied is None or s["applied"] >= applied)
        return until(LIMIT, is_there)

    def ask(self, path, method="GET", client=None, **fields):
        headers = [(name.replace("_", "-"), value) for name, value in fields.items()]
        if client:
            return client.request(path, headers, method=method)
        with Client(self.v.address, timeout=LIMIT) as c:
            return c.request(path, headers, method=method)

    def walk(self, paths):
        """Asks for all: those that were stale."""
        stale = []
        with Client(self.v.address, timeout=LIMIT) as c:
            for path in paths:
                got = c.request(path)
                if not got.whole() or self.fleet.pages.is_stale(path, got.body):
                    stale.append(f"{path}: {got} {got.body[:40]}")
        return stale

    def output(self):
        return "".join(self.v.output)


class Fleet:
    """An engine, an origin, and nodes."""

    def __init__(self, o, make, count=0, name="web", secure=False, **kw):
        self.program, self.name = o.varnishd, name
        self.dir = workdir()
        os.chmod(self.dir, 0o777)
        self.engine, self.pages = make(secure), Pages()
        self.origin = Origin(simple(self.pages.answer))
        self.nodes = []
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.nodes = list(pool.map(lambda n: Node(self, f"n{n}", **kw), range(count)))

    def node(self, name, **kw):
        self.nodes.append(Node(self, name, **kw))
        return self.nodes[-1]

    def follow(self):
        return all(node.follows() for node in self.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.v.proc.poll() is None:
                node.v.close()
        self.origin.close()
        self.engine.close()
        shutil.rmtree(self.dir, ignore_errors=True)


# By each kind: how it is done on one node, and which of the paths /0 to /29 it hits.
PATHS = [f"/{n}" for n in range(30)]
KINDS = {
    "a ban by the CLI": (lambda n: n.v.cli.ask_raw("ban obj.http.x-url ~ ^/1")[0] == 200, [p for p in PATHS if p.startswith("/1")]),
    "a ban of several words": (lambda n: n.v.cli.ask_raw('ban obj.status == 200 && obj.http.x-url ~ "^/(3|4)$"')[0] == 200, ["/3", "/4"]),
    "a ban by VCL": (lambda n: n.ask("/20", "BAN").status == 200, ["/20"]),
    "a purge": (lambda n: n.ask("/21", "PURGE").status == 200, ["/21"]),
    "a soft purge": (lambda n: n.ask("/22", X_Soft="1").status == 200, ["/22"]),
    "a purge by key": (lambda n: n.ask("/", "KEY", X_Key="k5").status == 200, [p for p in PATHS if p.endswith("5")]),
    "a soft purge by key": (lambda n: n.ask("/", "SOFTKEY", X_Key="k6").status == 200, [p for p in PATHS if p.endswith("6")]),
    "a purge by tag": (lambda n: n.v.cli.ask_raw("purge.tag k7")[0] == 200, [p for p in PATHS if p.endswith("7")]),
    "a ban by tag": (lambda n: n.v.cli.ask_raw("ban obj.tag == k4")[0] == 200, [p for p in PATHS if p.endswith("4")]),
    "a purge by URL": (lambda n: n.v.cli.ask_raw("purge.url site/8")[0] == 200, ["/8"]),
    "a purge by prefix": (lambda n: n.v.cli.ask_raw("purge.prefix site/2")[0] == 200, [p for p in PATHS if p.startswith("/2")]),
    "a purge by host": (lambda n: n.v.cli.ask_raw("purge.host site")[0] == 200, PATHS),
}


def everywhere(report, o, make):
    """Each way to invalidate, on one node after the other, holds on all, and hits there what it hits here."""
    with Fleet(o, make, 4) as f:
        report.check(f.follow(), "all nodes follow the log")
        for node in f.nodes:
            report.check(not node.walk(PATHS), f"{node.name} is filled")
        for at, (kind, (invalidate, hit)) in enumerate(KINDS.items()):
            f.pages.change(*hit)
            maker = f.nodes[at % 4]
            report.check(invalidate(maker), f"{kind}: it is acknowledged")
            report.check(all(node.follows(at + 1) for node in f.nodes), f"{kind}: all have carried it out")
            before = f.pages.asked
            stale = [s for node in f.nodes for s in node.walk(PATHS)]
            report.check(not stale, f"{kind}: stale: {stale[:3]}")
            report.check(f.pages.asked - before == 4 * len(hit), f"{kind}: {f.pages.asked - before} fetched, not {4 * len(hit)}")
        maker = f.nodes[0].status()
        report.check(maker["returned"] == maker["appended"] == 3, f"the first node's own come back: {maker}")
        report.check(all(n.status()["gaps"] == 0 for n in f.nodes), f"nobody gave up anything: {[line for n in f.nodes for line in n.v.output if 'fleet:' in line]}")
        text = subprocess.run([str(pathlib.Path(o.varnishd).with_name("lacquer")), "fleet", "status", "-n", str(f.nodes[1].v.n)], capture_output=True, text=True)
        report.check(text.returncode == 0 and f"position       {len(KINDS)} of {len(KINDS)}" in text.stdout, f"lacquer fleet status: {text.stdout}{text.stderr}")
        report.comes(lambda: f.nodes[1].counter("FLEET.applied"), len(KINDS), "FLEET.applied")


def spread(report, o, make):
    """A spread ban is one entry, which each node spreads; it is cancelled on one node. A node that spreads too many makes objects stale at once."""
    hit = [p for p in PATHS if p.endswith("5")]
    with Fleet(o, make, 2) as f:
        report.check(f.follow(), "all nodes follow the log")
        a, b = f.nodes
        report.check(not a.walk(PATHS) + b.walk(PATHS), "both are filled")
        a.v.cli.ask("ban over=7d rate=1/s obj.tag == k6")
        report.check(b.follows(1), "the other one has carried it out")
        specs = [node.v.cli.ask("ban.spreads") for node in f.nodes]
        report.check(all("over=1w rate=1/s obj.tag == k6" in spec for spec in specs), f"both spread it: {specs}")
        a.v.cli.ask(f"ban.cancel {specs[0].splitlines()[1].split()[0]}")
        report.check("k6" not in a.v.cli.ask("ban.spreads") and "k6" in b.v.cli.ask("ban.spreads"), "only one has cancelled it")
        f.pages.change(*hit)
        before = f.pages.asked
        a.v.cli.ask("ban over=1s obj.tag == k5")
        report.check(until(LIMIT, lambda: not a.walk(hit) + b.walk(hit)), "both have renewed what it means")
        report.check(f.pages.asked - before == 2 * len(hit), f"each of them once: {f.pages.asked - before}")
        report.check(until(LIMIT, lambda: not any("k5" in node.v.cli.ask("ban.spreads") for node in f.nodes)), "that one is over")
        # The other one still spreads what was cancelled here.
        for n in range(SPREADS - 1):
            a.v.cli.ask(f"ban over=7d obj.http.x-url == /nothing{n}")
        report.check(b.follows(2 + SPREADS - 1), "the other one has carried these out as well")
        status, text = b.v.cli.ask_raw("ban over=7d obj.http.x-url == /more")
        report.check(status == 300 and b.follows(), f"the other one spreads as many as it may: {status} {text}")
        report.check(not a.walk(PATHS) + b.walk(PATHS), "both are filled again")
        f.pages.change(*(p for p in PATHS if p.endswith("4")))
        a.v.cli.ask("ban over=7d obj.tag == k4")
        report.check(until(LIMIT, lambda: "a spread ban of n0 makes its objects stale at once" in b.output()), f"it says so: {b.output()[-500:]}")
        report.check(not b.walk(PATHS), "and they are")
        report.check(len(a.walk(PATHS)) == 3 and "stale at once" not in a.output(), "the first one has room, and spreads it")


def examined(o, node, *more):
    """Findings of lacquer doctor at the log's server, and what it couldn't look at: texts by rule."""
    words = [str(pathlib.Path(o.varnishd).with_name("lacquer")), "doctor", "-n", str(node.v.n), "--only", "server", "--format", "json", "-q", *more]
    r = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=LIMIT).stdout)
    pick = lambda key: {one["id"]: " ".join(one.get("evidence", [])) + one["why"] for one in r[key] if one["id"].startswith("fleet-")}
    return pick("findings"), pick("not_looked_at")


def doctor(report, o, make):
    """lacquer doctor asks the log's server for settings that lose entries, and says which of them it can't read."""
    look = lambda node, *more: examined(o, node, *more)
    with Fleet(o, make, 1) as f:
        report.check(f.follow(), "the node follows the log")
        found, blind = look(f.nodes[0])
        if make.kind == "NATS":
            wanted = {"fleet-nats-version", "fleet-nats-replicas"}
            report.check(set(blind) == {"fleet-nats-sync"} and "--nats-monitor" in blind["fleet-nats-sync"], f"it says what to name: {blind}")
            found_there, blind_there = look(f.nodes[0], "--nats-monitor", f"127.0.0.1:{f.engine.port}")
            report.check(set(blind_there) == {"fleet-nats-sync"} and "/varz" in blind_there["fleet-nats-sync"], f"no monitoring port: {blind_there}")
            report.check(set(found_there) == set(found), f"the same: {found_there}")
        else:
            wanted = set()
            report.check(not blind, f"all is looked at: {blind}")
        report.check(set(found) == wanted, f"a server as the suite starts it: {found}")
        if make.kind == "Redis":
            for name, value in (("appendfsync", "everysec"), ("maxmemory-policy", "allkeys-lru")):
                report.check(f.engine.ask("CONFIG", "SET", name, value) == b"+OK\r\n", f"{name} {value}")
            found, blind = look(f.nodes[0])
            report.check(set(found) == {"fleet-redis-fsync", "fleet-redis-eviction"} and not blind, f"settings that lose entries: {found} {blind}")
            report.check(f.engine.ask("CONFIG", "SET", "appendonly", "no") == b"+OK\r\n", "appendonly no")
            found, blind = look(f.nodes[0])
            report.check(set(found) == {"fleet-redis-unsaved", "fleet-redis-eviction"} and not blind, f"no file: {found} {blind}")
        f.engine.end()
        found, blind = look(f.nodes[0])
        report.check(not found and blind and all("can't be asked" in why for why in blind.values()), f"a server that is gone: {found} {blind}")


def ages(report, o, make):
    """A ban by age counts from the moment when it was made, whenever it is carried out."""
    with Fleet(o, make) as f:
        a, b = f.node("a"), f.node("b", storage="file,@,64m,keep", settings=",wait=60s")
        f.follow()
        until(LIMIT, lambda: b.counter("DISK.s0.ready") == 1)
        begin = time.monotonic()
        b.walk(["/old", "/young"])
        report.check(until(LIMIT, lambda: b.counter("DISK.s0.objects") >= 2), "both are on the disk")
        b.kill()
        f.pages.change("/old")
        # More than the younger one's age is now, and less than it is when the ban is carried out.
        age = 480 + int(time.monotonic() - begin) + 2
        report.check(a.v.cli.ask_raw(f"ban obj.age > {age}s")[0] == 200, "a ban by age")
        time.sleep(3)
        b.start()
        until(LIMIT, lambda: b.counter("DISK.s0.ready") == 1)
        report.check(b.follows(1) and not b.walk(["/old"]), "the old one is gone")
        before = f.pages.asked
        report.check(not b.walk(["/young"]) and f.pages.asked == before, "the younger one, older now than the ban's age, is there")


def killed(report, o, make):
    """A node is killed, purges go on, it comes back with its store: nothing stale, and what wasn't purged is there."""
    objects, purges = (20_000, 10_000) if o.full else (800, 400)
    paths = [f"/{n}" for n in range(objects)]
    with Fleet(o, make) as f:
        a, b = f.node("a"), f.node("b", storage="file,@,512m,keep")
        f.follow()
        until(LIMIT, lambda: b.counter("DISK.s0.ready") == 1)
        report.check(not b.walk(paths), "it is filled")
        report.check(until(LIMIT, lambda: b.counter("DISK.s0.objects") >= objects), f"the disk has {b.counter('DISK.s0.objects')}")
        acked, kill_at = 0, purges // 4
        with Client(a.v.address, timeout=LIMIT) as c:
            begin = time.monotonic()
            for n in range(purges):
                path = paths[n * objects // purges]
                f.pages.change(path)
                acked += c.request(path, method="PURGE").status == 200
                if n == kill_at:
                    b.kill()
            took = time.monotonic() - begin
        report.check(acked == purges, f"{acked} of {purges} were acknowledged")
        b.start()
        begin = time.monotonic()
        report.check(b.follows(purges), f"it catches up: {b.status()}")
        caught = time.monotonic() - begin
        until(LIMIT, lambda: b.counter("DISK.s0.ready") == 1)
        status, before = b.status(), f.pages.asked
        stale = b.walk(paths)
        report.check(not stale, f"{len(stale)} stale: {stale[:3]}")
        fetched = f.pages.asked - before
        report.check(purges <= fetched < objects * 0.9, f"{fetched} of {objects} were fetched, {purges} had to be")
        report.check(status["gaps"] == 0 and status["carried_out"] >= purges * 0.7, f"it went on where it was: {status}")
        report.note(f"{make.kind}: {purges} purges in {took:.1f} s; caught up {caught:.2f} s after its start; {fetched} of {objects} fetched anew")


def worker_dies(report, o, make):
    """A worker that dies during purges is followed by one that has missed none; objects in memory stay."""
    paths = [f"/{n}" for n in range(200)]
    with Fleet(o, make, 2) as f:
        f.follow()
        a, b = f.nodes
        b.walk(paths)
        for n in range(0, 100):
            f.pages.change(paths[n])
            report.check(a.ask(paths[n], "PURGE").status == 200, f"purge {n}")
            if n == 50:
                old = b.v.worker()
                os.kill(old, signal.SIGKILL)
        report.check(until(LIMIT, lambda: b.v.worker() != old and "running" in b.v.cli.ask("status")), "there is another worker")
        report.check(b.follows(100), f"it follows: {b.status()}")
        before = f.pages.asked
        stale = b.walk(paths)
        report.check(not stale, f"stale: {stale[:3]}")
        report.check(f.pages.asked - before == 100 and b.status()["gaps"] == 0, f"{f.pages.asked - before} fetched: {b.status()}")


def upgraded(report, o, make):
    """A node goes on as another program while others purge: its successor has missed nothing, and has what it had."""
    paths = [f"/{n}" for n in range(400)]
    with Fleet(o, make, 2) as f:
        f.follow()
        a, b = f.nodes
        b.walk(paths)
        lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
        upgrade = subprocess.Popen([lacquer, "upgrade", "-n", str(b.v.n)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        n = 0
        while n < 100 or (upgrade.poll() is None and n < len(paths)):
            f.pages.change(paths[n])
            report.check(a.ask(paths[n], "PURGE").status == 200, f"purge {n}")
            n += 1
            time.sleep(0.005)
        report.check(upgrade.wait(LIMIT) == 0, upgrade.stdout.read())
        report.check(b.follows(n), f"it follows: {b.status()}")
        before = f.pages.asked
        stale = b.walk(paths)
        report.check(not stale and b.status()["gaps"] == 0, f"stale: {stale[:3]}")
        report.check(f.pages.asked - before == n, f"{f.pages.asked - before} fetched, not {n}")


def held(report, o, make):
    """An object whose fetch began before the purge on another node and ended after it counts as purged."""
    with Fleet(o, make, 2) as f:
        f.follow()
        a, b = f.nodes
        f.pages.holds.clear()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(b.ask, "/held")
            report.check(until(LIMIT, lambda: f.pages.asked == 1), "the origin is asked")
            f.pages.change("/held")
            report.check(a.ask("/held", "PURGE").status == 200 and b.follows(1), "it is purged meanwhile")
            f.pages.holds.set()
            report.check(waiting.result().body == b"/held 0", "who asked before has the old one")
        report.check(b.ask("/held").body == b"/held 1", "who asks after it has the new one")


def refused(report, node, path="/0"):
    """Nothing can be invalidated, and everybody is told so."""
    purge = node.ask(path, "PURGE").status
    ban = node.ask(path, "BAN").status
    status, text = node.v.cli.ask_raw("ban obj.http.x-url == /nothing")
    key, tag = node.ask("/", "KEY", X_Key="k0").status, node.v.cli.ask_raw("purge.tag k0")[0]
    ok = (purge, ban, status, key, tag) == (503, 503, 300, 503, 300) and b"can't be reached" in text
    return ok, f"{purge} {ban} {status} {key} {tag} {text}"


def away(report, o, make):
    """The log's server is killed, or stands still: nodes serve, nobody is told that something is purged, and it goes on by itself."""
    for how in ("end", "stop"):
        with Fleet(o, make, 2, settings=",patience=3s") as f:
            f.follow()
            a, b = f.nodes
            a.walk(PATHS), b.walk(PATHS)
            getattr(f.engine, how)()
            # The first of them may wait as long as it was told to.
            first = a.ask("/1", "PURGE").status
            report.check(first == 503, f"{how}: the first purge: {first}")
            report.check(until(LIMIT, lambda: not a.status()["append"]["up"]), f"{how}: it is known")
            report.check(*refused(report, a))
            before = f.pages.asked
            report.check(not b.walk(PATHS) and f.pages.asked == before, f"{how}: hits go on")
            report.check(until(LIMIT, lambda: b.counter("FLEET.followed") == 0 and b.counter("FLEET.reachable") == 0), f"{how}: counters say it")
            if how == "end":
                f.engine.start()
            else:
                f.engine.go_on()
            report.check(f.follow(), f"{how}: they follow again: {[n.status() for n in f.nodes]}")
            f.pages.change("/2")
            report.check(a.ask("/2", "PURGE").status == 200 and until(LIMIT, lambda: not b.walk(["/2"])), f"{how}: purges go on")
            report.check(all(n.status()["gaps"] == 0 for n in f.nodes), f"{how}: nobody gave up anything")


def killed_while_purging(report, o, make):
    """The log's server is killed again and again while purges go on: what was acknowledged holds everywhere."""
    with Fleet(o, make, 2, settings=",patience=10s") as f:
        f.follow()
        a, b = f.nodes
        paths = [f"/{n}" for n in range(300)]
        b.walk(paths)
        over, acked = threading.Event(), []

        def purger():
            for n, path in enumerate(paths):
                if over.is_set() and n >= 100:
                    break
                f.pages.change(path)
                if a.ask(path, "PURGE").status == 200:
                    acked.append(path)
                over.wait(0.01)

        thread = threading.Thread(target=purger)
        thread.start()
        # By this thread: a server ends with the thread that started it.
        for _ in range(3):
            before = len(acked)
            until(LIMIT, lambda: len(acked) >= before + 10)
            f.engine.end()
            until(LIMIT, lambda: not a.status()["append"]["up"])
            f.engine.start()
        over.set()
        thread.join()
        report.check(len(acked) >= 100 and f.follow(), f"{len(acked)} were acknowledged: {[x.status() for x in f.nodes]}")
        stale = b.walk(acked)
        report.check(not stale, f"{len(stale)} stale: {stale[:3]}")


def trimmed(report, o, make):
    """More was purged while a node was down than the log keeps: all that it has stored is given up."""
    paths = [f"/{n}" for n in range(300)]
    with Fleet(o, make) as f:
        a, b = f.node("a", settings=",retention=100"), f.node("b", storage="file,@,64m,keep", settings=",retention=100")
        report.check(f.follow() and until(LIMIT, lambda: b.counter("DISK.s0.ready") == 1), f"they begin: {[n.status() for n in f.nodes]}")
        b.walk(paths)
        report.check(a.ask("/299", "PURGE").status == 200 and b.follows(1), "one before")
        report.check(until(LIMIT, lambda: b.counter("DISK.s0.objects") >= 299), "they are on the disk")
        b.kill()
        for path in paths[:200]:
            f.pages.change(path)
            report.check(a.ask(path, "PURGE").status == 200, path)
        b.start()
        report.check(b.follows(201), f"it follows: {b.status()}")
        stale = b.walk(paths)
        report.check(not stale, f"stale: {stale[:3]}")
        report.check(b.status()["gaps"] == 1, f"it is known: {b.status()}")
        report.check(until(LIMIT, lambda: "are missing" in b.output()), f"it says why: {b.output()[-500:]}")
        report.comes(lambda: b.counter("FLEET.gaps"), 1, "FLEET.gaps")


def replaced(report, o, make):
    """The log's server begins with an empty log: what a node has stored is given up."""
    with Fleet(o, make, 2, storage="malloc,64m", settings=",wait=60s") as f:
        f.follow()
        a, b = f.nodes
        report.check(a.ask("/y", "PURGE").status == 200 and b.follows(1), "both have come to 1")
        b.walk(PATHS), a.walk(PATHS)
        f.engine.end(signal.SIGTERM)
        f.engine.put_back(None)
        f.pages.change(*PATHS)
        f.engine.start()
        report.check(f.follow(), f"they follow again: {[n.status() for n in f.nodes]}")
        stale = a.walk(PATHS) + b.walk(PATHS)
        report.check(not stale, f"stale: {stale[:3]}")
        report.check(all(n.status()["gaps"] >= 1 for n in f.nodes), "it is counted")


def restored(report, o, make):
    """The log's server is killed, and has the file of before a purge that it had acknowledged; then another entry may take the purge's number. A node
    that was down and had never seen the purge gets it all the same, and nobody gives up anything."""
    for other in (None, b'{"lacquer":1,"at":1,"tags":["nothing"]}'):
        with Fleet(o, make, 2, settings=",wait=60s") as f:
            a, b, c = *f.nodes, f.node("c", storage="file,@,64m,keep", settings=",wait=60s")
            report.check(f.follow() and until(LIMIT, lambda: c.counter("DISK.s0.ready") == 1), f"they begin: {[n.status() for n in f.nodes]}")
            report.check(a.ask("/none", "PURGE").status == 200 and all(n.follows(1) for n in f.nodes), "all have come to 1")
            c.walk(PATHS)
            report.check(until(LIMIT, lambda: c.counter("DISK.s0.objects") >= len(PATHS)), "they are on the disk")
            f.engine.end(signal.SIGTERM)
            f.engine.save("saved")
            f.engine.start()
            report.check(f.follow(), "they follow again")
            c.kill()
            f.pages.change("/1")
            report.check(a.ask("/1", "PURGE").status == 200 and b.follows(2), "two of them have it")
            f.engine.end()
            f.engine.put_back("saved")
            # Before a node can append anything.
            workers = [n.v.worker() for n in (a, b)] if other else []
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            f.engine.start()
            if other:
                f.engine.append(f.name, other)
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
            report.check(until(LIMIT, lambda: sum(n.status()["restored"] for n in (a, b)) >= 1), f"it is appended again: {[n.status() for n in (a, b)]}")
            c.start()
            report.check(c.follows(3 if other else 2) and until(LIMIT, lambda: all(n.status()["owed"] == 0 for n in f.nodes)), f"all have it: {[n.status() for n in f.nodes]}")
            report.check(until(LIMIT, lambda: c.counter("DISK.s0.ready") == 1), "its store is there")
            stale = c.walk(PATHS)
            report.check(not stale, f"stale: {stale[:3]}")
            report.check(all(n.status()["gaps"] == 0 for n in f.nodes), f"nobody gave up anything: {[n.status() for n in f.nodes]}")


def strange(report, o, make):
    """Entries of others are left out and counted; one that may be ours, and that nobody understands, hits everything, however long it is; a stream
    that is somebody else's isn't used."""
    with Fleet(o, make, 0) as f:
        # One in which there is room for any entry.
        f.engine.begin_log(f.name)
        n = f.node("n")
        f.follow()
        n.walk(PATHS)
        for payload in (b"hello", b"{}", b"\xff\xfe" * 10, b'{"at":1,"tags":["k7"]}', b"[" * 10_000):
            f.engine.append(f.name, payload)
        report.check(n.follows(5) and n.status()["foreign"] == 5, f"{make.kind}: five aren't ours: {n.status()}")
        before = f.pages.asked
        report.check(not n.walk(PATHS) and f.pages.asked == before, f"{make.kind}: they hit nothing")
        f.engine.append(f.name, b'{"lacquer":1,"at":1,"tags":["k7"]}')
        report.check(n.follows(6), f"{make.kind}: one that another program wrote")
        n.walk(PATHS)
        report.check(f.pages.asked - before == 3, f"{make.kind}: it hits what it says: {f.pages.asked - before}")
        long = b'{"lacquer":1,"at":1,"tags":["%s"]}'
        unclear = {
            "version 9": b'{"lacquer":9,"new":"thing"}', "required member": b'{"lacquer":1,"at":1,"tags":"k7"}', "longer than the 65536": long % (b"x" * 70_000),
            # More than is ever held of an answer.
            "longer than": long % (b"x" * (12 << 20)),
        }
        for at, (words, payload) in enumerate(unclear.items()):
            told = len(n.output())
            f.engine.append(f.name, payload)
            report.check(n.follows(7 + at), f"{make.kind}: {words}: it is passed: {n.status()}")
            status = n.status()
            report.check((status["gaps"], status["foreign"]) == (at + 1, 5), f"{make.kind}: {words}: it is counted: {status}")
            said = lambda: (words in n.output()[told:], f"entry {7 + at} of the fleet's log can't be understood" in n.output()[told:])
            report.check(until(LIMIT, lambda: all(said())), f"{make.kind}: {words}: it is said, and of which entry: {n.output()[told:][-300:]}")
            before = f.pages.asked
            n.walk(PATHS)
            report.check(f.pages.asked - before == len(PATHS), f"{make.kind}: {words}: it hits everything")
        f.pages.change("/3")
        report.check(n.ask("/3", "PURGE").status == 200 and n.follows(11) and not n.walk(PATHS), f"{make.kind}: purges go on")
        # What comes behind it and with it is carried out, also by who begins again at it.
        f.engine.append(f.name, long % (b"y" * (2 << 20)))
        report.check(n.follows(12), f"{make.kind}: one more")
        worker = n.v.worker()
        os.kill(worker, signal.SIGKILL)
        report.check(until(LIMIT, lambda: n.v.worker() != worker and "running" in n.v.cli.ask("status")) and n.follows(12), f"{make.kind}: the next worker begins at it")
        report.check(n.status()["gaps"] == 0, f"{make.kind}: and knows the log by it: {n.status()}")
        status, text = n.v.cli.ask_raw("ban obj.http.x == " + "y" * 70_000)
        report.check(status == 300 and b"longer than" in text, f"{make.kind}: one that is too long is refused: {status} {text[:200]}")
    with Fleet(o, make, 0, name="squat") as f:
        f.engine.squat("squat")
        n = f.node("n", settings=",wait=1s")
        report.check(until(LIMIT, lambda: n.status()["serves"] == "all"), f"{make.kind}: it serves after a while")
        report.comes(lambda: n.status()["follow"].get("why", ""), lambda why: "somebody else" in why or "something else" in why,
                     f"{make.kind}: it says what is there")
        report.check(n.ask("/1", "PURGE").status == 503, f"{make.kind}: nothing is purged")


def full(report, o, make):
    """The log's server takes no more: who purges is told so and why, what is stored is served, and once there is room purges go on."""
    with Fleet(o, make, 2, settings=",patience=2s") as f:
        a, b = f.nodes
        report.check(f.follow() and a.ask("/0", "PURGE").status == 200 and f.follow(), f"{make.kind}: there is room at first")
        a.walk(PATHS), b.walk(PATHS)
        f.engine.fill()
        report.check(until(LIMIT, lambda: all(n.status()["append"]["up"] and n.status()["serves"] == "all" for n in f.nodes)), f"{make.kind}: it is there")
        refused = lambda: a.v.cli.ask_raw("ban obj.http.x-url == /nothing")
        status, text = refused()
        report.check(status == 300 and any(words in text for words in (b"OOM", b"maximum", b"storage", b"resource")), f"{make.kind}: it says why: {status} {text}")
        report.check((a.ask("/1", "PURGE").status, a.ask("/", "KEY", X_Key="k2").status) == (503, 503), f"{make.kind}: nobody is told that it is done")
        report.comes(lambda: [a.status()["refused"], a.counter("FLEET.refused")], lambda both: min(both) >= 3, f"{make.kind}: it is counted")
        before = f.pages.asked
        report.check(not b.walk(PATHS) and f.pages.asked == before, f"{make.kind}: hits go on")
        f.engine.make_room()
        f.pages.change("/2")
        report.check(until(LIMIT, lambda: a.ask("/2", "PURGE").status == 200), f"{make.kind}: with room purges go on")
        report.check(until(LIMIT, lambda: not b.walk(["/2"])) and f.follow(), f"{make.kind}: on all nodes: {b.status()}")


def started_without(report, o, make):
    """A node that can't reach the log at its start serves nothing old, and after a while begins anew."""
    with Fleet(o, make) as f:
        # Longer than the look at the closed gate may take.
        a = f.node("a", storage="file,@,64m,keep", settings=",wait=12s")
        f.follow()
        until(LIMIT, lambda: a.counter("DISK.s0.ready") == 1)
        a.walk(PATHS)
        report.check(until(LIMIT, lambda: a.counter("DISK.s0.objects") >= len(PATHS)), "they are on the disk")
        a.kill()
        f.engine.end()
        f.pages.change("/1")
        a.start()
        status, closed = a.status(), a.counter("FLEET.gate_closed")
        report.check(status["serves"] == "nothing" and closed == 1, f"the gate is closed: {closed} {status}")
        report.check(not a.walk(["/1"]), "nothing stale is served")
        report.check(until(LIMIT, lambda: a.status()["serves"] == "all"), "it opens")
        before = f.pages.asked
        report.check(not a.walk(PATHS) and f.pages.asked - before >= len(PATHS) - 1, "what was stored is gone")
        before = f.pages.asked
        report.check(not a.walk(PATHS) and f.pages.asked == before, "what is fetched now is served")
        f.engine.start()
        report.check(a.follows(), f"it follows again: {a.status()}")


def stale_cap(report, o, make):
    """Once the log is away for longer than the setting allows nothing older than that is served."""
    # An object that is fetched stays young for longer than a walk may take.
    with Fleet(o, make, 1, settings=",stale=8s") as f:
        f.follow()
        a = f.nodes[0]
        a.walk(PATHS)
        f.engine.end()
        before = f.pages.asked
        report.check(not a.walk(PATHS) and f.pages.asked == before, "at first all is served")
        report.check(until(LIMIT, lambda: a.status()["serves"] == "young"), "then only what is young")
        # They grow older than what is young.
        time.sleep(0.5)
        a.walk(PATHS)
        report.check(f.pages.asked - before == len(PATHS), f"all were fetched anew: {f.pages.asked - before}")
        before = f.pages.asked
        a.walk(PATHS)
        report.check(f.pages.asked == before, "and are served")
        f.engine.start()
        report.check(a.follows(), "it follows again")
        before = f.pages.asked
        a.walk(PATHS)
        report.check(f.pages.asked == before, "all is served again")


def secure(report, o, make):
    """TLS and a password; who has a wrong one, or trusts another authority, is told so and serves."""
    with Fleet(o, make, 0, secure=True) as f:
        a, b = f.node("a"), f.node("b")
        report.check(f.follow(), f"over TLS: {[n.status() for n in f.nodes]}")
        b.walk(PATHS)
        f.pages.change("/3")
        report.check(a.ask("/3", "PURGE").status == 200 and b.follows(1) and not b.walk(PATHS), "a purge over TLS")
        report.check("cr@t" not in a.output() + a.v.cli.ask("fleet.status -j") + a.v.cli.ask("fleet.status"), "the password isn't shown")
        good = (f.engine.dir / "password").read_text()
        (f.engine.dir / "password").write_text("wrong\n")
        c = f.node("c", settings=",wait=1s")
        report.check(until(LIMIT, lambda: c.status()["serves"] == "all"), "with a wrong password: it serves")
        report.comes(lambda: c.status()["append"].get("why", ""), lambda why: "Authorization" in why or "WRONGPASS" in why, "and says why")
        report.check(c.ask("/1", "PURGE").status == 503, "and purges nothing")
        (f.engine.dir / "password").write_text(good)
        settings, f.engine.__class__.settings = f.engine.__class__.settings, property(lambda e: settings.fget(e).rsplit(",ca=", 1)[0])
        try:
            d = f.node("d", settings=",wait=1s")
        finally:
            f.engine.__class__.settings = settings
        report.check(until(LIMIT, lambda: "certificate" in d.status()["append"].get("why", "").lower() or "issuer" in d.status()["append"].get("why", "").lower()), f"an authority that isn't trusted: {d.status()}")


def restricted(report, o, make):
    """A user with the rights that docs/fleet.md lists, and no others, is sufficient for the log and the board."""
    with Fleet(o, lambda _secure: make(rights="web"), 2) as f:
        report.check(f.follow(), f"they follow: {[n.status() for n in f.nodes]}")
        a, b = f.nodes
        report.check(not b.walk(["/1"]), "it is there")
        f.pages.change("/1")
        report.check(a.ask("/1", "PURGE").status == 200 and b.follows(1) and not b.walk(["/1"]), f"a purge reaches the other node: {b.status()}")
        report.comes(lambda: b.counter("FLEET.nodes"), 2, "they know each other")
        first = f.engine.proc.pid
        f.engine.end(signal.SIGTERM)
        f.engine.start()
        report.check(f.engine.proc.pid != first and f.follow() and a.ask("/2", "PURGE").status == 200 and b.follows(2), "and after a restart")
        for node in f.nodes:
            report.check(not any(word in node.output().lower() for word in ("permission", "noperm")), f"nothing is refused: {node.output()[-500:]}")
        found, blind = examined(o, a)
        missing = {"fleet-nats-sync"} if make.kind == "NATS" else {f"fleet-redis-{word}" for word in ("unsaved", "fsync", "eviction", "replicas")}
        report.check(set(blind) == missing, f"what the user may not read is said: {found} {blind}")
        report.check(make.kind == "NATS" or "ACL SETUSER USER +config|get" in blind["fleet-redis-fsync"], f"with the missing right: {blind}")


def metrics(lacquer, node, lines):
    """What `lacquer watch` beside a node has for Prometheus, once that has all of these lines."""
    p = subprocess.Popen([lacquer, "watch", "-n", str(node.v.n), "-a", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, preexec_fn=die_with_parent, text=True)
    try:
        found = None
        while not found and (line := p.stdout.readline()):
            found = re.search(r"watch: http://([\d.]+):(\d+)/", line)
        address = (found[1], int(found[2]))

        def page():
            with Client(address, timeout=LIMIT) as c:
                text = c.request("/metrics", host=f"{address[0]}:{address[1]}").body.decode()
            return text
        return settled(LIMIT, page, lambda text: all(f"\n{line}\n" in text for line in lines))[1]
    finally:
        p.terminate()
        p.wait(LIMIT)
        p.stdout.close()


def members(report, o, make):
    """Every node knows all: where they are, what they run, how they fare; one that is killed is away, then comes back; the log's server may be gone."""
    begin = time.time()
    with Fleet(o, make) as f:
        nodes = [f.node(f"n{n}", settings=f",group={'ab'[n % 2]},address=10.0.0.{n}:80") for n in range(3)]
        f.follow()
        lists = lambda n: json.loads(n.v.cli.ask("fleet.nodes -j"))[-1]
        names = lambda n: [m["node"] for m in lists(n)["nodes"] if not m["away"]]
        for node in nodes:
            report.check(until(LIMIT, lambda: names(node) == ["n0", "n1", "n2"]), f"{node.name} knows all: {lists(node)}")
        nodes[1].walk(PATHS), nodes[1].walk(PATHS)
        nodes[1].ask("/", "PURGE")
        seen = lambda n, name: next((m for m in lists(n)["nodes"] if m["node"] == name), {})
        report.check(until(LIMIT, lambda: seen(nodes[0], "n1").get("requests", 0) >= 61 and seen(nodes[0], "n1").get("hits", 0) >= 30), f"its counts are known: {seen(nodes[0], 'n1')}")
        said = seen(nodes[2], "n1")
        report.check((said["group"], said["address"], said["serves"], said["vcl"]) == ("b", "10.0.0.1:80", "all", "boot"), f"and what it is: {said}")
        report.check(begin - 1 <= said["vcl_since"] <= time.time() + 1 and said["stores"][0]["name"] == "s0", f"since when, and its stores: {said}")
        report.check(until(LIMIT, lambda: all(m["applied"] == 1 for m in lists(nodes[0])["nodes"])), "and positions")
        nodes[1].kill()
        report.check(until(LIMIT, lambda: names(nodes[0]) == names(nodes[2]) == ["n0", "n2"]), f"a killed one is away: {lists(nodes[0])}")
        report.check(until(LIMIT, lambda: nodes[0].counter("FLEET.nodes") == 3 and nodes[0].counter("FLEET.nodes_away") == 1), "counters say it, too")
        lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
        text = subprocess.run([lacquer, "fleet", "status", "-n", str(nodes[2].v.n)], capture_output=True, text=True)
        lines = ('lacquer_fleet_node_up{node="n0",group="a"} 1', 'lacquer_fleet_node_up{node="n1",group="b"} 0', 'lacquer_fleet_info{fleet="web",node="n2",group="a"} 1')
        shown = metrics(lacquer, nodes[2], lines)
        for line in lines:
            report.check(f"\n{line}\n" in shown, f"metrics: {line}: {[one for one in shown.splitlines() if 'fleet_' in one][:30]}")
        report.check(until(LIMIT, lambda: "fleet: node n1 is away" in nodes[0].output()), "the operator is told")
        report.check(text.returncode == 0 and "\nn1    b      away " in text.stdout and "\nn0    a      serves " in text.stdout, f"lacquer fleet status: {text.stdout}{text.stderr}")
        nodes[1].start()
        report.check(until(LIMIT, lambda: names(nodes[0]) == ["n0", "n1", "n2"]), "it comes back")
        report.check(until(LIMIT, lambda: "fleet: node n1 is back" in nodes[0].output()), "and that is told")
        f.engine.stop()
        nodes[0].walk(PATHS)
        report.check(until(LIMIT, lambda: lists(nodes[0])["unknown"]), "the server stands still: they aren't known any more")
        before = f.pages.asked
        report.check(not nodes[0].walk(PATHS) and f.pages.asked == before, "it serves all the same")
        f.engine.go_on()
        report.check(until(LIMIT, lambda: not lists(nodes[0])["unknown"] and names(nodes[0]) == ["n0", "n1", "n2"]), f"and they are known again: {lists(nodes[0])}")


def board(report, o, make):
    """Whoever may write on the board writes what is too long, too much, of another kind, or looks like another's: nodes know each other all the same."""
    with Fleet(o, make, 2) as f:
        a, b = f.nodes
        known = lambda n: json.loads(n.v.cli.ask("fleet.nodes -j"))[-1]
        names = lambda n: [m["node"] for m in known(n)["nodes"] if not m["away"]]
        report.check(until(LIMIT, lambda: names(a) == names(b) == ["n0", "n1"]), "they know each other")
        said = {"lacquer": 1, "group": "x", "vcl": "v" * 5000, "requests": 2**64 - 1, "head": 2**64 - 1, "vcl_since": -1e300, "lag_seconds": 1e300}
        f.engine.post(f.name, "evil", json.dumps(said).encode())
        f.engine.post(f.name, "n3=0An0=20=20serves", json.dumps(said).encode())
        f.engine.post(f.name, "n4=1B=5B2J", json.dumps(said).encode())
        f.engine.post(f.name, "long", b"x" * 20_000)
        f.engine.post(f.name, "deep", b"[" * 10_000)
        f.engine.post(f.name, "none", b"\xff\x00")
        report.check(until(LIMIT, lambda: names(a) == names(b) == ["evil", "n0", "n1"]), f"one of them is a report: {names(a)}")
        lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
        text = subprocess.run([lacquer, "fleet", "status", "-n", str(a.v.n)], capture_output=True, text=True).stdout
        rows = text.split("\n\n")[-1].splitlines()
        report.check(len(rows) == 4 and max(map(len, rows)) < 250, f"a row each: {text}")
        if make is Redis:
            key = f"lacquer:{{{f.name}}}"
            for start in range(0, 200_000, 20_000):
                f.engine.ask("SADD", f"{key}:nodes", *(f"x{n}" for n in range(start, start + 20_000)))
            f.engine.ask("RPUSH", f"{key}:node:list", "x")
            f.engine.ask("SADD", f"{key}:nodes", "list", "huge", "late")
            f.engine.ask("SET", f"{key}:node:huge", b"x" * (9 << 20), "PX", 600_000)
            f.engine.ask("SET", f"{key}:node:late", json.dumps(said), "PX", 10**12)
            f.engine.ask("DEL", f"{key}:node:n1")
            f.engine.ask("RPUSH", f"{key}:node:n1", "x")
            seen = lambda n: next((m["age_seconds"] for m in known(n)["nodes"] if m["node"] == "n1"), 99)
            # A part of the names is drawn each second, and those behind which nothing is go.
            report.check(until(120, lambda: not known(a)["unknown"] and names(a) == ["n0", "n1"] and seen(a) < 3), f"200,000 names: {names(a)}")
        report.check(all(n.v.worker() for n in f.nodes) and a.follows() and "anic" not in a.output(), "no worker died")


def delay(report, o, make):
    """From the purge on one node to its effect on three others."""
    rounds = 1000 if o.full else 200 if o.clocks else 30
    with Fleet(o, make, 4) as f:
        f.follow()
        clients = [Client(node.v.address, timeout=LIMIT) for node in f.nodes]
        times = []
        for n in range(rounds):
            path = f"/{n % 50}"
            for c in clients:
                c.request(path)
            f.pages.change(path)
            begin = time.monotonic()
            if clients[0].request(path, method="PURGE").status != 200:
                report.check(False, f"purge {n}")
                continue
            acked = time.monotonic()
            for c in clients[1:]:
                while f.pages.is_stale(path, c.request(path).body) and time.monotonic() - begin < LIMIT:
                    pass
            times.append((acked - begin, time.monotonic() - begin))
        for c in clients:
            c.sock.close()
        acks, effects = ([sorted(t[i] for t in times)[int(len(times) * q)] * 1e3 for q in (0.5, 0.99)] for i in (0, 1))
        report.note(f"{make.kind}: acknowledged p50 {acks[0]:.1f} ms, p99 {acks[1]:.1f}; in force on three other nodes p50 {effects[0]:.1f} ms, p99 {effects[1]:.1f}")
        report.check(len(times) == rounds and all(t[1] < LIMIT for t in times), f"{rounds - len(times)} purges were refused")
        report.check(not o.clocks or statistics.median(t[1] for t in times) < 0.25, f"purges are in force soon: {effects}")


def leader_dies(report, o):
    """Three servers of NATS: the one that leads is killed during purges. What was acknowledged holds on all nodes."""
    with Fleet(o, Cluster, 2, settings=",patience=20s,wait=60s") as f:
        report.check(f.follow(), f"both follow: {[n.status() for n in f.nodes]}")
        a, b = f.nodes
        # Two that make a cluster's log at once may take it for two at first.
        gave_up = [n.status()["gaps"] for n in f.nodes]
        paths = [f"/{n}" for n in range(300)]
        b.walk(paths)
        acked = []
        for n, path in enumerate(paths):
            f.pages.change(path)
            if a.ask(path, "PURGE").status == 200:
                acked.append(path)
            if n == 100:
                leader = f.engine.leader(f.name)
                f.engine.procs[leader].kill()
        report.check(len(acked) == len(paths), f"{len(acked)} of {len(paths)} were acknowledged")
        report.check(f.follow(), f"both follow again: {[n.status() for n in f.nodes]}")
        stale = b.walk(acked)
        report.check(not stale, f"{len(stale)} stale: {stale[:3]}")
        report.check([n.status()["gaps"] for n in f.nodes] == gave_up, f"nobody gave up anything: {[line for n in f.nodes for line in n.v.output if 'fleet:' in line]}")


def named(directory):
    """Processes whose command line or working directory has that directory in it."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            where = (process / "cmdline").read_bytes() + os.fsencode(os.readlink(process / "cwd"))
        except OSError:
            continue
        if os.fsencode(directory) in where:
            found.append(process.name)
    return found


def shown(report, o, make):
    """`make fleet`'s script shows what it says, and leaves no process behind however it ends."""
    script, kind = ROOT / "scripts/run-fleet", make.kind.lower()
    engine = f"{kind}-server"
    for how in ("once", "INT", "TERM", "HUP", "KILL"):
        with tempfile.TemporaryDirectory(prefix="lacquer-shown.", ignore_cleanup_errors=True) as directory:
            os.chmod(directory, 0o755)
            # The script needs no other program than the engine.
            path = pathlib.Path(directory, "path")
            path.mkdir()
            path.joinpath(engine).symlink_to(shutil.which(engine))
            words = [sys.executable, str(script), o.varnishd, kind, *(["--once"] if how == "once" else [])]
            p = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, "TMPDIR": directory, "PATH": str(path)}, preexec_fn=die_with_parent)
            if how == "once":
                text = p.communicate(timeout=LIMIT * 4)[0]
                said = ("answers \"/news, version 1\", from its cache", "answers \"/news, version 2\", fetched", "200 of 200 purges done",
                        "0 were old; 100 came from its store, 200 it fetched anew")
                report.check(p.returncode == 0 and all(words in text for words in said), f"{kind}: {p.returncode} {text}")
                report.check(os.listdir(directory) == ["path"], f"{kind}: it leaves no file: {os.listdir(directory)}")
            else:
                seen = ""
                for line in p.stdout:
                    seen += line
                    # In the midst of it: some are there, and some are being started.
                    if line.startswith("   node b"):
                        break
                report.check("node b" in seen and named(directory), f"{kind}: {how}: it has begun: {seen}")
                p.send_signal(getattr(signal, "SIG" + how))
                p.stdout.read()
                p.stdout.close()
                p.wait(LIMIT)
            report.check(until(LIMIT, lambda: not named(directory)), f"{kind}: {how}: no process is left: {named(directory)}")


def without(report, o):
    """A server without --fleet has no part of it; wrong words are refused at the start."""
    with Varnishd(o.varnishd, [], backend=("127.0.0.1", 9)) as v:
        status, text = v.cli.ask_raw("fleet.status")
        report.check(status == 300 and b"--fleet" in text, f"fleet.status: {status} {text}")
        names = of_threads(v.worker(), "comm")
        report.check(not any("fleet" in name for name in names), f"no thread: {names}")
        report.check(v.counter("FLEET.head") is None, "no counter")
    for words, wanted in (("nats://a,color=red", "no setting color"), ("http://a", "none of"), ("nats://a,password-file=/nonexistent", "/nonexistent")):
        with directory() as place:
            p = subprocess.run([o.varnishd, "-C", "-n", str(place / "n"), "-b", "127.0.0.1:9", "--fleet", words], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 2 and wanted in p.stderr, f"{words}: {p.returncode} {p.stderr}")


CASES = (everywhere, spread, doctor, ages, killed, worker_dies, upgraded, held, away, killed_while_purging, trimmed, replaced, restored, strange, full, started_without, stale_cap, secure, restricted, members, board, delay, shown)

# Cases that take a minute each, and with which server they run without --full.
ONCE = {members: "NATS", deploy.rolled_out: "NATS", deploy.taken_back: "Redis", deploy.untended: "Redis", deploy.orphaned: "NATS"}
# The longest first.
LONGEST = (deploy.orphaned, deploy.untended, deploy.rolled_out, deploy.taken_back, board, members)


def main():
    o = options(__doc__, words={"help": "cases to run", "default": ""}, engine={"help": "nats or redis", "default": ""}, **clocks.OPTION)
    report = Report("fleet")
    words = o.words.split()
    makes = [make for make in (Nats, Redis) if o.engine in ("", make.kind.lower())]
    if not words:
        # They wait most of the time.
        cases = [*LONGEST, *(case for case in CASES + deploy.CASES if case not in LONGEST)]
        jobs = [["--words", case.__name__, "--engine", make.kind.lower()] for case in cases for make in makes
                if o.full or ONCE.get(case, make.kind) == make.kind]
        alone = ["without", "leader_dies", *(["rollout_leader_dies"] if o.full else [])]
        beside(report, o, [*jobs, *(["--words", name] for name in alone)], at_once=3)
    if "without" in words:
        without(report, o)
    if "leader_dies" in words:
        leader_dies(report, o)
    if "rollout_leader_dies" in words:
        deploy.leader_dies(report, o, Cluster, Fleet)
    for make in makes:
        for case in CASES + deploy.CASES:
            if case.__name__ in words:
                begin = time.monotonic()
                report.run([case], report, o, make, *([Fleet] if case in deploy.CASES else []))
                report.note(f"{make.kind}: {case.__name__} took {time.monotonic() - begin:.1f} s")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
