# SPDX-License-Identifier: BSD-2-Clause
"""What the attackers ask for, and the origin and the VCL that make it dear. The same for ours and for a genuine varnishd."""
import gzip
import socket
import zlib

from bed.http import Client
from bed.origin import head

SMALL = b"s" * 1024
MEGABYTE = 1 << 20
TEXT = b"".join(b"%d lines of text that pack well but not too well, %x\n" % (n, n * 2654435761 % (1 << 32)) for n in range(200_000))
LARGE = TEXT[:10 * MEGABYTE].ljust(10 * MEGABYTE, b"x")
BOMB_BYTES = 1 << 30
FETCH_BOMB_BYTES = 64 << 20
# A part of a page: what a parser has to look at, and nothing that is asked for.
ESI_PART = b"<p>text</p><esi:remove><b>away</b></esi:remove><!-- <esi:x --><esi:comment text='c'/>"
ESI_PAGE = ESI_PART * (6 * MEGABYTE // len(ESI_PART))
INCLUDES, LEVELS = 10, 5
RANGES = 1000
VARIANTS = 100_000
BANS, BANNED_OBJECTS = 10_000, 4000
TAGGED_OBJECTS = 20_000
FEW = 8  # times less of what takes long to prepare, in the short form of timing
FEWER = 32  # in the suite that counts; its bomb and its page of includes are smaller, too
FEWER_BOMB_BYTES, FEWER_LEVELS = BOMB_BYTES // 8, 4

VCL = """vcl 4.1;
import xkey;
backend default { .host = "%s"; .port = "%s"; }
sub dear {
%s
}
sub vcl_recv {
    if (req.method == "PURGE") {
        set req.http.purged = xkey.softpurge(req.http.key);
        return (synth(200));
    }
    if (req.url ~ "^/dear") {
        call dear;
    }
}
sub vcl_backend_response {
    set beresp.ttl = 1h;
    set beresp.grace = 1h;
    if (bereq.url ~ "^/(gunzip|gzip|parse)") {
        set beresp.uncacheable = true;
    }
    if (bereq.url ~ "^/gunzip") {
        set beresp.do_gunzip = true;
    }
    if (bereq.url ~ "^/gzip") {
        set beresp.do_gzip = true;
    }
    if (bereq.url ~ "^/(parse|page)") {
        set beresp.do_esi = true;
    }
}
"""
DEAR_LINE = '    set req.http.x = regsuball(req.http.x, "([a-y]+)z", "\\1z");\n'


def vcl(origin, dear_lines=200):
    return VCL % (*origin.address, DEAR_LINE * dear_lines)


def bomb(octets):
    """So many zeros, packed."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    out = b"".join(pack.compress(bytes(MEGABYTE)) for _ in range(octets // MEGABYTE))
    return out + pack.flush()


class Bodies:
    """What the origin has; bombs are made when they are first asked for."""

    def __init__(self, bomb_bytes=BOMB_BYTES, levels=LEVELS):
        self.made, self.bomb_bytes, self.levels = {}, bomb_bytes, levels

    def get(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def answer(self, path, _fields):
        if path.startswith("/bomb"):
            return "Content-Encoding: gzip\r\n", self.get("bomb", lambda: bomb(self.bomb_bytes))
        if path.startswith("/gunzip"):
            return "Content-Encoding: gzip\r\n", self.get("fetch", lambda: bomb(FETCH_BOMB_BYTES))
        if path.startswith("/gzip"):
            return "Content-Type: text/plain\r\n", LARGE
        if path.startswith("/parse"):
            return "Content-Type: text/html\r\n", ESI_PAGE
        if path.startswith("/page"):
            level = int(path[5:].split("/")[0])
            part = f'<esi:include src="/page{level + 1}"/>' * INCLUDES if level < self.levels else "leaf"
            return "Content-Type: text/html\r\n", f"<p>{part}</p>".encode()
        if path.startswith("/varied"):
            return "Vary: X-Variant\r\n", b"variant"
        if path.startswith("/tagged"):
            return "xkey: all\r\n", b"tagged"
        if path.startswith("/ranges"):
            return "", LARGE[:MEGABYTE]
        if path.startswith("/large"):
            return "", LARGE
        return "", SMALL


def serve(bodies):
    """A `serve` for Origin; what begins with /chunked comes without a length, /huge/N has N megabytes."""
    def connection(s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            _, path, fields, buf = got
            words = path.split("/")
            if words[1] in ("huge", "chunked"):
                stream(s, int(words[2]), words[1] == "chunked")
                continue
            extra, body = bodies.answer(path, fields)
            s.sendall(f"HTTP/1.1 200 OK\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body[:MEGABYTE])
            if len(body) > MEGABYTE:
                s.sendall(memoryview(body)[MEGABYTE:])
    return connection


def stream(s, megabytes, chunked):
    s.sendall(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % (megabytes * MEGABYTE)))
    piece = LARGE[:MEGABYTE]
    for _ in range(megabytes):
        s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    if chunked:
        s.sendall(b"0\r\n\r\n")


def request(path, *fields, method="GET", close=True):
    lines = [f"{method} {path} HTTP/1.1", "Host: bed.test", *fields, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def ask(server, paths, fields=()):
    """Asks for each once, on one connection, and throws away what comes."""
    with Client(server.address, timeout=60, keep=False) as c:
        for path in paths:
            c.request(path, list(fields))


def prepare_bans(share):
    def prepare(server):
        ask(server, (f"/banned/{n}" for n in range(BANNED_OBJECTS // share)))
        for n in range(BANS // share):
            server.cli.ask(f"ban req.url ~ ^/nothing/{n}$")
    return prepare


def prepare_tags(share):
    return lambda server: ask(server, (f"/tagged/{n}" for n in range(TAGGED_OBJECTS // share)))


class Attack:
    """`text` is what each attacker sends, `how` is attack.c's word; `prepare(server)` comes before."""

    def __init__(self, name, text, how, prepare=None):
        self.name, self.text, self.how, self.prepare = name, text, how, prepare


def warm(*paths, fields=()):
    return lambda server: ask(server, paths, fields)


def all_attacks(share):
    """All attacks, with `share` times less of what takes long to prepare."""
    banned = b"".join(request(f"/banned/{n}", close=False) for n in range(BANNED_OBJECTS // share))
    ranges = ",".join(f"{2 * n}-{2 * n}" for n in range(RANGES))
    cookie = ("abcdefghijklmnopqrstuvwxyz-" * 150)[:4000]
    return [
        Attack("pipelined hits, read", request("/small", close=False) * 2000, "read", warm("/small")),
        Attack("pipelined hits, not read", request("/small", close=False) * 2000, "deaf", warm("/small")),
        Attack("gzip bomb, decompressed at delivery", request("/bomb"), "once", warm("/bomb", fields=[("Accept-Encoding", "gzip")])),
        Attack("gzip bomb of 64 MB, decompressed at fetch", request("/gunzip"), "once"),
        Attack("10 MB compressed at fetch", request("/gzip", "Accept-Encoding: gzip"), "once"),
        Attack("pages of 6 MB parsed for ESI", request("/parse"), "once"),
        Attack("ESI: levels of 10 includes, cached", request("/page0"), "once", warm("/page0")),
        Attack("expensive VCL", request("/dear", f"x: {cookie}"), "once", warm("/dear")),
        Attack("1,000 ranges", request("/ranges", f"Range: bytes={ranges}"), "once", warm("/ranges")),
        Attack("100,000 variants", request("/varied", "X-Variant: @@@@@@@@", close=False), "read"),
        Attack(f"{BANS // share:,} bans replayed", banned, "read", prepare_bans(share)),
        Attack(f"soft purges of a tag of {TAGGED_OBJECTS // share:,}", request("/", "key: all", method="PURGE"), "once", prepare_tags(share)),
    ]
