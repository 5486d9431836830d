#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Old VCL before the genuine varnishd of its time and before ours: does a client see the same, and is the origin asked the same?

    tests/e2e/vcl/dialects/genuine.py --old 3.0=/path/to/varnishd [--old 2.1=...] [--dir DIR]

Run by hand: nobody has those releases installed. The files are those in `sites` and, with --dir, the old files below DIR, made whole by
corpus.py. What the releases do otherwise by design isn't compared: HTTP versions, framing, Via, ranges, revalidation, the built-in
error page.
"""
import contextlib
import os
import random
import re
import shutil
import socket
import subprocess
import sys

from shared import HERE, oracle
import corpus
import requests
from bed.daemon import die_with_parent, workdir
from bed.report import Report, options, until

# What the releases treat otherwise whatever VCL says.
LEFT = {"Range", "If-None-Match", "If-Modified-Since", "Upgrade"}
requests.FIELDS[:] = [f for f in requests.FIELDS if f[0] not in LEFT]
requests.METHODS[:] = ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"]  # others the old built-in VCL pipes
DROPPED = {"via", "date", "connection", "accept-ranges", "content-length", "transfer-encoding", "age", "x-varnish", "keep-alive", "retry-after", "proxy-status"}
ASKED_DROPPED = {"x-varnish", "via", "connection", "if-none-match", "if-modified-since", "content-length", "transfer-encoding"}
# What differs and stays so, by file: the fields it shows in, and why.
KNOWN = {"3.0_restarts_nested.vcl": (("x-t: ", "x-restarts: "), "vcl_recv ran once more there for a restart beyond max_restarts, before vcl_error")}
ANSWER = requests.answer


def answer(*args):
    """Without Age, which they don't count alike."""
    status, out, content = ANSWER(*args)
    return status, [f for f in out if f[0].lower() != "age"], content


requests.answer = answer


def free_port():
    """A port that nobody gets by asking for any: these releases compile their VCL before they listen."""
    while True:
        port = random.randrange(15000, 30000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Old(oracle.Side):
    """A side that is a genuine old varnishd."""

    def __init__(self, program, version, tree, name, tests):
        self.recorder = oracle.Recorder(tests)
        self.dir = workdir()
        file = self.dir / "under_test.vcl"
        file.write_bytes((tree / name).read_bytes().replace(b"@PORT@", str(self.recorder.port).encode()))
        self.clients = {}
        port, cli = free_port(), free_port()
        more = ["-p", "vcc_err_unref=off"] if version == "3.0" else []
        self.proc = subprocess.Popen(
            [program, "-F", "-n", str(self.dir / "n"), "-a", f"127.0.0.1:{port}", "-T", f"127.0.0.1:{cli}", "-i", socket.gethostname(), "-s", "malloc,100m", *more,
             "-p", "max_restarts=3", "-p", "thread_pool_min=10", "-p", "thread_pools=1", "-f", str(file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        os.set_blocking(self.proc.stdout.fileno(), False)
        self.server = self
        self.address = ("127.0.0.1", port)

    def died(self):
        """Whether its worker has died since this was last asked: its manager says so before the next one answers."""
        return re.search(rb"(?i)child (\(\d+\) )?(died|not responding|panic)", self.proc.stdout.read() or b"") is not None

    def load(self):
        def answers():
            if self.proc.poll() is not None:
                return True
            with contextlib.suppress(OSError), socket.create_connection(self.address, 1):
                return True
        until(60, answers, 0.1)
        return "" if self.proc.poll() is None and answers() else (self.proc.stdout.read() or b"").decode(errors="replace")

    def connect(self, source):
        # A worker of those days may die of a request; its manager starts another.
        return until(60, lambda: self.tried(source), 0.1) or super().connect(source)

    def tried(self, source):
        with contextlib.suppress(ConnectionError):
            return super().connect(source)
        return None

    def close(self):
        if self.proc.poll() is None:
            for source in list(self.clients):
                self.drop(source)
            self.proc.terminate()
            try:
                self.proc.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.communicate()
        self.recorder.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def seen(lines, age):
    """What a client saw, without what the releases do otherwise."""
    top, *rest = lines
    if top == "no response":
        return lines
    fields = [x for x in rest if re.match(r"[\w-]+: ", x)]
    body = [x for x in rest if x not in fields]
    ids = next((len(f.split(":")[1].split()) for f in fields if f.lower().startswith("x-varnish:")), 0)
    # What packs says since 4.0 that it does.
    fields = [re.sub(r"^(Vary: .*?)(, )?Accept-Encoding$", r"\1", f) for f in fields]
    # ESI makes an entity tag weak since 4.0; names' case is whose set it first.
    fields = [re.sub(r'(?i)^etag: (W/)?', "etag: ", f) for f in fields]
    fields = [n.lower() + s + v for n, s, v in (f.partition(":") for f in fields)]
    fields = sorted(f for f in fields if f.split(":")[0].lower() not in DROPPED and f != "vary: ")
    fields = [re.sub(r": -0$", ": 0.000", f) for f in fields]
    text = "\n".join(body)
    if "Guru Meditation" in text:
        body = ["the error page: " + " ".join(re.findall(r"<h1>(.*?)</h1>", text))]
    return [top.rsplit(" ", 1)[0], "hit" if ids == 2 else "no hit", *fields, *body]


def compare(report, o, label, text, version, program):
    """One file: (requests, differing), or None."""
    scratch = workdir()
    try:
        (scratch / "under_test.vcl").write_bytes(text.encode("latin-1"))
        tests = requests.tests_of(text.replace("req.request", "req.method"))
        with Old(program, version, scratch, "under_test.vcl", tests) as theirs, oracle.Side(o.varnishd, scratch, "under_test.vcl", tests) as ours:
            why = theirs.load()
            if why:
                return None
            ours.server.cli.ask(f"param.set vcl_dialect {version}")
            ours.server.cli.ask("param.set http_range_support off")
            if version != "3.0":
                ours.server.cli.ask("param.set http_gzip_support off")  # 2.x neither packs nor unpacks: Accept-Encoding is as it came
            why = ours.load()
            if why:
                report.note(f"{label}: VCL {version}: refused here: {why.splitlines()[1] if len(why.splitlines()) > 1 else why}")
                return None
            # The core tells who the client is; before 4.0 the end of the built-in vcl_recv did, in 2.0 in place of what was there.
            forwarded = version == "2.0" or "x-forwarded-for" not in text.lower()
            dropped = ASKED_DROPPED | ({"x-forwarded-for"} if forwarded else set())
            left = lambda name: name in dropped or name.startswith("x-vcl-")  # what the translation tells itself
            asked = requests.sequence(text.replace("req.request", "req.method"), o.requests or (300 if o.full else 100), o.seed)
            bad, deaths, known = {}, 0, 0
            theirs.died()
            for n, r in enumerate(asked):
                a, b = (seen(s.ask(n, r), False) for s in (ours, theirs))
                for s in (ours, theirs):
                    s.drop(r.source)  # it may be a pipe
                if b == ["no response"] or b[0].startswith("0 ") or theirs.died():
                    # A restart may end a worker of those days, and its cache with it: ours forgets what it has, too.
                    deaths += 1
                    theirs.died()
                    ours.server.cli.ask("ban obj.status != 0")
                    if b != ["no response"]:
                        ours.ask(n, r)  # the next worker has answered, and may have kept it
                    continue
                if a != b and label in KNOWN:
                    fields, why = KNOWN[label]
                    a, b = ([x for x in side if not x.startswith(fields)] for side in (a, b))
                    known += a == b
                if a != b:
                    bad.setdefault(n, []).append(("client", oracle.differences(a, b)))
                was = []
                until(1, lambda: all(s.recorder.active == 0 for s in (ours, theirs)), 0.001)
                for s in (ours, theirs):
                    was.append([x for m, u, f, d in s.recorder.asked.get(n, [])
                                for x in [f"{m} {u}", *(y for y in f if not left(y.split(":")[0].lower())), repr(d)]])
                if was[0] != was[1]:
                    bad.setdefault(n, []).append(("origin was asked", oracle.differences(*was)))
        shown = "".join(f"\n  #{n} {asked[n]}\n" + "".join(f"    {what}:\n" + "".join(f"      {d}\n" for d in diff[:o.lines]) for what, diff in bad[n])
                        for n in sorted(bad)[:o.show])
        report.check(not bad, f"{label}: VCL {version}: {len(bad)} of {len(asked)} requests differ{shown}")
        if known:
            report.note(f"{label}: VCL {version}: {known} requests differ as expected: {KNOWN[label][1]}")
        if not bad:
            report.note(f"{label}: VCL {version}: {len(asked) - deaths} requests alike" + (f"; {deaths} more ended the old worker" if deaths else ""))
        return len(asked) - deaths, len(bad)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def dialect_of(o, text, scratch):
    """The dialect that a text is taken for."""
    file = scratch / "asked.vcl"
    file.write_bytes(text.replace("@PORT@", "9080").encode("latin-1"))
    program = os.path.realpath(o.varnishd)
    got = subprocess.run([program, "vcl", "migrate", str(file)], executable=program, capture_output=True, timeout=60)
    m = re.search(r": VCL (\d\.\d)$", got.stderr.decode(errors="replace").split("\n")[0])
    return m[1] if m else None


def main():
    o = options(__doc__, dir=dict(default="", help="a directory of old files"), old=dict(action="append", default=[], help="VERSION=PROGRAM"),
                requests=dict(type=int, default=0), only=dict(default="", help="part of a file's name"),
                show=dict(type=int, default=3), lines=dict(type=int, default=30))
    report = Report("genuine")
    programs = dict(x.split("=", 1) for x in o.old)
    files = [(f.name, f.read_text("latin-1"), None) for f in sorted((HERE / "sites").glob("*.vcl"))] if not o.dir else []
    files += [(label, corpus.Program(f, tree).text, corpus.dialect_of(label)) for label, f, tree in (corpus.files(o.dir) if o.dir else [])]
    results = []
    scratch = workdir()
    for label, text, named in files:
        if o.only not in label:
            continue
        if not o.dir:
            text = re.sub(r'\.host\s*=\s*"[^"]*"\s*;(\s*\.port\s*=\s*"[^"]*"\s*;)?', '.host = "127.0.0.1"; .port = "@PORT@";', text)
        version = named or dialect_of(o, text, scratch)
        if version in programs:
            results.append(compare(report, o, label, text, version, programs[version]))
    shutil.rmtree(scratch, ignore_errors=True)
    done = [r for r in results if r]
    report.note(f"{len(done)} files compared, {sum(r[0] for r in done)} requests, {sum(r[1] for r in done)} of them differ")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
