#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the records of this directory anew: record.py DIR FILE, where DIR has varnishd, varnishadm and varnishlog.

The same requests go to whichever server that is, under one VCL. Records of the CLI and for debugging are left out.
"""
import http.server
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

VCL = """vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; .port = "@PORT@"; }
backend probed {
  .host = "127.0.0.1"; .port = "@PORT@";
  .probe = { .url = "/health"; .interval = 0.5s; .window = 1; .threshold = 1; .initial = 0; }
}
backend dead { .host = "127.0.0.1"; .port = "@DEAD@"; .connect_timeout = 1s; }
sub vcl_recv {
  if (req.url == "/synth") { return (synth(403, "No")); }
  if (req.url == "/pass") { return (pass); }
  if (req.url == "/pipe") { return (pipe); }
  if (req.url == "/old" && req.restarts == 0) { set req.url = "/new"; return (restart); }
  if (req.url == "/dead") { set req.backend_hint = dead; }
  if (req.url == "/probed") { set req.backend_hint = probed; }
  if (req.url == "/fail") { return (fail("no reason")); }
  if (req.url == "/late" && req.restarts == 0) { return (hash); }
  if (req.url == "/forgotten") { unset req.http.Cookie; return (pass); }
  if (req.url ~ "^/again") { return (pass); }
  if (req.url == "/body") { std.cache_req_body(1KB); }
  std.log("visitor:anon");
}
sub vcl_deliver {
  if (req.url == "/late" && req.restarts == 0) { return (restart); }
}
sub vcl_backend_response {
  if (bereq.url == "/hfp") { return (pass(60s)); }
  if (bereq.url ~ "^/(again|twice)" && bereq.retries == 0) { return (retry); }
  if (bereq.url == "/taken.css") { unset beresp.http.Set-Cookie; }
  if (bereq.url == "/broken") { return (fail("no reason")); }
  if (bereq.url == "/page") { set beresp.do_esi = true; }
  if (bereq.url == "/short") { set beresp.ttl = 0.05s; set beresp.grace = 0s; set beresp.keep = 0s; }
  if (bereq.url == "/graced") { set beresp.ttl = 0.05s; set beresp.grace = 1h; }
}
"""
# Seconds until the response of /slow.
SLOW = 1.2
STATUS = {"/error": 500, "/late": 503}
FIELDS = {
    "/vary": {"Vary": "Accept-Language"},
    "/private": {"Cache-Control": "private, no-store"},
    "/cookie": {"Set-Cookie": "a=1"},
    "/logo.png": {"Set-Cookie": "a=1"},
    "/taken.css": {"Set-Cookie": "a=1"},
    "/again.png": {"Set-Cookie": "a=1", "Cache-Control": "no-cache"},
    "/twice.png": {"Set-Cookie": "a=1", "Cache-Control": "no-cache"},
    "/news": {"Cache-Control": "max-age=3"},
    "/cached": {"Age": "30"},
}
# Paths whose responses are dated in the past.
OLD = ("/old-date", "/cached")
LINE = re.compile(r"^ *(\d+) (\S+) +(\S) ?(.*)$")


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def date_time_string(self, timestamp=None):
        return "Thu, 26 Nov 2026 10:00:00 GMT" if self.path in OLD else super().date_time_string(timestamp)

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        body = b'<p><esi:include src="/part"/></p>' if path == "/page" else b"hello"
        if path == "/slow":
            time.sleep(SLOW)
        self.send_response(self.server.health if path == "/health" else STATUS.get(path, 200))
        self.send_header("Content-Length", str(len(body)))
        for name, value in FIELDS.get(path, {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_POST = do_HEAD = do_GET

    def log_message(self, *args):
        pass


def main(programs, target):
    with tempfile.TemporaryDirectory() as directory:
        # Workers run as another user.
        pathlib.Path(directory).chmod(0o755)
        target.write_text(recorded(programs, pathlib.Path(directory)))


def recorded(programs, d):
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    origin.health = 503
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))
    (d / "s.vcl").write_text(VCL.replace("@PORT@", str(origin.server_port)).replace("@DEAD@", str(dead.getsockname()[1])))
    run = lambda name, *words: subprocess.run([programs / name, "-n", d / "n", *words], capture_output=True, text=True)
    server = subprocess.Popen([programs / "varnishd", "-F", "-n", d / "n", "-a", "a0=127.0.0.1:0", "-f", d / "s.vcl", "-s", "s0=default,10m"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (listens := run("varnishadm", "debug.listen_address").stdout.strip()):
        if server.poll() is not None:
            sys.exit(f"varnishd ended with status {server.returncode}")
        time.sleep(.1)
    port = int(listens.split()[2])
    log = subprocess.Popen([programs / "varnishlog", "-n", d / "n", "-g", "raw", "-w", d / "raw"])
    time.sleep(1)

    def ask(head):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(head.encode())
            while s.recv(65536):
                pass

    def get(url, method="GET", fields=""):
        ask(f"{method} {url} HTTP/1.1\r\nHost: site.test\r\nUser-Agent: recorder/1\r\nConnection: close\r\n{fields}\r\n")

    for url in ("/a", "/a", "/pass", "/synth", "/old", "/page", "/dead", "/error", "/private", "/private", "/cookie", "/pipe"):
        get(url)
    get("/vary", fields="Accept-Language: de\r\n")
    get("/vary", fields="Accept-Language: en\r\n")
    for url in ("/short", "/graced"):
        get(url)
        time.sleep(.2)
        get(url)
    get("/post", "POST", "Content-Length: 0\r\n")
    get("/a", "HEAD")
    get("/withcookie", fields="Cookie: sid=0123456789\r\n")
    get("/counted", fields="Cookie: _ga=GA1.2.3; _gid=4\r\n")
    get("/two", fields="Cookie: sid=0123456789\r\nCookie: _ga=GA1.2.3\r\n")
    get("/forgotten", fields="Cookie: sid=0123456789\r\n")
    get("/photo.jpg", fields="Cookie: sid=0123456789\r\n")
    get("/member", fields="Authorization: Basic dTpw\r\nCookie: sid=0123456789\r\n")
    for url in ("/hfp", "/hfp", "/fail", "/broken", "/logo.png", "/taken.css", "/again.png", "/twice.png", "/news", "/old-date", "/cached"):
        get(url)
    get("/late", fields="Cookie: sid=0123456789\r\n")
    get("/landing?utm_source=x")
    get("/body", "POST", "Content-Length: 5\r\n\r\nhello")
    many = [threading.Thread(target=get, args=("/slow",)) for _ in range(2)]
    for one in many:
        one.start()
        time.sleep(.3)
    for one in many:
        one.join()
    # The probe finds the backend sick, healthy and sick again; one request meets it sick.
    get("/probed")
    for origin.health in (200, 503):
        time.sleep(1.2)
    ask("nonsense\r\n\r\n")
    time.sleep(2)
    for process in (log, server):
        process.terminate()
        process.wait()
    lines = subprocess.run([programs / "varnishlog", "-g", "raw", "-r", d / "raw"], capture_output=True, text=True).stdout.splitlines()
    cells = [LINE.match(line).groups() for line in lines]
    return "".join("\t".join(row) + "\n" for row in cells if row[1] not in ("CLI", "Debug"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
