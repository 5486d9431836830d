#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Malformed HTTP/1 requests: client and origin at once, so that what a proxy forwards is judged and not only what it answers.

`cases.json` holds 80 cases and says what each word in them means; `uploads.json` adds broken uploads. Fails above 0 forbidden or 2 lax.
"""
import dataclasses
import json
import pathlib
import re
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.origin import Nginx, Origin
from bed.report import Report, options, until

LAX_ALLOWED = 2
ANSWER_LIMIT = 8.0   # seconds to wait for an answer before "no answer at all"
QUIET = 1.0          # seconds without an octet or a close after which a connection counts as left open
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rf"{TOKEN} ([!-~]+) HTTP/1\.[01]\Z")
FIELD = re.compile(rf"({TOKEN}):[ \t]*([\t -~\x80-\xff]*)\Z")


@dataclasses.dataclass
class Request:
    """One request as the origin received it, whole and well framed."""
    method: str
    path: str
    fields: list
    body: bytes

    def all(self, name):
        return [v.strip() for n, v in self.fields if n.lower() == name]


class Bad(Exception):
    """Octets at the origin that are no well-framed request."""


class More(Exception):
    """The request is incomplete so far."""


def parse_request(buf):
    """Takes one request off `buf`: (Request, rest)."""
    top, end, rest = buf.partition(b"\r\n\r\n")
    if not end:
        raise More
    lines = top.decode("latin-1").split("\r\n")
    m = REQUEST_LINE.match(lines[0])
    if not m:
        raise Bad(f"request line {lines[0]!r}"[:90])
    method, path = lines[0].split(" ")[0], m.group(1)
    if not (path.startswith("/") or path.startswith("http://") or (method, path) == ("OPTIONS", "*") or method == "CONNECT"):
        raise Bad(f"target {path!r}"[:90])
    fields = []
    for line in lines[1:]:
        m = FIELD.match(line)
        if not m:
            raise Bad(f"field line {line!r}"[:90])
        fields.append(m.groups())
    r = Request(method, path, fields, b"")
    te, cl = r.all("transfer-encoding"), r.all("content-length")
    if te and (cl or [t.lower() for t in te] != ["chunked"]):
        raise Bad(f"Transfer-Encoding {te}, Content-Length {cl}")
    if te:
        r.body, rest = dechunk(rest)
    elif cl:
        if len(cl) > 1 or not re.match(r"[0-9]+\Z", cl[0]):
            raise Bad(f"Content-Length {cl}")
        if len(rest) < int(cl[0]):
            raise More
        r.body, rest = rest[:int(cl[0])], rest[int(cl[0]):]
    return r, rest


def dechunk(buf):
    body = []
    while True:
        line, end, buf = buf.partition(b"\r\n")
        if not end:
            raise More
        m = re.match(rb"([0-9a-fA-F]+)[ \t]*(;.*)?\Z", line)
        if not m:
            raise Bad(f"chunk size {line!r}"[:90])
        size = int(m.group(1), 16)
        if size == 0:
            break
        if len(buf) < size + 2:
            raise More
        if buf[size:size + 2] != b"\r\n":
            raise Bad("no CRLF after a chunk")
        body.append(buf[:size])
        buf = buf[size + 2:]
    while True:
        line, end, buf = buf.partition(b"\r\n")
        if not end:
            raise More
        if not line:
            return b"".join(body), buf
        if not FIELD.match(line.decode("latin-1")):
            raise Bad(f"trailer {line!r}"[:90])


class Witness:
    """The origin's memory: what each connection of the current case received. Answers each whole request once."""

    def __init__(self):
        self.lock, self.conns = threading.Lock(), []

    def serve(self, s):
        conn = {"octets": b"", "done": False}
        with self.lock:
            self.conns.append(conn)
        buf = b""
        try:
            while d := s.recv(65536):
                conn["octets"] += d
                buf += d
                try:
                    while buf:
                        r, buf = parse_request(buf)
                        s.sendall(b"HTTP/1.1 200 OK\r\nX-Bed: 1\r\nCache-Control: no-store\r\nConnection: close\r\n"
                                  b"Content-Length: 2\r\n\r\n" + (b"" if r.method == "HEAD" else b"ok"))
                except More:
                    pass
                except Bad:
                    s.sendall(b"HTTP/1.1 400 Bad\r\nX-Bed: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                    return
        finally:
            conn["done"] = True

    def take(self):
        """All connections since the last call, once they are over (or have had time to be)."""
        until(3, lambda: all(c["done"] for c in list(self.conns)))
        with self.lock:
            got, self.conns = self.conns, []
        return [c["octets"] for c in got]


@dataclasses.dataclass
class Seen:
    """What came of one case, at both ends."""
    answers: list
    closed: bool
    octets: list
    requests: list
    bad: str
    partial: int
    replied: int

    @property
    def refused(self):
        """A final answer of the proxy's own that is an error, or a plain close."""
        if not self.answers:
            return self.closed
        return self.answers[0].status >= 400 and self.answers[0].get("X-Bed") is None

    @property
    def served(self):
        return bool(self.answers) and 200 <= self.answers[0].status < 300


def octets(case):
    """The case's raw text: one octet a character, {{X*N}} is N copies of X."""
    raw = re.sub(r"\{\{(.*?)\*(\d+)\}\}", lambda m: m.group(1) * int(m.group(2)), case["raw"], flags=re.S)
    return raw.encode("latin-1")


def play(case, address, witness):
    """Sends the case and gathers both sides."""
    raw, answers, closed, replied = octets(case), [], False, 0
    with Client(address, ANSWER_LIMIT if not case.get("mayhang") else QUIET) as c:
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            step = case.get("split") or len(raw)
            for at in range(0, len(raw), step):
                c.send(raw[at:at + step])
            if case.get("half"):
                c.sock.shutdown(socket.SHUT_WR)
            for part in case.get("parts_after_100", []):
                c.send(part.encode("latin-1"))
        except OSError:
            pass  # refused before we were through: the answer tells
        method = case["raw"].split(" ")[0].lstrip("\r\n")
        while True:
            r = c.response(method if method == "HEAD" else "GET")
            replied += r.length
            if r.status:
                answers.append(r)
            if r.end in ("none", "truncated", "garbled") or r.framing == "close":
                closed = True
                break
            if r.end == "timeout":
                break
            c.sock.settimeout(QUIET)
    requests, bad, partial = [], "", 0
    got = witness.take()
    for buf in got:
        try:
            while buf:
                r, buf = parse_request(buf)
                requests.append(r)
        except More:
            partial += 1
        except Bad as e:
            bad = str(e)
    return Seen(answers, closed, got, requests, bad, partial, replied)


def forbidden(case, seen):
    """Why this outcome may never be, or ''."""
    for pattern in case.get("forbid", []):
        for o in seen.octets:
            if m := re.search(pattern.encode("latin-1"), o):
                return f"the origin got {m.group(0)!r}"[:120]
    if seen.bad:
        return f"ill-formed at the origin: {seen.bad}"
    if case.get("smuggle") and any(r.path == "/smuggled" for r in seen.requests):
        return "smuggled request at the origin"
    if len(seen.requests) > case.get("maxn", case.get("n", 1)):
        return f"{len(seen.requests)} requests at the origin"
    if case.get("musthost") and any(not r.all("host") for r in seen.requests):
        return "request without Host at the origin"
    if case["expect"] == "no-complete" and seen.requests:
        return "an incomplete request was completed at the origin"
    if seen.refused and seen.requests:
        return "refused, yet completed at the origin"
    if "body" in case and any(r.body != case["body"].encode("latin-1") for r in seen.requests):
        return "the origin got another body"
    if case.get("maxreply") and seen.replied > case["maxreply"]:
        return f"{seen.replied} octets answered"
    if not seen.answers and not seen.closed and not case.get("mayhang"):
        return "no answer at all"
    return ""


def lax(case, seen):
    """Why this outcome is safe and still not what is asked for, or ''."""
    expect = case["expect"]
    if expect == "no-complete":
        return ""
    if expect in ("accept", "forward"):
        if not seen.served or len(seen.requests) != case.get("n", 1):
            return "refused where service is due"
        joined = b"".join(seen.octets)
        missing = [p for p in case.get("must", []) if not re.search(p.encode("latin-1"), joined)]
        return f"not forwarded: {missing}" if missing else ""
    if seen.refused:
        if any(seen.octets) and not case.get("late"):
            return "refused after the origin had heard of it"
        if expect == "reject" and seen.answers and seen.answers[0].status in (500, 502, 503, 504) and not case.get("late"):
            return "the client's fault is called the server's"
        return "" if seen.closed or case.get("keepok") else "refused without closing"
    if case.get("mayhang") and not seen.answers:
        return ""
    if expect == "reject":
        return "cleaned up where a refusal is due"
    if case.get("mustclose") and not seen.closed:
        return "not closed after the answer"
    if "n" in case and len(seen.requests) != case["n"]:
        return f"{len(seen.requests)} requests at the origin instead of {case['n']}"
    return ""


def judge(case, seen, alive):
    why = forbidden(case, seen) or ("" if alive else "the next good request is not answered")
    if why:
        return "forbidden", why
    why = lax(case, seen)
    return ("lax", why) if why else ("ok", "")


def run(report, address, witness, cases, verbose):
    groups = {}
    for case in cases:
        seen = play(case, address, witness)
        alive = get(address, "/live", [("Connection", "close")], ANSWER_LIMIT).whole()
        witness.take()
        verdict, why = judge(case, seen, alive)
        groups.setdefault(case["group"], {"ok": 0, "lax": 0, "forbidden": 0})[verdict] += 1
        if verdict != "ok" or verbose:
            answer = " ".join(str(a.status) for a in seen.answers) or ("closed" if seen.closed else "silence")
            report.note(f"{verdict:9} {case['id']:22} {why} [client: {answer}; origin: {len(seen.requests)} whole, {seen.partial} cut]")
    total = {v: sum(g[v] for g in groups.values()) for v in ("ok", "lax", "forbidden")}
    for name, g in {**groups, "all": total}.items():
        print(f"     {name:20} {g['ok']:3} ok {g['lax']:3} lax {g['forbidden']:3} forbidden")
    return total


def main():
    o = options(__doc__, only=dict(help="run only cases whose id holds this"), verbose=dict(action="store_true"),
                nginx=dict(action="store_true", help="judge nginx instead, to check this harness"))
    report, witness = Report("h1"), Witness()
    here = pathlib.Path(__file__).parent
    cases = [c for f in ("cases.json", "uploads.json") for c in json.loads((here / f).read_text())["cases"]
             if not o.only or o.only in c["id"]]
    with Origin(witness.serve) as origin:
        host, port = origin.address
        if o.nginx:
            server = Nginx(f"location / {{ proxy_pass http://{host}:{port}; proxy_http_version 1.1;"
                           " proxy_set_header Connection close; proxy_set_header Host $http_host; }")
        else:
            server = Varnishd(o.varnishd, backend=origin.address)
        with server as s:
            pid = s.worker() if not o.nginx else 0
            total = run(report, s.address, witness, cases, o.verbose)
            report.check(o.nginx or s.worker() == pid, "the worker is another one than at the start")
    report.passed += total["ok"] + min(total["lax"], LAX_ALLOWED)
    report.failed += total["forbidden"] + max(0, total["lax"] - LAX_ALLOWED)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
