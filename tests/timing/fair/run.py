#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fairness, by clocks: no attack makes a step of a serving thread long, and an honest client's waits stay short.

Reduced: each attack for a second by eight attackers, judged by the CPU of the steps. --full: each attack by 1, 8 and 64 attackers, before ours
and before another varnishd (--beside), and readers that don't read: a table of the honest client's 99th percentile and longest wait, of peak
memory, and of memory five seconds later. --words choose attacks by what their names contain. Counts: tests/e2e/traffic/fair.
"""
import pathlib
import shutil
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
# Behind this directory: `run` is what each suite's program is called, so that the other one is `fair.run` here.
sys.path += [str(TESTS), str(TESTS / "e2e/traffic"), str(TESTS / "e2e/traffic/fair")]
import attacks
from bed.report import ROOT, Report, options
from fair import run as suite
import table

SECONDS = 1.0  # that an attack lasts
# Of all steps so many may take longer than suite.STEP: one is held up by what it doesn't know (a page that isn't there, the other end of a
# loopback, a neighbour that takes the caches), and by chance alone few are.
MOST_LONG = 0.02
LONGEST = 200 * suite.STEP  # of any that there was
# What isn't optimised takes many times longer, and so do its shortest pieces of work.
MOST_LONG_DEBUG = 0.6


def steps(o, report, tools, chosen):
    """Each attack for a moment: how long the server's steps were."""
    most_long = MOST_LONG_DEBUG if o.debug_build else MOST_LONG
    for a in suite.all_attacked(o.varnishd, tools, chosen, SECONDS, attacks.Bodies()):
        report.note(str(a))
        long, timed = a.did["steps_long"], a.did["steps_timed"]
        share = long / max(timed, 1)
        report.check(share <= most_long, f"{a.name}: {100 * share:.1f} % of {timed} steps took over {suite.STEP} us")
        report.check(a.longest_step <= LONGEST, f"{a.name}: a step of {a.longest_step} us")


def main():
    o = options(__doc__, beside={"default": shutil.which("varnishd", path="/usr/sbin") or "", "help": "another varnishd for the table; \"\": none"},
                only={"choices": ["attacks", "memory"], "help": "one half of the table alone"},
                seconds={"type": float, "default": 2.0, "help": "of each row of the table"}, table={"help": "a file for the table"},
                debug_build={"action": "store_true", "help": "bounds for a build without optimisation"},
                words={"nargs": "*", "default": [], "metavar": "WORD", "help": "attacks and cases by what their names contain"})
    report = Report("fair")
    chosen = [a for a in attacks.all_attacks(1 if o.full else attacks.FEW) if not o.words or any(w in a.name for w in o.words)]
    with tempfile.TemporaryDirectory() as d:
        tools = pathlib.Path(d)
        suite.build(tools, ROOT / "bench/c/lg.c")
        if o.full:
            table.run(o, report, tools, chosen)
        else:
            steps(o, report, tools, chosen)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
