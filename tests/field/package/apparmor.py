# SPDX-License-Identifier: BSD-2-Clause
"""The AppArmor profile of the worker, as apparmor_parser reads it. What it lets the worker do is shown in a guest whose kernel has AppArmor:
`apparmor_in_qemu`, which is run by hand."""
import re
import shutil
import subprocess
import tempfile
import pathlib

PROFILE = "deb/apparmor.d/lacquer-worker"
LIMIT = 60


def run(report, packaging):
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    if not parser:
        report.note("apparmor_parser (apparmor) isn't here: the profile isn't read")
        return

    def read(*options, text=None):
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d) / "lacquer-worker"
            path.write_text(text or (packaging / PROFILE).read_text())
            return subprocess.run([parser, "-K", *options, path], capture_output=True, text=True, timeout=LIMIT)
    p = read("-Q")
    report.check(p.returncode == 0 and "error" not in p.stderr, f"the profile is read: {p.stderr}")
    named = read("-N").stdout.split()
    report.check(named == ["lacquer-worker"], f"the profile has the name that the worker knows: {named}")
    # With all that is included: there is no rule by which anything is executed, and no capability.
    whole = re.sub(r"#.*", "", read("-p").stdout)
    gives = re.findall(r"^\s*(?!deny|audit deny)\S*/\S*\s+\w*x\w*\s*(?:->.*)?,\s*$", whole, re.M) + re.findall(r"^\s*capability\b.*", whole, re.M)
    report.check("/** rwk," in whole and not gives, f"the worker may execute nothing, and has no capability: {gives}")
    broken = read("-Q", text=(packaging / PROFILE).read_text().replace("/** rwk,", "/** rwk"))
    report.check(broken.returncode != 0, "a profile that is broken isn't")
