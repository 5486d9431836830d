# SPDX-License-Identifier: BSD-2-Clause
"""Places and circumstances in which a start is easily forgotten: closed directories, low limits, a root without rights, a plain user."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from bed.daemon import cli_of, tree
from bed.http import get
from bed.report import until

LIMIT = 60
# What a container that drops all capabilities does to root.
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def limited(option, value):
    return ["sh", "-c", f'ulimit {option} {value}; exec "$0" "$@"']


class Place:
    """A directory that its owner alone may enter, below another one, with a varnishd in it."""

    def __init__(self, program, before=(), args=(), mode=0o700, owner=None, inside=False):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="lacquer-place."))
        self.dir = self.top / "closed"
        self.dir.mkdir()
        if inside:
            (self.dir / "n").mkdir(mode=0o700)
        for path in (self.top, self.dir):
            path.chmod(mode)
            if owner:
                shutil.chown(path, *owner)
        self.n, self.cli, self.pid = self.dir / "n", None, 0
        line = [*before, program, "-n", self.n, "-a", "127.0.0.1:0", "-b", "none", "-P", self.dir / "pid", *args]
        try:
            self.done = subprocess.run([str(w) for w in line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired as e:
            self.done = subprocess.CompletedProcess(line, -1, "", f"no end: {e.output}")
        if self.done.returncode == 0:
            self.cli = cli_of(self.n)
            self.pid = int(self.cli.ask("pid").split()[1])

    def said(self):
        return f"status {self.done.returncode}: {(self.done.stdout + self.done.stderr)[-300:]!r}"

    def serves(self):
        """Whether it runs, and answers: 503, as the backend is none."""
        if not self.cli or not until(LIMIT, lambda: "running" in self.cli.ask("status")):
            return False
        _, host, port = self.cli.ask("debug.listen_address").split()
        return get((host, int(port)), "/x", timeout=LIMIT).status == 503

    def counters(self):
        p = subprocess.run(["varnishstat", "-n", str(self.n), "-1"], capture_output=True, text=True, timeout=LIMIT)
        return p.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.top, self.dir):
            path.chmod(0o700)
        if self.cli:
            self.cli.close()
        if self.pid:
            below = tree(self.pid)
            os.kill(self.pid, signal.SIGTERM)
            if not until(LIMIT, lambda: not any(pathlib.Path(f"/proc/{p}/exe").exists() for p in below)):
                for p in below:
                    os.kill(p, signal.SIGKILL)
        shutil.rmtree(self.top, ignore_errors=True)


def starts(report, program, what, **place):
    with Place(program, **place) as p:
        report.check(p.serves(), f"{what}: does not start and answer: {p.said()}")
        report.check("MAIN.uptime" in p.counters(), f"{what}: no counters")
        return p.done.stderr


def closed_later(report, program, **place):
    """The way to the working directory is closed while it runs."""
    with Place(program, mode=0o755, **place) as p:
        if not report.check(p.serves(), f"closed later: does not start: {p.said()}"):
            return
        p.dir.chmod(0o700)
        p.top.chmod(0o000)
        worker = tree(p.pid)[-1]
        os.kill(worker, signal.SIGKILL)
        report.check(until(LIMIT, lambda: tree(p.pid)[-1] not in (worker, p.pid)) and p.serves(),
                     "closed later: no worker in the place of the killed one")
        for command in ("stop", "start"):
            status, body = p.cli.ask_raw(command)
            report.check(status == 200, f"closed later: {command}: {status} {body}")
        report.check(p.serves(), "closed later: no answer after stop and start")
        vcl = 'vcl 4.1; backend late { .host = "127.0.0.1"; }'
        status, body = p.cli.ask_raw(f"vcl.inline more << EOF\n{vcl}\nEOF")
        report.check(status == 200, f"closed later: vcl.inline: {status} {body}")
        p.top.chmod(0o700)
        report.check("VBE.more.late.req" in p.counters(), "closed later: no counters of a VCL loaded meanwhile")


def program_for_owner(report, program):
    """The program's file may be executed by root alone."""
    real = pathlib.Path(program).resolve()
    with tempfile.TemporaryDirectory(prefix="lacquer-own.") as d:
        own = pathlib.Path(d) / "varnishd"
        shutil.copyfile(real, own)
        own.chmod(0o700)
        starts(report, str(own), "a program for its owner alone")


def all_places(report, program):
    for option, value in (("-v", 2000000), ("-t", 20), ("-c", 0)):
        starts(report, program, f"ulimit {option} {value}", before=limited(option, value))
    if os.geteuid() != 0:
        return report.note("closed directories, root without capabilities: left out, need root")
    starts(report, program, "below closed directories")
    starts(report, program, "a closed working directory", inside=True)
    starts(report, program, "an umask of 077", before=["sh", "-c", 'umask 077; exec "$0" "$@"'])
    with tempfile.TemporaryDirectory(prefix="lacquer-store.") as d:
        starts(report, program, "a store's file in a closed directory", args=["-s", f"file,{d}/store,10m"])
    starts(report, program, "a plain user in directories of its own", before=NOBODY, owner=("nobody", "nogroup"))
    closed_later(report, program)
    program_for_owner(report, program)
    said = starts(report, program, "root without capabilities", before=POWERLESS)
    report.check("Warning: no jail: root lacks CAP_CHOWN" in said, f"root without capabilities: no warning: {said!r}")
    with Place(program, before=POWERLESS, args=["-j", "unix"]) as p:
        report.check(p.done.returncode in (2, 255) and "Unix Jail: root lacks CAP_CHOWN" in p.done.stderr,
                     f"-j unix without capabilities: {p.said()}")
    return None
