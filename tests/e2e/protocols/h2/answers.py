# SPDX-License-Identifier: BSD-2-Clause
"""What honest clients get: bodies both ways in whatever frames and windows, many streams, trailers, interim answers, priorities."""
import contextlib
import random

from bed import h2, hpack
from sources import digest, octets

SIZES = (0, 1, 100, 16383, 16384, 16385, 65535, 65536, 1 << 20)
MB = 1 << 20
CASES = {}


def case(fn):
    CASES[fn.__name__.replace("_", " ")] = fn
    return fn


def is_right(own, size):
    return own.whole() and bytes(own.body) == octets(size)


@contextlib.contextmanager
def connection(bed, asked=None, **how):
    with h2.Connection(bed.connect(), asked, **how) as c:
        yield c
        if c.faults:
            raise AssertionError(f"the server broke the protocol: {c.faults[:3]}")


@case
def bodies_of_each_size(bed):
    with connection(bed) as c:
        for kind in ("hit", "hit", "pass"):
            for size in SIZES:
                own = c.get(f"/{kind}/{size}")
                if not is_right(own, size):
                    return f"/{kind}/{size}: {own}"


@case
def ten_megabytes(bed):
    with connection(bed) as c:
        own = c.get(f"/pass/{10 * MB}", 30)
        return "" if is_right(own, 10 * MB) else str(own)


@case
def windows_of_few_octets(bed):
    for window, size in ((1, 20), (7, 1000), (100, 5000), (16384, MB)):
        with connection(bed, {h2.INITIAL_WINDOW_SIZE: window}, credits=False) as c:
            at = c.ask(h2.request(f"/hit/{size}"))
            own, rounds = c.streams[at], 0
            while not own.end and rounds < size // window + 5:
                rounds += 1
                if not c.wait(lambda: own.end or own.granted == 0, 5):
                    return f"window {window}: {own}, {own.granted} of the window left"
                grant = h2.window_update(0, window) if size > window else b""
                c.granted += window if grant else 0
                own.granted += window
                c.send(grant + h2.window_update(at, window))
            if not is_right(own, size):
                return f"window {window}: {own}"


@case
def a_window_raised_by_settings(bed):
    with connection(bed, {h2.INITIAL_WINDOW_SIZE: 0}) as c:
        at = c.ask(h2.request("/hit/5000"))
        own = c.streams[at]
        if not c.wait(lambda: own.status, 5) or own.length:
            return f"before: {own}"
        c.asked[h2.INITIAL_WINDOW_SIZE] = 6000
        own.granted += 6000
        c.send(h2.settings({h2.INITIAL_WINDOW_SIZE: 6000}))
        c.wait(lambda: own.end, 5)
        return "" if is_right(own, 5000) else str(own)


@case
def a_window_lowered_below_nothing(bed):
    with connection(bed, credits=False) as c:
        at = c.ask(h2.request("/hit/200000"))
        own = c.streams[at]
        c.wait(lambda: own.granted == 0, 5)
        # 65,535 octets went; the window is now minus 60,000, so that the first credit lets nothing out.
        c.send(h2.window_update(0, 300_000) + h2.settings({h2.INITIAL_WINDOW_SIZE: 5535}) + h2.window_update(at, 60_000))
        c.granted += 300_000
        if not c.ping() or own.length != h2.WINDOW:
            return f"{own} though the window is shut"
        c.send(h2.window_update(at, 200_000))
        own.granted += 200_000
        c.wait(lambda: own.end, 5)
        return "" if is_right(own, 200_000) else str(own)


@case
def head_has_no_body(bed):
    with connection(bed) as c:
        own = c.get("/hit/100", method="HEAD")
        return "" if own.whole() and own.get("content-length") == "100" and not own.length else f"{own} {own.fields}"


@case
def uploads_of_each_size(bed):
    with connection(bed) as c:
        for size in SIZES:
            for length in ([], [("content-length", str(size))]):
                body = octets(size)
                at = c.ask(h2.request(f"/count?{size}", "POST", more=length), body)
                c.wait(lambda: c.streams[at].end, 10)
                if bytes(c.streams[at].body) != f"{size} {digest(body)}".encode():
                    return f"{size} {length}: {c.streams[at]} {bytes(c.streams[at].body)!r}"


@case
def an_upload_in_small_padded_frames(bed):
    dice, body = random.Random(bed.o.seed), octets(20_000)
    with connection(bed) as c:
        at, sent = c.stream(), 0
        c.send(h2.headers(at, hpack.block(h2.request("/count", "POST")), False))
        c.ping()
        while sent < len(body):
            piece, fill = body[sent:sent + dice.randrange(400)], dice.randrange(200)
            sent += len(piece)
            cost = len(piece) + fill + 1
            if not c.wait(lambda: min(c.window, c.streams[at].window) >= cost, 5):
                return f"no window behind {sent} octets"
            c.window -= cost
            c.streams[at].window -= cost
            c.send(h2.frame(h2.DATA, h2.PADDED | (h2.END_STREAM if sent == len(body) else 0), at, h2.padded(piece, fill)))
        c.wait(lambda: c.streams[at].end, 5)
        return "" if bytes(c.streams[at].body) == f"{len(body)} {digest(body)}".encode() else f"{c.streams[at]}"


@case
def a_hundred_streams_at_once(bed):
    sizes = [(37 * n * n) % 40_000 for n in range(100)]
    with connection(bed) as c:
        c.ping()
        asked = [(c.ask(h2.request(f"/{'hit' if n % 2 else 'pass'}/{size}")), size) for n, size in enumerate(sizes)]
        c.wait(lambda: all(c.streams[at].end for at, _ in asked), 20)
        wrong = [f"/{size}: {c.streams[at]}" for at, size in asked if not is_right(c.streams[at], size)]
        return ", ".join(wrong[:4])


@case
def a_thousand_requests_on_a_connection(bed):
    with connection(bed, keep=False) as c:
        for n in range(50):
            asked = [c.ask(h2.request("/hit/1000")) for _ in range(20)]
            if not c.wait(lambda: all(c.streams[at].end for at in asked), 10) or any(c.streams[at].length != 1000 for at in asked):
                return f"round {n}: {[str(c.streams[at]) for at in asked if c.streams[at].length != 1000][:3]} {c.how()}"


@case
def large_fields_of_an_answer(bed):
    with connection(bed) as c:
        own = c.get("/many/50")
        got = [value for name, value in own.fields if name.startswith("x-field-")]
        return "" if own.whole() and len(got) == 50 and all(len(value) == 400 for value in got) else f"{own}, {len(got)} fields, {c.how()}"


@case
def large_fields_of_a_request(bed):
    with connection(bed) as c:
        at = c.stream()
        more = [(f"x-field-{n}", "v" * 100) for n in range(40)]
        c.send(h2.headers(at, hpack.block(h2.request("/fields", more=more)), True, 1000))
        c.wait(lambda: c.streams[at].end, 5)
        got = bytes(c.streams[at].body).count(b"x-field-")
        return "" if c.streams[at].whole() and got == 40 else f"{c.streams[at]}, {got} fields"


@case
def fields_of_a_request_reach_the_origin(bed):
    with connection(bed) as c:
        own = c.get("/fields", more=[("x-one", "1"), ("x-two", ""), ("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers")])
        lines = bytes(own.body).decode("latin-1").splitlines()
        missing = [line for line in ("host: bed.test", "x-one: 1", "x-two: ", "cookie: a=b; c=d") if line not in lines]
        pseudo = [line for line in lines if line.startswith((":", "http2"))]
        return f"missing {missing}, too much {pseudo}, of {lines}" if missing or pseudo else ""


@case
def table_of_fields_is_used(bed):
    """Entries are added, found again, thrown out, and the table's size changes."""
    with connection(bed) as c:
        for n in range(40):
            at, name = c.stream(), f"x-{n % 7}"
            block = (hpack.resized(n * 97 % 4097) if n % 5 == 0 else b"") + hpack.block(h2.request("/fields", more=[(name, "v" * n)]), hpack.ADDED, n % 2 == 0)
            # The newest entry is the field just added; asked for in the next block, where the table has room for it.
            c.send(h2.headers(at, block))
            c.wait(lambda: c.streams[at].end, 5)
            if f"{name}: {'v' * n}\n".encode() not in c.streams[at].body:
                return f"request {n}: {c.streams[at]} {c.how()}"


@case
def trailers_of_an_answer(bed):
    with connection(bed) as c:
        own = c.get("/trailers")
        return "" if own.whole() and bytes(own.body) == b"hello" and own.trailers == [("x-tail", "1")] else f"{own} {own.trailers}"


@case
def trailers_of_a_request_end_before_an_origin_of_http_1(bed):
    with connection(bed) as c:
        at = c.ask(h2.request("/told", "POST", more=[("te", "trailers")]), b"hello", [("x-end", "1")])
        c.wait(lambda: c.streams[at].end, 5)
        return "" if c.streams[at].whole() and not c.streams[at].body else f"{c.streams[at]} {bytes(c.streams[at].body)!r}"


@case
def early_hints(bed):
    with connection(bed, {h2.ENABLE_PUSH: 0}) as c:
        own = c.get("/early")
        return "" if own.whole() and [status for status, _ in own.interim] == [103] else f"{own} {own.interim}"


@case
def an_upload_that_waits_for_100(bed):
    with connection(bed) as c:
        at = c.stream()
        own = c.streams[at]
        c.send(h2.headers(at, hpack.block(h2.request("/count", "POST", more=[("expect", "100-continue"), ("content-length", "5")])), False))
        if not c.wait(lambda: own.interim or own.end, 5) or own.interim[0][0] != 100:
            return f"{own} {own.interim}"
        c.upload(at, b"hello")
        c.wait(lambda: own.end, 5)
        return "" if own.whole() else str(own)


@case
def a_reset_stream_leaves_the_others(bed):
    with connection(bed, credits=False, keep=False) as c:
        gone, stays = c.ask(h2.request(f"/hit/{MB}")), None
        c.wait(lambda: c.streams[gone].length > 1000, 5)
        c.send(h2.reset(gone))
        c.credits = True
        c.granted += MB
        c.send(h2.window_update(0, MB))
        stays = c.get("/hit/100000")
        return "" if stays.whole() and stays.length == 100_000 else f"{stays}, {c.how()}"


@case
def goaway_of_the_client_lets_streams_end(bed):
    with connection(bed) as c:
        asked = [c.ask(h2.request(f"/pass/{n}000")) for n in range(5)]
        c.send(h2.frame(h2.GOAWAY, payload=bytes(8)))
        c.wait(lambda: all(c.streams[at].end for at in asked), 5)
        wrong = [str(c.streams[at]) for at in asked if not c.streams[at].whole()]
        return f"{wrong} {c.how()}" if wrong else ""


@case
def frames_in_flight_on_a_stream_that_the_server_reset(bed):
    """What was on its way when the server gave a stream up is nobody's fault: many requests may have passed meanwhile."""
    with connection(bed) as c:
        at = c.ask(h2.request("/count", "POST", more=[("content-length", "5")]), b"hello!", ends=False)
        c.wait(lambda: c.streams[at].end, 5)
        for _ in range(40):
            c.get("/hit/100")
        c.send(b"".join(h2.frame(h2.DATA, 0, at, b"x" * 30) for _ in range(150)))
        own = c.get("/hit/100")
        return "" if own.whole() else f"{c.streams[at]}, then {own}, {c.how()}"


@case
def credit_that_comes_behind_the_end(bed):
    """Clients with small windows send one for each answer, and it is late."""
    with connection(bed, keep=False) as c:
        for n in range(1500):
            own = c.get("/hit/1000")
            if not own.whole():
                return f"request {n}: {own}, {c.how()}"
            c.send(h2.window_update(c.next - 2, 30_000))
        return "" if c.ping() else c.how()


@case
def credit_with_each_request(bed):
    with connection(bed, keep=False) as c:
        for n in range(1500):
            at = c.stream()
            c.send(h2.headers(at, hpack.block(h2.request("/hit/1000", "HEAD"))) + h2.window_update(at, 1 << 20))
            c.wait(lambda: c.streams[at].end, 5)
            if not c.streams[at].whole():
                return f"request {n}: {c.streams[at]}, {c.how()}"


@case
def an_answer_does_not_wait_for_the_body(bed):
    cached(bed, 100)
    with connection(bed) as c:
        own = c.streams[c.ask(h2.request("/hit/100"), ends=False)]
        c.wait(lambda: own.length == 100, 2)
        return "" if own.status == 200 and own.length == 100 else str(own)


def rivals(bed, first, second, size=200_000):
    """Two answers wait for the connection's window while only the first has had any of it; then it opens bit by bit.
    Gives how much of the first and of the second had come when one of them was whole."""
    with connection(bed, {h2.INITIAL_WINDOW_SIZE: h2.MOST_WINDOW}, credits=False) as c:
        a = c.ask(h2.request(f"/hit/{size}", more=[("priority", first)]))
        c.wait(lambda: c.granted == 0, 5)
        b = c.ask(h2.request(f"/hit/{size}", more=[("priority", second)]))
        c.wait(lambda: c.streams[b].status, 5)
        begin, rounds = c.streams[a].length, 0
        while not c.streams[a].end and not c.streams[b].end and rounds < 1000:
            rounds += 1
            c.granted += 10_000
            c.send(h2.window_update(0, 10_000))
            c.wait(lambda: c.granted == 0 or c.streams[a].end or c.streams[b].end, 5)
        return c.streams[a].length - begin, c.streams[b].length


def cached(bed, size=200_000):
    with connection(bed) as c:
        c.get(f"/hit/{size}")


@case
def what_is_urgent_comes_first(bed):
    cached(bed)
    first, second = rivals(bed, "u=6", "u=1")
    return "" if second == 200_000 and first <= 20_000 else f"{first} octets of what can wait came, and {second} of what is urgent"


@case
def what_is_not_incremental_comes_one_after_the_other(bed):
    cached(bed)
    first, second = rivals(bed, "u=3", "u=3")
    return "" if second <= 20_000 else f"{first} and {second} octets came"


@case
def what_is_incremental_shares(bed):
    cached(bed)
    first, second = rivals(bed, "u=3, i", "u=3, i")
    return "" if second and 0.7 < first / second < 1.4 else f"{first} and {second} octets came"


@case
def priority_changes_on_the_way(bed):
    cached(bed)
    with connection(bed, {h2.INITIAL_WINDOW_SIZE: h2.MOST_WINDOW}, credits=False) as c:
        a = c.ask(h2.request("/hit/200000", more=[("priority", "u=2")]))
        c.wait(lambda: c.granted == 0, 5)
        b = c.ask(h2.request("/hit/200000", more=[("priority", "u=3")]))
        c.wait(lambda: c.streams[b].status, 5)
        before = c.streams[a].length
        c.send(h2.frame(h2.PRIORITY_UPDATE, 0, 0, h2.number(b) + b"u=0"))
        c.ping()
        c.granted += 100_000
        c.send(h2.window_update(0, 100_000))
        c.wait(lambda: c.granted == 0, 5)
        return "" if c.streams[b].length >= 80_000 else f"{c.streams[a].length - before} and {c.streams[b].length} octets came"


def run(bed, words, verbose):
    for name, fn in CASES.items():
        if words and not any(word in name for word in words):
            continue
        try:
            wrong = fn(bed)
        except (AssertionError, OSError, IndexError) as e:
            wrong = repr(e)
        bed.report.check(not wrong, f"{name}: {wrong}")
        if verbose and not wrong:
            bed.report.note(f"ok {name}")
