#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""CPU per request beside the peers: Debian's varnishd, nginx, haproxy, and a C program that only answers (null).

All servers run at once on core 0, but only one is asked at a time; the load generator and the origin have core 1. Rounds are
interleaved and their order rotates. CPU is what the kernel's schedstat says that all processes of a server ran, over the requests
that they answered: what else the machine does shows in caches and clock speed only. So look at ratios inside one run.

usage: bench/run.py [--rounds N] [--seconds S] [--cases A,B] [--servers a,b] [--ours PROGRAM] [--also NAME=PROGRAM]
                    [--out FILE]
       bench/run.py --report FILE...     the ratios of saved results, one line each
It fails when our log has 5 % more or fewer records a hit than varnishd's, or when any answer was wrong.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from servers import Bed, IDLE, SERVERS, another

HERE = pathlib.Path(__file__).resolve().parent
HIT, HIT100K = "/c/1024/1", "/c/102400/1"
# case: (what to ask for, the generator's options, body bytes of the null server or 0 when it can't take part)
CASES = {
    "hit-keepalive-B": (HIT, ["-B"], 1024),
    "hit-10perconn": (HIT, ["-k", "10"], 1024),
    "hit-1conn-B": (HIT, ["-k", "1", "-B"], 1024),
    "hit-pipelined": (HIT, ["-P", "16"], 1024),
    "hit-100k": (HIT100K, [], 102400),
    "pass": ("/n/1024/1", [], 0),
    "miss": ("/c/1024/", ["-N", "10000000"], 0),
    "open-5k": (HIT, ["-r", "5000", "-w", "0.2"], 1024),
    "idle-bytes": (HIT, [], 1024),
}
MAIN = {"open-5k": "p99_us", "idle-bytes": "bytes"}  # what the ratio is of, when not of CPU
MOST_LOG_OFF = 0.05


def loaded(bed, server, case, seconds, seen):
    """One stretch of load: its figures."""
    path, options, _ = CASES[case]
    if case == "miss":  # never the same twice
        options = [*options, "-o", str(seen.setdefault(server.name, 0))]
    bed.load(server, path, ["-d", "0.15", *options])
    if case == "miss":
        seen[server.name] += 1_000_000
        options[-1] = str(seen[server.name])
    records, ran = server.records(), server.ran_ns()
    got = bed.load(server, path, ["-d", str(seconds), *options])
    ran = server.ran_ns() - ran
    done = max(1, got["issued"] - got["errors"])
    if case == "miss":
        seen[server.name] += got["issued"] + 1000
    figures = {k: got[k] for k in ("rps", "p50_us", "p99_us", "errors", "non200")}
    figures["cpu_us"] = ran / done / 1e3
    if records is not None:
        figures["records"] = (server.records() - records) / done
    return figures


def idle(bed, server):
    """Memory that a connection takes while it is idle after one answer."""
    bed.load(server, HIT, ["-d", "0.3"])
    time.sleep(0.3)
    before = server.pss()
    with bed.hold(server, HIT, IDLE):
        time.sleep(1.0)
        return {"bytes": (server.pss() - before) / IDLE, "errors": 0, "non200": 0}


def table(results):
    out, wrong = [], []
    for case, by in results.items():
        key = MAIN.get(case, "cpu_us")
        columns = [key] + [c for c in ("rps", "p50_us", "p99_us", "records") if c != key and case != "idle-bytes"]
        median = {n: {c: statistics.median(r[c] for r in rows) for c in columns if c in rows[0]} for n, rows in by.items()}
        base = median.get("varnish", {}).get(key)
        out += [f"\n### {case} ({len(next(iter(by.values())))} rounds, medians)\n",
                f"| server | {' | '.join(columns)} | {key} min-max | ratio |", "| --- |" + " --- |" * (len(columns) + 2)]
        for name, rows in by.items():
            cells = [f"{median[name][c]:.4g}" if c in median[name] else "-" for c in columns]
            span = f"{min(r[key] for r in rows):.4g}-{max(r[key] for r in rows):.4g}"
            ratio = f"{median[name][key] / base:.2f}" if base else "-"
            out.append(f"| {name} | {' | '.join(cells)} | {span} | {ratio} |")
            bad = sum(r["errors"] + r["non200"] for r in rows)
            if bad and name == "ours":
                wrong.append(f"{case}: {bad} wrong answers")
        ours, theirs = (median.get(n, {}).get("records") for n in ("ours", "varnish"))
        if case.startswith("hit") and ours is not None and theirs and abs(ours / theirs - 1) > MOST_LOG_OFF:
            wrong.append(f"{case}: {ours:.2f} log records a request, varnishd has {theirs:.2f}")
    return "\n".join(out), wrong


def ratios(results):
    """case: our median over varnishd's"""
    out = {}
    for case, by in results.items():
        if by.get("ours") and by.get("varnish"):
            key = MAIN.get(case, "cpu_us")
            mine, theirs = (statistics.median(r[key] for r in by[n]) for n in ("ours", "varnish"))
            out[case] = mine / theirs
    return out


def report(files):
    print("| when | commit | " + " | ".join(CASES) + " |\n|" + " --- |" * (len(CASES) + 2))
    for saved in sorted((json.loads(pathlib.Path(f).read_text()) for f in files), key=lambda s: s["when"]):
        by = ratios(saved["results"])
        print(f"| {saved['when']} | {saved['commit']} | " + " | ".join(f"{by[c]:.2f}" if c in by else "-" for c in CASES) + " |")


def commit():
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--servers", default=",".join(SERVERS))
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM", help="another build of ours beside it")
    a.add_argument("--out")
    a.add_argument("--report", nargs="+")
    o = a.parse_args()
    if o.report:
        return report(o.report)
    results, seen = {}, {}
    names = o.servers.split(",") + [another(*also.split("=", 1)) for also in o.also]
    with Bed(names, o.ours) as bed:
        for case in o.cases.split(","):
            body = CASES[case][2]
            bed.null_body(body)
            able = [s for s in bed.servers if body or s.name != "null"]
            results[case] = {s.name: [] for s in able}
            for n in range(1 if case == "idle-bytes" else o.rounds):
                for server in able[n % len(able):] + able[:n % len(able)]:
                    figures = idle(bed, server) if case == "idle-bytes" else loaded(bed, server, case, o.seconds, seen)
                    results[case][server.name].append(figures)
            print(table({case: results[case]})[0], flush=True)
    _, wrong = table(results)
    saved = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "load": os.getloadavg()[0],
             "rounds": o.rounds, "seconds": o.seconds, "results": results}
    out = pathlib.Path(o.out or HERE / f"results/{saved['when'][:16].replace(':', '')}-{saved['commit']}.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(saved, indent=1) + "\n")
    print("\n" + "\n".join(["| case | ratio to varnishd |", "| --- | --- |"] + [f"| {c} | {r:.2f} |" for c, r in ratios(results).items()]))
    print("\n".join(f"bench: {w}" for w in wrong))
    print(f"bench: {len(results)} cases measured, {len(wrong)} complaints; saved as {out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
