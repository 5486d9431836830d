#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws 500 histories of each scenario in the simulator (crates/sim), and sees whether it finds each of the planted faults
within 2,000; with --full new histories for an hour. A failure is printed with its seed, shortened; once more it is run by
`cargo run --profile sim -p sim -- again SCENARIO SEED`.

usage: run.py [--full]
"""
import os
import shlex
import subprocess
import sys

CARGO = shlex.split(os.environ.get("CARGO", "cargo"))
SIM = [*CARGO, "run", "--quiet", "--profile", "sim", "-p", "sim", "--"]


def main():
    if sys.argv[1:] not in ([], ["--full"]):
        sys.exit(__doc__)
    drawn = ["soak", "3600"] if "--full" in sys.argv else ["draw", "500"]
    return max(subprocess.run([*SIM, *words]).returncode for words in (drawn, ["faults", "2000"]))


if __name__ == "__main__":
    sys.exit(main())
