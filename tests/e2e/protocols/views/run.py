#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What VCL sees of a request is what the origin gets: requests drawn from a grammar over method, target, Host, Connection, Upgrade, framing, syntax.

VCL writes what it sees into a field of the request, refuses what begins with /admin, and pipes WebSockets by the book's recipe. Each request that
the origin reads must carry that field, and it must say what the origin sees: a request without one came past VCL. Stored answers carry both, too.
Behind each drawn request follows `GET /admin` on the same connection. --full draws 100,000, and a fifth of that over HTTP/2 and HTTP/3 each; --beside
has a genuine varnishd, nginx and haproxy get the same.
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
from bed import h2, pypi
from bed.certificates import Authority
from bed.daemon import Varnishd, workdir
from bed.origin import Nginx, Origin
from bed.process import Handed
from bed.report import Report, options

NO_QUIC = pypi.missing("aioquic")
if not NO_QUIC:
    from bed import h3

LIMIT = 60  # seconds; it only ends what hangs
PATIENCE = 5  # seconds until a draw without an answer is ended
SHOWN = 5
FIELDS = ("Cookie", "Authorization", "User-Agent", "X-Field")
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    set req.http.View = req.method + "<>" + req.url + "<>" + req.http.Host + "<>" + """ + ' + "<>" + '.join(f"req.http.{name}" for name in FIELDS) + """;
    if (req.url ~ "^/admin") { return (synth(403)); }
    if (req.http.upgrade ~ "(?i)websocket") { return (pipe); }
}
sub vcl_pipe { if (req.http.upgrade) { set bereq.http.upgrade = req.http.upgrade; set bereq.http.connection = req.http.connection; } }
sub vcl_deliver { set resp.http.View = req.http.View; }
"""
NGINX = """location / { proxy_pass http://%s:%d; proxy_http_version 1.1; proxy_pass_request_headers on; proxy_set_header Host $http_host;
    proxy_set_header View "$request_method<>$request_uri<>$http_host<>$http_cookie<>$http_authorization<>$http_user_agent<>$http_x_field"; }
location ^~ /admin { return 403; }"""

METHODS = ["GET"] * 100 + "HEAD POST PUT DELETE OPTIONS OPTIONS PATCH TRACE CONNECT PRI PROPFIND QUERY PURGE FOO get Get M-SEARCH * G(T \"GET\" G\\T G:T".split() + [
    "G\x80T", "G\x00T", "A" * 40]
PATHS = ("/admin /admin/x /admin?x /ADMIN /%61dmin //admin /./admin /x/../admin /%2e%2e/admin /x/%2e./admin /x;/../admin /%2Fadmin /admin%20 /admin%00".split()
         + "/open /open?a=/admin /open/x /".split() * 6 + "/open#/admin /admin# /open%00 /open%0d%0aX:y /open%zz /open\\..\\admin /open|x /open\"x /open{x}".split()
         + ["/open x", "/open\tx", "/open\x80", "/open\x7f", "/open\x01", "/open" + "a" * 3000])
SCHEMES = ["http://", "https://", "HTTP://", "HttpS://"] * 15 + ["https:/", "https:", "ws://", "wss://", "ftp://", "http+unix://", "://", "//", "http:///", "h\x80p://"]
AUTHORITIES = ["a.test", "A.Test", "a.test:80", "a.test:443", "a.test."] * 30 + ["u@a.test", "u:p@a.test", "@a.test", "u@", "", ":80", "[::1]", "[::1]:80", "[::1", "::1", "[::1]x",
               "[::ffff:1.2.3.4]", "1.2.3.4", "a.test:x", "a.test:", "a.test:0", "a.test:99999", "a.test:+80", "a.test:80:80", "a.test,b", "a.test\\", "b.test", "a%2etest", "a_b.test",
               "a test", "a.test?x", "a.test#x", "a.test;x", "a.test\x80", "a.test\x7f", "*", "-", ".", "a..test"]
CONNECTIONS = ["keep-alive", "upgrade", "Upgrade", "close", "x-field", "x-other", "te"] * 40 + ["cookie", "Cookie", "authorization", "user-agent", "host", "transfer-encoding",
               "content-length", "view", "http2-settings", "via", "x-forwarded-for", "", "x y", "\"cookie\"", "cookie;q=1", "x-field\tcookie", "\x80"]
UPGRADES = ["websocket", "WebSocket", "h2c", "websocket, h2c", "h2c, websocket", "foo", "TLS/1.0", "websocket/13", "xwebsocket", "", "websocket\x80"]
CODINGS = ["chunked", "Chunked", "gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;q=1", "", "chunked,", ", chunked", "chunked\t", "\x0bchunked", "chunked\x00",
           "chunked, identity", "identity, chunked", "\"chunked\"", "chunked chunked", "trailers", "chun ked"]
LENGTHS = ["%d", "+%d", "%d, %d", "0%d", "%d,", "0x%d", "-%d", "%d;x", "%d.0", "%d %d", "1844674407370955161%d", "%d\x0b", ""]
VERSIONS = ["HTTP/1.1"] * 200 + ["HTTP/1.0"] * 20 + ["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/1", "HTTP/11", "HTTP/1.10", "HTTP/01.1", "HTTP/1,1", "HTTP/1.1x", ""]
# Lines that break the syntax, or nearly; "Host" and framing among them say something else than the request's own.
ODD_LINES = ["X-Odd : y", "X-Odd\t: y", "X-Odd", ": y", "X-Odd:", "X-Odd:\ty\t", "X-Odd: a\rb", "X-Odd: a\nb", "X-Odd: a\x00b", "X-Odd: a\x0bb", "X-Odd: a\x80b", "X-Odd: a\x7fb", "X Odd: y",
             "X-Odd: y\r\n folded", "X-Odd: y\r\n\tfolded", "X-Odd: y\r\n ", " X-Odd: y", "X-Odd: y\n folded", "X-Odd:y", "X\x80Odd: y", "X-Odd\x00: y", "X(Odd): y", "Transfer-Encoding : chunked",
             "Transfer-Encoding\x0b: chunked", "Transfer_Encoding: chunked", "Content-Length : 5", "Content_Length: 5", "Content-Length\x00: 5", "Host : b.test", "Host\t: b.test",
             "X-Odd: y\r\n Host: b.test", " Host: b.test", "\x00Host: b.test", "X-Odd: y\rHost: b.test", "X-Odd: y\nHost: b.test", "View: x", "view : x", "View\x80: x", "Expect: 100-continue",
             "Expect: x", "Trailer: Host", "Max-Forwards: 0", "Range: bytes=0-0", "If-None-Match: *", "X-HTTP-Method-Override: DELETE", "X-Original-URL: /admin", "X-Rewrite-URL: /admin"]
ENDS = ["\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n", "\x00\r\n", " \r\n", "\x0b\r\n", "\x85"]
# Chunked bodies; `{0:x}` is the length, `{1}` the octets.
CHUNKS = ["{0:x}\r\n{1}\r\n0\r\n\r\n"] * 40 + ["{0:X}\r\n{1}\r\n0\r\n\r\n", "000{0:x}\r\n{1}\r\n0\r\n\r\n", "{0:x};a=b\r\n{1}\r\n0;c\r\n\r\n", "{0:x};a=\"\r\n{1}\r\n0\r\n\r\n",
         "{0:x} \r\n{1}\r\n0\r\n\r\n", "{0:x}\n{1}\n0\n\n", "{0:x}\r{1}\r\n0\r\n\r\n", "{0:x}\r\n{1}0\r\n\r\n", "+{0:x}\r\n{1}\r\n0\r\n\r\n", "0x{0:x}\r\n{1}\r\n0\r\n\r\n", "-{0:x}\r\n{1}\r\n0\r\n\r\n",
         "{0:x};\n{1}\r\n0\r\n\r\n", "{0:x}\r\n{1}\r\n0\r\nX-Field: t\r\n\r\n", "{0:x}\r\n{1}\r\n0\r\nHost: b.test\r\nContent-Length: 4\r\n\r\n", "{0:x}\r\n{1}\r\n00\r\n\r\n",
         "{0:x}\r\n{1}\r\n0\n\n", "1{0:016x}\r\n{1}\r\n0\r\n\r\n", "\r\n{0:x}\r\n{1}\r\n0\r\n\r\n", "{0:x}\r\n{1}\r\n0\r\nX-Odd\r\n\r\n"]


def target(rng):
    path = rng.choice(PATHS)
    form = rng.random()
    if form < 0.6:
        return path
    if form < 0.92:
        return rng.choice(SCHEMES) + rng.choice(AUTHORITIES) + rng.choice([path] * 8 + ["", "?x", path.lstrip("/"), "?" + path, "#" + path, "\\" + path])
    return rng.choice([path[1:] or "x", rng.choice(AUTHORITIES) or "*", "*", "*" + path, "." + path, "?" + path, "\\" + path, "a.test:443", "http:admin", "", "%2fadmin", "{0}{0}".format(path)])


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
    if rng.random() < 0.08:
        lines.append(rng.choice(ODD_LINES))
    return lines


def framing(rng):
    """Lines that announce a body, and a body that is whole by one of them."""
    draw, body = rng.random(), rng.choice(["abc", "GET /admin HTTP/1.1\r\nHost: a.test\r\n\r\n"])
    chunked = rng.choice(CHUNKS).format(len(body), body)
    if draw < 0.7:
        return [], ""
    if draw < 0.8:
        return [f"Content-Length: {len(body)}"], body
    if draw < 0.9:
        return ["Transfer-Encoding: chunked"], chunked
    if draw < 0.94:
        form = rng.choice(LENGTHS)
        lines = ["Content-Length: " + form % ((len(body),) * form.count("%d"))]
        return lines + rng.choice([[], lines, [f"Content-Length: {len(body) + 1}"], ["Content-Length: 0"]]), body
    lines = [f"Transfer-Encoding: {rng.choice(CODINGS)}"]
    if rng.random() < 0.2:
        lines.append(f"Transfer-Encoding: {rng.choice(CODINGS)}")
    if rng.random() < 0.5:
        lines.append(f"Content-Length: {rng.choice([0, len(body), len(chunked)])}")
    return rng.sample(lines, len(lines)), chunked


def host_line(rng):
    value = rng.choice(AUTHORITIES + ["a.test"] * 150 + ["http://a.test/admin", "a.test/admin"])
    return rng.choice(["Host: "] * 100 + ["Host:", "HOST: ", "host:\t", "Host:  "]) + value + rng.choice([""] * 100 + [" ", "\t "])


def drawn(seed, n):
    """The request that draw `n` sends, and what follows it."""
    rng = random.Random(f"{seed} {n}")
    lines = fields_of(rng)
    lines += [host_line(rng) for _ in range(rng.choice([0] + [1] * 40 + [2]))]
    more, body = framing(rng)
    lines += more
    rng.shuffle(lines)
    blank = rng.choice([" "] * 250 + ["  ", "\t", "\x0b", ""])
    lines.insert(0, f"{rng.choice(METHODS)}{blank}{target(rng)} {rng.choice(VERSIONS)}")
    ends = ["\r\n"] * (len(lines) + 1)
    if rng.random() < 0.03:
        ends[rng.randrange(len(ends))] = rng.choice(ENDS)
    begin = rng.choice([""] * 250 + ["\r\n", "\n", "\r", " ", "\r\n\r\n", "\x00", "\xef\xbb\xbf"])
    return (begin + "".join(map("".join, zip(lines, ends))) + ends[-1] + body).encode("latin-1")


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
                found[name.lower()].append(value.strip(" \t"))
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
            seen = "<>".join(own).encode("latin-1")
            s.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nCache-Control: max-age=60\r\nSeen: %s\r\n\r\n" % (status.encode(), len(body), seen)
                      + (b"" if method == "HEAD" else body))
            if "close" in found["connection"]:
                return

    def judge(self, own, views, version, top):
        self.kinds["forwarded"] += 1
        if re.search(rb"[\r\n\0]", top.replace(b"\r\n", b"")) or re.search(rb"\n[ \t]", top):
            self.tell(f"another origin may read other lines: {top[:200]!r}")
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(views) != 1:
            self.tell(f"came past VCL: {top[:200]!r}")
        elif not alike(views[0].split("<>"), own, self.origin.address):
            self.tell(f"VCL saw {views[0]!r}, the origin {'<>'.join(own)!r}")
        elif re.match(r"(\w+:/*[^/?#]*)?/admin", own[1]):
            self.tell(f"what VCL refuses: {top[:200]!r}")


def alike(view, own, backend):
    """Whether both are one request: a fetch for the cache asks by GET, and the built-in VCL writes Host in lower case; without one it is the backend's."""
    method, url, host, *fields = view
    methods = {method, "GET"} if method == "HEAD" else {method}
    hosts = {host.lower()} if host else {"", backend[0], f"{backend[0]}:{backend[1]}"}
    return own[0] in methods and own[1] == url and own[2].lower() in hosts and own[3:] == fields


def read_all(s):
    """What comes up to the end. A server that waits for the rest of a body is told that there is none."""
    got, is_open = b"", True
    s.settimeout(PATIENCE)
    while True:
        try:
            more = s.recv(65536)
        except TimeoutError:
            if not is_open:
                raise
            s.settimeout(LIMIT)
            s.shutdown(socket.SHUT_WR)
            is_open = False
            continue
        except ConnectionError:
            return got
        if not more:
            return got
        got += more


def play(address, seed, witness, n):
    """One draw: what became of it."""
    octets = drawn(seed, n)
    with socket.create_connection(address, LIMIT) as s:
        try:
            s.sendall(octets + FOLLOWS)
        except OSError:
            pass  # refused before we were through
        try:
            got = read_all(s)
        except TimeoutError:
            return witness.tell(f"draw {n}: no end of {octets[:200]!r}")
    # An answer says what VCL saw of its request and what the origin did, also one of the cache's.
    for head in re.findall(rb"HTTP/1\.1 200 .*?\r\n\r\n", got, re.S):
        view, seen = (re.search(rb"(?im)^%s: (.*?)\r$" % name, head) for name in (b"view", b"seen"))
        if view and seen and view[1].split(b"<>")[1] != seen[1].split(b"<>")[1]:
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


def drawn_stream(rng):
    """The fields of a request over a stream: the same targets and hosts as pseudo-fields."""
    fields = [(":method", rng.choice(METHODS)), (":scheme", rng.choice(["http", "https"] * 20 + ["HTTP", "ftp", "a b", ""])),
              (":authority", rng.choice(AUTHORITIES + ["a.test"] * 150)), (":path", rng.choice(PATHS) if rng.random() < 0.8 else target(rng))]
    if rng.random() < 0.1:
        fields.pop(rng.randrange(len(fields)))
    if rng.random() < 0.2:
        fields.append(("host", rng.choice(["a.test", "A.test", "a.test.", "b.test", "a.test/admin", " a.test", ""])))
    fields += [(name.lower(), f"x{rng.randrange(3)}") for name in FIELDS if rng.random() < 0.2]
    if rng.random() < 0.2:
        fields.append(rng.choice([("connection", "cookie"), ("upgrade", "websocket"), ("transfer-encoding", "chunked"), ("view", "x"), ("te", "trailers"), ("te", "gzip"),
                                  ("cookie", "second"), ("content-length", "5"), ("content-length", "0"), ("x-odd", "a\rb"), ("x-odd", "a\nhost: b.test"), ("x-odd", "a\0b"),
                                  ("x-odd", " a "), ("X-Odd", "y"), ("x odd", "y"), ("x-odd:", "y"), ("", "y"), (":path", "/admin"), (":protocol", "websocket"), (":x", "y"),
                                  ("x-field\x80", "y"), ("keep-alive", "5"), ("proxy-connection", "x"), ("http2-settings", "AAMAAABk"), ("expect", "100-continue")]))
    return fields


def over_streams(name, connect, witness, seed, count):
    """Requests on streams of HTTP/2 or HTTP/3, each connection as long as the server keeps it."""
    rng, c, became = random.Random(f"{seed} {name}"), None, collections.Counter()
    for _ in range(count):
        if c is None or c.closed or c.goaway or c.next > 4000:
            if c is not None:
                c.close()
            c = connect()
        fields = drawn_stream(rng)
        own = c.streams[c.ask(fields)]
        if not c.wait(lambda: own.end, LIMIT) and not c.closed:
            witness.tell(f"{name}: no answer to {fields}")
        became[own.status or own.end or "closed"] += 1
    c.close()
    return became


class HaproxyBeside(Handed):
    """haproxy that tells the origin what it sees, as the VCL does."""

    def __init__(self, origin):
        self.origin = origin
        super().__init__()

    def command(self, listener):
        view = "<>".join(["%[method]", "%[url]", "%[req.hdr(host)]", *(f"%[req.fhdr({name})]" for name in FIELDS)])
        (self.dir / "h.cfg").write_text(f"""global
 stats socket {self.dir}/up
defaults
 mode http
 timeout client 60s
 timeout server 60s
 timeout connect 5s
frontend f
 bind fd@{listener}
 http-request set-header View "{view}"
 http-request deny if {{ path_beg /admin }}
 default_backend b
backend b
 server o {self.origin[0]}:{self.origin[1]}
""")
        return ["haproxy", "-db", "-f", str(self.dir / "h.cfg")], {}


def beside(report, o, count):
    """The same draws through other servers, as far as they are here: what differs there is told and counts for nothing."""
    def run(name, make):
        witness = Witness()
        with witness.origin, make(witness.origin.address) as server:
            results(report, name, server.address, witness, o, count)

    for program in o.genuine or filter(None, [shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin")]):
        run(f"genuine {program}", lambda address, program=program: Varnishd(program, vcl=VCL % address))
    others = {"nginx": lambda address: Nginx(NGINX % address), "haproxy": HaproxyBeside}
    for name, make in others.items():
        if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin"):
            run(name, make)


def main():
    o = options(__doc__, beside=dict(action="store_true", help="other servers get the same; what differs there is told and counts for nothing"),
                genuine=dict(action="append", metavar="PROGRAM", help="a genuine varnishd for --beside instead of the one that is installed; may be given again"))
    report = Report("views")
    count = 100_000 if o.full else 1_500
    witness, files = Witness(), workdir()
    conf = files / "tls.conf"
    conf.write_text(f'pem-file = "{Authority(files / "ca").leaf("bed.test").pem}"\n')
    listeners = ["-a", "clear=127.0.0.1:0", "-a", "quic=127.0.0.1:0,quic", "-A", str(conf), "-p", "feature=+http2"]
    with witness.origin, Varnishd(o.varnishd, listeners, vcl=VCL % witness.origin.address) as v:
        results(report, "HTTP/1", v.address, witness, o, count)
        report.check(not witness.wrong, f"HTTP/1: {len(witness.wrong)} times VCL and origin see something else")
        report.check(witness.kinds["forwarded"] > count // 10 and witness.kinds["switched"], f"the origin has something to judge: {witness.kinds}")
        protocols = {"HTTP/2": lambda: h2.Connection(socket.create_connection(v.address, LIMIT))}
        if NO_QUIC:
            report.note(f"HTTP/3 LEFT OUT, as there is no aioquic ({NO_QUIC})")
        else:
            protocols["HTTP/3"] = lambda: h3.Connection(v.addresses["quic"], keep=False)
        for name, connect in protocols.items():
            before, already = len(witness.wrong), witness.kinds["forwarded"]
            became = over_streams(name, connect, witness, o.seed, count // 5)
            forwarded = witness.kinds["forwarded"] - already
            report.note(f"{name}: {count // 5} draws, {forwarded} requests at the origin; " + ", ".join(f"{what} {times}" for what, times in became.most_common()))
            for what in witness.wrong[before:][:SHOWN]:
                report.note(f"{name}: {what}")
            report.check(len(witness.wrong) == before, f"{name}: {len(witness.wrong) - before} times VCL and origin see something else")
            report.check(forwarded > count // 100, f"{name}: the origin has something to judge: {forwarded}")
    shutil.rmtree(files, ignore_errors=True)
    if o.beside:
        beside(report, o, count)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
