# SPDX-License-Identifier: BSD-2-Clause
"""The table of --full: what an honest client waits and how much memory is used, here and before another varnishd, under each attack."""
import json
import os
import pathlib
import subprocess
import threading
import time

import attacks
import memory
from bed.daemon import pss
from bed.origin import Origin
from fair import run as suite

CROWDS = (1, 8, 64)
RATE = 200  # honest requests a second: due at their time whether those before are answered or not
HONEST_CONNECTIONS = 16
LIMIT_MS = 5.0  # of the honest 99th percentile with eight attackers, unless the other varnishd has more
LATER = 5.0  # seconds after an attack, for memory


class Peak:
    """The most memory that these processes have while it lives, in MB beyond what they had before."""

    def __init__(self, server):
        self.server, self.most, self.stop = server, 0.0, threading.Event()
        self.base = used(server)
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self.stop.wait(0.15):
            self.most = max(self.most, used(self.server) - self.base)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.most = max(self.most, used(self.server) - self.base)


def used(server):
    return pss(server.pids()) / attacks.MEGABYTE


def honest(tools, server, seconds):
    """What lg says of a client that asks at a fixed rate; the kernel gives it the CPU first where that is allowed."""
    def first():
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -15)
        except OSError:
            pass
    argv = [tools / "lg", "-p", str(server.address[1]), "-c", str(HONEST_CONNECTIONS), "-r", str(RATE), "-d", str(seconds), "-u", "/honest"]
    out = subprocess.run(argv, stdout=subprocess.PIPE, preexec_fn=first, timeout=seconds + 60).stdout
    return json.loads(out)


def row(tools, server, this, n, seconds):
    """One attack by n: (p99 ms, longest ms, failed, peak MB, MB later or None)."""
    with Peak(server) as peak:
        p = suite.attack(tools, server, this.text, this.how, n, seconds + 1.0)
        time.sleep(0.5)
        got = honest(tools, server, seconds)
        p.wait()
    later = None
    if n == CROWDS[-1]:
        time.sleep(LATER)
        later = used(server) - peak.base
    failed = got["errors"] + got["non200"]
    return got["p99_us"] / 1000, got["max_us"] / 1000, failed, peak.most, later


def attacked(o, tools, program, chosen, ours):
    """{(attack, n): row} of one varnishd."""
    rows = {}
    with Origin(attacks.serve(attacks.Bodies())) as origin:
        for this in chosen:
            with suite.started(program, origin, suite.OURS if ours else []) as server:
                attacks.ask(server, ["/honest"])
                if this.prepare:
                    this.prepare(server)
                for n in CROWDS:
                    rows[this.name, n] = row(tools, server, this, n, o.seconds)
                    print(f"     {'here' if ours else 'beside'}: {this.name}, {n}: " + cells(rows[this.name, n]), flush=True)
    return rows


def cells(row):
    p99, most, failed, peak, later = row
    return f"p99 {p99:.1f} ms, longest {most:.1f} ms, {failed} failed, peak {peak:.0f} MB" + (f", later {later:.0f} MB" if later is not None else "")


def run_attacks(o, report, tools, chosen):
    here = attacked(o, tools, o.varnishd, chosen, True)
    beside = attacked(o, tools, o.beside, chosen, False) if o.beside else {}
    lines = ["| attack | attackers | p99, ms | longest, ms | peak, MB | 5 s later, MB | varnishd: p99 | longest | peak | 5 s later |",
             "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |"]
    for this in chosen:
        for n in CROWDS:
            lines.append("| " + " | ".join([this.name, str(n), *columns(here[this.name, n]), *columns(beside.get((this.name, n)))]) + " |")
    for this in chosen:
        p99, failed = here[this.name, CROWDS[1]][0], sum(here[this.name, n][2] for n in CROWDS)
        limit = max(LIMIT_MS, beside[this.name, CROWDS[1]][0] if beside else 0)
        report.check(p99 <= limit, f"{this.name}: honest p99 {p99:.1f} ms with {CROWDS[1]} attackers, beyond {limit:.1f}")
        report.check(failed == 0, f"{this.name}: {failed} honest requests failed")
    return lines


def columns(row):
    if row is None:
        return [""] * 4
    p99, most, failed, peak, later = row
    return [f"{p99:.1f}", f"{most:.1f}" + (f" ({failed} failed)" if failed else ""), f"{peak:.0f}", "" if later is None else f"{later:.0f}"]


def run(o, report, tools, chosen):
    lines = run_attacks(o, report, tools, chosen) if o.only != "memory" and chosen else []
    if o.only != "attacks":
        lines += ["", *memory.table(o, report)]
    print("\n".join(lines), flush=True)
    if o.table:
        pathlib.Path(o.table).write_text("\n".join(lines) + "\n")
