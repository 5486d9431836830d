#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One call to the system fails while the server starts: each of all calls of its processes, in turn. The server serves and is whole then, or ends with
a status and a reason. It leaves no process and no file, and the next start on the same directory succeeds.

Every 24th call is tried, with --full all of them. It needs a C compiler."""
import collections
import concurrent.futures
import contextlib
import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, cli_of, die_with_parent, directory, workdir
from bed.http import get
from bed.preload import library
from bed.report import Report, options, until
from bed.sites import SOURCE, Sites

LIMIT = 60  # seconds; it only ends what hangs
SAMPLE = 24
SLOW = 20  # seconds from which on a start is noted with its time
HANGS = 15  # seconds that a client waits for a response
VCL = 'vcl 4.1;\nbackend default none;\nsub vcl_recv { return (synth(200)); }\n'
# The error that each call gives.
ERRORS = {call: error for error, calls in {
    "EMFILE": "open socket socketpair pipe2 eventfd epoll_create1 signalfd memfd_create dup accept4",
    "ENOSPC": "mkdir ftruncate64 fallocate posix_fallocate write writev pwrite64 epoll_ctl",
    "EIO": "rename unlink unlinkat rmdir statx fsync fdatasync lseek64 read readv pread64",
    "EPERM": "chmod fchmod chown fchown", "ENOLCK": "flock", "EBUSY": "dup2", "EADDRNOTAVAIL": "bind", "EADDRINUSE": "listen", "ECONNREFUSED": "connect",
    "ENOBUFS": "getsockname getsockopt setsockopt send sendmsg", "ECONNRESET": "recv recvmsg", "EAGAIN": "fork posix_spawnp pthread_create",
    "ENOMEM": "execvp fexecve mmap mmap64"}.items() for call in calls.split()}
# Sites that no kernel lets fail, or whose failure is tokio's or the standard library's own: expression, reason.
LEFT_OUT = {
    r" (read|write) anon_inode:": "a counter of events in memory",
    r" (write|dup2) pipe:": "output to a pipe: the error has nowhere to go",
}
# Files that may be left: expression, reason.
MAY_BE_LEFT = {
    r"^varnishd flock (/pid|/n/_\.pid)$": "a file that couldn't be locked may be another server's",
    r"^varnishd unlink _\.testfile$": "it could not be removed; the next start does",
    r"^varnishd (chmod|chown|rename) \./_\.new$": "the next start removes it",
}


class Server:
    """A server that may be started on one directory again and again."""

    def __init__(self, program, lib):
        self.dir = workdir()
        self.n, self.output = self.dir / "n", []
        (self.dir / "test.vcl").write_text(VCL)
        self.sites = Sites(lib, self.dir)
        self.argv = [program, "-F", "-n", str(self.n), "-f", str(self.dir / "test.vcl"), "-a", "127.0.0.1:0", "-P", str(self.dir / "pid"), "-s", "malloc,10m",
                     "-p", "feature=+no_coredump"]

    def start(self):
        """Starts it and waits until it serves or has ended; whether it serves."""
        self.output, self.hung = [], False
        self.proc = subprocess.Popen(self.argv, env=self.sites.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     preexec_fn=die_with_parent)
        self.reader = threading.Thread(target=lambda: self.output.extend(self.proc.stdout), daemon=True)
        self.reader.start()
        ended = lambda: self.proc.poll() is not None
        until(LIMIT, lambda: ended() or "Child launched OK\n" in self.output, step=0.005)
        until(LIMIT, lambda: ended() or self.response() == 200, step=0.005)
        return not ended()

    def response(self):
        """The status of a response; 0 while there is no server. One that doesn't respond hangs."""
        try:
            cli = cli_of(self.n)
            if cli is None:
                return 0
            with contextlib.closing(cli):
                _, host, port = cli.ask("debug.listen_address").split()
            response = get((host, int(port)), "/", timeout=HANGS)
            self.hung |= response.end == "timeout"
            return response.status
        except (CliError, OSError, ValueError):
            return 0

    def faults(self):
        """What is missing of a server that serves."""
        found = ["a client hung"] * self.hung
        for file in (self.dir / "pid", self.n / "_.pid"):
            if not file.exists() or file.read_text() != str(self.proc.pid):
                found.append(f"{file.name} is wrong")
        # Between two workers there are no counters of a worker.
        if not until(LIMIT, lambda: {"MGT.uptime", "MAIN.uptime"} <= self.counters()):
            found.append("counters are missing")
        return found

    def counters(self):
        program = pathlib.Path(self.argv[0]).with_name("varnishstat")
        out = subprocess.run([program, "-1", "-n", str(self.n)], capture_output=True, text=True, check=False).stdout
        return {line.split()[0] for line in out.splitlines() if line.split()}

    def end(self):
        """Ends it and waits until it is gone; its status, and the processes that it left."""
        if self.proc.poll() is None:
            self.proc.terminate()
        try:
            status = self.proc.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            status = "none: it hung"
            self.proc.wait()
        until(LIMIT, lambda: not self.running())
        left = self.running()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.reader.join(LIMIT)
        self.proc.stdout.close()
        return status, left

    def running(self):
        mark, found = f"SITES={self.sites.control}".encode(), []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def listing(self):
        """The files below its directory, with # for what is random in their names."""
        return sorted({re.sub(r"[0-9a-f]{4,}|\d+", "#", str(path.relative_to(self.dir))) for path in self.dir.rglob("*")})

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def one(report, o, lib, clean, site, nth):
    """The n-th call of a site fails; how the server took it."""
    s, what, begin = Server(o.varnishd, lib), f"{site} #{nth}", time.monotonic()
    try:
        s.sites.watch(site, nth, getattr(errno, ERRORS[site.split(" ")[1]]))
        serves = s.start()
        s.sites.off()
        met = s.sites.met()
        faults = s.faults() if serves else []
        status, left = s.end()
        said = "".join(s.output)
        report.check(not faults, f"{what}: it serves, but {faults}: {said}")
        report.check(not left, f"{what}: {left} are left")
        # 64: a worker ended, the manager says why, and the next worker serves.
        wanted = [0] + [64] * bool(re.search(r"died signal=6: Panic: |not responding to CLI, killed it", said)) if serves else [2]
        # The standard library ends a process whose first thread finds no memory for signals.
        wanted += [-signal.SIGABRT] * ("alternative stack" in said)
        report.check(status in wanted, f"{what}: status {status}: {said}")
        report.check(serves or len(said.split()) > 3, f"{what}: no reason: {said}")
        files = [file for file in s.listing() if file not in clean]
        report.check(not files or any(re.search(known, site) for known in MAY_BE_LEFT), f"{what}: {files} are left")
        again = s.start()
        status, left = s.end()
        report.check(again and status == 0 and not left, f"{what}: the next start: {status}, {left}: {''.join(s.output)}")
        files = [file for file in s.listing() if file not in clean]
        report.check(not files, f"{what}: after the next start {files} are left")
        if (took := time.monotonic() - begin) > SLOW:
            report.note(f"{what} took {took:.0f} s")
        return "not reached" if not met else "serves" if serves else "ends"
    finally:
        s.close()


def sites(report, o, lib):
    """What a start without a fault leaves, and the sites that it passes."""
    s = Server(o.varnishd, lib)
    try:
        s.sites.watch()
        report.check(s.start(), f"it starts: {''.join(s.output)}")
        s.sites.off()
        s.end()
        return s.listing(), s.sites.noted()
    finally:
        s.close()


def main():
    o = options(__doc__, site=dict(default="", help="only sites that match this expression"))
    report = Report("sites")
    with directory() as d:
        lib = library(SOURCE, d / "sites.so")
        if lib is None:
            report.note("no C compiler: nothing failed")
            report.check(True, "")
            return report.close()
        clean, noted = sites(report, o, lib)
        wanted = [(site, nth) for site, count in noted.items() for nth in range(1, count + 1)
                  if re.search(o.site, site) and not any(re.search(known, site) for known in LEFT_OUT)]
        report.check(o.site or len(wanted) > 300, f"{len(wanted)} sites are passed")
        chosen = wanted if o.full or o.site else wanted[::SAMPLE]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            ends = collections.Counter(pool.map(lambda job: one(report, o, lib, clean, *job), chosen))
        # Threads pass some sites in one start and not in the next.
        report.check(ends["not reached"] <= len(chosen) / 2, f"{ends['not reached']} of {len(chosen)} sites weren't reached again")
        report.note(f"{len(chosen)} of {len(wanted)} calls failed: " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
