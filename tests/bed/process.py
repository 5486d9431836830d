# SPDX-License-Identifier: BSD-2-Clause
"""A program of the bed's own: how it ends; and servers that take over a socket of ours."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess

from .daemon import die_with_parent, tree, workdir
from .leftovers import command
from .report import until

START_LIMIT = 60  # seconds
END_LIMIT = 60


class Process:
    """What is started as `proc`; `dir`, where there is one, goes with it. Use as a context manager."""
    dir = None

    def pids(self):
        """It and everything below it."""
        return tree(self.proc.pid)

    def close(self):
        family = {pid: command(pid) for pid in self.pids()}
        left = lambda: [pid for pid, line in family.items() if line and command(pid) == line]
        self.proc.terminate()
        try:
            self.proc.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        # What it has started may live a little longer, and write to its directory.
        if not until(END_LIMIT, lambda: not left()):
            for pid in left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until(END_LIMIT, lambda: not left())
        # A process that it started meanwhile is in no list and may write a last file while the directory is removed.
        if self.dir and not until(END_LIMIT, self._is_removed):
            raise SystemExit(f"{self.dir}: somebody still writes to it")

    def _is_removed(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        return not os.path.exists(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Handed(Process):
    """A server at `address` that takes a listening socket over, so that no port is guessed. Its `command(listener)` gives words and environment for
    the descriptor of that number."""

    def __init__(self):
        self.dir = workdir()
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            self.address = listener.getsockname()
            listener.set_inheritable(True)
            argv, env = self.command(listener.fileno())
            with open(self.dir / "out", "wb") as out:
                self.proc = subprocess.Popen(argv, env={**os.environ, **env, "PATH": os.environ["PATH"] + ":/usr/sbin"}, stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=out, pass_fds=[listener.fileno()], preexec_fn=die_with_parent)
            # The socket is open already: what counts is that the server has made it its own, of which it tells by a file.
            started = until(START_LIMIT, lambda: self.proc.poll() is not None or (self.dir / "up").exists())
        if not started or self.proc.poll() is not None:
            raise SystemExit(f"{argv[0]} did not start: {(self.dir / 'out').read_text(errors='replace')}")


class Haproxy(Handed):
    """haproxy with a cache of `megabytes` before an origin; `listen` and `server` have further words of these lines, `unless` those of the condition of passed
    requests, `process`, `limits` and `front` lines of its sections global, defaults and frontend."""

    def __init__(self, origin, listen, process=("nbthread 1",), limits=("timeout client 60s",), front=(), unless="", server="", megabytes=64):
        self.origin, self.listen, self.unless, self.server, self.megabytes = origin, listen, unless, server, megabytes
        self.sections = process, limits, front
        super().__init__()

    def command(self, listener):
        host, port = self.origin
        process, limits, front = ("".join(f"\n {line}" for line in lines) for lines in self.sections)
        (self.dir / "h.cfg").write_text(f"""global
 stats socket {self.dir}/up{process}
defaults
 mode http
 timeout server 60s
 timeout connect 5s{limits}
cache c
 total-max-size {self.megabytes}
 max-object-size 1100000
 max-age 86400
frontend f
 bind fd@{listener} {self.listen}{front}
 default_backend b
backend b
 http-request cache-use c {self.unless}
 http-response cache-store c
 server o {host}:{port} {self.server}
""")
        return ["haproxy", "-db", "-f", str(self.dir / "h.cfg")], {}
