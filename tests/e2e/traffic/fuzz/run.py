#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random VCL, random requests in random pieces, random origins, against a live server: nothing may end the worker, no
transaction may panic, honest clients are served all the while, and when everybody has gone nothing is left open.

The seed is printed; --seed repeats a run (threads may still interleave otherwise). Reduced: 4 VCLs of 8 seconds, two at a time; --full: 60 of 20.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, Varnishd
from bed.http import get
from bed.origin import Origin
from bed.report import Report, options, until

CLIENTS = 12
LIMIT = 60  # seconds; ends a wait for what never comes
LATE = 0.3  # seconds: a machine that wakes a sleeper so late is itself the cause of a thread that stands still for one second

STRINGS = ["req.url", "req.http.host", "req.http.x-a", '"text"', "now", "client.ip", "req.xid", "req.restarts", "req.http.cookie",
           'regsuball(req.url, "[0-9]", "n")', 'regsub(req.http.x-a, "(.*)a(.*)", "\\2\\1")', "std.random(0, 9)", 'std.tolower(req.url)']
NAMES = ["x-a", "x-b", "cookie", "accept-encoding", "range", "if-none-match", "vary", "etag", "connection", "content-length", "host",
         "cache-control", "content-encoding", "age", "via", "set-cookie", "transfer-encoding", "location"]


class Vcl:
    """A generator of VCL that compiles."""

    def __init__(self, rng, host, port):
        self.r, self.host, self.port = rng, host, port

    def condition(self, side):
        head = {"c": "req", "b": "bereq"}[side]
        return self.r.choice([
            f'{head}.url ~ "{self.r.choice(["a", "^/[a-m]", "[0-9]$", "(x|y)+z", "e.*e"])}"',
            f'{head}.http.x-a', f'!{head}.http.x-b', f'{head}.method == "POST"',
            "std.random(0, 10) < %d" % self.r.randint(1, 9),
            *(["req.restarts < 3", "req.restarts == 0"] if side == "c" else ["bereq.retries < 2", "bereq.uncacheable", "bereq.is_bgfetch"])])

    def changes(self, heads, strings, more=()):
        out = []
        for _ in range(self.r.randint(0, 4)):
            head, name = self.r.choice(heads), self.r.choice(NAMES)
            out.append(self.r.choice([
                f"set {head}.http.{name} = {self.r.choice(strings)} + {self.r.choice(strings)};",
                f"set {head}.http.{name} = {self.r.choice(strings)};", f"unset {head}.http.{name};", *more]))
        return out

    def sub(self, name, side, heads, strings, actions, more=()):
        lines = self.changes(heads, strings, more)
        for _ in range(self.r.randint(0, 3)):
            lines.append(f"if ({self.condition(side)}) {{ {' '.join(self.changes(heads, strings, more))} {self.r.choice(actions)} }}")
        return f"sub {name} {{\n    " + "\n    ".join(lines) + "\n}\n"

    def text(self):
        b = [s.replace("req.xid", "bereq.xid").replace("req.restarts", "bereq.retries").replace("req.", "bereq.").replace("bebe", "be")
             for s in STRINGS if "client" not in s]
        c = STRINGS
        restart, synth = "if (req.restarts < 3) { return (restart); }", "return (synth(%d));" % self.r.choice([200, 204, 304, 404, 503, 750])
        body = ["if (!std.cache_req_body(%dKB)) { return (synth(413)); }" % self.r.choice([1, 10, 1000]), "std.late_100_continue(true);"]
        return f"""vcl 4.1;
import std;
backend default {{ .host = "{self.host}"; .port = "{self.port}"; .connect_timeout = 1s; .first_byte_timeout = 1s; .between_bytes_timeout = 1s;
    {self.r.choice(["", ".max_connections = 3;"])} }}
""" + "".join([
            self.sub("vcl_recv", "c", ["req"], c, ["return (pass);", *["return (hash);"] * 5, "return (pipe);", synth, "return (purge);"], body),
            self.sub("vcl_hash", "c", ["req"], c, ["hash_data(req.http.x-a);", "return (lookup);"]),
            self.sub("vcl_hit", "c", ["req"], c, ["return (pass);", restart, synth]),
            self.sub("vcl_miss", "c", ["req"], c, ["return (pass);", restart, synth]),
            self.sub("vcl_pass", "c", ["req"], c, [restart, synth]),
            self.sub("vcl_pipe", "c", ["req", "bereq"], c, [synth]),
            self.sub("vcl_purge", "c", ["req"], c, [restart]),
            self.sub("vcl_deliver", "c", ["req", "resp"], c, [restart, synth],
                     ["set resp.status = %d;" % self.r.choice([200, 204, 304, 404, 999]), "set resp.reason = req.http.x-a;",
                      'set resp.filters = "range";', 'set resp.filters = "gunzip range";']),
            self.sub("vcl_synth", "c", ["req", "resp"], c, [restart],
                     ["synthetic(req.url + req.http.x-a);", "set resp.body = req.http.cookie;"]),
            self.sub("vcl_backend_fetch", "b", ["bereq"], b, ["return (abandon);", "return (error(599));"], ["unset bereq.body;"]),
            self.sub("vcl_backend_response", "b", ["bereq", "beresp"], b, ["return (retry);", "return (abandon);", "return (pass(2s));"],
                     ["set beresp.ttl = %s;" % self.r.choice(["0s", "1s", "0.1s", "-1s", "60s"]), "set beresp.grace = 3s;", "set beresp.keep = 3s;",
                      "set beresp.do_stream = false;", "set beresp.do_gzip = true;", "set beresp.do_gunzip = true;", "set beresp.do_esi = true;",
                      "set beresp.uncacheable = true;", "set beresp.status = %d;" % self.r.choice([200, 204, 304, 404, 503])]),
            self.sub("vcl_backend_error", "b", ["bereq", "beresp"], b, ["return (retry);", "return (abandon);", "return (deliver);"],
                     ["synthetic(bereq.url);", "set beresp.ttl = 1s;"])])


ESI = b'<html><esi:include src="/a"/><esi:remove>x</esi:remove><!--esi <esi:include src="/esi"/> --><esi:comment text="y"/></html>'


def serve(seed):
    """An origin that mostly keeps to HTTP."""
    lock, rng = threading.Lock(), random.Random(seed)

    def one(s):
        with lock:
            r = random.Random(rng.random())
        s.settimeout(3)
        buf = b""
        while True:
            while b"\r\n\r\n" not in buf:
                d = s.recv(65536)
                if not d:
                    return
                buf += d
            head, buf = buf.split(b"\r\n\r\n", 1)
            kind = r.random()
            if kind < 0.03:
                return
            if kind < 0.06:
                s.sendall(r.randbytes(r.randint(1, 2000)))
                return
            if kind < 0.10:
                s.sendall(b"HTTP/1.1 413 Early\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            if b"ontent-length:" in head.lower()[1:]:
                try:
                    left = int(head.lower().split(b"ontent-length:")[1].split(b"\r\n")[0]) - len(buf)
                except ValueError:
                    return
                buf = b""
                while left > 0:
                    d = s.recv(min(left, 65536))
                    if not d:
                        return
                    left -= len(d)
            elif b"chunked" in head:
                while not buf.endswith(b"0\r\n\r\n"):
                    d = s.recv(65536)
                    if not d:
                        return
                    buf = (buf + d)[-100:]
                buf = b""
            if r.random() < 0.1:
                s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * r.randint(1, 3))
            status = r.choice([200, 200, 200, 200, 204, 206, 301, 304, 404, 500])
            lines = [f"HTTP/1.{r.choice('1110')} {status} Some"]
            for name, value in (("Cache-Control", "max-age=%d" % r.randint(0, 3)), ("ETag", '"e%d"' % r.randint(0, 2)), ("Vary", r.choice(["X-A", "*", "Accept-Encoding", ", ,"])),
                                ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"), ("Set-Cookie", "a=b"), ("Content-Encoding", "gzip"), ("Age", "1"),
                                ("Connection", r.choice(["close", "keep-alive, x-b", "etag"])), ("X-Long", "l" * r.randint(1, 9000))):
                if r.random() < 0.2:
                    lines.append(f"{name}: {value}")
            body = r.choice([b"", b"hello", ESI, bytes(r.randint(0, 300000)), r.randbytes(2000)])
            framing = r.random()
            if framing < 0.5:
                lines.append(f"Content-Length: {len(body) + r.choice([0] * 9 + [1])}")
            elif framing < 0.85:
                lines.append("Transfer-Encoding: chunked")
                step, out = r.choice([1, 100, 5000]), b""
                body = body[:20000] if step == 1 else body
                for at in range(0, len(body), step):
                    piece = body[at:at + step]
                    out += b"%x\r\n" % len(piece) + piece + b"\r\n"
                body = out + (b"0\r\n\r\n" if r.random() < 0.9 else b"zz")
            top = "\r\n".join(lines).encode() + b"\r\n\r\n"
            s.sendall(top if head.startswith(b"HEAD") or status in (204, 304) else top + body)
            if framing >= 0.85 or r.random() < 0.1:
                return

    return one


def request(r):
    """The octets of one request: mostly right, sometimes mutated."""
    method = r.choice(["GET"] * 6 + ["POST", "POST", "HEAD", "PUT", "PURGE", "OPTIONS", "XYZ"])
    path = "/" + "".join(r.choice("abexyz019") for _ in range(r.randint(0, 3)))
    lines = [f"{method} {path} HTTP/1.{r.choice('11110')}", "Host: " + r.choice(["a", "b.example", "[::1]:80"])]
    for name, value in (("X-A", r.choice(["a", "bab", "x" * 300])), ("X-B", "1"), *[("Cookie", "a=b")] * (r.random() < 0.3), ("Accept-Encoding", "gzip"), ("Range", r.choice(["bytes=0-1", "bytes=-5", "bytes=9-", "lines=1"])),
                        ("If-None-Match", '"e1"'), ("Connection", r.choice(["close", "keep-alive", "x-a", "host"])), ("Expect", "100-continue"),
                        ("Accept", "*/*"), ("Authorization", "x"), ("Upgrade", "h2c"), ("TE", "trailers")):
        if r.random() < 0.25:
            lines.append(f"{name}: {value}")
    body = b""
    if method in ("POST", "PUT") or r.random() < 0.05:
        data = bytes(r.choice([0, 1, 100, 5000, 200000]))
        if r.random() < 0.5:
            lines.append(f"Content-Length: {len(data)}")
            body = data[:r.choice([len(data)] * 5 + [len(data) // 2])]
        else:
            lines.append("Transfer-Encoding: chunked")
            step = r.choice([1, 700, 70000])
            data = data[:3000] if step == 1 else data
            for at in range(0, len(data), step):
                piece = data[at:at + step]
                body += b"%x\r\n" % len(piece) + piece + b"\r\n"
            body += b"0\r\n\r\n" if r.random() < 0.9 else b"0\r\nX: y\r\n\r\n" if r.random() < 0.5 else b""
    octets = bytearray("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    if r.random() < 0.15:
        for _ in range(r.randint(1, 4)):
            at = r.randrange(min(len(octets), 400))
            what = r.random()
            if what < 0.4:
                octets[at] = r.choice(b"\r\n\0 :\t\x7f\xff,;\"/0a")
            elif what < 0.7:
                del octets[at:at + r.randint(1, 5)]
            else:
                octets[at:at] = r.choice([b"\r\n", b"\n", b" ", b"\0", b"Content-Length: 3\r\n", b"\xff" * 20, r.randbytes(30)])
    return bytes(octets)


def client(address, seed, until_when):
    r = random.Random(seed)
    while time.monotonic() < until_when:
        s = socket.socket()
        if r.random() < 0.1:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.settimeout(r.choice([0.05, 0.3, 2]))
        try:
            s.connect(address)
            octets = b"".join(request(r) for _ in range(r.choice([1, 1, 2, 5])))
            if r.random() < 0.03:
                octets = r.randbytes(r.randint(1, 5000))
            at = 0
            while at < len(octets):
                step = r.choice([1, 7, 100, 4096, len(octets)])
                s.sendall(octets[at:at + step])
                at += step
                if step == 1 and at > 300:
                    s.sendall(octets[at:])
                    break
                if r.random() < 0.01:
                    break
            end = r.random()
            if end < 0.1:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                continue
            if end < 0.3:
                s.shutdown(socket.SHUT_WR)
            got = 0
            while d := s.recv(65536):
                got += len(d)
                if r.random() < 0.02:
                    break
        except OSError:
            pass
        finally:
            s.close()


def counters(v):
    out = subprocess.run(["varnishstat", "-n", str(v.n), "-1", "-j"], capture_output=True, text=True).stdout
    return {name: c["value"] for name, c in json.loads(out)["counters"].items()}


class Lateness:
    """How late this machine wakes a sleeper, at most."""

    def __enter__(self):
        self.most, self.is_over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def _run(self):
        step, begin = 0.05, time.monotonic()
        while not self.is_over.wait(step):
            now = time.monotonic()
            self.most, begin = max(self.most, now - begin - step), now

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def round_of(report, program, seed, seconds):
    rng = random.Random(seed)
    with Origin(serve(seed)) as origin:
        text = Vcl(rng, *origin.address).text()
        where = f"seed {seed}"
        try:
            v = Varnishd(program, ["-p", "timeout_idle=1", "-p", "http_max_hdr=32", "-p", "pipe_timeout=1", "-p", "default_grace=1",
                                   "-p", "feature=" + rng.choice(["+http2", "+esi_disable_xml_check"])], vcl=text, storage="malloc,2m")
        except SystemExit as e:
            report.check(False, f"{where}: {e}\n{text}")
            return
        with v, Lateness() as late:
            worker, end = v.worker(), time.monotonic() + seconds
            fds = len(os.listdir(f"/proc/{worker}/fd"))
            threads = [threading.Thread(target=client, args=(v.address, rng.random(), end), daemon=True) for _ in range(CLIENTS)]
            for t in threads:
                t.start()
            unanswered = 0
            while time.monotonic() < end:
                # VCL may do anything with it: an answer of any kind will do, even a closed connection.
                unanswered += get(v.address, "/honest", timeout=LIMIT).end == "timeout"
                time.sleep(0.1)
                if rng.random() < 0.1:
                    try:
                        v.cli.ask(rng.choice(["ban req.url ~ a", "ban obj.status == 200", "param.set default_ttl 1", "backend.list", "vcl.list", "ban.list"]))
                    except CliError as e:
                        report.check(False, f"{where}: {e}")
            for t in threads:
                t.join(LIMIT)
            report.check(v.worker() == worker, f"{where}: the worker died\n{v.log()}\n{text}")
            report.check(unanswered == 0, f"{where}: {unanswered} honest requests were not answered\n{text}")
            if v.worker() != worker:
                return
            idle = until(LIMIT, lambda: (lambda c: c["MAIN.sess_conn"] == c["MAIN.sess_closed"] + c["MAIN.sess_dropped"] and c["MAIN.n_pipe"] == 0
                                      and c["VBE.boot.default.conn"] == 0)(counters(v)), 0.3)
            c = counters(v)
            state = {n: c[n] for n in ("MAIN.sess_conn", "MAIN.sess_closed", "MAIN.n_pipe", "VBE.boot.default.conn", "MAIN.req_panic", "MAIN.stalls",
                                       "MAIN.client_req", "MAIN.cache_hit", "MAIN.cache_miss", "MAIN.s_pass", "MAIN.vcl_fail")}
            report.note(f"{where}: {state}")
            report.check(idle, f"{where}: something is still open: {state}\n{text}")
            report.check(c["MAIN.req_panic"] == 0, f"{where}: {c['MAIN.req_panic']} transactions panicked\n{v.log()}\n{text}")
            report.check(c["MAIN.stalls"] == 0 or late.most > LATE, f"{where}: a thread stalled, but no sleeper was later than {late.most:.1f} s\n{v.log()}")
            pooled = 64
            report.check(len(os.listdir(f"/proc/{worker}/fd")) <= fds + pooled, f"{where}: descriptors leak: {fds} -> {len(os.listdir(f'/proc/{worker}/fd'))}")


def main():
    o = options(__doc__, rounds=dict(type=int))
    report = Report("fuzz")
    count, seconds = (60, 20) if o.full else (4, 8)
    report.note(f"first seed {o.seed}")
    with concurrent.futures.ThreadPoolExecutor(1 if o.full else 2) as pool:
        list(pool.map(lambda n: round_of(report, o.varnishd, o.seed + n, seconds), range(o.rounds or count)))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
