#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""thread_pools, thread_pool_max, thread_queue_limit: how many transactions may be in progress, who waits, who is refused, and
what the counters say. Needs Debian's varnishstat.
"""
import pathlib
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60  # seconds; ends a wait for what never comes
VARNISHSTAT = shutil.which("varnishstat", path="/usr/bin:/usr/sbin")
# The least that thread_pool_max may be: three requests with a fetch each.
SMALL = ["-p", "thread_pools=1", "-p", "thread_pool_min=5", "-p", "thread_pool_max=6", "-p", "thread_queue_limit=2",
         "-p", "log_no_hit=on", "-p", "pass_abort=on"]
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv { if (req.url ~ "^/pass") { return (pass); } }
"""


class Gate:
    """An origin that answers /slow when told to."""

    def __init__(self):
        self.asked, self.paths, self.go, self.lock = 0, set(), threading.Event(), threading.Lock()

    def answer(self, _method, path, _fields):
        self.paths.add(path)
        if "slow" in path:
            with self.lock:
                self.asked += 1
            self.go.wait(2 * LIMIT)
        return "Cache-Control: max-age=60\r\n", b"hello"


def counters(v, *names):
    words = [word for name in names for word in ("-f", f"MAIN.{name}")]
    shown = subprocess.run([VARNISHSTAT, "-n", str(v.n), "-1", *words], capture_output=True, text=True).stdout
    return tuple(int(line.split()[1]) for line in sorted(shown.splitlines()))


def begin(v, path):
    client = Client(v.address, timeout=LIMIT)
    client.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
    return client


def full(report, program):
    """Three slow passes fill it; two wait, one is refused; then all that were taken are answered."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        report.check(get(v.address, "/page").whole(), "one request is no crowd")
        inside = [begin(v, f"/pass/slow/{n}") for n in range(3)]
        report.check(until(LIMIT, lambda: gate.asked == 3), "three are in progress")
        report.check(until(LIMIT, lambda: counters(v, "threads", "txn_busy") == (6, 6)), f"{counters(v, 'threads', 'txn_busy')}")
        waiting = [begin(v, "/pass/given-up"), begin(v, "/pass/slow/late")]
        queued = until(LIMIT, lambda: counters(v, "thread_queue_len", "sess_queued") == (2, 2))
        report.check(queued, f"two wait: {counters(v, 'thread_queue_len', 'sess_queued')}")
        refused = begin(v, "/pass/refused")
        r = refused.response()
        report.check(r.whole(503) and r.get("Content-Length") == "0", f"the next is refused: {r}")
        r = refused.request("/page")
        report.check(r.whole(503), f"and again, on the same connection: {r}")
        r = refused.request("/page", [("Connection", "close")])
        report.check(r.whole(503) and refused.closed(LIMIT), f"which ends when the client says so: {r}")
        posting = Client(v.address, timeout=LIMIT)
        r = posting.request("/pass/slow", method="POST", body=b"x" * 100)
        report.check(r.whole(503) and posting.closed(LIMIT), f"or when a body follows: {r}")
        # One that waits goes away: its place is free.
        waiting.pop(0).close()
        gate.go.set()
        for n, client in enumerate(inside + waiting):
            r = client.response()
            report.check(r.whole(), f"who was taken is answered: {n} {r}")
        names = ("req_dropped", "sess_dropped", "sess_queued", "thread_queue_len", "threads", "threads_limited", "txn_busy")
        # Varnish would keep thread_pool_min.
        report.check(until(LIMIT, lambda: counters(v, *names) == (4, 4, 2, 0, 5, 6, 0)), f"{names}: {counters(v, *names)}")
        report.check(get(v.address, "/page").whole(), "and it serves on")
        wanted = {"/page"} | {f"/pass/slow/{n}" for n in (0, 1, 2, "late")}
        report.check(gate.paths == wanted, f"nothing was fetched that nobody was to have: {gate.paths}")


def unread(report, program):
    """Who waits isn't read: it holds no request, and one whose head never comes whole keeps nobody else out."""
    gate = Gate()
    wide = [*SMALL, "-p", "thread_queue_limit=100"]
    with Origin(simple(gate.answer)) as origin, Varnishd(program, wide, vcl=VCL % origin.address) as v:
        inside = [begin(v, f"/pass/slow/{n}") for n in range(3)]
        report.check(until(LIMIT, lambda: gate.asked == 3), "three are in progress")
        halves = [Client(v.address, timeout=LIMIT) for _ in range(20)]
        for client in halves:
            client.send(b"GET /half HTTP/1.1\r\n")
        waiting = [begin(v, f"/pass/late/{n}") for n in range(20)]
        queued = until(LIMIT, lambda: counters(v, "thread_queue_len") == (40,))
        report.check(queued, f"forty wait: {counters(v, 'thread_queue_len')}")
        words = [VARNISHSTAT, "-n", str(v.n), "-1", "-f", "MEMPOOL.req*.live"]
        shown = subprocess.run(words, capture_output=True, text=True).stdout
        live = sum(int(line.split()[1]) for line in shown.splitlines())
        report.check(live == 3, f"three requests are held: {live}")
        gate.go.set()
        answers = [client.response() for client in inside + waiting]
        report.check(all(r.whole() for r in answers), f"all are answered: {[str(r) for r in answers if not r.whole()]}")
        report.check(until(LIMIT, lambda: counters(v, "txn_busy") == (0,)), "no turn is kept by half a head")
        for client in halves:
            client.send(b"Host: bed.test\r\n\r\n")
        report.check(all(client.response().whole() for client in halves), "halves are served once they are whole")


def parked(report, program):
    """Who waits for somebody else's fetch takes no place."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        crowd = [begin(v, "/slow")]
        report.check(until(LIMIT, lambda: gate.asked == 1), "one fetches")
        for parked_so_far in range(1, 31):
            # One after the other: more than three at a time would have to wait for their turn.
            crowd.append(begin(v, "/slow"))
            until(LIMIT, lambda: counters(v, "busy_sleep") == (parked_so_far,))
        report.check(counters(v, "busy_sleep", "sess_dropped", "sess_queued") == (30, 0, 0), "thirty are parked")
        report.check(get(v.address, "/page").whole(), "others are served meanwhile")
        gate.go.set()
        answers = [client.response() for client in crowd]
        report.check(all(r.whole() for r in answers), f"all are answered: {[str(r) for r in answers if not r.whole()]}")


def raised(report, program):
    """A higher limit lets those in who wait."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        inside = [begin(v, f"/pass/slow/{n}") for n in range(3)]
        report.check(until(LIMIT, lambda: gate.asked == 3), "three are in progress")
        inside.append(begin(v, "/pass/slow/3"))
        report.check(until(LIMIT, lambda: counters(v, "thread_queue_len") == (1,)), "the fourth waits")
        v.cli.ask("param.set thread_pool_max 100")
        report.check(until(LIMIT, lambda: gate.asked == 4), "until there may be more")
        gate.go.set()
        report.check(all(client.response().whole() for client in inside), "all are answered")


def by_default(report, program):
    """What varnishd serves by default is served: 300 requests in progress at once."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, vcl=VCL % origin.address) as v:
        crowd = [begin(v, f"/pass/slow/{n}") for n in range(300)]
        report.check(until(LIMIT, lambda: gate.asked == 300), f"300 at once: {gate.asked}")
        gate.go.set()
        report.check(all(client.response().whole() for client in crowd), "all are answered")
        report.check(counters(v, "sess_dropped", "sess_queued", "threads_limited") == (0, 0, 0), "nobody waited")


def main():
    o = options(__doc__, (full, unread, parked, raised, by_default))
    if not VARNISHSTAT:
        sys.exit("Debian's varnishstat is needed (package varnish)")
    report = Report("turns")
    report.run(o.cases, report, o.varnishd, at_once=2)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
