#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Attacks that advisories on HTTP servers of 2024 to 2026 describe, sent to the whole program: each row says what must come of it.

After each row the worker is the same process, and an honest request is served. Floods of frames have suites of their own (h2, h3);
docs/internals/advisories.md says which advisory is judged where.
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import pypi
from bed.certificates import Authority
from bed.daemon import Varnishd, workdir
from bed.http import get
from bed.report import Report, options

NO_CLIENT = pypi.missing("aioquic")

import answers
import framing
import requests
import sealed
if not NO_CLIENT:
    import datagrams

VCL = """vcl 4.1;
import std;
backend origin {{ .host = "{0}"; .port = "{1}"; .connect_timeout = 60s; .first_byte_timeout = 60s; .between_bytes_timeout = 60s; }}
backend nobody none;
sub vcl_recv {{
    if (req.url ~ "^/nobody") {{ set req.backend_hint = nobody; }}
    if (req.url ~ "^/pipe") {{ return (pipe); }}
    if (req.url ~ "^/own") {{ return (synth(200)); }}
    if (req.url ~ "^/grown") {{ set req.http.X-Grown = regsuball(req.url, "a", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"); return (synth(200)); }}
    if (req.url ~ "^/turned") {{ set req.url = regsub(req.url, "^/turned/(.*)$", "/\\1\\1\\1?\\1"); }}
    if (req.url ~ "^/pass|^/turned") {{ return (pass); }}
}}
sub vcl_backend_response {{ if (bereq.url ~ "^/esi") {{ set beresp.do_esi = true; }} }}
"""


class Bed:
    """The program before an origin; `check` judges a row."""

    def __init__(self, report, program, conf, origin):
        self.report, self.origin = report, origin
        words = ["-a", "plain=127.0.0.1:0", "-a", "quic=127.0.0.1:0,quic", "-a", "tls=127.0.0.1:0,https", "-A", str(conf), "-p", "feature=+http2"]
        self.server = Varnishd(program, words, vcl=VCL.format(*origin.address))
        self.plain, self.quic, self.tls = (self.server.addresses[name] for name in ("plain", "quic", "tls"))
        self.worker = self.server.worker()

    def check(self, row, ok, what=""):
        self.report.check(ok, f"{row}: {what}")

    def goes_on(self, row):
        got = get(self.plain, "/own")
        self.check(row, got.whole(), f"an honest request after it: {got}")
        if self.server.worker() != self.worker:
            self.check(row, False, f"another worker\n{self.server.log()}")
            self.worker = self.server.worker()

    def close(self):
        self.server.close()


def run(report, o, module, leaf):
    conf = workdir() / "tls.conf"
    conf.write_text(f'pem-file = "{leaf.pem}"\n')
    with module.origin() as origin:
        bed = Bed(report, o.varnishd, conf, origin)
        try:
            for row, act in module.ROWS.items():
                if all(word in row for word in o.words):
                    act(bed, row)
                    bed.goes_on(row)
        finally:
            bed.close()
            shutil.rmtree(conf.parent, ignore_errors=True)


def main():
    o = options(__doc__, words=dict(nargs="*", default=[], help="rows to run, by parts of their names"))
    report, files = Report("advisories"), workdir()
    leaf = Authority(files).leaf("bed.test")
    if NO_CLIENT:
        report.note(f"LEFT OUT: HTTP/3: {NO_CLIENT}")
    for module in (requests, answers, framing, sealed, *(() if NO_CLIENT else (datagrams,))):
        run(report, o, module, leaf)
    shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
