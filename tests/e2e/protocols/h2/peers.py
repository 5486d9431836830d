# SPDX-License-Identifier: BSD-2-Clause
"""Who is asked over HTTP/2: ours, Debian's varnishd, nginx, haproxy and h2o, each with the same origin; in clear or over TLS.

The others show that a case is right, and what they do goes into README.md beside ours. h2o has no cache.
"""
import os
import shutil

from bed.daemon import Varnishd, workdir
from bed.origin import Nginx
from bed.process import Handed, Haproxy

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

    def close(self):
        super().close()
        shutil.rmtree("/dev/shm/lacquer-h2-cache", ignore_errors=True)


class HaproxyPeer(Haproxy):
    def __init__(self, origin, leaf=None):
        super().__init__(origin, f"ssl crt {leaf.pem} alpn h2,http/1.1" if leaf else "proto h2")


class H2o(Handed):
    def __init__(self, origin, leaf=None):
        self.origin, self.leaf = origin, leaf
        super().__init__()

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


PEERS = {"varnish": Ours, "nginx": NginxPeer, "haproxy": HaproxyPeer, "h2o": H2o}


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
