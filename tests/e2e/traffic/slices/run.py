#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Objects in slices: what clients get, byte by byte, and what of it the origin is asked for.

Each word of eight octets of a body tells its place and the version that it is of, so that no octet can be of another one unseen.
With --full a file of 2 GB and 200 clients; by default the same with less.
"""
import array
import functools
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import pypi
from bed.certificates import Authority
from bed.daemon import Varnishd, directory, on_one_port
from bed.h2 import Connection
from bed.http import Client
from bed.origin import Nginx, Origin, head
from bed.report import Report, options, until

NO_CLIENT = pypi.missing("aioquic")
if not NO_CLIENT:
    from bed import h3

MB = 1 << 20
OLD = "Sun, 06 Nov 1994 08:49:37 GMT"

VCL = """vcl 4.1;
backend default {{ .host = "{host}"; .port = "{port}"; {more} }}
sub vcl_recv {{ if (req.method == "PURGE") {{ return (purge); }} }}
sub vcl_backend_fetch {{ set bereq.do_slice = true; }}
sub vcl_backend_response {{ set beresp.ttl = 1h; }}
sub vcl_deliver {{ set resp.http.X-Hits = obj.hits; }}
"""


@functools.lru_cache(64)
def places(n):
    """Block `n` of 1 MB of a file, without a version: words that count up."""
    return array.array("Q", range(n * MB // 8, (n + 1) * MB // 8)).tobytes()


@functools.lru_cache(64)
def block(version, n):
    """Block `n` of a version, which is in the upper three octets of each word."""
    octets = bytearray(places(n))
    for at in range(3):
        octets[5 + at::8] = bytes([version >> 8 * at & 255]) * (MB // 8)
    return bytes(octets)


def content(version, low, high):
    """The octets from `low` up to and with `high` of a version."""
    first, last = low // MB, high // MB
    if first == last:
        return block(version, first)[low - first * MB:high + 1 - first * MB]
    return b"".join([block(version, first)[low - first * MB:], *(block(version, n) for n in range(first + 1, last)),
                     block(version, last)[:high + 1 - last * MB]])


class File:
    """What the origin has: its length and version, and how it answers. Counts the octets of bodies that it sent."""

    def __init__(self, length, dated=False, if_range=True, changes_after=0):
        """`changes_after` so many requests there is another version; 0: never by itself."""
        self.length, self.version, self.dated, self.if_range, self.changes_after = length, 1, dated, if_range, changes_after
        self.lock, self.sent, self.requests, self.gate = threading.Lock(), 0, 0, None

    def validator(self, version):
        # The date of a version is of long ago: a strong validator.
        day = f"Sun, 06 Nov {1994 + version // 60:04} 08:{version % 60:02}:37 GMT"
        return f"Last-Modified: {day}\r\n" if self.dated else f'ETag: "{version}"\r\n'

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, _, fields, buf = got
            with self.lock:
                self.requests += 1
                if self.changes_after and self.requests % self.changes_after == 0:
                    self.version += 1
                version, length = self.version, self.length
            validator = self.validator(version)
            wanted = fields.get("if-range")
            holds = not wanted or not self.if_range or wanted in validator
            date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
            top = f"Date: {date}\r\n{validator}Accept-Ranges: bytes\r\nCache-Control: max-age=1000\r\n"
            if "if-none-match" in fields and fields["if-none-match"] in validator:
                s.sendall(f"HTTP/1.1 304 Not Modified\r\n{top}\r\n".encode())
                continue
            low, high, status = 0, length - 1, "200 OK"
            if holds and (asked := fields.get("range")):
                begin, _, end = asked.removeprefix("bytes=").partition("-")
                low, high, status = int(begin), min(int(end or length - 1), length - 1), "206 Partial Content"
                if low >= length:
                    s.sendall(f"HTTP/1.1 416 No\r\nContent-Range: bytes */{length}\r\nContent-Length: 0\r\n\r\n".encode())
                    continue
                top += f"Content-Range: bytes {low}-{high}/{length}\r\n"
            s.sendall(f"HTTP/1.1 {status}\r\n{top}Content-Length: {high - low + 1}\r\n\r\n".encode())
            while method != "HEAD" and low <= high:
                piece = content(version, low, min(high, low + MB - 1))
                s.sendall(piece)
                low += len(piece)
                with self.lock:
                    self.sent += len(piece)
                if self.gate:
                    self.gate()


def judge(r, length, asked):
    """What is wrong with an answer; "" for one that is of one version and right, or an error that its client can see."""
    if r.end == "truncated" or r.status == 503:
        return ""
    if r.end != "complete":
        return str(r)
    tag = r.get("ETag")
    if tag:
        version = int(tag.strip('"'))
    else:
        day = r.get("Last-Modified")
        version = (int(day[12:16]) - 1994) * 60 + int(day[20:22])
    low, high = asked if asked else (0, length - 1)
    if asked and (r.status != 206 or r.get("Content-Range") != f"bytes {low}-{high}/{length}"):
        return f"{r.status} {r.get('Content-Range')}"
    if not asked and r.status != 200:
        return str(r)
    got, at = memoryview(r.body), low
    if len(got) != high - low + 1:
        return f"{len(got)} octets"
    while at <= high:
        end = min(high, at + MB - 1)
        if got[at - low:end + 1 - low] != content(version, at, end):
            return f"another octet between {at} and {end} than version {version} has"
        at = end + 1
    return ""


def ask(address, asked=None, fields=(), timeout=60, path="/"):
    """One answer on a connection of its own. `asked`: first and last octet."""
    c = Client(address, timeout=timeout)
    try:
        ranged = (("Range", f"bytes={asked[0]}-{asked[1]}"),) if asked else ()
        return c.request(path, (*ranged, *fields))
    finally:
        c.sock.close()


def started(o, origin, slice_size="1M", args=(), vcl=VCL, more="", storage="malloc,100m"):
    text = vcl.format(host=origin.address[0], port=origin.address[1], more=more)
    return Varnishd(o.varnishd, args=["-p", f"slice_size={slice_size}", *args], vcl=text, storage=storage)


def crowd(jobs, work, threads=8):
    """Does `work(job)` for all jobs, several at once; the results."""
    left, done, lock = list(jobs), [], threading.Lock()

    def run():
        while True:
            with lock:
                if not left:
                    return
                job = left.pop()
            result = work(job)
            with lock:
                done.append(result)

    all_of_them = [threading.Thread(target=run) for _ in range(threads)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    return done


def distinct(spans):
    """How many octets these spans have, each counted once."""
    total, reach = 0, -1
    for low, high in sorted(spans):
        total += max(0, high - max(low, reach + 1) + 1)
        reach = max(reach, high)
    return total


def ranges(report, o):
    """Clients ask for random ranges: right octets, and little more is asked of the origin than the clients asked for."""
    length, most, size, n = (2 << 30, 40 * MB, "1M", 200) if o.full else (48 * MB + 12345, 2 * MB, "64k", 100)
    file, rng = File(length), random.Random(o.seed)
    # A quarter of the file's beginnings are near each other, as films are watched.
    starts = [rng.randrange(length) if rng.random() < 0.75 else rng.randrange(length // 16) for _ in range(n)]
    spans = [(low, min(length - 1, low + rng.randrange(most // 2, most))) for low in starts]
    with Origin(file.serve) as origin, started(o, origin, size, storage="malloc,3g") as v:
        begin = time.monotonic()
        wrong = [what for what in crowd(spans, lambda span: judge(ask(v.address, span), length, span)) if what]
        took = time.monotonic() - begin
        report.check(not wrong, f"ranges: {len(wrong)} of {n} wrong: {wrong[:3]}")
        asked = distinct(spans)
        report.check(file.sent <= 1.1 * asked, f"ranges: the origin sent {file.sent} for {asked} distinct octets")
        report.check(v.counter("MAIN.slice_cut") == 0 and v.counter("MAIN.slice_changed") == 0, "ranges: nothing changed, but something broke")
        report.note(f"ranges: {n} clients, {sum(h - l + 1 for l, h in spans) // MB} MB asked for, {asked // MB} MB distinct of {length // MB}, "
                    f"origin sent {file.sent / asked:.3f} of these in {file.requests} requests, {took:.1f} s")


def changes(report, o):
    """The file changes while clients read it: each answer is of one version, or its client sees that it isn't whole."""
    for name, dated, if_range in (("tags", False, True), ("tags, and no If-Range", False, False), ("dates", True, True)):
        length, n = (24 * MB if o.full else 2 * MB) + 4321, 1000 if o.full else 60
        file, rng = File(length, dated, if_range, changes_after=20), random.Random(o.seed)
        low = [rng.randrange(length) for _ in range(n)]
        spans = [None if rng.random() < 0.3 else (at, rng.randrange(at, length)) for at in low]

        with Origin(file.serve) as origin, started(o, origin, "64k") as v:
            def work(span):
                r = ask(v.address, span)
                return judge(r, length, span), r.end == "complete" and r.status in (200, 206)

            done = crowd(spans, work)
            file.changes_after = 0
            wrong = [what for what, _ in done if what]
            report.check(not wrong, f"changes by {name}: {len(wrong)} of {n} wrong: {wrong[:3]}")
            whole = sum(ok for _, ok in done)
            report.comes(lambda: v.counter("MAIN.slice_changed"), lambda n: n > 0, f"changes by {name}: noticed")
            changed = v.counter("MAIN.slice_changed")
            # And when it changes no more, all is well again.
            calm = [judge(r, length, span) or ("" if r.end == "complete" else str(r)) for span in spans[:10] for r in [ask(v.address, span)]]
            report.check(not any(calm), f"changes by {name}: afterwards {calm}")
            report.note(f"changes by {name}: {n} clients, {file.version} versions, {whole} answers whole, {changed} objects given up, "
                        f"{v.counter('MAIN.slice_again')} begun anew, {v.counter('MAIN.slice_cut')} cut")


def lies(report, o):
    """Slices that are shorter or longer than their Content-Range says, in chunks: no answer is believed to be whole that isn't."""
    length = 1000000

    def serve_with(bytes_more):
        def serve(s):
            buf = b""
            while got := head(s, buf):
                _, path, fields, buf = got
                low, high = map(int, fields["range"].removeprefix("bytes=").split("-"))
                high = min(high, length - 1)
                body = (content(1, low, high) + b"x")[:high - low + 1 + (bytes_more if low else 0)]
                top = f'HTTP/1.1 206 P\r\nETag: "1"\r\nContent-Range: bytes {low}-{high}/{length}\r\nTransfer-Encoding: chunked\r\n\r\n'
                s.sendall(top.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        return serve

    for more in (-1, 1):
        with Origin(serve_with(more)) as origin, started(o, origin, "64k") as v:
            r = ask(v.address, (0, 65535))
            report.check(r.whole(206) and not judge(r, length, (0, 65535)), f"lies, {more:+}: the true slice: {r}")
            for span in (None, (70000, 140000), (1000, 80000)):
                r = ask(v.address, span)
                report.check(r.end == "truncated" or r.status == 503, f"lies, {more:+}, {span}: {r}")
            report.comes(lambda: v.counter("MAIN.slice_fail"), lambda failed: failed >= 3, f"lies, {more:+}: failed slices")
            report.check(v.counter("MAIN.slice_changed") == 0, f"lies, {more:+}: nothing changed")


def small_store(report, o):
    """An object larger than its store: slices are evicted one by one, and answers are whole all the same."""
    length = 24 * MB + 77
    file = File(length)
    with Origin(file.serve) as origin, started(o, origin, "256k", storage="malloc,8m") as v:
        r = ask(v.address)
        report.check(r.end == "complete" and not judge(r, length, None), f"small store: {r} {judge(r, length, None)}")
        report.check(v.counter("MAIN.n_lru_nuked") > 50, "small store: nothing was evicted")
        report.check(v.counter("MAIN.slice_objects") == 1, "small store: the head was evicted")
        sent = file.sent
        span = (length - 3 * MB, length - 1)
        r = ask(v.address, span)
        report.check(r.end == "complete" and not judge(r, length, span), f"small store: the end: {judge(r, length, span)}")
        report.check(file.sent == sent, "small store: what was sent last wasn't kept")
        report.note(f"small store: {v.counter('MAIN.n_lru_nuked')} slices evicted, {v.counter('SMA.s0.g_bytes') // MB} MB in use at the end")


def on_disk(report, o):
    """Slices on a store on disk are there after a restart."""
    length = 16 * MB + 77
    file = File(length)
    with directory() as d, Origin(file.serve) as origin:
        d.chmod(0o777)
        storage = f"file,{d}/store,256m,keep"
        with started(o, origin, "256k", storage=storage) as v:
            # What comes before isn't written.
            until(60, lambda: v.counter("DISK.s0.ready") == 1)
            for span in (None, (5 * MB, 9 * MB)):
                r = ask(v.address, span)
                report.check(r.end == "complete" and not judge(r, length, span), f"disk: {r} {judge(r, length, span)}")
            # A disk that is too slow for the traffic leaves objects in memory alone.
            slices = length / (256 << 10)
            until(60, lambda: v.counter("DISK.s0.objects") >= slices)
            written = min(1, v.counter("DISK.s0.objects") / slices)
            v.cli.ask("stop")
            v.cli.ask("start")
            until(60, lambda: v.counter("DISK.s0.ready") == 1)
            sent = file.sent
            wrong = []
            for span in (None, (5 * MB, 9 * MB), (length - 100, length - 1)):
                r = ask(v.address, span)
                wrong += [str(r) + judge(r, length, span)] if r.end != "complete" or judge(r, length, span) else []
            report.check(not wrong, f"disk: after a restart {wrong}")
            kept = 1 - (file.sent - sent) / length
            report.check(kept > written - 0.1, f"disk: {kept:.0%} was there after a restart, {written:.0%} before")
            report.note(f"disk: {kept:.0%} of the octets were there after a restart")


def slow_reader(report, o):
    """A client that doesn't read holds the origin back: a few slices ahead, no more."""
    length = 200 * MB
    file = File(length)
    with Origin(file.serve) as origin, started(o, origin, "256k") as v:
        c = Client(v.address, timeout=30, rcvbuf=65536)
        c.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        c.sock.recv(1)
        # Until nothing moves any more: the sockets between are full.
        seen = [-1]

        def is_still():
            seen.append(file.sent)
            return len(seen) > 10 and len(set(seen[-10:])) == 1

        report.check(until(60, is_still, 0.05), "slow: the origin is read on and on")
        report.check(file.sent < 16 * MB, f"slow: {file.sent // MB} MB were fetched for a client that reads nothing")
        report.note(f"slow: {file.sent / MB:.1f} MB fetched for a client that reads nothing of {length // MB} MB")
        c.sock.close()


def seeking(report, o):
    """A player that opens a film, reads a little, and seeks: what it doesn't read isn't fetched."""
    length = 200 * MB
    file, rng = File(length), random.Random(o.seed)
    with Origin(file.serve) as origin, started(o, origin, "256k") as v:
        n, wrong = 12, 0
        for _ in range(n):
            at = rng.randrange(length - 4 * MB)
            c = Client(v.address, timeout=30, rcvbuf=65536)
            c.send(f"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes={at}-\r\n\r\n".encode())
            got = b""
            while b"\r\n\r\n" not in got:
                got += c.sock.recv(4096)
            body = got.split(b"\r\n\r\n", 1)[1]
            while len(body) < 300000:
                body += c.sock.recv(65536)
            wrong += body != content(1, at, at + len(body) - 1)
            c.sock.close()
        report.check(not wrong, f"seeking: {wrong} of {n} began with wrong octets")
        report.check(file.sent < n * 8 * MB, f"seeking: {file.sent // MB} MB fetched for {n} looks at the film")
        # A download that broke off goes on where it was.
        span = (length - 2 * MB, length - 1)
        r = ask(v.address, span, [("If-Range", '"1"')])
        report.check(r.end == "complete" and not judge(r, length, span), f"resumed: {r}")
        report.note(f"seeking: {file.sent / MB:.1f} MB fetched for {n} looks at {length // MB} MB, which read 3.4 MB and what sockets hold")


def protocols(report, o):
    """A real nginx by HTTP/1 and 2 as the origin, clients of HTTP/1 and 2."""
    length = 3 * MB + 5
    for spoken, listen, more in (("HTTP/1", "", ""), ("HTTP/2", "http2", '.proto = "h2";')):
        with Nginx("", listen=listen) as origin:
            (origin.root / "film").write_bytes(content(1, 0, length - 1))
            with started(o, origin, "128k", args=["-p", "feature=+http2"], more=more) as v:
                for asked in ("bytes=1000000-1999999", None, "bytes=-70000"):
                    fields = [("range", asked)] if asked else []
                    low, high = {None: (0, length - 1), "bytes=-70000": (length - 70000, length - 1)}.get(asked, (1000000, 1999999))
                    r = Client(v.address, timeout=30).request("/film", fields)
                    right = r.body == content(1, low, high)
                    report.check(r.end == "complete" and right, f"origin of {spoken}, {asked}: {r} {right}")
                    s = Connection(socket.create_connection(v.address)).get("/film", limit=30, more=fields)
                    right = bytes(s.body) == content(1, low, high)
                    report.check(right, f"origin of {spoken}, {asked}, client of HTTP/2: {s} {right}")
                report.check(v.counter("MAIN.slice_objects") == 1, f"origin of {spoken}: not in slices")
                # The file is replaced: nginx has another entity tag for it.
                (origin.root / "new").write_bytes(content(2, 0, length))
                (origin.root / "new").rename(origin.root / "film")
                Client(v.address).request("/film", method="PURGE")
                r = Client(v.address, timeout=30).request("/film", [("Range", "bytes=500000-1500000")])
                report.check(r.body == content(2, 500000, 1500000), f"origin of {spoken}: the new file: {r}")


def upgrades(report, o):
    """Another program takes over while a client reads: its answer goes on (the worker that leaves fetches the rest for it, as the stores are the other
    one's by then), and the new worker finds head and slices."""
    length = 16 * MB + 77
    file = File(length)
    with Origin(file.serve) as origin, started(o, origin, "256k") as v:
        r = ask(v.address)
        report.check(r.end == "complete" and not judge(r, length, None), f"upgrade: before {r}")
        sent = file.sent
        slow = Client(v.address, timeout=60, rcvbuf=65536)
        slow.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        slow.sock.recv(1, socket.MSG_PEEK)
        status, text = v.cli.ask_raw("upgrade")
        report.check(status == 200, f"upgrade: {status} {text}")
        wrong = []
        for span in (None, (5 * MB, 9 * MB), (length - 100, length - 1)):
            r = ask(v.address, span)
            wrong += [str(r) + judge(r, length, span)] if r.end != "complete" or judge(r, length, span) else []
        report.check(not wrong, f"upgrade: after it {wrong}")
        r = slow.response()
        report.check(r.end == "complete" and not judge(r, length, None), f"upgrade: an answer that had begun: {r} {judge(r, length, None)}")
        slow.sock.close()
        report.check(v.counter("MAIN.slice_fetch") == 0, f"upgrade: {v.counter('MAIN.slice_fetch')} slices were fetched again")
        report.check(file.sent <= sent + length, f"upgrade: {file.sent - sent} octets for an answer that had begun")
        # Who purges the object at the new worker ends its slices, too.
        file.version = 2
        Client(v.address).request("/", method="PURGE")
        r = ask(v.address, (5 * MB, 9 * MB))
        report.check(r.end == "complete" and r.get("ETag") == '"2"' and not judge(r, length, (5 * MB, 9 * MB)), f"upgrade: after a purge {r}")


def http3(report, o):
    """Clients of HTTP/3: ranges, the whole, one that leaves in the middle."""
    if NO_CLIENT:
        report.note(f"LEFT OUT, as there is no aioquic ({NO_CLIENT}): http3")
        return
    length = 6 * MB + 77
    file = File(length)
    with directory() as d:
        (d / "tls.conf").write_text(f'pem-file = "{Authority(d / "ca").leaf("bed.test").pem}"\n')
        _http3(report, o, file, d)


def _http3(report, o, file, d):
    length = file.length
    args = lambda port: ["-a", "clear=127.0.0.1:0", "-a", f"quic=127.0.0.1:{port},quic", "-A", str(d / "tls.conf")]
    with Origin(file.serve) as origin, on_one_port(lambda port: started(o, origin, "256k", args=args(port))) as v:
        with h3.Connection(v.addresses["quic"]) as c:
            gone = c.ask(h3.request("/"))
            c.wait(lambda: c.streams[gone].length > 300_000, 30)
            c.reset(gone)
            c.stop(gone)
            for span in ((1_000_000, 1_999_999), None, (length - 70_000, length - 1)):
                low, high = span or (0, length - 1)
                got = c.get("/", 60, more=[("range", f"bytes={low}-{high}")] if span else [])
                right = bytes(got.body) == content(1, low, high)
                report.check(got.whole() and right, f"HTTP/3, {span}: {got} {right}")
        report.check(v.counter("MAIN.slice_objects") == 1, "HTTP/3: not in slices")
        report.check(file.sent < 1.1 * length, f"HTTP/3: {file.sent} octets fetched of {length}")


CASES = (ranges, changes, lies, small_store, on_disk, slow_reader, seeking, protocols, upgrades, http3)


def main():
    o = options(__doc__, CASES)
    report = Report("slices")
    report.run(o.cases, report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
