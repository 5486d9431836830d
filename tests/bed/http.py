# SPDX-License-Identifier: BSD-2-Clause
"""A strict HTTP/1 client: says what came, and whether it came whole."""
import dataclasses
import hashlib
import socket

LIMIT = 60  # seconds; it only ends what hangs


class Garbled(Exception):
    """The peer sent what is no HTTP/1 response."""


@dataclasses.dataclass
class Response:
    """`end` is "complete", "truncated" (the peer closed too early, detectably), "timeout", "garbled" or "none" (no octet)."""
    status: int = 0
    reason: str = ""
    fields: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    length: int = 0
    digest: str = ""
    end: str = "none"
    framing: str = ""
    interim: list = dataclasses.field(default_factory=list)

    def get(self, name, default=None):
        got = [v for n, v in self.fields if n.lower() == name.lower()]
        return ", ".join(got) if got else default

    def whole(self, status=200):
        return self.end == "complete" and self.status == status

    def __str__(self):
        return f"{self.status or 'no status'} {self.end} {self.length} octets"


class Client:
    """One connection. `keep` = False drops bodies and keeps only their length and SHA-256; `source` is the address that it comes from."""

    def __init__(self, address, timeout=LIMIT, keep=True, rcvbuf=None, source=None):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if source:
            self.sock.bind((source, 0))
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        self.buf, self.keep = b"", keep

    def send(self, octets):
        self.sock.sendall(octets)

    def request(self, path, fields=(), method="GET", host="bed.test", body=None):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{n}: {v}" for n, v in fields)]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))
        return self.response(method)

    def _more(self):
        d = self.sock.recv(262144)
        self.buf += d
        return bool(d)

    def _line(self, limit=1 << 20):
        while b"\n" not in self.buf:
            if len(self.buf) > limit:
                raise Garbled("line too long")
            if not self._more():
                raise EOFError
        line, self.buf = self.buf.split(b"\n", 1)
        if not line.endswith(b"\r"):
            raise Garbled("lone LF")
        return line[:-1].decode("latin-1")

    def response(self, method="GET"):
        """Reads the next final response; interim ones are collected in it."""
        r = Response()
        try:
            while True:
                self._head(r)
                if r.status >= 200 or r.status == 101:
                    break
                r.interim.append((r.status, r.fields))
            self._body(r, method)
            r.end = "complete"
        except EOFError:
            r.end = "truncated" if r.status or self.buf else "none"
        except TimeoutError:
            r.end = "timeout"
        except ConnectionError:
            r.end = "truncated" if r.status else "none"
        except (Garbled, ValueError) as e:
            r.end, r.reason = "garbled", str(e)
        return r

    def _head(self, r):
        r.fields = []
        version, _, rest = self._line().partition(" ")
        status, _, r.reason = rest.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(status) != 3 or not status.isdigit():
            raise Garbled(f"status line {version} {rest}"[:80])
        r.status = int(status)
        while line := self._line():
            name, colon, value = line.partition(":")
            if not colon or not name or " " in name or any(c < " " and c != "\t" for c in value):
                raise Garbled(f"field line {line!r}"[:80])
            r.fields.append((name, value.strip(" \t")))

    def _body(self, r, method):
        self.sha = hashlib.sha256()
        parts = []
        def take(n):
            while n:
                if not self.buf and not self._more():
                    raise EOFError
                d, self.buf = self.buf[:n], self.buf[n:]
                n -= len(d)
                r.length += len(d)
                self.sha.update(d)
                if self.keep:
                    parts.append(d)
        try:
            te, cl = r.get("Transfer-Encoding"), r.get("Content-Length")
            if te is not None and cl is not None:
                raise Garbled("both Transfer-Encoding and Content-Length")
            if method == "HEAD" or r.status in (204, 304) or r.status == 101:
                r.framing = "none"
            elif te is not None:
                r.framing = "chunked"
                while size := int(self._line(4096), 16):
                    take(size)
                    if self._line(4096):
                        raise Garbled("no line end after a chunk")
                while self._line():
                    pass
            elif cl is not None:
                r.framing = "length"
                if not cl.isdigit():
                    raise Garbled(f"Content-Length {cl}")
                take(int(cl))
            else:
                r.framing = "close"
                while self.buf or self._more():
                    take(len(self.buf))
        finally:
            r.body, r.digest = b"".join(parts), self.sha.hexdigest()

    def closed(self, limit=1.0):
        """Whether the peer closes within `limit` seconds without sending another octet."""
        self.sock.settimeout(limit)
        try:
            return not self.buf and self.sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def get(address, path, fields=(), timeout=LIMIT, keep=True, source=None, **kw):
    """One request on a connection of its own."""
    try:
        with Client(address, timeout, keep, source=source) as c:
            return c.request(path, fields, **kw)
    except OSError as e:
        return Response(reason=str(e))
