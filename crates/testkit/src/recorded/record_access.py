#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes access.txt anew: record_access.py FILE, where nginx, Apache, HAProxy, Squid and Varnish of Debian 12 are installed.

The same requests go to each server over loopback, and each writes all log formats that are read, and some that aren't.
A section of the file begins with `# SERVER FORMAT`.
"""
import http.server
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

# Family of the address, bytes: what browsers, old programs and attackers send.
H = b"Host: site.example\r\nConnection: close\r\n"
REQUESTS = [
    ("v4", b"GET /plain?a=1&b=%20 HTTP/1.1\r\n" + H + b"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nReferer: https://ref.example/p\r\n\r\n"),
    ("v6", b"GET /six HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\nConnection: close\r\nUser-Agent: six/1\r\n\r\n"),
    ("v4", b"GET /quotes?q=\"x\" HTTP/1.1\r\n" + H + b"User-Agent: a \"quoted\" \\ back\x01\xe9\ttab [x]\r\nReferer: \"r\"\r\n\r\n"),
    ("v4", b"GET /agent HTTP/1.1\r\n" + H + b"User-Agent: a \"quoted\" \\ back\xe9\ttab [x]\r\nReferer: https://ref.example/\"r\"\r\n\r\n"),
    ("v4", b"HEAD /empty HTTP/1.1\r\n" + H + b"User-Agent:\r\n\r\n"),
    ("v4", b"GET /old HTTP/1.0\r\n\r\n"),
    ("v4", b"GET http://other.example:81/absolute HTTP/1.1\r\n" + H + b"\r\n"),
    ("v4", b"GET /port HTTP/1.1\r\nHost: SITE.example:8080\r\nConnection: close\r\n\r\n"),
    ("v4", b"GET /forwarded HTTP/1.1\r\n" + H + b"X-Forwarded-For: 192.0.2.7, 198.51.100.9\r\n\r\n"),
    ("v4", b"GET /user HTTP/1.1\r\n" + H + b"Authorization: Basic am9obiBzbWl0aDp4\r\n\r\n"),
    ("v4", b"GET /user HTTP/1.1\r\n" + H + b"Authorization: Basic YSBbYl06eA==\r\n\r\n"),
    ("v4", b"GET /user HTTP/1.1\r\n" + H + b"Authorization: Basic Ong=\r\n\r\n"),
    ("v4", b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n"),
    ("v4", b"GET /bad\x01 HTTP/1.1\r\n" + H + b"\r\n"),
    ("v4", b"GET /a blank HTTP/1.1\r\n" + H + b"\r\n"),
    ("v4", b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n"),
    ("v4", b"GET\r\n\r\n"),
]


def run_all(port, port6):
    for family, head in REQUESTS:
        with socket.create_connection(("127.0.0.1", port) if family == "v4" else ("::1", port6), timeout=5) as s:
            s.sendall(head)
            s.settimeout(2)
            try:
                while s.recv(65536):
                    pass
            except (TimeoutError, OSError):
                pass


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"hello")

    do_HEAD = do_OPTIONS = do_GET

    def log_message(self, *args):
        pass


def port():
    with socket.socket(socket.AF_INET6) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", 0))
        return s.getsockname()[1]


def wait(p, process):
    for _ in range(100):
        if process.poll() is not None:
            sys.exit(f"ended: {process.args}")
        try:
            socket.create_connection(("127.0.0.1", p), timeout=1).close()
            return
        except OSError:
            time.sleep(.1)


def h2(p):
    subprocess.run(["curl", "-sk", "--http2", "-A", "h2/1", f"https://127.0.0.1:{p}/two", "-H", "Host: site.example"], capture_output=True)


def tls(d):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d / "k.pem", "-out", d / "c.pem", "-subj", "/CN=site.example", "-days", "30"], capture_output=True, check=True)
    (d / "ck.pem").write_text((d / "c.pem").read_text() + (d / "k.pem").read_text())


def nginx(d, back):
    p, q = port(), port()
    (d / "n.conf").write_text(f"""
daemon off; pid {d}/n.pid; error_log {d}/n.err; user root;
events {{}}
http {{
 client_body_temp_path {d}/b; proxy_temp_path {d}/pt; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
 log_format vhost '$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"';
 log_format http_host '$http_host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"';
 log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
 log_format forwarded '$http_x_forwarded_for - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"';
 log_format iso '$remote_addr - $remote_user [$time_iso8601] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"';
 log_format msec '$remote_addr $msec $request_time $host "$request" $status $body_bytes_sent';
 server {{ listen {p}; listen [::]:{p} ipv6only=on; listen {q} ssl http2; server_name site.example;
  ssl_certificate {d}/c.pem; ssl_certificate_key {d}/k.pem;
  access_log {d}/combined combined; access_log {d}/vhost vhost; access_log {d}/main main; access_log {d}/forwarded forwarded; access_log {d}/iso iso; access_log {d}/http_host http_host; access_log {d}/msec msec;
  location / {{ return 200 hello; }} }} }}
""")
    s = subprocess.Popen(["nginx", "-c", d / "n.conf"], stderr=subprocess.DEVNULL)
    wait(p, s)
    run_all(p, p)
    h2(q)
    time.sleep(.3)
    s.terminate()
    s.wait()
    return {"nginx-1.22 " + n: (d / n).read_bytes() for n in ("combined", "vhost", "http_host", "main", "forwarded", "iso", "msec")}


def apache(d, back):
    p, q = port(), port()
    m = "/usr/lib/apache2/modules"
    (d / "htdocs").mkdir()
    mods = "mpm_event authz_core ssl http2 rewrite socache_shmcb authn_core authn_file auth_basic authz_user".split()
    (d / "a.conf").write_text("".join(f"LoadModule {x}_module {m}/mod_{x}.so\n" for x in mods) + f"""
ServerRoot {d}
PidFile {d}/a.pid
ErrorLog {d}/a.err
ServerName site.example
User www-data
Group www-data
Listen {p}
Listen {q} https
DocumentRoot {d}/htdocs
<Directory {d}/htdocs>
Require all granted
</Directory>
Protocols h2 http/1.1
LogFormat "%v:%p %h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" vhost_combined
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
LogFormat "%h %l %u %t \\"%r\\" %>s %O" common
LogFormat "%v %h %l %u %t \\"%r\\" %>s %b" vcommon
LogFormat "%{{X-Forwarded-For}}i %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" forwarded
LogFormat "%{{X-Forwarded-For}}i %h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" forwarded_first
LogFormat "%h %l %u [%{{%d/%b/%Y:%T}}t] \\"%r\\" %>s %b" nozone
""" + "".join(f"CustomLog {d}/a_{n} {n}\n" for n in ("vhost_combined", "combined", "common", "vcommon", "forwarded", "forwarded_first", "nozone")) + f"""
<Location /user>
AuthType Basic
AuthName x
AuthUserFile {d}/pw
Require valid-user
</Location>
<VirtualHost *:{q}>
SSLEngine on
SSLCertificateFile {d}/c.pem
SSLCertificateKeyFile {d}/k.pem
</VirtualHost>
""")
    password = subprocess.run(["openssl", "passwd", "-apr1", "x"], capture_output=True, text=True).stdout
    (d / "pw").write_text("".join(f"{user}:{password}" for user in ("john smith", "a [b]")))
    s = subprocess.Popen(["apache2", "-X", "-f", d / "a.conf"], stderr=sys.stderr)
    wait(p, s)
    run_all(p, p)
    h2(q)
    time.sleep(.3)
    s.terminate()
    s.wait()
    return {"apache-2.4 " + n: (d / ("a_" + n)).read_bytes() for n in ("vhost_combined", "combined", "common", "vcommon", "forwarded", "forwarded_first", "nozone")}


def haproxy(d, back):
    out = {}
    for name, opt in (("clf", "option httplog clf"), ("httplog", "option httplog"), ("httpslog", "option httpslog")):
        for fmt in ("raw", "rfc3164", "rfc5424"):
            if name != "clf" and fmt != "raw":
                continue
            p, q = port(), port()
            (d / "h.cfg").write_text(f"""
global
  log stdout format {fmt} local0
defaults
  mode http
  {opt}
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend f
  log global
  bind 127.0.0.1:{p}
  bind [::1]:{p}
  bind 127.0.0.1:{q} ssl crt {d}/ck.pem alpn h2
  capture request header Host len 30
  capture request header User-Agent len 60
  default_backend b
backend b
  server s 127.0.0.1:{back}
""")
            with open(d / "h.out", "wb") as log:
                s = subprocess.Popen(["haproxy", "-db", "-f", d / "h.cfg"], stdout=log, stderr=subprocess.DEVNULL)
                wait(p, s)
                run_all(p, p)
                h2(q)
                time.sleep(.3)
                s.terminate()
                s.wait()
            out[f"haproxy-2.6 {name} {fmt}"] = (d / "h.out").read_bytes()
    return out


def squid(d, back):
    p = port()
    (d / "sq").mkdir()
    (d / "sq").chmod(0o777)
    names = ("squid", "common", "combined", "referrer", "useragent")
    (d / "s.conf").write_text(f"""
http_port 127.0.0.1:{p} accel defaultsite=site.example vhost
http_port [::1]:{p} accel defaultsite=site.example vhost
cache_peer 127.0.0.1 parent {back} 0 no-query originserver
http_access allow all
pid_filename {d}/sq/pid
cache_log {d}/sq/cache.log
shutdown_lifetime 1 seconds
cache_mem 8 MB
strip_query_terms off
""" + "".join(f"access_log stdio:{d}/sq/{n} logformat={n}\n" for n in names))
    s = subprocess.Popen(["squid", "-N", "-f", d / "s.conf"], stderr=subprocess.DEVNULL)
    wait(p, s)
    run_all(p, p)
    time.sleep(1)
    s.terminate()
    s.wait()
    return {"squid-5.7 " + n: (d / "sq" / n).read_bytes() for n in names}


def varnish(d, back):
    p = port()
    (d / "s.vcl").write_text(f'vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{back}"; }}')
    s = subprocess.Popen(["varnishd", "-F", "-n", d / "v", "-a", f"127.0.0.1:{p}", "-a", f"[::1]:{p}", "-f", d / "s.vcl"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(p, s)
    formats = {"default": [], "host": ["-F", '%{Host}i %h %l %u %t "%r" %s %b "%{Referer}i" "%{User-agent}i" %{Varnish:handling}x']}
    logs = [subprocess.Popen(["varnishncsa", "-n", d / "v", "-w", d / f"v_{n}", *words]) for n, words in formats.items()]
    time.sleep(1)
    run_all(p, p)
    time.sleep(2)
    for process in (*logs, s):
        process.terminate()
        process.wait()
    return {f"varnish-7.1 {n}": (d / f"v_{n}").read_bytes() for n in formats}


def main(target):
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory, open(target, "wb") as out:
        d = pathlib.Path(directory)
        # Workers run as other users.
        d.chmod(0o777)
        tls(d)
        for record in (nginx, apache, haproxy, squid, varnish):
            for name, text in record(d, origin.server_port).items():
                out.write(b"# " + name.encode() + b"\n" + text)


if __name__ == "__main__":
    main(sys.argv[1])
