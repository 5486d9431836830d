# SPDX-License-Identifier: BSD-2-Clause
"""A certificate authority that speaks ACME (RFC 8555, 8737, 9773), small, on loopback, and wrong on request.

It asks the server under test for its proofs at the ports that it is told, and signs with openssl's command line. What it takes from its
client on trust is the signature of each request; the form of everything else it checks.
"""
import base64
import datetime
import hashlib
import http.client
import http.server
import json
import pathlib
import socket
import ssl
import subprocess
import threading
import time

WAIT = 30  # seconds for whatever a test is to say first
CONFIG = """
[ca]
default_ca = own
[own]
dir = {dir}
database = {dir}/index
new_certs_dir = {dir}/made
serial = {dir}/serial
certificate = {dir}/ca.pem
private_key = {dir}/ca.key
default_md = sha256
unique_subject = no
policy = any
[any]
commonName = optional
"""


def openssl(*args, data=None):
    p = subprocess.run(["openssl", *map(str, args)], input=data, capture_output=True, check=False)
    if p.returncode:
        raise RuntimeError(f"openssl {args[0]}: {p.stderr.decode(errors='replace')}")
    return p.stdout


def unbase64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def to_base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def stamp(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y%m%d%H%M%SZ")


def iso(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Refused(Exception):
    """An answer that is a problem document."""

    def __init__(self, status, kind, detail, **fields):
        super().__init__(detail)
        self.status, self.kind, self.detail, self.fields = status, kind, detail, fields


class Ca:
    """`directory` is its URL, `trusted` the file that clients trust it by. Use as a context manager.

    Told by tests: `http_port` and `tls_port` (where it looks for proofs; it waits until they are known), `lifetime` of a certificate in
    seconds, `starts` (seconds from now on), `window` (for each certificate: a function of its beginning and end that gives two times; none:
    no renewal information), `down` (answers 503 in HTML), `before_order` and `before_check` (functions of the name, which may wait, or raise
    Refused), `stale_nonces` (so many requests are told that their nonce is old).
    """

    def __init__(self, place):
        self.dir = pathlib.Path(place)
        self.http_port = self.tls_port = None
        self.lifetime, self.starts, self.window, self.retry_after = 90 * 86400, 0, None, 1
        self.down, self.stale_nonces = False, 0
        self.before_order = self.before_check = lambda name: None
        self.accounts, self.orders, self.checks, self.issued, self.replaced = {}, [], [], [], []
        self.nonces, self.lock, self.numbers = set(), threading.Lock(), 0
        (self.dir / "made").mkdir(parents=True)
        (self.dir / "index").touch()
        (self.dir / "serial").write_text("1000\n")
        (self.dir / "ca.cnf").write_text(CONFIG.format(dir=self.dir))
        self.trusted = self.dir / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.dir / "ca.key",
                "-out", self.trusted, "-subj", "/CN=Test CA", "-days", "30")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.dir / "own.key",
                "-out", self.dir / "own.csr", "-subj", "/")
        self.sign(self.dir / "own.csr", "IP:127.0.0.1", self.dir / "own.pem", time.time() - 3600, time.time() + 86400)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.ca = self
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.dir / "own.pem", self.dir / "own.key")
        self.port = self.server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self.directory = self.url + "/dir"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def sign(self, csr, names, out, starts, ends):
        extensions = self.dir / "extensions"
        with self.lock:
            extensions.write_text(f"subjectAltName={'' if names.startswith('IP') else 'critical,'}{names}\nauthorityKeyIdentifier=keyid\n"
                                  "extendedKeyUsage=serverAuth\n")
            openssl("ca", "-batch", "-notext", "-config", self.dir / "ca.cnf", "-in", csr, "-out", out, "-startdate", stamp(starts), "-enddate",
                    stamp(ends), "-extfile", extensions, "-subj", "/CN=leaf" if names.startswith("IP") else "/CN=acme")

    def number(self):
        with self.lock:
            self.numbers += 1
            return self.numbers

    def nonce(self):
        nonce = to_base64(hashlib.sha256(f"{self.port}-{self.number()}".encode()).digest())
        self.nonces.add(nonce)
        return nonce

    def names(self):
        """Of the orders so far."""
        return [order["name"] for order in self.orders]

    # What the resources of RFC 8555 do: (status, body, more fields).

    def new_account(self, jwk, payload):
        if not payload.get("termsOfServiceAgreed"):
            raise Refused(403, "userActionRequired", "the terms of service")
        url = f"{self.url}/account/{self.number()}"
        thumb = hashlib.sha256(json.dumps({k: jwk[k] for k in ("crv", "kty", "x", "y")}, separators=(",", ":"), sort_keys=True).encode())
        self.accounts[url] = {"thumb": to_base64(thumb.digest()), "contact": payload.get("contact", []), "bound": "externalAccountBinding" in payload}
        return 201, {"status": "valid"}, {"Location": url}

    def new_order(self, account, payload):
        (identifier,) = payload["identifiers"]
        name = identifier["value"]
        self.before_order(name)
        token = to_base64(hashlib.sha256(str(self.number()).encode()).digest())
        order = {"number": len(self.orders), "name": name, "account": account, "status": "pending", "token": token, "error": None,
                 "checks": {}, "chain": None, "replaces": payload.get("replaces")}
        if order["replaces"]:
            self.replaced.append(order["replaces"])
        self.orders.append(order)
        return 201, self.order_body(order), {"Location": f"{self.url}/order/{order['number']}"}

    def order_body(self, order):
        n = order["number"]
        body = {"status": order["status"], "identifiers": [{"type": "dns", "value": order["name"]}], "authorizations": [f"{self.url}/authz/{n}"],
                "finalize": f"{self.url}/finalize/{n}"}
        if order["replaces"]:
            body["replaces"] = order["replaces"]
        if order["chain"]:
            body["certificate"] = f"{self.url}/cert/{n}"
        return body

    def challenge_body(self, order, kind):
        body = {"type": kind, "url": f"{self.url}/challenge/{order['number']}/{kind}", "token": order["token"],
                "status": order["checks"].get(kind, "pending")}
        if order["error"] and body["status"] == "invalid":
            body["error"] = order["error"]
        return body

    def authorization(self, order):
        status = {"pending": "pending", "invalid": "invalid"}.get(order["status"], "valid")
        return {"status": status, "identifier": {"type": "dns", "value": order["name"]},
                "challenges": [self.challenge_body(order, kind) for kind in ("http-01", "tls-alpn-01", "dns-01")]}

    def check(self, order, kind):
        order["checks"][kind] = "processing"
        threading.Thread(target=self.check_now, args=(order, kind), daemon=True).start()

    def check_now(self, order, kind):
        answer = f"{order['token']}.{self.accounts[order['account']]['thumb']}"
        try:
            self.before_check(order["name"])
            (self.check_http if kind == "http-01" else self.check_alpn)(order, answer)
            order["checks"][kind], order["status"] = "valid", "ready"
        except (OSError, Refused, http.client.HTTPException) as e:
            kind_of = e.kind if isinstance(e, Refused) else "connection"
            order["error"] = {"type": "urn:ietf:params:acme:error:" + kind_of, "detail": str(e), "status": 400}
            order["checks"][kind], order["status"] = "invalid", "invalid"
        self.checks.append((order["name"], kind, order["status"]))

    def wait_for(self, what):
        end = time.monotonic() + WAIT
        while getattr(self, what) is None:
            if time.monotonic() > end:
                raise Refused(400, "connection", f"no {what} to ask at")
            time.sleep(0.01)
        return getattr(self, what)

    def check_http(self, order, answer):
        c = http.client.HTTPConnection("127.0.0.1", self.wait_for("http_port"), timeout=10)
        try:
            c.request("GET", f"/.well-known/acme-challenge/{order['token']}", headers={"Host": order["name"]})
            r = c.getresponse()
            body = r.read()
        finally:
            c.close()
        if r.status != 200 or body.decode(errors="replace").rstrip() != answer:
            raise Refused(403, "unauthorized", f"not the answer: {r.status} {body[:80]!r}")

    def check_alpn(self, order, answer):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["acme-tls/1"])
        with socket.create_connection(("127.0.0.1", self.wait_for("tls_port")), 10) as plain:
            with context.wrap_socket(plain, server_hostname=order["name"]) as sealed:
                protocol, der = sealed.selected_alpn_protocol(), sealed.getpeercert(True)
        # id-pe-acmeIdentifier, critical, an OCTET STRING within one (RFC 8737 3).
        extension = bytes.fromhex("06082b0601050507011f0101ff04220420") + hashlib.sha256(answer.encode()).digest()
        if protocol != "acme-tls/1" or extension not in der:
            raise Refused(403, "unauthorized", f"not the answer: protocol {protocol}, {len(der)} bytes of certificate")
        text = openssl("x509", "-inform", "der", "-noout", "-ext", "subjectAltName", data=der).decode()
        if f"DNS:{order['name']}" not in text:
            raise Refused(403, "unauthorized", f"a certificate for other names: {text}")

    def finalize(self, order, payload):
        if order["status"] != "ready":
            raise Refused(403, "orderNotReady", order["status"])
        csr = self.dir / f"{order['number']}.csr"
        csr.write_bytes(openssl("req", "-inform", "der", "-outform", "pem", data=unbase64(payload["csr"])))
        text = openssl("req", "-in", csr, "-noout", "-text").decode()
        if text.count("DNS:") != 1 or f"DNS:{order['name']}\n" not in text:
            raise Refused(400, "badCSR", text)
        leaf, now = self.dir / f"{order['number']}.pem", time.time() + self.starts
        self.sign(csr, f"DNS:{order['name']}", leaf, now, now + self.lifetime)
        order["chain"], order["status"] = leaf.read_text() + self.trusted.read_text(), "valid"
        order["times"] = (now, now + self.lifetime)
        self.issued.append(order["name"])
        return 200, self.order_body(order), {}

    def renewal_info(self, at):
        # base64url(key identifier).base64url(serial)
        serial = int.from_bytes(unbase64(at.split(".")[1]), "big")
        order = next((o for o in self.orders if o["chain"] and self.serial(o) == serial), None)
        if order is None:
            raise Refused(404, "malformed", "no such certificate")
        begin, end = self.window(*order["times"])
        return 200, {"suggestedWindow": {"start": iso(begin), "end": iso(end)}}, {"Retry-After": "3600"}

    def serial(self, order):
        text = openssl("x509", "-in", self.dir / f"{order['number']}.pem", "-noout", "-serial").decode()
        return int(text.strip().split("=")[1], 16)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that is killed in the middle of its request is no fault of the CA's."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.request.settimeout(WAIT)
        self.request = self.server.ca.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def send(self, status, body, fields, kind="application/json"):
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), "Replay-Nonce": self.server.ca.nonce(), **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def answer(self, make):
        ca = self.server.ca
        try:
            if ca.down:
                return self.send(503, b"<html>down</html>", {}, "text/html")
            status, body, fields = make(ca)
            return self.send(status, body, fields, "application/pem-certificate-chain" if isinstance(body, bytes) else "application/json")
        except Refused as e:
            body = {"type": "urn:ietf:params:acme:error:" + e.kind, "detail": e.detail, "status": e.status}
            return self.send(e.status, body, e.fields, "application/problem+json")

    def do_HEAD(self):
        self.answer(lambda ca: (200, None, {}))

    def do_GET(self):
        self.answer(self.get)

    def get(self, ca):
        if self.path == "/dir":
            all = {"newNonce": "nonce", "newAccount": "new-account", "newOrder": "new-order", "revokeCert": "revoke", "keyChange": "key-change"}
            if ca.window:
                all["renewalInfo"] = "renewal-info"
            return 200, {**{key: f"{ca.url}/{path}" for key, path in all.items()}, "meta": {}}, {}
        if self.path.startswith("/renewal-info/") and ca.window:
            return ca.renewal_info(self.path.split("/")[2])
        raise Refused(404, "malformed", "no such resource")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(lambda ca: self.post(ca, body))

    def post(self, ca, body):
        if self.headers["Content-Type"] != "application/jose+json":
            raise Refused(415, "malformed", "not JOSE")
        parts = json.loads(body)
        head, text = json.loads(unbase64(parts["protected"])), unbase64(parts["payload"])
        payload = json.loads(text) if text else None
        if head["url"] != ca.url + self.path or head["alg"] != "ES256":
            raise Refused(401, "unauthorized", f"another URL or algorithm: {head}")
        if ca.stale_nonces or head["nonce"] not in ca.nonces:
            ca.stale_nonces = max(0, ca.stale_nonces - 1)
            raise Refused(400, "badNonce", "an old nonce")
        ca.nonces.remove(head["nonce"])
        if self.path == "/new-account":
            return ca.new_account(head["jwk"], payload)
        if head.get("kid") not in ca.accounts:
            raise Refused(400, "accountDoesNotExist", "no such account")
        if self.path == "/new-order":
            return ca.new_order(head["kid"], payload)
        what, number, *rest = self.path[1:].split("/")
        order = ca.orders[int(number)]
        if order["account"] != head["kid"]:
            raise Refused(403, "unauthorized", "somebody else's")
        if what == "order":
            return 200, ca.order_body(order), {"Retry-After": str(ca.retry_after)} if order["status"] == "processing" else {}
        if what == "authz":
            return 200, ca.authorization(order), {}
        if what == "challenge":
            if payload is not None and not order["checks"]:
                ca.check(order, rest[0])
            return 200, ca.challenge_body(order, rest[0]), {}
        if what == "finalize":
            return ca.finalize(order, payload)
        if what == "cert":
            return 200, order["chain"].encode(), {}
        raise Refused(404, "malformed", "no such resource")
