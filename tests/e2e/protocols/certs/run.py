#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates: -A and -a ADDRESS,https, tls.cert.*, files that change, what outlives a worker and an upgrade, `lacquer tls status`.

The last part loads many certificates (100,000 with --full) and tells start, memory and handshakes.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.certificates import Authority, openssl
from bed.daemon import Varnishd, cli_of, pss, workdir
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import Report, options, until
from bed.sealed import VERSIONS, SealedClient, client_context, sealed_get

LIMIT = 60  # seconds; it only ends what hangs
REFUSED = 60  # seconds until a server that can't start has ended
BACKEND = ["-b", "none"]
VCL = "vcl 4.1; backend default none; sub vcl_recv { return (synth(200)); }"


def context(authority=None, **more):
    """A client's that checks whose certificate it is, and not for which name."""
    c = client_context(authority, **more)
    c.check_hostname = False
    return c


def shown(address, authority, name=None, **more):
    """The common name of the certificate that a server shows to who asks for `name`; or why there is none."""
    try:
        with SealedClient(address, context(authority, **more), name) as client:
            return client.subject()
    except (OSError, ssl.SSLError) as e:
        return getattr(e, "reason", None) or type(e).__name__


def put(directory, name, text):
    """A file, put in place at once."""
    path, new = directory / name, directory / f"{name}.new"
    new.write_text(text)
    os.chmod(new, 0o600)
    new.rename(path)
    return path


def names_and_listeners(report, o, d, ca):
    """-A: a listener's own certificates, the global ones, defaults, wildcards, two files, what aborts."""
    status, said = started(o, d, "-A", str(put(d, "tls.conf", 'frontend = "127.0.0.1:0"\npem-file = "here.pem"')))
    report.check(status != 0 and f"'{os.getcwd()}/here.pem'" in said, f"a path is meant from where the server was started: {said}")
    own, wild, last = ca.leaf("own.example"), ca.leaf("*.wild.example", subject="wild"), ca.leaf("last.example", "www.last.example")
    bare = ca.leaf(subject="bare.example")
    conf = put(d, "tls.conf", f"""
        frontend = {{ host = "127.0.0.1" port = "0" pem-file = "{own.pem}" }}
        frontend = {{ name = "both" host = "127.0.0.1" port = "0" pem-file = "{own.pem}" match-global-certs = on sni-nomatch-abort = on }}
        frontend = "127.0.0.1:0"
        pem-file = "{wild.pem}"
        pem-file = {{ cert = "{bare.chain}" private-key = "{bare.key}" name = "bare" }}
        pem-file = "{last.pem}"
        workers = 4
        """)
    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
        for frontend, name, expected in [
            ("tls0", None, "own.example"), ("tls0", "own.example", "own.example"), ("tls0", "last.example", "own.example"),
            ("both", "last.example", "last.example"), ("both", "A.WILD.example", "wild"), ("both", None, "own.example"),
            ("both", "a.b.wild.example", "TLSV1_UNRECOGNIZED_NAME"), ("both", "bare.example", "bare.example"),
            ("tls1", "www.last.example", "last.example"), ("tls1", "own.example", "last.example"), ("tls1", None, "last.example"),
            ("tls1", "x.wild.example", "wild"),
        ]:
            got = shown(v.addresses[frontend], ca.root, name)
            report.check(got == expected, f"{frontend} shows {got} for {name}, not {expected}")
        got = sealed_get(v.addresses["tls1"], "/", context(ca.root), "last.example")
        report.check(got.whole(), f"a request over it: {got}")
        report.check(until(LIMIT, lambda: "workers has no meaning here" in v.log()), f"hitch's own keys are named: {v.log()}")


def staged(report, o, d, ca):
    """tls.cert.*: load, list, discard, rollback, commit."""
    a, b = ca.leaf("a.example"), ca.leaf("b.example")
    with Varnishd(o.varnishd, ["-a", "web=127.0.0.1:0,HTTPS"], vcl=VCL) as v:
        cli = v.cli

        def refused(line, text):
            status, body = cli.ask_raw(line)
            report.check(status == 300 and text in body.decode(), f"{line}: {status} {body.decode()!r}, not {text!r}")

        report.check(shown(v.address, ca.root) != "a.example", "without certificates no handshake succeeds")
        cli.ask(f"tls.cert.load {a.pem}")
        cli.ask(f"tls.cert.load two {b.chain} -k {b.key} -f web")
        report.check(cli.ask("tls.cert.list") == "default\tcert0\tstaged\ta.example\nweb\ttwo\tstaged\tb.example\n", cli.ask("tls.cert.list"))
        report.check(shown(v.address, ca.root, "a.example") != "a.example", "what is staged isn't used")
        cli.ask("tls.cert.commit")
        report.check(cli.ask("tls.cert.list -s") == "", "nothing is staged after a commit")
        for name in ("a.example", "b.example"):
            report.check(shown(v.address, ca.root, name) == name, f"{name} is served after the commit")
        report.check(shown(v.address, ca.root, "c.example") == "TLSV1_UNRECOGNIZED_NAME", "other names are refused")
        cli.ask("tls.cert.discard cert0")
        cli.ask(f"tls.cert.load three {a.pem} -d")
        expected = "default\tcert0\tdiscard\ta.example\ndefault\tthree\tstaged\ta.example\n"
        report.check(cli.ask("tls.cert.list -s") == expected, cli.ask("tls.cert.list -s"))
        cli.ask("tls.cert.rollback")
        report.check("three" not in cli.ask("tls.cert.list") and "discard" not in cli.ask("tls.cert.list"), cli.ask("tls.cert.list"))
        cli.ask("tls.cert.discard cert0")
        cli.ask("tls.cert.commit")
        report.check(shown(v.address, ca.root, "a.example") == "TLSV1_UNRECOGNIZED_NAME", "what was discarded is gone")
        version, words, _, *rows = json.loads(cli.ask("tls.cert.list -j"))
        report.check((version, words) == (2, ["tls.cert.list", "-j"]), f"JSON begins as everywhere: {version} {words}")
        report.check([(r["frontend"], r["id"], r["status"], r["names"]) for r in rows] == [("web", "two", "active", ["b.example"])], f"{rows}")
        refused("tls.cert.discard nobody", "ID not found")
        refused("tls.cert.load two " + str(a.pem), 'Id: "two" already exists')
        refused("tls.cert.load x /nowhere", "Unable to read certificate file '/nowhere' (No such file or directory)")
        refused(f"tls.cert.load x {a.pem} -f nowhere", "Frontend 'nowhere' not found")
        refused(f"tls.cert.load x {a.pem} -k {b.key}", "Private key mismatch")
        refused(f"tls.cert.load x {a.pem} -c ()#", "Invalid cipher list")
        refused(f"tls.cert.load x {a.pem} -s nonsense", "Invalid ciphersuites")
        cli.ask(f"tls.cert.load x {a.pem}")
        refused("tls.cert.reload", "There are staged changes")
        cli.ask("tls.cert.rollback")
        cli.ask("param.set tls_err_dup_servername on")
        refused(f"tls.cert.load y {b.pem} -f web", "'b.example' already loaded")
    with Varnishd(o.varnishd, vcl=VCL) as v:
        for line in ("tls.cert.list", f"tls.cert.load {a.pem}", "tls.cert.commit"):
            status, body = v.cli.ask_raw(line)
            report.check((status, body) == (300, b"TLS has not been configured"), f"{line} without a TLS listener: {status} {body}")


def started(o, d, *args):
    """A start that is to fail: its status and what it says."""
    p = subprocess.run([str(o.varnishd), "-F", "-n", str(d / "refused"), *BACKEND, *args], capture_output=True, text=True, timeout=REFUSED)
    return p.returncode, p.stderr + p.stdout


def refusals(report, o, d, ca):
    """What makes no sense stops the start, and says which file and why."""
    good, other = ca.leaf("good.example"), ca.leaf("other.example")
    encrypted = d / "encrypted.pem"
    openssl("pkey", "-in", good.key, "-aes256", "-passout", "pass:x", "-out", encrypted)
    encrypted.write_text(encrypted.read_text() + good.chain.read_text())
    old = d / "old.pem"
    openssl("ec", "-in", good.key, "-aes256", "-passout", "pass:x", "-out", old)
    front, pem = 'frontend = "127.0.0.1:0"\n', f'pem-file = "{good.pem}"\n'
    for text, *expected in [
        (front + pem + 'ciphers = "()#/"', "Invalid cipher list"),
        (front.replace('"127.0.0.1:0"', '{ host = "127.0.0.1" port = "0" ciphers = "###$#$" }') + pem, "Invalid cipher list"),
        (front + pem + 'ciphers = "AES128-SHA"', "Invalid cipher list", "ECDHE-RSA-AES128-GCM-SHA256"),
        (front + pem + 'ciphersuites = "$#$&^^&"', "Invalid ciphersuites"),
        (front + pem + 'ecdh-curve = "secp521r1"', "Failed to set groups"),
        (front + pem + "tls-protos = TLSv1.0 TLSv1.1", "TLSv1.2 and TLSv1.3"),
        (pem, "No frontend listen endpoint definitions found"),
        ("", "Parsing error"),
        (front + "pem-flie = \"x\"", "Parsing error in line 2", "pem-flie"),
        (front + f'pem-file = {{ cert = "{good.cert}" private-key = "{other.key}" }}', "mismatch", str(good.cert)),
        (front + f'pem-file = "{encrypted}"', "encrypted", str(encrypted)),
        (front + f'pem-file = {{ cert = "{good.cert}" private-key = "{old}" }}', "encrypted", str(old)),
        (front + f'pem-file = "{good.cert}"', "no private key", str(good.cert)),
        (front + f'pem-file = "{d}/tls.conf"', "no certificate", "tls.conf"),
        (front + 'pem-file = "/nowhere.pem"', "/nowhere.pem", "No such file"),
        (front + pem + "client-verify = required", "client-verify-ca"),
        (front + pem + f'client-verify = required client-verify-ca = "{good.chain}" client-verify-crl = "{good.chain}"', "client-verify-crl", "no list in it"),
        (front + pem + 'tls-protos = TLSv1.2 ciphers = "aRSA"', "Certificate cert0", "none of its ciphers"),
        (front + pem + 'ticket-keys-file = "/nowhere"', "ticket-keys-file /nowhere"),
    ]:
        status, said = started(o, d, "-A", str(put(d, "tls.conf", text)))
        report.check(status != 0 and all(word in said for word in expected), f"{text!r}: {status} {said!r}, not {expected}")
    status, said = started(o, d, "-p", "tls_err_dup_servername=on", "-A", str(put(d, "tls.conf", front + pem + pem)))
    report.check(status != 0 and "already staged" in said, f"a name twice: {status} {said!r}")
    key = openssl("rand", "-base64", "80").decode().replace("\n", "")
    status, said = started(o, d, "-A", str(put(d, "keys", key)))
    report.check(status != 0 and key[:8] not in said and "Parsing error in line 1" in said, f"a file of keys isn't repeated: {said!r}")
    status, said = started(o, d, "-A", "/nowhere.conf")
    report.check(status != 0 and "Cannot open '/nowhere.conf'" in said, f"no file: {said!r}")


def files_that_change(report, o, d, ca):
    """A new file is used by itself; a broken one changes nothing, and is told of everywhere."""
    first, second = ca.leaf("site.example"), ca.leaf("site.example", "new.example", ends=3)
    site = put(d, "site.pem", first.pem.read_text())
    conf = put(d, "tls.conf", f'frontend = "127.0.0.1:0"\npem-file = "{site}"')
    lacquer = pathlib.Path(o.varnishd).with_name("lacquer")
    with Varnishd(o.varnishd, ["-A", str(conf), "-p", "tls_watch=1"], vcl=VCL) as v:
        def serial():
            with SealedClient(v.address, context(ca.root)) as client:
                return client.sock.getpeercert()["serialNumber"].lstrip("0")

        def status(*words):
            p = subprocess.run([str(lacquer), "tls", "status", "-n", str(v.n), *words], capture_output=True, text=True, timeout=LIMIT)
            return p.returncode, p.stdout + p.stderr

        report.check(serial() == first.serial().lstrip("0"), "the first certificate")
        put(d, "site.pem", "broken")
        report.check(until(LIMIT, lambda: "stays as it is" in "".join(v.output)), f"a broken file is told of: {v.log()}")
        report.check(serial() == first.serial().lstrip("0"), "a broken file leaves the certificate")
        code, said = status("--check", "1")
        report.check(code == 3 and "no certificate in it" in said, f"tls status names the trouble: {code} {said}")
        put(d, "site.pem", second.pem.read_text())
        report.check(until(LIMIT, lambda: serial() == second.serial().lstrip("0")), "a new file is used by itself")
        code, said = status()
        report.check(code == 0 and "in 2 days" in said and "new.example" in said and "!" not in said, f"{code} {said}")
        report.check("session tickets: a key made here, in use for 0 h, the next one in 11 h" in said, f"the age of the tickets' key: {said}")
        handshakes = re.search(r"^handshakes with clients: (\d+), resumed: 0 \(0.0 %\), post-quantum: 0 \(0.0 %\), failed: 0$", said, re.M)
        report.check(handshakes and int(handshakes[1]) == v.counter("MAIN.tls_handshakes"), f"handshakes are told: {said}")
        report.check(status("--check", "1")[0] == 0 and status("--check", "7")[0] == 3, "--check tells what expires soon")
        rows = json.loads(status("--format", "json")[1])
        report.check(rows[0]["names"] == ["site.example", "new.example"] and rows[0]["file"] == str(site), f"{rows}")
        v.cli.ask("param.set tls_watch 0")
        put(d, "site.pem", first.pem.read_text())
        v.cli.ask("tls.cert.reload")
        report.check(serial() == first.serial().lstrip("0"), "tls.cert.reload reads the files again")
        put(d, "site.pem", "broken")
        code, said = v.cli.ask_raw("tls.cert.reload")
        report.check(code == 300 and b"site.pem" in said and serial() == first.serial().lstrip("0"), f"{code} {said}")


CONTEXTS = {}  # a session is one of its context


def resumed(address, authority, session=None, name=None, version="1.3"):
    """A connection that asks for one thing: whether the session was resumed, and the session after."""
    if version not in CONTEXTS:
        CONTEXTS[version] = context(authority, versions=(version,))
    with SealedClient(address, CONTEXTS[version], name, session=session) as client:
        client.request("/")
        return client.sock.session_reused, client.sock.session


def what_lasts(report, o, d, ca):
    """Certificates of the CLI and sessions outlive a worker's death and an upgrade; what is staged forbids the upgrade."""
    a, b = ca.leaf("a.example"), ca.leaf("b.example")
    with Varnishd(o.varnishd, ["-a", "web=127.0.0.1:0,https"], vcl=VCL) as v:
        v.cli.ask(f"tls.cert.load a {a.pem}")
        v.cli.ask("tls.cert.commit")
        sessions = {version: resumed(v.address, ca.root, name="a.example", version=version)[1] for version in VERSIONS}
        worker = v.worker()
        os.kill(worker, signal.SIGKILL)
        report.check(until(LIMIT, lambda: v.worker() != worker and shown(v.address, ca.root, "a.example") == "a.example"), "the next worker has it")
        for version, session in sessions.items():
            report.check(resumed(v.address, ca.root, session, "a.example", version)[0], f"a session of TLS {version} outlives the worker")
        v.cli.ask(f"tls.cert.load b {b.pem}")
        status, said = v.cli.ask_raw("upgrade")
        report.check(status == 300 and b"staged" in said, f"an upgrade with staged certificates: {status} {said}")
        v.cli.ask("tls.cert.commit")
        worker = v.worker()
        v.cli.ask("upgrade")
        report.check(until(LIMIT, lambda: v.worker() != worker), "the upgrade has a new worker")
        for name in ("a.example", "b.example"):
            report.check(shown(v.address, ca.root, name) == name, f"{name} after an upgrade")
        report.check(resumed(v.address, ca.root, sessions["1.3"], "a.example")[0], "a session outlives the upgrade")
        report.check([line.split("\t")[1:3] for line in v.cli.ask("tls.cert.list").splitlines()] == [["a", "active"], ["b", "active"]], v.cli.ask("tls.cert.list"))
        v.cli.ask("tls.cert.discard a")
        v.cli.ask("tls.cert.commit")
        report.check(shown(v.address, ca.root, "a.example") == "TLSV1_UNRECOGNIZED_NAME", "the manager after the upgrade commits")


def settings(report, o, d, ca):
    """Versions, ciphers, groups and clients' certificates, for all, for a listener, for a certificate."""
    leaf, rsa, client = ca.leaf("a.example"), ca.leaf("rsa.example", kind="rsa"), ca.leaf("client", use="client")
    other = Authority(d / "other", "Other")
    stranger = other.leaf("stranger", use="client")
    conf = put(d, "tls.conf", f"""
        frontend = {{ name = "old" host = "127.0.0.1" port = "0" tls-protos = TLSv1.2 ciphers = "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE+aRSA+AES256" }}
        frontend = {{ name = "new" host = "127.0.0.1" port = "0" tls-protos = TLSv1.3 ciphersuites = "TLS_CHACHA20_POLY1305_SHA256" }}
        frontend = {{ name = "asks" host = "127.0.0.1" port = "0" client-verify = optional client-verify-ca = "{ca.root}" }}
        frontend = {{ name = "demands" host = "127.0.0.1" port = "0" client-verify = required client-verify-ca = "{ca.root}" }}
        pem-file = "{rsa.pem}"
        pem-file = "{leaf.pem}"
        """)

    def spoken(v, frontend, name="a.example", **more):
        try:
            with SealedClient(v.addresses[frontend], context(ca.root, **more), name) as c:
                c.request("/")
                return f"{c.sock.version()} {c.sock.cipher()[0]}"
        except (OSError, ssl.SSLError) as e:
            return f"refused {getattr(e, 'reason', '')}"

    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
        for frontend, more, expected in [
            ("old", {}, "TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305"), ("old", {"name": "rsa.example"}, "TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384"),
            ("old", {"versions": ("1.3",)}, "refused TLSV1_ALERT_PROTOCOL_VERSION"),
            ("new", {}, "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256"), ("new", {"versions": ("1.2",)}, "refused TLSV1_ALERT_PROTOCOL_VERSION"),
            ("asks", {}, "TLSv1.3 TLS_AES_256_GCM_SHA384"), ("asks", {"leaf": client}, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
            ("demands", {"leaf": client}, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
            ("demands", {"leaf": client, "versions": ("1.2",)}, "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"),
        ]:
            got = spoken(v, frontend, **more)
            report.check(got == expected, f"{frontend} {list(more)}: {got}, not {expected}")
        for frontend, more in [("asks", {"leaf": stranger}), ("demands", {}), ("demands", {"leaf": stranger}), ("demands", {"versions": ("1.2",)})]:
            got = spoken(v, frontend, **more)
            report.check(got.startswith("refused"), f"{frontend} with {more}: {got}")
        # A session of a listener that asks for nothing is worth nothing where a certificate is demanded.
        for version in VERSIONS:
            session = resumed(v.addresses["asks"], ca.root, name="a.example", version=version)[1]
            try:
                again = resumed(v.addresses["demands"], ca.root, session, "a.example", version)[0]
            except (OSError, ssl.SSLError):
                again = False
            report.check(not again, f"TLS {version}: a session of another listener opens no door")


def answer(ca, leaf, path, issuer=None):
    """An OCSP answer about `leaf` by its authority; `issuer` is whom the question takes for that."""
    (ca.dir / "index").touch()
    openssl("ocsp", "-index", ca.dir / "index", "-CA", ca.cert, "-rsigner", ca.cert, "-rkey", ca.key, "-issuer", (issuer or ca).cert, "-cert", leaf.cert,
            "-ndays", "3", "-respout", path)


def stapled(address, version="-tls1_3"):
    """Whether an OCSP answer comes."""
    p = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{address[1]}", "-status", version], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=LIMIT)
    return "OCSP Response Status: successful" in p.stdout


def trouble(v):
    """What tls.cert.list -j says is wrong with each."""
    return [row.get("trouble") for row in json.loads(v.cli.ask("tls.cert.list -j"))[3:]]


def clients(report, o, d, ca):
    """Authorities of clients and what they have revoked: files that change count from the next connection on."""
    mine, other = Authority(d / "mine", "Mine"), Authority(d / "others", "Others")
    leaf, good, bad, stranger = ca.leaf("a.example"), mine.leaf("good", use="client"), mine.leaf("bad", use="client"), other.leaf("x", use="client")
    authorities, revoked = put(d, "clients.pem", mine.root.read_text()), put(d, "crl.pem", mine.revoked().read_text())
    conf = put(d, "tls.conf", f"""
        frontend = "127.0.0.1:0"
        pem-file = "{leaf.pem}"
        client-verify = required
        client-verify-ca = "{authorities}"
        client-verify-crl = "{revoked}"
        """)
    with Varnishd(o.varnishd, ["-A", str(conf), "-p", "tls_watch=1"], vcl=VCL) as v:
        def let_in(client, version="1.3"):
            try:
                with SealedClient(v.address, context(ca.root, leaf=client, versions=(version,)), "a.example") as c:
                    return c.request("/").status == 200
            except (OSError, ssl.SSLError):
                return False

        def all_in(*expected):
            return [let_in(client, version) for version in VERSIONS for client in (good, bad, stranger)] == list(expected) * len(VERSIONS)

        report.check(all_in(True, True, False), "who is whose is told apart")
        mine.revoke(bad)
        put(d, "crl.pem", mine.revoked().read_text())
        report.check(until(LIMIT, lambda: all_in(True, False, False)), "one that is revoked is shut out")
        put(d, "clients.pem", "broken")
        report.check(until(LIMIT, lambda: "clients.pem" in str(trouble(v)[0])), f"a broken file is told of: {trouble(v)}")
        report.check(all_in(True, False, False), "and changes nothing")
        v.cli.ask("upgrade")
        report.check(until(LIMIT, lambda: "clients.pem" in str(trouble(v)[0])), f"after an upgrade, too: {trouble(v)}")
        put(d, "clients.pem", other.root.read_text())
        report.check(until(LIMIT, lambda: all_in(False, False, True)), "an authority that is gone lets nobody in")
        report.check(trouble(v) == [None], f"nothing is wrong any more: {trouble(v)}")


def misdirected(report, o, d, ca):
    """Certificates ask different things of clients: nobody gets a host by the name of another, at another frontend, or without TLS."""
    client = ca.leaf("client", use="client")
    strict, public = ca.leaf("strict.example"), ca.leaf("public.example")
    conf = put(d, "tls.conf", f"""
        frontend = {{ name = "both" host = "127.0.0.1" port = "0" }}
        frontend = {{ name = "alone" host = "127.0.0.1" port = "0" pem-file = "{public.pem}" }}
        pem-file = {{ cert = "{strict.pem}" client-verify = required client-verify-ca = "{ca.root}" }}
        pem-file = "{public.pem}"
        """)
    with Varnishd(o.varnishd, ["-A", str(conf), "-a", "plain=127.0.0.1:0"], vcl=VCL) as v:
        for frontend, name, leaf, expected in [
            ("both", "public.example", None, {"public.example": 200, "strict.example": 421, "STRICT.example.:8443": 421, "elsewhere.example": 200}),
            ("both", "strict.example", client, {"strict.example": 200, "strict.example:443": 200, "public.example": 200}),
            ("alone", "public.example", None, {"strict.example": 421, "public.example": 200}),
        ]:
            with SealedClient(v.addresses[frontend], context(ca.root, leaf=leaf), name) as c:
                # One connection for all: it stays.
                got = {host: c.request("/", host=host).status for host in expected}
            report.check(got == expected, f"{frontend}, by {name}: {got}, not {expected}")
        try:
            with SealedClient(v.addresses["both"], context(ca.root), "strict.example") as c:
                report.check(c.request("/").status is None, "without a certificate strict.example is closed")
        except (OSError, ssl.SSLError):
            pass
        def plain(host):
            with Client(v.addresses["plain"]) as c:
                return c.request("/", host=host).status

        report.check([plain(host) for host in ("strict.example", "Strict.Example.:80", "public.example", "elsewhere.example")] == [421, 421, 200, 200],
                     "plain HTTP has no certificate")
        report.check(until(LIMIT, lambda: v.counter("MAIN.tls_misdirected") == 5), f"counted: {v.counter('MAIN.tls_misdirected')}")
        v.cli.ask("param.set tls_client_hosts off")
        report.check(plain("strict.example") == 200, "with tls_client_hosts=off VCL decides")
        with SealedClient(v.addresses["alone"], context(ca.root), "public.example") as c:
            report.check(c.request("/", host="strict.example").status == 200, "at another frontend, too")
        with SealedClient(v.addresses["both"], context(ca.root), "public.example") as c:
            report.check(c.request("/", host="strict.example").status == 421, "not at the same one")


def staples(report, o, d, ca):
    """An OCSP answer of a file goes to who asks for one, if it is about this certificate and calls it good."""
    leaf, other = ca.leaf("a.example"), ca.leaf("other.example")
    stranger = Authority(d / "stranger", "Stranger")
    staple = d / "staple.der"
    answer(ca, leaf, staple)
    conf = put(d, "tls.conf", f'frontend = "127.0.0.1:0"\npem-file = {{ cert = "{leaf.pem}" ocsp-resp-file = "{staple}" }}')
    with Varnishd(o.varnishd, ["-A", str(conf), "-p", "tls_watch=1"], vcl=VCL) as v:
        for version in ("-tls1_2", "-tls1_3"):
            report.check(stapled(v.address, version), f"{version}: a staple comes")
        report.check(trouble(v) == [None], f"nothing is wrong: {trouble(v)}")
        row = json.loads(v.cli.ask("tls.cert.list -j"))[3]
        report.check(2.9 * 86400 < row["ocsp_until"] - time.time() < 3.1 * 86400, f"until when it holds: {row}")

        def changed(word):
            report.check(until(LIMIT, lambda: word in str(trouble(v)[0])), f"{word!r} is told of: {trouble(v)}")
            report.check(not stapled(v.address) and shown(v.address, ca.root) == "a.example", f"{word}: no staple, and the certificate as before")

        answer(ca, other, staple)
        changed("is about another certificate")
        answer(ca, leaf, staple)
        report.check(until(LIMIT, lambda: stapled(v.address)) and trouble(v) == [None], f"a good one is used again: {trouble(v)}")
        answer(stranger, leaf, staple, issuer=ca)
        changed("isn't signed by")
        ca.revoke(leaf)
        answer(ca, leaf, staple)
        changed("is revoked")
        code, said = v.cli.ask_raw("tls.cert.reload")
        report.check(code == 200, f"an answer of no use forbids no reload: {code} {said}")
    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
        report.check("is revoked" in str(trouble(v)) and until(LIMIT, lambda: "is revoked" in v.log()), f"it starts, and says so: {trouble(v)} {v.log()}")
    staple.write_bytes(b"no answer")
    status, said = started(o, d, "-A", str(conf))
    report.check(status != 0 and "staple.der: not a successful OCSP response" in said, f"{status} {said}")


def answers_of_hitch(report, o, d, ca):
    """ocsp-dir: an answer is found there by hitch's name for it, also one that comes later."""
    leaf = ca.leaf("a.example")
    (d / "ocsp").mkdir()
    conf = put(d, "tls.conf", f'frontend = "127.0.0.1:0"\npem-file = "{leaf.pem}"\nocsp-dir = "{d}/ocsp/"')
    with Varnishd(o.varnishd, ["-A", str(conf), "-p", "tls_watch=1"], vcl=VCL) as v:
        report.check(not stapled(v.address) and trouble(v) == [None], f"there is none yet: {trouble(v)}")
        kept = d / "ocsp" / hashlib.md5(str(leaf.pem).encode()).hexdigest()
        kept.write_bytes(b"half")
        report.check(until(LIMIT, lambda: "not a successful OCSP response" in str(trouble(v))), f"a broken one: {trouble(v)}")
        answer(ca, leaf, kept)
        report.check(until(LIMIT, lambda: stapled(v.address)) and trouble(v) == [None], f"one that has come: {trouble(v)}")


def expiry(report, o, d, ca):
    """Who ends soon, or has, is told without being asked."""
    old, soon, good = ca.leaf("old.example", starts=-9, ends=-2), ca.leaf("soon.example", starts=-80, ends=5), ca.leaf("good.example")
    with Varnishd(o.varnishd, ["-a", "web=127.0.0.1:0,https"], vcl=VCL) as v:
        def gauges():
            return [v.counter(f"MGT.certs_{name}") for name in ("loaded", "expired", "ending", "next_end")]

        report.check(gauges() == [0, 0, 0, 0], f"none: {gauges()}")
        v.cli.ask(f"tls.cert.load good {good.pem}")
        v.cli.ask("tls.cert.commit")
        report.check(until(LIMIT, lambda: gauges()[:3] == [1, 0, 0]), f"a good one: {gauges()}")
        report.check(29 * 86400 < gauges()[3] < 30.1 * 86400, f"until its end: {gauges()}")
        v.cli.ask(f"tls.cert.load soon {soon.pem}")
        v.cli.ask(f"tls.cert.load old {old.pem}")
        v.cli.ask("tls.cert.commit")
        report.check(until(LIMIT, lambda: gauges() == [3, 1, 1, 0]), f"one of each: {gauges()}")
        report.check(until(LIMIT, lambda: f"Certificate old (old.example, of {old.pem}) expired 2 days ago" in v.log()), f"{v.log()}")
        report.check(until(LIMIT, lambda: f"Certificate soon (soon.example, of {soon.pem}) expires in 4 days" in v.log()) and "Certificate good" not in v.log(), f"{v.log()}")


def fleet(report, o, d, ca):
    """Servers that share a file of keys take each other's sessions; others don't."""
    leaf = ca.leaf("a.example")
    put(d, "keys", "".join(openssl("rand", "-base64", "80").decode().split()) + "\n")
    conf = put(d, "fleet.conf", f'frontend = "127.0.0.1:0"\npem-file = "{leaf.pem}"\nticket-keys-file = "{d}/keys"')
    alone = put(d, "alone.conf", f'frontend = "127.0.0.1:0"\npem-file = "{leaf.pem}"')
    with Varnishd(o.varnishd, ["-A", str(conf), "-p", "tls_watch=0"], vcl=VCL) as one, Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as two, \
            Varnishd(o.varnishd, ["-A", str(alone)], vcl=VCL) as third:
        for version in VERSIONS:
            session = resumed(one.address, ca.root, name="a.example", version=version)[1]
            report.check(resumed(two.address, ca.root, session, "a.example", version)[0], f"TLS {version}: another of the fleet resumes it")
            report.check(not resumed(third.address, ca.root, session, "a.example", version)[0], f"TLS {version}: a stranger doesn't")
        session = resumed(one.address, ca.root, name="a.example")[1]
        put(d, "keys", "broken")
        code, said = one.cli.ask_raw("tls.cert.reload")
        report.check(code == 300 and b"ticket-keys-file" in said, f"a reload of a broken file of keys: {code} {said}")
        report.check(resumed(one.address, ca.root, session, "a.example")[0], "... changes nothing")
        put(d, "keys", "".join(openssl("rand", "-base64", "80").decode().split()) + "\n")
        one.cli.ask("tls.cert.reload")
        report.check(not resumed(one.address, ca.root, session, "a.example")[0], "tls.cert.reload reads the keys again, too")
    week = time.time() - 8 * 86400
    os.utime(d / "keys", (week, week))
    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
        text = f"Session tickets have been encrypted with the same key for 8 days: put a new key first in {d}/keys"
        report.check(until(LIMIT, lambda: text in v.log()) and v.log().count("with the same key") == 1, f"an old file of keys is reminded of, once: {v.log()}")


def hidden(report, o, d, ca):
    """No key in the workdir, the log or a core."""
    leaf = ca.leaf("a.example")
    conf = put(d, "tls.conf", f'frontend = "127.0.0.1:0"\npem-file = "{leaf.pem}"')
    raw = openssl("pkey", "-in", leaf.key, "-outform", "DER")[-60:]
    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL, core=True) as v:
        shown(v.address, ca.root)
        v.cli.ask("tls.cert.list -j")
        secret = raw[:30]
        found = [p for p in v.n.rglob("*") if p.is_file() and secret in p.read_bytes()]
        report.check(not found, f"the key is in {found}")
        worker = v.worker()
        os.kill(worker, signal.SIGABRT)
        report.check(until(LIMIT, lambda: f"({worker}) died" in v.log()), f"it dies: {v.log()}")
        report.check("core dumped" not in v.log(), "a worker with keys leaves no core")


def hitchs_files(report, o, d, ca):
    """Files that hitch takes; it judges them itself where it is installed."""
    leaf = ca.leaf("a.example")
    example = pathlib.Path("/usr/share/doc/hitch/examples/hitch.conf.example")
    texts = [f"""
        frontend = {{ host = "*" port = "0" }}
        backend = "[127.0.0.1]:6086"    # 6086 is the default Varnish PROXY port.
        workers = 4
        daemon = on
        user = "nobody"
        group = "nogroup"
        write-proxy-v2 = on
        pem-file = "{leaf.pem}"
        alpn-protos = "http/1.1"
        tls-protos = TLSv1.2 TLSv1.3
        ciphers = "EECDH+AESGCM:EDH+AESGCM"
        prefer-server-ciphers = on
        log-level = 1
        ocsp-dir = ""
        """]
    if example.exists():
        text = example.read_text().replace('"443"', '"0"').replace('user = "hitch"', 'user = "nobody"').replace('group = "hitch"', 'group = "nogroup"')
        texts.append(text + f'\npem-file = "{leaf.pem}"\n')
    for text in texts:
        conf = put(d, "hitch.conf", text)
        if shutil.which("hitch"):
            p = subprocess.run(["hitch", "--test", f"--config={conf}"], capture_output=True, text=True, timeout=REFUSED)
            report.check(p.returncode == 0, f"hitch refuses its own language: {p.stdout}{p.stderr}")
        with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
            lines = [line.split() for line in v.cli.ask("debug.listen_address").splitlines()]
            address = next(("127.0.0.1", int(port)) for _, host, port in lines if host == "0.0.0.0")
            report.check(shown(address, ca.root, "a.example") == "a.example", f"served as hitch would: {text}")


def many(report, o, d, ca, count):
    """So many certificates: how long the start takes, what each needs, what the last one's handshake costs."""
    directory = d / "many"
    directory.mkdir()
    # One certificate with other names put in: nobody looks at the signature, neither the server nor a client that believes all.
    leaf = ca.leaf("host0000000.example")
    key, der = leaf.key.read_text(), openssl("x509", "-in", leaf.cert, "-outform", "DER")
    for number in range(count):
        own = base64.encodebytes(der.replace(b"host0000000", b"host%07d" % number)).decode()
        text = f"{key}-----BEGIN CERTIFICATE-----\n{own}-----END CERTIFICATE-----\n{ca.cert.read_text()}"
        (directory / f"{number:07}.pem").write_text(text)
    conf = put(d, "many.conf", f'frontend = "127.0.0.1:0"\npem-dir = "{directory}"\npem-dir-glob = "*.pem"')
    few = put(d, "few.conf", f'frontend = "127.0.0.1:0"\npem-file = "{leaf.pem}"')
    with Varnishd(o.varnishd, ["-A", str(few)], vcl=VCL) as v:
        shown(v.address, ca.root)
        base = pss(v.pids())
    begun = time.monotonic()
    with Varnishd(o.varnishd, ["-A", str(conf)], vcl=VCL) as v:
        seconds = time.monotonic() - begun
        pids = v.pids()
        each = (pss(pids) - base) / count
        took = []
        for number in (0, count // 2, count - 1):
            name = f"host{number:07}.example"
            begin = time.monotonic()
            with SealedClient(v.address, context(), name) as c:
                der = c.sock.getpeercert(True)
            took.append(time.monotonic() - begin)
            report.check(name.encode() in der, f"{name} is found among {count}")
        report.note(f"{count} certificates: {seconds:.1f} s to the start, {each:.0f} bytes each in all processes, "
                    f"handshakes {', '.join(f'{t * 1e3:.1f}' for t in took)} ms")
        v.cli.ask("param.set tls_watch 1")
        last, name = f"{count - 1:07}.pem", "renewed.example"
        put(directory, last, ca.leaf(name).pem.read_text())
        slowest = 0

        def is_served():
            nonlocal slowest
            begin = time.monotonic()
            v.cli.ask("tls.cert.list -s")
            slowest = max(slowest, time.monotonic() - begin)
            return shown(v.address, ca.root, name) == name

        report.check(until(4 * LIMIT, is_served, 0.02), f"{name} is served once its file has changed: {v.log()[-2000:]}")
        report.check(until(LIMIT, lambda: "because their files changed: cert" in "".join(v.output)), "and that is said")
        report.note(f"the slowest answer of the CLI meanwhile: {slowest * 1e3:.0f} ms")
        long_commands(report, v, directory, ca, count)


def long_commands(report, v, directory, ca, count):
    """With many certificates a reload and a commit leave the CLI free for others; what changes certificates waits for them."""
    v.cli.ask("param.set tls_watch 0")
    asks, others, changes = (cli_of(v.n) for _ in range(3))
    for one in (asks, others, changes):
        one.sock.settimeout(4 * LIMIT)

    def carried_out(line, and_then):
        """Its answer, and that of a change that is asked for meanwhile."""
        begin, slowest, pings = time.monotonic(), 0, 0
        asks.sock.sendall(line.encode() + b"\n")
        changes.sock.sendall(and_then.encode() + b"\n")
        while not select.select([asks.sock], [], [], 0)[0]:
            before = time.monotonic()
            others.ask("ping")
            slowest, pings = max(slowest, time.monotonic() - before), pings + 1
        answer, seconds = asks.reply(), time.monotonic() - begin
        report.note(f"{line} of {count} certificates: {seconds:.2f} s, the slowest of {pings} pings meanwhile {slowest * 1e3:.0f} ms")
        report.check(pings > 0 or seconds < 0.05, f"{line}: others are served meanwhile, unless it is over at once")
        return answer, changes.reply()

    first, name, staged = "0000000.pem", "reloaded.example", ca.leaf("staged.example")
    before = (directory / first).read_text()
    put(directory, first, "nothing")
    answer, _ = carried_out("tls.cert.reload", "tls.cert.rollback")
    report.check(answer[0] != 200 and first.encode() in answer[1], f"a file of no use among many: {answer}")
    put(directory, first, ca.leaf(name).pem.read_text())
    answer, changed = carried_out("tls.cert.reload", f"tls.cert.load new {staged.pem}")
    report.check((answer[0], changed[0]) == (200, 200), f"a reload of many, and a load behind it: {answer} {changed}")
    report.check(shown(v.address, ca.root, name) == name, f"{name} is served after it")
    report.check("staged.example" in others.ask("tls.cert.list -s"), "what was loaded behind it is staged")
    put(directory, first, before)
    answer, changed = carried_out("tls.cert.commit", "tls.cert.reload")
    report.check((answer[0], changed[0]) == (200, 200), f"a commit of many, and a reload behind it: {answer} {changed}")
    for wanted in ("staged.example", "host0000000.example"):
        report.check(shown(v.address, ca.root, wanted) == wanted, f"{wanted} is served after them")
    answer, changed = carried_out("tls.cert.reload", "tls.cert.discard new")
    report.check((answer[0], changed[0]) == (200, 200), f"a reload, and what comes behind it: {answer} {changed}")
    # The session that is answered later goes on with what was sent behind.
    asks.sock.sendall(b"tls.cert.commit\nping\n")
    report.check(asks.reply()[0] == 200 and asks.reply()[1].startswith(b"PONG"), "commands behind one that takes long")
    report.check(shown(v.address, ca.root, "staged.example") != "staged.example", "what was discarded is gone")
    for one in (asks, others, changes):
        one.close()


def main():
    o = options(__doc__)
    report = Report("certs")
    d = workdir()
    try:
        ca = Authority(d / "ca", "Root")
        middle = Authority(d / "middle", "Middle", issuer=ca)
        for part in (names_and_listeners, staged, refusals, files_that_change, what_lasts, settings, clients, misdirected, staples, expiry, answers_of_hitch, fleet, hidden, hitchs_files):
            part(report, o, d, middle)
        many(report, o, d, middle, 100_000 if o.full else 1200)
    finally:
        shutil.rmtree(d, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
