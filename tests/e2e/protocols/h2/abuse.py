# SPDX-License-Identifier: BSD-2-Clause
"""What one hostile connection can do: each kind of flood, how many frames of it were taken before the server ended it and how, what it took of
memory, which fetches were left at the origin, and how an honest client fared meanwhile. Each has a server of its own."""
import dataclasses
import itertools
import socket
import time
import typing

from bed import h2, hpack
from bed.daemon import pss
from bed.h2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PRIORITY_UPDATE, frame, headers, number, reset, settings, window_update
from bed.report import until
from honest import Honest

# A window held shut has that long; a small log is filled before the first flood, so that what it takes isn't the flood's.
ARGS = ["-p", "idle_send_timeout=2", "-p", "h2_limit_small_data=20000", "-p", "vsl_space=1M"]
LOGGED = 1500  # requests that fill it
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv { if (req.url ~ "^/hang") { return (pass); } }
"""
MOST_SHARED = 300  # fetches of objects that others may want, begun by one connection before it was ended
LIMIT = 60  # seconds; it only ends what hangs
MOST_BYTES, MOST_P99_MS = 1 << 20, 250.0
MOST_FACTOR = 5  # of the honest client's p99 without an attack, where the machine has other work: then that bounds it
A_STREAM = 10 << 10  # what a request and its fetch may take while it is being served, beside MOST_BYTES
CALM = "ENHANCE_YOUR_CALM"
HEADING = """| version | attack | units sent | ended by | memory | fetches | left | honest requests - failed, p99 |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TABLE = {"help": "a file to which the table of floods is added, in Markdown"}  # the option --table


@dataclasses.dataclass
class Attack:
    """`frames(c)` gives what is sent, a unit at a time: (octets); `count` of them at most. `codes`: GOAWAY with one of them ends it, None:
    nothing has to. `wait`: how long it may take once all is sent. `served`: how many requests are served at once. `is_shared`: what is
    fetched may be cached, and so is fetched to its end. `most_fetched`: what may get to the origin."""
    name: str
    frames: typing.Callable
    count: int
    codes: tuple = (CALM,)
    settings: dict = None
    reads: bool = True
    credits: object = True
    wait: float = 1.0
    at_once: int = 20     # units between looks at what came
    served: int = 0
    is_shared: bool = False
    most_fetched: int = None


def block(path, method="GET", more=()):
    return hpack.block(h2.request(path, method, more=more))


def with_request(path, then, method="GET", ends=True):
    """A request and what is done to it, again and again."""
    def frames(c):
        for n in itertools.count():
            at = c.stream()
            yield headers(at, block(f"{path}?{n}" if path != "/hit/1000" else path, method), ends) + then(at)
    return frames


def on_open(then, path="/hang", method="POST"):
    """One request that stays open, and then the same frames again and again."""
    def frames(c):
        at = c.stream()
        c.send(headers(at, block(path, method), False))
        while True:
            yield then(at)
    return frames


def again(octets):
    return lambda c: itertools.repeat(octets)


def continued(piece):
    def frames(c):
        at = c.stream()
        yield frame(HEADERS, END_STREAM, at, block("/hit/1000"))
        while True:
            yield frame(CONTINUATION, 0, at, piece)
    return frames


def bomb(c):
    """An entry of 4,000 octets, 4,000 times a request."""
    yield headers(c.stream(), block("/hit/1000") + hpack.literal("x-a", "b" * 4000, hpack.ADDED), True, 16384)
    while True:
        yield headers(c.stream(), block("/hit/1000") + hpack.indexed(62) * 4000, True, 16384)


def named_bomb(c):
    """A name of 4,000 octets, by reference 30,000 times a request."""
    yield headers(c.stream(), block("/hit/1000") + hpack.literal("x" * 4000, "b", hpack.ADDED), True, 16384)
    while True:
        yield headers(c.stream(), block("/hit/1000") + b"\x0f\x2f\x00" * 30_000, True, 16384)


def heads(c):
    while True:
        yield headers(c.stream(), block("/hit/1000", "HEAD"))


def held(c):
    """Answers for which there is no window."""
    while True:
        yield headers(c.stream(), block("/hit/100000"))


def dripped(c):
    """Windows of an octet: each credit lets one out."""
    asked = []
    for _ in range(50):
        asked.append(c.stream())
        yield headers(asked[-1], block("/hit/100000"))
    while True:
        for at in asked:
            yield window_update(at, 1) + window_update(0, 1)


def swung(c):
    """All streams' windows open and shut at once."""
    for _ in range(90):
        yield headers(c.stream(), block("/hang"))
    while True:
        yield settings({h2.INITIAL_WINDOW_SIZE: 0})
        yield settings({h2.INITIAL_WINDOW_SIZE: 70_000})


def too_many(c):
    """Streams beyond what the server allows; none is given up."""
    for n in itertools.count():
        yield headers(c.stream(), block(f"/hang?{n}"))


def closed_streams(then):
    def frames(c):
        at = c.ask(h2.request("/hit/1000"))
        c.wait(lambda: c.streams[at].end, 2)
        while True:
            yield then(at)
    return frames


def broken_length(at):
    return frame(DATA, END_STREAM, at, b"hello!")


def sized(path):
    def frames(c):
        for n in itertools.count():
            at = c.stream()
            yield headers(at, block(f"{path}?{n}", "POST", [("content-length", "5")]), False) + broken_length(at)
    return frames


UPPER = hpack.literal("X-A", "b")
# An error of the connection is as good an end where the frame is one.
ANY = (CALM, "PROTOCOL_ERROR", "STREAM_CLOSED", "FLOW_CONTROL_ERROR", "FRAME_SIZE_ERROR", "COMPRESSION_ERROR")
ATTACKS = [
    Attack("rapid reset, hits", with_request("/hit/1000", reset), 10_000),
    Attack("rapid reset, misses", with_request("/pass/1000", reset), 10_000, served=100),
    Attack("rapid reset, origin hangs", with_request("/hang", reset), 3_000, served=100),
    Attack("rapid reset, all in one write", with_request("/hang", reset), 90, (CALM, None), at_once=90, served=90, most_fetched=5),
    Attack("rapid reset, misses whose origin hangs", with_request("/stall", reset), 3_000, served=100, is_shared=True),
    Attack("rapid reset, uploads", with_request("/hang", reset, "POST", False), 3_000),
    Attack("MadeYouReset: window update of 0", with_request("/hang", lambda at: window_update(at, 0)), 3_000, ANY, served=100),
    Attack("MadeYouReset: window overflow", with_request("/hang", lambda at: window_update(at, h2.MOST_WINDOW)), 3_000, ANY, served=100),
    Attack("MadeYouReset: DATA behind the end", with_request("/hang", lambda at: frame(DATA, 0, at, b"x")), 3_000, ANY, served=100),
    Attack("MadeYouReset: HEADERS behind the end", with_request("/hang", lambda at: headers(at, block("/hang"))), 3_000, ANY),
    Attack("MadeYouReset: PRIORITY of 4 octets", with_request("/hang", lambda at: frame(PRIORITY, 0, at, bytes(4))), 3_000, ANY),
    Attack("MadeYouReset: priority on itself", with_request("/hang", lambda at: frame(PRIORITY, 0, at, number(at) + b"\0")), 3_000, (*ANY, None), served=100),
    Attack("MadeYouReset: length broken", sized("/hang"), 3_000, ANY),
    Attack("MadeYouReset: trailers broken", with_request("/hang", lambda at: headers(at, hpack.block([(":path", "/")])), "POST", False), 3_000, ANY),
    Attack("malformed requests", lambda c: (headers(c.stream(), block("/hit/1000") + UPPER) for _ in itertools.count()), 5_000, ANY),
    Attack("CONTINUATION, full", continued(hpack.literal("x-a", "b" * 16_300)), 20_000, ANY, at_once=4),
    Attack("CONTINUATION, an octet", continued(b"\x20"), 20_000, ANY),
    Attack("CONTINUATION, empty", continued(b""), 20_000, ANY),
    Attack("HPACK bomb", bomb, 500, ANY, at_once=1),
    Attack("HPACK bomb by a name", named_bomb, 100, ANY, at_once=1),
    Attack("heads unread", heads, 200_000, (CALM, None), reads=False, served=100, wait=0.1),
    Attack("DATA of an octet", on_open(lambda at: frame(DATA, 0, at, b"x")), 60_000, served=1),
    Attack("GOAWAY", again(frame(GOAWAY, 0, 0, bytes(8))), 20_000, (CALM, None)),
    Attack("empty DATA", on_open(lambda at: frame(DATA, 0, at)), 20_000),
    Attack("DATA that is all padding", on_open(lambda at: frame(DATA, PADDED, at, h2.padded(b"", 3))), 20_000),
    Attack("SETTINGS", again(settings({h2.MAX_FRAME_SIZE: 16384})), 20_000),
    Attack("SETTINGS that swing windows", swung, 20_000, served=100),
    Attack("SETTINGS, answers unread", again(settings({})), 200_000, settings=None, reads=False),
    Attack("PING", again(frame(PING, payload=bytes(8))), 20_000),
    Attack("PING, answers unread", again(frame(PING, payload=bytes(8))), 200_000, reads=False),
    Attack("PRIORITY", again(frame(PRIORITY, 0, 1001, bytes(5))), 20_000),
    Attack("PRIORITY_UPDATE", again(frame(PRIORITY_UPDATE, 0, 0, number(1001) + b"u=1")), 20_000),
    Attack("useless window updates, connection", again(window_update(0, 1)), 20_000),
    Attack("useless window updates, stream", on_open(lambda at: window_update(at, 1)), 20_000),
    Attack("window updates for a closed stream", closed_streams(lambda at: window_update(at, 1)), 20_000),
    Attack("resets of a closed stream", closed_streams(reset), 20_000),
    Attack("requests beyond the limit", too_many, 5_000, served=100),
    Attack("frames that nobody knows", again(frame(0x7a, 0, 0, b"x")), 20_000, (CALM, None)),
    Attack("windows shut", held, 100, ("time", CALM), {h2.INITIAL_WINDOW_SIZE: 0}, wait=8.0),
    Attack("windows of an octet", dripped, 200_000, ("time", CALM), {h2.INITIAL_WINDOW_SIZE: 1}, credits=False, wait=8.0),
]


@dataclasses.dataclass
class Row:
    sent: int
    is_over: bool
    how: str
    code: str
    took: int
    fetched: int
    left: int
    honest: tuple


def flood(c, attack, look):
    """Sends it until the server ends it; gives how many units went."""
    sent, end, units = 0, time.monotonic() + LIMIT, iter(attack.frames(c))
    while sent < attack.count and time.monotonic() < end and not c.goaway and not c.closed:
        some = list(itertools.islice(units, min(attack.at_once, attack.count - sent)))
        octets = b"".join(some)
        if c.send(octets, 1.0) < len(octets) and not c.closed:
            break  # the server takes no more: as good as an end of the flood, if it then ends
        sent += len(some)
        if attack.reads:
            # The server has a chance to answer these before the next; so that it is known after how many it ended.
            c.wait(lambda: c.goaway, 0.0005)
        look()
    return sent


def fill_log(address):
    """Cheap requests of HTTP/1, all at once."""
    request = "GET /hit/10 HTTP/1.1\r\nHost: a\r\nConnection: %s\r\n\r\n"
    with socket.create_connection(address, timeout=20) as s:
        s.sendall((request % "keep-alive" * LOGGED + request % "close").encode())
        while s.recv(1 << 16):
            pass


def row(bed, attack):
    source, peak = bed.source, [0]

    def look(every=0.05):
        now = time.monotonic()
        if now - look.last > every:
            look.last, peak[0] = now, max(peak[0], pss(bed.server.pids()))
    look.last = 0.0
    honest = Honest(bed.server.address)
    try:
        # What a first connection and first stalls cost is not the flood's.
        with h2.Connection(bed.connect()) as c:
            c.get("/hit/100000"), c.get("/pass/1000")
        fill_log(bed.server.address)
        before, fetched = pss(bed.server.pids()), source.attacked()
        c = h2.Connection(bed.connect(), attack.settings, credits=attack.credits, reads=attack.reads, keep=False)
        with c:
            c.ping(2)
            sent = flood(c, attack, look)
            c.reads = True
            # Where nothing has to end it, something may until then.
            until(attack.wait if None in attack.codes else LIMIT, lambda: c.over(0.05) or look(0.2))
            look(0.0)
            ended = c.goaway or c.closed
            if attack.codes == ("time", CALM):
                ended = ended or all(own.end for own in c.streams.values())
            how, code = c.how(), h2.error(c.goaway[1]) if c.goaway else ("closed" if c.closed else None)
            is_over = bool(ended)
            until(LIMIT if is_over else 0.5, lambda: not source.pending())
            left = source.pending()
    finally:
        said = honest.end()
    return Row(sent, is_over, how, code, peak[0] - before, source.attacked() - fetched, left, said)


def tell(bed, version, attack, row):
    """A row of the table; with --table also in that file, which is begun with the heading."""
    asked, failed, p99 = row.honest
    line = f"| {attack.name} | {row.sent} | {row.how} | {row.took / 1e6:+.2f} MB | {row.fetched} | {row.left} | {asked} - {len(failed)}, {p99:.1f} ms |"
    bed.report.note(line)
    if bed.o.table:
        with open(bed.o.table, "a") as out:
            out.write(HEADING * (not out.tell()) + f"| {version} {line}\n")


def judge(bed, attack, row):
    """The checks; `codes` with None among them: nothing has to end it."""
    asked, failed, p99 = row.honest
    check, name = bed.report.check, attack.name
    if None not in attack.codes:
        check(row.is_over, f"{name}: all of {row.sent} were taken ({row.how})")
    if row.is_over and row.code and "time" not in attack.codes and row.code != "closed":
        check(row.code in attack.codes, f"{name}: ended by {row.how}")
    check(row.took < MOST_BYTES + attack.served * A_STREAM, f"{name}: took {row.took / 1024:.0f} KB")
    if attack.most_fetched is not None:
        check(row.fetched <= attack.most_fetched, f"{name}: {row.fetched} fetches were begun")
    if attack.is_shared:
        check(row.fetched <= MOST_SHARED, f"{name}: {row.fetched} fetches were begun")
    else:
        check(row.left == 0 or not row.is_over, f"{name}: {row.left} fetches are left at the origin")
    most = max(MOST_P99_MS, MOST_FACTOR * bed.calm)
    check(asked > 20 and not failed and (p99 < most or not bed.o.clocks), f"{name}: honest requests: {asked} asked, {failed[:3]}, p99 {p99:.0f} ms, {bed.calm:.0f} before")


def calm(address, proto="h2"):
    """The honest client's p99 without an attack, in ms."""
    honest = Honest(address, proto=proto)
    until(1.0, lambda: False)
    return honest.end()[2]


def run(bed, words, verbose):
    before = calm(bed.server.address)
    bed.report.note(f"honest requests without an attack: p99 {before:.1f} ms")
    for attack in ATTACKS:
        if words and not any(word in attack.name for word in words):
            continue
        with bed.again(args=ARGS, vcl=VCL % bed.origin.address) as own:
            own.calm = before
            got = row(own, attack)
            tell(own, "HTTP/2 over TLS" if own.leaf else "HTTP/2", attack, got)
            judge(own, attack, got)
            own.report.check(own.serves() and own.is_same(), f"{attack.name}: nothing is served afterwards, or by another process")
