#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Load tests that operators reported, with their loads: rates, users and CPU as they had them. The rows are those of
tests/e2e/tooling/replay_rows, which checks counts with less of a load; --full: also before varnishd.
"""
import pathlib
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
# Behind this directory: `run` is what each suite's program is called, so that the other one is `replay_rows.run` here.
sys.path += [str(TESTS), str(TESTS / "e2e/tooling"), str(TESTS / "e2e/tooling/replay"), str(TESTS / "e2e/tooling/replay_rows")]
from bed.report import Report, options
from kit import Tool
from replay_rows import run as suite


def main():
    o = options(__doc__, lacquer=dict(default=None, help="the program `lacquer`"))
    report = Report("replay_rows")
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / "ten").write_text("/x\n" * 10)
        report.run(suite.CASES, report, Tool.of(o, measures=True), d, o.full)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
