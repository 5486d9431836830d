#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How worker and manager end: drains, signals, sudden deaths. No process is left behind and no answer is cut that had time."""
import os
import pathlib
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 20


class Gate:
    """An origin that answers /slow when told to."""

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def answer(self, _method, path, _fields):
        if path.startswith("/slow"):
            self.asked.set()
            self.go.wait(LIMIT)
        return "Cache-Control: max-age=60\r\n", b"hello"


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def drained(report, program, how):
    """A request in progress gets its answer, idle connections don't hold anything up."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, \
            Varnishd(program, ["-p", "shutdown_grace=15"], backend=origin.address) as v:
        idle = Client(v.address)
        report.check(idle.request("/page").whole(), f"{how}: a first answer")
        slow = Client(v.address)
        slow.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        gate.asked.wait(LIMIT)
        worker, begin = v.worker(), time.monotonic()
        if how == "stop":
            stopper = threading.Thread(target=lambda: v.cli.ask_raw("stop"), daemon=True)
            stopper.start()
        elif how == "SIGTERM to the worker":
            os.kill(worker, signal.SIGTERM)
        else:
            v.proc.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        report.check(not gone(worker), f"{how}: the worker waits for the request")
        gate.go.set()
        r = slow.response()
        report.check(r.whole() and r.get("Connection") == "close", f"{how}: the request in progress: {r} {r.fields}")
        ended = until(LIMIT, lambda: gone(worker))
        took = time.monotonic() - begin
        report.check(ended and took < 10, f"{how}: the worker ended {ended} after {took:.1f} s")
        if how == "SIGTERM to the worker":
            again = until(LIMIT, lambda: get(v.address, "/page").whole())
            report.check(again, f"{how}: the manager starts another one")


def no_grace(report, program):
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, backend=origin.address) as v:
        with Client(v.address) as c:
            c.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
            gate.asked.wait(LIMIT)
            worker, begin = v.worker(), time.monotonic()
            v.cli.ask_raw("stop")
            report.check(until(LIMIT, lambda: gone(worker)) and time.monotonic() - begin < 5, "stop without grace is at once")
            gate.go.set()


def manager_gone(report, program):
    with Origin(simple(Gate().answer)) as origin:
        v = Varnishd(program, backend=origin.address)
        pids = v.pids()
        report.check(get(v.address, "/page").whole(), "manager killed: an answer before")
        os.kill(v.proc.pid, signal.SIGKILL)
        left = until(LIMIT, lambda: all(gone(p) for p in pids[1:]))
        report.check(left, f"manager killed: its worker must end: {[p for p in pids[1:] if not gone(p)]}")
        v.close()


def worker_gone(report, program):
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        for number in (signal.SIGKILL, signal.SIGABRT):
            old = v.worker()
            with Client(v.address) as waiting:
                os.kill(old, number)
                until(LIMIT, lambda: gone(old))
                r = get(v.address, "/page", timeout=LIMIT)
                report.check(r.whole(), f"worker killed by {number}: a connection waits for the next one: {r}")
                waiting.closed()
            report.check(v.worker() != old, "there is another worker")


def control_c(report, program):
    """^C goes to the whole group; the worker leaves it to the manager."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, \
            Varnishd(program, ["-p", "shutdown_grace=15"], backend=origin.address) as v, Client(v.address) as slow:
        slow.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        gate.asked.wait(LIMIT)
        pids = v.pids()
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        gate.go.set()
        r = slow.response()
        report.check(r.whole(), f"^C: the request in progress: {r}")
        report.check(until(LIMIT, lambda: all(gone(p) for p in pids)), "^C ends all")


def planted_panic(report, program):
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        old = v.worker()
        v.cli.ask_raw("debug.panic.worker")
        report.check(until(LIMIT, lambda: gone(old)), "the worker dies of a panic")
        report.check(get(v.address, "/page", timeout=LIMIT).whole(), "and the next one serves")
        status, text = v.cli.ask_raw("panic.show")
        report.check(status == 200 and b"Panic" in text, f"its report is kept: {status} {text[:80]}")


def main():
    o = options(__doc__)
    report = Report("life")
    for how in ("stop", "SIGTERM to the worker", "SIGTERM to the manager"):
        drained(report, o.varnishd, how)
    for test in (no_grace, manager_gone, worker_gone, control_c, planted_panic):
        test(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
