#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The first mistakes of a new operator, typed as they were made: each answer names the mistake and the next step.

Mistakes in options are in e2e/lifecycle/startup, servers that tools don't find in e2e/tooling/find, causes of failed fetches in e2e/traffic/outages.
"""
import grp
import os
import pathlib
import re
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, directory, free_port
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options, until
import leads

LIMIT = 60  # seconds; only ends a hang
NOBODY = 65534
VCL = "vcl 4.1; backend default none;"


def run(argv, **more):
    """A command's status, and all that it prints."""
    p = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, **more)
    return p.returncode, p.stdout.decode()


class Typed:
    """The programs of the build under test, and where the answers are judged."""

    def __init__(self, report, varnishd):
        self.report, self.varnishd = report, pathlib.Path(varnishd)

    def tool(self, name, *words, **more):
        return run([self.varnishd.with_name(name), *words], **more)

    def serving(self, n):
        """A server as an operator starts it, in the directory `n`, with a secret of its own."""
        server = subprocess.Popen([self.varnishd, "-F", "-n", n, "-a", "127.0.0.1:0", "-b", "none"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=die_with_parent)
        self.report.check(until(LIMIT, lambda: self.tool("varnishadm", "-n", n, "ping")[0] == 0), f"it serves in {n}")
        return server

    def refused(self, words, *wanted, status=2):
        """varnishd doesn't start, and says so in these words."""
        with directory() as d:
            got, text = run([self.varnishd, "-F", "-n", d / "n", *words])
        self.report.check(got == status and all(want in text for want in wanted), f"varnishd {words}: {got} {text!r}: wanted {wanted}")


def wrong_port(t):
    """`-b` names a port where nobody listens."""
    dead = f"127.0.0.1:{free_port()}"
    with Varnishd(t.varnishd, ["-b", dead]) as v:
        t.report.check(get(v.address, "/", host="%s:%d" % v.address).status == 503, "nobody answers")
        line = f"backend default ({dead}): connection refused; requests that need it are answered 503"
        t.report.check(until(LIMIT, lambda: any(line in said for said in v.output)), f"the terminal says {list(v.output)}")
        host, port = v.address
        status, text = t.tool("lacquer", "explain", "-n", v.n, f"http://{host}:{port}/")
        t.report.check("Reason: fetch-failed" in text and f"backend default ({dead}) failed" in text and "connection refused" in text, f"explain: {text}")
        status, text = t.tool("lacquer", "doctor", "--only", "server", "-n", v.n)
        plain = " ".join(text.split())
        t.report.check(status == 1 and "(backend-failing)" in plain and "1 failed of 1" in plain
                       and f"a connection from here to {dead}: Connection refused" in plain, f"doctor: {status} {text}")
        t.report.check("backend boot.default: connection refused" in plain, f"doctor names the cause: {text}")
        status, text = t.tool("lacquer", "status", "-n", v.n)
        t.report.check("Connections to the backend boot.default fail" in text, f"status: {text}")
        # A sound backend isn't connected to, and isn't accused.
        with Origin(simple(lambda *_: ("", b"ok")), at=("127.0.0.1", int(dead.rpartition(":")[2]))):
            t.report.check(until(LIMIT, lambda: get(v.address, "/").status == 200), "it is there now")
            text = " ".join(t.tool("lacquer", "doctor", "--only", "server", "-n", v.n)[1].split())
            t.report.check("connection refused" not in text, f"doctor, once it answers: {text}")


def own_port(t):
    """`-b` or the VCL's only backend is the server itself."""
    port = free_port()
    wanted = ("Backend default is this server's own listener a0 (", "every request would come back to this server", "Hint: Name the address and port")
    t.refused(["-a", f"127.0.0.1:{port}", "-b", f"127.0.0.1:{port}"], *wanted)
    t.refused(["-a", f":{port}", "-b", f"localhost:{port}"], *wanted)
    with directory() as d:
        (d / "default.vcl").write_text(f'vcl 4.1;\n\nbackend default {{\n    .host = "127.0.0.1";\n    .port = "{port}";\n}}\n')
        t.refused(["-a", f":{port}", "-f", d / "default.vcl"], *wanted, f"('{d}/default.vcl' Line 3 Pos 9)")
        sock = d / "sock"
        t.refused(["-a", sock, "-b", sock], f"own listener a0 ({sock})")
    # Without -a it listens on port 80.
    t.refused(["-b", "127.0.0.1"], "own listener a0 (0.0.0.0:80)")


def file_of_root(t):
    """A VCL file that the user who reads it may not read."""
    if os.geteuid() != 0:
        return t.report.note("file_of_root: needs root")
    with directory() as d:
        closed = d / "closed"
        closed.mkdir(mode=0o700)
        (closed / "site.vcl").write_text(VCL)
        t.refused(["-a", "127.0.0.1:0", "-f", closed / "site.vcl"], "It is read as the user", f"who may not enter {closed}: put it in /etc/varnish")


def secret_of_root(t):
    """A member of the server's group may read its log and its counters, but not the secret of its CLI."""
    if os.geteuid() != 0:
        return t.report.note("secret_of_root: needs root")
    with directory() as d:
        d.chmod(0o755)
        n = d / "n"
        server = t.serving(n)
        gid = os.stat(n / "_.vsm_mgt").st_gid
        member = {"user": NOBODY, "group": NOBODY, "extra_groups": [gid], "cwd": "/"}
        status, text = t.tool("varnishstat", "-1", "-n", n, **member)
        t.report.check(status == 0 and "MAIN.uptime" in text, f"varnishstat: {status} {text[:300]}")
        secret = n / "_.secret"
        wanted = f'Cannot open "{secret}": Permission denied: you (nobody) may not read the secret: it belongs to root. Type sudo before the command\n'
        for line in (f"varnishadm -n {n} ping", f"lacquer upgrade -n {n}", f"lacquer status -n {n}"):
            status, text = t.tool(*line.split(), **member)
            t.report.check(text.count(wanted) == 1, f"{line}: {status} {text!r}")
        t.report.check("this is what its shared memory tells" in text and "running" in text, f"status: {text}")
        text = " ".join(t.tool("lacquer", "doctor", "-n", n, **member)[1].split())
        t.report.check("Type sudo before the command" in text, f"doctor: {text}")
        # A secret that a group may read names that group.
        if gid:
            os.chown(secret, 0, gid)
            secret.chmod(0o640)
            # Shared memory is open, so that the secret is what is missing.
            (n / "_.vsm_mgt").chmod(0o755)
            for file in (n / "_.vsm_mgt").iterdir():
                file.chmod(0o644)
            text = t.tool("varnishadm", "-n", n, "ping", user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")[1]
            t.report.check(f"the group {grp.getgrgid(gid).gr_name} may. Type: sudo usermod -aG" in text, f"varnishadm, in no group: {text}")
            status, text = t.tool("varnishadm", "-n", n, "ping", **member)
            t.report.check(status == 0 and "PONG" in text, f"varnishadm of a member: {status} {text}")
        server.terminate()
        server.wait(LIMIT)


def one_directory(t):
    """A second server in the first one's directory, and one after a kill -9 there."""
    with Varnishd(t.varnishd, vcl=VCL) as v:
        status, text = run([t.varnishd, "-F", "-n", v.n, "-a", "127.0.0.1:0", "-b", "none"])
        pid = v.proc.pid
        t.report.check(status == 2 and f"already running (pid={pid}) (pidfile={v.n}/_.pid)" in text, f"a second server: {status} {text}")
        t.report.check(t.tool("varnishadm", "-n", v.n, "ping")[0] == 0, "the first one goes on")
    with directory() as d:
        n = d / "n"
        n.mkdir()
        # The pid is that of a process that is no server, and holds no lock on the file.
        (n / "_.pid").write_text(f"{os.getpid()}\n")
        server = t.serving(n)
        t.report.check((n / "_.pid").read_text().strip() == str(server.pid), "a pid file that was left behind holds nobody up")
        server.kill()
        server.wait(LIMIT)
        status, text = t.tool("varnishadm", "-n", n, "ping")
        t.report.check(status != 0 and f"is it running? No server in {n}" in text, f"after kill -9: {status} {text}")
        again = t.serving(n)
        again.terminate()
        t.report.check(again.wait(LIMIT) == 0, "the next one starts in the same directory, and ends")


def directory_of_another(t):
    """A working directory that can't be made or used."""
    if os.geteuid() != 0:
        return t.report.note("directory_of_another: needs root")
    with directory() as d:
        closed = d / "closed"
        closed.mkdir(mode=0o700)
        status, text = run([t.varnishd, "-F", "-n", closed / "n", "-a", "127.0.0.1:0", "-b", "none"], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        t.report.check(status == 2 and str(closed) in text and "Permission denied" in text, f"another user's directory: {status} {text}")


def words(t):
    """Names and values as they were mistyped."""
    with directory() as d:
        def check(text, *wanted, unwanted=()):
            (d / "site.vcl").write_text(text)
            status, said = t.tool("lacquer", "vcl", "check", d / "site.vcl")
            t.report.check(status == 2 and all(want in said for want in wanted) and not any(word in said for word in unwanted), f"vcl check of {text!r}: {status} {said}")

        check("", "error[version]", "Write `vcl 4.1;` as the first line")
        check("vcl 4.1; backend default none; sub vcl_fetch { }", "It is called vcl_backend_response since 4.0.", unwanted=("vcl_req_host",))
    with Varnishd(t.varnishd, vcl=VCL) as v:
        status, text = t.tool("varnishadm", "-n", v.n, "param.set", "query_drop", "utm_* fbclid")
        t.report.check(status == 0, f"varnishadm param.set query_drop: {status} {text}")
        text = v.cli.ask("param.show query_drop")
        t.report.check("utm_* fbclid" in text, f"what was set: {text}")
        status, text = t.tool("varnishadm", "-n", v.n, "param.set", "defualt_ttl", "3")
        t.report.check(status != 0 and "Is default_ttl meant?" in text, f"a mistyped parameter: {status} {text}")


def taken_port(t):
    """`-a` and `--watch` where another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        t.refused(["-a", address, "-b", "none"], f"Could not get socket {address}: Address already in use by", f"(process {os.getpid()})")
        with Varnishd(t.varnishd, ["--watch", address], vcl=VCL) as v:
            line = f"lacquer watch: {address}: Address already in use"
            said = until(LIMIT, lambda: any(line in said for said in v.output) and any("the same error isn't printed again" in said for said in v.output))
            t.report.check(said, f"--watch where another listens: {list(v.output)}")


def ports(t):
    """Ports that are none, of every option and tool that takes one."""
    for port, why in (("65536", "there is no port 65536: the highest is 65535"), ("abc", 'there is no port "abc": a port is a number'),
                      ("80x", 'there is no port "80x"'), ("-1", 'there is no port "-1"'), ("", "there is no port behind the colon")):
        there = f"127.0.0.1:{port}"
        t.refused(["-a", "127.0.0.1:0", "-b", there], why)
        t.refused(["-a", there, "-b", "none"], why)
        t.refused(["-a", "127.0.0.1:0", "-b", "none", "-T", there], why)
        t.refused(["-a", "127.0.0.1:0", "-b", "none", "--watch", there], why)
        for line in (f"lacquer watch -a {there}", f"varnishadm -T {there} ping", f"lacquer status -T {there}"):
            status, text = t.tool(*line.split(" "))
            t.report.check(status != 0 and why in text, f"{line}: {status} {text!r}")
    t.refused(["-a", "192.0.2.1:0", "-b", "none"], "this machine doesn't have that address")
    with directory() as d:
        status, text = t.tool("varnishadm", "-T", d, "ping")
        t.report.check(status == 2 and "that is a path: -T takes an address and a port, -n a server's working directory" in text, f"-T instead of -n: {text!r}")


def nobody(t):
    """No server in the directory: every tool says so at once, and none waits for one."""
    with directory() as d:
        (d / "file").write_text("")
        for n, said in ((d / "none", f"No server in {d}/none"), (d / "file", f"No server in {d}/file, which is no directory")):
            for line in ("varnishadm ping", "varnishlog -d", "varnishstat -1", "varnishncsa -d", "varnishtop -1", "lacquer status", "lacquer doctor --only server",
                         "lacquer upgrade", "lacquer explain http://a.test/", "lacquer vcl profile", "lacquer talkers"):
                tool, *words = line.split()
                at = 2 if words[:1] == ["vcl"] else 1 if tool == "lacquer" else 0
                status, text = t.tool(tool, *words[:at], "-n", n, *words[at:])
                t.report.check(status != 0 and said in text and "..." not in text, f"{line} -n {n}: {status} {text!r}")
        watch = subprocess.Popen([t.varnishd.with_name("lacquer"), "watch", "-n", d / "none", "-a", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        text = watch.stderr.readline().decode()
        watch.terminate()
        watch.communicate(timeout=LIMIT)
        t.report.check(f"No server in {d}/none" in text, f"lacquer watch says for what it waits: {text!r}")


def mistyped(t):
    """Options of every tool, commands, and words of options as they are mistyped."""
    for line, meant in (
            ("lacquer doctor --olny server", "is --only meant?"), ("lacquer plan --wrokers 3 x", "is --workers meant?"), ("lacquer simulate --foramt json x", "is --format meant?"),
            ("lacquer replay --secrte x y", "is --secret meant?"), ("lacquer asn --fromat json x", "is --format meant?"), ("lacquer vcl check --dialekt 3.0 x", "is --dialect meant?"),
            ("lacquer watch --tokne-file x", "is --token-file meant?"), ("varnishlog --jsno", "unknown option --jsno: is --json meant?"), ("varnishstat --hlep", "is --help meant?"),
            ("varnishadm --timeout 3 ping", "unknown option --timeout"), ("lacquer stauts", 'is "status" meant?'),
            ("lacquer stop", "systemctl stop varnish"), ("lacquer reload", "`varnishreload`"), ("lacquer ban /news", "varnishadm ban 'req.url ~ ^/news'"),
            ("lacquer purge /news", "varnishadm ban"), ("lacquer restart", "lacquer upgrade")):
        status, text = t.tool(*line.split())
        t.report.check(status != 0 and meant in text, f"{line}: {status} {text[:300]!r}")
    own = ["-a", "127.0.0.1:0", "-b", "none"]
    t.refused([*own, "-j", "unxi"], 'Unknown jail method "unxi"', "There are unix, linux and none.")
    t.refused([*own, "-h", "clasic"], 'Unknown hash method "clasic"', "There are critbit, classic")
    t.refused([*own, "-p", "default_ttl"], "-p lacks '=': -p name=value")
    t.refused(["-a", "127.0.0.1:0", "-b", "8080"], "-b 8080 names a host: say -b 127.0.0.1:8080 for a server on this machine")
    t.refused([*own, "-p", "defualt_ttl=3"], "Is default_ttl meant?")
    t.refused([*own, "--pears", "a@b:80"], "There is no option --pears: is --peers meant?")
    with Varnishd(t.varnishd, vcl=VCL) as v:
        for word, meant in (("pign", "Is ping meant?"), ("vcl.lsit", "Is vcl.list meant?"), ("nothing.like.it", None)):
            status, text = t.tool("varnishadm", "-n", v.n, word)
            t.report.check(status == 1 and text.startswith("Unknown request.\nType 'help' for more info.\n") and (meant or "") in text
                           and ("meant" in text) == bool(meant), f"varnishadm {word}: {status} {text!r}")


def relative_names(t):
    """A name without its directory is looked for in vcl_path, and not where the operator is."""
    with directory() as d:
        (d / "here.vcl").write_text(VCL)
        n = ["-F", "-n", d / "n", "-a", "127.0.0.1:0", "-p", f"vcl_path={d}/a:{d}/b"]
        status, text = run([t.varnishd, *n, "-f", "here.vcl"], cwd=d)
        t.report.check(status == 2 and f"It is looked for in {d}/a and {d}/b: say -f {d}/here.vcl." in text, f"-f here.vcl: {status} {text!r}")
        status, text = run([t.varnishd, *n, "-f", "gone.vcl"], cwd=d)
        t.report.check(status == 2 and text.count(f"It is looked for in {d}/a and {d}/b.\n") == 1, f"-f gone.vcl: {status} {text!r}")
    with Varnishd(t.varnishd, ["-p", "vcl_path=/nonexistent/a"], vcl=VCL) as v:
        status, text = t.tool("varnishadm", "-n", v.n, "vcl.load", "x", "here.vcl")
        t.report.check(status == 1 and "Cannot read file 'here.vcl' (No such file or directory): it is looked for in /nonexistent/a" in text, f"vcl.load: {status} {text!r}")


def who_am_i(t):
    """Which server runs is what status, doctor and the CLI say, beside the version that scripts compare."""
    with Varnishd(t.varnishd, vcl=VCL) as v:
        own = re.search(r"Lacquer \d+\.\d+\.\d+", run([t.varnishd, "-V"])[1]).group()
        for said in (t.tool("lacquer", "status", "-n", v.n), t.tool("lacquer", "doctor", "--only", "server", "-n", v.n), t.tool("varnishadm", "-n", v.n, "banner")):
            t.report.check(own in said[1] and "varnish-7.1.1 revision" in said[1], f"{own} is named: {said}")


def cookies(t):
    """A page that is passed for its cookies: explain says which came and what to type."""
    with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"ok"))) as origin, Varnishd(t.varnishd, backend=origin.address) as v:
        get(v.address, "/page", [("Cookie", "_ga=1; session=2")])
        typed = ["-n", v.n, "-H", "Cookie: _ga=1; session=2", "http://bed.test/page"]
        text = t.tool("lacquer", "explain", *typed)[1]
        t.report.check("pass-cookie" in text and "Cookies: _ga, session." in text and "type: varnishadm param.set cookie_drop '_ga'" in text, f"explain: {text}")
        # Typed as it says, it takes one cookie out and names the other one.
        status, said = t.tool("varnishadm", "-n", v.n, "param.set", "cookie_drop", "_ga")
        text = t.tool("lacquer", "explain", *typed)[1]
        t.report.check(status == 0 and "type: varnishadm param.set cookie_drop '_ga session'" in text, f"explain again: {said} {text}")
        t.tool("varnishadm", "-n", v.n, "param.set", "cookie_drop", "_ga session")
        text = t.tool("lacquer", "explain", *typed)[1]
        t.report.check("It would be a miss" in text, f"without cookies: {text}")


CASES = (wrong_port, own_port, file_of_root, secret_of_root, one_directory, directory_of_another, words, ports, nobody, mistyped, relative_names, taken_port, who_am_i, cookies, *leads.CASES)


def main():
    o = options(__doc__, CASES)
    report = Report("first_mistakes")
    report.run(o.cases, Typed(report, o.varnishd))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
