#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The suites themselves: one that is killed half-way leaves no process, file or mount behind; one whose port is taken, or that has no case of a
WORD, says so. `workshop` tests their runner.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[2]
sys.path.insert(0, str(TESTS))
from bed.daemon import die_with_parent, directory
from bed.leftovers import RUN_MARK
from bed.report import Report, options

LIMIT = 60  # seconds; ends a wait for what never comes
SUITE = TESTS / "e2e/traffic/walk/run.py"


def environment(place, **more):
    """That of a suite which is started by hand and makes its temporary directory in `place`."""
    return {**{name: value for name, value in os.environ.items() if name != RUN_MARK}, "TMPDIR": str(place), **more}


def started(argv, place, **more):
    return subprocess.Popen(list(map(str, argv)), env=environment(place, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)


def ended(argv, place, **more):
    """Exit status and output."""
    p = started(argv, place, **more)
    return p.communicate(timeout=LIMIT)[0], p.returncode


def running(place):
    """The commands of all processes whose temporary directory is in `place`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"TMPDIR={place}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [command for command in found if command]


def judge(report, what, place):
    """Nothing is there any more."""
    left = [command[:100] for command in running(place)]
    report.check(not left, f"{what}: these processes are left: {left}")
    left = sorted(os.listdir(place))
    report.check(not left, f"{what}: these files are left: {left}")
    left = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]
    report.check(not left, f"{what}: these mounts are left: {left}")


def killed(report, _o):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with directory() as place:
            p = started([sys.executable, HERE / "victim.py", "wait", int(number == signal.SIGTERM)], place)
            report.check(p.stdout.readline() == "ready\n", f"{number.name}: it starts")
            report.check(len(running(place)) >= 5 and os.listdir(place), f"{number.name}: it has processes and files: {running(place)}")
            p.send_signal(number)
            text = p.communicate(timeout=LIMIT)[0]
            report.check(p.returncode == 128 + number and f"FAIL bed: ended by {number.name}" in text, f"{number.name}: {p.returncode} {text}")
            judge(report, number.name, place)


def port_taken(report, _o):
    with directory() as place, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for what in ("origin", "server"):
            text, status = ended([sys.executable, HERE / "victim.py", what, port], place)
            report.check(status == 1 and "Address already in use" in text and str(port) in text, f"the port of the {what} is taken: {status} {text}")
            judge(report, f"the port of the {what} is taken", place)


def unknown_word(report, _o):
    with directory() as place:
        text, status = ended([SUITE, "nonsense"], place)
        report.check(status == 1 and "nonsense: no such case; the cases are malloc file chain" in text, f"an unknown WORD: {status} {text}")
        judge(report, "an unknown WORD", place)


def main():
    o = options(__doc__, (killed, port_taken, unknown_word))
    report = Report("bed")
    report.run(o.cases, report, o, at_once=2)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
