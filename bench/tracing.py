#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs the server: its CPU a request at a steady rate, alone, with `lacquer trace` beside it, and with `traceparent` on, too.

usage: tracing.py [--varnishd PROGRAM] [--rate N] [--ratio R] [--rounds N] [--seconds N] [--bound B]

Needs two cores: the server has core 0, the load (bench/c/lg.c, requests are due at even times), the tool and a collector have core 1. The three take
turns, in an order that rotates; what counts is the ratio within a round, of which the median is told. It fails when tracing beside takes more than
--bound of the CPU without (1.01), when requests were missing, or when no span arrived.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/e2e/tooling/export")]
import servers
from bed.daemon import Varnishd, die_with_parent
from bed.logs import is_followed
from bed.origin import Origin, simple
from collectors import Collector

VCL = 'vcl 4.1;\nbackend default { .host = "%s"; .port = "%d"; }\n'
STATES = ("alone", "traced", "traced, traceparent")


def on_core(number):
    def begin():
        die_with_parent()
        os.sched_setaffinity(0, {number})
    return begin


def ran(pids):
    """Seconds that these processes ran, as the scheduler counts: clock ticks are too coarse for a hundredth."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            total += int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
    return total / 1e9


class Bench:
    def __init__(self, o, v, collector):
        self.o, self.v, self.collector, self.pids = o, v, collector, v.pids()
        self.stat = str(pathlib.Path(o.varnishd).with_name("varnishstat"))

    def requests(self):
        out = subprocess.run([self.stat, "-1", "-n", str(self.v.n), "-f", "MAIN.client_req"], capture_output=True, text=True, check=True).stdout
        return int(out.split()[1])

    def state(self, name):
        """What the server takes in it: CPU in microseconds a request, requests a second, spans."""
        o, v = self.o, self.v
        v.cli.ask("param.set traceparent " + ("on" if "traceparent" in name else "off"))
        v.cli.ask(f"param.set traceparent_ratio {o.ratio if 'traceparent' in name else 1}")
        tool = None
        if name != "alone":
            lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
            # With traceparent on it is the server that draws the lot.
            ratio = "0" if "traceparent" in name else str(o.ratio)
            tool = subprocess.Popen([lacquer, "trace", "-n", str(v.n), "--to", self.collector.url, "--ratio", ratio], preexec_fn=on_core(1))
            is_followed(v, tool.pid)
        time.sleep(0.5)
        spans, asked, used, begun = len(self.collector.spans), self.requests(), ran(self.pids), time.monotonic()
        before = ran([tool.pid]) if tool else 0
        time.sleep(o.seconds)
        used, elapsed, asked = ran(self.pids) - used, time.monotonic() - begun, self.requests() - asked
        own = (ran([tool.pid]) - before) / elapsed if tool else 0
        if tool:
            tool.terminate()
            tool.wait(20)
        return {"cpu": 1e6 * used / max(1, asked), "rate": asked / elapsed, "tool": own, "spans": len(self.collector.spans) - spans}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--varnishd", default=str(ROOT / "dist/bin/varnishd"))
    p.add_argument("--rate", type=int, default=10000)
    p.add_argument("--ratio", type=float, default=0.01)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--bound", type=float, default=1.01)
    o = p.parse_args()
    servers.build()
    os.sched_setaffinity(0, {1})  # the origin and the collector, too
    wrong = []
    with Origin(simple(lambda *_: ("Cache-Control: max-age=3600\r\n", b"x" * 1000))) as origin, Collector() as collector, \
            Varnishd(o.varnishd, vcl=VCL % origin.address) as v:
        for pid in v.pids():
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), {0})
        bench = Bench(o, v, collector)
        length = int(o.rounds * len(STATES) * (o.seconds + 6) + 20)
        load = subprocess.Popen([servers.BIN / "lg", "-p", str(v.address[1]), "-c", "20", "-r", str(o.rate), "-u", "/news/", "-N", "100", "-d", str(length)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=on_core(1))
        rounds = []
        try:
            time.sleep(3)
            for n in range(o.rounds):
                order = STATES[n % 3:] + STATES[:n % 3]
                rounds.append({name: bench.state(name) for name in order})
                print(f"round {n + 1}: " + "; ".join(f"{name} {rounds[-1][name]['cpu']:.2f} us" for name in STATES), flush=True)
        finally:
            load.terminate()
            load.wait()
    for name in STATES:
        of = [r[name] for r in rounds]
        median = lambda key: statistics.median(one[key] for one in of)
        ratios = sorted(r[name]["cpu"] / r["alone"]["cpu"] for r in rounds)
        print(f"{name}: {median('cpu'):.2f} us of CPU a request at {median('rate'):,.0f} requests/s, ratio {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f}), the tool {100 * median('tool'):.1f} % of a core, {sum(one['spans'] for one in of)} spans")
        if median("rate") < 0.9 * o.rate:
            wrong.append(f"{name}: only {median('rate'):,.0f} requests/s")
        if name != "alone" and not any(one["spans"] for one in of):
            wrong.append(f"{name}: no span arrived")
        if name == "traced" and statistics.median(ratios) > o.bound:
            wrong.append(f"{name}: ratio {statistics.median(ratios):.3f}, bound {o.bound}")
    print("\n".join(f"bench: {w}" for w in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
