# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3 as ngtcp2's client has it (Debian's gtlsclient, over GnuTLS): bodies both ways, many streams, lost packets, a move and a NAT that forgets, new keys, sessions."""
import hashlib
import shutil
import subprocess

from bed.daemon import workdir
from bed.origin import head

PROGRAM, LIMIT = "gtlsclient", 60
NAME = "localhost"  # what it asks for at an address
BODY = hashlib.sha256(b"body").digest() * 32_768  # 1 MB
STREAMS = 40


def missing():
    return not shutil.which(PROGRAM)


def serve(body_of):
    """An origin that has BODY, an answer that comes late, and says what it was sent."""
    def one(s):
        buf = b""
        while got := head(s, buf):
            method, path, fields, buf = got
            sent, buf = body_of(s, fields, buf)
            body = hashlib.sha256(sent).hexdigest().encode() if method == "POST" else BODY
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return one


class Visit:
    """A run of the client: its exit status, what it tells, and what it downloaded, by name."""

    def __init__(self, bed, *options, paths=("/pass/file",)):
        host, port = bed.quic
        files = workdir()
        try:
            argv = [PROGRAM, "--exit-on-all-streams-close", "--no-quic-dump", "--no-http-dump", f"--download={files}", "--timeout=10s", *options,
                    host, str(port), *(f"https://{NAME}:{port}{path}" for path in paths)]
            done = subprocess.run(argv, capture_output=True, timeout=LIMIT)
            self.status, self.said = done.returncode, done.stderr.decode(errors="replace")
            self.got = {file.name: file.read_bytes() for file in files.iterdir()}
        except subprocess.TimeoutExpired:
            self.status, self.said, self.got = None, "it has no end", {}
        finally:
            shutil.rmtree(files, ignore_errors=True)

    def whole(self, body=BODY, names=("file",)):
        return self.status == 0 and sorted(self.got) == sorted(names) and all(own == body for own in self.got.values())

    def __str__(self):
        return f"{self.status} {({name: len(own) for name, own in self.got.items()})} {self.said[-600:]}"


def run(report, bed, _leaf):
    def check(name, visit, **wanted):
        return report.check(visit.whole(**wanted), f"ngtcp2: {name}: {visit}")
    check("a body", Visit(bed))
    names = [f"file{n}" for n in range(STREAMS)]
    check("many streams", Visit(bed, paths=[f"/pass/{name}" for name in names]), names=names)
    check("hits", Visit(bed, paths=["/kept/file"]))
    upload = workdir()
    try:
        (upload / "body").write_bytes(BODY[:-1])
        digest = hashlib.sha256(BODY[:-1]).hexdigest().encode()
        check("an upload", Visit(bed, "--http-method=POST", f"--data={upload}/body"), body=digest)
        check("an upload of which packets are lost", Visit(bed, "--http-method=POST", f"--data={upload}/body", "--tx-loss=0.05"), body=digest)
        for loss in ("--rx-loss=0.05", "--tx-loss=0.05"):
            check(f"5 of 100 packets lost, {loss}", Visit(bed, loss))
        late = ("--delay-stream=300ms",)  # the request comes after what happens to the connection
        check("a move", Visit(bed, "--change-local-addr=100ms", *late))
        check("a NAT that forgets", Visit(bed, "--change-local-addr=100ms", "--nat-rebinding", *late))
        check("new keys", Visit(bed, "--key-update=100ms", *late))
        check("a packet at a time", Visit(bed, "--no-pmtud", "--max-udp-payload-size=1200", "--ack-thresh=1"))
        check("small windows", Visit(bed, "--max-data=2000", "--max-stream-data-bidi-local=1000", "--max-window=4000", "--max-stream-window=2000"))
        session = [f"--session-file={upload}/session", f"--tp-file={upload}/limits", f"--token-file={upload}/token"]
        before = bed.counter("MAIN.tls_resumed")
        for visit in ("a first visit", "another"):
            check(visit, Visit(bed, *session, "--disable-early-data"))
        report.check((upload / "session").exists() and bed.counter("MAIN.tls_resumed") == before + 1,
                     f"ngtcp2: {bed.counter('MAIN.tls_resumed') - before} sessions were resumed")
    finally:
        shutil.rmtree(upload, ignore_errors=True)
    report.check(bed.counter("MAIN.h3_errors") == 0, f"ngtcp2: {bed.counter('MAIN.h3_errors')} connections broke the protocol")
