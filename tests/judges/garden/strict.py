# SPDX-License-Identifier: BSD-2-Clause
"""A reader of HTTP/1.1 messages that takes nothing but the grammar of RFC 9112, as a proxy must send it. It shares no code with what it judges."""
import collections
import re

HEAD = re.compile(rb"(?:[^\r\n]+\r\n)+\r\n")
REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([^\x00-\x20\x7f]+) HTTP/1\.([01])")
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-9][0-9][0-9]) [^\x00-\x08\x0a-\x1f\x7f]*")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")

Message = collections.namedtuple("Message", "first fields body")


class Malformed(Exception):
    """Octets that no proxy may send."""


class Incomplete(Exception):
    """More octets are needed."""


def head(octets):
    """The first line, the fields as (name in lower case, value), and the offset behind them."""
    end = octets.find(b"\r\n\r\n")
    if end < 0:
        raise Incomplete
    end += 4
    if not HEAD.fullmatch(octets, 0, end):
        raise Malformed(f"line ends: {octets[:end]!r}")
    first, *lines = octets[:end - 4].split(b"\r\n")
    fields = []
    for line in lines:
        match = FIELD.fullmatch(line)
        if not match:
            raise Malformed(f"field line {line!r}")
        fields.append((match[1].lower(), match[2]))
    return first, fields, end


def values(fields, name):
    return [value for given, value in fields if given == name]


def framing(fields):
    """`chunked`, a number of octets, or None if the fields name neither."""
    lengths, codings = values(fields, b"content-length"), values(fields, b"transfer-encoding")
    if len(lengths) + len(codings) > 1 or codings and codings[0].lower() != b"chunked" or lengths and not (lengths[0].isdigit() and int(lengths[0]) < 1 << 63):
        raise Malformed(f"framing {lengths} {codings}")
    return "chunked" if codings else int(lengths[0]) if lengths else None


def chunked(octets, at):
    out = []
    while True:
        match = SIZE.match(octets, at)
        if not match:
            if len(octets) - at < 17 and b"\n" not in octets[at:]:
                raise Incomplete
            raise Malformed(f"chunk {octets[at:at + 40]!r}")
        size, at = int(match[1], 16), match.end()
        if not size:
            break
        if len(octets) < at + size + 2:
            raise Incomplete
        out.append(octets[at:at + size])
        at += size
        if octets[at:at + 2] != b"\r\n":
            raise Malformed(f"after a chunk: {octets[at:at + 10]!r}")
        at += 2
    while True:
        end = octets.find(b"\r\n", at)
        if end < 0:
            raise Incomplete
        if end == at:
            return b"".join(out), end + 2
        if not FIELD.fullmatch(octets, at, end):
            raise Malformed(f"trailer {octets[at:end]!r}")
        at = end + 2


def body(octets, at, how):
    if how == "chunked":
        return chunked(octets, at)
    if len(octets) < at + how:
        raise Incomplete
    return octets[at:at + how], at + how


def request(octets):
    """The request at the start, and the number of octets that it takes."""
    first, fields, at = head(octets)
    line = REQUEST_LINE.fullmatch(first)
    if not line:
        raise Malformed(f"request line {first!r}")
    if len(values(fields, b"host")) != 1:
        raise Malformed(f"hosts {values(fields, b'host')}")
    content, at = body(octets, at, framing(fields) or 0)
    return Message((line[1], line[2], line[3]), fields, content), at


def response(octets, ended):
    """The same for a response to GET; without a length it needs the connection's end."""
    first, fields, at = head(octets)
    line = STATUS_LINE.fullmatch(first)
    if not line:
        raise Malformed(f"status line {first!r}")
    how = framing(fields)
    if line[1] in (b"204", b"304") or line[1][:1] == b"1":
        how = 0
    if how is None:
        if not ended:
            raise Incomplete
        return Message((line[1],), fields, octets[at:]), len(octets)
    content, at = body(octets, at, how)
    return Message((line[1],), fields, content), at
