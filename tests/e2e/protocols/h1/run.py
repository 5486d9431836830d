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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client, get
from bed.origin import Nginx, Origin
from bed.report import Report, options
from bed.witness import Bad, More, Witness, parse_request

LAX_ALLOWED = 2
ANSWER_LIMIT = 60    # seconds to wait for an answer before "no answer at all"
QUIET = 1.0          # seconds without an octet or a close after which a connection counts as left open


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
            # A response that is due may take longer than silence that is due.
            is_due = case["expect"] in ("accept", "forward") and len(answers) < case.get("n", 1)
            c.sock.settimeout(ANSWER_LIMIT if is_due else QUIET)
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
