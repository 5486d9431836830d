#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Classes of requests (docs/classes.md): the waiting room and its tokens, which requests are served, queued or refused, and what the
counters, the log and `lacquer plan` report. How long requests wait is measured by tests/timing/classes.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.logs import Saved, is_followed
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60  # seconds; only ends a hang
BROWSER = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
COOKIE = "lacquer-place-default"
PASS_ALL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv { return (pass); }
"""


class Gate:
    """An origin that answers /slow when told to."""

    def __init__(self):
        self.asked, self.served, self.go = 0, [], threading.Event()

    def answer(self, _method, path, fields):
        self.served.append((path, fields.get("cookie")))
        if "slow" in path:
            self.asked += 1
            self.go.wait(LIMIT)
        return "", b"hello"


def visit(v, path, token=None, fields=(BROWSER,)):
    """A page as a browser asks for it; the answer and the token that it brings."""
    cookie = [("Cookie", f"sid=1; {COOKIE}={token}")] if token else []
    r = get(v.address, path, [*fields, *cookie], timeout=LIMIT)
    found = re.match(rf"{COOKIE}=([0-9a-f]+);", r.get("Set-Cookie") or "")
    return r, found and found[1]


def begin(v, path):
    client = Client(v.address, timeout=LIMIT)
    client.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
    return client


def waiting_room(report, program):
    """Who came first is let in first, whoever comes back first; a token is good for one time and for nobody else's class."""
    gate = Gate()
    args = ["-p", "classes=default:workers=1,queue=0,page=on,room=3"]
    with Origin(simple(gate.answer)) as origin, Varnishd(program, args, vcl=PASS_ALL % origin.address) as v:
        inside = begin(v, "/slow")
        report.check(until(LIMIT, lambda: gate.asked == 1), "the worker is taken")
        (r, first), (_, second), (_, third) = (visit(v, f"/{n}") for n in range(3))
        report.check(r.status == 503 and first and r.get("Refresh") == r.get("Retry-After"), f"a page that comes back: {r} {r.fields}")
        report.check(b"Please wait" in r.body, f"with a text: {r.body[:80]}")
        report.check(len({first, second, third}) == 3, f"each has a token of his own: {first} {second} {third}")
        r, fourth = visit(v, "/4")
        report.check(r.status == 503 and not fourth, "the room is bounded")
        report.comes(lambda: v.counter("CLASS.default.room"), 3, "places in the room")
        r, again = visit(v, "/2", second)
        report.check(r.status == 503 and again == second, "who comes back too early keeps the place")
        gate.go.set()
        report.check(inside.response().whole(), "the first request is answered")
        # A worker may be free a little after its response has arrived.
        is_free = lambda: report.comes(lambda: v.counter("CLASS.default.busy"), 0, "busy workers")
        is_free()
        for what, token in (("a newcomer", None), ("the third", third), ("the second", second)):
            r, _ = visit(v, "/early", token)
            report.check(r.status == 503, f"{what} doesn't overtake the first: {r}")
        forged = first[:-1] + ("0" if first[-1] != "0" else "1")
        r, _ = visit(v, "/forged", forged)
        report.check(r.status == 503, f"a changed token is none: {r}")
        r, _ = visit(v, "/first", first)
        report.check(r.whole(), f"the first is let in: {r}")
        is_free()
        r, _ = visit(v, "/replayed", first)
        report.check(r.status == 503, f"his token is spent: {r}")
        r, _ = visit(v, "/second", second)
        report.check(r.whole(), f"then the second: {r}")
        is_free()
        r, _ = visit(v, "/third", third)
        report.check(r.whole(), f"and the third: {r}")
        seen = [path for path, _ in gate.served]
        report.check(seen == ["/slow", "/first", "/second", "/third"], f"nobody else got through: {seen}")
        report.check(all(cookie in (None, "sid=1") for _, cookie in gate.served), f"tokens stay here: {gate.served}")
        report.comes(lambda: [v.counter(f"CLASS.default.{name}") for name in ("returned", "forged")], [3, 1], "returned, forged")


def absent(report, program):
    """Who doesn't come back loses his place; others needn't wait for him longer than that."""
    gate = Gate()
    args = ["-p", "classes=default:workers=1,queue=0,page=on"]
    with Origin(simple(gate.answer)) as origin, Varnishd(program, args, vcl=PASS_ALL % origin.address) as v:
        inside = begin(v, "/slow")
        report.check(until(LIMIT, lambda: gate.asked == 1), "the worker is taken")
        left = time.monotonic()
        r, _ = visit(v, "/gone")
        seconds = int(r.get("Refresh"))
        _, token = visit(v, "/stays")
        gate.go.set()
        inside.response()
        r, _ = visit(v, "/stays", token)
        report.check(r.status == 503 or time.monotonic() - left >= seconds, f"the other one's place is kept for {seconds} s: {r}")
        report.check(until(seconds * 3 + LIMIT, lambda: visit(v, "/stays", token)[0].status == 200, step=0.2), "then the client that stays is let in")


def worker_dies(report, program):
    """A place outlives the worker: the token is believed by the next one, once."""
    gate = Gate()
    args = ["-p", "classes=default:workers=1,queue=0,page=on"]
    with Origin(simple(gate.answer)) as origin, Varnishd(program, args, vcl=PASS_ALL % origin.address) as v:
        begin(v, "/slow")
        report.check(until(LIMIT, lambda: gate.asked == 1), "the worker is taken")
        _, token = visit(v, "/kept")
        os.kill(v.worker(), signal.SIGKILL)
        gate.go.set()
        report.check(until(LIMIT, lambda: "running" in v.cli.ask("status") and get(v.address, "/up", timeout=LIMIT).whole()), "a new worker")
        gate.go.clear()
        begin(v, "/slow/again")
        report.check(until(LIMIT, lambda: gate.asked == 2), "it is busy, too")
        _, newer = visit(v, "/newcomer")
        gate.go.set()
        report.check(until(LIMIT, lambda: v.counter("CLASS.default.busy") == 0), "and free again")
        r, _ = visit(v, "/kept", token)
        report.check(r.whole(), f"who waited before it died is let in: {r}")
        report.comes(lambda: v.counter("CLASS.default.busy"), 0, "busy workers after it")
        r, _ = visit(v, "/kept", token)
        report.check(r.status == 503, f"one time: {r}")
        report.check(visit(v, "/newcomer", newer)[0].whole(), "then the next one")


WORKERS, SLOTS, DEAR, CHEAP = 3, 5, 12, 20
TWO_CLASSES = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; .max_connections = 500; .first_byte_timeout = 60s; }
sub vcl_recv { if (req.url ~ "^/dear") { set req.class = "dear"; } return (pass); }
"""


class Crowd:
    """An origin that holds /dear requests back until told to answer, and counts those it has at once."""

    def __init__(self):
        self.at_once = self.most = 0
        self.lock, self.go = threading.Lock(), threading.Event()

    def answer(self, _method, path, _fields):
        if path.startswith("/dear"):
            with self.lock:
                self.at_once += 1
                self.most = max(self.most, self.at_once)
            self.go.wait(LIMIT)
            with self.lock:
                self.at_once -= 1
        return "Cache-Control: no-store\r\n", b"hello"


def overload(report, program):
    """More expensive requests than workers and queue hold: so many are served, the rest is refused, and cheap requests don't notice."""
    crowd = Crowd()
    args = ["-p", f"classes=dear:workers={WORKERS},queue={SLOTS},patience={LIMIT}s"]
    with Origin(simple(crowd.answer)) as origin, Varnishd(program, args, vcl=TWO_CLASSES % origin.address) as v:
        count = lambda name: v.counter(f"CLASS.dear.{name}")
        log = v.dir / "log"
        with Saved(v, log) as saved:
            report.check(is_followed(v, saved.proc.pid), "the log is written to a file")
            dear = [begin(v, f"/dear/{n}") for n in range(DEAR)]
            refused = DEAR - WORKERS - SLOTS
            seen = until(LIMIT, lambda: (got := [count(name) for name in ("busy", "waiting", "refused")]) == [WORKERS, SLOTS, refused] and got)
            report.check(seen, f"{WORKERS} busy, {SLOTS} waiting, {refused} refused: {[count(n) for n in ('busy', 'waiting', 'refused')]}")
            cheap = [get(v.address, f"/cheap/{n}", timeout=LIMIT) for n in range(CHEAP)]
            report.check(all(r.whole() for r in cheap), f"every cheap request is served meanwhile: {[r.status for r in cheap]}")
            crowd.go.set()
            statuses = sorted(c.response().status for c in dear)
            report.check(statuses == [200] * (WORKERS + SLOTS) + [503] * refused, f"the expensive ones that had a place are served: {statuses}")
            report.check(crowd.most == WORKERS, f"no more than {WORKERS} at the origin at once: {crowd.most}")
            report.check(until(LIMIT, lambda: count("busy") == 0), "all workers are free again")
            names = ("served", "ended", "waited", "refused", "late", "waiting")
            want = dict(zip(names, (WORKERS + SLOTS, WORKERS + SLOTS, SLOTS, refused, 0, 0)))
            report.comes(lambda: {name: count(name) for name in names}, want, "all is accounted for")
            report.check(count("wait_us") > 0 and count("service_us") > 0, f"times are added up: {count('wait_us')} {count('service_us')}")
            get(v.address, "/last", timeout=LIMIT)
            report.check(until(LIMIT, lambda: saved.has(b"/last")), "the log is complete")
        words = [pathlib.Path(program).with_name("lacquer"), "plan", "--workers", str(WORKERS), "--queue", str(SLOTS), "--in-class", "dear",
                 "-q", "--format", "json", str(log)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT)
        # Status 1: so many requests are more than the class can serve.
        found = json.loads(done.stdout) if done.returncode == 1 else {"error": done.stdout + done.stderr}
        report.check([c["name"] for c in found.get("classes", [])] == ["dear"], f"lacquer plan finds the class in the log: {found}")
        report.check(any(remark.startswith(f"{refused} that were refused") for remark in found.get("remarks", [])),
                     f"it counts those that were refused: {found.get('remarks')}")


CASES = (waiting_room, absent, worker_dies, overload)


def main():
    o = options(__doc__, CASES)
    report = Report("classes")
    report.run(o.cases, report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
