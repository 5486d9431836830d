# SPDX-License-Identifier: BSD-2-Clause
"""Frames, streams, settings and field sections that nobody should send: each with the scope of the error that is due (RFC 9114 6.2, 7.1, 7.2, RFC 9204
2.2, 4.3, 4.4) and the code that names it; and such as are unusual and fine."""
import dataclasses
import typing

from bed import h3, hpack
from bed.h3 import (CANCEL_PUSH, CONTROL, DATA, DECODER, ENCODER, GOAWAY, HEADERS, MAX_PUSH_ID, OTHER, PRIORITY_UPDATE, PUSH, PUSH_PRIORITY_UPDATE,
                    PUSH_PROMISE, SETTINGS, UNKNOWN, frame, headers, settings, varint)

CONNECTION, STREAM, SERVED = "connection", "stream", "served"
GET, POST = headers(h3.request("/c")), headers(h3.request("/c", "POST"))
OF_HTTP2 = (0x2, 0x6, 0x8, 0x9)
UNEXPECTED, FRAME, ID, SETTING = "H3_FRAME_UNEXPECTED", "H3_FRAME_ERROR", "H3_ID_ERROR", "H3_SETTINGS_ERROR"
CREATION, CRITICAL, MESSAGE = "H3_STREAM_CREATION_ERROR", "H3_CLOSED_CRITICAL_STREAM", "H3_MESSAGE_ERROR"


@dataclasses.dataclass
class Case:
    """`act(c)` sends it on a connection that has its streams (`opens`). `scope`: CONNECTION: closed with the code; STREAM: the first request's stream is
    reset with it, and the request beside it is served; SERVED: all requests are answered."""
    id: str
    scope: str
    code: str
    act: typing.Callable
    opens: bool = True


def on_control(octets, ends=False):
    """The control stream, which begins with SETTINGS."""
    return lambda c: c.open(CONTROL, octets, ends)


def on_request(octets, ends=True):
    return lambda c: c.send(c.stream(), octets, ends)


def then_get(act):
    def both(c):
        act(c)
        c.ask(h3.request("/c"))
    return both


def after_get(act):
    """A request first: what of it is served shows that the rest was read."""
    def both(c):
        c.get("/c")
        act(c)
    return both


def taken_back(kind):
    def act(c):
        at = c.open(kind, settings() if kind == CONTROL else b"")
        # A reset takes back what wasn't read, and then nobody knows what kind of stream it was. A request that is answered after the
        # first octets were acknowledged shows that the server has come so far.
        c.wait(lambda: c.is_acknowledged(at), h3.LIMIT)
        for _ in range(2):
            c.get("/c")
        c.reset(at)
    return act


def slowly(kind, octets):
    def act(c):
        at = c.open(None)
        for octet in varint(kind) + octets:
            c.send(at, bytes([octet]))
            c.wait(lambda: False, 0.0005)
    return act


def control():
    """What is said on the control stream."""
    def one(name, code, octets):
        return Case(f"control: {name}", CONNECTION, code, on_control(octets), False)

    def fine(name, octets):
        return Case(f"control: {name}", SERVED, "", then_get(on_control(octets)), False)
    yield one("no SETTINGS first", "H3_MISSING_SETTINGS", frame(UNKNOWN, b"x"))
    yield one("GOAWAY first", "H3_MISSING_SETTINGS", frame(GOAWAY, varint(0)))
    yield one("SETTINGS twice", UNEXPECTED, settings() * 2)
    for name, kind in (("DATA", DATA), ("HEADERS", HEADERS), ("PUSH_PROMISE", PUSH_PROMISE), *((f"HTTP/2's frame {kind}", kind) for kind in OF_HTTP2)):
        yield one(name, UNEXPECTED, settings() + frame(kind, b"\0"))
    for key in (2, 3, 4, 5):
        yield one(f"HTTP/2's setting {key}", SETTING, settings({key: 1}))
    yield one("a setting twice", SETTING, frame(SETTINGS, b"\x06\x20\x06\x20"))
    yield one("extended CONNECT of 2", SETTING, settings({h3.CONNECT_PROTOCOL: 2}))
    yield one("half a setting", FRAME, frame(SETTINGS, b"\x06"))
    yield one("half a setting's value", FRAME, frame(SETTINGS, b"\x06\x40"))
    for name, kind in (("GOAWAY", GOAWAY), ("MAX_PUSH_ID", MAX_PUSH_ID), ("CANCEL_PUSH", CANCEL_PUSH), ("PRIORITY_UPDATE", PRIORITY_UPDATE)):
        yield one(f"{name} of no octet", FRAME, settings() + frame(kind))
        yield one(f"{name} with half a number", FRAME, settings() + frame(kind, b"\x40"))
        if kind != PRIORITY_UPDATE:
            yield one(f"{name} with more than a number", FRAME, settings() + frame(kind, b"\0\0"))
    yield one("CANCEL_PUSH of no push", ID, settings() + frame(CANCEL_PUSH, varint(0)))
    yield one("MAX_PUSH_ID that becomes less", ID, settings() + frame(MAX_PUSH_ID, varint(5)) + frame(MAX_PUSH_ID, varint(4)))
    yield one("GOAWAY that becomes more", ID, settings() + frame(GOAWAY, varint(4)) + frame(GOAWAY, varint(8)))
    yield one("PRIORITY_UPDATE of no request", ID, settings() + frame(PRIORITY_UPDATE, varint(2) + b"u=1"))
    yield one("PRIORITY_UPDATE of no push", ID, settings() + frame(PUSH_PRIORITY_UPDATE, varint(0) + b"u=1"))
    yield one("more settings than anybody has", "H3_EXCESSIVE_LOAD", frame(SETTINGS, b"".join(varint(1000 + n) + b"\0" for n in range(40))))
    yield one("SETTINGS that are too long", "H3_EXCESSIVE_LOAD", frame(SETTINGS, b"\x40" * 1100))
    yield one("PRIORITY_UPDATE that is too long", "H3_EXCESSIVE_LOAD", settings() + frame(PRIORITY_UPDATE, varint(0) + b" " * 1100))
    yield fine("GOAWAY of the last number there is", settings() + frame(GOAWAY, varint((1 << 62) - 1)) + frame(GOAWAY, varint(4)))
    yield fine("a priority of a request that is far off", settings() + frame(PRIORITY_UPDATE, varint(4 << 40) + b"u=1"))
    yield fine("settings of no octet", settings())
    yield fine("settings that nobody knows", settings({0x21: 5, 0x7a7a: 1 << 40}))
    yield fine("settings of the extremes", settings({1: (1 << 62) - 1, 6: 0, 7: 100, 8: 1, 0x33: 1}))
    yield fine("numbers longer than they need be", varint(SETTINGS, 8) + varint(3, 4) + varint(6, 2) + b"\x20")
    yield fine("frames that nobody knows", settings() + frame(UNKNOWN, b"x" * 3000) + frame(0x7a7a))
    yield fine("MAX_PUSH_ID that stays and grows", settings() + b"".join(frame(MAX_PUSH_ID, varint(n)) for n in (0, 3, 3, 9)))
    yield fine("GOAWAY that becomes less", settings() + frame(GOAWAY, varint(8)) + frame(GOAWAY, varint(0)))
    yield fine("a request's priority", settings() + frame(PRIORITY_UPDATE, varint(0) + b"u=1, i"))
    yield fine("a priority that can't be read", settings() + frame(PRIORITY_UPDATE, varint(0) + b"\xff u"))
    yield Case("control: an octet at a time", SERVED, "", then_get(slowly(CONTROL, settings({6: 70_000}) + frame(GOAWAY, b"\0"))), False)
    yield Case("control: none", SERVED, "", lambda c: c.ask(h3.request("/c")), False)


def streams():
    """Streams of each kind."""
    for name, kind in (("control", CONTROL), ("encoder", ENCODER), ("decoder", DECODER)):
        first = settings() if kind == CONTROL else b""
        yield Case(f"streams: {name} ends", CONNECTION, CRITICAL, lambda c, kind=kind, first=first: c.open(kind, first, True), False)
        yield Case(f"streams: {name} is taken back", CONNECTION, CRITICAL, taken_back(kind), False)
        yield Case(f"streams: second {name}", CONNECTION, CREATION, lambda c, kind=kind, first=first: c.open(kind, first))
    yield Case("streams: push", CONNECTION, CREATION, lambda c: c.open(PUSH, varint(0)))
    yield Case("streams: of a kind that nobody knows", SERVED, "", then_get(lambda c: c.open(OTHER, b"x" * 100)))
    yield Case("streams: such a one ends", SERVED, "", then_get(lambda c: c.open(OTHER, b"x", True)))
    yield Case("streams: one without a word", SERVED, "", then_get(lambda c: c.open(None, b"", True)))
    yield Case("streams: half a kind", SERVED, "", then_get(lambda c: c.open(None, b"\x40", True)))

    def too_many(c):
        c.quic._remote_max_streams_bidi = 1 << 20
        for _ in range(300):
            c.quic.send_stream_data(c.stream(), POST[:1], False)
        c.flush()
    yield Case("streams: more than the server lets", CONNECTION, "STREAM_LIMIT_ERROR", too_many)

    def too_many_one_way(c):
        c.quic._remote_max_streams_uni = 1 << 20
        for _ in range(20):
            c.open(OTHER, b"x")
    yield Case("streams: more in one direction than the server lets", CONNECTION, "STREAM_LIMIT_ERROR", too_many_one_way)


def requests():
    """Frames on a request's stream."""
    for name, kind in (("SETTINGS", SETTINGS), ("GOAWAY", GOAWAY), ("CANCEL_PUSH", CANCEL_PUSH), ("MAX_PUSH_ID", MAX_PUSH_ID), ("PUSH_PROMISE", PUSH_PROMISE),
                       ("PRIORITY_UPDATE", PRIORITY_UPDATE), *((f"HTTP/2's frame {kind}", kind) for kind in OF_HTTP2)):
        yield Case(f"request: {name} first", CONNECTION, UNEXPECTED, on_request(frame(kind, varint(0)) + GET))
        yield Case(f"request: {name} in a body", CONNECTION, UNEXPECTED, on_request(POST + frame(kind, varint(0))))
    yield Case("request: DATA first", CONNECTION, UNEXPECTED, on_request(frame(DATA, b"hello") + GET))
    yield Case("request: DATA behind trailers", CONNECTION, UNEXPECTED, on_request(POST + headers([("x-t", "1")]) + frame(DATA, b"x")))
    yield Case("request: HEADERS behind trailers", CONNECTION, UNEXPECTED, on_request(POST + headers([("x-t", "1")]) * 2))
    for name, octets in (("HEADERS", POST[:-1]), ("DATA", POST + frame(DATA, b"hello")[:-1]), ("a frame that nobody knows", POST + frame(UNKNOWN, b"x", 2)),
                         ("a frame's header", POST + b"\x40")):
        yield Case(f"request: ends in {name}", CONNECTION, FRAME, on_request(octets))
    yield Case("request: ends at once", STREAM, "H3_REQUEST_INCOMPLETE", on_request(b""))
    yield Case("request: nothing but what nobody knows", STREAM, "H3_REQUEST_INCOMPLETE", on_request(frame(UNKNOWN, b"x")))
    sized = headers(h3.request("/c", "POST", [("content-length", "5")]))
    yield Case("request: DATA that ends too early", STREAM, MESSAGE, on_request(sized + frame(DATA, b"hell")))
    yield Case("request: DATA that goes too far", STREAM, MESSAGE, on_request(sized + frame(DATA, b"hello!")))
    yield Case("request: no DATA at all", STREAM, MESSAGE, on_request(sized))
    yield Case("request: a field in upper case", STREAM, MESSAGE, on_request(headers(h3.request("/c", more=[("X-A", "b")]))))
    yield Case("request: no field", STREAM, MESSAGE, on_request(frame(HEADERS, b"\0\0")))
    yield Case("request: an unknown pseudo-header", STREAM, MESSAGE, on_request(headers([(":foo", "b"), *h3.request("/c")])))
    yield Case("request: trailers with a pseudo-header", STREAM, MESSAGE, on_request(POST + headers([(":path", "/")])))
    yield Case("request: a head without end", STREAM, "H3_EXCESSIVE_LOAD", on_request(varint(HEADERS) + varint(1 << 40) + b"\0\0" + b"x" * 100, False))
    yield Case("request: frames that nobody knows", SERVED, "", on_request(frame(UNKNOWN, b"x" * 3000) + POST + frame(0x7a7a) + frame(DATA, b"hello") + frame(UNKNOWN) + headers([("x-t", "1")]) + frame(UNKNOWN, b"x")))
    yield Case("request: empty DATA", SERVED, "", on_request(sized + frame(DATA) + frame(DATA, b"hello") + frame(DATA)))
    yield Case("request: numbers longer than they need be", SERVED, "", on_request(varint(HEADERS, 8) + varint(len(GET) - 2 - (len(GET) > 65), 8) + GET[2 + (len(GET) > 65):]))
    yield Case("request: before the control stream", SERVED, "", then_get(on_request(GET)), False)


def sections():
    """QPACK."""
    good = GET[2 + (len(GET) > 65):]
    for name, section in (("a required insert count", b"\x02\0" + good[2:]), ("an entry of the dynamic table", good + b"\x80"), ("a name of it", good + b"\x40\x01b"),
                          ("an entry behind the base", good + b"\x10"), ("a name behind it", good + b"\x00\x01b"), ("entry 99", good + h3.indexed(99)),
                          ("entry 2^40", good + h3.indexed(1 << 40)), ("half a number", good + b"\xff\xff"), ("a number without end", good + b"\xff" + b"\xff" * 20 + b"\x01"),
                          ("half a name", good + b"\x25x-a"), ("half a value", good + b"\x23x-a\x05b"), ("nothing at all", b""), ("half a prefix", b"\0"),
                          ("the end's code", good + b"\x23x-a" + hpack.integer(4, 7, 0x80) + b"\xff\xff\xff\xfc"),
                          ("Huffman's code with an octet too many", good + b"\x23x-a\x82" + hpack.huffman(b"a") + b"\xff")):
        yield Case(f"fields: {name}", CONNECTION, "QPACK_DECOMPRESSION_FAILED", on_request(frame(HEADERS, section)))
    yield Case("fields: in Huffman's code", SERVED, "", on_request(headers(h3.request("/c"), is_huffman=True)))
    yield Case("fields: of the static table", SERVED, "", on_request(frame(HEADERS, b"\0\0" + b"".join(map(h3.indexed, (17, 23, 1))) + h3.literal(":authority", "bed.test"))))
    yield Case("fields: names of it", SERVED, "", on_request(frame(HEADERS, b"\0\0" + h3.indexed(17) + h3.indexed(23) + b"\x50" + hpack.string("bed.test") + b"\x51" + hpack.string("/c"))))
    yield Case("fields: a base that nothing is behind", SERVED, "", on_request(frame(HEADERS, b"\0\x05" + good[2:])))
    for name, octets in (("a table", b"\x3f\x45"), ("an entry", b"\xc0\x01b"), ("an entry of its own", b"\x43x-a\x01b"), ("an entry again", b"\x00")):
        yield Case(f"encoder: {name}", CONNECTION, "QPACK_ENCODER_STREAM_ERROR", lambda c, octets=octets: c.open(ENCODER, octets), False)
    for name, octets in (("a section that refers to nothing", b"\x80"), ("an entry more", b"\x01"), ("no entry more", b"\x00")):
        yield Case(f"decoder: {name}", CONNECTION, "QPACK_DECODER_STREAM_ERROR", lambda c, octets=octets: c.open(DECODER, octets), False)
    yield Case("encoder: a table of no octets", SERVED, "", then_get(lambda c: c.open(ENCODER, b"\x20\x20")), False)
    yield Case("decoder: a stream that was given up", SERVED, "", then_get(lambda c: c.open(DECODER, b"\x40\x7f\x01")), False)


def play(bed, case):
    """What is wrong, or ''; and how it ended."""
    with bed.connect(opens=case.opens) as c:
        case.act(c)
        if case.scope == CONNECTION:
            c.over(bed.LIMIT)
            return ("" if c.code() == case.code else f"{c.code() or 'goes on'} instead of {case.code}"), c.how()
        if case.scope == STREAM:
            own, beside = c.streams[0], c.streams[c.ask(h3.request("/c"))]
            c.wait(lambda: own.end and beside.end, bed.LIMIT)
            said = f"{own}, {c.how()}"
            if not beside.whole():
                return "the request beside it isn't served", said
            is_said = own.end == "reset" and h3.CODES.get(own.code) == case.code or 400 <= own.status < 500
            return ("" if is_said else f"{case.code} is due"), said
        c.wait(lambda: all(own.end for own in c.streams.values()), bed.LIMIT)
        wrong = "" if all(own.whole() for own in c.streams.values()) and not c.faults and c.get("/c", bed.LIMIT).whole() else f"isn't served {c.faults}"
        return wrong, f"{[str(own) for own in c.streams.values()]}, {c.how()}"


def run(bed, words, verbose):
    for case in (*control(), *streams(), *requests(), *sections()):
        if words and not any(word in case.id for word in words):
            continue
        wrong, how = play(bed, case)
        if not wrong and not bed.serves():
            wrong = "the next good request is not answered"
        bed.witness.take()
        bed.report.check(not wrong, f"{case.id}: {wrong} [{how}]")
        if verbose and not wrong:
            bed.report.note(f"ok {case.id} [{how}]")
