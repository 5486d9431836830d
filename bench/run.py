#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""CPU per request beside the peers: Debian's varnishd, nginx, haproxy, and a C program that only answers (null).

All servers run at once on core 0, but only one is asked at a time; the load generator and the origin have core 1. Rounds are
interleaved and their order rotates. CPU is what the kernel's schedstat says that all processes of a server ran, over the requests
that they answered: what else the machine does shows in caches and clock speed only. So look at ratios inside one run.

usage: bench/run.py [--rounds N] [--seconds S] [--cases A,B] [--servers a,b] [--ours PROGRAM] [--also NAME=PROGRAM]
                    [--out FILE]
       bench/run.py --report [FILE...]   the ratios of saved results (without names: all), one line each
It fails when our log has 5 % more or fewer records a hit than varnishd's, when any answer was wrong, or when a case misses its bound.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from cases import CASES
from servers import Bed, SERVERS, another

HERE = pathlib.Path(__file__).resolve().parent


def medians(by):
    """server: the median of each figure over the rounds; what is a word has none."""
    return {name: {c: statistics.median(r[c] for r in rows) for c in rows[0] if not isinstance(rows[0][c], str)} for name, rows in by.items() if rows}


def table(case, by):
    """The case as Markdown, and what is wrong."""
    key, median = case.key, medians(by)
    columns = [key, *case.columns]
    base = median.get("varnish", median.get("varnish+plain", {})).get(key)
    out = [f"\n### {case.name} ({len(next(iter(by.values())))} rounds, medians)\n",
           f"| server | {' | '.join(columns)} | {key} min-max | ratio |", "| --- |" + " --- |" * (len(columns) + 2)]
    wrong = []
    for name, rows in by.items():
        cells = [f"{median[name][c]:.4g}" if c in median[name] else "-" for c in columns]
        span = f"{min(r[key] for r in rows):.4g}-{max(r[key] for r in rows):.4g}"
        ratio = f"{median[name][key] / base:.2f}" if base else "-"
        out.append(f"| {name} | {' | '.join(cells)} | {span} | {ratio} |")
        bad = sum(r.get("errors", 0) + r.get("non200", 0) for r in rows)
        if bad and name.startswith("ours"):
            wrong.append(f"{bad} wrong answers from {name}")
    lines, complaints = case.remarks(median)
    return "\n".join([*out, *(["", *lines] if lines else [])]), [f"{case.name}: {w}" for w in wrong + complaints]


def ratios(results):
    """case: ours to varnishd's"""
    found = {c: CASES[c].ratio(medians(by)) for c, by in results.items() if c in CASES}
    return {c: ratio for c, ratio in found.items() if ratio is not None}


def report(files):
    """The ratios of saved results, one line each, oldest first."""
    print("| when | commit | rounds | " + " | ".join(CASES) + " |\n|" + " --- |" * (len(CASES) + 3))
    for saved in sorted((json.loads(pathlib.Path(f).read_text()) for f in files), key=lambda s: s["when"]):
        cells = ratios(saved["results"])
        cells = " | ".join(f"{cells[c]:.3g}" if c in cells else "-" for c in CASES)
        print(f"| {saved['when'][:16]} | {saved['commit']} | {saved['rounds']} | {cells} |")


def measure(case, bed, rounds, seconds):
    """server: the figures of each round; the order rotates."""
    case.prepare(bed)
    with case.taking_part(bed) as servers:
        names = list(servers)
        by = {name: [] for name in names}
        for n in range(1 if case.once else rounds):
            for name in names[n % len(names):] + names[:n % len(names)]:
                by[name].append(case.measure(bed, servers[name], seconds))
    return by


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
    a.add_argument("--report", nargs="*")
    o = a.parse_args()
    if o.report is not None:
        return report(o.report or sorted(HERE.glob("results/*.json")))
    unknown = set(o.cases.split(",")) - set(CASES)
    if unknown:
        a.error(f"no case {', '.join(unknown)}")
    results, wrong = {}, []
    names = o.servers.split(",") + [another(*also.split("=", 1)) for also in o.also]
    with Bed(names, o.ours) as bed:
        for case in map(CASES.get, o.cases.split(",")):
            results[case.name] = measure(case, bed, o.rounds, o.seconds)
            text, complaints = table(case, results[case.name])
            print(text, flush=True)
            wrong += complaints
    saved = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "load": os.getloadavg()[0],
             "rounds": o.rounds, "seconds": o.seconds, "results": results}
    out = pathlib.Path(o.out or HERE / f"results/{saved['when'][:16].replace(':', '')}-{saved['commit']}.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(saved, indent=1) + "\n")
    print("\n" + "\n".join(["| case | ratio to varnishd |", "| --- | --- |"] + [f"| {c} | {r:.3g} |" for c, r in ratios(results).items()]))
    print("\n".join(f"bench: {w}" for w in wrong))
    print(f"bench: {len(results)} cases measured, {len(wrong)} complaints; saved as {out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
