#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Many clients, one object: how many fetches there are at a time, how long anybody waits, and that nobody who asked after an
invalidation gets what was fetched before it.

The origin takes two seconds, the object is purged (or banned, or softly purged) each half second, and clients come at 100 a
second, each on its own connection. Longer with --full.
"""
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import Report, options, until

ORIGIN_TAKES = 2.0
PURGE_EACH = 0.5
LONGEST_WAIT = 5.0
WAYS = ("PURGE", "BAN", "SOFT")

VCL = """vcl 4.1;
import purge;
import std;
backend default {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.method == "PURGE") {{ return (purge); }}
    if (req.method == "BAN") {{ std.ban("req.url == " + req.url); return (synth(200)); }}
    if (req.method == "SOFT") {{ set req.hash_ignore_busy = true; return (hash); }}
    if (req.url ~ "^/retry" && req.restarts > 0) {{ set req.hash_ignore_busy = true; }}
}}
sub soft {{ if (req.method == "SOFT") {{ purge.soft(0s); return (synth(200)); }} }}
sub vcl_hit {{ call soft; }}
sub vcl_miss {{ call soft; }}
sub vcl_backend_response {{
    set beresp.grace = 0s;
    set beresp.ttl = 60s;
    if (bereq.url ~ "^/zero") {{ set beresp.ttl = 0s; }}
    if (bereq.url ~ "^/hfm") {{ set beresp.uncacheable = true; }}
}}
sub vcl_synth {{
    if (req.url ~ "^/retry" && resp.status == 503 && req.restarts == 0) {{ return (restart); }}
}}
"""


class Site:
    """An origin whose bodies say when their request came; knows how many it was making at once, by path."""

    def __init__(self):
        self.lock, self.now, self.most, self.count = threading.Lock(), {}, {}, {}
        self.gate = threading.Event()

    def answer(self, _method, path, _fields):
        came = time.monotonic()
        with self.lock:
            self.now[path] = self.now.get(path, 0) + 1
            self.count[path] = self.count.get(path, 0) + 1
            self.most[path] = max(self.most.get(path, 0), self.now[path])
        if path.startswith("/gate"):
            self.gate.wait(20)
        else:
            time.sleep(ORIGIN_TAKES if path[1:] in WAYS else 0.5)
        with self.lock:
            self.now[path] -= 1
        return "", f"{came:.6f}".encode()


class Crowd:
    """Clients of one URL that is invalidated all the time in one way."""

    def __init__(self, address, way, seconds):
        self.address, self.way, self.path, self.seconds = address, way, f"/{way}", seconds
        self.lock, self.got, self.invalidations = threading.Lock(), [], []
        self.late = 0.0  # seconds by which this machine woke a sleeper too late, at worst

    def ask(self):
        sent = time.monotonic()
        r = get(self.address, self.path, timeout=30)
        with self.lock:
            self.got.append((sent, time.monotonic() - sent, r))

    def invalidate(self, until_when):
        while time.monotonic() < until_when:
            sent = time.monotonic()
            r = get(self.address, self.path, method=self.way)
            with self.lock:
                self.invalidations.append((sent, time.monotonic(), r))
            begin = time.monotonic()
            time.sleep(PURGE_EACH)
            self.late = max(self.late, time.monotonic() - begin - PURGE_EACH)

    def run(self, rate):
        end = time.monotonic() + self.seconds
        threads = [threading.Thread(target=self.invalidate, args=(end,))]
        threads[0].start()
        begin, n = time.monotonic(), 0
        while time.monotonic() < end:
            threads.append(threading.Thread(target=self.ask))
            threads[-1].start()
            n += 1
            time.sleep(max(0.0, begin + n / rate - time.monotonic()))
        for t in threads:
            t.join()


def crowds(report, v, site, seconds):
    before = counters(v)
    all_of_them = [Crowd(v.address, way, seconds) for way in WAYS]
    threads = [threading.Thread(target=c.run, args=(100 / len(WAYS) if seconds < 30 else 100,)) for c in all_of_them]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for c in all_of_them:
        name, most = c.way, site.most.get(c.path, 0)
        bad = [str(r) for _, _, r in c.got if not r.whole()]
        report.check(not bad, f"{name}: {len(bad)} of {len(c.got)} not answered: {bad[:3]}")
        refused = [str(r) for _, _, r in c.invalidations if not r.whole()]
        report.check(c.invalidations and not refused, f"{name}: invalidations failed: {refused[:3]}")
        report.check(most == 1, f"{name}: {most} fetches at a time")
        longest = max((took for _, took, _ in c.got), default=0)
        # Client, cache and origin are each as late as a sleeper is.
        report.check(longest <= LONGEST_WAIT + 3 * c.late, f"{name}: somebody waited {longest:.2f} s")
        stale = 0
        for sent, _, r in c.got:
            fetched = float(r.body or 0)
            stale += any(done < sent and fetched < began for began, done, _ in c.invalidations)
        report.check(not stale, f"{name}: {stale} of {len(c.got)} got what was fetched before an invalidation they came after")
        report.note(f"{name}: {len(c.got)} clients, {len(c.invalidations)} invalidations, {site.count.get(c.path)} fetches, "
                    f"{most} at a time, longest wait {longest:.2f} s")
    after = counters(v)
    d = {n: after[n] - before[n] for n in after}
    settled = d["busy_hit"] + d["busy_fetch"] + d["busy_again"] + d["busy_refused"]
    report.check(d["busy_sleep"] > 0 and settled == d["busy_sleep"], f"each parked request has one outcome: {d}")


COUNTERS = ("busy_sleep", "busy_wakeup", "busy_killed", "busy_hit", "busy_fetch", "busy_again", "busy_refused", "busy_timeout",
            "waitinglist_len")


def counters(v):
    import json
    import subprocess
    out = subprocess.run(["varnishstat", "-1", "-j", "-n", str(v.n)], capture_output=True, text=True, timeout=20).stdout
    got = json.loads(out)
    got = got.get("counters", got)
    return {n: got[f"MAIN.{n}"]["value"] for n in COUNTERS}


def together(v, path, count, timeout=20):
    """So many clients at once: their answers, and how long the last one took."""
    got, lock, begin = [], threading.Lock(), time.monotonic()

    def one():
        r = get(v.address, path, timeout=timeout)
        with lock:
            got.append(r)
    threads = [threading.Thread(target=one) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got, time.monotonic() - begin


def uncacheable(report, v, site):
    """What helps nobody else serialises nobody."""
    for path in ("/zero", "/hfm"):
        got, took = together(v, path, 20)
        report.check(len(got) == 20 and all(r.whole() for r in got), f"{path}: {[str(r) for r in got if not r.whole()]}")
        report.check(site.count[path] == 20 and took < 4, f"{path}: {site.count[path]} fetches took {took:.1f} s")


def parked(v, path, count):
    """So many clients that wait for one fetch which goes on when the gate opens."""
    before = counters(v)["busy_sleep"]
    clients = [Client(v.address, 20) for _ in range(count)]
    for c in clients:
        c.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
    ok = until(10, lambda: counters(v)["busy_sleep"] - before >= count - 1, 0.1)
    return clients, ok


def leavers(report, v, site):
    """Clients that go away while they are parked take nobody's turn."""
    site.gate.clear()
    clients, ok = parked(v, "/gate-leave", 30)
    report.check(ok, "/gate-leave: 29 requests are parked")
    for c in clients[::3]:
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
    site.gate.set()
    stay = [c.response() for n, c in enumerate(clients) if n % 3]
    report.check(all(r.whole() for r in stay), f"/gate-leave: {[str(r) for r in stay if not r.whole()][:3]}")
    report.check(site.most["/gate-leave"] == 1, f"/gate-leave: {site.most['/gate-leave']} fetches at a time")


def limits(report, v, site):
    """waitinglist_limit and waitinglist_timeout."""
    site.gate.clear()
    v.cli.ask("param.set waitinglist_limit 5")
    clients, ok = parked(v, "/gate-limit", 6)
    report.check(ok, "/gate-limit: five requests are parked")
    r = get(v.address, "/gate-limit")
    report.check(r.whole(503), f"/gate-limit: the sixth is refused: {r}")
    site.gate.set()
    got = [c.response() for c in clients]
    report.check(all(r.whole() for r in got), f"/gate-limit: {[str(r) for r in got]}")
    site.gate.clear()
    v.cli.ask("param.set waitinglist_limit 0")
    v.cli.ask("param.set waitinglist_timeout 0.5")
    first, ok = parked(v, "/gate-time", 1)
    until(10, lambda: site.now.get("/gate-time"))
    begin = time.monotonic()
    r = get(v.address, "/gate-time")
    took = time.monotonic() - begin
    report.check(r.whole(503) and 0.4 < took < 3, f"/gate-time: {r} after {took:.1f} s")
    site.gate.set()
    report.check(first[0].response().whole(), "/gate-time: who fetches isn't parked")
    # VCL may choose otherwise: here the second try fetches for itself.
    first, _ = parked(v, "/retry", 1)
    until(10, lambda: site.now.get("/retry"))
    v.cli.ask("param.set waitinglist_timeout 0.1")
    r = get(v.address, "/retry")
    report.check(r.whole() and site.most["/retry"] == 2, f"/retry: {r}, {site.most['/retry']} fetches at a time")
    got = counters(v)
    report.check((got["busy_refused"], got["busy_timeout"]) == (1, 2), f"each is counted: {got}")
    v.cli.ask("param.set waitinglist_timeout 0")
    for c in clients + first:
        c.close()


def main():
    o = options(__doc__)
    report, site = Report("coalesce"), Site()
    with Origin(simple(site.answer)) as origin:
        host, port = origin.address
        with Varnishd(o.varnishd, vcl=VCL.format(host=host, port=port)) as v:
            worker = v.worker()
            crowds(report, v, site, 60 if o.full else 8)
            uncacheable(report, v, site)
            leavers(report, v, site)
            limits(report, v, site)
            report.check(until(10, lambda: counters(v)["waitinglist_len"] == 0), "nobody is left waiting")
            report.check(v.worker() == worker, f"the worker died\n{v.log()}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
