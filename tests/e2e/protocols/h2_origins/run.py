#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Origins that speak HTTP/2: what they are asked, who shares a connection, what is tried again, what breaks; bodies and trailers both ways
at once, as gRPC has them; probes, pipes, and the choice by TLS."""
import concurrent.futures
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2, hpack
from bed.certificates import Authority
from bed.daemon import CliError, Varnishd, directory
from bed.h2origin import Behaviour, clear, sealed
from bed.http import Client, get
from bed.logs import has_all, read_log
from bed.origin import Origin, simple
from bed.report import Report, options, until
from bed.sealed import server_context

LIMIT = 60
NAME = "origin.test"


def backend(name, origin, more=".proto = \"h2\";"):
    return f'backend {name} {{ .host = "127.0.0.1"; .port = "{origin.address[1]}"; {more} }}\n'


PASS = 'sub vcl_recv { if (req.http.pipe) { return (pipe); } if (req.url !~ "^/keep") { return (pass); } }\n'


def started(program, behaviour, vcl=PASS, args=(), more=".proto = \"h2\";"):
    """A server with one origin."""
    origin = clear(behaviour)
    return origin, Varnishd(program, vcl="vcl 4.1;\n" + backend("default", origin, more) + vcl, args=list(args))


def tool(program, v, name, *args):
    done = subprocess.run([pathlib.Path(program).parent / name, "-n", v.n, *args], capture_output=True, timeout=LIMIT)
    return done.stdout.decode(errors="replace")


def counter(program, v, name):
    return int(tool(program, v, "varnishstat", "-1", "-f", name).split()[1])


def log(v, tags, *texts):
    """The log of these tags, once all `texts` are in it."""
    return read_log(v, has_all(*texts), "-g", "request", "-i", tags)


def good(report, program):
    """Methods, bodies and fields; what the origin gets is what HTTP/2 allows."""
    def reply(asked):
        if asked.path.endswith("/none"):
            return 204, [("x-a", "1")], b"", None
        if asked.path.endswith("/huge"):
            return 200, [], bytes(range(256)) * 20000, None
        if asked.method == "HEAD":
            return 200, [("content-length", "77")], b"", None
        body = f"{asked.method} {asked.path} {len(asked.body)} {sum(asked.body)}".encode()
        cookies = [] if asked.path.startswith("/keep") else [("set-cookie", "a=1"), ("set-cookie", "b=2")]
        return 200, [("content-length", str(len(body))), *cookies, ("x-empty", "")], body, None
    b = Behaviour(reply)
    origin, v = started(program, b)
    with origin, v:
        r = get(v.address, "/x", fields=[("Connection", "x-gone"), ("X-Gone", "1"), ("Cookie", "a=b; c=d"), ("X-Upper", "Y"), ("TE", "gzip")])
        report.check(r.status == 200 and r.body == b"GET /x 0 0", f"GET: {r}")
        own = b.requests[0]
        pseudo = [(":authority", "bed.test"), (":method", "GET"), (":path", "/x"), (":scheme", "http")]
        report.check(sorted(own.fields[:4]) == pseudo, f"pseudo-header fields: {own.fields[:4]}")
        report.check(own.get("cookie") == "a=b; c=d" and own.get("x-upper") == "Y" and own.get("x-gone") is None and own.get("te") is None,
                     f"fields: {own.fields}")
        cookies = [value for name, value in r.fields if name.lower() == "set-cookie"]
        report.check(cookies == ["a=1", "b=2"], f"two fields of one name: {r.fields}")
        get(v.address, "/te", fields=[("TE", "gzip, trailers")])
        report.check(b.requests[1].get("te") == "trailers", f"who reads trailers says so: {b.requests[1].fields}")
        report.check(get(v.address, "/keep").body == get(v.address, "/keep").body and len(b.requests) == 3, "an object is kept")
        r = get(v.address, "/head", method="HEAD")
        report.check(r.status == 200 and r.get("content-length") == "77" and not r.body, f"HEAD: {r}")
        report.check(get(v.address, "/none").status == 204, "204 without a body")
        body = bytes(range(256)) * 4000
        r = get(v.address, "/post", method="POST", body=body)
        report.check(r.body == f"POST /post {len(body)} {sum(body)}".encode(), f"a long body goes out: {r.body}")
        with Client(v.address, LIMIT) as c:
            c.send(b"PUT /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            report.check(c.response().body == f"PUT /chunked 5 {sum(b'abcde')}".encode(), "a body in chunks goes out")
        report.check("content-length" not in dict(b.requests[-1].fields), "without a length that nobody knows")
        for path in ("/huge", "/keep/huge"):
            report.check(get(v.address, path).body == bytes(range(256)) * 20000, f"{path}: a body of many windows comes in")
        report.check(len(b.connections) == 1, f"all of it over one connection: {len(b.connections)}")
        wanted = ("HTTP/2.0", "BerespReason   OK", " reuse", " recycle")
        text = log(v, "BackendOpen,BackendClose,BerespProtocol,BerespReason", *wanted)
        report.check(has_all(*wanted)(text), f"the log: {text[:600]}")
        report.check(not b.faults, f"faults: {b.faults}")


class Held(Behaviour):
    """Answers nothing until it is told to."""

    def __init__(self, **more):
        super().__init__(**more)
        self.held, self.lock = [], threading.Lock()

    def complete(self, connection, at, own):
        with self.lock:
            self.held.append((connection, at, own))

    def let_go(self):
        with self.lock:
            held, self.held = self.held, []
        for connection, at, own in held:
            connection.answer(at, *self.reply(own.asked()))
        return len(held)


def sharing(report, program):
    """Requests at one time share a connection, as many as the origin takes; more open another one."""
    for most, connections in ((100, 1), (4, 3), (1, 12)):
        b = Held(asks={h2.MAX_CONCURRENT_STREAMS: most})
        origin, v = started(program, b)
        with origin, v, concurrent.futures.ThreadPoolExecutor(12) as pool:
            first = pool.submit(get, v.address, "/first")
            report.check(until(LIMIT, lambda: b.held), "the first request arrives")
            b.let_go()
            first.result(LIMIT)
            jobs = [pool.submit(get, v.address, f"/{n}") for n in range(12)]
            report.check(until(LIMIT, lambda: len(b.held) == 12), f"{most} streams: all 12 arrive at once: {len(b.held)}")
            report.check(len(b.connections) == connections, f"{most} streams: {len(b.connections)} connections for 12 requests")
            b.let_go()
            report.check(all(j.result(LIMIT).status == 200 for j in jobs), f"{most} streams: all are answered")
            report.check(not b.faults, f"faults: {b.faults}")
    b = Held()
    origin, v = started(program, b, args=["-p", "backend_h2_streams=3"])
    with origin, v, concurrent.futures.ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(get, v.address, f"/{n}") for n in range(6)]
        report.check(until(LIMIT, lambda: len(b.held) == 6) and len(b.connections) == 2, f"backend_h2_streams: {len(b.connections)} connections")
        b.let_go()
        report.check(all(j.result(LIMIT).status == 200 for j in jobs), "backend_h2_streams: all are answered")
    b = Behaviour()
    origin, v = started(program, b, args=["-p", "backend_idle_timeout=1"])
    with origin, v:
        get(v.address, "/x")
        report.check(until(LIMIT, lambda: b.goodbyes == ["NO_ERROR"] and not origin.open), f"an idle connection ends in order: {b.goodbyes}")
        report.check(get(v.address, "/x").status == 200, "and another one is opened")


class Refusing(Behaviour):
    """Refuses the first `count` requests in some way."""

    def __init__(self, how, count=1):
        super().__init__()
        self.how, self.left = how, count

    def complete(self, connection, at, own):
        if self.left > 0:
            self.left -= 1
            return self.how(connection, at)
        super().complete(connection, at, own)


def again(report, program):
    """A request is sent again if the origin says that it has done nothing with it, once, and else never."""
    unseen = {
        "REFUSED_STREAM": lambda c, at: c.reset(at, 7),
        "GOAWAY below it": lambda c, at: (c.goes_away(max(at - 2, 0)), c.reset(at, 7)),
        "GOAWAY and the end": lambda c, at: (c.goes_away(max(at - 2, 0)), c.ends()),
    }
    for name, how in unseen.items():
        b = Refusing(how)
        origin, v = started(program, b, vcl="import std;\nsub vcl_recv { std.cache_req_body(1MB); return (pass); }\n")
        with origin, v:
            report.check(get(v.address, "/a", method="POST", body=b"abc").status == 200, f"{name}: sent again, whatever the method")
            report.check(len(b.requests) == 2 and bytes(b.requests[1].body) == b"abc", f"{name}: {len(b.requests)} requests, the body both times")
            report.comes(lambda: counter(program, v, "MAIN.backend_retry"), 1, f"{name}: MAIN.backend_retry")
            b.left = 5
            report.check(get(v.address, "/b").status == 503 and len(b.requests) == 4, f"{name}: not for ever: {len(b.requests)}")
    seen = {
        "CANCEL": lambda c, at: c.reset(at, 8), "INTERNAL_ERROR": lambda c, at: c.reset(at, 2),
        "NO_ERROR": lambda c, at: c.reset(at, 0), "the end": lambda c, at: c.ends(),
        "GOAWAY at it and the end": lambda c, at: (c.goes_away(at), c.ends()),
    }
    for name, how in seen.items():
        b = Refusing(how)
        origin, v = started(program, b)
        with origin, v:
            r = get(v.address, "/a")
            report.check(r.status == 503 and len(b.requests) == 1, f"{name}: not sent again: {r}, {len(b.requests)} requests")
            report.check(get(v.address, "/b").status == 200, f"{name}: the next request is answered")
            text = log(v, "FetchError", "FetchError")
            report.check("HTTP/2 connection closed" in text or f"stream reset by the backend: {name}" in text, f"{name}: the log: {text}")


def drained(report, program):
    """A GOAWAY ends a connection when what it still serves is answered; later requests go elsewhere."""
    b = Held()
    origin, v = started(program, b)
    with origin, v, concurrent.futures.ThreadPoolExecutor(4) as pool:
        job = pool.submit(get, v.address, "/slow")
        report.check(until(LIMIT, lambda: b.held), "a request is under way")
        b.connections[0].goes_away((1 << 31) - 1)
        later = pool.submit(get, v.address, "/later")
        report.check(until(LIMIT, lambda: len(b.held) == 2) and b.held[1][0] is b.connections[1], "the next one has a connection of its own")
        b.let_go()
        report.check(job.result(LIMIT).status == 200 and later.result(LIMIT).status == 200, "both are answered")
        report.check(until(LIMIT, lambda: len(origin.open) == 1), "the first connection ends")


def malformed(report, program):
    """What an origin must not say ends its stream or its connection, and is never passed on."""
    def block(*fields):
        return hpack.block(fields)
    ok = (":status", "200")
    answers = {
        "no :status": lambda at: h2.headers(at, block(("x", "y"))),
        "two :status": lambda at: h2.headers(at, block(ok, ok)),
        ":status of letters": lambda at: h2.headers(at, block((":status", "2x0"))),
        ":status of four digits": lambda at: h2.headers(at, block((":status", "2000"))),
        ":status behind a field": lambda at: h2.headers(at, block(("x", "y"), ok)),
        ":path in a response": lambda at: h2.headers(at, block(ok, (":path", "/"))),
        "an uppercase field": lambda at: h2.headers(at, block(ok, ("X-Up", "y"))),
        "Connection": lambda at: h2.headers(at, block(ok, ("connection", "close"))),
        "Transfer-Encoding": lambda at: h2.headers(at, block(ok, ("transfer-encoding", "chunked"))),
        "LF in a value": lambda at: h2.headers(at, block(ok, ("x", "a\nset-cookie: b"))),
        "CR in a value": lambda at: h2.headers(at, block(ok, ("x", "a\rb"))),
        "NUL in a value": lambda at: h2.headers(at, block(ok, ("x", "a\0b"))),
        "a colon in a name": lambda at: h2.headers(at, block(ok, ("x:y", "a"))),
        "101": lambda at: h2.headers(at, block((":status", "101"))),
        "a body shorter than announced": lambda at: h2.headers(at, block(ok, ("content-length", "5")), False) + h2.frame(h2.DATA, 1, at, b"abc"),
        "a body longer than announced": lambda at: h2.headers(at, block(ok, ("content-length", "2")), False) + h2.frame(h2.DATA, 1, at, b"abc"),
        "two lengths": lambda at: h2.headers(at, block(ok, ("content-length", "3"), ("content-length", "4")), False) + h2.frame(h2.DATA, 1, at, b"abc"),
        "DATA before a head": lambda at: h2.frame(h2.DATA, 1, at, b"abc"),
        "a push": lambda at: h2.frame(5, 4, at, h2.number(2) + block((":method", "GET"), (":path", "/"))),
        "a stream that nobody opened": lambda at: h2.headers(at + 100, block(ok)),
        "HEADERS of garbage": lambda at: h2.frame(h2.HEADERS, 5, at, b"\xff\xff\xff\xff\xff"),
        "a frame too large": lambda at: h2.frame(h2.DATA, 0, at, bytes(20000)),
        "a pseudo-header field in trailers": lambda at: h2.headers(at, block(ok), False) + h2.headers(at, block((":status", "200"))),
        "HTTP/1": lambda at: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    }
    class Bad(Behaviour):
        def complete(self, connection, at, own):
            name = own.get(":path")[1:].replace("_", " ")
            if name in answers:
                connection.send(answers[name](at))
            else:
                super().complete(connection, at, own)
    b = Bad()
    origin, v = started(program, b, args=["-p", "first_byte_timeout=5"])
    with origin, v:
        for name in answers:
            # A response whose body breaks off may have begun.
            r = get(v.address, "/" + name.replace(" ", "_"))
            report.check(r.status == 503 or r.reason, f"{name}: {r}")
            report.check(get(v.address, "/good").status == 200, f"{name}: the next request is answered")


class Talking(Behaviour):
    """gRPC in small: each message (a flag, a length, octets) is answered as it comes, and the status follows the last one."""

    def __init__(self, **more):
        super().__init__(**more)
        self.rest = {}

    def head(self, connection, at, own):
        super().head(connection, at, own)
        if own.get("te") != "trailers":
            self.fault(f"te: {own.get('te')}")
        if own.get(":path") == "/refused":
            return connection.answer(at, 200, [("content-type", "application/grpc"), ("grpc-status", "7")])
        connection.answer(at, 200, [("content-type", "application/grpc")], ends=False)

    def data(self, connection, at, own, octets):
        super().data(connection, at, own, octets)
        if own.get(":path") == "/refused":
            return
        rest = self.rest.get((connection, at), b"") + octets
        while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
            length = int.from_bytes(rest[1:5], "big")
            connection.more(at, message(rest[5:5 + length].upper()))
            rest = rest[5 + length:]
        self.rest[connection, at] = rest

    def complete(self, connection, at, own):
        if own.get(":path") != "/refused":
            connection.more(at, ends=True, trailers=[("grpc-status", "0"), ("grpc-message", "fine"), ("x-sum", str(len(own.body)))])


def message(octets):
    return struct.pack(">BI", 0, len(octets)) + octets


GRPC = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(octets):
    return b"%x\r\n%s\r\n" % (len(octets), octets)


def until_has(s, got, what):
    """Reads until `what` is there."""
    while what not in got:
        octets = s.recv(65536)
        if not octets:
            break
        got += octets
    return got


def grpc(report, program):
    """Messages go both ways while the request is open, and what is behind the body arrives."""
    b = Talking()
    origin, v = started(program, b)
    with origin, v:
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(GRPC % b"/unary" + chunk(message(b"hello")) + b"0\r\n\r\n")
            got = until_has(s, b"", b"x-sum: 10\r\n\r\n")
            report.check(message(b"HELLO") in got and b"0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\nx-sum: 10\r\n\r\n" in got, f"unary: {got}")
            s.sendall(GRPC % b"/both")
            got = until_has(s, b"", b"\r\n\r\n")
            report.check(b" 200 " in got and b"grpc-status" not in got, f"the head comes before anything is sent: {got}")
            for n in range(20):
                word = b"word%d" % n
                s.sendall(chunk(message(word)))
                got = until_has(s, got, message(word.upper()))
                if not report.check(message(word.upper()) in got, f"message {n} is answered while the request is open"):
                    break
            s.sendall(b"0\r\n\r\n")
            got = until_has(s, got, b"grpc-status: 0")
            report.check(b"grpc-status: 0" in got, "the status follows the last message")
            s.sendall(GRPC % b"/refused" + b"0\r\n\r\n")
            got = until_has(s, b"", b"grpc-status: 7")
            report.check(b"grpc-status: 7" in got, f"a status without a body: {got}")
        # A client that breaks its request off ends the origin's stream, and no other one.
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(GRPC % b"/broken" + chunk(message(b"x")))
            until_has(s, b"", message(b"X"))
        report.check(until(LIMIT, lambda: "CANCEL" in b.resets), f"an upload that breaks off is a reset: {b.resets}")
        report.check(len(b.connections) == 1 and not b.faults, f"one connection: {len(b.connections)}, faults: {b.faults}")
        wanted = ("BerespHeader   grpc-status: 0", "RespHeader     grpc-status: 0")
        text = log(v, "RespHeader,BerespHeader", *wanted)
        report.check(has_all(*wanted)(text), f"the log has trailers: {text[-900:]}")
        # Without TE: trailers, and from an object that is kept, there are none.
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall((GRPC % b"/plain").replace(b"TE: trailers\r\nConnection: TE\r\n", b"Connection: close\r\n") + b"0\r\n\r\n")
            got = until_has(s, b"", b"none such")
            # Its length is known where the fetch has ended before the answer began.
            is_whole = got.endswith(b"\r\n\r\n0\r\n\r\n") or (b"Content-Length: 0\r\n" in got and got.endswith(b"\r\n\r\n"))
            report.check(is_whole and b"grpc-status" not in got, f"a client that doesn't take trailers: {got}")


class Still(Behaviour):
    """Gives no credit for what it gets, and answers with more than any window."""

    def __init__(self):
        super().__init__()
        self.quiet = True

    def data(self, connection, at, own, octets):
        if not self.quiet:
            super().data(connection, at, own, octets)


def back_pressure(report, program):
    """Who doesn't take a body holds up its sender, and nobody else."""
    b = Still()
    origin, v = started(program, b)
    with origin, v, concurrent.futures.ThreadPoolExecutor(2) as pool:
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
            s.settimeout(1.0)
            sent = 0
            try:
                while sent < 100000000:
                    sent += s.send(bytes(65536))
            except TimeoutError:
                pass
            report.check(sent < 20000000 and len(b.requests[0].body) <= h2.WINDOW, f"an upload waits for its origin: {sent} went, {len(b.requests[0].body)} arrived")
            report.check(get(v.address, "/other").status == 200 and len(b.connections) == 1, "others don't wait: they have nothing to send")
    size = 8 << 20
    b = Behaviour(lambda asked: (200, [], bytes(size) if asked.path == "/down" else b"ok", None))
    origin, v = started(program, b, vcl=PASS + "sub vcl_backend_response { set beresp.transit_buffer = 64k; }\n")
    with origin, v:
        s = h2.plain(v.address, LIMIT, rcvbuf=4096)
        with s:
            s.sendall(b"GET /down HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            left = lambda: len(b.requests[0].queue) if b.requests else size
            report.check(until(LIMIT, lambda: 0 < left() < size), "the download begins")
            report.check(all(get(v.address, f"/{n}").body == b"ok" for n in range(50)), "others go on beside a slow client")
            report.check(left() > size // 2, f"the origin waits for the client: {left()} of {size} are left")
            report.check(len(b.connections) == 1, "on the same connection")
            got, octets = 0, True
            while octets:
                octets = s.recv(1 << 20)
                got += len(octets)
            report.check(got > size, f"then all of it arrives: {got}")
            report.check(not b.faults, f"faults: {b.faults}")


class Streaming(Behaviour):
    """Answers with a beginning, and nothing more."""

    def complete(self, connection, at, own):
        if own.get(":path").startswith("/x"):
            super().complete(connection, at, own)
        elif own.get(":path").startswith("/cut"):
            connection.answer(at, 200, [], b"begun", ends=False)
            connection.reset(at, 2)
        elif own.get(":path").startswith("/early"):
            connection.send(h2.headers(at, hpack.block([(":status", "103"), ("link", "</a>")]), False))
            super().complete(connection, at, own)
        else:
            connection.answer(at, 200, [], b"begun", ends=False)


def ends(report, program):
    """A client that goes ends the stream; an origin that resets one cuts the answer; the connection stays."""
    b = Streaming()
    origin, v = started(program, b, args=["-p", "pass_abort=on"])
    with origin, v:
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(b"GET /begun HTTP/1.1\r\nHost: a\r\n\r\n")
            report.check(b"begun" in until_has(s, b"", b"begun"), "a piece goes on as it comes")
        report.check(until(LIMIT, lambda: b.resets == ["CANCEL"]), f"a client that goes ends its stream: {b.resets}")
        r = get(v.address, "/cut")
        report.check(r.status in (200, 503) and r.end != "complete" or r.status == 503, f"a reset cuts the answer: {r}")
        r = get(v.address, "/early")
        report.check(r.status == 200 and [status for status, *_ in r.interim] == [103], f"interim responses go on: {r.interim}")
        report.check(get(v.address, "/x").status == 200 and len(b.connections) == 1, "the connection stays")
        v.cli.ask("param.set first_byte_timeout 1")
        b.complete = lambda *_: None
        report.check(get(v.address, "/never").status == 503, "a silent origin is given up")
        del b.complete
        report.check(get(v.address, "/x").status == 200 and len(b.connections) == 2, f"and so is its connection: {len(b.connections)}")


def by_tls(report, program):
    """ALPN: what is offered, and what the origin's choice is good for."""
    with directory() as d:
        chosen_by_tls(report, program, Authority(d / "root"))


def chosen_by_tls(report, program, root):
    leaf = root.leaf(NAME)
    h1 = simple(lambda method, path, fields: ("", f"one {path}".encode()))
    context = lambda *alpn: (c := server_context(leaf), c.set_alpn_protocols(list(alpn)) if alpn else None)[0]
    two, either = Behaviour(), Behaviour()

    class Choosing(type(sealed(two, context()))):
        """Speaks what was chosen."""
        def __init__(self, behaviour, *alpn):
            super().__init__(lambda s: (behaviour.serve if s.selected_alpn_protocol() == "h2" else h1)(s), context(*alpn))
    both, only1, only2, none = Choosing(either, "h2", "http/1.1"), Choosing(two, "http/1.1"), Choosing(two, "h2"), Choosing(two)
    every = {}
    for letter, proto in (("h", "h2"), ("a", "auto"), ("o", "http/1.1"), ("x", "")):
        for name, origin in (("both", both), ("only1", only1), ("only2", only2), ("none", none)):
            every[f"{name}_{letter}"] = (origin, f'.proto = "{proto}";' if proto else "")
    vcl = "vcl 4.1;\n" + "".join(backend(n, o, f'.ssl = 1; .host_header = "{NAME}"; .ssl_ca_file = "{root.cert}"; {p}') for n, (o, p) in every.items())
    vcl += "sub vcl_recv {" + "".join(f' if (req.url ~ "^/{n}/") {{ set req.backend_hint = {n}; }}' for n in every) + \
        ' if (req.http.pipe) { return (pipe); } return (pass); }\n'
    # What each backend speaks with each origin; None: nothing, as they don't agree.
    wanted = {"both": dict(h=2, a=2, o=1), "only1": dict(h=None, a=1, o=1), "only2": dict(h=2, a=2, o=1), "none": dict(h=None, a=1, o=1)}
    with Varnishd(program, vcl=vcl) as v:
        for name in every:
            kind, proto = name.split("_")
            speaks = wanted[kind]["a" if proto == "x" else proto]
            r = get(v.address, f"/{name}/x")
            said = 1 if r.body.startswith(b"one ") else 2 if r.status == 200 else None
            report.check(said == speaks, f"{name}: speaks {said}, not {speaks} ({r})")
        why = "has not chosen h2"
        report.check(why in (text := log(v, "BackendSSL", why)), f"the log says why: {text[-400:]}")
        own = [own for own in either.requests if own.get(":scheme") == "https" and own.get(":authority") == "bed.test"]
        report.check(len(own) == len(either.requests) and own, "the scheme is https")
        before = len(either.requests)
        r = get(v.address, "/both_a/x", fields=[("pipe", "1"), ("Connection", "close")])
        report.check(r.body == b"one /both_a/x" and len(either.requests) == before, f"a pipe speaks HTTP/1 where it can choose: {r}, {r.body}")
        report.check(get(v.address, "/both_a/x").body == b"/both_a/x", "and nobody else does")
    for origin in (both, only1, only2, none):
        origin.close()

    class Wants1(Behaviour):
        def complete(self, connection, at, own):
            connection.reset(at, 13)
    behaviour = Wants1()
    origin = Choosing(behaviour, "h2", "http/1.1")
    more = f'.ssl = 1; .host_header = "{NAME}"; .ssl_ca_file = "{root.cert}"; .proto = "auto";'
    with origin, Varnishd(program, vcl="vcl 4.1;\n" + backend("default", origin, more) + PASS) as v:
        answers = [get(v.address, "/x") for _ in range(3)]
        report.check(all(r.body == b"one /x" for r in answers) and len(behaviour.requests) == 1, f"HTTP_1_1_REQUIRED is heeded: {[str(r) for r in answers]}")


def probes_and_pipes(report, program):
    """Probes speak what requests do; a pipe to an origin of HTTP/2 alone passes one request and its answer on."""
    probe = ' .probe = { .url = "/probe"; .interval = 0.1s; .initial = 0; .window = 3; .threshold = 2; }'
    b = Behaviour()
    origin, v = started(program, b, more='.proto = "h2";' + probe)
    with origin, v:
        health = lambda: v.cli.ask("backend.list").splitlines()[-1]
        report.check(until(LIMIT, lambda: "healthy" in health()), f"the probe finds it healthy: {health()}")
        own = next(own for own in b.requests if own.get(":path") == "/probe")
        report.check(own.get(":method") == "GET" and not b.faults, f"the probe's request: {own.fields}, {b.faults}")
        report.check(until(LIMIT, lambda: len(b.goodbyes) > 3), "each probe's connection ends in order")
        r = get(v.address, "/piped", method="POST", body=b"abc", fields=[("pipe", "1")])
        report.check(r.status == 200 and r.body == b"/piped", f"a pipe: {r}, {r.body}")
        b.reply = lambda asked: (200, [], b"x" * 70000, None)
        r = get(v.address, "/long", fields=[("pipe", "1")])
        report.check(r.whole() and len(r.body) == 70000, f"a pipe's answer without a length: {r}")
        b.reply = lambda asked: (503, [], b"", None)
        report.check(until(LIMIT, lambda: "sick" in health()), f"a bad answer makes it sick: {health()}")


def refused_vcl(report, program):
    """What contradicts itself isn't loaded."""
    with Varnishd(program, backend=("127.0.0.1", 1)) as v:
        for attributes, says in ((r".proto = \"h3\";", ".proto must be"), (r".proto = \"auto\";", "can not be used without .ssl enabled"),
                                 (r".proto = \"h2\"; .proxy_header = 1;", "can not be used with .proxy_header")):
            try:
                v.cli.ask(f'vcl.inline x "vcl 4.1; backend b {{ .host = \\"127.0.0.1\\"; {attributes} }}"'.replace('\\\\"', '\\"'))
                answer = "loaded"
            except CliError as e:
                answer = str(e)
            report.check(says in answer, f"{attributes}: {answer}")


def main():
    o = options(__doc__, group=dict(default="", help="only this one"))
    report = Report("h2_origins")
    # A server has a thread for each CPU that it may use, and a connection belongs to a thread.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    groups = [good, sharing, again, drained, malformed, grpc, back_pressure, ends, by_tls, probes_and_pipes, refused_vcl]
    for group in groups:
        if o.group in ("", group.__name__):
            group(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
