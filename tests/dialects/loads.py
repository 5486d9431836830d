#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which VCL files of strangers load: a table of a directory of them, by the directories in it. Run by hand.

    tests/dialects/loads.py DIR [--old 3.0=/path/to/varnishd ...] [--list]     files of VCL 2 and 3
    tests/dialects/loads.py DIR --new [--genuine /path/to/varnishd] [--list]   whole files of VCL 4.x

Each file is made whole first (corpus.py; whole.py for --new, where missing includes and host names are filled in and nothing else). With --old the genuine varnishd of that release is asked, too: a file that it refuses as well
is none that we must load. `--verbatim` takes the files as they are. --dialect says what all of them are written in.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import corpus
import whole
from bed.daemon import workdir

ROOT = HERE.parent.parent
REASONS = [("inline C", r"Inline C isn't supported|Inline-C not allowed"), ("a module we don't have", r"VMOD|vmod"), ("nothing does it now", r"no counterpart|isn't kept any more|is known since"),
           ("a field of obj set in vcl_hit", r"can't be changed in vcl_hit"), ("another dialect's word, or place", r"VCL \d\.\d has no|is not for|can't be (set|read)"),
           ("no such include", r"Cannot read file"), ("no VCL", r"Syntax|Expected|Unknown token|Unterminated|End of input")]


def ours(o, file, dialect):
    """'' or why our varnishd refuses it."""
    args = [o.varnishd, "-C", "-p", "vcc_err_unref=off", "-p", f"vcl_path={file.parent}", *(["-p", f"vcl_dialect={dialect}"] if dialect else []),
            *(a for s in ("s0", "s1", "test", "nowhere", "invalid") for a in ("-s", f"{s}=malloc,1m")), "-f", str(file)]
    done = subprocess.run(args, capture_output=True, timeout=60)
    return "" if done.returncode == 0 else (done.stderr + done.stdout).decode(errors="replace") or "no reason given"


def theirs(program, version, file, n_dir):
    """'' or why the genuine varnishd of a release refuses it."""
    unref = ["-p", "vcc_err_unref=off"] if version == "3.0" else []
    done = subprocess.run([program, "-C", "-n", n_dir, *unref, "-f", str(file)], capture_output=True, timeout=60)
    # 2.x ends with 0 whatever it found; the C that it makes has this in it.
    return "" if b"VCL_conf" in done.stdout else (done.stderr + done.stdout).decode(errors="replace") or "no reason given"


def ours_new(o, label, file, tree, scratch):
    """The file made whole, and '' or why our compiler refuses it."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    program = whole.Whole(file, tree, scratch)
    return program, program.check(o.lacquer)


def theirs_new(o, program):
    """'' or why the genuine varnishd refuses it."""
    stores = [a for s in program.stores for a in ("-s", f"{s}=malloc,1m")]
    done = subprocess.run([o.genuine, "-C", "-f", str(program.main), "-n", str(program.dir / "n"), *stores], capture_output=True, timeout=120)
    return "" if done.returncode == 0 else re.sub(r"/\*.*", "", (done.stderr + done.stdout).decode(errors="replace"), flags=re.S)


def new_files(o, scratch):
    table = collections.defaultdict(collections.Counter)
    for label, file, tree in whole.files(o.dir):
        program, why = ours_new(o, label, file, tree, pathlib.Path(scratch) / "whole")
        row = table[label.split("/")[0]]
        row["files"] += 1
        row["load" if not why else reason(why)] += 1
        genuine = theirs_new(o, program) if o.genuine else None
        if genuine is not None:
            row["load in the genuine one"] += not genuine
            row["load there only"] += bool(why) and not genuine
        if o.list and why:
            lines = [line for line in why.splitlines() if line.strip() and ": refused" not in line]
            place = re.search(r"Line \d+", why)
            also = "" if genuine is None else " [loads in the genuine one]" if not genuine else " [there: " + first_of(genuine) + "]"
            print(f"{label}: {' '.join(x.strip() for x in lines[:2])[:200]} ({place[0] if place else '?'}){also}")
    return table


def first_of(why):
    lines = [line.strip() for line in why.splitlines() if line.strip() and not re.search(r"Message from|Could not delete", line)]
    return lines[0][:80] if lines else "no reason given"


def reason(why):
    return next((name for name, pattern in REASONS if re.search(pattern, why)), "other")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dir")
    p.add_argument("--varnishd", default=os.environ.get("VARNISHD") or str(ROOT / "dist/bin/varnishd"))
    p.add_argument("--old", action="append", default=[])
    p.add_argument("--dialect", default="")
    p.add_argument("--verbatim", action="store_true")
    p.add_argument("--new", action="store_true", help="whole files of VCL 4.x")
    p.add_argument("--lacquer", default=os.environ.get("LACQUER") or str(ROOT / "dist/bin/lacquer"))
    p.add_argument("--genuine", default="", help="with --new: ask this varnishd, too")
    p.add_argument("--list", action="store_true", help="name each file that is refused, and why")
    o = p.parse_args()
    scratch = str(workdir())
    if o.new:
        try:
            return show(new_files(o, scratch))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    genuine = dict(x.split("=", 1) for x in o.old)
    table = collections.defaultdict(collections.Counter)
    top = pathlib.Path(o.dir)
    names = ((str(f.relative_to(top)), f, top) for f in sorted(top.rglob("*")) if f.is_file()) if o.verbatim else corpus.files(top)
    try:
        for label, f, tree in names:
            text = f.read_bytes().decode("latin-1") if o.verbatim else corpus.Program(f, tree).text.replace("@PORT@", "9080")
            file = pathlib.Path(scratch) / "under_test.vcl"
            file.write_bytes(text.encode("latin-1"))
            why = ours(o, file, o.dialect)
            accepted = [v for v, program in genuine.items() if (not o.dialect or v == o.dialect) and not theirs(program, v, file, scratch + "/n")]
            row = table[label.split("/")[0]]
            row["files"] += 1
            if not why:
                row["load"] += 1
                row["load here only"] += bool(genuine) and not accepted
                if o.list and genuine and not accepted:
                    print(f"{label}: loads here only")
                continue
            row[reason(why)] += 1
            row["refused, and by the old one"] += bool(genuine) and not accepted
            if o.list:
                first = next((line for line in why.splitlines() if line and "Message from" not in line), "")
                place = re.search(r"Line \d+", why)
                print(f"{label}: {first} ({place[0] if place else '?'}){' [runs in ' + ', '.join(accepted) + ']' if accepted else ''}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return show(table)


def show(table):
    columns = sorted({c for row in table.values() for c in row}, key=lambda c: (c not in ("files", "load"), c))
    total = sum(table.values(), collections.Counter())
    for name, row in [*sorted(table.items()), ("all", total)]:
        print(f"{name:50} " + ", ".join(f"{c} {row[c]}" for c in columns if row[c]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
