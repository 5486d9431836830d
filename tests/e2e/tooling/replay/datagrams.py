# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer replay --http3`: what it sends over QUIC to Lacquer, also over a way that loses datagrams, and what it counts of what comes back."""
import contextlib
import selectors
import socket
import threading

from bed.certificates import Authority
from bed.daemon import Varnishd
from bed.origin import Origin, simple

NAME, LONG = "replay.test", b"b" * 200_000
# A datagram that is lost again and again comes late: the server waits for it.
ARGS = ["-a", "127.0.0.1:0,quic", "-p", "timeout_idle=60", "-p", "timeout_head=60", "-p", "tls_handshake_timeout=60", "-p", "h3_idle_timeout=60"]


class Lossy:
    """Stands before a server; one datagram in `one_in` is lost, either way."""

    def __init__(self, server, one_in):
        self.server, self.one_in, self.passed, self.lost, self.behind = server, one_in, 0, 0, {}
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.address = self.front.getsockname()
        self.stop, self.stopped = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.front, selectors.EVENT_READ)
        self.selector.register(self.stopped, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.stopped:
                    return
                with contextlib.suppress(OSError):
                    self.move(key.fileobj)

    def move(self, s):
        data, sender = s.recvfrom(65536)
        self.passed += 1
        if self.passed % self.one_in == 0:
            self.lost += 1
            return
        if s is self.front:
            if sender not in self.behind:
                self.behind[sender] = other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                other.connect(self.server)
                self.selector.register(other, selectors.EVENT_READ)
            self.behind[sender].send(data)
        else:
            client = next(client for client, other in self.behind.items() if other is s)
            self.front.sendto(data, client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.send(b"x")
        self.thread.join()
        for s in (self.front, self.stop, self.stopped, *self.behind.values()):
            s.close()


def url(address):
    return "https://%s:%d" % address


def group(report, tool, d):
    authority = Authority(d / "quic")
    leaf = authority.leaf(NAME, "other.test")
    (d / "tls.conf").write_text(f'pem-file = "{leaf.pem}"\n')
    (d / "h3").write_text("".join(f"http://{NAME if n % 3 else 'other.test'}/{n % 50}\tCookie: k=v\n" for n in range(300)) + f"http://{NAME}/long\nHEAD http://{NAME}/long\nhttp://{NAME}/missing\n")
    trusted = ("--http3", "--ca", authority.cert)

    def answer(method, path, fields):
        return ("Cache-Control: max-age=100\r\n", LONG if path == "/long" else b"ok")
    vcl = 'vcl 4.1; backend o {{ .host = "{}"; .port = "{}"; }} sub vcl_recv {{ if (req.proto != "HTTP/3.0" || req.http.Cookie == "") {{ return (synth(500)); }} if (req.url == "/missing") {{ return (synth(404)); }} unset req.http.Cookie; }}'
    with Origin(simple(answer)) as origin, Varnishd(tool.varnishd, ARGS + ["-A", str(d / "tls.conf")], vcl=vcl.format(*origin.address)) as v:
        answers(report, tool, d, v, trusted)
        resumed(report, tool, d, v, trusted)
        refused(report, tool, d, v, authority)
        with Lossy(v.address, 12) as way:
            r = tool.json(*trusted, "--to", url(way.address), "-c", 5, d / "h3")
            report.check(r["answers"] == 303 and r["failed"] == 0 and way.lost > 5, f"over a bad way: {r['answers']} {r['errors']}, {way.lost} lost")
        workers = [tool.start("--serve", "0") for _ in range(2)]
        try:
            places = ",".join(w.stdout.readline().decode().split()[-1] for w in workers)
            r = tool.json("--workers", places, *trusted, "--to", url(v.address), d / "h3")
            report.check((r["answers"], r["failed"]) == (303, 0) and r["tls"]["handshakes"] == r["connections"], f"by workers: {r['answers']} {r['errors']} {r['tls']}")
        finally:
            for w in workers:
                w.terminate()
                w.communicate(timeout=30)


def answers(report, tool, d, v, trusted):
    r = tool.json(*trusted, "--to", url(v.address), "-c", 8, d / "h3")
    report.check((r["answers"], r["failed"], r["status"]) == (303, 0, {"200": 302, "404": 1}), f"HTTP/3: {r['answers']} {r['errors']} {r['status']}")
    report.check(r["body_bytes"] >= 300 * 2 + len(LONG), f"HTTP/3: bodies: {r['body_bytes']}")
    hits = r["cache"]["by"]["X-Varnish"]["hits"]
    report.comes(lambda: [v.counter(f"MAIN.{name}") for name in ("cache_hit", "client_req")], [hits, 303], "HTTP/3: hits and requests")
    # Of each host its own, by its own name.
    report.check(r["tls"]["handshakes"] == r["connections"] >= 2, f"HTTP/3: connections: {r['connections']} {r['tls']}")
    report.comes(lambda: v.counter("MAIN.h3_sess"), r["connections"], "HTTP/3: MAIN.h3_sess")
    report.check(r["tls"]["agreed"].startswith("TLSv1.3 TLS_") and r["tls"]["handshake_ms"]["p50"] > 0, f"HTTP/3: TLS: {r['tls']}")
    r = tool.json(*trusted, "--to", url(v.address), "--rate", 200, "-d", 1, "--loop", d / "h3")
    report.check(r["failed"] == 0 and r["sent"] + r["unsent"] == 200, f"HTTP/3 at a rate: {r['sent']} {r['errors']}")


def resumed(report, tool, d, v, trusted):
    for more, least, most in (((), 100, 303), (("--no-resume",), 0, 0)):
        r = tool.json(*trusted, *more, "--to", url(v.address), "--sni", NAME, "-c", 2, "--per-connection", 2, d / "h3")
        report.check(r["failed"] == 0 and r["connections"] >= 150 and least <= r["tls"]["resumed"] <= most, f"HTTP/3 {more}: {r['errors']} {r['connections']} {r['tls']}")


def refused(report, tool, d, v, authority):
    (d / "one").write_text(f"http://{NAME}/1\n")
    stranger = Authority(d / "quic-stranger")
    for what, words in (("another's name", ("--ca", authority.cert, "--sni", "wrong.test")), ("by nobody known", ("--ca", stranger.cert))):
        r = tool.json("--http3", *words, "--to", url(v.address), "--give-up", "1s", d / "one")
        report.check((r["errors"]["tls"], r["answers"]) == (1, 0) and r["tls"]["failure"], f"HTTP/3: {what}: {r['errors']} {r.get('tls')}")
    r = tool.json("--http3", "--no-verify", "--to", url(v.address), d / "one")
    report.check((r["answers"], r["failed"]) == (1, 0), f"HTTP/3: --no-verify: {r['errors']}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        r = tool.json("--http3", "--no-verify", "--to", url(silent.getsockname()), "--timeout", "300ms", d / "one")
        report.check(r["errors"]["timeout"] == 1, f"HTTP/3: nobody answers: {r['errors']}")
        nobody = silent.getsockname()
    r = tool.json("--http3", "--no-verify", "--to", url(nobody), "--timeout", "5s", "--give-up", "1s", d / "one")
    report.check(r["errors"]["refused"] == 1, f"HTTP/3: nobody listens: {r['errors']}")
    for args, said in ((["--http3", "--to", "127.0.0.1:1"], "by TLS alone"), (["--http3", "--http2", "--to", "https://127.0.0.1:1"], "not both")):
        status, out, err = tool.run(*args, d / "one")
        report.check(status != 0 and said in err and not out, f"HTTP/3: {args}: {status} {err}")
