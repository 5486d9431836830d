#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Everything at once: clients that ask, leave, purge and ban, ways through VCL drawn by lot, a store that is too small, an origin
that frames its answers in all ways and cuts some, and commands to the manager meanwhile. No answer may be another one's, shorter
than announced without it showing, or missing.

What an answer must be follows from its URL and the field it varies on, so each client can judge by itself.
"""
import collections
import gzip
import hashlib
import itertools
import json
import multiprocessing
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent
from bed.http import Client
from bed.origin import Origin, head
from bed.report import Report, options

# A path holds some of these; VCL and origin act on each.
VCL_WORDS = ["restart", "pass", "ignorebusy", "alwaysmiss", "keepbody", "again", "gzip", "gunzip", "esi", "nostream", "retry", "hfp",
             "uncacheable", "transient", "short"]
ORIGIN_WORDS = ["vary", "chunked", "close", "packed", "failing", "slow", "cut", "etag"]
WORDS = [*VCL_WORDS, *ORIGIN_WORDS]
VCL = """vcl 4.1; import std;
backend default { .host = "%s"; .port = "%d"; .first_byte_timeout = 60s; .between_bytes_timeout = 60s; .max_connections = 60; }
sub vcl_recv {
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("obj.http.x-path ~ " + req.url); return (synth(200)); }
    if (req.url ~ "restart" && req.restarts == 0) { return (restart); }
    if (req.url ~ "pass") { return (pass); }
    if (req.url ~ "keepbody") { std.cache_req_body(1MB); }
    if (req.url ~ "ignorebusy") { set req.hash_ignore_busy = true; }
    if (req.url ~ "alwaysmiss") { set req.hash_always_miss = true; }
}
sub vcl_backend_response {
    set beresp.http.x-path = bereq.url;
    set beresp.ttl = 2s;
    set beresp.grace = 3s;
    set beresp.keep = 10s;
    if (bereq.url ~ "short") { set beresp.ttl = 0.1s; }
    if (bereq.url ~ "gzip") { set beresp.do_gzip = true; }
    if (bereq.url ~ "gunzip") { set beresp.do_gunzip = true; }
    if (bereq.url ~ "esi") { set beresp.do_esi = true; }
    if (bereq.url ~ "nostream") { set beresp.do_stream = false; }
    if (bereq.url ~ "retry" && bereq.retries == 0) { return (retry); }
    if (bereq.url ~ "hfp") { return (pass(1s)); }
    if (bereq.url ~ "uncacheable") { set beresp.uncacheable = true; }
    if (bereq.url ~ "transient") { set beresp.storage = storage.Transient; }
    return (deliver);
}
sub vcl_deliver { if (req.url ~ "again" && req.restarts < 2) { return (restart); } }
"""


def draw_paths():
    rng = random.Random(5)
    return ["/" + "-".join(rng.sample(WORDS, rng.randrange(4))) + f"/{n}" for n in range(150)]


def content(path, variant):
    """The one body of a URL, or of its variant: 1 octet to 200 KB."""
    seen = f"{path} {variant if 'vary' in path else ''} "
    size = int(10 ** random.Random(seen).uniform(0, 5.3))
    body = (seen * (size // len(seen) + 1))[:size]
    return (f"<html>{body}</html>" if "esi" in path else body).encode()


def digest(body):
    return hashlib.md5(body).hexdigest()


def serve(s, rng):
    """The origin's side of a connection."""
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        while len(buf) < int(fields.get("content-length", 0)):
            if not (more := s.recv(65536)):
                return
            buf += more
        buf = buf[int(fields.get("content-length", 0)):]
        body = content(path, fields.get("x-v", ""))
        top = f"HTTP/1.1 200 OK\r\nCache-Control: max-age=2\r\nX-Sum: {digest(body)}\r\n"
        if "vary" in path:
            top += "Vary: X-V\r\n"
        if "etag" in path:
            tag = f'"{digest(body)}"'
            top += f"ETag: {tag}\r\n"
            if fields.get("if-none-match", "").removeprefix("W/") == tag:
                s.sendall((top.replace("200 OK", "304 Not Modified") + "\r\n").encode())
                continue
        if "packed" in path:
            body = gzip.compress(body, 1)
            top += "Content-Encoding: gzip\r\n"
        if "failing" in path and rng.random() < 0.3:
            s.sendall(b"HTTP/1.1 500 Failing\r\nContent-Length: 0\r\n\r\n")
            continue
        if "slow" in path:
            time.sleep(rng.random() / 10)
        is_cut = "cut" in path and rng.random() < 0.3
        if method == "HEAD":
            s.sendall(f"{top}Content-Length: {len(body)}\r\n\r\n".encode())
        elif "chunked" in path:
            s.sendall(f"{top}Transfer-Encoding: chunked\r\n\r\n".encode())
            while body:
                if is_cut and rng.random() < 0.5:
                    return
                piece, body = body[:(size := rng.randrange(1, 20000))], body[size:]
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\n\r\n")
        elif "close" in path:
            s.sendall(f"{top}Connection: close\r\n\r\n".encode() + body)
            return
        else:
            whole = f"{top}Content-Length: {len(body)}\r\n\r\n".encode() + body
            s.sendall(whole[:-(len(body) // 2 + 1)] if is_cut else whole)
            if is_cut:
                return


def origin_process(pipe, seed):
    die_with_parent()
    number = itertools.count()
    with Origin(lambda s: serve(s, random.Random(f"{seed} {next(number)}"))) as origin:
        pipe.send(origin.address)
        pipe.recv()


def judge(path, method, want, asked, r):
    """What is wrong with an answer, or None."""
    if r.end == "timeout" or r.end == "garbled":
        return r.end
    if r.end != "complete":
        return None if "cut" in path else f"{r.end} after {r.length} octets"
    if r.status >= 500:
        return None if "cut" in path or "failing" in path else f"status {r.status}"
    if method in ("PURGE", "BAN"):
        return None if r.status == 200 else f"{method}: {r.status}"
    if r.get("X-Sum") != digest(want):
        return f"another answer: {r.fields}"
    if method == "HEAD" or r.status in (304, 416):
        return None
    packed = "gzip" in (r.get("Content-Encoding") or "")
    if r.status == 206:
        first, last = map(int, r.get("Content-Range").split()[1].split("/")[0].split("-"))
        return None if packed or (first == asked and r.body == want[first:last + 1]) else f"range {first}-{last} of {asked}-: {r.length} octets"
    try:
        body = gzip.decompress(r.body) if packed else r.body
    except (OSError, EOFError) as e:
        return f"bad gzip: {e}"
    return None if body == want else f"{len(body)} octets of {len(want)}, {r.fields}"


def client(address, seed, count, out):
    die_with_parent()
    rng, paths, statuses, wrong = random.Random(seed), draw_paths(), collections.Counter(), []
    c = Client(address, 120)
    for _ in range(count):
        path, variant, lot, fields, asked = rng.choice(paths), rng.choice("abc"), rng.random(), [], None
        method = "PURGE" if lot < 0.02 else "BAN" if lot < 0.03 else "HEAD" if lot < 0.1 else "GET"
        body = b"hello" if method == "GET" and "keepbody" in path and rng.random() < 0.3 else None
        want = content(path, variant)
        if method == "GET" and rng.random() < 0.15:
            asked = rng.randrange(3000)
            fields.append(("Range", f"bytes={asked}-{asked + rng.randrange(5000)}"))
        if rng.random() < 0.4:
            fields.append(("Accept-Encoding", "gzip"))
        if rng.random() < 0.1:
            fields.append(("If-None-Match", f'"{digest(want)}"'))
        if rng.random() < 0.03:
            # One that doesn't wait for its answer, or not for all of it.
            c.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\nX-V: {variant}\r\n\r\n".encode())
            c.sock.settimeout(rng.random() / 50)
            try:
                c.sock.recv(1000)
            except OSError:
                pass
            r = None
        else:
            r = c.request(path, [("X-V", variant), *fields], method if body is None else "POST", body=body)
            statuses[r.status if r.end == "complete" else r.end] += 1
            if why := judge(path, method, want, asked, r):
                wrong.append(f"{method} {path} {fields}: {why}")
        if r is None or r.end != "complete" or "close" in (r.get("Connection") or ""):
            c.close()
            c = Client(address, 120)
    out.send((statuses, wrong))


def commands(v, origin, stop):
    """What operators do, in any order."""
    rng, n = random.Random(3), 0
    while not stop.wait(0.02):
        lot = rng.randrange(6)
        if lot == 0:
            n += 1
            lines = [f"vcl.inline v{n} << %X\n{VCL % origin}\n%X", f"vcl.use v{n}", f"vcl.discard v{n - 2}"]
        elif lot == 1:
            lines = ["vcl.state boot auto", "vcl.deps", "vcl.show -v", "backend.list -p", "storage.list", "param.show"]
        elif lot == 2:
            lines = [f"ban req.url ~ {rng.choice(WORDS)}", f"ban obj.http.x-path ~ {rng.choice(WORDS)}", "ban obj.age > 1s", "ban.list"]
        elif lot == 3:
            lines = [f"explain http://bed.test/{rng.choice(WORDS)}/1", "vcl.profile on", "vcl.profile show", "vcl.profile off"]
        elif lot == 4:
            lines = ["param.set vsl_mask -VCL_call", "param.reset vsl_mask", "param.set gzip_level 1", "param.reset gzip_level"]
        else:
            lines = [f"param.set esi_parallel {rng.randrange(1, 5)}", f"param.set nuke_limit {rng.randrange(50, 500)}"]
        for line in lines:
            v.cli.ask_raw(line)


def main():
    o = options(__doc__, requests=dict(type=int))
    count = o.requests or (10000 if o.full else 400)
    report = Report("mixed")
    ours, theirs = multiprocessing.Pipe()
    source = multiprocessing.Process(target=origin_process, args=(theirs, o.seed), daemon=True)
    source.start()
    origin = ours.recv()
    with Varnishd(o.varnishd, vcl=VCL % origin, storage="malloc,2m") as v:
        worker, clients, stop = v.worker(), [], threading.Event()
        operator = threading.Thread(target=commands, args=(v, origin, stop))
        operator.start()
        for seed in range(10 * o.seed, 10 * o.seed + 10):
            result, out = multiprocessing.Pipe(False)
            p = multiprocessing.Process(target=client, args=(v.address, seed, count, out), daemon=True)
            p.start()
            out.close()
            clients.append((result, p))
        statuses = collections.Counter()
        for seed, (result, p) in enumerate(clients, 10 * o.seed):
            try:
                found, wrong = result.recv()
            except EOFError:
                found, wrong = {}, ["ended early"]
            statuses.update(found)
            report.check(not wrong, f"client {seed}: {len(wrong)} wrong answers; {wrong[:3]}")
            p.join()
        stop.set()
        operator.join()
        report.note(f"{10 * count} requests: {json.dumps(dict(sorted(statuses.items(), key=str)))}")
        report.check(statuses[200] > 5 * count and statuses[206] and statuses[304], f"answers of all kinds: {statuses}")
        report.check(v.worker() == worker, "the worker is the one of the start")
        status, text = v.cli.ask_raw("panic.show")
        report.check(status == 300, f"no panic: {text[:300]}")
    ours.send(None)
    source.join(5)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
