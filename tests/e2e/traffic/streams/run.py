#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Bodies that come event by event: an origin, or a client, sends the next one only when the other end has the one before. Whatever holds one back ends
the case at its time limit. Every version of HTTP, each coding, with and without ESI, passed and missed; uploads, too. And how a body ends that has another
digest than its origin says.

Without aioquic (scripts/need-python) the cases over HTTP/3 are left out, and named.
"""
import collections
import itertools
import pathlib
import random
import shutil
import socket
import sys
import threading
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2, pypi, sealed
from bed.certificates import Authority
from bed.daemon import Varnishd, on_one_port, workdir
from bed.origin import Origin, head
from bed.report import LIMIT, Report, options

NO_QUIC = pypi.missing("aioquic")
if not NO_QUIC:
    from bed import h3

VCL = """vcl 4.1;
backend default {{ .host = "{0}"; .port = "{1}"; }}
import std;
import xbody;
sub vcl_recv {{
    if (req.url ~ "keep") {{ std.cache_req_body(1MB); }}
    if (req.url ~ "pass" || req.method == "POST") {{ return (pass); }}
    return (hash);
}}
sub vcl_backend_fetch {{
    if (bereq.url ~ "up-gzip") {{ set bereq.filters = "gzip"; }}
}}
sub vcl_backend_response {{
    set beresp.ttl = 60s;
    set beresp.do_gzip = bereq.url ~ "make-gzip";
    set beresp.do_brotli = bereq.url ~ "make-br";
    set beresp.do_zstd = bereq.url ~ "make-zstd";
    set beresp.do_esi = bereq.url ~ "with-esi";
    if (bereq.url ~ "held") {{ set beresp.do_stream = false; }}
    if (bereq.url ~ "rewritten") {{ xbody.regsub("a", "b"); }}
}}
"""
# One that fills no buffer, one that is longer than a record, a frame and a step of a filter, and a short one behind it.
EVENTS = [b"data: 1\n\n", b"data: " + random.Random(5).randbytes(20_000).hex().encode() + b"\n\n", b"data: 3\n\n"]
PARAMS = ["-p", "feature=+http2", "-p", "http_brotli_support=on", "-p", "http_zstd_support=on"]


class Chunks:
    """A chunked body that comes in pieces of any length."""

    def __init__(self):
        self.buf, self.body, self.is_over = b"", b"", False

    def take(self, octets):
        self.buf += octets
        while b"\r\n" in self.buf and not self.is_over:
            line, rest = self.buf.split(b"\r\n", 1)
            size = int(line, 16)
            if len(rest) < size + 2:
                return
            self.body, self.buf, self.is_over = self.body + rest[:size], rest[size + 2:], size == 0


class Source:
    """An origin that goes on as far as its reader has come, and notes how far uploads have."""

    def __init__(self):
        self.seen, self.uploads, self.changed = collections.Counter(), collections.defaultdict(bytes), threading.Condition()

    def saw(self, path):
        """The reader has one more event."""
        with self.changed:
            self.seen[path] += 1
            self.changed.notify_all()

    def wait_for_reader(self, path, count):
        with self.changed:
            if not self.changed.wait_for(lambda: self.seen[path] >= count, LIMIT):
                raise ConnectionError

    def has_come(self, path, wanted):
        with self.changed:
            return self.changed.wait_for(lambda: self.uploads[path] == wanted, 0.02)

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            if method == "POST":
                self.receive(s, path, fields, buf)
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                buf = b""
            elif "digest" in path:
                # Chunked, or of a length that a client would take for the end.
                is_chunked, half = "chunks" in path, b"x" * 25_000
                piece = b"%x\r\n%s\r\n" % (len(half), half) if is_chunked else half
                framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % (2 * len(half))
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Digest: sha-256=:AAAA:\r\n%s\r\n\r\n%s" % (framing, piece))
                self.wait_for_reader(path, 1)
                s.sendall(piece + (b"0\r\n\r\n" if is_chunked else b""))
            else:
                self.send(s, path)

    def send(self, s, path):
        is_packed = "come-gzip" in path
        sign = "X-Accel-Buffering: no" if "accel" in path else "Incremental: ?1" if "demanded" in path else "Content-Type: text/event-stream"
        s.sendall(f"HTTP/1.1 200 OK\r\n{sign}\r\n{'Content-Encoding: gzip' + chr(13) + chr(10) if is_packed else ''}Transfer-Encoding: chunked\r\n\r\n".encode())
        packer = zlib.compressobj(wbits=31)
        for n, event in enumerate(EVENTS):
            octets = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) if is_packed else event
            s.sendall(b"%x\r\n%s\r\n" % (len(octets), octets))
            self.wait_for_reader(path, n + 1)
        end = packer.flush() if is_packed else b""
        s.sendall((b"%x\r\n%s\r\n" % (len(end), end) if end else b"") + b"0\r\n\r\n")

    def receive(self, s, path, fields, buf):
        chunks, unpacker = Chunks(), zlib.decompressobj(31)
        told = 0
        while True:
            chunks.take(buf)
            fresh, told = chunks.body[told:], len(chunks.body)
            with self.changed:
                self.uploads[path] += unpacker.decompress(fresh) if fields.get("content-encoding") == "gzip" else fresh
                self.changed.notify_all()
            if chunks.is_over:
                return
            buf = s.recv(65536)
            if not buf:
                raise ConnectionError


class OverH1:
    """One exchange, read as it comes."""

    def __init__(self, sock):
        self.sock, self.head, self.chunks, self.rest = sock, b"", Chunks(), b""

    def ask(self, method, path, fields):
        lines = [f"{method} {path} HTTP/1.1", "Host: bed.test", *(f"{n}: {v}" for n, v in fields)]
        if method == "POST":
            lines.append("Transfer-Encoding: chunked")
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def upload(self, octets, ends):
        self.sock.sendall((b"%x\r\n%s\r\n" % (len(octets), octets) if octets else b"") + (b"0\r\n\r\n" if ends else b""))

    def turn(self):
        pass

    def wait(self, probe):
        while not probe():
            octets = self.sock.recv(65536)
            if not octets:
                return
            if b"\r\n\r\n" not in self.head:
                self.head += octets
                at = self.head.find(b"\r\n\r\n")
                octets, self.head = (self.head[at + 4:], self.head[:at + 4]) if at >= 0 else (b"", self.head)
            if b"chunked" in self.head and octets:
                self.chunks.take(octets)
            elif octets:
                self.rest += octets

    def status(self):
        return int(self.head.split()[1]) if b"\r\n\r\n" in self.head else 0

    def get(self, name):
        lines = (line.partition(":") for line in self.head.decode().split("\r\n"))
        return next((value.strip() for key, _, value in lines if key.lower() == name), None)

    def body(self):
        return self.chunks.body

    def is_whole(self):
        return self.chunks.is_over

    def is_cut(self):
        """Whether the connection ended before the last chunk, or within the announced length."""
        try:
            while octets := self.sock.recv(65536):
                if b"chunked" in self.head:
                    self.chunks.take(octets)
                else:
                    self.rest += octets
        except ConnectionResetError:
            pass
        length = self.get("content-length")
        return not self.chunks.is_over and (length is None or len(self.rest) < int(length))

    def close(self):
        self.sock.close()


class OverStream:
    """The same as a stream of HTTP/2 or HTTP/3."""

    def __init__(self, version, conn):
        self.version, self.conn, self.own = version, conn, None

    def ask(self, method, path, fields):
        more = [(name.lower(), value) for name, value in fields]
        made = self.version.request(path, method, more=more)
        self.at = self.conn.ask(made, ends=method != "POST")
        self.own = self.conn.streams[self.at]

    def upload(self, octets, ends):
        if self.version is h2:
            self.conn.upload(self.at, octets, ends)
        else:
            self.conn.send(self.at, self.version.frame(self.version.DATA, octets) if octets else b"", ends)

    def turn(self):
        self.conn.wait(lambda: False, 0.001)

    def wait(self, probe):
        self.conn.wait(lambda: probe() or self.own.end)

    def status(self):
        return self.own.status

    def get(self, name):
        return self.own.get(name)

    def body(self):
        return bytes(self.own.body)

    def is_whole(self):
        return self.own.end == "complete" and not self.conn.faults

    def is_cut(self):
        self.conn.wait(lambda: self.own.end)
        return self.own.end == "reset"

    def close(self):
        self.conn.close()


class Bed(Varnishd):
    """A server with all versions, and how to open an exchange of each."""

    def __init__(self, o, origin, args=()):
        self.source, self.own = origin.serve.__self__, workdir()
        leaf = Authority(self.own / "ca").leaf("bed.test")
        conf = self.own / "tls.conf"
        conf.write_text(f'pem-file = "{leaf.pem}"\n')
        on_one_port(lambda port: super(Bed, self).__init__(
            o.varnishd, ["-a", "clear=127.0.0.1:0", "-a", f"tls=127.0.0.1:{port},https", "-a", f"quic=127.0.0.1:{port},quic", "-A", str(conf),
                         *PARAMS, *args], vcl=VCL.format(*origin.address)))
        h1_tls, h2_tls = sealed.client_context(), sealed.client_context(alpn=["h2"])
        clear, secret = self.addresses["clear"], self.addresses["tls"]
        self.versions = {
            "h1": lambda: OverH1(h2.plain(clear)),
            "h1s": lambda: OverH1(h1_tls.wrap_socket(h2.plain(secret), server_hostname="bed.test")),
            "h2": lambda: OverStream(h2, h2.Connection(h2.plain(clear))),
            "h2s": lambda: OverStream(h2, h2.Connection(h2.sealed(secret, h2_tls))),
        }
        if not NO_QUIC:
            self.versions["h3"] = lambda: OverStream(h3, h3.Connection(secret))

    def close(self):
        super().close()
        shutil.rmtree(self.own, ignore_errors=True)


def follow(report, bed, version, path, fields=()):
    """One client that reads event after event."""
    one = bed.versions[version]()
    try:
        one.ask("GET", path, fields)
        unpacker, packed, plain = zlib.decompressobj(31), 0, b""

        def body():
            nonlocal packed, plain
            if one.get("content-encoding") != "gzip":
                return one.body()
            fresh, packed = one.body()[packed:], len(one.body())
            plain += unpacker.decompress(fresh)
            return plain

        for n in range(len(EVENTS)):
            so_far = b"".join(EVENTS[:n + 1])
            one.wait(lambda: len(body()) >= len(so_far))
            if not report.check(body() == so_far, f"{version} {path} {list(fields)}: event {n}: {len(body())} octets of {len(so_far)}, status {one.status()}"):
                return
            bed.source.saw(path)
        one.wait(one.is_whole)
        report.check(one.is_whole() and body() == b"".join(EVENTS), f"{version} {path} {list(fields)}: the end")
    finally:
        one.close()


def events_arrive_one_by_one(report, bed):
    codings = [("plain", ()), ("make-gzip", ()), ("make-gzip", (("Accept-Encoding", "gzip"),)), ("make-br", ()), ("make-zstd", ()), ("come-gzip", ()),
               ("come-gzip", (("Accept-Encoding", "gzip"),))]
    for n, (version, (coding, fields), esi, way) in enumerate(itertools.product(bed.versions, codings, ("", "with-esi"), ("pass", "miss"))):
        follow(report, bed, version, f"/{n}-{way}-{coding}-{esi}", fields)


def signs_of_other_servers_count(report, bed):
    for n, (version, sign, way) in enumerate(itertools.product(bed.versions, ("accel", "demanded"), ("pass", "miss"))):
        follow(report, bed, version, f"/sign{n}-{way}-{sign}-make-gzip")


def uploads_arrive_piece_by_piece(report, bed):
    for n, (version, way, sign) in enumerate(itertools.product(bed.versions, ("up-plain", "up-gzip"), ((), (("Incremental", "?1"),)))):
        path, one = f"/{n}-{way}", bed.versions[version]()
        try:
            one.ask("POST", path, sign)
            for k, event in enumerate(EVENTS):
                one.upload(event, False)
                so_far, looks = b"".join(EVENTS[:k + 1]), 0
                while not bed.source.has_come(path, so_far) and looks < LIMIT * 40:
                    one.turn()
                    looks += 1
                if not report.check(bed.source.uploads[path] == so_far, f"{version} {path} {sign}: piece {k}: {len(bed.source.uploads[path])} octets of {len(so_far)}"):
                    break
            one.upload(b"", True)
            one.wait(lambda: one.status())
            report.check(one.status() == 200, f"{version} {path}: {one.status()}")
        finally:
            one.close()


def who_needs_all_of_it_refuses(report, bed):
    want = "Lacquer; error=incremental_refused"
    for n, (version, why) in enumerate(itertools.product(bed.versions, ("held", "rewritten", "with-esi"))):
        one = bed.versions[version]()
        try:
            one.ask("GET", f"/refused{n}-demanded-{why}", ())
            one.wait(lambda: one.status())
            said = one.get("proxy-status") or ""
            report.check(one.status() == 501 and said.startswith(want), f"{version} {why}: {one.status()} {said}")
        finally:
            one.close()
    for version in bed.versions:
        one = bed.versions[version]()
        try:
            one.ask("POST", "/keep", (("Incremental", "?1"),))
            one.wait(lambda: one.status())
            said = one.get("proxy-status") or ""
            report.check(one.status() == 501 and said.startswith(want), f"{version} an upload that VCL keeps: {one.status()} {said}")
        finally:
            one.close()


def another_digest_ends_a_body_visibly(report, bed):
    for n, (version, framing, way) in enumerate(itertools.product(bed.versions, ("length", "chunks"), ("pass", "miss"))):
        one = bed.versions[version]()
        try:
            path = f"/digest{n}-{framing}-{way}"
            one.ask("GET", path, ())
            one.wait(lambda: one.status())
            bed.source.saw(path)
            report.check(one.status() == 200 and one.is_cut(), f"{version} {framing} {way}: status {one.status()}, a whole body")
        finally:
            one.close()
    report.comes(lambda: bed.counter("MAIN.fetch_digest"), 4 * len(bed.versions), "fetches that failed by their digest")


def nobody_waits_for_the_end_of_a_miss(report, bed):
    """A second client gets a stream from its first event on, while the first one is still in it."""
    path, first, second = "/shared", bed.versions["h1"](), bed.versions["h2"]()
    try:
        first.ask("GET", path, ())
        first.wait(lambda: len(first.body()) >= len(EVENTS[0]))
        second.ask("GET", path, ())
        second.wait(lambda: len(second.body()) >= len(EVENTS[0]))
        report.check(first.body() == second.body() == EVENTS[0], f"both have the first event: {len(first.body())} {len(second.body())}")
        for k in range(1, len(EVENTS)):
            bed.source.saw(path)
            so_far = b"".join(EVENTS[:k + 1])
            for one in (first, second):
                one.wait(lambda one=one: len(one.body()) >= len(so_far))
                report.check(one.body() == so_far, f"event {k} of both: {len(one.body())}")
        bed.source.saw(path)
        for one in (first, second):
            one.wait(one.is_whole)
            report.check(one.is_whole(), "the end of both")
    finally:
        first.close()
        second.close()


CASES = [events_arrive_one_by_one, signs_of_other_servers_count, uploads_arrive_piece_by_piece, who_needs_all_of_it_refuses, another_digest_ends_a_body_visibly, nobody_waits_for_the_end_of_a_miss]


def main():
    o = options(__doc__, CASES)
    report = Report("streams")
    if NO_QUIC:
        report.note(f"left out: HTTP/3 ({NO_QUIC})")
    with Origin(Source().serve) as origin, Bed(o, origin) as bed:
        report.run(o.cases, report, bed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
