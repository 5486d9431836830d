# SPDX-License-Identifier: BSD-2-Clause
"""An origin that remembers each octet, and reads HTTP/1 as strictly as can be: whatever a proxy forwards is judged."""
import dataclasses
import re
import threading

from .report import LIMIT, until

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rf"{TOKEN} ([!-~]+) HTTP/1\.[01]\Z")
FIELD = re.compile(rf"({TOKEN}):[ \t]*([\t -~\x80-\xff]*)\Z")


@dataclasses.dataclass
class Request:
    """One request as the origin received it, whole and well framed."""
    method: str
    path: str
    fields: list
    body: bytes

    def all(self, name):
        return [v.strip() for n, v in self.fields if n.lower() == name]


class Bad(Exception):
    """Octets at the origin that are no well-framed request."""


class More(Exception):
    """The request is incomplete so far."""


def parse_request(buf):
    """Takes one request off `buf`: (Request, rest)."""
    top, end, rest = buf.partition(b"\r\n\r\n")
    if not end:
        raise More
    lines = top.decode("latin-1").split("\r\n")
    m = REQUEST_LINE.match(lines[0])
    if not m:
        raise Bad(f"request line {lines[0]!r}"[:90])
    method, path = lines[0].split(" ")[0], m.group(1)
    if not (path.startswith("/") or path.startswith("http://") or (method, path) == ("OPTIONS", "*") or method == "CONNECT"):
        raise Bad(f"target {path!r}"[:90])
    fields = []
    for line in lines[1:]:
        m = FIELD.match(line)
        if not m:
            raise Bad(f"field line {line!r}"[:90])
        fields.append(m.groups())
    r = Request(method, path, fields, b"")
    te, cl = r.all("transfer-encoding"), r.all("content-length")
    if te and (cl or [t.lower() for t in te] != ["chunked"]):
        raise Bad(f"Transfer-Encoding {te}, Content-Length {cl}")
    if te:
        r.body, rest = dechunk(rest)
    elif cl:
        if len(cl) > 1 or not re.match(r"[0-9]+\Z", cl[0]):
            raise Bad(f"Content-Length {cl}")
        if len(rest) < int(cl[0]):
            raise More
        r.body, rest = rest[:int(cl[0])], rest[int(cl[0]):]
    return r, rest


def dechunk(buf):
    body = []
    while True:
        line, end, buf = buf.partition(b"\r\n")
        if not end:
            raise More
        m = re.match(rb"([0-9a-fA-F]+)[ \t]*(;.*)?\Z", line)
        if not m:
            raise Bad(f"chunk size {line!r}"[:90])
        size = int(m.group(1), 16)
        if size == 0:
            break
        if len(buf) < size + 2:
            raise More
        if buf[size:size + 2] != b"\r\n":
            raise Bad("no CRLF after a chunk")
        body.append(buf[:size])
        buf = buf[size + 2:]
    while True:
        line, end, buf = buf.partition(b"\r\n")
        if not end:
            raise More
        if not line:
            return b"".join(body), buf
        if not FIELD.match(line.decode("latin-1")):
            raise Bad(f"trailer {line!r}"[:90])


class Witness:
    """The origin's memory: what each connection of the current case received. Answers each whole request once."""

    def __init__(self):
        self.lock, self.conns = threading.Lock(), []

    def serve(self, s):
        conn = {"octets": b"", "done": False}
        with self.lock:
            self.conns.append(conn)
        buf = b""
        try:
            while d := s.recv(65536):
                conn["octets"] += d
                buf += d
                try:
                    while buf:
                        r, buf = parse_request(buf)
                        s.sendall(b"HTTP/1.1 200 OK\r\nX-Bed: 1\r\nCache-Control: no-store\r\nConnection: close\r\n"
                                  b"Content-Length: 2\r\n\r\n" + (b"" if r.method == "HEAD" else b"ok"))
                except More:
                    pass
                except Bad:
                    s.sendall(b"HTTP/1.1 400 Bad\r\nX-Bed: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                    return
        finally:
            conn["done"] = True

    def take(self):
        """All connections since the last call, once they are over."""
        until(LIMIT, lambda: all(c["done"] for c in list(self.conns)))
        with self.lock:
            got, self.conns = self.conns, []
        return [c["octets"] for c in got]
