# SPDX-License-Identifier: BSD-2-Clause
"""Extended CONNECT (RFC 9220): a WebSocket of a stream of HTTP/3 becomes a pipe to an origin of HTTP/1."""
import asyncio
import shutil

import client
from bed.daemon import Varnishd, workdir
from bed.origin import Origin
from bed.websocket import VCL, Sockets, connect

LIMIT = 60  # seconds
MB = 1 << 20
ENABLE_CONNECT_PROTOCOL, CANCELLED = 0x8, 0x10c


async def until(probe):
    """Whether it holds in time."""
    async def ask():
        while not probe():
            await asyncio.sleep(0.01)
    try:
        await asyncio.wait_for(ask(), LIMIT)
    except asyncio.TimeoutError:
        return False
    return True


class Asked:
    """One stream, once its answer has begun."""

    @classmethod
    async def begin(cls, one, path, **how):
        self = cls()
        self.one, self.id = one, one._quic.get_next_available_stream_id()
        self.answer = one.open[self.id] = client.Response(one.h3)
        one.h3.send_headers(self.id, [(name.encode(), value.encode()) for name, value in connect(path, **how)])
        one.transmit()
        await asyncio.wait_for(self.answer.began, LIMIT)
        return self

    def send(self, octets, ends=False):
        self.one.h3.send_data(self.id, octets, ends)
        self.one.transmit()

    async def whole(self):
        return await asyncio.wait_for(self.answer.done, LIMIT)


async def talk(report, one, source):
    own = await Asked.begin(one, "/echo")
    report.check(one.h3.received_settings.get(ENABLE_CONNECT_PROTOCOL) == 1, "extended CONNECT is announced")
    for n in range(1, 4):
        own.send(b"hello")
        report.check(await until(lambda: own.answer.body == b"hello" * n), f"echo {n}: {own.answer.body!r}")
    own.send(b"", ends=True)
    report.check((await own.whole()).body == b"hello" * 3 + b"bye" and own.answer.fields.get("sec-websocket-protocol") == "chat", f"the end: {own.answer.fields}")
    pushed = await (await Asked.begin(one, f"/push/{4 * MB}")).whole()
    report.check(len(pushed.body) == 4 * MB, f"4 MB down: {len(pushed.body)}")
    own, before = await Asked.begin(one, "/sink"), source.taken
    own.send(bytes(4 * MB), ends=True)
    report.check(await until(lambda: source.taken - before == 4 * MB), f"4 MB up: {source.taken - before}")
    for path, status in (("/refused", 403), ("/wrong", 502), ("/plain", 502), ("/pass", 501), ("/hash", 501), ("/synth", 501)):
        got = (await (await Asked.begin(one, path)).whole()).status
        report.check(got == status, f"{path}: {got}")
    got = (await (await Asked.begin(one, "/echo", protocol="connect-udp")).whole()).status
    report.check(got == 501, f"another protocol: {got}")
    own = await Asked.begin(one, "/wait")
    one._quic.reset_stream(own.id, CANCELLED)
    one.transmit()
    report.check(await until(lambda: source.ends["/wait"] == ["reset"]), f"a reset goes on: {source.ends}")


async def run(report, o, leaf):
    source, files = Sockets(), workdir()
    conf = files / "tls.conf"
    conf.write_text(f'pem-file = "{leaf.pem}"\n')
    try:
        with Origin(source.serve) as origin, Varnishd(o.varnishd, ["-a", "quic=127.0.0.1:0,quic", "-A", str(conf)], vcl=VCL % (*origin.address, "")) as server:
            async with client.client(server.addresses["quic"]) as one:
                await talk(report, one, source)
    finally:
        shutil.rmtree(files, ignore_errors=True)
