# SPDX-License-Identifier: BSD-2-Clause
"""The Debian package on a copy of this system, and of other releases in roots of their own. Makes the package and the copy, and starts the story
(debian_story.py) in it."""
import fcntl
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys

from bed.daemon import die_with_parent, executable, workdir
from bed.report import ROOT

LIMIT = 30
THIS, OTHERS = "bookworm", ("trixie", "noble")
HERE = pathlib.Path(__file__).resolve().parent


def roots(report):
    """(release, root) of this system and of the other releases."""
    found = [(THIS, "/")]
    for release in OTHERS:
        made = subprocess.run([ROOT / "scripts/need-root", release], capture_output=True, text=True)
        if report.check(made.returncode == 0, f"a root of {release} is made: {made.stderr}"):
            found.append((release, made.stdout.strip()))
    return found


def outside(report, program, systems):
    """Builds the package and tells its story in an overlay of each system."""
    if os.geteuid() != 0:
        report.check(False, "--full needs root, for name spaces and an overlay")
        return
    d = workdir()
    try:
        lacquer = pathlib.Path(program).resolve()
        built = subprocess.run([str(ROOT / "packaging/deb/build"), str(lacquer), str(d)], capture_output=True, text=True)
        if not report.check(built.returncode == 0, f"the package is built: {built.stderr}"):
            return
        package = built.stdout.strip()
        needs = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True).stdout
        packed, glibc = b"GLIBC_ABI_DT_RELR" in lacquer.read_bytes(), re.search(r"libc6 \(>= 2\.(\d+)\)", needs)
        report.check(glibc and int(glibc[1]) >= (36 if packed else 28), f"the package wants a libc that can start the program: {needs}")
        chrootless(report, package, d)
        fetched = subprocess.run(["apt-get", "download", "-q", "varnish"], cwd=d, capture_output=True, text=True)
        report.check(fetched.returncode == 0, f"Debian's package is fetched: {fetched.stderr}")
        for release, root in systems:
            fetched = d if release == THIS else pathlib.Path(root, "var/tmp")
            tell(report, d, package, release, root, next(fetched.glob("varnish_*.deb")))
    finally:
        shutil.rmtree(d, ignore_errors=True)


def chrootless(report, package, d):
    """dpkg can run the scripts on another system than the one that it installs to; ours refuse, as they would stop that system's services."""
    root = d / "chrootless"
    (root / "var/lib/dpkg").mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    p = subprocess.run(["dpkg", f"--root={root}", f"--log={d}/dpkg.log", "--force-script-chrootless", "--force-depends", "--unpack", package],
                       capture_output=True, text=True)
    report.check(p.returncode != 0 and "--force-script-chrootless is not supported" in p.stderr and not (root / "usr/bin/lacquer").exists(),
                 f"without a chroot: {p.returncode} {p.stderr}")


def tell(report, d, package, release, root, varnish):
    """Tells the story of `package` in a copy of `root`, which is a system of that release. `varnish` is that release's own package."""
    at = d / release
    at.mkdir()
    # The shell is PID 1 there: it waits for whatever daemons leave behind.
    story = subprocess.Popen(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--uts", "sh", "-c", '"$@"; exit $?', "sh", sys.executable,
                              HERE / "run.py", "--inside", package, varnish, release, root, at],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
    counted = False
    for line in story.stdout:
        counts = re.match(r"package: (\d+) passed, (\d+) failed", line)
        if counts:
            counted = True
            report.passed, report.failed = report.passed + int(counts[1]), report.failed + int(counts[2])
            report.note(f"{release}: {line.strip()}")
        else:
            print(line, end="", flush=True)
    report.check(story.wait(LIMIT) in (0, 1) and counted, f"the story of {release} came to its end: {story.returncode}")


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def inside(package, varnish, release, root, d):
    """Makes an overlay of `root`, goes there, and becomes the story: what is written disappears with the name space."""
    d = pathlib.Path(d) / "copy"
    os.umask(0o022)  # whatever the caller's: the mode of `upper` becomes that of the copy's "/"
    d.mkdir()
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", str(d))
    for name in ("upper", "work", "root"):
        (d / name).mkdir()
    lower, root = root, d / "root"
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={d}/upper,workdir={d}/work", str(root))
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("--rbind", "/dev", str(root / "dev"))
    mount("-t", "tmpfs", "tmpfs", str(root / "run"))
    for path, name in ((package, "lacquer.deb"), (varnish, "varnish.deb")):
        shutil.copy(path, root / "var/tmp" / name)
    if lower != "/":
        (root / "tests").mkdir()
        mount("--bind", ROOT / "tests", root / "tests")
        here = pathlib.Path("/tests") / HERE.relative_to(ROOT / "tests")
    else:
        here = HERE
    # The choice of an operator, or of an earlier package here, isn't the story's.
    shutil.rmtree(root / "etc/lacquer", ignore_errors=True)
    # Services are started by the story alone.
    executable(root / "usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")
    os.chroot(root)
    os.chdir("/")
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", TMPDIR="/tmp")
    bring_up_loopback()
    python = sys.executable if lower == "/" else "/usr/bin/python3"
    os.execv(python, [python, str(here / "debian_story.py"), "/var/tmp/lacquer.deb", "/var/tmp/varnish.deb", release])


def bring_up_loopback():
    """There is no other network (SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP)."""
    with socket.socket() as s:
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh14x", b"lo", 0))[:18])[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
