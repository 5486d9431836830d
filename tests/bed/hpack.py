# SPDX-License-Identifier: BSD-2-Clause
"""HPACK (RFC 7541) for tests. Written is what a test asks for, well formed or not; what a server sends is read whatever form it has."""

# Appendix A: name, or name=value.
STATIC = [tuple(entry.partition("=")[::2]) for entry in (
    ":authority;:method=GET;:method=POST;:path=/;:path=/index.html;:scheme=http;:scheme=https;:status=200;:status=204;:status=206;"
    ":status=304;:status=400;:status=404;:status=500;accept-charset;accept-encoding=gzip, deflate;accept-language;accept-ranges;accept;"
    "access-control-allow-origin;age;allow;authorization;cache-control;content-disposition;content-encoding;content-language;"
    "content-length;content-location;content-range;content-type;cookie;date;etag;expect;expires;from;host;if-match;if-modified-since;"
    "if-none-match;if-range;if-unmodified-since;last-modified;link;location;max-forwards;proxy-authenticate;proxy-authorization;range;"
    "referer;refresh;retry-after;server;set-cookie;strict-transport-security;transfer-encoding;user-agent;vary;via;"
    "www-authenticate").split(";")]
# Appendix B: how many bits the code of each octet, and of the end, has: A is 5. Codes of one length ascend with the octets.
LENGTHS = [ord(letter) - 60 for letter in (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJI"
    "XPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ")]
END = 256
ADDED, NOT_ADDED, NEVER_ADDED = 0x40, 0x00, 0x10  # the literals' three forms


class Undecodable(Exception):
    """A header block that is none."""


def _codes():
    codes, code, last = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(LENGTHS)):
        code <<= length - last
        codes[symbol], last = (code, length), length
        code += 1
    return codes


CODES = _codes()
SYMBOLS = {pair: symbol for symbol, pair in CODES.items()}


def huffman(octets, end=b""):
    """Octets in Huffman's code, filled up with ones; `end`: octets after that, which no encoder would write."""
    bits, count = 0, 0
    for octet in octets:
        code, length = CODES[octet]
        bits, count = bits << length | code, count + length
    fill = -count % 8
    return (bits << fill | (1 << fill) - 1).to_bytes((count + fill) // 8, "big") + end


def unhuffman(octets):
    out, code, length = bytearray(), 0, 0
    for octet in octets:
        for at in range(7, -1, -1):
            code, length = code << 1 | octet >> at & 1, length + 1
            symbol = SYMBOLS.get((code, length))
            if symbol == END:
                raise Undecodable("the end's code")
            if symbol is not None:
                out.append(symbol)
                code, length = 0, 0
    if length > 7 or code != (1 << length) - 1:
        raise Undecodable("filled up with something else than ones")
    return bytes(out)


def integer(value, bits, flags=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([flags | value])
    out, value = bytearray([flags | most]), value - most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def as_octets(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def string(text, is_huffman=False):
    octets = huffman(as_octets(text)) if is_huffman else as_octets(text)
    return integer(len(octets), 7, 0x80 if is_huffman else 0) + octets


def literal(name, value, form=NOT_ADDED, is_huffman=False):
    """A field with its name written out; `name` as a number is that entry's."""
    bits = 6 if form == ADDED else 4
    top = integer(name, bits, form) if isinstance(name, int) else bytes([form]) + string(name, is_huffman)
    return top + string(value, is_huffman)


def indexed(entry):
    return integer(entry, 7, 0x80)


def resized(size):
    return integer(size, 5, 0x20)


def block(fields, form=NOT_ADDED, is_huffman=False):
    return b"".join(literal(name, value, form, is_huffman) for name, value in fields)


class Decoder:
    """Reads the peer's blocks; `most` is what we allowed its table."""

    def __init__(self, most=4096):
        self.most, self.size, self.table = most, most, []  # the newest first

    def decode(self, octets):
        """[(name, value)] as text, an octet a character."""
        at, fields = 0, []
        try:
            while at < len(octets):
                top = octets[at]
                if top & 0x80:
                    entry, at = self._integer(octets, at, 7)
                    fields.append(self._entry(entry))
                elif top & 0xe0 == 0x20:
                    if fields:
                        raise Undecodable("the table's size changes behind a field")
                    self.size, at = self._integer(octets, at, 5)
                    if self.size > self.most:
                        raise Undecodable(f"a table of {self.size}")
                    self._evict()
                else:
                    is_added = bool(top & ADDED)
                    entry, at = self._integer(octets, at, 6 if is_added else 4)
                    if entry:
                        name = self._entry(entry)[0]
                    else:
                        name, at = self._string(octets, at)
                    value, at = self._string(octets, at)
                    fields.append((name, value))
                    if is_added:
                        self.table.insert(0, (name, value))
                        self._evict()
        except IndexError:
            raise Undecodable("cut short") from None
        return fields

    def _evict(self):
        while self.table and sum(len(name) + len(value) + 32 for name, value in self.table) > self.size:
            self.table.pop()

    def _entry(self, at):
        if not 0 < at <= len(STATIC) + len(self.table):
            raise Undecodable(f"no entry {at}")
        return STATIC[at - 1] if at <= len(STATIC) else self.table[at - 1 - len(STATIC)]

    @staticmethod
    def _integer(octets, at, bits):
        most = (1 << bits) - 1
        value, shift = octets[at] & most, 0
        at += 1
        if value < most:
            return value, at
        while True:
            octet = octets[at]
            value, shift, at = value + ((octet & 127) << shift), shift + 7, at + 1
            if not octet & 128:
                return value, at
            if shift > 28:
                raise Undecodable("too large a number")

    def _string(self, octets, at):
        is_huffman = octets[at] & 0x80
        length, at = self._integer(octets, at, 7)
        if at + length > len(octets):
            raise Undecodable("cut short")
        raw = octets[at:at + length]
        return (unhuffman(raw) if is_huffman else raw).decode("latin-1"), at + length
