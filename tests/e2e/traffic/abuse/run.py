#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hostile clients: slow heads, slow bodies, slow reads, zero windows, idle connections. No honest request may fail meanwhile.
And more connections than there are descriptors: that may hold honest ones up, but nothing may spin, and it must pass.

An honest client makes a fresh connection ten times a second during each attack. Memory is reported per attacker (Pss of all processes,
kernel buffers not counted). Reduced: 200 attackers (2,000 idle) for 6 seconds; --full: 400 (8,000) for 14.
"""
import concurrent.futures
import pathlib
import resource
import select
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, cpu, pss
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options, until

HONEST_LIMIT = 30.0  # seconds an honest client waits; on a quiet machine less than a tenth (see the suite `waits`)
# So often in a row it gets nothing before that is a failure: the machine may have other work, an attack goes on.
TRIES = 3
LEAST = 3  # requests of an honest client: one of each kind
FEW = "few descriptors"
FEW_IDLE = "few descriptors, idle clients"
LIMIT = 60  # seconds; ends a wait for what never comes
BIG = b"z" * (10 << 20)
MIDDLE = b"m" * (1 << 20)


def answer(_method, path, _fields):
    cache = "Cache-Control: max-age=600\r\n"
    if path.startswith("/big"):
        return cache, BIG
    if path.startswith("/middle"):
        return cache, MIDDLE
    return cache, b"hello"


class Honest:
    """Asks for a cached page, an uncached page and a long one in turn, each time on a new connection."""

    def __init__(self, address):
        self.address, self.asked, self.failed, self.worst = address, 0, [], 0.0
        self.is_waiting, self.stop = False, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stop.is_set():
            n = self.asked
            path = ("/page", f"/page?{n}", "/middle")[n % 3]
            for left in reversed(range(TRIES)):
                begin = time.monotonic()
                r = get(self.address, path, [("Connection", "close")], HONEST_LIMIT, keep=False)
                took = time.monotonic() - begin
                self.worst = max(self.worst, took)
                if r.whole() and took <= HONEST_LIMIT:
                    break
                self.is_waiting = left > 0
                if not left:
                    self.failed.append(f"{path}: {r} {r.reason} after {took:.1f} s")
            self.asked += 1
            self.is_waiting = False
            self.stop.wait(max(0.0, 0.1 - took))

    def end(self):
        self.stop.set()
        self.thread.join(HONEST_LIMIT * (TRIES + 1))


def connect(address, n, rcvbuf=None):
    """`n` connections; fewer when the server refuses."""
    socks = []
    for _ in range(n):
        s = socket.socket()
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(LIMIT)
        try:
            s.connect(address)
        except OSError:
            s.close()
            continue
        s.setblocking(False)
        socks.append(s)
    return socks


def each(socks, act):
    """Does `act` to each socket that still lives; gives those that do."""
    alive = []
    for s in socks:
        try:
            act(s)
            alive.append(s)
        except BlockingIOError:
            alive.append(s)
        except OSError:
            s.close()
    return alive


def nothing(_s):
    pass


def say(text):
    return lambda s: s.send(text)


def sip(n):
    """Reads n octets, if there are any; end of file counts as dead."""
    def act(s):
        if s.recv(n) == b"":
            raise ConnectionError
    return act


# name: (SO_RCVBUF, what is sent at first, what is done each tick)
ATTACKS = {
    "slow heads": (None, say(b"GET /page HTTP/1.1\r\nHost: bed.test\r\nX-A: "), say(b"a")),
    "slow bodies": (None, say(b"POST /page HTTP/1.1\r\nHost: bed.test\r\nContent-Length: 100000\r\n\r\n"), say(b"0123456789")),
    "slow chunks": (None, say(b"POST /page HTTP/1.1\r\nHost: bed.test\r\nTransfer-Encoding: chunked\r\n\r\n"), say(b"1\r\nx\r\n")),
    "slow reads": (2048, say(b"GET /middle HTTP/1.1\r\nHost: bed.test\r\n\r\n" * 3), sip(32)),
    "zero windows": (2048, say(b"GET /big HTTP/1.1\r\nHost: bed.test\r\n\r\n"), nothing),
    "half requests, then gone": (None, say(b"GET /big HTTP/1.1\r\nHost: bed.test\r\n\r\n"), None),
}


IDLE = {"idle, just connected": False, "idle, answered": True}


def attack(report, v, name, count, seconds):
    rcvbuf, first, tick = ATTACKS[name]
    before = pss(v.pids())
    honest = Honest(v.address)
    socks, peak, end = [], before, time.monotonic() + seconds
    try:
        socks = each(connect(v.address, count, rcvbuf), first)
        connected = len(socks)
        while time.monotonic() < end or honest.is_waiting or honest.asked < LEAST:
            if tick is None:  # gone in the middle of the answer, and back again
                for s in socks:
                    s.close()
                socks = each(connect(v.address, count, 2048), first)
            else:
                socks = each(socks, tick)
            peak = max(peak, pss(v.pids()))
            select.select([], [], [], 0.3)
    finally:
        honest.end()
        alive = len(socks)
        for s in socks:
            s.close()
    report.note(f"{name}: {connected} connected, {alive} alive at the end; honest {len(honest.failed)} of {honest.asked} failed, "
                f"worst {honest.worst * 1000:.0f} ms; Pss {before / 1e6:.1f} -> {peak / 1e6:.1f} MB, "
                f"{max(0, peak - before) / max(1, connected) / 1024:.1f} KB each")
    report.check(honest.asked >= LEAST and not honest.failed, f"{name}: honest requests failed: {honest.failed[:3]}")


def await_answers(socks):
    """Waits until something came on each."""
    poll, waiting, end = select.poll(), {s.fileno() for s in socks}, time.monotonic() + LIMIT
    for s in socks:
        poll.register(s, select.POLLIN)
    while waiting and time.monotonic() < end:
        for fd, _ in poll.poll(100):
            poll.unregister(fd)
            waiting.discard(fd)


def idle(report, v, count, answered):
    """Connections that do nothing: from the start, or after one answered request."""
    name = f"idle after {'one answer' if answered else 'connecting'}"
    before = pss(v.pids())
    honest = Honest(v.address)
    socks = []
    while len(socks) < count:  # a hundred at a time, so that what a burst costs is not in the figure
        some = connect(v.address, min(100, count - len(socks)))
        if answered:
            some = each(some, say(b"GET /page HTTP/1.1\r\nHost: bed.test\r\n\r\n"))
            await_answers(some)
        else:
            select.select([], [], [], 0.1)
        socks += some
        if not some:
            break
    peak = pss(v.pids())
    honest.end()
    for s in socks:
        s.close()
    each_kb = max(0, peak - before) / max(1, len(socks)) / 1024
    report.note(f"{name}: {len(socks)} of {count} connected; Pss {before / 1e6:.1f} -> {peak / 1e6:.1f} MB, {each_kb:.2f} KB each; "
                f"honest {len(honest.failed)} of {honest.asked} failed, worst {honest.worst * 1000:.0f} ms")
    report.check(len(socks) == count and not honest.failed, f"{name}: {honest.failed[:3]}")


def few_descriptors(report, program, origin):
    """Twice as many half-sent requests as descriptors, for two seconds; then they go."""
    name, limit = FEW, 256
    with Varnishd(program, ["-p", "timeout_idle=30"], backend=origin.address, descriptors=limit) as v:
        pid = v.worker()
        report.check(get(v.address, "/page", timeout=LIMIT).whole(), f"{name}: not served at first")
        socks = each(connect(v.address, 2 * limit), say(b"GET /page HTTP/1.1\r\nHost: bed.test\r\nX-A: "))
        before, begin = cpu(v.pids()), time.monotonic()
        select.select([], [], [], 2.0)
        used, took = cpu(v.pids()) - before, time.monotonic() - begin
        for s in socks:
            s.close()
        back = until(LIMIT, lambda: get(v.address, "/page", timeout=LIMIT).whole())
        report.note(f"{name}: {len(socks)} connections with {limit} descriptors, {used:.2f} s of CPU in {took:.1f} s")
        report.check(used < took / 4, f"{name}: spins, {used:.2f} s of CPU in {took:.1f} s")
        report.check(back and v.worker() == pid, f"{name}: no service afterwards, worker {pid} -> {v.worker()}")


def idle_ones_give_way(report, program, origin, limit=256):
    """With few descriptors clients that ask no more, or are slow to ask, make room for those that ask, and the operator can load VCL."""
    name = FEW_IDLE
    for said in (b"GET /page HTTP/1.1\r\nHost: bed.test\r\n\r\n", b"GET /page HTTP/1.1\r\nX-A: "):
        args = ["-p", "timeout_idle=3600", "-p", "timeout_head=3600"]
        with Varnishd(program, args, backend=origin.address, descriptors=limit) as v:
            socks = connect(v.address, 2 * limit)
            for s in socks:
                s.sendall(said)
            for n in range(20):
                r = get(v.address, f"/page?{n}", timeout=LIMIT)
                report.check(r.whole(), f"{name}: {said} an honest client waits: {n} {r}")
            (v.dir / "more.vcl").write_text('vcl 4.1; backend b { .host = "127.0.0.1"; .port = "%d"; }' % origin.address[1])
            status, text = v.cli.ask_raw(f"vcl.load more {v.dir}/more.vcl")
            report.check(status == 200, f"{name}: {said} vcl.load: {status} {text}")
            report.comes(lambda: v.counter("MAIN.sess_idle_ended"), lambda n: n > 0, f"{name}: they are counted")
            for s in socks:
                s.close()


def run(report, o, names, at_once):
    """The attacks of these names, so many of them at a time."""
    count, seconds = (o.attackers or (400 if o.full else 200)), (14 if o.full else 6)
    idlers = 8000 if o.full else 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = min(hard, idlers + 2000) if hard > 0 else idlers + 2000
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
    idlers = min(idlers, (max(soft, want) - 600) // 2)
    beds = {name: (lambda v, name=name: attack(report, v, name, count, seconds)) for name in ATTACKS}
    beds |= {name: (lambda v, answered=answered: idle(report, v, idlers, answered)) for name, answered in IDLE.items()}

    def one(name):
        if name == FEW:
            few_descriptors(report, o.varnishd, origin)
            return
        if name == FEW_IDLE:
            idle_ones_give_way(report, o.varnishd, origin)
            return
        # A fresh server, so that its memory figures are its own.
        with Varnishd(o.varnishd, ["-p", "timeout_idle=30"], backend=origin.address) as v:
            pid = v.worker()
            for path in ("/page", "/middle", "/big"):
                get(v.address, path, timeout=LIMIT, keep=False)
            beds[name](v)
            r = get(v.address, "/page", timeout=LIMIT)
            report.check(r.whole() and v.worker() == pid, f"{name}: afterwards {r}, worker {pid} -> {v.worker()}")

    with Origin(simple(answer)) as origin, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, names))


def main():
    o = options(__doc__, [*ATTACKS, *IDLE, FEW, FEW_IDLE], attackers=dict(type=int))
    report = Report("abuse")
    # They mostly wait. In the full form the figures are of interest, so one after the other.
    run(report, o, o.cases, 1 if o.full else 2)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
