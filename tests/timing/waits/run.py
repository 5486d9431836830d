#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long clients wait, on a quiet machine: honest ones beside the attacks of the suite `abuse`, those of an object that is invalidated
all the time (`coalesce`), and one that sends a body too slowly, until it is disconnected (`cuts`).
"""
import importlib.util
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))
from bed.daemon import Varnishd
from bed.origin import Origin, simple
from bed.report import Report, options

HONEST_LIMIT = 3.0  # seconds for one request beside an attack
LONGEST_WAIT = 5.0  # seconds for a page that takes two, while each half second something invalidates it
LATE = 0.1  # seconds by which sleepers may be woken too late; each of client, cache and origin may be
TRICKLE = (4, 12)  # seconds after which a body below min_recv_rate ends its connection


def suite(name):
    """The module of a suite of e2e/traffic."""
    spec = importlib.util.spec_from_file_location(name, TESTS / "e2e/traffic" / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def honest(report, o):
    abuse = suite("abuse")
    abuse.HONEST_LIMIT = HONEST_LIMIT
    abuse.run(report, o, [*abuse.ATTACKS, *abuse.IDLE], at_once=1)


def invalidated(report, o):
    coalesce = suite("coalesce")
    site = coalesce.Site(60 if o.full else 8)
    with Origin(simple(site.answer)) as origin, Varnishd(o.varnishd, vcl=coalesce.VCL.format(host=origin.address[0], port=origin.address[1])) as v:
        for crowd in coalesce.crowds(report, v, site):
            longest = max(took for _, took, _ in crowd.got)
            report.check(longest <= LONGEST_WAIT + 3 * LATE, f"{crowd.way}: somebody waited {longest:.2f} s")


def trickle(report, o):
    cuts = suite("cuts")
    script = cuts.Script()
    with Origin(script.serve) as origin, Varnishd(o.varnishd, vcl=cuts.VCL.format(host=origin.address[0], port=origin.address[1], last=cuts.LAST)) as v:
        took = cuts.Cases(report, v, script).rates()
        report.check(TRICKLE[0] < took < TRICKLE[1], f"a trickle of a body ends after {took:.1f} s")
        script.go.set()


def main():
    o = options(__doc__, (honest, invalidated, trickle), attackers=dict(type=int))
    report = Report("waits")
    report.run(o.cases, report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
