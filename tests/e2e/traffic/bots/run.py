#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`import botauth`: an independent signer (http-message-signatures of PyPI) signs requests, and key directories on loopback answer, hang, lie,
redirect or send too much. No request waits for a directory, and no directory is asked that VCL doesn't allow."""
import base64
import hashlib
import json
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import pypi
from bed.built import ROOT
from bed.certificates import Authority
from bed.daemon import Varnishd, directory
from bed.http import Client
from bed.origin import Origin, head, simple
from bed.report import Report, options
from bed.sealed import SealedOrigin, server_context

NO_SIGNER = pypi.missing("http_message_signatures")
if not NO_SIGNER:
    import signed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KIND = "application/http-message-signatures-directory+json"
PATH = "/.well-known/http-message-signatures-directory"
FETCHING = "unknown key: the directory is being fetched"

VCL = """vcl 4.1;
import botauth;
backend none none;
sub vcl_init {
    new bots = botauth.verifier(%s);
}
sub vcl_recv {
    bots.verify();
    return (synth(200, bots.outcome() + "|" + bots.agent() + "|" + bots.reason()));
}
"""


def b64(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


class Key:
    """A key pair of Ed25519, its thumbprint and its entry in a key set."""

    def __init__(self):
        self.private = Ed25519PrivateKey.generate()
        self.x = b64(self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        text = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": self.x}, separators=(",", ":"))
        self.id = b64(hashlib.sha256(text.encode()).digest())

    def entry(self, **more):
        return {"kty": "OKP", "crv": "Ed25519", "x": self.x, "kid": self.id, "use": "sig", **more}


def answer(body, status="200 OK", kind=KIND, more=""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Directory(SealedOrigin):
    """A server of one answer; `asked` are the requests that it got."""

    def __init__(self, leaf, reply):
        self.reply, self.asked, self.released = reply, [], threading.Event()
        super().__init__(self._answer, server_context(leaf))

    @property
    def agent(self):
        return f"localhost:{self.address[1]}"

    def _answer(self, s):
        got = head(s, b"")
        if got:
            self.asked.append(got[:3])
            s.sendall(self.reply) if self.reply else self.released.wait()

    def close(self):
        self.released.set()
        super().close()


class Bed:
    def __init__(self, place):
        self.root = Authority(place / "root")
        self.leaf = self.root.leaf("localhost")
        self.stranger = self.root.leaf("other.test")
        self.key = Key()
        os.environ["SSL_CERT_FILE"] = str(self.root.cert)
        os.environ.pop("SSL_CERT_DIR", None)

    def directory(self, reply=None, leaf=None):
        return Directory(leaf or self.leaf, answer({"keys": [self.key.entry()]}) if reply is None else reply)


def sign(key, agent, **how):
    """Header fields of a request that the key's owner signed; see `signed.sign`."""
    return signed.sign(key.private, how.pop("keyid", key.id), agent and f"https://{agent}", **how)


class Server(Varnishd):
    """One that says what it thinks of a request."""

    def __init__(self, program, args):
        super().__init__(program, vcl=VCL % args)

    def verdict(self, fields, path="/", method="GET", host="www.example"):
        with Client(self.address) as client:
            return client.request(path, fields, method, host).reason

    def comes(self, report, key, agent, wanted, what):
        report.comes(lambda: self.verdict(sign(key, agent)), wanted, what)


def signer(report, program, bed):
    """All that the other implementation signs is verified, after one fetch in the background."""
    with bed.directory() as d, Server(program, f'"{d.agent}", scheme=https') as v:
        good = f"verified|{d.agent}|"
        first = v.verdict(sign(bed.key, d.agent))
        report.check(first == f"unverified|{d.agent}|{FETCHING}", f"the first request doesn't wait: {first}")
        v.comes(report, bed.key, d.agent, good, "later ones are verified")
        for components in (["@authority"], ["@target-uri"], ["@method", "@authority", "@path", "@query", "@scheme", "@request-target"],
                           ["@authority", '"@query-param";name="a"', '"@query-param";name="b%20c"'],
                           ["@authority", "x-list", '"x-list";bs', '"x-dict";key="m"', '"priority";sf']):
            for form in ("dictionary", "string"):
                fields = sign(bed.key, d.agent, components=components, form=form)
                got = v.verdict(fields, signed.PATH)
                report.check(got == good, f"{components}, {form}: {got}")
        report.check(len(d.asked) == 1, f"the directory is asked once: {d.asked}")
        report.comes(lambda: v.counter("MAIN.bot_directory_fetches"), 1, "and that is counted")
        report.comes(lambda: v.counter("MAIN.bot_verified"), lambda count: count >= 11, "verified requests are counted")
        report.comes(lambda: v.counter("MAIN.bot_unverified"), lambda count: count >= 1, "unverified ones are counted")
        method, path, fields = d.asked[0]
        report.check((method, path, fields.get("host"), fields.get("accept")) == ("GET", PATH, d.agent, KIND), f"the question: {d.asked[0]}")


def changed(report, program, bed):
    with bed.directory() as d, Server(program, f'"{d.agent}", scheme=https') as v:
        v.comes(report, bed.key, d.agent, f"verified|{d.agent}|", "the key is known")
        whole = dict(components=["@authority", "@method", "@target-uri", "x-list"])
        forged = f"forged|{d.agent}|the signature isn't that of its key"
        fields = sign(bed.key, d.agent, **whole)
        other = [(n, v + "x" if n == "X-List" else v) for n, v in fields]
        for what, got in (("authority", v.verdict(fields, signed.PATH, host="evil.example")), ("path", v.verdict(fields, "/other")),
                          ("method", v.verdict(fields, signed.PATH, "POST")), ("field", v.verdict(other, signed.PATH))):
            report.check(got == forged, f"another {what}: {got}")
        got = v.verdict(sign(Key(), d.agent, keyid=bed.key.id))
        report.check(got == forged, f"another signer under this keyid: {got}")
        got = v.verdict(sign(Key(), d.agent))
        report.check(got == f"unverified|{d.agent}|unknown key", f"another key is unknown, not forged: {got}")
        report.comes(lambda: v.counter("MAIN.bot_forged"), 5, "forged requests are counted")
        fields_of_target = sign(bed.key, d.agent, components=["@authority", "@request-target"])
        why = '"@request-target": was an absolute URL, which isn\'t kept'
        got = v.verdict(fields_of_target, f"http://www.example{signed.PATH}")
        report.check(got == f"unverified|{d.agent}|{why}", f"an absolute target: {got}")
        gone = [(n, v) for n, v in fields if n != "X-List"]
        got = v.verdict(gone, signed.PATH)
        report.check(got == f'unverified|{d.agent}|"x-list": isn\'t in the request', f"a field that was removed: {got}")


def clocks(report, program, bed):
    """Times are far from their bounds by more than a test may take."""
    with bed.directory() as d, Server(program, f'"{d.agent}", max_life=2h, skew=10m') as v:
        v.comes(report, bed.key, d.agent, f"verified|{d.agent}|", "the key is known")
        for start, life, why in ((-300, 600, ""), (300, 600, ""), (3600, 600, "in the future"), (-7200, 3600, "expired"),
                                 (-3800, 3500, ""), (0, 7201, "more than 7200 s"), (0, 7200, ""), (60, -1, "expires before")):
            got = v.verdict(sign(bed.key, d.agent, start=start, life=life))
            report.check(why in got and got.startswith("unverified" if why else "verified"), f"signed {start} s from now for {life} s: {got}")


def replay(report, program, bed):
    with bed.directory() as d, Server(program, f'"{d.agent}", nonces=12') as v:
        report.comes(lambda: v.verdict(sign(bed.key, d.agent, nonce=b64(os.urandom(16)))), f"verified|{d.agent}|", "the key is known")
        used = sign(bed.key, d.agent, nonce="one")
        got = [v.verdict(used) for _ in range(3)]
        report.check(got[0] == f"verified|{d.agent}|" and all("the nonce was used before" in g for g in got[1:]), f"once only: {got}")
        got = v.verdict(sign(bed.key, d.agent))
        report.check("no nonce" in got, f"without a nonce: {got}")
        got = [v.verdict(sign(bed.key, d.agent, nonce=f"n{n}")).split("|")[2] for n in range(3)]
        report.check(got == ["", "too many nonces are in use", "too many nonces are in use"], f"when all are in use: {got}")


def bad_directories(report, program, bed):
    with bed.directory() as target:
        keys = {"keys": [bed.key.entry()]}
        redirect = f"Location: https://{target.agent}{PATH}\r\n"
        ways = {
            "redirects": (answer(keys, "302 Found", more=redirect), None, "status 302"),
            "hasn't got one": (answer({}, "404 Not Found"), None, "status 404"),
            "has another type": (answer(keys, kind="application/json"), None, 'its type is "application/json"'),
            "is no JSON": (answer(b"<html>"), None, "not JSON"),
            "is too long": (answer(b" " * 300_000), None, "longer than 262144 bytes"),
            "has too many keys": (answer({"keys": [bed.key.entry()] * 257}), None, "more than 256 keys"),
            "names keys falsely": (answer({"keys": [Key().entry(kid=bed.key.id)]}), None, "it has no key for ed25519"),
            "speaks no HTTP": (b"SSH-2.0-x\r\n\r\n", None, "no HTTP/1"),
            "ends too early": (answer(keys)[:-5], None, ""),
            "shows another's certificate": (answer(keys), bed.stranger, "hostname mismatch"),
        }
        servers = {what: bed.directory(reply, leaf) for what, (reply, leaf, _) in ways.items()}
        with Server(program, f'"{" ".join(d.agent for d in servers.values())}"') as v:
            for what, d in servers.items():
                told = lambda got, why=ways[what][2]: "no keys from the directory: " in got and why in got and got.startswith("unverified")
                v.comes(report, bed.key, d.agent, told, f"a directory that {what}")
                d.close()
        report.check(not target.asked, f"a redirection isn't followed: {target.asked}")


def hanging(report, program, bed):
    """A directory that accepts and says nothing: no request waits for it, and another directory is fetched meanwhile."""
    with bed.directory(b"") as dead, bed.directory() as d, Server(program, f'"{dead.agent} {d.agent}"') as v:
        got = v.verdict(sign(bed.key, dead.agent))
        report.check(got == f"unverified|{dead.agent}|{FETCHING}", f"the first request: {got}")
        report.comes(lambda: len(dead.asked), 1, "the directory is asked")
        v.comes(report, bed.key, d.agent, f"verified|{d.agent}|", "another agent")
        told = f"unverified|{dead.agent}|unknown key: no keys from the directory: does not answer in time"
        v.comes(report, bed.key, dead.agent, told, "the fetch ends")


def policy(report, program, bed):
    """A client can't have this server ask whom it likes."""
    with bed.directory() as d, Origin(lambda s: None) as plain, Server(program, '"any"') as v:
        hits = []
        plain.serve = lambda s: hits.append(s)
        for agent in (d.agent, f"127.0.0.1:{plain.address[1]}", "127.0.0.1", "localhost", "[::1]", "169.254.169.254"):
            got = v.verdict(sign(bed.key, agent))
            report.check(got == f"unverified|{agent}|the agent isn't in the list", f"{agent}: {got}")
        # A public name that leads to this machine.
        v.comes(report, bed.key, "agent.localhost", lambda got: "no address that may be asked" in got, "agent.localhost")
        got = v.verdict(sign(bed.key, None))
        report.check(got == "unverified||unknown key, and no Signature-Agent", f"no agent: {got}")
        report.check(not d.asked and not d.handshakes and not hits, f"nobody was asked: {d.asked} {hits}")
    with bed.directory() as d, bed.directory() as other, Server(program, f'"{d.agent}"') as v:
        got = v.verdict(sign(bed.key, other.agent))
        report.check("the agent isn't in the list" in got, f"one that VCL doesn't name: {got}")
        v.comes(report, bed.key, d.agent, f"verified|{d.agent}|", "one that VCL names")
        report.check(not other.asked, f"the other isn't asked: {other.asked}")


def recipe(report, program, bed):
    """The VCL of docs/bots.md: a verified bot isn't counted, and who only says its name is."""
    page = (ROOT / "docs/bots.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```vcl\n")[1:]]
    text = next(block for block in blocks if "import botauth" in block)
    def page_of(method, path, fields):
        life = "max-age=60" if path == "/kept" else "no-store"
        return f"Cache-Control: {life}\r\n", f"{fields.get('x-verified-bot', '-')} {method} {fields.get('cookie', '-')}".encode()

    with bed.directory() as d, Origin(simple(page_of)) as site:
        text = text.replace("crawler.example", d.agent).replace('"8080"', f'"{site.address[1]}"')
        # The stranger's requests are counted apart from those that the bot makes before its key is known.
        with Varnishd(program, vcl=text) as v, Client(v.address) as client, Client(v.address, source="127.0.0.2") as stranger:
            ask = lambda fields, path, by=client, method="GET": by.request(path, fields, method, "www.example")
            report.comes(lambda: ask(sign(bed.key, d.agent), "/a").body, f"{d.agent} GET -".encode(), "the origin is told who asks")
            got = [ask(sign(bed.key, d.agent) + [("Cookie", f"user={user}")], "/kept").body for user in "ab"]
            report.check(got == [f"{d.agent} GET user={user}".encode() for user in "ab"], f"each cookie has a page of its own: {got}")
            got = [ask(sign(bed.key, d.agent), "/kept", method=method).body for method in ("POST", "GET", "POST")]
            report.check(got == [f"{d.agent} {method} -".encode() for method in ("POST", "GET", "POST")], f"a POST is passed: {got}")
            unsigned = [("User-Agent", "crawler.example"), ("X-Verified-Bot", d.agent)]
            report.check(ask(unsigned, "/b", stranger).body == b"- GET -", "a name alone is no proof")
            refused = []

            def claim():
                refused.extend(r for r in (ask(unsigned, "/b", stranger) for _ in range(50)) if r.status == 429)
                return len(refused)
            report.comes(claim, lambda count: count > 0, "a client that claims the name is limited")
            asked = refused[0].get("Accept-Signature", "") if refused else None
            report.check('tag="web-bot-auth"' in (asked or ""), f"and is asked to sign: {asked}")
            got = [ask(sign(bed.key, d.agent), "/a").status for _ in range(30)]
            report.check(got == [200] * 30, f"a verified bot isn't limited: {got}")
            forged = ask(sign(Key(), d.agent, keyid=bed.key.id), "/a")
            report.check(forged.status == 403, f"a forged signature: {forged}")


def reloads(report, program, bed):
    """What was fetched outlives the VCL that asked."""
    with bed.directory() as d, Server(program, f'"{d.agent}"') as v:
        v.comes(report, bed.key, d.agent, f"verified|{d.agent}|", "the key is known")
        text = VCL % f'"{d.agent}"'
        v.cli.ask(f"vcl.inline second << END\n{text}\nEND")
        v.cli.ask("vcl.use second")
        got = v.verdict(sign(bed.key, d.agent))
        report.check(got == f"verified|{d.agent}|", f"the next VCL: {got}")
        report.check(len(d.asked) == 1, f"one question: {len(d.asked)}")


def main():
    o = options(__doc__, (signer, changed, clocks, replay, bad_directories, hanging, policy, recipe, reloads))
    report = Report("bots")
    if NO_SIGNER:
        report.note(f"LEFT OUT, as there is no http-message-signatures ({NO_SIGNER}): all")
        return 0
    with directory() as place:
        report.run(o.cases, report, o.varnishd, Bed(place), at_once=2)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
