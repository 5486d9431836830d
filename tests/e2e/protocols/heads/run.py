#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Requests whose head reaches a limit, over HTTP/1, 2 and 3, as Varnish 7.1 and as 9: the response, what else the connection serves, the log.

The table "Limits of a header" in docs/book/security.md sums the rows up. aioquic is the client of HTTP/3; without it that column is left out, and named.
"""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2, hpack, http, pypi
from bed.certificates import Authority
from bed.daemon import Varnishd, workdir
from bed.report import Report, options

NO_QUIC = pypi.missing("aioquic")
if not NO_QUIC:
    from bed import h3

LIMIT = 60  # seconds; it only ends what hangs
LINE, SIZE, MOST_FIELDS, WORKSPACE = 2048, 12 << 10, 32, 24 << 10
PARAMS = {"http_req_hdr_len": LINE, "http_req_size": SIZE, "http_max_hdr": MOST_FIELDS, "workspace_client": WORKSPACE}
VCL = "vcl 4.1; backend default none; sub vcl_recv { return (synth(200)); }"
CLOSED, ENDED = "closed", "ENHANCE_YOUR_CALM"


def line(octets, name="x-long"):
    return [(name, "a" * (octets - len(name) - len(": ")))]


def lines(count, octets):
    return [field for n in range(count) for field in line(octets, f"x-{n:02}")]


# Name: path, fields; what HTTP/1, HTTP/2 as 7.1 and as 9, and HTTP/3 say; the record.
ROWS = {
    "a line of http_req_hdr_len": ("/", line(LINE), 200, 200, 200, 200, None),
    "a longer line": ("/", line(LINE + 1), 400, 431, 431, 431, "Header too l"),
    "a line longer than all": ("/", line(SIZE * 3 // 2), CLOSED, 431, ENDED, 431, None),
    "a path longer than a line": ("/" + "p" * LINE, [], 200, 200, 200, 200, None),
    "http_max_hdr": ("/", lines(MOST_FIELDS - 7, 20), 200, 200, 200, 200, None),
    "more than http_max_hdr": ("/", lines(MOST_FIELDS, 20), 400, 431, 431, 431, "Too many headers: "),
    "more than http_req_size": ("/", lines(7, LINE), CLOSED, 200, 431, 431, None),
    "half as much again": ("/", lines(10, LINE), CLOSED, 200, ENDED, 431, None),
    "more than workspace_client": ("/", lines(13, LINE), CLOSED, 431, ENDED, 431, None),
    "a path of more than http_req_size": ("/" + "p" * SIZE, [], CLOSED, 200, 414, 431, None),
    "a path of more than workspace_client": ("/" + "p" * WORKSPACE, [], CLOSED, 414, ENDED, 431, None),
}


def over_http1(address, path, fields):
    with http.Client(address, LIMIT) as c:
        return c.request(path, fields).status or CLOSED


def over_http2(address, path, fields):
    with h2.Connection(h2.plain(address, LIMIT)) as c:
        at = c.stream()
        c.send(h2.headers(at, hpack.block(h2.request(path, more=fields)), cut=16384))
        c.wait(lambda: c.streams[at].end, LIMIT)
        if c.goaway:
            return h2.error(c.goaway[1])
        return c.streams[at].status if c.get("/", LIMIT).whole() else "no further request"


def over_http3(address, path, fields):
    with h3.Connection(address) as c:
        first = c.get(path, LIMIT, more=fields)
        return first.status if c.get("/", LIMIT).whole() else "no further request"


def logged(v, program):
    varnishlog = pathlib.Path(program).parent / "varnishlog"
    return subprocess.run([varnishlog, "-n", v.n, "-d", "-g", "raw", "-i", "BogoHeader,LostHeader"], capture_output=True, text=True, timeout=20).stdout


def judge(report, v, o, name, row, compat):
    path, fields, http1, as_7, as_9, http3, record = row
    ways = {"HTTP/1": (over_http1, v.address, http1), "HTTP/2": (over_http2, v.address, as_9 if compat == "9" else as_7)}
    if not NO_QUIC:
        ways["HTTP/3"] = (over_http3, v.addresses["quic"], http3)
    for version, (ask, address, want) in ways.items():
        before = logged(v, o.varnishd).count(record or "")
        got = ask(address, path, fields)
        report.check(got == want, f"{compat}, {version}, {name}: {got} instead of {want}")
        if record:
            report.comes(lambda: logged(v, o.varnishd).count(record) - before, 1, f"{version}, {name}: a record")


def main():
    o, report, files = options(__doc__), Report("heads"), workdir()
    if NO_QUIC:
        report.note(f"HTTP/3 LEFT OUT, as there is no aioquic ({NO_QUIC})")
    conf = files / "tls.conf"
    conf.write_text(f'pem-file = "{Authority(files / "ca").leaf("bed.test").pem}"\n')
    params = [word for name, value in PARAMS.items() for word in ("-p", f"{name}={value}")]
    listeners = ["-a", "clear=127.0.0.1:0", "-a", "quic=127.0.0.1:0,quic", "-A", str(conf), "-p", "feature=+http2"]
    for compat in ("7.1", "9"):
        with Varnishd(o.varnishd, ["--compat", compat, *listeners, *params], vcl=VCL) as v:
            for name, row in ROWS.items():
                judge(report, v, o, name, row, compat)
    shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
