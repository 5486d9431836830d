#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""REDbot (https://redbot.org) asks resources of an origin directly and behind the cache, with `feature=+rfc9111`: it may find nothing
behind the cache that it doesn't find without it. Each is asked twice through the cache, and is a hit then, if it may be one.

WORDs say which resources, by parts of their names. scripts/need-python redbot installs REDbot where Python has none; where that
can't be, only the hits are judged, and that is said.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed import pypi
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin
from bed.report import Report, options
from resources import PLANTED, RESOURCES, VCL, serve

NO_REDBOT = pypi.missing("redbot")
if not NO_REDBOT:
    import redbots

# Of a server, and what it is started with.
MODES = {"rfc9111": ("-p", "feature=+rfc9111", "-p", "cache_status=on"), "varnish": ()}
# What it finds behind the cache, and why that stays: subject and kind.
MEANT = {"varnish": {
    ("field-content-type", "HEADER_SHOULD_NOT_BE_IN_304"): "a 304 has the stored fields, as Varnish's",
    ("field-accept-ranges", "RANGE_FULL"): "Varnish says Accept-Ranges of pages with ESI, too, which are cut by nobody",
}}


def judge(report, name, address, notes, plain):
    """REDbot's notes of each resource behind the cache, cold and warm, beside those of the origin."""
    for turn in ("cold", "warm"):
        for path, found in notes(address).items():
            new = {note for note in found - plain[path] if (note.subject, note.kind) not in MEANT.get(name, ())}
            if path in PLANTED:
                report.check(PLANTED[path] in {note.kind for note in new}, f"{name}, {turn} {path}: {PLANTED[path]} isn't found")
            else:
                report.check(not new, f"{name}, {turn} {path}: " + "; ".join(sorted(map(str, new))))


def hits(report, name, address, resources):
    """What is told twice, and so may be compared: the second answer is a hit, or isn't."""
    for path, resource in resources.items():
        client = Client(address)
        for _ in range(2):
            r = client.request(f"/{path}", resource.asked, resource.method, body=b"a=b" if resource.method == "POST" else None)
        is_hit = " " in (r.get("X-Varnish") or "")
        report.check(r.end == "complete" and is_hit == resource.is_hit, f"{name}, {path}: {r}, a hit: {is_hit}")


def main():
    o = options(__doc__, list(RESOURCES))
    resources = {path: RESOURCES[path] for path in o.cases}
    report = Report("redbot")
    if NO_REDBOT:
        report.note(f"LEFT OUT, as there is no REDbot ({NO_REDBOT}): all that it says")
    with Origin(serve) as origin:
        def notes(address):
            return redbots.notes(address, resources)
        plain = None if NO_REDBOT else notes(origin.address)
        for name, args in MODES.items():
            with Varnishd(o.varnishd, args=args, vcl=VCL.format(*origin.address)) as v:
                if plain:
                    judge(report, name, v.address, notes, plain)
                if name == "rfc9111":
                    hits(report, name, v.address, resources)
    if plain:
        report.note(f"REDbot finds {sum(map(len, plain.values()))} faults in the origin's own answers to {len(plain)} requests")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
