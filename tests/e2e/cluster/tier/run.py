#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A second tier of caches: nodes on loopback that ask the owner of a key before the origin. Each object is fetched once for all of them;
an owner that is killed or stands still costs little; nodes that differ in who owns what don't wait for each other; nothing outlives its
owner's copy, nor what one of them has purged; and a client that claims to be a peer is a client.

--words says which cases to run: these run one after the other. Without it all run, three beside each other. The
share of requests that a dead owner delays is told by `dead`, and judged with --clocks."""
import collections
import concurrent.futures
import contextlib
import gzip
import hashlib
import hmac
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.beside import beside
from bed import clocks
from bed.daemon import Varnishd, directory, tree, workdir
from bed.http import Client
from bed.origin import Origin, head, simple
from bed.report import Report, options, until
from bed.engines import Nats, Redis, free_port

LIMIT = 60  # seconds; it only ends what hangs
SECRET = "what all members have in common"
# A busy machine doesn't pass by an owner that lives: it takes less than this for a response.
LENIENT = ("-p", "peers_first_byte_timeout=2", "-p", "peers_connect_timeout=2")
# Longer than a client waits: who waits for an owner in vain has no answer.
PATIENT = ("-p", "peers_first_byte_timeout=120", "-p", "peers_connect_timeout=120")
VCL = """vcl 4.1; import std; backend b { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    set req.http.host = "site";
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("obj.http.x-url == " + req.url); return (synth(200)); }
    if (req.http.x-pass) { return (pass); }
    unset req.http.x-peer;
    if (req.is_peer) { set req.http.x-peer = "yes"; }
}
sub vcl_backend_fetch { if (bereq.http.x-direct) { set bereq.peers = false; } set bereq.http.x-fetched = "yes"; }
sub vcl_backend_response {
    set beresp.http.x-url = bereq.url;
    if (!beresp.http.x-owner) { set beresp.http.x-owner = server.identity; }
    if (bereq.url ~ "esi") { set beresp.do_esi = true; }
    if (bereq.url ~ "gzip") { set beresp.do_gzip = true; }
}
sub vcl_deliver { unset resp.http.x-url; set resp.http.x-delivered = "yes"; }
"""


class Pages:
    """An origin that counts. Bodies are versions; `fields` and `body` by path say more."""

    def __init__(self):
        self.lock, self.versions, self.holds = threading.Lock(), collections.Counter(), threading.Event()
        self.asked, self.seen, self.more = collections.Counter(), [], {}
        self.holds.set()

    def answer(self, _method, path, fields):
        with self.lock:
            self.asked[path] += 1
            self.seen.append((path, fields))
            version = self.versions[path]
        if path.startswith("/held"):
            self.holds.wait(LIMIT)
        extra, body = self.more.get(path, lambda _fields: ("", None))(fields)
        return extra or "Cache-Control: max-age=1000\r\n", body if body is not None else f"{path} {version}".encode()


class Tier:
    """Nodes a, b, ... on one machine, each with a listener for the others. `lists` gives a node other members than all of
    them; with `by_fleet` they are the nodes of the log, and it gives a node more settings of it."""

    def __init__(self, o, count=4, args=(), lists=None, vcl=VCL, log=None, through=None, by_fleet=None, peers=""):
        self.program, self.pages = o.varnishd, Pages()
        self.dir = workdir()
        (self.dir / "secret").write_text(SECRET + "\n")
        self.origin = Origin(simple(self.pages.answer))
        self.names = [chr(ord("a") + n) for n in range(count)]
        self.places = {name: f"127.0.0.1:{free_port()}" for name in self.names}
        self.nodes = {}

        def start(name):
            members = (lists or {}).get(name, self.names)
            words = [f"{one}@{self.places[one]}" for one in members] + [f"node={name}"] if by_fleet is None else ["fleet"]
            words.append(f"secret-file={self.dir / 'secret'}{peers}")
            more = ["-i", name, "--peers", ",".join(words), "-a", "127.0.0.1:0", "-a", f"peers={self.places[name]}", "-p", "feature=+no_coredump"]
            if log:
                said = "" if by_fleet is None else f",address={self.places[name]}{by_fleet.get(name, '')}"
                more += ["--fleet", f"{(through or {}).get(name, log.settings)},name=tier,node={name}{said}"]
            self.nodes[name] = Varnishd(self.program, [*more, *args], vcl=vcl % self.origin.address[:2])

        self.start = start
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(start, self.names))

    def __getitem__(self, name):
        return self.nodes[name]

    def ask(self, name, path, method="GET", peers=False, **fields):
        v = self.nodes[name]
        with Client(v.addresses["peers"] if peers else v.address, timeout=LIMIT) as c:
            return c.request(path, [(key.replace("_", "-"), value) for key, value in fields.items()], method=method)

    def count(self, counter, names=None):
        return sum(self.nodes[name].counter(f"PEERS.{counter}") or 0 for name in names or self.nodes)

    def status(self, name):
        return json.loads(self.nodes[name].cli.ask("fleet.status -j"))[-1]

    def path_of(self, owner, asker, prefix="/x"):
        """A path that `owner` owns for `asker`: found by asking, as whoever fetches something says so."""
        for n in range(1000):
            path = f"{prefix}{n}"
            if self.ask(asker, path).get("x-owner") == owner:
                return path
        raise SystemExit(f"{owner} owns nothing")

    def kill(self, name):
        for pid in reversed(tree(self.nodes[name].proc.pid)):
            os.kill(pid, signal.SIGKILL)
        self.nodes[name].proc.wait()

    def stop(self, name):
        for pid in tree(self.nodes[name].proc.pid):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self, name):
        for pid in reversed(tree(self.nodes[name].proc.pid)):
            os.kill(pid, signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for v in self.nodes.values():
            if v.proc.poll() is None:
                v.close()
            else:
                shutil.rmtree(v.dir, ignore_errors=True)
        self.origin.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def once(report, o):
    """Each object is fetched once for all nodes, however many clients ask for it at the same time."""
    paths, per_client, clients = [f"/{n}" for n in range(200)], (400 if o.full else 20), (64 if o.full else 24)
    with Tier(o, args=PATIENT) as t:
        bad = []

        def client(at):
            draw = random.Random(o.seed * 1000 + at)
            with Client(t[t.names[at % 4]].address, timeout=LIMIT) as c:
                for _ in range(per_client):
                    path = draw.choice(paths)
                    got = c.request(path)
                    if not got.whole() or got.body != f"{path} 0".encode():
                        bad.append(f"{path}: {got}")

        with concurrent.futures.ThreadPoolExecutor(4 * clients) as pool:
            list(pool.map(client, range(4 * clients)))
        report.check(not bad, f"wrong answers: {bad[:3]}")
        twice = {path: count for path, count in t.pages.asked.items() if count != 1}
        report.check(not twice and set(t.pages.asked) == set(paths), f"not fetched once: {twice}")
        for node in t.names:
            for path in paths:
                t.ask(node, path)
        report.check(sum(t.pages.asked.values()) == len(paths), f"{sum(t.pages.asked.values())} fetched of {len(paths)}")
        asked, owned = t.count("asked"), t.count("owned")
        report.check(owned <= len(paths) and asked == 3 * len(paths), f"{owned} misses of owners, {asked} of others")
        report.comes(lambda: [t.count(name) for name in ("answered", "served", "passed_by")], [asked, asked, 0], "answered, served, passed by")
        # For what it owns a node asks nobody.
        shares = [(len(paths) - t[name].counter("PEERS.asked")) / len(paths) * 4 for name in t.names]
        report.check(0.5 < min(shares) and max(shares) < 1.6, f"all own some: {shares}")
        lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
        text = subprocess.run([lacquer, "fleet", "status", "-n", str(t["b"].n)], capture_output=True, text=True).stdout
        report.check("peers, this is b\n" in text and text.count(": there") == 3 and text.count(": this node") == 1, f"fleet status: {text}")
        ring = t.status("c")["peers"]
        report.check([one["name"] for one in ring["ring"]] == t.names and ring["node"] == "c", f"fleet.status -j: {ring}")


def load(t, names, paths, seconds, seed, during):
    """Clients of these nodes, while `during` does something: latencies, and what was wrong."""
    stop, took, bad = threading.Event(), [], []

    def client(at):
        draw = random.Random(seed * 1000 + at)
        with Client(t[names[at % len(names)]].address, timeout=LIMIT) as c:
            while not stop.is_set():
                path = f"{draw.choice(paths)}?{draw.randrange(1000)}"
                begin = time.monotonic()
                got = c.request(path)
                took.append(time.monotonic() - begin)
                if got.status != 200:
                    bad.append(f"{path}: {got}")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        running = [pool.submit(client, at) for at in range(4 * len(names))]
        during()
        time.sleep(seconds)
        stop.set()
        for one in running:
            one.result()
    return took, bad


def dead(report, o):
    """An owner that is killed, or stands still, delays few requests, and none fails."""
    paths, seconds = [f"/{n}" for n in range(40)], (30 if o.full else 8 if o.clocks else 4)
    for how in ("killed", "standing still"):
        with Tier(o, args=() if o.clocks else LENIENT) as t:
            left = ["a", "b", "c"]
            before, _ = load(t, left, paths, 2 if o.clocks else 0.1, o.seed, lambda: None)
            begin = time.monotonic()
            end = (lambda: t.kill("d")) if how == "killed" else (lambda: t.stop("d"))
            took, bad = load(t, left, paths, seconds, o.seed + 1, end)
            slow = sum(one > 0.05 for one in took) / len(took)
            noise = sum(one > 0.05 for one in before) / len(before)
            report.check(not bad, f"{how}: wrong answers: {bad[:3]}")
            # Of requests that wait for the owner; what else takes long is the machine's affair, so that it is judged on a quiet one.
            report.check(not o.clocks or slow < 0.01, f"{how}: {slow:.2%} took more than 50 ms, {noise:.2%} before")
            passed_by = t.count("passed_by", left)
            # Those that were under way, and those by which each node looks for it again.
            most = len(took) * 0.01 if o.clocks else 8 * len(left) + len(left) * (2 + time.monotonic() - begin)
            report.check(0 < passed_by < most, f"{how}: {passed_by} of {len(took)} requests were passed by, {most:.0f} may be")
            # The load may have ended before the node had asked it often enough.
            state = lambda: t.ask("a", f"/state?{random.random()}") and [one["state"] for one in t.status("a")["peers"]["ring"] if one["name"] == "d"]
            report.comes(state, ["away"], f"{how}: its state")
            report.note(f"{how}: {len(took)} requests, {slow:.3%} took more than 50 ms ({noise:.3%} before), {passed_by} were passed by")
            if how == "standing still":
                t.go_on("d")

                def is_back():
                    for _ in range(20):
                        t.ask("a", f"/back?{random.random()}")
                    return t["a"].counter("PEERS.away") == 0

                report.check(until(LIMIT, is_back), "it is back")


def still(report, o):
    """An owner that is at work for long is waited for; one that stands still then isn't."""
    with Tier(o, count=2, lists={"a": ["b"], "b": ["b"]}, args=("-p", "peers_first_byte_timeout=1")) as t:
        for how in ("at work", "standing still"):
            path = f"/held-{how[0]}"
            t.pages.holds.clear()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                begin = time.monotonic()
                running = pool.submit(t.ask, "a", path)
                report.check(until(LIMIT, lambda: t.pages.asked[path] == 1), f"{how}: the owner fetches it")
                if how == "at work":
                    # A sign comes every second, and may be ten times as late as the first byte.
                    report.check(not until(6, lambda: running.done() or t.pages.asked[path] > 1), f"{how}: it is waited for: {t.pages.asked[path]} fetches")
                else:
                    t.stop("b")
                    report.check(until(LIMIT, lambda: t.pages.asked[path] == 2), f"{how}: the origin is asked")
                    took = time.monotonic() - begin
                    report.note(f"an owner that stands still behind its sign was waited for {took:.1f} s")
                t.pages.holds.set()
                got = running.result()
                report.check(got.body == f"{path} 0".encode(), f"{how}: it is answered: {got} {got.body[:300]}")
        report.comes(lambda: [t.count(name, ["a"]) for name in ("passed_by", "answered")], [1, 1], "one was passed by, one was answered by its owner")
        t.go_on("b")


def circle(report, o):
    """Nodes that differ in who owns a key, so that each asks the next one, wait for nobody."""
    for lists in ({"a": ["b"], "b": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"]}):
        with Tier(o, count=len(lists), lists=lists, args=PATIENT) as t:
            bad = []

            def one(job):
                name, path = job
                got = t.ask(name, path)
                if not got.whole():
                    bad.append(f"{name} {path}: {got}")

            for n in range(30):
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    list(pool.map(one, [(name, f"/{n}") for name in t.names] * 4))
            # Nodes that wait for each other have no answer before their client leaves.
            report.check(not bad, f"{len(lists)} nodes: wrong answers: {bad[:3]}")
            most = max(t.pages.asked.values())
            report.check(most <= len(lists), f"{len(lists)} nodes: an object was fetched {most} times")
            # One that is held at the origin, which all ask for at the same time.
            t.pages.holds.clear()
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                running = [pool.submit(t.ask, name, "/held") for name in t.names]
                report.check(until(LIMIT, lambda: t.pages.asked["/held"] >= 1), "somebody fetches it")
                t.pages.holds.set()
                report.check(all(one.result().whole() for one in running), "all have it")
            report.note(f"{len(lists)} nodes: {t.count('crossed')} requests of peers were refused as they crossed")


class Valve:
    """A TCP proxy to the log's server that may be shut: nothing passes, and nothing breaks."""

    def __init__(self, port):
        self.open, self.port = threading.Event(), port
        self.open.set()
        self.gate = Origin(self.serve)

    def serve(self, s):
        with socket.create_connection(("127.0.0.1", self.port)) as there:
            back = threading.Thread(target=self.pump, args=(there, s), daemon=True)
            back.start()
            self.pump(s, there)
            back.join()

    def pump(self, source, to):
        try:
            while piece := source.recv(65536):
                self.open.wait()
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def purged(report, o):
    """What is purged or banned on one node, and not carried out yet at the owner, doesn't come back by it."""
    for make in (Nats, Redis):
        if o.engine and make.kind.lower() != o.engine:
            continue
        with make() as log:
            valve = Valve(log.port)
            through = {"b": f"{make.schemes[0]}://127.0.0.1:{valve.gate.address[1]}"}
            with Tier(o, count=3, args=PATIENT, log=log, through=through) as t:
                good = lambda name: t.status(name)["serves"] == "all" and t.status(name)["lag"] == 0
                report.check(all(until(LIMIT, lambda n=name: good(n)) for name in t.names), f"{make.kind}: all follow the log")
                jobs = [("PURGE", "/p"), ("BAN", "/q")]
                for method, prefix in jobs:
                    path = t.path_of("b", "a", prefix)
                    for name in t.names:
                        t.ask(name, path)
                    valve.open.clear()
                    t.pages.versions[path] += 1
                    report.check(t.ask("a", path, method).status == 200, f"{make.kind}: {method} is acknowledged")
                    got = t.ask("a", path)
                    report.check(got.body == f"{path} 1".encode(), f"{make.kind}: {method}: where it was made the new one is served: {got.body}")
                    report.check(until(LIMIT, lambda: t.status("c")["lag"] == 0 and t.ask("c", path).body == f"{path} 1".encode()),
                                 f"{make.kind}: {method}: another node has carried it out: {t.ask('c', path).body}")
                    report.check(t.ask("b", path).body == f"{path} 0".encode(), f"{make.kind}: {method}: the owner hasn't: else nothing is shown")
                    report.comes(lambda: t["b"].counter("PEERS.behind"), lambda n: n >= 2, f"{make.kind}: {method}: the owner has refused")
                    valve.open.set()
                    report.check(until(LIMIT, lambda: t.ask("b", path).body == f"{path} 1".encode()), f"{make.kind}: {method}: the owner catches up")
                    report.check(all(t.ask(name, path).body == f"{path} 1".encode() for name in t.names), f"{make.kind}: {method}: all serve the new one")
                # Purges under load: never an older version than the one that was there when a purge was acknowledged.
                stale, stop = [], threading.Event()
                paths = [f"/load{n}" for n in range(20)]
                acked = collections.Counter()

                def reader(at):
                    draw = random.Random(o.seed * 100 + at)
                    while not stop.is_set():
                        path = draw.choice(paths)
                        least = acked["a", path]
                        got = t.ask("a", path)
                        if got.status == 200 and int(got.body.split()[1]) < least:
                            stale.append(f"{path}: {got.body} after {least}")

                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    running = [pool.submit(reader, at) for at in range(6)]
                    for n in range(400 if o.full else 100):
                        path = paths[n % len(paths)]
                        t.pages.versions[path] += 1
                        version = t.pages.versions[path]
                        if t.ask("a", path, "PURGE").status == 200:
                            acked["a", path] = version
                    stop.set()
                    for one in running:
                        one.result()
                report.check(not stale, f"{make.kind}: {len(stale)} older answers on the node that purged: {stale[:3]}")
                until(LIMIT, lambda: all(t.status(name)["lag"] == 0 for name in t.names))
                old = [f"{name} {path}" for name in t.names for path in paths if t.ask(name, path).body != f"{path} {t.pages.versions[path]}".encode()]
                report.check(not old, f"{make.kind}: old at the end: {old[:5]}")
                report.note(f"{make.kind}: {t.count('answered')} answered, {t.count('behind')} refused as the owner was behind, {t.count('not_asked')} not asked")
            valve.gate.close()


def listed(report, o):
    """The members are the fleet's nodes of one's group that say so: who comes and who goes moves its own keys; the log's server may be away."""
    paths = [f"/{n}" for n in range(300 if o.full else 60)]
    for make in (Nats, Redis):
        if o.engine and make.kind.lower() != o.engine:
            continue
        with make() as log, Tier(o, count=4, args=PATIENT, log=log, by_fleet={"d": ",group=other"}) as t:
            ring = lambda name: [one["name"] for one in t.status(name)["peers"]["ring"]]
            three = ["a", "b", "c"]
            report.check(until(LIMIT, lambda: all(ring(name) == three for name in three) and ring("d") == ["d"]), f"{make.kind}: by group: {[ring(n) for n in t.names]}")
            report.check(all(until(LIMIT, lambda n=name: t.status(n)["serves"] == "all") for name in t.names), f"{make.kind}: all serve")

            def owners():
                """Of each path the node that fetches it when `a` is asked."""
                there = [name for name in three if t[name].proc.poll() is None]
                for path in paths:
                    t.ask("a", path, "PURGE")
                head = t.status("a")["head"]
                report.check(all(until(LIMIT, lambda n=name: t.status(n)["applied"] >= head) for name in there), f"{make.kind}: all have purged")
                return {path: t.ask("a", path).get("x-owner") for path in paths}

            def settled():
                """The owners as soon as two rounds agree: on a busy machine one that answers late is passed by."""
                return until(LIMIT, lambda: (one := owners()) == owners() and one)

            first = settled()
            report.check(set(first.values()) == set(three), f"{make.kind}: all own some: {set(first.values())}")
            # Somebody without the secret says that he is a member.
            log.post("tier", "evil", json.dumps({"lacquer": 1, "group": "all", "address": "127.0.0.1:9", "peer": {"weight": 100, "code": "0" * 32}}).encode())
            t.kill("c")
            report.check(until(LIMIT, lambda: ring("a") == ring("b") == ["a", "b"]), f"{make.kind}: one that is killed is none any more: {ring('a')}")
            report.check("evil" in t["a"].cli.ask("fleet.nodes"), f"{make.kind}: one without the secret is none")
            second = settled()
            moved = [path for path in paths if first[path] != second[path]]
            report.check(moved and {first[path] for path in moved} == {"c"} and "c" not in second.values(), f"{make.kind}: its keys are others' now, and no more: {moved}")
            shutil.rmtree(t["c"].dir, ignore_errors=True)
            t.start("c")
            report.check(until(LIMIT, lambda: all(ring(name) == three for name in three)), f"{make.kind}: it is back: {ring('a')}")
            report.check(until(LIMIT, lambda: t.status("c")["serves"] == "all") and settled() == first, f"{make.kind}: with its keys")
            t["b"].cli.ask("drain on")
            report.check(until(LIMIT, lambda: ring("a") == ring("c") == ["a", "c"]), f"{make.kind}: one that drains is asked no more: {ring('a')}")
            t["b"].cli.ask("drain off")
            report.check(until(LIMIT, lambda: all(ring(name) == three for name in three)), f"{make.kind}: it is back in service: {ring('a')}")
            log.end()
            known = lambda: json.loads(t["a"].cli.ask("fleet.nodes -j"))[-1]
            # A node that reports nothing is none any more after five seconds: this one isn't told so.
            report.check(until(LIMIT, lambda: known()["unknown"] and known()["looked_seconds"] > 6), f"{make.kind}: the log's server is gone")
            report.check(all(ring(name) == three for name in three), f"{make.kind}: the members stay: {ring('a')}")
            before = t.count("answered", ["a"])
            [t.ask("a", f"/away{n}") for n in range(20)]
            report.comes(lambda: t.count("answered", ["a"]), lambda n: n > before, f"{make.kind}: and ask each other: more than {before}")
            log.start()
            report.check(until(LIMIT, lambda: not known()["unknown"]), f"{make.kind}: it is back")
            # Until a member that hadn't come back would go.
            report.check(not until(7, lambda: ring("a") != three, step=0.1), f"{make.kind}: nobody went meanwhile: {ring('a')}")


def unlogged(report, o):
    """Without a log: what a node purges itself doesn't come back to it by the owner."""
    with Tier(o, count=2, args=PATIENT) as t:
        for method, prefix in (("PURGE", "/p"), ("BAN", "/q")):
            path = t.path_of("b", "a", prefix)
            report.check(until(LIMIT, lambda: all(v.counter("MAIN.txn_busy") == 0 for v in t.nodes.values())), f"{method}: nothing is being fetched")
            t.pages.versions[path] += 1
            report.check(t.ask("a", path, method).status == 200, f"{method} is acknowledged")
            got = t.ask("a", path)
            report.check(got.body == f"{path} 1".encode(), f"{method}: the new one: {got.body}")
            report.check(t.ask("b", path).body == f"{path} 1".encode() and t.pages.asked[path] == 2, f"{method}: the owner has it, too: {t.pages.asked[path]}")


def lives(report, o):
    """Nothing is served for longer than its owner serves it; what the owner keeps for nobody isn't kept."""
    with Tier(o, count=2, args=(*PATIENT, "-p", "default_grace=600", "-p", "cache_status=on")) as t:
        path = t.path_of("b", "a", "/find")
        aged = f"{path}?aged"
        t.pages.more[aged] = lambda _: ("Cache-Control: max-age=1000\r\nAge: 900\r\n", None)
        begin = time.monotonic()
        got = [t.ask(name, aged) for name in t.names]
        took = time.monotonic() - begin
        ages = [int(one.get("age")) for one in got]
        report.check(all(900 <= age <= 902 + took for age in ages), f"ages: {ages} after {took:.1f} s")
        ttl = [int(re.search(r"ttl=(-?\d+)", one.get("cache-status").split(",")[-1]).group(1)) for one in got]
        report.check(all(97 - took <= one <= 100 for one in ttl), f"ttls: {ttl} after {took:.1f} s")
        report.check(t.pages.asked[aged] == 1, "one fetch for both")
        # While it is fresh at the owner the other one may come late: it gets no more than what is left.
        late = f"{path}?late"
        t.pages.more[late] = lambda _: ("Cache-Control: max-age=100\r\n", None)
        first, second = ("b", "a") if t.ask("b", late) and t["b"].counter("PEERS.owned") else ("a", "b")
        # Two seconds of age.
        time.sleep(2.2)
        got = t.ask(second, late)
        left = int(re.search(r"ttl=(-?\d+)", got.get("cache-status").split(",")[-1]).group(1))
        report.check(left <= 98 and int(got.get("age")) >= 2, f"{first}, then {second}: {left} {got.get('age')}")
        # In its grace the old one is served by both, and is refreshed for both.
        stale = f"{path}?grace"
        # A refresh that one request begins is held until both have been asked.
        both_asked = threading.Event()
        t.pages.more[stale] = lambda _: (f"Cache-Control: max-age={1000 if t.pages.versions[stale] and both_asked.wait(LIMIT) else 1}\r\n", None)
        for name in t.names:
            t.ask(name, stale)
        # Its ttl passes.
        time.sleep(1.3)
        t.pages.versions[stale] += 1
        got = [t.ask(name, stale).body for name in t.names]
        both_asked.set()
        report.check(got == [f"{stale} 0".encode()] * 2, f"the old one in its grace: {got}")
        report.check(all(until(LIMIT, lambda n=name: t.ask(n, stale).body == f"{stale} 1".encode()) for name in t.names), "then the new one")
        report.check(t.pages.asked[stale] <= 4, f"in its grace it was fetched {t.pages.asked[stale] - 1} times")
        # Not cacheable: both go to the origin each time.
        private = f"{path}?private"
        t.pages.more[private] = lambda _: ("Cache-Control: private\r\n", None)
        before = t.count("asked")
        for _ in range(3):
            report.check(all(t.ask(name, private).whole() for name in t.names), "what isn't cacheable is answered")
        report.check(t.pages.asked[private] == 6 or t.pages.asked[private] == 7, f"it was fetched {t.pages.asked[private]} times")
        report.check(t.count("asked") - before <= 1, f"what wasn't cacheable is asked of nobody again: {t.count('asked') - before}")
        # A pass asks nobody.
        before = t.count("asked"), t.count("owned")
        t.ask("a", f"{path}?pass", x_pass="1")
        t.ask("b", f"{path}?pass", x_pass="1")
        report.check((t.count("asked"), t.count("owned")) == before and t.pages.asked[f"{path}?pass"] == 2, "a pass asks the origin")
        # VCL may say so, too.
        t.ask("a", f"{path}?direct", x_direct="1")
        t.ask("b", f"{path}?direct", x_direct="1")
        report.check((t.count("asked"), t.count("owned")) == before and t.pages.asked[f"{path}?direct"] == 2, "VCL asks the origin")


def forms(report, o):
    """Conditional refreshes, ESI, gzip, Vary, ranges: as from the origin, and the origin is asked once."""
    with Tier(o, count=3, args=PATIENT) as t:
        more = t.pages.more

        def tagged(fields):
            return "Cache-Control: max-age=1\r\nETag: \"e\"\r\n", b"tagged"

        more["/tag"] = tagged
        more["/esi"] = lambda _: ("Cache-Control: max-age=1000\r\n", b'<esi:include src="/part"/> and more')
        more["/part"] = lambda _: ("Cache-Control: max-age=1000\r\n", b"part")
        text = b"a text that is long enough to be packed " * 200
        more["/gzip"] = lambda _: ("Cache-Control: max-age=1000\r\n", text)
        more["/vary"] = lambda f: ("Cache-Control: max-age=1000\r\nVary: X-Kind\r\n", f.get("x-kind", "none").encode())
        more["/range"] = lambda _: ("Cache-Control: max-age=1000\r\n", bytes(range(256)) * 40)
        for name in t.names:
            got = t.ask(name, "/esi")
            report.check(got.body == b"part and more", f"{name}: ESI: {got.body}")
            got = t.ask(name, "/gzip", Accept_Encoding="gzip")
            report.check(got.get("content-encoding") == "gzip" and gzip.decompress(got.body) == text, f"{name}: gzip: {got}")
            report.check(t.ask(name, "/gzip").body == text, f"{name}: unpacked")
            for kind in ("x", "y"):
                report.check(t.ask(name, "/vary", X_Kind=kind).body == kind.encode(), f"{name}: Vary {kind}")
            got = t.ask(name, "/range", Range="bytes=256-259")
            report.check(got.status == 206 and got.body == b"\x00\x01\x02\x03", f"{name}: a range: {got} {got.body[:9]}")
            got = t.ask(name, "/range")
            names = [field.lower() for field, _ in got.fields] if hasattr(got, "fields") else []
            report.check(not any(name.startswith("lacquer-") for name in names) and got.get("x-delivered") == "yes", f"{name}: fields: {got}")
        counts = {path: t.pages.asked[path] for path in ("/esi", "/part", "/gzip", "/vary", "/range")}
        report.check(counts == {"/esi": 1, "/part": 1, "/gzip": 1, "/vary": 2, "/range": 1}, f"fetched: {counts}")
        for name in t.names:
            t.ask(name, "/tag")
        report.check(t.pages.asked["/tag"] == 1, "one fetch of what has a tag")
        fields = [f for path, f in t.pages.seen if path == "/range"][0]
        report.check("lacquer-peer" not in fields and fields.get("x-fetched") == "yes" , f"what the origin sees: {fields}")


def large(report, o):
    """A long body streams through both nodes, and is whole."""
    piece, pieces = os.urandom(1 << 20), 64 if o.full else 24
    gone = threading.Event()
    with Tier(o, count=2, args=PATIENT) as t:
        def serve(s):
            buf = b""
            while got := head(s, buf):
                _, asked, _, buf = got
                t.pages.asked[asked] += 1
                s.sendall(f"HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: {pieces << 20}\r\n\r\n".encode())
                s.sendall(piece)
                gone.wait(LIMIT)
                for _ in range(pieces - 1):
                    s.sendall(piece)

        with Origin(serve) as long:
            (t.dir / "long.vcl").write_text(VCL % long.address[:2])
            for name in t.names:
                t[name].cli.ask(f"vcl.load long {t.dir / 'long.vcl'}")
                t[name].cli.ask("vcl.use long")
            asked, n = t["a"].counter("PEERS.asked"), 0
            # Until one of them is the other node's.
            while t["a"].counter("PEERS.asked") == asked and n < 50:
                n, path = n + 1, f"/long{n}"
                gone.clear()
                with Client(t["a"].address, timeout=LIMIT) as c:
                    c.send(f"GET {path} HTTP/1.1\r\nHost: site\r\n\r\n".encode())
                    got = bytearray()
                    while len(got) < 1 << 19:
                        got += c.sock.recv(1 << 16)
                    report.check(not gone.is_set(), "the first bytes come before the origin has sent all")
                    gone.set()
                    begin = got.index(b"\r\n\r\n") + 4
                    while len(got) - begin < pieces << 20 and (more := c.sock.recv(1 << 20)):
                        got += more
                    report.check(got[begin:] == piece * pieces, f"{path}: it is whole: {len(got) - begin} bytes")
            report.comes(lambda: t["a"].counter("PEERS.answered"), lambda n: n > 0, f"{path} came by its owner")
            report.check(t.pages.asked[path] == 1, f"{path} was fetched {t.pages.asked[path]} times")
            begin = time.monotonic()
            report.check(t.ask("a", path).body == piece * pieces, "and is a hit now")
            report.note(f"{pieces} MB as a hit in {time.monotonic() - begin:.2f} s")


def warms(report, o):
    """A node that begins with nothing has the hottest objects of its peers before it is ready, and the origin isn't asked for them."""
    for make in (None, Nats):
        with contextlib.ExitStack() as stack:
            log = make and stack.enter_context(make())
            t = stack.enter_context(Tier(o, count=3, args=(*PATIENT, "-p", "tag_urls=on"), log=log, peers=",warm=20s"))
            kind = "with a log" if log else "without a log"
            ready = lambda name: t[name].counter("PEERS.warming") == 0
            report.check(all(until(LIMIT, lambda n=name: ready(n)) for name in t.names), f"{kind}: all are ready, though no peer has anything")
            t.kill("c")
            shutil.rmtree(t["c"].dir, ignore_errors=True)
            paths = [f"/hot{n}" for n in range(40)]
            t.pages.more["/vary"] = lambda f: ("Cache-Control: max-age=1000\r\nVary: X-Kind\r\n", f.get("x-kind", "none").encode())
            for _ in range(3):
                [t.ask("a", path) for path in paths]
                [t.ask("a", "/vary", X_Kind=one) for one in ("x", "y")]
            # No hit: nobody wants it.
            t.ask("a", "/cold")
            t.ask("a", "/hot0", "PURGE")
            before = sum(t.pages.asked.values())
            t.start("c")
            report.check(until(LIMIT, lambda: ready("c")), f"{kind}: it is ready")
            warmed = len(paths) - 1 + 2
            report.comes(lambda: [t["c"].counter(f"PEERS.{one}") for one in ("warmed", "warm_failed")], [warmed, 0], f"{kind}: warmed, not fetched")
            report.check(sum(t.pages.asked.values()) == before, f"{kind}: the origin wasn't asked")
            said = until(LIMIT, lambda: [line for line in t["c"].output if f"peers: warmed in" in line and f"{warmed} objects of {warmed} listed" in line])
            report.check(said, f"{kind}: the log says so: {t['c'].log()}")
            bad = [path for path in paths[1:] if t.ask("c", path).body != f"{path} 0".encode()]
            bad += [one for one in ("x", "y") if t.ask("c", "/vary", X_Kind=one).body != one.encode()]
            report.check(not bad and sum(t.pages.asked.values()) == before, f"{kind}: first requests are hits: {bad}")
            report.comes(lambda: t.count("asked", ["c"]) + t.count("owned", ["c"]), 0, f"{kind}: and no misses")
            if log:
                t.pages.versions["/hot1"] += 1
                t.ask("a", "/hot1", "PURGE")
                report.check(until(LIMIT, lambda: t.ask("c", "/hot1").body == b"/hot1 1"), f"{kind}: a purge holds for what was fetched so")


def slow_warming(report, o):
    """A peer that is silent, lies, lists what it doesn't answer, or lacks the secret delays a node that warms no longer than
    the time is; a purge meanwhile isn't undone."""
    listed = lambda path: f"GET {path} HTTP/1.1\r\nHost: site\r\nLacquer-Use: 9 9\r\n\r\n".encode()
    asked, stalls, stalled, over, forged = (threading.Event() for _ in range(5))
    impostors = {"l": ("another secret", listed("/forged")), "m": (SECRET, listed("/junk") + b"GET \x00")}

    def response(fields, body, secret=SECRET):
        code = hmac.new(secret.encode(), b"response\n" + fields["lacquer-peer"].encode() + b"\n" + body, hashlib.sha256).hexdigest()[:32]
        return f"HTTP/1.1 200 OK\r\nLacquer-Hot-List: {code}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def silent(s):
        s.recv(65536)
        asked.set()
        s.recv(65536)

    def lies(name):
        secret, body = impostors[name]

        def serve(s):
            _, path, fields, _ = head(s, b"")
            if path == "/forged":
                forged.set()
            s.sendall(response(fields, body, secret) if path == "/" else b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
        return serve

    def stall(s):
        _, path, fields, _ = head(s, b"")
        if path == "/":
            s.sendall(response(fields, listed("/stalled") if stalls.is_set() else b""))
        else:
            stalled.set()
            over.wait(LIMIT)

    with Nats() as log, Origin(silent) as one, Origin(lies("l")) as two, Origin(lies("m")) as three, Origin(stall) as four:
        others = "".join(f",{name}@127.0.0.1:{peer.address[1]}" for name, peer in zip("slmw", (one, two, three, four)))
        with Tier(o, count=2, args=(*PATIENT, "-p", "tag_urls=on"), log=log, peers=f",warm=8s{others}") as t:
            report.check(all(until(LIMIT, lambda n=name: t[n].counter("PEERS.warming") == 0) for name in t.names), "both are ready")
            t.kill("b")
            shutil.rmtree(t["b"].dir, ignore_errors=True)
            for path in ("/p", "/q"):
                [t.ask("a", path, peers=False, x_direct="1") for _ in range(3)]
            asked.clear()
            stalls.set()
            t.start("b")
            report.check(until(LIMIT, asked.is_set), "the silent peer is asked")
            t.pages.versions["/p"] += 1
            report.check(t.ask("a", "/p", "PURGE").status == 200, "a purge while it warms")
            report.check(until(LIMIT, lambda: t["b"].counter("PEERS.warming") == 0), "it is ready")
            report.check(until(LIMIT, lambda: t.ask("b", "/p", x_direct="1").body == b"/p 1"), "what was purged meanwhile isn't back")
            before = t.pages.asked["/q"]
            report.check(t.ask("b", "/q").body == b"/q 0" and t.pages.asked["/q"] == before, "what another peer has is there")
            said = until(LIMIT, lambda: [line for line in t["b"].output if "peers: warmed in" in line and "the time was over" in line])
            report.check(stalled.is_set() and said, f"the time ends a request that a peer doesn't answer: {t['b'].log()}")
            over.set()
            report.check(t.ask("b", "/stalled", x_direct="1").body == b"/stalled 0", "its object comes from the origin")
            report.check(said and "l gave none: no member has made its list" in said[0] and not forged.is_set(), f"a list without the secret is none: {said}")


def field(to, path, host="site", secret=SECRET, at=None, source="a", log="-"):
    said = f"1 from={source} to={to} at={time.time() if at is None else at:.3f} log={log}"
    code = hmac.new(secret.encode(), f"{said}\nGET\n{host}\n{path}\n".encode(), hashlib.sha256).hexdigest()[:32]
    return f"{said} mac={code}"


def hostile(report, o):
    """A client that claims to be a peer is a client; one that has the secret isn't one."""
    with Tier(o, count=2, args=PATIENT) as t:
        def ask(path, value, host="site"):
            with Client(t["a"].address, timeout=LIMIT) as c:
                return c.request(path, [("Lacquer-Peer", value)], host=host)

        good = ask("/good", field("a", "/good"))
        report.check(good.get("lacquer-object", "").startswith("age=") and not good.get("x-delivered"), f"with the secret it is a peer: {good}")
        report.check(good.get("x-url") == "/good", "and gets the object as it is stored")
        tries = {
            "junk": "x", "nothing": "", "a star": "*" * 400, "too long": "1 " + "x" * 4000, "another secret": field("a", "/h", secret="guessed, and long enough"),
            "another node": field("b", "/h"), "another target": field("a", "/other"), "another host": field("a", "/h", host="x"), "old": field("a", "/h", at=time.time() - 90),
            "of the future": field("a", "/h", at=time.time() + 90), "no code": field("a", "/h").split(" mac=")[0], "half a code": field("a", "/h")[:-16],
        }
        before = t.count("hops_refused", "a")
        for kind, value in tries.items():
            got = ask("/h", value)
            report.check(got.whole() and got.get("x-delivered") == "yes" and got.get("lacquer-object") is None, f"{kind}: {got}")
        report.comes(lambda: t.count("hops_refused", "a") - before, len(tries), "refused")
        seen = [f for path, f in t.pages.seen if "lacquer-peer" in f]
        report.check(not seen, f"the origin sees none of it: {seen[:1]}")
        # A peer's request goes to the origin and no further, whoever owns the key.
        before = t.count("asked")
        for n in range(20):
            path = f"/hop{n}"
            report.check(ask(path, field("a", path)).whole(), f"{path} is answered")
        report.check(t.count("asked") == before, "a peer's request asks no peer")
        # A key that is asked for often is said to be hot.
        t["a"].cli.ask("param.set peers_hot 2")
        last = [ask("/hot", field("a", "/hot")) for _ in range(20)][-1]
        report.check(last.get("lacquer-object", "").endswith(" hot") and t.count("hot", "a") > 0, f"a hot key: {last.get('lacquer-object')}")
        # What the peer has carried out of a log isn't carried out here, where there is none.
        got = ask("/log", field("a", "/log", log="00000000000000aa:7"))
        report.check(got.status == 503 and got.get("lacquer-refused") == "behind the log" and not got.body, f"{got}")


def settings(report, o):
    """What makes no sense is refused at the start; a server without peers has no part of it."""
    with directory() as place:
        settings_in(report, o, place)


def settings_in(report, o, place):
    secret, short = place / "secret", place / "short"
    secret.write_text(SECRET)
    short.write_text("short")
    for words, wanted in (("a@h", "secret-file"), (f"secret-file={secret}", "requires members"), ("a@h,secret-file=/nonexistent", "/nonexistent"),
                          (f"a@h,secret-file={short}", "16 bytes"), (f"a@h,color=red,secret-file={secret}", "no setting color"),
                          (f"fleet,secret-file={secret}", "no --fleet"), (f"a@h,warm=1d,secret-file={secret}", "warm must be between")):
        p = subprocess.run([o.varnishd, "-C", "-n", str(place / "n"), "-b", "127.0.0.1:9", "--peers", words], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 2 and wanted in p.stderr, f"{words}: {p.returncode} {p.stderr}")
    with Varnishd(o.varnishd, [], backend=("127.0.0.1", 9)) as v:
        status, text = v.cli.ask_raw("fleet.status")
        report.check(status == 300 and b"--peers" in text, f"fleet.status: {status} {text}")
        report.check(v.counter("PEERS.members") is None, "no counter")
    with Varnishd(o.varnishd, ["--peers", f"dns://localhost:9,secret-file={secret}"], backend=("127.0.0.1", 9)) as v:
        ring = lambda: json.loads(v.cli.ask("fleet.status -j"))[-1]["peers"]["ring"]
        report.check(until(LIMIT, lambda: any(one["state"] == "this node" for one in ring())), f"a name's addresses are members: {ring()}")


CASES = (settings, once, dead, still, circle, purged, listed, unlogged, lives, forms, large, warms, slow_warming, hostile)
# They ask a log, of one server or the other.
BY_ENGINE = (listed, purged)
QUICK = (settings, circle, unlogged, lives, forms, large, warms, slow_warming, hostile)


def main():
    o = options(__doc__, words={"help": "cases to run", "default": ""}, engine={"help": "nats or redis", "default": ""}, **clocks.OPTION)
    report = Report("tier")
    words = o.words.split()
    if not words:
        # They wait most of the time.
        engines = [o.engine] if o.engine else ["nats", "redis"]
        jobs = [["--words", case.__name__, "--engine", engine] for case in BY_ENGINE for engine in engines]
        jobs += [["--words", case.__name__] for case in CASES if case not in BY_ENGINE + QUICK]
        beside(report, o, [*jobs, ["--words", " ".join(case.__name__ for case in QUICK)]], at_once=3)
    for case in CASES:
        if case.__name__ in words:
            report.run([case], report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
