# SPDX-License-Identifier: BSD-2-Clause
"""Others that are asked in the same bed, each with as many threads or processes as ours, and three seconds for a handshake where it can be told: nginx,
haproxy; hitch (with a varnishd behind it, in `tests/e2e/protocols/tls/served.py`). What they make of an attack is what the bed costs, and what can be expected.
"""
import os
import shutil

from bed.origin import Nginx
from bed.process import Haproxy
from served import Hitch

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

    def worker(self):
        return self.proc.pid

    def close(self):
        super().close()
        shutil.rmtree("/dev/shm/lacquer-tls-cache", ignore_errors=True)


class HaproxyPeer(Haproxy):
    def __init__(self, made, origin, seconds):
        limits = (f"timeout client {seconds}s", f"timeout http-request {seconds}s", "timeout http-keep-alive 30s")
        super().__init__(origin, f"ssl crt {made.default.pem} ssl-min-ver TLSv1.2", (f"nbthread {os.cpu_count()}", f"maxconn {CONNECTIONS}"), limits)
        self.sealed = self.address

    def worker(self):
        return self.proc.pid


PEERS = {"nginx": NginxPeer, "haproxy": HaproxyPeer, "hitch": None}


def start(name, varnishd, made, origin, seconds):
    """One of them, asked at `sealed`. hitch gives a handshake 30 s, whatever it is told."""
    if name == "hitch":
        return Hitch(varnishd, made.served, args=["-p", "timeout_idle=30"], backend=origin)
    return PEERS[name](made, origin, seconds)
