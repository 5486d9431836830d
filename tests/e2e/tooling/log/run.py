#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The log: the same requests to Debian's varnishd and to the program under test, then both logs compared record by record.

Every transaction must have the same records, in the same order, with the same fields; ids, times, ports and descriptors
aside. Each scenario is one check and prints the lines that differ. Needs Debian's `varnish` package.
"""
import concurrent.futures
import difflib
import gzip
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin, head
from bed.report import Report, options, until

ORACLE = shutil.which("varnishd", path="/usr/sbin:/usr/bin")
VARNISHLOG = shutil.which("varnishlog", path="/usr/bin:/usr/sbin")

VCL = """vcl 4.1;
import std;
backend origin { .host = "%s"; .port = "%d"; }
backend dead { .host = "127.0.0.1"; .port = "%d"; }

sub vcl_recv {
    set req.http.X-Set = "a" + req.url;
    unset req.http.X-Set;
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/pipe") { return (pipe); }
    if (req.url ~ "^/synth") { std.log("key:value"); return (synth(418, "Teapot")); }
    if (req.url ~ "^/fail") { return (fail("no reason")); }
    if (req.url ~ "^/purge") { set req.url = "/hit/purged"; return (purge); }
    if (req.url ~ "^/keep") { std.cache_req_body(1KB); return (pass); }
    if (req.url ~ "^/hash") { return (hash); }
    if (req.url ~ "^/always") { set req.hash_always_miss = true; }
    if (req.url ~ "^/ban") { ban("req.url ~ ^/hit/b"); return (synth(200, "Banned")); }
    if (req.url ~ "^/early" && req.restarts == 0) { return (restart); }
}
sub vcl_hit {
    if (req.url ~ "^/nohit") { return (pass); }
}
sub vcl_miss {
    if (req.url ~ "^/nomiss") { return (synth(404, "Not here")); }
}
sub vcl_backend_fetch {
    if (bereq.url ~ "^/dead") { set bereq.backend = dead; }
    if (bereq.url ~ "^/abandon") { return (abandon); }
    if (bereq.url ~ "^/bf-error") { return (error(504, "Mine")); }
}
sub vcl_backend_response {
    if (bereq.url ~ "^/hfm") { set beresp.uncacheable = true; return (deliver); }
    if (bereq.url ~ "^/hfp") { return (pass(60s)); }
    if (bereq.url ~ "^/retry" && bereq.retries == 0) { return (retry); }
    if (bereq.url ~ "^/br-error") { return (error(505, "Yours")); }
    if (bereq.url ~ "^/grace") { set beresp.ttl = 0.05s; set beresp.grace = 60s; }
    if (bereq.url ~ "^/refresh") { set beresp.ttl = 0.05s; set beresp.grace = 0s; set beresp.keep = 60s; }
    if (bereq.url ~ "^/nostream") { set beresp.do_stream = false; }
    if (bereq.url ~ "^/zip") { set beresp.do_gzip = true; }
    if (bereq.url ~ "^/unzip") { set beresp.do_gunzip = true; }
    if (bereq.url ~ "^/esi") { set beresp.do_esi = true; }
    if (bereq.url ~ "^/lives") { set beresp.ttl = 10s; set beresp.grace = 20s; set beresp.keep = 30s; }
}
sub vcl_deliver {
    if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
    if (req.url ~ "^/loop") { return (restart); }
    if (req.url ~ "^/d-synth") { return (synth(200, "Late")); }
    if (req.url ~ "^/d-fail") { return (fail); }
}
// The pages of the built-in VCL differ by a line in which Lacquer names itself.
sub vcl_builtin_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Retry-After = "5";
    set resp.body = "Error " + resp.status + " " + resp.reason;
    return (deliver);
}
sub vcl_builtin_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = "Error " + beresp.status + " " + beresp.reason;
    return (deliver);
}
"""

LIMIT = 60  # seconds; only ends a hang
# Seconds between parts of a body, so that both deliver while it comes in.
PAUSE = 0.2
GZIP = gzip.compress(b"a compressed body", mtime=0)


def respond(s, path, version):
    """The origin's answer; False: the connection ends."""
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    if path.startswith("/chunked"):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        time.sleep(PAUSE)
        s.sendall(b"6\r\n world\r\n0\r\n\r\n")
    elif path.startswith("/eof"):
        s.sendall(b"HTTP/1.0 200 OK\r\n\r\nuntil")
        time.sleep(PAUSE)
        s.sendall(b" the end")
        return False
    elif path.startswith("/close"):
        s.sendall(plain.replace(b"Content", b"Connection: close\r\nContent", 1))
        return False
    elif path.startswith("/short"):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
        time.sleep(PAUSE)
        return False
    elif path.startswith("/garbage"):
        s.sendall(b"this is no HTTP\r\n\r\n")
        return False
    elif path.startswith("/nothing"):
        return False
    elif path.startswith("/500"):
        s.sendall(b"HTTP/1.1 500 Broken\r\nContent-Length: 5\r\n\r\nhello")
    elif path.startswith("/204"):
        s.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    elif path.startswith("/304"):
        s.sendall(b"HTTP/1.1 304 Not Modified\r\n\r\n")
    elif path.startswith("/301"):
        s.sendall(b"HTTP/1.1 301 Moved Permanently\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")
    elif path.startswith("/302"):
        s.sendall(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nCache-Control: max-age=7\r\nContent-Length: 0\r\n\r\n")
    elif path.startswith("/fields"):
        s.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=9,\r\nCache-Control: public\r\nAge: 3\r\nVary: a\r\nVary: b\r\n"
                  b"Set-Cookie: x=y\r\nKeep-Alive: 5\r\nContent-Length: 5\r\n\r\nhello")
    elif path.startswith("/vary"):
        s.sendall(plain.replace(b"Content", b"Vary: Accept-Language\r\nContent", 1))
    elif path.startswith("/esi"):
        body = b"<html><esi:include src=\"/hit/fragment\"/><esi:remove>no</esi:remove><esi:include src=\"/pass/fragment\"/></html>"
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    elif path.startswith("/unzip") or path.startswith("/gz"):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: \"z\"\r\nContent-Length: %d\r\n\r\n" % len(GZIP))
        s.sendall(GZIP[:20])
        time.sleep(PAUSE)
        s.sendall(GZIP[20:])
    elif path.startswith(("/refresh", "/etag")):
        s.sendall(plain.replace(b"Content", b"ETag: \"x\"\r\nContent", 1))
    else:
        s.sendall(plain)
    return True


def origin(s):
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        if fields.get("transfer-encoding") == "chunked":
            while not buf.endswith(b"0\r\n\r\n"):
                buf += s.recv(65536)
            buf = b""
        else:
            length = int(fields.get("content-length", 0))
            while len(buf) < length:
                buf += s.recv(65536)
            buf = buf[length:]
        if path.startswith("/refresh") and "if-none-match" in fields:
            s.sendall(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nX-New: 1\r\n\r\n")
        elif method == "HEAD":
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        elif not respond(s, path, fields):
            return


def get(*paths, **more):
    """A scenario: one connection, these paths one after the other."""
    def play(address):
        client = Client(address)
        for path in paths:
            if isinstance(path, float):
                time.sleep(path)
            else:
                client.request(path, **more)
        client.sock.close()
    return play


def raw(octets, limit=LIMIT, last=None):
    """A scenario: these octets, then all of the response until the server closes, until it ends with `last`, or for `limit` seconds."""
    def play(address):
        with socket.create_connection(address, LIMIT) as s:
            s.sendall(octets)
            s.settimeout(limit)
            try:
                got = b""
                while (more := s.recv(65536)) and not (last and (got := got + more).endswith(last)):
                    pass
            except (TimeoutError, ConnectionError):
                pass
    return play


CHUNKED = b"POST /pass/chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
EXPECT = b"POST /pass/expect HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"


def expect(address):
    with socket.create_connection(address, LIMIT) as s:
        s.sendall(EXPECT)
        s.recv(100)
        s.sendall(b"abc")
        while s.recv(65536):
            pass


SCENARIOS = {
    "hit": get("/hit/1", "/hit/1"),
    "miss, chunked": get("/chunked/1"),
    "miss, until close": get("/eof/1"),
    "backend closes": get("/close/1", "/close/2"),
    "not streamed": get("/nostream/1"),
    "HEAD": get("/hit/h", method="HEAD"),
    "HEAD passed": get("/pass/h", method="HEAD"),
    "pass": get("/pass/1", "/pass/2"),
    "pass with a body": get("/pass/b", method="POST", body=b"abcdef"),
    "pass with a chunked body": raw(CHUNKED),
    "100-continue": expect,
    "kept body": get("/keep/b", method="POST", body=b"abcdef"),
    "pipe": raw(b"GET /pipe HTTP/1.1\r\nHost: h\r\n\r\n", last=b"hello"),
    "synth": get("/synth"),
    "fail": get("/fail"),
    "purge": get("/purge"),
    "restart": get("/restart/1"),
    "too many restarts": get("/loop/1"),
    "synth in deliver": get("/d-synth"),
    "fail in deliver": get("/d-fail"),
    "retry": get("/retry/1"),
    "abandon": get("/abandon"),
    "error in backend_fetch": get("/bf-error"),
    "error in backend_response": get("/br-error"),
    "hit-for-miss": get("/hfm/1", "/hfm/1"),
    "hit-for-pass": get("/hfp/1", "/hfp/1"),
    "grace": get("/grace/1", 0.1, "/grace/1"),
    "refresh": get("/refresh/1", 0.1, "/refresh/1"),
    "backend down": get("/dead/1"),
    "backend says nothing": get("/nothing/1"),
    "backend says garbage": get("/garbage/1"),
    "body cut short": get("/short/1"),
    "body cut short, not streamed": get("/nostream/short"),
    "status 500": get("/500"),
    "status 204": get("/204"),
    "status 304 unasked": get("/304"),
    "status 301": get("/301"),
    "status 302": get("/302"),
    "lives": get("/lives"),
    "fields": get("/fields", "/fields"),
    "vary": get("/vary", "/vary", fields=[("Accept-Language", "en")]),
    "do_gzip": get("/zip/1", "/zip/1", fields=[("Accept-Encoding", "gzip, br")]),
    "do_gunzip": get("/unzip/1"),
    "gunzip for the client": get("/gz/1", "/gz/1"),
    "gzip for the client": get("/gz/2", "/gz/2", fields=[("Accept-Encoding", "gzip")]),
    "range": get("/hit/r", "/hit/r", fields=[("Range", "bytes=1-2")]),
    "range not satisfiable": get("/hit/s", "/hit/s", fields=[("Range", "bytes=9-")]),
    "conditional": get("/etag", "/etag", fields=[("If-None-Match", "\"x\"")]),
    "X-Forwarded-For": get("/hit/x", fields=[("X-Forwarded-For", "1.2.3.4"), ("Cache-Control", "a"), ("Cache-Control", "b")]),
    "ESI": get("/esi/1", "/esi/1"),
    "ESI, HEAD": get("/esi/2", method="HEAD"),
    "hash_always_miss": get("/always", "/always"),
    "ban": get("/hit/banned", "/ban", "/hit/banned"),
    "restart in recv": get("/early/1"),
    "pass in hit": get("/nohit/1", "/nohit/1"),
    "synth in miss": get("/nomiss/1"),
    "other methods": get("/hit/o", method="OPTIONS"),
    "authorization": get("/hit/a", fields=[("Authorization", "Basic x")]),
    "request after an error": get("/dead/2", "/hit/after"),
    "conditional, miss": get("/etag/new", fields=[("If-None-Match", "\"x\"")]),
    "range of a pass": get("/pass/range", fields=[("Range", "bytes=1-2")]),
    "HEAD of a hit": lambda address: (get("/hit/hh")(address), get("/hit/hh", method="HEAD")(address)),
    "cookie": get("/hit/c", fields=[("Cookie", "a=b")]),
    "HTTP/1.0": raw(b"GET /hit/10 HTTP/1.0\r\nHost: h\r\n\r\n"),
    "Connection: close": raw(b"GET /hit/cc HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    "absolute": raw(b"GET http://other/hit/abs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    "no Host": raw(b"GET /hit/nohost HTTP/1.1\r\nConnection: close\r\n\r\n"),
    "no request": raw(b"", 0.2),
    "garbage": raw(b"garbage\r\n\r\n"),
    "two Hosts": raw(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "pipelined": raw(b"GET /hit/p HTTP/1.1\r\nHost: h\r\n\r\nGET /hit/p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    "unknown expectation": raw(b"GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n"),
}

# Differences that are meant, with the reason.
KNOWN = {
    "do_gzip": "another deflate: other lengths",
    "pass with a chunked body": "the size of a chunk is written without leading zeros",
    "body cut short": "the session ends for that reason, not because the client then closes",
    "absolute": "Host is replaced before the log begins",
    "two Hosts": "refused before VCL and its records",
    "garbage": "HttpGarbage holds the line, not what follows it",
}

LINE = re.compile(r"^ *(\d+) (\S+) +([bc-]) ?(.*)$")
FLOAT = re.compile(r"-?\d+\.\d{3,6}")
RULES = [
    ({"Timestamp"}, re.compile(r"^(\w+): .*"), r"\1"),
    ({"SessOpen", "ReqStart", "BackendOpen", "BackendReuse", "BackendClose"}, re.compile(r"(?<=\s)\d+(?=\s|$)|^\d+"), "N"),
    ({"SessOpen", "SessClose", "Hit", "HitMiss", "HitPass"}, FLOAT, "F"),
    # Whether the fetch was still running is a matter of microseconds.
    ({"Hit"}, re.compile(r"^(\d+ \S+ \S+ \S+) .*"), r"\1"),
    ({"TTL"}, re.compile(r"\b1\d{9}\b"), "T"),
    ({"ReqHeader", "RespHeader", "BereqHeader", "BerespHeader", "ObjHeader", "BerespUnset", "RespUnset"},
     re.compile(r"^(Date|Last-Modified|Expires): .*"), r"\1: DATE"),
]


def transactions(text):
    """The records of each transaction by its id, and the ids of the sessions in order."""
    found, sessions = {}, []
    for line in text.splitlines():
        m = LINE.match(line)
        if not m or m.group(1) == "0":
            continue
        vxid, tag, _, data = m.groups()
        found.setdefault(vxid, []).append((tag, data))
        if tag == "Begin" and data.startswith("sess "):
            sessions.append(vxid)
    return found, sessions


def told(found, vxid, names):
    """The lines of a transaction and of what it links to, made comparable."""
    lines, children = [], []
    names.setdefault(vxid, f"#{len(names) + 1}")
    for tag, data in found.get(vxid, []):
        if tag == "Link":
            child = data.split()[1]
            names.setdefault(child, f"#{len(names) + 1}")
            children.append(child)
        for tags, pattern, put in RULES:
            if tag in tags:
                data = pattern.sub(put, data)
        data = " ".join(names.get(w, w) for w in data.split(" "))
        lines.append(f"{names[vxid]} {tag} {data}".rstrip())
    for child in children:
        lines += told(found, child, names)
    return lines


def is_over(found, vxid):
    records = found.get(vxid, [])
    links = [data.split()[1] for tag, data in records if tag == "Link"]
    return bool(records) and records[-1][0] == "End" and all(is_over(found, link) for link in links)


def play(program, origin_address, dead, params=()):
    """All scenarios against one program, with these parameters of its own: for each scenario its comparable lines."""
    vcl = VCL % (*origin_address, dead)
    result, known = {}, set()
    with Varnishd(program, vcl=vcl, args=["-p", "vsl_mask=+Hash", "-p", "debug=+syncvsl", *params]) as daemon:
        daemon.cli.ask("debug.xid 1000 1")
        for name, scenario in SCENARIOS.items():
            scenario(daemon.address)
            found, new = {}, []

            def settled():
                nonlocal found, new
                text = subprocess.run([VARNISHLOG, "-n", str(daemon.n), "-d", "-g", "raw"], capture_output=True, text=True,
                                      errors="replace", check=True).stdout
                found, sessions = transactions(text)
                new = [sess for sess in sessions if sess not in known]
                return new and all(is_over(found, sess) for sess in new)

            until(LIMIT, settled, step=0.05)
            result[name] = [line for sess in new for line in told(found, sess, {})]
            known.update(new)
    return result


def main():
    o = options(__doc__, words={"nargs": "*", "default": [], "metavar": "WORD", "help": "scenarios by what their names contain"}, oracle={"default": ORACLE, "help": "the varnishd to compare with"})
    for name in list(SCENARIOS):
        if o.words and not any(word in name for word in o.words):
            del SCENARIOS[name]
    if not o.oracle or not VARNISHLOG:
        sys.exit("Debian's varnishd and varnishlog are needed (package varnish)")
    report = Report("log")
    with Origin(origin) as server, socket.socket() as taken, concurrent.futures.ThreadPoolExecutor(2) as both:
        taken.bind(("127.0.0.1", 0))  # and doesn't listen: connections to it are refused
        dead = taken.getsockname()[1]
        # varnishd has no Proxy-Status to log.
        programs = ((o.oracle, ()), (o.varnishd, ("-p", "proxy_status=off")))
        theirs, ours = both.map(lambda which: play(which[0], server.address, dead, which[1]), programs)
    for name in SCENARIOS:
        if name in KNOWN:
            report.note(f"{name}: not compared ({KNOWN[name]})")
            continue
        diff = list(difflib.unified_diff(theirs[name], ours[name], "varnishd", "ours", n=1, lineterm=""))[2:]
        report.check(theirs[name] and not diff, f"{name}\n       " + "\n       ".join(diff or ["nothing was logged"]))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
