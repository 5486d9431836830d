#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws 75 histories of each scenario in the simulator (crates/sim), compares 8,000 exchanges with the model of RFC 9111, draws 300
histories of a fleet, and sees whether it finds each of the planted faults within 2,000; with --full new histories for an hour, 1,000,000
exchanges, and 100,000 histories of a fleet. A failure is printed with its seed, shortened; once more it is run by
`cargo run -p sim -- again SCENARIO SEED`, an exchange that differs by `SEED=... SEEDS=1 cargo test -p sim exchanges`, a history
of a fleet by `... -- fleet again SEED`.

usage: run.py [--full]
"""
import os
import shlex
import subprocess
import sys

CARGO = shlex.split(os.environ.get("CARGO", "cargo"))
FULL = "--full" in sys.argv
# The long form is worth an optimised build.
SIM = [*CARGO, "run", "--quiet", *(["--profile", "soak"] if FULL else []), "-p", "sim", "--"]


def main():
    if sys.argv[1:] not in ([], ["--full"]):
        sys.exit(__doc__)
    drawn = ["soak", "3600"] if FULL else ["draw", "75"]
    compared = ["rfc9111", "1000000" if FULL else "8000"]
    fleets = ["fleet", "100000" if FULL else "300"]
    return max(subprocess.run([*SIM, *words]).returncode for words in (drawn, compared, fleets, ["faults", "2000"]))


if __name__ == "__main__":
    sys.exit(main())
