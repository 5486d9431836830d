#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Many clients, one object: how many fetches there are at a time, for how many anybody waits, and that nobody who asked after an
invalidation gets what was fetched before it.

The origin takes two seconds, the object is purged (or banned, or softly purged) each half second, and clients come at 100 a
second, each on its own connection. Longer with --full.
"""
import json
import pathlib
import socket
import subprocess
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
LIMIT = 60  # seconds; ends a wait for what never comes
WAYS = ("PURGE", "BAN", "SOFT")
UNCACHEABLE = ("/zero", "/hfm")
CROWD = 20  # clients of each of these

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

    def __init__(self, seconds):
        self.seconds = seconds
        self.lock, self.now, self.most, self.count, self.began = threading.Condition(), {}, {}, {}, {}
        self.gate = threading.Event()

    def answer(self, _method, path, _fields):
        came = time.monotonic()
        with self.lock:
            self.now[path] = self.now.get(path, 0) + 1
            self.count[path] = self.count.get(path, 0) + 1
            self.most[path] = max(self.most.get(path, 0), self.now[path])
            self.began.setdefault(path, []).append(came)
            is_first = self.count[path] == 1
            self.lock.notify_all()
        if path[1:] in WAYS:
            time.sleep(ORIGIN_TAKES)
        elif path in UNCACHEABLE and not is_first:
            with self.lock:
                self.lock.wait_for(lambda: self.most[path] == CROWD - 1, LIMIT / 2)
        else:
            self.gate.wait(LIMIT)
        with self.lock:
            self.now[path] -= 1
        return "", f"{came:.6f}".encode()


class Crowd:
    """Clients of one URL that is invalidated all the time in one way."""

    def __init__(self, address, way, seconds):
        self.address, self.way, self.path, self.seconds = address, way, f"/{way}", seconds
        self.lock, self.got, self.invalidations = threading.Lock(), [], []

    def ask(self):
        sent = time.monotonic()
        r = get(self.address, self.path, timeout=LIMIT)
        with self.lock:
            self.got.append((sent, time.monotonic() - sent, r))

    def invalidate(self, until_when):
        while time.monotonic() < until_when:
            sent = time.monotonic()
            r = get(self.address, self.path, method=self.way)
            with self.lock:
                self.invalidations.append((sent, time.monotonic(), r))
            time.sleep(PURGE_EACH)

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


def crowds(report, v, site):
    """A crowd for each way to invalidate. Returns them."""
    before = counters(v)
    all_of_them = [Crowd(v.address, way, site.seconds) for way in WAYS]
    threads = [threading.Thread(target=c.run, args=(100 / len(WAYS) if site.seconds < 30 else 100,)) for c in all_of_them]
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
        # After the fetch that is under way the next one is for all who wait. One more may begin while a client connects.
        longest = max((took for _, took, _ in c.got), default=0)
        began = max((sum(sent < at <= float(r.body or 0) + 1e-6 for at in site.began[c.path]) for sent, _, r in c.got), default=0)
        report.check(began <= 2, f"{name}: {began} fetches began while somebody waited")
        stale = 0
        for sent, _, r in c.got:
            fetched = float(r.body or 0)
            stale += any(done < sent and fetched < began for began, done, _ in c.invalidations)
        report.check(not stale, f"{name}: {stale} of {len(c.got)} got what was fetched before an invalidation they came after")
        report.note(f"{name}: {len(c.got)} clients, {len(c.invalidations)} invalidations, {site.count.get(c.path)} fetches, "
                    f"{most} at a time, {began} began while somebody waited, longest wait {longest:.2f} s")
    outcomes = ("busy_hit", "busy_fetch", "busy_again", "busy_refused")
    report.comes(lambda: {n: now - before[n] for n, now in counters(v).items()}, lambda d: 0 < d["busy_sleep"] == sum(d[n] for n in outcomes),
                 "each parked request has one outcome")
    return all_of_them


COUNTERS = ("busy_sleep", "busy_wakeup", "busy_killed", "busy_hit", "busy_fetch", "busy_again", "busy_refused", "busy_timeout",
            "waitinglist_len")


def counters(v):
    out = subprocess.run(["varnishstat", "-1", "-j", "-n", str(v.n)], capture_output=True, text=True, timeout=20).stdout
    got = json.loads(out)
    got = got.get("counters", got)
    return {n: got[f"MAIN.{n}"]["value"] for n in COUNTERS}


def parked(v, path, count):
    """So many clients that wait for one fetch which goes on when the gate opens."""
    before = counters(v)["busy_sleep"]
    clients = [Client(v.address, LIMIT) for _ in range(count)]
    for c in clients:
        c.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
    ok = until(LIMIT, lambda: counters(v)["busy_sleep"] - before >= count - 1, 0.1)
    return clients, ok


def uncacheable(report, v, site):
    """What helps nobody else serialises nobody: those who wait for the first fetch have theirs all at once."""
    for path in UNCACHEABLE:
        site.gate.clear()
        clients, ok = parked(v, path, CROWD)
        report.check(ok, f"{path}: all but one are parked")
        site.gate.set()
        got = [c.response() for c in clients]
        for c in clients:
            c.close()
        report.check(all(r.whole() for r in got), f"{path}: {[str(r) for r in got if not r.whole()]}")
        report.check((site.count[path], site.most[path]) == (CROWD, CROWD - 1), f"{path}: {site.count[path]} fetches, {site.most[path]} at a time")


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
    until(LIMIT, lambda: site.now.get("/gate-time"))
    begin = time.monotonic()
    r = get(v.address, "/gate-time")
    took = time.monotonic() - begin
    report.check(r.whole(503) and took > 0.4, f"/gate-time: {r} after {took:.1f} s")
    site.gate.set()
    report.check(first[0].response().whole(), "/gate-time: who fetches isn't parked")
    # VCL may choose otherwise: here the second try fetches for itself.
    site.gate.clear()
    v.cli.ask("param.set waitinglist_timeout 0.1")
    both = []
    for n in (1, 2):
        both += parked(v, "/retry", 1)[0]
        report.check(until(LIMIT, lambda: site.now.get("/retry") == n), f"/retry: {site.most.get('/retry')} of {n} fetches at a time")
    site.gate.set()
    got = [c.response() for c in both]
    report.check(all(r.whole() for r in got), f"/retry: {[str(r) for r in got]}")
    report.comes(lambda: [counters(v)[n] for n in ("busy_refused", "busy_timeout")], [1, 2], "busy_refused, busy_timeout")
    v.cli.ask("param.set waitinglist_timeout 0")
    for c in clients + first + both:
        c.close()


def main():
    o = options(__doc__, (crowds, uncacheable, leavers, limits))
    report, site = Report("coalesce"), Site(60 if o.full else 8)
    with Origin(simple(site.answer)) as origin:
        host, port = origin.address
        with Varnishd(o.varnishd, vcl=VCL.format(host=host, port=port)) as v:
            worker = v.worker()
            report.run(o.cases, report, v, site)
            report.check(until(LIMIT, lambda: counters(v)["waitinglist_len"] == 0), "nobody is left waiting")
            report.check(v.worker() == worker, f"the worker died\n{v.log()}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
