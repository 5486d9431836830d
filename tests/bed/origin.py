# SPDX-License-Identifier: BSD-2-Clause
"""Origins: a small threaded one with a handler in Python, and a real nginx."""
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from .daemon import die_with_parent, workdir
from .process import Process
from .report import until


class Origin:
    """Accepts on a free loopback port (or at `at`); each connection runs `serve(sock)` in a thread of its own until that returns."""

    def __init__(self, serve, backlog=512, at=("127.0.0.1", 0)):
        self.listener = socket.create_server(at, backlog=backlog)
        self.address = self.listener.getsockname()
        self.serve, self.open, self.lock = serve, set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            with self.lock:
                self.open.add(s)
            threading.Thread(target=self._one, args=(s,), daemon=True).start()

    def _one(self, s):
        try:
            self.serve(s)
        except (OSError, ValueError):
            pass  # the peer went away, or sent what this small origin can't read
        finally:
            s.close()
            with self.lock:
                self.open.discard(s)

    def close(self):
        try:
            # Else the thread that waits in accept() would take a connection from whoever gets the descriptor's number next.
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            for s in self.open:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def head(s, buf):
    """Reads one request head; gives (method, path, fields, rest) or None at the end."""
    while b"\r\n\r\n" not in buf:
        d = s.recv(65536)
        if not d:
            return None
        buf += d
    top, rest = buf.split(b"\r\n\r\n", 1)
    lines = top.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    return method, path, {n.strip().lower(): v.strip() for n, _, v in (x.partition(":") for x in lines[1:])}, rest


def simple(answer):
    """A `serve` for Origin that keeps connections: `answer(method, path, fields)` gives (extra field lines, body)."""
    def serve(s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            left = int(fields.get("content-length", 0)) - len(buf)
            buf = buf[int(fields.get("content-length", 0)):]
            while left > 0 and (d := s.recv(min(left, 65536))):
                left -= len(d)
            extra, body = answer(method, path, fields)
            top = f"HTTP/1.1 200 OK\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
            s.sendall(top if method == "HEAD" else top + body)
    return serve


class Nginx(Process):
    """A real nginx, one worker unless said otherwise, with `server` as the text of its server block, `listen` as further words of its listener and `root` as
    the directory it serves.

    The listening socket is ours and is handed to nginx as it hands sockets to its own successor, so that no port is guessed.
    """

    def __init__(self, server, http="", program=None, listen="", workers=1, connections=4096):
        self.dir = workdir()
        self.root = self.dir / "root"
        self.root.mkdir()
        program = program or shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = listener.getsockname()
        listener.set_inheritable(True)
        conf = self.dir / "nginx.conf"
        conf.write_text(f"""daemon off; worker_processes {workers}; pid {self.dir}/pid; error_log {self.dir}/error.log warn;
events {{ worker_connections {connections}; }}
http {{
    default_type application/octet-stream; access_log off; client_body_temp_path {self.dir}/b; proxy_temp_path {self.dir}/p;
    fastcgi_temp_path {self.dir}/f; uwsgi_temp_path {self.dir}/u; scgi_temp_path {self.dir}/s; {http}
    server {{ listen 127.0.0.1:{self.address[1]} backlog=1024 {listen}; root {self.root}; {server} }}
}}
""")
        env = dict(os.environ, NGINX=f"{listener.fileno()};")
        self.proc = subprocess.Popen([program, "-p", str(self.dir), "-c", str(conf)], env=env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     pass_fds=[listener.fileno()], preexec_fn=die_with_parent)
        if not until(60, lambda: (self.dir / "pid").exists() or self.proc.poll() is not None) or self.proc.poll() is not None:
            raise SystemExit("nginx did not start: " + pathlib.Path(self.dir / "error.log").read_text())
        listener.close()
