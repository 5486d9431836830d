#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tools find the running server by themselves, or say at once which ones run and what to type.

Runs in namespaces of its own: no other process is seen, and the usual directory, /var/lib/varnish, is empty.
"""
import grp
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import built
from bed.daemon import Varnishd, directory
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60
INSIDE = "FIND_INSIDE"  # in the environment within the namespaces: the real user id outside of them
GENUINE = "/usr/sbin/varnishd"
STATE = "/var/lib/varnish"
VCL = "vcl 4.1; backend default none;"
NOBODY = 65534


def enter():
    """Starts this suite again, where it is alone."""
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.environ[INSIDE] = str(os.geteuid())
    inner = f'test ! -d {STATE} || mount -t tmpfs -o mode=755 none {STATE}; "$@"; exit $?'
    os.execvp("unshare", ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inner, "sh",
                          sys.executable, *sys.argv])


class Cases:
    def __init__(self, report, o):
        self.r, self.o = report, o
        self.is_root = os.environ[INSIDE] == "0"

    def type(self, *words, env=None, user=None):
        """Types a command: its status, its output, its errors. As `user`, in no other groups than that user's own."""
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        p = subprocess.run([built.program(words[0]), *words[1:]], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
                           env={**os.environ, **(env or {})}, cwd="/", check=False, **who)
        return p.returncode, p.stdout, p.stderr

    def refused(self, command, *wanted, unwanted=(), **how):
        """The command is refused at once (a dot is printed for each second of waiting), in these words."""
        status, _, err = self.type(*command.split(), **how)
        self.r.check(status != 0 and not err.startswith(".") and all(w in err for w in wanted) and not any(w in err for w in unwanted),
                     f"{command}: {status} {err!r}: wanted {wanted}, not {unwanted}")

    def done(self, command, *wanted, **how):
        status, out, err = self.type(*command.split(), **how)
        self.r.check(status == 0 and not err.startswith(".") and all(w in out + err for w in wanted), f"{command}: {status} {err!r} {out[:300]!r}")

    def nobody_runs(self):
        for command in ("varnishstat -1", "varnishlog -d", "varnishncsa -d", "varnishtop -1", "varnishadm ping", "lacquer status", "lacquer explain /",
                        "lacquer memory", "lacquer munin"):
            self.refused(command, "is it running?", f"{STATE}/varnishd", unwanted=("Running here",))

    def the_only_one(self):
        """The first page of the book, and what else an operator types."""
        with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"hello"))) as origin, \
                Varnishd(self.o.varnishd, backend=origin.address) as v:
            self.r.check(get(v.address, "/").whole(), "served")
            taken = f"using the only running server: -n {v.n}\n"
            host, port = v.address
            for command in (f"lacquer explain http://{host}:{port}/", "varnishadm param.set default_ttl 77", "lacquer status", "varnishstat -1", "varnishlog -d",
                            "varnishncsa -d", "varnishtop -1", "varnishadm ping", "lacquer memory"):
                self.done(command, taken)
            status, out, err = self.type("lacquer", "doctor", "--only", "server")
            self.r.check(str(v.n) in out + err and status in (0, 1), f"doctor: {status} {out} {err}")
            self.done("varnishadm ping", "PONG", env={"VARNISH_DEFAULT_N": str(v.n)})
            self.refused("varnishadm ping", "No server in /nonexistent", f"-n {v.n}", env={"VARNISH_DEFAULT_N": "/nonexistent"})
            for tool in ("varnishadm -n /nonexistent ping", "varnishstat -1 -n /nonexistent", "lacquer status -n /nonexistent",
                         "lacquer doctor -n /nonexistent", "lacquer talkers -n /nonexistent"):
                status, out, err = self.type(*tool.split())
                self.r.check("No server in /nonexistent" in err and f"-n {v.n}" in err and not err.startswith("."), f"{tool}: {status} {out} {err}")

    def two_of_them(self):
        other = GENUINE if os.access(GENUINE, os.X_OK) else self.o.varnishd
        with Varnishd(self.o.varnishd, vcl=VCL) as one, Varnishd(other, vcl=VCL) as two:
            lines = [f"\n  -n {v.n}  (pid {v.proc.pid}, user root)" for v in (one, two)]
            for command in ("varnishadm ping", "varnishstat -1", "varnishlog -d", "lacquer status", "lacquer watch"):
                self.refused(command, "Several servers run here", *lines)
            self.done(f"varnishadm -n {two.n} ping", "PONG")

    def one_directory_for_two(self):
        with Varnishd(self.o.varnishd, vcl=VCL) as v:
            second = subprocess.run([self.o.varnishd, "-F", "-n", str(v.n), "-a", "127.0.0.1:0", "-b", "none"], capture_output=True, timeout=LIMIT, check=False)
            self.r.check(second.returncode != 0, "a directory has one server")
            self.done("varnishadm ping", "PONG", f"-n {v.n}")

    def killed(self):
        """What a server that was killed leaves behind is none."""
        with directory() as d:
            v = Varnishd(self.o.varnishd, vcl=VCL)
            left = d / "n"
            for pid in reversed(v.pids()):
                os.kill(pid, signal.SIGSTOP)
            shutil.copytree(v.n, left, symlinks=True)
            v.kill()
            self.refused(f"varnishstat -1 -n {left}", "No server in", unwanted=("Running here",))
            (left / "_.pid").write_text(str(os.getpid()))
            self.refused(f"varnishadm -n {left} ping", "No server in", unwanted=("Running here",))

    def not_started(self):
        """A server that could not start is no running one."""
        with directory() as d:
            for wrong in (("-T", "nosuch.invalid:1"), ("-T", "192.0.2.1:1"), ("-S", str(d / "none" / "secret"))):
                n = d / "n"
                start = subprocess.run([self.o.varnishd, "-F", "-n", str(n), "-a", "127.0.0.1:0", "-b", "none", *wrong], capture_output=True, timeout=LIMIT, check=False)
                self.r.check(start.returncode != 0, f"{wrong}: started")
                for tool in ("varnishadm -n {} ping", "varnishstat -1 -n {}", "lacquer status -n {}"):
                    self.refused(tool.format(n), "No server in", unwanted=("Running here",))

    def upgraded(self):
        with Varnishd(self.o.varnishd, vcl=VCL) as v:
            self.done(f"lacquer upgrade -n {v.n}")
            self.done("varnishadm ping", "PONG", f"-n {v.n}")

    def waits(self):
        """With -t a tool waits for a server of which there is no sign."""
        with directory() as d:
            tool = subprocess.Popen([built.program("varnishstat"), "-1", "-t", str(LIMIT), "-n", str(d / "n"), "-f", "MGT.uptime"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.r.check(tool.stderr.read(1) == b".", "it waits, and shows it")
            server = subprocess.Popen([self.o.varnishd, "-F", "-n", str(d / "n"), "-a", "127.0.0.1:0", "-b", "none"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            out, err = tool.communicate(timeout=LIMIT)
            self.r.check(tool.returncode == 0 and b"MGT.uptime" in out, f"{tool.returncode} {out} {err}")
            server.terminate()
            server.wait(LIMIT)

    def not_allowed(self):
        if not self.is_root:
            return self.r.note("not_allowed: needs root")
        with Varnishd(self.o.varnishd, vcl=VCL) as v:
            gid = os.stat(v.n / "_.vsm_mgt").st_gid
            type_this = f"sudo usermod -aG {grp.getgrgid(gid).gr_name} nobody" if gid else "sudo"
            for command in (f"varnishstat -1 -n {v.n}", "varnishlog -d", "lacquer status", "varnishadm ping"):
                self.refused(command, "Permission denied: you (nobody) may not read this server", type_this, unwanted=("is it running",), user=NOBODY)
            v.n.chmod(0o700)
            self.refused("varnishstat -1", f"{v.n} belongs to root", "Type sudo", unwanted=("is it running",), user=NOBODY)

    def of_strangers(self):
        """Root's tools list another user's server, and don't take it; what only pretends to be a server isn't listed."""
        if not self.is_root:
            return self.r.note("of_strangers: needs root")
        with directory() as d:
            os.chown(d, NOBODY, NOBODY)
            as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            server = subprocess.Popen([self.o.varnishd, "-F", "-n", str(d / "n"), "-a", "127.0.0.1:0", "-b", "none"], **as_nobody)
            self.r.check(until(LIMIT, lambda: self.type("varnishadm", "-n", str(d / "n"), "ping")[0] == 0), "theirs runs")
            self.refused("varnishadm ping", "No server in", f"-n {d}/n  (pid {server.pid}, user nobody)")
            server.terminate()
            server.wait(LIMIT)
            (d / "forged").mkdir()
            os.chown(d / "forged", NOBODY, NOBODY)
            script = f"printf %s $$ > {d}/forged/pid; ln -s pid {d}/forged/_.pid; read line"
            forged = subprocess.Popen(["varnishd", "-c", script, "-n", str(d / "forged")], executable="/bin/sh", stdin=subprocess.PIPE, **as_nobody)
            self.r.check(until(LIMIT, lambda: (d / "forged/_.pid").is_symlink()), "forged")
            self.refused("varnishadm ping", "No server in", unwanted=("forged",))
            forged.communicate(timeout=LIMIT)


def main():
    if INSIDE not in os.environ:
        enter()
    o = options(__doc__)
    report = Report("find")
    cases = Cases(report, o)
    report.run([cases.nobody_runs, cases.the_only_one, cases.two_of_them, cases.one_directory_for_two, cases.killed, cases.not_started, cases.upgraded, cases.waits,
                cases.not_allowed, cases.of_strangers])
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
