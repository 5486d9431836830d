#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""thread_pools, thread_pool_max, thread_queue_limit, max_fetches_per_ip: how many fetches may be in progress, which requests wait, which
are refused, that hits never are, and what the counters say. Needs Debian's varnishstat.
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
# Six fetches: as many as one client may have in any case.
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
    """Six slow passes fill it; two requests wait, one is refused; hits go on; then all that were taken are answered."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        report.check(get(v.address, "/page").whole(), "one request is no crowd")
        inside = [begin(v, f"/pass/slow/{n}") for n in range(6)]
        report.check(until(LIMIT, lambda: gate.asked == 6), "six are in progress")
        report.check(until(LIMIT, lambda: counters(v, "threads", "txn_busy") == (6, 12)), f"each counts once: {counters(v, 'threads', 'txn_busy')}")
        waiting = [begin(v, "/pass/given-up"), begin(v, "/pass/slow/late")]
        queued = until(LIMIT, lambda: counters(v, "thread_queue_len", "sess_queued") == (2, 2))
        report.check(queued, f"two wait: {counters(v, 'thread_queue_len', 'sess_queued')}")
        refused = begin(v, "/pass/refused")
        r = refused.response()
        report.check(r.whole(503) and r.get("Retry-After"), f"the next is refused: {r}")
        r = refused.request("/miss")
        report.check(r.whole(503), f"so is a miss, on the same connection: {r}")
        r = refused.request("/pass/slow", method="POST", body=b"x" * 100)
        report.check(r.whole(503), f"and what has a body: {r}")
        for n in range(20):
            r = refused.request("/page")
            report.check(r.whole() and r.body == b"hello", f"a hit waits for nobody: {r}")
        # One that waits goes away: its place is free.
        waiting.pop(0).close()
        report.check(until(LIMIT, lambda: counters(v, "thread_queue_len") == (1,)), f"one waits: {counters(v, 'thread_queue_len')}")
        gate.go.set()
        for n, client in enumerate(inside + waiting):
            r = client.response()
            report.check(r.whole(), f"who was taken is answered: {n} {r}")
        names = ("req_dropped", "sess_dropped", "sess_queued", "thread_queue_len", "threads", "threads_limited", "txn_busy")
        # Varnish would keep thread_pool_min.
        report.check(until(LIMIT, lambda: counters(v, *names) == (3, 3, 2, 0, 5, 8, 0)), f"{names}: {counters(v, *names)}")
        report.check(get(v.address, "/miss").whole(), "and it serves on")
        wanted = {"/page", "/miss"} | {f"/pass/slow/{n}" for n in (0, 1, 2, 3, 4, 5, "late")}
        report.check(gate.paths == wanted, f"nothing was fetched that nobody was to have: {gate.paths}")


def stale(report, program):
    """Where no fetch may begin a stale object is delivered, and not refreshed."""
    gate = Gate()
    vcl = VCL + "sub vcl_backend_response { if (bereq.url == \"/old\") { set beresp.ttl = 1ms; set beresp.grace = 1h; return (deliver); } }"
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=vcl % origin.address) as v:
        report.check(get(v.address, "/old").whole(), "it is there")
        inside = [begin(v, f"/pass/slow/{n}") for n in range(6)]
        report.check(until(LIMIT, lambda: gate.asked == 6), "six are in progress")
        report.check(get(v.address, "/old").whole(), "and delivered")
        report.comes(lambda: counters(v, "bgfetch_limited", "bgfetch_no_thread", "s_bgfetch"), (1, 1, 0), "no refresh began")
        gate.go.set()
        report.check(all(client.response().whole() for client in inside), "all are answered")


SHARE = ["-p", "thread_pools=1", "-p", "thread_pool_max=500", "-p", "max_fetches_per_ip=20", "-p", "log_no_hit=on"]


def share(report, program):
    """One client has a part of the fetches, also while it is gone; others, and its hits, don't notice."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SHARE, vcl=VCL % origin.address) as v:
        report.check(get(v.address, "/page").whole(), "a page is cached")
        inside = [begin(v, f"/slow/{n}") for n in range(100)]
        report.check(until(LIMIT, lambda: gate.asked == 100), f"a hundred are in progress: {gate.asked}")
        for path in ("/more", "/pass/more"):
            r = get(v.address, path)
            report.check(r.whole(503) and r.get("Retry-After"), f"not one more: {r}")
        report.check(get(v.address, "/page").whole(), "a hit needs none")
        with Client(v.address, timeout=LIMIT, source="127.0.0.2") as other:
            report.check(other.request("/other").whole(), "another client has its own")
        report.comes(lambda: counters(v, "fetch_limited_ip", "req_dropped"), (2, 0), "fetch_limited_ip, req_dropped")
        for client in inside:
            client.close()
        r = get(v.address, "/again")
        report.check(r.whole(503), f"fetches whose client is gone count: {r}")
        v.cli.ask("param.set max_fetches_per_ip 100")
        report.check(get(v.address, "/again").whole(), "100 % is no limit")
        v.cli.ask("param.set max_fetches_per_ip 20")
        gate.go.set()
        report.check(until(LIMIT, lambda: counters(v, "txn_busy") == (0,)), "they end")
        report.check(get(v.address, "/more").whole(), "and it has its share again")


def parked(report, program):
    """Who waits for somebody else's fetch takes no place."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        crowd = [begin(v, "/slow")]
        report.check(until(LIMIT, lambda: gate.asked == 1), "one fetches")
        crowd += [begin(v, "/slow") for _ in range(30)]
        report.check(until(LIMIT, lambda: counters(v, "busy_sleep", "sess_dropped", "sess_queued") == (30, 0, 0)), "thirty are parked")
        report.check(get(v.address, "/page").whole(), "others are served meanwhile")
        gate.go.set()
        answers = [client.response() for client in crowd]
        report.check(all(r.whole() for r in answers), f"all are answered: {[str(r) for r in answers if not r.whole()]}")


def raised(report, program):
    """A higher limit lets those in who wait."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, SMALL, vcl=VCL % origin.address) as v:
        inside = [begin(v, f"/pass/slow/{n}") for n in range(6)]
        report.check(until(LIMIT, lambda: gate.asked == 6), "six are in progress")
        inside.append(begin(v, "/pass/slow/6"))
        report.check(until(LIMIT, lambda: counters(v, "thread_queue_len") == (1,)), "the seventh waits")
        v.cli.ask("param.set thread_pool_max 100")
        report.check(until(LIMIT, lambda: gate.asked == 7), "until there may be more")
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
    o = options(__doc__, (full, stale, share, parked, raised, by_default))
    if not VARNISHSTAT:
        sys.exit("Debian's varnishstat is needed (package varnish)")
    report = Report("turns")
    report.run(o.cases, report, o.varnishd, at_once=2)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
