# SPDX-License-Identifier: BSD-2-Clause
"""Traffic with something of everything the log can say, in an order of its own."""
import http.server
import contextlib
import socket
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"hello " + self.path.encode()
        if self.path.startswith("/esi"):
            body = b"<html><esi:include src='/inc1'/>x<esi:include src='/inc2?y=1'/><esi:include src='/inc1'/></html>"
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Own", 'a b "c" \\d')
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def origin():
    """An origin: its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # A connection that breaks is the server's doing, and no news.
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def vcl(port):
    return f"""vcl 4.1;
import std;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{
    std.log("mykey: my value");
    if (req.url ~ "^/restart" && req.restarts == 0) {{ return (restart); }}
    if (req.url ~ "^/pass") {{ return (pass); }}
    if (req.url ~ "^/pipe") {{ return (pipe); }}
    if (req.url ~ "^/synth") {{ return (synth(700, "Hey you")); }}
}}
sub vcl_backend_response {{
    if (bereq.url ~ "^/esi") {{ set beresp.do_esi = true; }}
    if (bereq.url ~ "^/hfp") {{ return (pass(10s)); }}
    if (bereq.url ~ "^/bgfetch") {{ set beresp.ttl = 0.001s; set beresp.grace = 1h; }}
}}
"""


def one(address, text):
    """Sends bytes on a connection of their own and reads all that comes back."""
    with socket.create_connection(address, 20) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass


AUTH = b"Authorization: Basic dXNlcjpwdw==\r\n"


def get(*urls, more=b"", auth=AUTH):
    """Requests on one connection. With the field Authorization they are passed."""
    head = b"Host: example.com\r\nUser-Agent: curl/8 (q)\r\nX-Test: a b  \"c d\" e\r\n" + auth + more
    return b"".join(b"GET %s HTTP/1.1\r\n%s\r\n" % (u, head) for u in urls)


def send(address):
    for url in [b"/a", b"/a", b"/b?x=1&y=2", b"/restart", b"/pass", b"/synth", b"/esi", b"/esi", b"/hfp", b"/hfp", b"/missing", b"/hd%20r",
                b"/bgfetch", b"/bgfetch", b"/bgfetch"]:
        one(address, get(url))
    for url in [b"/a", b"/a", b"/esi", b"/esi", b"/hfp", b"/hfp", b"/restart", b"/bgfetch", b"/bgfetch", b"/bgfetch", b"/missing"]:
        one(address, get(url, auth=b""))
    one(address, get(b"/k1", b"/k2", b"/a"))
    one(address, b"POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\nfoo=bar")
    one(address, get(b"/pipe", more=b"Connection: close\r\n"))
    one(address, b"GARBAGE\x01\r\n\r\n")
    one(address, b"GET / HTTP/1.0\r\n\r\n")
    one(address, b"GET /q?a\"b HTTP/1.1\r\nHost: http://x\r\nUser-Agent: q\"uo\\te\xff\xe9\tz\r\nReferer: \x7f\r\n\r\n")
    one(address, b"GET /auth HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ????\r\n\r\n")
    one(address, get(b"/last"))
