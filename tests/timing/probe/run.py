#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer probe` by clocks: the cases of tests/e2e/tooling/probe once more, with their times, and verdicts that follow from times alone."""
import json
import pathlib
import subprocess
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
# Behind this directory: `run` is what each suite's program is called, so that the other one is `probe.run` here.
sys.path += [str(TESTS), str(TESTS / "e2e/tooling"), str(TESTS / "e2e/tooling/probe")]
from bed.daemon import die_with_parent
from bed.origin import Origin
from bed.report import Report, options
import loss
from probe import run as suite


def old_ladder(tool, is_full):
    """Starts a run against a server whose answers come when a client of before 2011 has sent its SYN again; gives what judges it at its end:
    the kernel of this side saw no loss, so that the times alone tell."""
    late = [3.003, 9.007, 3.01, 3.02, 21.05] + [45.1] * is_full
    waits, lock = iter(late), threading.Lock()

    def serve(s):
        with lock:
            wait = next(waits, 0)
        time.sleep(wait)
        suite.answers(s)
    origin = Origin(serve)
    p = subprocess.Popen([tool.program, "probe", "--format", "json", "-n", "40", "--pause", "10ms", suite.place(origin)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)

    def finish(report):
        out, err = p.communicate(timeout=suite.LIMIT)
        origin.close()
        verdict = json.loads(out)["verdict"]
        seconds = [rung["seconds"] for rung in verdict["rungs"]]
        report.check(verdict["finding"] == "loss_likely" and seconds == [3.0, 9.0, 21.0] + [45.0] * is_full, f"the ladder of 3 s: {verdict} {err}")
        report.check("first sent again after 3 s" in verdict["words"], f"it says so: {verdict}")
    return finish


def main():
    o = options(__doc__)
    report = Report("probe")
    tool = suite.Tool(str(pathlib.Path(o.varnishd).parent / "lacquer"), measures=True)
    # Most of the time they wait: the others run meanwhile.
    finish, old = loss.start(report, tool), old_ladder(tool, o.full)
    report.run((suite.no_finding, suite.lost_syn, suite.lost_data, suite.slow_server, suite.keeps_pace, suite.as_published), report, tool)
    finish()
    old(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
