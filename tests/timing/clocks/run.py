#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What suites of tests/e2e leave to a clock: how soon, how often, how much later. Each job runs such a suite with --clocks."""
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))
from bed.daemon import die_with_parent
from bed.report import Report, options

LIMIT = 1800  # seconds; it only ends what hangs
# By name: the suite, and its words.
JOBS = {
    "an idle worker's wake-ups": ("lifecycle/life", "--words", "sleeps_when_idle"),
    "a worker that takes long to end": ("lifecycle/survive", "--words", "long_end"),
    "purges on four nodes, by NATS": ("cluster/fleet", "--words", "delay", "--engine", "nats"),
    "purges on four nodes, by Redis": ("cluster/fleet", "--words", "delay", "--engine", "redis"),
    "an owner that is gone": ("cluster/tier", "--words", "dead"),
    "honest clients beside attacks by HTTP/2": ("protocols/h2", "--group", "abuse"),
    "honest clients beside idle crowds": ("protocols/h2", "--group", "crowd"),
    "streams beside one that stands still": ("protocols/h2", "--group", "slow"),
    "clients of a dead worker by HTTP/3": ("protocols/h3", "--words", "died"),
    "honest clients beside attacks by TLS": ("protocols/tls_load",),
}


def run(report, o, name, suite, *words):
    line = [sys.executable, str(TESTS / "e2e" / suite / "run.py"), "--clocks", "--varnishd", o.varnishd, "--seed", str(o.seed),
            *(["--full"] if o.full else []), *words]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          preexec_fn=die_with_parent, timeout=LIMIT)
    said = done.stdout.splitlines()
    closing = re.compile(rf"{pathlib.Path(suite).name}: (\d+) passed, (\d+) failed")
    found = next((m for m in map(closing.fullmatch, said) if m), None)
    print("".join(f"{one}\n" for one in said if not closing.fullmatch(one)), end="", flush=True)
    if report.check(found, f"{name}: ended with status {done.returncode} and without a closing line: {said[-3:]}"):
        report.passed += int(found[1])
        report.failed += int(found[2])


def main():
    o = options(__doc__, words=dict(default="", help="jobs to run, by a part of their names"))
    report = Report("clocks")
    for name, job in JOBS.items():
        if o.words in name:
            run(report, o, name, *job)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
