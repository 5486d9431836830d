# SPDX-License-Identifier: BSD-2-Clause
"""An HTTP/2 client of raw frames (RFC 9113): it sends what a test says, in order or not, and tells what came, strictly judged."""
import collections
import dataclasses
import select
import socket
import ssl
import time

from . import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 16
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)
ENABLE_CONNECT_PROTOCOL = 8
ERRORS = ("NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR REFUSED_STREAM CANCEL "
          "COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED").split()
LIMIT = 60  # seconds; it only ends what hangs
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW = 65535  # as a connection and its streams begin
MOST_WINDOW = (1 << 31) - 1
OF_ONE_HOP = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Frame = collections.namedtuple("Frame", "kind flags stream payload")


def error(code):
    return ERRORS[code] if code < len(ERRORS) else str(code)


def number(value, octets=4):
    return value.to_bytes(octets, "big")


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """`length` is what the frame says of its payload, when that is not so."""
    return number(len(payload) if length is None else length, 3) + bytes([kind, flags]) + number(stream) + payload


def settings(pairs=None):
    return frame(SETTINGS, payload=b"".join(number(key, 2) + number(value) for key, value in (pairs or {}).items()))


def window_update(stream, by):
    return frame(WINDOW_UPDATE, 0, stream, number(by))


def reset(stream, code=8):
    return frame(RST_STREAM, 0, stream, number(code))


def padded(octets, by):
    return bytes([by]) + octets + bytes(by)


def headers(stream, block, ends=True, cut=0):
    """A block of fields as HEADERS and, with `cut`, CONTINUATION frames of so many octets each."""
    pieces = [block[at:at + cut] for at in range(0, len(block), cut)] if cut else [block]
    return b"".join(frame(CONTINUATION if n else HEADERS, (END_STREAM if ends and not n else 0) | (END_HEADERS if n == len(pieces) - 1 else 0),
                          stream, piece) for n, piece in enumerate(pieces))


def request(path, method="GET", host="bed.test", scheme="http", more=()):
    """The fields of a request, in order."""
    return [(":method", method), (":scheme", scheme), (":authority", host), (":path", path), *more]


@dataclasses.dataclass
class Stream:
    """What came on one stream. `end`: "" so far, "complete", "reset" (then `code`)."""
    status: int = 0
    fields: list = dataclasses.field(default_factory=list)
    interim: list = dataclasses.field(default_factory=list)
    trailers: list = dataclasses.field(default_factory=list)
    body: bytearray = dataclasses.field(default_factory=bytearray)
    length: int = 0
    end: str = ""
    code: int = 0
    window: int = WINDOW    # how much we may still send
    granted: int = WINDOW   # how much it may still send
    begun: float = 0.0
    ended: float = 0.0

    def get(self, name, default=None):
        got = [value for key, value in self.fields if key == name.lower()]
        return ", ".join(got) if got else default

    def whole(self, status=200):
        return self.end == "complete" and self.status == status

    def __str__(self):
        how = f"reset {error(self.code)}" if self.end == "reset" else self.end or "open"
        return f"{self.status or 'no status'} {how} {self.length} octets"


class Connection:
    """One connection, as a client has it. It answers SETTINGS and PING (`acks`) and gives back the windows that DATA took (`credits`: of
    the connection and the streams; "connection": of it alone); without `reads` it takes nothing in unless it is told to wait. `faults`
    are what the server sent and mustn't have; `keep` = False drops bodies."""

    def __init__(self, sock, asked=None, acks=True, credits=True, reads=True, keep=True, opens=True):
        self.sock, self.acks, self.credits, self.reads, self.keep = sock, acks, credits, reads, keep
        sock.setblocking(False)
        self.buf, self.head = bytearray(), None
        self.decoder, self.asked = hpack.Decoder((asked or {}).get(HEADER_TABLE_SIZE, 4096)), dict(asked or {})
        self.streams, self.next = {}, 1
        self.settings, self.frames = {}, collections.Counter()
        self.window, self.granted, self.goaway, self.closed, self.acked, self.pings = WINDOW, WINDOW, None, "", 0, []
        self.faults = []
        if opens:
            self.send(PREFACE + settings(asked))

    # What goes out.

    def send(self, octets, limit=LIMIT):
        """Sends all of it, taking in what comes meanwhile; gives how much went. An end of the connection ends it early."""
        view, sent, end = memoryview(octets), 0, time.monotonic() + limit
        while sent < len(view) and not self.closed and time.monotonic() < end:
            try:
                # Over TLS a piece that would block has to be sent again as it was.
                sent += self.sock.send(view[sent:sent + 16384])
                continue
            except WOULD_BLOCK:
                pass
            except OSError:
                self.closed = self.closed or "reset"
                self._drain()
                break
            self._ready(select.POLLOUT | (select.POLLIN if self.reads else 0), 0.2)
            if self.reads:
                self._drain()
        return sent

    def stream(self):
        """The next stream's id, and what will come on it."""
        at, self.next = self.next, self.next + 2
        self.expect(at)
        return at

    def expect(self, at):
        self.streams[at] = Stream(begun=time.monotonic(), window=self.settings.get(INITIAL_WINDOW_SIZE, WINDOW),
                                  granted=self.asked.get(INITIAL_WINDOW_SIZE, WINDOW))
        return self.streams[at]

    def ask(self, fields, body=None, trailers=None, ends=True, **how):
        """Sends a request; its id. The body goes as windows let it."""
        at = self.stream()
        self.send(headers(at, hpack.block(fields, **how), ends and body is None and trailers is None))
        if body is not None:
            self.upload(at, body, ends and trailers is None)
        if trailers is not None:
            self.send(headers(at, hpack.block(trailers)))
        return at

    def upload(self, at, body, ends=True, limit=LIMIT):
        """Sends DATA within the windows; gives how much went."""
        own, sent, end = self.streams[at], 0, time.monotonic() + limit
        while True:
            room = min(len(body) - sent, own.window, self.window, self.settings.get(MAX_FRAME_SIZE, 16384))
            if room > 0 or not body:
                last = sent + room == len(body)
                self.send(frame(DATA, END_STREAM if last and ends else 0, at, body[sent:sent + room]))
                sent, own.window, self.window = sent + room, own.window - room, self.window - room
                if last:
                    return sent
            elif not self.wait(lambda: min(own.window, self.window) > 0 or own.end, end - time.monotonic()):
                return sent
            if self.closed or own.end == "reset":
                return sent

    def get(self, path, limit=LIMIT, **how):
        """One request, until it is answered."""
        at = self.ask(request(path, **how))
        self.wait(lambda: self.streams[at].end, limit)
        return self.streams[at]

    def ping(self, limit=LIMIT):
        """Whether the server still answers, and has therefore read what was sent before."""
        payload = number(len(self.pings) + 1, 8)
        before = len(self.pings)
        self.send(frame(PING, payload=payload))
        return bool(self.wait(lambda: len(self.pings) > before, limit)) and not self.closed

    # What comes in.

    def wait(self, probe, limit=LIMIT):
        """Takes in frames until `probe()` holds, the connection is over or the time is; gives what the probe gave last."""
        end = time.monotonic() + limit
        while True:
            self._drain()
            got = probe()
            left = end - time.monotonic()
            if got or self.closed or left <= 0:
                return got
            if not (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
                self._ready(select.POLLIN, left)

    def _ready(self, events, limit):
        """Waits until one of them is possible; `select` knows no descriptor above 1,023."""
        poll = select.poll()
        poll.register(self.sock, events)
        poll.poll(limit * 1000)

    def over(self, limit=LIMIT):
        """Whether the server ended it: by GOAWAY or by closing."""
        return bool(self.wait(lambda: self.goaway, limit)) or bool(self.closed)

    def how(self):
        """How it ended, in words."""
        said = f"GOAWAY {error(self.goaway[1])}" if self.goaway else ""
        return ", ".join(filter(None, (said, self.closed and f"closed ({self.closed})"))) or "open"

    def _drain(self):
        """Takes in what is there."""
        while not (self.closed and self.closed != "reset"):
            try:
                octets = self.sock.recv(262144)
            except WOULD_BLOCK:
                break
            except OSError:
                self.closed = "reset"
                break
            if not octets:
                self.closed = "end"
                break
            self.buf += octets
        at = 0
        while len(self.buf) - at >= 9:
            length = int.from_bytes(self.buf[at:at + 3], "big")
            if len(self.buf) - at < 9 + length:
                break
            one = Frame(self.buf[at + 3], self.buf[at + 4], int.from_bytes(self.buf[at + 5:at + 9], "big") & MOST_WINDOW,
                        bytes(self.buf[at + 9:at + 9 + length]))
            at += 9 + length
            if length > self.asked.get(MAX_FRAME_SIZE, 16384):
                self.fault(f"a frame of {length}")
            self._take(one)
        del self.buf[:at]

    def fault(self, what):
        self.faults.append(what)

    def _take(self, one):
        self.frames[one.kind] += 1
        if self.head and (one.kind != CONTINUATION or one.stream != self.head[0]):
            self.fault(f"frame {one.kind} within a block of fields")
        if one.kind == HEADERS:
            self.head = (one.stream, one.flags, self._without_padding(one, 5 if one.flags & PRIORITIZED else 0))
        elif one.kind == CONTINUATION:
            self.head = (self.head[0], self.head[1] | one.flags & END_HEADERS, self.head[2] + one.payload)
        if one.kind in (HEADERS, CONTINUATION):
            if self.head[1] & END_HEADERS:
                self._fields(*self.head)
                self.head = None
            return
        act = {DATA: self._data, RST_STREAM: self._reset, SETTINGS: self._settings, PING: self._ping, GOAWAY: self._goaway,
               WINDOW_UPDATE: self._credit, PUSH_PROMISE: lambda _: self.fault("PUSH_PROMISE")}.get(one.kind)
        if act:
            act(one)

    def _without_padding(self, one, skipped=0):
        payload = one.payload
        if one.flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        return payload[skipped:]

    def _of(self, at, kind):
        """The stream that a frame is for."""
        own = self.streams.get(at)
        if own is None:
            self.fault(f"{kind} on stream {at} that nobody opened")
            return self.expect(at)
        if own.end == "complete":
            self.fault(f"{kind} on stream {at} behind its end")
        return own

    def _fields(self, at, flags, block):
        own = self._of(at, "HEADERS")
        try:
            fields = self.decoder.decode(block)
        except hpack.Undecodable as e:
            return self.fault(f"undecodable fields: {e}")
        for name, _ in fields:
            if name != name.lower() or name in OF_ONE_HOP:
                self.fault(f"field {name}")
        if own.status:
            own.trailers = fields
            if not flags & END_STREAM or any(name.startswith(":") for name, _ in fields):
                self.fault("trailers that don't end the stream, or with a pseudo-header")
        else:
            if not fields or fields[0][0] != ":status" or any(name.startswith(":") for name, _ in fields[1:]):
                return self.fault(f"fields {fields[:3]}")
            status = int(fields[0][1])
            if status < 200:
                own.interim.append((status, fields[1:]))
                if flags & END_STREAM:
                    self.fault("an interim answer that ends the stream")
            else:
                own.status, own.fields = status, fields[1:]
        if flags & END_STREAM:
            self._ended(own)

    def _ended(self, own):
        own.ended = time.monotonic()
        if own.end != "reset":
            own.end = "complete"
        length = own.get("content-length")
        if own.length and length is not None and int(length) != own.length:
            self.fault(f"{own.length} octets of {length}")

    def _data(self, one):
        own, octets = self._of(one.stream, "DATA"), self._without_padding(one)
        own.length += len(octets)
        if self.keep:
            own.body += octets
        own.granted -= len(one.payload)
        self.granted -= len(one.payload)
        if own.granted < 0 or self.granted < 0:
            self.fault("more DATA than the window lets")
        if one.flags & END_STREAM:
            self._ended(own)
        if self.credits and one.payload and not self.closed:
            self._grant(one, own)

    def _grant(self, one, own):
        """Gives back what a frame took; the streams' when half is used up, so that not every frame costs one."""
        back = b""
        if self.granted < WINDOW // 2:
            back += window_update(0, WINDOW - self.granted)
            self.granted = WINDOW
        if self.credits is True and not own.end and own.granted < WINDOW // 2:
            back += window_update(one.stream, WINDOW - own.granted)
            own.granted = WINDOW
        if back:
            self._answer(back)

    def _answer(self, octets):
        """A few octets that must not wait: the peer takes them, or has ended."""
        try:
            sent = self.sock.send(octets)
            if sent < len(octets):
                self.send(octets[sent:])
        except WOULD_BLOCK:
            pass  # what isn't acknowledged now is a slower client
        except OSError:
            self.closed = self.closed or "reset"

    def _reset(self, one):
        own = self._of(one.stream, "RST_STREAM") if one.stream not in self.streams else self.streams[one.stream]
        if not own.end:
            own.end, own.code, own.ended = "reset", int.from_bytes(one.payload, "big"), time.monotonic()
        elif own.end == "complete":
            own.code = int.from_bytes(one.payload, "big")

    def _settings(self, one):
        if one.flags & ACK:
            self.acked += 1
            return
        for at in range(0, len(one.payload), 6):
            key, value = int.from_bytes(one.payload[at:at + 2], "big"), int.from_bytes(one.payload[at + 2:at + 6], "big")
            if key == INITIAL_WINDOW_SIZE:
                for own in self.streams.values():
                    own.window += value - self.settings.get(key, WINDOW)
            self.settings[key] = value
        if self.acks:
            self._answer(frame(SETTINGS, ACK))

    def _ping(self, one):
        if one.flags & ACK:
            self.pings.append(one.payload)
        elif self.acks:
            self._answer(frame(PING, ACK, 0, one.payload))

    def _goaway(self, one):
        code = int.from_bytes(one.payload[4:8], "big")
        # A drain is told twice; the graver word counts.
        if not self.goaway or code:
            self.goaway = (int.from_bytes(one.payload[:4], "big"), code, one.payload[8:].decode("latin-1"))

    def _credit(self, one):
        by = int.from_bytes(one.payload, "big")
        if one.stream == 0:
            self.window += by
        elif one.stream in self.streams:
            self.streams[one.stream].window += by

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def plain(address, timeout=LIMIT, rcvbuf=None):
    """A connected socket for `Connection`, in clear."""
    s = socket.socket()
    if rcvbuf:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    s.settimeout(timeout)
    try:
        s.connect(address)
    except BaseException:
        s.close()
        raise
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def sealed(address, context, name="bed.test", timeout=LIMIT):
    """The same over TLS; `context` offers h2. Who doesn't choose it is an OSError."""
    s = plain(address, timeout)
    try:
        s = context.wrap_socket(s, server_hostname=name)
    except BaseException:
        s.close()
        raise
    if s.selected_alpn_protocol() != "h2":
        s.close()
        raise ConnectionError(f"{s.selected_alpn_protocol()} was chosen")
    return s
