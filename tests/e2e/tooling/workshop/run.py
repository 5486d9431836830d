#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The workshop itself: `tests/run` reports a suite that leaves something behind, ends badly or is killed, and a suite refuses a program that
is missing or older than the sources.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import built
from bed.daemon import executable
from bed.report import ROOT, Report, options, until

LIMIT = 300  # seconds; only ends a hang

# What a suite does before its closing line, and what `tests/run` has to say of it; an empty text: nothing.
SUITES = {
    "sound": ("", ""),
    "process": ("subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=subprocess.DEVNULL)", "left a process behind: sleep 300"),
    "file": ("open(os.environ['TMPDIR'] + '/remains', 'w')", "left a file behind: remains"),
    "failed": ("print('FAIL failed: one is two'); failed = 1", "one is two"),
    "silent": ("sys.exit(0)", "ended with status 0 and without a closing line"),
    "died": ("os.kill(os.getpid(), 9)", "ended with status -9 and without a closing line"),
}
SUITE = """\
#!{python}
import os, subprocess, sys, time
failed = 0
{body}
print(f"{name}: {{1 - failed}} passed, {{failed}} failed")
"""


def write(directory, name, body):
    executable(directory / "e2e/group" / name / "run.py", SUITE.format(python=sys.executable, name=name, body=textwrap.dedent(body)))


def run(directory, *words):
    return subprocess.run([ROOT / "tests/run", "--no-build", "--in", directory, *words], capture_output=True, text=True, timeout=LIMIT)


def faults(report, directory):
    """Each suite of SUITES gets its own verdict, also beside the others."""
    for name, (body, _) in SUITES.items():
        write(directory, name, body)
    for name, (_, said) in SUITES.items():
        p = run(directory, name)
        report.check((p.returncode == 0) == (not said) and said in p.stdout and ("FAIL" in p.stdout) == bool(said), f"{name}: {p.returncode} {p.stdout}")
    p = run(directory, "e2e")
    report.check(all(said in p.stdout for _, said in SUITES.values()) and p.stdout.endswith(" failed\n"), f"all: {p.stdout}")
    end = p.stdout.rsplit("the slowest:", 1)[-1]
    report.check(all(said in end for _, said in SUITES.values()), f"what failed stands at the end, too: {end}")
    p = run(directory, "nothing")
    report.check(p.returncode == 1 and "nothing: no such kind, group or suite" in p.stderr, f"unknown: {p.stderr}")


CARGO = """\
test tests::fine ... ok
test tests::wrong ... FAILED
---- tests::wrong stdout ----
thread 'tests::wrong' panicked at src/lib.rs:1:2:
assertion `left == right` failed: the sum
  left: 3
 right: 4
note: run with a backtrace
test result: FAILED. 1 passed; 1 failed; 0 ignored
"""


def panicked(report, directory):
    """What a failed unit test compared stands at the end, in one line."""
    directory.mkdir()
    cargo = executable(directory / "cargo", f"#!/bin/sh\ncat << 'END'\n{CARGO}END\nexit 101\n")
    p = subprocess.run([ROOT / "tests/run", "--no-build", "unit/unit"], env={**os.environ, "CARGO": str(cargo)}, capture_output=True, text=True, timeout=LIMIT)
    end = p.stdout.rsplit("the slowest:", 1)[-1]
    wanted = "panicked at src/lib.rs:1:2: assertion `left == right` failed: the sum left: 3 right: 4\n"
    report.check(p.returncode == 1 and wanted in end and "backtrace" not in p.stdout and end.endswith("1 passed, 1 failed\n"), f"a panic: {p.returncode} {p.stdout}")


def is_running(pid):
    """Whether that process runs; one that has ended and nobody has waited for doesn't."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def killed(report, directory):
    """Who ends the run ends its suites and what they started."""
    write(directory, "endless", """
        child = subprocess.Popen(['sleep', '301'], start_new_session=True)
        open(os.environ['TMPDIR'] + '/../' + 'started.%d' % os.getppid(), 'w').write(str(child.pid))
        time.sleep(300)
    """)
    p = subprocess.Popen([ROOT / "tests/run", "--no-build", "--in", directory, "endless"], stdout=subprocess.PIPE, text=True)
    started = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"started.{p.pid}"
    report.check(until(60, started.exists) and until(60, started.read_text), "the endless suite starts")
    child = int(started.read_text())
    started.unlink()
    p.send_signal(signal.SIGTERM)
    out = p.communicate(timeout=LIMIT)[0]
    report.check(p.returncode == 143 and "ended by SIGTERM" in out, f"killed: {p.returncode} {out}")
    report.check(not is_running(child), "no process of it is left")
    report.check(not list(pathlib.Path(tempfile.gettempdir()).glob("lt.endless.*")), "no file of it is left")


def stale(report, o):
    """A suite takes no program that is missing or older than a source; what it says names both, and what to type."""
    environment = {k: v for k, v in os.environ.items() if k not in ("VARNISHD", built.CHECKED)}
    suite = ROOT / "tests/e2e/tooling/status/run.py"
    with tempfile.TemporaryDirectory() as target:
        environment["CARGO_TARGET_DIR"] = target
        p = subprocess.run([suite], env=environment, capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 1 and "no such program; type `make quick`" in p.stderr, f"missing: {p.stderr}")
        debug = pathlib.Path(target) / "debug"
        debug.mkdir()
        shutil.copy("/bin/true", debug / "varnishd")
        (debug / "lacquer.stamp").touch()
        os.utime(debug / "lacquer.stamp", (1, 1))
        p = subprocess.run([suite], env=environment, capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 1 and " is older than " in p.stderr and "type `make quick`" in p.stderr, f"stale: {p.stderr}")
    p = subprocess.run([suite, "--varnishd", "/nowhere"], env=environment, capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 1 and "/nowhere: no such program" in p.stderr, f"named: {p.stderr}")


def taken(report, o):
    """A port that is taken is named by the server, and the suite's bed passes that on."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        address = "{}:{}".format(*port.getsockname())
        p = subprocess.run([o.varnishd, "-F", "-n", tempfile.mkdtemp(), "-a", address, "-b", "127.0.0.1:1"], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode != 0 and address in p.stderr + p.stdout, f"a taken port: {p.returncode} {p.stdout} {p.stderr}")


def main():
    o = options(__doc__)
    report = Report("workshop")
    with tempfile.TemporaryDirectory() as d:
        faults(report, pathlib.Path(d) / "faults")
        panicked(report, pathlib.Path(d) / "panicked")
        killed(report, pathlib.Path(d) / "killed")
        os.environ["TMPDIR"] = d
        tempfile.tempdir = d
        stale(report, o)
        taken(report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
