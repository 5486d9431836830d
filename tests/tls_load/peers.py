# SPDX-License-Identifier: BSD-2-Clause
"""Others that are asked in the same bed, each with as many threads or processes as ours, and three seconds for a handshake where it can be told: nginx,
haproxy; hitch (with a varnishd behind it, in `tests/tls/served.py`). What they make of an attack is what the bed costs, and what can be expected.
"""
import os
import pathlib
import shutil
import socket
import subprocess

from bed.daemon import die_with_parent, tree, workdir
from bed.origin import Nginx
from bed.report import until
from served import Hitch

START_LIMIT = 20  # seconds
CONNECTIONS = 9000


class NginxPeer(Nginx):
    def __init__(self, made, origin, seconds):
        leaf, (host, port) = made.default, origin
        super().__init__(f"""ssl_certificate {leaf.chain}; ssl_certificate_key {leaf.key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:8m;
    client_header_timeout {seconds}s; keepalive_timeout 30s; keepalive_requests 1000000;
    location / {{ proxy_pass http://{host}:{port}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_cache z; proxy_cache_key $http_host$request_uri; }}""",
                         http="proxy_cache_path /dev/shm/lacquer-tls-cache levels=1:2 keys_zone=z:8m max_size=64m use_temp_path=off;",
                         listen="ssl", workers=os.cpu_count(), connections=CONNECTIONS)
        self.sealed = self.address

    def pids(self):
        return tree(self.proc.pid)

    def worker(self):
        return self.proc.pid

    def close(self):
        super().close()
        shutil.rmtree("/dev/shm/lacquer-tls-cache", ignore_errors=True)


class Haproxy:
    def __init__(self, made, origin, seconds):
        self.dir, (host, port) = workdir(), origin
        # The socket is ours and is taken over, so that no port is guessed.
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            self.sealed = listener.getsockname()
            listener.set_inheritable(True)
            (self.dir / "h.cfg").write_text(f"""global
 nbthread {os.cpu_count()}
 maxconn {CONNECTIONS}
 stats socket {self.dir}/up
defaults
 mode http
 timeout client {seconds}s
 timeout http-request {seconds}s
 timeout http-keep-alive 30s
 timeout server 60s
 timeout connect 5s
cache c
 total-max-size 64
 max-age 86400
frontend f
 bind fd@{listener.fileno()} ssl crt {made.default.pem} ssl-min-ver TLSv1.2
 default_backend b
backend b
 http-request cache-use c
 http-response cache-store c
 server o {host}:{port}
""")
            with open(self.dir / "out", "wb") as out:
                self.proc = subprocess.Popen(["haproxy", "-db", "-f", str(self.dir / "h.cfg")], env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"},
                                             stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=[listener.fileno()], preexec_fn=die_with_parent)
            up = pathlib.Path(self.dir / "up")
            if not until(START_LIMIT, lambda: self.proc.poll() is not None or up.exists()) or self.proc.poll() is not None:
                raise SystemExit(f"haproxy did not start: {(self.dir / 'out').read_text(errors='replace')}")

    def pids(self):
        return tree(self.proc.pid)

    def worker(self):
        return self.proc.pid

    def close(self):
        self.proc.terminate()
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


PEERS = {"nginx": NginxPeer, "haproxy": Haproxy, "hitch": None}


def start(name, varnishd, made, origin, seconds):
    """One of them, asked at `sealed`. hitch gives a handshake 30 s, whatever it is told."""
    if name == "hitch":
        return Hitch(varnishd, made.served, args=["-p", "timeout_idle=30"], backend=origin)
    return PEERS[name](made, origin, seconds)
