# SPDX-License-Identifier: BSD-2-Clause
"""Exchanges drawn at random and spoilt, over streams of each kind: nothing ill-formed reaches the origin, the server keeps the protocol and goes on."""
import itertools
import random
import time

from bed import h3
from bed.h3 import CONTROL, DATA, DECODER, ENCODER, OTHER, frame, headers, settings, varint
from bed.witness import Bad, More, parse_request
from messages import MESSAGES

REDUCED = 120  # connections
SECONDS_FULL = 1800


def a_frame(r):
    kind = r.choice((0, 0, 0, 1, 1, 3, 4, 5, 7, 0xd, 0xf0700, 0xf0701, 0x21, 2, r.randrange(1 << 20)))
    payload = r.choice((b"", b"\0", varint(r.randrange(1 << 20)), r.randbytes(r.randrange(300)), h3.block(r.choice(MESSAGES).fields)[:4000]))
    return frame(kind, payload, r.choice((None,) * 9 + (r.randrange(1 << 14),)))


def spoilt(r, octets):
    """Octets changed, put in, left out; mostly none."""
    out = bytearray(octets[:20_000])
    for _ in range(r.choice((0, 0, 0, 1, 3))):
        at = r.randrange(len(out) + 1)
        out[at:at + r.randrange(3)] = r.randbytes(r.randrange(3))
    return bytes(out)


def a_request(r):
    message = r.choice(MESSAGES)
    out = headers(message.fields)
    for _ in range(r.choice((0, 0, 1, 2, 5))):
        out += a_frame(r) if r.random() < 0.3 else frame(DATA, r.randbytes(r.randrange(2000)))
    return spoilt(r, out + (headers(message.trailers) if message.trailers is not None else b""))


def a_stream(r, c):
    """One of any kind, in pieces that are drawn; it ends, is taken back, is stopped, or stays."""
    if r.random() < 0.75:
        at, octets = c.stream(), a_request(r)
    else:
        kind = r.choice((None, CONTROL, CONTROL, 1, ENCODER, DECODER, OTHER))
        at = c.open(kind)
        octets = spoilt(r, settings({6: 1000}) + a_frame(r)) if kind == CONTROL else r.choice((b"", b"\x20", b"\x40", r.randbytes(20)))
    while octets and not c.closed:
        size = r.choice((1, 7, 100, 2000))
        c.send(at, octets[:size])
        octets = octets[size:]
        if r.random() < 0.05:
            c.wait(lambda: False, 0.0003)
    how = r.random()
    if how < 0.7:
        c.send(at, b"", True)
    elif how < 0.85 and at in c.streams:
        c.reset(at, r.choice((0x10c, 0x100, 5)))
    elif how < 0.95 and at in c.streams:
        c.stop(at)


def play(bed, seed):
    """What is wrong, or ''."""
    r = random.Random(seed)
    with bed.connect(opens=r.random() < 0.8) as c:
        for _ in range(r.randrange(1, 8)):
            if not c.closed and c.room() > 0:
                a_stream(r, c)
        c.wait(lambda: all(own.end for own in c.streams.values()), 0.03)
        if c.faults:
            return f"the server broke the protocol: {c.faults[:3]}"
        if c.code() in ("H3_INTERNAL_ERROR", "INTERNAL_ERROR"):
            return c.how()
    return ""


def at_origin(bed):
    """What of all that the origin got is ill-formed, or ''."""
    for octets in bed.witness.take():
        try:
            while octets:
                one, octets = parse_request(octets)
                if one.path == "/smuggled" or one.all("x-smug") or len(one.all("host")) != 1:
                    return f"smuggled: {one}"[:300]
        except More:
            pass
        except Bad as e:
            return f"ill-formed at the origin: {e}"
    return ""


def run(bed, words, verbose):
    first, end = bed.o.seed * 1_000_003, time.monotonic() + SECONDS_FULL
    for n in itertools.takewhile(lambda n: time.monotonic() < end if bed.is_full else n < REDUCED, itertools.count()):
        wrong = play(bed, first + n)
        if not wrong and n % 20 == 19:
            wrong = at_origin(bed) or ("" if bed.serves() else "nothing is served afterwards")
        bed.report.check(not wrong, f"exchange {first + n}: {wrong}")
