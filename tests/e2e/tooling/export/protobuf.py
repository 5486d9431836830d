# SPDX-License-Identifier: BSD-2-Clause
"""Reads protobuf without a schema, and OTLP's traces with the numbers of theirs (opentelemetry-proto)."""
import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field: numbers of varints and fixed ones, bytes of all else."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is cut"
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def each(data, number):
    return [value for n, value in fields(data) if n == number]


def first(data, number, default=None):
    return next(iter(each(data, number)), default)


def attributes(data, number):
    """Key and value of each KeyValue."""
    got = {}
    for pair in each(data, number):
        value = first(pair, 2, b"")
        (kind, inner), = list(fields(value)) or [(1, b"")]
        got[first(pair, 1).decode()] = inner.decode(errors="replace") if kind == 1 else bool(inner) if kind == 2 else inner
    return got


class Span:
    def __init__(self, data, resource):
        self.resource = resource
        self.trace, self.id, self.parent = first(data, 1).hex(), first(data, 2).hex(), first(data, 4, b"").hex()
        self.name, self.kind = first(data, 5, b"").decode(), first(data, 6, 0)
        self.begin, self.end = first(data, 7), first(data, 8)
        self.attributes = attributes(data, 9)
        self.events = [(first(e, 2, b"").decode(), first(e, 1)) for e in each(data, 11)]
        status = first(data, 15)
        self.failed = status is not None and first(status, 3, 0) == 2

    def __repr__(self):
        return f"<{self.name} {self.id} below {self.parent or '-'} {self.attributes}>"


def spans(request):
    """Of an ExportTraceServiceRequest."""
    return [Span(span, attributes(first(of, 1, b""), 1))
            for of in each(request, 1) for scope in each(of, 2) for span in each(scope, 2)]
