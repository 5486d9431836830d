# SPDX-License-Identifier: BSD-2-Clause
"""Frames that nobody should send: each with the scope of the error that is due (RFC 9113) and the codes that name it."""
import dataclasses

from bed import h2, hpack
from bed.h2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE, PRIORITIZED, PRIORITY,
                    PRIORITY_UPDATE, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers, number, settings, window_update)

CONNECTION, STREAM, SERVED, EITHER, ENDED = "connection", "stream", "served", "either", "ended"
GET = hpack.block(h2.request("/c"))
POST = hpack.block(h2.request("/c", "POST"))
MOST, BESIDE = h2.MOST_WINDOW, 1001
P, FS, FC, SC, C = "PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "FLOW_CONTROL_ERROR", "STREAM_CLOSED", "COMPRESSION_ERROR"


@dataclasses.dataclass
class Case:
    """`octets` are sent behind preface and SETTINGS (`opens` off: instead of them). `scope`: CONNECTION: GOAWAY with one of the codes,
    then the end; STREAM: stream 1 is reset with one of them, or refused by an answer of 4xx, or as CONNECTION (a stream's error may be
    treated so); SERVED: stream 1 is answered; EITHER: SERVED or CONNECTION; ENDED: the connection ends, with or without a word.
    `too_long`: a frame longer than the server's settings say follows, of this kind."""
    id: str
    scope: str
    octets: bytes
    codes: tuple = (P,)
    opens: bool = True
    follow: bytes = b""   # sent once stream 1 has been answered
    at: int = 1
    too_long: int = None


def setting(key, value):
    return settings({key: value})


def cases():
    get, post = headers(1, GET), headers(1, POST, False)
    # SETTINGS
    # varnishd says PROTOCOL_ERROR, which its users' tests know.
    yield Case("settings of 5 octets", CONNECTION, frame(SETTINGS, payload=b"12345"), (FS, P))
    yield Case("SETTINGS with ACK and something in it", CONNECTION, frame(SETTINGS, ACK, 0, bytes(6)), (FS,))
    yield Case("SETTINGS on a stream", CONNECTION, frame(SETTINGS, 0, 1, bytes(6)))
    yield Case("a window of 2^31", CONNECTION, setting(h2.INITIAL_WINDOW_SIZE, MOST + 1), (FC,))
    yield Case("ENABLE_PUSH of 2", CONNECTION, setting(h2.ENABLE_PUSH, 2))
    yield Case("frames of 16383 at most", CONNECTION, setting(h2.MAX_FRAME_SIZE, 16383))
    yield Case("frames of 2^24 at most", CONNECTION, setting(h2.MAX_FRAME_SIZE, 1 << 24))
    yield Case("a setting that nobody knows", SERVED, setting(0x7a7a, 5) + get)
    yield Case("settings of the extremes", SERVED, settings({1: 0, 2: 0, 3: 0, 4: MOST, 5: (1 << 24) - 1, 6: 1}) + get)
    yield Case("settings that are repeated", SERVED, frame(SETTINGS, payload=(b"\0\4" + number(1)) * 500 + b"\0\4" + number(h2.WINDOW)) + get)
    yield Case("more settings than anybody has", CONNECTION, frame(SETTINGS, payload=(b"\0\4" + number(h2.WINDOW)) * 1000), ("ENHANCE_YOUR_CALM",))
    yield Case("windows that SETTINGS shut and open", SERVED, setting(h2.INITIAL_WINDOW_SIZE, 1) + get + setting(h2.INITIAL_WINDOW_SIZE, 0) + setting(h2.INITIAL_WINDOW_SIZE, h2.WINDOW))
    yield Case("a window that grows beyond 2^31-1 by SETTINGS", CONNECTION,
               post + window_update(1, MOST - h2.WINDOW) + setting(h2.INITIAL_WINDOW_SIZE, h2.WINDOW + 1), (FC,))
    # PING, GOAWAY
    yield Case("PING of 7 octets", CONNECTION, frame(PING, payload=bytes(7)), (FS,))
    yield Case("PING on a stream", CONNECTION, frame(PING, 0, 1, bytes(8)))
    yield Case("PING with ACK that nobody asked for", EITHER, frame(PING, ACK, 0, bytes(8)) + get)
    yield Case("GOAWAY on a stream", CONNECTION, frame(GOAWAY, 0, 1, bytes(8)))
    yield Case("GOAWAY of 7 octets", CONNECTION, frame(GOAWAY, 0, 0, bytes(7)), (FS, P))
    yield Case("GOAWAY in front of a request", SERVED, frame(GOAWAY, 0, 0, bytes(8) + b"text") + get)
    yield Case("GOAWAY behind a request", SERVED, get + frame(GOAWAY, 0, 0, bytes(8)))
    # WINDOW_UPDATE
    yield Case("WINDOW_UPDATE of 3 octets", CONNECTION, frame(WINDOW_UPDATE, payload=bytes(3)), (FS,))
    yield Case("WINDOW_UPDATE of 0 for the connection", CONNECTION, window_update(0, 0))
    yield Case("WINDOW_UPDATE of 0 for a stream", STREAM, post + window_update(1, 0))
    yield Case("WINDOW_UPDATE for an idle stream", CONNECTION, window_update(1, 1))
    yield Case("the connection's window beyond 2^31-1", CONNECTION, window_update(0, MOST), (FC,))
    yield Case("a stream's window beyond 2^31-1", STREAM, post + window_update(1, MOST), (FC,))
    yield Case("a stream's window beyond 2^31-1 in two steps", STREAM, post + window_update(1, MOST - h2.WINDOW) + window_update(1, 1), (FC,))
    yield Case("WINDOW_UPDATE with its reserved bit", SERVED, window_update(0, (1 << 31) + 1) + get)
    # PRIORITY
    yield Case("PRIORITY of 4 octets", STREAM, post + frame(PRIORITY, 0, 1, bytes(4)), (FS,))
    yield Case("PRIORITY on stream 0", CONNECTION, frame(PRIORITY, 0, 0, bytes(5)))
    yield Case("PRIORITY on an idle stream", SERVED, frame(PRIORITY, 0, 77, bytes(5)) + get)
    yield Case("HEADERS with priority", SERVED, frame(HEADERS, END_STREAM | END_HEADERS | PRIORITIZED, 1, number(0) + b"\x10" + GET))
    yield Case("PRIORITY_UPDATE", SERVED, frame(PRIORITY_UPDATE, 0, 0, number(1) + b"u=1, i") + get)
    yield Case("PRIORITY_UPDATE that can't be read", SERVED, frame(PRIORITY_UPDATE, 0, 0, number(1) + b"\xff u") + get)
    yield Case("PRIORITY_UPDATE of an idle stream", SERVED, frame(PRIORITY_UPDATE, 0, 0, number(77) + b"u=1") + get)
    yield Case("PRIORITY_UPDATE of a stream that is over", SERVED, get, follow=frame(PRIORITY_UPDATE, 0, 0, number(1) + b"u=1") + headers(3, GET))
    yield Case("PRIORITY_UPDATE of stream 0", CONNECTION, frame(PRIORITY_UPDATE, 0, 0, number(0) + b"u=1"))
    yield Case("PRIORITY_UPDATE of a push", CONNECTION, frame(PRIORITY_UPDATE, 0, 0, number(2) + b"u=1"))
    yield Case("PRIORITY_UPDATE of 3 octets", CONNECTION, frame(PRIORITY_UPDATE, payload=bytes(3)), (FS, P))
    yield Case("PRIORITY_UPDATE on a stream", CONNECTION, frame(PRIORITY_UPDATE, 0, 1, number(1) + b"u=1"))
    # RST_STREAM
    yield Case("RST_STREAM of 3 octets", CONNECTION, post + frame(RST_STREAM, 0, 1, bytes(3)), (FS,))
    yield Case("RST_STREAM on stream 0", CONNECTION, h2.reset(0))
    yield Case("RST_STREAM on an idle stream", CONNECTION, h2.reset(1))
    yield Case("RST_STREAM behind the end", SERVED, get, follow=h2.reset(1) + headers(3, GET))
    yield Case("WINDOW_UPDATE behind the end", SERVED, get, follow=window_update(1, 1) + headers(3, GET))
    # DATA
    yield Case("DATA on stream 0", CONNECTION, frame(DATA, 0, 0, b"hello"))
    yield Case("DATA on an idle stream", CONNECTION, frame(DATA, 0, 1, b"hello"), (P, SC))
    yield Case("DATA behind the end", STREAM, get + frame(DATA, END_STREAM, 1, b"hello"), (SC,))
    yield Case("DATA with padding as long as itself", CONNECTION, post + frame(DATA, PADDED | END_STREAM, 1, b"\x06hello"))
    yield Case("DATA, padded, of no octet", CONNECTION, post + frame(DATA, PADDED | END_STREAM, 1, b""), (P, FS))
    yield Case("DATA that is all padding", SERVED, post + frame(DATA, PADDED, 1, h2.padded(b"", 0)) + frame(DATA, PADDED, 1, h2.padded(b"", 255)) + frame(DATA, END_STREAM, 1, b"hello"))
    yield Case("DATA longer than the settings say", CONNECTION, post, (FS,), too_long=DATA)
    yield Case("HEADERS longer than the settings say", CONNECTION, b"", (FS,), too_long=HEADERS)
    yield Case("a frame that nobody knows longer than the settings say", CONNECTION, b"", (FS,), too_long=0x7a)
    sized = headers(1, hpack.block(h2.request("/c", "POST", more=[("content-length", "5")])), False)
    yield Case("DATA behind trailers", STREAM, post + headers(1, hpack.block([("x-t", "1")])) + frame(DATA, END_STREAM, 1, b"x"), (SC,))
    yield Case("trailers with a pseudo-header", STREAM, post + headers(1, hpack.block([(":path", "/")])))
    yield Case("empty DATA that ends a body too early", STREAM, sized + frame(DATA, END_STREAM, 1))
    yield Case("empty DATA behind the end", STREAM, get + frame(DATA, END_STREAM, 1), (SC,))
    yield Case("DATA that ends a body too early", STREAM, sized + frame(DATA, END_STREAM, 1, b"hell"))
    yield Case("DATA that goes beyond the body", STREAM, sized + frame(DATA, 0, 1, b"hello!") + frame(DATA, END_STREAM, 1))
    # HEADERS and CONTINUATION
    yield Case("HEADERS on stream 0", CONNECTION, headers(0, GET))
    yield Case("HEADERS on an even stream", CONNECTION, headers(2, GET), at=2)
    yield Case("HEADERS on a lower stream", CONNECTION, headers(5, GET) + headers(3, GET), (P, SC), at=3)
    yield Case("HEADERS with padding longer than itself", CONNECTION, frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, b"\xff" + GET))
    yield Case("HEADERS, padded", SERVED, frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, h2.padded(GET, 200)))
    yield Case("HEADERS, padded, with priority", SERVED,
               frame(HEADERS, PADDED | PRIORITIZED | END_HEADERS | END_STREAM, 1, h2.padded(number(0) + b"\0" + GET, 200)))
    yield Case("HEADERS with half a priority", CONNECTION, frame(HEADERS, PRIORITIZED | END_HEADERS | END_STREAM, 1, b"\0\0"), (FS, P))
    yield Case("HEADERS behind a reset", CONNECTION, post + h2.reset(1) + headers(1, hpack.block([("x-t", "1")])), (SC, P))
    yield Case("HEADERS behind the end", CONNECTION, get + headers(1, GET), (SC, P))
    yield Case("second HEADERS that don't end the stream", STREAM, post + headers(1, hpack.block([("x-t", "1")]), False))
    yield Case("CONTINUATION alone", CONNECTION, frame(CONTINUATION, END_HEADERS, 1, GET))
    yield Case("CONTINUATION behind END_HEADERS", CONNECTION, post + frame(CONTINUATION, END_HEADERS, 1, GET))
    yield Case("CONTINUATION on another stream", CONNECTION, frame(HEADERS, END_STREAM, 1, GET[:5]) + frame(CONTINUATION, END_HEADERS, 3, GET[5:]))
    for name, between in (("DATA", frame(DATA, 0, 1, b"x")), ("PING", frame(PING, payload=bytes(8))), ("SETTINGS", settings()),
                          ("a frame that nobody knows", frame(0x7a, 0, 1, b"x")), ("PRIORITY", frame(PRIORITY, 0, 1, bytes(5)))):
        yield Case(f"{name} within a block of fields", CONNECTION, frame(HEADERS, END_STREAM, 1, GET[:5]) + between + frame(CONTINUATION, END_HEADERS, 1, GET[5:]))
    yield Case("fields in many frames", SERVED, headers(1, GET, True, 8))
    yield Case("an octet of fields in the first frame", SERVED, frame(HEADERS, END_STREAM, 1, GET[:1]) + frame(CONTINUATION, END_HEADERS, 1, GET[1:]))
    yield Case("CONTINUATION without an octet", SERVED, frame(HEADERS, END_STREAM, 1, GET) + frame(CONTINUATION, END_HEADERS, 1))
    # Others
    yield Case("PUSH_PROMISE", CONNECTION, post + frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + GET))
    yield Case("a kind of frame that nobody knows", SERVED, frame(0x7a, 0xff, 0, b"x" * 99) + frame(0x7b, 0, 0, b"") + get)
    yield Case("flags that nobody knows", SERVED, frame(SETTINGS, 0xfe) + frame(HEADERS, 0xd0 | END_STREAM | END_HEADERS, 1, GET))
    yield Case("a stream's reserved bit", SERVED, frame(HEADERS, END_STREAM | END_HEADERS, 1 | 1 << 31, GET))
    yield Case("the last stream there is", SERVED, headers(MOST, GET), at=MOST)
    # HPACK
    for name, block in (("entry 0", hpack.indexed(0)), ("an entry that isn't there", GET + hpack.indexed(100)), ("a name that isn't there", GET + hpack.literal(70, "b")),
                        ("a table larger than we said", hpack.resized(1 << 20) + GET), ("a table's size behind a field", GET + hpack.resized(0)),
                        ("half a number", GET + b"\xff\xff"), ("a number without end", GET + b"\xff" + b"\xff" * 20 + b"\x01"), ("half a string", GET + b"\0\x05x-a"),
                        ("a string longer than the block", GET + b"\0\x03x-a\x7f\xff\x7f"), ("the end's code", GET + b"\0\x03x-a" + hpack.integer(4, 7, 0x80) + b"\xff\xff\xff\xfc"),
                        ("Huffman's code filled up with noughts", GET + b"\0\x03x-a\x81" + bytes([hpack.huffman(b"a")[0] & 0xf8])),
                        ("Huffman's code with an octet too many", GET + b"\0\x03x-a\x82" + hpack.huffman(b"a") + b"\xff")):
        yield Case(f"fields: {name}", CONNECTION, headers(1, block), (C,))
    yield Case("fields in Huffman's code", SERVED, headers(1, hpack.block(h2.request("/c"), is_huffman=True)))
    yield Case("fields never to be indexed", SERVED, headers(1, hpack.block(h2.request("/c"), hpack.NEVER_ADDED)))
    yield Case("fields from the table", SERVED, headers(1, hpack.block(h2.request("/c"), hpack.ADDED)),
               follow=headers(3, b"".join(hpack.indexed(at) for at in (65, 64, 63, 62))))
    yield Case("a table of no octets", SERVED, headers(1, hpack.resized(0) + hpack.block(h2.request("/c"), hpack.ADDED)))
    yield Case("a field larger than the table", SERVED, headers(1, GET + hpack.literal("x-a", "b" * 5000, hpack.ADDED)))
    # How it begins
    yield Case("another preface", ENDED, b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n" + settings() + get, opens=False)
    yield Case("a preface without SETTINGS", EITHER, PREFACE + get, opens=False)
    yield Case("a preface with SETTINGS' ACK", EITHER, PREFACE + frame(SETTINGS, ACK) + get, opens=False)


def play(bed, case):
    """What is wrong, or ''; and how it ended."""
    with h2.Connection(bed.connect(), opens=case.opens) as c:
        own = c.expect(case.at)
        c.expect(1 if case.at != 1 else 3), c.expect(5)
        beside = c.expect(BESIDE)
        # What breaks one stream takes nothing from the next, whose request comes in the same write.
        c.send(case.octets + (headers(BESIDE, GET) if case.scope == STREAM else b""))
        if case.too_long is not None:
            c.ping()  # the settings have come before that
            most = c.settings.get(h2.MAX_FRAME_SIZE, 16384)
            if most == (1 << 24) - 1:
                return "", "any length is allowed"
            c.send(frame(case.too_long, END_STREAM | END_HEADERS, 0 if case.too_long > 9 else 1, b"\0" * 1000, most + 1))
        if case.scope in (CONNECTION, ENDED):
            c.over(bed.LIMIT)
        else:
            c.wait(lambda: own.end or c.goaway, bed.LIMIT)
        # A stream's error may come behind an answer that was under way.
        if case.scope == STREAM and own.end == "complete" and own.status < 400:
            c.wait(lambda: own.code or c.goaway, 0.5)
        if case.scope == STREAM and not c.goaway and not c.wait(lambda: beside.end or c.goaway, bed.LIMIT):
            return "the request beside it isn't answered", f"{own}, {c.how()}"
        if case.follow and own.end == "complete":
            c.send(case.follow)
            own = c.streams.get(3) or c.expect(3)
            c.wait(lambda: own.end or c.goaway, bed.LIMIT)
        return wrong(case, c, own), f"{own}, {c.how()}"


def wrong(case, c, own):
    if c.faults:
        return f"the server broke the protocol: {c.faults[:3]}"
    if case.scope == SERVED or case.scope == EITHER and not c.goaway:
        return "" if own.end == "complete" and own.status < 500 else "isn't served"
    if case.scope == ENDED:
        return "" if c.goaway or c.closed else "goes on"
    said = h2.error(c.goaway[1]) if c.goaway else ""
    if case.scope == STREAM and not said:
        if 400 <= own.status < 500:
            return ""
        if own.end != "reset" and not own.code:
            return "goes on" if not c.closed else "closed without GOAWAY"
        said = h2.error(own.code)
    if not said:
        return "closed without GOAWAY" if c.closed else "goes on"
    return "" if said in case.codes else f"{said} instead of {' or '.join(case.codes)}"


def run(bed, words, verbose):
    ok = 0
    for case in cases():
        if words and not any(word in case.id for word in words):
            continue
        reason, how = play(bed, case)
        if not reason and not bed.serves():
            reason = "the next good request is not answered"
        got = bed.witness.take()
        if any(b"/smuggled" in octets for octets in got):
            reason = "smuggled"
        ok += bed.report.check(not reason, f"{case.id}: {reason} [{how}]")
        if verbose and not reason:
            bed.report.note(f"ok {case.id} [{how}]")
    return ok
