# SPDX-License-Identifier: BSD-2-Clause
"""A plugin of pytest that leaves tests out and writes down the results of the others, and what a judge makes of them.

Environment: LACQUER_LEFT_OUT (a file with patterns of the ids of tests that don't run), LACQUER_RESULTS (a file that gets one JSON object a line: id,
outcome, why).
"""
import collections
import fnmatch
import json
import os
import pathlib

FATES = ("none", "meant", "missing", "race")


def listed(path):
    """[(pattern of tests' ids, fate, why)] of a differs.tsv."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    for pattern, fate, *_ in rows:
        assert fate in FATES, f"{path}: {pattern}: {fate} is no fate; there are {' '.join(FATES)}"
    return [(pattern.replace("[", "[[]"), fate, why) for pattern, fate, _, why in rows]


def judge(report, found, known):
    """Compares `found`, as written below, with what `listed` says of the tests."""
    sums = collections.Counter()
    for result in found:
        name, outcome = result["id"], result["outcome"]
        row = next((row for row in known if fnmatch.fnmatchcase(name, row[0])), None)
        fate = row[1] if row else ""
        if outcome == "skipped":
            sums["skipped"] += 1
        elif outcome == "passed":
            sums["passed"] += 1
            report.check(fate in ("", "race"), f"{name}: differs.tsv says that it is {fate}, and it passes")
        else:
            sums[fate or "failed"] += 1
            why = next((line for line in result["why"].splitlines() if line.startswith("E ")), result["why"][-300:])
            report.check(bool(fate), f"{name}: {why[:300]}")
    applies = sum(sums.values()) - sums["skipped"] - sums["race"]
    report.note(", ".join(f"{n} {what}" for what, n in sums.items()) + f": {100 * sums['passed'] / max(applies, 1):.1f} % of {applies} that apply pass")


def pytest_collection_modifyitems(items):
    left_out = pathlib.Path(os.environ["LACQUER_LEFT_OUT"]).read_text().split("\n")
    items[:] = [item for item in items if not any(fnmatch.fnmatchcase(item.name, pattern) for pattern in left_out)]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        with open(os.environ["LACQUER_RESULTS"], "a") as out:
            out.write(json.dumps({"id": report.nodeid.split("::", 1)[-1].split("::")[-1], "outcome": report.outcome, "why": why}) + "\n")
