# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer migrate --compare`: a server in front of an origin and without the cache, both asked what a log has."""
import http.server
import json
import subprocess
import threading

from bed import world

LACQUER = world.BIN / "lacquer"
LIMIT = 60


def server(is_new):
    """A server on a port of its own; the new one redirects /moved elsewhere and never has a hit."""

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
            body = b"" if self.command == "HEAD" else self.path.encode()
            self.send_header("Content-Length", str(len(self.path)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    http_server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
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
    for http_server in (old, new):
        http_server.shutdown()
        http_server.server_close()
    told = compare(["GET /a"])
    report.check(told.returncode == 2 and names[0] in told.stderr, f"a server that isn't there is an error: {told}")
