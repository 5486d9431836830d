#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer replay` by clocks: requests are sent when they are due, latencies are those of a reference that shares no code, and two runs that
differ by little are told apart. --full: also what a request costs, beside other tools. Counts and order: tests/e2e/tooling/replay.
"""
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS), str(TESTS / "e2e/tooling"), str(TESTS / "e2e/tooling/replay")]
from bed.report import Report, options
from kit import STAMP, Ear, Tool
from replay_fleet.run import Workers
import cost
import reference

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def pacing(report, tool, d):
    """Rates and the log's clock, as the server sees them."""
    (d / "list").write_text("".join(f"/{i}\n" for i in range(300)))
    with Ear() as ear:
        r = tool.json("--to", ear.address, "-c", 1, "--rate", 200, "-d", 1, d / "list")
        times = [t for t, *_ in ear.heard]
        report.check(r["sent"] + r["unsent"] == 200 and r["unsent"] <= 3, f"--rate 200 for a second: {r['sent']} {r['unsent']}")
        report.check(0.8 < times[-1] - times[0] < 1.3, f"--rate spreads: {times[-1] - times[0]}")
    # 4 s of the log in 1 s; a jump back costs nothing, a pause of a day is cut.
    stamps = [0, 0, 0, 0, 1, 2, 3, 4]
    lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate(stamps)]
    lines += ['1.1.1.1 - - [09/Oct/2000:00:00:00 -0700] "GET /8 HTTP/1.1" 200 1', '1.1.1.1 - - [11/Oct/2000:00:00:00 -0700] "GET /9 HTTP/1.1" 200 1']
    with Ear() as ear:
        tool.json("--to", ear.address, "--speed", 4, "--max-gap", 2, "-", stdin="\n".join(lines).encode())
        at = {p: t for t, _, p, _ in ear.heard}
        t = [at[f"/{i}"] - at["/0"] for i in range(10)]
        want = [0, .0625, .125, .1875, .25, .5, .75, 1, 1, 1.5]
        report.check(all(abs(a - b) < 0.12 for a, b in zip(t[:8], want)) and 1.2 < t[9] < 1.8, f"--speed 4: {t}")
    # Shuffled, the times stay the log's: a hundred in the first second, one in each of the next three.
    lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate([0] * 100 + [1, 2, 3])]
    (d / "timed").write_text("\n".join(lines) + "\n")
    with Ear() as ear:
        tool.json("--to", ear.address, "--speed", 4, "--order", "shuffle", "--loop", "--requests", 206, d / "timed")
        t = [t - ear.heard[0][0] for t, *_ in ear.heard]
        report.check(t[99] < 0.45 and all(abs(a - b) < 0.12 for a, b in zip(t[100:103], [.25, .5, .75])), f"at the log's times: {t[98:103]}")
        report.check(t[103 + 99] < 1.4 < t[205], f"and again: {t[103:]}")


def walker(report, tool, d):
    """A robot beside the load, at its own rate, and a ramp up to what a server can do."""
    (d / "site").write_text("".join(f"/site{i}\n" for i in range(5)))
    with Ear() as ear:
        r = tool.json("--to", ear.address, "--loop", "-d", 1, "-c", 2, "--walker", d / "site", "--walker-rate", 20, d / "ten")
        report.check(r["walker"]["answers"] == 20, f"20 a second: {r['walker']['answers']}")
    # One connection and 10 ms a response: 100 a second at most.
    with Ear(lambda path: threading.Event().wait(0.01) or OK) as ear:
        r = tool.json("--to", ear.address, "-c", 1, "--loop", "--ramp", "40:400:180", "--hold", "1500ms", "--until", "p50>200ms", d / "ten")
        report.check((r["last_good_rate"], r["limit_passed"], len(r["steps"])) == (40, "p50>200ms", 2), f"a ramp: {r['last_good_rate']} {r['limit_passed']}")


def fleet(report, tool, d):
    """Four processes as one run: evenly spread, by one clock."""
    (d / "list").write_text("".join(f"/{i}\n" for i in range(1000)))
    with Workers(tool, 4) as workers:
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 200, "-d", 2, "--loop", d / "list")
            times = sorted(t for t, *_ in ear.heard)
            report.check(abs(r["answers"] - 400) <= 4, f"200 a second from four: {r['answers']}")
            report.check(1.7 < times[-1] - times[0] < 2.4, f"over two seconds: {times[-1] - times[0]}")
            quarter = [sum(1 for t in times if k <= (t - times[0]) * 20 < k + 1) for k in range(38)]
            report.check(max(quarter) <= 30, f"evenly: {quarter}")
        stamps = [0, 0, 0, 0, 1, 2, 3, 4]
        lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate(stamps)]
        with Ear() as ear:
            tool.json("--to", ear.address, *workers.words, "--speed", 4, "-", stdin="\n".join(lines).encode())
            at = {p: t for t, _, p, _ in ear.heard}
            t = [at[f"/{i}"] - at["/0"] for i in range(8)]
            want = [0, .0625, .125, .1875, .25, .5, .75, 1]
            report.check(all(abs(a - b) < 0.12 for a, b in zip(t, want)), f"--speed 4 by four: {t}")
        # A stall of the server is charged to all who had to wait, whoever sent.
        gate = {"until": 0.0}

        def answer(path):
            if path == "/0":
                gate["until"] = time.monotonic() + 0.5
            while (left := gate["until"] - time.monotonic()) > 0:
                threading.Event().wait(left)
            return OK
        with Ear(answer) as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 400, "-d", 1.5, "-c", 8, "--loop", d / "list")
            report.check(abs(r["answers"] - 600) <= 4 and r["latency_ms"]["p99"] > 400, f"a stall: {r['latency_ms']}")
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 100, "--warmup", 1, "-d", 1, "--loop", d / "list")
            report.check(abs(len(ear.heard) - 200) <= 4 and abs(r["answers"] - 100) <= 4, f"--warmup: {len(ear.heard)} {r['answers']}")


def figures(report, tool, d):
    """A server that stands still for half a second: an open loop charges it for all who had to wait, a closed one for few."""
    gate = {"until": 0.0}

    def answer(path):
        if path == "/0":
            gate["until"] = time.monotonic() + 0.5
        while (left := gate["until"] - time.monotonic()) > 0:
            threading.Event().wait(left)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAge: 3\r\n\r\n"
    (d / "stall").write_text("".join(f"/{i}\n" for i in range(1000)))
    with Ear(answer) as ear:
        r = tool.json("--to", ear.address, "--rate", 500, "-d", 1.5, "-c", 5, d / "stall")
        late = r["latency_ms"]["p50"], r["latency_ms"]["p99"], r["service_ms"]["p50"]
        report.check(r["answers"] == 750 and late[1] > 400 and late[2] < 20, f"an open loop with 5 connections: {late} {r['answers']}")
        report.check(r["cache"]["by"]["Age"] == {"told": 750, "hits": 750, "hit_rate": 1.0}, f"Age: {r['cache']}")
    with Ear(answer) as ear:
        r = tool.json("--to", ear.address, "-c", 5, d / "stall")
        report.check(r["latency_ms"]["p99"] < 100 and 400 < r["latency_ms"]["max"] < 900, f"a closed loop: {r['latency_ms']}")
        report.check(r["slowest"] and r["slowest"][0]["ms"] > 400, "the slowest are named")
    # Never sent counts, too.
    with Ear(lambda path: threading.Event().wait(0.3) and None or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
        r = tool.json("--to", ear.address, "--rate", 100, "-d", 0.6, "-c", 1, d / "stall")
        report.check(r["sent"] + r["unsent"] == 60 and r["unsent"] > 50, f"what was never sent: {r['sent']} {r['unsent']}")
        report.check(r["latency_ms"]["count"] == r["answers"] + r["unsent"] and r["latency_ms"]["p50"] > 200, f"it counts: {r['latency_ms']}")


def percentiles(report, tool, d):
    """An open loop's percentiles are those of a reference that shares no code: with answers of many lengths, and with a server that
    stands still for 0.4 s every two seconds, when ten connections can't carry who is due."""
    draw = random.Random(4)
    # Most answers take some milliseconds, a few much longer.
    delays = [0.002 + draw.expovariate(1 / 0.01) + (0.15 if i % 40 == 0 else 0) for i in range(400)]
    (d / "delayed").write_text("".join(f"/{i}\n" for i in range(400)))
    rate, seconds, gate = 200, 8 if FULL else 2, {"until": 0.0}

    def varied(path):
        threading.Event().wait(delays[int(path[1:])])
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    def standing_still(path):
        if path == "/0":
            gate["until"] = time.monotonic() + 0.4
        threading.Event().wait(max(0.001, gate["until"] - time.monotonic()))
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    for answer, connections in ((varied, 40), (standing_still, 10)):
        # A machine that does other things can hold up either of the two; a wrong clock is wrong each time.
        for _ in range(4):
            with Ear(answer) as ear:
                want = reference.run(ear.address, [f"/{i}" for i in range(400)], rate, rate * seconds, connections)
                r = tool.json("--to", ear.address, "--rate", rate, "--requests", rate * seconds, "--loop", "-c", connections, d / "delayed")
            got = r["latency_ms"]
            pairs = [(f"p{p}", got[f"p{p}"], round(1000 * reference.percentile(want, p), 3)) for p in (50, 90, 99)]
            pairs.append(("mean", got["mean"], round(1000 * sum(want) / len(want), 3)))
            if near := all(abs(a - b) < 5 + 0.1 * b for _, a, b in pairs):
                break
        report.check(near and got["count"] == len(want) == rate * seconds, f"{answer.__name__}, here and by the reference: {pairs}")
        if FULL:
            report.note(f"{answer.__name__}, here and by the reference, ms: {pairs}")


def compared(report, tool, d):
    """Two runs side by side."""
    def run(name, delay):
        with Ear(lambda path: threading.Event().wait(delay) or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as ear:
            status, out, _ = tool.run("--to", ear.address, "-c", 2, "--loop", "-d", 6, "--format", "json", d / "ten")
            (d / name).write_text(out)
    run("fast.json", 0.004)
    run("slow.json", 0.012)
    status, out, _ = tool.run("--compare", d / "fast.json", d / "slow.json", "--format", "json")
    verdict = {row["measure"]: row["verdict"] for row in json.loads(out)["rows"]}
    report.check(verdict["rate"] == "worse" and verdict["p50 ms"] == "worse", f"a server that is slower: {verdict}")
    status, out, _ = tool.run("--compare", d / "fast.json", d / "fast.json", "--format", "json")
    report.check({row["verdict"] for row in json.loads(out)["rows"]} == {"within noise"}, "a run beside itself")
    status, out, err = tool.run("--compare", d / "fast.json", d / "ten")
    report.check(status == 1 and "not a report" in err, f"what is no report: {status} {err!r}")


CASES = (pacing, walker, fleet, figures, percentiles, compared)


def main():
    global FULL
    o = options(__doc__, CASES, lacquer=dict(default=None, help="the program `lacquer`"))
    FULL = o.full
    report = Report("replay")
    tool = Tool.of(o, measures=True)
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / "ten").write_text("/x\n" * 10)
        report.run(o.cases, report, tool, d)
        if FULL and not o.words:
            cost.group(report, tool, d)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
