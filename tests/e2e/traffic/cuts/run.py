#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The seams between client, cache and origin: broken uploads, early answers, interim responses, answers that fail half-way,
clients that go away, and what the same connection says afterwards. Each case is one connection or two, over raw sockets.
"""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin, head
from bed.report import Report, options, until

LIMIT = 30  # seconds; ends a wait for what never comes

VCL = """vcl 4.1;
import std;
backend default {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.url ~ "late") {{ std.late_100_continue(true); }}
    if (req.url ~ "^/keep") {{
        if (!std.cache_req_body(100KB)) {{ return (synth(413)); }}
    }}
    if (req.url ~ "^/pipe") {{ return (pipe); }}
    if (req.url ~ "^/(hit|stream|miss|obj)") {{ return (hash); }}
    if (req.url ~ "^/synth") {{ return (synth(200)); }}
    if (req.url ~ "^/last") {{ return (synth(299)); }}
    return (pass);
}}
sub vcl_hit {{
    if (req.url ~ "^/obj-one") {{ set req.http.one = obj.http.name; set req.url = "/obj-two"; return (restart); }}
    if (req.url ~ "^/obj-two") {{ set req.http.two = obj.http.name; }}
}}
sub vcl_synth {{
    if (resp.status == 299) {{ set resp.http.Connection = "close"; set resp.body = "{last}"; return (deliver); }}
}}
sub vcl_backend_fetch {{
    if (bereq.url ~ "no-length") {{ unset bereq.http.content-length; }}
    if (bereq.url ~ "wrong-length") {{ set bereq.http.content-length = "3"; }}
    if (bereq.url ~ "no-body") {{ unset bereq.body; set bereq.http.content-length = "3"; }}
}}
sub vcl_backend_response {{
    if (bereq.url ~ "nostream") {{ set beresp.do_stream = false; }}
    if (bereq.url ~ "claims-less") {{ set beresp.http.content-length = "3"; }}
    if (bereq.url ~ "claims-more") {{ set beresp.http.content-length = "30"; }}
    set beresp.ttl = 60s;
}}
sub vcl_deliver {{
    if (req.url ~ "^/[a-z-]*restart" && req.restarts == 0) {{ set req.http.again = "yes"; return (restart); }}
    set resp.http.one = req.http.one;
    set resp.http.two = req.http.two;
}}
"""


LAST = "x" * 60000  # more than a client with a small window has got before it reads


class Script:
    """An origin that does what the path says, and remembers what it saw."""

    def __init__(self):
        self.seen, self.began, self.read, self.go = {}, {}, set(), threading.Event()
        self.lock = threading.Lock()

    def note(self, path, what):
        with self.lock:
            self.seen.setdefault(path, []).append(what)

    def is_asked(self, path, times=1):
        """Waits until so many requests for a path have come."""
        return until(LIMIT, lambda: self.began.get(path, 0) >= times)

    def ended(self, path, how):
        """What was noted for a path, once the last note is of that kind."""
        until(LIMIT, lambda: (self.seen.get(path) or [("",)])[-1][0] == how)
        return self.saw(path)

    def saw(self, path, count=1, limit=LIMIT):
        """What was noted for a path, once there are so many notes."""
        until(limit, lambda: len(self.seen.get(path, ())) >= count)
        with self.lock:
            return list(self.seen.get(path, []))

    def body(self, s, fields, buf, path):
        """Reads a request's body by its framing; notes how it ended."""
        got = b""
        try:
            if "transfer-encoding" in fields:
                while not buf.endswith(b"0\r\n\r\n"):
                    d = s.recv(65536)
                    if not d:
                        self.note(path, ("eof", len(buf)))
                        return None
                    buf += d
                got, buf = buf, b""
            else:
                left = int(fields.get("content-length", 0))
                while len(buf) < left:
                    d = s.recv(65536)
                    if not d:
                        self.note(path, ("eof", len(buf)))
                        return None
                    buf += d
                got, buf = buf[:left], buf[left:]
        except ConnectionError:
            self.note(path, ("reset", len(buf)))
            return None
        self.note(path, ("whole", fields.get("content-length"), fields.get("transfer-encoding"), got, buf))
        return buf

    def wait_for_reader(self, path):
        """Until the client says that it has read the beginning of the response."""
        until(LIMIT, lambda: path in self.read)

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            word = path.split("?")[0].strip("/")
            if "interim" in word:
                s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
            with self.lock:
                self.began[path] = self.began.get(path, 0) + 1
            if "early" in word:
                s.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlong")
                # Neither reads nor closes.
                self.go.wait(LIMIT * 4)
                return
            buf = self.body(s, fields, buf, path)
            if buf is None:
                return
            if "half-chunked" in word:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
                self.wait_for_reader(path)
                return
            if "half-length" in word:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
                self.wait_for_reader(path)
                return
            if "endless" in word:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                sent, piece = 0, b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
                s.settimeout(2)
                try:
                    while sent < 400 << 20:
                        s.sendall(piece)
                        sent += 0x4000
                    self.note(path, ("sent", sent))
                except TimeoutError:
                    self.note(path, ("stuck", sent))
                    s.settimeout(LIMIT)
                    try:
                        s.sendall(piece * 100)
                        self.note(path, ("unstuck", sent))
                    except OSError:
                        self.note(path, ("cut", sent))
                except OSError:
                    self.note(path, ("cut", sent))
                return
            if "silent" in word:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
                s.settimeout(LIMIT)
                try:
                    self.note(path, ("closed", s.recv(1)))
                except TimeoutError:
                    self.note(path, ("still open", None))
                except OSError:
                    self.note(path, ("closed", None))
                return
            if "reset" in word:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if "refuse" in word:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                return
            size = 3 << 20 if "big" in word else 5
            s.sendall(f"HTTP/1.1 200 OK\r\nName: {word}\r\nContent-Length: {size}\r\n\r\n".encode() + b"y" * size)


def reset(sock):
    """Closes with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def post(path, length=None, chunked=False, extra="", version="1.1"):
    framing = "Transfer-Encoding: chunked\r\n" if chunked else "" if length is None else f"Content-Length: {length}\r\n"
    return f"POST {path} HTTP/{version}\r\nHost: bed.test\r\n{framing}{extra}\r\n".encode()


class Cases:
    def __init__(self, report, v, script):
        self.r, self.v, self.script = report, v, script

    def client(self, **kw):
        return Client(self.v.address, LIMIT, **kw)

    def alive(self, c, why):
        """The connection answers another request, and that one only."""
        c.send(b"GET /synth-alive HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        r = c.response()
        self.r.check(r.whole(), f"{why}: the next request on the connection gives {r} {r.reason}")

    def counter(self, name):
        """A gauge from the worker: read by Debian's varnishstat."""
        out = subprocess.run(["varnishstat", "-n", str(self.v.n), "-1", "-j", "-f", name], capture_output=True, text=True).stdout
        return json.loads(out)["counters"][name]["value"]

    # -- uploads

    def upload_cut(self):
        for path, chunked in (("/cut-length", False), ("/cut-chunked", True)):
            with self.client() as c:
                c.send(post(path, 1000, chunked) + (b"3\r\nabc\r\n" if chunked else b"abc"))
                self.r.check(self.script.is_asked(path), f"{path}: the origin is asked before the body is whole")
            saw = self.script.saw(path)
            self.r.check(saw and saw[0][0] == "reset", f"{path}: a cut upload must reset the origin's connection: {saw}")

    def upload_broken(self):
        path = "/broken-chunked"
        with self.client() as c:
            # More than is looked at before the request goes on.
            c.send(post(path, None, True) + b"40000\r\n" + b"x" * 0x40000 + b"\r\nzzz\r\nGET /synth-smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
            first = c.response()
            self.r.check(first.status in (400, 503, 0), f"{path}: {first}")
            self.r.check(c.closed(LIMIT), f"{path}: the connection must close")
        saw = self.script.saw(path)
        self.r.check(saw and saw[0][0] == "reset", f"{path}: a broken upload must reset the origin's connection: {saw}")

    def upload_left_by_a_gone_fetch(self):
        # The fetch fails while the client still sends: what is unread is no request.
        for path in ("/early-unread", "/early-unread-2"):
            inner = b"GET /synth-smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
            body = inner * 20000
            with self.client() as c:
                c.send(post(path, len(body)))
                sender = threading.Thread(target=self.push, args=(c, body), daemon=True)
                sender.start()
                # The origin never reads the body, so one that waited for it would answer after the client's limit.
                r = c.response()
                self.r.check(r.whole(413), f"{path}: early answer: {r}")
                sender.join(LIMIT)
                self.alive_or_closed(c, path)

    def early_then_small_rest(self):
        path = "/early-rest"
        with self.client() as c:
            c.send(post(path, 41) + b"x")
            r = c.response()
            self.r.check(r.whole(413), f"{path}: {r}")
            try:
                c.send(b"GET /synth-smuggled HTTP/1.1\r\nHost: a\r\n\r\n"[:40])
            except OSError:
                pass
            self.alive_or_closed(c, path)

    def push(self, c, body):
        try:
            c.send(body)
        except OSError:
            pass

    def alive_or_closed(self, c, path):
        after = f"/synth-alive-after{path}"
        try:
            c.send(f"GET {after} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
        except OSError:
            self.r.check(True, path)
            return
        r = c.response()
        if r.end == "none":
            self.r.check(True, path)
            return
        self.r.check(r.whole() and not c.buf, f"{path}: after it {r} and {c.buf[:60]!r}")
        # A smuggled request is logged before the one that followed it.
        urls = until(LIMIT, lambda: (text := self.urls()) and after in text and text)
        self.r.check(urls and "smuggled" not in urls, f"{path}: a request's body was taken for a request: {urls}")

    def urls(self):
        return subprocess.run(["varnishlog", "-n", str(self.v.n), "-d", "-c", "-i", "ReqURL"], capture_output=True, text=True).stdout

    def interim_while_uploading(self):
        path = "/interim-upload"
        for times, chunked in ((1, False), (2, True)):
            with self.client() as c:
                c.send(post(path, 6, chunked) + (b"3\r\nabc\r\n" if chunked else b"abc"))
                self.script.is_asked(path, times)
                c.send(b"3\r\ndef\r\n0\r\n\r\n" if chunked else b"def")
                r = c.response()
                self.r.check(r.whole(), f"{path}: {r}")
                self.alive(c, path)
        saw = self.script.saw(path)
        self.r.check(len(saw) == 2 and all(w[0] == "whole" for w in saw), f"{path}: the origin got {saw}")

    def framing_is_the_truth(self):
        for path in ("/no-length", "/wrong-length", "/keep-no-length", "/keep-wrong-length"):
            with self.client() as c:
                c.send(post(path, 6) + b"abcdef")
                r = c.response()
                self.r.check(r.whole(), f"{path}: {r}")
            saw = self.script.saw(path)
            ok = saw and saw[0][0] == "whole" and b"abcdef" in saw[0][3] and saw[0][4] == b""
            self.r.check(ok, f"{path}: the origin must get the whole body and no more: {saw}")
        path = "/no-body"
        with self.client() as c:
            c.send(post(path, 6) + b"abcdef")
            r = c.response()
            self.r.check(r.whole(), f"{path}: {r}")
        path = "/keep-chunked"
        with self.client() as c:
            c.send(post(path, None, True) + b"6\r\nabcdef\r\n0\r\n\r\n")
            r = c.response()
            self.r.check(r.whole(), f"{path}: {r}")
        saw = self.script.saw(path)
        self.r.check(saw and saw[0][1:] == ("6", None, b"abcdef", b""), f"{path}: {saw}")

    def body_after_restart(self):
        path = "/restart-lent"
        with self.client() as c:
            c.send(post(path, 6) + b"abcdef")
            r = c.response()
            self.r.check(r.status == 503, f"{path}: a body that is gone can't be sent again: {r}")
        bodies = [w[3] for w in self.script.saw(path) if w[0] == "whole"]
        self.r.check(bodies == [b"abcdef"], f"{path}: the origin got {bodies}")
        path = "/keep-restart"
        with self.client() as c:
            c.send(post(path, 6) + b"abcdef")
            r = c.response()
            self.r.check(r.status == 413 or r.whole(), f"{path}: {r}")

    def too_large_to_keep(self):
        with self.client() as c:
            c.send(post("/keep-large", 200000) + b"x" * 200000)
            r = c.response()
            self.r.check(r.end in ("none", "complete"), f"/keep-large: {r}")

    def expectations(self):
        for path in ("/expect", "/late-expect", "/keep-expect", "/late-keep-expect", "/interim-expect"):
            with self.client() as c:
                c.send(post(path, 6, extra="Expect: 100-continue\r\n"))
                first = c.sock.recv(1000)
                self.r.check(first.startswith(b"HTTP/1.1 100 "), f"{path}: {first[:60]!r}")
                c.buf += first.partition(b"\r\n\r\n")[2]
                c.send(b"abcdef")
                r = c.response()
                self.r.check(r.whole() and not [i for i in r.interim if i[0] == 100], f"{path}: {r} {r.interim}")
                self.alive(c, path)
        path = "/expect-with-body"
        with self.client() as c:
            c.send(post(path, 6, extra="Expect: 100-continue\r\n") + b"abcdef")
            r = c.response()
            self.r.check(r.whole(), f"{path}: {r}")
            self.alive(c, path)
        with self.client() as c:
            c.request("/hit-late")
        with self.client() as c:
            c.send(post("/hit-late", 6, extra="Expect: 100-continue\r\n"))
            interim = c.sock.recv(25)
            c.send(b"abcdef")
            r = c.response()
            self.r.check(interim.startswith(b"HTTP/1.1 100 ") and r.whole(), f"/hit-late: asked for its body, the client goes on: {interim} {r}")
            self.alive(c, "/hit-late")

    def no_body_at_all(self):
        for lines in ("POST /zero HTTP/1.1\r\nContent-Length: 0\r\n", "GET /get-body HTTP/1.1\r\nContent-Length: 3\r\n",
                      "GET /hit-body HTTP/1.1\r\nContent-Length: 3\r\n",
                      "POST /zero-chunked HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"):
            with self.client() as c:
                body = b"0\r\n\r\n" if "chunked" in lines else b"" if ": 0" in lines else b"abc"
                for _ in range(2):
                    c.send(lines.encode() + b"Host: a\r\n\r\n" + body)
                    r = c.response("HEAD" if lines.startswith("HEAD") else "GET")
                    self.r.check(r.whole(), f"{lines.splitlines()[0]}: {r}")
                self.alive(c, lines.splitlines()[0])

    # -- answers that fail half-way

    def failing_answers(self):
        for kind in ("half-chunked", "half-length"):
            for where in ("", "miss-"):
                path = f"/{where}{kind}"
                for version in ("1.0", "1.1"):
                    with self.client() as c:
                        asked = f"{path}?{version}"
                        c.send(f"GET {asked} HTTP/{version}\r\nHost: a\r\n\r\n".encode())
                        while b"hello" not in c.buf and c._more():
                            pass
                        self.script.read.add(asked)
                        told = self.tell(c)
                        self.r.check(told, f"{path} HTTP/{version}: the client must be able to tell: {c.buf[-80:]!r}")

    def tell(self, c):
        """Whether a client can tell that the answer isn't whole."""
        try:
            while c._more():
                pass
        except ConnectionError:
            return True
        top, _, body = c.buf.partition(b"\r\n\r\n")
        if b"chunked" in top:
            return not body.endswith(b"0\r\n\r\n")
        for line in top.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                return len(body) < int(line.split(b":")[1])
        return False

    def lengths_that_lie(self):
        for path in ("/claims-less", "/claims-more", "/stream-claims-less", "/stream-claims-more"):
            with self.client() as c:
                c.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\nGET /synth-alive HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                r = c.response()
                if r.end == "complete":
                    after = c.response()
                    self.r.check(after.end in ("none", "complete"), f"{path}: {r} {r.body} and then {after} {after.reason}")
                else:
                    self.r.check(r.end == "truncated", f"{path}: {r} {r.reason}")

    def not_streamed_and_big(self):
        with self.client() as c:
            r = c.request("/nostream-big")
            self.r.check(r.whole() and r.length == 3 << 20, f"/nostream-big: {r}")

    # -- clients that go away

    def gone_clients(self):
        for path, close in (("/endless-gone", True), ("/endless-reset", False)):
            c = self.client(rcvbuf=4096)
            c.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            c.sock.recv(1000)
            c.close() if close else reset(c.sock)
            saw = self.script.ended(path, "cut")
            self.r.check(saw and saw[-1][0] == "cut", f"{path}: the origin's connection must be cut: {saw}")

    def slow_client(self):
        path = "/endless-slow"
        c = self.client(rcvbuf=4096)
        c.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        c.sock.recv(100)
        saw = self.script.saw(path, 2)
        self.r.check(len(saw) > 1 and saw[1][0] == "stuck" and saw[1][1] < 50 << 20, f"{path}: a slow client must slow the origin: {saw}")
        c.close()
        saw = self.script.ended(path, "cut")
        self.r.check(saw[-1][0] == "cut", f"{path}: then it goes away: {saw}")

    def rates(self):
        """Trickles below the least rates, both ways at once. Returns after how many seconds that of the body ended."""
        before = [self.counter(n) for n in ("MAIN.recv_rate_low", "MAIN.send_rate_low")]
        self.v.cli.ask("param.set min_recv_rate 1k")
        self.v.cli.ask("param.set min_send_rate 1m")
        try:
            with self.client() as up, self.client(rcvbuf=4096) as down:
                up.send(post("/trickle", 100000))
                down.send(b"GET /endless-trickle HTTP/1.1\r\nHost: a\r\n\r\n")
                begin = time.monotonic()
                try:
                    while time.monotonic() - begin < LIMIT and self.counter("MAIN.recv_rate_low") == before[0]:
                        up.send(b"x")
                        down.sock.recv(1000)
                        time.sleep(0.1)
                except OSError:
                    pass
                took = time.monotonic() - begin
                self.r.check(took < LIMIT, f"a trickle of a body ends: {took:.1f} s")
                gone = until(LIMIT, lambda: self.counter("MAIN.send_rate_low") > before[1])
                self.r.check(gone, "and a trickle of reading too")
        finally:
            self.v.cli.ask("param.set min_recv_rate 0")
            self.v.cli.ask("param.set min_send_rate 0")
        return took

    # -- pipes and pipelines

    def pipelined(self):
        with self.client() as c:
            c.send(b"GET /synth-a HTTP/1.1\r\nHost: a\r\n\r\n" * 5 + post("/big-upload", 6) + b"abcdef" +
                   b"GET /synth-z HTTP/1.1\r\nHost: a\r\n\r\n")
            got = [c.response() for _ in range(7)]
            self.r.check(all(r.whole() for r in got), f"pipelined: {[str(r) for r in got]}")
        with self.client() as c:
            c.send(b"GET /synth-a HTTP/1.1\r\nHost: a\r\n\r\n" * 3 + b"GET /pipe-refuse HTTP/1.1\r\nHost: a\r\n\r\n")
            got = [c.response() for _ in range(4)]
            self.r.check(all(r.whole() for r in got), f"pipelined, then a pipe: {[str(r) for r in got]}")

    def last_answers(self):
        """A client that goes on sending after the last answer of its connection, and reads only then, gets all of it."""
        self.v.cli.ask("param.set timeout_idle 60")
        try:
            with self.client() as c:
                c.send(post("/last-upload", 1000))
                r = c.response()
                self.r.check(r.whole(299), f"the last answer doesn't wait for the body: {r}")
        finally:
            self.v.cli.ask("param.reset timeout_idle")
        size = 24 << 20
        for what, begin, rest in (
                ("an upload", b"", post("/last-upload", size) + b"y" * size),
                ("requests", b"GET /last-of-many HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /more HTTP/1.1\r\nHost: a\r\n\r\n" * 20000)):
            with Client(self.v.address, LIMIT, rcvbuf=16384) as c:
                if begin:
                    c.send(begin)
                    c.sock.recv(1, socket.MSG_PEEK)
                try:
                    c.send(rest)
                    r = c.response()
                    self.r.check(r.whole(299) and r.length == len(LAST), f"the last answer beside {what}: {r}")
                    self.r.check(c.closed(LIMIT), f"after the last answer beside {what} the connection ends")
                except OSError as e:
                    self.r.check(False, f"the last answer beside {what}: {e}")

    def pipe_ends(self):
        path = "/pipe-silent"
        c = self.client()
        c.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        c.sock.recv(1000)
        reset(c.sock)
        saw = self.script.saw(path, 2)
        self.r.check(saw and saw[-1][0] == "closed", f"{path}: a reset client must end the pipe: {saw}")
        gone = until(LIMIT, lambda: self.counter("MAIN.n_pipe") == 0)
        self.r.check(gone, "pipes are counted down")

    # -- state of a request over restarts

    def objects_over_restarts(self):
        for path in ("/obj-one", "/obj-two"):
            with self.client() as c:
                c.request(path)
        with self.client() as c:
            r = c.request("/obj-one")
            self.r.check((r.get("one"), r.get("two")) == ("obj-one", "obj-two"),
                         f"obj after a restart is the new object: {r.get('one')} {r.get('two')}")

    def nothing_is_left(self):
        """When all clients are gone, so is every fetch."""
        self.script.go.set()
        names = ("VBE.boot.default.conn",)
        for name in names:
            left = until(LIMIT, lambda: self.counter(name) == 0)
            self.r.check(left, f"{name} is {self.counter(name)} when nobody asks any more")


def main():
    o = options(__doc__, (
        Cases.upload_cut, Cases.upload_broken, Cases.upload_left_by_a_gone_fetch, Cases.early_then_small_rest, Cases.interim_while_uploading,
        Cases.framing_is_the_truth, Cases.body_after_restart, Cases.too_large_to_keep, Cases.expectations, Cases.no_body_at_all,
        Cases.failing_answers, Cases.lengths_that_lie, Cases.not_streamed_and_big, Cases.gone_clients, Cases.slow_client, Cases.rates,
        Cases.pipelined, Cases.last_answers, Cases.pipe_ends, Cases.objects_over_restarts, Cases.nothing_is_left))
    report, script = Report("cuts"), Script()
    with Origin(script.serve) as origin:
        host, port = origin.address
        with Varnishd(o.varnishd, ["-p", "feature=+http2"], vcl=VCL.format(host=host, port=port, last=LAST)) as v:
            worker = v.worker()
            report.run(o.cases, Cases(report, v, script))
            report.check(v.worker() == worker, f"the worker died\n{v.log()}")
            script.go.set()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
