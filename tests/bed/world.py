# SPDX-License-Identifier: BSD-2-Clause
"""A machine of a test's own, for commands and configurations that name ports and paths: a network and directories of its own, an origin on
port 8080, a server on 6081. What the book's examples are for."""
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import threading

from .daemon import die_with_parent, tree
from .origin import Origin, head
from . import built
from .report import ROOT, until

CLONE_NEWNS, CLONE_NEWNET, MS_REC, MS_PRIVATE = 0x20000, 0x40000000, 0x4000, 0x40000
BIN = built.directory()
CACHE, PAGE = ("127.0.0.1", 6081), ("127.0.0.1", 6085)
VCL = pathlib.Path("/etc/varnish/default.vcl")
# What the examples of commands find there.
PLAIN = """vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "8080"; }
"""


def why_not():
    """What is missing for a world of its own, if anything is."""
    if os.geteuid() != 0:
        return "needs root, for a network and directories of its own"
    missing = [d for d in ("/etc/varnish", "/var/lib/varnish", "/usr/share") if not pathlib.Path(d).is_dir()]
    return f"there is no {missing[0]}" if missing else ""


def enter():
    """From here on this process and all that it starts have a network and directories of their own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path in ("/etc/varnish", "/var/lib/varnish"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", path], check=True)
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}:/usr/sbin"
    os.environ["MANPAGER"] = "cat"
    VCL.write_text(PLAIN)


class Site:
    """An origin on ports of its own that answers as `model.answer(method, path, fields, body, port)` says, and counts. Answers have their
    number in X-Made."""

    def __init__(self, model, ports=(8080,)):
        self.model, self.made, self.seen, self.lock = model, 0, [], threading.Lock()
        self.origins = [Origin(lambda s, port=port: self.serve(s, port), at=("127.0.0.1", port)) for port in ports]

    def serve(self, s, port):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            wanted = int(fields.get("content-length", 0))
            while len(buf) < wanted and (more := s.recv(65536)):
                buf += more
            body, buf = buf[:wanted], buf[wanted:]
            status, lines, text = self.model.answer(method, path, fields, body, port)
            if path != "/health":
                with self.lock:
                    self.made += 1
                    self.seen.append((method, path, fields, port))
                    lines = [*lines, ("X-Made", str(self.made))]
            data = text.encode() if isinstance(text, str) else text
            top = "".join(f"{n}: {v}\r\n" for n, v in lines)
            length = "" if status == 304 else f"Content-Length: {len(data)}\r\n"
            s.sendall(f"HTTP/1.1 {status} {'OK' if status < 400 else 'No'}\r\n{top}{length}\r\n".encode()
                      + (b"" if method == "HEAD" or status == 304 else data))
            # A probe waits for the end of the connection.
            if fields.get("connection", "").lower() == "close":
                return

    def close(self):
        for origin in self.origins:
            origin.close()


class Server:
    """A varnishd of this book's, started by a command line or with the usual one."""

    def __init__(self, command=None, watch=True):
        words = ["varnishd", "-a", "127.0.0.1:6081", "-f", str(VCL), "-s", "malloc,100m"]
        words += ["--watch", "127.0.0.1:6085"] if watch else []
        self.command = command or " ".join(words)
        self.proc = subprocess.Popen(["bash", "-c", f"exec {self.command} -F"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.said = []
        threading.Thread(target=self._read, daemon=True).start()
        if not until(60, lambda: answers(CACHE) or self.proc.poll() is not None) or self.proc.poll() is not None:
            self.close()
            raise RuntimeError(f"{self.command}: it doesn't serve: {''.join(self.said)[-2000:]}")
        if "6085" in self.command:
            until(60, lambda: listens(PAGE))

    def _read(self):
        for line in self.proc.stdout:
            self.said.append(line.decode(errors="replace"))

    def close(self):
        end(self.proc)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def end(proc, limit=20):
    """Ends a process that was started here, and what it has started."""
    below = tree(proc.pid)
    proc.terminate()
    try:
        proc.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    for pid in below:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    proc.wait()
    until(60, lambda: not listens(CACHE))


def listens(address):
    try:
        socket.create_connection(address, 0.5).close()
        return True
    except OSError:
        return False


def answers(address, path="/"):
    """Whether it gives an answer that isn't its own 503."""
    try:
        with socket.create_connection(address, 1) as s:
            s.settimeout(5)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: up.example\r\nConnection: close\r\n\r\n".encode())
            return s.recv(100).startswith(b"HTTP/1.1 ")
    except OSError:
        return False
