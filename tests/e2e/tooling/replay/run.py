#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer replay`: what it sends arrives as the log had it, what it counts equals the server's own counters (Lacquer, the
system's varnishd, nginx), and its figures are those of a server whose behaviour is known. Only loopback is loaded.

The long form (--full) replays a log of 1,000,000 lines. Times and costs are measured by tests/timing/replay.
"""
import gzip
import json
import contextlib
import os
import pathlib
import pty
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, free_port
from bed.logs import Saved, is_followed
from bed.origin import Nginx, Origin, head, simple
from bed.report import Report, options, until

import datagrams
import multiplexed
import sealed
from kit import GENUINE, LIMIT, STAMP, Ear, Tool, log_of, stat


def sources(report, tool, d):
    """Every kind of source, damaged ones too: what can be read is sent, what can't is counted."""
    combined = [f'1.2.3.4 - - {STAMP % 1} "GET http://a.test/x HTTP/1.1" 200 5 "http://ref/" "Agent \\"q\\""',
                f'b.test:80 1.2.3.4 - joe {STAMP % 2} "HEAD /y HTTP/1.0" 200 5', ]
    junk = ["nonsense", f'1.2.3.4 - - {STAMP % 3} "-" 408 0', f'1.2.3.4 - - {STAMP % 3} "POST /z HTTP/1.1" 200 0',
            f'1.2.3.4 - - {STAMP % 3} "GET /\\x00 HTTP/1.1" 400 0', f'1.2.3.4 - - {STAMP % 3} "GET /cut']
    (d / "mixed").write_bytes("\n".join(combined + junk + ["http://c.test/u\tCookie: k=v", "/v"]).encode() + b"\n" +
                              b"\0" * 100 + b"\n" + b"x" * (1 << 20) + b"\n" + b"\xff\xfe\n/last")
    want = [("GET", "a.test", "/x"), ("HEAD", "b.test", "/y"), ("GET", "c.test", "/u"), ("GET", "d.test", "/v"), ("GET", "d.test", "/last")]
    with Ear() as ear:
        r = tool.json("--to", ear.address, "--host", "d.test", "-c", 1, d / "mixed")
        report.check(ear.asked() == want, f"a mixed file sends {ear.asked()}")
        skipped = {k: n for k, n in r["source"]["skipped"].items() if n}
        expected = {"too_long": 1, "cut": 1, "unknown_format": 3, "no_request": 1, "other_method": 1, "bad_target": 1}
        report.check(skipped == expected, f"what a mixed file doesn't send: {skipped}")
        fields = [f for *_, f in ear.heard]
        report.check(fields[0].get("user-agent") == 'Agent "q"' and fields[0].get("referer") == "http://ref/", f"fields of the log: {fields[0]}")
        report.check(fields[2].get("cookie") == "k=v" and fields[1].get("user-agent") == "lacquer-replay", f"fields: {fields[1:3]}")
    # A line in which host and client can't be told apart isn't sent, and both readings are named.
    (d / "doubt").write_text(f'192.0.2.9 192.0.2.1 - - {STAMP % 1} "GET /doubt HTTP/1.1" 200 5\ne.test 192.0.2.1 - - {STAMP % 1} "GET /sure HTTP/1.1" 200 5\n')
    with Ear() as ear:
        r = tool.json("--to", ear.address, "--host", "d.test", d / "doubt")
        report.check(ear.asked() == [("GET", "e.test", "/sure")] and r["source"]["skipped"]["ambiguous"] == 1, f"two readings: {ear.asked()}")
        named = [note for note in r["notes"] if " line 1: " in note and "'%v %h %l %u" in note and "'%{X-Forwarded-For}i %h" in note]
        report.check(len(named) == 1, f"both readings are named: {r['notes']}")
        with Ear() as declared:
            tool.json("--to", declared.address, "--log-format", '%v %h %l %u %t "%r" %>s %b', d / "doubt")
            report.check(declared.asked() == [("GET", "192.0.2.9", "/doubt"), ("GET", "e.test", "/sure")], f"declared: {declared.asked()}")
    # Rotated: packed and not, one after the other, and standard input.
    (d / "old.gz").write_bytes(gzip.compress(b"/1\n/2\n"))
    (d / "new").write_bytes(b"/3\n")
    with Ear() as ear:
        tool.json("--to", ear.address, "-c", 1, d / "old.gz", d / "new", "-", stdin=gzip.compress(b"/4\n/5\n"))
        report.check([p for _, _, p in ear.asked()] == ["/1", "/2", "/3", "/4", "/5"], f"rotated files: {ear.asked()}")
    whole = gzip.compress(os.urandom(0) + b"".join(b"/%d\n" % random.getrandbits(64) for _ in range(5000)))
    (d / "cut.gz").write_bytes(whole[:len(whole) // 2])
    with Ear() as ear:
        r = tool.json("--to", ear.address, d / "cut.gz")
        report.check(100 < r["answers"] < 5000 and any("cut off" in n for n in r["notes"]), f"a packed file that was cut: {r['answers']} {r['notes']}")
    # A declared format with cookies and the like.
    line = '1 [10/Oct/2000:13:55:36 -0700] www.f.test "GET /f HTTP/1.1" "k=\\"v\\"" "gzip"'
    with Ear() as ear:
        tool.json("--to", ear.address, "--log-format", '%h %t %{Host}i "%r" "%{Cookie}i" "%{Accept-Encoding}i"',
                  "-H", "X-Test: 1", "-H", "User-Agent:", "-", stdin=line.encode())
        f = ear.heard[0][3] if ear.heard else {}
        got = tuple(f.get(n) for n in ("host", "cookie", "accept-encoding", "x-test", "user-agent"))
        report.check(got == ("www.f.test", 'k="v"', "gzip", "1", None), f"a declared format: {got}")
    for args, word in [(["nowhere"], "No such file"), ([], "no source"), (["--nope", "x"], "--nope")]:
        status, out, err = tool.run("--to", "127.0.0.1:1", *args)
        report.check(status != 0 and word in err and not out, f"{args}: {status} {err!r}")


def targets(report, tool, d):
    """One address for all hosts, some hosts elsewhere, Unix sockets, methods, connections."""
    (d / "hosts").write_text("http://a.test/1\nhttp://b.test/2\nhttps://b.test/3\nPOST http://a.test/4\n")
    with Ear() as one, Ear() as two:
        r = tool.json("--to", one.address, "--map", f"b.test={two.address}", "--methods", "get,post", "-c", 1, d / "hosts")
        report.check(one.asked() == [("GET", "a.test", "/1"), ("POST", "a.test", "/4")], f"--to: {one.asked()}")
        report.check(two.asked() == [("GET", "b.test", "/2"), ("GET", "b.test", "/3")], f"--map: {two.asked()}")
        report.check(r["connections"] == one.connections + two.connections, "connections are counted")
    with Ear() as ear:
        (d / "own").write_text(f"http://{ear.address}/own\nhttp://no-such-host.invalid/\nhttps://no-such-host.invalid/\n")
        r = tool.json("--each-host", d / "own")
        report.check([p for *_, p in ear.asked()] == ["/own"], f"--each-host: {ear.asked()}")
        report.check(r["source"]["skipped"]["no_address"] == 2, f"--each-host leaves out {r['source']}")
    path = d / "sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(10)

    def serve():
        s, _ = listener.accept()
        buf = b""
        while got := head(s, buf):
            buf = got[3]
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300000)
    threading.Thread(target=serve, daemon=True).start()
    r = tool.json("--to", f"unix:{path}", "-c", 1, "-", stdin=b"/1\n/2\n")
    report.check((r["answers"], r["body_bytes"]) == (2, 600000), f"a Unix socket: {r['answers']} {r['body_bytes']}")
    listener.close()
    (d / "many").write_text("/x\n" * 100)
    for args, connections in [([], 1), (["--per-connection", 10], 10), (["--keep-alive", 0], 100)]:
        with Ear() as ear:
            r = tool.json("--to", ear.address, "-c", 1, *args, d / "many")
            got = (r["answers"], r["connections"], ear.connections)
            report.check(got == (100, connections, connections), f"{args}: {got}")
    with Ear() as ear:
        r = tool.json("--to", ear.address, "-c", 4, "--keep-alive", 50, d / "many")
        report.check(30 < r["connections"] < 70, f"--keep-alive 50: {r['connections']} connections for 100 requests")
        ear.heard.clear()
        tool.json("--to", ear.address, "-c", 1, "--bind", "127.0.0.7", "-", stdin=b"/\n")
        report.check(len(ear.heard) == 1, "--bind")


def pacing(report, tool, d):
    """Order, and that nothing is sent before its time; how late it may be is checked by tests/timing/replay."""
    n = 300
    (d / "list").write_text("".join(f"/{i}\n" for i in range(n)))

    def seen(*args):
        with Ear() as ear:
            r = tool.json("--to", ear.address, "-c", 1, *args, d / "list")
            return r, [int(p[1:]) for *_, p in ear.asked()], [t for t, *_ in ear.heard]
    report.check(seen()[1] == list(range(n)), "in order")
    first, again, other = (seen("--order", "shuffle", "--seed", s)[1] for s in (1, 1, 2))
    report.check(sorted(first) == list(range(n)) and first != sorted(first), "shuffled: all, in another order")
    report.check(first == again != other, "the seed decides")
    report.check(max(abs(i - p) for i, p in enumerate(seen("--order", "shuffle", "--window", 10)[1])) < n, "a small window")
    r, paths, _ = seen("--loop", "--requests", 2 * n + 5)
    report.check(paths == [*range(n), *range(n), *range(5)] and r["end"] == "done", "--loop begins anew")
    report.check(len(seen("--requests", 7)[1]) == 7, "--requests")
    # A busy machine may leave the last ones no time; they are told.
    r, paths, _ = seen("--rate", 200, "-d", 1)
    report.check(len(paths) == r["sent"] and r["sent"] + r["unsent"] == 200, f"--rate 200 for a second: {len(paths)} {r['unsent']}")
    r, paths, _ = seen("--rate", 200, "--requests", 200)
    report.check(paths == list(range(200)) and r["seconds"] > 0.95, f"--rate spreads: {len(paths)} in {r['seconds']} s")
    r, _, times = seen("--think", "20ms", "--requests", 20)
    report.check(times[-1] - times[0] >= 19 * 0.02, f"--think: {times[-1] - times[0]}")
    # 4 s of the log in 1 s; a jump back costs nothing, a pause of a day is cut.
    stamps = [0, 0, 0, 0, 1, 2, 3, 4]
    lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate(stamps)]
    lines += ['1.1.1.1 - - [09/Oct/2000:00:00:00 -0700] "GET /8 HTTP/1.1" 200 1', '1.1.1.1 - - [11/Oct/2000:00:00:00 -0700] "GET /9 HTTP/1.1" 200 1']
    with Ear() as ear:
        r = tool.json("--to", ear.address, "--speed", 4, "--max-gap", 2, "-c", 1, "-", stdin="\n".join(lines).encode())
        report.check([p for *_, p in ear.asked()] == [f"/{i}" for i in range(10)] and 1.45 < r["seconds"] < 60, f"--speed 4: {ear.asked()} {r['seconds']}")
        report.check(r["source"]["clock_jumps"] == 2, f"jumps of the clock: {r['source']['clock_jumps']}")
    # Shuffled, the times stay the log's: a hundred in the first second, one in each of the next three.
    lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate([0] * 100 + [1, 2, 3])]
    for words in [[], ["--loop", "--requests", 206]]:
        with Ear() as ear:
            (d / "timed").write_text("\n".join(lines) + "\n")
            r = tool.json("--to", ear.address, "--speed", 4, "--order", "shuffle", *words, d / "timed")
            got = [int(p[1:]) for *_, p in ear.asked()]
            # Over several connections those of one round may come before the last of the round before.
            times = 2 if words else 1
            report.check(sorted(got) == sorted(times * list(range(103))) and got[:103] != sorted(got[:103]), f"shuffled by the log's clock {words}: {got}")
            report.check(r["seconds"] > (1.4 if words else 0.7), f"at the log's times: {r['seconds']} s")
            report.check(got[103:] != got[:103], f"and again in another order: {got}")


def stalled(report, tool, d):
    """A server that stands still until it has been asked as much as it can be: an open loop charges all requests that had to wait."""
    def closed_gate(connections):
        gate, asked = threading.Event(), threading.Semaphore(0)

        def answer(path):
            asked.release()
            gate.wait(LIMIT)
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAge: 3\r\n\r\n"

        def opens():
            for _ in range(connections):
                asked.acquire(timeout=LIMIT)
            threading.Event().wait(0.5)  # the stall that the figures must show
            gate.set()
        threading.Thread(target=opens, daemon=True).start()
        return answer
    (d / "stall").write_text("".join(f"/{i}\n" for i in range(1000)))
    with Ear(closed_gate(5)) as ear:
        r = tool.json("--to", ear.address, "--rate", 500, "--requests", 750, "-c", 5, d / "stall")
        late = r["latency_ms"]["p99"], r["latency_ms"]["max"]
        # All that were due in the half second wait, however fast the machine is.
        report.check(r["answers"] == 750 and min(late) > 400, f"an open loop with 5 connections: {late} {r['answers']}")
        report.check(r["cache"]["by"]["Age"] == {"told": 750, "hits": 750, "hit_rate": 1.0}, f"Age: {r['cache']}")
    with Ear(closed_gate(5)) as ear:
        r = tool.json("--to", ear.address, "-c", 5, d / "stall")
        report.check(r["answers"] == 1000 and r["latency_ms"]["max"] > 400, f"a closed loop: {r['latency_ms']}")
        report.check(r["slowest"] and r["slowest"][0]["ms"] > 400, "the slowest are named")
    # Requests that are never sent count, too.
    with Ear(lambda path: threading.Event().wait(0.3) and None or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
        r = tool.json("--to", ear.address, "--rate", 100, "-d", 0.6, "-c", 1, d / "stall")
        report.check(r["sent"] + r["unsent"] == 60 and r["unsent"] > 50, f"what was never sent: {r['sent']} {r['unsent']}")
        report.check(r["latency_ms"]["count"] == r["answers"] + r["unsent"] and r["latency_ms"]["p50"] > 200, f"it counts: {r['latency_ms']}")


def compared(report, tool, d):
    """Two runs side by side: a server that is slower by far, whatever else the machine does, and a run beside itself."""
    def run(name, delay):
        with Ear(lambda path: threading.Event().wait(delay) or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
            status, out, _ = tool.run("--to", ear.address, "-c", 2, "--loop", "-d", 6, "--format", "json", d / "ten")
            (d / name).write_text(out)
    both = [threading.Thread(target=run, args=words) for words in (("fast.json", 0.02), ("slow.json", 0.4))]
    [t.start() for t in both]
    [t.join() for t in both]
    status, out, _ = tool.run("--compare", d / "fast.json", d / "slow.json", "--format", "json")
    verdict = {row["measure"]: row["verdict"] for row in json.loads(out)["rows"]}
    report.check(verdict["rate"] == "worse" and verdict["p50 ms"] == "worse", f"a server that is slower: {verdict}")
    status, out, _ = tool.run("--compare", d / "fast.json", d / "fast.json", "--format", "json")
    report.check({row["verdict"] for row in json.loads(out)["rows"]} == {"within noise"}, "a run beside itself")
    status, out, _ = tool.run("--compare", d / "fast.json", d / "fast.json", d / "slow.json", "--format", "json")
    rates = {row["report"]: row["verdict"] for row in json.loads(out)["rows"] if row["measure"] == "rate"}
    report.check(rates == {"B": "within noise", "C": "worse"}, f"three runs: {rates}")
    status, out, _ = tool.run("--compare", d / "fast.json", d / "fast.json", d / "slow.json")
    report.check(status == 0 and any(line.split() == ["A", "B", "C"] for line in out.splitlines()), f"a column for each: {out}")
    status, out, err = tool.run("--compare", d / "fast.json", d / "ten")
    report.check(status == 1 and "not a report" in err, f"what is no report: {status} {err!r}")


def warmups(report, tool, d):
    """A run that ends in its warm-up has measured nothing, and says so."""
    (d / "ten").write_text("/x\n" * 10)
    with Ear(lambda path: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
        for format in ("json", "text"):
            p = tool.start("--to", ear.address, "--rate", "100", "--loop", "-d", "60", "--warmup", "60", "--format", format, d / "ten")
            heard = len(ear.heard)
            until(LIMIT, lambda: len(ear.heard) > heard + 10)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=LIMIT)
            told = "interrupted in the warm-up: nothing was measured"
            report.check(p.returncode == 1 and told in out.decode() and not err, f"Ctrl-C in the warm-up: {p.returncode} {out[-300:]} {err}")
            if format == "json":
                r = json.loads(out)
                report.check((r["end"], r["answers"]) == ("interrupted_in_warmup", 0), f"nothing is counted: {r['end']} {r['answers']}")
            else:
                report.check(len(out.splitlines()) == 1, f"no figures: {out}")
        status, out, err = tool.run("--to", ear.address, "-d", 60, "--warmup", 60, d / "ten")
        report.check(status == 1 and "sent in the warm-up: nothing was measured" in out, f"too few requests: {status} {out} {err}")
        # The meter and the series begin together. What is measured is busy all the time, so that no second is without a tick.
        with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=die_with_parent) as busy:
            try:
                r = tool.json("--to", ear.address, "--rate", 200, "--loop", "-d", 3, "--warmup", 1, "--pid", busy.pid, d / "ten")
            finally:
                busy.kill()
        cpu = r["series"]["server_cpu_ms"]
        report.check(len(cpu) == len(r["series"]["answers"]) >= 2 and all(cpu), f"CPU in each second: {r['series']}")
        report.check(sum(cpu) / 1000 <= 1.01 * r["server"]["cpu_seconds"], f"no second is more than the whole: {cpu} of {r['server']}")


def faults(report, tool, d):
    """Each way to fail is told by its name; a server that dies ends the run with what there is."""
    (d / "ten").write_text("/x\n" * 10)
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    for name, answer in [
        ("bad_head", b"hello\r\n\r\n"), ("truncated", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nok"),
        ("bad_body", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ("reset", None),
    ]:
        with Ear(lambda path: answer) as ear:
            r = tool.json("--to", ear.address, "-c", 1, d / "ten")
            told = {k: n for k, n in r["errors"].items() if n}
            report.check(told in ({name: 10}, {"closed": 10} if name == "reset" else None), f"{name}: {told}")
    with Ear(lambda path: threading.Event().wait(30) and None or ok) as ear:
        r = tool.json("--to", ear.address, "--timeout", "200ms", "--requests", 2, d / "ten")
        report.check(r["errors"]["timeout"] == 2, f"timeout: {r['errors']}")
    status, out, _ = tool.run("--to", f"127.0.0.1:{free_port()}", "--give-up", "500ms", "--format", "json", d / "ten")
    r = json.loads(out)
    report.check(status == 1 and r["answers"] == 0 and r["errors"]["refused"] > 0, f"nobody there: {status} {r['errors']}")
    # A failure and then a pause of the log is no dead server.
    lines = [f'1.1.1.1 - - {STAMP % s} "GET /{s} HTTP/1.1" 200 1' for s in (0, 2)]
    with Ear(lambda path: b"hello\r\n\r\n" if path == "/0" else ok) as ear:
        r = tool.json("--to", ear.address, "--speed", 1, "--give-up", "300ms", "-", stdin="\n".join(lines).encode())
        report.check((r["answers"], r["failed"], r["end"]) == (1, 1, "done"), f"a pause after a failure: {r['answers']} {r['end']}")
    # A connection that the server closes between requests costs nobody a request.
    with Ear() as ear:
        ear.answer = lambda path: ok if path != "/close" else ok.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n", 1)
        serve = ear.origin.serve

        def closing(s):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buf = b""
            for _ in range(3):
                if not (got := head(s, buf)):
                    return
                buf = got[3]
                s.sendall(ok)
        ear.origin.serve = closing
        (d / "hundred").write_text("/x\n" * 100)
        r = tool.json("--to", ear.address, "-c", 2, d / "hundred")
        report.check((r["answers"], r["failed"]) == (100, 0) and r["connections"] >= 33, f"closed in between: {r['answers']} {r['errors']} {r['connections']}")
    # Dies in the middle.
    with Ear() as ear:
        p = tool.start("--to", ear.address, "--loop", "-d", "60", "--give-up", "500ms", "--format", "json", d / "ten")
        until(60, lambda: len(ear.heard) > 50)
        ear.origin.close()
        out, _ = p.communicate(timeout=LIMIT)
        r = json.loads(out)
        report.check(p.returncode == 1 and r["end"] == "gave_up" and r["answers"] > 40 and r["failed"] > 0 and r["notes"], f"died: {p.returncode} {r['end']}")
    # Ctrl-C: the report of what there is.
    with Ear() as ear:
        p = tool.start("--to", ear.address, "--loop", "-d", "60", "--format", "json", d / "ten")
        until(60, lambda: len(ear.heard) > 50)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=LIMIT)
        r = json.loads(out)
        report.check(p.returncode == 0 and r["end"] == "interrupted" and r["answers"] > 50 and not err, f"Ctrl-C: {p.returncode} {r['end']} {err!r}")


def endless(report, tool, d):
    """A log without an end in bounded memory, and one that comes slowly without delay."""
    with Nginx("location / { return 200 ok; }") as nginx:
        p = tool.start("--to", "%s:%d" % nginx.address, "-", "--format", "json", stdin=subprocess.PIPE)
        line = b"".join(b"http://h%d.test/%s\n" % (i % 1000, b"x" * 200) for i in range(2000))
        sizes = []
        deadline = time.monotonic() + (30 if FULL else 2)
        while time.monotonic() < deadline:
            p.stdin.write(line)
            sizes.append(int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{p.pid}/status").read_text())[1]))
        out, _ = p.communicate(timeout=LIMIT)
        r = json.loads(out)
        report.check(r["answers"] == 2000 * len(sizes) and max(sizes) < 64 << 10, f"endless: {r['answers']} of {2000 * len(sizes)}, {max(sizes)} KB")
    with Ear() as ear:
        p = tool.start("--to", ear.address, "-", "--format", "json", stdin=subprocess.PIPE)
        for i in range(3):
            p.stdin.write(b"/%d\n" % i)
            p.stdin.flush()
            report.check(until(60, lambda: len(ear.heard) == i + 1), f"line {i} of a slow log is sent at once")
        p.communicate(timeout=LIMIT)


VCL = """vcl 4.1;
backend origin { .host = "%s"; .port = "%d"; }
sub vcl_recv { if (req.url ~ "^/p/1[0-9]?[?]") { return (pass); } return (hash); }
sub vcl_backend_response { set beresp.ttl = 1h; set beresp.http.Cache-Control = "public"; }
"""


def servers(report, tool, d):
    """Thirty hosts to one address: counts and hit rate equal the server's own counters; a varnishlog replayed is the same again."""
    lines = 1_000_000 if FULL else 20_000
    log = d / "big.log"
    with open(log, "w") as f:
        f.writelines(line + "\n" for line in log_of(lines, 30, 500, 5))
    for name, program in [("lacquer", tool.varnishd), ("varnishd", GENUINE)]:
        with Origin(simple(lambda *_: ("", b"body"))) as origin, Varnishd(program, vcl=VCL % origin.address) as v:
            address = "%s:%d" % v.address
            r = tool.json("--to", address, "--pid", v.proc.pid, log, limit=600)
            counted = lambda: stat(program, v.n)
            # client_req won't do: varnishd counts who waited for a fetch twice.
            requests = lambda c: sum(c.get(n, 0) for n in ("cache_hit", "cache_miss", "s_pass"))
            until(60, lambda: requests(counted()) >= lines)
            c = counted()
            report.check(r["answers"] == lines == requests(c) and r["failed"] == 0, f"{name}: {r['answers']} answers, {c}")
            by = r["cache"]["by"]["X-Varnish"]
            report.check((by["told"], by["hits"]) == (lines, c["cache_hit"]), f"{name}: hits {by}, {c}")
            report.check(r["connections"] == c["sess_conn"], f"{name}: {r['connections']} connections, {c['sess_conn']}")
            report.check(r["server"]["cpu_seconds"] > 0 and r["client"]["cpu_seconds"] > 0, f"{name}: CPU {r['server']}")
            report.check(r["latency_ms"]["count"] == lines, f"{name}: every latency is counted")
            # Saved, and replayed against itself: the same requests.
            few, end = d / "few.log", d / "end"
            few.write_text("".join(line + "\n" for line in log_of(500, 30, 500, 6)))
            end.write_text("/the-last\n")
            with Saved(v, d / f"{name}.vsl") as saved:
                report.check(is_followed(v, saved.proc.pid), f"{name}: varnishlog follows the log")
                tool.json("--to", address, "-H", "X-Mark: yes", few)
                until(60, lambda: tool.json("--to", address, end) and saved.has(b"/the-last"))
            with Ear() as ear:
                r = tool.json("--to", ear.address, "-c", 1, saved.path)
                want = sorted((f"www{m[2]}.test", m[3], m[1]) for m in re.finditer(r'"(\w+) http://www(\d+)\.test(\S+) ', few.read_text()))
                asked = [(method, fields, path) for _, method, path, fields in ear.heard if path != "/the-last"]
                got = sorted((f.get("host"), p, m) for m, f, p in asked)
                report.check(got == want, f"{name}: a varnishlog replayed: {len(got)} of {len(want)} {r['source']}")
                report.check(all(f.get("x-mark") == "yes" for _, f, _ in asked), f"{name}: with its fields")
            # Live: what this server is asked is asked of another one as it comes.
            with Ear() as ear:
                p = tool.start("--to", ear.address, "-n", v.n, "--requests", 100, "--format", "json")
                probe = d / "probe"
                probe.write_text("/probe\n")
                if report.check(until(60, lambda: tool.run("--to", address, probe) and any(p == "/probe" for *_, p in ear.asked())), f"{name}: live, the first request"):
                    tool.json("--to", address, "--requests", 200, few)
                out, _ = p.communicate(timeout=LIMIT)
                r = json.loads(out)
                report.check(r["answers"] == 100 == len(ear.heard), f"{name}: live: {r['answers']} {len(ear.heard)}")
    with Nginx("location / { return 200 body; } location = /status { stub_status; }") as nginx:
        address = "%s:%d" % nginx.address
        r = tool.json("--to", address, log, limit=600)
        with socket.create_connection(nginx.address) as s:
            s.sendall(b"GET /status HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
        accepted, _, requests = map(int, re.search(r"^ (\d+) (\d+) (\d+)", text, re.M).groups())
        report.check((r["answers"], r["connections"]) == (requests - 1, accepted - 1) and requests == lines + 1, f"nginx: {r['answers']} of {requests - 1}")
        report.check(r["status"] == {"200": lines} and r["cache"]["told"] == 0, f"nginx: {r['status']}")


def scenarios(report, tool, d):
    """Cold and hot passes, a walker beside the hot set, a ramp up to what a server can do."""
    (d / "pages").write_text("".join(f"/{i}\n" for i in range(50)))
    (d / "site").write_text("".join(f"/site{i}\n" for i in range(5)))
    for name, program in [("lacquer", tool.varnishd), ("varnishd", GENUINE)]:
        with Origin(simple(lambda *_: ("Cache-Control: max-age=100\r\n", b"body"))) as origin, Varnishd(program, backend=origin.address) as v:
            r = tool.json("--to", "%s:%d" % v.address, "--passes", 2, d / "pages")
            hits = [p["cache"]["by"]["X-Varnish"]["hits"] for p in r["passes"]]
            report.check(hits == [0, 50] and [p["answers"] for p in r["passes"]] == [50, 50], f"{name}: cold and hot: {hits}")
    with Ear() as ear:
        r = tool.json("--to", ear.address, "--loop", "-d", 1, "-c", 2, "--walker", d / "site", "--walker-rate", 20, d / "ten")
        walked = [p for *_, p in ear.asked() if p.startswith("/site")]
        report.check(0 < len(walked) <= 20 and walked == [f"/site{i % 5}" for i in range(len(walked))], f"a walker goes in order and again: {len(walked)}")
        report.check(r["walker"]["answers"] == len(walked) and r["answers"] == len(ear.heard) - len(walked), f"each is counted by itself: {r['walker']['answers']}")
    # One connection and 100 ms a response: 10 a second at most.
    with Ear(lambda path: threading.Event().wait(0.1) or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
        r = tool.json("--to", ear.address, "-c", 1, "--loop", "--ramp", "2:42:40", "--hold", "2s", "--until", "p50>500ms", d / "ten")
        report.check((r["last_good_rate"], r["limit_passed"], len(r["steps"])) == (2, "p50>500ms", 2), f"a ramp: {r['last_good_rate']} {r['limit_passed']}")
    with Ear(lambda path: b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") as ear:
        status, out, _ = tool.run("--to", ear.address, "--loop", "--ramp", "20:100:20", "--hold", "300ms", d / "ten")
        report.check("errors>1% was passed; last good rate: null" in out, f"a ramp that fails at once: {out[-200:]!r}")
    for args, word in [(["--passes", 2, "--ramp", "1:2:1"], "not both"), (["--hold", 1], "need --ramp"), (["--ramp", "2:1:1"], "not understood"), (["--walker", "-"], "--walker needs a file")]:
        status, _, err = tool.run("--to", "127.0.0.1:1", *args, d / "ten")
        report.check(status == 2 and word in err, f"{args}: {status} {err!r}")


def terminal(report, tool, d):
    """On a terminal of 80 columns: how far it is, how fast, how well, how long it still takes; nothing of it in a pipe."""
    with Ear(lambda path: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Cache: HIT\r\n\r\n") as ear:
        for words in [["-d", 3], ["--requests", 300]]:
            ours, theirs = pty.openpty()
            args = [tool.program, "replay", "--to", ear.address, "--rate", "100", "--loop", *map(str, words), d / "ten"]
            p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=theirs, preexec_fn=die_with_parent)
            os.close(theirs)
            out = p.stdout.read().decode()
            shown = b""
            with contextlib.suppress(OSError):
                while got := os.read(ours, 65536):
                    shown += got
            os.close(ours)
            p.wait(LIMIT)
            lines = [line for line in shown.decode().split("\r\x1b[K") if line]
            pattern = r"\d+%, \d+ s left  \d+/s  p50 [\d.]+ p99 [\d.]+ ms  100% hits  0 failed  \d+ answers"
            report.check(lines and all(re.fullmatch(pattern, line) and len(line) < 80 for line in lines), f"progress with {words}: {lines}")
            report.check(shown.endswith(b"\r\x1b[K") and "answered" in out and "\x1b" not in out, f"it is taken away: {shown[-20:]!r}")


def over_tls(report, tool, d):
    sealed.group(report, tool, d)


def by_http2(report, tool, d):
    multiplexed.group(report, tool, d)


def by_http3(report, tool, d):
    datagrams.group(report, tool, d)


CASES = (sources, targets, pacing, stalled, faults, endless, scenarios, compared, warmups, terminal, over_tls, by_http2, by_http3, servers)


def main():
    global FULL
    o = options(__doc__, CASES, lacquer=dict(default=None, help="the program `lacquer`"))
    FULL = o.full
    report = Report("replay")
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / "ten").write_text("/x\n" * 10)
        report.run(o.cases, report, Tool.of(o), d)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
