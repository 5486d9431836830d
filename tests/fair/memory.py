# SPDX-License-Identifier: BSD-2-Clause
"""Readers that don't read, and objects larger than the store: what they hold, and that it comes back when they leave."""
import socket
import threading
import time

import attacks
from bed.daemon import Varnishd, pss
from bed.origin import Origin
from bed.report import until

STORE, TRANSIENT = 64, 32  # MB
SMALL = 4  # MB of a Transient that few readers fill
OBJECT = 10  # MB
READER_KB = 64
# What a process needs beside: stacks, heaps that grow, its pages of the program touched for the first time.
BESIDE = 24  # MB
HUGE = 200  # MB

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
    """`begin(server)` gives sockets; `readers` of them wait. `settle` is how long it takes until no more comes."""

    def __init__(self, name, begin, readers):
        self.name, self.begin, self.readers = name, begin, readers


def reader(server, path):
    """Asks, and reads nothing."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(server.address)
    s.sendall(attacks.request(path, close=False))
    return s


def readers(count, path):
    return lambda server: [reader(server, path.format(n)) for n in range(count)]


def hits(count):
    """All have been asked for before: as many as fit are hits."""
    def begin(server):
        attacks.ask(server, [f"/large/{n}" for n in range(count)])
        return [reader(server, f"/large/{n}") for n in range(count)]
    return begin


def fast(path):
    """A client that reads all as it comes; the socket tells its end."""
    def begin(server):
        s = socket.create_connection(server.address)
        s.sendall(attacks.request(path))
        s.settimeout(30)

        def read():
            try:
                while s.recv(1 << 20):
                    pass
            except OSError:
                pass
        threading.Thread(target=read, daemon=True).start()
        return [s]
    return begin


def gone(path):
    """A client that leaves at once."""
    def begin(server):
        s = reader(server, path)
        s.recv(4096)
        s.close()
        return []
    return begin


def all_cases(count=100, huge=HUGE):
    return [
        Case(f"{count} readers of {OBJECT} MB, misses", readers(count, "/large/{}"), count),
        Case(f"{count} readers of {OBJECT} MB, hits", hits(count), count),
        Case(f"{count} readers of {OBJECT} MB, passes", readers(count, "/large/{}/pass"), count),
        *(Case(f"{huge} MB, {kind}, {name}", make(f"/{path}/{huge}"), 1)
          for path, kind in (("huge", "Content-Length"), ("chunked", "chunked"))
          for name, make in (("fast client", fast), ("slow client", lambda p: readers(1, p)), ("client gone", gone))),
    ]


def read_on(s, octets):
    """Whether so many octets of a body come in the end."""
    s.settimeout(30)
    got, body = b"", 0
    try:
        while b"\r\n\r\n" not in got:
            got += s.recv(4096)
        body = len(got.split(b"\r\n\r\n", 1)[1])
        while body < octets and (d := s.recv(1 << 20)):
            body += len(d)
    except OSError:
        pass
    return b" 200 " in got.split(b"\r\n", 1)[0] and body == octets


def late(o, report, count):
    """Passes by way of a full Transient: who reads late gets all."""
    with Origin(attacks.serve(attacks.Bodies())) as origin:
        with Varnishd(o.varnishd, ["-s", f"Transient=malloc,{SMALL}m"], vcl=VCL % origin.address, storage=f"malloc,{STORE}m") as server:
            clients = readers(count, "/large/{}/pass")(server)
            held = until(10, lambda: server.counter("MAIN.fetch_squeezed"))
            report.check(held, "Transient is full, and no fetch is held up")
            whole = sum(read_on(s, OBJECT * attacks.MEGABYTE) for s in clients)
            report.check(whole == count, f"{whole} of {count} passes came whole to clients that read late")
            for s in clients:
                s.close()


def measure(program, case, settle):
    """(peak, later) in MB beyond the process at rest; stores' bytes aren't taken off."""
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
            for s in clients:
                s.close()
            until(5, lambda: server.counter("MAIN.sess_conn") is not None and now() - base < STORE + BESIDE)
            return most, now() - base


def bound(case):
    """What it may take: the stores, and something for each reader."""
    return STORE + TRANSIENT + case.readers * READER_KB / 1024 + BESIDE


def judge(report, case, most, later):
    report.check(most <= bound(case), f"{case.name}: {most:.0f} MB, beyond {bound(case):.0f}")
    report.check(later <= STORE + BESIDE, f"{case.name}: {later:.0f} MB once the readers had left")


def counts(o, report):
    """The short form: fewer readers."""
    if not o.words:
        late(o, report, 12)
    for case in all_cases(24, 100):
        if not o.words or any(w in case.name for w in o.words):
            most, later = measure(o.varnishd, case, 1.0)
            report.note(f"{case.name}: peak {most:.0f} MB, then {later:.0f} MB")
            judge(report, case, most, later)


def table(o, report):
    late(o, report, 100)
    lines = [f"| readers, `-s malloc,{STORE}m -s Transient=malloc,{TRANSIENT}m` | peak, MB | once they left, MB | varnishd: peak | once they left |",
             "| --- | --: | --: | --: | --: |"]
    for case in all_cases():
        if o.words and not any(w in case.name for w in o.words):
            continue
        here = measure(o.varnishd, case, 3.0)
        judge(report, case, *here)
        beside = measure(o.beside, case, 3.0) if o.beside else None
        cells = [f"{mb:.0f}" for mb in (*here, *(beside or ()))] + ([] if beside else ["", ""])
        lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
        print("     " + lines[-1], flush=True)
    return lines
