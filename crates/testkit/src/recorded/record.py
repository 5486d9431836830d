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
backend dead { .host = "127.0.0.1"; .port = "@DEAD@"; .connect_timeout = 1s; }
sub vcl_recv {
  if (req.url == "/synth") { return (synth(403, "No")); }
  if (req.url == "/pass") { return (pass); }
  if (req.url == "/pipe") { return (pipe); }
  if (req.url == "/old" && req.restarts == 0) { set req.url = "/new"; return (restart); }
  if (req.url == "/dead") { set req.backend_hint = dead; }
  std.log("visitor:anon");
}
sub vcl_backend_response {
  if (bereq.url == "/page") { set beresp.do_esi = true; }
  if (bereq.url == "/short") { set beresp.ttl = 0.05s; set beresp.grace = 0s; set beresp.keep = 0s; }
  if (bereq.url == "/graced") { set beresp.ttl = 0.05s; set beresp.grace = 1h; }
}
"""
LINE = re.compile(r"^ *(\d+) (\S+) +(\S) ?(.*)$")


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b'<p><esi:include src="/part"/></p>' if self.path == "/page" else b"hello"
        self.send_response(500 if self.path == "/error" else 200)
        self.send_header("Content-Length", str(len(body)))
        for path, name, value in (("/vary", "Vary", "Accept-Language"), ("/private", "Cache-Control", "private, no-store"), ("/cookie", "Set-Cookie", "a=1")):
            if self.path == path:
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
