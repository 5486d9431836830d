#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fairness: no client takes a thread, no reader takes the memory.

While others attack, an honest client's waits and the memory of all processes are looked at. Reduced: each attack for a second or two by
eight attackers, judged by counts: the longest step of a serving thread, how often tasks let others go first. --full: each attack by 1, 8
and 64 attackers, before ours and before another varnishd (--beside), and readers that don't read: a table of the honest client's 99th
percentile and longest wait, of peak memory, and of memory five seconds later. WORDs choose attacks by what their names contain.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import attacks
import memory
import table
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin
from bed.report import ROOT, Report, options

ARGS = ["-p", "http_req_hdr_len=32k", "-p", "http_req_size=64k", "-p", "vsl_mask=-ReqHeader"]
OURS = ["-p", "http_range_parts=1000"]
ATTACKERS = 8
SECONDS = 1.0
STEP = 500  # microseconds of CPU that a step of a serving thread should take at most
# Of all steps so many may take longer: one is held up by what it doesn't know (a page that isn't there, the other end of a loopback, a
# neighbour that takes the caches), and by chance alone few are.
MOST_LONG = 0.02
LONGEST = 200 * STEP  # of any that there was
# What isn't optimised takes many times longer, and so do its shortest pieces of work.
MOST_LONG_DEBUG = 0.6
# Pipelined requests of one connection in a row, before others have their turn.
IN_A_ROW = 25


def build(to):
    """The attackers and, for the table, the honest client."""
    here = pathlib.Path(__file__).resolve().parent
    for source, name in ((here / "attack.c", "attack"), (ROOT / "bench/c/lg.c", "lg")):
        subprocess.run(["cc", "-O2", "-w", "-o", to / name, source, "-lm"], check=True)


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


def counts(o, report, tools, chosen):
    """Each attack for a moment, judged by counts."""
    most_long = MOST_LONG_DEBUG if o.debug_build else MOST_LONG
    names = ("steps_timed", "steps_long", "stints", "pipelined_stints", "client_req")
    with Origin(attacks.serve(attacks.Bodies())) as origin, started(o.varnishd, origin, [*OURS, "-p", "step_timing=1"]) as server:
        attacks.ask(server, ["/honest"])
        told, long = LongSteps(o.varnishd, server), 0
        for this in chosen:
            if this.prepare:
                this.prepare(server)
            server.cli.ask("param.set step_timing 0")
            server.cli.ask("param.set step_timing 1")
            before = counters(server, *names)
            p = attack(tools, server, this.text, this.how, ATTACKERS, SECONDS)
            asked = honest(server, p)
            after = counters(server, *names, "longest_step")
            did = {name: after[name] - before[name] for name in names}
            report.check(asked["failed"] == 0 and asked["ok"] > 0, f"{this.name}: honest requests: {asked}")
            worst = told.news()
            report.note(f"{this.name}: longest step {after['longest_step']} us, {did['steps_long']} of {did['steps_timed']} over {STEP} us, "
                        f"{did['stints']} stints, {did['client_req']} requests; honest: {asked['ok']}, longest {asked['worst'] * 1000:.0f} ms"
                        + (f"; {worst}" if worst else ""))
            long += did["steps_long"]
            share = did["steps_long"] / max(did["steps_timed"], 1)
            report.check(share <= most_long, f"{this.name}: {100 * share:.1f} % of {did['steps_timed']} steps took over {STEP} us")
            report.check(after["longest_step"] <= LONGEST, f"{this.name}: a step of {after['longest_step']} us")
            if this.name.startswith("pipelined"):
                in_a_row = (did["client_req"] - asked["ok"]) / (did["pipelined_stints"] + 1)
                report.check(in_a_row <= IN_A_ROW, f"{this.name}: {in_a_row:.1f} requests in a row")
        report.check(told.seen or not long, f"the log tells of none of {long} long steps")


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
    o = options(__doc__, beside={"default": shutil.which("varnishd", path="/usr/sbin") or "", "help": "another varnishd for the table; \"\": none"},
                only={"choices": ["attacks", "memory"], "help": "one half alone"}, seconds={"type": float, "default": 2.0, "help": "of each row of the table"},
                table={"help": "a file for the table"},
                debug_build={"action": "store_true", "help": "bounds for a build without optimisation"},
                words={"nargs": "*", "default": [], "metavar": "WORD", "help": "attacks and cases by what their names contain"})
    report = Report("fair")
    chosen = [a for a in attacks.all_attacks(o.full) if not o.words or any(w in a.name for w in o.words)]
    with tempfile.TemporaryDirectory() as d:
        tools = pathlib.Path(d)
        build(tools)
        if o.full:
            table.run(o, report, tools, chosen)
        else:
            if o.only != "memory":
                counts(o, report, tools, chosen)
            if o.only != "attacks":
                memory.counts(o, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
