# SPDX-License-Identifier: BSD-2-Clause
"""An HTTP/2 origin of raw frames: it answers well unless a test has it do something else, and tells what it was asked and how."""
import collections
import socket
import threading

from . import hpack
from .h2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, OF_ONE_HOP, PADDED,
                 PING, PREFACE, PRIORITIZED, RST_STREAM, SETTINGS, WINDOW, WINDOW_UPDATE, error, frame, headers, number, reset, settings, window_update)
from .origin import Origin
from .sealed import SealedOrigin

Asked = collections.namedtuple("Asked", "method path fields body trailers")


class Ended(Exception):
    """The peer has closed the connection, or this end wants to."""


class Incoming:
    """A request as far as it has come. `window`: how much of the answer may still be sent."""

    def __init__(self, fields, window, granted=WINDOW):
        self.fields, self.window, self.granted = fields, window, granted
        self.body, self.trailers, self.complete, self.code = bytearray(), [], False, None
        self.queue, self.ends, self.behind, self.sent = bytearray(), False, None, False

    def get(self, name, default=None):
        got = [value for key, value in self.fields if key == name]
        return ", ".join(got) if got else default

    def asked(self):
        return Asked(self.get(":method"), self.get(":path"), self.fields, bytes(self.body), self.trailers)


class Served:
    """A connection, as an origin has it; one thread runs it. `origin` says what to do when something has come."""

    def __init__(self, sock, origin):
        self.sock, self.origin, self.number = sock, origin, len(origin.connections)
        self.buf, self.head = bytearray(), None
        self.decoder, self.streams = hpack.Decoder(4096), {}
        self.window, self.granted, self.peer, self.goaway = WINDOW, WINDOW, {}, None
        self.out = threading.Lock()

    def serve(self):
        if self._exactly(len(PREFACE)) != PREFACE:
            self.origin.fault("no preface")
            return
        self.send(self.origin.begin)
        while True:
            try:
                self._take(*self._frame())
            except Ended:
                return

    def send(self, octets):
        with self.out:
            self.sock.sendall(octets)

    def _exactly(self, count):
        while len(self.buf) < count:
            octets = self.sock.recv(262144)
            if not octets:
                raise Ended
            self.buf += octets
        got = bytes(self.buf[:count])
        del self.buf[:count]
        return got

    def _frame(self):
        head = self._exactly(9)
        length, at = int.from_bytes(head[:3], "big"), int.from_bytes(head[5:9], "big")
        return head[3], head[4], at, self._exactly(length)

    def _take(self, kind, flags, at, payload):
        self.origin.frames[kind] += 1
        if kind in (HEADERS, CONTINUATION):
            self._block(kind, flags, at, payload)
        elif kind == DATA:
            self._data(flags, at, payload)
        elif kind == SETTINGS and not flags & ACK:
            for n in range(0, len(payload), 6):
                key, value = int.from_bytes(payload[n:n + 2], "big"), int.from_bytes(payload[n + 2:n + 6], "big")
                if key == INITIAL_WINDOW_SIZE:
                    for own in self.streams.values():
                        own.window += value - self.peer.get(key, WINDOW)
                self.peer[key] = value
            self.send(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
            self.origin.goodbyes.append(error(self.goaway))
        elif kind == RST_STREAM:
            code = error(int.from_bytes(payload, "big"))
            if at in self.streams:
                self.streams[at].code = code
            self.origin.resets.append(code)
            self.origin.gone(self, at)
        elif kind == WINDOW_UPDATE:
            by = int.from_bytes(payload, "big")
            if at == 0:
                self.window += by
            elif at in self.streams:
                self.streams[at].window += by
            self.flush()

    def _block(self, kind, flags, at, payload):
        if kind == HEADERS:
            skip = (5 if flags & PRIORITIZED else 0) + (1 if flags & PADDED else 0)
            padding = payload[0] if flags & PADDED else 0
            self.head = [at, flags, payload[skip:len(payload) - padding]]
        else:
            self.head[1] |= flags & END_HEADERS
            self.head[2] += payload
        if not self.head[1] & END_HEADERS:
            return
        at, flags, block = self.head
        fields, self.head = self.decoder.decode(block), None
        for name, _ in fields:
            if name != name.lower() or name in OF_ONE_HOP:
                self.origin.fault(f"field {name}")
        if at in self.streams:
            self.streams[at].trailers = fields
        else:
            self.streams[at] = Incoming(fields, self.peer.get(INITIAL_WINDOW_SIZE, WINDOW), self.origin.asks.get(INITIAL_WINDOW_SIZE, WINDOW))
            self._judge(fields)
            self.origin.head(self, at, self.streams[at])
        self._ends(flags, at)

    def _judge(self, fields):
        names = [name for name, _ in fields]
        pseudo = [name for name in names if name.startswith(":")]
        due = [":authority", ":method", ":path", ":scheme"]
        if sorted(pseudo) not in (due, sorted([*due, ":protocol"])) or names[:len(pseudo)] != pseudo:
            self.origin.fault(f"pseudo-header fields {names}")
        if "host" in names or [v for n, v in fields if n == "te" and v != "trailers"]:
            self.origin.fault(f"fields {fields}")

    def _data(self, flags, at, payload):
        own = self.streams[at]
        octets = payload[1:len(payload) - payload[0]] if flags & PADDED else payload
        own.body += octets
        own.granted, self.granted = own.granted - len(payload), self.granted - len(payload)
        if own.granted < 0 or self.granted < 0:
            self.origin.fault("more DATA than the window lets")
        self.origin.data(self, at, own, octets)
        self._ends(flags, at)

    def grant(self, at, count):
        """Gives back what a piece of a body took of both windows."""
        if count:
            self.streams[at].granted, self.granted = self.streams[at].granted + count, self.granted + count
            self.send(window_update(0, count) + (b"" if self.streams[at].complete else window_update(at, count)))

    def _ends(self, flags, at):
        if flags & END_STREAM and at in self.streams:
            self.streams[at].complete = True
            self.origin.complete(self, at, self.streams[at])

    # What a test says.

    def answer(self, at, status=200, fields=(), body=b"", trailers=None, ends=True):
        """A whole answer, as the windows let it; without `ends` more may follow by `more`."""
        own = self.streams[at]
        alone = ends and not body and trailers is None
        self.send(headers(at, hpack.block([(":status", str(status)), *fields]), alone))
        own.sent = True
        if not alone:
            self.more(at, body, ends, trailers)

    def more(self, at, body=b"", ends=False, trailers=None):
        own = self.streams[at]
        own.queue += body
        own.ends, own.behind = own.ends or ends, trailers
        self.flush()

    def flush(self):
        for at, own in list(self.streams.items()):
            while own.queue and (room := min(len(own.queue), own.window, self.window, self.peer.get(MAX_FRAME_SIZE, 16384))) > 0:
                piece = bytes(own.queue[:room])
                del own.queue[:room]
                own.window, self.window = own.window - room, self.window - room
                last = own.ends and not own.queue and own.behind is None
                own.ends &= not last
                self.send(frame(DATA, END_STREAM if last else 0, at, piece))
            if own.ends and not own.queue:
                own.ends = False
                self.send(frame(DATA, END_STREAM, at) if own.behind is None else headers(at, hpack.block(own.behind)))

    def reset(self, at, code):
        self.send(reset(at, code))

    def goes_away(self, last, code=0):
        self.send(frame(GOAWAY, 0, 0, number(last) + number(code)))

    def ends(self):
        raise Ended


class Behaviour:
    """What an origin does: here each whole request is answered by `reply(Asked) -> (status, fields, body, trailers)`. A subclass does other
    things. `requests` are those that were begun; `faults` are what came and mustn't have."""

    def __init__(self, reply=None, asks=None, begin=None):
        self.reply = reply or (lambda asked: (200, [("content-length", str(len(asked.path)))], asked.path.encode(), None))
        self.asks = asks or {}
        self.begin = settings(self.asks) if begin is None else begin
        self.connections, self.requests, self.faults = [], [], []
        self.frames, self.resets, self.goodbyes = collections.Counter(), [], []

    def serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Served(sock, self)
        self.connections.append(connection)
        connection.serve()

    def fault(self, what):
        self.faults.append(what)

    def head(self, connection, at, own):
        self.requests.append(own)

    def data(self, connection, at, own, octets):
        connection.grant(at, len(octets))

    def complete(self, connection, at, own):
        connection.answer(at, *self.reply(own.asked()))

    def gone(self, connection, at):
        pass


def clear(behaviour):
    """In clear text."""
    return Origin(behaviour.serve)


def sealed(behaviour, context, alpn=("h2",)):
    """By TLS; `alpn` is what it takes."""
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return SealedOrigin(behaviour.serve, context)
