# SPDX-License-Identifier: BSD-2-Clause
"""Who is asked over HTTP/2: ours, Debian's varnishd, nginx, haproxy and h2o, each with the same origin; in clear or over TLS.

The others show that a case is right, and what they do goes into README.md beside ours. h2o has no cache.
"""
import os
import pathlib
import shutil
import socket
import subprocess

from bed.daemon import Varnishd, die_with_parent, tree, workdir
from bed.origin import Nginx
from bed.report import until

START_LIMIT = 20  # seconds
FEATURE = ["-p", "feature=+http2"]


class Ours(Varnishd):
    """`address` speaks HTTP/2 in clear by prior knowledge, or over TLS when there is a leaf."""

    def __init__(self, program, origin, leaf=None, args=(), **kw):
        self.files = workdir()
        if leaf:
            conf = self.files / "tls.conf"
            conf.write_text(f'frontend = "[127.0.0.1]:0"\npem-file = "{leaf.pem}"\nalpn-protos = "h2,http/1.1"\n')
            args = ["-a", "clear=127.0.0.1:0", "-A", str(conf), *args]
        super().__init__(program, [*([] if leaf else FEATURE), *args], backend=None if "vcl" in kw else origin, **kw)
        if leaf:
            self.address = next(address for name, address in self.addresses.items() if name != "clear")

    def close(self):
        super().close()
        shutil.rmtree(self.files, ignore_errors=True)


class NginxPeer(Nginx):
    def __init__(self, origin, leaf=None):
        host, port = origin
        tls = f"ssl_certificate {leaf.chain}; ssl_certificate_key {leaf.key};" if leaf else ""
        super().__init__(f"""{tls} http2_max_requests 1000000; keepalive_requests 1000000; client_max_body_size 100m;
    location / {{ proxy_pass http://{host}:{port}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_request_buffering off; proxy_cache z; proxy_cache_key $http_host$request_uri; }}""",
                         http="proxy_cache_path /dev/shm/lacquer-h2-cache levels=1:2 keys_zone=z:8m max_size=256m use_temp_path=off;",
                         listen="ssl http2" if leaf else "http2")

    def pids(self):
        return tree(self.proc.pid)

    def close(self):
        super().close()
        shutil.rmtree("/dev/shm/lacquer-h2-cache", ignore_errors=True)


class Handed:
    """A server that takes a listening socket over, so that no port is guessed."""

    def __init__(self, origin, leaf=None):
        self.dir, self.origin, self.leaf = workdir(), origin, leaf
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            self.address = listener.getsockname()
            listener.set_inheritable(True)
            argv, env = self.command(listener.fileno())
            with open(self.dir / "out", "wb") as out:
                self.proc = subprocess.Popen(argv, env={**os.environ, **env, "PATH": os.environ["PATH"] + ":/usr/sbin"}, stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=out, pass_fds=[listener.fileno()], preexec_fn=die_with_parent)
            started = until(START_LIMIT, lambda: self.proc.poll() is not None or self.is_up())
        if not started or self.proc.poll() is not None:
            raise SystemExit(f"{argv[0]} did not start: {(self.dir / 'out').read_text(errors='replace')}")

    def is_up(self):
        # The socket is open already: what counts is that the server has made it its own.
        return True

    def pids(self):
        return tree(self.proc.pid)

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


class Haproxy(Handed):
    def command(self, listener):
        host, port = self.origin
        (self.dir / "h.cfg").write_text(f"""global
 nbthread 1
 stats socket {self.dir}/up
defaults
 mode http
 timeout client 60s
 timeout server 60s
 timeout connect 5s
cache c
 total-max-size 64
 max-object-size 1100000
 max-age 86400
frontend f
 bind fd@{listener} {f'ssl crt {self.leaf.pem} alpn h2,http/1.1' if self.leaf else 'proto h2'}
 default_backend b
backend b
 http-request cache-use c
 http-response cache-store c
 server o {host}:{port}
""")
        return ["haproxy", "-db", "-f", str(self.dir / "h.cfg")], {}

    def is_up(self):
        return (self.dir / "up").exists()


class H2o(Handed):
    def command(self, listener):
        host, port = self.origin
        tls = f"\n  ssl:\n    certificate-file: {self.leaf.chain}\n    key-file: {self.leaf.key}" if self.leaf else ""
        (self.dir / "h2o.yaml").write_text(f"""num-threads: 1
pid-file: {self.dir}/up
error-log: {self.dir}/err
user: root
listen:
  host: 127.0.0.1
  port: {self.address[1]}{tls}
hosts:
  default:
    paths:
      /:
        proxy.reverse.url: http://{host}:{port}/
        proxy.preserve-host: ON
""")
        return ["h2o", "-c", str(self.dir / "h2o.yaml")], {"SERVER_STARTER_PORT": f"127.0.0.1:{self.address[1]}={listener}"}

    def is_up(self):
        return (self.dir / "up").exists()


PEERS = {"varnish": Ours, "nginx": NginxPeer, "haproxy": Haproxy, "h2o": H2o}


def start(o, origin, leaf=None, args=(), **kw):
    """The server that the options name; `args` are of ours and varnishd's alone."""
    if o.peer in (None, "varnish"):
        return Ours("/usr/sbin/varnishd" if o.peer else o.varnishd, origin, leaf, args, **kw)
    return PEERS[o.peer](origin, leaf)


def process(server):
    """What must not change while a suite runs: the process that has the traffic. Others have it in the first that they start, if not in themselves."""
    return server.worker() if isinstance(server, Ours) else server.pids()[:2]


def is_here(name):
    return bool(shutil.which({"varnish": "varnishd"}.get(name, name), path=os.environ["PATH"] + ":/usr/sbin:/sbin"))
