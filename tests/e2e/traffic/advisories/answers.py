# SPDX-License-Identifier: BSD-2-Clause
"""Responses of an origin: heads that split, interim responses, framings, ESI that includes itself. The client gets one well-formed response, or 503."""
import re
import socket

from bed.http import Client
from bed.origin import Origin, head

CASES, ASKED = {}, []
LIMIT = 60  # seconds; it only ends what hangs


def serve(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buf = b""
    while got := head(s, buf):
        _, path, _, buf = got
        ASKED.append(path)
        s.sendall(CASES.get(path.split("?")[0], b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
        if path.startswith("/pass"):
            return


def origin():
    return Origin(serve)


def answered(octets, expected, fields=(), path="/pass", lacks=(), body=None):
    """Octets that the origin answers with; how the client's response ends: (status, end) pairs that are right."""
    def act(bed, name):
        at = f"{path}/{len(CASES)}"
        CASES[at] = octets
        with Client(bed.plain, LIMIT) as client:
            got = client.request(at, fields)
        bed.check(name, (got.status, got.end) in expected, f"{got} {got.fields} instead of {expected}")
        bed.check(name, not any(got.get(one) for one in lacks), f"{got.fields}")
        bed.check(name, body is None or got.body == body, f"{got.body[:100]!r}")
    return act


def response(*fields, status="200 OK", body=b"hello", length=True):
    lines = [f"HTTP/1.1 {status}", *([f"Content-Length: {len(body)}"] if length else []), *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def itself(bed, name):
    """A page that includes itself twice ends at `max_esi_depth`."""
    CASES["/esi/self"] = response("Cache-Control: max-age=60", body=b'<a/>x<esi:include src="/esi/self"/><esi:include src="/esi/self"/>')
    with Client(bed.plain, LIMIT) as client:
        got = client.request("/esi/self")
    depth = int(re.search(r"Value is: (\d+)", bed.server.cli.ask("param.show max_esi_depth"))[1])
    bed.check(name, got.whole() or got.end == "truncated", f"{got}")
    bed.check(name, 0 < got.body.count(b"x") < 2 << depth, f"{got.body.count(b'x')} copies")


def spoilt_esi(bed, name):
    """Tags of a hostile page: nothing is read beyond it, and the process goes on."""
    pieces = (b"<esi:include src=", b'<esi:include src="' + b"a" * 200_000, b'<esi:include src="/esi/none" ' + b"x" * 70_000 + b"/>", b"<esi:include/>",
              b"<esi:vars>$(HTTP_COOKIE{" + b"a" * 70_000, b"<esi:remove>", b"<!--esi " * 1000, b"<esi:\0>", b"<esi:include src='/esi/\r\nHost: x'/>")
    for n, piece in enumerate(pieces):
        CASES[f"/esi/{n}"] = response(body=b"<p/>begin" + piece)
        with Client(bed.plain, LIMIT) as client:
            got = client.request(f"/esi/{n}")
        bed.check(name, got.status in (200, 503) and got.end in ("complete", "truncated"), f"{piece[:40]!r}: {got}")


def one_page(bed, name):
    """Whatever Accept-Encoding says, a page that varies by it is at most two objects."""
    CASES["/kept"] = response("Cache-Control: max-age=60", "Vary: Accept-Encoding")
    ASKED.clear()
    for value in ("gzip;q=abc", ",,\t;", "gzip, " * 1000, "*;q=0", "\xff", "", "gzip;q=0", "br", "identity;q=0", "GZIP"):
        with Client(bed.plain, LIMIT) as client:
            got = client.request("/kept", [("Accept-Encoding", value)])
        bed.check(name, got.whole(), f"{value[:40]!r}: {got}")
    bed.check(name, len(ASKED) <= 2, f"asked {len(ASKED)} times")


BAD = [(503, "complete")]
GOOD = [(200, "complete")]
CUT = [(503, "complete"), (200, "truncated")]
ROWS = {
    "CVE-2024-24795 CVE-2024-42516 CR in a value": answered(response("X-A: a\rSet-Cookie: b"), BAD, lacks=["Set-Cookie"]),
    "CVE-2024-24795 LF in a value": answered(response("X-A: a\nSet-Cookie: b"), GOOD + BAD),
    "CVE-2024-24795 NUL in a value": answered(response("X-A: a\0b"), BAD),
    "CVE-2024-24795 a name with a space": answered(response("X A: b"), BAD),
    "a control character in the reason": answered(response(status="200 O\x01K"), BAD),
    "a status of five digits": answered(response(status="20000 OK"), BAD),
    "a status below 100": answered(response(status="099 OK"), BAD),
    "CVE-2024-53270 a switch nobody asked for": answered(response(status="101 Switching Protocols", length=False), BAD),
    "CVE-2024-53271 two interim responses": answered(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" * 2 + response(), GOOD, body=b"hello"),
    "CVE-2024-53271 100,000 interim responses": answered(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100_000 + response(), GOOD + BAD),
    "CVE-2024-53271 an interim response with a body": answered(b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n" + response(), GOOD + BAD),
    "a response with both framings": answered(response("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"), BAD),
    "a response of two lengths": answered(response("Content-Length: 6"), BAD),
    "a response whose length has a sign": answered(response("Content-Length: +5", length=False), BAD),
    "a response's chunk of 2^64": answered(response("Transfer-Encoding: chunked", length=False, body=b"10000000000000005\r\nhello\r\n0\r\n\r\n"), CUT),
    "a response's chunk size below 0": answered(response("Transfer-Encoding: chunked", length=False, body=b"-5\r\nhello\r\n0\r\n\r\n"), CUT),
    "a response of 100,000 fields": answered(response(*["X-A: b"] * 100_000), BAD),
    "a field of 1 MB": answered(response("X-A: " + "b" * (1 << 20)), BAD),
    "CVE-2026-60005 a part beyond any length": answered(response("Content-Range: bytes 0-4/99999999999999999999999", status="206 Partial Content"),
                                                        [(206, "complete"), (503, "complete"), (200, "complete")], [("Range", "bytes=0-4")]),
    "CVE-2026-60005 a part that wasn't asked for": answered(response("Content-Range: bytes 18446744073709551615-3/4", status="206 Partial Content"),
                                                            [(206, "complete"), (503, "complete")]),
    "CVE-2024-35296 Accept-Encoding of any kind": one_page,
    "CVE-2025-49763 ESI that includes itself": itself,
    "CVE-2024-37894 CVE-2024-45802 hostile ESI": spoilt_esi,
}
