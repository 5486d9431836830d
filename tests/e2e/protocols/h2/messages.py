# SPDX-License-Identifier: BSD-2-Clause
"""Requests, good and malformed, whatever version carries them: fields as they stand in the block, body, trailers; and what has to come of them.

Each names the case of tests/e2e/protocols/h1/cases.json that it is, where there is one: `ALIKE`; `WITHOUT_MEANING` are those that are HTTP/1's alone.
"""
import dataclasses

REFUSE, CLEAN, SERVE = "refuse", "clean", "serve"


@dataclasses.dataclass
class Message:
    """`expect`: REFUSE: an error on the stream or an answer of 4xx, nothing at the origin; CLEAN: as before, or one well-framed request at
    the origin without the `forbid` patterns; SERVE: that, answered with 2xx, with the `must` patterns and, where it is given, `served_body`.
    `pieces`: octets a DATA frame."""
    id: str
    group: str
    fields: list
    expect: str = REFUSE
    body: bytes = None
    trailers: list = None
    forbid: tuple = ()
    must: tuple = ()
    like: str = ""
    pieces: int = 0
    served_body: bytes = None
    ends: bool = False  # there is so much of it that the connection may be ended


def of(method="GET", path="/c", scheme="http", authority="bed.test", more=(), before=()):
    """The fields of a request; None leaves one out."""
    pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [*before, *((name, value) for name, value in pseudo if value is not None), *more]


def post(more=()):
    return of("POST", more=more)


HOST = ("host", "bed.test")
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: bed.test\r\n\r\n"
AFTER_LINE = " HTTP/1.1\r\nX-Smug: 1\r\n\r\n"


def pseudo():
    """The request line and what became of it."""
    g = "pseudo-headers"
    yield Message("good", g, of(), SERVE, must=("^GET /c HTTP/1.1\r\n", "(?i)\r\nhost: bed.test\r\n"), like="rl-good")
    yield Message("good-order", g, [(":path", "/c"), (":authority", "bed.test"), (":scheme", "http"), (":method", "GET")], SERVE)
    yield Message("options-asterisk", g, of("OPTIONS", "*"), CLEAN)
    yield Message("query", g, of(path="/c?a=b&c=/d?e"), SERVE, must=(r"^GET /c\?a=b&c=/d\?e HTTP",))
    for name in (":method", ":scheme", ":path"):
        yield Message(f"without-{name[1:]}", g, [pair for pair in of() if pair[0] != name])
        yield Message(f"empty-{name[1:]}", g, [(key, "" if key == name else value) for key, value in of()])
    for name, value in of():
        yield Message(f"twice-{name[1:]}", g, [(name, value), *of()])
        # RFC 9113 8.3 calls it malformed. varnishd's clients know it otherwise, and it changes nothing where each comes once, but for whose it is.
        yield Message(f"late-{name[1:]}", g, [pair for pair in of() if pair[0] != name] + [("x-a", "b"), (name, value)], REFUSE if name == ":authority" else CLEAN)
        yield Message(f"upper-{name[1:]}", g, [(":" + key[1:].title() if key == name else key, was) for key, was in of()])
    yield Message("twice-late-path", g, of(more=[("x-a", "b"), (":path", "/smuggled")]))
    yield Message("unknown", g, of(before=[(":foo", "bar")]))
    yield Message("status", g, of(before=[(":status", "200")]))
    yield Message("colon-alone", g, of(before=[(":", "bar")]))
    yield Message("protocol-with-get", g, of(before=[(":protocol", "websocket")]))
    yield Message("connect", g, [(":method", "CONNECT"), (":authority", "evil.test:25")], like="rl-connect")
    yield Message("connect-with-path", g, of("CONNECT", authority="evil.test:25"))
    yield Message("connect-without-authority", g, [(":method", "CONNECT")])
    for char, name, twin in ((" ", "space", "rl-two-spaces"), ("\t", "tab", "rl-tab"), ("\v", "vt", "rl-vt"), ("\0", "nul", "rl-method-nul"),
                             ("\r", "cr", ""), ("\n", "lf", ""), ("\x7f", "del", "")):
        yield Message(f"method-{name}", g, of(f"G{char}T"), forbid=("G.?T /c",), like=twin)
        yield Message(f"path-{name}", g, of(path=f"/c{char}d"), forbid=("/c[^ ]?d",))
        yield Message(f"path-{name}-first", g, of(path=f"{char}/c"))
        yield Message(f"authority-{name}", g, of(authority=f"bed{char}.test"), forbid=(r"bed[^.]\.test",))
        yield Message(f"scheme-{name}", g, of(scheme=f"ht{char}tp"))
    yield Message("method-badchar", g, of("G(T"), forbid=(r"G\(T",), like="rl-method-badchar")
    yield Message("method-line", g, of("GET /smuggled" + AFTER_LINE + "GET"))
    yield Message("method-obs-text", g, of("G\xe9T"), forbid=("G\xe9T",))
    yield Message("path-version", g, of(path="/c HTTP/1.9"), like="rl-version-19")
    yield Message("path-version-lower", g, of(path="/c http/1.1"), like="rl-version-lower")
    yield Message("path-line", g, of(path="/c" + AFTER_LINE), like="le-lf-end")
    yield Message("path-smuggled", g, of(path="/c HTTP/1.1\r\nHost: bed.test\r\n\r\n" + SMUGGLED))
    yield Message("path-fragment", g, of(path="/c#frag"), CLEAN, forbid=("#frag",), like="rl-uri-fragment")
    yield Message("path-noslash", g, of(path="c"), forbid=("GET c ",), like="rl-uri-noslash")
    yield Message("path-absolute", g, of(path="http://bed.test/c"), CLEAN, forbid=("GET http",), like="rl-absolute")
    yield Message("path-absolute-other", g, of(path="http://evil.test/c"), CLEAN, forbid=("(?i)GET http", "(?i)host: *evil"))
    yield Message("path-asterisk-get", g, of(path="*"), like="rl-asterisk-get")
    yield Message("path-long", g, of(path="/" + "p" * 40_000), CLEAN)
    yield Message("scheme-line", g, of(scheme="http\r\nX-Smug: 1"), forbid=("(?i)x-smug",))
    yield Message("scheme-path", g, of(scheme="http://evil.test/x?"), CLEAN, forbid=("evil",))
    yield Message("scheme-other", g, of(scheme="ftp"), CLEAN)
    yield Message("trace", g, of("TRACE"), CLEAN, like="cn-trace")
    yield Message("head", g, of("HEAD"), SERVE, must=("^HEAD|^GET",))


def authority():
    """Whose the request is."""
    g = "authority"
    yield Message("host-alone", g, of(authority=None, more=[HOST]), SERVE, must=("(?i)\r\nhost: bed.test\r\n",))
    yield Message("host-same", g, of(more=[HOST]), SERVE, must=("(?i)\r\nhost: bed.test\r\n",))
    yield Message("host-other", g, of(more=[("host", "evil.test")]), forbid=("evil",))
    yield Message("host-other-port", g, of(authority="bed.test:80", more=[("host", "bed.test:81")]), forbid=(":81",))
    yield Message("host-other-space", g, of(more=[("host", "bed.test evil.test")]), forbid=("evil",))
    yield Message("no-authority", g, of(authority=None), CLEAN, like="ho-missing")
    yield Message("empty-authority", g, of(authority=""))
    yield Message("empty-authority-host", g, of(authority="", more=[HOST]), CLEAN)
    # As HTTP/1's goes on.
    yield Message("empty-host", g, of(authority=None, more=[("host", "")]), CLEAN)
    yield Message("host-twice", g, of(authority=None, more=[HOST, ("host", "evil.test")]), forbid=("evil",), like="ho-twice")
    yield Message("host-twice-same", g, of(authority=None, more=[HOST, HOST]), like="ho-twice-same")
    yield Message("host-twice-beside", g, of(more=[HOST, ("host", "evil.test")]), forbid=("evil",))
    for name, value, twin in (("space", "bed.test evil.test", "ho-space"), ("path", "bed.test/x?", "ho-path"), ("port", "bed.test:80x", "ho-port-junk"),
                              ("userinfo", "bed.test@evil.test", "rl-absolute-userinfo"), ("list", "bed.test, evil.test", ""),
                              ("line", "bed.test\r\nX-Smug: 1", ""), ("question", "bed.test?evil", ""), ("fragment", "bed.test#evil", "")):
        yield Message(f"authority-{name}", g, of(authority=value), forbid=("evil", r"bed\.test/x", "80x", "(?i)x-smug"), like=twin)
        yield Message(f"host-{name}", g, of(authority=None, more=[("host", value)]), forbid=("evil", r"bed\.test/x", "80x", "(?i)x-smug"))
    yield Message("authority-case", g, of(authority="BED.TEST."), SERVE, like="ho-dot-case")
    yield Message("authority-ipv6", g, of(authority="[::1]:80"), SERVE)


def fields():
    """Names and values."""
    g = "fields"

    def one(id, name, value, expect=REFUSE, **more):
        return Message(id, g, of(more=[(name, value)]), expect, **more)
    yield one("value-empty", "x-a", "", SERVE, like="fl-empty-value")
    yield one("value-obs-text", "x-a", "\xe9\xff", SERVE)
    yield one("value-tab", "x-a", "a\tb", SERVE)
    for char, name, twin in (("\n", "lf", "le-lf-field"), ("\r", "cr", "le-cr-field"), ("\r\n", "crlf", ""), ("\0", "nul", "")):
        yield one(f"value-{name}", "x-a", f"b{char}X-Smug: 1", forbid=(r"\r\n(?i:x-smug)", "[^\r]\n", "\r[^\n]", "\0"), like=twin)
        yield one(f"value-{name}-last", "x-a", f"b{char}", forbid=("[^\r]\n", "\r[^\n]", "\0"))
        yield one(f"value-{name}-alone", "x-a", char, forbid=("[^\r]\n", "\r[^\n]", "\0"))
        yield one(f"name-{name}", f"x-a{char}b", "c")
    yield one("value-cr-cr", "x-a", "b\r\r", forbid=("\r\r",), like="le-cr-cr-lf")
    yield one("value-fold", "x-a", "a\r\n b", forbid=("\r\n[ \t]",), like="fl-obs-fold")
    yield one("value-request", "x-a", "b\r\n\r\n" + SMUGGLED)
    yield one("value-te-lf", "x", "y\nTransfer-Encoding: chunked", forbid=("[^\r]\n",), like="te-lf-hide")
    yield one("value-te-cr", "x", "y\rTransfer-Encoding: chunked", forbid=("\rTransfer",), like="te-cr-hide")
    for char, name in (("\x01", "soh"), ("\x1b", "esc"), ("\x7f", "del")):
        yield one(f"value-{name}", "x-a", f"a{char}b", CLEAN)
    for value, name in ((" b", "space-first"), ("b ", "space-last"), ("\tb", "tab-first"), ("b\t", "tab-last"), (" ", "space-alone")):
        yield one(f"value-{name}", "x-a", value, CLEAN)
    for name, twin in (("X-A", ""), ("x-A", ""), ("x-a ", "fl-ws-before-colon"), (" x-a", ""), ("x a", "fl-name-space"), ("x-a:", "fl-no-colon"), ("x:a", ""),
                       ("", ""), ("x(a", ""), ("x-\xe9", ""), ("x-a\x7f", ""), ("x\"a", ""), ("x/a", ""), ("x,a", ""), ("Host", ""), ("Content-Length", ""),
                       ("x-a: b\r\nx-smug", ""), ("transfer-encoding ", "te-space-name")):
        yield Message(f"name-{name.encode('unicode_escape').decode()!r}", g, of(more=[(name, "bed.test" if name == "Host" else "0")]), like=twin)
    yield one("name-long", "x" * 20_000, "b", CLEAN)
    yield one("huge", "x-a", "v" * 300_000, CLEAN, ends=True, like="fl-huge")
    yield Message("many", g, of(more=[(f"x-{n}", "v") for n in range(3000)]), CLEAN)
    yield Message("cookies", g, of(more=[("cookie", "a=b"), ("x-a", "b"), ("cookie", "c=d"), ("cookie", "e=f")]), SERVE,
                  must=("(?i)\r\ncookie: a=b; c=d; e=f\r\n",), forbid=("(?is)\r\ncookie:.*\r\ncookie:",))
    yield Message("cookie-empty", g, of(more=[("cookie", ""), ("cookie", "c=d")]), CLEAN)
    # RFC 9113 8.2.2: what is of one connection.
    for name, value, twin in (("connection", "close", ""), ("connection", "host", "fl-connection-host"), ("connection", "keep-alive", ""),
                              ("connection", "x-a", ""), ("keep-alive", "timeout=5", ""), ("proxy-connection", "keep-alive", ""),
                              ("upgrade", "h2c", "cn-upgrade-h2c-smug"), ("upgrade", "websocket", "cn-upgrade-ws"), ("te", "gzip", ""),
                              ("te", "trailers, deflate;q=0.5", ""), ("te", "", "")):
        yield one(f"{name}-{value}", name, value, like=twin)
    yield one("te-trailers", "te", "trailers", SERVE, like="fl-te-hop")
    yield Message("expect-bogus", g, post([("expect", "pigs-fly"), ("content-length", "5")]), CLEAN, body=b"hello", like="cn-expect-bogus")


def lengths():
    """Content-Length against DATA, and what HTTP/1 would make of a body."""
    g = "content-length"

    def one(id, value, body=b"hello", expect=REFUSE, **more):
        return Message(id, g, post([("content-length", value)]), expect, body=body, **more)
    yield one("right", "5", expect=SERVE, served_body=b"hello")
    yield Message("none", g, post(), SERVE, body=b"hello", served_body=b"hello")
    yield Message("none-empty", g, post(), CLEAN, body=b"", like="cn-bodyless-post")
    yield Message("none-no-data", g, post(), CLEAN)
    yield one("too-short", "6", expect=REFUSE)
    yield one("far-too-short", "50", like="cl-short-eof")
    yield one("too-long", "4")
    yield one("none-of-it", "5", body=None)
    yield one("empty-of-it", "5", body=b"")
    yield one("zero-with-data", "0")
    yield one("zero", "0", body=None, expect=SERVE)
    yield one("zero-empty", "0", body=b"", expect=SERVE)
    yield one("too-long-smuggled", "5", b"hello" + SMUGGLED.encode())
    yield one("get", str(len(SMUGGLED)), SMUGGLED.encode(), expect=CLEAN, like="cl-get-body")
    yield Message("get-body", g, of(more=[("content-length", str(len(SMUGGLED)))]), CLEAN, body=SMUGGLED.encode())
    yield Message("get-body-no-length", g, of(), CLEAN, body=SMUGGLED.encode())
    yield Message("get-length-no-data", g, of(more=[("content-length", "5")]))
    for value, name, twin in (("0x5", "hex", "cl-hex"), ("", "empty", "cl-empty"), ("9223372036854775808", "63", "cl-overflow63"), ("18446744073709551621", "64", ""),
                              ("\v5", "vt", "cl-vt"), ("+5", "plus", ""), ("-5", "minus", ""), ("5.0", "point", ""), ("5 5", "words", ""), ("5;a", "junk", ""),
                              ("five", "word", ""), ("5, 6", "list-diff", "cl-list-diff"), ("5\0", "nul", ""), ("5\r\nX-Smug: 1", "line", "")):
        yield one(name, value, forbid=("0x5", "\v", "(?i)x-smug", r"(?i)content-length: *[+-]"), like=twin)
    yield one("list-same", "5, 5", expect=CLEAN, forbid=("5, *5",), like="cl-list-same")
    yield one("zeros", "005", expect=CLEAN)
    twice = [("content-length", "5"), ("content-length", "5")]
    yield Message("twice-same", g, post(twice), CLEAN, body=b"hello", forbid=("(?is)content-length.*content-length",), like="cl-twice-same")
    yield Message("twice-diff", g, post([("content-length", "5"), ("content-length", "6")]), REFUSE, body=b"hello!", like="cl-twice-diff")
    yield one("tiny", "3000", b"x" * 3000, SERVE, pieces=1, served_body=b"x" * 3000, like="ch-tiny")
    yield Message("looks-chunked", g, post(), SERVE, body=b"0\r\n\r\n" + SMUGGLED.encode(), served_body=b"0\r\n\r\n" + SMUGGLED.encode())


def encodings():
    """RFC 9113 8.1: chunked isn't used; a Transfer-Encoding is a field of one connection."""
    g = "transfer-encoding"
    for value, name, twin in (("chunked", "chunked", "te-case"), ("Chunked", "case", ""), ("xchunked", "x", "te-xchunked"), ("identity, chunked", "identity", "te-identity-chunked"),
                              (",chunked", "comma", "te-lead-comma"), ("\vchunked", "vt", "te-vt"), ("chunked;q=0.5", "parameter", "te-param"), ("", "empty", "te-empty"),
                              ("identity", "identity-alone", "te-two-lines")):
        yield Message(name, g, post([("transfer-encoding", value)]), body=b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED.encode(), like=twin)
    yield Message("beside-length", g, post([("content-length", "6"), ("transfer-encoding", "chunked")]),
                  body=b"0\r\n\r\nG", like="te-cl-both")
    yield Message("smuggled", g, post([("content-length", str(5 + len(SMUGGLED))), ("transfer-encoding", "chunked")]),
                  body=b"0\r\n\r\n" + SMUGGLED.encode(), like="te-cl-smug")


def trailers():
    """Fields behind the body."""
    g = "trailers"

    def one(id, name, value, expect=REFUSE, more=(), **how):
        return Message(id, g, post(more), expect, body=b"hello", trailers=[(name, value)], **how)
    yield one("good", "x-t", "1", SERVE, served_body=b"hello", like="ch-trailer")
    yield one("good-length", "x-t", "1", SERVE, more=[("content-length", "5")], served_body=b"hello")
    yield Message("no-body", g, post(), CLEAN, trailers=[("x-t", "1")])
    yield Message("empty", g, post(), CLEAN, body=b"hello", trailers=[])
    yield one("length-broken", "x-t", "1", more=[("content-length", "6")])
    for name, value in of():
        yield one(f"pseudo-{name[1:]}", name, value)
    yield one("status", ":status", "200")
    yield one("upper", "X-T", "1")
    yield one("name-space", "x t", "1", like="ch-trailer-bad")
    yield one("value-lf", "x-t", "1\nX-Smug: 1", like="ch-trailer-lf-smug")
    yield one("value-crlf", "x-t", "1\r\n\r\n" + SMUGGLED)
    yield one("value-nul", "x-t", "1\0")
    yield one("connection", "connection", "close")
    yield one("transfer-encoding", "transfer-encoding", "chunked")
    yield one("content-length", "content-length", "50", CLEAN, more=[("content-length", "5")], forbid=("50",))
    yield one("content-length-alone", "content-length", "50", CLEAN, forbid=("50",))
    yield one("host", "host", "evil.test", CLEAN, forbid=(r"(?is)host: bed\.test.*\r\n\r\n.*evil", "(?i)^[^\0]*host: evil.*\r\n\r\nhello"))


MESSAGES = [*pseudo(), *authority(), *fields(), *lengths(), *encodings(), *trailers()]
ALIKE = {message.like for message in MESSAGES if message.like}
# Line ends, chunks and versions: HTTP/2 and HTTP/3 say the same in frames, or not at all.
WITHOUT_MEANING = set("""rl-many-crlf fl-fold-first te-10 ch-ext ch-ext-quoted-crlf ch-ext-bare-lf ch-ext-bare-cr ch-size-minus ch-size-space-trail
    ch-size-junk ch-size-underscore ch-lf-only ch-cr-only ch-no-crlf-after ch-junk-after""".split())
