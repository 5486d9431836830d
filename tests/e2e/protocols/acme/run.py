#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`--acme`: certificates from a CA, got, kept, renewed and used, while clients ask; and a CA that is slow, wrong, or away.

The CA is ours (`ca.py`); with --full pebble, Let's Encrypt's own test CA, judges the client, too (Go builds it).
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.beside import beside
from bed.daemon import Varnishd, workdir
from bed.http import get
from bed.logs import read_log
from bed.origin import Origin
from bed.report import Report, options, until
from ca import Ca, Refused

LIMIT = 90  # seconds; it only ends what hangs
VCL = """vcl 4.1;
backend none none;
sub vcl_recv { return (synth(200)); }
"""
# Nobody may get in the way of a challenge.
HOSTILE = """vcl 4.1;
backend none none;
sub vcl_recv { return (synth(403)); }
"""


class World:
    """A CA and a state directory, and servers that use them."""

    def __init__(self, program):
        self.program, self.dir = program, workdir()
        self.ca = Ca(self.dir / "ca")
        self.state = self.dir / "state"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ca.__exit__()
        shutil.rmtree(self.dir, ignore_errors=True)

    def place(self):
        return self.state / f"127.0.0.1-{self.ca.port}-dir"

    def acme(self, names, *more):
        settings = [f"directory={self.ca.directory}", f"ca-file={self.ca.trusted}", f"state-dir={self.state}", *more]
        # The last one given counts.
        return ["--acme", ",".join([*names, "retry=1s", *settings])]

    def server(self, names, *more, vcl=VCL, args=()):
        """One that is asked for proofs at its own ports."""
        v = Varnishd(self.program, [*self.acme(names, *more), "-a", "plain=127.0.0.1:0", "-a", "tls=127.0.0.1:0,https", *args], vcl=vcl)
        self.ca.http_port, self.ca.tls_port = v.addresses["plain"][1], v.addresses["tls"][1]
        return v

    def shown(self, v, name):
        """The certificate that a client of this name is shown, which it trusts: its serial; or why it doesn't."""
        context = ssl.create_default_context(cafile=self.ca.trusted)
        try:
            with socket.create_connection(v.addresses["tls"], LIMIT) as s, context.wrap_socket(s, server_hostname=name) as sealed:
                return sealed.getpeercert()["serialNumber"]
        except (ssl.SSLError, OSError) as e:
            return e

    def is_served(self, v, name):
        return isinstance(self.shown(v, name), str)

    def await_served(self, v, name):
        return until(LIMIT, lambda: self.is_served(v, name))


def said(v, text):
    return until(LIMIT, lambda: text in "".join(v.output))


def anybodys(v, name):
    """The certificate for a name in DER, whoever signed it; b"" without one."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(v.addresses["tls"], LIMIT) as s, context.wrap_socket(s, server_hostname=name) as sealed:
            return sealed.getpeercert(True)
    except OSError:
        return b""


def processes(v):
    """The pids of the process that talks to the CA."""
    own = []
    for pid in v.pids():
        try:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"lacquer-acme\0"):
                own.append(pid)
        except OSError:
            pass
    return own


def both_challenges(report, program):
    for kind in ("http-01", "tls-alpn-01"):
        with World(program) as w, w.server(["a.test", "B.test", "me@a.test"], f"challenge={kind}", vcl=HOSTILE) as v:
            for name in ("a.test", "b.test"):
                report.check(w.await_served(v, name), f"{kind}: {name} is served: {w.shown(v, name)}\n{v.log()}")
            report.check(sorted(w.ca.checks) == [(n, kind, "ready") for n in ("a.test", "b.test")], f"{kind}: proofs {w.ca.checks}")
            (account,) = w.ca.accounts.values()
            report.check(account["contact"] == ["mailto:me@a.test"], f"{kind}: the account's contact {account}")
            report.check(said(v, "ACME: a.test: new certificate from CN=Test CA, valid until "), f"{kind}: the log says so")
            report.check(until(LIMIT, lambda: v.counter("MGT.acme_issued") == 2), f"{kind}: MGT.acme_issued {v.counter('MGT.acme_issued')}")
            report.check(get(v.addresses["plain"], "/").status == 403, f"{kind}: everything else is VCL's")


def kept(report, program):
    """What was got is kept, for root alone, and used again by the next server without a question to the CA."""
    with World(program) as w:
        with w.server(["a.test"]) as v:
            report.check(w.await_served(v, "a.test"), f"kept: {v.log()}")
            serial = w.shown(v, "a.test")
            until(LIMIT, lambda: (w.place() / "a.test.pem").exists())
            for pid in processes(v):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                uid = status.split("Uid:")[1].split()[0]
                report.check(os.getuid() != 0 or uid != "0" or "-jnone" in v.cli.ask("banner"), f"the process isn't root: {uid}")
            report.check(is_refused(w), "a second server doesn't get the directory")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [w.place(), *w.place().iterdir()]}
        report.check(modes.pop(w.place().name) == 0o700 and set(modes.values()) == {0o600}, f"modes {modes}")
        report.check(w.place().stat().st_uid == os.getuid(), "the directory's owner")
        pem = (w.place() / "a.test.pem").read_text()
        report.check(pem.count("PRIVATE KEY-----") == 2 and pem.count("BEGIN CERTIFICATE") == 2, "key and chain in one file")
        w.ca.down = True
        with w.server(["a.test"]) as v:
            report.check(w.shown(v, "a.test") == serial, f"the same certificate at once: {w.shown(v, 'a.test')}, before {serial}")
            v.cli.ask("stop")
            v.cli.ask("start")
            v.addresses.update({n: (h, int(p)) for n, h, p in (line.split() for line in v.cli.ask("debug.listen_address").splitlines())})
            report.check(w.shown(v, "a.test") == serial, "and after a restart of the worker")
        report.check(len(w.ca.orders) == 1, f"one order: {w.ca.names()}")
        # Another account is no reason to forget the certificates, a damaged file is one to get a new one.
        w.ca.down = False
        (w.place() / "a.test.pem").write_text("junk")
        with w.server(["a.test"]) as v:
            report.check(w.await_served(v, "a.test") and w.shown(v, "a.test") != serial, f"damaged: a new one\n{v.log()}")
            report.check(said(v, "ACME: a.test: the stored certificate can't be used: "), f"and why\n{v.log()}")
        report.check(len(w.ca.accounts) == 1, f"one account: {w.ca.accounts}")


def is_refused(w):
    d = workdir()
    p = subprocess.run([w.program, "-F", "-n", str(d / "n"), "-a", "127.0.0.1:0", "-b", "none", *w.acme(["a.test"])],
                       capture_output=True, text=True, timeout=LIMIT, check=False)
    shutil.rmtree(d, ignore_errors=True)
    return p.returncode != 0 and f"ACME: {w.place()}: another server uses it" in p.stderr


class Load:
    """Clients that ask over TLS, a connection each or one for many requests, and believe nobody who can't prove who it is."""

    def __init__(self, w, v, name, clients=8):
        self.done, self.failed, self.over = 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(w, v, name, n % 2), daemon=True) for n in range(clients)]
        for t in self.threads:
            t.start()

    def ask(self, w, v, name, keeps):
        context = ssl.create_default_context(cafile=w.ca.trusted)
        request = f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        while not self.over.wait(0.01):
            try:
                with socket.create_connection(v.addresses["tls"], LIMIT) as s, context.wrap_socket(s, server_hostname=name) as sealed:
                    for _ in range(50 if keeps else 1):
                        sealed.sendall(request)
                        got = b""
                        while b"</html>" not in got:
                            piece = sealed.recv(65536)
                            if not piece:
                                raise OSError("cut")
                            got += piece
                        if not got.startswith(b"HTTP/1.1 200"):
                            raise OSError(repr(got[:40]))
                        self.done += 1
            except OSError as e:
                self.failed.append(repr(e))

    def end(self):
        self.over.set()
        for t in self.threads:
            t.join(LIMIT)


def renewal(report, program, kind, rounds):
    """Certificates that live for seconds are renewed at two thirds of their life, while clients ask."""
    with World(program) as w:
        # A third of it has to do for a renewal on a busy machine.
        w.ca.lifetime = 30
        with w.server(["a.test"], f"challenge={kind}") as v:
            report.check(w.await_served(v, "a.test"), f"renewal by {kind}: the first\n{v.log()}")
            load = Load(w, v, "a.test", clients=4)
            report.check(until(LIMIT + 30 * rounds, lambda: len(w.ca.issued) > rounds), f"renewal by {kind}: {len(w.ca.issued)} certificates")
            load.end()
            report.note(f"{kind}: {load.done} requests over {len(w.ca.issued) - 1} renewals, {len(load.failed)} failed")
            report.check(not load.failed and load.done > 50, f"renewal by {kind}: {load.failed[:3]} of {load.done}")


def renewal_by_http(report, program, rounds):
    renewal(report, program, "http-01", rounds)


def renewal_by_tls(report, program, rounds):
    renewal(report, program, "tls-alpn-01", rounds)


def by_window(report, program):
    """A CA that suggests a time is heard; the order says which certificate it replaces."""
    with World(program) as w:
        w.ca.window = lambda begin, end: (begin - 20, begin - 10) if len(w.ca.issued) == 1 else (begin + 1000, end)
        with w.server(["a.test"]) as v:
            report.check(until(LIMIT, lambda: len(w.ca.issued) == 2), f"a window in the past renews at once: {w.ca.issued}\n{v.log()}")
            report.check(w.await_served(v, "a.test"), "and is served")
            report.check(len(w.ca.replaced) == 1, f"the order names the one before: {w.ca.replaced}")
            report.check(len(w.ca.issued) == 2, f"one in the future doesn't: {w.ca.issued}")


def refusals(report, program):
    """A name that fails doesn't hold up another; why it failed is said in the CA's words; what the CA asks to wait is waited."""
    with World(program) as w:
        def order(name):
            if name == "busy.test":
                raise Refused(429, "rateLimited", "too many certificates", **{"Retry-After": "3600"})
            if name == "no.test":
                raise Refused(400, "rejectedIdentifier", "not that\nname")

        def check(name):
            if name == "bad.test" and w.ca.names().count(name) == 1:
                raise Refused(400, "dns", "no address for bad.test")
        w.ca.before_order, w.ca.before_check = order, check
        w.ca.stale_nonces = 2
        with w.server(["busy.test", "no.test", "bad.test", "good.test"]) as v:
            report.check(w.await_served(v, "good.test"), f"refusals: the good one\n{v.log()}")
            report.check(said(v, "ACME: busy.test: rateLimited: too many certificates; next attempt in 36"), f"refusals: the wait\n{v.log()}")
            report.check(said(v, "ACME: no.test: rejectedIdentifier: not that name; next attempt in "), f"refusals: one line\n{v.log()}")
            report.check(said(v, "ACME: bad.test: dns: no address for bad.test; next attempt in "), f"refusals: the check's own words\n{v.log()}")
            report.check(w.await_served(v, "bad.test"), f"refusals: tried again\n{v.log()}")
            kinds = [kind for name, kind, _ in w.ca.checks if name == "bad.test"]
            report.check(len(set(kinds)) == 2, f"refusals: the other challenge's turn: {kinds}")
            shown = anybodys(v, "busy.test")
            report.check(b"Placeholder" in shown and b"busy.test" in shown, f"refusals: a placeholder until it is there: {shown[:200]}")
            p = subprocess.run([pathlib.Path(program).with_name("lacquer"), "tls", "status", "-n", str(v.n), "--check", "1"], capture_output=True, text=True, timeout=LIMIT)
            report.check(p.returncode == 3 and re.search(r"acme:busy.test +none yet +busy.test\n +! ACME, after 1 failures: rateLimited", p.stdout), f"refusals: tls status: {p}")
            report.comes(lambda: v.counter("MGT.acme_failed"), lambda n: n >= 3, "refusals are counted")
            until(LIMIT, lambda: (w.place() / "busy.test.state").exists())
        # Who restarts a server doesn't begin the series anew.
        before = len(w.ca.names())
        with w.server(["busy.test", "good.test"]) as v:
            report.check(w.await_served(v, "good.test"), "refusals: after a restart")
        report.check("busy.test" not in w.ca.names()[before:], "refusals: a wait outlives a restart")


def wrong_clock(report, program):
    """A certificate that can't be used doesn't take the place of one that can."""
    with World(program) as w:
        w.ca.lifetime = 12
        with w.server(["a.test"]) as v:
            report.check(w.await_served(v, "a.test"), f"clock: the first\n{v.log()}")
            w.ca.starts = 7200
            report.check(said(v, "ACME: a.test: the certificate is not valid yet: is this machine's clock slow?"), f"clock: slow\n{v.log()}")
            w.ca.starts = -7200
            report.check(said(v, "ACME: a.test: the certificate has ended already: is this machine's clock fast?"), f"clock: fast\n{v.log()}")
            w.ca.starts, w.ca.lifetime = 0, 3600
            report.check(w.await_served(v, "a.test"), f"clock: mended\n{v.log()}")


def away(report, program):
    """A CA that doesn't answer keeps nobody from being served, and is asked again, for all names in turn, not each for itself."""
    with World(program) as w:
        w.ca.down = True
        with w.server(["a.test", "b.test", "c.test"]) as v:
            report.check(said(v, "answers 503 Service Unavailable"), f"away: said\n{v.log()}")
            report.check(get(v.addresses["plain"], "/").status == 200, "away: served all the same")
            w.ca.down = False
            for name in ("a.test", "b.test", "c.test"):
                report.check(w.await_served(v, name), f"away: {name} at last\n{v.log()}")
            report.check(said(v, "ACME: the certificate authority responds again"), "away: said, too")
            report.check("".join(v.output).count("ACME: can't reach the certificate authority") == 1, "away: said once")
    with World(program) as w:
        w.ca.__exit__()
        with Varnishd(program, [*w.acme(["a.test"]), "-a", "127.0.0.1:0"], vcl=VCL) as v:
            report.check(said(v, "Connection refused"), f"away: nobody there\n{v.log()}")
            report.check(get(v.address, "/").status == 200, "away: served without")


def deaths(report, program):
    """Neither a worker that dies during an order nor the process itself costs more than a second attempt."""
    with World(program) as w:
        at_check, go_on = threading.Event(), threading.Event()

        def check(_):
            at_check.set()
            go_on.wait(LIMIT)
        w.ca.before_check = check
        with w.server(["a.test"]) as v:
            report.check(at_check.wait(LIMIT), "deaths: an order is under way")
            before = int(v.cli.ask("pid").split()[3])
            os.kill(before, signal.SIGKILL)
            until(LIMIT, lambda: len(pids := v.cli.ask("pid").split()) > 3 and int(pids[3]) != before and "running" in v.cli.ask("status"))
            go_on.set()
            report.check(w.await_served(v, "a.test"), f"deaths: the next worker knows the answer\n{v.log()}")
            report.check(len(w.ca.orders) == 1, f"deaths: by the same order {w.ca.names()}")
            (process,) = processes(v)
            os.kill(process, signal.SIGKILL)
            report.check(said(v, "ACME: its process has ended"), "deaths: the process")
            report.check(until(LIMIT, lambda: processes(v) not in ([], [process])), "deaths: another one")
            report.check(w.is_served(v, "a.test") and len(w.ca.orders) == 1, "deaths: it needs nothing")


def upgrade(report, program):
    """Another program goes on with what there is."""
    with World(program) as w, w.server(["a.test"]) as v:
        report.check(w.await_served(v, "a.test"), f"upgrade: before\n{v.log()}")
        serial, before = w.shown(v, "a.test"), processes(v)
        report.check(v.cli.ask("upgrade").startswith("Upgraded from "), "upgrade: done")
        report.check(w.shown(v, "a.test") == serial, f"upgrade: the same certificate: {w.shown(v, 'a.test')}")
        report.check(until(LIMIT, lambda: processes(v) not in ([], before)), f"upgrade: a process of its own: {processes(v)}")
        report.check(len(w.ca.orders) == 1, f"upgrade: nothing is got again: {w.ca.names()}")


def on_demand(report, program):
    """A name of the list gets a certificate once a client asks for it, any other doesn't; the next server knows it."""
    with World(program) as w:
        words = ["on-demand=*.sites.test", "on-demand=one.test"]
        with w.server([], *words) as v:
            for name in ("a.sites.test", "one.test", "b.sites.test"):
                report.check(w.await_served(v, name), f"on demand: {name}\n{v.log()}")
            report.check(not w.is_served(v, "other.test"), "on demand: another name")
            v.cli.ask("ping")
            report.check(said(v, "ACME: a.sites.test: requested by a client"), "on demand: said")
        report.check(sorted(w.ca.names()) == ["a.sites.test", "b.sites.test", "one.test"], f"on demand: orders {w.ca.names()}")
        w.ca.down = True
        with w.server([], *words) as v:
            report.check(w.is_served(v, "b.sites.test"), "on demand: kept")


def allowed_by_vcl(report, program):
    """VCL, and whom it asks, allows names: only 204 does. Nobody else can ask so, and a name that was refused isn't asked about again soon."""
    def app(s):
        head = s.recv(65536)
        s.sendall(b"HTTP/1.1 %d Told\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % (204 if b"host=good-" in head else 404))

    with World(program) as w, Origin(app) as origin:
        vcl = f"""vcl 4.1;
backend app {{ .host = "{origin.address[0]}"; .port = "{origin.address[1]}"; }}
sub vcl_recv {{
    if (local.socket == "acme:demand") {{
        if (req.http.host ~ "\\.app\\.test$") {{
            set req.url = "/may?host=" + req.http.host;
            return (pass);
        }}
        if (req.http.host == "a.vcl.test" && req.url == "/.well-known/acme-on-demand") {{ return (synth(204)); }}
        if (req.http.host == "dead.test") {{ return (fail); }}
    }}
    return (synth(200));
}}
"""
        refused = ("b.vcl.test", "bad-1.app.test", "dead.test")
        words = ["on-demand=vcl", "on-demand=one.test"]
        with w.server([], *words, vcl=vcl) as v:
            for name in refused:
                report.check(not w.is_served(v, name), f"by VCL: {name} at first")
            for name in ("a.vcl.test", "good-1.app.test", "one.test"):
                report.check(w.await_served(v, name), f"by VCL: {name}\n{v.log()}")
            # Each of the first three was asked about before any of these was got.
            report.check(not any(w.is_served(v, name) for name in refused), "by VCL: what isn't allowed")
            report.check(get(v.addresses["plain"], "/.well-known/acme-on-demand").status == 200, "by VCL: a client's own question is like any other")
            asked = lambda log: [log.lower().count(f"host: {name}\n") for name in refused] + [log.count(" acme:demand ")]
            log = read_log(v, lambda log: asked(log) == [1, 1, 1, 5], "-g", "session", "-i", "ReqHeader,SessOpen")
            report.check(asked(log) == [1, 1, 1, 5], f"by VCL: each is asked about once: {asked(log)}\n{log}")
        report.check(sorted(w.ca.names()) == ["a.vcl.test", "good-1.app.test", "one.test"], f"by VCL: orders {w.ca.names()}")
        w.ca.down = True
        with w.server([], *words, vcl=VCL) as v:
            report.check(w.is_served(v, "good-1.app.test"), "by VCL: kept")


def by_file(report, program):
    """A block of the file of -A asks for certificates; the CLI shows what there is, and gets another one."""
    with World(program) as w:
        (w.dir / "tls.cfg").write_text(f"""frontend = {{ host = "127.0.0.1" port = "0" name = "tls" }}
acme = {{
    name = "a.test"
    directory = "{w.ca.directory}"
    ca-file = "{w.ca.trusted}"
    state-dir = "{w.state}"
    retry = "1s"
}}
""")
        with Varnishd(program, ["-A", str(w.dir / "tls.cfg"), "-a", "plain=127.0.0.1:0"], vcl=VCL) as v:
            w.ca.http_port, w.ca.tls_port = v.addresses["plain"][1], v.addresses["tls"][1]
            report.check(w.await_served(v, "a.test"), f"by file: served\n{v.log()}")
            serial = w.shown(v, "a.test")
            row = until(LIMIT, lambda: (rows := v.cli.ask("tls.acme.list").splitlines()) and "GMT" in rows[1] and rows[1].split("\t"))
            report.check(row and row[0] == "a.test" and row[3:] == ["0", "-", "-"], f"by file: listed {row}")
            v.cli.ask("tls.acme.renew a.test")
            report.check(until(LIMIT, lambda: w.shown(v, "a.test") != serial) and w.is_served(v, "a.test"), f"by file: another\n{v.log()}")
            report.check(v.cli.ask_raw("tls.acme.renew b.test")[0] == 106, "by file: a name that isn't there")


def main():
    o = options(__doc__, words=dict(nargs="*", default=[], help="cases to run, by parts of their names"))
    report = Report("acme")
    renewals, others = (renewal_by_http, renewal_by_tls), (both_challenges, kept, by_window, refusals, wrong_clock, away, deaths, upgrade, on_demand,
                                                           allowed_by_vcl, by_file)
    if not o.words:
        # They wait for their certificates' time to pass.
        jobs = [*([case] for case in (*renewals, wrong_clock)), [case for case in others if case is not wrong_clock]]
        beside(report, o, [["--words", *(case.__name__ for case in job)] for job in jobs], at_once=3)
    for case in (*renewals, *others):
        if any(word in case.__name__ for word in o.words):
            report.run([case], report, o.varnishd, *([10 if o.full else 2] if case in renewals else ()))
    if o.full and not o.words:
        import pebble
        pebble.judge(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
