#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Instructions per request of several builds, counted by valgrind: the same on a loaded machine as on a quiet one.

Counted is what all processes of a server run outside of the kernel; a short run is taken from a long one, so that start and end
don't count. Valgrind's processor has no SHA instructions: about 3,000 of a hit are its digest's, in every build. Two builds differ
for sure when this says so; how much that is in time, run.py tells.

usage: bench/instructions.py NAME=PROGRAM [NAME=PROGRAM ...] [--cases hit,1conn,pipelined,pass,miss]
Behind a program its options may stand: 'nine=dist/bin/varnishd --compat 9'.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

import servers

SHORT, LONG = 480, 2400  # requests
AT_ONCE = 16             # pipelined, streams
SHIM = servers.BIN / "valgrind-exec.so"
ANSWER = re.compile(rb"HTTP/1\.1 200 .*?\r\n\r\n", re.S)
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.I)


class Counted(servers.Ours):
    """A server under valgrind, which leaves a file for each of its processes."""

    def __init__(self, name, command, origin):
        program, *options = shlex.split(command)
        self.name, self.counts = name, pathlib.Path(tempfile.mkdtemp(prefix="lacquer-counts."))
        super().__init__(origin, program, more=("-j", "none", "-p", "feature=+http2", *options), store="64m")

    def argv(self):
        links = self.counts / "links"
        links.mkdir(exist_ok=True)
        return ["env", f"LD_PRELOAD={SHIM}", f"PROGRAM={pathlib.Path(self.ours).resolve()}", f"LINKS={links}",
                "valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={self.counts}/of.%p",
                f"--log-file={self.counts}/log.%p", *super().argv()]

    def stop(self):
        """How many instructions it took."""
        super().stop()
        total = 0
        for file in self.counts.glob("of.*"):
            summary = re.search(r"^summary: (\d+)", file.read_text(errors="replace"), re.M)
            total += int(summary.group(1)) if summary else 0
        shutil.rmtree(self.counts)
        return total


class Client:
    """A connection; every answer has a length."""

    def __init__(self, port):
        self.socket, self.read = socket.create_connection(("127.0.0.1", port), timeout=60), b""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, path, times=1, fields=""):
        request = f"GET {path} HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\n{fields}\r\n".encode()
        self.socket.sendall(request * times)
        for _ in range(times):
            self.answer()

    def answer(self):
        while not (head := ANSWER.match(self.read)):
            self.receive()
        end = head.end() + int(LENGTH.search(head.group()).group(1))
        while len(self.read) < end:
            self.receive()
        self.read = self.read[end:]

    def receive(self):
        got = self.socket.recv(1 << 18)
        if not got:
            sys.exit(f"the server closed after {self.read[:200]!r}")
        self.read += got


class H2Client:
    """A connection of HTTP/2 in clear text that asks for one page again and again: after the first request its fields are indices."""

    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    NAMED = {":authority": 1, ":path": 4, "user-agent": 58, "accept": 19}  # of HPACK's static table
    FIELDS = {":authority": b"bench.example", "user-agent": b"bench", "accept": b"*/*"}

    def __init__(self, port, path):
        self.socket, self.read, self.stream = socket.create_connection(("127.0.0.1", port), timeout=60), b"", 1
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wide = struct.pack(">HI", 4, 1 << 30)  # INITIAL_WINDOW_SIZE
        self.socket.sendall(self.PREFACE + self.frame(4, 0, 0, wide) + self.frame(8, 0, 0, struct.pack(">I", 1 << 30)))
        fields = self.FIELDS | {":path": path.encode()}
        added = b"".join(bytes([0x40 | self.NAMED[name], len(value)]) + value for name, value in fields.items())
        self.ask_all([b"\x82\x86" + added])
        # GET, http, and the four of the dynamic table.
        self.again = b"\x82\x86" + bytes(0x80 | 62 + i for i in reversed(range(len(fields))))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def ask(self, times=1):
        self.ask_all([self.again] * times)

    def ask_all(self, sections):
        out = []
        for section in sections:
            out.append(self.frame(1, 5, self.stream, section))
            self.stream += 2
        self.socket.sendall(b"".join(out))
        left = len(sections)
        while left:
            while len(self.read) < 9 or len(self.read) < (end := 9 + int.from_bytes(self.read[:3])):
                self.read += self.socket.recv(1 << 18) or sys.exit("the server closed")
            kind, flags = self.read[3], self.read[4]
            if kind in (3, 7):
                sys.exit(f"the server ended it: {self.read[:end]!r}")
            left -= kind < 2 and flags & 1
            self.read = self.read[end:]


def hits(port, number):
    client = Client(port)
    for _ in range(number):
        client.ask("/c/1024/1")


def connections(port, number):
    for _ in range(number):
        Client(port).ask("/c/1024/1", fields="Connection: close\r\n")


def pipelined(port, number):
    client = Client(port)
    for _ in range(number // AT_ONCE):
        client.ask("/c/1024/1", AT_ONCE)


def h2_hits(port, number):
    client = H2Client(port, "/c/1024/1")
    for _ in range(number):
        client.ask()


def h2_streams(port, number):
    client = H2Client(port, "/c/1024/1")
    for _ in range(number // AT_ONCE):
        client.ask(AT_ONCE)


def h2_passes(port, number):
    client = H2Client(port, "/n/1024/1")
    for _ in range(number):
        client.ask()


def passes(port, number):
    client = Client(port)
    for _ in range(number):
        client.ask("/n/1024/1")


def misses(port, number):
    client = Client(port)
    for i in range(number):
        client.ask(f"/c/1024/x{i}")


CASES = {"hit": hits, "1conn": connections, "pipelined": pipelined, "pass": passes, "miss": misses, "h2": h2_hits, "h2x16": h2_streams,
         "h2-pass": h2_passes}


def counted(name, program, origin, case, number):
    server = Counted(name, program, origin)
    CASES[case](server.port, number)
    return server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    builds, cases = [build.partition("=")[::2] for build in options.builds], options.cases.split(",")
    if not shutil.which("valgrind") or not all(program for _, program in builds) or not set(cases) <= set(CASES):
        parser.error(f"it needs the package valgrind, builds as NAME=PROGRAM, and cases of {', '.join(CASES)}")
    servers.build()
    source = servers.HERE / "instructions.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", SHIM, source, "-ldl", "-lpthread"], check=True)
    origin_port = servers.free_port()
    origin = servers.spawn(1, [servers.BIN / "origin", origin_port])
    try:
        for case in cases:
            taken = {}
            for name, program in builds:
                runs = [counted(name, program, origin_port, case, number) for number in (LONG, SHORT)]
                taken[name] = (runs[0] - runs[1]) / (LONG - SHORT)
            first = next(iter(taken.values()))
            print(f"{case:10}", *(f"{name} {count:,.0f} ({count / first:.3f})" for name, count in taken.items()), sep="  ", flush=True)
    finally:
        origin.terminate()
        origin.wait()


if __name__ == "__main__":
    main()
