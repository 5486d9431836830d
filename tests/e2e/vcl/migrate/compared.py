# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer migrate --compare`: a server in front of an origin and without the cache, both asked what a log has."""
import http.server
import json
import ssl
import subprocess
import threading

from bed import world
from bed.certificates import Authority

LACQUER = world.BIN / "lacquer"
LIMIT = 60


def server(is_new, certificate=None):
    """A server on a port of its own, with TLS if it has a certificate; the new one redirects /moved elsewhere and never has a hit."""

    class Handler(http.server.BaseHTTPRequestHandler):
        seen = []

        def do_GET(self):
            self.seen.append((self.command, self.path, self.headers["Host"]))
            moved = self.path == "/moved"
            self.send_response(301 if moved else 200)
            if moved:
                self.send_header("Location", "/new" if is_new else "/old")
            hit = "HIT" if len(self.seen) % 2 == 0 and not (is_new and self.path == "/hit") else "MISS"
            self.send_header("X-Cache", hit)
            self.send_header("X-Origin", "b" if is_new and self.path == "/origin" else "a")
            whole = self.path.encode() * (500_000 if self.path == "/long" else 1)
            body = b"" if self.command == "HEAD" else whole
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    http_server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    return http_server, Handler.seen


def run(report, work):
    work.mkdir()
    (old, old_seen), (new, new_seen) = server(False), server(True)
    names = [f"127.0.0.1:{s.server_address[1]}" for s in (old, new)]

    def compare(log, *more):
        path = work / "log"
        path.write_text("".join(f'192.0.2.1 - - [10/Oct/2020:13:55:36 +0000] "{line} HTTP/1.1" 200 5\n' for line in log))
        words = [LACQUER, "migrate", "--compare", *names, str(path), "--rate", "500", "--host", "example.com", *more]
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)

    told = compare(["GET /a", "HEAD /a", "POST /a", "GET /a"])
    report.check(told.returncode == 0 and "2 of 2 requests compared: 0 differ" in told.stdout, f"nothing differs: {told}")
    expected = [("GET", "/a", "example.com")] * 2 + [("HEAD", "/a", "example.com")] * 2
    report.check(old_seen == expected and new_seen == expected, f"both get each request twice, and no POST: {old_seen} {new_seen}")
    told = compare(["GET /moved", "GET /hit", "GET /origin"], "--header", "X-Origin")
    wanted = ["GET example.com/moved: Location: /old / /new", "GET example.com/hit: second response: hit / no hit", "GET example.com/origin: X-Origin: a / b"]
    report.check(told.returncode == 1 and told.stdout.splitlines()[:3] == wanted, f"what differs is named: {told}")
    found = json.loads(compare(["GET /moved"], "--format", "json").stdout)
    report.check(found["differing"][0]["differences"] == [{"aspect": "Location", "old": "/old", "new": "/new"}], f"the same as JSON: {found}")
    told = compare(["GET /long"])
    report.check(told.returncode == 0 and "1 of 1 requests compared: 0 differ" in told.stdout, f"a body of 2.5 MB is compared: {told}")
    sealed, _ = server(True, Authority(work / "authority").leaf("other.example").pem)
    names[1] = f"https://127.0.0.1:{sealed.server_address[1]}"
    told = compare(["GET /a", "GET /moved", "GET /long"])
    report.check(told.returncode == 1 and "3 of 3 requests compared: 1 differ" in told.stdout, f"a server that speaks TLS is compared: {told}")
    for http_server in (old, new, sealed):
        http_server.shutdown()
        http_server.server_close()
    told = compare(["GET /a"])
    report.check(told.returncode == 2 and names[0] in told.stderr, f"a server that isn't there is an error: {told}")
