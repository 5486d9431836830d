#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""TLS towards clients: what honest ones get, what hostile ones get, and (by --full) what other people's judges say.

--words says which cases to run, by parts of their names.
--hitch asks a hitch with a varnishd behind it instead, which shows that a case is right (both have to be installed).
"""
import collections
import contextlib
import pathlib
import random
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import answers
import hostile
import judges
import keys
import replaced
from bed.daemon import workdir
from bed.origin import Origin, head
from bed.report import ROOT, Report, options
from served import Certificates, Hitch, Ours

GROUPS = {"answers": answers, "hostile": hostile, "keys": keys}


class Bed:
    """A server, its certificates, and an origin that counts what it was asked for."""

    def __init__(self, o, made, origin, counts, default=None):
        self.made, self.counts, self.dice, self.is_hitch = made, counts, random.Random(o.seed), o.hitch
        self.program, self.origin, self.files = o.varnishd, origin.address, made.dir
        args = ["-p", "timeout_idle=30", *([] if o.hitch else ["-p", f"tls_handshake_timeout={hostile.HANDSHAKE_LIMIT}"])]
        self.served = (Hitch if o.hitch else Ours)(o.varnishd, [leaf for leaf in made.served if leaf is not default] + [default or made.default], args=args, backend=origin.address)
        self.worker = self.served.worker()

    def asked(self, path):
        """How many requests for this path the origin has had, whole."""
        return self.counts[path]


@contextlib.contextmanager
def origin():
    """One that counts a request once it has all of it."""
    counts = collections.Counter()

    def serve(s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            buf = without_body(s, fields, buf)
            counts[path.removesuffix("/pass")] += 1
            extra, body = answers.answer(method, path, fields)
            top = f"HTTP/1.1 200 OK\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode()
            s.sendall(top if method == "HEAD" else top + body)
    with Origin(serve) as o:
        yield o, counts


def without_body(s, fields, buf):
    """What came behind the request's body; an end before is an OSError."""
    def more():
        d = s.recv(65536)
        if not d:
            raise ConnectionError("the body is cut")
        return d
    if "chunked" not in fields.get("transfer-encoding", ""):
        length = int(fields.get("content-length", 0))
        while len(buf) < length:
            buf += more()
        return buf[length:]
    while True:
        while b"\r\n" not in buf:
            buf += more()
        size, buf = buf.split(b"\r\n", 1)
        size = int(size, 16)
        while len(buf) < size + 2:
            buf += more()
        buf = buf[size + 2:]
        if not size:
            return buf


def by_judges(report, o, made, server, counts):
    """Other people's programs; tlsfuzzer wants an RSA certificate for whoever tells no name."""
    for name, case in judges.CASES.items():
        if o.words and name not in o.words:
            continue
        if not judges.is_here(name):
            report.note(f"{name} isn't here: left out")
            continue
        bed = Bed(o, made, server, counts, made.rsa if name == "fuzzer" else made.default)
        with bed.served:
            report.run([case], report, bed)


def main():
    o = options(__doc__, hitch=dict(action="store_true", help="ask hitch and varnishd"), group=dict(choices=[*GROUPS, "judges", "replaced"]), words=dict(nargs="*", default=[]))
    report, files = Report("tls"), workdir()
    if o.full:
        subprocess.run([ROOT / "scripts/need-packages", "tls"], check=False)  # who isn't here is left out
    try:
        made = Certificates(files)
        with origin() as (server, counts):
            for group, module in GROUPS.items():
                if o.group not in (None, group) or o.hitch and module is keys:
                    continue
                bed = Bed(o, made, server, counts)
                with bed.served:
                    for name, case in module.CASES.items():
                        if not o.words or any(word in name for word in o.words):
                            report.run([case], report, bed)
            if o.full and o.group in (None, "judges"):
                by_judges(report, o, made, server, counts)
        if o.full and o.group in (None, "replaced"):
            replaced.run(report, o, made)
    finally:
        shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
