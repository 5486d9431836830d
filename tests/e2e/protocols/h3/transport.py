# SPDX-License-Identifier: BSD-2-Clause
"""Frames, parameters and handshakes of QUIC that a client mustn't send: each with the error that is due (RFC 9000 and 9001). These are the requirements
that h3spec (github.com/kazu-yamamoto/h3spec, commit a0fb355) asks of QUIC; those that it asks of HTTP/3 and QPACK are in odd.py and among `malformed`.

Left out, since aioquic can't write them: reserved bits of packets, packets without a frame, frames in packets of the handshake and of 0-RTT.
"""
from aioquic.buffer import Buffer
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicTransportParameters, pull_quic_transport_parameters, push_quic_transport_parameters

from bed.h3 import varint

PARAMETER, STATE, ENCODING, VIOLATION = "TRANSPORT_PARAMETER_ERROR", "STREAM_STATE_ERROR", "FRAME_ENCODING_ERROR", "PROTOCOL_VIOLATION"
TOO_MANY = (1 << 60) + 1
# Alerts of TLS (RFC 8446 6).
UNEXPECTED_MESSAGE, MISSING_EXTENSION, NO_PROTOCOL = ("CRYPTO_ERROR %d" % alert for alert in (10, 109, 120))
KEY_UPDATE, END_OF_EARLY_DATA = b"\x18\0\0\1\0", b"\x05\0\0\0"


def numbers(*all_of_them):
    return b"".join(map(varint, all_of_them))


# Stream 0 is the client's in both directions, 1 the server's, 2 the client's in one direction, 3 the server's.
FRAMES = {
    "STREAM at an offset beyond the window": (0x0e, numbers(0, 1 << 40, 1) + b"x", ("FLOW_CONTROL_ERROR",)),
    "STREAM of a number beyond the limit": (0x0a, numbers(4 << 20, 1) + b"x", ("STREAM_LIMIT_ERROR",)),
    "STREAM of a stream that the server hasn't opened": (0x0a, numbers(1, 1) + b"x", (STATE,)),
    "STREAM of one in the server's direction": (0x0a, numbers(3, 1) + b"x", (STATE,)),
    "a frame of an unknown type": (0x3f, b"", (ENCODING,)),
    "RESET_STREAM of one in the server's direction": (0x04, numbers(3, 0, 0), (STATE,)),
    "STOP_SENDING of a stream that isn't there": (0x05, numbers(1, 0), (STATE,)),
    "NEW_TOKEN": (0x07, numbers(1) + b"x", (VIOLATION,)),
    "HANDSHAKE_DONE": (0x1e, b"", (VIOLATION,)),
    "MAX_STREAM_DATA of a stream that isn't there": (0x11, numbers(1, 9), (STATE,)),
    "MAX_STREAM_DATA of one in the client's direction": (0x11, numbers(2, 9), (STATE,)),
    "MAX_STREAMS beyond 2^60": (0x12, numbers(TOO_MANY), (ENCODING,)),
    "STREAMS_BLOCKED beyond 2^60": (0x16, numbers(TOO_MANY), (ENCODING, "STREAM_LIMIT_ERROR")),
    "NEW_CONNECTION_ID that retires itself": (0x18, numbers(7, 8) + b"\x08" + bytes(8 + 16), (ENCODING,)),
    "NEW_CONNECTION_ID without octets": (0x18, numbers(7, 0) + b"\0" + bytes(16), (ENCODING,)),
    "KeyUpdate of TLS": (0x06, numbers(0, len(KEY_UPDATE)) + KEY_UPDATE, (UNEXPECTED_MESSAGE,)),
    "EndOfEarlyData of TLS": (0x06, numbers(0, len(END_OF_EARLY_DATA)) + END_OF_EARLY_DATA, (UNEXPECTED_MESSAGE,)),
}
# The parameter that the client sends, or leaves out (None).
PARAMETERS = {
    "initial_source_connection_id": None,
    "original_destination_connection_id": b"12345678",
    "preferred_address": b"\x7f\0\0\1\x01\xbb" + bytes(18) + b"\x08" + b"12345678" + bytes(16),
    "retry_source_connection_id": b"12345678",
    "stateless_reset_token": bytes(16),
    "max_udp_payload_size": 1199,
    "ack_delay_exponent": 21,
    "max_ack_delay": 1 << 14,
}
# Parameters that a client mustn't send are written by their numbers (RFC 9000 18.2).
BY_NUMBER = {"original_destination_connection_id": 0, "stateless_reset_token": 2, "preferred_address": 0xd, "retry_source_connection_id": 0x10}


def saying(kind, payload):
    """A connection whose pings are this frame."""
    class Saying(QuicConnection):
        def _write_ping_frame(self, builder, uids=(), comment=""):
            builder.start_frame(kind, capacity=8 + len(payload)).push_bytes(payload)
    return Saying


def announcing(name, value):
    """A connection with this parameter."""
    class Announcing(QuicConnection):
        def _serialize_transport_parameters(self):
            octets = super()._serialize_transport_parameters()
            if name in BY_NUMBER:
                return octets + varint(BY_NUMBER[name]) + varint(len(value)) + value
            made = pull_quic_transport_parameters(Buffer(data=octets))
            assert isinstance(made, QuicTransportParameters)
            setattr(made, name, value)
            out = Buffer(capacity=4096)
            push_quic_transport_parameters(out, made)
            return out.data
    return Announcing


class Silent(QuicConnection):
    """A connection whose hello has no parameters of QUIC."""

    def _initialize(self, peer_cid):
        super()._initialize(peer_cid)
        self.tls.handshake_extensions = []


def ended(bed, say=False, **how):
    """The code of the error by which the server ends it, in the handshake or when the client pings."""
    try:
        with bed.connect(opens=say, **how) as c:
            if say:
                c.quic.send_ping(1)
            c.over(bed.LIMIT)
            return c.code() or "goes on"
    except ConnectionError as error:
        return str(error).removeprefix("no handshake: closed ")


def run(bed, words, _verbose):
    cases = [(name, due, {"say": True, "made": saying(kind, payload)}) for name, (kind, payload, due) in FRAMES.items()]
    cases += [(name, (PARAMETER,), {"made": announcing(name, value)}) for name, value in PARAMETERS.items()]
    cases += [("a hello without QUIC's parameters", (MISSING_EXTENSION,), {"made": Silent}),
              ("a hello without a protocol of ours", (NO_PROTOCOL,), {"alpn_protocols": ["h9"]})]
    for name, due, how in cases:
        if words and not any(word in name for word in words):
            continue
        got = ended(bed, **how)
        bed.report.check(got.startswith(due) and bed.serves(), f"{name}: {got} instead of {' or '.join(due)}")
