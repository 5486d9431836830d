# SPDX-License-Identifier: BSD-2-Clause
"""WebSockets of streams (RFC 8441, RFC 9220): the VCL that pipes them, an origin that knows those of HTTP/1, one that has streams itself, what a
client asks with."""
import base64
import collections
import hashlib
import socket
import struct
import threading

from .h2 import ENABLE_CONNECT_PROTOCOL
from .h2origin import Behaviour, Ended
from .origin import head

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; %s }
sub vcl_recv {
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/hash") { return (hash); }
    if (req.url ~ "^/synth") { return (synth(200)); }
    if (req.http.upgrade ~ "(?i)websocket") { return (pipe); }
}
sub vcl_pipe {
    if (req.http.upgrade && req.url !~ "^/plain") {
        set bereq.http.upgrade = req.http.upgrade;
        set bereq.http.connection = req.http.connection;
    }
}
"""


class Sockets:
    """The origin of HTTP/1: what a path says becomes of the handshake and of the bytes behind it."""
    more = ""  # in its declaration

    def __init__(self):
        self.asked, self.ends, self.taken, self.go_on = [], collections.defaultdict(list), 0, threading.Event()  # `ends` by path: those of another case may come late

    def serve(self, s):
        while got := head(s, b""):
            method, path, fields, rest = got
            self.asked.append((method, path, fields))
            if path in ("/live", "/plain"):
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            elif path == "/refused":
                return s.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\nX-Why: so\r\n\r\nnot you")
            elif path == "/silent":
                return self._to_the_end(s, path)
            elif path == "/gone":
                return None
            else:
                return self._speak(s, path, fields, rest)

    def _speak(self, s, path, fields, rest):
        key = b"wrong" if path == "/wrong" else fields["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: chat\r\n"
                  b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + (b"first" if path == "/first" else b""))
        if path == "/cut":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif path.startswith("/push/"):
            s.sendall(bytes(int(path[6:])))
        elif path == "/slow":
            self.go_on.wait(30)
            self._to_the_end(s, path)
        elif path == "/half":
            s.shutdown(socket.SHUT_WR)
            self._to_the_end(s, path)
        elif path in ("/echo", "/first"):
            while d := s.recv(65536):
                s.sendall(d)
            s.sendall(b"bye")
        else:
            self._to_the_end(s, path)
        return None

    def is_good(self, asked):
        """Whether the request is the one that is due."""
        method, path, fields = asked
        said = (method, fields.get("upgrade"), fields.get("connection"), fields.get("sec-websocket-version"))
        return said == ("GET", "websocket", "upgrade", "13") and fields.get("sec-websocket-key") not in (None, "client") and "content-length" not in fields

    def _to_the_end(self, s, path):
        try:
            while d := s.recv(65536):
                self.taken += len(d)
            self.ends[path].append("end")
        except ConnectionError:
            self.ends[path].append("reset")


class StreamSockets(Behaviour):
    """The same by HTTP/2. `go_on.set()` grants what was held back."""
    more = '.proto = "h2";'

    def __init__(self, announces=True):
        super().__init__(asks={ENABLE_CONNECT_PROTOCOL: 1} if announces else {})
        self.asked, self.ends, self.taken, self.go_on, self.held = [], collections.defaultdict(list), 0, self, []

    def set(self):
        held, self.held = self.held, None
        for connection, at, count in held:
            connection.grant(at, count)

    def head(self, connection, at, own):
        super().head(connection, at, own)
        path, fields = own.get(":path"), [("sec-websocket-protocol", "chat")]
        self.asked.append((own.get(":method"), path, dict(own.fields)))
        if own.get(":protocol") is None:
            return
        if path == "/refused":
            connection.answer(at, 403, [("x-why", "so")], b"not you")
        elif path == "/gone":
            raise Ended
        elif path == "/wrong":
            connection.answer(at, 101, fields, ends=False)
        elif path == "/cut":
            connection.answer(at, 200, fields, ends=False)
            connection.reset(at, 2)
        elif path != "/silent":
            body = b"first" if path == "/first" else bytes(int(path[6:])) if path.startswith("/push/") else b""
            connection.answer(at, 200, fields, body, ends=path == "/half" or path.startswith("/push/"))

    def data(self, connection, at, own, octets):
        self.taken += len(octets)
        if own.get(":path") == "/slow" and self.held is not None:
            return self.held.append((connection, at, len(octets)))
        super().data(connection, at, own, octets)
        if own.get(":path") in ("/echo", "/first"):
            connection.more(at, octets)

    def complete(self, connection, at, own):
        if own.get(":protocol") is None:
            return super().complete(connection, at, own)
        self.ends[own.get(":path")].append("end")
        if own.get(":path") in ("/echo", "/first"):
            connection.more(at, b"bye", ends=True)

    def gone(self, connection, at):
        self.ends[connection.streams[at].get(":path")].append("reset")

    def is_good(self, asked):
        method, path, fields = asked
        said = (method, fields.get(":protocol"), fields.get(":scheme"), fields.get(":authority"), fields.get("sec-websocket-version"))
        return said == ("CONNECT", "websocket", "http", "bed.test", "13") and not {"upgrade", "connection", "sec-websocket-key", "content-length"} & set(fields)


def connect(path, protocol="websocket", more=(), leave=()):
    fields = [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":path", path), (":authority", "bed.test"),
              ("sec-websocket-version", "13"), ("origin", "http://bed.test"), *more]
    return [(name, value) for name, value in fields if name not in leave]
