#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compression dictionaries (RFC 9842) as others read them: Chromium loads a script, then a new version of it that differs in one byte of a hundred,
and the zstd program decodes what is sent. The new version must be whole, and be sent in at most 3 % of its size.

A browser learns a dictionary, and the server makes a form, some time after the response: the page asks until it gets one.
"""
import base64
import hashlib
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.browser import Browser
from bed.daemon import Varnishd
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 120  # seconds for what comes some time
BYTES, RUN, MOST = 300_000, 100, 0.03
VCL = """vcl 4.1;
backend default {{ .host = "{}"; .port = "{}"; }}
sub vcl_recv {{ set req.url = regsub(req.url, "\\?.*", ""); }}
sub vcl_backend_response {{ set beresp.do_gzip = true; }}
"""
PAGE = b"<html><body><script src=/app.v1.js></script></body></html>"
# Asks for the new version, by another URL for the browser each time, until one comes in few bytes.
ASK = """(async () => {
  const end = performance.now() + %d, most = %d;
  for (let n = 0; performance.now() < end; n++) {
    const url = '/app.v2.js?' + n;
    const got = await fetch(url), body = await got.arrayBuffer();
    const hash = await crypto.subtle.digest('SHA-256', body);
    const entry = performance.getEntriesByName(location.origin + url)[0];
    if (entry.encodedBodySize > 0 && entry.encodedBodySize <= most)
      return [got.headers.get('content-encoding'), entry.encodedBodySize, body.byteLength,
              [...new Uint8Array(hash)].map(b => b.toString(16).padStart(2, '0')).join('')];
    await new Promise(done => setTimeout(done, 100));
  }
  return ['never', 0, 0, ''];
})()"""


def versions(seed):
    """Two versions of a script."""
    r = random.Random(seed)
    words = " ".join(f"w{r.randrange(65536)}" for _ in range(BYTES // 5))[:BYTES - 6]
    old = bytearray(f"/* {words} */".encode())
    new = bytearray(old)
    for at in range(RUN, len(new) - RUN, RUN * 100):
        new[at:at + RUN] = bytes(r.choice(b"abcdefghij") for _ in range(RUN))
    return bytes(old), bytes(new)


def browser(report, v, new):
    host, port = v.address
    with Browser() as page:
        page.open(f"http://{host}:{port}/")
        coding, sent, size, digest = page.js(ASK % (LIMIT * 1000, MOST * len(new)))
    report.check((size, digest) == (len(new), hashlib.sha256(new).hexdigest()), f"Chromium: {size} bytes with another hash")
    report.check(coding in ("dcb", "dcz") and 0 < sent <= MOST * len(new), f"Chromium: {sent} bytes in {coding}")
    report.note(f"Chromium got {len(new)} bytes in {sent} ({coding}, {100 * sent / len(new):.1f} %)")


def program(report, v, old, new):
    """The same by the zstd program, which skips the header as a frame of its own."""
    digest = base64.b64encode(hashlib.sha256(old).digest()).decode()
    asked = [("Accept-Encoding", "dcz"), ("Available-Dictionary", f":{digest}:")]
    client = Client(v.address)
    client.request("/app.v1.js")
    got = until(LIMIT, lambda: (r := client.request("/app.v2.js", asked)).get("Content-Encoding") == "dcz" and r)
    if not report.check(bool(got), f"zstd: the coding is never dcz"):
        return
    with tempfile.TemporaryDirectory() as home:
        name = pathlib.Path(home, "old")
        name.write_bytes(old)
        p = subprocess.run(["zstd", "-d", "-c", "-D", name], input=got.body, capture_output=True)
    report.check(p.stdout == new, f"zstd: {p.stderr.decode(errors='replace')[:200]}, {len(p.stdout)} bytes")
    report.check(len(got.body) <= MOST * len(new), f"zstd: {len(got.body)} bytes")


def main():
    o = options(__doc__)
    report = Report("dictionary")
    old, new = versions(o.seed)
    script = "Content-Type: text/javascript\r\nCache-Control: max-age=1000\r\n"
    answers = {"/": ("Content-Type: text/html\r\n", PAGE), "/app.v2.js": (script, new),
               "/app.v1.js": (script + 'Use-As-Dictionary: match="/app*.js"\r\n', old)}

    def answer(_method, path, _fields):
        return answers.get(path, ("", b""))

    with Origin(simple(answer)) as origin:
        for case in (lambda v: browser(report, v, new), lambda v: program(report, v, old, new)):
            with Varnishd(o.varnishd, vcl=VCL.format(*origin.address)) as v:
                case(v)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
