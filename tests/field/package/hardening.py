# SPDX-License-Identifier: BSD-2-Clause
"""What the unit of the server leaves to it: systemd's judgement in a figure, and the server at work with no more than that."""
import ctypes
import os
import re
import shutil
import subprocess

UNIT = "files/usr/lib/systemd/system/varnish.service"
# systemd-analyze security: 0 is best; Debian's unit of varnish has 8.5.
WORST = 3.5
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
LIMIT = 60


def run(report, packaging, lacquer):
    unit = packaging / UNIT
    judge(report, unit)
    at_work(report, unit, lacquer)


def judge(report, unit):
    if not shutil.which("systemd-analyze"):
        report.note("systemd-analyze isn't here: no figure")
        return
    p = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True, timeout=LIMIT)
    found = re.search(r"exposure level for varnish.service: ([\d.]+)", p.stdout)
    report.check(found and float(found[1]) <= WORST, f"systemd-analyze security: at most {WORST}: {p.stdout[-300:]}{p.stderr}")
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=LIMIT)
    ours = [line for line in p.stderr.splitlines() if unit.name in line and "is not executable" not in line]
    report.check(not ours, f"systemd-analyze verify: {ours}")


def deny_new_code():
    """As MemoryDenyWriteExecute: no memory becomes code; kernels before 6.3 don't know it."""
    ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)


def at_work(report, unit, lacquer):
    """With the capabilities that it has by the unit, no new rights and no memory that becomes code, all of `lacquer selftest` holds."""
    names = re.search(r"^CapabilityBoundingSet=(.*)$", unit.read_text(), re.M)[1].split()
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        report.note("needs root and setpriv: the capabilities aren't tried")
        return
    bound = "-all," + ",".join("+" + name.removeprefix("CAP_").lower() for name in names)
    p = subprocess.run(["setpriv", "--no-new-privs", f"--bounding-set={bound}", str(lacquer), "selftest", "-q"], capture_output=True, text=True, timeout=LIMIT,
                       preexec_fn=deny_new_code)
    report.check(p.returncode == 0, f"with {names} alone: {p.stdout}{p.stderr}")
    # It isn't that it went on as root, which it does, and says, where it can't change users.
    for words, is_jailed in ((bound, True), (bound.replace(",+setuid", ""), False)):
        p = subprocess.run(["setpriv", "--no-new-privs", f"--bounding-set={words}", str(lacquer), "serve", "-C", "-b", "none"], capture_output=True,
                           text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        report.check(("no jail" not in p.stdout + p.stderr) == is_jailed, f"{words}: a jail, or not: {p.stdout[-200:]}{p.stderr[-300:]}")
