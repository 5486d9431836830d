#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An origin that misbehaves in 27 ways: what does the client see, and what was cached?

Nothing truncated, contradictory or false may be cached, and the client can always tell that something is wrong.
"""
import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import origin_faults
from bed.daemon import Varnishd
from bed.http import get
from bed.origin import Origin
from bed.report import Report, options

# May be cached and served: what the origin said is whole and free of contradiction.
CACHEABLE = {"good": b"ok", "extra": b"ok"}
# A good answer may also come through, cached or not; refusing it for its size or noise is as good.
TOLERABLE = {"big-hdr": b"ok", "many-hdr": b"ok", "100s": b"ok"}
# RFC 9112 6.3 lets a recipient take the chunked body and drop Content-Length; keeping such an answer is another matter.
UNCACHED = {"cl-te": b"hello"}
GZIP = [("Accept-Encoding", "gzip")]
# Nothing is sent before the whole body is there, so that each fault of a body is told in the head.
WHOLE = [("X-Whole", "1")]
# A backend's body is unpacked where it comes, so that a broken coding is found there.
VCL = '''vcl 4.1;
backend default { .host = "%s"; .port = "%s"; }
sub vcl_backend_fetch {
    # Others answer at once, for which a busy machine may take a while.
    if (bereq.url ~ "^/(slow|drip)") {
        set bereq.first_byte_timeout = 3s;
        set bereq.between_bytes_timeout = 0.5s;
    }
    if (bereq.http.X-Whole) { unset bereq.http.Accept-Encoding; }
}
sub vcl_backend_response {
    if (bereq.http.X-Whole) { set beresp.do_stream = false; set beresp.do_gunzip = true; }
}
'''
# The registered type of each fault (RFC 9209, 2.3), and the status that came before it.
TYPES = {
    "trunc-cl": ("connection_terminated", 200),
    "trunc-chunk": ("connection_terminated", 200),
    "garbage": ("http_protocol_error", None),
    "empty": ("connection_terminated", None),
    "bad-chunk": ("http_response_transfer_coding", 200),
    "chunk-neg": ("http_response_transfer_coding", 200),
    "chunk-ovf": ("http_response_transfer_coding", 200),
    "big-hdr": ("http_response_header_section_size", None),
    "long-hdr": ("http_response_header_size", None),
    "many-hdr": ("http_response_header_section_size", None),
    "cl-twice": ("http_protocol_error", 200),
    "cl-te": ("http_protocol_error", 200),
    "cl-bad": ("http_protocol_error", 200),
    "nul-hdr": ("http_protocol_error", None),
    "reason-ctl": ("http_protocol_error", None),
    "status-9": ("http_protocol_error", None),
    "status-1000": ("http_protocol_error", None),
    "100s": ("http_protocol_error", None),
    "gzip-bad": ("http_response_content_coding", 200),
    "304-uncond": ("http_protocol_error", 304),
    "204-body": ("http_protocol_error", 204),
    "slow": ("connection_read_timeout", None),
    "drip": ("connection_read_timeout", 200),
    "rst-mid": ("connection_terminated", 200),
    "rst-eof": ("connection_terminated", 200),
}


def told(r):
    """Whether the client can tell that this is no good answer: an error, or a message visibly cut short."""
    return r.end in ("truncated", "none") or (r.end == "complete" and r.status >= 500)


def verdict(kind, r):
    """Why the client was deceived by `r`, or ''."""
    good = CACHEABLE.get(kind) or TOLERABLE.get(kind) or UNCACHED.get(kind)
    if good and r.whole() and r.body == good:
        return ""
    if kind == "good":
        return "not served"
    if kind == "204-body" and r.whole(204) and not r.body:
        return ""
    return "" if told(r) else "the client can't tell"


def untold(kind, r):
    """What is wrong with the Proxy-Status of `r`, which came where bodies aren't streamed, or ''."""
    told = r.get("Proxy-Status")
    if kind not in TYPES:
        return f"Proxy-Status: {told}" if told is not None else ""
    error, status = TYPES[kind]
    received = f"; received-status={status}" if status else ""
    wanted = f"Lacquer; error={error}; next-hop=default{received}; details="
    return "" if r.status == 503 and told and told.startswith(wanted) else f"not {wanted}, but {told}"


def shown(r):
    return f"{r}{'' if not r.interim else f' after {len(r.interim)} interim'}"


def one(address, kind, fields, tag):
    """Asks for the fault twice: (what went wrong, text of both answers)."""
    path = f"/{kind}?{tag}"
    first = get(address, path, fields, 60)
    second = get(address, path, fields, 60)
    asked = origin_faults.hits[path]
    hit = second.get("X-Varnish", "").count(" ") == 1
    why = verdict(kind, first) or verdict(kind, second) or (tag == "whole" and untold(kind, first))
    may_hit = kind in CACHEABLE or kind in TOLERABLE or (kind == "204-body" and second.status == 204)
    if not why and hit and not may_hit:
        why = "cached"
    if not why and kind in CACHEABLE and not hit:
        why = "the good answer was not cached"
    return why, f"{shown(first)}; then {shown(second)}{', a hit' if hit else ''}; origin asked {asked} times"


def main():
    o = options(__doc__, origin_faults.KINDS, verbose=dict(action="store_true"))
    report = Report("faults")
    with Origin(origin_faults.serve) as origin, \
            Varnishd(o.varnishd, vcl=VCL % origin.address) as v, \
            concurrent.futures.ThreadPoolExecutor(8) as pool:
        pid = v.worker()
        ways = [("plain", []), ("gzip", GZIP), ("whole", WHOLE)]
        jobs = {(k, w): pool.submit(one, v.address, k, f, w) for k in o.cases for w, f in ways}
        for (kind, way), job in jobs.items():
            why, text = job.result()
            if report.check(not why, f"{kind} ({way}): {why}: {text}") and o.verbose:
                report.note(f"{kind:12} {way:5} {text}")
        # After all that, honest answers must still come, one by one and right.
        for n in range(20):
            r = get(v.address, f"/good?after{n}")
            report.check(r.whole() and r.body == b"ok", f"afterwards: {r}")
        report.check(v.worker() == pid, "the worker is another one than at the start")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
