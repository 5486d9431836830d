#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long it takes until a purge on one node of a fleet is in force on all of them, and which costs make up that time.

usage: bench/fleetdelay.py [--varnishd PROGRAM] [--engine nats|redis]... [--nodes N] [--rate N] [--seconds N] [--real-time]

The log's server and the nodes are real processes on loopback. One node is sent purges at a steady rate. This script watches the counter
FLEET.applied of each node in its shared memory, four thousand times a second at most. A node sets it after it has carried out the entry. One line for
each engine:

engine  nodes  ms from the request to its acknowledgement: p50  p99  to all nodes: p50  p99  ms from the acknowledgement to all nodes: p50  p99
server: CPU us a delivery   node's follower: CPU us an entry, entries a wake, us in wait for a core   node's appender: CPU us an entry

With --real-time (as root) server, nodes and script run before all other processes of this machine, which other work then disturbs less.
"""
import argparse
import gc
import json
import mmap
import os
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/e2e/cluster")]
from bed.daemon import cpu
from bed.engines import Nats, Redis
from bed.http import Client
from bed.report import until
from fleet.run import Fleet

LIMIT = 120  # seconds; it only ends what hangs
# Where a set of counters begins in its segment, and the document that names them (`crates/shm/src/vsc.rs`).
BODY, DOCUMENT = 8, 16
PAUSE = 0.00025


class Applied:
    """FLEET.applied of a node, in its shared memory."""

    def __init__(self, workdir):
        place = pathlib.Path(workdir) / "_.vsm_child"
        rows = [line.split() for line in (place / "_.index").read_text().splitlines()]
        segments = {(row[4], row[5] if len(row) > 5 else ""): row for row in rows if row[0] == "+" and len(row) > 4}
        self.words, at = self.map(place, segments["Stat", "FLEET"])
        body, document = self.words[at + 1], self.words[at + 2]
        file, begin, length = segments["StatDoc", f"{document:x}"][1:4]
        text = (place / file).read_bytes()[int(begin):int(begin) + int(length)]
        index = json.loads(text[text.index(b"{"):text.rindex(b"}") + 1])["elem"]["applied"]["index"]
        self.at = at + (body + index) // 8

    @staticmethod
    def map(place, row):
        with open(place / row[1], "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("Q"), int(row[2]) // 8

    def get(self):
        return self.words[self.at]


class Thread:
    """CPU time of a node's thread, its time in wait for a core, and how often it began to run."""

    def __init__(self, worker, name):
        tasks = pathlib.Path(f"/proc/{worker}/task").iterdir()
        self.file = next(task / "schedstat" for task in tasks if (task / "comm").read_text().strip() == name)
        self.begin = self.read()

    def read(self):
        return [int(word) for word in self.file.read_text().split()]

    def used(self):
        return [now - begin for now, begin in zip(self.read(), self.begin)]


class Watch(threading.Thread):
    """Notes when all nodes have carried out how much."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.reached, self.is_over = nodes, [], False

    def run(self):
        last, is_last = 0, False
        while not is_last:
            is_last = self.is_over
            least = min(node.words[node.at] for node in self.nodes)
            if least != last:
                self.reached.append((time.monotonic(), least))
                last = least
            time.sleep(PAUSE)


def percentiles(times):
    times = sorted(times)
    return f"{statistics.median(times) * 1e3:>6.2f} {times[int(len(times) * 0.99)] * 1e3:>7.2f}"


def before_others(pids):
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_FIFO, os.sched_param(10))


def purge(fleet, o):
    """Purges at the rate: for each the moments of its request and of its acknowledgement."""
    moments = []
    with Client(fleet.nodes[0].v.address, timeout=LIMIT) as client:
        begin = time.monotonic()
        for number in range(int(o.rate * o.seconds)):
            time.sleep(max(0, begin + number / o.rate - time.monotonic()))
            asked = time.monotonic()
            got = client.request(f"/{number % 1000}", [], method="PURGE")
            if got.status != 200:
                sys.exit(f"a purge is answered with {got}")
            moments.append((asked, time.monotonic()))
    return moments


def measure(make, o):
    with Fleet(o, make, o.nodes, settings=",patience=20s") as fleet:
        if not fleet.follow():
            sys.exit(f"not all nodes follow the log: {[node.status() for node in fleet.nodes]}")
        server, workers = [fleet.engine.proc.pid], [node.v.worker() for node in fleet.nodes]
        if o.real_time:
            before_others(server + workers + [os.getpid()])
        nodes = [Applied(node.v.n) for node in fleet.nodes]
        before = nodes[0].get()
        fleet.nodes[0].walk([f"/{number}" for number in range(1000)])
        idle, begin = cpu(server), time.monotonic()
        time.sleep(o.seconds / 4)
        idle = (cpu(server) - idle) / (time.monotonic() - begin)
        followers = [Thread(worker, "lacquer-fleet-f") for worker in workers[1:]]
        appender = Thread(workers[0], "lacquer-fleet-a")
        watch, used, begin = Watch(nodes), cpu(server), time.monotonic()
        watch.start()
        gc.disable()
        moments = purge(fleet, o)
        gc.enable()
        if not until(LIMIT, lambda: min(node.get() for node in nodes) >= before + len(moments)):
            sys.exit(f"after {LIMIT} s nodes have carried out {[node.get() for node in nodes]}")
        used = cpu(server) - used - idle * (time.monotonic() - begin)
        watch.is_over = True
        watch.join()
        spent = [sum(column) / len(followers) for column in zip(*(follower.used() for follower in followers))]
        appended = appender.used()[0]
    report(make, o, moments, watch.reached, before, used, spent, appended)


def report(make, o, moments, reached, before, used, spent, appended):
    to_ack, from_request, from_ack, at = [], [], [], 0
    for number, (asked, acknowledged) in enumerate(moments, before + 1):
        while reached[at][1] < number:
            at += 1
        to_ack.append(acknowledged - asked)
        from_request.append(reached[at][0] - asked)
        from_ack.append(max(0, reached[at][0] - acknowledged))
    count = len(moments)
    delivery, entry = used / count / o.nodes * 1e6, spent[0] / count / 1e3
    print(f"{make.kind:<6} {o.nodes:>4}  {percentiles(to_ack)}  {percentiles(from_request)}  {percentiles(from_ack)}   "
          f"{delivery:.1f}  {entry:.0f} {count / spent[2]:.2f} {spent[1] / spent[2] / 1e3:.0f}  {appended / count / 1e3:.0f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--varnishd", default=str(ROOT / "dist/bin/varnishd"))
    p.add_argument("--engine", action="append", choices=("nats", "redis"))
    p.add_argument("--nodes", type=int, default=20)
    p.add_argument("--rate", type=float, default=100)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--real-time", action="store_true")
    o = p.parse_args()
    if o.nodes < 2:
        p.error("--nodes: at least 2, of which one is asked")
    print("engine nodes  to the ack    to all nodes   ack to all     CPU us: delivery  entry, entries a wake, wait  append")
    for kind in o.engine or ("nats", "redis"):
        measure({"nats": Nats, "redis": Redis}[kind], o)


if __name__ == "__main__":
    main()
