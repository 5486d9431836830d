#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Load tests that operators reported, done with `lacquer replay`: each function is a row of docs/replay.md. Counts are checked here; rates and
times, with the loads that operators had, by tests/timing/replay_rows.
"""
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent / "replay")]
from bed.daemon import Varnishd, cpu
from bed.origin import Origin, simple
from bed.report import Report, options, until
from kit import GENUINE, SBIN, STAMP, Ear, Tool, log_of, stat

import figures

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def rows(report, tool, d, is_full):
    for name, program in [("lacquer", tool.varnishd), ("varnishd", GENUINE)]:
        with Origin(simple(lambda *_: ("Cache-Control: max-age=1000\r\n", b"x"))) as origin:
            with Varnishd(program, backend=origin.address) as v:
                recorded(report, tool, d, name, program, v)
            with Varnishd(program, backend=origin.address) as v:
                sent = many_hosts(report, tool, d, name, v)
                warmed(report, tool, d, name, program, v, sent)
            with Varnishd(program, backend=origin.address) as v:
                cold_and_hot(report, tool, d, name, v)
                robot(report, tool, d, name, v)
                benchmark(report, tool, d, name, v, is_full)
            cleaned(report, tool, d, name, program, origin)
    if tool.measures:
        thinkers(report, tool, d)


def address(v):
    return "%s:%d" % v.address


def recorded(report, tool, d, name, program, v):
    """G8, N10: varnishncsa's log of a server, and the list of URLs that is made of it, are the same requests once more."""
    lines = list(log_of(400, 30, 100, 3))
    (d / "traffic").write_text("".join(line + "\n" for line in lines))
    tool.json("--to", address(v), d / "traffic")
    ncsa = [shutil.which("varnishncsa", path=SBIN), "-n", v.n, "-d"]
    logged = []

    def read():
        logged[:] = subprocess.run(ncsa, capture_output=True, text=True, timeout=30).stdout.splitlines()
        return len(logged) >= len(lines)
    until(60, read)
    urls = [re.search(r'"(\w+) (http://\S+) ', line).groups() for line in logged]
    (d / "copied.log").write_text("".join(line + "\n" for line in logged))
    (d / "urls.txt").write_text("".join(f"{method} {url}\n" for method, url in urls))
    want = sorted((m[1], f"www{m[2]}.test", m[3]) for m in re.finditer(r'"(\w+) http://www(\d+)\.test(\S+) ', "\n".join(lines)))
    for source in ("copied.log", "urls.txt"):
        with Ear() as ear:
            tool.json("--to", ear.address, "-c", 1, d / source)
            report.check(sorted(ear.asked()) == want, f"G8 {name}: {source}: {len(ear.heard)} of {len(want)}")


def many_hosts(report, tool, d, name, v):
    """G9, G10: `siege -c 500 -d 1` on URLs of 30 domains, all of one address, without a line in a hosts file: some 1,000 a second.
    Gives the number of requests, 0 where it isn't known."""
    draw = random.Random(8)
    (d / "thirty").write_text("".join(f"http://www{i % 30}.test/{draw.randrange(200)}\n" for i in range(3000)))
    r = tool.json("--to", address(v), "-c", 500, "--think", "0s-1s", "--order", "shuffle", "--loop",
                  *(("--warmup", 1, "-d", 3) if tool.measures else ("--requests", 1500)), d / "thirty")
    report.check(r["failed"] == 0 and r["status"] == {"200": r["answers"]}, f"G9 {name}: {r['errors']}")
    # 500 users who think for half a second at the mean; fewer where answers take long.
    users = r["rate"] * (0.5 + r["latency_ms"]["mean"] / 1000)
    report.check(not tool.measures or 440 < users < 560, f"G9 {name}: {r['rate']} a second by {users:.0f} users")
    return 0 if tool.measures else r["answers"]


def warmed(report, tool, d, name, program, v, sent):
    """G11: after warming up with `sent` requests, CPU and hit rate, as vmstat and varnishstat beside it would show."""
    # A thread of varnishd's adds its counts when it has nothing to do.
    until(60, lambda: sum(stat(program, v.n)[n] for n in ("cache_hit", "cache_miss")) >= sent)
    before, used, begun = stat(program, v.n), cpu(v.pids()), time.monotonic()
    r = tool.json("--to", address(v), "--rate", 500, "--loop", "--requests", 1500, "--pid", v.proc.pid, d / "thirty")
    passed, used = time.monotonic() - begun, cpu(v.pids()) - used
    counted = lambda: [now[n] - before[n] for now in [stat(program, v.n)] for n in ("cache_hit", "cache_miss")]
    report.comes(counted, [r["cache"]["hits"], r["cache"]["told"] - r["cache"]["hits"]], f"G11 {name}: hits and misses of {r['cache']}")
    report.check(r["answers"] == 1500, f"G11 {name}: {r['answers']}")
    # Ticks of 10 ms, in each of the processes; and what it does before and after.
    report.check(not tool.measures or abs(r["server"]["cpu_seconds"] - used) < 0.08 + 0.1 * used, f"G11 {name}: CPU {r['server']}, {used} in {passed:.1f} s")


def benchmark(report, tool, d, name, v, is_full):
    """G12, L4: ab's load (HTTP/1.0, a connection a request), by ab where it is there, and by this tool with its counts."""
    (d / "one").write_text("/cgi-bin/test\n")
    r = tool.json("--to", address(v), "-c", 50, "--per-connection", 1, "--loop", "--requests", n := 5000 if tool.measures else 1000, d / "one")
    report.check((r["answers"], r["failed"], r["connections"]) == (n, 0, n), f"G12 {name}: {r['answers']} {r['errors']}")
    ab = shutil.which("ab")
    if not ab:
        report.note("no ab here: apt-get install apache2-utils")
        return
    many = (100_000 if is_full or name == "lacquer" else 10_000) if tool.measures else 5000
    for c, n in [(1, 1000 if tool.measures else 300), (50, many), *([(50, 1_000_000)] if is_full else [])]:
        out = subprocess.run([ab, "-q", "-c", str(c), "-n", str(n), f"http://{address(v)}/cgi-bin/test"], capture_output=True, text=True, timeout=600).stdout
        got = tuple(int(m[1]) if (m := re.search(rf"{word}:\s+(\d+)", out)) else None for word in ("Complete requests", "Failed requests"))
        report.check(got == (n, 0), f"G12 {name}: ab -c {c} -n {n}: {got}")


def robot(report, tool, d, name, v):
    """G16: URLs of a log as often as they were asked, while a robot walks the whole site: what readers see is told by itself."""
    (d / "hot").write_text("".join(line + "\n" for line in log_of(500, 3, 20, 4)))
    (d / "whole").write_text("".join(f"http://www0.test/site/{i}\n" for i in range(5000)))
    tool.json("--to", address(v), d / "hot")
    r = tool.json("--to", address(v), "--rate", 300, "-d", 2, "--loop", "--walker", d / "whole", "--walker-rate", 100, d / "hot")
    report.check(r["cache"]["hit_rate"] == 1.0 and 0 < r["answers"] < 604, f"G16 {name}: readers: {r['cache']}")
    walker = r["walker"]
    report.check(walker["cache"]["hits"] == 0 and 0 < walker["answers"] < 204, f"G16 {name}: the robot: {walker['cache']}")
    if tool.measures:
        report.check(r["answers"] > 596 and walker["answers"] > 196, f"G16 {name}: at their rates: {r['answers']} {walker['answers']}")
    # Requests that were due and never sent have waited, too.
    counts = [(part["latency_ms"]["count"], part["answers"], part.get("unsent", 0)) for part in (r, walker)]
    report.check(all(answers <= count <= answers + unsent for count, answers, unsent in counts), f"G16 {name}: latencies apart: {counts}")


def cold_and_hot(report, tool, d, name, v):
    """G17: x thousand URLs in order, and then again."""
    n = 3000 if tool.measures else 1000
    (d / "walked").write_text("".join(f"http://www.test/page/{i}\n" for i in range(n)))
    r = tool.json("--to", address(v), "--passes", 2, "-c", 4, d / "walked")
    hits = [p["cache"]["hits"] for p in r["passes"]]
    report.check(hits == [0, n], f"G17 {name}: {hits} of {n}")


VCL = """vcl 4.1;
backend origin { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    if (%s) {
        set req.url = regsuball(req.url, "[?&](_|utm_[a-z]+|ref)=[^&]*", "");
    }
    return (hash);
}
"""


def cleaned(report, tool, d, name, program, origin):
    """N9: URLs cleaned of `_`, utm_ and ref: from 86 to 98 % of hits on recorded traffic."""
    draw = random.Random(9)
    words = ["_=%d", "utm_source=n%d", "ref=%d"]
    with open(d / "dirty.log", "w") as f:
        for i in range(4000):
            junk = "?" + draw.choice(words) % i if i % 8 == 0 else ""
            f.write(f'10.0.0.1 - - {STAMP % (i % 60)} "GET http://www{i % 4}.test/{i % 64}{junk} HTTP/1.1" 200 1 "-" "x"\n')
    rates = []
    for is_on in ("false", "true"):
        with Varnishd(program, vcl=VCL % (*origin.address, is_on)) as v:
            r = tool.json("--to", address(v), "-c", 4, d / "dirty.log")
            c = until(60, lambda: (c := stat(program, v.n))["cache_hit"] + c["cache_miss"] >= 4000 and c)
            report.check(r["cache"]["hits"] == c["cache_hit"], f"N9 {name}: {r['cache']} {c}")
            rates.append(100 * r["cache"]["hit_rate"])
    report.check(85 < rates[0] < 88 and 98 < rates[1] < 99, f"N9 {name}: from {rates[0]:.1f} to {rates[1]:.1f} %")


def thinkers(report, tool, d):
    """O18: users = rate x (think time + answer): closed loop by users, and open loop by the rate that follows from them."""
    with Ear(lambda path: threading.Event().wait(0.02) or OK) as ear:
        r = tool.json("--to", ear.address, "-c", 30, "--think", "100ms", "--loop", "--warmup", "500ms", "-d", 2, d / "ten")
        users = r["rate"] * (0.1 + r["latency_ms"]["mean"] / 1000)
        report.check(27 < users < 33, f"O18: {r['rate']} a second by {users:.1f} users")


CASES = (rows, figures.rows)


def main():
    o = options(__doc__, lacquer=dict(default=None, help="the program `lacquer`"))
    report = Report("replay_rows")
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / "ten").write_text("/x\n" * 10)
        report.run(CASES, report, Tool.of(o), d, False)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
