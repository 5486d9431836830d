#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The same VCL, requests and origin before our varnishd and a genuine one: do they decide the same?

Compared for each request: the response, what the origin was asked, and the log record by record (subroutines called and their verdicts,
hit or miss, backend, URL, every field and its changes, TTL, grace and keep), ESI parts, restarts and background fetches included.
The VCLs are those in `sites` and, with --dir (or $LACQUER_VCL_CORPUS), every `vcl 4.x` file below DIR that the genuine varnishd compiles;
backends are pointed at the harness's own origin. Skipped when there is no genuine varnishd.
"""
import concurrent.futures
import contextlib
import difflib
import gzip
import os
import pathlib
import re
import shutil
import socket
import sys
import threading
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]
import logs
import requests
from bed.daemon import CliError, Varnishd, workdir
from bed.http import Client
from bed.origin import Origin, head
from bed.report import Report, options, until

QUICK, WHOLE = 60, 300  # requests for each VCL
PARAMS = ["-p", "vsl_mask=+Hash", "-p", "vsl_reclen=4k", "-p", "vcc_err_unref=off", "-p", "thread_pool_min=10", "-p", "thread_pools=1",
          "-p", "max_restarts=2", "-p", "max_retries=1", "-p", "first_byte_timeout=60", "-p", "connect_timeout=60"]
LIMIT = 60  # seconds; only ends a hang
QUIET = 3  # seconds
AT_ONCE = 2  # files: most of the time a compiler runs, or one side waits for the other
STAR = "Error 'Vary' header from backend has a '*' among others"


class Recorder:
    """The origin of one server: answers by rule and keeps what it was asked, by request number."""

    def __init__(self, tests):
        self.tests, self.asked, self.lock, self.active = tests, {}, threading.Lock(), 0
        self.origin = Origin(self.serve)
        self.port = self.origin.address[1]

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            with self.lock:
                self.active += 1
            try:
                buf = self.one(s, *got)
            finally:
                with self.lock:
                    self.active -= 1

    def one(self, s, method, path, fields, rest):
        body, rest = self.body(s, fields, rest)
        number = fields.get("x-req")
        if number is not None:
            shown = sorted(f"{n}: {logs.field(n, v)}" for n, v in fields.items())
            with self.lock:
                self.asked.setdefault(int(number), []).append((method, path, shown, body))
            status, out, content = requests.answer(self.tests, method, path, fields)
        else:
            status, out, content = 200, [], b"well"
        none = status in (204, 304)
        top = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{n}: {v}\r\n" for n, v in out)
        top += "\r\n" if none else f"Content-Length: {len(content)}\r\n\r\n"
        s.sendall(top.encode("latin-1") + (b"" if none or method == "HEAD" else content))
        if fields.get("connection", "").lower() == "close":
            raise ValueError("a probe waits for the end")
        return rest

    def body(self, s, fields, rest):
        length = int(fields.get("content-length", 0))
        if fields.get("transfer-encoding", "").lower() == "chunked":
            while b"0\r\n\r\n" not in rest and (d := s.recv(65536)):
                rest += d
            body, _, rest = rest.partition(b"0\r\n\r\n")
            return re.sub(rb"(?m)^[0-9a-fA-F]+\r\n", b"", body).replace(b"\r\n", b""), rest
        while len(rest) < length and (d := s.recv(65536)):
            rest += d
        return rest[:length], rest[length:]

    def close(self):
        self.origin.close()


class Side:
    """One server behind a VCL, with its origin and client connections."""

    def __init__(self, program, tree, name, tests, args=()):
        self.recorder = Recorder(tests)
        self.dir = workdir()
        shutil.copytree(tree, self.dir / "vcl", dirs_exist_ok=True)
        for f in (self.dir / "vcl").rglob("*"):
            if f.is_file():
                f.write_bytes(f.read_bytes().replace(b"@PORT@", str(self.recorder.port).encode()))
        file = self.dir / "vcl" / name
        paths = ":".join(str(p) for p in dict.fromkeys([file.parent, self.dir / "vcl", *(p for p in (self.dir / "vcl").rglob("*") if p.is_dir())]))
        self.server = Varnishd(program, ["-b", "none", "-p", f"vcl_path={paths[:4000]}", *PARAMS, *args])
        self.clients, self.file = {}, file

    def load(self):
        """'' or why the VCL doesn't load."""
        status, text = self.server.cli.ask_raw(f'vcl.load under_test "{self.file}"')
        if status != 200:
            return text.decode(errors="replace")
        self.server.cli.ask("vcl.use under_test")
        # All backends answer probes well: which are healthy must not hang on when their first probes came.
        until(LIMIT, lambda: not re.search(r"(?m)^under_test\..*\bsick\b", self.server.cli.ask("backend.list")), 0.05)
        return ""

    def ask(self, number, r):
        for attempt in (0, 1):
            c = self.clients.get(r.source)
            if c is None:
                c = self.clients[r.source] = self.connect(r.source)
            out = [("X-Req", number), *r.fields]
            try:
                got = c.request(r.url, out, r.method, r.host, r.body)
            except OSError:
                got = None
            if got is None or got.end == "none":
                self.drop(r.source)
                if attempt == 0:
                    continue
                return ["no response"]
            if got.end != "complete" or got.framing == "close" or (got.get("Connection") or "").lower() == "close":
                self.drop(r.source)
            until(60, lambda: self.recorder.active == 0, 0.001)
            body = plain_body(got)
            # How a body is framed is compared in the log, where it isn't left to chance.
            shown = [f"{n}: {logs.field(n, v)}" for n, v in got.fields if n.lower() not in ("content-length", "transfer-encoding")]
            return [f"{got.status} {got.reason} {got.end}", *shown, *body.splitlines()]

    def connect(self, source):
        c = Client.__new__(Client)
        c.sock = socket.create_connection(self.server.address, LIMIT, (source, 0))
        c.buf, c.keep = b"", True
        return c

    def drop(self, source):
        c = self.clients.pop(source, None)
        if c:
            c.close()

    def close(self):
        for source in list(self.clients):
            self.drop(source)
        self.server.close()
        self.recorder.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def prepared(tree, to):
    """A copy of `tree` whose backends are at @PORT@, without host names that nothing here could resolve."""
    for f in tree.rglob("*"):
        if not f.is_file() or f.stat().st_size > 1 << 20:
            continue
        text = f.read_bytes().decode("latin-1")
        if ".vcl" in f.name:
            text = re.sub(r'\.port\s*=\s*"?[^;"]*"?\s*;', "", text)
            text = re.sub(r'\.(host|path)\s*=\s*"[^"]*"\s*;', '.host = "127.0.0.1"; .port = "@PORT@";', text)
            text = re.sub(r'"/etc/varnish/', '"', text)
            text = re.sub(r'(?m)^(\s*!?\s*)"[a-z][\w.-]*\.[a-z]{2,}"\s*;', r'\1"192.0.2.1";', text)
        out = to / f.relative_to(tree)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(text.encode("latin-1"))


def plain_body(response):
    """The body unpacked, without transaction numbers and times."""
    body = response.body
    if (response.get("Content-Encoding") or "").lower() in ("gzip", "x-gzip") and response.status != 206 and body:
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError, zlib.error) as e:
            return f"bad gzip: {e}"
    # Our own name on the built-in page, which varnishd's doesn't have.
    text = re.sub(r" *<p>Lacquer [0-9.]+</p>\n", "", body.decode("latin-1"))
    return logs.unnumbered(re.sub(r"(?i)(XID:? )\d+", r"\1N", text))


def differences(ours, theirs):
    return [line for line in difflib.unified_diff(theirs, ours, "varnishd", "lacquer", "", "", 1, "")][2:]


def compare(report, o, label, tree, name):
    """One VCL: (compared, differing requests), or None when the genuine varnishd doesn't compile it."""
    scratch = workdir()
    try:
        prepared(tree, scratch)
        vcl = "".join(f.read_text("latin-1") for f in sorted(scratch.rglob("*.vcl*")) if f.stat().st_size < 1 << 18)[:1 << 20]
        tests = requests.tests_of(vcl)
        # Its built-in VCL pipes unknown methods; ours does where it is asked to.
        with Side(o.genuine, scratch, name, tests) as theirs, Side(o.varnishd, scratch, name, tests, ["-p", "http_lenient=on", "-p", "proxy_status=off"]) as ours:
            why, why_ours = theirs.load(), ours.load()
            if "isn't built into Lacquer yet" in why_ours:
                report.note(f"{label}: not compared, {re.search(r'VMOD .*', why_ours)[0]}")
                return None
            if why:
                report.note(f"{label}: not compiled by varnishd ({why.splitlines()[1] if len(why.splitlines()) > 1 else why})"
                            + ("" if why_ours else "; lacquer compiles it"))
                return None
            if not report.check(not why_ours, f"{label}: varnishd compiles it, lacquer doesn't: {why_ours}"):
                return 0, 0
            return run(report, o, label, vcl, ours, theirs)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def settled(side, last):
    """A server's log once it has request `last` and all transactions are over, or nothing new has come for some seconds: a VCL may remove the number."""
    log, is_over, same_since = {}, False, time.monotonic()
    while not (last in log and is_over) and time.monotonic() < same_since + QUIET:
        new, is_over = logs.read(side.server.n)
        if new != log:
            log, same_since = new, time.monotonic()
        time.sleep(0.1)
    return log


def run(report, o, label, vcl, ours, theirs):
    asked = requests.sequence(vcl, o.requests or (WHOLE if o.full else QUICK), o.seed)
    bad = {}
    for number, r in enumerate(asked):
        a, b = ours.ask(number, r), theirs.ask(number, r)
        a = logs.aligned(a, b)
        if a != b:
            bad.setdefault(number, []).append(("response", differences(a, b)))
    number = len(asked)
    for side in (ours, theirs):
        for source in list(side.clients):
            side.drop(source)
    log_a, log_b = (settled(s, number - 1) for s in (ours, theirs))
    for n in range(number):
        asked_a, asked_b = (["\n".join([f"{m} {u}", *f, repr(d)]) for m, u, f, d in s.recorder.asked.get(n, [])] for s in (ours, theirs))
        asked_a = ["\n".join(logs.aligned(x.split("\n"), y.split("\n"))) for x, y in zip(asked_a, asked_b)] + asked_a[len(asked_b):]
        if asked_a != asked_b:
            flat = lambda x: "\n--\n".join(x).splitlines()
            bad.setdefault(n, []).append(("origin was asked", differences(flat(asked_a), flat(asked_b))))
        a, b = log_a.get(n, {}), log_b.get(n, {})
        for name in sorted(a.keys() | b.keys()):
            of_ours = logs.aligned(a.get(name), b.get(name))
            if of_ours != b.get(name):
                bad.setdefault(n, []).append((f"log of {name}", differences(of_ours or [], b.get(name, []))))
    # A part of what has no sure length is chance: of a body that a filter changes (was it whole when its delivery began?), of what
    # was packed, of a page with a transaction number in it.
    for n in [n for n in bad if any(f == "Range" for f, _ in asked[n].fields)]:
        texts = [r for name, t in log_b.get(n, {}).items() for r in t]
        if any(r.startswith("Filters ") and r != "Filters range" or "content-encoding: gzip" in r.lower() or r == "VCL_call SYNTH" for r in texts):
            bad[n] = [d for d in bad[n] if d[0] != "response" and not d[0].startswith("log of req")]
            if not bad[n]:
                del bad[n]
    # Differs on purpose: a star among others in Vary. What ours passes because of it, varnishd may have cached.
    asked_of = lambda n: {u for _, u, _, _ in ours.recorder.asked.get(n, [])}
    starred = set().union(*(asked_of(n) for n, of in log_a.items() if any(r.startswith(STAR) for t in of.values() for r in t)))
    expected = [n for n in bad if asked_of(n) & starred]
    for n in expected:
        del bad[n]
    if expected:
        report.note(f"{label}: {len(expected)} requests differ as expected: an answer with a star among other names in Vary is never cached here, and the log says so")
    # Differs on purpose: after a restart varnishd announces a body again that it has sent already, and the origin waits for it in vain.
    promised = lambda fields, data: not data and any(re.fullmatch(r"content-length: [1-9]\d*", f) for f in fields)
    waiting = [n for n in bad if any(promised(f, d) for _, _, f, d in theirs.recorder.asked.get(n, []))]
    for n in waiting:
        del bad[n]
    if waiting:
        report.note(f"{label}: {len(waiting)} requests differ as expected: varnishd announces a body to the origin that it hasn't any more")
    shown = "".join(f"\n  #{n} {asked[n]}\n" + "".join(f"    {what}:\n" + "".join(f"      {d}\n" for d in diff[:o.lines]) for what, diff in bad[n])
                    for n in sorted(bad)[:o.show])
    report.check(not bad, f"{label}: {len(bad)} of {number} requests differ{shown}")
    if not bad:
        report.note(f"{label}: {number} requests alike")
    return number, len(bad)


def files(o):
    """(label, tree, file within it) of each VCL."""
    for f in sorted((HERE / "sites").glob("*.vcl")):
        yield f.name, HERE / "sites", f.name
    if o.dir:
        top = pathlib.Path(o.dir)
        for f in sorted(p for p in top.rglob("*") if p.is_file() and ".vcl" in p.name):
            with contextlib.suppress(OSError):
                if re.search(r"(?m)^\s*vcl\s+4\.[01]\s*;", f.read_text("latin-1")):
                    root = top / f.relative_to(top).parts[0]
                    root = root if root.is_dir() else f.parent
                    yield str(f.relative_to(top)), root, str(f.relative_to(root))


def main():
    o = options(__doc__, dir=dict(default=os.environ.get("LACQUER_VCL_CORPUS"), help="a directory of further VCL files"),
                genuine=dict(default=shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin") or "", help="the varnishd to compare with"),
                requests=dict(type=int, default=0), only=dict(default="", help="part of a file's name"),
                show=dict(type=int, default=3), lines=dict(type=int, default=30))
    report = Report("vcl_oracle")
    if not o.genuine:
        report.check(True, "")
        report.note("skipped: no genuine varnishd here")
        return report.close()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda f: compare(report, o, *f), [f for f in files(o) if o.only in f[0]]))
    done = [r for r in results if r]
    report.note(f"{len(done)} VCLs compared, {sum(r[0] for r in done)} requests, {sum(r[1] for r in done)} of them differ")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
