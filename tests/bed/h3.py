# SPDX-License-Identifier: BSD-2-Clause
"""A client of HTTP/3 that sends what a test asks for, well formed or not, over aioquic's QUIC; what the server says is read strictly."""
import select
import socket
import ssl
import time

import pylsqpack
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StopSendingReceived, StreamDataReceived, StreamReset

from . import hpack

LIMIT = 60  # seconds; it only ends what hangs

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 0xd
PRIORITY_UPDATE, PUSH_PRIORITY_UPDATE, UNKNOWN = 0xf0700, 0xf0701, 0x21
CONTROL, PUSH, ENCODER, DECODER, OTHER = 0, 1, 2, 3, 0x21  # kinds of streams
MAX_FIELD_SECTION_SIZE, CONNECT_PROTOCOL = 6, 8
CODES = {0x100: "H3_NO_ERROR", 0x101: "H3_GENERAL_PROTOCOL_ERROR", 0x102: "H3_INTERNAL_ERROR", 0x103: "H3_STREAM_CREATION_ERROR",
         0x104: "H3_CLOSED_CRITICAL_STREAM", 0x105: "H3_FRAME_UNEXPECTED", 0x106: "H3_FRAME_ERROR", 0x107: "H3_EXCESSIVE_LOAD", 0x108: "H3_ID_ERROR",
         0x109: "H3_SETTINGS_ERROR", 0x10a: "H3_MISSING_SETTINGS", 0x10b: "H3_REQUEST_REJECTED", 0x10c: "H3_REQUEST_CANCELLED",
         0x10d: "H3_REQUEST_INCOMPLETE", 0x10e: "H3_MESSAGE_ERROR", 0x200: "QPACK_DECOMPRESSION_FAILED", 0x201: "QPACK_ENCODER_STREAM_ERROR",
         0x202: "QPACK_DECODER_STREAM_ERROR"}
TRANSPORT = {0: "NO_ERROR", 1: "INTERNAL_ERROR", 2: "CONNECTION_REFUSED", 3: "FLOW_CONTROL_ERROR", 4: "STREAM_LIMIT_ERROR", 5: "STREAM_STATE_ERROR",
             6: "FINAL_SIZE_ERROR", 8: "TRANSPORT_PARAMETER_ERROR", 7: "FRAME_ENCODING_ERROR", 9: "CONNECTION_ID_LIMIT_ERROR", 0xa: "PROTOCOL_VIOLATION", 0xb: "INVALID_TOKEN", 0xc: "APPLICATION_ERROR"}
OF_ONE_HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}


def varint(value, octets=0):
    """A number in the fewest octets, or in so many."""
    bits = next(bits for bits, size in enumerate((1, 2, 4, 8)) if size >= octets and value < 1 << size * 8 - 2)
    return (value | bits << (8 << bits) - 2).to_bytes(1 << bits, "big")


def read_varint(octets, at=0):
    """(value, where it ends), or None where it isn't whole."""
    if at >= len(octets):
        return None
    size = 1 << (octets[at] >> 6)
    if at + size > len(octets):
        return None
    return int.from_bytes(octets[at:at + size], "big") & (1 << size * 8 - 2) - 1, at + size


def frame(kind, payload=b"", length=None):
    return varint(kind) + varint(len(payload) if length is None else length) + payload


def settings(pairs=()):
    return frame(SETTINGS, b"".join(varint(key) + varint(value) for key, value in dict(pairs).items()))


def literal(name, value, is_huffman=False):
    """A field written out (RFC 9204 4.5.6)."""
    octets = hpack.as_octets(name)
    octets = hpack.huffman(octets) if is_huffman else octets
    return hpack.integer(len(octets), 3, 0x28 if is_huffman else 0x20) + octets + hpack.string(value, is_huffman)


def indexed(entry):
    """A field of the static table."""
    return hpack.integer(entry, 6, 0xc0)


def block(fields, is_huffman=False):
    """A field section without the dynamic table."""
    return b"\0\0" + b"".join(literal(name, value, is_huffman) for name, value in fields)


def headers(fields, **how):
    return frame(HEADERS, block(fields, **how))


def request(path, method="GET", more=()):
    return [(":method", method), (":scheme", "https"), (":authority", "bed.test"), (":path", path), *more]


class Stream:
    """One request's answer. `end`: "complete", "reset" (by `code`) or nothing yet; `stopped`: the code with which the server wants no more of it."""

    def __init__(self):
        self.status, self.fields, self.trailers, self.interim, self.body, self.length = 0, [], None, [], b"", 0
        self.end, self.code, self.stopped, self.is_reset, self.buf, self.begun, self.ended = "", None, None, False, b"", time.monotonic(), None

    def get(self, name):
        return next((value for key, value in self.fields if key == name), None)

    def whole(self):
        return self.end == "complete" and 200 <= self.status < 300

    def __str__(self):
        said = f"{self.end or 'open'} {self.status}"
        return said + (f" {CODES.get(self.code, self.code)}" if self.code is not None else "") + (f", {self.length} octets" if self.length else "")


def configuration(**kw):
    made = QuicConfiguration(is_client=True, server_name="bed.test", **{"alpn_protocols": ["h3"], **kw})
    made.verify_mode = ssl.CERT_NONE
    return made


class Connection:
    """Sends at once; takes in what comes while it waits. A handshake that fails is an OSError. `made` makes the connection of QUIC."""

    def __init__(self, address, opens=True, limit=LIMIT, keep=True, made=QuicConnection, **config):
        self.address, self.keep, self.streams, self.faults, self.settings = address, keep, {}, [], None
        self.goaway = self.closed = None
        self.is_connected, self.next, self.next_uni, self.theirs = False, 0, 2, {}
        self.decoder = pylsqpack.Decoder(0, 0)
        self.quic = made(configuration=configuration(**config))
        self.sock = self.fresh_socket()
        self.quic.connect(address, time.monotonic())
        if not self.wait(lambda: self.is_connected, limit):
            self.sock.close()
            raise ConnectionError(f"no handshake: {self.how()}")
        if opens:
            self.open(CONTROL, settings())
            self.open(ENCODER)
            self.open(DECODER)

    def fresh_socket(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.connect(self.address)
        s.setblocking(False)
        return s

    def move(self):
        """The client comes from another port from now on."""
        self.flush()
        self.sock.close()
        self.sock = self.fresh_socket()

    # What goes out.

    def flush(self):
        for octets, _ in self.quic.datagrams_to_send(time.monotonic()):
            try:
                self.sock.send(octets)
            except OSError:
                pass  # lost, as a datagram may be

    def stream(self):
        """The next request's stream; nothing is sent."""
        at, self.next = self.next, self.next + 4
        self.streams[at] = Stream()
        return at

    def send(self, at, octets, ends=False):
        """What goes to a stream that the server has stopped is lost."""
        own = self.streams.get(at)
        if not self.closed and (own is None or own.stopped is None and not own.is_reset):
            self.quic.send_stream_data(at, octets, ends)
            self.flush()

    def open(self, kind, octets=b"", ends=False):
        """A stream in one direction, which begins with its kind; None: with nothing."""
        at, self.next_uni = self.next_uni, self.next_uni + 4
        self.send(at, (b"" if kind is None else varint(kind)) + octets, ends)
        return at

    def reset(self, at, code=0x10c):
        own = self.streams.get(at, Stream())
        if not self.closed and own.stopped is None and not own.is_reset:
            own.is_reset = True
            self.quic.reset_stream(at, code)
            self.flush()

    def stop(self, at, code=0x10c):
        if not self.closed and not self.streams[at].end:
            self.quic.stop_stream(at, code)
            self.flush()

    def ask(self, fields, body=None, ends=True):
        at = self.stream()
        self.send(at, headers(fields) + (b"" if body is None else frame(DATA, body)), ends)
        return at

    def get(self, path, limit=LIMIT, **how):
        """One request, until it is answered."""
        own = self.streams[self.ask(request(path, **how))]
        self.wait(lambda: own.end, limit)
        return own

    def room(self):
        """How many more requests the server lets us begin."""
        return (self.quic._remote_max_streams_bidi * 4 - self.next) // 4

    def is_acknowledged(self, at):
        """Whether the server has got the first octets of a stream."""
        return self.quic._streams[at].sender._buffer_start > 0

    # What comes in.

    def wait(self, probe, limit=LIMIT):
        """Takes in what comes until `probe()` holds, the connection is over or the time is; gives what the probe gave last."""
        end = time.monotonic() + limit
        while True:
            self.flush()
            self._drain()
            got, now = probe(), time.monotonic()
            if got or self.closed or now >= end:
                return got
            timer = self.quic.get_timer()
            until = end if timer is None else min(end, timer)
            self.flush()
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            if timer is not None and time.monotonic() >= timer:
                self.quic.handle_timer(time.monotonic())
                self._events()

    def over(self, limit=LIMIT):
        return bool(self.wait(lambda: self.closed, limit))

    def code(self):
        """The name of the error that the server ended it with."""
        if not self.closed:
            return ""
        number, is_transport, _ = self.closed
        if not is_transport:
            return CODES.get(number, hex(number))
        return f"CRYPTO_ERROR {number & 0xff}" if 0x100 <= number < 0x200 else TRANSPORT.get(number, hex(number))

    def how(self):
        """How it ended, in words."""
        return f"closed {self.code()} {self.closed[2]}".strip() if self.closed else "GOAWAY" if self.goaway is not None else "open"

    def _drain(self):
        while True:
            try:
                octets = self.sock.recv(65536)
            except OSError:  # nothing there, or nobody at the other end
                break
            self.quic.receive_datagram(octets, self.address, time.monotonic())
        self._events()

    def _events(self):
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, HandshakeCompleted):
                self.is_connected = True
            elif isinstance(event, ConnectionTerminated):
                self.closed = (event.error_code, event.frame_type is not None, event.reason_phrase)
            elif isinstance(event, StreamDataReceived):
                self._take(event.stream_id, event.data, event.end_stream)
            elif isinstance(event, StreamReset) and event.stream_id in self.streams:
                own = self.streams[event.stream_id]
                own.end, own.code, own.ended = own.end or "reset", event.error_code, time.monotonic()
            elif isinstance(event, StopSendingReceived) and event.stream_id in self.streams:
                self.streams[event.stream_id].stopped = event.error_code

    def _take(self, at, octets, ends):
        if at % 4 == 3:
            return self._theirs(at, octets, ends)
        own = self.streams.get(at)
        if own is None:
            return self.faults.append(f"stream {at}, which nobody opened")
        own.buf += octets
        while got := self._frame(own.buf):
            kind, payload, own.buf = got
            self._message(own, kind, payload)
        if ends and not own.end:
            own.end, own.ended = "complete", time.monotonic()
            length = own.get("content-length")
            if own.buf or not own.status:
                self.faults.append(f"stream {at} ends in a frame, or without a head")
            if own.length and length is not None and int(length) != own.length:
                self.faults.append(f"{own.length} octets of {length}")

    @staticmethod
    def _frame(buf):
        """(kind, payload, what is behind), or None."""
        kind = read_varint(buf)
        length = kind and read_varint(buf, kind[1])
        if not length or len(buf) < length[1] + length[0]:
            return None
        return kind[0], buf[length[1]:length[1] + length[0]], buf[length[1] + length[0]:]

    def _message(self, own, kind, payload):
        if kind == DATA:
            if not own.status or own.trailers is not None:
                self.faults.append("DATA outside of a body")
            own.length += len(payload)
            own.body += payload if self.keep else b""
        elif kind == HEADERS:
            self._fields(own, payload)
        elif kind in (CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID, 2, 6, 8, 9):
            self.faults.append(f"frame {kind} on a request's stream")

    def _fields(self, own, section):
        try:
            _, got = self.decoder.feed_header(0, section)
        except Exception as e:  # pylint: disable=broad-except  # the library has no class of its own for all of them
            return self.faults.append(f"undecodable fields: {e!r}")
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in got]
        if any(name != name.lower() or name in OF_ONE_HOP for name, _ in fields):
            self.faults.append(f"fields {fields}")
        if own.status:
            own.trailers = fields
            return None
        if not fields or fields[0][0] != ":status" or any(name.startswith(":") for name, _ in fields[1:]):
            return self.faults.append(f"fields {fields[:3]}")
        status = int(fields[0][1])
        if status < 200:
            own.interim.append((status, fields[1:]))
        else:
            own.status, own.fields = status, fields[1:]
        return None

    def _theirs(self, at, octets, ends):
        """The server's streams: of control, and QPACK's, which have nothing to say."""
        buf = self.theirs[at] = self.theirs.get(at, b"") + octets
        kind = read_varint(buf)
        if ends:
            self.faults.append(f"the server ends its stream {at}")
        if not kind or kind[0] != CONTROL:
            return
        rest = buf[kind[1]:]
        while got := self._frame(rest):
            what, payload, rest = got
            if self.settings is None and what != SETTINGS:
                self.faults.append("SETTINGS don't come first")
            if what == SETTINGS:
                self.settings = payload
            elif what == GOAWAY:
                self.goaway = read_varint(payload)[0]
            elif what in (DATA, HEADERS, PUSH_PROMISE, 2, 6, 8, 9):
                self.faults.append(f"frame {what} on the control stream")
        self.theirs[at] = buf[:kind[1]] + rest

    def close(self):
        if not self.closed:
            self.quic.close(0x100)
            self.flush()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
