#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make install`: programs, links, manual pages, units and default.vcl below PREFIX and DESTDIR; what is installed runs from there, and a second
time leaves the operator's default.vcl alone, as it does another program's files.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import directory
from bed.report import ROOT, Report, options

LIMIT = 120  # seconds; only ends a hang
TOOLS = ("varnishlog", "varnishlog-json", "varnishncsa", "varnishstat", "varnishtop", "varnishhist", "varnishadm",
         "vinyllog", "vinylncsa", "vinylstat", "vinyltop", "vinylhist", "vinyladm")


def make(*words):
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", "-s", "-C", str(ROOT), "install", *words], capture_output=True, text=True, timeout=LIMIT, env=env)


def below_destdir(report, built, work):
    done = make(f"BIN={built}", f"DESTDIR={work}/stage", "PREFIX=/opt/cache")
    report.check(done.returncode == 0, f"it installs: {done.stderr}")
    root = work / "stage/opt/cache"
    report.check([p.name for p in work.iterdir()] == ["stage"] and [p.name for p in (work / "stage").iterdir()] == ["opt"], "nothing lands elsewhere")
    report.check(all((root / "bin" / tool).resolve() == root / "bin/lacquer" for tool in TOOLS), "the tools are links")
    version = subprocess.run([root / "sbin/varnishd", "-V"], capture_output=True, text=True, timeout=LIMIT)
    report.check(version.returncode == 0 and "varnish-9.0.2" in version.stderr + version.stdout, "varnishd runs from there")
    pages = [root / "share/man" / page for page in ("man1/varnishd.1.gz", "man1/varnishlog.1.gz", "man3/vmod_std.3.gz", "man7/varnish-counters.7.gz")]
    report.check(all(page.is_file() for page in pages), f"manual pages: {[page.name for page in pages if not page.is_file()]}")
    vcl = root / "etc/varnish/default.vcl"
    checked = subprocess.run([root / "sbin/varnishd", "-C", "-f", vcl], capture_output=True, text=True, timeout=LIMIT)
    report.check(checked.returncode == 0, f"default.vcl compiles: {checked.stderr}")
    report.check((root / "share/varnish/vcl/devicedetect.vcl").is_file(), "VCL files to include")
    unit = (root / "lib/systemd/system/varnish.service").read_text()
    report.check("ExecStart=/opt/cache/sbin/varnishd" in unit and "/opt/cache/etc/varnish/default.vcl" in unit, f"the unit starts what is installed: {unit}")
    report.check("/opt/cache/sbin/varnishd" in done.stdout and "stage" not in done.stdout, f"it says how to start: {done.stdout}")
    vcl.write_text("vcl 4.1; backend default none;\n")
    again = make(f"BIN={built}", f"DESTDIR={work}/stage", "PREFIX=/opt/cache")
    report.check(again.returncode == 0 and "backend default none" in vcl.read_text(), "the operator's default.vcl stays")


def usr_has_its_etc_above(report, built, work):
    done = make(f"BIN={built}", f"DESTDIR={work}", "PREFIX=/usr")
    report.check(done.returncode == 0 and (work / "etc/varnish/default.vcl").is_file(), f"/usr and /etc: {done.stderr}")


def over_another_program(report, built, work):
    other = work / "local/sbin/varnishd"
    other.parent.mkdir(parents=True)
    other.write_text("another varnishd")
    done = make(f"BIN={built}", f"PREFIX={work}/local")
    report.check(done.returncode != 0 and f"{other}" in done.stderr and "FORCE=1" in done.stderr and other.read_text() == "another varnishd",
                 f"another program's file stays: {done.stderr}")
    done = make(f"BIN={built}", f"PREFIX={work}/local", "FORCE=1")
    report.check(done.returncode == 0 and other.resolve() == work / "local/bin/lacquer", f"FORCE=1 replaces it: {done.stderr}")


def refusals(report, _built, work):
    for words, reason in (((f"BIN={work}/none",), "make build comes first"), ((f"BIN={_built}", "PREFIX=local"), "is no absolute path")):
        done = make(*words, f"DESTDIR={work}/stage")
        report.check(done.returncode != 0 and reason in done.stderr and not (work / "stage").exists(), f"{words}: {done.stderr}")


def main():
    o = options(__doc__, (below_destdir, usr_has_its_etc_above, over_another_program, refusals))
    report, built = Report("install"), pathlib.Path(o.varnishd).absolute().parent
    for case in o.cases:
        # The VCL's checker, another user than root, reads there.
        with directory() as work:
            report.run([case], report, built, work.resolve())
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
