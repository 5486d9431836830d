# SPDX-License-Identifier: BSD-2-Clause
"""The servers of this bed, each with the limits that its manual and its users recommend. All believe the PROXY protocol, cache for 60 s in 16 MB, and pass
pages of users who are logged in."""
import os
import shutil

from bed.daemon import Varnishd
from bed.origin import Nginx
from bed.process import Haproxy

PATH = "/usr/sbin:/usr/bin"
STORE = "malloc,16m"
JUDGED = "lacquer --bots=on"  # the server that has to keep the promises of docs/bots.md
VCL = """vcl 4.1;
%s
backend default { .host = "%s"; .port = "%d"; .first_byte_timeout = 30s; %s }
sub vcl_recv {
    %s
    if (req.url ~ "^/[si]/" || req.http.Cookie !~ "session=") { unset req.http.Cookie; }
}
"""


def varnish(program, args=(), imports="", limits="", recv=""):
    vcl = lambda origin: VCL % (imports, *origin, limits, recv)
    return lambda origin: Varnishd(program, ["-a", "127.0.0.1:0,PROXY", *args], vcl=vcl(origin), storage=STORE)


THROTTLE = 'if (vsthrottle.is_denied(client.identity, 50, 10s)) { return (synth(429, "Too Many Requests")); }'


def nginx(http="", location=""):
    """`http` and `location` are lines for these blocks."""
    cache = "proxy_cache_path cache levels=1:2 keys_zone=z:16m max_size=16m use_temp_path=off;"
    real = "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;"
    logged_in = "map $uri:$http_cookie $user { ~^/p/.*session= 1; default 0; }"
    return lambda origin: Nginx(f"""location / {{ proxy_pass http://{origin[0]}:{origin[1]}; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_read_timeout 30s; proxy_cache z; proxy_cache_bypass $user; proxy_no_cache $user; {location} }}""", f"{cache} {real} {logged_in} {http}", listen="proxy_protocol")


NGINX_HTTP = "limit_req_zone $binary_remote_addr zone=r:10m rate=5r/s; limit_conn_zone $binary_remote_addr zone=c:10m; limit_req_status 429; limit_conn_status 429;"
NGINX_LOCATION = "limit_req zone=r burst=20 nodelay; limit_conn c 10; proxy_cache_lock on; proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;"


def haproxy(front=(), server=""):
    more = {"front": front, "unless": "unless { req.cook(session) -m found } { path_beg /p/ }", "server": server, "megabytes": 16}
    return lambda origin: Haproxy(origin, "accept-proxy", ("maxconn 9000",), ("timeout client 30s", "timeout queue 10s"), **more)


HAPROXY_FRONT = (
    "stick-table type ip size 200k expire 30s store http_req_rate(10s),conn_cur",
    "http-request track-sc0 src",
    "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 50 }",
    "http-request deny deny_status 429 if { sc_conn_cur(0) gt 20 }",
)


def servers(ours, with_peers, learning):
    """{name: function that starts it before an origin's address}; `learning` is for bots_learning, in seconds."""
    found = {"lacquer": varnish(ours), JUDGED: varnish(ours, ["--bots=on", "-p", f"bots_learning={learning}"])}
    if not with_peers:
        return found
    genuine = "/usr/sbin/varnishd"
    if os.access(genuine, os.X_OK):
        found["varnishd"] = varnish(genuine)
        found["varnishd, limits"] = varnish(genuine, imports="import vsthrottle;", limits=".max_connections = 20;", recv=THROTTLE)
    if shutil.which("nginx", path=PATH):
        found["nginx"] = nginx()
        found["nginx, limits"] = nginx(NGINX_HTTP, NGINX_LOCATION)
    if shutil.which("haproxy", path=PATH):
        found["haproxy"] = haproxy()
        found["haproxy, limits"] = haproxy(HAPROXY_FRONT, "maxconn 20 maxqueue 200")
    return found
