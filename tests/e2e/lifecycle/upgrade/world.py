# SPDX-License-Identifier: BSD-2-Clause
"""What upgrades happen to: an origin whose answers follow from the path, a VCL that purges and bans, and clients that ask all the
time and know what the answer has to be."""
import collections
import pathlib
import socket
import threading

from bed.http import Client, get
from bed.origin import head
from bed.report import until

LIMIT = 60  # seconds; it only ends what hangs
BODY = bytes(range(256)) * 4
LARGE = bytes(range(256)) * 16384  # 4 MB: more than the buffers of a connection hold

VCL = """vcl 4.1;
import std;
backend b { .host = "%s"; .port = "%d"; .probe = { .url = "/probe"; .interval = 0.2s; .window = 3; .threshold = 2; } }
backend other { .host = "%s"; .port = "%d"; }
sub vcl_init { if (std.file_exists("%s")) { return (fail("told to")); } }
sub vcl_recv {
    set req.backend_hint = b;
    if (req.url == "/other") { set req.backend_hint = other; }
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("req.url == " + req.url); return (synth(200)); }
    if (req.url == "/pipe") { return (pipe); }
    if (req.method == "POST" || req.url ~ "^/pass") { return (pass); }
}
sub vcl_pipe {
    set bereq.http.Connection = req.http.Connection;
    set bereq.http.Upgrade = req.http.Upgrade;
}
"""


FETCHED = collections.Counter()  # what was asked of the origin
VERSIONS = collections.Counter()  # of paths that change


def body_of(path):
    if path.startswith("/change"):
        return b"%d " % VERSIONS[path] + BODY
    return LARGE if path.startswith("/large") else path.encode() + b" " + BODY


def serve(s):
    """Answers with `body_of` the path; an echo behind /pipe; a probe's connection is closed, which it waits for."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        if path == "/pipe":
            s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            while d := s.recv(4096):
                s.sendall(d)
            return
        left = int(fields.get("content-length", 0))
        while len(buf) < left:
            buf += s.recv(65536)
        FETCHED[path] += method == "GET"
        body, buf = body_of(path), buf[left:]
        s.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if path == "/probe":
            return


class Load:
    """Clients that ask until told to stop; what went wrong is in `wrong`."""

    def __init__(self, address, keeping, single):
        self.address, self.over, self.wrong, self.done, self.lock = address, threading.Event(), [], 0, threading.Lock()
        self.threads = [threading.Thread(target=run, args=(n,), daemon=True)
                        for run, count in ((self.keep, keeping), (self.once, single), (self.change, 2)) for n in range(count)]
        for t in self.threads:
            t.start()

    def note(self, path, r, how):
        with self.lock:
            self.done += 1
            if not r.whole() or r.body != body_of(path):
                self.wrong.append(f"{how} {path}: {r} {r.reason}")

    def paths(self, n):
        count = 0
        while not self.over.is_set():
            count += 1
            kind = ("/hit", "/hit", "/hit", "/pass", f"/miss{n}-")[count % 5]
            yield f"{kind}{count % 50 if kind == '/hit' else count}"

    def keep(self, n):
        """A kept connection, as long as the server keeps it."""
        client = None
        for path in self.paths(n):
            try:
                client = client or Client(self.address, LIMIT)
                r = client.request(path)
            except OSError as e:
                with self.lock:
                    self.wrong.append(f"kept {path}: {e}")
                client = None
                continue
            self.note(path, r, "kept")
            if not r.whole() or (r.get("Connection") or "").lower() == "close":
                client.close()
                client = None

    def once(self, n):
        for path in self.paths(100 + n):
            self.note(path, get(self.address, path, timeout=LIMIT, **({"method": "POST", "body": b"x"} if n % 2 else {})), "single")

    def change(self, n):
        """Purges or bans on a kept connection; whoever asks then gets what is new."""
        path, client = f"/change{n}", None
        while not self.over.is_set():
            try:
                client = client or Client(self.address, LIMIT)
                before = client.request(path)
                client = None if before.get("Connection") == "close" else client
                VERSIONS[path] += 1
                client = client or Client(self.address, LIMIT)
                done = client.request(path, method=("PURGE", "BAN")[n % 2])
                client = None if done.get("Connection") == "close" else client
                after = get(self.address, path, timeout=LIMIT)
            except OSError as e:
                with self.lock:
                    self.wrong.append(f"change {path}: {e}")
                client = None
                continue
            with self.lock:
                self.done += 3
                if not (before.whole() and done.whole() and after.whole() and after.body == body_of(path)):
                    self.wrong.append(f"change {path}: {before} {done} {done.fields} {after} {after.body[:8]} not {body_of(path)[:8]}")
            self.over.wait(0.02)

    def end(self):
        self.over.set()
        for t in self.threads:
            t.join(LIMIT)


def gone(pid):
    return not pathlib.Path(f"/proc/{pid}/root").exists()


def cli_pids(cli):
    words = cli.ask("pid").split()
    return int(words[1]), int(words[3]) if len(words) > 3 else None


def vcl_for(origin, flag="/nonexistent/flag"):
    """A VCL that doesn't start while there is a file of the flag's name."""
    return VCL % (*origin.address, *origin.address, flag)


def ready(report, v):
    """A backend with a probe begins sick."""
    report.check(until(LIMIT, lambda: get(v.address, "/hit").whole()), "the backend's probe")
