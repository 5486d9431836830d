#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Resumable uploads (draft-ietf-httpbis-resumable-upload) that are cut at many points and go on over HTTP/1, 2 and 3: two backends hold uploads, neither
knows the other's, and a random director stands in front of them. Each octet must arrive once, at the backend that holds the upload.

Without aioquic (scripts/need-python) the cases over HTTP/3 are left out, and named.
"""
import pathlib
import random
import shutil
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2, pypi
from bed.certificates import Authority
from bed.daemon import Varnishd, on_one_port, workdir
from bed.origin import Origin, head
from bed.report import LIMIT, Report, options

NO_QUIC = pypi.missing("aioquic")
if not NO_QUIC:
    from bed import h3

VCL = """vcl 4.1;
import directors;
backend a {{ .host = "{0}"; .port = "{1}"; }}
backend b {{ .host = "{2}"; .port = "{3}"; }}
sub vcl_init {{
    new both = directors.random();
    both.add_backend(a, 1.0);
    both.add_backend(b, 1.0);
}}
sub vcl_recv {{ set req.backend_hint = both.backend(); }}
"""
SIZE = 200_000
# Where the first request and the one that continues it are cut.
CUTS = [(0, 1), (1, 2), (9, 10), (16_383, 16_384), (65_535, 65_537), (100_000, 150_000), (SIZE - 2, SIZE - 1)]


class Upload:
    def __init__(self):
        self.octets, self.is_taking, self.is_complete = b"", True, False


class Holder:
    """A backend with the uploads that it was sent."""

    def __init__(self, name):
        self.name, self.uploads, self.begun, self.strays, self.changed = name, {}, 0, [], threading.Condition()

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            if method == "POST":
                self.begun += 1
                path = f"/upload/{self.name}{self.begun}"
                upload = self.uploads[path] = Upload()
                s.sendall(f"HTTP/1.1 104 Upload Resumption Supported\r\nLocation: {path}\r\n\r\n".encode())
                buf = self.take(s, upload, fields, buf)
                self.answer(s, 201, "Content-Length: 0")
            elif path not in self.uploads:
                self.strays.append((method, path))
                self.answer(s, 404, "Content-Length: 0")
            else:
                buf = self.go_on(s, method, path, fields, buf)

    def go_on(self, s, method, path, fields, buf):
        upload = self.uploads[path]
        with self.changed:
            # The request before has ended, or is about to.
            self.changed.wait_for(lambda: not upload.is_taking, LIMIT)
        if method == "HEAD":
            self.answer(s, 204, f"Upload-Offset: {len(upload.octets)}\r\nUpload-Complete: ?{int(upload.is_complete)}\r\nCache-Control: no-store")
        elif method == "DELETE":
            del self.uploads[path]
            self.answer(s, 204, "X-By: " + self.name)
        elif int(fields["upload-offset"]) == len(upload.octets):
            buf = self.take(s, upload, fields, buf)
            self.answer(s, 200, "Content-Length: 0")
        else:
            self.answer(s, 409, "Content-Length: 0\r\nConnection: close")
            raise ConnectionError
        return buf

    def take(self, s, upload, fields, buf):
        left, upload.is_taking = int(fields["content-length"]), True
        try:
            while left:
                buf = buf or s.recv(65536)
                if not buf:
                    raise ConnectionError
                with self.changed:
                    upload.octets, left, buf = upload.octets + buf[:left], left - len(buf[:left]), buf[left:]
                    self.changed.notify_all()
            upload.is_complete = fields["upload-complete"] == "?1"
        finally:
            with self.changed:
                upload.is_taking = False
                self.changed.notify_all()
        return buf

    def wait_for(self, path, count):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.uploads[path].octets) >= count, LIMIT)

    @staticmethod
    def answer(s, status, lines):
        s.sendall(f"HTTP/1.1 {status} Said\r\n{lines}\r\n\r\n".encode())


class OverH1:
    """One exchange."""

    def __init__(self, address):
        self.sock, self.buf, self.interim = h2.plain(address), b"", []

    def ask(self, method, path, fields, has_body):
        self.sock.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: bed.test", *(f"{n}: {v}" for n, v in fields)]).encode() + b"\r\n\r\n")

    def send(self, octets, ends):
        self.sock.sendall(octets)

    def _head(self):
        while b"\r\n\r\n" not in self.buf:
            octets = self.sock.recv(65536)
            if not octets:
                raise ConnectionError("no response")
            self.buf += octets
        top, self.buf = self.buf.split(b"\r\n\r\n", 1)
        lines = top.decode().split("\r\n")
        return int(lines[0].split()[1]), {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}

    def location(self):
        status, fields = self._head()
        return fields["location"] if status == 104 else None

    def answer(self):
        status, fields = self._head()
        while status < 200:
            status, fields = self._head()
        return status, fields.get

    def cut(self):
        self.sock.close()


class OverStream:
    """The same as a stream of HTTP/2 or HTTP/3."""

    def __init__(self, version, conn):
        self.version, self.conn = version, conn

    def ask(self, method, path, fields, has_body):
        made = self.version.request(path, method, more=[(name.lower(), value) for name, value in fields])
        self.at = self.conn.ask(made, ends=not has_body)
        self.own = self.conn.streams[self.at]

    def send(self, octets, ends):
        if self.version is h2:
            self.conn.upload(self.at, octets, ends)
        else:
            self.conn.send(self.at, self.version.frame(self.version.DATA, octets) if octets else b"", ends)

    def location(self):
        self.conn.wait(lambda: self.own.interim or self.own.end)
        status, fields = self.own.interim[0] if self.own.interim else (0, [])
        return dict(fields).get("location") if int(status) == 104 else None

    def answer(self):
        self.conn.wait(lambda: self.own.end)
        return self.own.status, self.own.get

    def cut(self):
        self.conn.close()


class Bed(Varnishd):
    def __init__(self, o, a, b):
        self.own, self.a = workdir(), a
        conf = self.own / "tls.conf"
        conf.write_text(f'pem-file = "{Authority(self.own / "ca").leaf("bed.test").pem}"\n')
        on_one_port(lambda port: super(Bed, self).__init__(
            o.varnishd, ["-a", "clear=127.0.0.1:0", "-a", f"tls=127.0.0.1:{port},https", "-a", f"quic=127.0.0.1:{port},quic", "-A", str(conf),
                         "-p", "feature=+http2"], vcl=VCL.format(*a.address, *b.address)))
        clear, secret = self.addresses["clear"], self.addresses["tls"]
        self.versions = {"h1": lambda: OverH1(clear), "h2": lambda: OverStream(h2, h2.Connection(h2.plain(clear)))}
        if not NO_QUIC:
            self.versions["h3"] = lambda: OverStream(h3, h3.Connection(secret))

    def close(self):
        super().close()
        shutil.rmtree(self.own, ignore_errors=True)

    def ask(self, version, method, path):
        """A request without a body: status and fields of its response."""
        one = self.versions[version]()
        try:
            one.ask(method, path, (), False)
            return one.answer()
        finally:
            one.cut()


def begin(bed, version, data, cut):
    """Sends the data up to the cut; where the upload goes on."""
    one = bed.versions[version]()
    try:
        one.ask("POST", "/files", (("Upload-Complete", "?1"), ("Content-Length", str(len(data)))), True)
        one.send(data[:cut], False)
        return one.location()
    finally:
        one.cut()


def resume(bed, version, path, data, offset, holder, cut=None):
    """Sends the data from the offset on; the status. Up to a cut: whether some of it came."""
    one = bed.versions[version]()
    try:
        one.ask("PATCH", path, (("Upload-Complete", "?1"), ("Upload-Offset", str(offset)), ("Content-Length", str(len(data) - offset))), True)
        one.send(data[offset:cut], cut is None)
        return one.answer()[0] if cut is None else holder.wait_for(path, offset + 1)
    finally:
        one.cut()


def uploads_go_on_where_they_were_cut(report, bed, holders):
    draw = random.Random(7)
    versions = list(bed.versions)
    for n, (version, cuts) in enumerate((version, cuts) for version in versions for cuts in CUTS):
        data, name = draw.randbytes(SIZE), f"{version}, cut at {cuts}"
        path = begin(bed, version, data, cuts[0])
        if not report.check(path, f"{name}: no 104"):
            continue
        holder = next(one for one in holders if path in one.uploads)
        for k, cut in enumerate((cuts[1], None)):
            # A client may go on over another version.
            status, get = bed.ask(versions[(n + k) % len(versions)], "HEAD", path)
            offset = get("upload-offset")
            if not report.check(status == 204 and offset is not None and int(offset) <= cuts[k], f"{name}: HEAD of {path}: {status}, offset {offset}"):
                break
            status = resume(bed, version, path, data, int(offset), holder, cut)
        held = holder.uploads[path]
        report.check(status == 200 and held.octets == data and held.is_complete, f"{name}: {status}, {len(held.octets)} octets of {SIZE}, complete: {held.is_complete}")
        status, _ = bed.ask(version, "DELETE", path)
        report.check(status == 204, f"{name}: DELETE: {status}")
    strays = [stray for holder in holders for stray in holder.strays]
    report.check(not strays, f"requests at the backend that doesn't hold their upload: {strays[:3]}")
    report.check(all(holder.uploads == {} for holder in holders), "uploads that are left")
    report.comes(lambda: bed.counter("MAIN.n_upload"), 0, "uploads that are remembered after their DELETE")


def a_backend_that_is_down_is_not_replaced(report, bed, holders):
    """Another one would say that it knows no such upload, and the client would give up."""
    data = b"x" * 100
    while not (path := begin(bed, "h1", data, 50)).startswith("/upload/a"):
        pass
    strays = len(holders[1].strays)
    bed.a.close()
    status, _ = bed.ask("h1", "HEAD", path)
    report.check((status, len(holders[1].strays)) == (503, strays), f"HEAD of an upload whose backend is down: {status}, {holders[1].strays[strays:]}")


def main():
    o = options(__doc__, [uploads_go_on_where_they_were_cut, a_backend_that_is_down_is_not_replaced])
    report = Report("uploads")
    if NO_QUIC:
        report.note(f"left out: HTTP/3 ({NO_QUIC})")
    holders = [Holder("a"), Holder("b")]
    with Origin(holders[0].serve) as a, Origin(holders[1].serve) as b, Bed(o, a, b) as bed:
        report.run(o.cases, report, bed, holders)
        report.note(f"uploads by backend: {[holder.begun for holder in holders]}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
