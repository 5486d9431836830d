#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""VCL that is meant to hurt, through the real `vcl.load`: an answer in bounded time, a place where there is an error, and a
manager and worker that stay who they are, stay small and go on serving. And VCL that waits must not keep its thread.
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, executable, pss, tree, workdir
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options

LIMIT = 240  # seconds for one reply: the checker's own limit, which is far below that, is of CPU time
GROWTH = 96 << 20  # bytes that the manager may grow by, all cases together
HEAD = 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "1"; }\n'


def recv(body):
    return f"{HEAD}sub vcl_recv {{\n{body}\n}}\n"


def cases(d):
    """(name, file, verdict): `error` must be refused with a place, `any` may also be good."""
    def file(name, text):
        (d / f"{name}.vcl").write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))
        return str(d / f"{name}.vcl")

    yield "a file that includes itself", file("self", HEAD + 'include "./self.vcl";\n'), "error"
    file("pong", 'include "./ping.vcl";\n')
    yield "two files that include each other", file("ping", HEAD + 'include "./pong.vcl";\n'), "error"
    (d / "globs").mkdir()
    (d / "globs" / "a.vcl").write_text('include +glob "./globs/*.vcl";\n')
    yield "a glob that includes itself", file("glob", HEAD + 'include +glob "./globs/*.vcl";\n'), "error"
    yield "an include of a device", file("device", HEAD + 'include "/dev/zero";\n'), "error"
    yield "10 MB of comment", file("comment", HEAD + "# " + "x" * (10 << 20)), "any"
    yield "10 MB of statements", file("statements", recv('set req.http.a = "1";\n' * 480_000)), "any"
    yield "10 MB of braces", file("braces", HEAD + "{" * (10 << 20)), "any"
    yield "one string of 5 MB", file("string", recv('set req.http.a = "' + "x" * (5 << 20) + '";')), "any"
    yield "100,000 ifs", file("ifs", recv('if (req.http.a ~ "^x") { set req.http.b = "1"; }\n' * 100_000)), "any"
    yield "100,000 elses", file("elses", recv('if (req.url == "/") { }' + ' elseif (req.url == "/a") { }\n' * 100_000)), "any"
    yield "20,000 patterns", file("patterns", recv("".join(f'if (req.url ~ "^/a{n}(b|c)+$") {{ }}\n' for n in range(20_000)))), "any"
    yield "a pattern of 1 MB", file("pattern", recv('if (req.url ~ "' + "a" * (1 << 20) + '") { }')), "error"
    yield "alternatives of 1 MB", file("alternatives", recv('if (req.url ~ "' + "|".join(f"x{n}y" for n in range(130_000)) + '") { }')), "error"
    yield "a pattern that multiplies", file("multiply", recv('if (req.url ~ "((a{1000}){1000}){1000}") { }')), "error"
    yield "a pattern of parentheses", file("parens", recv('if (req.url ~ "' + "(" * 300_000 + ")" * 300_000 + '") { }')), "error"
    yield "nested blocks", file("blocks", recv("{" * 100_000 + "}" * 100_000)), "error"
    yield "nested ifs", file("nested", recv("if (true) {" * 50_000 + "}" * 50_000)), "error"
    yield "nested parentheses", file("expression", recv("if (" + "(" * 100_000 + "true" + ")" * 100_000 + ") { }")), "error"
    yield "a row of !", file("nots", recv("if (" + "!" * 100_000 + "true) { }")), "error"
    yield "a long chain of calls", file("calls", HEAD + "".join(f"sub s{n} {{ call s{n + 1}; }}\n" for n in range(5_000))
                                       + "sub s5000 { }\nsub vcl_recv { call s0; }\n"), "error"
    yield "subroutines that recurse", file("recurse", HEAD + "sub a { call b; }\nsub b { call a; }\nsub vcl_recv { call a; }\n"), "error"
    yield "50,000 entries of an acl", file("acl", HEAD + "acl a { " + "".join(f'"10.{n >> 8 & 255}.{n & 255}.0"/24;\n' for n in range(50_000))
                                           + "}\nsub vcl_recv { if (client.ip ~ a) { } }\n"), "any"
    yield "70,000 names of fields", file("names", recv("".join(f"unset req.http.f{n};\n" for n in range(70_000)))), "error"
    yield "random octets", file("octets", HEAD.encode() + bytes(n * 7919 >> 3 & 255 for n in range(1 << 20))), "error"
    yield "a string that doesn't end", file("unended", recv('set req.http.a = {"' + "x" * 100_000)), "error"
    yield "a file that isn't there", str(d / "missing.vcl"), "any"


class Meeting:
    """A vtc barrier for two: whoever connects is held until both have."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        self.met = False
        self.thread = threading.Thread(target=self.wait, daemon=True)
        self.thread.start()

    def wait(self):
        try:
            both = [self.listener.accept()[0] for _ in range(2)]
            self.met = True
        except TimeoutError:
            both = []
        for s in both:
            s.close()
        self.listener.close()


def one_thread(report, program, origin):
    """Two clients of a worker that has one CPU, and so one thread for traffic, meet at a barrier inside vcl_recv."""
    meeting, scratch = Meeting(), workdir()
    cpu = min(os.sched_getaffinity(0))
    wrapper = executable(scratch / "varnishd", f'#!/bin/sh\nexec taskset -c {cpu} {shlex.quote(str(program))} "$@"\n')
    host, port = meeting.listener.getsockname()
    vcl = f"""vcl 4.1; import vtc; backend default {{ .host = "{origin[0]}"; .port = "{origin[1]}"; }}
        sub vcl_recv {{ vtc.barrier_sync("{host}:{port}", 50s); return (pass); }}"""
    try:
        with Varnishd(str(wrapper), ["-p", "thread_pools=1"], vcl=vcl) as server:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                got = list(pool.map(lambda n: get(server.address, f"/{n}", timeout=60), range(2)))
            meeting.thread.join()
            report.check(meeting.met, "two clients on one thread didn't meet at the barrier")
            report.check(all(r.whole() for r in got), f"two clients on one thread got {', '.join(map(str, got))}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    o = options(__doc__)
    report = Report("vcl_hostile")
    with Origin(simple(lambda *_: ("", b"ok"))) as origin:
        one_thread(report, o.varnishd, origin.address)
    with Origin(simple(lambda *_: ("", b"ok"))) as origin, Varnishd(o.varnishd, backend=origin.address) as server:
        server.cli.sock.settimeout(LIMIT)
        (server.dir / "vcl").mkdir()
        manager, worker = server.proc.pid, server.worker()
        before = pss([manager])
        slowest = (0.0, "")
        for n, (name, path, verdict) in enumerate(cases(server.dir / "vcl")):
            server.cli.ask(f"param.set vcl_path {server.dir}/vcl")
            begin = time.monotonic()
            status, text = server.cli.ask_raw(f"vcl.load h{n} {path}")
            spent = time.monotonic() - begin
            slowest = max(slowest, (spent, name))
            text = text.decode(errors="replace")
            good = status == 200 if verdict == "good" else status in (106, 300) if verdict == "error" else status in (200, 106, 300)
            report.check(good, f"{name}: status {status}: {text[:300]}")
            if verdict == "error":
                report.check(re.search(r"Line \d+ Pos \d+|Cannot read file", text), f"{name}: no place in {text[:300]!r}")
            report.check(len(text) < 1 << 20, f"{name}: an answer of {len(text)} octets")
            report.check(spent < LIMIT, f"{name}: {spent:.0f} s")
            report.check(get(server.address, f"/{n}", timeout=60).whole(), f"{name}: no answer to a client afterwards")
            if status == 200:
                server.cli.ask(f"vcl.discard h{n}")
        grown = pss([manager]) - before
        report.check(server.proc.poll() is None and worker in tree(manager), "the manager or the worker isn't the same any more")
        report.check(grown < GROWTH, f"the manager grew by {grown >> 20} MB")
        report.note(f"slowest: {slowest[1]}, {slowest[0]:.1f} s; the manager grew by {max(grown, 0) >> 10} KB")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
