#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ESI at its limits: random trees of pages, plain and gzip, delivered and passed, must come out as the texts they stand for;
include loops, ten thousand includes, fragments without end, fragments that break, clients that go away half-way.
"""
import concurrent.futures
import gzip
import pathlib
import random
import socket
import sys
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, pss
from bed.http import Client
from bed.origin import Origin, head
from bed.report import Report, options, until

LIMIT = 30  # seconds; ends a wait for what never comes
NO_TAGS = bytes(n | 0x80 for n in range(256))
GZIP = [("Accept-Encoding", "gzip")]
PLAIN = []

VCL = """vcl 4.1;
backend default {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.url ~ "pass=1") {{ return (pass); }}
    return (hash);
}}
sub vcl_backend_response {{
    set beresp.do_esi = bereq.url !~ "esi=0";
    set beresp.do_gzip = bereq.url ~ "gz=1";
    set beresp.do_gunzip = bereq.url ~ "gunz=1";
    if (bereq.url ~ "stream=0") {{ set beresp.do_stream = false; }}
    if (bereq.url ~ "hfm=1") {{ set beresp.uncacheable = true; }}
    set beresp.ttl = 60s;
}}
"""


class Site:
    """Pages by path: what the origin sends and what a client should get."""

    def __init__(self, seed):
        self.random, self.pages, self.texts, self.count = random.Random(seed), {}, {}, 0
        self.asked, self.go, self.gone = [], threading.Event(), threading.Event()
        self.lost = set()
        self.at_once, self.most, self.lock, self.gave_up = 0, 0, threading.Condition(), False

    def words(self):
        r = self.random
        kind = r.randrange(6)
        if kind == 0:
            return b""
        if kind == 1:
            return bytes(r.choice(b"abcdef \n") for _ in range(r.randrange(1, 40)))
        if kind == 2:
            return b"<p>" + b"the same again " * r.randrange(1, 3000) + b"</p>"
        if kind == 3:
            # Nothing to compress, no '<'.
            return r.randbytes(r.randrange(1, 30000)).translate(NO_TAGS)
        if kind == 4:
            return b"x" * r.choice((1, 2, 5, 65534, 65535, 65536, 70000))
        return b"<br/>"

    def page(self, depth):
        """Makes a page; gives its path and its text."""
        r, source, text = self.random, b"<a>", b"<a>"
        for _ in range(r.randrange(1, 7)):
            w = self.words()
            source, text = source + w, text + w
            kind = r.randrange(8)
            if kind == 0:
                source += b"<esi:remove>" + self.words() + b"</esi:remove>"
            elif kind == 1:
                source += b'<esi:comment text="hidden"/>'
            elif kind == 2:
                w = self.words()
                source, text = source + b"<!--esi " + w + b"-->", text + b" " + w
            elif kind <= 5 and depth > 0:
                path, inner = self.page(depth - 1)
                source, text = source + b'<esi:include src="' + path.encode().replace(b"&", b"&amp;") + b'"/>', text + inner
        self.count += 1
        flags = [w for w in ("gz=1", "gunz=1", "pass=1", "hfm=1", "stream=0", "origin=gzip", "origin=chunked") if r.random() < 0.25]
        if b"<esi:" not in source and b"<!--esi" not in source and r.random() < 0.7:
            flags.append("esi=0")
        path = f"/r/{self.count}?" + "&".join(flags)
        self.pages[path], self.texts[path] = source, text
        return path, text

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        while got := head(s, buf):
            _, path, fields, buf = got
            self.asked.append(path)
            if not self.special(s, path):
                self.answer(s, path, self.pages.get(path, b"nothing here"))

    def answer(self, s, path, body):
        extra = b""
        if "origin=gzip" in path:
            body, extra = gzip.compress(body, len(body) % 10), b"Content-Encoding: gzip\r\n"
        if "origin=chunked" in path:
            s.sendall(b"HTTP/1.1 200 OK\r\n" + extra + b"Transfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 7000):
                part = body[at:at + 7000]
                s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            s.sendall(b"0\r\n\r\n")
        else:
            s.sendall(b"HTTP/1.1 200 OK\r\n" + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def gate(self, want):
        """Holds a fetch until `want` are under way; if they never are, gives up for good. Remembers the most there were."""
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.lock.notify_all()
            self.gave_up = not self.lock.wait_for(lambda: self.most >= want or self.gave_up, LIMIT / 2) or self.gave_up
        # One more than `want` would come meanwhile.
        time.sleep(0.02)
        with self.lock:
            self.at_once -= 1

    def special(self, s, path):
        word = path.split("?")[0]
        if word == "/silent":
            self.go.set()
            s.settimeout(LIMIT)
            # The cache has nothing more to say: this ends when it closes.
            if not s.recv(1):
                self.lost.add(path)
            raise OSError("client gone")
        if word.startswith("/gate/"):
            self.gate(int(word.split("/")[2]))
            return False
        if word == "/endless":
            coding = b"Content-Encoding: gzip\r\n" if "origin=gzip" in path else b""
            s.sendall(b"HTTP/1.1 200 OK\r\n" + coding + b"Transfer-Encoding: chunked\r\n\r\n")
            pack = zlib.compressobj(1, zlib.DEFLATED, 31) if coding else None
            try:
                while True:
                    part = random.randbytes(20000)
                    part = pack.compress(part) + pack.flush(zlib.Z_SYNC_FLUSH) if pack else part
                    s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            except OSError:
                self.gone.set()
                raise
        if word == "/broken":
            body = gzip.compress(b"good so far " * 10000, 0) if "origin=gzip" in path else b"good so far " * 10000
            coding = b"Content-Encoding: gzip\r\n" if "origin=gzip" in path else b""
            s.sendall(b"HTTP/1.1 200 OK\r\n" + coding + b"Content-Length: %d\r\n\r\n" % len(body) + body[:len(body) // 2])
            # Not before its page has begun to take it: what fails at once is an error page.
            self.go.wait(0.2)
            raise OSError("broken off")
        return False


def text_of(response):
    """The body unpacked; None when it isn't sound gzip."""
    if response.get("Content-Encoding") != "gzip":
        return response.body
    unpack = zlib.decompressobj(31)
    try:
        text = unpack.decompress(response.body)
    except zlib.error:
        return None
    return text if unpack.eof and not unpack.unused_data else None


def together(work, jobs):
    """Does `work(job)` for all jobs, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, jobs))


class Cases:
    def __init__(self, report, v, site, full):
        self.includes = 10000
        self.r, self.v, self.site, self.full, self.rounds = report, v, site, full, 2000 if full else 40

    def get(self, path, fields=(), **more):
        with Client(self.v.address, LIMIT, **more) as c:
            return c.request(path, fields)

    def add(self, path, source):
        self.site.pages[path] = source

    # -- what comes out

    def random_pages(self):
        """Each page four times: fetched and from the cache, packed and not."""
        for i in range(self.rounds):
            path, text = self.site.page(3)
            with Client(self.v.address, LIMIT) as c:
                for fields in random.Random(i).choice(((GZIP, PLAIN, GZIP, PLAIN), (PLAIN, GZIP, PLAIN, GZIP))):
                    r = c.request(path, fields)
                    ok = r.whole() and text_of(r) == text
                    if not self.r.check(ok, f"{path} {fields}: {r}, want {len(text)} octets of text: {self.site.pages[path][:300]!r}"):
                        return

    def at_once(self):
        """Many clients for one tree: everything is waited for together."""
        path, text = self.site.page(3)
        got = []

        def one(n):
            r = self.get(path, GZIP if n % 2 else PLAIN)
            got.append(r.whole() and text_of(r) == text)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(30)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.r.check(got.count(True) == 30, f"30 clients at once: {got.count(True)} got the page")

    # -- limits

    def loops(self):
        for coding in ("", "?gz=1"):
            me = f"/loop{coding}"
            self.add(me, f'<a><esi:include src="{me}"/></a>'.encode())
            for fields in (PLAIN, GZIP):
                r = self.get(me, fields)
                self.r.check(r.whole() and text_of(r) == b"<a>" * 6 + b"</a>" * 6, f"{me}: a page that includes itself: {r}")

    def depth(self):
        """The deepest nesting there is: no stack may end before."""
        self.v.cli.ask("param.set max_esi_depth 100000")
        for coding in ("", "?gz=1", "?pass=1"):
            me = f"/deep{coding}"
            self.add(me, f'<a><esi:include src="{me}"/></a>'.encode())
            for fields in (PLAIN, GZIP):
                r = self.get(me, fields)
                n = (text_of(r) or b"").count(b"<a>")
                self.r.check(r.whole() and n == 65, f"{me}: {r}, {n} levels")
        self.v.cli.ask("param.set max_esi_depth 0")
        self.add("/flat", b'<a><esi:include src="/one"/></a>')
        self.r.check(self.get("/flat").body == b"<a></a>", "max_esi_depth 0 includes nothing")
        self.v.cli.ask("param.reset max_esi_depth")

    def many(self):
        self.add("/one", b"one")
        for coding in ("", "?gz=1"):
            for fields in (PLAIN, GZIP):
                # In the short form all ten thousand where page and client are of one kind.
                n = self.includes if self.full or bool(coding) == bool(fields) else 1000
                path = f"/many/{n}{coding}"
                self.add(path, b"<a>" + b'-<esi:include src="/one"/>' * n)
                r = self.get(path, fields)
                self.r.check(r.whole() and text_of(r) == b"<a>" + b"-one" * n, f"{n} includes: {r}")

    # -- fragments that go wrong

    def broken(self):
        def one(asked):
            page, fields = asked
            r = self.get(page, fields)
            text = text_of(r)
            # A fragment cut in the middle of its gzip blocks can't be left; then the client sees a cut page.
            sound = r.end == "truncated" or (r.whole() and text is not None and text.endswith(b" end</x>"))
            self.r.check(sound and r.body, f"{page} {fields}: {r}")

        asked = []
        for kind in ("", "origin=gzip", "origin=gzip&pass=1", "pass=1", "stream=0", "origin=gzip&stream=0"):
            for coding in ("", "gz=1"):
                page = f"/with-broken?{coding}&{kind}"
                self.add(page, f'<x>begin <esi:include src="/broken?esi=0&amp;{kind}"/> end</x>'.encode())
                asked += [(page, fields) for fields in (PLAIN, GZIP)]
        together(one, asked)
        self.alive()

    def onerror(self):
        def one(asked):
            page, fields, end = asked
            r = self.get(page, fields)
            self.r.check(r.end == end, f"{page} {fields}: {r}, want {end}")

        self.v.cli.ask("param.set feature +esi_include_onerror")
        asked = []
        for coding in ("", "gz=1"):
            for word, end in (("", "truncated"), (' onerror="continue"', "complete")):
                page = f"/onerror?{coding}&{len(word)}"
                self.add(page, f'<x>begin <esi:include src="/broken?esi=0&amp;{coding}"{word}/> end</x>'.encode())
                asked += [(page, fields, end) for fields in (PLAIN, GZIP)]
        together(one, asked)
        self.v.cli.ask("param.set feature -esi_include_onerror")

    def endless(self):
        """A fragment without end, a client that goes: the fetch of a pass goes too."""
        for kind in ("", "&origin=gzip"):
            for fields in (PLAIN, GZIP):
                page = f"/with-endless?gz=1{kind}"
                self.site.gone.clear()
                self.add(page, f'<x>begin <esi:include src="/endless?pass=1&amp;esi=0{kind.replace("&", "&amp;")}"/> end</x>'.encode())
                with Client(self.v.address, LIMIT) as c:
                    lines = "".join(f"{n}: {v}\r\n" for n, v in fields)
                    c.send(f"GET {page} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
                    seen = 0
                    while seen < 3_000_000 and (d := c.sock.recv(65536)):
                        seen += len(d)
                self.r.check(seen >= 3_000_000, f"{page} {fields}: a fragment streams into its page: {seen} octets")
                self.r.check(self.site.gone.wait(LIMIT), f"{page} {fields}: the fetch ends when its client is gone")

    def parallel(self):
        """As many fetches at once as the parameter says, and not one more; in the page's order; nested ones counted."""
        # All fetches of a round wait for each other: in the short form few rounds.
        for n, nested in ((1, False), (4, False), (12, False), (4, True), (12, True)) if self.full else ((1, False), (4, True), (12, True)):
            self.v.cli.ask(f"param.set esi_parallel {n}")
            for coding in ("", "&gz=1"):
                key = f"{n}{nested}{coding}"
                parts = []
                for i in range(24):
                    inner = f"/gate/{n}/{key}/{i}?pass=1{coding}"
                    self.add(inner, f"<b>{i}</b>".encode())
                    if nested and i % 4 == 0:
                        wrap = f"/wrap/{key}/{i}?x=1{coding}"
                        leaves = [f"/gate/{n}/{key}/{i}/{j}?pass=1{coding}" for j in range(3)]
                        for j, leaf in enumerate(leaves):
                            self.add(leaf, f"<c>{j}</c>".encode())
                        self.add(wrap, ("<w>" + "".join(self.include(leaf) for leaf in leaves) + "</w>").encode())
                        inner = wrap
                    parts.append(inner)
                page = f"/parallel/{key}?x=1{coding}"
                self.add(page, ("<p>" + "".join("text " + self.include(part) for part in parts) + "</p>").encode())
                leaf = "<w><c>0</c><c>1</c><c>2</c></w>"
                text = "<p>" + "".join("text " + (leaf if nested and i % 4 == 0 else f"<b>{i}</b>") for i in range(24)) + "</p>"
                for fields in (PLAIN, GZIP):
                    self.site.most = 0
                    r = self.get(page, fields)
                    self.r.check(r.whole() and text_of(r) == text.encode(), f"{page} {fields}: {r} {text_of(r)}")
                    self.r.check(self.site.most == n, f"{page} {fields}: {self.site.most} fetches at once, want {n}")
        self.v.cli.ask("param.set esi_parallel 8")

    @staticmethod
    def include(path):
        return f'<esi:include src="{path.replace("&", "&amp;")}"/>'

    def parallel_again(self):
        """Everything above, with fragments that run ahead."""
        self.v.cli.ask("param.set esi_parallel 5")
        if not self.full:
            self.rounds, self.includes = self.rounds // 2, 3000
        for case in (self.random_pages, self.at_once, self.loops, self.depth, self.many, self.broken, self.onerror, self.endless,
                     self.gone_clients, self.alive):
            case()
        self.v.cli.ask("param.set esi_parallel 1")

    def bounded(self):
        """Endless fragments whose turn doesn't come: each is held up at the origin."""
        self.v.cli.ask("param.set esi_parallel 12")
        self.site.go.clear()
        page = "/held-up?pass=1"
        endless = "".join(self.include(f"/endless?pass=1&esi=0&n={n}") for n in range(20))
        self.add(page, f'<a>{self.include("/silent?pass=1")}{endless}'.encode())
        before = pss([self.v.worker()])
        with Client(self.v.address, LIMIT) as c:
            c.send(f"GET {page} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            self.site.go.wait(LIMIT)
            grown = [0]

            def settled():
                grown.append(pss([self.v.worker()]) - before)
                time.sleep(0.1)
                return len(grown) > 10 and max(grown[-5:]) - min(grown[-5:]) < 100_000
            self.r.check(until(LIMIT, settled), f"the fragments stop: {grown[-10:]}")
            self.r.check(grown[-1] < 30_000_000, f"11 fragments held up take {grown[-1]} octets")
        self.v.cli.ask("param.set esi_parallel 1")

    def silent(self):
        """An origin that says nothing, a client that goes: the fetch of a pass is given up at once, that of a miss is not."""
        self.v.cli.ask("param.set pass_abort on")
        for n in (1, 4):
            self.v.cli.ask(f"param.set esi_parallel {n}")
            inner = f"/silent?pass=1&n={n}"
            page = f"/with-silent/{n}"
            self.add(page, f"<a>{self.include(inner)}".encode())
            self.leave(f"/silent?pass=1&alone={n}", True, "a pass")
            self.leave(page, True, f"a passed fragment, esi_parallel {n}", inner)
        self.v.cli.ask("param.set esi_parallel 1")
        self.leave("/silent?once=1", False, "a miss")
        self.leave("/silent?pass=1&posted", False, "a POST", method="POST")
        self.v.cli.ask("param.set pass_abort off")
        self.leave("/silent?pass=1&off", False, "a pass with pass_abort off")

    def leave(self, page, ends, what, asked=None, method="GET"):
        """A client that asks for `page` and goes; whether the fetch of `asked` (or of the page) ends, too."""
        self.site.go.clear()
        with Client(self.v.address, LIMIT) as c:
            c.send(f"{method} {page} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            self.r.check(self.site.go.wait(LIMIT), f"{what}: it was asked for")
        ended = until(LIMIT if ends else 0.5, lambda: (asked or page) in self.site.lost)
        self.r.check(ended == ends, f"{what}: the fetch {'ends' if ends else 'goes on'} when its client goes")

    def gone_clients(self):
        """A client that goes while the page is being put together: no more fragments are asked for."""
        self.add("/long", b"<a>" + b"".join(b'%s<esi:include src="/r%d?pass=1"/>' % (b"x" * 30000, n) for n in range(2000)))
        begin = len(self.site.asked)
        with Client(self.v.address, LIMIT, rcvbuf=4096) as c:
            c.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
            c.sock.recv(1000)
        stopped = until(LIMIT, lambda: self.settled())
        self.r.check(stopped and len(self.site.asked) - begin < 1900,
                     f"{len(self.site.asked) - begin} of 2000 fragments asked for after the client went")

    def settled(self):
        before = len(self.site.asked)
        time.sleep(0.2)
        return len(self.site.asked) == before

    def alive(self):
        self.add("/alive", b'<a><esi:include src="/one"/></a>')
        self.add("/one", b"one")
        self.r.check(self.get("/alive").body == b"<a>one</a>", "the server still serves")


def main():
    names = (Cases.random_pages, Cases.at_once, Cases.loops, Cases.depth, Cases.many, Cases.broken, Cases.onerror, Cases.endless,
             Cases.gone_clients, Cases.parallel, Cases.parallel_again, Cases.bounded, Cases.silent, Cases.alive)
    o = options(__doc__, names)
    report, site = Report("esi"), Site(o.seed)
    with Origin(site.serve) as origin:
        host, port = origin.address
        with Varnishd(o.varnishd, vcl=VCL.format(host=host, port=port)) as v:
            worker = v.worker()
            cases = Cases(report, v, site, o.full)
            report.run(o.cases, cases)
            report.check(v.worker() == worker, f"the worker died\n{v.log()}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
