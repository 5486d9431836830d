#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Names of backends at run time: a name that moves, one with several addresses, one that nobody knows yet. The hosts file is
this suite's own, seen by the server alone (a mount namespace), and edited while it runs.
"""
import errno
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, Varnishd, executable, workdir
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60  # seconds for a change to be seen
VCL = """vcl 4.1;
backend default {{ .host = "www.bed.test"; .port = "{port}"; }}
sub vcl_recv {{ return (pass); }}
sub vcl_backend_fetch {{ if (bereq.url == "/fresh") {{ set bereq.http.Connection = "close"; }} }}
"""


def origin(host, port):
    """Says which address it has."""
    return Origin(simple(lambda *_: ("", host.encode())), at=(host, port))


def origins(host, other):
    """Two on one port: one that is free on the first address may be taken on the other."""
    while True:
        one = origin(host, 0)
        try:
            return one, origin(other, one.address[1])
        except OSError as e:
            one.close()
            if e.errno != errno.EADDRINUSE:
                raise


class Hosts:
    """A hosts file, and a program that runs another one with it."""

    def __init__(self, program):
        self.dir = workdir()
        self.file, self.program = self.dir / "hosts", self.dir / "varnishd"
        self.say()
        users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        unshare = " ".join(["unshare", *users, "--mount", "--propagation", "private"])
        inner = f"mount --bind {self.file} /etc/hosts && exec {shlex.quote(program)} \"$@\""
        executable(self.program, f"#!/bin/sh\nexec {unshare} sh -c {shlex.quote(inner)} sh \"$@\"\n")

    def say(self, *addresses):
        # In place: the mount shows this very file.
        self.file.write_text("127.0.0.1 localhost\n" + "".join(f"{a} www.bed.test\n" for a in addresses))


class Cases:
    def __init__(self, report, hosts, port):
        self.r, self.hosts, self.port = report, hosts, port

    def start(self, args=()):
        args = ["-p", "backend_dns_ttl=0.2", *args]
        return Varnishd(str(self.hosts.program), args, vcl=VCL.format(port=self.port))

    def who(self, v, path="/"):
        r = get(v.address, path)
        return r.body.decode() if r.whole() else r.status

    def moves(self):
        self.hosts.say("127.0.0.1")
        with self.start() as v:
            self.r.check([self.who(v) for _ in range(3)] == ["127.0.0.1"] * 3, "the first address answers")
            self.hosts.say("127.0.0.2")
            self.r.check(until(LIMIT, lambda: self.who(v) == "127.0.0.2"), "the name moves, and its backend with it")
            self.r.check([self.who(v) for _ in range(5)] == ["127.0.0.2"] * 5, "no old connection is used again")
            self.hosts.say()
            before = counter(v, "backend_dns_fail")
            self.r.check(until(LIMIT, lambda: counter(v, "backend_dns_fail") > before), "a lookup fails")
            self.r.check(self.who(v) == "127.0.0.2", "and changes nothing")

    def several(self):
        self.hosts.say("127.0.0.1", "127.0.0.2", "127.0.0.4")
        with self.start(["-p", "backend_dns_lazy=on"]) as v:
            # Nobody listens on the third address.
            seen = [self.who(v, "/fresh") for _ in range(12)]
            self.r.check(set(seen) == {"127.0.0.1", "127.0.0.2"}, f"all addresses that answer are used: {seen}")

    def late(self):
        self.hosts.say()
        try:
            with self.start():
                self.r.check(False, "a name without an address is refused unless backend_dns_lazy is on")
        except SystemExit as e:
            self.r.check("could not be resolved to an IP address" in str(e), f"a name without an address is refused: {e}")
        with self.start(["-p", "backend_dns_lazy=on"]) as v:
            self.r.check(until(LIMIT, lambda: "has no address now" in v.log()), f"the start warns: {v.log()}")
            self.r.check(self.who(v) == 503, "no address, no answer")
            self.hosts.say("127.0.0.1")
            self.r.check(until(LIMIT, lambda: self.who(v) == "127.0.0.1"), "the name appears")
            # Another VCL knows it at once.
            v.cli.ask(f"vcl.inline again << END\n{VCL.format(port=self.port)}\nEND")
            v.cli.ask("vcl.use again")
            self.r.check(self.who(v) == "127.0.0.1", "and a second VCL has it, too")

    def once(self):
        self.hosts.say("127.0.0.1")
        with self.start(["-p", "backend_dns_ttl=0"]) as v:
            self.hosts.say("127.0.0.2")
            v.cli.ask("param.show backend_dns_ttl")
            self.r.check(not until(1.5, lambda: self.who(v) == "127.0.0.2", 0.2), "with backend_dns_ttl=0 a name is asked once")
            self.r.check(counter(v, "backend_dns_lookup") == 0, "no lookups then")

    def many_addresses_refused(self):
        self.hosts.say("127.0.0.1", "127.0.0.2")
        try:
            with self.start():
                self.r.check(False, "two addresses of a family are refused unless backend_dns_lazy is on")
        except (SystemExit, CliError) as e:
            self.r.check("too many addresses" in str(e), f"two addresses of a family: {e}")

    def groups(self):
        """The groups of `import activedns`, which directors of udo have subscribed to."""
        vcl = """vcl 4.1;
import activedns;
import udo;
backend none none;
sub vcl_init {
    new name = activedns.dns_group("www.bed.test:PORT");
    name.set_ttl(0.2s);
    name.set_ipv_rule(ipv4);
    new all = udo.director(random);
    all.subscribe(name.get_tag());
    new last = activedns.dns_group("www.bed.test:PORT");
    last.set_ttl(0.2s);
    last.set_ipv_rule(ipv4);
    last.set_update_rule(ignore_empty);
    new kept = udo.director();
    kept.subscribe(last.get_tag());
}
sub vcl_recv {
    if (req.url == "/kept") { set req.backend_hint = kept.backend(); } else { set req.backend_hint = all.backend(); }
    return (pass);
}
""".replace("PORT", str(self.port))
        self.hosts.say("127.0.0.1")
        with Varnishd(str(self.hosts.program), vcl=vcl) as v:
            self.r.check([self.who(v, p) for p in ("/", "/kept")] == ["127.0.0.1"] * 2, "a group's address answers")
            self.hosts.say("127.0.0.2")
            self.r.check(until(LIMIT, lambda: [self.who(v, p) for p in ("/", "/kept")] == ["127.0.0.2"] * 2), "it moves")
            self.hosts.say("127.0.0.1", "127.0.0.2")
            seen = set()
            self.r.check(until(LIMIT, lambda: seen.add(self.who(v)) or seen == {"127.0.0.1", "127.0.0.2"}), "all addresses are used")
            self.hosts.say("::1")
            self.r.check(until(LIMIT, lambda: self.who(v) == 503), "no address of the family that counts: no backend")
            self.r.check(all(self.who(v, "/kept") in seen for _ in range(5)), "but with ignore_empty the last ones stay")
            self.hosts.say("127.0.0.2")
            self.r.check(until(LIMIT, lambda: self.who(v) == "127.0.0.2"), "an address is there again")
            self.hosts.say()
            # Nothing counts a group's lookups: five times its TTL.
            self.r.check(not until(1, lambda: self.who(v) != "127.0.0.2", 0.1), "a lookup that fails changes nothing")


    def quiet(self):
        """Names of `import dynamic` and `import goto` that nobody asks for meanwhile."""
        vcl = """vcl 4.1;
import dynamic;
import goto;
backend none none;
sub vcl_init {
    new d = dynamic.director(port = "PORT", ttl = 0.2s);
    new g = goto.dns_director("www.bed.test:PORT", ttl = 0.2s);
}
sub vcl_recv { return (pass); }
sub vcl_backend_fetch {
    if (bereq.url == "/goto") { set bereq.backend = g.backend(); } else { set bereq.backend = d.backend("www.bed.test"); }
}
""".replace("PORT", str(self.port))
        both = ("/", "/goto")
        self.hosts.say()
        with Varnishd(str(self.hosts.program), vcl=vcl) as v:
            def known(address):
                names = [line.split()[0] for line in v.cli.ask("backend.list *.*").splitlines() if f"({address}:" in line]
                return len(names) == 2
            self.r.check([self.who(v, p) for p in both] == [503] * 2, "nobody knows the name")
            self.hosts.say("127.0.0.1")
            # Nothing shows that the last lookup isn't due again: five times the TTL, and a look of the housekeeping.
            self.r.check(not until(1, lambda: known("127.0.0.1"), 0.2), "a name without an address waits for a request")
            self.r.check([self.who(v, p) for p in both] == ["127.0.0.1"] * 2, "the first request waits for the lookup and is answered")
            self.hosts.say("127.0.0.2")
            self.r.check(until(LIMIT, lambda: known("127.0.0.2")), "it moves without a request")
            self.r.check([self.who(v, p) for p in both] == ["127.0.0.2"] * 2, "the first request goes to the new address")
            v.cli.ask("vcl.inline other << END\nvcl 4.1; backend none none;\nEND")
            v.cli.ask("vcl.use other")
            v.cli.ask("vcl.state boot cold")
            self.hosts.say("127.0.0.1")
            # Lookups aren't counted: ten times the TTL, and two looks of the housekeeping.
            self.r.check(not until(2, lambda: known("127.0.0.1"), 0.2), "a cold VCL's names rest")
            v.cli.ask("vcl.state boot warm")
            self.r.check(until(LIMIT, lambda: known("127.0.0.1")), "a warm one's don't")


def counter(v, name):
    out = subprocess.run(["varnishstat", "-n", str(v.n), "-1", "-f", f"MAIN.{name}"], capture_output=True, text=True)
    return int(out.stdout.split()[1]) if out.returncode == 0 and out.stdout.strip() else -1


def main():
    o = options(__doc__, (Cases.moves, Cases.several, Cases.late, Cases.once, Cases.many_addresses_refused, Cases.groups, Cases.quiet))
    report, hosts = Report("dns"), Hosts(o.varnishd)
    one, other = origins("127.0.0.1", "127.0.0.2")
    with one, other:
        report.run(o.cases, Cases(report, hosts, one.address[1]))
    shutil.rmtree(hosts.dir)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
