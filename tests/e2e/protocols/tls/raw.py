# SPDX-License-Identifier: BSD-2-Clause
"""Records and hellos by hand, for what no TLS library would send; and a real client whose bytes pass through our hands."""
import os
import socket
import ssl
import struct

LIMIT = 60  # seconds; it only ends what hangs

CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
ALERTS = {0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
          42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
          46: "certificate_unknown", 47: "illegal_parameter", 48: "unknown_ca", 49: "access_denied", 50: "decode_error", 51: "decrypt_error",
          70: "protocol_version", 71: "insufficient_security", 80: "internal_error", 86: "inappropriate_fallback", 90: "user_canceled",
          100: "no_renegotiation", 109: "missing_extension", 110: "unsupported_extension", 112: "unrecognized_name",
          113: "bad_certificate_status_response", 116: "certificate_required", 120: "no_application_protocol"}
MODERN = (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02C, 0xC02F, 0xC030, 0xCCA8, 0xCCA9)
SIGNATURES = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601)


def sized(width, octets):
    """`octets` after their length in `width` bytes."""
    return len(octets).to_bytes(width, "big") + octets


def words(*numbers):
    return b"".join(struct.pack(">H", n) for n in numbers)


def extension(number, octets):
    return words(number) + sized(2, octets)


def server_name(octets):
    return extension(0, sized(2, b"\0" + sized(2, octets)))


def hello(name=b"bed.test", versions=(0x0304, 0x0303), suites=MODERN, groups=(0x001D, 0x0017), alpn=(b"http/1.1",), legacy=0x0303,
          compression=b"\0", more=b"", session=None, share=True):
    """A ClientHello as a handshake message."""
    parts = server_name(name) if name is not None else b""
    if versions:
        parts += extension(43, sized(1, words(*versions)))
    if groups:
        parts += extension(10, sized(2, words(*groups)))
    parts += extension(13, sized(2, words(*SIGNATURES)))
    if alpn:
        parts += extension(16, sized(2, b"".join(sized(1, word) for word in alpn)))
    if share:
        # Any 32 octets are a public key of X25519.
        parts += extension(51, sized(2, words(0x001D) + sized(2, os.urandom(32))))
    parts += more
    body = words(legacy) + os.urandom(32) + sized(1, os.urandom(32) if session is None else session) + sized(2, words(*suites))
    return message(1, body + sized(1, compression) + (sized(2, parts) if parts else b""))


def message(kind, body):
    return bytes([kind]) + sized(3, body)


def record(octets, kind=HANDSHAKE, version=0x0301):
    return bytes([kind]) + words(version) + sized(2, octets)


def records(octets, size, kind=HANDSHAKE, version=0x0301):
    """In records of `size` octets of content each."""
    return b"".join(record(octets[at:at + size], kind, version) for at in range(0, len(octets), size))


class Answer:
    """What a server sent until it closed or `limit` was over: records as (kind, content), and all octets."""

    def __init__(self, s, limit):
        self.octets, self.is_closed = b"", False
        s.settimeout(limit)
        try:
            while d := s.recv(65536):
                self.octets += d
            self.is_closed = True
        except TimeoutError:
            pass
        except OSError:
            self.is_closed = True
        self.records, rest = [], self.octets
        while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[3:5], "big"):
            end = 5 + int.from_bytes(rest[3:5], "big")
            self.records.append((rest[0], rest[5:end]))
            rest = rest[end:]

    def alert(self):
        """The name of the alert in clear, if there was one."""
        return next((ALERTS.get(content[1], str(content[1])) for kind, content in self.records if kind == ALERT and len(content) == 2), None)

    def is_hello(self):
        return bool(self.records) and self.records[0][0] == HANDSHAKE and self.records[0][1][:1] == b"\2"

    def __str__(self):
        what = self.alert() or ("a hello" if self.is_hello() else repr(self.octets[:60]))
        return f"{what}, {'closed' if self.is_closed else 'still open'}"


def ask(address, octets, limit=LIMIT, shut=False):
    """Sends that on a new connection: what came."""
    with socket.create_connection(address, LIMIT) as s:
        try:
            s.sendall(octets)
            if shut:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it may have closed already, and what it said is still to be read
        return Answer(s, limit)


class InHands:
    """A real client of Python's `ssl` that writes to and reads from memory, so that a test decides how its octets go out."""

    def __init__(self, address, context, name="bed.test", session=None, timeout=LIMIT):
        self.sock = socket.create_connection(address, timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inward, self.outward, server_hostname=name, session=session)
        self.send = self.sock.sendall

    def flush(self):
        """What the library wants sent, by `send`."""
        if octets := self.outward.read():
            self.send(octets)

    def feed(self):
        d = self.sock.recv(65536)
        if not d:
            self.inward.write_eof()
        else:
            self.inward.write(d)
        return bool(d)

    def until_done(self, act):
        """Runs `act` of the library until it no longer wants octets."""
        while True:
            try:
                got = act()
                self.flush()
                return got
            except ssl.SSLWantReadError:
                self.flush()
                self.feed()

    def handshake(self):
        self.until_done(self.tls.do_handshake)

    def write(self, octets):
        """All of it sealed, and sent by `send`."""
        while octets:
            octets = octets[self.tls.write(octets):]
        self.flush()

    def read(self, n=65536):
        """The next plaintext; b"" at an end in order."""
        try:
            return self.until_done(lambda: self.tls.read(n))
        except ssl.SSLZeroReturnError:
            return b""

    def answer(self):
        """A response with a Content-Length: (head, body)."""
        got = b""
        while b"\r\n\r\n" not in got:
            d = self.read()
            if not d:
                raise EOFError(f"ended after {got[:80]!r}")
            got += d
        head, body = got.split(b"\r\n\r\n", 1)
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while len(body) < length:
            d = self.read()
            if not d:
                raise EOFError(f"ended after {len(body)} of {length}")
            body += d
        return head, body

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
