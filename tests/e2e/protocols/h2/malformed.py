# SPDX-License-Identifier: BSD-2-Clause
"""Plays the requests of `messages` over HTTP/2, looks at both ends, and judges what came of them."""
import dataclasses
import json
import pathlib
import re

from bed import h2, hpack
from bed.witness import Bad, More, parse_request
from messages import ALIKE, CLEAN, MESSAGES, REFUSE, SERVE, WITHOUT_MEANING

ANSWER_LIMIT = 60  # seconds to wait for an answer before "no answer at all"


@dataclasses.dataclass
class Seen:
    """What came of one message, at both ends."""
    stream: h2.Stream
    connection: h2.Connection
    is_alive: bool      # the connection still serves
    octets: list
    requests: list = dataclasses.field(default_factory=list)
    bad: str = ""
    partial: int = 0

    @property
    def is_refused(self):
        """A reset, an error of the proxy's own, or the connection's end."""
        if self.stream.status:
            return self.stream.status >= 400 and self.stream.get("x-bed") is None
        return self.stream.end == "reset" or not self.is_alive

    @property
    def is_served(self):
        return 200 <= self.stream.status < 300 and self.stream.end == "complete"


def at_origin(seen):
    """Reads what the origin got."""
    for buf in seen.octets:
        try:
            while buf:
                one, buf = parse_request(buf)
                seen.requests.append(one)
        except More:
            seen.partial += 1
        except Bad as e:
            seen.bad = str(e)
    return seen


def framed(at, message):
    """The message in frames."""
    out = h2.headers(at, hpack.block(message.fields), message.body is None and message.trailers is None, 16384)
    if message.body is not None:
        step = message.pieces or 16384
        pieces = [message.body[n:n + step] for n in range(0, len(message.body), step)] or [b""]
        for n, piece in enumerate(pieces):
            is_last = n == len(pieces) - 1 and message.trailers is None
            out += h2.frame(h2.DATA, h2.END_STREAM if is_last else 0, at, piece)
    if message.trailers is not None:
        out += h2.headers(at, hpack.block(message.trailers))
    return out


def play(message, connect, witness):
    with h2.Connection(connect()) as c:
        at, beside = c.stream(), c.stream()
        # The next request comes in the same write: nothing of it may be lost with this one.
        c.send(framed(at, message) + h2.headers(beside, hpack.block(h2.request("/live"))))
        c.wait(lambda: c.streams[at].end and c.streams[beside].end or c.goaway, ANSWER_LIMIT)
        is_alive = not c.goaway and not c.closed and c.streams[beside].whole() and c.get("/live", ANSWER_LIMIT).whole()
        c.wait(lambda: False, 0)
        octets = [got for got in witness.take() if not got.startswith(b"GET /live ")]
        return at_origin(Seen(c.streams[at], c, is_alive, octets))


def forbidden(message, seen):
    """Why this outcome may never be, or ''."""
    for pattern in message.forbid:
        for octets in seen.octets:
            if m := re.search(pattern.encode("latin-1"), octets):
                return f"the origin got {m.group(0)!r}"[:120]
    if seen.bad:
        return f"ill-formed at the origin: {seen.bad}"
    if any(one.path == "/smuggled" or one.all("x-smug") for one in seen.requests):
        return "smuggled request or field at the origin"
    if len(seen.requests) > 1:
        return f"{len(seen.requests)} requests at the origin"
    if any(len(one.all("host")) != 1 for one in seen.requests):
        return "a request without a Host, or with two, at the origin"
    if seen.is_refused and seen.requests:
        return "refused, yet whole at the origin"
    if message.expect == REFUSE and message.group == "content-length" and seen.requests:
        return "a request of another length is whole at the origin"
    if message.served_body is not None and any(one.body != message.served_body for one in seen.requests):
        return "the origin got another body"
    if not seen.stream.end and not seen.connection.goaway and not seen.connection.closed:
        return "no answer at all"
    if seen.connection.faults:
        return f"the server broke the protocol: {seen.connection.faults[:3]}"
    return ""


def lax(message, seen):
    """Why this outcome is safe and still not what is asked for, or ''."""
    if message.expect == SERVE:
        if not seen.is_served or len(seen.requests) != 1:
            return "refused where service is due"
        missing = [p for p in message.must if not re.search(p.encode("latin-1"), seen.octets[0])]
        return f"not forwarded: {missing}" if missing else ""
    if seen.is_refused:
        if any(seen.octets) and message.body is None:
            return "refused after the origin had heard of it"
        if seen.stream.status >= 500 and seen.stream.status != 501:
            return "the client's fault is called the server's"
        return "" if seen.is_alive or message.ends else f"the whole connection is ended ({seen.connection.how()})"
    return "" if message.expect == CLEAN else "cleaned up where a refusal is due"


def judge(message, seen, lives):
    reason = forbidden(message, seen) or ("" if lives else "the next good request is not answered")
    if reason:
        return "forbidden", reason
    reason = lax(message, seen)
    return ("lax" if reason else "ok"), reason


def twins(report):
    """Each of HTTP/1's cases is here, too, or has no meaning."""
    known = {case["id"] for case in json.loads((pathlib.Path(__file__).parent.parent / "h1/cases.json").read_text())["cases"]}
    report.check(known == ALIKE | WITHOUT_MEANING, f"of HTTP/1's cases {known ^ (ALIKE | WITHOUT_MEANING)} are only there, or only here")


def run(bed, words, verbose, play=play):
    """How many of each group were ok, lax, forbidden; `play` is another one's for another version."""
    groups = {}
    twins(bed.report)
    for message in MESSAGES:
        if words and not any(word in f"{message.group} {message.id}" for word in words):
            continue
        seen = play(message, bed.connect, bed.witness)
        lives = seen.is_alive or bed.serves()
        bed.witness.take()
        verdict, reason = judge(message, seen, lives)
        groups.setdefault(message.group, {"ok": 0, "lax": 0, "forbidden": 0})[verdict] += 1
        if verdict != "ok" or verbose:
            bed.report.note(f"{verdict:9} {message.group} {message.id:24} {reason} [client: {seen.stream}, {seen.connection.how()}; "
                            f"origin: {len(seen.requests)} whole, {seen.partial} cut]")
    return groups
