# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3 as headless Chromium has it: a page, its script's POST and many requests at once."""
import contextlib
import shutil
import subprocess

from bed.daemon import workdir
from bed.origin import head

LIMIT = 90  # seconds for all of a visit
NAME = "bed.test"
UPLOAD, REQUESTS = 100_000, 20
PAGE = b"""<html><body><p>-</p><script>
const say = text => document.querySelector('p').textContent = text;
(async () => {
  const post = await fetch('/echo', {method: 'POST', body: 'x'.repeat(%d)});
  const said = [(await post.text()).length, post.headers.get('x-proto')];
  const texts = await Promise.all([...Array(%d).keys()].map(n => fetch('/pass/' + n).then(one => one.text())));
  said.push(texts.every((text, n) => text == '/pass/' + n));
  const spoken = performance.getEntriesByType('resource').map(one => one.nextHopProtocol);
  said.push(spoken.length > %d, spoken.every(one => one == 'h3'));
  say(said.join(' '));
})().catch(error => say('failed: ' + error));
</script></body></html>""" % (UPLOAD, REQUESTS, REQUESTS)
SAID = f"<p>{UPLOAD} HTTP/3.0 true true true</p>"


def missing():
    return not shutil.which("chromium")


def serve(body_of):
    """An origin that has the page, says what it was sent, or else what it was asked for."""
    def one(s):
        buf = b""
        while got := head(s, buf):
            _, path, fields, buf = got
            body, buf = body_of(s, fields, buf)
            kind, body = (b"text/html", PAGE) if path == "/" else (b"text/plain", body or path.encode())
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(body), body))
    return one


def believed(leaf):
    """The certificate's key, as the option of Chromium names it."""
    argv = f"openssl x509 -in {leaf.chain} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
    return subprocess.run(argv, shell=True, check=True, capture_output=True, text=True).stdout.strip()


def visit(bed, leaf, home):
    """What the page says."""
    at = f"{NAME}:{bed.quic[1]}"
    argv = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", f"--user-data-dir={home}",
            f"--ignore-certificate-errors-spki-list={believed(leaf)}", f"--origin-to-force-quic-on={at}", f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
            "--virtual-time-budget=20000", "--dump-dom", f"https://{at}/"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT).stdout
    return "it has no end"


def run(report, bed, leaf):
    home = workdir()
    try:
        said = visit(bed, leaf, home)
        report.check(SAID in said, f"Chromium: {said[:200]}")
        # All that a page brings shares a connection.
        sessions = bed.counter("MAIN.h3_sess")
        report.check(1 <= sessions <= 2 and bed.counter("MAIN.h3_req") > REQUESTS, f"Chromium: {sessions} connections, {bed.counter('MAIN.h3_req')} requests")
        # Chromium's hello has the hybrid's share, and comes in two Initials.
        report.check(bed.counter("MAIN.tls_post_quantum") == sessions, f"Chromium: {bed.counter('MAIN.tls_post_quantum')} of {sessions} agreed on X25519MLKEM768")
        report.check(bed.counter("MAIN.tls_cert_compressed") == sessions, f"Chromium: {bed.counter('MAIN.tls_cert_compressed')} of {sessions} got compressed certificates")
        report.check(bed.counter("MAIN.h3_errors") == 0, f"Chromium: {bed.counter('MAIN.h3_errors')} connections broke the protocol")
    finally:
        shutil.rmtree(home, ignore_errors=True)
