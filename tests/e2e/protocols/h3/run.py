#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3 towards clients, as the whole program has it: what https says of it, requests, moves between addresses, losses, certificates, and what
becomes of connections when the worker dies or another program takes over; and in raw frames requests, frames and cuts that nobody should send.

aioquic is the client: scripts/need-python aioquic installs it where Python has none. Where that can't be, what needs a client is left out, and named.
"""
import asyncio
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "h2"))  # what is the same in both versions
import abuse
import browser
import ngtcp2
from bed.beside import beside
from bed.certificates import Authority
from bed.daemon import Varnishd, on_one_port, workdir
from bed.origin import Origin, head
from bed.report import Report, options, until
from bed.witness import Witness
from sources import Source

from bed import clocks, pypi

NO_CLIENT = pypi.missing("aioquic")
if not NO_CLIENT:
    import carried
    import client
    import early
    import floods
    import odd
    import pieces
    import spoilt
    import transport
    import websocket
    from bed import h3
    # Group: the module, and whether it wants the origin that remembers octets, or the one that does what a path says.
    JUDGED = {"malformed": (carried, True), "frames": (odd, True), "transport": (transport, True), "cuts": (pieces, True), "spoilt": (spoilt, True), "floods": (floods, False)}

# Clients that a worker leaves behind that dies.
ORPHANS = 100
SILENCE = 2.5  # seconds without a datagram: longer than the first two probes of a server wait for (RFC 9002 6.2)

# Other people's clients.
OTHERS = {"browser": browser, "ngtcp2": ngtcp2}
LARGE = random.Random(3).randbytes(2 << 20)
MIDDLE = LARGE[:200_000]
VCL = """vcl 4.1;
backend origin {{ .host = "{0}"; .port = "{1}"; }}
import std;
sub vcl_recv {{ if (req.url ~ "^/kept" && !std.cache_req_body(1500B)) {{ return (synth(413)); }} if (req.url ~ "^/own") {{ return (synth(200)); }} if (req.url ~ "^/pass") {{ return (pass); }} }}
sub vcl_synth {{ set resp.http.Alt-Svc = "clear"; return (deliver); }}
sub vcl_deliver {{ set resp.http.X-Proto = req.proto; set resp.http.X-Hits = obj.hits; }}
"""


class Held:
    """Lets the origin's slow answer end."""
    event = threading.Event()


def body_of(s, fields, buf):
    """A request's body, and what came behind it."""
    def upto(length):
        nonlocal buf
        while len(buf) < length:
            buf += s.recv(65536) or (_ for _ in ()).throw(ConnectionError())
        taken, buf = buf[:length], buf[length:]
        return taken
    if "chunked" not in fields.get("transfer-encoding", ""):
        return upto(int(fields.get("content-length", 0))), buf
    body = b""
    while True:
        line = b""
        while not line.endswith(b"\r\n"):
            line += upto(1)
        piece = upto(int(line, 16) + 2)[:-2]
        if not piece:
            return body, buf
        body += piece


def serve(s):
    """Answers with the body it got, a large one, or one in two parts."""
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        body, buf = body_of(s, fields, buf)
        if path.startswith("/slow"):
            s.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 8\r\n\r\nhalf")
            Held.event.wait(60)
            s.sendall(b"done")
            continue
        if path.startswith(("/large", "/middle")):
            body = LARGE if path.startswith("/large") else MIDDLE
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + (b"" if method == "HEAD" else body))


class Bed(Varnishd):
    """A server with https and quic at one port."""

    def __init__(self, o, leaf, origin, args=(), vcl=VCL):
        self.conf = workdir() / "tls.conf"
        self.conf.write_text(f'pem-file = "{leaf.pem}"\n')
        on_one_port(lambda port: super(Bed, self).__init__(
            o.varnishd, ["-a", "clear=127.0.0.1:0", "-a", f"tls=127.0.0.1:{port},https", "-a", f"quic=127.0.0.1:{port},quic",
                         "-A", str(self.conf), *args], vcl=vcl.format(*origin.address)))
        self.quic = ("127.0.0.1", self.addresses["tls"][1])

    def close(self):
        super().close()
        shutil.rmtree(self.conf.parent, ignore_errors=True)

    def alt_svc(self, path):
        """What https says at a path."""
        out = subprocess.run(["curl", "-skD-", "-o/dev/null", f"https://127.0.0.1:{self.quic[1]}{path}"], capture_output=True, text=True, timeout=20).stdout
        return next((line.split(": ", 1)[1] for line in out.splitlines() if line.lower().startswith("alt-svc: ")), None)


class Judged:
    """A server that is asked in raw frames; `connect` gives a connection."""
    LIMIT = 60  # seconds; it only ends what hangs
    VCL = 'vcl 4.1; backend origin {{ .host = "{0}"; .port = "{1}"; }} sub vcl_recv {{ if (req.url ~ "^/hang") {{ return (pass); }} }}'

    def __init__(self, o, report, leaf, origin, args=()):
        self.o, self.report, self.is_full, self.leaf, self.origin = o, report, o.full, leaf, origin
        self.witness = self.source = origin.serves
        self.server = Bed(o, leaf, origin, args, self.VCL)
        self.process = self.server.worker()

    def connect(self, **how):
        return h3.Connection(self.server.quic, **how)

    def serves(self):
        """Whether a good request on a connection of its own is answered."""
        try:
            with self.connect() as c:
                return c.get("/live", self.LIMIT).whole()
        except OSError:
            return False

    def again(self, args):
        """A bed with a fresh server."""
        return Judged(self.o, self.report, self.leaf, self.origin, args)

    def is_same(self):
        return self.server.worker() == self.process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()


def judged(report, o, leaf, name):
    module, is_witnessed = JUDGED[name]
    serves = Witness() if is_witnessed else Source()
    with Origin(serves.serve) as origin:
        origin.serves = serves
        with Judged(o, report, leaf, origin, ["-p", "h3_reset_limit=0"] if is_witnessed else []) as bed:
            begin, groups = time.monotonic(), module.run(bed, o.words, o.verbose)
            if groups:
                tell(report, groups)
            report.check(bed.serves() and bed.is_same(), f"{name}: nothing is served afterwards, or by another process")
            report.note(f"{name} took {time.monotonic() - begin:.1f} s")


def tell(report, groups):
    """The table of what was ok, lax and forbidden."""
    for group, counts in groups.items():
        report.note(f"{group:20} {counts['ok']:3} ok {counts['lax']:3} lax {counts['forbidden']:3} forbidden")
        report.passed += counts["ok"]
        report.failed += counts["lax"] + counts["forbidden"]


def announced(report, bed):
    """Alt-Svc: by itself, not against VCL, not where it is switched off."""
    want = f'h3=":{bed.quic[1]}"; ma=86400'
    report.check(bed.alt_svc("/a") == want, f"a miss says {bed.alt_svc('/a')}, not {want}")
    report.check(bed.alt_svc("/a") == want, "a hit says so, too")
    report.check(bed.alt_svc("/own") == "clear", "VCL has the last word")
    bed.cli.ask("param.set h3_alt_svc 0")
    report.check(bed.alt_svc("/a") is None, "switched off")
    bed.cli.ask("param.reset h3_alt_svc")


def refused(report, o):
    """What -a doesn't take."""
    for arg, text in (("/run/x,quic", "QUIC needs UDP"), ("127.0.0.1:0,quic,https", "Too many protocol"), ("127.0.0.1:0,proxy,quic", "Too many protocol")):
        run = subprocess.run([o.varnishd, "-C", "-a", arg, "-b", "127.0.0.1:1"], capture_output=True, text=True, timeout=60)
        report.check(run.returncode != 0 and text in run.stderr, f"-a {arg}: {run.returncode} {run.stderr.strip()[:200]}")


async def requests(report, bed):
    async with client.client(bed.quic) as one:
        first, second = await one.get("/a"), await one.get("/a")
        report.check(first.status == second.status == 200 and second.fields["x-proto"] == "HTTP/3.0", f"answers: {second.fields}")
        report.check(int(second.fields["x-hits"]) >= 1, "a hit of what came before")
        body = random.Random(1).randbytes(300_000)
        report.check((await one.get("/pass", method="POST", body=body)).body == body, "a body there and back")
        kind = [("content-type", "a/b")]
        asked = [await one.get("/query", method="QUERY", more=kind, body=body) for body in (b"1", b"2", b"1", bytes(100_000))]
        report.check([len(r.body) for r in asked] == [1, 1, 1, 100_000] and asked[1].body == b"2", "QUERY has its body's answer")
        report.check([r.fields["x-hits"] for r in asked] == ["0", "0", "1", "0"], "QUERY is cached by its body")
        large = await one.get("/large")
        report.check(hashlib.sha256(large.body).digest() == hashlib.sha256(LARGE).digest(), "a large body")
        many = await asyncio.gather(*(one.get(f"/many{n % 10}") for n in range(80)))
        report.check(all(r.status == 200 for r in many), "many at once")


async def answered_early(report, bed):
    """A response that is complete before the request's body: STOP_SENDING comes a second later, and not if the body ends before. Where this client
    is itself late by that second, either is right."""
    with h3.Connection(bed.quic) as c:
        # The body of the second path is larger than VCL may keep.
        for path, sent, status in (("/own", 1000, 200), ("/kept", 2000, 413)):
            for ends in (True, False):
                at, begin = c.stream(), time.monotonic()
                took = lambda begin=begin: time.monotonic() - begin
                c.send(at, h3.headers(h3.request(path, "POST")) + h3.frame(h3.DATA, bytes(sent)))
                own = c.streams[at]
                c.wait(lambda own=own: own.end)
                report.check((own.end, own.status) == ("complete", status) and (own.stopped is None or took() > 0.9),
                             f"{path}: an early response: {own}, stopped by {own.stopped} after {took():.2f} s")
                c.send(at, h3.frame(h3.DATA, bytes(1000)), ends)
                is_late = took() > 0.9
                c.wait(lambda own=own: own.stopped is not None, 1.5 if ends else client.LIMIT)
                want = own.stopped is None or is_late if ends else own.stopped == 0x100 and took() > 0.9
                report.check(want, f"{path}: its body {'ends' if ends else 'goes on'}: stopped by {own.stopped} after {took():.2f} s")


async def lossy(report, bed, seed):
    """A way that loses, doubles, turns round, forges and delays by 100 ms, and a client that comes from elsewhere."""
    async with client.Path.open(bed.quic, seed, lost=5, delay=0.1, forged=5) as path, client.client(path.address) as one:
        report.check((await one.get("/middle")).body == MIDDLE, "a body over a bad way of 100 ms")
        body = random.Random(4).randbytes(100_000)
        report.check((await one.get("/pass", method="POST", body=body)).body == body, "an upload over it")
        many = await asyncio.gather(*(one.get(f"/many{n}") for n in range(20)))
        report.check(all(r.status == 200 for r in many), "many at once over it")
    async with client.Path.open(bed.quic, seed, lost=5, delay=0.02, forged=5) as path, client.client(path.address) as one:
        report.check((await one.get("/large")).body == LARGE, "a large body over a bad way")
        await path.move()
        report.check((await one.get("/a")).status == 200, "after a move")
        await path.move()
        body = random.Random(2).randbytes(100_000)
        report.check((await one.get("/pass", method="POST", body=body)).body == body, "an upload after another move")
    for n in range(8):
        async with client.Path.open(bed.quic, seed + n) as path, client.client(path.address) as one:
            await one.get("/a")
            await path.move()
            report.check((await one.get("/a")).status == 200, f"connection {n} stays on its thread")


def unanswered(report, bed):
    """An address that never answers is sent three times what came from it at most (RFC 9000 8.1), also when what was sent is repeated; the last
    datagram may begin within that and end beyond (quinn issue 1082)."""
    for copies in (1, 5):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(bed.quic)
            s.settimeout(SILENCE)
            hello, came = floods.initial(bed.quic), 0
            for octets in hello * copies:
                s.send(octets)
            with contextlib.suppress(TimeoutError):
                while octets := s.recv(65536):
                    came += len(octets)
            sent = copies * sum(map(len, hello))
            report.check(0 < came < 3 * sent + 1200, f"{sent} octets from an address that isn't validated: {came} came back")


async def validated(report, bed):
    """Who has to show first that its address is its own does so; more clients than there may be are refused."""
    bed.cli.ask("param.set h3_retry_threshold 0")
    async with client.client(bed.quic) as one:
        report.check((await one.get("/a")).status == 200, "a client that was asked to retry")
    await asyncio.get_running_loop().run_in_executor(None, report.comes, lambda: bed.counter("MAIN.h3_retries"), bool, "retries are counted")
    bed.cli.ask("param.reset h3_retry_threshold")
    await asyncio.get_running_loop().run_in_executor(None, unanswered, report, bed)
    bed.cli.ask("param.set max_sessions_per_ip 1")
    async with client.client(bed.quic) as one:
        # The server counts a connection when its handshake is over at its own end.
        await one.get("/a")
        try:
            async with client.client(bed.quic) as other:
                got = await other.get("/a")
            report.check(False, f"a connection above max_sessions_per_ip: {got.status}")
        except ConnectionError:
            report.check((await one.get("/a")).status == 200, "the first one stays")
    bed.cli.ask("param.reset max_sessions_per_ip")


async def written(report, bed):
    """The connections that are asked for leave a qlog, others don't."""
    bed.cli.ask("param.set h3_qlog 2")
    for _ in range(3):
        async with client.client(bed.quic) as one:
            await one.get("/a")
    files = until(client.LIMIT, lambda: (found := sorted(pathlib.Path(bed.n, "_.vsm_child").glob("qlog-*"))) and all(b"packet_received" in f.read_bytes() for f in found) and found)
    report.check(files and [f.name for f in files] == ["qlog-1.sqlog", "qlog-2.sqlog"], f"qlogs: {files}")
    records = [json.loads(text) for f in files or [] for text in f.read_bytes().split(b"\x1e") if text.strip()]
    events = {r.get("name") for r in records}
    report.check(records and records[0]["qlog_format"] == "JSON-SEQ" and {"transport:packet_sent", "transport:packet_received"} <= events, f"qlogs: {records[:1]} {events}")
    bed.cli.ask("param.reset h3_qlog")


async def limited(report, bed):
    """A request of any form; `heads` has more."""
    async with client.client(bed.quic) as one:
        report.check((await one.get("/a", more=[("x-long", "x" * 7000)])).status == 200, "a long field")
        report.check((await one.get("/a", more=[("x-long", "x" * 40_000)])).status == 431, "a field longer than http_req_hdr_len")
        report.check((await one.get("/a")).status == 200, "a head that is too long ends its stream alone")


async def replaced(report, bed, authority):
    """A new certificate is for new connections."""
    async def serial(one):
        return one._quic.tls._peer_certificate.serial_number
    async with client.client(bed.quic) as old:
        before = await serial(old)
        bed.conf.parent.joinpath("new.pem").write_text(authority.leaf("bed.test").pem.read_text())
        bed.cli.ask(f"tls.cert.load new {bed.conf.parent / 'new.pem'} -d")
        bed.cli.ask("tls.cert.commit")
        report.check((await old.get("/a")).status == 200, "the old connection goes on")
        async with client.client(bed.quic) as new:
            report.check(await serial(new) != before, "a new one has the new certificate")


async def upgraded(report, bed):
    """Another program takes over: what is under way ends well, and new connections are the new worker's."""
    loop = asyncio.get_running_loop()
    async with client.client(bed.quic) as busy, client.client(bed.quic) as idle:
        Held.event.clear()
        await idle.get("/a")
        slow = busy.send("/slow")
        await asyncio.wait_for(slow.began, client.LIMIT)
        status, text = await loop.run_in_executor(None, bed.cli.ask_raw, "upgrade")
        report.check(status == 200, f"upgrade: {status} {text}")
        for n in range(10):
            async with client.client(bed.quic) as new:
                report.check((await new.get("/a")).status == 200, f"new connection {n} beside the former worker")
        ended = await idle.over()
        report.check(ended.error_code == 0x100, f"the idle one is closed in order: {ended}")
        Held.event.set()
        done = await asyncio.wait_for(slow.done, client.LIMIT)
        report.check(done.body == b"halfdone", f"what was under way ends: {done.body}")
        ended = await busy.over()
        report.check(ended.error_code == 0x100, f"and is closed in order: {ended}")
    for n in range(10):
        async with client.client(bed.quic) as new:
            report.check((await new.get("/a")).status == 200, f"new connection {n} after it")


async def upgraded_twice(report, bed):
    """While the first worker still has something under way, a third one comes, on its sockets."""
    loop = asyncio.get_running_loop()
    async with client.client(bed.quic) as busy:
        Held.event.clear()
        slow = busy.send("/slow")
        await asyncio.wait_for(slow.began, client.LIMIT)
        for _ in range(2):
            status, text = await loop.run_in_executor(None, bed.cli.ask_raw, "upgrade")
            report.check(status == 200, f"upgrade: {status} {text}")
        for n in range(10):
            async with client.client(bed.quic) as new:
                answers = await asyncio.gather(*(new.get("/a") for _ in range(5)))
                report.check(all(r.status == 200 for r in answers), f"connection {n} to the third worker")
        Held.event.set()
        busy.close()


async def died(report, bed, most=None):
    """The worker dies: the next one takes connections on the same sockets, and tells the clients of the dead one that theirs are gone;
    within `most` seconds, if that is said."""
    loop, worker, served, is_dead, took = asyncio.get_running_loop(), bed.worker(), [], asyncio.Event(), []

    async def orphan():
        async with client.client(bed.quic) as one:
            served.append((await one.get("/a")).status)
            if len(served) == ORPHANS:
                os.kill(worker, signal.SIGKILL)
                is_dead.set()
            await asyncio.wait_for(is_dead.wait(), client.LIMIT)
            begin = time.monotonic()
            one.send("/a")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(one.was_reset, client.LIMIT)
                took.append(time.monotonic() - begin)

    await asyncio.gather(*(orphan() for _ in range(ORPHANS)))
    text = f"{len(took)} of {ORPHANS} clients of a dead worker are told by a stateless reset, the last after {max(took, default=0):.2f} s"
    report.note(text)
    # A client whose first datagram is lost sends probes that may be too short for an answer (RFC 9000, 10.3.3).
    report.check(len(took) >= ORPHANS * 9 // 10, text)
    if most is not None:
        report.check(max(took, default=0) <= most, f"{text}, not within {most} s")
    await loop.run_in_executor(None, until, client.LIMIT, lambda: bed.worker() != worker and "running" in bed.cli.ask("status"))
    for n in range(10):
        async with client.client(bed.quic) as new:
            report.check((await new.get("/a")).status == 200, f"new connection {n} after a worker's death")


async def stopped(report, bed):
    """The worker is stopped: with `shutdown_grace` what is under way ends well, without it all hear of the end at once."""
    loop = asyncio.get_running_loop()

    def ask(words):
        status, text = bed.cli.ask_raw(words)
        report.check(status == 200, f"{words}: {status} {text}")
    for grace in (30, 0):
        await loop.run_in_executor(None, ask, f"param.set shutdown_grace {grace}")
        async with client.client(bed.quic) as busy, client.client(bed.quic) as idle:
            Held.event.clear()
            await idle.get("/a")
            slow = busy.send("/slow")
            await asyncio.wait_for(slow.began, client.LIMIT)
            stop = loop.run_in_executor(None, ask, "stop")
            ended = await idle.over()
            report.check(ended.error_code == 0x100, f"grace {grace}: the idle one is closed in order: {ended}")
            if grace:
                report.check(not slow.done.done(), "what is under way has time")
                Held.event.set()
                done = await asyncio.wait_for(slow.done, client.LIMIT)
                report.check(done.body == b"halfdone", f"what was under way ends: {done.body}")
            ended = await busy.over()
            report.check(ended.error_code == 0x100, f"grace {grace}: the busy one is closed in order: {ended}")
            Held.event.set()
            await stop
        await loop.run_in_executor(None, ask, "start")
        async with client.client(bed.quic) as new:
            report.check((await new.get("/a")).status == 200, f"grace {grace}: a new connection after a start")


def crowded(report, bed):
    """What finds no room while the worker's threads don't read is counted."""
    room = bed.counter("MAIN.h3_udp_buffer")
    report.check(room > 0, f"the receive buffer of a socket: {room}")
    # The kernel counts more than 1,200 octets for each of them.
    packets, worker = room // 1200 + 1000, bed.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(bed.quic)
            for _ in range(packets):
                s.send(bytes(1200))
    finally:
        os.kill(worker, signal.SIGCONT)
    report.check(until(client.LIMIT, lambda: bed.counter("MAIN.h3_udp_drops") > 0), f"drops by the kernel of {packets} packets are counted")


def visited(report, o, authority, name):
    other = OTHERS[name]
    leaf = authority.leaf(other.NAME)
    if other.missing():
        return report.note(f"LEFT OUT, as it isn't here: {name}")
    with Origin(other.serve(body_of)) as origin, Bed(o, leaf, origin) as bed:
        other.run(report, bed, leaf)


def chosen(report, o, authority, leaf):
    """What a client like others sees: the cases that are asked for."""
    is_due = lambda case: any(word in f".{case}" for word in o.words)
    if is_due("refused"):
        refused(report, o)
    with Origin(serve) as origin, Bed(o, leaf, origin, ["-p", "timeout_idle=60"]) as bed:
        for case in (announced, crowded):
            if is_due(case.__name__):
                report.run([case], report, bed)
        cases = {"requests": (report, bed), "validated": (report, bed), "written": (report, bed), "limited": (report, bed), "answered_early": (report, bed), "lossy": (report, bed, o.seed),
                 "websocket": (report, o, leaf), "replaced": (report, bed, authority), "upgraded": (report, bed), "upgraded_twice": (report, bed),
                 "died": (report, bed, 4 if o.clocks else None), "stopped": (report, bed)}
        if NO_CLIENT:
            names = ", ".join(cases)
            return report.note(f"LEFT OUT, as there is no aioquic ({NO_CLIENT}): {names}, early, and what is asked in raw frames")
        for name, words in cases.items():
            if is_due(name):
                begin = time.monotonic()
                asyncio.run((websocket.run if name == "websocket" else globals()[name])(*words))
                report.note(f"{name} took {time.monotonic() - begin:.1f} s")
    if is_due("early"):
        with Origin(early.serve) as origin, Bed(o, leaf, origin, ["-p", "h3_early_data=on"]) as bed:
            asyncio.run(early.cases(report, bed))
    return None


def main():
    o = options(__doc__, group=dict(help="of those asked in raw frames: malformed, frames, transport, cuts, spoilt, floods; or other people's clients: browser, ngtcp2"), words=dict(nargs="*", default=[], help="cases by parts of their names: of the group, or of those that a client like others sees"), verbose=dict(action="store_true"), table=abuse.TABLE, **clocks.OPTION)
    report = Report("h3")
    files = workdir()
    try:
        authority = Authority(files / "ca")
        leaf = authority.leaf("bed.test")
        for name in [name for name in OTHERS if o.group == name or o.full and not o.group]:
            visited(report, o, authority, name)
        if o.group in OTHERS:
            return report.close()
        if o.group:
            judged(report, o, leaf, o.group)
            return report.close()
        if o.words:
            chosen(report, o, authority, leaf)
        else:
            # Floods measure, and take minutes.
            groups = [] if NO_CLIENT else [name for name in JUDGED if name != "floods"]
            beside(report, o, [["--words", "."], *(["--group", name] for name in groups)])
            if o.full and not NO_CLIENT:
                judged(report, o, leaf, "floods")
    finally:
        shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
