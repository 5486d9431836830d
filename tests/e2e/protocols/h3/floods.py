# SPDX-License-Identifier: BSD-2-Clause
"""What one hostile client can do over HTTP/3: each kind of flood, how many units of it were taken before the server ended it and how, what it took of
memory, which fetches were left at the origin, and how an honest client fared meanwhile. Each has a server of its own. As tests/e2e/protocols/h2/abuse.py."""
import dataclasses
import itertools
import os
import random
import socket
import time
import typing

import abuse
from aioquic.quic.connection import QuicConnection
from bed import h3
from bed.daemon import pss
from bed.h3 import CONTROL, DATA, DECODER, ENCODER, GOAWAY, MAX_PUSH_ID, OTHER, PRIORITY_UPDATE, UNKNOWN, frame, headers, settings, varint
from bed.report import until
from honest import Honest

# As tests/e2e/protocols/h2/abuse.py: windows held shut and heads without end have that long.
ARGS = ["-p", "idle_send_timeout=2", "-p", "timeout_head=2", "-p", "vsl_space=1M"]
SECONDS, AFTERWARDS = 8.0, 4.0
LOAD = "H3_EXCESSIVE_LOAD"


@dataclasses.dataclass
class Attack(abuse.Attack):
    """`frames(c)` sends a unit at each step. `opens`: the connection has its streams; `config`: what QUIC is told of us. `is_bare`: `frames(bed)` needs no
    connection."""
    opens: bool = True
    config: dict = dataclasses.field(default_factory=dict)
    is_bare: bool = False


def path_of(path, n):
    return path if path.startswith("/hit/") else f"{path}?{n}"


def asked(c, path, octets=None, ends=True, method="GET", more=()):
    """The next request, once the server lets us begin one; its stream."""
    c.wait(lambda: c.room() > 0, 2.0)
    at = c.stream()
    c.send(at, headers(h3.request(path, method, more)) if octets is None else octets, ends)
    return at


def with_request(path, then, **how):
    def frames(c):
        for n in itertools.count():
            then(c, asked(c, path_of(path, n), **how))
            yield
    return frames


def on_open(octets, path="/hang"):
    """One request that stays open, and then the same again and again."""
    def frames(c):
        at = asked(c, path, None, False, "POST")
        yield
        while True:
            c.send(at, octets)
            yield
    return frames


def on_stream(kind, octets):
    """A stream in one direction that says the same again and again; `octets(n)` or octets."""
    def frames(c):
        at = c.open(kind, settings() if kind == CONTROL else b"")
        for n in itertools.count():
            c.send(at, octets(n) if callable(octets) else octets)
            yield
    return frames


def all_at_once(c):
    streams = [asked(c, f"/hang?{n}") for n in range(90)]
    for at in streams:
        # They are whole: what gives them up is that nobody wants the answer.
        c.stop(at)
    for _ in streams:
        yield


def unfinished(c):
    """Heads of which an octet is missing, as long as a head may be."""
    section = b"\0\0" + h3.literal("x-a", "b" * 7000) * 4
    while c.room() > 0:
        at = c.stream()
        c.send(at, varint(h3.HEADERS) + varint(len(section) + 1) + section)
        yield


def held(c):
    """Answers for which there is no window."""
    while c.room() > 0:
        asked(c, "/hit/100000")
        yield


def uni(octets, ends):
    def frames(c):
        while True:
            c.open(OTHER if octets else None, octets, ends)
            yield
    return frames


def moved(c):
    while True:
        c.move()
        c.quic.send_ping(1)
        c.flush()
        yield


def renamed(c):
    """A new connection id each time."""
    while True:
        c.quic.change_connection_id()
        c.quic.send_ping(1)
        c.flush()
        yield


def pings(c):
    for n in itertools.count():
        c.quic.send_ping(n)
        c.flush()
        yield


def initial(server):
    """The first datagrams of a client."""
    quic = QuicConnection(configuration=h3.configuration())
    quic.connect(server, time.monotonic())
    return [octets for octets, _ in quic.datagrams_to_send(time.monotonic())]


def from_new_ports(octets_of):
    """Each unit from a port of its own, which nobody listens at any more."""
    def frames(bed):
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                for octets in octets_of(bed.server.quic):
                    s.sendto(octets, bed.server.quic)
            yield
    return frames


def repeated(server):
    repeated.octets = repeated.octets or initial(server)
    return repeated.octets


repeated.octets = None


def forged(server):
    """An Initial packet of which octets behind its header were changed, and a short packet of nobody's."""
    dice = random.Random(os.urandom(8))
    octets = bytearray(repeated(server)[0])
    for _ in range(4):
        octets[dice.randrange(40, len(octets))] ^= dice.randrange(1, 256)
    return [bytes(octets), b"\x40" + dice.randbytes(60), b"\xc0" + dice.randbytes(1199)]


UPPER = frame(h3.HEADERS, h3.block([*h3.request("/hit/1000"), ("X-A", "b")]))
BOMB = frame(h3.HEADERS, h3.block(h3.request("/hit/1000")) + h3.indexed(85) * 20_000)
ATTACKS = [
    Attack("rapid reset, hits", with_request("/hit/1000", lambda c, at: c.reset(at)), 3_000, (LOAD,)),
    Attack("rapid reset, misses", with_request("/pass/1000", lambda c, at: c.reset(at)), 3_000, (LOAD,), served=100),
    Attack("rapid reset, origin hangs", with_request("/hang", lambda c, at: c.reset(at), ends=False), 2_000, (LOAD,), served=100),
    Attack("rapid reset, all at once", all_at_once, 90, (LOAD, None), at_once=90, served=90),
    Attack("answers stopped, origin hangs", with_request("/hang", lambda c, at: c.stop(at)), 2_000, (LOAD,), served=100),
    Attack("answers stopped and requests taken back", with_request("/hang", lambda c, at: (c.stop(at), c.reset(at)), ends=False), 2_000, (LOAD,), served=100),
    Attack("heads taken back", with_request("/", lambda c, at: c.reset(at), octets=b"\x01\x40", ends=False), 2_000, (LOAD,)),
    # Their bytes, too: those that may be held, and those that came before they were refused.
    Attack("heads without end", unfinished, 100, ("time", LOAD), served=200, wait=6.0),
    Attack("streams without a head", with_request("/", lambda c, at: None, octets=b""), 2_000, (LOAD,)),
    Attack("malformed requests", with_request("/", lambda c, at: None, octets=UPPER), 2_000, (LOAD,)),
    Attack("length broken", with_request("/hang", lambda c, at: None, octets=headers(h3.request("/hang", "POST", [("content-length", "5")])) + frame(DATA, b"hello!")), 2_000, (LOAD,)),
    Attack("a section that expands to much", with_request("/", lambda c, at: None, octets=BOMB), 500, (LOAD,), at_once=1),
    Attack("empty DATA", on_open(frame(DATA)), 20_000, (LOAD,)),
    Attack("DATA of an octet", on_open(frame(DATA, b"x")), 20_000, (LOAD, None), served=1),
    Attack("unknown frames in a request", on_open(frame(UNKNOWN, b"x")), 20_000, (LOAD,)),
    Attack("unknown frames on the control stream", on_stream(CONTROL, frame(UNKNOWN, b"x")), 30_000, (LOAD,), opens=False),
    Attack("PRIORITY_UPDATE", on_stream(CONTROL, lambda n: frame(PRIORITY_UPDATE, varint(n * 4) + b"u=1")), 30_000, (LOAD,), opens=False),
    Attack("MAX_PUSH_ID", on_stream(CONTROL, lambda n: frame(MAX_PUSH_ID, varint(n))), 30_000, (LOAD,), opens=False),
    Attack("GOAWAY", on_stream(CONTROL, frame(GOAWAY, varint(0))), 30_000, (LOAD,), opens=False),
    Attack("tables of no octets", on_stream(ENCODER, b"\x20" * 100), 10_000, (LOAD, "QPACK_ENCODER_STREAM_ERROR"), opens=False),
    Attack("streams given up that never were", on_stream(DECODER, b"\x7f\x01" * 100), 10_000, (LOAD, "QPACK_DECODER_STREAM_ERROR"), opens=False),
    Attack("streams of an unknown kind", uni(b"x", True), 10_000, (LOAD, "H3_NO_ERROR", None)),
    Attack("streams that never say their kind", uni(b"", False), 1_000, (LOAD, None)),
    Attack("PING", pings, 10_000, (LOAD, None)),
    Attack("moves", moved, 1_000, (LOAD, None)),
    Attack("connection ids", renamed, 2_000, (LOAD, None), at_once=2),
    Attack("windows shut", held, 100, ("time", LOAD), config={"max_stream_data": 100}, wait=8.0, served=100),
    Attack("the connection's window shut", held, 100, ("time", LOAD), config={"max_data": 2000}, wait=8.0, served=100),
    Attack("one hello again and again", from_new_ports(repeated), 5_000, (None,), is_bare=True, served=60),
    Attack("forged packets", from_new_ports(forged), 5_000, (None,), is_bare=True, served=60),
]


def flood(units, attack, look, wait, is_over):
    """Sends it until the server ends it; gives how many units went."""
    sent, end = 0, time.monotonic() + SECONDS
    while sent < attack.count and time.monotonic() < end and not is_over():
        some = min(attack.at_once, attack.count - sent)
        got = sum(1 for _ in itertools.islice(units, some))
        sent += got
        wait()
        look()
        if got < some:
            break
    return sent


def row(bed, attack):
    source, peak = bed.source, [0]

    def look(every=0.1):
        now = time.monotonic()
        if now - look.last > every:
            look.last, peak[0] = now, max(peak[0], pss(bed.server.pids()))
    look.last = 0.0
    honest = Honest(bed.server.quic, proto="h3")
    c = None
    try:
        # What a first connection costs is not the flood's.
        with bed.connect() as first:
            first.get("/hit/100000"), first.get("/pass/1000")
        abuse.fill_log(bed.server.addresses["clear"])
        before, fetched = pss(bed.server.pids()), source.attacked()
        if attack.is_bare:
            sent = flood(attack.frames(bed), attack, look, lambda: time.sleep(0), lambda: False)
            is_over, how, code = False, "-", None
        else:
            c = bed.connect(opens=attack.opens, keep=False, **attack.config)
            sent = flood(attack.frames(c), attack, look, lambda: c.wait(lambda: c.closed, 0.0005), lambda: c.closed)
            until(attack.wait, lambda: c.over(0.05) or look(0.2))
            is_over = bool(c.closed) or "time" in attack.codes and all(own.end for own in c.streams.values())
            how, code = c.how(), c.code() or None
        look(0.0)
        until(AFTERWARDS if is_over else 0.5, lambda: not source.pending())
        left = source.pending()
    finally:
        said = honest.end()
        if c:
            c.close()
    return abuse.Row(sent, is_over, how, code, peak[0] - before, source.attacked() - fetched, left, said)


def run(bed, words, verbose):
    before = abuse.calm(bed.server.quic, "h3")
    bed.report.note(f"honest requests without an attack: p99 {before:.1f} ms")
    for attack in ATTACKS:
        if words and not any(word in attack.name for word in words):
            continue
        repeated.octets = None
        with bed.again(args=ARGS) as own:
            own.calm = before
            got = row(own, attack)
            abuse.tell(own, "HTTP/3", attack, got)
            abuse.judge(own, attack, got)
            own.report.check(own.serves() and own.is_same(), f"{attack.name}: nothing is served afterwards, or by another process")
