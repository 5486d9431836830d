#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""CPU per request of the server, in microseconds, for a few kinds of traffic; beside it the system's varnishd in the same run.

What is counted is the user and system time that the server's processes used, divided by the requests they answered: how fast the
clients are doesn't matter for that figure. The kernel's clock tick (10 ms) is the grain, so each figure needs thousands of requests.
The programs take turns, round by round, and the median counts; what else the machine does still shows in caches and clock speed.

usage: bench/run.py [--rounds N] [--requests N] [PROGRAM...]   (default: dist/bin/varnishd and, if there, /usr/sbin/varnishd)
"""
import argparse
import multiprocessing
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from bed.daemon import Varnishd, cpu, die_with_parent, pss
from bed.http import Client
from bed.origin import Origin, simple

CLIENTS = 4
# kind: (path, requests on a connection (0: all), pipelined at once, share of --requests)
KINDS = {
    "hit, keep-alive, 1 KB": ("/1k", 0, 1, 1.0),
    "hit, 1 per connection": ("/1k", 1, 1, 0.5),
    "hit, pipelined x16": ("/1k", 0, 16, 4.0),
    "hit, 100 KB": ("/100k", 0, 1, 0.25),
    "pass": ("/pass", 0, 1, 0.25),
    "miss": ("/miss/{n}", 0, 1, 0.25),
}


def answer(_method, path, _fields):
    if path == "/100k":
        return "Cache-Control: max-age=3600\r\n", b"x" * 100_000
    if path == "/pass":
        return "Cache-Control: no-store\r\n", b"x" * 1000
    return "Cache-Control: max-age=3600\r\n", b"x" * 1000


def origin_process(pipe):
    die_with_parent()
    with Origin(simple(answer)) as origin:
        pipe.send(origin.address)
        pipe.recv()


def drive(address, path, per_connection, pipelined, count, first, out):
    """One client: `count` requests; sends the number of answers that were not good."""
    die_with_parent()
    bad, n, c, left = 0, 0, None, 0
    while n < count:
        if c is None or (per_connection and left == 0):
            if c:
                c.close()
            c, left = Client(address, 60, keep=False), per_connection
        some = min(pipelined, count - n)
        c.send(b"".join(f"GET {path.format(n=first + n + i)} HTTP/1.1\r\nHost: bench\r\n\r\n".encode() for i in range(some)))
        for _ in range(some):
            bad += not c.response().whole()
        n, left = n + some, left - some
    out.send(bad)


def measure(v, kind, requests, round_no):
    path, per_connection, pipelined, share = KINDS[kind]
    count = max(1, int(requests * share) // CLIENTS)
    pipes, procs = [], []
    before = cpu(v.pids())
    for i in range(CLIENTS):
        ours, theirs = multiprocessing.Pipe(False)
        first = (round_no * CLIENTS + i) * count
        p = multiprocessing.Process(target=drive, args=(v.address, path, per_connection, pipelined, count, first, theirs), daemon=True)
        p.start()
        pipes.append(ours)
        procs.append(p)
    bad = sum(p.recv() for p in pipes)
    for p in procs:
        p.join()
    return (cpu(v.pids()) - before) / (count * CLIENTS) * 1e6, bad


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--requests", type=int, default=40_000)
    a.add_argument("programs", nargs="*")
    o = a.parse_args()
    programs = o.programs or [p for p in (str(ROOT / "dist/bin/varnishd"), "/usr/sbin/varnishd") if os.access(p, os.X_OK)]
    ours, theirs = multiprocessing.Pipe()
    origin = multiprocessing.Process(target=origin_process, args=(theirs,), daemon=True)
    origin.start()
    address = ours.recv()
    running = [Varnishd(p, backend=address, storage="malloc,256m") for p in programs]
    figures, wrong = {}, 0
    try:
        for round_no in range(o.rounds + 1):  # the first one only warms
            for kind in KINDS:
                for name, v in zip(programs, running):
                    us, bad = measure(v, kind, o.requests if round_no else o.requests // 10, round_no + 1)
                    wrong += bad
                    if round_no:
                        figures.setdefault(kind, {}).setdefault(name, []).append(us)
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, {o.rounds} rounds; CPU microseconds per request")
        print(f"{'':24}" + "".join(f"{n[-28:]:>30}" for n in programs) + ("     ratio" if len(programs) > 1 else ""))
        for kind, by in figures.items():
            medians = [statistics.median(by[n]) for n in programs]
            ratio = f"{medians[0] / medians[1]:10.2f}" if len(medians) > 1 and medians[1] else ""
            print(f"{kind:24}" + "".join(f"{m:30.1f}" for m in medians) + ratio)
        print(f"{'memory afterwards, MB':24}" + "".join(f"{pss(v.pids()) / 1e6:30.1f}" for v in running))
        print(f"bench: {len(figures)} kinds measured, {wrong} wrong answers")
    finally:
        for v in running:
            v.close()
        ours.send(None)
        origin.join(5)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
