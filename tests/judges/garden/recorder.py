#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An origin that takes nothing but well-formed requests, and writes each as a line of JSON. Octets that are malformed are a line of their own.

usage: recorder PORT FILE
"""
import asyncio
import json
import os
import sys

import strict

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def text(octets):
    return octets.decode("latin-1")


class Recorder(asyncio.Protocol):
    """One connection."""
    out = None

    def connection_made(self, transport):
        self.transport, self.octets = transport, b""

    def say(self, **what):
        os.write(self.out, json.dumps(what).encode() + b"\n")

    def data_received(self, data):
        self.octets += data
        while self.octets:
            try:
                message, used = strict.request(self.octets)
            except strict.Incomplete:
                return
            except strict.Malformed as error:
                self.say(bad=str(error))
                self.transport.close()
                self.octets = b""
                return
            self.octets = self.octets[used:]
            method, target, minor = message.first
            self.say(vxid=[text(v) for v in strict.values(message.fields, b"x-vxid")], method=text(method), target=text(target),
                     host=text(strict.values(message.fields, b"host")[0]), length=len(message.body))
            self.transport.write(EMPTY if method == b"HEAD" else OK)
            connection = b",".join(strict.values(message.fields, b"connection")).lower()
            if b"close" in connection or minor == b"0" and b"keep-alive" not in connection:
                self.transport.close()

    def connection_lost(self, _):
        if self.octets:
            self.say(left=text(self.octets[:200]))


async def main():
    Recorder.out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    server = await asyncio.get_running_loop().create_server(Recorder, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
