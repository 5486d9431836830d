# SPDX-License-Identifier: BSD-2-Clause
"""Hellos and records that nobody should send: what comes back, and that honest clients notice nothing."""
import os
import socket
import subprocess
import threading
import time

from bed.http import Client
from bed.report import until
from bed.sealed import SealedClient, client_context, sealed_get
from raw import ALERT, CHANGE, DATA, HANDSHAKE, MODERN, InHands, ask, extension, hello, message, record, records, server_name, sized, words

END_LIMIT = 60       # seconds; it only ends what hangs
HANDSHAKE_LIMIT = 2  # seconds: tls_handshake_timeout of this bed

GOOD = hello()
# An old hello of SSL 2, which once was how TLS 1.0 began, too.
SSL2 = b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + b"\x01\x00\x80\x02\x00\x80\x03\x00\x80\x04\x00\x80\x06\x00\x40\x07\x00\xc0\x00\x00" + os.urandom(16)

HELLO = "a hello"  # of the server: what comes after it is sealed
# name: octets, what may come: alerts, HELLO, None for an end without a word.
REFUSED = {
    "TLS 1.1 alone": (record(hello(versions=(), legacy=0x0302, suites=(0xC009, 0xC013, 0x2F), share=False)), ("protocol_version",)),
    "TLS 1.0 alone": (record(hello(versions=(), legacy=0x0301, suites=(0xC009, 0xC013, 0x2F), share=False)), ("protocol_version",)),
    "a legacy_version of SSL 3 beside TLS 1.3": (record(hello(versions=(0x0304,), legacy=0x0300)), ("protocol_version",)),
    "a legacy_version of 0 beside TLS 1.2": (record(hello(versions=(0x0303,), legacy=0)), ("protocol_version",)),
    "SSL 3": (record(hello(versions=(), legacy=0x0300, suites=(0x2F, 0x35), share=False)), ("protocol_version", "handshake_failure")),
    "supported_versions without ours": (record(hello(versions=(0x0302, 0x0301))), ("protocol_version",)),
    "no suite of ours": (record(hello(suites=(0x002F, 0x0035, 0x000A))), ("handshake_failure",)),
    "a suite of RSA key exchange, 1.2": (record(hello(versions=(0x0303,), suites=(0x009C, 0x009D))), ("handshake_failure",)),
    "no group of ours": (record(hello(versions=(0x0304,), groups=(0x0100, 0x0101), share=False)), ("handshake_failure", "missing_extension")),
    "compression that isn't none": (record(hello(compression=b"\1")), ("illegal_parameter", "decode_error", "handshake_failure")),
    "an extension that is cut": (record(message(1, words(0x0303) + os.urandom(32) + b"\0" + sized(2, words(0x1301)) + b"\1\0" + b"\0\x08\0\0\0\x20aa")),
                                ("decode_error", "missing_extension", "illegal_parameter")),
    "octets behind the extensions": (record(message(1, GOOD[4:] + b"\0\0\0")), ("decode_error",)),
    "an extension twice": (record(hello(more=server_name(b"other.test"))), ("illegal_parameter", "decode_error")),
    "a hello of three octets": (record(message(1, b"\3\3\0")), ("decode_error",)),
    "another message than a hello": (record(message(2, GOOD[4:])), ("unexpected_message", "decode_error", "illegal_parameter")),
    "Finished first": (record(message(20, os.urandom(32))), ("unexpected_message",)),
    "octets of an application first": (record(b"GET / HTTP/1.1\r\n\r\n", DATA), ("unexpected_message",)),
    "ChangeCipherSpec first": (record(b"\1", CHANGE), ("unexpected_message",)),
    "an empty record of a handshake": (record(b""), (None, "unexpected_message", "decode_error", "illegal_parameter")),
    "a record of an unknown kind": (record(b"abc", 99), ("unexpected_message", "decode_error", None)),
    "a record that is too long": (bytes([HANDSHAKE]) + words(0x0301, 0xFFFF) + os.urandom(0xFFFF), ("record_overflow", "decode_error", "illegal_parameter")),
    "a record one octet too long": (bytes([HANDSHAKE]) + words(0x0301, 16384 + 257) + GOOD[:4] + os.urandom(16384 + 253),
                                   ("record_overflow", "decode_error", "illegal_parameter")),
    "a length of 16 MB": (record(b"\1\xff\xff\xff" + os.urandom(1000)) + b"".join(record(os.urandom(16000)) for _ in range(8)),
                          ("decode_error", "illegal_parameter", "record_overflow", "unexpected_message")),
    "a hello of 120 KB": (records(hello(suites=MODERN + (0x0A0A,) * 30000, more=extension(0xFAFA, b"\0" * 60000)), 16000),
                          ("decode_error", "illegal_parameter", "record_overflow", "unexpected_message")),
    "a fatal alert first": (record(b"\2\x28", ALERT), (None, "unexpected_message")),
    "close_notify first": (record(b"\1\0", ALERT), (None, "close_notify", "unexpected_message")),
    "SSL 2": (SSL2, (None, "protocol_version", "decode_error", "unexpected_message")),
    "zeros": (b"\0" * 1000, (None, "decode_error", "unexpected_message", "protocol_version")),
    "noise": (bytes(range(255, 0, -1)) * 8, (None, "decode_error", "unexpected_message", "protocol_version")),
    "a PROXY header that nobody asked for": (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + record(GOOD), (None, "decode_error", "unexpected_message", "protocol_version")),
    "two hellos": (record(GOOD) + record(GOOD), (HELLO, "unexpected_message", "bad_record_mac", "decode_error")),
    "a hello and an octet that isn't sealed": (record(hello(versions=(0x0304,))) + record(b"x" * 40, DATA, 0x0303), (HELLO, "bad_record_mac", "decrypt_error", "unexpected_message", "decode_error")),
}
# Hellos that are odd, and are answered with one.
TAKEN = {
    "no name": hello(name=None),
    "an unknown name": hello(name=b"nobody.example"),
    "a record version of TLS 1.2": hello(),
    "unknown extensions and suites": hello(suites=(0x0A0A, 0x1301, 0xC02B, 0xFFFF), more=extension(0x0A0A, b"") + extension(0xFFFE, b"abc")),
    "a hundred unknown extensions": hello(more=b"".join(extension(0x4000 + n, b"x" * 20) for n in range(100))),
    "12 KB of padding": hello(more=extension(21, b"\0" * 12000)),
    "no session id": hello(session=b""),
    "an ALPN of no use": hello(alpn=(b"foo", b"\0" * 255)),
}
# Names that can't be: any answer is fine, but an end, or a hello, has to come.
NAMES = {"empty": b"", "with a NUL": b"bed.test\0.example", "an address": b"127.0.0.1", "of 4,000 octets": b"a" * 4000, "no UTF-8": b"\xff\xfe\xfd",
         "with dots alone": b"....", "a wildcard": b"*.wild.test", "with a line end": b"bed.test\r\nX: y", "upwards": b"../../etc/passwd"}


def refusals(report, bed):
    for name, (octets, alerts) in REFUSED.items():
        got = ask(bed.served.sealed, octets, END_LIMIT)
        came = got.alert() or (HELLO if got.is_hello() else None)
        told = came in alerts if came or not got.octets else got.octets.startswith(b"HTTP/1.1 400 ") and None in alerts
        report.check(told and got.is_closed, f"{name}: {got}; may be {alerts}")


def odd_hellos(report, bed):
    for name, octets in TAKEN.items():
        for size in (16384, 1000, 1) if len(octets) < 1000 else (16384, 100):
            with socket.create_connection(bed.served.sealed, END_LIMIT) as s:
                s.sendall(records(octets, size))
                s.settimeout(END_LIMIT)
                try:
                    got = s.recv(6)
                except OSError as e:
                    got = str(e).encode()
                report.check(got[:1] == bytes([HANDSHAKE]) and got[5:6] == b"\2", f"{name}, in records of {size}: {got!r}")


def odd_names(report, bed):
    for name, octets in NAMES.items():
        got = ask(bed.served.sealed, record(hello(name=octets)), HANDSHAKE_LIMIT + END_LIMIT)
        report.check(got.octets, f"a name {name}: {got}")


def half_hellos(report, bed):
    """Each beginning of a hello, then an end: nothing is answered, the connection goes. Some stay silent instead: they have their time."""
    whole = record(GOOD)
    for at in sorted({0, 1, 4, 5, 6, 9, *(bed.dice.randrange(len(whole)) for _ in range(20)), len(whole) - 1}):
        got = ask(bed.served.sealed, whole[:at], END_LIMIT, shut=True)
        report.check(got.is_closed and not got.is_hello(), f"{at} octets of a hello, then an end: {got}")
    for octets in (b"", whole[:3], whole[:100], whole):
        begin = time.monotonic()
        got = ask(bed.served.sealed, octets, HANDSHAKE_LIMIT + END_LIMIT)
        took = time.monotonic() - begin
        report.check(got.is_closed and took > HANDSHAKE_LIMIT * 0.5, f"{len(octets)} octets and silence: {got} after {took:.1f} s")


def slow_hello(report, bed):
    """An octet now and then doesn't prolong a handshake's time."""
    begin, octets = time.monotonic(), record(GOOD)
    with socket.create_connection(bed.served.sealed, END_LIMIT) as s:
        s.settimeout(HANDSHAKE_LIMIT / 8)
        ended = False
        for at in range(len(octets)):
            try:
                s.sendall(octets[at:at + 1])
                if s.recv(100) == b"":
                    ended = True
            except TimeoutError:
                continue
            except OSError:
                ended = True
            if ended or time.monotonic() - begin > HANDSHAKE_LIMIT + END_LIMIT:
                break
    took = time.monotonic() - begin
    report.check(ended and took < HANDSHAKE_LIMIT + END_LIMIT, f"a slow hello: {'ended' if ended else 'still open'} after {took:.1f} s")


def cut_handshakes(report, bed):
    """A handshake that ends after any number of the client's octets."""
    for version in ("1.2", "1.3"):
        for _ in range(12):
            left = [bed.dice.randrange(1, 700)]
            with InHands(bed.served.sealed, client_context(versions=(version, version)), "bed.test") as c:
                def some(octets, whole=c.sock.sendall):
                    whole(octets[:left[0]])
                    left[0] -= len(octets)
                    if left[0] <= 0:
                        raise ConnectionAbortedError
                c.send = some
                try:
                    c.handshake()
                    c.write(b"GET /1 HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                    c.answer()
                except (OSError, EOFError):
                    pass
    r = sealed_get(bed.served.sealed, "/1", client_context(), "bed.test")
    report.check(r.whole(), f"after cut handshakes: {r}")


def spoiled_records(report, bed):
    """A changed octet in a sealed record ends the connection; the request in it is never heard."""
    for version in ("1.2", "1.3"):
        for _ in range(8):
            asked = bed.asked("/spoiled")
            with InHands(bed.served.sealed, client_context(versions=(version, version)), "bed.test") as c:
                c.handshake()

                def spoil(octets, whole=c.sock.sendall):
                    at = bed.dice.randrange(5, len(octets))
                    whole(octets[:at] + bytes([octets[at] ^ 0x20]) + octets[at + 1:])
                c.send = spoil
                try:
                    c.write(b"GET /spoiled/pass HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                    got = c.read()
                    while got[:1] not in (b"", b"H"):
                        got = c.read()
                except OSError as e:
                    got = str(e)
                report.check("bad record mac" in str(got).lower() and bed.asked("/spoiled") == asked, f"TLS {version}, a spoiled record: {got!r}")


def cut_uploads(report, bed):
    """An upload that ends too early, with close_notify or without, is no upload: the origin never has it whole."""
    for ending in ("in order", "cut", "reset"):
        for head in ("Content-Length: 100000", "Transfer-Encoding: chunked"):
            before = bed.asked("/whole")
            with SealedClient(bed.served.sealed, client_context(), "bed.test") as c:
                c.send(f"POST /whole/pass HTTP/1.1\r\nHost: bed.test\r\n{head}\r\n\r\n".encode() + b"2710\r\n" + b"u" * 10000 + b"\r\n")
                if ending == "in order":
                    c.sock.settimeout(2)
                    try:
                        c.sock.unwrap()
                    except OSError:
                        pass
                elif ending == "reset":
                    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            report.check(bed.asked("/whole") == before, f"an upload of {head}, ended {ending}, was taken for whole")
    r = sealed_get(bed.served.sealed, "/1", client_context(), "bed.test")
    report.check(r.whole(), f"after cut uploads: {r}")


def gone_in_the_middle(report, bed):
    """Clients that go in the middle of a long answer."""
    for _ in range(10):
        with SealedClient(bed.served.sealed, client_context(), "bed.test", rcvbuf=4096) as c:
            c.send(b"GET /10485760/hit HTTP/1.1\r\nHost: bed.test\r\n\r\n")
            c.sock.recv(bed.dice.randrange(1, 30000))
    r = sealed_get(bed.served.sealed, "/1", client_context(), "bed.test")
    report.check(r.whole(), f"after clients that went: {r}")


class Openssl:
    """openssl's s_client, which does by a letter on a line of its own what Python's library can't."""

    def __init__(self, address, *more):
        self.p = subprocess.Popen(["openssl", "s_client", "-crlf", "-connect", f"{address[0]}:{address[1]}", "-servername", "bed.test", *more],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        self.said = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while d := self.p.stdout.read(65536):
            self.said += d

    def says(self, word, count=1, limit=END_LIMIT):
        return until(limit, lambda: self.said.count(word) >= count)

    def say(self, line):
        try:
            self.p.stdin.write(line + b"\n")
        except BrokenPipeError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()


def renegotiation(report, bed):
    """A client of 1.2 that asks for a second handshake is refused, or cut."""
    with Openssl(bed.served.sealed, "-tls1_2", "-legacy_renegotiation") as c:
        c.says(b"Verify return code")
        c.say(b"R")
        refused = c.says(b"RENEGOTIATING") and until(60, lambda: c.p.poll() is not None)
        report.check(refused and b"rror" in c.said.split(b"RENEGOTIATING")[-1], f"renegotiation: {c.said[-300:]!r}")


def key_updates(report, bed):
    """A client of 1.3 that changes its keys again and again, and asks for ours to change (openssl's k and K)."""
    with Openssl(bed.served.sealed, "-tls1_3") as c:
        c.says(b"Verify return code")
        for n, letter in enumerate((b"K", b"k", b"K", b"K", b"k"), 1):
            c.say(letter)
            c.says(b"KEYUPDATE", n)
        for line in (b"GET /1000/hit HTTP/1.1", b"Host: bed.test", b""):
            c.say(line)
        report.check(c.says(b"the quick brown fox") and c.said.count(b"KEYUPDATE") == 5, f"key updates: {c.said[-300:]!r}")


def after(report, bed):
    """Who asks honestly is answered as before, by the same worker."""
    r = sealed_get(bed.served.sealed, "/1000/hit", client_context(bed.made.root.root), "bed.test")
    with Client(bed.served.address) as c:
        clear = c.request("/1000/hit")
    report.check(r.whole() and clear.whole() and bed.served.worker() == bed.worker, f"afterwards {r}, {clear}, worker {bed.worker} -> {bed.served.worker()}")


CASES = {check.__name__.replace("_", " "): check for check in (
    refusals, odd_hellos, odd_names, half_hellos, slow_hello, cut_handshakes, spoiled_records, cut_uploads, gone_in_the_middle,
    renegotiation, key_updates, after)}
