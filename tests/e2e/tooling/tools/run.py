#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tools beside Varnish's own: the same question to both about the same log must give the same bytes.

Traffic goes through a varnishd (the genuine one of the system, then ours); both tools of a pair read the file that was
kept of it and the living workdir. Needs the package varnish of the system.

The log of release 9 is read by our tools. If the environment's VARNISH_9 names a folder with the tools of a Varnish 9 (built from its sources), these read it,
too, and must print the same.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases
import follow
import hostile
import munin
import nine
import releases
import screens
import traffic
from bed.daemon import Varnishd
from bed.report import Report, options, until

LIMIT = 120  # seconds; only ends a hang


def run(argv, stdin=b""):
    p = subprocess.run(argv, input=stdin, capture_output=True, timeout=LIMIT)
    return p.returncode, p.stdout, p.stderr


# What differs from one moment to the next: dates, times, counters that count by themselves, the CLI's own numbers.
MOVING = re.compile(rb"\d{10}\.\d+|\d{4}-\d\d-\d\dT[\d:]+|\d\d:\d\d:\d\d GMT|PONG \d+|^(\w+\.uptime|MAIN\.(s|shm|summs|backend_req)\S*|LCK\.\S+|MEMPOOL\S+) .*$"
                    rb"|^(\S+) +\d+ +[\d.]+ (?=[A-Z])", re.M)


def still(text):
    return MOVING.sub(b"#", text)


class Pairs:
    """One pair of tools after another, each pair's questions side by side."""

    def __init__(self, report, ours, pool, server, theirs=pathlib.Path("/usr/bin")):
        self.report, self.ours, self.pool, self.server, self.theirs = report, ours, pool, server, theirs

    def same(self, tool, lists, where, errors=False, change=lambda text: text, stdin=b""):
        def both(args):
            def one(program):
                status, out, err = run([program, *where, *args], stdin)
                return status, change(out), err.replace(program.encode(), tool.encode())
            return args, one(str(self.theirs / tool)), one(str(self.ours / tool))
        for args, theirs, ours in self.pool.map(both, lists):
            if errors:
                # In usage texts and words of the system's getopt the program's name may differ.
                ok = theirs[0] == ours[0] != 0 and theirs[2] == ours[2]
            else:
                ok = theirs[:2] == ours[:2]
            self.report.check(ok, f"{self.server}: {tool} {' '.join(where[:1])} {args}\n  theirs {show(theirs)}\n  ours   {show(ours)}")


def still_counters(text):
    """Names, texts and layout, but no values: those move."""
    return re.sub(rb"\d+", b"0", re.sub(rb" +(?=[\d.])", b" ", still(text)))


def show(result):
    status, out, err = result
    return f"{status} {len(out)} bytes {out[:300]!r} {err[:300]!r}"


def one(report, ours, pool, varnishd, name, work):
    pairs, vsl = Pairs(report, ours, pool, name), work / f"{name}.vsl"
    with traffic.origin() as origin, Varnishd(varnishd, vcl=traffic.vcl(origin), args=["-p", "vsl_mask=+Debug,+Hash,+VCL_trace", "-l", "4m"],
                                              storage=None) as v:
        writer = subprocess.Popen(["/usr/bin/varnishlog", "-n", str(v.n), "-g", "raw", "-d", "-k", "1", "-w", str(work / "first")],
                                  stderr=subprocess.DEVNULL)
        writer.wait(LIMIT)
        traffic.send(v.address)
        # What is kept must be complete: the last session's end is in it.
        until(LIMIT, lambda: run(["/usr/bin/varnishlog", "-n", str(v.n), "-d", "-g", "session", "-q", "ReqURL eq '/last'"])[1])
        subprocess.run(["/usr/bin/varnishlog", "-n", str(v.n), "-d", "-g", "raw", "-w", str(vsl)], timeout=LIMIT, check=True)
        file, live = ["-r", str(vsl)], ["-n", str(v.n), "-d"]
        pairs.same("varnishlog", cases.LOG, file)
        pairs.same("varnishncsa", cases.NCSA, file)
        # The living log grows by nothing but pings; they have no transaction.
        pairs.same("varnishlog", [c for c in cases.LOG if "raw" not in c][::4], live)
        pairs.same("varnishncsa", cases.NCSA[::4], live)
        pairs.same("varnishlog", cases.LOG_ERRORS, file, errors=True)
        pairs.same("varnishncsa", cases.NCSA_ERRORS, file, errors=True)
        pairs.same("varnishtop", cases.TOP, file)
        pairs.same("varnishtop", cases.TOP_ERRORS, file, errors=True)
        pairs.same("varnishhist", cases.HIST_ERRORS, file, errors=True)
        here = ["-n", str(v.n)]
        pairs.same("varnishstat", cases.STAT, here, change=still_counters)
        pairs.same("varnishstat", cases.STAT_ERRORS, here, errors=True)
        pairs.same("varnishadm", [c for c in cases.ADM if name == "own" or c not in cases.DEADLY], here, change=still)
        pairs.same("varnishadm", cases.ADM_ERRORS[:3], [], errors=True, change=still)
        if name == "own":
            for words, then, left in cases.QUOTED:
                status, out, err = run([str(ours / "varnishadm"), *here, *words])[:3]
                text = run([str(ours / "varnishadm"), *here, *then])[1]
                report.check(status == 0 and left in text, f"varnishadm {words} works in a shell: {status} {out} {err} {text}")
        for text in cases.ADM_INPUT:
            pairs.same("varnishadm", [[], ["-p"]], here, change=still, stdin=text)


def damaged(report, o, ours, work):
    """Files and workdirs that are changed somewhere."""
    vsl = work / "whole.vsl"
    with traffic.origin() as origin, Varnishd(o.varnishd, vcl=traffic.vcl(origin), args=["-l", "2m"], storage=None) as v:
        traffic.send(v.address)
        until(LIMIT, lambda: run(["/usr/bin/varnishlog", "-n", str(v.n), "-d", "-g", "session", "-q", "ReqURL eq '/last'"])[1])
        subprocess.run(["/usr/bin/varnishlog", "-n", str(v.n), "-d", "-g", "raw", "-w", str(vsl)], timeout=LIMIT, check=True)
        begin, link, end = 76, 75, 77
        hostile.run(report, ours, vsl, v.n, (begin, link, end), rounds=600 if o.full else 40, depth=30_000 if o.full else 8_000, seed=o.seed)


def other_releases(report, o, ours, pool, work):
    """A log that is written again in the formats of 7.3 to 9."""
    vsl = work / "whole.vsl"
    with traffic.origin() as origin, Varnishd(o.varnishd, vcl=traffic.vcl(origin), args=["-l", "4m"], storage=None) as v:
        traffic.send(v.address)
        until(LIMIT, lambda: run([str(ours / "varnishlog"), "-n", str(v.n), "-d", "-g", "session", "-q", "ReqURL eq '/last'"])[1])
        subprocess.run([str(ours / "varnishlog"), "-n", str(v.n), "-d", "-g", "raw", "-w", str(vsl)], timeout=LIMIT, check=True)
    releases.run(report, ours, pool, vsl, work, o.seed, 600 if o.full else 40)


def as_nine(report, o, ours, pool, work):
    """Our log in the format of release 9."""
    vsl = work / "nine.vsl"
    args = ["--compat", "9", "-p", "vsl_mask=+Debug,+Hash,+VCL_trace", "-l", "4m"]
    with traffic.origin() as origin, Varnishd(o.varnishd, vcl=traffic.vcl(origin), args=args, storage=None) as v:
        traffic.send(v.address)
        own = [str(ours / "varnishlog"), "-n", str(v.n), "-d"]
        until(LIMIT, lambda: run([*own, "-g", "session", "-q", "ReqURL eq '/last'"])[1])
        subprocess.run([*own, "-g", "raw", "-w", str(vsl)], timeout=LIMIT, check=True)
        nine.run(report, ours, pool, vsl, v.n, work)
        if theirs := os.environ.get("VARNISH_9"):
            beside_nine(Pairs(report, ours, pool, "9's", pathlib.Path(theirs)), ["-r", str(vsl)], ["-n", str(v.n), "-d"])
        v.cli.ask("debug.xid 5000000000")
        traffic.one(v.address, traffic.get(b"/wide"))
        ask = [*own, "-q", "vxid > 5000000000 and ReqURL eq '/wide'", "-i", "Begin,RespHeader"]
        report.check(until(LIMIT, lambda: run(ask)[1]), "IDs of more than 32 bits are whole")
        found = re.search(rb"<< Request  >> (\d+)", shown := run(ask)[1])
        report.check(found and b"X-Varnish: " + found[1] in shown and int(found[1]) > 5_000_000_000, f"they are in texts, too: {shown!r}")


def named(text):
    """JSON without the differences that docs/json-log.md names: octets that aren't UTF-8, and a backend's name, of which 9.0.2 prints a part of the address."""
    return re.sub(rb'("name":\t?)"0\.0\.1"', rb'\1"default"', text.decode(errors="replace").encode())


def beside_nine(pairs, file, live):
    """The tools of a Varnish 9 on the same log."""
    for where, step in ((file, 1), (live, 3)):
        is_live = where is live
        pairs.same("varnishlog", [c for c in cases.LOG if not is_live or "raw" not in c][::step], where)
        pairs.same("varnishncsa", cases.NCSA[::step], where)
        pairs.same("varnishlog-json", cases.JSON[::step], where, change=named)
    pairs.same("varnishtop", cases.TOP, file)


def made(directory):
    directory.mkdir()
    return directory


def main():
    o = options(__doc__, only=dict(choices=["pairs", "screens", "follow", "hostile", "munin", "releases", "nine"]))
    report = Report("tools")
    ours = pathlib.Path(o.varnishd).resolve().parent
    with tempfile.TemporaryDirectory() as d, concurrent.futures.ThreadPoolExecutor(4) as pool:
        links = pathlib.Path(d) / "bin"
        links.mkdir()
        for tool in ("varnishlog", "varnishlog-json", "varnishncsa", "varnishstat", "varnishtop", "varnishhist", "varnishadm"):
            (links / tool).symlink_to(pathlib.Path(o.varnishd).resolve())
        genuine, theirs = "/usr/sbin/varnishd", pathlib.Path("/usr/bin")
        work, theirs_and_ours = pathlib.Path(d), {"varnish": theirs, "us": links}
        own = [links / "varnishlog", links / "varnishncsa"]
        # Varnish's own on ours, too: that our log is one they can follow.
        parts = [("follow", follow.run, genuine, own, made(work / "genuine")),
                 ("follow", follow.run, o.varnishd, [*own, theirs / "varnishlog", theirs / "varnishncsa"], made(work / "own")),
                 *(("pairs", one, links, pool, varnishd, name, made(work / f"pairs-{name}")) for varnishd, name in ((genuine, "genuine"), (o.varnishd, "own"))),
                 *(("screens", screens.run, varnishd, theirs_and_ours) for varnishd in (genuine, o.varnishd)),
                 ("munin", munin.run, o.varnishd, links, made(work / "munin")),
                 ("releases", other_releases, o, links, pool, made(work / "releases")),
                 ("nine", as_nine, o, links, pool, made(work / "nine")),
                 ("hostile", damaged, o, links, made(work / "hostile"))]
        # Side by side: they mostly wait, for what a tool shows each second.
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as beside:
            for done in [beside.submit(part, report, *args) for name, part, *args in parts if o.only in (None, name)]:
                done.result()
    return report.close()


if __name__ == "__main__":
    os.environ.setdefault("TZ", "America/New_York")
    os.environ["NO_COLOR"] = "1"
    sys.exit(main())
