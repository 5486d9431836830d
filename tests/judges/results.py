# SPDX-License-Identifier: BSD-2-Clause
"""A plugin of pytest that leaves tests out and writes down the results of the others, and what a judge makes of them.

Environment: LACQUER_LEFT_OUT (a file with patterns of the ids of tests that don't run), LACQUER_RESULTS (a file that gets one JSON object a line: id,
outcome and why of each test; begun at the beginning of a run of pytest, and its status at the end).
"""
import collections
import fnmatch
import json
import os
import pathlib

FATES = ("none", "meant", "missing", "race")
RAN = (0, 1, 5)  # pytest's statuses: all passed, some failed, nothing to run; with any other one it didn't get to the end


def listed(path):
    """[(pattern of tests' ids, fate, why)] of a differs.tsv."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    for pattern, fate, *_ in rows:
        assert fate in FATES, f"{path}: {pattern}: {fate} is no fate; there are {' '.join(FATES)}"
    return [(pattern.replace("[", "[[]"), fate, why) for pattern, fate, _, why in rows]


def judge(report, found, known):
    """Compares `found`, as written below, with what `listed` says of the tests."""
    begun, statuses = sum("begun" in result for result in found), [result["status"] for result in found if "status" in result]
    report.check(len(statuses) == begun and set(statuses) <= set(RAN), f"pytest began {begun} times and ended with {statuses}: not all tests ran")
    tests, sums = [result for result in found if "id" in result], collections.Counter()
    report.check(bool(tests), "no test ran; pytest's output says why (--keep)")
    for result in tests:
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


def write(**result):
    with open(os.environ["LACQUER_RESULTS"], "a") as out:
        out.write(json.dumps(result) + "\n")


def pytest_sessionstart():
    write(begun=True)


def pytest_sessionfinish(exitstatus):
    write(status=int(exitstatus))


def pytest_collection_modifyitems(items):
    left_out = pathlib.Path(os.environ["LACQUER_LEFT_OUT"]).read_text().split("\n")
    items[:] = [item for item in items if not any(fnmatch.fnmatchcase(item.name, pattern) for pattern in left_out)]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        write(id=report.nodeid.split("::", 1)[-1].split("::")[-1], outcome=report.outcome, why=why)
