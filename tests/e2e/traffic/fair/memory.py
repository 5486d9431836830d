# SPDX-License-Identifier: BSD-2-Clause
"""Readers that don't read, and objects larger than the store: what they hold, that they get all once they read, and that it comes back when
they leave."""
import socket
import threading
import time

import attacks
from bed.daemon import Varnishd, pss
from bed.origin import Origin
from bed.report import until

STORE, TRANSIENT = 64, 32  # MB
OBJECT = 10  # MB
READERS = 100
FEWER_READERS = 60  # in the suite that counts: more than the stores hold, still
READER_KB = 64
# What a process needs beside: stacks, heaps that grow, its pages of the program touched for the first time.
BESIDE = 24  # MB
HUGE = 200  # MB
SETTLE = 0.5  # seconds in which the server reads from origins as far as it may
PATIENCE = 120  # seconds that a client waits for more

VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%s"; }
sub vcl_recv {
    if (req.url ~ "pass$") {
        return (pass);
    }
}
sub vcl_backend_response {
    set beresp.ttl = 1h;
}
"""


class Case:
    """`begin(server)` gives `readers` clients with a `close()`, of which `whole(octets)` tells whether an answer with so large a body came
    whole; `octets` is 0 where nobody waits for one."""

    def __init__(self, name, begin, readers, octets):
        self.name, self.begin, self.readers, self.octets = name, begin, readers, octets


class Late:
    """A client that asks, and reads nothing before it is asked whether all comes."""

    def __init__(self, server, path):
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.s.connect(server.address)
        self.s.sendall(attacks.request(path))

    def whole(self, octets):
        # It has been slow long enough.
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        return is_whole(self.s, octets)

    def close(self):
        self.s.close()


class Fast:
    """A client that reads all as it comes."""

    def __init__(self, server, path, octets):
        self.s = socket.create_connection(server.address)
        self.s.sendall(attacks.request(path))
        self.came = None
        self.thread = threading.Thread(target=self._read, args=(octets,), daemon=True)
        self.thread.start()

    def _read(self, octets):
        self.came = is_whole(self.s, octets)

    def whole(self, _octets):
        self.thread.join(PATIENCE)
        return bool(self.came)

    def close(self):
        self.s.close()


def is_whole(s, octets):
    """Whether an answer comes with a body so large, and its end is its announced end."""
    s.settimeout(PATIENCE)
    got = b""
    try:
        while b"\r\n\r\n" not in got:
            if not (d := s.recv(4096)):
                return False
            got += d
        head, body = got.split(b"\r\n\r\n", 1)
        came, end = len(body), body[-5:]
        while d := s.recv(1 << 20):
            came, end = came + len(d), (end + d)[-5:]
    except OSError:
        return False
    is_chunked = b"\r\ntransfer-encoding: chunked" in head.lower()
    ends = end == b"0\r\n\r\n" and came > octets if is_chunked else came == octets
    return b" 200 " in head.split(b"\r\n", 1)[0] and ends


def late(count, path):
    return lambda server: [Late(server, path.format(n)) for n in range(count)]


def hits(count):
    """All have been asked for before: as many as fit are hits."""
    def begin(server):
        attacks.ask(server, [f"/large/{n}" for n in range(count)])
        # Those that came last are there: they are asked for first.
        return [Late(server, f"/large/{n}") for n in reversed(range(count))]
    return begin


def fast(path):
    return lambda server: [Fast(server, path, HUGE * attacks.MEGABYTE)]


def gone(path):
    """A client that leaves at once."""
    def begin(server):
        client = Late(server, path)
        client.s.recv(4096)
        client.close()
        return []
    return begin


def all_cases(readers):
    each, huge = OBJECT * attacks.MEGABYTE, HUGE * attacks.MEGABYTE
    return [
        Case(f"{readers} readers of {OBJECT} MB, misses", late(readers, "/large/{}"), readers, each),
        Case(f"{readers} readers of {OBJECT} MB, hits", hits(readers), readers, each),
        Case(f"{readers} readers of {OBJECT} MB, passes", late(readers, "/large/{}/pass"), readers, each),
        *(Case(f"{HUGE} MB, {kind}, {name}", begin, clients, huge)
          for path, kind in ((f"/huge/{HUGE}", "Content-Length"), (f"/chunked/{HUGE}", "chunked"))
          for name, begin, clients in (("fast client", fast(path), 1), ("slow client", late(1, path), 1), ("client gone", gone(path), 0))),
    ]


class Measured:
    """What came of a case: MB beyond the process at rest at most, and once the readers had left, and answers that came whole."""

    def __init__(self, most, later, whole):
        self.most, self.later, self.whole = most, later, whole


def measure(program, case, settle, report=None):
    """`report`: ours is to show that it holds origins to their readers' pace."""
    with Origin(attacks.serve(attacks.Bodies())) as origin:
        args = ["-s", f"Transient=malloc,{TRANSIENT}m"]
        with Varnishd(program, args, vcl=VCL % origin.address, storage=f"malloc,{STORE}m") as server:
            attacks.ask(server, ["/small"])
            now = lambda: pss(server.pids()) / attacks.MEGABYTE
            base = now()
            clients = case.begin(server)
            most, end = 0.0, time.monotonic() + settle
            while time.monotonic() < end:
                most = max(most, now() - base)
                time.sleep(0.05)
            if report and case.readers > 1:
                report.check(until(60, lambda: server.counter("MAIN.fetch_squeezed")), f"{case.name}: no fetch is held up")
            whole = 0
            for client in clients:
                whole += client.whole(case.octets)
                most = max(most, now() - base)
                client.close()
            until(60, lambda: now() - base < STORE + BESIDE)
            return Measured(most, now() - base, whole)


def bound(case):
    """What it may take: the stores, and something for each reader."""
    return STORE + TRANSIENT + case.readers * READER_KB / 1024 + BESIDE


def judge(report, case, measured):
    most, later, whole = measured.most, measured.later, measured.whole
    report.check(most <= bound(case), f"{case.name}: {most:.0f} MB, beyond {bound(case):.0f}")
    report.check(later <= STORE + BESIDE, f"{case.name}: {later:.0f} MB once the readers had left")
    report.check(whole == case.readers, f"{case.name}: {whole} of {case.readers} answers came whole")


def chosen(o, readers):
    return [case for case in all_cases(readers) if not o.words or any(w in case.name for w in o.words)]


def counts(o, report):
    for case in chosen(o, FEWER_READERS):
        measured = measure(o.varnishd, case, SETTLE, report)
        report.note(f"{case.name}: peak {measured.most:.0f} MB, then {measured.later:.0f} MB, {measured.whole} whole")
        judge(report, case, measured)


def table(o, report):
    lines = [f"| readers, `-s malloc,{STORE}m -s Transient=malloc,{TRANSIENT}m` | peak, MB | once they left, MB | whole answers | varnishd: peak | once they left | whole |",
             "| --- | --: | --: | --: | --: | --: | --: |"]
    for case in chosen(o, READERS):
        here = measure(o.varnishd, case, 2.0, report)
        judge(report, case, here)
        cells = columns(here) + (columns(measure(o.beside, case, 2.0)) if o.beside else [""] * 3)
        lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
        print("     " + lines[-1], flush=True)
    return lines


def columns(measured):
    return [f"{measured.most:.0f}", f"{measured.later:.0f}", str(measured.whole)]
