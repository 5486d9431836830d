# SPDX-License-Identifier: BSD-2-Clause
"""Exchanges drawn at random and spoilt: frames lost, doubled, out of order, with octets changed. Whatever comes of one, the server stays, keeps
the protocol and serves the next; and nothing ill-formed or smuggled reaches the origin."""
import random

from bed import h2, hpack
from bed.h2 import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE, PRIORITIZED, PRIORITY, PRIORITY_UPDATE, RST_STREAM, SETTINGS,
                    WINDOW_UPDATE, frame, headers, number, padded, settings, window_update)
from bed.witness import Bad, More, parse_request

COUNT, COUNT_FULL = 400, 1_000_000
A_LOOK = 40  # exchanges between looks at whether a good request is answered
ASCII = bytes(octet if octet < 128 else ord("x") for octet in range(256))
VALUES = ("", "b", "b" * 300, "\xe9", "a\tb", "5", "0", "trailers", "chunked", "u=1, i", "a=b")
NAMES = ("x-a", "cookie", "content-length", "te", "host", "expect", "priority", "range", "accept-encoding", "transfer-encoding", "X-A", "")


def fields(dice):
    some = h2.request(dice.choice(("/c", "/d?e", "/" + "p" * dice.randrange(500))), dice.choice(("GET", "POST", "HEAD", "PUT")))
    some += [(dice.choice(NAMES), dice.choice(VALUES)) for _ in range(dice.choice((0, 0, 1, 3)))]
    if dice.random() < 0.1:
        dice.shuffle(some)
    return some


def block(dice, some):
    return b"".join(hpack.literal(name, value, dice.choice((hpack.ADDED, hpack.NOT_ADDED, hpack.NEVER_ADDED)), dice.random() < 0.4) for name, value in some)


def stream(dice, at):
    """The frames of one request, and what else may come on its stream."""
    has_body = dice.random() < 0.5
    octets = block(dice, fields(dice))
    if dice.random() < 0.2:
        yield frame(HEADERS, PADDED | PRIORITIZED | END_HEADERS | (0 if has_body else END_STREAM), at, padded(number(dice.randrange(20)) + b"\x07" + octets, dice.randrange(50)))
    else:
        yield headers(at, octets, not has_body, dice.choice((0, 0, 7, 40)))
    if not has_body:
        return
    for left in reversed(range(dice.randrange(1, 4))):
        body, end = bytes(dice.randrange(200)), END_STREAM if not left else 0
        yield frame(DATA, PADDED | end, at, padded(body, dice.randrange(40))) if dice.random() < 0.3 else frame(DATA, end, at, body)


def others(dice, at):
    """A frame that belongs to no request."""
    return dice.choice((
        lambda: settings({dice.randrange(1, 10): dice.choice((0, 1, 100, 16384, 70_000, h2.MOST_WINDOW))}), lambda: frame(SETTINGS, ACK), lambda: frame(PING, dice.randrange(2), 0, bytes(8)),
        lambda: window_update(dice.choice((0, at)), dice.choice((0, 1, 1000, h2.MOST_WINDOW))), lambda: frame(PRIORITY, 0, at, number(dice.randrange(9)) + b"\1"),
        lambda: frame(PRIORITY_UPDATE, 0, 0, number(at) + b"u=2"), lambda: frame(RST_STREAM, 0, at, number(dice.randrange(14))),
        lambda: frame(GOAWAY, 0, 0, bytes(8)), lambda: frame(dice.randrange(256), dice.randrange(256), dice.choice((0, at)), bytes(dice.randrange(20))),
        lambda: frame(WINDOW_UPDATE, 0, at, bytes(dice.randrange(6)))))()


def exchange(dice):
    """The octets of a connection: good requests, side by side, and then spoilt."""
    streams = [list(stream(dice, at)) for at in range(1, 2 * dice.randrange(1, 6), 2)]
    frames = []
    while any(streams):
        some = dice.choice([one for one in streams if one])
        frames.append(some.pop(0))
        if dice.random() < 0.2:
            frames.append(others(dice, dice.randrange(1, 12)))
    for _ in range(dice.choice((0, 1, 1, 2))):
        at = dice.randrange(len(frames))
        dice.choice((lambda: frames.pop(at) if len(frames) > 1 else None, lambda: frames.insert(at, frames[at]),
                     lambda: frames.insert(dice.randrange(len(frames)), frames.pop(at))))()
    octets = bytearray(PREFACE + settings() + b"".join(frames))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        at = dice.randrange(len(PREFACE), len(octets))
        octets[at] = dice.choice((0, 0xff, octets[at] ^ 1 << dice.randrange(8), dice.randrange(256)))
    return bytes(octets[:dice.randrange(30, len(octets))] if dice.random() < 0.1 else octets)


def send(bed, octets):
    """What the server did that it mustn't, or ''."""
    with h2.Connection(bed.connect(), opens=False, keep=False) as c:
        for at in range(1, 4096, 2):
            c.streams[at] = h2.Stream()  # what a spoilt number opened isn't known here
        c.send(octets)
        c.ping(0.05)
        # Windows and settings were made by hand: what the client thinks of them says nothing.
        return [fault for fault in c.faults if "window" not in fault and "a frame of" not in fault and "nobody opened" not in fault]


def ill(octets):
    """What an origin's connection had that it mustn't, or ''. A target with octets beyond ASCII goes on as it is, as it does in HTTP/1."""
    octets = octets.translate(ASCII)
    try:
        while octets:
            one, octets = parse_request(octets)
            if len(one.all("host")) != 1 or one.path == "/smuggled":
                return f"{one.method} {one.path} {one.fields}"
    except More:
        pass
    except Bad as e:
        return str(e)
    return ""


def run(bed, words, verbose):
    count = 0
    while count < (COUNT_FULL if bed.is_full else COUNT):
        batch = []
        for _ in range(A_LOOK):
            seed = f"{bed.o.seed} {count}"
            count += 1
            octets = exchange(random.Random(seed))
            batch.append(octets)
            faults = send(bed, octets)
            if faults and not bed.report.check(False, f"exchange {seed!r}: the server broke the protocol: {faults[:3]}: {octets.hex()}"):
                break
        serves = bed.serves() and bed.is_same()
        bad = list(filter(None, map(ill, bed.witness.take())))
        if not bed.report.check(serves and not bad, f"exchanges to {bed.o.seed} {count}: {'' if serves else 'nothing is served, or by another process; '}{bad[:3]}"):
            break
    bed.report.note(f"{count} exchanges")
