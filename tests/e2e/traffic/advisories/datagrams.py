# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3 and QUIC: packets that are cut, parameters and frames that are none, streams opened twice."""
import os
import socket

from aioquic.quic.packet import QuicFrameType

from bed import h3
from bed.daemon import pss
from bed.h3 import CONTROL, ENCODER, frame, varint
from requests import origin  # pylint: disable=unused-import  # for the runner

LIMIT = 60  # seconds; it only ends what hangs
MOST = 48 << 20  # octets that one client may make the program hold
ACK, CRYPTO, RETIRE, NEW_TOKEN, HANDSHAKE_DONE = 0x02, 0x06, 0x19, 0x07, 0x1e


def goes_on(bed, name):
    c = h3.Connection(bed.quic)
    bed.check(name, c.get("/own").whole(), f"an honest client: {c.how()}")


def initial(token=b"", length=None, rest=1200, names=8):
    """A packet that looks like a client's first one (RFC 9000 17.2.2), with nothing in it that decrypts."""
    head = b"\xc3\0\0\0\1" + bytes([names]) + os.urandom(names) + bytes([names]) + os.urandom(names)
    return head + (varint(len(token)) if length is None else length) + token + varint(rest, 2) + os.urandom(rest)


def thrown(*makers, times=200):
    """Datagrams that are no packets."""
    def act(bed, name):
        before = pss(bed.server.pids())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(bed.quic)
            for _ in range(times):
                for make in makers:
                    try:
                        s.send(make())
                    except ConnectionError:
                        pass  # the answer to an earlier one
        goes_on(bed, name)
        held = pss(bed.server.pids()) - before
        bed.check(name, held < MOST, f"{held >> 20} MB held")
    return act


def parameters(octets):
    """A handshake whose transport parameters are these octets fails, and is one connection's matter."""
    def act(bed, name):
        import aioquic.quic.connection as module
        true = module.push_quic_transport_parameters
        module.push_quic_transport_parameters = lambda buf, _: buf.push_bytes(octets)
        try:
            h3.Connection(bed.quic)
            bed.check(name, False, "a connection came about")
        except ConnectionError as e:
            bed.check(name, "closed" in str(e), str(e))
        finally:
            module.push_quic_transport_parameters = true
        goes_on(bed, name)
    return act


def sends(octets, *codes):
    """A frame, as octets, in a packet that is protected as it should be; the code with which the connection ends."""
    def act(bed, name):
        c = h3.Connection(bed.quic)
        bed.check(name, c.get("/own").whole(), c.how())
        c.quic._write_ping_frame = lambda builder, *_, **__: builder.start_frame(QuicFrameType.PING, capacity=len(octets) + 1).push_bytes(octets)
        c.quic.send_ping(1)
        bed.check(name, c.over(), c.how())
        bed.check(name, c.code() in codes, f"{c.how()} instead of {codes}")
        goes_on(bed, name)
    return act


def opens(kind, octets, *codes):
    def act(bed, name):
        c = h3.Connection(bed.quic)
        c.open(kind, octets)
        bed.check(name, c.over(), c.how())
        bed.check(name, c.code() in codes, f"{c.how()} instead of {codes}")
        goes_on(bed, name)
    return act


def asks(octets, *ends):
    """A request's stream that holds these octets: reset, or the whole connection ends, with one of these codes; or a response of 400 or 431."""
    def act(bed, name):
        c = h3.Connection(bed.quic)
        at = c.stream()
        c.send(at, octets, True)
        own = c.streams[at]
        c.wait(lambda: own.end or c.closed or own.stopped is not None)
        got = c.code() or h3.CODES.get(own.code, h3.CODES.get(own.stopped, own.status))
        bed.check(name, got in ends, f"{got} instead of {ends}")
        goes_on(bed, name)
    return act


PINGS = b"\1" * 40  # so many that the packet isn't padded
ROWS = {
    "CVE-2026-26081 a token longer than its packet": thrown(lambda: initial(length=varint(1 << 40, 8)), lambda: initial(length=b"\xff"), lambda: initial(length=varint(1300))),
    "CVE-2026-26081 packets that are cut": thrown(*[lambda size=size: initial()[:size] for size in (1, 5, 6, 7, 14, 15, 23, 24, 25, 26, 40)]),
    "CVE-2026-26081 names of connections of odd lengths": thrown(*[lambda names=names: initial(names=names) for names in (0, 1, 20)]),
    "CVE-2026-26081 names that are too long": thrown(*[lambda names=names: initial(names=names, rest=500) for names in (21, 160, 255)]),
    "CVE-2025-54939 many packets in a datagram": thrown(lambda: b"".join(initial(rest=20) for _ in range(25)), times=4000),
    "RUSTSEC-2026-0037 parameters that are cut": parameters(b"\x01\x08\x00"),
    "RUSTSEC-2026-0037 a parameter longer than all": parameters(varint(1) + varint(1 << 60) + b"x"),
    "RUSTSEC-2026-0037 a parameter twice": parameters((varint(4) + varint(1) + varint(10)) * 2),
    "RUSTSEC-2026-0037 a limit beyond any": parameters(varint(8) + varint(8) + varint((1 << 62) - 1, 8)),
    "CVE-2026-26080 a kind of frame that is cut": sends(PINGS + b"\xc0", "FRAME_ENCODING_ERROR", "PROTOCOL_VIOLATION"),
    "CVE-2025-4821 an acknowledgement of what wasn't sent": sends(PINGS + varint(ACK) + varint(1 << 20) + b"\0\0\0", "PROTOCOL_VIOLATION"),
    "CVE-2025-4821 ranges below 0": sends(PINGS + varint(ACK) + varint(3) + b"\0" + varint(1) + varint(1) + varint(5) + varint(5), "FRAME_ENCODING_ERROR", "PROTOCOL_VIOLATION"),
    "CVE-2024-1410 CVE-2025-7054 a name that was never given": sends(PINGS + varint(RETIRE) + varint(1000), "PROTOCOL_VIOLATION"),
    "CVE-2024-1765 handshake data far ahead": sends(PINGS + varint(CRYPTO) + varint(1 << 40, 8) + varint(1) + b"x", "INTERNAL_ERROR", "PROTOCOL_VIOLATION", "0xd",
                                                   "CRYPTO_BUFFER_EXCEEDED"),
    "a token from the client": sends(PINGS + varint(NEW_TOKEN) + varint(1) + b"x", "PROTOCOL_VIOLATION"),
    "the end of the handshake from the client": sends(PINGS + varint(HANDSHAKE_DONE), "PROTOCOL_VIOLATION"),
    "CVE-2026-42530 the encoder's stream twice": opens(ENCODER, b"", "H3_STREAM_CREATION_ERROR"),
    "CVE-2026-42530 the control stream twice": opens(CONTROL, b"", "H3_STREAM_CREATION_ERROR"),
    "CVE-2024-32760 an entry without a table": asks(frame(h3.HEADERS, b"\0\0\x80"), "QPACK_DECOMPRESSION_FAILED"),
    "CVE-2024-32760 a base below 0": asks(frame(h3.HEADERS, b"\1\xff\0"), "QPACK_DECOMPRESSION_FAILED"),
    "CVE-2024-34161 a head that is cut": asks(frame(h3.HEADERS, h3.block(h3.request("/own"))[:-3]), "QPACK_DECOMPRESSION_FAILED"),
    "CVE-2024-24990 an empty head": asks(frame(h3.HEADERS, b""), "QPACK_DECOMPRESSION_FAILED", "H3_MESSAGE_ERROR"),
    "CVE-2024-31079 nothing at all": asks(b"", "H3_REQUEST_INCOMPLETE", "H3_MESSAGE_ERROR"),
    "CVE-2024-35200 a body first": asks(frame(h3.DATA, b"x"), "H3_FRAME_UNEXPECTED"),
}
