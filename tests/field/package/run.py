#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What is packaged beside the binary: the unit's bounds, varnishreload, devicedetect.vcl, the container's entry point; the archive for any Linux, and
that packing twice makes the same packages; with --full the Debian package as an operator meets it: installed beside Debian's varnish, run by its units and by scripts of init, reloaded, rotated, removed.

The package is tried on copies of this system, of Debian 13 and of Ubuntu 24.04: overlays in name spaces of their own, without systemd; what units say is
done by a small reader of units. Needs root, the package varnish, and mirrors of Debian and Ubuntu for `scripts/need-root`.
"""
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import apparmor
import container
import debian
import hardening
import installer
import kubernetes
import release
import rpm
from bed.daemon import Varnishd, directory
from bed.http import get
from bed.report import ROOT, Report, options

PACKAGING = ROOT / "packaging"
SYSTEM = ("etc/varnish/*", "etc/lacquer/*", "etc/apparmor.d/lacquer*", "usr/*bin/varnish*", "usr/bin/lacquer", "lib/systemd/system/varnish*")
RELOAD = PACKAGING / "files/usr/share/varnish/varnishreload"

AGENTS = {
    "pc": ["Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:120.0) Gecko/20100101 Firefox/120.0",
           "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/605.1.15",
           "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36",
           "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0)", "curl/8.5.0", ""],
    "bot": ["Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Baiduspider+(+http://www.baidu.com/search/spider.htm)",
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)"],
    "mobile-bot": ["Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/W.X.Y.Z Mobile"
                   " Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"],
    "mobile-iphone": ["Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
                      "Mozilla/5.0 (iPod; U; CPU iPhone OS 4_3_3 like Mac OS X; ja-jp) AppleWebKit/533.17.9"],
    "mobile-android": ["Mozilla/5.0 (Linux; Android 13; Pixel 7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36"],
    "tablet-android": ["Mozilla/5.0 (Linux; Android 12; SM-T870) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36",
                       "Mozilla/5.0 (Linux; U; Android 2.2; de-de; GT-P1000 Build/FROYO) AppleWebKit/533.1 Version/4.0 Mobile Safari/533.1"],
    "tablet-ipad": ["Mozilla/5.0 (iPad; CPU OS 15_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.0 Mobile/15E148 Safari/604.1"],
    "tablet-kindle": ["Mozilla/5.0 (Linux; U; en-us; KFTT Build/IML74K) AppleWebKit/535.19 (KHTML, like Gecko) Silk/2.1 Safari/535.19"],
    "tablet-hp": ["Mozilla/5.0 (hp-tablet; Linux; hpwOS/3.0.2; U; de-DE) AppleWebKit/534.6 wOSBrowser/234.40.1 Safari/534.6 TouchPad/1.0"],
    "tablet-rim": ["Mozilla/5.0 (PlayBook; U; RIM Tablet OS 2.0.1; en-US) AppleWebKit/535.8+ (KHTML, like Gecko) Version/7.2.0.1 Safari/535.8+"],
    "tablet-microsoft": ["Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; ARM; Trident/6.0; Touch)"],
    "mobile-firefoxos": ["Mozilla/5.0 (Mobile; rv:26.0) Gecko/26.0 Firefox/26.0"],
    "mobile-smartphone": ["Mozilla/5.0 (BB10; Touch) AppleWebKit/537.10+ (KHTML, like Gecko) Version/10.0.9.2372 Mobile Safari/537.10+",
                          "Mozilla/5.0 (Mobile; Windows Phone 8.1; Android 4.0; ARM; Trident/7.0; Touch; rv:11.0; IEMobile/11.0; NOKIA; Lumia 520) like iPhone OS 7_0_3"],
    "mobile-generic": ["Opera/9.80 (J2ME/MIDP; Opera Mini/7.1.32052/29.3709; U; en) Presto/2.8.119 Version/11.10", "SonyEricssonT610/R201 Profile/MIDP-1.0",
                       "SAMSUNG-SGH-E250/1.0 Profile/MIDP-2.0", "Nokia6230/2.0 (04.44) Profile/MIDP-2.0 Configuration/CLDC-1.1"],
}
BROWSERS = {
    "operamini": ["Opera/9.80 (J2ME/MIDP; Opera Mini/7.1.32052/29.3709; U; en) Presto/2.8.119 Version/11.10"],
    "operamobile": ["Opera/9.80 (S60; SymbOS; Opera Mobi/499; U; ru) Presto/2.4.18 Version/10.00"],
    "msie": ["Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0)", "Mozilla/5.0 (Windows NT 6.3; Trident/7.0; rv:11.0) like Gecko"],
    "nomatch": ["Opera/9.80 (Windows NT 6.1; U; en) Presto/2.8.131 Version/11.10", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; en) Opera 8.50", ""],
}
# 4 browsers x 18 languages x 2 views: never more variants than these words allow.
# In one text: the directory of this file may be closed to the jail's user.
DEVICES = f"""vcl 4.1;
{(PACKAGING / "files/usr/share/varnish/vcl/devicedetect.vcl").read_text()}
backend b none;
sub vcl_recv {{
    call devicedetect;
    call browserclass;
    return (synth(200));
}}
sub vcl_synth {{
    set resp.http.Device = req.http.X-UA-Device;
    set resp.http.Class = req.http.X-UA-Class;
    set resp.http.Cookie = req.http.Cookie;
    return (deliver);
}}
"""


def devices(report, o):
    with Varnishd(o.varnishd, vcl=DEVICES) as v:
        def ask(*fields):
            r = get(v.address, "/", fields)
            return r.get("Device"), r.get("Class"), r.get("Cookie")
        for place, table in ((0, AGENTS), (1, BROWSERS)):
            for word, agents in table.items():
                for agent in agents:
                    got = ask(("User-Agent", agent))[place]
                    report.check(got == word, f"{agent!r} is {got}, not {word}")
        report.check(ask()[:2] == ("pc", "nomatch"), "no User-Agent: a pc")
        report.check(ask(("X-UA-Device", "x"), ("X-UA-Class", "x"))[:2] == ("pc", "nomatch"), "what a client claims doesn't count")
        for cookie, device, left in (("X-UA-Device-force=tablet-ipad", "tablet-ipad", None), ("a=b; x-ua-device-force=bot; c=d", "bot", "a=b; c=d"),
                                     ("a=b; X-UA-Device-force=pc", "pc", "a=b"), ("X-UA-Device-force=mobile-iphone; c=d", "mobile-iphone", "c=d"),
                                     ("a=b; c=d", "pc", "a=b; c=d")):
            got = ask(("Cookie", cookie))
            report.check((got[0], got[2] or None) == (device, left), f"Cookie {cookie} gives {got}")


@contextlib.contextmanager
def tools_of(program):
    """A directory with the binary under the tools' names, for a block."""
    with directory() as d:
        for name in ("varnishadm", "varnishd", "varnishlog", "varnishncsa", "varnishstat", "varnishtop", "varnishhist"):
            (d / name).symlink_to(pathlib.Path(program).resolve())
        yield d


def reloads(report, program, adm_dir):
    """varnishreload with the varnishadm of `adm_dir` against `program`."""
    who = f"varnishreload on {program} by {adm_dir}"
    with Varnishd(program, vcl=text("one")) as v:
        file = v.dir / "test.vcl"
        env = {**os.environ, "PATH": f"{adm_dir}:{os.environ['PATH']}"}

        def reload(*args, n=True):
            p = subprocess.run([str(RELOAD), *(["-n", str(v.n)] if n else []), *args], env=env, capture_output=True, text=True, timeout=60,
                               stdin=subprocess.DEVNULL)
            return p.returncode, p.stdout, p.stderr

        def answers(word):
            return report.check(get(v.address, "/").get("X-Vcl") == word, f"{who}: {word} answers")

        def vcls():
            return [line.split() for line in v.cli.ask("vcl.list").splitlines() if line]
        answers("one")
        # boot was loaded from a file: that one again, under a name of its time.
        file.write_text(text("two"))
        status, out, err = reload()
        report.check(status == 0 and "compiled" in out and "now active" in out and not err, f"{who}: {status} {out} {err}")
        report.check(sum(w[0] == "active" and w[4].startswith("reload_") for w in vcls()) == 1, f"{who}: a reload is active: {vcls()}")
        answers("two")
        file.write_text("vcl 4.1; nonsense")
        status, out, err = reload()
        report.check(status == 1 and "nonsense" in err and "compiled" not in out, f"{who}: bad VCL: {status} {out} {err}")
        answers("two")
        other = v.dir / "an other.vcl"
        other.write_text(text("three"))
        report.check(reload(str(other), "more")[0] == 1, f"{who}: two files are refused")
        report.check(reload("-x")[0] == 1 and reload("-m", "x")[0] == 1 and reload("-w", "x")[0] == 1, f"{who}: bad options are refused")
        report.check(reload("-h")[0] == 0, f"{who}: -h")
        report.check(reload("-l", "nope")[0] == 1, f"{who}: no such label")
        # A blank in the file's name needs quotes in the CLI, which the manager's own record of it then has.
        status, out, err = reload(f'"{other}"')
        report.check(status == 0, f"{who}: another file: {status} {out} {err}")
        answers("three")
        other.write_text(text("four"))
        file.write_text(text("four"))
        status, out, err = reload("-w", "0.1", "-m", "1", str(file))
        report.check(status == 0 and "discarded" in out, f"{who}: -w -m: {status} {out} {err}")
        report.check(sum(w[4].startswith("reload_") for w in vcls()) == 2, f"{who}: -m 1 leaves the active one and one more: {vcls()}")
        answers("four")
        # A label: what it stands for is reloaded, the label moved, and what is active stays.
        file.write_text(text("five"))
        v.cli.ask("vcl.label site boot")
        status, out, err = reload("-l", "site", str(file))
        report.check(status == 0 and "references" in out and "now active" not in out, f"{who}: -l: {status} {out} {err}")
        answers("four")
        v.cli.ask("vcl.use site")
        answers("five")
        file.write_text(text("six"))
        status, out, err = reload()
        report.check(status == 0 and "references" in out, f"{who}: a label is active: {status} {out} {err}")
        answers("six")
        status, _, err = subprocess.run([str(RELOAD), "-n", "/nonexistent"], env=env, capture_output=True, text=True, timeout=60), None, None
        report.check(status.returncode == 1 and status.stderr, f"{who}: no such varnishd: {status}")


def text(word):
    return f'vcl 4.1; backend b none; sub vcl_recv {{ return (synth(200)); }} sub vcl_synth {{ set resp.http.X-Vcl = "{word}"; return (deliver); }}\n'


def fingerprint():
    """SHA-256 of each file of this system that no case may change, and the installed packages of these names."""
    files = [path for pattern in SYSTEM for path in pathlib.Path("/").glob(pattern) if path.is_file() and os.access(path, os.R_OK)]
    installed = subprocess.run(["dpkg-query", "-W", "varnish*", "lacquer*"], capture_output=True, text=True).stdout
    return {**{str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}, "packages": installed}


def copied(program, place):
    return str(shutil.copy(pathlib.Path(program).resolve(), place / "varnishd"))


def replaced(report, o):
    """varnishreload after the program's file was replaced: the new one takes over first."""
    program = o.varnishd
    with directory() as place, tools_of(program) as tools, Varnishd(copied(program, place), vcl=text("one")) as v:
        own = place / "varnishd"
        (v.dir / "test.vcl").write_text(text("two"))
        shutil.copy(own, place / "new")
        (place / "new").rename(own)
        exe = pathlib.Path(f"/proc/{v.proc.pid}/exe")
        report.check(str(exe.readlink()).endswith(" (deleted)"), "the program that runs lies there no more")
        p = subprocess.run([str(RELOAD), "-n", str(v.n)], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, capture_output=True,
                           text=True, timeout=60, stdin=subprocess.DEVNULL)
        report.check(p.returncode == 0 and "Upgraded from" in p.stdout and not p.stderr, f"varnishreload of another program: {p}")
        report.check(exe.readlink() == own, f"the other program runs: {exe.readlink()}")
        report.check(get(v.address, "/").get("X-Vcl") == "two", "with the VCL of now")


def lacquer(o):
    return pathlib.Path(o.varnishd).resolve().parent / "lacquer"


def profile(report, _o):
    """Of AppArmor."""
    apparmor.run(report, PACKAGING)


def image(report, o):
    container.run(report, PACKAGING, lacquer(o))


def manifests(report, o):
    kubernetes.run(report, PACKAGING, lacquer(o), o.full)


def unit(report, o):
    hardening.run(report, PACKAGING, lacquer(o))


def reloads_by_ours(report, o):
    with tools_of(o.varnishd) as tools:
        reloads(report, o.varnishd, tools)


def reloads_by_varnishs(report, o):
    reloads(report, o.varnishd, "/usr/bin")


def packing(report, o):
    release.same_twice(report, lacquer(o), o.full)


def tar_archive(report, o):
    release.archive(report, lacquer(o))


def installer_refuses(report, o):
    installer.foreign_files(report)
    installer.removed_while_it_runs(report, lacquer(o))
    installer.staged(report)
    installer.prefixes(report)


def installer_services(report, _o):
    installer.services(report)


def package_facts(report, _o):
    installer.facts(report)


def flags_for_c(report, _o):
    installer.flags_for_c(report)


def rpm_upgrade(report, _o):
    installer.rpm_upgrade(report)


def other_release(report, _o):
    installer.kept_release(report)
    installer.former_version(report)


def rpm_package(report, o):
    if o.full:
        rpm.run(report, PACKAGING, lacquer(o))


def debian_package(report, o):
    if o.full:
        roots = debian.roots(report)
        debian.outside(report, o.varnishd, roots)


CASES = (devices, profile, image, manifests, unit, reloads_by_ours, reloads_by_varnishs, replaced, packing, tar_archive, installer_refuses, installer_services,
         package_facts, flags_for_c, rpm_upgrade, other_release, rpm_package, debian_package)


def main():
    if sys.argv[1:2] == ["--inside"]:
        return debian.inside(*sys.argv[2:])
    o = options(__doc__, CASES)
    report = Report("package")
    before = fingerprint()
    report.run(o.cases, report, o, at_once=3)
    changed = before.items() ^ fingerprint().items()
    report.check(not changed, f"this system is as it was: {changed}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
