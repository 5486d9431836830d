# SPDX-License-Identifier: BSD-2-Clause
"""What h2spec says, strict, in clear and over TLS: a result for each of its cases. H2SPEC names the program; README.md says how to build it."""
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import peers
from bed.daemon import workdir
from bed.origin import Origin
from sources import Source

LIMIT = 300  # seconds; many cases that fail do so by a timeout
CASES_AT_LEAST = 145


def program():
    return os.environ.get("H2SPEC") or shutil.which("h2spec")


def judge(o, report, leaf):
    if not program():
        report.note("h2spec isn't here: left out")
        return
    for seal in (None, leaf):
        if not (seal and o.peer == "varnish") and (seal or not o.sealed):
            once(o, report, seal)


def once(o, report, leaf):
    out = workdir()
    source = Source()
    try:
        with Origin(source.serve) as origin, peers.start(o, origin.address, leaf) as server:
            host, port = server.address[:2]
            subprocess.run([program(), "-S", "-h", host, "-p", str(port), "-P", "/hit/1000", "-j", out / "report.xml", *(["-t", "-k"] if leaf else [])],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT)
        how = "over TLS" if leaf else "in clear"
        # It quotes octets that no XML may hold.
        said = re.sub(rb"[^\t\n\r -~]", b"?", (out / "report.xml").read_bytes()).decode()
        cases = list(xml.etree.ElementTree.fromstring(said).iter("testcase"))
        report.check(len(cases) >= CASES_AT_LEAST, f"h2spec {how}: only {len(cases)} cases")
        report.note(f"h2spec {how}: {sum(tell(report, how, case) for case in cases)} of {len(cases)} passed")
    finally:
        shutil.rmtree(out, ignore_errors=True)


def tell(report, how, case):
    fault = case.find("failure")
    said = "" if fault is None else " ".join("".join(fault.itertext()).split())
    return report.check(fault is None and case.find("error") is None, f"h2spec {how}: {case.get('package')} {case.get('classname')}: {said}")
