# SPDX-License-Identifier: BSD-2-Clause
"""The archive's installer with a small program in place of the real one; the flags that `make build` has for C; the rpm's script after an upgrade."""
import os
import re
import shlex
import shutil
import subprocess

from bed.daemon import die_with_parent, directory, executable
from bed.report import ROOT, until
from release import PROGRAM, call

# Prints FRAGMENT as the path of each unit, and keeps what it is told in LOG. Its `disable` fails if REFUSES is set.
SYSTEMCTL = """#!/bin/sh
[ "$1" != show ] || { for unit; do :; done; echo "$FRAGMENT/$unit"; exit; }
echo "$*" >>"$LOG"
[ "$1" != disable ] || [ -z "${REFUSES:-}" ]
"""


def laid_out(report, d, program=PROGRAM):
    """The archive's tree, unpacked."""
    p = call(ROOT / "packaging/tar/build", executable(d / "program/lacquer", program), d / "dist", d)
    report.check(p.returncode == 0 and call("tar", "-xzf", p.stdout.strip(), "-C", d).returncode == 0, f"tar: packed: {p.stderr}")
    tree, = d.glob("lacquer-*-linux-*/")
    return tree


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir())


def foreign_files(report):
    """Nothing of another program is overwritten unasked, and nothing of another program is removed."""
    with directory() as d:
        tree, prefix = laid_out(report, d), d / "local"
        other = executable(prefix / "sbin/varnishd", "another varnishd\n")
        link = prefix / "bin/varnishlog"
        link.parent.mkdir()
        link.symlink_to("nowhere")
        before = files(prefix)
        p = call(tree / "install", prefix)
        report.check(p.returncode == 1 and str(other) in p.stderr and str(link) in p.stderr and "--force" in p.stderr, f"tar: foreign files: {p.stderr}")
        report.check(files(prefix) == before and other.read_text() == "another varnishd\n", f"tar: a refusal changes nothing: {files(prefix)}")
        p = call(tree / "install", "--remove", prefix)
        report.check(p.returncode == 1 and "manifest" in p.stderr and files(prefix) == before, f"tar: nothing of ours, nothing is removed: {p.stderr}")
        p = call(tree / "install", "--force", prefix)
        report.check(p.returncode == 0 and other.resolve() == prefix / "bin/lacquer", f"tar: --force: {p.stderr}")
        neighbour = executable(prefix / "share/doc/lacquer/notes", "the operator's\n")
        old = executable(prefix / "share/lacquer/of-an-older-version", "ours\n")
        manifest = prefix / "share/lacquer/manifest"
        manifest.write_text(manifest.read_text() + "share/lacquer/of-an-older-version\n")
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0 and not old.exists(), f"tar: another version leaves no file of the one before: {p.stderr}")
        p = call(tree / "install", "--remove", prefix)
        left = files(prefix)
        report.check(p.returncode == 0 and left == ["etc/varnish/default.vcl", "etc/varnish/secret", str(neighbour.relative_to(prefix))], f"tar: removed: {left}")
        report.check(not (prefix / "share/lacquer").exists(), "tar: no empty directory of ours is left")
        if os.geteuid() == 0:
            p = subprocess.run([str(tree / "install"), str(d / "of-root")], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, user=65534, group=65534,
                               env={"HOME": "/home/joe", "PATH": os.environ["PATH"]})
            report.check(p.returncode == 1 and "type sudo before the command, or choose a directory of yours: ./install /home/joe/lacquer" in p.stderr,
                         f"tar: no permission: {p.returncode} {p.stderr}")


def removed_while_it_runs(report, program):
    """A server that nobody stopped is named with the command that stops it."""
    with directory() as d:
        tree, prefix = laid_out(report, d), d / "local"
        shutil.copy(program, tree / "bin/lacquer")
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0, f"tar: installed: {p.stderr}")
        server = subprocess.Popen([prefix / "sbin/varnishd", "-F", "-n", d / "n", "-a", "127.0.0.1:0", "-b", "none"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        up = until(60, lambda: "running" in call(prefix / "bin/varnishadm", "-n", d / "n", "status").stdout)
        p = call(tree / "install", "--remove", prefix)
        report.check(up and p.returncode == 0 and f"still runs; to stop it, type: kill {server.pid}\n" in p.stdout, f"tar: removed while it runs: {p.stdout}")
        server.terminate()
        report.check(server.wait(60) == 0, "tar: that stops it")


def staged(report):
    """Below DESTDIR a packager installs, also over what is there, and no manifest gets into the package."""
    with directory() as d:
        tree, stage = laid_out(report, d), d / "a stage"
        for _ in range(2):
            p = call(tree / "install", "/usr", env={**os.environ, "DESTDIR": str(stage)})
            report.check(p.returncode == 0 and (stage / "usr/sbin/varnishd").exists(), f"tar: DESTDIR: {p.stderr}")
        report.check(not list(stage.rglob("manifest*")), f"tar: a package holds no manifest: {files(stage)}")


def services(report):
    """Services of what is removed are stopped and disabled first; those of another package are left alone."""
    with directory() as d:
        tree, prefix, log = laid_out(report, d), d / "local", d / "log"
        executable(d / "bin/systemctl", SYSTEMCTL)
        ours = {**os.environ, "PATH": f"{d}/bin:{os.environ['PATH']}", "LOG": str(log), "FRAGMENT": str(prefix / "lib/systemd/system")}
        call(tree / "install", prefix, env=ours)
        before = files(prefix)
        p = call(tree / "install", "--remove", prefix, env={**ours, "REFUSES": "1"})
        report.check(p.returncode == 1 and "systemctl disable --now" in p.stderr and files(prefix) == before, f"tar: services that can't be stopped: {p.stderr}")
        log.unlink(missing_ok=True)
        p = call(tree / "install", "--remove", prefix, env=ours)
        told = log.read_text().splitlines() if log.exists() else []
        report.check(p.returncode == 0 and len(told) == 2 and told[0].startswith("disable --now ") and {"varnish.service", "varnishncsa.service"} <= {*told[0].split()}
                     and told[1] == "daemon-reload", f"tar: services are stopped: {told} {p.stderr}")
        log.unlink(missing_ok=True)
        call(tree / "install", prefix, env=ours)
        p = call(tree / "install", "--remove", prefix, env={**ours, "FRAGMENT": "/lib/systemd/system"})
        report.check(p.returncode == 0 and not log.exists(), f"tar: another package's services stay: {p.stderr}")


def prefixes(report):
    """PREFIX is put into units as it is, or refused."""
    with directory() as d:
        tree = laid_out(report, d)
        for prefix in ("/a b", "/a&b", "/a|b", "/a\\b", "/a%b", "/a\nb", "/a'b"):
            p = call(tree / "install", prefix, env={**os.environ, "DESTDIR": str(d / "none")})
            report.check(p.returncode == 2 and "PREFIX=" in p.stderr and not (d / "none").exists(), f"tar: {prefix!r} is refused: {p.stderr}")
        for prefix in ("/etc/cache", "/data/etc/usr/cache", "/opt/usr/cache-1.0_b+c"):
            p = call(tree / "install", prefix, env={**os.environ, "DESTDIR": str(d / "stage")})
            unit = (d / "stage" / prefix[1:] / "lib/systemd/system/varnish.service").read_text() if p.returncode == 0 else p.stderr
            paths = re.findall(r"(?:ExecStart=|ExecReload=|-f |-S )(\S+)", unit)
            wanted = [f"{prefix}/{path}" for path in ("sbin/varnishd", "etc/varnish/default.vcl", "etc/varnish/secret", "share/varnish/varnishreload")]
            report.check(paths == wanted, f"tar: paths below {prefix}: {paths}")


def facts(report):
    """The libc that a program needs, and the machine that it is for."""
    with directory() as d:
        packing = PROGRAM.replace("GLIBC_2.4\n", "GLIBC_2.4 GLIBC_ABI_DT_RELR\n")
        for name, program, glibc in (("plain", PROGRAM, "2.34"), ("packed", packing, "2.36"), ("newer", packing.replace("2.34", "2.38"), "2.38")):
            p = call(ROOT / "packaging/stage", executable(d / name, program), d / "dist", d / f"{name}.stage")
            report.check(p.returncode == 0 and p.stdout.split()[1] == glibc, f"{name}: glibc {glibc}: {p.stdout} {p.stderr}")
        for machine, word in (("x86_64", "x86-64"), ("aarch64", "arm64"), ("riscv64", "riscv64")):
            executable(d / "bin/uname", f"#!/bin/sh\necho {machine}\n")
            place = d / machine
            p = call(ROOT / "packaging/tar/build", d / "plain", d / "dist", place, env={**os.environ, "PATH": f"{d}/bin:{os.environ['PATH']}"})
            call("tar", "-xzf", p.stdout.strip(), "-C", place)
            first, under = next(place.glob("*/README")).read_text().splitlines()[:2]
            report.check(first == f"Lacquer 7.8.9 for Linux on {word}" and len(under) >= len(first), f"tar: README for {machine}: {first}")


def flags_for_c(report):
    """The flags for C reach the compiler whole, whatever blanks are in the paths that they name."""
    if not (cc := shutil.which("cc")):
        report.note("cc isn't here: no flags for C")
        return
    with directory() as d:
        say = 'case $1 in --version) echo "cargo 1.999.0" ;; *) printf "flags %s|%s|\\n" "${CC_SHELL_ESCAPED_FLAGS:-}" "$CFLAGS"; exit 1 ;; esac\n'
        cargo = executable(d / "cargo", f"#!/bin/sh\n{say}")
        (d / "a.c").write_text("const char *file = __FILE__;\n")
        for home, target in (("home", "target"), ("a home", "a target")):
            env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "CARGO", "CFLAGS"))}
            env |= {"HOME": str(d / home), "CARGO_TARGET_DIR": str(d / target), "CFLAGS": "-DX=1"}
            source = d / home / ".cargo/a.c"
            source.parent.mkdir(parents=True)
            shutil.copy(d / "a.c", source)
            p = call("make", "-s", "-C", ROOT, "build", f"CARGO={cargo}", env=env)
            said = re.search(r"^flags (.*)\|(.*)\|$", p.stdout, re.M)
            if not report.check(said, f"C: {p.stdout} {p.stderr}"):
                continue
            # The crate cc splits them in the same way.
            words = shlex.split(said[2]) if said[1] not in ("", "0") else said[2].split()
            p = call(cc, *words, "-c", source, "-o", d / "a.o")
            mapped = p.returncode == 0 and b"/cargo/a.c" in (d / "a.o").read_bytes()
            report.check(mapped and f"-ffile-prefix-map={d / target}=/lacquer/target" in words and "-DX=1" in words, f"C: {words}: {p.stderr}")


def moved(script, d):
    """A package's script whose folders of the system are below `d`: run by root, it mustn't change this one."""
    return re.sub(r"(?<![\w.}])/(?=(etc|run|usr|var)/)", f"{d}/", script)


def kept_release(report):
    """A former version without a file of the release: an upgrade writes the one that it acts as; an operator's file stays."""
    spec = (ROOT / "packaging/rpm/lacquer.spec").read_text()
    scripts = {"deb": (("upgrade", "0.1.0"), (ROOT / "packaging/deb/preinst").read_text(), {"7.1": "7.1\n", "9.0": "9\n", None: None}),
               "rpm": (("2",), "set -eu\n" + re.search(r"^%pre\n(.*?)^%post\n", spec, re.M | re.S)[1], {"7.1": "7.1\n", "9.0": None, None: None})}
    for name, (words, script, wanted) in scripts.items():
        for former, kept in wanted.items():
            with directory() as d:
                executable(d / "bin/dpkg-divert", "#!/bin/sh\n")
                if former:
                    executable(d / "usr/sbin/varnishd", f"#!/bin/sh\necho 'varnishd (varnish-{former}.1 revision 0)' >&2\n")
                path = executable(d / name, moved(script, d))
                file = d / "etc/lacquer/compat"
                ours = {**os.environ, "PATH": f"{d}/bin:{os.environ['PATH']}"}
                p = call("sh", path, *words, env=ours)
                got = file.read_text() if file.exists() else None
                report.check(p.returncode == 0 and got == kept, f"{name}: after {former}: {got!r} {p.stderr}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("the operator's\n")
                p = call("sh", path, *words, env=ours)
                report.check(p.returncode == 0 and file.read_text() == "the operator's\n", f"{name}: an operator's file: {p.stderr}")


def former_version(report):
    """The archive's installer says when another version acts as another release; other names of units stay links."""
    with directory() as d:
        acts = PROGRAM.replace("case $1 in\n", "case $1 in\n-V) echo 'varnishd (varnish-9.0.2 revision 0)' >&2 ;;\n")
        tree, prefix = laid_out(report, d, acts), d / "local"
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0 and "acted as" not in p.stdout, f"tar: nothing was there before: {p.stdout}")
        links = {name: os.readlink(prefix / "lib/systemd/system" / f"{name}.service") for name in ("vinyl-cache", "vinylncsa")}
        report.check(links == {"vinyl-cache": "varnish.service", "vinylncsa": "varnishncsa.service"}, f"tar: names of units: {links}")
        p = call(tree / "install", prefix)
        report.check("acted as" not in p.stdout, f"tar: the same release: {p.stdout}")
        executable(prefix / "bin/lacquer", acts.replace("9.0.2", "7.1.1"))
        p = call(tree / "install", prefix)
        report.check(p.returncode == 0 and "start it with --compat 7.1" in p.stdout, f"tar: the former version acts as 7.1: {p.stdout} {p.stderr}")


def rpm_upgrade(report):
    """After an upgrade of the rpm varnishncsa is restarted, and varnish only if it can't be switched."""
    spec = (ROOT / "packaging/rpm/lacquer.spec").read_text()
    with directory() as d:
        (d / "run/systemd/system").mkdir(parents=True)
        script = moved(re.search(r"^%post\n(.*?)^%preun", spec, re.M | re.S)[1], d)
        for tool in ("systemd-sysusers", "systemd-tmpfiles"):
            executable(d / f"bin/{tool}", "#!/bin/sh\n")
        executable(d / "bin/systemctl", SYSTEMCTL)
        log = d / "log"
        for count, upgraded, wanted in (("1", 0, set()), ("2", 0, {"varnishncsa"}), ("2", 1, {"varnish", "varnishncsa"})):
            executable(d / "bin/lacquer", f"#!/bin/sh\nexit {upgraded}\n")
            log.unlink(missing_ok=True)
            p = call("sh", "-euc", script, "sh", count, env={**os.environ, "PATH": f"{d}/bin:{os.environ['PATH']}", "LOG": str(log)})
            restarted = {word for line in log.read_text().splitlines() if line.startswith("try-restart ") for word in line.split()[1:]}
            report.check(p.returncode == 0 and restarted == wanted, f"rpm: upgrade: {count} {upgraded}: {restarted} {p.stderr}")
        secret, compat = d / "etc/varnish/secret", d / "etc/lacquer/compat"
        report.check(secret.stat().st_mode & 0o77 == 0 and compat.read_text() == "9\n", "rpm: a secret that nobody else reads, and the release 9")
