#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Attackers in a process of their own: usage: attackers.py KIND HOST PORT COUNT; prints "ready" once they have begun, ends when its
input does, and prints JSON.

half       COUNT connections that sent a hello and say no more; who is closed comes back
half-1.2   the same with hellos of TLS 1.2
slow       COUNT connections that send an octet of a hello a second
silent     COUNT connections that send nothing
flood      COUNT hellos a second, each on a new connection, which is dropped when it was answered: the server signs, nobody listens
alerts     COUNT connections a second that send an alert and go
names      as flood, each with a name that nobody has
"""
import json
import os
import pathlib
import select
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tls"))
import raw

AT_ONCE = 100   # connections begun in one go
MOST_OPEN = 500  # of a flood


def say(s, octets):
    try:
        s.send(octets)
    except OSError:
        pass


class Attackers:
    def __init__(self, kind, address, count):
        self.kind, self.address, self.count = kind, address, count
        self.poll, self.socks, self.made, self.closed, self.answered = select.epoll(), {}, 0, 0, 0
        self.sent = {}
        self.hello = raw.record(raw.hello(versions=(0x0303,), share=False) if kind == "half-1.2" else raw.hello())

    def connect(self):
        s = socket.socket()
        s.setblocking(False)
        # Several addresses, as attackers have, and ports enough.
        s.setsockopt(socket.IPPROTO_IP, 24, 1)
        try:
            s.bind((f"127.0.0.{2 + self.made % 32}", 0))
            s.connect(self.address)
        except BlockingIOError:
            pass
        except OSError:
            s.close()
            return
        self.made += 1
        self.socks[s.fileno()] = s
        self.poll.register(s, select.EPOLLIN | select.EPOLLOUT)

    def drop(self, fd):
        self.poll.unregister(fd)
        self.sent.pop(fd, None)
        self.socks.pop(fd).close()

    def first(self):
        if self.kind == "alerts":
            return raw.record(b"\2\x28", raw.ALERT)
        if self.kind == "names":
            return raw.record(raw.hello(name=f"{os.urandom(12).hex()}.example".encode()))
        if self.kind in ("slow", "silent"):
            return b""
        return self.hello if self.kind.startswith("half") else raw.record(raw.hello())

    def heard(self, fd, events):
        s = self.socks.get(fd)
        if s is None:
            return
        if events & select.EPOLLOUT and fd not in self.sent:
            self.sent[fd] = 0
            self.poll.modify(fd, select.EPOLLIN)
            octets = self.first()
            if octets:
                say(s, octets)
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            try:
                d = s.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                d = b""
            if d:
                self.answered += 1
            if not d:
                self.closed += 1
            if not d or self.is_flood():
                self.drop(fd)

    def is_flood(self):
        return self.kind in ("flood", "alerts", "names")

    def step(self, due):
        if self.is_flood():
            n = min(int(due) - self.made, AT_ONCE, MOST_OPEN - len(self.socks))
        else:
            n = min(self.count - len(self.socks), AT_ONCE)
        for _ in range(max(0, n)):
            self.connect()
        for fd, events in self.poll.poll(0.005):
            self.heard(fd, events)

    def tick(self):
        for fd in list(self.sent):
            at = self.sent[fd]
            say(self.socks[fd], self.hello[at:at + 1])
            self.sent[fd] = (at + 1) % len(self.hello)

    def run(self):
        begin = last = time.monotonic()
        is_ready = False
        while True:
            now = time.monotonic()
            self.step((now - begin) * self.count)
            if self.kind == "slow" and now - last >= 1:
                last = now
                self.tick()
            if not is_ready and (self.is_flood() or len(self.sent) >= self.count or now - begin > 30):
                is_ready = True
                print("ready", flush=True)
            if is_ready and select.select([sys.stdin], [], [], 0)[0]:
                break
        print(json.dumps({"made": self.made, "open": len(self.socks), "closed": self.closed, "answered": self.answered}))


if __name__ == "__main__":
    Attackers(sys.argv[1], (sys.argv[2], int(sys.argv[3])), int(sys.argv[4])).run()
