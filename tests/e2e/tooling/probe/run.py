#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer probe`: what it reports where packets are lost on purpose, where a server is slow, and where all is well. Verdicts that follow from
times alone are in tests/timing/probe.

Packets are lost in the kernel of this machine: in network namespaces of the test's own by nftables, which says how many (loss.py), and,
what also works without root, on the server's own socket alone, where a filter (SO_ATTACH_FILTER) lets pass what it is told to. Nothing but
loopback is used.
"""
import ctypes
import json
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2origin
from bed.certificates import Authority
from bed.daemon import die_with_parent, free_port
from bed.origin import Origin, head, simple
from bed.report import Report, options, until
from bed.sealed import SealedOrigin, server_context
import loss

LIMIT = 120
SO_ATTACH_FILTER = 26
# Classic BPF (linux/filter.h): load a byte, jumps, the end. A filter of TCP begins at the TCP header.
LOAD_BYTE, LOAD_WORD, LOAD_LEN, JUMP_SET, JUMP_GREATER, RETURN = 0x30, 0x20, 0x80, 0x45, 0x25, 0x06
FLAGS, SYN = 13, 0x02  # where a TCP header has them
RANDOM = 0xFFFFF000 + 56  # a word drawn anew for each packet
HEADER = 60  # longest TCP header: what is longer has data
PASS, DROP = 0xFFFFFFFF, 0
# Half of the SYNs; half of the packets with data.
LOST_SYN = [(LOAD_BYTE, 0, 0, FLAGS), (JUMP_SET, 0, 3, SYN), (LOAD_WORD, 0, 0, RANDOM), (JUMP_SET, 0, 1, 1), (RETURN, 0, 0, DROP),
            (RETURN, 0, 0, PASS)]
LOST_DATA = [(LOAD_LEN, 0, 0, 0), (JUMP_GREATER, 0, 3, HEADER), (LOAD_WORD, 0, 0, RANDOM), (JUMP_SET, 0, 1, 1), (RETURN, 0, 0, DROP),
             (RETURN, 0, 0, PASS)]


def lose(sock, program):
    """Loses packets on their way to that socket, and to those that are accepted from it."""
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(buffer)))


class Tool:
    """The program under test. `measures`: the machine is quiet, so that times are checked, too."""

    def __init__(self, program, measures=False):
        self.program, self.measures = program, measures
        # A busy machine makes answers slow that aren't meant to be.
        self.slow = ("--slow", "500ms" if measures else "30s")

    def run(self, *args, stdin=None):
        p = subprocess.run([self.program, "probe", *map(str, args)], input=stdin, capture_output=True, text=True, timeout=LIMIT)
        return p.returncode, p.stdout, p.stderr

    def json(self, *args, stdin=None):
        status, out, err = self.run("--format", "json", *args, stdin=stdin)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")


def place(origin, host="127.0.0.1"):
    return f"{host}:{origin.address[1]}"


def answers(s, buf=b""):
    """`ok` for everything."""
    simple(lambda *_: ("", b"ok"))(s)


def no_finding(report, tool):
    with Origin(answers) as origin:
        r = tool.json("-n", 40, "--pause", "5ms", *tool.slow, place(origin))
    report.check((r["verdict"]["finding"], r["answers"], r["failed"]) == ("none", 40, 0), f"all is well: {r}")
    report.check(r["statuses"] == {"200": 40} and r["slow"]["count"] == 0, f"all is well: {r['statuses']} {r['slow']}")
    report.check(sum(r["connections_with_loss"].values()) == 0, f"nothing was lost: {r['connections_with_loss']}")
    report.check("No finding" in r["verdict"]["words"], f"it says so: {r['verdict']}")


def lost_syn(report, tool):
    with Origin(answers) as origin:
        lose(origin.listener, LOST_SYN)
        r = tool.json("-n", 24, "--pause", "10ms", place(origin))
        status, out, _ = tool.run("-n", 12, "--pause", "10ms", place(origin))
    lost = r["connections_with_loss"]["connecting"]
    report.check(r["verdict"]["finding"] == "syn_loss", f"a lost SYN: {r['verdict']}")
    report.check(r["slow"]["causes"]["syn_lost"] == lost > 2, f"and each is told: {r['slow']} {lost}")
    report.check(r["kernel"]["TCPSynRetrans"] >= lost and r["answers"] == 24, f"the kernel says so, too, and all are answered: {r['kernel']} {r['answers']}")
    if tool.measures:
        report.check(r["slow"]["count"] == lost, f"nothing else is slow: {r['slow']}")
        report.check(r["verdict"]["rungs"] and r["verdict"]["rungs"][0]["seconds"] == 1.0, f"on the ladder of 1 s: {r['verdict']}")
        report.check(r["total"]["p50"] < 8, f"times: {r['total']}")
    line = re.search(r"^\[SLOW\] \w+ \w+ +\d+ [\d:]+ \d+, http://127\.0\.0\.1:\d+/ping\.html served in \d+\.\d{3} s \((.*)\)$", out, re.M)
    report.check(line and line[1] == "connecting took more than one attempt", f"a line for each slowest: {out}")
    report.check(status == 0 and "Packets are lost while connections are made" in out, f"the verdict in words: {out}")


def lost_data(report, tool):
    with Origin(answers) as origin:
        lose(origin.listener, LOST_DATA)
        r = tool.json("-n", 60, "--pause", "5ms", "--slow", "400ms", place(origin))
    report.check(r["verdict"]["finding"] == "data_loss", f"lost data: {r['verdict']}")
    report.check(r["slow"]["causes"]["request_lost"] > 2, f"and each is told: {r['slow']}")
    if tool.measures:
        report.check(r["slow"]["causes"]["request_lost"] == r["slow"]["count"], f"nothing else is slow: {r['slow']}")
    report.check(r["connections_with_loss"]["connecting"] == 0, f"no SYN was lost: {r['connections_with_loss']}")


def slow_server(report, tool):
    """Every fourth answer is late, each by another time."""
    turn, lock = [0], threading.Lock()

    def serve(s):
        with lock:
            turn[0] += 1
            n = turn[0]
        if n % 4 == 0:
            time.sleep(0.3 + 0.037 * n)
        answers(s)
    with Origin(serve) as origin:
        r = tool.json("-n", 40, "--pause", "5ms", "--slow", "250ms", place(origin))
    report.check(r["verdict"]["finding"] == "slow_server", f"a slow server: {r['verdict']}")
    report.check(r["slow"]["causes"]["no_loss_seen"] == r["slow"]["count"] >= 10, f"no packet was lost: {r['slow']}")
    report.check(r["total"]["max"] >= 1.7, f"the slowest: {r['total']}")
    if tool.measures:
        report.check(r["slow"]["count"] == 10 and r["total"]["max"] < 2.3, f"the slowest: {r['slow']} {r['total']}")


def keeps_pace(report, tool):
    """A request that gets no response delays no other: the first one is answered when all others have been."""
    n, lock, turn, others_served = 50, threading.Lock(), [0, 0], threading.Event()

    def serve(s):
        with lock:
            turn[0] += 1
            is_first = turn[0] == 1
        if is_first:
            others_served.wait(LIMIT)
        answers(s)
        with lock:
            turn[1] += not is_first
            if turn[1] == n - 1:
                others_served.set()
    with Origin(serve) as origin:
        r = tool.json("-n", n, "--pause", "10ms", "--timeout", "60s", place(origin))
    report.check(others_served.is_set() and (r["answers"], r["failed"]) == (n, 0), f"the others are sent meanwhile: {turn} {r['answers']} {r['failures']}")
    if tool.measures:
        report.check(r["total"]["p99"] < 1.5, f"the others had their pace: {r['total']}")


def failures(report, tool):
    def one(serve, **more):
        with Origin(serve) as origin:
            return tool.json("-n", 3, "--pause", "5ms", "--timeout", "500ms" if serve is silent else "30s", place(origin), **more)["failures"]

    def silent(s):
        while s.recv(4096):
            pass

    def reset(s):
        head(s, b"")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def says(text):
        def serve(s):
            head(s, b"")
            s.sendall(text)
        return serve
    cases = [
        ("timeout", silent),
        ("closed early", lambda s: head(s, b"") and None),
        ("reset", reset),
        ("no HTTP/1 answer", says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        ("no HTTP/1 answer", says(bytes(range(256)) * 600)),
        ("closed early", says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok")),
        ("no HTTP/1 answer", says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")),
    ]
    for name, serve in cases:
        got = one(serve)
        report.check(got == {name: 3}, f"{name}: {got}")
    status, out, _ = tool.run("-n", 2, "--pause", "5ms", f"127.0.0.1:{free_port()}")
    report.check(status == 1 and "2 refused" in out and "no question of single packets" in out, f"nobody there: {status} {out}")


def lists(report, tool):
    """Paths and hosts have their turns; all addresses of a host are asked."""
    heard, lock = [], threading.Lock()

    def serve(s):
        got = head(s, b"")
        with lock:
            heard.append((got[1], got[2]))
        s.sendall(b"HTTP/1.1 204 No\r\n\r\n")
    with Origin(serve) as origin:
        here = place(origin)
        listed = f"# pages\n/a\n\nhttp://{here}/b?c=d\nhttp://elsewhere.example/x\n"
        r = tool.json("-n", 4, "--pause", "2ms", "--urls", "-", "--host", "www.bed.test", here, stdin=listed)
        report.check(r["answers"] == 4 and sorted(path for path, _ in heard) == ["/a", "/a", "/b?c=d", "/b?c=d"], f"the list: {heard}")
        report.check(all(f["host"] == "www.bed.test" and f["user-agent"].startswith("lacquer-probe/") for _, f in heard), f"its fields: {heard[0]}")
        heard.clear()
        r = tool.json("-n", 4, "--pause", "2ms", "--path", "/p", here, f"localhost:{origin.address[1]}", "-4")
        report.check(len(r["hosts"]) == 2 and r["answers"] == 4, f"two hosts: {r['hosts']}")
    for args, want in (([], "which host"), (["--pause", "0", "a"], "--pause 0"), (["--ca", "/nonexistent", "https://127.0.0.1"], "/nonexistent"),
                       (["--urls", "/nonexistent", "a"], "/nonexistent"), (["--path", "no slash", "127.0.0.1"], "is no path"),
                       (["a.invalid"], "a.invalid"), (["--host", "a\nb", "127.0.0.1"], "is no Host")):
        status, out, err = tool.run(*args)
        report.check(status == 2 and want in err and not out, f"{args}: {status} {err}")


def sealed(report, tool):
    """https: handshakes are a part of their own, by the name that is asked for; what isn't believed is a failure with its reason."""
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        authority = Authority(d / "authority")
        leaf, stranger = authority.leaf("a.test", "127.0.0.1", "localhost"), Authority(d / "stranger").leaf("localhost")
        for version in ("1.2", "1.3"):
            for more, most in (((), 1), (("--no-resume",), 0)):
                with SealedOrigin(answers, server_context(leaf, versions=(version, version))) as origin:
                    r = tool.json("-n", 20, "--pause", "20ms", "--ca", authority.cert, *more, f"https://localhost:{origin.address[1]}/x", "-4")
                    report.check((r["answers"], r["failed"]) == (20, 0) and r["tls"]["handshake"]["count"] == 20, f"{version}: {r}")
                    report.check(r["tls"]["resumed"] == origin.resumed and most * 10 <= origin.resumed <= most * 20, f"{version} {more}: resumed {r['tls']}, {origin.resumed}")
                    report.check([k.split()[0] for k in r["tls"]["agreed"]] == [f"TLSv{version}"] and set(origin.names) == {"localhost"}, f"{version}: {r['tls']} {origin.names}")
                    t = r["tls"]["handshake"]
                    report.check(0 < t["p50"] <= r["total"]["p50"] and r["connect"]["p50"] < r["total"]["p50"], f"{version}: times: {t} {r['connect']} {r['total']}")
                    report.check(r["verdict"]["finding"] != "no_answer", f"{version}: the verdict: {r['verdict']}")
        with SealedOrigin(answers, server_context(leaf)) as origin:
            here = f"https://{place(origin)}"
            status, out, err = tool.run("-n", 3, "--pause", "5ms", "--ca", authority.cert, "--sni", "a.test", here)
            report.check(status == 0 and "TLS handshakes within: 50 %:" in out and "TLSv1.3" in out and set(origin.names) == {"a.test"}, f"the report: {out} {err} {origin.names}")
        for what, shown, ca, why in (("a stranger", stranger, ("--ca", authority.cert), ""), ("another's name", authority.leaf("c.test"), ("--ca", authority.cert), "name"),
                                     ("the system's", leaf, (), "")):
            with SealedOrigin(answers, server_context(shown)) as origin:
                here = f"https://localhost:{origin.address[1]}"
                r = tool.json("-n", 2, "--pause", "5ms", "-4", *ca, here)
                report.check(r["failures"] == {"TLS failed": 2} and len(r["tls"]["failures"]) == 1 and why in next(iter(r["tls"]["failures"])).lower(), f"{what}: {r['failures']} {r.get('tls')}")
                r = tool.json("-n", 2, "--pause", "5ms", "-4", "--no-verify", here)
                report.check((r["answers"], r["failed"]) == (2, 0), f"{what}, --no-verify: {r['failures']}")
        with Origin(lambda s: s.recv(1 << 16) and s.recv(1)) as silent:
            r = tool.json("-n", 1, "--timeout", "300ms", "--no-verify", f"https://{place(silent)}")
            report.check(r["failures"] == {"TLS handshake timeout": 1}, f"a handshake that stands still: {r['failures']}")
        with Origin(answers) as plain:
            r = tool.json("-n", 1, "--timeout", "2s", "--no-verify", f"https://{place(plain)}")
            report.check(r["answers"] == 0 and sum(r["failures"].values()) == 1, f"a server without TLS: {r['failures']} {r.get('tls')}")


def by_http2(report, tool):
    """HTTP/2 in clear text and by TLS; resets, connections that end early, and who doesn't speak it."""
    class Judging(h2origin.Behaviour):
        def complete(self, connection, at, own):
            if own.get(":path") == "/reset":
                connection.reset(at, 2)
            elif own.get(":path") == "/gone":
                connection.ends()
            else:
                super().complete(connection, at, own)

    def behaviour():
        return Judging(lambda asked: (404 if asked.path == "/missing" else 200, [], b"x" * 3000, None))
    b = behaviour()
    with h2origin.clear(b) as origin:
        here = f"127.0.0.1:{origin.address[1]}"
        r = tool.json("--http2", "-n", 6, "--pause", "5ms", "--path", "/a", "--path", "/missing", "--host", "www.bed.test", here)
        report.check(r["answers"] == 6 and len(b.connections) == 6, f"HTTP/2 in clear: {r['answers']} answers over {len(b.connections)} connections")
        # Each request has a connection of its own: they may arrive in another order.
        report.check(sorted(own.get(":path") for own in b.requests) == ["/a"] * 3 + ["/missing"] * 3, f"the paths take turns: {[own.get(':path') for own in b.requests]}")
        report.check(all((own.get(":authority"), own.get(":scheme")) == ("www.bed.test", "http") and own.get("user-agent").startswith("lacquer-probe/")
                         for own in b.requests), f"its fields: {[own.fields for own in b.requests]}")
        report.check(not b.faults, f"faults: {b.faults}")
        # Who closes with something unread resets the connection.
        for path, failures in (("/reset", {"reset"}), ("/gone", {"closed early", "reset"})):
            got = tool.json("--http2", "-n", 3, "--pause", "5ms", "--timeout", "30s", "--path", path, here)["failures"]
            report.check(sum(got.values()) == 3 and set(got) <= failures, f"{path}: {got}")
    with tempfile.TemporaryDirectory() as root:
        ca = Authority(pathlib.Path(root) / "ca")
        b = behaviour()
        with h2origin.sealed(b, server_context(ca.leaf("www.bed.test"))) as origin:
            url = f"https://127.0.0.1:{origin.address[1]}"
            r = tool.json("--http2", "-n", 4, "--pause", "5ms", "--sni", "www.bed.test", "--ca", ca.cert, url)
            report.check(r["answers"] == 4 and b.requests and b.requests[0].get(":scheme") == "https", f"HTTP/2 by TLS: {r['failures']}")
    with Origin(answers) as origin:
        r = tool.json("--http2", "-n", 3, "--pause", "5ms", "--timeout", "1s", place(origin))
        report.check(r["answers"] == 0 and r["failed"] == 3, f"who speaks HTTP/1 alone: {r['failures']}")
    status, _, err = tool.run("--http3", "a")
    report.check(status != 0 and "--http3 isn't built" in err, f"HTTP/3: {status} {err!r}")


def interrupted(report, tool):
    """Ctrl-C ends it with what there is; a report comes each so many requests."""
    with Origin(answers) as origin:
        p = subprocess.Popen([tool.program, "probe", "--pause", "2ms", "--every", "20", place(origin)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        lines = []
        for line in p.stdout:
            lines.append(line)
            if sum(l.startswith("Report for:") for l in lines) == 2:
                break
        p.send_signal(signal.SIGINT)
        rest, err = p.communicate(timeout=LIMIT)
    text = "".join(lines) + rest
    report.check(p.returncode == 0 and not err, f"it ends: {p.returncode} {err}")
    report.check(text.count("Report for:") >= 3 and "Total requests:        20 in" in text and "Verdict:" in rest, f"reports: {text}")


def as_published(report, tool):
    """The tool of the field report: one argument, a host; /ping.html each 100 ms; reports in its words each 1,000 requests and at Ctrl-C."""
    status, out, err = tool.run()
    report.check(status == 2 and "Usage: lacquer probe [options] HOST" in err and not out, f"without a host: {status} {err}")
    heard = []

    def serve(s):
        method, path, fields, _ = head(s, b"")
        heard.append((time.monotonic(), method, path, fields))
        if len(heard) == 3:
            time.sleep(0.6)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    with Origin(serve) as origin:
        p = subprocess.Popen([tool.program, "probe", place(origin)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=die_with_parent)
        until(LIMIT, lambda: len(heard) >= 15)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=LIMIT)
    report.check({(method, path) for _, method, path, _ in heard} == {("GET", "/ping.html")}, f"what is asked for: {heard}")
    report.check(all(re.fullmatch(r"lacquer-probe/\d+(\.\d+)+", fields["user-agent"]) for *_, fields in heard), f"who asks: {heard[0]}")
    took = (heard[14][0] - heard[0][0]) / 14
    report.check(not tool.measures or 0.09 < took < 0.15, f"each 100 ms: {took:.3f}")
    when = r"\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}"
    for line in (rf"\[SLOW\] {when}, http://127\.0\.0\.1:\d+/ping\.html served in \d+\.\d\d\d s \(.*\)", rf"Report for:            127\.0\.0\.1:\d+ at {when}",
                 r"Total requests:        \d+ in \d+\.\d{3} s", r"Failed requests:       0", rf"Slow responses \(>=0\.5s\): {'1' if tool.measures else '[1-9][0-9]*'} \(slowest \d+\.\d+ s at {when}\)",
                 r"Average response time: \d+\.\d{3} s \(\d+\.\d{3} req/s\)", "-{68}"):
        report.check(re.search(f"^{line}$", out, re.M), f"{line}: {out} {err}")
    report.check(p.returncode == 0 and out.count("Report for:") == 1, f"at Ctrl-C: {p.returncode} {out}")


def each_thousand(report, tool):
    with Origin(answers) as origin:
        status, out, _ = tool.run("-n", 1001, "--pause", "2ms", place(origin))
    report.check(status == 0 and re.findall(r"Total requests: +(\d+) in", out) == ["1000", "1001"], f"a report each 1,000 requests, and at the end: {out}")


CASES = (no_finding, lost_syn, lost_data, slow_server, keeps_pace, failures, lists, sealed, by_http2, interrupted, as_published, each_thousand)


def main():
    o = options(__doc__, (*CASES, loss.in_namespaces))
    report = Report("probe")
    tool = Tool(str(pathlib.Path(o.varnishd).parent / "lacquer"))
    # Most of the time they wait: the others run meanwhile.
    finish = loss.start(report, tool) if loss.in_namespaces in o.cases else lambda: None
    report.run([case for case in o.cases if case in CASES], report, tool)
    finish()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
