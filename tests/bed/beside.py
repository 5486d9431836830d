# SPDX-License-Identifier: BSD-2-Clause
"""Cases of one harness beside each other: those that wait most of the time, and measure nothing. Each is a run of the harness of its own, as
servers end with the thread that started them."""
import concurrent.futures
import re
import subprocess
import sys
import time

from bed.daemon import die_with_parent

LIMIT = 1200  # seconds; it only ends what hangs


def beside(report, o, jobs, at_once=2):
    """Runs this harness with the words of each job (["--words", "a b"]), `at_once` of them at a time in their order, and counts what they count. What
    one says is shown once it has ended."""
    closing = re.compile(rf"{report.name}: (\d+) passed, (\d+) failed")

    def run(words):
        line = [sys.executable, sys.argv[0], "--varnishd", o.varnishd, "--seed", str(o.seed), *(["--full"] if o.full else []), *words]
        begin = time.monotonic()
        try:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  preexec_fn=die_with_parent, timeout=LIMIT)
            said = done.stdout.splitlines()
        except subprocess.TimeoutExpired:
            said = [f"it was not done within {LIMIT} s"]
        found = next((m for m in map(closing.fullmatch, said) if m), None)
        print("".join(f"{one}\n" for one in said if not closing.fullmatch(one)), end="", flush=True)
        if not found:
            report.check(False, f"{' '.join(words)}: it ended without a closing line after {time.monotonic() - begin:.0f} s: {said[-3:]}")
        return (int(found[1]), int(found[2])) if found else (0, 0)

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for passed, failed in pool.map(run, jobs):
            report.passed += passed
            report.failed += failed
