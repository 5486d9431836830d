# SPDX-License-Identifier: BSD-2-Clause
"""The story of the Debian package, in a copy of a system that debian.py has made: beside Debian's varnish, instead of it, and on a machine that never had it.

usage: debian_story.py PACKAGE VARNISH RELEASE   VARNISH is the file of the release's own package.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import tree
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, until

LIMIT = 30
ADDRESS = ("127.0.0.1", 6081)
UNITS = pathlib.Path("/lib/systemd/system")
COMPAT = pathlib.Path("/etc/lacquer/compat")
# The release of Varnish that the package makes the server act as: 7.1 where the system's own varnish is that.
RELEASES = {"bookworm": "7.1", "noble": "7.1", "trixie": "9"}
PROFILE, LOCAL = "/etc/apparmor.d/lacquer-worker", "/etc/apparmor.d/local/lacquer-worker"


class Unit:
    """What a unit and its overrides say, and a process that does it."""

    def __init__(self, name):
        self.name, self.said, self.proc, self.pid = name, {}, None, None
        overrides = sorted(pathlib.Path(f"/etc/systemd/system/{name}.service.d").glob("*.conf"))
        for path in [UNITS / f"{name}.service", *overrides]:
            text = path.read_text().replace("\\\n", " ")
            for line in text.splitlines():
                key, eq, value = line.partition("=")
                if not eq or line.startswith(("#", ";")):
                    continue
                # An empty value forgets what was said before.
                self.said[key.strip()] = [*self.said.get(key.strip(), []), value.strip()] if value.strip() else []

    def one(self, key):
        return self.said.get(key, [None])[-1]

    def start(self):
        user, group = self.one("User"), self.one("Group")
        for name in self.said.get("RuntimeDirectory", []):
            subprocess.run(["install", "-d", "-o", user or "root", "-g", group or "root", f"/run/{name}"], check=True)
        argv = shlex.split(self.one("ExecStart"))
        self.output = open(f"/tmp/{self.name}.output", "ab")  # noqa: SIM115
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, user=user, group=group,
                                     extra_groups=[] if user else None, start_new_session=True)
        if self.one("Type") == "forking":
            if self.proc.wait(LIMIT) != 0:
                raise SystemExit(f"{self.name}: {self.text()}")
            pid_file = pathlib.Path(self.one("PIDFile"))
            self.pid = int(until(LIMIT, lambda: pid_file.exists() and pid_file.read_text().strip()))
        else:
            self.pid = self.proc.pid

    def reload(self):
        """(status, output) of ExecReload."""
        argv = shlex.split(self.one("ExecReload").replace("$MAINPID", str(self.pid)))
        p = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout + p.stderr

    def lives(self):
        return self.pid is not None and pathlib.Path(f"/proc/{self.pid}/stat").exists() and \
            pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"

    def stop(self):
        if self.lives():
            os.kill(self.pid, signal.SIGTERM)
        if self.proc and self.proc.poll() is None:
            self.proc.wait(LIMIT)
        return until(LIMIT, lambda: not self.lives())

    def text(self):
        return pathlib.Path(f"/tmp/{self.name}.output").read_text(errors="replace")[-2000:]


def run(*argv):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return p.returncode, p.stdout + p.stderr


def vcl(port, word):
    return f"""vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_deliver {{ set resp.http.X-Site = "{word}"; set resp.http.X-Hits = obj.hits; }}
"""


def command_line():
    """The words of the unit's ExecStart."""
    return shlex.split(re.search(r"^ExecStart=(.*)$", (UNITS / "varnish.service").read_text().replace("\\\n", " "), re.M)[1])


class Story:
    """The steps. Each checks what an operator would look at."""

    def __init__(self, report, package, varnish, release, origin):
        self.report, self.check, self.package, self.own, self.port = report, report.check, package, varnish, origin.address[1]
        self.compat, self.has_scripts = RELEASES[release], pathlib.Path("/etc/init.d/varnish").exists()
        self.vcl = pathlib.Path("/etc/varnish/default.vcl")
        self.secret = pathlib.Path("/etc/varnish/secret")
        self.log = pathlib.Path("/var/log/varnish/varnishncsa.log")
        self.varnish = self.ncsa = None

    def site(self, word):
        self.vcl.write_text(vcl(self.port, word))

    def start(self, what):
        self.varnish, self.ncsa = Unit("varnish"), Unit("varnishncsa")
        self.varnish.start()
        up = until(LIMIT, lambda: get(ADDRESS, "/up").status == 200, 0.1)
        self.check(up, f"{what}: serves; {self.varnish.text()}")
        self.ncsa.start()

    def stop(self, what):
        self.check(self.ncsa.stop(), f"{what}: varnishncsa stops")
        self.check(self.varnish.stop(), f"{what}: varnish stops")

    def serves(self, what, word):
        """The site's VCL is at work, the second answer comes out of the cache, and requests are in the log of that name."""
        path = f"/{re.sub('[^a-z]+', '-', what.lower())}-{time.monotonic_ns()}"
        first, second = get(ADDRESS, path), get(ADDRESS, path)
        self.check(first.whole() and first.get("X-Site") == word and second.get("X-Hits") == "1",
                   f"{what}: {word} is served and kept: {first} {first.fields} {second} {second.fields}")

        def logged():
            # A tool that has just been started shows what comes from then on.
            get(ADDRESS, path)
            return self.log.exists() and path in self.log.read_text()
        self.check(until(LIMIT, logged, 0.1), f"{what}: requests are in {self.log}; {self.ncsa.text()}")

    def install(self, what, *argv):
        status, out = run(*argv, self.package)
        return self.check(status == 0, f"{what}: installs without a question: {out}")

    def debian(self):
        """An operator's Debian varnish: own VCL, an override, a log."""
        self.site("one")
        drop = pathlib.Path("/etc/systemd/system/varnish.service.d")
        drop.mkdir(parents=True)
        self.unit_line = command_line()
        own = [*self.unit_line, "-a", ":6086,PROXY", "-p", "default_ttl=77", *(["-j", "linux"] if self.compat == "9" else [])]
        (drop / "override.conf").write_text("[Service]\nExecStart=\nExecStart=" + " \\\n   ".join(own) + "\n")
        self.lines = {name: Unit(name).said for name in ("varnishncsa",)}
        bare = Unit("varnish").said
        self.bare = {key: bare.get(key) for key in ("ExecReload", "LimitNOFILE", "LimitMEMLOCK", *(["Type"] if self.compat == "9" else []))}
        self.start("Debian's")
        self.serves("Debian's", "one")
        status, out = self.varnish.reload()
        self.check(status == 0, f"Debian's: reloads: {out}")
        self.stop("Debian's")
        self.kept = {path: path.read_bytes() for path in (self.vcl, self.secret)}
        self.old_log = self.log.read_text()

    def replaced(self):
        """Ours beside it: nothing of the operator's changes, and Debian's package stays, with its varnishtest."""
        if not self.install("over Debian's", "dpkg", "-i"):
            return False
        for path, octets in self.kept.items():
            self.check(path.read_bytes() == octets, f"{path} is as it was")
        self.check(self.log.exists() and self.log.read_text() == self.old_log, "the log is as it was")
        self.check(not list(pathlib.Path("/etc/varnish").glob("*.dpkg-*")), "no left-over versions of configuration files")
        line, wanted = command_line(), self.unit_line
        if self.compat == "7.1":
            # These releases have no HTTP/2 there, and -j with what is its default here.
            line, wanted = (" ".join(words).replace(" -p feature=+http2", "").replace(" -j unix,user=vcache", "") for words in (line, wanted))
        self.check(line == wanted, f"varnish.service has Debian's command line: {line}")
        self.check(COMPAT.read_text() == f"{self.compat}\n", f"it acts as {COMPAT.read_text()}")
        ours = Unit("varnish").said
        self.check({key: ours.get(key) for key in self.bare} == self.bare, f"varnish.service is run as Debian's: {ours}")
        ours = Unit("varnishncsa").said
        for key in ("Type", "PIDFile", "RuntimeDirectory", "User", "Group", "ExecStart", "ExecReload"):
            self.check(ours[key] == self.lines["varnishncsa"][key], f"varnishncsa.service: {key} is {ours[key]}")
        for path in ("/usr/sbin/varnishd", "/usr/bin/varnishlog", "/usr/bin/varnishadm", "/usr/bin/varnishstat", "/usr/bin/varnishtop",
                     "/usr/bin/varnishhist", "/usr/bin/varnishncsa"):
            self.check(os.path.realpath(path) == "/usr/bin/lacquer", f"{path} is ours")
        conffiles = run("dpkg-query", "-W", "-f", "${Conffiles}", "lacquer")[1].split()
        self.check(PROFILE in conffiles and pathlib.Path(LOCAL).exists(), f"a profile for AppArmor, and a place for lines of the operator's: {conffiles}")
        version = run("varnishd", "-V")[1]
        self.check("acquer" in version and {"7.1": "varnish-7.1.1", "9": "varnish-9."}[self.compat] in version, f"varnishd -V: {version}")
        self.check("installed" in run("dpkg-query", "-W", "-f", "${db:Status-Status}", "varnish")[1], "Debian's package stays")
        case = pathlib.Path("/tmp/case.vtc")
        case.write_text('varnishtest "A"\nserver s1 {\n\trxreq\n\ttxresp\n} -start\nvarnish v1 -vcl+backend { } -start\n'
                        'client c1 {\n\ttxreq\n\trxresp\n\texpect resp.status == 200\n} -run\n'
                        'shell { varnishd -V 2>&1 | grep -q -i lacquer }\n')
        status, out = run("varnishtest", str(case))
        self.check(status == 0, f"varnishtest is there, and tests ours: {out[-600:]}")
        return True

    def given_back(self):
        """Without ours Debian's is what it was; then ours again."""
        status, out = run("dpkg", "-r", "lacquer")
        self.check(status == 0, f"removal beside Debian's: {out}")
        changed = [line for line in run("dpkg", "--verify", "varnish")[1].splitlines() if "/etc/" not in line]
        left = [str(p) for d in ("/usr/bin", "/usr/sbin", str(UNITS), "/usr/share/varnish") for p in pathlib.Path(d).glob("*.debian")]
        self.check(not changed and not left, f"Debian's files are back: {changed} {left}")
        self.check("varnish" not in run("dpkg-divert", "--list")[1], "no diversion is left")
        self.start("Debian's again")
        self.check("acquer" not in run("varnishd", "-V")[1], "it is Debian's")
        self.serves("Debian's again", "one")
        self.stop("Debian's again")
        self.old_log = self.log.read_text()
        self.install("beside Debian's again", "dpkg", "-i")

    def reinstalled(self):
        """An upgrade of Debian's package changes nothing of ours."""
        ours = {path: path.read_bytes() for path in (UNITS / "varnish.service", UNITS / "varnishncsa.service")}
        status, out = run("dpkg", "--force-confold", "-i", self.own)
        self.check(status == 0, f"Debian's package is upgraded beside ours: {out}")
        self.check(all(path.read_bytes() == octets for path, octets in ours.items()), "its upgrade leaves our units")
        self.check(os.path.realpath("/usr/sbin/varnishd") == "/usr/bin/lacquer", "its upgrade leaves our programs")

    def serviced(self, what, restarts=True, answer=200):
        """As on a machine without systemd: by the script of init. (Debian's doesn't restart: it tests the command line first,
        and finds the address in use.)"""
        self.check(run("service", "varnish", "status")[0] == 3, f"{what}: doesn't run yet")
        status, out = run("service", "varnish", "start")
        self.check(status == 0 and until(LIMIT, lambda: get(ADDRESS, "/up").whole(answer), 0.1), f"{what}: service varnish start: {out}")
        pid = int(pathlib.Path("/run/varnishd.pid").read_text())
        self.check(run("service", "varnish", "status")[0] == 0, f"{what}: service varnish status")
        self.check(os.path.realpath(f"/proc/{pid}/exe") == "/usr/bin/lacquer", f"{what}: ours runs")
        status, out = run("service", "varnish", "reload")
        self.check(status == 0, f"{what}: service varnish reload: {out}")
        if restarts:
            status, out = run("service", "varnish", "restart")
            again = until(LIMIT, lambda: get(ADDRESS, "/up").whole(answer), 0.1)
            old, pid = pid, int(pathlib.Path("/run/varnishd.pid").read_text())
            self.check(status == 0 and again and pid != old, f"{what}: service varnish restart: {out}")
        status, out = run("service", "varnish", "stop")
        self.check(status == 0 and until(LIMIT, lambda: not pathlib.Path(f"/proc/{pid}/exe").exists()), f"{what}: service varnish stop: {out}")

    def works(self):
        self.start("ours")
        self.check("lacquer" in run("varnishd", "-V")[1].lower(), "ours runs")
        self.serves("ours", "one")
        self.check(self.log.read_text().startswith(self.old_log), "the log goes on where it was")
        status, out = run("varnishadm", "param.show", "default_ttl")
        self.check(status == 0 and "Value is: 77.000" in out, f"the override's options count: {out}")
        status, out = run("varnishadm", "-T", "localhost:6082", "-S", str(self.secret), "ping")
        self.check(status == 0 and "PONG" in out, f"-T and -S: {out}")
        worker = tree(self.varnish.pid)[-1]
        owner = pathlib.Path(f"/proc/{worker}").stat().st_uid
        self.check(worker != self.varnish.pid and run("id", "-un", str(owner))[1].strip() == "vcache", f"the worker runs as vcache, not {owner}")
        status, out = run("varnishstat", "-1", "-I", "MAIN.cache_hit")
        self.check(status == 0 and "MAIN.cache_hit" in out, f"varnishstat finds it: {out}")

    def reloads(self):
        self.site("two")
        status, out = self.varnish.reload()
        self.check(status == 0 and "now active" in out, f"reload: {out}")
        self.serves("after a reload", "two")
        self.vcl.write_text("vcl 4.1;\nbackend default none;\nsub vcl_recv { set reg.url = 1; }\n")
        status, out = self.varnish.reload()
        self.check(status != 0 and "reg.url" in out, f"reload of bad VCL says why: {out}")
        self.serves("after a bad reload", "two")
        for _ in range(3):
            self.site("three")
            self.varnish.reload()
        status, out = run("varnishreload", "-m", "1")
        left = [line.split() for line in run("varnishadm", "vcl.list")[1].splitlines() if "reload_" in line and "discarded" not in line]
        self.check(status == 0 and len(left) == 2, f"varnishreload -m 1 leaves one beside the active: {left} {out}")
        self.serves("after -m", "three")

    def rotated(self):
        """By Debian's script, which asks init's: here that may act for once, and finds itself enabled."""
        before = self.log.read_text()
        with open("/etc/default/varnishncsa", "a") as f:
            f.write("VARNISHNCSA_ENABLED=1\n")
        policy = pathlib.Path("/usr/sbin/policy-rc.d")
        forbids = policy.read_text()
        policy.write_text("#!/bin/sh\nexit 0\n")
        self.rotate()
        policy.write_text(forbids)
        self.check(pathlib.Path(f"{self.log}.1").read_text().startswith(before), "the old log is set aside")
        self.serves("after the rotation", "three")
        self.log.rename(f"{self.log}.2")
        self.check(self.ncsa.reload()[0] == 0, "varnishncsa reloads")
        self.serves("after varnishncsa's reload", "three")

    def rotate(self):
        text = pathlib.Path("/etc/logrotate.d/varnish").read_text()
        if self.compat == "9":
            # Debian 13's script has systemd reload the unit.
            self.check("systemctl try-reload-or-restart varnishncsa.service" in text, f"logrotate: {text}")
            self.log.rename(f"{self.log}.1")
            self.check(self.ncsa.reload()[0] == 0, "varnishncsa reloads after the rotation")
        elif shutil.which("logrotate"):
            status, out = run("logrotate", "-f", "/etc/logrotate.d/varnish")
            self.check(status == 0, f"logrotate: {out}")
        else:
            self.log.rename(f"{self.log}.1")
            script = re.search(r"postrotate\n(.*)endscript", text, re.S)[1]
            status, out = run("sh", "-c", script)
            self.check(status == 0, f"after the rotation: {out}")

    def purged_old(self):
        """Debian's package goes, ours stays."""
        self.stop("ours")
        if run("dpkg", "-s", "varnish-modules")[0] == 0:
            run("dpkg", "-r", "varnish-modules")
        status, out = run("dpkg", "--purge", "varnish")
        self.check(status == 0, f"purge of Debian's: {out}")
        left = [path.name for path in UNITS.glob("varnish*") if "Lacquer" in path.read_text() or path.name == "varnishncsa.service"]
        self.check(sorted(left) == ["varnish.service", "varnishncsa.service"], f"a purge of Debian's package leaves our units: {left}")
        self.check(self.vcl.exists() and "three" in self.vcl.read_text(), "a purge of Debian's package leaves the VCL")
        self.check(self.secret.exists() and self.secret.stat().st_mode & 0o077 == 0, "there is a secret that nobody else can read")
        self.start("after the purge of Debian's")
        self.serves("after the purge of Debian's", "three")

    def upgraded(self):
        """The package again, while it runs: the server goes on as the new program, in the same process, with another worker."""
        manager, worker = self.varnish.pid, tree(self.varnish.pid)[-1]
        if self.install("again", "dpkg", "-i"):
            self.check(self.varnish.lives(), "an upgrade by itself ends nothing")
            exe = os.readlink(f"/proc/{manager}/exe")
            self.check("deleted" not in exe and tree(manager)[-1] != worker, f"the new program runs: {exe} {tree(manager)} {worker}")
            self.serves("after an upgrade", "three")
            status, out = self.varnish.reload()
            self.check(status == 0, f"reload after an upgrade: {out}")
            os.kill(tree(self.varnish.pid)[-1], signal.SIGKILL)
            self.check(until(LIMIT, lambda: get(ADDRESS, "/up").status == 200, 0.1), "a worker is started after an upgrade")
            self.serves("with a new worker", "three")

    def removed(self):
        self.stop("before removal")
        # Other packages here may need a varnish, which ours provided until now.
        status, out = run("dpkg", "--force-depends", "-r", "lacquer")
        self.check(status == 0, f"removal: {out}")
        self.check(self.vcl.exists() and self.secret.exists() and self.log.exists(), "removal leaves VCL, secret and logs")
        left = [p for p in ("/usr/sbin/varnishd", "/usr/bin/varnishlog", "/usr/bin/lacquer", str(UNITS / "varnish.service"),
                            "/var/lib/varnish") if os.path.lexists(p)]
        self.check(not left, f"removal leaves {left}")
        self.check("varnish" not in run("dpkg-divert", "--list")[1], "removal leaves no diversion")
        other = "9\n" if self.compat == "7.1" else "7.1\n"
        COMPAT.write_text(other)
        self.install("after removal", "dpkg", "-i")
        self.check("three" in self.vcl.read_text() and COMPAT.read_text() == other, "what was left is taken up again")
        status, out = run("dpkg", "--force-depends", "--purge", "lacquer")
        left = [p for p in (PROFILE, LOCAL, str(COMPAT.parent), "/etc/varnish", "/var/lib/varnish", "/var/log/varnish", "/etc/logrotate.d/varnish", "/etc/init.d/varnish",
                            "/etc/init.d/varnishncsa", "/etc/default/varnish") if os.path.lexists(p)]
        self.check(status == 0 and not left, f"a purge leaves {left}: {out}")

    def without_users(self, *groups):
        # Debian's package leaves this behind, which would name a user that is gone.
        run("dpkg-statoverride", "--remove", "/var/log/varnish")
        for user in ("vcache", "varnishlog", "varnish", "vinyllog", "vinyl"):
            run("deluser", "--quiet", user)
        for group in groups:
            run("delgroup", "--quiet", group)

    def of_vinyl(self):
        """A machine that had Vinyl Cache: its users, its folder with VCL and secret."""
        self.without_users("varnish")
        shutil.rmtree("/etc/systemd/system/varnish.service.d")
        run("addgroup", "--system", "vinyl")
        for user in ("vinyl", "vcache", "vinyllog"):
            run("adduser", "--quiet", "--system", "--no-create-home", "--home", "/nonexistent", "--ingroup", "vinyl", user)
        folder = pathlib.Path("/etc/vinyl-cache")
        folder.mkdir()
        (folder / "secret").write_text("of Vinyl Cache\n")
        (folder / "default.vcl").write_text(vcl(self.port, "five"))
        kept = {path: path.read_bytes() for path in folder.iterdir()}
        if not self.install("after Vinyl Cache", "dpkg", "-i"):
            return
        self.check(os.path.realpath("/etc/varnish") == str(folder), f"/etc/varnish leads to {os.path.realpath('/etc/varnish')}")
        for name, other in (("vinyl-cache", "varnish"), ("vinylncsa", "varnishncsa")):
            self.check(os.path.realpath(UNITS / f"{name}.service") == os.path.realpath(UNITS / f"{other}.service"), f"{name}.service is {other}.service")
        self.start("after Vinyl Cache")
        self.serves("after Vinyl Cache", "five")
        status, out = run("varnishadm", "-T", "localhost:6082", "-S", str(folder / "secret"), "ping")
        self.check(status == 0 and "PONG" in out, f"Vinyl Cache's secret: {out}")
        self.stop("after Vinyl Cache")
        status, out = run("dpkg", "--force-depends", "--purge", "lacquer")
        self.check(status == 0 and not os.path.lexists("/etc/varnish"), f"a purge after Vinyl Cache: {out}")
        self.check({path: path.read_bytes() for path in folder.iterdir()} == kept, "its folder is as it was")
        shutil.rmtree(folder)
        self.without_users("varnish", "vinyl")

    def fresh(self):
        """A machine that never had Debian's: users, a VCL, a secret come with the package, and it starts as it is."""
        if not self.install("afresh", "dpkg", "-i"):
            return
        self.check(self.vcl.exists() and self.secret.stat().st_mode & 0o077 == 0, "a VCL and a secret")
        self.check(COMPAT.read_text() == f"{self.compat}\n", f"afresh it acts as {COMPAT.read_text()}")
        self.check(all(run("id", user)[0] == 0 for user in ("varnish", "vcache", "varnishlog")), "the users")
        unit = Unit("varnish")
        unit.start()
        # Nobody listens on its backend's port.
        self.check(until(LIMIT, lambda: get(ADDRESS, "/").status == 503, 0.1), f"the VCL of the package is loaded: {unit.text()}")
        self.check(unit.reload()[0] == 0, "and reloaded")
        self.check(unit.stop(), "and it stops")
        self.serviced("afresh", answer=503)

    def taken_back(self):
        """The way back where only ours was: Debian's package comes beside it, then ours goes. The VCL and the secret stay."""
        self.site("four")
        kept = {path: path.read_bytes() for path in (self.vcl, self.secret)}
        status, out = run("dpkg", "--force-confold", "-i", self.own)
        self.check(status == 0 and os.path.realpath("/usr/sbin/varnishd") == "/usr/bin/lacquer", f"Debian's package beside ours: {out}")
        status, out = run("dpkg", "-r", "lacquer")
        changed = [line for line in run("dpkg", "--verify", "varnish")[1].splitlines() if "/etc/" not in line]
        self.check(status == 0 and not changed and "varnish" not in run("dpkg-divert", "--list")[1], f"the way back: {changed} {out}")
        for path, octets in kept.items():
            self.check(path.read_bytes() == octets, f"the way back leaves {path}")
        self.start("the way back")
        self.serves("the way back", "four")
        self.stop("the way back")

    def tell(self):
        self.debian()
        if not self.replaced():
            return
        self.serviced("with Debian's script" if self.has_scripts else "with our script", restarts=not self.has_scripts)
        self.given_back()
        self.reinstalled()
        for step in (self.works, self.reloads, self.rotated, self.purged_old, self.upgraded, self.removed, self.of_vinyl, self.fresh, self.taken_back):
            step()


def main():
    package, varnish, release = sys.argv[1:]
    report = Report("package")
    with Origin(simple(lambda method, path, fields: ("Cache-Control: max-age=60\r\n", b"body " + path.encode()))) as origin:
        story = Story(report, package, varnish, release, origin)
        try:
            story.tell()
        finally:
            for unit in (story.ncsa, story.varnish):
                if unit:
                    unit.stop()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
