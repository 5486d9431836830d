# SPDX-License-Identifier: BSD-2-Clause
"""What all groups of this suite use: the program under test, an origin that remembers, logs."""
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import pathlib
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import built
from bed.daemon import die_with_parent
from bed.origin import Origin, head

GENUINE = shutil.which("varnishd", path="/usr/sbin:/usr/bin")
SBIN = "/usr/bin:/usr/sbin"
STAMP = "[10/Oct/2000:13:55:%02d -0700]"
LIMIT = 120


class Tool:
    """The program under test. `measures`: the machine is quiet, so that rates and times are checked, too."""

    def __init__(self, program, varnishd, measures):
        self.program, self.varnishd, self.measures = program, varnishd, measures

    @staticmethod
    def of(options, measures=False):
        """As the command line of a suite names it, or as it was built."""
        return Tool(options.lacquer or built.program("lacquer"), options.varnishd, measures)

    def run(self, *args, stdin=None, limit=LIMIT):
        """(status, output, errors)"""
        p = subprocess.run([self.program, "replay", *map(str, args)], input=stdin, capture_output=True, timeout=limit)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def json(self, *args, stdin=None, limit=LIMIT):
        status, out, err = self.run(*args, "--format", "json", stdin=stdin, limit=limit)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")

    def start(self, *args, **more):
        return subprocess.Popen([self.program, "replay", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=die_with_parent, **more)


class Ear:
    """An origin that keeps what it was asked, and answers as it is told."""

    def __init__(self, answer=None):
        self.heard, self.lock = [], threading.Lock()
        self.answer = answer or (lambda path: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        self.connections = 0
        self.origin = Origin(self.serve)
        self.address = "%s:%d" % self.origin.address

    def serve(self, s):
        with self.lock:
            self.connections += 1
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            with self.lock:
                self.heard.append((time.monotonic(), method, path, fields))
            if (answer := self.answer(path)) is None:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            s.sendall(answer)
            if fields.get("connection") == "close" or b"Connection: close" in answer:
                return

    def asked(self):
        return [(method, fields.get("host"), path) for _, method, path, fields in self.heard]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.origin.close()


def log_of(n, hosts, paths, seed):
    """Lines as varnishncsa writes them, popular paths often."""
    draw = random.Random(seed)
    for i in range(n):
        host, path = draw.randrange(hosts), int(draw.paretovariate(0.7)) % paths
        method = "HEAD" if i % 50 == 7 else "GET"
        yield (f'10.0.{i % 256}.1 - - {STAMP % (i % 60)} "{method} http://www{host}.test/p/{path}?q HTTP/1.1" 200 123 '
               f'"http://r.test/" "Agent {i % 5}"')


def stat(program, n):
    tool = shutil.which("varnishstat", path=SBIN)
    text = subprocess.run([tool, "-n", n, "-1", "-f", "MAIN.client_req", "-f", "MAIN.cache_*", "-f", "MAIN.sess_conn", "-f", "MAIN.s_pass"],
                          capture_output=True, text=True, timeout=30).stdout
    return {line.split()[0][5:]: int(line.split()[1]) for line in text.splitlines() if line.strip()}
