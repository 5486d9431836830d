#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the table of docs/internals/abuse.md anew: every attack of tests/e2e/protocols/h2 and tests/e2e/protocols/h3 in its full form, one after the other, and then puts it in its place
there (--into FILE: in another file's; with `-` it is printed). Its times are of use only where the machine has nothing else to do.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests"))
from bed.report import options

SUITES = (["tests/e2e/protocols/h2/run.py", "--group", "abuse"], ["tests/e2e/protocols/h3/run.py", "--group", "floods"])


def put(path, table):
    """Takes the place of the first table of that file."""
    lines = path.read_text().splitlines(True)
    begin = next(n for n, line in enumerate(lines) if line.startswith("|"))
    end = next((n for n, line in enumerate(lines[begin:], begin) if not line.startswith("|")), len(lines))
    path.write_text("".join(lines[:begin]) + table + "".join(lines[end:]))


def main():
    o = options(__doc__, into=dict(default=str(ROOT / "docs/internals/abuse.md")))
    with tempfile.TemporaryDirectory() as directory:
        table = pathlib.Path(directory) / "table"
        ended = [subprocess.run([sys.executable, str(ROOT / suite[0]), *suite[1:], "--full", "--varnishd", o.varnishd, "--table", str(table)]).returncode
                 for suite in SUITES]
        if not table.exists():
            return 1
        if o.into == "-":
            print(table.read_text(), end="")
        else:
            put(pathlib.Path(o.into), table.read_text())
    return max(ended)


if __name__ == "__main__":
    sys.exit(main())
