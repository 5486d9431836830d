#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A crawl: a real nginx's files asked directly and through the cache, cold and warm, by 64 clients at once.

Bodies must be equal, and all fields except Date, Age, Via, X-Varnish, Connection, Accept-Ranges, the framing, and an ETag weakened
by gzip. Sizes are 1 byte to 20 MB. Reduced: 200 files, of which one has 20 MB and no other more than 2 MB; --full: 2,000.
"""
import concurrent.futures
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Nginx
from bed.report import Report, options

CLIENTS = 64
BIGGEST = 20 << 20
# May differ: RFC 9110's hop and cache fields, and how the same octets are framed.
FREE = {"date", "age", "via", "x-varnish", "connection", "keep-alive", "accept-ranges", "content-length", "transfer-encoding"}
SERVER = """
    gzip_vary on; gzip_types text/plain text/css; gzip_min_length 20; gzip_comp_level 1; absolute_redirect off; gzip on;
    gzip_proxied any; gzip_http_version 1.0;
    add_header Cache-Control max-age=3600; add_header Expires "Thu, 01 Jan 2037 00:00:00 GMT";
    location /moved/ { return 301 /files/; }
    location /found/ { return 302 /files/; }
    location /gone/ { return 410; }
    location /denied/ { deny all; }
    location /broken/ { return 500; }
    location /busy/ { return 503; }
    location /note/ { add_header X-Note one; add_header X-Note two; add_header Cache-Control public; return 200 "$uri\n"; }
    location /empty/ { return 204; }
"""
HTTP = "types { text/html html; text/plain txt; text/css css; image/png png; application/octet-stream bin; } sendfile on;"
WORDS = b"cache objects requests headers bodies grace keep ttl hit miss pass pipe synth deliver fetch backend probe ".split()


def text(rng, size):
    """Compressible text of exactly `size` octets."""
    block = b" ".join(rng.choice(WORDS) for _ in range(2000)) + b"\n"
    return (block * (size // len(block) + 1))[:size]


def make_files(root, count, most, rng):
    """Writes the files, most of them up to `most` octets; gives [(path, size)]. The smallest and the biggest size are always there."""
    (root / "files").mkdir()
    paths = []
    for n in range(count):
        size = (1, BIGGEST, 2, 0)[n] if n < 4 else int(most ** rng.random())
        kind = rng.choice(["txt", "css", "html", "png", "bin"]) if n != 1 else "bin"
        name = f"/files/f{n}.{kind}"
        (root / name[1:]).write_bytes(text(rng, size) if kind in ("txt", "css", "html") else rng.randbytes(size))
        os.utime(root / name[1:], (1_600_000_000 + n, 1_600_000_000 + n))
        paths.append((name, size))
    return paths


def plan(paths, rng):
    """The questions of a crawl: (path, fields). Every file plain and with gzip, some with ranges, and what is no file."""
    asked = []
    for path, size in paths:
        asked.append((path, ()))
        asked.append((path, (("Accept-Encoding", "gzip"),)))
        if path.endswith((".png", ".bin")) and size > 10:
            a = rng.randrange(size)
            b = rng.randrange(a, size)
            asked += [(path, (("Range", r),)) for r in (f"bytes={a}-{b}", f"bytes={a}-", f"bytes=-{b + 1}", "bytes=0-0")]
        if size > 0:
            asked.append((path, (("If-None-Match", '"no-such-tag"'),)))
    for n in range(max(4, len(paths) // 20)):
        asked += [(f"/{d}/{n}", ()) for d in ("moved", "found", "gone", "denied", "broken", "busy", "note", "missing")]
        asked.append((f"/note/{n}", (("Accept-Encoding", "gzip"),)))
        asked.append((f"/empty/{n}", ()))
    return asked


def essence(r):
    """What must be the same whichever way the answer came."""
    fields = sorted((n.lower(), v) for n, v in r.fields if n.lower() not in FREE)
    return r.status, r.reason, r.end, r.length, r.digest, fields


def weaken(fields):
    return [(n, v[2:] if n == "etag" and v.startswith("W/") else v) for n, v in fields]


def differs(direct, cached, gzipped):
    """Why the two answers differ in what may not differ, or ''."""
    a, b = essence(direct), essence(cached)
    if gzipped:
        # gzip is kept once and unpacked at need: compare what is inside, and forgive the weakened ETag.
        a, b = (*a[:5], weaken(a[5])), (*b[:5], weaken(b[5]))
    names = ("status", "reason", "end", "length", "body", "fields")
    for name, x, y in zip(names, a, b):
        if x != y and not (name == "reason" and x == "Moved Temporarily" and y == "Found"):
            return f"{name}: direct {str(x)[:300]}, through the cache {str(y)[:300]}"
    return ""


def crawl(address, asked):
    """Asks everything in order with CLIENTS connections that are kept; gives the answers in that order."""
    local, answers = threading.local(), [None] * len(asked)

    def one(n):
        path, fields = asked[n]
        for attempt in (1, 2):
            if getattr(local, "client", None) is None:
                local.client = Client(address, timeout=120, keep=False)
            try:
                r = local.client.request(path, fields)
            except OSError as e:
                r = None
                why = e
            if r is None or r.end != "complete" or (r.get("Connection") or "").lower() == "close":
                local.client.close()
                local.client = None
            if r is not None and r.end != "none":
                break  # a connection closed while idle is asked once more on a new one
        answers[n] = r

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(one, range(len(asked))))
    return answers


def main():
    o = options(__doc__, files=dict(type=int))
    count = o.files or (2000 if o.full else 200)
    report, rng = Report("crawl"), random.Random(o.seed)
    report.note(f"seed {o.seed}, {count} files, {CLIENTS} clients")
    with Nginx(SERVER, HTTP) as nginx:
        paths = make_files(nginx.root, count, BIGGEST if o.full else BIGGEST // 10, rng)
        asked = plan(paths, rng)
        rng.shuffle(asked)
        begin = time.monotonic()
        direct = crawl(nginx.address, asked)
        report.note(f"direct: {len(asked)} answers, {sum(r.length for r in direct if r) >> 20} MB in {time.monotonic() - begin:.1f} s")
        # A file that nginx packs has two direct forms of which the cache keeps one; only the ETag's weakness may differ then.
        packed = {p for (p, f), r in zip(asked, direct) if r and r.get("Content-Encoding")}
        with Varnishd(o.varnishd, backend=nginx.address, storage="malloc,4g" if o.full else "malloc,1g") as v:
            pid = v.worker()
            for turn in ("cold", "warm"):
                begin = time.monotonic()
                cached = crawl(v.address, asked)
                hits = sum(1 for r in cached if r and (r.get("X-Varnish") or "").count(" ") == 1)
                report.note(f"{turn}: {hits} of {len(asked)} were hits, {time.monotonic() - begin:.1f} s")
                for (path, fields), d, c in zip(asked, direct, cached):
                    why = "no answer" if not d or not c else differs(d, c, path in packed)
                    report.check(not why, f"{turn} {path} {dict(fields)}: {why}")
            report.check(v.worker() == pid, "the worker is another one than at the start")
            report.check(hits > len(asked) // 2, f"only {hits} hits when warm")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
