# SPDX-License-Identifier: BSD-2-Clause
"""What honest clients get: bodies, names, versions, resumption."""
import hashlib
import re
import socket
import ssl

from bed import h2
from bed.http import LIMIT, get
from bed.sealed import SealedClient, client_context, sealed_get
from raw import InHands

SIZES = (0, 1, 1000, 1400, 16383, 16384, 16385, 65536, 1 << 20, 10 << 20)
UPLOADS = (1, 16384, 16385, 1 << 20)


def body(size):
    return (b"the quick brown fox jumps over the lazy dog\n" * (size // 44 + 1))[:size]


def answer(method, path, fields):
    """/SIZE..: so many octets. /echo: what came with it is hashed by `reflecting`."""
    size = re.match(r"/(\d+)", path)
    cache = "Cache-Control: no-store\r\n" if "/pass" in path else "Cache-Control: max-age=600\r\n"
    return cache, body(int(size.group(1))) if size else b"hello"


def sizes(report, bed):
    for version in ("1.2", "1.3"):
        context = client_context(bed.made.root.root, versions=(version, version))
        for kind in ("hit", "pass"):
            with SealedClient(bed.served.sealed, context, "bed.test", timeout=30, keep=False) as c:
                for size in SIZES:
                    r = c.request(f"/{size}/{kind}")
                    want = hashlib.sha256(body(size)).hexdigest()
                    report.check(r.whole() and r.length == size and r.digest == want, f"TLS {version}, {kind} of {size} octets: {r}")


def ranges(report, bed):
    with SealedClient(bed.served.sealed, client_context(bed.made.root.root), "bed.test") as c:
        for begin, end in ((0, 0), (16380, 16390), (1 << 19, (1 << 20) - 1)):
            r = c.request("/1048576/hit", [("Range", f"bytes={begin}-{end}")])
            report.check(r.whole(206) and r.body == body(1 << 20)[begin:end + 1], f"range {begin}-{end}: {r}")


def uploads(report, bed):
    with SealedClient(bed.served.sealed, client_context(bed.made.root.root), "bed.test") as c:
        for size in UPLOADS:
            r = c.request("/upload", method="POST", body=body(size))
            report.check(r.whole() and r.body == b"hello", f"upload of {size} octets: {r}")


def pipelined(report, bed):
    with SealedClient(bed.served.sealed, client_context(bed.made.root.root), "bed.test") as c:
        c.send(b"".join(f"GET /{size}/hit HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode() for size in (1, 1000, 65536, 16385, 1)))
        got = [c.response() for _ in range(5)]
        report.check([r.length for r in got] == [1, 1000, 65536, 16385, 1] and all(r.whole() for r in got), f"pipelined: {[str(r) for r in got]}")


def ends_in_order(report, bed):
    """A connection that the server closes is closed with close_notify."""
    for version in ("1.2", "1.3"):
        with SealedClient(bed.served.sealed, client_context(bed.made.root.root, versions=(version, version)), "bed.test") as c:
            r = c.request("/1000/hit", [("Connection", "close")])
            closed = c.closed(LIMIT)
            report.check(r.whole() and closed and not c.was_cut, f"TLS {version}, Connection: close: {r}, closed {closed}, cut {c.was_cut}")


def client_says_goodbye(report, bed):
    """A client's close_notify is answered by an end."""
    with SealedClient(bed.served.sealed, client_context(bed.made.root.root), "bed.test") as c:
        report.check(c.request("/1000/hit").whole(), "before close_notify: no answer")
        try:
            c.sock.unwrap()
            ended = True
        except OSError as e:
            ended = str(e)
        report.check(ended is True, f"close_notify wasn't answered: {ended}")


def names(report, bed):
    """Who asks for what is shown which certificate; an unknown name, and none, get the default."""
    made, served = bed.made, bed.served
    wanted = {"bed.test": made.default, "www.bed.test": made.default, "rsa.test": made.rsa, "RSA.test": made.rsa, "p384.test": made.p384,
              "a.wild.test": made.wild, "b.wild.test": made.wild, "wild.test": made.default, "a.b.wild.test": made.default,
              "unknown.example": made.default, None: made.default, "127.0.0.1": made.default, "x" * 60 + ".example": made.default}
    for version in ("1.2", "1.3"):
        for name, leaf in wanted.items():
            try:
                with SealedClient(served.sealed, client_context(versions=(version, version)), name) as c:
                    shown = hashlib.sha256(c.sock.getpeercert(True)).hexdigest()
            except OSError as e:
                shown = str(e)
            report.check(shown == leaf.fingerprint(), f"TLS {version}, name {name}: another certificate than that of {leaf.dir.name}: {shown}")


def listed_first(report, bed):
    """The listeners of -A are the first, wherever it stands on the command line."""
    if not bed.is_hitch:
        report.check(next(iter(bed.served.addresses.values())) == bed.served.sealed, f"listeners: {list(bed.served.addresses)}")


def chains(report, bed):
    """What is between leaf and root is sent along: a client that knows the root alone believes it."""
    for name in ("bed.test", "rsa.test", "p384.test", "some.wild.test"):
        r = sealed_get(bed.served.sealed, "/1", client_context(bed.made.root.root), name)
        report.check(r.whole(), f"verified as {name}: {r} {r.reason}")


def versions(report, bed):
    for version in ("1.2", "1.3"):
        with SealedClient(bed.served.sealed, client_context(versions=(version, version)), "bed.test") as c:
            report.check(c.sock.version() == f"TLSv{version}", f"asked for {version}, got {c.sock.version()}")
    with SealedClient(bed.served.sealed, client_context(), "bed.test") as c:
        report.check(c.sock.version() == "TLSv1.3", f"asked for both versions, got {c.sock.version()}")


def protocols(report, bed):
    """HTTP/2 is agreed on where it is offered, else http/1.1; where nothing is, it goes on without."""
    for offered, agreed in ((["http/1.1"], "http/1.1"), (["foo", "http/1.1"], "http/1.1"), ([], None), *([] if bed.is_hitch else [(["foo"], None)])):
        try:
            with SealedClient(bed.served.sealed, client_context(alpn=offered), "bed.test") as c:
                got, r = c.sock.selected_alpn_protocol(), c.request("/1")
                report.check(got == agreed and r.whole(), f"offered {offered}: agreed on {got}, {r}")
        except OSError as e:
            report.check(False, f"offered {offered}: {e}")
    if not bed.is_hitch:
        with h2.Connection(h2.sealed(bed.served.sealed, client_context(alpn=["http/1.1", "h2"]), "bed.test")) as c:
            report.check(c.get("/1", 5.0).whole(), "no answer by HTTP/2")
        # Who refuses it by name has it refused here, too, at once and until it is taken back.
        for word, agreed in (("-http2", (None, "http/1.1")), ("+http2", ("h2", "h2"))):
            bed.served.cli.ask(f"param.set feature {word}")
            for offered, wanted in zip((["h2"], ["h2", "http/1.1"]), agreed):
                with SealedClient(bed.served.sealed, client_context(alpn=offered), "bed.test") as c:
                    got = c.sock.selected_alpn_protocol()
                    report.check(got == wanted, f"feature={word}, offered {offered}: agreed on {got}")
        bed.served.cli.ask("param.set feature default")


def suites(report, bed):
    """Each of TLS 1.2 that is offered alone, with the certificate it goes with."""
    for name, host in (("ECDHE-ECDSA-AES128-GCM-SHA256", "bed.test"), ("ECDHE-ECDSA-AES256-GCM-SHA384", "bed.test"),
                       ("ECDHE-ECDSA-CHACHA20-POLY1305", "bed.test"), ("ECDHE-RSA-AES128-GCM-SHA256", "rsa.test"),
                       ("ECDHE-RSA-AES256-GCM-SHA384", "rsa.test"), ("ECDHE-RSA-CHACHA20-POLY1305", "rsa.test")):
        try:
            with SealedClient(bed.served.sealed, client_context(versions=("1.2", "1.2"), ciphers=name), host) as c:
                report.check(c.sock.cipher()[0] == name and c.request("/1000").whole(), f"suite {name}: {c.sock.cipher()}")
        except OSError as e:
            report.check(False, f"suite {name}: {e}")


def resumed(report, bed, tries=8):
    """Whichever thread it comes to, a session is taken up again; in both versions."""
    for version in ("1.2", "1.3"):
        context = client_context(versions=(version, version))
        with SealedClient(bed.served.sealed, context, "bed.test") as c:
            c.request("/1")  # 1.3's tickets come with the answer
            session = c.sock.session
        again = 0
        for _ in range(tries):
            with SealedClient(bed.served.sealed, context, "bed.test", session=session) as c:
                again += bool(c.sock.session_reused and c.request("/1").whole())
                session = c.sock.session
        report.check(again == tries, f"TLS {version}: {again} of {tries} resumed")


def foreign_ticket(report, bed):
    """A ticket that isn't ours, or was changed, costs a full handshake and nothing else."""
    for version in ("1.2", "1.3"):
        context = client_context(versions=(version, version))
        with SealedClient(bed.served.sealed, context, "bed.test") as c:
            c.request("/1")
            session = c.sock.session
        # Python's sessions can't be changed: the ticket is, on its way.
        ticket = None
        with InHands(bed.served.sealed, context, "bed.test", session=session) as c:
            def spoil(octets, whole=c.sock.sendall):
                nonlocal ticket
                if ticket is None:
                    ticket = octets
                    # The last octets of a hello of 1.3 are the binder, so the ticket is hit before them.
                    at = len(octets) // 2 if version == "1.2" else len(octets) - 100
                    octets = octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1:]
                whole(octets)
            c.send = spoil
            try:
                c.handshake()
                c.write(b"GET /1 HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                report.check(not c.tls.session_reused and c.answer()[1] == b"t", f"TLS {version}: a spoiled ticket was resumed")
            except (OSError, EOFError) as e:
                # The hello's hash is part of the handshake: the client sees that it was changed. That is an answer, too.
                report.check(is_noticed(e), f"TLS {version}: a spoiled ticket: {e}")
        r = sealed_get(bed.served.sealed, "/1", client_context(), "bed.test")
        report.check(r.whole(), f"TLS {version}: after a spoiled ticket {r}")


def is_noticed(error):
    return isinstance(error, (ssl.SSLError, EOFError, ConnectionError)) and not isinstance(error, TimeoutError)


def in_clear(report, bed):
    """A request in clear to the port is told so; varnishd's listener in clear goes on."""
    with socket.create_connection(bed.served.sealed, LIMIT) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        s.settimeout(LIMIT)
        got = b""
        try:
            while d := s.recv(4096):
                got += d
        except ConnectionError:
            pass
        if not bed.is_hitch:
            report.check(got.startswith(b"HTTP/1.1 400 ") and b"https" in got.lower() + b"", f"HTTP in clear is answered {got[:80]!r}")
    report.check(get(bed.served.address, "/1").whole(), "the listener in clear is gone")


def in_pieces(report, bed):
    """The client's octets come in drawn pieces, the smallest one at a time."""
    for version in ("1.2", "1.3"):
        for most in (1, 7, 100):
            with InHands(bed.served.sealed, client_context(versions=(version, version)), "bed.test") as c:
                def dribble(octets, whole=c.sock.sendall):
                    while octets:
                        n = bed.dice.randint(1, most)
                        whole(octets[:n])
                        octets = octets[n:]
                c.send = dribble
                try:
                    c.handshake()
                    c.write(b"GET /1000/hit HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                    got = c.answer()[1]
                except (OSError, EOFError) as e:
                    got = str(e)
                report.check(got == body(1000), f"TLS {version}, pieces of {most} at most: {got[:60]!r}")


def small_records(report, bed):
    """A request of which each octet has a record, and empty records between them."""
    request = b"POST /upload HTTP/1.1\r\nHost: bed.test\r\nContent-Length: 300\r\n\r\n" + body(300)
    with InHands(bed.served.sealed, client_context(), "bed.test") as c:
        c.handshake()
        kept, whole = [], c.sock.sendall
        c.send = kept.append
        for at in range(len(request)):
            c.write(request[at:at + 1])
        c.send = whole
        c.send(b"".join(kept))
        report.check(c.answer()[1] == b"hello", "a record for each octet")


CASES = {check.__name__.replace("_", " "): check for check in (
    sizes, ranges, uploads, pipelined, ends_in_order, client_says_goodbye, names, listed_first, chains, versions, protocols, suites, resumed,
    foreign_ticket, in_clear, in_pieces, small_records)}
