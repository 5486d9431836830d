#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer migrate` beside a genuine nginx: the same requests get the same answers, from the same origins, kept or not.

A configuration runs first as nginx's own; then nginx moves to where --origin says, and what was made of the configuration stands in its place, started by
the command line that was written. So it is with squid and with Apache; nobody is let in whom Apache by itself keeps out.
With --full 40 drawn configurations run beside each of Apache and squid instead of 2.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[3]), str(pathlib.Path(__file__).resolve().parent)]
import apache
import apache_drawn
import beside
import compared
import nginx
import squid
import varnish
from bed import world
from bed.daemon import die_with_parent
from bed.http import get
from bed.report import Report, until

LIMIT = 60
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
LACQUER = world.BIN / "lacquer"
HTTP, OWN, TLS = ("127.0.0.1", 80), ("127.0.0.1", 8080), ("127.0.0.1", 443)

# Two sites, one of which has all kinds of locations; two applications and nginx's own files behind them.
CONFIGURATION = """
worker_processes 1; daemon off; master_process off; pid %(dir)s/pid; error_log %(dir)s/error.log;
events { worker_connections 512; }
http {
    access_log off; client_body_temp_path %(dir)s/b; proxy_temp_path %(dir)s/p; fastcgi_temp_path %(dir)s/f; uwsgi_temp_path %(dir)s/u; scgi_temp_path %(dir)s/s;
    proxy_cache_path %(dir)s/cache keys_zone=site:1m max_size=64m inactive=10m;
    upstream app { server 127.0.0.1:9001; server 127.0.0.1:9002 backup; }
    include %(dir)s/sites/*.conf;
}
"""
SITE = """
server {
    listen %(listen)s default_server;
    server_name example.com www.example.com;
    root %(dir)s/www;
    location / {
        proxy_pass http://app;
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_cache site;
        proxy_cache_valid 200 301 5m;
        proxy_cache_valid 404 1m;
        proxy_cache_bypass $cookie_nocache $arg_nocache;
        proxy_no_cache $http_x_private;
        add_header X-Cache-Status $upstream_cache_status;
    }
    location = /exact { return 302 https://other.example/; }
    location /admin { proxy_pass http://127.0.0.1:9002; }
    location ^~ /static/ { proxy_pass http://127.0.0.1:9002/files/; proxy_cache site; proxy_cache_valid any 1m; expires 1h; }
    location ~* \\.(png|css)$ { }
    location ~ ^/api/v\\d+/ { proxy_pass http://app; proxy_hide_header X-Secret; }
    location /long/ { proxy_pass http://app; proxy_cache site; proxy_ignore_headers Cache-Control Expires Set-Cookie; proxy_cache_valid 200 5m;
                      proxy_cache_key "$host$uri"; }
}
server {
    listen %(listen)s;
    server_name *.shop.example ~^old\\d+\\.example$;
    if ($http_user_agent ~* "badbot") { return 403; }
    location / { proxy_pass http://127.0.0.1:9002; proxy_set_header Host $http_host; proxy_cache site; proxy_cache_valid 200 1m; }
    location /gone { return 410; }
}
server { listen %(listen)s; server_name moved.example; return 301 http://example.com$request_uri; }
"""
# Host, path, further fields, method. Each is asked for twice.
ASKED = [
    ("example.com", "/", {}, "GET"), ("www.example.com", "/", {}, "GET"), ("nobody.example", "/other", {}, "GET"),
    ("example.com", "/page?a=1", {}, "GET"), ("example.com", "/page?a=2", {}, "GET"), ("example.com", "/", {"Cookie": "x=1"}, "GET"),
    ("example.com", "/bypass", {"Cookie": "nocache=1"}, "GET"), ("example.com", "/bypass2?nocache=1", {}, "GET"), ("example.com", "/bypass3?nocache=0", {}, "GET"),
    ("example.com", "/private", {"X-Private": "1"}, "GET"), ("example.com", "/exact", {}, "GET"), ("example.com", "/exact?x", {}, "GET"),
    ("example.com", "/exactly", {}, "GET"), ("example.com", "/admin/users", {}, "GET"), ("example.com", "/admin/a.png", {}, "GET"),
    ("example.com", "/static/a.png", {}, "GET"), ("example.com", "/static/b?c", {}, "GET"), ("example.com", "/file.css", {}, "GET"), ("example.com", "/FILE.CSS", {}, "GET"),
    ("example.com", "/api/v2/items", {}, "GET"), ("example.com", "/api/vx/items", {}, "GET"), ("example.com", "/missing", {}, "GET"),
    ("example.com", "/nostore", {}, "GET"), ("example.com", "/cookie", {}, "GET"), ("example.com", "/error", {}, "GET"), ("example.com", "/said", {}, "GET"),
    ("example.com", "/long/nostore?x=1", {}, "GET"), ("example.com", "/long/nostore?x=2", {}, "GET"), ("example.com", "/long/cookie", {}, "GET"),
    ("example.com", "/", {}, "POST"), ("example.com", "/posted", {}, "POST"), ("example.com", "/", {}, "HEAD"),
    ("a.shop.example", "/", {}, "GET"), ("b.shop.example", "/", {}, "GET"), ("old7.example", "/", {}, "GET"), ("oldx.example", "/", {}, "GET"),
    ("a.shop.example", "/gone/x", {}, "GET"), ("a.shop.example", "/", {"User-Agent": "BadBot/1"}, "GET"), ("moved.example", "/deep?x=1", {}, "GET"),
]

class Application:
    """What both origins do: a path says which kind of answer it is."""

    def answer(self, method, path, fields, _body, port):
        lines = [("X-Port", str(port)), ("X-Host", fields.get("host", "")), ("X-Path", path), ("X-Secret", "1")]
        if "missing" in path:
            return 404, lines, "no"
        if "error" in path:
            return 500, lines, "no"
        if "nostore" in path:
            lines.append(("Cache-Control", "no-store"))
        if "said" in path:
            lines.append(("Cache-Control", "max-age=60"))
        if "cookie" in path:
            lines.append(("Set-Cookie", "x=1"))
        return 200, lines, f"{method} {path}"


class Nginx:
    def __init__(self, conf):
        self.proc = subprocess.Popen([NGINX, "-c", str(conf)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def up(self, address):
        return until(120, lambda: world.listens(address))

    def close(self):
        self.proc.terminate()
        self.proc.wait(20)


def ask(site, everything):
    """What each request got, twice: status, what an origin saw, whether it was asked."""
    found = []
    for host, path, fields, method in everything:
        both = []
        for _ in range(2):
            before = len(site.seen)
            answer = get(HTTP, path, list(fields.items()), method=method, host=host, body=b"x" if method == "POST" else None)
            asked = [(port, seen["host"], url) for _, url, seen, port in site.seen[before:]]
            both.append({"status": answer.status, "asked": asked, "location": answer.get("Location"), "secret": answer.get("X-Secret"),
                         "from": (answer.get("X-Port"), answer.get("X-Path")), "body": answer.body if answer.status == 200 else None,
                         "control": answer.get("Cache-Control"), "cookie": answer.get("Set-Cookie"), "status_field": answer.get("X-Cache-Status")})
        found.append(both)
    return found


def write(work, listen):
    (work / "sites").mkdir(exist_ok=True)
    (work / "www").mkdir(exist_ok=True)
    os.chmod(work, 0o755)
    for name in ("file.css", "FILE.CSS"):
        (work / "www" / name).write_text("a { }")
    values = {"dir": work, "listen": listen}
    (work / "nginx.conf").write_text(CONFIGURATION % values)
    (work / "sites/one.conf").write_text(SITE % values)
    return work / "nginx.conf"


def beside_nginx(report, work):
    conf = write(work, "80")
    site = world.Site(Application(), (9001, 9002))
    nginx = Nginx(conf)
    try:
        report.check(nginx.up(HTTP), "nginx serves by itself")
        theirs = ask(site, ASKED)
    finally:
        nginx.close()
    p = subprocess.run([LACQUER, "migrate", "nginx", str(conf), "--out", str(work / "new")], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 0, f"all of it has its counterpart: {p.returncode} {p.stderr}")
    report.check("one.conf" in p.stderr and "let this server listen on 127.0.0.1:8080" in p.stderr, f"what nginx serves itself is told of: {p.stderr}")
    nginx = Nginx(write(work, "127.0.0.1:8080"))
    arguments = (work / "new/varnishd.args").read_text().strip()
    try:
        report.check(nginx.up(OWN), "nginx serves its own on another port")
        server = subprocess.Popen(["bash", "-c", f"exec varnishd -F {arguments}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  preexec_fn=die_with_parent)
        try:
            if not report.check(until(120, lambda: world.listens(HTTP)), f"varnishd {arguments} serves"):
                server.terminate()
                report.note(server.communicate(timeout=20)[0].decode()[-1500:])
                return
            ours = ask(site, ASKED)
        finally:
            world.end(server)
    finally:
        nginx.close()
        site.close()
    for wanted, got, asked in zip(theirs, ours, ASKED):
        host, path, fields, method = asked
        for number, (one, other) in enumerate(zip(wanted, got)):
            compare(report, f"{method} {host}{path} {fields or ''}, time {number + 1}", one, other)


def compare(report, what, theirs, ours):
    same = ("status", "location", "secret", "body", "control", "from")
    for key in same:
        one, other = theirs[key], ours[key]
        if key == "location" and one and other:
            # nginx makes the same of a relative one.
            one, other = (re.sub(r"^http://[^/]*", "", v) for v in (one, other))
        report.check(one == other, f"{what}: {key} is {other}, nginx's {one}")
    # Pictures that nginx serves itself aren't seen by the applications, in either.
    report.check(theirs["asked"] == ours["asked"], f"{what}: the origin was asked {ours['asked']}, by nginx {theirs['asked']}")


def refusals(report, work):
    """What has no counterpart is refused with its file and line; the status says so; JSON has the same."""
    conf = work / "refused.conf"
    conf.write_text("http {\n  limit_req zone=b;\n  server {\n    location / { proxy_pass http://127.0.0.1:1; frobnicate on; }\n  }\n}\n")
    p = subprocess.run([LACQUER, "migrate", "nginx", str(conf)], capture_output=True, text=True, timeout=LIMIT)
    for place in (f"{conf}:2: refused: limit_req", f"{conf}:4: refused: frobnicate"):
        report.check(place in p.stderr and p.returncode == 1, f"{place}: {p.returncode} {p.stderr}")
    p = subprocess.run([LACQUER, "migrate", "nginx", str(conf), "--format", "json"], capture_output=True, text=True, timeout=LIMIT)
    told = json.loads(p.stdout)
    report.check(sorted(n["line"] for n in told["notes"] if n["refused"]) == [2, 4] and told["vcl"].startswith("vcl 4.1;"), f"as JSON: {p.stdout[:500]}")
    for words, said in ((["nginx", "/nonexistent"], "/nonexistent"), (["ngnix", str(conf)], "is \"nginx\" meant?"), (["nginx"], "which file?"),
                        (["nginx", str(conf), "--origin", "x"], "HOST:PORT is wanted")):
        p = subprocess.run([LACQUER, "migrate", *words], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 2 and said in p.stderr and not p.stdout, f"{words}: {p.returncode} {p.stderr}")


# The directives of mod_cache, in all the sections that Apache has.
APACHE = """Listen 80
CacheStaleOnError on
CacheIgnoreHeaders Set-Cookie
<VirtualHost *:80>
ServerName one.example
<IfModule mod_cache.c>
CacheEnable disk /
CacheDisable /private
</IfModule>
</VirtualHost>
<VirtualHost *:80>
ServerName two.example:80
ServerAlias *.two.example
<Location "/c">
CacheEnable disk
CacheDefaultExpire 60
</Location>
<LocationMatch "\\.css$">
CacheDisable on
</LocationMatch>
</VirtualHost>
"""


def stock(report, work):
    """The files that the packages come with, and Apache's sections: what comes of them loads here and in a genuine varnishd."""
    os.chmod(work, 0o755)
    own = work / "apache.conf"
    own.write_text(APACHE)
    files = [("nginx", "/etc/nginx/nginx.conf"), ("apache", "/etc/apache2/apache2.conf"), ("squid", "/etc/squid/squid.conf"), ("apache", str(own))]
    for number, (kind, name) in enumerate(files):
        if not os.path.exists(name):
            report.note(f"{name} isn't here")
            continue
        out = work / f"stock{number}"
        told = beside.migrate(kind, name, out)
        report.check(told.returncode in (0, 1), f"{name}: {told.stderr}")
        p = subprocess.run([LACQUER, "vcl", "check", str(out / "default.vcl")], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 0, f"{name}: `lacquer vcl check` takes the VCL: {p.stdout}{p.stderr}")
        refused = beside.genuine(out, work)
        report.check(not refused, f"{name}: a genuine varnishd takes the VCL: {refused}")


def main():
    if not os.access(LACQUER, os.X_OK):
        sys.exit(f"{LACQUER}: no such program (run `make build`)")
    report = Report("migrate")
    with tempfile.TemporaryDirectory() as d:
        work = pathlib.Path(d)
        refusals(report, work)
        stock(report, work)
        varnish.run(report, work / "varnish")
        compared.run(report, work / "compared")
        missing = world.why_not() or ("" if NGINX else "nginx isn't here")
        if missing:
            report.note(f"nothing is compared with nginx: {missing}")
        else:
            world.enter()
            beside_nginx(report, work)
            nginx.run(report, work)
            if apache.PROGRAM:
                apache.run(report, work / "apache")
                apache_drawn.run(report, work / "drawn", apache.PROGRAM)
            else:
                report.note("nothing is compared with Apache: Apache isn't here")
            if squid.PROGRAM:
                squid.run(report, work / "squid")
                squid.stale(report, work / "squid")
            else:
                report.note("nothing is compared with squid: squid isn't here")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
