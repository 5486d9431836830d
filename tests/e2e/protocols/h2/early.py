# SPDX-License-Identifier: BSD-2-Clause
"""A response that comes before the request's body has ended reaches the client: raw frames, curl, nghttp. VCL's, and an origin's."""
import contextlib
import shutil
import subprocess
import tempfile
import time

from bed import h2, hpack
from bed.origin import Origin, head

VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    if (req.url ~ "^/vcl") { return (synth(413)); }
    return (pass);
}
sub vcl_synth { set resp.body = "early"; return (deliver); }
"""
PATHS = ("/vcl", "/origin")
SIZES = (60_000, 100_000, 1_000_000, 30_000_000)
RUNS = 4
STREAMS = 100  # h2_max_concurrent_streams
PAUSE = 1.0  # after which a stream is reset whose client goes on, or stands still
CASES = {}


def case(fn):
    CASES[fn.__name__.replace("_", " ")] = fn
    return fn


def refuse(s):
    """The origin that answers as soon as it has the head, and takes the rest."""
    while got := head(s, b""):
        if got[0] == "POST":
            s.sendall(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 5\r\n\r\nearly")
            while s.recv(65536):
                pass
            return
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlive")


def begin(c, path, more=()):
    """A request whose body has not ended."""
    at = c.stream()
    c.send(h2.headers(at, hpack.block(h2.request(path, "POST", more=list(more))), False))
    return at


def is_answered(own):
    return own.end == "complete" and bytes(own.body) == b"early" and own.code == 0


def resets(c):
    return c.frames[h2.RST_STREAM]


@case
def a_body_within_the_window_is_never_reset(bed):
    for path in PATHS:
        with h2.Connection(bed.connect()) as c:
            at = begin(c, path, [("content-length", "40000")])
            c.upload(at, bytes(20_000), ends=False)
            own = c.streams[at]
            c.wait(lambda: own.end)
            if not is_answered(own) or resets(c):
                return f"{path}: {own}, {resets(c)} resets"
            c.upload(at, bytes(20_000))
            if not (c.ping() and c.get("/live").whole()) or resets(c) or c.faults:
                return f"{path}: {own}, {resets(c)} resets, {c.how()} {c.faults}"


@case
def a_body_of_another_length_than_announced_costs_nothing(bed):
    with h2.Connection(bed.connect()) as c:
        at = begin(c, "/vcl", [("content-length", "40000")])
        c.wait(lambda: c.streams[at].end)
        c.upload(at, bytes(1000))
        return "" if c.ping() and not resets(c) else f"{c.streams[at]}, {resets(c)} resets"


@case
def a_client_that_goes_on_gets_no_window_and_is_reset_later(bed):
    for path in PATHS:
        with h2.Connection(bed.connect()) as c:
            at = begin(c, path)
            own = c.streams[at]
            c.wait(lambda: own.end)
            answered = time.monotonic()
            c.upload(at, bytes(h2.WINDOW), ends=False)
            if not c.ping() or own.window or resets(c):
                return f"{path}: {own.window} octets of window, {resets(c)} resets"
            if not c.get("/live").whole():
                return f"{path}: other streams are held up: {c.how()}"
            c.wait(lambda: resets(c))
            took = time.monotonic() - answered
            if not is_answered(own) or own.window or took < PAUSE * 0.9:
                return f"{path}: {own}, {resets(c)} resets after {took:.2f} s, {c.how()}"
            c.send(h2.frame(h2.DATA, h2.END_STREAM, at, b"late"))
            if not c.get("/live").whole():
                return f"{path}: what came late cost the connection: {c.how()}"


@case
def clients_that_take_the_rest_back_are_not_rapid_resetters(bed):
    with h2.Connection(bed.connect()) as c:
        for n in range(300):
            at = begin(c, "/vcl")
            if not c.wait(lambda: is_answered(c.streams[at])):
                return f"request {n}: {c.streams[at]}, {c.how()}"
            c.send(h2.reset(at))
        return "" if c.get("/live").whole() else c.how()


@case
def they_are_open_streams_and_no_more(bed):
    with h2.Connection(bed.connect()) as c:
        asked = [begin(c, "/vcl") for _ in range(STREAMS + 20)]
        c.wait(lambda: all(c.streams[at].end for at in asked))
        ends = [c.streams[at].end for at in asked]
        if ends != ["complete"] * STREAMS + ["reset"] * 20:
            return f"{ends.count('complete')} answered, {ends.count('reset')} reset, {c.how()}"
        c.wait(lambda: resets(c) == STREAMS + 20)
        return "" if c.get("/live").whole() else f"no place afterwards: {c.how()}"


@contextlib.contextmanager
def file_of(size):
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(size)
        yield file.name


def program_gets_it(bed, command):
    lost = []
    for size in SIZES:
        with file_of(size) as name:
            for path in PATHS:
                url = "https://%s:%d%s" % (*bed.server.address, path)
                for _ in range(RUNS):
                    done = subprocess.run([*command(name), url], capture_output=True, timeout=h2.LIMIT)
                    if done.returncode or done.stdout.strip() != b"early":
                        lost.append(f"{path} {size}: {done.returncode} {done.stdout[:40]!r} {done.stderr[:80]!r}")
    return f"{len(lost)} lost, {lost[0]}" if lost else ""


@case
def curl(bed):
    return program_gets_it(bed, lambda name: ["curl", "-sSk", "--http2", "-m", "20", "-H", "Expect:", "--data-binary", f"@{name}"])


@case
def nghttp(bed):
    return program_gets_it(bed, lambda name: ["nghttp", "-t", "20", "-d", name]) if shutil.which("nghttp") else ""


def run(bed, words, verbose):
    with Origin(refuse) as origin, bed.again(vcl=VCL % origin.address) as own:
        for name, fn in CASES.items():
            if words and not any(word in name for word in words):
                continue
            try:
                wrong = fn(own)
            except (AssertionError, OSError, IndexError, subprocess.TimeoutExpired) as e:
                wrong = repr(e)
            own.report.check(not wrong, f"{name}: {wrong}")
            if verbose and not wrong:
                own.report.note(f"ok {name}")
