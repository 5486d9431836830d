# SPDX-License-Identifier: BSD-2-Clause
"""The package for Fedora and its kin: built, installed into a directory, its users and folders made there, checked, removed."""
import os
import pathlib
import shutil
import subprocess
import tempfile

LIMIT = 1800  # seconds; it only ends what hangs: xz alone takes minutes on a busy machine
WANTED = ("/usr/bin/lacquer", "/usr/sbin/varnishd", "/usr/lib/systemd/system/varnish.service", "/usr/lib/sysusers.d/lacquer.conf",
          "/usr/share/zsh/site-functions/_lacquer", "/usr/share/man/man1/varnishd.1.gz", "/etc/logrotate.d/varnish")


def run(report, packaging, lacquer):
    if not shutil.which("rpmbuild") or os.geteuid() != 0:
        report.note("rpmbuild isn't here, or nobody is root: no rpm")
        return
    with tempfile.TemporaryDirectory() as d:
        work = pathlib.Path(d)

        def call(*argv):
            return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=LIMIT)
        built = call(packaging / "rpm/build", lacquer, work)
        if not report.check(built.returncode == 0, f"rpm: built: {built.stderr[-1000:]}"):
            return
        package, root = built.stdout.split()[-1], work / "root"
        listed = call("rpm", "-qpl", package).stdout.split("\n")
        report.check(all(path in listed for path in WANTED), f"rpm: files: {[p for p in WANTED if p not in listed]} are missing")
        scripts = call("rpm", "-qp", "--scripts", package).stdout
        for part in scripts.split("scriptlet (using /bin/sh):")[1:]:
            text = "\n".join(line for line in part.splitlines() if "scriptlet" not in line)
            report.check(call("sh", "-n", "-c", text).returncode == 0, f"rpm: a script that sh can't read: {text}")
        rpm = ("rpm", "--root", root, "--dbpath", "/rpmdb")
        (root / "rpmdb").mkdir(parents=True)
        installed = call(*rpm, "-i", "--nodeps", "--noscripts", package)
        report.check(installed.returncode == 0, f"rpm: installed: {installed.stderr}")
        for argv in (("systemd-sysusers", f"--root={root}"), ("systemd-tmpfiles", f"--root={root}", "--create", "lacquer.conf")):
            if shutil.which(argv[0]):
                p = call(*argv)
                report.check(p.returncode == 0, f"rpm: {argv[0]}: {p.stderr}")
        users = (root / "etc/passwd").read_text() if (root / "etc/passwd").exists() else ""
        report.check(all(f"{user}:" in users for user in ("varnish", "vcache", "varnishlog")), f"rpm: users: {users}")
        groups = {line.split(":")[0]: line.split(":")[3] for line in users.splitlines()}
        report.check(len({groups.get(user) for user in ("varnish", "vcache", "varnishlog")}) == 1, f"rpm: one login group for manager, worker and tools: {groups}")
        report.check((root / "etc/varnish/default.vcl").exists() and (root / "var/log/varnish").is_dir(), "rpm: folders and a VCL")
        p = call(root / "usr/bin/lacquer", "selftest", "-q")
        report.check(p.returncode == 0, f"rpm: selftest of what was installed: {p.stdout}")
        verified = call(*rpm, "-V", "--nodeps", "lacquer")
        report.check(verified.returncode == 0, f"rpm -V: {verified.stdout}")
        removed = call(*rpm, "-e", "--noscripts", "lacquer")
        report.check(removed.returncode == 0 and not (root / "usr/bin/lacquer").exists(), f"rpm: removed: {removed.stderr}")
