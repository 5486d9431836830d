#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Old VCL before our varnishd, and what `lacquer vcl migrate` makes of it before a genuine one: do they decide the same?

The files are those in `sites`, named DIALECT_NAME.vcl, or, with --dir, the old files below DIR, made whole by corpus.py (those that
upstream.py writes, too; --part 0/2 is every second one). Each must migrate, the genuine varnishd must compile the result, and then both
get the same generated requests; compared is what vcl_oracle compares: responses, what the origin was asked, and the log record by
record. Skipped when there is no genuine varnishd.
"""
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

from shared import HERE, oracle
import corpus
import loads
import requests
from bed.daemon import workdir
from bed.report import Report, options

READ = oracle.logs.read
STORE = re.compile(r'\bstorage\.(\w+)|\bberesp\.storage_hint\s*=\s*"(\w+)"')


def read(n_dir):
    """The log, of each fetch only the times it ended with: some that our core gives at once, a migrated file gives in VCL."""
    found, is_over = READ(n_dir)
    for mine in found.values():
        for name, records in mine.items():
            times = [r for r in records if r.startswith("TTL ")]
            rest = [r for r in records if not r.startswith("TTL ")]
            mine[name] = rest + [" ".join(["TTL", *times[-1].split()[2:5]])] if times else rest
    return found, is_over


oracle.logs.read = read


def lacquer(o, *args):
    """`lacquer ARGS` by the binary that our varnishd is."""
    return subprocess.run([os.path.realpath(o.varnishd), *args], executable=os.path.realpath(o.varnishd), capture_output=True, timeout=60)


def pair(report, o, label, tree, name, dialect):
    """One file: (compared, differing), or why it isn't compared."""
    scratch = workdir()
    try:
        old = scratch / name
        if o.dir:
            old.write_bytes(corpus.Program(tree[0], tree[1]).text.encode("latin-1"))
        else:
            oracle.prepared(tree, scratch)
        dirs = [a for d in (old.parent, scratch) for a in ("-I", str(d))]
        named = ["--dialect", dialect] if dialect else []
        if re.search(rb"\berror\s*\(?\s*1[0-9][0-9]\b", old.read_bytes()):
            return "not compared: answers 1xx, for which clients go on waiting"
        # A port that is one while the text is translated; the harness puts its own in.
        text = old.read_bytes()
        old.write_bytes(text.replace(b"@PORT@", b"60999"))
        made = lacquer(o, "vcl", "migrate", *named, *dirs, str(old))
        old.write_bytes(text)
        if made.returncode:
            why = made.stderr.decode(errors="replace")
            if o.dir:
                report.note(f"{label}: refused: {loads.first_of(why)}")
            else:
                report.check(False, f"{label}: isn't migrated: {why}")
            return f"refused: {loads.reason(why)}"
        new = old.with_name("migrated.vcl")
        new.write_bytes(made.stdout.replace(b"60999", b"@PORT@"))
        vcl = made.stdout.decode("latin-1")
        stores = {name for pair in STORE.findall(vcl) for name in pair if name} - {"s0", "Transient"}
        args = [a for name in sorted(stores) for a in ("-s", f"{name}=malloc,100m")]
        tests = requests.tests_of(vcl)
        relative = new.relative_to(scratch)
        with oracle.Side(o.genuine, scratch, str(relative), tests, args) as theirs, oracle.Side(o.varnishd, scratch, name, tests, [*args, "-p", "proxy_status=off"]) as ours:
            if dialect:
                ours.server.cli.ask(f"param.set vcl_dialect {dialect}")
            why = theirs.load()
            if o.dir and (m := re.search(r"Could not find VMOD \w+", why)):
                report.note(f"{label}: not compared: {m[0]}")
                return m[0]
            if not report.check(not why, f"{label}: the genuine varnishd doesn't compile what it became: {why}"):
                return "not compiled by the genuine varnishd"
            why = ours.load()
            if not report.check(not why, f"{label}: lacquer doesn't load it: {why}"):
                return "not loaded here"
            shown = ours.server.cli.ask("vcl.show under_test")
            report.check("backend_hint" not in shown, f"{label}: vcl.show doesn't show the file as it was written")
            return oracle.run(report, o, label, vcl, ours, theirs)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def files(o):
    """(label, where it is, its name, its dialect)"""
    if o.dir:
        for label, f, tree in corpus.files(o.dir):
            yield label, (f, tree), "under_test.vcl", corpus.dialect_of(label)
        return
    for f in sorted((HERE / "sites").glob("*.vcl")):
        yield f.name, HERE / "sites", f.name, f.name.split("_")[0]


def table(results):
    """Of each directory, how many were alike, differed or weren't compared, and why."""
    rows = collections.defaultdict(collections.Counter)
    for label, got in results:
        what = got if isinstance(got, str) else "differ" if got[1] else "alike"
        rows[label.split("/")[0]].update(["files", what])
    return [f"{name}: " + ", ".join(f"{what} {n}" for what, n in row.most_common()) for name, row in sorted(rows.items())]


def main():
    o = options(__doc__, dir=dict(default="", help="a directory of further old files"),
                genuine=dict(default=shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin") or "", help="the varnishd to compare with"),
                requests=dict(type=int, default=0), only=dict(default="", help="part of a file's name"),
                part=dict(default="0/1", help="K/N: of each N files that of number K"),
                show=dict(type=int, default=3), lines=dict(type=int, default=30))
    o.requests = o.requests or (300 if o.full else 40)  # for each file
    report = Report("dialects")
    if not o.genuine:
        report.check(True, "")
        report.note("skipped: no genuine varnishd here")
        return report.close()
    k, n = map(int, o.part.split("/"))
    chosen = [f for f in files(o) if o.only in f[0]][k::n]
    with concurrent.futures.ThreadPoolExecutor(oracle.AT_ONCE) as pool:
        results = list(zip([f[0] for f in chosen], pool.map(lambda f: pair(report, o, *f), chosen)))
    done = [r for _, r in results if not isinstance(r, str)]
    for row in table(results) if o.dir else ():
        report.note(row)
    report.note(f"{len(done)} files compared, {sum(r[0] for r in done)} requests, {sum(r[1] for r in done)} of them differ")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
