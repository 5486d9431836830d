# SPDX-License-Identifier: BSD-2-Clause
"""One good exchange cut at every octet: in two pieces, it is served; ended there, no request that wasn't whole is whole at the origin."""
import select

from bed import h2, hpack
from bed.h2 import DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PREFACE, frame, headers, padded, settings, window_update
from bed.witness import More, Bad, parse_request

FIELDS = h2.request("/c", "POST", more=[("content-length", "10"), ("x-a", "b")])
PIECES = (PREFACE, settings({h2.INITIAL_WINDOW_SIZE: 70_000, 0x7a7a: 1}), window_update(0, 1000), frame(h2.PRIORITY, 0, 1, bytes(5)), frame(0x7a, 0, 0, b"x"),
          headers(1, hpack.block(FIELDS, hpack.ADDED, True), False, 60), frame(DATA, PADDED, 1, padded(b"hello", 3)), frame(h2.PING, payload=bytes(8)),
          frame(DATA, END_STREAM, 1, b"world"),
          frame(HEADERS, END_STREAM | END_HEADERS | PADDED, 3, padded(hpack.block(h2.request("/d")), 2)))
WHOLE = b"".join(PIECES)
# From here on, the first request is whole.
FIRST_ENDS = len(b"".join(PIECES[:-1]))


def whole(octets):
    """How many whole requests an origin's connection had; -1: something else."""
    count = 0
    try:
        while octets:
            one, octets = parse_request(octets)
            count += 1
            if one.path == "/c" and one.body != b"helloworld":
                return -1
    except More:
        pass
    except Bad:
        return -1
    return count


def told(c):
    return c.streams[1].end and c.streams[3].end


def in_pieces(bed, cuts):
    """What is wrong when the exchange comes in pieces that end there, or ''."""
    with h2.Connection(bed.connect(), opens=False) as c:
        c.expect(1), c.expect(3)
        for begin, end in zip((0, *cuts), (*cuts, len(WHOLE))):
            c.send(WHOLE[begin:end])
            # The server has its chance to read this piece alone; whether it took it doesn't matter.
            select.select([], [], [], 0.0005)
        c.wait(lambda: told(c) or c.goaway, bed.LIMIT)
        served = c.streams[1].whole() and c.streams[3].whole() and not c.faults
        got = sum(whole(octets) for octets in bed.witness.take())
        return "" if served and got == 2 else f"{c.streams[1]}, {c.streams[3]}, {c.how()}, {c.faults}, {got} at the origin"


def ended(bed, at, is_half):
    """What is wrong when the client ends there, or ''."""
    with h2.Connection(bed.connect(), opens=False) as c:
        c.expect(1), c.expect(3)
        c.send(WHOLE[:at])
        if is_half:
            c.sock.shutdown(1)
            c.wait(lambda: c.closed, bed.LIMIT)
            if not c.closed:
                return "the connection stays though the client has ended"
    # What is answered now was sent later: what the origin gets of the exchange, it has.
    if not bed.serves():
        return "nothing is served afterwards"
    got = [whole(octets) for octets in bed.witness.take() if not octets.startswith(b"GET /live ")]
    # What was whole may reach the origin while the next one is played: how many, then says nothing.
    is_wrong = min(got, default=0) < 0 or sum(got) > 0 and at < FIRST_ENDS
    return f"{got} whole at the origin" if is_wrong else ""


def run(bed, words, verbose):
    step = 1 if bed.is_full else 3
    plays = [("in pieces of an octet", lambda: in_pieces(bed, range(1, len(WHOLE))))]
    plays += [(f"cut at {at}", lambda at=at: in_pieces(bed, (at,))) for at in range(1, len(WHOLE), step)]
    # In the order of their lengths: a whole request may reach the origin during the next play, where it is no fault then.
    plays += [(f"{how} at {at}", lambda at=at, is_half=is_half: ended(bed, at, is_half))
              for at in range(0, len(WHOLE), step) for how, is_half in (("ended", True), ("gone", False))]
    for name, play in plays:
        if words and not any(word in name for word in words):
            continue
        wrong = play()
        bed.report.check(not wrong, f"{name} of {len(WHOLE)}: {wrong}")
