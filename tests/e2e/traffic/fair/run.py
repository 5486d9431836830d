#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fairness, by counts: while eight attackers run, an honest client is answered, no connection has more than its share of requests in a row,
and the log names steps that took long; readers that don't read get their whole response in the end, and the server's memory stays bounded.
How long steps take and how long honest clients wait is measured by tests/timing/fair.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import attacks
import memory
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin
from bed.report import ROOT, Report, options

ARGS = ["-p", "http_req_hdr_len=32k", "-p", "http_req_size=64k", "-p", "vsl_mask=-ReqHeader"]
OURS = ["-p", "http_range_parts=1000"]
ATTACKERS = 8
SECONDS = 0.5  # that an attack lasts
STEP = 500  # microseconds of CPU from which on the server counts a step as long
# Pipelined requests of one connection in a row, before others have their turn.
IN_A_ROW = 25
COUNTERS = ("steps_timed", "steps_long", "stints", "pipelined_stints", "client_req")


def build(to, *more):
    """Compiles the attackers, and other programs in C."""
    for source in (pathlib.Path(__file__).resolve().parent / "attack.c", *more):
        subprocess.run(["cc", "-O2", "-w", "-o", to / source.stem, source, "-lm"], check=True)


def started(program, origin, extra, storage="malloc,256m"):
    return Varnishd(program, [*ARGS, *extra], vcl=attacks.vcl(origin), storage=storage)


def attack(tools, server, text, how, n, seconds):
    """Attackers as a process that ends by itself."""
    file = tools / "text"
    file.write_bytes(text)
    host, port = server.address
    return subprocess.Popen([tools / "attack", host, str(port), str(n), str(seconds), how, file], stdout=subprocess.DEVNULL)


def counters(server, *names):
    return {name: server.counter(f"MAIN.{name}") for name in names}


class Attacked:
    """One attack: what the server counted meanwhile, and what an honest client saw."""

    def __init__(self, tools, server, this, log, seconds):
        if this.prepare:
            this.prepare(server)
        # The longest step is that since timing was switched on.
        server.cli.ask("param.set step_timing 0")
        server.cli.ask("param.set step_timing 1")
        before = counters(server, *COUNTERS)
        self.name = this.name
        self.honest = honest(server, attack(tools, server, this.text, this.how, ATTACKERS, seconds))
        after = counters(server, *COUNTERS, "longest_step")
        self.did = {name: after[name] - before[name] for name in COUNTERS}
        self.longest_step, self.logged = after["longest_step"], log.news()

    def __str__(self):
        return (f"{self.name}: longest step {self.longest_step} us, {self.did['steps_long']} of {self.did['steps_timed']} over {STEP} us, "
                f"{self.did['stints']} stints, {self.did['client_req']} requests; honest: {self.honest['ok']}, longest {self.honest['worst'] * 1000:.0f} ms"
                + (f"; {self.logged}" if self.logged else ""))


def all_attacked(program, tools, chosen, seconds, bodies):
    """Runs each attack for a moment, on one server."""
    with Origin(attacks.serve(bodies)) as origin, started(program, origin, [*OURS, "-p", "step_timing=1"]) as server:
        attacks.ask(server, ["/honest"])
        log = LongSteps(program, server)
        for this in chosen:
            yield Attacked(tools, server, this, log, seconds)


def counts(o, report, tools, chosen):
    long, logged = 0, False
    bodies = attacks.Bodies(attacks.FEWER_BOMB_BYTES, attacks.FEWER_LEVELS)
    for a in all_attacked(o.varnishd, tools, chosen, SECONDS, bodies):
        report.note(str(a))
        report.check(a.honest["failed"] == 0 and a.honest["ok"] > 0, f"{a.name}: honest requests: {a.honest}")
        report.check(a.did["steps_timed"] > 0, f"{a.name}: steps are counted: {a.did}")
        if a.name.startswith("pipelined"):
            in_a_row = (a.did["client_req"] - a.honest["ok"]) / (a.did["pipelined_stints"] + 1)
            report.check(in_a_row <= IN_A_ROW, f"{a.name}: {in_a_row:.1f} requests in a row")
        long, logged = long + a.did["steps_long"], logged or bool(a.logged)
    report.check(logged or not long, f"the log names none of {long} long steps")


class LongSteps:
    """What the log says of long steps."""

    def __init__(self, varnishd, server):
        self.argv = [pathlib.Path(varnishd).with_name("varnishlog"), "-d", "-g", "raw", "-i", "Notice", "-n", str(server.n)]
        self.seen = set()

    def news(self):
        """The longest one since the last call."""
        lines = subprocess.run(self.argv, capture_output=True, text=True, check=False).stdout.splitlines()
        found = {}
        for line in lines:
            if m := re.search(r"long step: (\d+) us, (.*)", line):
                found[m.group(0)] = int(m.group(1))
        new = {text: us for text, us in found.items() if text not in self.seen}
        self.seen |= set(new)
        return max(new, key=new.get, default="")


def honest(server, attackers):
    """Asks for a page in a row as long as the attackers live."""
    did = {"ok": 0, "failed": 0, "worst": 0.0}
    with Client(server.address, timeout=20, keep=False) as c:
        while attackers.poll() is None:
            begin = time.monotonic()
            ok = c.request("/honest").whole()
            did["worst"] = max(did["worst"], time.monotonic() - begin)
            did["ok" if ok else "failed"] += 1
            if not ok:
                break
    attackers.wait()
    return did


def main():
    o = options(__doc__, words={"nargs": "*", "default": [], "metavar": "WORD", "help": "attacks and readers by what their names contain"})
    report = Report("fair")
    chosen = [a for a in attacks.all_attacks(attacks.FEWER) if not o.words or any(w in a.name for w in o.words)]
    with tempfile.TemporaryDirectory() as d:
        tools = pathlib.Path(d)
        build(tools)
        if chosen:
            counts(o, report, tools, chosen)
        memory.counts(o, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
