# SPDX-License-Identifier: BSD-2-Clause
"""TLS: whom it speaks with, by which name, what is refused, what is resumed, and how long handshakes take."""
import threading

from bed.certificates import Authority
from bed.origin import Origin, head, simple
from bed.sealed import SealedOrigin, server_context

BODY = b"b" * 100_000


def group(report, tool, d):
    authority = Authority(d / "authority")
    leaf = authority.leaf("a.test", "b.test", "127.0.0.1")
    trusted = ("--ca", authority.cert)
    asked(report, tool, d, leaf, trusted)
    versions(report, tool, d, leaf, trusted)
    resumption(report, tool, d, leaf, trusted)
    refused(report, tool, d, authority, leaf, trusted)
    several(report, tool, d, leaf, trusted)


def listening(leaf, serve=None, **more):
    heard, lock = [], threading.Lock()

    def answer(method, path, fields):
        with lock:
            heard.append((method, fields.get("host"), path))
        return "Cache-Control: max-age=100\r\n", BODY if path == "/long" else b"ok"
    origin = SealedOrigin(serve or simple(answer), server_context(leaf, **more))
    origin.heard = heard
    return origin


def url(origin):
    return "https://%s:%d" % origin.address


def asked(report, tool, d, leaf, trusted):
    """Requests of several hosts to one address: each by its own name, on connections of its own."""
    (d / "hosts").write_text("http://a.test/1\nhttps://a.test/2\nhttps://b.test/3\nhttp://a.test/long\nHEAD http://b.test/long\n")
    with listening(leaf) as origin:
        r = tool.json("--to", url(origin), *trusted, "-c", 2, d / "hosts")
        want = [("GET", "a.test", "/1"), ("GET", "a.test", "/2"), ("GET", "a.test", "/long"), ("GET", "b.test", "/3"), ("HEAD", "b.test", "/long")]
        report.check(sorted(origin.heard) == want and r["failed"] == 0, f"TLS: {origin.heard} {r['errors']} {r.get('tls')}")
        report.check(set(origin.names) == {"a.test", "b.test"}, f"TLS: names: {origin.names}")
        report.check(r["body_bytes"] == len(BODY) + 3 * 2, f"TLS: bodies: {r['body_bytes']}")
        report.check(r["tls"]["handshakes"] == r["connections"] == origin.handshakes, f"TLS: handshakes: {r['tls']} {origin.handshakes}")
        report.check(r["tls"]["agreed"].startswith("TLSv1.3 TLS_") and r["tls"]["handshake_ms"]["p50"] > 0, f"TLS: {r['tls']}")
        origin.names.clear()
        r = tool.json("--to", url(origin), "--sni", "b.test", *trusted, d / "hosts")
        report.check(r["failed"] == 0 and set(origin.names) == {"b.test"}, f"TLS: --sni: {origin.names} {r['errors']}")
        # An address is verified and isn't told (RFC 6066).
        origin.names.clear()
        (d / "own").write_text("%s/x\n" % url(origin))
        r = tool.json("--each-host", *trusted, d / "own")
        report.check(r["failed"] == 0 and r["answers"] == 1 and set(origin.names) <= {None}, f"TLS: --each-host: {r['errors']} {r.get('tls')} {origin.names}")
        with Origin(simple(lambda *_: ("", b"ok"))) as plain:
            r = tool.json("--to", "%s:%d" % plain.address, "--map", f"b.test={url(origin)}", *trusted, "-c", 1, d / "hosts")
            report.check(r["failed"] == 0 and r["tls"]["handshakes"] >= 1 and r["connections"] > r["tls"]["handshakes"], f"TLS: one host alone: {r['tls']} {r['connections']}")
        status, out, err = tool.run("--to", url(origin), *trusted, d / "hosts")
        report.check(status == 0 and "TLSv1.3 TLS_" in out and "% resumed" in out and "a handshake: mean" in out, f"TLS: the report: {out} {err}")


def versions(report, tool, d, leaf, trusted):
    """1.2 and 1.3; long bodies, many records, connections that stay."""
    (d / "long").write_text("http://a.test/long\n" * 60)
    for version in ("1.2", "1.3"):
        with listening(leaf, versions=(version, version)) as origin:
            r = tool.json("--to", url(origin), *trusted, "-c", 3, d / "long")
            report.check((r["answers"], r["failed"], r["body_bytes"]) == (60, 0, 60 * len(BODY)), f"TLS {version}: {r['answers']} {r['errors']} {r['body_bytes']}")
            report.check(r["connections"] == 3 and r["tls"]["agreed"].startswith(f"TLSv{version} "), f"TLS {version}: {r['connections']} {r['tls']}")


def resumption(report, tool, d, leaf, trusted):
    """A connection each: sessions are taken up again as the server counts them, or not where that is said."""
    (d / "each").write_text("http://a.test/1\n" * 40)
    for version in ("1.2", "1.3"):
        for more, least, most in (((), 0.5, 1), (("--no-resume",), 0, 0)):
            with listening(leaf, versions=(version, version)) as origin:
                r = tool.json("--to", url(origin), *trusted, *more, "--per-connection", 1, "-c", 1, d / "each")
                report.check(r["failed"] == 0 and r["tls"]["handshakes"] == 40 == origin.handshakes, f"TLS {version} {more}: {r['errors']} {r['tls']}")
                report.check(r["tls"]["resumed"] == origin.resumed and least <= r["tls"]["resumed"] / 40 <= most, f"TLS {version} {more}: resumed {r['tls']}, {origin.resumed}")


def refused(report, tool, d, authority, leaf, trusted):
    """Who can't be believed gets no request, and is told why; who doesn't speak TLS, too."""
    (d / "one").write_text("http://a.test/1\n")
    old = authority.leaf("a.test", starts=-20, ends=-1)
    stranger = Authority(d / "stranger").leaf("a.test")
    for what, shown, more, why in (("another's name", authority.leaf("c.test"), trusted, "name"), ("expired", old, trusted, "expired"),
                                   ("by nobody known", stranger, trusted, ""), ("by the system's", leaf, (), "")):
        with listening(shown) as origin:
            r = tool.json("--to", url(origin), *more, "--give-up", "1s", d / "one")
            tls = r.get("tls") or {}
            report.check((r["errors"]["tls"], r["answers"], origin.heard) == (1, 0, []), f"TLS: {what}: {r['errors']} {origin.heard}")
            report.check(tls.get("failure") and why in tls["failure"].lower(), f"TLS: {what}: the reason: {tls}")
            r = tool.json("--to", url(origin), "--no-verify", d / "one")
            report.check((r["failed"], r["answers"]) == (0, 1), f"TLS: {what}: --no-verify: {r['errors']}")
    with Origin(simple(lambda *_: ("", b"ok"))) as plain:
        r = tool.json("--to", "https://%s:%d" % plain.address, "--no-verify", "--timeout", "2s", d / "one")
        report.check(r["answers"] == 0 and r["failed"] == 1, f"TLS: a server without it: {r['errors']} {r.get('tls')}")

    def mute(s):
        while s.recv(4096):
            pass
    with Origin(mute) as silent:
        r = tool.json("--to", "https://%s:%d" % silent.address, "--no-verify", "--timeout", "300ms", d / "one")
        report.check(r["errors"]["timeout"] == 1, f"TLS: a handshake that stands still: {r['errors']}")

    def cut(s):
        head(s, b"")
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    with listening(leaf, serve=cut) as origin:
        r = tool.json("--to", url(origin), *trusted, d / "one")
        report.check(r["errors"]["truncated"] == 1, f"TLS: half an answer: {r['errors']}")
    for args, said in ((["--ca", d / "one"], "--ca"), (["--ca", "/nonexistent"], "/nonexistent"), (["--no-verify", "--ca", authority.cert], "not both")):
        status, out, err = tool.run("--to", "https://127.0.0.1:1", *args, d / "one")
        report.check(status != 0 and said in err and not out, f"TLS: {args}: {status} {err}")


def several(report, tool, d, leaf, trusted):
    """Workers speak TLS as their coordinator says."""
    (d / "many").write_text("http://a.test/1\nhttp://b.test/2\n" * 50)
    workers = [tool.start("--serve", "0") for _ in range(2)]
    try:
        places = [w.stdout.readline().decode().split()[-1] for w in workers]
        with listening(leaf) as origin:
            r = tool.json("--workers", ",".join(places), "--to", url(origin), *trusted, "--per-connection", 5, d / "many")
            report.check((r["answers"], r["failed"]) == (100, 0) and len(origin.heard) == 100, f"TLS: by workers: {r['answers']} {r['errors']} {r.get('tls')}")
            report.check(r["tls"]["handshakes"] == origin.handshakes and r["tls"]["resumed"] == origin.resumed, f"TLS: by workers: {r['tls']}")
            report.check(r["tls"]["agreed"].startswith("TLSv1.3"), f"TLS: by workers: {r['tls']}")
    finally:
        for w in workers:
            w.terminate()
            w.communicate(timeout=30)
