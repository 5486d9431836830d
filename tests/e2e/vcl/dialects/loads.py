#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which VCL files of strangers load: a table of a directory of them, by the directories in it. Run by hand.

    tests/e2e/vcl/dialects/loads.py DIR [--old 3.0=/path/to/varnishd ...] [--list]     files of VCL 2 and 3
    tests/e2e/vcl/dialects/loads.py DIR --new [--genuine /path/to/varnishd] [--list]   whole files of VCL 4.x

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
sys.path[:0] = [str(HERE), str(HERE.parents[2])]
import corpus
import whole
from bed import built
from bed.daemon import workdir

ROOT = HERE.parents[3]
REASONS = [("inline C", r"Inline C isn't supported|Inline-C not allowed"), ("a module we don't have", r"VMOD|vmod"), ("nothing does it now", r"no counterpart|isn't kept any more|is known since"),
           ("a field of obj set in vcl_hit", r"can't be changed in vcl_hit"), ("another dialect's word, or place", r"VCL \d\.\d has no|is not for|can't be (set|read)"),
           ("no such include", r"Cannot read file"), ("no VCL", r"Syntax|Expected|Unknown token|Unterminated|End of input")]


def asked(*args):
    """How a program ended, what it said, and what it wrote to its output."""
    done = subprocess.run([str(a) for a in args], capture_output=True, timeout=120)
    return done.returncode, (done.stderr + done.stdout).decode(errors="replace") or "no reason given", done.stdout


def ours(o, file, named):
    """'' or why our varnishd refuses an old file, in the dialect `named` or by its words."""
    stores = [a for s in ("s0", "s1", "test", "nowhere", "invalid") for a in ("-s", f"{s}=malloc,1m")]
    dialect = ["-p", f"vcl_dialect={named}"] if named else []
    code, said, _ = asked(o.varnishd, "-C", "-p", "vcc_err_unref=off", "-p", f"vcl_path={file.parent}", *dialect, *stores, "-f", file)
    return said if code else ""


def theirs(program, version, file, n_dir):
    """'' or why the genuine varnishd of a release refuses it."""
    unref = ["-p", "vcc_err_unref=off"] if version == "3.0" else []
    _, said, out = asked(program, "-C", "-n", n_dir, *unref, "-f", file)
    # 2.x ends with 0 whatever it found; the C that it makes has this in it.
    return "" if b"VCL_conf" in out else said


def theirs_new(o, program):
    """'' or why the genuine varnishd refuses it."""
    stores = [a for s in program.stores for a in ("-s", f"{s}=malloc,1m")]
    code, said, _ = asked(o.genuine, "-C", "-f", program.main, "-n", program.dir / "n", *stores)
    return re.sub(r"/\*.*", "", said, flags=re.S) if code else ""


def old_files(o, scratch):
    """Of each old file: its label, '' or why it is refused here, and the same of each release asked."""
    top, file = pathlib.Path(o.dir), scratch / "under_test.vcl"
    names = ((str(f.relative_to(top)), f, top) for f in sorted(top.rglob("*")) if f.is_file()) if o.verbatim else corpus.files(top)
    releases = [x.split("=", 1) for x in o.old]
    for label, f, tree in names:
        text = f.read_bytes().decode("latin-1") if o.verbatim else corpus.Program(f, tree).text.replace("@PORT@", "9080")
        file.write_bytes(text.encode("latin-1"))
        named = o.dialect or corpus.dialect_of(label)
        there = {v: theirs(program, v, file, scratch / "n") for v, program in releases if named in (None, v)}
        yield label, ours(o, file, named), there


def new_files(o, scratch):
    """The same of whole 4.x files."""
    for label, file, tree in whole.files(o.dir):
        shutil.rmtree(scratch / "whole", ignore_errors=True)
        (scratch / "whole").mkdir()
        program = whole.Whole(file, tree, scratch / "whole")
        why = program.check(o.lacquer)
        yield label, why, {"varnishd": theirs_new(o, program)} if o.genuine else {}


def first_of(why):
    whole = re.sub(r"(?m)^.*(?:\n.*){0,3}\(That was just a warning\)$", "", why)
    lines = [line.strip() for line in whole.splitlines() if line.strip() and not re.search(r"Message from|Could not delete|: refused$", line)]
    return " ".join(lines[:2])[:200] if lines else "no reason given"


def reason(why):
    return next((name for name, pattern in REASONS if re.search(pattern, why)), "other")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dir")
    p.add_argument("--varnishd", default=built.program("varnishd"))
    p.add_argument("--old", action="append", default=[])
    p.add_argument("--dialect", default="")
    p.add_argument("--verbatim", action="store_true")
    p.add_argument("--new", action="store_true", help="whole files of VCL 4.x")
    p.add_argument("--lacquer", default=os.environ.get("LACQUER") or built.program("lacquer"))
    p.add_argument("--genuine", default="", help="with --new: ask this varnishd, too")
    p.add_argument("--list", action="store_true", help="name each file that is refused, and why")
    o = p.parse_args()
    scratch = workdir()
    table = collections.defaultdict(collections.Counter)
    try:
        for label, why, there in (new_files if o.new else old_files)(o, scratch):
            takes = [name for name, refusal in there.items() if not refusal]
            row = table[label.split("/")[0]]
            row["files"] += 1
            row[reason(why) if why else "load"] += 1
            row["load there"] += bool(takes)
            row["load there only"] += bool(takes and why)
            row["load here only"] += bool(there and not takes and not why)
            row["refused by both"] += bool(there and not takes and why)
            if o.list and (why or there and not takes):
                place = re.search(r"Line \d+", why)
                also = f" [loads in {', '.join(takes)}]" if takes else "".join(f" [{name}: {first_of(refusal)[:80]}]" for name, refusal in there.items())
                print(f"{label}: {first_of(why) + ' (' + (place[0] if place else '?') + ')' if why else 'loads here'}{also}")
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
