# SPDX-License-Identifier: BSD-2-Clause
"""Tools that follow a log through what happens to it: overrun, a worker that restarts, files that are moved away."""
import os
import signal
import subprocess
import threading

import traffic
from bed.daemon import Varnishd
from bed.report import until

LIMIT = 60  # seconds; only ends a hang


class Follower:
    """A tool that runs; what it writes is gathered as it comes."""

    def __init__(self, argv):
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err = bytearray(), bytearray()
        self.threads = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.proc.stdout, self.out), (self.proc.stderr, self.err))]
        for t in self.threads:
            t.start()

    @staticmethod
    def _read(pipe, into):
        while chunk := os.read(pipe.fileno(), 65536):
            into += chunk

    def sees(self, address, url):
        """Asks for a URL until the tool shows it."""
        def ask():
            traffic.one(address, b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % url)
            return url in self.out
        return until(LIMIT, ask, 0.1)

    def close(self):
        self.proc.send_signal(signal.SIGCONT)
        self.proc.terminate()
        status = self.proc.wait(LIMIT)
        for t in self.threads:
            t.join(LIMIT)
        return status


def overrun(v, tool, what):
    """A tool that was overtaken by the log; whether it saw the beginning, and the log since."""
    f = Follower([str(tool), "-n", str(v.n), *what])
    begun = f.sees(v.address, b"/begin")
    f.proc.send_signal(signal.SIGSTOP)
    # 10 kB of log each; the ring has 2 MB.
    headers = b"".join(b"X-%d: %s\r\n" % (i, b"x" * 240) for i in range(40))
    for _ in range(260):
        traffic.one(v.address, traffic.get(b"/many", more=headers))
    f.proc.send_signal(signal.SIGCONT)
    return f, begun, f.sees(v.address, b"/overrun")


def run(report, varnishd, tools, work):
    with traffic.origin() as origin, Varnishd(varnishd, vcl=traffic.vcl(origin), args=["-l", "2m"], storage=None) as v:
        for tool in tools:
            name = f"{tool.parent} {tool.name}"
            what = ["-i", "ReqURL"] if tool.name == "varnishlog" else ["-F", "%U"]
            for _ in range(3):
                f, begun, goes_on = overrun(v, tool, what)
                # Varnish's own tools may end in an assertion of theirs (vslc_vtx_next) when they are overtaken.
                if str(tool.parent) != "/usr/bin" or b"Assert error in vslc_vtx_next" not in f.err:
                    break
            report.check(begun, f"{name} shows what is new: {bytes(f.err)}")
            report.check(goes_on, f"{name} goes on after an overrun: {bytes(f.err)}")
            # Standard error comes by a pipe of its own.
            report.check(until(LIMIT, lambda: b"Log overrun\n" in f.err and f.err.endswith(b"Log reacquired\n")), f"{name} tells of an overrun: {bytes(f.err)}")
            overruns = f.err.count(b"Log overrun\n")
            f.err.clear()
            v.cli.ask("stop")
            report.check(until(LIMIT, lambda: b"Failed to acquire log: No VSL chunk found (child not started ?)\n" in f.err),
                         f"{name} tells that there is no worker: {bytes(f.err)}")
            v.cli.ask("start")
            until(LIMIT, lambda: "running" in v.cli.ask("status"))
            report.check(f.sees(v.address, b"/restarted"), f"{name} goes on after a restart: {bytes(f.err)}")
            report.check(until(LIMIT, lambda: f.err.startswith(b"Log abandoned (vsl)\n") and f.err.endswith(b"Log reacquired\n")),
                         f"{name} tells of a restart: {bytes(f.err)}")
            report.check(f.close() == 0, f"{name} ends well when it is told to")
            if str(tool.parent) != "/usr/bin":
                report.check(b"\nLog overruns: %d (" % overruns in f.err, f"{name} says at its end how often it was overrun: {bytes(f.err)}")
            rotated(report, v, tool, work)


def rotated(report, v, tool, work):
    """In the background, with a pid file; HUP opens the file again."""
    name = f"{tool.parent} {tool.name}"
    out, pid = work / f"{tool.name}.out", work / f"{tool.name}.pid"
    out.unlink(missing_ok=True)
    what = ["-A", "-i", "ReqURL"] if tool.name == "varnishlog" else ["-F", "%U"]
    subprocess.run([str(tool), "-n", str(v.n), "-D", "-a", "-w", str(out), "-P", str(pid), *what], stdin=subprocess.DEVNULL, timeout=LIMIT)

    def wait(url):
        def ask():
            traffic.one(v.address, b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % url)
            return out.exists() and url in out.read_bytes()
        return until(LIMIT, ask, 0.1)
    try:
        report.check(wait(b"/one"), f"{name} -D writes")
        out.rename(work / "moved")
        number = int(pid.read_text())
        os.kill(number, signal.SIGHUP)
        report.check(wait(b"/two"), f"{name} -D opens its file again")
    finally:
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)
    report.check(until(LIMIT, lambda: not pid.exists()), f"{name} -D removes its pid file")
