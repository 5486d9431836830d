#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Origins that are spoken to by TLS: good ones, and bad ones of each kind, with what the log says of them; who shares connections and
takes sessions up again; probes, pipes, -b https:// and the modules that reach out."""
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.certificates import Authority, openssl
from bed.daemon import CliError, Varnishd, directory
from bed.http import Client, get
from bed.logs import has_all, read_log
from bed.origin import Origin, head, simple
from bed.report import Report, options, until
from bed.sealed import SealedOrigin, server_context

LIMIT = 60
NAME = "origin.test"

HEAD = """vcl 4.1;
backend default none;
"""


def backend(name, address, more):
    return f"""backend {name} {{ .host = "127.0.0.1"; .port = "{address[1]}"; .ssl = 1; .host_header = "{NAME}"; {more} }}
"""


def choose(names):
    """A VCL whose first part of the URL says which backend is asked; nothing is cached but below /keep/."""
    tests = "\n".join(f'    if (req.url ~ "^/{n}/") {{ set req.backend_hint = {n}; }}' for n in names)
    return f"""sub vcl_recv {{
    if (req.http.pipe) {{ set req.http.how = "pipe"; }}
{tests}
    if (req.http.how) {{ return (pipe); }}
    if (req.url ~ "/keep/") {{ return (hash); }}
    return (pass);
}}
"""


def log(v, tags, *texts):
    """What the log has of these tags, oldest first, by transaction; once all `texts` are in it."""
    return read_log(v, has_all(*texts), "-g", "request", "-i", tags)


def counter(program, v, name):
    done = subprocess.run([pathlib.Path(program).parent / "varnishstat", "-n", v.n, "-1", "-f", name], capture_output=True, timeout=LIMIT)
    return int(done.stdout.split()[1])


def hello(method, path, fields):
    return f"X-Host: {fields.get('host', '')}\r\n", f"this is {path}\n".encode()


def once(s):
    """One answer, and the end."""
    if head(s, b""):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


class Beds:
    """Certificates and origins for all of it."""

    def __init__(self, place):
        self.dir = place
        self.root = Authority(self.dir / "root")
        self.between = Authority(self.dir / "between", "Between", issuer=self.root)
        self.stranger = Authority(self.dir / "stranger", "Stranger")
        self.good = self.between.leaf(NAME, "*.wild.test", "127.0.0.1", "localhost")
        self.client = self.between.leaf("client.test", use="client")

    def origin(self, leaf=None, serve=None, **more):
        context = {k: more.pop(k) for k in ("clients", "versions") if k in more}
        return SealedOrigin(serve or simple(hello), server_context(leaf or self.good, **context), **more)

    def ca(self):
        return f'.ssl_ca_file = "{self.root.cert}";'


def good_and_bad(report, program, bed):
    """Each certificate with each demand."""
    expired = bed.between.leaf(NAME, starts=-9, ends=-2)
    early = bed.between.leaf(NAME, starts=2, ends=9)
    other = bed.between.leaf("other.test")
    revoked = bed.between.leaf(NAME)
    bed.between.revoke(revoked)
    unknown = bed.stranger.leaf(NAME)
    bare = bed.between.leaf(NAME)
    bare.chain.write_text(bare.cert.read_text())
    old = bed.between.leaf(subject=NAME)
    rsa = bed.between.leaf(NAME, kind="rsa")
    host, loose = ".ssl_verify_host = 1; ", ".ssl_verify_peer = 0; "
    crl = f'.ssl_crl_file = "{bed.between.revoked()}"; '
    # name -> (leaf, attributes, what a BackendSSL record says; None where it is good)
    cases = {
        "good": (bed.good, host, None), "wild": (bed.good, host.replace("1;", "1;"), None), "rsa": (rsa, host, None),
        "expired": (expired, "", "Server verification failed: certificate has expired"), "expiredl": (expired, loose, None),
        "early": (early, "", "Server verification failed: certificate is not yet valid"), "earlyl": (early, loose, None),
        "other": (other, "", None), "otherh": (other, host, "Server verification failed: hostname mismatch: origin.test isn't one of: other.test"),
        "unknown": (unknown, "", "Server verification failed: unable to get local issuer certificate"), "unknownl": (unknown, loose + host, None),
        "bare": (bare, "", "Server verification failed: unable to get local issuer certificate"),
        "revoked": (revoked, crl, "Server verification failed: certificate revoked"), "unrevoked": (bed.good, crl, None),
        "old": (old, host, None),
    }
    origins = {name: bed.origin(leaf) for name, (leaf, _, _) in cases.items()}
    vcl = HEAD + "".join(backend(n, origins[n].address, more + bed.ca()) for n, (_, more, _) in cases.items()) + choose(cases)
    with Varnishd(program, vcl=vcl) as v:
        for name, (_, more, says) in cases.items():
            r = get(v.address, f"/{name}/x")
            if says is None:
                report.check(r.status == 200 and r.body == f"this is /{name}/x\n".encode(), f"{name} ({more}) is good: {r}")
            else:
                report.check(r.status == 503, f"{name} ({more}) is refused: {r}")
        text = log(v, "BereqURL,BackendSSL,FetchError", *(f"/{name}/x\n" for name in cases))
        for name, (_, _, says) in cases.items():
            if says is None:
                continue
            own = re.search(rf"BereqURL +/{name}/x\n(.*?)(?=BereqURL|\Z)", text, re.S)
            report.check(own and says in own[1], f"{name}: the log says {says!r}: {own and own[1]}")
            report.check(own and f"backend {name}: fail errno 71 (Protocol error)" in own[1], f"{name}: FetchError: {own and own[1]}")
        failures = sum(says is not None for _, _, says in cases.values())
        names = ("backend_tls_fail", "backend_tls", "backend_fail")
        report.comes(lambda: [counter(program, v, f"MAIN.{name}") for name in names], [failures, len(cases) - failures, failures], f"{names}")
        names = origins["good"].names
        report.check(names == [NAME], f"the name is told: {names}")
    for o in origins.values():
        o.close()


def strange_peers(report, program, bed):
    """Those that speak no TLS, stall, close, want a certificate, or speak only one version."""
    plain = Origin(simple(hello))
    held = []
    stall = Origin(lambda s: (held.append(s), s.recv(1), s.recv(70000), s.recv(1)))
    gone = Origin(lambda s: s.recv(70000))
    picky = bed.origin(clients=bed.root.cert)
    two = bed.origin(versions=("1.2",))
    three = bed.origin(versions=("1.3",))
    silent = bed.origin()
    # As old as they come: version 1, and a key that nobody makes any more.
    old = bed.dir / "old"
    old.mkdir()
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", old / "key.pem")
    openssl("req", "-new", "-key", old / "key.pem", "-subj", "/CN=old.test", "-out", old / "request.pem")
    openssl("x509", "-req", "-in", old / "request.pem", "-signkey", old / "key.pem", "-days", "9", "-out", old / "cert.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.load_cert_chain(old / "cert.pem", old / "key.pem")
    weak = SealedOrigin(simple(hello), context)
    patient = Origin(lambda s: (held.append(s), s.recv(1), s.recv(70000), s.recv(1)))
    own = f'.certificate = "{bed.client.pem}"; '
    peers = {"plain": (plain, ".connect_timeout = 2s; "), "stall": (stall, ".connect_timeout = 0.5s; "), "gone": (gone, ".connect_timeout = 2s; "), "picky": (picky, ""),
             "known": (picky, own), "two": (two, ""), "three": (three, ""), "silent": (silent, ".ssl_sni = 0; "),
             "patient": (patient, ".connect_timeout = 0s; .first_byte_timeout = 0.5s; "), "weak": (weak, ".ssl_verify_peer = 0; "), "weaks": (weak, "")}
    vcl = HEAD + "".join(backend(n, o.address, more + bed.ca()) for n, (o, more) in peers.items()) + choose(peers)
    with Varnishd(program, vcl=vcl, args=["-p", "connect_timeout=0"]) as v:
        for name in ("known", "two", "three", "silent", "weak"):
            r = get(v.address, f"/{name}/x")
            report.check(r.status == 200, f"{name} is good: {r}")
        for name in ("plain", "stall", "gone", "picky", "patient", "weaks"):
            r = get(v.address, f"/{name}/x")
            report.check(r.status == 503, f"{name} is refused: {r}")
        text = log(v, "BereqURL,BackendSSL,FetchError", *(f"/{name}/x\n" for name in peers))
        for name, says in (("stall", "Handshake timeout"), ("stall", "fail errno 110 (Connection timed out)"), ("patient", "Handshake timeout"),
                           ("two", "TLSv1.2 ECDHE-ECDSA-AES"), ("three", "TLSv1.3 TLS_AES")):
            part = re.search(rf"BereqURL +/{name}/x\n(.*?)(?=BereqURL|\Z)", text, re.S)
            report.check(part and says in part[1], f"{name}: the log says {says!r}: {part and part[1]}")
        for name in ("plain", "gone", "picky"):
            part = re.search(rf"BereqURL +/{name}/x\n(.*?)(?=BereqURL|\Z)", text, re.S)
            report.check(part and ("BackendSSL" in part[1] or "FetchError" in part[1]), f"{name} is in the log: {part and part[1]}")
        report.check(silent.names == [None], f"without SNI no name is told: {silent.names}")
        shown = [dict(x[0] for x in p["subject"]).get("commonName") for p in picky.peers if p]
        report.check(shown == ["client.test"], f"the certificate is shown: {picky.peers}")
        secret = b"".join(bed.client.key.read_bytes().splitlines()[1:-1])[:40]
        found = [f for f in v.n.rglob("*") if f.is_file() and secret in f.read_bytes().replace(b"\n", b"")]
        report.check(not found, f"no key in the working directory: {found}")
    for o, _ in peers.values():
        o.close()


def cut(report, program, bed):
    """Answers that end too early are never whole; one that ends with its connection is with close_notify alone."""
    def answer(s):
        while got := head(s, b""):
            path = got[1]
            if "length" in path:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
            elif "chunked" in path:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" + b"x" * 500 + b"\r\n")
            else:
                s.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n\r\n" + b"x" * 500)
            return
    orderly, rude = bed.origin(serve=answer), bed.origin(serve=answer, ends_in_order=False)
    both = {"orderly": orderly, "rude": rude}
    vcl = HEAD + "".join(backend(n, o.address, bed.ca()) for n, o in both.items()) + choose(both) + \
        "sub vcl_backend_response { set beresp.ttl = 100s; }\n"
    with Varnishd(program, vcl=vcl) as v:
        for name, origin in both.items():
            for kind in ("length", "chunked"):
                before = origin.handshakes
                answers = [get(v.address, f"/{name}/keep/{kind}") for _ in range(2)]
                report.check(all(r.reason for r in answers), f"{name}, {kind}: a cut answer isn't whole: {[str(r) for r in answers]}")
                report.check(origin.handshakes == before + 2, f"{name}, {kind}: a cut answer isn't kept")
            before = origin.handshakes
            answers = [get(v.address, f"/{name}/keep/end") for _ in range(2)]
            if name == "orderly":
                report.check(all(r.whole() and len(r.body) == 500 for r in answers), f"an end in order is the body's: {[str(r) for r in answers]}")
                report.check(origin.handshakes == before + 1, "it is kept")
            else:
                report.check(all(r.reason for r in answers), f"an end without close_notify is a cut: {[str(r) for r in answers]}")
                report.check(origin.handshakes == before + 2, "what may be cut isn't kept")
        v.cli.ask("param.set backend_tls_strict_end off")
        answers = [get(v.address, "/rude/keep/loose") for _ in range(2)]
        report.check(all(r.whole() and len(r.body) == 500 for r in answers), "an end without close_notify is one where the parameter says so")
    for o in both.values():
        o.close()


def keys(report, program, bed):
    """A certificate's key is for root alone: the manager reads it, and whoever comes after the first worker has it, too."""
    # A connection for each request, so that each shows who we are.
    picky = bed.origin(serve=simple(lambda m, p, f: ("Connection: close\r\n", b"x")), clients=bed.root.cert)
    closed = bed.dir / "closed"
    closed.mkdir(mode=0o700)
    pem = closed / "own.pem"
    others = bed.between.leaf("other.test", use="client")

    def hold(leaf):
        pem.write_bytes(leaf.pem.read_bytes())
        os.chmod(pem, 0o600)

    def subjects():
        return [dict(x[0] for x in p["subject"]).get("commonName") for p in picky.peers if p]

    def vcl(path=pem):
        return HEAD + backend("picky", picky.address, f'.certificate = "{path}"; ' + bed.ca()) + choose(["picky"])

    def load(v, name, path=pem):
        file = bed.dir / f"{name}.vcl"
        file.write_text(vcl(path))
        return v.cli.ask_raw(f"vcl.load {name} {file}")

    hold(bed.client)
    with Varnishd(program, vcl=vcl(), core=True) as v:
        def answers(who, when):
            r = get(v.address, "/picky/x")
            report.check(r.status == 200 and subjects()[-1:] == [who], f"{when}: {who} is shown: {r} {subjects()}")

        answers("client.test", "at first")
        hold(others)
        status, said = load(v, "second")
        report.check(status == 200, f"a second VCL: {status} {said}")
        v.cli.ask("vcl.use second")
        answers("other.test", "a VCL that was loaded later has the file of then")
        v.cli.ask("vcl.use boot")
        answers("client.test", "the first VCL keeps what it was loaded with")
        pem.unlink()
        for n, (path, content, says) in enumerate(((pem, None, "No such file"), (closed, None, "Not a file"), (closed / "text.pem", b"x\n", "no certificate"),
                                                   (closed / "key.pem", bed.client.key.read_bytes(), "no certificate"),
                                                   (closed / "mixed.pem", others.key.read_bytes() + bed.client.cert.read_bytes(), "mismatch"))):
            if content:
                path.write_bytes(content)
            status, said = load(v, f"bad{n}", path)
            text = said.decode() if isinstance(said, bytes) else str(said)
            report.check(status == 106 and str(path) in text and says in text, f"{path.name} refuses the VCL with its path: {status} {text}")
        worker = v.worker()
        os.kill(worker, signal.SIGABRT)
        report.check(until(LIMIT, lambda: v.worker() not in (None, worker) and "running" in v.cli.ask("status")), "another worker begins")
        report.check("core dumped" not in v.log(), "a worker with a backend's key leaves no core")
        answers("client.test", "another worker needs no file")
        worker = v.worker()
        v.cli.ask("upgrade")
        report.check(until(LIMIT, lambda: v.worker() not in (None, worker)), "the upgrade has a new worker")
        answers("client.test", "nor does an upgrade's")
        v.cli.ask("vcl.use second")
        answers("other.test", "the second VCL after an upgrade")
        v.cli.ask("vcl.discard boot")
        worker = v.worker()
        os.kill(worker, signal.SIGKILL)
        report.check(until(LIMIT, lambda: v.worker() not in (None, worker) and "running" in v.cli.ask("status")), "another worker after the upgrade")
        answers("other.test", "a worker of the manager after the upgrade")
        for leaf in (bed.client, others):
            raw = openssl("pkey", "-in", leaf.key, "-outform", "DER")[-60:][:30]
            secret = b"".join(leaf.key.read_bytes().splitlines()[1:-1])[:40]
            found = [f for f in v.n.rglob("*") if f.is_file() and (raw in f.read_bytes() or secret in f.read_bytes().replace(b"\n", b""))]
            report.check(not found, f"no key in the working directory: {found}")
            report.check(secret.decode() not in v.log(), "no key in the log")
    listing = bed.dir / "second.vcl"
    p = subprocess.run([program, "-C", "-f", str(listing)], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 2 and str(pem) in p.stderr, f"-C looks at it, too: {p.returncode} {p.stderr[-300:]}")
    picky.close()


def sharing(report, program, bed):
    """Connections are shared between equal identities only, and sessions are taken up again."""
    origin = bed.origin()
    closing = bed.origin(serve=simple(lambda m, p, f: ("Connection: close\r\n", b"x")))
    same = {"a": "", "b": ".ssl_verify_peer = 1; ", "loose": ".ssl_verify_peer = 0; ", "strict": ".ssl_verify_host = 1; ", "mute": ".ssl_nosni = 1; "}
    vcl = HEAD + "".join(backend(n, origin.address, more + bed.ca()) for n, more in same.items())
    vcl += f'backend named {{ .host = "127.0.0.1"; .port = "{origin.address[1]}"; .ssl = 1; .host_header = "x.wild.test"; {bed.ca()} }}\n'
    vcl += backend("closing", closing.address, bed.ca())
    vcl += choose([*same, "named", "closing"])
    with Varnishd(program, vcl=vcl, args=["-p", "thread_pools=1"]) as v:
        shared = []
        for name in ("a", "b", "a", "loose", "strict", "mute", "named", "b"):
            before = origin.handshakes
            report.check(get(v.address, f"/{name}/x").status == 200, f"{name} answers")
            shared.append(origin.handshakes == before)
        report.check(shared == [False, True, True, False, False, False, False, True], f"who shares with whom: {shared}")
        report.check(origin.names.count("x.wild.test") == 1 and origin.names.count(None) == 1, f"names: {origin.names}")
        for _ in range(4):
            get(v.address, "/closing/x")
        report.check(closing.handshakes == 4 and closing.resumed == 3, f"sessions are taken up: {closing.resumed} of {closing.handshakes}")
        report.comes(lambda: counter(program, v, "MAIN.backend_tls_resumed"), lambda n: n >= 3, "resumed ones are counted")
        text = log(v, "BackendSSL,BackendOpen", " resumed", " full", " reuse")
        report.check(has_all(" resumed", " full", " reuse")(text), f"the log tells full, resumed and reused: {text[-900:]}")
        # What an idle connection gets unasked are tickets: they make it no worse.
        before = counter(program, v, "MAIN.backend_reuse")
        with Client(v.address) as c:
            for _ in range(5):
                c.request("/a/x").whole()
        report.comes(lambda: counter(program, v, "MAIN.backend_reuse") - before, 5, "an idle connection is used again")
        big = b"z" * 300000
        r = get(v.address, "/a/post", method="POST", body=big)
        report.check(r.status == 200, f"a long request body goes out: {r}")
    origin.close()
    closing.close()


def probes_and_pipes(report, program, bed):
    """A probe shakes hands, and says why it can't; a pipe is sealed."""
    fine, bad = bed.origin(serve=once), bed.origin(bed.stranger.leaf(NAME))
    echo = bed.origin(serve=lambda s: (head(s, b""), s.sendall(b"HTTP/1.1 101 Go\r\n\r\n"), [s.sendall(d) for d in iter(lambda: s.recv(65536), b"")]))
    probe = ".probe = { .url = \"/p\"; .interval = 0.1s; .initial = 0; .window = 3; .threshold = 2; } "
    every = {"fine": (fine, probe), "bad": (bad, probe), "echo": (echo, "")}
    vcl = HEAD + "".join(backend(n, o.address, more + bed.ca()) for n, (o, more) in every.items()) + choose(every)
    with Varnishd(program, vcl=vcl) as v:
        health = lambda: next(line for line in v.cli.ask("backend.list").splitlines() if ".fine" in line)
        report.check(until(LIMIT, lambda: "healthy" in health()), f"the probe finds it healthy: {health()}")
        report.check(get(v.address, "/fine/x").status == 200, "a healthy backend is asked")
        report.check(get(v.address, "/bad/x").status == 503, "a sick one isn't")
        seen = lambda: subprocess.run([pathlib.Path(program).parent / "varnishlog", "-n", v.n, "-d", "-g", "raw", "-i", "Backend_health"],
                                      capture_output=True, timeout=LIMIT).stdout.decode()
        report.check(until(LIMIT, lambda: "Server verification failed: unable to get local issuer certificate" in seen()), f"the record says why: {seen()[-400:]}")
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(b"GET /echo/x HTTP/1.1\r\nHost: a\r\npipe: 1\r\n\r\n")
            data = os.urandom(200000)
            got = b""
            while b"\r\n\r\n" not in got:
                got += s.recv(65536)
            body = got.split(b"\r\n\r\n", 1)[1]
            s.sendall(data[:1000])
            while len(body) < 1000 and (d := s.recv(65536)):
                body += d
            report.check(body == data[:1000], "bytes go both ways through a pipe")
    for o, _ in every.values():
        o.close()


def loading(report, program, bed):
    """What a VCL names is looked at when it is loaded."""
    encrypted = bed.dir / "encrypted.pem"
    encrypted.write_bytes(openssl("pkcs8", "-topk8", "-in", bed.client.key, "-passout", "pass:x") + bed.client.chain.read_bytes())
    mixed = bed.dir / "mixed.pem"
    mixed.write_bytes(bed.good.key.read_bytes() + bed.client.chain.read_bytes())
    empty = bed.dir / "empty.pem"
    empty.write_text("nothing\n")
    key_and_ca = bed.dir / "key_and_ca.pem"
    key_and_ca.write_bytes(bed.good.key.read_bytes() + bed.root.cert.read_bytes())
    noted = bed.dir / "noted.pem"
    noted.write_text(f"not for the working directory\n{bed.root.cert.read_text()}")
    listed = bed.between.revoked().read_bytes()
    noted_crl = bed.dir / "noted.crl"
    noted_crl.write_text(f"not for the working directory\n{listed.decode()}")
    key_and_crl = bed.dir / "key_and_crl.pem"
    key_and_crl.write_bytes(bed.good.key.read_bytes() + listed)
    garbage_crl = bed.dir / "garbage.crl"
    garbage_crl.write_bytes(b"0garbage")
    torn_crl = bed.dir / "torn.crl"
    torn_crl.write_bytes(b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")
    der_crl = bed.dir / "der.crl"
    der_crl.write_bytes(openssl("crl", "-in", noted_crl, "-outform", "DER"))
    for path in (encrypted, mixed, key_and_ca, key_and_crl):
        os.chmod(path, 0o644)
    with Varnishd(program, vcl=HEAD.replace("backend default none;", 'backend default { .host = "127.0.0.1"; .port = "1"; }')) as v:
        for n, (attribute, path, says) in enumerate((("certificate", encrypted, "encrypted"), ("certificate", mixed, "Private key mismatch"),
                                      ("certificate", empty, "no certificate"), ("ssl_ca_file", empty, "no certificate"),
                                      ("ssl_ca_file", key_and_ca, "private key"), ("ssl_crl_file", key_and_crl, "private key"),
                                      ("ssl_crl_file", garbage_crl, "could not be parsed"), ("ssl_crl_file", torn_crl, "could not be parsed"),
                                      ("ssl_crl_file", empty, "no list in it"), ("ssl_ca_file", bed.dir / "none", "No such file"))):
            text = f'vcl 4.1; backend b {{ .host = \\"127.0.0.1\\"; .ssl = 1; .{attribute} = \\"{path}\\"; }}'
            try:
                v.cli.ask(f'vcl.inline x{n} "{text}"')
                answer = "loaded"
            except CliError as e:
                answer = str(e)
            report.check(says in answer and str(path) in answer, f".{attribute} = {path.name} is refused with its path: {answer}")
        v.cli.ask(f'vcl.inline kept "vcl 4.1; backend b {{ .host = \\"127.0.0.1\\"; .ssl = 1; .ssl_ca_file = \\"{noted}\\"; .ssl_crl_file = \\"{noted_crl}\\"; }}"')
        v.cli.ask(f'vcl.inline der "vcl 4.1; backend b {{ .host = \\"127.0.0.1\\"; .ssl = 1; .ssl_crl_file = \\"{der_crl}\\"; }}"')
        kept = {f: f.read_bytes().replace(b"\n", b"") for f in v.n.rglob("*") if f.is_file()}
        for what, part in (("the certificate", bed.root.cert.read_bytes().splitlines()[1]), ("the list", listed.splitlines()[1])):
            report.check(any(part in text for text in kept.values()), f"{what} is in the working directory")
        for what, part in (("key", bed.good.key.read_bytes().splitlines()[1]), ("note", b"not for the working directory")):
            report.check(not [f for f, text in kept.items() if part in text], f"no {what} of a file of authorities or lists is in the working directory")


def by_argument(report, program, bed):
    """-b https://: the name is checked, and the system says whom to trust."""
    fine, other = bed.origin(), bed.origin(bed.between.leaf("other.test"))
    for address, host, status in ((fine.address, "localhost", 200), (fine.address, "127.0.0.1", 200), (other.address, "localhost", 503)):
        with Varnishd(program, args=["-b", f"https://{host}:{address[1]}"]) as v:
            r = get(v.address, "/x")
            report.check(r.status == status, f"-b https://{host}: {r}")
    fine.close()
    other.close()


def modules(report, program, bed):
    """Modules that reach out by themselves."""
    fine, other = bed.origin(), bed.origin(bed.between.leaf("other.test"))
    here, wrong = f"https://localhost:{fine.address[1]}", f"https://localhost:{other.address[1]}"
    tunnels = []

    def tunnel(s):
        method, path, _, _ = head(s, b"")
        tunnels.append((method, path))
        host, port = path.rsplit(":", 1)
        with socket.create_connection((host, int(port)), LIMIT) as t:
            s.sendall(b"HTTP/1.1 200 Go\r\n\r\n")
            s.setblocking(False)
            t.setblocking(False)
            import select
            ends = {s: t, t: s}
            while True:
                for r in select.select(list(ends), [], [], LIMIT)[0]:
                    d = r.recv(65536)
                    if not d:
                        return
                    ends[r].setblocking(True)
                    ends[r].sendall(d)
                    ends[r].setblocking(False)
    proxy = Origin(tunnel)
    replies = []

    def redis(s):
        while d := s.recv(65536):
            replies.append(d)
            s.sendall(b"+PONG\r\n")
    store = bed.origin(serve=redis)
    vcl = f"""vcl 4.1;
import goto; import reqwest; import http; import dynamic; import s3; import redis; import activedns; import udo;
backend default none;
sub vcl_init {{
    new g = goto.dns_director("{here}", ip_version = ipv4);
    new gw = goto.dns_director("{wrong}", ip_version = ipv4);
    new gl = goto.dns_director("{wrong}", ip_version = ipv4, ssl_verify_host = false);
    new r = reqwest.client(base_url = "{here}");
    new rw = reqwest.client(base_url = "{wrong}");
    new rl = reqwest.client(base_url = "{wrong}", accept_invalid_hostnames = true);
    new rp = reqwest.client(base_url = "https://127.0.0.1:{fine.address[1]}", https_proxy = "http://127.0.0.1:{proxy.address[1]}/");
    new d = dynamic.director(port = "{fine.address[1]}", ssl = true);
    new b = s3.director("bucket", "region", "{here}");
    new db = redis.db("127.0.0.1:{store.address[1]}", tls = true, tls_cafile = "{bed.root.cert}", tls_sni = "{NAME}");
    new dbw = redis.db("127.0.0.1:{store.address[1]}", tls = true, tls_cafile = "{bed.root.cert}", tls_sni = "wrong.test");
    new group = activedns.dns_group("{here}");
    new u = udo.director();
    u.subscribe(group.get_tag());
}}
sub vcl_recv {{
    if (req.url == "/http") {{
        http.init(0); http.req_set_url(0, "{here}/h"); http.req_send_and_finish(0);
        return (pass);
    }}
    if (req.url ~ "^/httpw") {{
        http.init(0); http.req_set_url(0, "{wrong}/h");
        if (req.url == "/httpwl") {{ http.req_set_iparam(0, "SSL_VERIFYHOST", 0); }}
        http.req_send(0); http.resp_wait(0);
        return (synth(200 + http.resp_get_status(0)));
    }}
    if (req.url == "/redis") {{
        db.command("PING"); db.execute();
        return (synth(200, db.get_reply()));
    }}
    if (req.url == "/redisw") {{
        dbw.command("PING"); dbw.execute();
        return (synth(200, "got " + dbw.get_reply()));
    }}
    return (pass);
}}
sub vcl_backend_fetch {{
    if (bereq.url == "/g") {{ set bereq.backend = g.backend(); }}
    if (bereq.url == "/gd") {{ set bereq.backend = goto.dns_backend("{here}"); }}
    if (bereq.url == "/gw") {{ set bereq.backend = gw.backend(); }}
    if (bereq.url == "/gl") {{ set bereq.backend = gl.backend(); }}
    if (bereq.url == "/r") {{ set bereq.backend = r.backend(); }}
    if (bereq.url == "/rw") {{ set bereq.backend = rw.backend(); }}
    if (bereq.url == "/rl") {{ set bereq.backend = rl.backend(); }}
    if (bereq.url == "/rp") {{ set bereq.backend = rp.backend(); }}
    if (bereq.url == "/d") {{ set bereq.backend = d.backend("localhost"); }}
    if (bereq.url == "/b") {{ set bereq.backend = b.backend(); }}
    if (bereq.url == "/u") {{ set bereq.backend = u.backend(); }}
}}
""".replace('http.req_send_and_finish(0);\n        return (pass);', 'http.req_send(0); http.resp_wait(0);\n        return (synth(http.resp_get_status(0)));')
    with Varnishd(program, vcl=vcl) as v:
        for path, status in (("g", 200), ("gd", 200), ("gw", 503), ("gl", 200), ("r", 200), ("rw", 503), ("rl", 200), ("rp", 200), ("d", 200),
                             ("b", 200), ("u", 200), ("http", 200), ("httpw", 200), ("httpwl", 400), ("redis", 200), ("redisw", 200)):
            r = get(v.address, "/" + path)
            report.check(r.status == status, f"/{path}: {status} expected: {r}")
        report.check(tunnels == [("CONNECT", f"127.0.0.1:{fine.address[1]}")], f"the proxy is asked for a tunnel: {tunnels}")
        report.check(len(replies) == 1, f"redis is asked once by TLS: {replies}")
        why = "the certificate of localhost is refused: hostname mismatch"
        report.check(why in (text := read_log(v, has_all(why), "-g", "raw")), f"the log says why reqwest or http failed: {text[-900:]}")
    for o in (fine, other, proxy, store):
        o.close()


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"))
    report = Report("origins")
    with directory() as place:
        bed = Beds(place)
        # Whom the system trusts.
        os.environ["SSL_CERT_FILE"] = str(bed.root.cert)
        os.environ.pop("SSL_CERT_DIR", None)
        for part in (good_and_bad, strange_peers, cut, keys, sharing, probes_and_pipes, loading, by_argument, modules):
            if o.words in part.__name__:
                part(report, o.varnishd, bed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
