# SPDX-License-Identifier: BSD-2-Clause
"""The origin that does what a path says, and counts: /hit/N and /pass/N are N octets, /hang and /stall never answer, /slow/N takes no more of an upload
than N octets until it is told, /echo gives the upload back, /count its length, /trailers ends with a trailer."""
import collections
import hashlib
import socket
import threading

from bed.origin import head

CACHED, NOT_CACHED = "Cache-Control: max-age=600\r\n", "Cache-Control: no-store\r\n"


def octets(count):
    """So many, each line another."""
    line = b"%07d the quick brown fox jumps over it\n"
    return b"".join(line % n for n in range(count // len(line % 0) + 1))[:count]


def digest(text):
    return hashlib.sha256(text).hexdigest()


class Source:
    def __init__(self):
        self.lock, self.asked, self.hanging, self.bodies = threading.Lock(), collections.Counter(), set(), {}
        self.go_on = threading.Event()  # uploads that are not taken go on

    def pending(self):
        """How many requests wait for an answer that will never come, and whose connection is still there."""
        with self.lock:
            return len(self.hanging)

    def attacked(self):
        """How many requests there were for what isn't cached."""
        with self.lock:
            return sum(count for path, count in self.asked.items() if not path.startswith("/hit/"))

    def text(self, count):
        if count not in self.bodies:
            self.bodies[count] = octets(count)
        return self.bodies[count]

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            with self.lock:
                self.asked[path] += 1
            kind, _, rest = path.partition("?")[0][1:].partition("/")
            if kind in ("hang", "stall"):
                return self._hang(s)
            body, trailers, buf = self._upload(s, buf, fields, int(rest.split("/")[0]) if kind == "slow" else None)
            self._answer(s, method, kind, rest, fields, body, trailers)

    def _hang(self, s):
        with self.lock:
            self.hanging.add(s)
        try:
            while s.recv(65536):
                pass
        finally:
            with self.lock:
                self.hanging.discard(s)

    def _answer(self, s, method, kind, rest, fields, body, trailers):
        extra, text, tail = NOT_CACHED, b"ok", None
        if kind in ("hit", "pass"):
            extra, text = CACHED if kind == "hit" else NOT_CACHED, self.text(int(rest.split("/")[0]))
        elif kind == "echo":
            text = body
        elif kind in ("count", "slow"):
            text = f"{len(body)} {digest(body)}".encode()
        elif kind == "fields":
            text = "".join(f"{name}: {value}\n" for name, value in fields.items()).encode("latin-1")
        elif kind == "trailers":
            text, tail = b"hello", b"X-Tail: 1\r\n"
        elif kind == "told":
            text = trailers
        elif kind == "early":
            s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
        elif kind == "many":
            extra += "".join(f"X-Field-{n}: {'v' * 400}\r\n" for n in range(int(rest)))
        if tail:
            top = f"HTTP/1.1 200 OK\r\n{extra}Transfer-Encoding: chunked\r\nTrailer: X-Tail\r\n\r\n".encode()
            s.sendall(top + b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(text), text, tail))
            return
        top = f"HTTP/1.1 200 OK\r\n{extra}Content-Length: {len(text)}\r\n\r\n".encode()
        s.sendall(top if method == "HEAD" else top + text)

    def _upload(self, s, buf, fields, most):
        """(body, trailers, what came behind)."""
        if "100-continue" in fields.get("expect", "").lower():
            s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if most is not None:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # what lies in the kernel isn't taken
        taken = 0

        def more():
            nonlocal taken
            if most is not None and taken >= most:
                self.go_on.wait(30)
            d = s.recv(65536)
            if not d:
                raise ConnectionError("the body is cut")
            taken += len(d)
            return d
        if "chunked" not in fields.get("transfer-encoding", "").lower():
            length, parts = int(fields.get("content-length", 0)), [buf]
            have = len(buf)
            while have < length:
                parts.append(more())
                have += len(parts[-1])
            buf = b"".join(parts)
            return buf[:length], b"", buf[length:]
        body = []
        while True:
            while b"\r\n" not in buf:
                buf += more()
            size, buf = buf.split(b"\r\n", 1)
            size = int(size.split(b";")[0], 16)
            if not size:
                break
            while len(buf) < size + 2:
                buf += more()
            body.append(buf[:size])
            buf = buf[size + 2:]
        trailers = b""
        while True:
            while b"\r\n" not in buf:
                buf += more()
            line, buf = buf.split(b"\r\n", 1)
            if not line:
                return b"".join(body), trailers, buf
            trailers += line + b"\n"
