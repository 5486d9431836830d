# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/2: fields that would be another request in HTTP/1, frames behind a reset, heads that grow by the dynamic table."""
import contextlib
import socket

from bed import h2, hpack
from bed.daemon import pss
from requests import origin, seen  # pylint: disable=unused-import  # `origin` is for the runner

LIMIT = 60  # seconds; it only ends what hangs
MOST = 48 << 20  # octets that one client may make the program hold


@contextlib.contextmanager
def connection(bed, **asked):
    with socket.create_connection(bed.plain, LIMIT) as s:
        yield h2.Connection(s, **asked)


def refused(fields, body=None):
    """The stream ends in an error, or a response of one; nothing of it reaches the origin."""
    def act(bed, name):
        seen(bed)
        with connection(bed) as c:
            at = c.ask(fields, body)
            c.wait(lambda: c.streams[at].end or c.goaway)
            own = c.streams[at]
            bed.check(name, own.end == "reset" or c.goaway or own.status in (400, 501), f"{own}, {c.how()}")
        there = seen(bed)
        bed.check(name, not there, f"the origin saw {there}")
    return act


def request(path="/pass/first", method="GET", host="bed.test", more=()):
    return h2.request(path, method, host, more=more)


def served(fields, statuses=(200,), **asked):
    def act(bed, name):
        with connection(bed, **asked) as c:
            at = c.ask(fields)
            c.wait(lambda: c.streams[at].end or c.goaway)
            bed.check(name, c.streams[at].status in statuses, f"{c.streams[at]}, {c.how()}")
        seen(bed)
    return act


def behind_reset(bed, name):
    """DATA, trailers and credit in one packet behind the stream's reset."""
    with connection(bed) as c:
        for n in range(50):
            at = c.stream()
            c.send(h2.headers(at, hpack.block(request(f"/pass/{n}", "POST")), False) + h2.frame(h2.DATA, 0, at, b"x") + h2.reset(at) +
                   h2.frame(h2.DATA, 0, at, b"x" * 100) + h2.window_update(at, 5) + h2.headers(at, hpack.block([("a", "b")])))
        bed.check(name, c.ping() or c.goaway, f"{c.how()}")
    seen(bed)


def grown_heads(bed, name):
    """One entry of the dynamic table, named thousands of times in each of many heads whose responses have no window (`HTTP bomb`)."""
    before = pss(bed.server.pids())
    with connection(bed, asked={h2.INITIAL_WINDOW_SIZE: 0}) as c:
        c.ask(request("/own", more=[("cookie", "x" * 3900)]), form=hpack.ADDED)
        at_most = 0
        for n in range(100):
            if c.closed or c.goaway:
                break
            at = c.stream()
            c.send(h2.headers(at, hpack.block(request(f"/own?{n}")) + hpack.indexed(62) * 8000))
        c.ping(10)
        at_most = pss(bed.server.pids()) - before
        ends = {own.status or own.end for own in c.streams.values()}
        bed.check(name, at_most < MOST, f"{at_most >> 20} MB held, {c.how()}, {ends}")


def large_tables(bed, name):
    """A client that announces the largest tables and lists is served, and costs nothing for it."""
    before = pss(bed.server.pids())
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            c = stack.enter_context(connection(bed, asked={h2.HEADER_TABLE_SIZE: 0xFFFFFFFF, h2.MAX_HEADER_LIST_SIZE: 0xFFFFFFFF}))
            bed.check(name, c.get("/own").whole(), f"{c.how()}")
        held = pss(bed.server.pids()) - before
        bed.check(name, held < MOST, f"{held >> 20} MB held")


def drop_by_drop(bed, name):
    """A window of one octet at a time: the body comes whole."""
    with connection(bed, asked={h2.INITIAL_WINDOW_SIZE: 1}, credits=False) as c:
        at = c.ask(request("/pass/first"))
        own = c.streams[at]
        for n in range(1, 40):
            c.wait(lambda n=n: own.length >= n or own.end)
            if own.end:
                break
            c.send(h2.window_update(at, 1))
        bed.check(name, own.whole() and own.length == 2, f"{own}, {c.how()}")
    seen(bed)


ROWS = {
    "CVE-2025-67735 CRLF in :path": refused(request("/pass/first HTTP/1.1\r\nX: ")),
    "CVE-2025-67735 a space in :path": refused(request("/pass/first x")),
    "CVE-2025-67735 CRLF in :method": refused(request(method="GET /pass/smuggled HTTP/1.1\r\nX: ")),
    "CVE-2025-67735 CRLF in :authority": refused(request(host="bed.test\r\nX: y")),
    "CVE-2025-67735 CRLF in a value": refused(request(more=[("x", "a\r\ny: b")])),
    "CVE-2025-67735 CRLF in a name": refused(request(more=[("x\r\ny", "a")])),
    "CVE-2025-67735 a colon in a name": refused(request(more=[("x:y", "a")])),
    "CVE-2024-53008 :path without a slash": refused(request("pass/first")),
    "CVE-2024-53008 an empty :path": refused(request("")),
    "CVE-2024-53008 another host": refused(request(more=[("host", "other.test")])),
    "CVE-2024-53008 :authority with a path": refused(request(host="bed.test/pass")),
    "CVE-2024-53008 :authority with a user": refused(request(host="user@bed.test")),
    "Transfer-Encoding over HTTP/2": refused(request(method="POST", more=[("transfer-encoding", "chunked")]), b"0\r\n\r\n"),
    "Connection over HTTP/2": refused(request(more=[("connection", "x")])),
    "a name in capitals": refused(request(more=[("X-A", "b")])),
    "CVE-2025-49630 no host at all": served([(":method", "GET"), (":scheme", "http"), (":path", "/own")], (200, 400)),
    "CVE-2025-1948 the largest tables": large_tables,
    "CVE-2026-26311 frames behind a reset": behind_reset,
    "CVE-2026-47774 CVE-2026-49975 heads that grow": grown_heads,
    "CVE-2024-45506 credit of single octets": drop_by_drop,
}
