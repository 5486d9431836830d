# SPDX-License-Identifier: BSD-2-Clause
"""Packing: one program and one commit make the same packages wherever and whenever; and the archive for any Linux is unpacked, installed, run, removed."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from bed.daemon import Varnishd, directory, executable
from bed.http import get
from bed.origin import Origin, simple
from bed.report import ROOT

LIMIT = 1800  # seconds; it only ends what hangs: xz alone takes minutes on a busy machine
COMMIT = 1_700_000_000  # the commit's time, seconds since 1970
FORMATS = {"deb": "dpkg-deb", "rpm": "rpmbuild", "tar": "tar"}
TOOLS = ("varnishlog", "varnishlog-json", "varnishncsa", "varnishstat", "varnishtop", "varnishhist", "varnishadm",
         "vinyllog", "vinylncsa", "vinylstat", "vinyltop", "vinylhist", "vinyladm")
# Packing asks a program for its version and its manuals, and reads which glibc it names.
PROGRAM = """#!/bin/sh
# GLIBC_2.17 GLIBC_2.34 GLIBC_2.4
case $1 in
--version) echo 'lacquer 7.8.9 (something)' ;;
man) mkdir -p "$3/man1" && echo '.TH lacquer 1' >"$3/man1/lacquer.1" ;;
esac
"""


def call(*argv, **more):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, **more)


def papers(dist):
    """Writes small files in place of what `make book sbom` writes."""
    for path in ("book/index.html", "book/book/concepts.html", "sbom/sbom.cdx.json", "sbom/third-party.txt"):
        (dist / path).parent.mkdir(parents=True, exist_ok=True)
        (dist / path).write_text(f"text of {path}\n")


def copied(place, umask):
    """A checkout without a repository, as far as packing reads it, by a user who has `umask`."""
    shutil.copytree(ROOT / "packaging", place / "packaging", symlinks=True)
    for name in ("LICENSE", "CHANGELOG.md", "SECURITY.md", "Cargo.lock"):
        shutil.copy(ROOT / name, place)
        os.utime(place / name, (0, 0))
    call("chmod", "-R", f"-{umask:03o}", place, check=True)


def packed(report, lacquer, place, environment, umask=0o022):
    """SHA-256 of each package that is packed in `place`, by its name."""
    papers(place / "dist")
    copied(place, umask)
    for name, tool in FORMATS.items():
        if not shutil.which(tool):
            report.note(f"{tool} isn't here: no {name}")
            continue
        p = call(place / "packaging" / name / "build", lacquer, place / "dist", place / "out", umask=umask,
                 env={**os.environ, "SOURCE_DATE_EPOCH": str(COMMIT), **environment})
        report.check(p.returncode == 0 and pathlib.Path(p.stdout.strip()).is_file(), f"{name} is packed: {p.stdout} {p.stderr[-1000:]}")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (place / "out").iterdir()}


def same_twice(report, lacquer, full):
    """Packs in two directories whose names differ, with different zones, languages and umasks. With --full it packs the real program."""
    with directory() as d:
        if not full:
            lacquer = executable(d / "lacquer", PROGRAM)
        one, other = d / "a", d / "another directory, with blanks and a longer name"
        one.mkdir()
        other.mkdir()
        first = packed(report, lacquer, one, {"TZ": "UTC", "LC_ALL": "C"})
        (d / "temporary").mkdir()
        # The umask of children alone: other cases run in threads of this process.
        second = packed(report, lacquer, other, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "TMPDIR": str(d / "temporary")}, umask=0o027)
        report.check(len(first) >= 2 and first == second, f"the same packages twice: {first} {second}")
        release(report, lacquer, one)
        metadata(report, one / "out")


def release(report, lacquer, place):
    """Checks that one script packs all of a release, with its checksums, and names what must be made before."""
    if all(map(shutil.which, FORMATS.values())):
        p = call(place / "packaging/release", lacquer, place / "dist", env={**os.environ, "SOURCE_DATE_EPOCH": str(COMMIT)})
        made = place / "dist/release"
        names = {line.split()[1] for line in (made / "SHA256SUMS").read_text().splitlines()}
        packages = {path.name for path in (place / "out").iterdir()}
        report.check(p.returncode == 0 and names == {*packages, "sbom.cdx.json"}, f"a release: {names} {p.stderr[-1000:]}")
        report.check(call("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=made).returncode == 0, "its checksums are right")
        same = all((made / name).read_bytes() == (place / "out" / name).read_bytes() for name in packages)
        report.check(same, "its packages are those that each script makes alone")
    (place / "dist/book/index.html").unlink()
    p = call(place / "packaging/release", lacquer, place / "dist")
    report.check(p.returncode != 0 and "make book sbom comes first" in p.stderr, f"a release without the book: {p.stderr}")
    p = call(place / "packaging/tar/build", place / "none", place / "dist")
    report.check(p.returncode != 0 and "there is no program" in p.stderr, f"a package without a program: {p.stderr}")


def metadata(report, out):
    """Checks that no package names a placeholder address, and that each holds the book, the list of components and the security policy."""
    facts, files = "", {}
    for path in out.iterdir():
        if path.suffix == ".deb":
            facts += call("dpkg-deb", "-f", path).stdout
            files[path] = call("dpkg-deb", "-c", path).stdout
        elif path.suffix == ".rpm":
            facts += call("rpm", "-qpi", path).stdout
            files[path] = call("rpm", "-qpl", path).stdout
        else:
            files[path] = call("tar", "-tvzf", path).stdout
    report.check("Lacquer" in facts and not re.search(r"\.invalid|example\.|https?:|@", facts), f"no address that is none: {facts}")
    for path, listed in files.items():
        missing = [name for name in ("html/index.html", "sbom.cdx.json", "third-party.txt", "SECURITY.md", "LICENSE|copyright", "man1/lacquer.1.gz",
                                     "varnish.service", "devicedetect.vcl") if not re.search(name.replace(".", r"\."), listed)]
        report.check(not missing, f"{path.name} has no {missing}")


def archive(report, lacquer):
    """Unpacks the archive of the real program into an empty directory, installs it below another one, gets a hit from both, installs it again, removes it."""
    with directory() as d:
        papers(d / "dist")
        p = call(ROOT / "packaging/tar/build", lacquer, d / "dist", d)
        if not report.check(p.returncode == 0, f"tar: packed: {p.stderr}"):
            return
        (d / "empty").mkdir()
        report.check(call("tar", "-xzf", p.stdout.strip(), "-C", d / "empty").returncode == 0, "tar: unpacked")
        tree, = (d / "empty").iterdir()
        readme = (tree / "README").read_text()
        glibc = re.search(r"needs glibc 2\.(\d+) or newer", readme)
        # Built on Debian 12 it starts on RHEL 9 and Ubuntu 22.04, too: one call of a newer function would end that.
        newest = 34 if os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36" else 99
        report.check(glibc and 17 <= int(glibc[1]) <= newest and "@" not in readme, f"tar: which glibc it needs: {readme[:400]}")
        serves(report, tree / "sbin/varnishd", "as it was unpacked")
        prefix = d / "opt/lacquer"
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0 and f"{prefix}/sbin/varnishd -a :6081" in p.stdout and not p.stderr, f"tar: installs: {p.stdout} {p.stderr}")
        report.check(all((prefix / "bin" / tool).resolve() == prefix / "bin/lacquer" for tool in TOOLS), "tar: the tools are links")
        serves(report, prefix / "sbin/varnishd", "as it was installed")
        units = "".join(path.read_text() for path in (prefix / "lib/systemd/system").glob("varnish*.service"))
        lines = re.findall(r"^ExecStart=(\S+)", units, re.M)
        report.check(len(lines) == 2 and all(line.startswith(str(prefix)) for line in lines) and f"{prefix}/etc/varnish/secret" in units, f"tar: units: {lines}")
        secret = prefix / "etc/varnish/secret"
        report.check(len(secret.read_bytes()) > 30 and secret.stat().st_mode & 0o77 == 0, "tar: a secret that nobody else reads")
        own = {secret: secret.read_text(), prefix / "etc/varnish/default.vcl": "vcl 4.1; backend default none;\n"}
        (prefix / "etc/varnish/default.vcl").write_text(own[prefix / "etc/varnish/default.vcl"])
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0 and all(path.read_text() == text for path, text in own.items()), "tar: installed again, what is the operator's stays")
        p = call(tree / "install", "--remove", prefix)
        left = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir())
        report.check(p.returncode == 0 and left == ["etc/varnish/default.vcl", "etc/varnish/secret"], f"tar: removed: {left} {p.stderr}")
        refusals(report, tree, d)


def refusals(report, tree, d):
    for words in (("opt",), ("--purge",), ("/a", "/b")):
        p = call(tree / "install", *words, env={**os.environ, "DESTDIR": str(d / "none")})
        report.check(p.returncode == 2 and p.stderr and not (d / "none").exists(), f"tar: {words} are refused: {p.stderr}")
    (tree / "bin/lacquer").unlink()
    executable(tree / "bin/lacquer", "#!/bin/sh\necho \"version 'GLIBC_2.99' not found\" >&2\nexit 1\n")
    p = call(tree / "install", d / "none")
    report.check(p.returncode == 1 and "GLIBC_2.99" in p.stderr and "README" in p.stderr and not (d / "none").exists(), f"tar: on an old system: {p.stderr}")


def serves(report, program, what):
    def answer(_method, path, _fields):
        return "Cache-Control: max-age=60\r\n", b"body of " + path.encode()
    with Origin(simple(answer)) as origin, Varnishd(str(program), backend=origin.address) as v:
        first, second = get(v.address, "/a"), get(v.address, "/a")
        report.check(first.whole() and second.body == b"body of /a" and len(second.get("X-Varnish").split()) == 2, f"tar: {what}, a hit: {second.fields}")
