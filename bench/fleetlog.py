#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the server that keeps a fleet's log has to do for N nodes: CPU, memory and what it sends while so many purges a second are made, what N nodes
cost it that do nothing, and how long one takes to read what it has missed.

usage: fleetlog.py [--engine nats|redis]... [--nodes N...] [--rate N] [--seconds N] [--missed N]

The server is Debian's, on loopback. Nodes are connections of this program that say what a node says (crates/fleet: one that follows, one that
appends and looks at the log's end once a second), so that the server is measured and not the nodes. One line for each engine and number of nodes:

engine  nodes  idle: CPU  work: purges/s  CPU  entries/s  MB/s  ms p50  p99  memory MB  catch-up: entries/s  CPU us an entry

CPU is in percent of a core. The delay is from the moment before an entry is sent to the moment at which a node has it; it includes this program.
"""
import argparse
import json
import pathlib
import selectors
import socket
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from bed.daemon import cpu, pss
from bed.engines import Nats, Redis

STREAM, SUBJECT, KEY = "LACQUER_bench", "lacquer.bench", b"lacquer:{bench}"
LIMIT = 30


def entry(number):
    """As a purge of one object stands in the log."""
    return json.dumps({"lacquer": 1, "id": f"{number:032x}", "node": "web-01", "at": time.time(), "purge": f"{number:064x}", "ttl": 0.0, "grace": 0.0,
                       "keep": 0.0, "sent": time.monotonic()}, separators=(",", ":")).encode()


class Talk:
    """A connection: bytes both ways."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input, self.bytes = b"", 0

    def more(self):
        got = self.sock.recv(1 << 18)
        if not got:
            raise EOFError("the server has closed a connection")
        self.input += got
        self.bytes += len(got)

    def line(self):
        while b"\r\n" not in self.input:
            self.more()
        line, self.input = self.input.split(b"\r\n", 1)
        return line

    def take(self, count):
        while len(self.input) < count:
            self.more()
        got, self.input = self.input[:count], self.input[count:]
        return got


class NatsTalk(Talk):
    def __init__(self, port):
        super().__init__(port)
        self.line()
        self.asked = 0
        self.sock.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.%d.* 1\r\n' % id(self))

    def ask(self, subject, payload=b""):
        self.send_question(subject, payload)
        while True:
            words = self.line().split()
            if words[0] == b"PING":
                self.sock.sendall(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                return json.loads(self.take(int(words[-1]) + 2)[int(words[-2]) if words[0] == b"HMSG" else 0:])

    def send_question(self, subject, payload=b""):
        self.asked += 1
        self.sock.sendall(b"PUB %s _INBOX.%d.%d %d\r\n%s\r\n" % (subject.encode(), id(self), self.asked, len(payload), payload))


class NatsSide:
    """What nodes say to NATS."""

    def __init__(self, port):
        self.port, self.talk = port, NatsTalk(port)
        config = {"name": STREAM, "subjects": [SUBJECT], "retention": "limits", "discard": "old", "storage": "file", "max_msgs": 1000000,
                  "duplicate_window": 120 * 10**9}
        made = self.talk.ask(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
        assert "error" not in made, made

    def append(self, number):
        self.talk.ask(SUBJECT, entry(number))

    def fill(self, first, count):
        for at in range(first, first + count, 200):
            for number in range(at, min(at + 200, first + count)):
                self.talk.send_question(SUBJECT, entry(number))
            for _ in range(at, min(at + 200, first + count)):
                words = self.talk.line().split()
                self.talk.take(int(words[-1]) + 2)

    def follower(self, after):
        talk = NatsTalk(self.port)
        talk.sock.sendall(b"SUB deliver.%d 2\r\n" % id(talk))
        config = {"deliver_subject": f"deliver.{id(talk)}", "deliver_policy": "by_start_sequence", "opt_start_seq": after + 1, "ack_policy": "none", "max_deliver": 1,
                  "replay_policy": "instant", "flow_control": True, "idle_heartbeat": 10**9, "mem_storage": True, "num_replicas": 1, "inactive_threshold": 10**10}
        talk.send_question(f"$JS.API.CONSUMER.CREATE.{STREAM}", json.dumps({"stream_name": STREAM, "config": config}).encode())
        return talk

    @staticmethod
    def received(talk):
        """Entries among what came; questions of flow control are answered."""
        found = []
        while b"\r\n" in talk.input:
            line, rest = talk.input.split(b"\r\n", 1)
            words = line.split()
            if words[0] == b"PING":
                talk.sock.sendall(b"PONG\r\n")
            if words[0] not in (b"MSG", b"HMSG"):
                talk.input = rest
                continue
            length = int(words[-1])
            if len(rest) < length + 2:
                break
            talk.input = rest[length + 2:]
            if words[0] == b"MSG" and words[2] == b"2":
                found.append(rest[:length])
            elif words[0] == b"HMSG" and b"FlowControl" in rest[:length]:
                talk.sock.sendall(b"PUB %s 0\r\n\r\n" % words[3])
        return found

    def appender(self):
        return NatsTalk(self.port)

    @staticmethod
    def look(talk):
        talk.send_question(f"$JS.API.STREAM.INFO.{STREAM}")


class RedisSide:
    """What nodes say to Redis."""

    def __init__(self, port):
        self.port, self.talk, self.last = port, Talk(port), {}
        self.command(self.talk, b"SET", KEY + b":epoch", b"1")
        self.talk.line()

    @staticmethod
    def command(talk, *words):
        talk.sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def append(self, number):
        self.fill(number, 1)

    def fill(self, first, count):
        for at in range(first, first + count, 200):
            numbers = range(at, min(at + 200, first + count))
            for number in numbers:
                self.command(self.talk, b"XADD", KEY, b"MAXLEN", b"=", b"1000000", b"0-*", b"e", entry(number))
            for _ in numbers:
                self.talk.take(int(self.talk.line()[1:]) + 2)

    def read(self, talk):
        self.command(talk, b"XREAD", b"COUNT", b"256", b"BLOCK", b"1000", b"STREAMS", KEY, b"0-%d" % self.last[talk])

    def follower(self, after):
        talk = Talk(self.port)
        self.last[talk] = after
        self.read(talk)
        return talk

    def received(self, talk):
        """An answer, once it is whole: then the next one is asked for."""
        if talk.input.endswith(b"*-1\r\n"):
            # As a node does then, it looks whether the log is the same: what it is told comes before the next answer.
            talk.input = b""
            self.look(talk)
            self.read(talk)
            return []
        begin = talk.input.find(b"*1\r\n*2\r\n")
        if begin < 0:
            return []
        lines, found, at = talk.input[begin:].split(b"\r\n"), [], 0
        # *1 *2 $n key *count, then for each entry *2 $n id *2 $1 e $n text
        if len(lines) < 5:
            return []
        count, at = int(lines[4][1:]), 5
        if len(lines) < at + 8 * count + 1:
            return []
        for _ in range(count):
            self.last[talk] = int(lines[at + 2].split(b"-")[1])
            found.append(lines[at + 7])
            at += 8
        talk.input = b"\r\n".join(lines[at:])
        self.read(talk)
        return found

    def appender(self):
        return Talk(self.port)

    def look(self, talk):
        self.command(talk, b"GET", KEY + b":epoch")
        self.command(talk, b"XINFO", b"STREAM", KEY)


class Fleet:
    def __init__(self, side, count, after):
        self.side, self.selector = side, selectors.DefaultSelector()
        self.followers = [side.follower(after) for _ in range(count)]
        self.appenders = [side.appender() for _ in range(count)]
        for talk in self.followers + self.appenders:
            talk.sock.setblocking(True)
            self.selector.register(talk.sock, selectors.EVENT_READ, talk)
        self.is_follower = set(self.followers)
        self.got, self.delays, self.due = 0, [], [time.monotonic() + n / count for n in range(count)]

    def bytes(self):
        return sum(talk.bytes for talk in self.followers)

    def until(self, end, is_over=lambda: False):
        while (now := time.monotonic()) < end and not is_over():
            for n, due in enumerate(self.due):
                if due <= now:
                    self.side.look(self.appenders[n])
                    self.due[n] = due + 1
            for key, _ in self.selector.select(max(0, min(end, min(self.due)) - now)):
                talk = key.data
                talk.more()
                if talk not in self.is_follower:
                    talk.input = b""
                    continue
                now = time.monotonic()
                for text in self.side.received(talk):
                    self.got += 1
                    self.delays.append(now - json.loads(text)["sent"])

    def close(self):
        for talk in self.followers + self.appenders:
            self.selector.unregister(talk.sock)
            talk.sock.close()


def measure(make, side_of, count, o):
    with make() as engine:
        pids = [engine.proc.pid]
        side = side_of(engine.port)
        side.append(1)
        fleet = Fleet(side, count, 1)
        fleet.until(time.monotonic() + 2)
        began = cpu(pids)
        fleet.until(time.monotonic() + o.seconds)
        idle = (cpu(pids) - began) / o.seconds
        fleet.got, fleet.delays = 0, []
        began, bytes_began, begin, number = cpu(pids), fleet.bytes(), time.monotonic(), 2
        while (now := time.monotonic()) < begin + o.seconds:
            due = begin + (number - 2) / o.rate
            if due <= now:
                side.append(number)
                number += 1
            else:
                fleet.until(min(due, begin + o.seconds))
        made = number - 2
        fleet.until(time.monotonic() + LIMIT, lambda: fleet.got >= made * count)
        took = time.monotonic() - begin
        used, sent = cpu(pids) - began, fleet.bytes() - bytes_began
        assert fleet.got == made * count, f"{fleet.got} of {made * count} came"
        delays = sorted(fleet.delays)
        memory = pss(pids) / 1e6
        fleet.close()
        side.fill(number, o.missed)
        began, begin = cpu(pids), time.monotonic()
        late = Fleet(side, 1, number - 1)
        late.until(begin + LIMIT, lambda: late.got >= o.missed)
        caught, caught_cpu = time.monotonic() - begin, cpu(pids) - began
        assert late.got == o.missed, f"{late.got} of {o.missed} came late"
        late.close()
    return (f"{make.kind:<6} {count:>5}  {idle * 100:>6.1f}  {made / took:>7.0f} {used / took * 100:>6.1f} {made * count / took:>9.0f} {sent / took / 1e6:>6.2f} "
            f"{statistics.median(delays) * 1e3:>6.2f} {delays[int(len(delays) * 0.99)] * 1e3:>6.2f} {memory:>7.1f}  {o.missed / caught:>8.0f} {caught_cpu / o.missed * 1e6:>6.1f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engine", action="append", choices=("nats", "redis"))
    p.add_argument("--nodes", type=int, nargs="+", default=[10, 100])
    p.add_argument("--rate", type=float, default=100)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--missed", type=int, default=10000)
    o = p.parse_args()
    print("engine nodes  idle %  purges/s   CPU % entries/s   MB/s    p50    p99  memory  catch-up/s  us each")
    for kind in o.engine or ("nats", "redis"):
        make, side = {"nats": (Nats, NatsSide), "redis": (Redis, RedisSide)}[kind]
        for count in o.nodes:
            print(measure(make, side, count, o), flush=True)


if __name__ == "__main__":
    main()
