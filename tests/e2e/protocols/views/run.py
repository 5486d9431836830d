#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What VCL sees of a request is what the origin gets: requests drawn from a grammar over method, target, Host, Connection, Upgrade, framing.

VCL writes what it sees into a field of the request, refuses what begins with /admin, and pipes WebSockets by the book's recipe. Each request that
the origin reads must carry that field, and it must say what the origin sees: a request without one came past VCL. Stored answers carry both, too.
Behind each drawn request follows `GET /admin` on the same connection. --full draws 100,000; --beside has a genuine varnishd and nginx get the same.
"""
import collections
import concurrent.futures
import functools
import os
import pathlib
import random
import re
import shutil
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2
from bed.daemon import Varnishd
from bed.origin import Nginx, Origin
from bed.report import Report, options

LIMIT = 60  # seconds; it only ends what hangs
SHOWN = 5
FIELDS = ("Cookie", "Authorization", "User-Agent", "X-Field")
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    set req.http.View = req.method + ";;" + req.url + ";;" + req.http.Host + ";;" + """ + ' + ";;" + '.join(f"req.http.{name}" for name in FIELDS) + """;
    if (req.url ~ "^/admin") { return (synth(403)); }
    if (req.http.upgrade ~ "(?i)websocket") { return (pipe); }
}
sub vcl_pipe { if (req.http.upgrade) { set bereq.http.upgrade = req.http.upgrade; set bereq.http.connection = req.http.connection; } }
sub vcl_deliver { set resp.http.View = req.http.View; }
"""
NGINX = """location / { proxy_pass http://%s:%d; proxy_http_version 1.1; proxy_pass_request_headers on; proxy_set_header Host $http_host;
    proxy_set_header View "$request_method;;$request_uri;;$http_host;;$http_cookie;;$http_authorization;;$http_user_agent;;$http_x_field"; }
location ^~ /admin { return 403; }"""

METHODS = ["GET"] * 20 + "HEAD POST PUT DELETE OPTIONS OPTIONS PATCH TRACE CONNECT PRI PROPFIND QUERY PURGE FOO get Get".split()
PATHS = "/admin /admin/x /admin?x /ADMIN /%61dmin //admin /./admin /x/../admin".split() + "/open /open?a=/admin /open/x /".split() * 3 + "/open#/admin /admin#".split()
SCHEMES = ["http://", "https://", "HTTP://", "HttpS://"] * 5 + ["https:/", "https:", "ws://", "wss://", "ftp://", "http+unix://", "://", "//"]
AUTHORITIES = ["a.test", "A.Test", "a.test:80", "a.test:443", "a.test."] * 5 + ["u@a.test", "u:p@a.test", "", ":80", "[::1]", "[::1]:80", "a.test:x", "a.test,b", "a.test\\", "b.test"]
CONNECTIONS = ["keep-alive", "upgrade", "Upgrade", "close", "x-field", "x-other", "te"] * 8 + ["cookie", "Cookie", "authorization", "user-agent", "host", "transfer-encoding",
               "content-length", "view", "http2-settings", "via", "x-forwarded-for", "", "x y", "\"cookie\""]
UPGRADES = ["websocket", "WebSocket", "h2c", "websocket, h2c", "foo", "TLS/1.0"]
CODINGS = ["chunked", "Chunked", "gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;q=1", ""]


def target(rng):
    path = rng.choice(PATHS)
    form = rng.random()
    if form < 0.6:
        return path
    if form < 0.92:
        return rng.choice(SCHEMES) + rng.choice(AUTHORITIES) + rng.choice([path] * 8 + ["", "?x", path.lstrip("/"), "?" + path, "#" + path, "\\" + path])
    return rng.choice([path[1:] or "x", rng.choice(AUTHORITIES) or "*", "*", "*" + path, "." + path, "?" + path, "\\" + path, "a.test:443", "http:admin"])


def fields_of(rng):
    """The fields but for Host and framing, as lines."""
    lines = [f"{name}: {name.lower()}-{rng.randrange(3)}" for name in FIELDS if rng.random() < 0.25]
    if rng.random() < 0.4:
        lines.append(f"Upgrade: {rng.choice(UPGRADES)}")
    if rng.random() < 0.1:
        lines.append("HTTP2-Settings: AAMAAABkAAQAAP__")
    if rng.random() < 0.15:
        lines.append(rng.choice(["TE: trailers", "Keep-Alive: 5", "Proxy-Connection: keep-alive", "X-Forwarded-For: 1.2.3.4", "Via: x"]))
    for _ in range(rng.choice([0, 1, 1, 2])):
        lines.append("Connection: " + ", ".join(rng.choice(CONNECTIONS) for _ in range(rng.randrange(1, 4))))
    return lines


def framing(rng):
    """Lines that announce a body, and a body that is whole by one of them."""
    draw, body = rng.random(), rng.choice([b"abc", b"GET /admin HTTP/1.1\r\nHost: a.test\r\n\r\n"])
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    if draw < 0.7:
        return [], b""
    if draw < 0.82:
        return [f"Content-Length: {len(body)}"], body
    if draw < 0.92:
        return ["Transfer-Encoding: chunked"], chunked
    lines = [f"Transfer-Encoding: {rng.choice(CODINGS)}"]
    if rng.random() < 0.5:
        lines.append(f"Content-Length: {rng.choice([0, len(body), len(chunked)])}")
    return rng.sample(lines, len(lines)), chunked


def drawn(seed, n):
    """The request that draw `n` sends, and what follows it."""
    rng = random.Random(f"{seed} {n}")
    lines = fields_of(rng)
    for _ in range(rng.choice([0] + [1] * 20 + [2])):
        lines.append("Host: " + rng.choice(AUTHORITIES + ["a.test"] * 20 + ["http://a.test/admin", "a.test/admin"]))
    more, body = framing(rng)
    lines += more
    rng.shuffle(lines)
    top = f"{rng.choice(METHODS)} {target(rng)} HTTP/1.{rng.choice('1111110')}"
    return "\r\n".join([top, *lines, "", ""]).encode("latin-1") + body


FOLLOWS = b"GET /admin HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"


class Witness:
    """An origin that compares what it gets with what VCL has said of it."""

    def __init__(self):
        self.wrong, self.lock, self.kinds = [], threading.Lock(), collections.Counter()
        self.origin = Origin(self.serve)

    def tell(self, what):
        with self.lock:
            self.wrong.append(what)

    def serve(self, s):
        buf = b""
        while True:
            while b"\r\n\r\n" not in buf:
                more = s.recv(65536)
                if not more:
                    if buf:
                        self.tell(f"half a request: {buf[:100]!r}")
                    return
                buf += more
            top, _, buf = buf.partition(b"\r\n\r\n")
            first, *lines = top.decode("latin-1").split("\r\n")
            found = collections.defaultdict(list)
            for name, _, value in (line.partition(":") for line in lines):
                found[name.lower()].append(value.strip())
            method, url, version = first.split(" ") if first.count(" ") == 2 else (first, "", "")
            own = [method, url, *(", ".join(found[name.lower()]) for name in ("Host", *FIELDS))]
            self.judge(own, found["view"], version, top)
            if any(coding.lower() == "chunked" for coding in found["transfer-encoding"]):
                while b"0\r\n\r\n" not in buf:
                    buf += s.recv(65536) or b"0\r\n\r\n"
                buf = buf.partition(b"0\r\n\r\n")[2]
            elif found["content-length"]:
                length = int(found["content-length"][0])
                while len(buf) < length and (more := s.recv(65536)):
                    buf += more
                buf = buf[length:]
            if found["upgrade"] and url.startswith("/open"):
                # What follows is another protocol's.
                self.kinds["switched"] += 1
                return s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello")
            status, body = ("426 No", b"no") if found["upgrade"] else ("200 OK", b"ok")
            seen = ";;".join(own).encode("latin-1")
            s.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nCache-Control: max-age=60\r\nSeen: %s\r\n\r\n" % (status.encode(), len(body), seen)
                      + (b"" if method == "HEAD" else body))
            if "close" in found["connection"]:
                return

    def judge(self, own, views, version, top):
        self.kinds["forwarded"] += 1
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(views) != 1:
            self.tell(f"came past VCL: {top[:200]!r}")
        elif not alike(views[0].split(";;"), own, self.origin.address):
            self.tell(f"VCL saw {views[0]!r}, the origin {';;'.join(own)!r}")
        elif re.match(r"(\w+:/*[^/?#]*)?/admin", own[1]):
            self.tell(f"what VCL refuses: {top[:200]!r}")


def alike(view, own, backend):
    """Whether both are one request: a fetch for the cache asks by GET, and the built-in VCL writes Host in lower case; without one it is the backend's."""
    method, url, host, *fields = view
    methods = {method, "GET"} if method == "HEAD" else {method}
    hosts = {host.lower()} if host else {"", backend[0], f"{backend[0]}:{backend[1]}"}
    return own[0] in methods and own[1] == url and own[2].lower() in hosts and own[3:] == fields


def play(address, seed, witness, n):
    """One draw: what became of it."""
    octets, got = drawn(seed, n), b""
    with socket.create_connection(address, LIMIT) as s:
        try:
            s.sendall(octets + FOLLOWS)
        except OSError:
            pass  # refused before we were through
        try:
            while more := s.recv(65536):
                got += more
        except TimeoutError:
            return witness.tell(f"draw {n}: no end of {octets[:200]!r}; came: {got[-100:]!r}")
        except ConnectionError:
            pass
    # An answer says what VCL saw of its request and what the origin did, also one of the cache's.
    for head in re.findall(rb"HTTP/1\.1 200 .*?\r\n\r\n", got, re.S):
        view, seen = (re.search(rb"(?im)^%s: (.*?)\r$" % name, head) for name in (b"view", b"seen"))
        if view and seen and view[1].split(b";;")[1] != seen[1].split(b";;")[1]:
            witness.tell(f"draw {n}: VCL saw {view[1]!r}, what is answered is {seen[1]!r}")
    if b"\r\n\r\nok" in got.partition(b"HTTP/1.1 403 ")[2]:
        witness.tell(f"draw {n}: something is answered behind /admin")
    return (re.match(rb"HTTP/1\.1 (\d+)", got) or [b"", b"closed"])[1].decode()


def results(report, name, address, witness, o, count):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        became = collections.Counter(pool.map(functools.partial(play, address, o.seed, witness), range(count)))
    report.note(f"{name}: {count} draws, {witness.kinds['forwarded']} requests at the origin, {witness.kinds['switched']} of them switched; {len(witness.wrong)} differ; "
                + ", ".join(f"{status} {times}" for status, times in became.most_common()))
    for what in witness.wrong[:SHOWN]:
        report.note(f"{name}: {what}")


def over_h2(witness, address, seed, count):
    """Streams of HTTP/2: the same targets and hosts as pseudo-fields."""
    rng = random.Random(f"{seed} h2")
    c = None
    for _ in range(count):
        if c is None or c.closed or c.goaway:
            c = h2.Connection(socket.create_connection(address, LIMIT))
        fields = [(":method", rng.choice(METHODS)), (":scheme", rng.choice(["http", "https", "HTTP", "ftp", "a b", ""])),
                  (":authority", rng.choice(AUTHORITIES + ["a.test"] * 10)), (":path", target(rng))]
        if rng.random() < 0.2:
            fields.append(("host", rng.choice(["a.test", "b.test", "a.test/admin"])))
        fields += [(name.lower(), f"x{rng.randrange(3)}") for name in FIELDS if rng.random() < 0.2]
        if rng.random() < 0.1:
            fields.append(rng.choice([("connection", "cookie"), ("upgrade", "websocket"), ("transfer-encoding", "chunked"), ("view", "x")]))
        at = c.ask(fields)
        if not c.wait(lambda: c.streams[at].end, LIMIT) and not c.closed:
            witness.tell(f"HTTP/2: no answer to {fields}")


def main():
    o = options(__doc__, beside=dict(action="store_true", help="a genuine varnishd and nginx get the same; what differs there is told and counts for nothing"))
    report = Report("views")
    count = 100_000 if o.full else 1_500
    witness = Witness()
    with witness.origin, Varnishd(o.varnishd, vcl=VCL % witness.origin.address, args=["-p", "feature=+http2"]) as v:
        results(report, "HTTP/1", v.address, witness, o, count)
        report.check(not witness.wrong, f"HTTP/1: {len(witness.wrong)} times VCL and origin see something else")
        report.check(witness.kinds["forwarded"] > count // 10 and witness.kinds["switched"], f"the origin has something to judge: {witness.kinds}")
        before = len(witness.wrong)
        over_h2(witness, v.address, o.seed, count // 5)
        for what in witness.wrong[before:][:SHOWN]:
            report.note(what)
        report.check(len(witness.wrong) == before, f"HTTP/2: {len(witness.wrong) - before} times VCL and origin see something else")
    if o.beside:
        genuine = shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin")
        witness = Witness()
        if genuine:
            with witness.origin, Varnishd(genuine, vcl=VCL % witness.origin.address) as v:
                results(report, "genuine varnishd", v.address, witness, o, count)
        witness = Witness()
        if shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"):
            with witness.origin, Nginx(NGINX % witness.origin.address) as nginx:
                results(report, "nginx", nginx.address, witness, o, count)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
