# SPDX-License-Identifier: BSD-2-Clause
"""A grammar of HTTP requests and responses that are nearly right, drawn from a seed: framing, chunks, line ends, blanks, targets, hosts. A tenth of the
messages are changed octet by octet as well."""
import random

from bed import h2
from bed.hpack import NOT_ADDED, literal

INNER = b"GET /inner HTTP/1.1\r\nHost: inner\r\n\r\n"
BODIES = [b"", b"hello", b"0\r\n\r\n", INNER, b"5\r\nhello\r\n0\r\n\r\n", b"x" * 300, b"a" * 5000]
METHODS = [b"GET"] * 5 + [b"POST"] * 5 + [b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"QUERY"]
ODD_METHODS = [b"get", b"GE T", b"", b"G\0T", b"TRACE", b"CONNECT", b"PURGE", b"PRI", b"GET\t", b"\"GET\"", b"GET\xff", b"A" * 40]
TARGETS = [b"/a", b"/a?b=c", b"/", b"/%2e%2e/a", b"/a;b", b"/%0d%0aX:%20y"]
ODD_TARGETS = [b"*", b"a", b"", b"//a", b"/a b", b"/a\tb", b"/a\0b", b"/a#f", b"?a", b"http://other/a", b"http://other", b"HTTP://other:80/a", b"http://u@other/a",
               b"https://other/a", b"http:///a", b"http://a b/", b"other:443", b"/a\x7f", b"/\xc3\xa4", b"/a\\b", b"/\"a\"", b"/a HTTP/1.1", b"/" + b"a" * 3000,
               b"http://other?a", b"/a|b", b"/{a}", b"/%zz", b"ftp://other/a", b"/a\x0bb", b"/a\rb"]
VERSIONS = [b"HTTP/1.1"] * 200 + [b"HTTP/1.0"] * 20 + [b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 ", b"HTTP/01.1", b"HTTP/1.1\t", b"", b"HTTP/1.10", b"HTTP/11"]
HOSTS = [b"a", b"a.test:80", b"[::1]", b"A.Test"]
ODD_HOSTS = [b"", b"a b", b"a,b", b"a/b", b"a@b", b"a:b", b"a:99999", b"[::1", b"a\0b", b"http://a", b"a#b", b"a?b", b"a\\b", b"\xff", b"a%00b", b"a;b", b"\"a\""]
LINE_ENDS = [b"\r\n"] * 80 + [b"\n", b"\r", b"\r\r\n", b"\n\r", b" \r\n", b"\t\r\n", b"\0\r\n", b"\x0b\r\n", b"\r\n "]
COLONS = [b": "] * 60 + [b":", b":\t", b" : ", b" :", b":  ", b"\t:", b":\r\n ", b":\r\n\t", b": \0", b":\x0b", b":\x0c", b"", b"\0: ", b":\xa0", b":\r"]
CODINGS = [b"chunked"] * 100 + [b"Chunked", b"CHUNKED", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"chunked, identity", b"identity, chunked", b"",
                              b",chunked", b"chunked,", b"xchunked", b"chunked ;a=b", b"chunked;q=0.5", b"\"chunked\"", b"chun\r\n ked", b"chunked\0", b"\x0bchunked", b"chunked\x0b",
                              b"chunked\t", b"chunked\xa0", b"chunke\xc4\x8f", b"trailers", b"chunked\r\n , chunked", b"cow"]
LENGTH_NAMES = [b"Content-Length"] * 100 + [b"content-length", b"CONTENT-LENGTH", b"Content_Length", b"Content-Length ", b" Content-Length", b"\tContent-Length", b"Content-Length\0",
                                           b"Content\0-Length", b"Content-Length\x0b", b"Content-Lengt\xc4\xa7", b"X\rContent-Length", b"X: y\nContent-Length", b"Content Length",
                                           b"\"Content-Length\"", b"Content-Length\xa0"]
CODING_NAMES = [name.replace(b"Content-Length", b"Transfer-Encoding").replace(b"CONTENT-LENGTH", b"TRANSFER-ENCODING").replace(b"content-length", b"transfer-encoding")
                .replace(b"Content_Length", b"Transfer_Encoding") for name in LENGTH_NAMES]
MORE = [(b"Connection", b"close"), (b"Connection", b"keep-alive"), (b"Connection", b"content-length"), (b"Connection", b"transfer-encoding"), (b"Connection", b"host, x-vxid"),
        (b"Connection", b"upgrade"), (b"Upgrade", b"h2c"), (b"Upgrade", b"websocket"), (b"HTTP2-Settings", b"AAMAAABkAARAAAAAAAIAAAAA"), (b"Expect", b"100-continue"),
        (b"Expect", b"200-ok"), (b"TE", b"trailers"), (b"Trailer", b"Content-Length"), (b"X-Vxid", b"1"), (b"X_Vxid", b"1"), (b"X-HTTP-Method-Override", b"PUT"),
        (b"Keep-Alive", b"timeout=5"), (b"Proxy-Connection", b"keep-alive"), (b"Content-Encoding", b"gzip"), (b"Range", b"bytes=0-1"), (b"Cookie", b"a=b"), (b"X-Empty", b""),
        (b"X-Long", b"l" * 4000), (b"X-A", b"\xff"), (b"X-B", b"y")]
ODD_MORE = [(b"", b"x"), (b"X Y", b"x"), (b"X-A", b"a\0b"), (b"X-A", b"a\rb"), (b"X-A", b"a\nX-B: c"), (b"X-A", b"a\r\n b"), (b"(x)", b"y")]
SIZE_ENDS = [b"\r\n"] * 20 + [b";a\r\n", b";a=b\r\n", b";a=\"b;c\"\r\n", b" ;a\r\n", b";\r\n", b" \r\n", b"\t\r\n", b"\n", b"\r", b";a\n", b";a=\"\r\n\"\r\n", b";a\nb\r\n", b";a\rb\r\n",
                              b"\0\r\n", b";" + b"a" * 200 + b"\r\n", b"\r\r\n", b"\x0b\r\n", b";a=b;c=d\r\n"]
DATA_ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"", b"\r\r\n", b"xx", b"\n\n", b"\r\nX"]
LAST = [b"0\r\n\r\n"] * 20 + [b"00\r\n\r\n", b"0;a\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\nHost: b\r\n\r\n", b"0\r\nbad\r\n\r\n", b"0\n\n", b"0\r\n\n", b"0\n\r\n",
                              b"0\r\n", b"", b"0 \r\n\r\n", b"0x0\r\n\r\n", b"-0\r\n\r\n", b"0\r\r\n\r\n", b"0\r\n X: y\r\n\r\n", b"0\r\n\0\r\n\r\n", b"0\r\nX: y\n\n", b"\r\n\r\n", b"0\r\n\r",
                              b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nX : y\r\n\r\n", b"0000000000000000000000\r\n\r\n", b"10000000000000000\r\n\r\n"]
H2_NAMES = [b"x-a", b"content-length", b"transfer-encoding", b"host", b"connection", b"X-A", b"x a", b"x\r\na", b"x:a", b"", b"te", b"upgrade", b":path", b":x", b"x-vxid", b"x\0", b"cookie",
            b"content-length\r\nx", b"http2-settings", b"expect", b"keep-alive", b"trailer"]
H2_VALUES = [b"a", b"5", b"0", b"chunked", b"a\r\nX-B: c", b"a\nX-B: c", b"a\rb", b"a\0b", b" a", b"a ", b"\ta", b"close", b"trailers", b"gzip", b"b", b"100-continue", b"\xff", b"",
             b"a\r\n\r\nGET /inner HTTP/1.1\r\nHost: inner\r\n\r\n", b"h2c", b"x" * 3000, b"5, 5", b"+5"]
SOME = b"\r\n\0 :\t\x0b\x7f\xff,;\"/0aA-_"


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def rarely(self, usual, odd, chance=0.04):
        return self.r.choice(odd if self.r.random() < chance else usual)

    def size(self, n):
        shapes = [b"%x", b"%X", b"0%x", b"000000%x"] if self.r.random() < 0.97 else [b"0x%x", b"+%x", b" %x", b"-%x", b"%x.0", b"1%015x", b"%x\0", b"_%x", b"%xg", b"ffffffffffffffff%x", b"\"%x\""]
        return self.r.choice(shapes) % n

    def length(self, n):
        if self.r.random() < 0.9:
            return b"%d" % n
        return self.r.choice([b"+%d", b"0%d", b"-%d", b"%d,", b",%d", b"0x%x", b"%d.0", b"%de0", b"%d 1", b"%d\r\n 1", b"\"%d\"", b"%d;", b"1844674407370955162%d", b"%d\0", b"\x0b%d", b"%d_0",
                              b"000000000000000000000000%d", b"%d\xa0", b"%d\t", b" %d", b"\xef\xbc\x95%d"]) % n if self.r.random() < 0.5 else self.r.choice(
                                  [b"%d, %d" % (n, n), b"%d,%d" % (n, n + 1), b"", b"%d" % (n + 1), b"%d" % max(n - 1, 0), b"%d" % (n + 30), b"0"])

    def chunks(self, body):
        r, out, at = self.r, b"", 0
        while at < len(body):
            step = r.choice([1, 3, 10, 1000, len(body)])
            piece = body[at:at + step]
            out += self.size(len(piece)) + self.rarely([b"\r\n"], SIZE_ENDS, 0.1) + piece + self.rarely([b"\r\n"], DATA_ENDS, 0.03)
            at += step if len(out) < 3000 else len(body)
        return out + self.rarely([b"0\r\n\r\n"], LAST, 0.2)

    def framed(self, wants_body):
        """Header fields that frame a body, and the body."""
        r, body, fields = self.r, self.r.choice(BODIES), []
        kind = r.random()
        if not wants_body and kind < 0.7:
            return [], b""
        if kind < 0.45:
            fields.append((r.choice(LENGTH_NAMES), self.length(len(body))))
            raw = body
        else:
            fields.append((r.choice(CODING_NAMES), r.choice(CODINGS)))
            raw = self.chunks(body)
        more = r.random()
        if more < 0.05:
            fields.insert(r.randint(0, 1), (r.choice(LENGTH_NAMES), self.length(r.choice([len(raw), len(body), 0, 3]))))
        elif more < 0.08:
            fields.insert(r.randint(0, 1), (r.choice(CODING_NAMES), r.choice(CODINGS)))
        return fields, raw

    def lines(self, first, fields, end):
        strange = self.r.random() < 0.1
        line_end = lambda: self.r.choice(LINE_ENDS) if strange else end
        colon = lambda: self.r.choice(COLONS) if strange else b": "
        return first + line_end() + b"".join(name + colon() + value + line_end() for name, value in fields) + line_end()

    def fields(self, hosts):
        r = self.r
        fields = [(self.rarely([b"Host"], [b"host", b"HOST", b"Host ", b"Hos\0t"], 0.02), self.rarely(hosts, ODD_HOSTS)) for _ in range(r.choice([1] * 100 + [0, 2]))]
        return fields + [self.rarely(MORE, ODD_MORE) for _ in range(r.choice([0, 0, 0, 1, 1, 2, 4]))]

    def request(self):
        r = self.r
        method, target = self.rarely(METHODS, ODD_METHODS), self.rarely(TARGETS, ODD_TARGETS, 0.1)
        framing, body = self.framed(method in (b"POST", b"PUT", b"PATCH"))
        fields = self.fields(HOSTS)
        at = r.randint(0, len(fields))
        fields[at:at] = framing
        first = method + b" " * self.rarely([1], [0, 2]) + target + self.rarely([b" "], [b"", b"  ", b"\t", b"\0"], 0.01) + r.choice(VERSIONS)
        before = self.rarely([b""], [b"\r\n", b"\n", b" ", b"\0", b"\r\n\r\n", b"x\r\n"], 0.02)
        return before + self.lines(first, fields, self.rarely([b"\r\n"], [b"\n"], 0.03)) + body

    def changed(self, octets):
        r, out = self.r, bytearray(octets)
        for _ in range(r.randint(1, 3)):
            at, kind = r.randrange(len(out) + 1), r.randrange(5)
            if kind == 0:
                del out[at:at + r.choice([1, 1, 2, 10])]
            elif kind == 1:
                out[at:at + 1] = bytes([r.choice(SOME)])
            elif kind == 2:
                out[at:at] = bytes([r.choice(SOME)]) * r.choice([1, 1, 2])
            elif kind == 3:
                out[at:at + 1] = bytes([r.randrange(256)])
            else:
                begin = r.randrange(len(out) + 1)
                out[at:at] = out[begin:begin + r.randint(1, 40)]
        return bytes(out)

    def section(self, body, scheme):
        """The header fields of a request over HTTP/2 or 3."""
        r = self.r
        pseudo = [(b":method", self.rarely(METHODS, ODD_METHODS, 0.1)), (b":scheme", self.rarely([scheme], [b"https", b"", b"x y", b"a\r\nb"])),
                  (b":path", self.rarely(TARGETS, ODD_TARGETS, 0.2)), (b":authority", self.rarely(HOSTS, ODD_HOSTS, 0.1))]
        if r.random() < 0.05:
            pseudo.pop(r.randrange(4))
        fields = pseudo + [(r.choice(H2_NAMES), r.choice(H2_VALUES)) for _ in range(r.choice([0, 1, 1, 2, 3]))]
        if r.random() < 0.3:
            fields.append((b"content-length", self.length(len(body))))
        if r.random() < 0.05:
            r.shuffle(fields)
        return fields

    def over_h3(self, h3):
        """The octets of a request's stream. `h3` is bed.h3, which needs aioquic."""
        r, body = self.r, self.r.choice(BODIES)
        odd = lambda: self.rarely([b""], [h3.frame(h3.UNKNOWN, b"x"), h3.frame(h3.DATA, b"x"), h3.frame(h3.SETTINGS), h3.frame(h3.HEADERS, b"\0\0"), b"\0"], 0.06)
        out = odd() + h3.headers(self.section(body, b"https")) + odd()
        if r.random() < 0.6:
            cut = r.randint(0, len(body))
            length = self.rarely([None], [0, 3, len(body) + 5], 0.05)
            out += h3.frame(h3.DATA, body[:cut]) + odd() + h3.frame(h3.DATA, body[cut:], length)
            if r.random() < 0.1:
                out += h3.headers([(r.choice(H2_NAMES), r.choice(H2_VALUES))])
        out += odd()
        return self.changed(out) if r.random() < 0.1 else out

    def over_h2(self):
        r, out = self.r, h2.PREFACE + h2.settings()
        for stream in range(1, 2 * r.choice([1, 1, 2]), 2):
            body = r.choice(BODIES)
            fields, ends = self.section(body, b"http"), r.random() < 0.4
            block = b"".join(literal(name, value, NOT_ADDED) for name, value in fields)
            out += h2.headers(stream, block, ends=ends, cut=r.choice([0, 0, 0, 7]))
            if not ends:
                trailers = r.random() < 0.1
                out += h2.frame(h2.DATA, 0 if trailers else h2.END_STREAM, stream, body)
                if trailers:
                    out += h2.headers(stream, literal(r.choice(H2_NAMES), r.choice(H2_VALUES), NOT_ADDED))
        return out

    def connection(self):
        """The octets of one client connection: one to three requests, or HTTP/2."""
        if self.r.random() < 0.1:
            return self.over_h2()
        octets = b"".join(self.request() for _ in range(self.r.choice([1, 1, 1, 2, 3])))
        return self.changed(octets) if self.r.random() < 0.1 else octets

    def response(self):
        """A response to GET. True with it if the origin closes the connection afterwards."""
        r = self.r
        status = r.choice([b"200"] * 12 + [b"404", b"204", b"304", b"206", b"301", b"500", b"100", b"101", b"103", b"205"])
        status = self.rarely([status], [b"2000", b"20", b"abc", b"", b"099", b"600", b"999", b"2 0", b"-20", b"200\0", b"+200", b" 200"], 0.05)
        reason = self.rarely([b" OK", b" ", b" Not Found"], [b"", b"\tOK", b" O\0K", b" O\rK", b" \xff", b" " + b"x" * 2000], 0.05)
        framing, body = self.framed(r.random() < 0.9)
        fields = [(b"Content-Type", b"text/plain"), *(self.rarely(MORE, ODD_MORE) for _ in range(r.choice([0, 0, 1, 2])))]
        at = r.randint(0, len(fields))
        fields[at:at] = framing
        head = self.lines(self.rarely([b"HTTP/1.1"], VERSIONS + [b"ICY", b"HTTP/1"], 0.1) + b" " + status + reason, fields, self.rarely([b"\r\n"], [b"\n"], 0.05))
        before = self.rarely([b""], [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b"HTTP/1.1 100 C\r\nContent-Length: 3\r\n\r\n", b"\r\n", b" ", b"\0"], 0.1)
        after = self.rarely([b""], [b"x", b"\r\n", b"HTTP/1.1 200 Inner\r\nContent-Length: 5\r\n\r\ninner"], 0.1)
        octets = before + head + body + after
        return self.changed(octets) if r.random() < 0.1 else octets, r.random() < 0.3
