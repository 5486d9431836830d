# SPDX-License-Identifier: BSD-2-Clause
"""A backend that misbehaves on purpose: GET /KIND answers with that fault, and `hits` counts how often each path was asked."""
import collections
import socket
import struct
import sys
import time
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.origin import head

H = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
CHUNKED = H + b"Transfer-Encoding: chunked\r\n\r\n"

# What is sent at once, after which the connection is closed.
PLAIN = {
    "trunc-cl": H + b"Content-Length: 100\r\n\r\n" + b"x" * 50,
    "trunc-chunk": CHUNKED + b"5\r\nhello\r\n",
    "garbage": b"\x00\x01\x02 not http at all\r\n\r\n",
    "empty": b"",
    "bad-chunk": CHUNKED + b"ZZ\r\nhello\r\n0\r\n\r\n",
    "chunk-neg": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunk-ovf": CHUNKED + b"FFFFFFFFFFFFFFFE\r\nhello\r\n0\r\n\r\n",
    "big-hdr": H + b"X-Big: " + b"v" * 200000 + b"\r\nContent-Length: 2\r\n\r\nok",
    "long-hdr": H + b"X-Long: " + b"v" * 10000 + b"\r\nContent-Length: 2\r\n\r\nok",
    "many-hdr": H + b"".join(b"X-%d: 1\r\n" % i for i in range(3000)) + b"Content-Length: 2\r\n\r\nok",
    "cl-twice": H + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\nokabc",
    "cl-te": H + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "cl-bad": H + b"Content-Length: 5x\r\n\r\nhello",
    "nul-hdr": H + b"X-A: a\x00b\r\nContent-Length: 2\r\n\r\nok",
    "reason-ctl": b"HTTP/1.1 200 O\x01\x02K\r\nContent-Length: 2\r\n\r\nok",
    "status-9": b"HTTP/1.1 99 x\r\nContent-Length: 2\r\n\r\nok",
    "status-1000": b"HTTP/1.1 1000 x\r\nContent-Length: 2\r\n\r\nok",
    "100s": b"HTTP/1.1 100 Continue\r\n\r\n" * 2000 + H + b"Content-Length: 2\r\n\r\nok",
    "gzip-bad": H + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + b"\x1f\x8b\x08\x00" + b"z" * 16,
    "304-uncond": b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n",
    "204-body": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
}

# What needs time or a socket option, or keeps the connection.
TIMED = ["good", "slow", "drip", "rst-mid", "rst-eof", "extra"]

KINDS = TIMED + list(PLAIN)
hits = collections.Counter()


def has_closed(s, limit):
    """Whether the peer closes within so many seconds: it has given up."""
    s.settimeout(limit)
    try:
        return s.recv(1) == b""
    except TimeoutError:
        return False
    finally:
        s.settimeout(None)


def answer(s, kind):
    """Sends the fault; says whether the connection is kept."""
    if kind in PLAIN:
        s.sendall(PLAIN[kind])
    elif kind == "slow":
        if not has_closed(s, 60):
            s.sendall(H + b"Content-Length: 2\r\n\r\nok")
    elif kind == "drip":
        s.sendall(H + b"Content-Length: 20\r\n\r\n")
        for _ in range(20):
            s.sendall(b"x")
            if has_closed(s, 0.8):
                return False
    elif kind == "rst-mid":
        s.sendall(H + b"Content-Length: 100000\r\n\r\n" + b"x" * 5000)
        time.sleep(0.1)  # without it the reset may come before the head is read, which is another fault
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif kind == "rst-eof":
        # The body ends with the connection, and the connection doesn't end in order.
        s.sendall(H + b"\r\n" + b"x" * 5000)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif kind == "extra":
        s.sendall(H + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        return True
    else:  # good, and whatever else is asked for
        s.sendall(H + b"Content-Length: 2\r\n\r\nok")
        return True
    return False


def serve(s):
    buf = b""
    while got := head(s, buf):
        _, path, _, buf = got
        hits[path] += 1
        if not answer(s, path.split("?")[0].strip("/")):
            return
