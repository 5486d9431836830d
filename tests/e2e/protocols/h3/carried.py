# SPDX-License-Identifier: BSD-2-Clause
"""Plays the requests of tests/e2e/protocols/h2/messages.py over HTTP/3; they are judged as HTTP/2's are, at both ends."""
import malformed
from bed import h3
from malformed import ANSWER_LIMIT, Seen, at_origin


def framed(message):
    """The message in frames."""
    out = h3.headers(message.fields)
    if message.body is not None:
        step = message.pieces or len(message.body) or 1
        pieces = [message.body[n:n + step] for n in range(0, len(message.body), step)] or [b""]
        out += b"".join(h3.frame(h3.DATA, piece) for piece in pieces)
    return out + (h3.headers(message.trailers) if message.trailers is not None else b"")


def play(message, connect, witness):
    with connect() as c:
        at, beside = c.stream(), c.stream()
        c.quic.send_stream_data(at, framed(message), True)
        # The next request comes in the same datagram: nothing of it may be lost with this one.
        c.send(beside, h3.headers(h3.request("/live")), True)
        c.wait(lambda: c.streams[at].end and c.streams[beside].end, ANSWER_LIMIT)
        is_alive = not c.closed and c.goaway is None and c.streams[beside].whole() and c.get("/live", ANSWER_LIMIT).whole()
        octets = [got for got in witness.take() if not got.startswith(b"GET /live ")]
        return at_origin(Seen(c.streams[at], c, is_alive, octets))


def run(bed, words, verbose):
    return malformed.run(bed, words, verbose, play)
