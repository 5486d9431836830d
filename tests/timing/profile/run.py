#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer vcl profile` beside what the server used: the CPU time that vcl_recv adds to a request, by both accounts, under load from `lacquer replay`."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))
from bed.daemon import Varnishd
from bed.origin import Origin, simple
from bed.report import Report, options

LIMIT = 120  # seconds; ends a hang
DOUBT = 0.3  # the part by which the two accounts may differ
ROUNDS = 3
REQUESTS = 20_000
HEAD = 'vcl 4.1; backend default { .host = "%s"; .port = "%d"; }\nsub vcl_recv {\n'
# Lines of vcl_recv, by name. They take more than 10 us, as the server's time for a request varies by 1 us from one load to the next.
LINES = {
    "lines that each take less than a look at the clock": "".join(f'if (req.http.a{n}) {{\nset req.http.b = "1";\n}}\n' for n in range(6000)),
    "regular expressions": "".join(f'if (req.url ~ "(x+y+){{{n % 7 + 2}}}z[0-9]{n}$") {{\nset req.http.b = "1";\n}}\n' for n in range(1500)),
    "texts put together": "".join(f'set req.http.text = req.url + "/" + req.http.host + "{n}";\n' for n in range(150)),
}


def used(v):
    """CPU time of the server's threads so far, in nanoseconds."""
    return sum(int(path.read_text().split()[0]) for pid in v.pids() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def load(o, v, urls):
    """CPU time of the server for a request, in nanoseconds."""
    argv = [o.varnishd.replace("varnishd", "lacquer"), "replay", "--to", "%s:%d" % v.address, "--loop", "--requests", str(REQUESTS), "-c", "4", urls]
    before = used(v)
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT)
    return (used(v) - before) / REQUESTS


def profiled(o, v, urls):
    """What vcl_recv costs a request by the profile, in nanoseconds."""
    argv = [o.varnishd.replace("varnishd", "lacquer"), "vcl", "profile", "-n", str(v.n), "-t", "5", "-j"]
    with tempfile.TemporaryFile() as out, subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out) as counting:
        while counting.poll() is None:
            load(o, v, urls)
        out.seek(0)
        # The CLI's head comes before the object, and may be followed by the advice.
        counted = next(one for one in json.load(out) if isinstance(one, dict))
    recv = next(one for one in counted["subroutines"] if one["name"] == "vcl_recv")
    return recv["nanoseconds"] / recv["runs"]


def main():
    o = options(__doc__)
    report = Report("profile")
    with tempfile.TemporaryDirectory(prefix="lt.profile.") as folder, Origin(simple(lambda *_: ("Cache-Control: max-age=3600\r\n", b"body"))) as origin:
        urls = pathlib.Path(folder, "urls")
        urls.write_text("".join(f"/page/{n}\n" for n in range(100)))
        servers = {name: Varnishd(o.varnishd, vcl=HEAD % origin.address + lines + "return (hash);\n}\n") for name, lines in {"none": "", **LINES}.items()}
        try:
            for v in servers.values():
                load(o, v, urls)
            rounds = [{name: load(o, v, urls) for name, v in servers.items()} for _ in range(ROUNDS)]
            for name in LINES:
                added = statistics.median(one[name] - one["none"] for one in rounds)
                by_profile = profiled(o, servers[name], urls)
                report.note(f"{name}: {added:.0f} ns a request, {by_profile:.0f} by the profile")
                report.check(abs(by_profile - added) <= DOUBT * added, f"{name}: the profile says {by_profile:.0f} ns where {added:.0f} were used")
        finally:
            for v in servers.values():
                v.close()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
