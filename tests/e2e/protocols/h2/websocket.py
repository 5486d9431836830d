# SPDX-License-Identifier: BSD-2-Clause
"""Extended CONNECT (RFC 8441): a WebSocket of a stream becomes a pipe, by the VCL that operators have for HTTP/1, to an origin that knows only that, to
one that takes streams, and to such that might and don't."""
from bed import h2
from bed.h2origin import clear
from bed.origin import Origin
from bed.report import until
from bed.sealed import SealedOrigin, server_context
from bed.websocket import VCL, Sockets, StreamSockets, connect

MB = 1 << 20
CASES = {}


def case(fn):
    CASES[fn.__name__.replace("_", " ")] = fn
    return fn


def ask(c, path, **how):
    """A stream whose answer has come."""
    at = c.ask(connect(path, **how), ends=False)
    c.wait(lambda: c.streams[at].status or c.streams[at].end, 5)
    return at, c.streams[at]


def is_open(own):
    return own.status == 200 and not own.end and own.get("sec-websocket-protocol") == "chat"


@case
def it_is_announced(bed, c):
    c.wait(lambda: c.settings, 5)
    return c.settings.get(h2.ENABLE_CONNECT_PROTOCOL) != 1 and str(c.settings)


@case
def bytes_go_both_ways_and_ends_too(bed, c):
    at, own = ask(c, "/echo", more=[("sec-websocket-key", "client"), ("content-length", "5")])
    if not is_open(own) or any(own.get(name) for name in ("sec-websocket-accept", "content-length")):
        return f"{own} {own.fields}"
    for n in range(1, 4):
        c.upload(at, b"hello", ends=False)
        if not c.wait(lambda: own.length == 5 * n, 5):
            return f"{n}: {own}"
    c.upload(at, b"", ends=True)
    c.wait(lambda: own.end, 5)
    if bed.source.asked[-1][1] != "/echo" or not bed.source.is_good(bed.source.asked[-1]):
        return f"the origin was asked {bed.source.asked[-1]}"
    return (own.end, bytes(own.body)) != ("complete", b"hello" * 3 + b"bye") and f"{own} {bytes(own.body)!r}"


@case
def what_comes_with_the_answer_isnt_lost(bed, c):
    _, own = ask(c, "/first")
    return not c.wait(lambda: bytes(own.body) == b"first", 5) and f"{own} {bytes(own.body)!r}"


@case
def the_origin_ends_first(bed, c):
    at, own = ask(c, "/half")
    if not c.wait(lambda: own.end, 5) or own.end != "complete":
        return str(own)
    before = bed.source.taken
    c.upload(at, b"x" * 1000, ends=True)
    return not until(60, lambda: bed.source.taken == before + 1000 and bed.source.ends["/half"] == ["end"]) and f"{bed.source.taken - before} {bed.source.ends}"


@case
def much_both_ways(bed, c):
    at, own = ask(c, f"/push/{4 * MB}")
    c.wait(lambda: own.end, 20)
    if own.length != 4 * MB:
        return str(own)
    at, own = ask(c, "/sink")
    before = bed.source.taken
    c.upload(at, bytes(4 * MB), limit=20)
    return not until(60, lambda: bed.source.taken == before + 4 * MB) and f"{bed.source.taken - before} were taken"


@case
def who_doesnt_read_holds_back_the_other(bed, c):
    """The origin takes nothing: the client's window shuts. It goes on where that stopped."""
    at, own = ask(c, "/slow")
    body, before = bytes(32 * MB), bed.source.taken
    sent = c.upload(at, body, ends=False, limit=2)
    if sent == len(body):
        return "all was taken though nobody reads"
    bed.source.go_on.set()
    sent += c.upload(at, body[sent:], limit=20)
    return not until(60, lambda: bed.source.taken == before + sent) and f"{bed.source.taken - before} of {sent}"


@case
def a_reset_goes_on_to_the_origin(bed, c):
    at, own = ask(c, "/wait")
    c.send(h2.reset(at))
    return not until(60, lambda: bed.source.ends["/wait"] == ["reset"]) and f"{own} {bed.source.ends}"


@case
def a_cut_of_the_origin_is_a_reset(bed, c):
    _, own = ask(c, "/cut")
    c.wait(lambda: own.end, 5)
    return (own.end, own.code) != ("reset", h2.ERRORS.index("CANCEL")) and str(own)


@case
def a_client_that_goes_while_it_waits(bed, c):
    at = c.ask(connect("/silent"), ends=False)
    until(60, lambda: bed.source.asked[-1:] and bed.source.asked[-1][1] == "/silent")
    c.send(h2.reset(at))
    return not until(60, lambda: bed.source.ends["/silent"]) and "the origin's connection stays"


@case
def another_answer_is_that_answer(bed, c):
    _, own = ask(c, "/refused")
    c.wait(lambda: own.end, 5)
    return (own.status, bytes(own.body), own.get("x-why"), own.end) != (403, b"not you", "so", "complete") and f"{own} {own.fields}"


def answered(c, path, status, **how):
    _, own = ask(c, path, **how)
    c.wait(lambda: own.end, 5)
    return not (own.status == status and own.end == "complete") and f"{path}: {own}"


@case
def what_is_no_websocket_is_no_success(bed, c):
    for path, status in (("/wrong", 502), ("/plain", 502), ("/gone", 502), ("/pass", 501), ("/hash", 501), ("/synth", 501)):
        if wrong := answered(c, path, status):
            return wrong
    return answered(c, "/echo", 501, protocol="connect-udp")


@case
def malformed_ones_are_errors_of_the_stream(bed, c):
    for leave in ((":scheme",), (":path",), (":authority",)):
        at = c.ask(connect("/echo", leave=leave), ends=False)
        c.wait(lambda: c.streams[at].end, 5)
        if str(c.streams[at]) != "no status reset PROTOCOL_ERROR 0 octets":
            return f"without {leave}: {c.streams[at]}"
    at = c.ask(h2.request("/echo", more=[(":protocol", "websocket")]))
    c.wait(lambda: c.streams[at].end, 5)
    return c.streams[at].end != "reset" and str(c.streams[at])


@case
def silence_ends_it(bed, c):
    bed.server.cli.ask("param.set pipe_timeout 1")
    try:
        _, own = ask(c, "/echo")
        c.wait(lambda: own.end, 5)
        return (own.status, own.end) != (200, "reset") and str(own)
    finally:
        bed.server.cli.ask("param.reset pipe_timeout")


@case
def the_time_for_all_ends_it(bed, c):
    bed.server.cli.ask("param.set pipe_task_deadline 1")
    try:
        at, own = ask(c, "/echo")
        while not own.end and c.upload(at, b"x", ends=False) and c.wait(lambda: own.end, 0.2) != "reset":
            pass
        return (own.status, own.end) != (200, "reset") and str(own)
    finally:
        bed.server.cli.ask("param.reset pipe_task_deadline")


def is_asked(words, name):
    return not words or any(word in name for word in words)


def judge(own, name, fn, verbose):
    try:
        with h2.Connection(own.connect()) as c:
            wrong = fn(own, c) or c.faults
    except (AssertionError, OSError, IndexError) as e:
        wrong = repr(e)
    own.report.check(not wrong, f"websocket: {name}: {wrong}")
    if verbose and not wrong:
        own.report.note(f"ok {name}")


def all_cases(bed, source, says, words, verbose):
    with Origin(source.serve) as origin, bed.again(vcl=VCL % (*origin.address, source.more)) as own:
        own.source = source
        for name, fn in CASES.items():
            if is_asked(words, name):
                judge(own, f"{name}{says}", fn, verbose)
        own.report.check(own.serves() and own.is_same(), f"websocket{says}: nothing is served afterwards, or by another process")
        own.report.check(not getattr(source, "faults", None), f"websocket{says}: {getattr(source, 'faults', None)}")


def no_connect(bed, words, verbose):
    """An origin of HTTP/2 that says nothing of extended CONNECT isn't asked for it; with HTTP/1 at hand, that is spoken."""
    source = StreamSockets(announces=False)
    with clear(source) as origin, bed.again(vcl=VCL % (*origin.address, source.more)) as own:
        judge(own, "an origin that takes none", lambda _, c: answered(c, "/echo", 502), verbose)
        own.report.check(not source.asked, f"websocket: an origin that takes none was asked {source.asked}")
    old, both = Sockets(), server_context(bed.leaf)
    both.set_alpn_protocols(["h2", "http/1.1"])
    for new, spoken in ((StreamSockets(announces=False), old), (StreamSockets(), None)):
        serve = lambda s: (new if s.selected_alpn_protocol() == "h2" else old).serve(s)
        with SealedOrigin(serve, both) as origin, bed.again(vcl=VCL % (*origin.address, ".ssl = 1; .ssl_verify_peer = 0; .ssl_verify_host = 0;")) as own:
            own.source = spoken or new
            own.source.is_good = lambda asked: True
            judge(own, f"an origin with a choice, {'HTTP/1' if spoken else 'HTTP/2'}", bytes_go_both_ways_and_ends_too, verbose)
            own.report.check(bool(new.asked) == (spoken is None), f"websocket: by HTTP/2 it was asked {new.asked}")


def run(bed, words, verbose):
    all_cases(bed, Sockets(), "", words, verbose)
    all_cases(bed, StreamSockets(), ", to HTTP/2", words, verbose)
    if is_asked(words, "origin"):
        no_connect(bed, words, verbose)
