# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/1 requests: where one ends and the next begins, what they may hold, what is cached of them. The origin remembers each octet."""
import json
import pathlib
import re
import socket
import subprocess

from bed.origin import Origin
from bed.report import until
from bed.witness import Bad, More, Witness, parse_request

SMUGGLED = b"GET /pass/smuggled HTTP/1.1\r\nHost: bed.test\r\n\r\n"
LIMIT = 60  # seconds; it only ends what hangs

witness = Witness()


def origin():
    return Origin(witness.serve)


def exchange(address, octets):
    """Sends the octets and the end of the client's half; gives what came until the server's end."""
    with socket.create_connection(address, LIMIT) as s:
        try:
            s.sendall(octets)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has closed already
        got = b""
        try:
            while octets := s.recv(65536):
                got += octets
        except ConnectionError:
            pass
        return got


def statuses(octets):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", octets)]


def seen(bed):
    """Method and target of each request that the origin got, in any order; what was no request as it came."""
    out = []
    for octets in witness.take():
        try:
            while octets:
                request, octets = parse_request(octets)
                out.append(f"{request.method} {request.path}")
        except (Bad, More) as e:
            out.append(f"{type(e).__name__} {e} {octets[:200]!r}")
    return sorted(out)


def row(octets, expected, at_origin=(), holds=b"", lacks=b""):
    """Octets of a connection; the statuses of its responses (sets of them, where there is a choice), and requests that the origin sees."""
    def act(bed, name):
        seen(bed)
        got = exchange(bed.plain, octets)
        came, there = statuses(got), seen(bed)
        choices = [one if isinstance(one, set) else {one} for one in expected]
        bed.check(name, len(came) == len(choices) and all(status in one for status, one in zip(came, choices)), f"{came} instead of {expected}: {got[:300]!r}")
        bed.check(name, there == sorted(at_origin), f"the origin saw {there} instead of {at_origin}")
        bed.check(name, holds in got and not (lacks and lacks in got), f"{got[:1000]!r}")
    return act


def asked(line, *fields, body=b""):
    return b"\r\n".join([line.encode("latin-1"), *(field.encode("latin-1") for field in fields), b"", body])


def post(*fields, body, version="1.1"):
    return asked(f"POST /pass/first HTTP/{version}", "Host: bed.test", *fields, body=body)


def chunked(body, coding="chunked", version="1.1"):
    return post(f"Transfer-Encoding: {coding}", body=body, version=version) + SMUGGLED


def refused(octets):
    """One error, nothing reaches the origin whole, and nothing behind it is read."""
    def act(bed, name):
        seen(bed)
        got = exchange(bed.plain, octets)
        there = seen(bed)
        bed.check(name, statuses(got) in ([400], [503], [501], [411]), f"{statuses(got)}: {got[:300]!r}")
        bed.check(name, not any("smuggled" in one and not one.startswith(("More", "Bad")) for one in there), f"the origin saw {there}")
        bed.check(name, not any(one.startswith("POST") for one in there), f"the origin saw {there}")
    return act


def cached_body(bed, name):
    """A hit doesn't read the body that comes with its request; the connection mustn't take it for the next one."""
    seen(bed)
    first = asked("GET /own HTTP/1.1", "Host: bed.test", f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED)
    got = exchange(bed.plain, first + asked("GET /own?after HTTP/1.1", "Host: bed.test"))
    bed.check(name, statuses(got) in ([200, 200], [200]), f"{statuses(got)}")
    bed.check(name, not seen(bed), "a body became a request")


def ordered(bed, name):
    """Pipelined requests are answered in their order."""
    seen(bed)
    got = exchange(bed.plain, b"".join(asked(f"GET /{kind}?{n} HTTP/1.1", "Host: bed.test") for n, kind in enumerate(("pass/a", "own", "pass/b", "own"))))
    bed.check(name, statuses(got) == [200] * 4, f"{statuses(got)}")
    # The origin's responses have a field of their own.
    marks = [b"X-Bed" in piece for piece in got.split(b"HTTP/1.1 200")[1:]]
    bed.check(name, marks == [True, False, True, False], f"{marks}")
    seen(bed)


def by_host(bed, name):
    """Pages of two hosts are two objects."""
    seen(bed)
    octets = b"".join(asked("GET /page HTTP/1.1", f"Host: {host}.test") for host in ("a", "b", "a", "b"))
    bed.check(name, statuses(exchange(bed.plain, octets)) == [200] * 4)
    bed.check(name, seen(bed) == ["GET /page"] * 4, "no-store of two hosts")


def early_pipe(bed, name):
    """Octets behind a request for an upgrade aren't sent on as long as the origin has not answered 101."""
    for fields in (["Upgrade: x", "Connection: upgrade"], ["Upgrade: x", "Connection: upgrade", "Content-Length: 5"]):
        seen(bed)
        body = b"hello" if len(fields) > 2 else b""
        exchange(bed.plain, asked("GET /pipe HTTP/1.1", "Host: bed.test", *fields, body=body) + SMUGGLED)
        there = seen(bed)
        bed.check(name, not any("smuggled" in one for one in there), f"the origin saw {there}")


def many_chunks(bed, name):
    """A body of 200,000 chunks is one body."""
    seen(bed)
    got = exchange(bed.plain, post("Transfer-Encoding: chunked", body=b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"))
    bed.check(name, statuses(got) == [200], f"{statuses(got)}")
    bed.check(name, seen(bed) == ["POST /pass/first"])


def hidden(bed, name):
    """Credentials of a request aren't in the page of an error."""
    got = exchange(bed.plain, asked("GET /nobody?c2VjcmV0 HTTP/1.1", "Host: bed.test", "Authorization: Basic c2VjcmV0", "Cookie: a=c2VjcmV0"))
    bed.check(name, statuses(got) == [503] and b"c2VjcmV0" not in got, f"{got[:300]!r}")


def logged(bed, name):
    """Octets that are no UTF-8 leave each line of the log valid JSON."""
    exchange(bed.plain, asked("GET /own?\xff\xfe HTTP/1.1", "Host: bed.test", "User-Agent: \xc3(\xed\xa0\x80", "Referer: a\\\"\t\x80"))
    program = pathlib.Path(bed.server.proc.args[0]).with_name("varnishlog-json")
    look = lambda: subprocess.run([program, "-n", bed.server.n, "-d", "-q", 'ReqURL ~ "^/own"'], capture_output=True, check=False).stdout
    lines = until(LIMIT, lambda: (out := look()).count(b"\n") and out) or b""
    for line in lines.splitlines():
        json.loads(line.decode("utf-8"))
    bed.check(name, b"/own?" in lines, f"{lines[:300]!r}")


OK = "POST /pass/first", "GET /pass/smuggled"  # Two requests, as they were sent
ROWS = {
    "CVE-2025-47905 CVE-2024-53868 junk behind a chunk": refused(chunked(b"5\r\nhelloXX\r\n0\r\n\r\n")),
    "CVE-2025-22871 a chunk's size ends with LF": refused(chunked(b"5\nhello\r\n0\r\n\r\n")),
    "CVE-2025-58056 LF in a chunk's extension": refused(chunked(b"5;\nxx\r\nhello\r\n0\r\n\r\n")),
    "CVE-2025-58056 CR in a chunk's extension": refused(chunked(b"5;\rxx\r\nhello\r\n0\r\n\r\n")),
    "CVE-2024-35161 a trailer that is no field": refused(chunked(b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n")),
    "CVE-2024-35161 a trailer with LF alone": refused(chunked(b"5\r\nhello\r\n0\r\na: b\nc: d\r\n\r\n")),
    "a chunk's size of too many digits": refused(chunked(b"00000000000000000000005\r\nhello\r\n0\r\n\r\n".replace(b"0" * 22, b"1" + b"0" * 21, 1))),
    "a chunk's size with a sign": refused(chunked(b"+5\r\nhello\r\n0\r\n\r\n")),
    "a chunk's size with 0x": refused(chunked(b"0x5\r\nhello\r\n0\r\n\r\n")),
    "CVE-2024-38311 a request behind a chunked body": row(chunked(b"5\r\nhello\r\n0\r\n\r\n"), [200, 200], OK),
    "CVE-2026-2835 chunked with HTTP/1.0": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", version="1.0")),
    "CVE-2026-2835 identity before chunked": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", "identity, chunked")),
    "CVE-2026-2835 chunked before identity": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", "chunked, identity")),
    "CVE-2024-1135 chunked twice": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", "chunked, chunked")),
    "CVE-2024-1135 a coding nobody knows": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", "xchunked")),
    "CVE-2024-6827 a control character before chunked": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", "\x0bchunked")),
    "CVE-2024-6827 chunked in quotes": refused(chunked(b"5\r\nhello\r\n0\r\n\r\n", '"chunked"')),
    "both framings": refused(post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n") + SMUGGLED),
    "CVE-2024-27982 a space before Content-Length": refused(asked("POST /pass/first HTTP/1.1", "Host: bed.test", " Content-Length: 5", body=b"hello") + SMUGGLED),
    "CVE-2024-27982 a space behind its name": refused(asked("POST /pass/first HTTP/1.1", "Host: bed.test", "Content-Length : 5", body=b"hello") + SMUGGLED),
    "two lengths": refused(post("Content-Length: 5", "Content-Length: 6", body=b"hello") + SMUGGLED),
    "a length with a sign": refused(post("Content-Length: +5", body=b"hello") + SMUGGLED),
    "CVE-2023-38522 a control character in a name": refused(asked("GET /pass/first HTTP/1.1", "Host: bed.test", "Na\x01me: x") + SMUGGLED),
    "CVE-2024-50305 a Host that is none": refused(asked("GET /pass/first HTTP/1.1", "Host: [") + SMUGGLED),
    "CVE-2024-50305 a Host of other octets": refused(asked("GET /pass/first HTTP/1.1", "Host: a\x80\xff,b") + SMUGGLED),
    "two Hosts": refused(asked("GET /pass/first HTTP/1.1", "Host: a.test", "Host: b.test") + SMUGGLED),
    "CVE-2025-67735 CR in a target": refused(asked("GET /pass/a\rb HTTP/1.1", "Host: bed.test") + SMUGGLED),
    "CVE-2025-30346 CVE-2024-49768 a request behind a refused one": row(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n" + SMUGGLED, [400]),
    "CVE-2025-64763 octets behind CONNECT": row(asked("CONNECT bed.test:443 HTTP/1.1", "Host: bed.test") + SMUGGLED, [{400, 405, 501}]),
    "CVE-2026-34475 a URL without a path": row(asked("GET http://bed.test HTTP/1.1", "Host: bed.test") , [200], ["GET /"]),
    "CVE-2026-34475 a query without a path": row(asked("GET http://bed.test?a HTTP/1.1", "Host: bed.test"), [{200, 400}], ["GET /?a"]),
    "CVE-2026-58055 an upgrade with a body": row(asked("POST /pass/first HTTP/1.1", "Host: bed.test", "Upgrade: x", "Connection: upgrade", "Content-Length: 5",
                                                       body=b"hello") + SMUGGLED, [200, 200], OK),
    "CVE-2026-2833 CVE-2024-23326 octets behind an upgrade": early_pipe,
    "CVE-2025-4366 a body that comes with a hit": cached_body,
    "CVE-2024-41671 the order of responses": ordered,
    "CVE-2026-2836 hosts share no page": by_host,
    "CVE-2024-25111 many chunks": many_chunks,
    "CVE-2024-34363 a log of other octets": logged,
    "CVE-2025-62168 credentials in an error": hidden,
    "CVE-2025-32464 a replacement that grows": row(asked("GET /grown/" + "a" * 7000 + " HTTP/1.1", "Host: bed.test"), [{200, 500, 503}]),
    "CVE-2026-42945 CVE-2026-9256 groups repeated in a URL": row(asked("GET /turned/" + "%20x" * 1500 + " HTTP/1.1", "Host: bed.test"), [{200, 400, 500, 503}],
                                                               ["GET /" + "%20x" * 4500 + "?" + "%20x" * 1500]),
}
